"""The vectors beside the records: made after the write, checked before they count for anything."""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

from memlab import embed, retrieval, rows
from memlab.database import Database
from memlab.embed import Embedder
from memlab.errors import MemlabError, StoreError
from memlab.records import Record

BATCH = 64  # records that are embedded and stored together
KEPT = 4  # users whose records are kept in memory between two recalls


def store(database: Database, user: str, embedder: Embedder, records: Iterable[Record]) -> int:
    """Embed these records and store their vectors; return how many were stored.

    The records are safe already: a vector that cannot be made is missing, with a warning, and
    recall goes by words. A record that has been replaced meanwhile gets none.
    """
    chosen = list(records)
    if not chosen:
        return 0
    texts = [retrieval.indexed(record) for record in chosen]
    try:
        made = embed.checked(embedder, texts)
    except Exception as error:  # whatever an embedder of the user's own may raise
        warnings.warn(
            f"{len(chosen)} stored without a vector: {_why(error)} reindex() tries again.",
            stacklevel=4,
        )
        return 0
    with database.transaction() as file:
        return sum(
            rows.set_vector(file, user, record, embed.pack(vector), embed.tag(embedder, text))
            for record, text, vector in zip(chosen, texts, made, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Known:
    """All of one user's records as they stand, and the vectors that are valid.

    Attributes:
        rows: For each record its row in `vectors`; None for one without a valid vector.
        vectors: float32 array (n, dim); None where there is no vector at all.
    """

    records: retrieval.Frozen
    rows: list[int | None]
    vectors: Any


def known(database: Database, user: str, embedder: Embedder | None) -> Known:
    """Return a user's records with their valid vectors; only what was written since is read again.

    A vector is valid if this embedder made it of the text that stands there now.
    """
    made_by = (embedder.id, embedder.dim) if embedder is not None else None
    version = others, own = database.version
    found: Known | None = None
    if user in database.kept:
        by, (once, since), found = database.kept[user]
        if by != made_by or once != others:  # what another connection wrote, nobody tells
            found = None
        elif since == own:
            return found
        else:
            found = _renewed(database, user, embedder, found, since)
            if database.version != version:  # a part of it may be older than another
                found = None
    found = found or _read(database, user, embedder)
    database.kept.pop(user, None)
    while len(database.kept) >= KEPT:
        database.kept.pop(next(iter(database.kept)), None)  # who was read longest ago
    database.kept[user] = (made_by, version, found)
    return found


def _read(database: Database, user: str, embedder: Embedder | None) -> Known:
    database.watch()
    records = rows.every(database, user)
    at: list[int | None] = [None] * len(records)
    valid: list[bytes] = []
    stored = rows.vectors(database, user) if embedder is not None else {}
    for n, record in enumerate(records):
        vector, tag = stored.get((record.kind, record.key), (None, None))
        if _is_valid(vector, tag, record, embedder):
            at[n] = len(valid)
            valid.append(vector)
    return Known(retrieval.Frozen(records), at, _unpacked(valid, embedder))


def _renewed(
    database: Database, user: str, embedder: Embedder | None, old: Known, since: int
) -> Known | None:
    """Return `old` with what was written since then; None where all must be read again."""
    records, at = [*old.records], [*old.rows]
    had = 0 if old.vectors is None else len(old.vectors)
    valid: list[bytes] = []
    try:
        written = database.written(user, since)
        if len(written) > max(16, len(records) // 16):
            return None  # to read all is quicker
        for kind, key, vector, tag in written:
            if type(kind) is not str or type(key) is not str:
                return None
            n = bisect_left(records, (kind, key), key=_name)
            if n < len(records) and _name(records[n]) == (kind, key):
                del records[n], at[n]
            record = rows.get(database, user, kind, key)
            if record is None:
                continue
            records.insert(n, record)
            at.insert(n, None)
            if _is_valid(vector, tag, record, embedder):
                at[n] = had + len(valid)
                valid.append(vector)
    except StoreError:  # a damaged row, as above: the sound ones are read one by one
        return None
    order = [row for row in at if row is not None]
    vectors = _unpacked(valid, embedder)
    if order and had:  # laid out as if all had been read again
        new, vectors = vectors, old.vectors.take(order, axis=0, mode="clip")
        if new is not None:
            vectors[[n for n, row in enumerate(order) if row >= had]] = new
    number = count()
    numbered = [None if row is None else next(number) for row in at]
    return Known(retrieval.Frozen(records), numbered, vectors)


def _name(record: Record) -> tuple[str, str]:
    return record.kind, record.key


def _is_valid(vector: Any, tag: Any, record: Record, embedder: Embedder | None) -> bool:
    return (
        embedder is not None
        and type(vector) is bytes
        and len(vector) == 2 * embedder.dim
        and bool(tag == embed.tag(embedder, retrieval.indexed(record)))
    )


def _unpacked(vectors: list[bytes], embedder: Embedder | None) -> Any:
    return embed.unpack(vectors, embedder.dim) if embedder is not None and vectors else None


def missing(database: Database, user: str, embedder: Embedder) -> list[Record]:
    """Return the records without a valid vector."""
    found = known(database, user, embedder)
    return [record for record, row in zip(found.records, found.rows, strict=True) if row is None]


def reindex(
    database: Database, user: str, embedder: Embedder, progress: Callable[[int, int], None]
) -> int:
    """Embed every record that lacks a valid vector, in batches; return how many were stored.

    Args:
        progress: Told how many are done, and how many there are, after each batch.
    """
    stale = missing(database, user, embedder)
    stored = 0
    for start in range(0, len(stale), BATCH):
        batch = stale[start : start + BATCH]
        stored += store(database, user, embedder, batch)
        progress(start + len(batch), len(stale))
    return stored


def similarities(found: Known, embedder: Embedder, query: str) -> list[float | None] | None:
    """Return the cosine of each record with the query; None for one without a valid vector.

    None for all where the query has no words that carry meaning, or could not be embedded.
    """
    meant = retrieval.meaning(query, found.records) if found.vectors is not None else ""
    if not meant:
        return None
    try:
        wanted = embed.checked(embedder, [meant])[0]
    except Exception as error:
        warnings.warn(f"Recalled by words alone: {_why(error)}", stacklevel=4)
        return None
    close = (found.vectors @ wanted).tolist()
    return [None if row is None else close[row] for row in found.rows]


def _why(error: Exception) -> str:
    """Return what may be shown: a foreign error's text could hold a key or a path."""
    return str(error) if isinstance(error, MemlabError) else type(error).__name__
