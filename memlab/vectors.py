"""The vectors beside the records: made after the write, checked before they count for anything."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence

from memlab import embed, retrieval, rows
from memlab.database import Database
from memlab.embed import Embedder
from memlab.errors import MemlabError
from memlab.records import Record

BATCH = 64  # records that are embedded and stored together


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
        why = str(error) if isinstance(error, MemlabError) else type(error).__name__
        warnings.warn(
            f"{len(chosen)} stored without a vector: {why} reindex() tries again.", stacklevel=4
        )
        return 0
    with database.transaction() as file:
        return sum(
            rows.set_vector(file, user, record, embed.pack(vector), embed.tag(embedder, text))
            for record, text, vector in zip(chosen, texts, made, strict=True)
        )


def missing(
    database: Database, user: str, embedder: Embedder, records: Sequence[Record]
) -> list[Record]:
    """Return the records without a vector that this embedder made of their present text."""
    valid = _valid(database, user, embedder, records)
    return [record for record, vector in zip(records, valid, strict=True) if vector is None]


def reindex(
    database: Database,
    user: str,
    embedder: Embedder,
    records: Sequence[Record],
    progress: Callable[[int, int], None],
) -> int:
    """Embed every record that lacks a valid vector, in batches; return how many were stored.

    Args:
        progress: Told how many are done, and how many there are, after each batch.
    """
    stale = missing(database, user, embedder, records)
    stored = 0
    for start in range(0, len(stale), BATCH):
        batch = stale[start : start + BATCH]
        stored += store(database, user, embedder, batch)
        progress(start + len(batch), len(stale))
    return stored


def similarities(
    database: Database, user: str, embedder: Embedder, records: Sequence[Record], query: str
) -> list[float | None] | None:
    """Return the cosine of each record with the query; None for one without a valid vector.

    None for all where the query has no words that carry meaning, or could not be embedded.
    """
    meant = retrieval.meaning(query, records)
    valid = _valid(database, user, embedder, records)
    if not meant or not any(valid):
        return None
    try:
        wanted = embed.checked(embedder, [meant])[0]
    except Exception as error:
        why = str(error) if isinstance(error, MemlabError) else type(error).__name__
        warnings.warn(f"Recalled by words alone: {why}", stacklevel=4)
        return None
    known = embed.unpack([vector for vector in valid if vector is not None], embedder.dim)
    close = iter((known @ wanted).tolist())
    return [None if vector is None else next(close) for vector in valid]


def _valid(
    database: Database, user: str, embedder: Embedder, records: Sequence[Record]
) -> list[bytes | None]:
    """Return each record's vector, if this embedder made it of the text that stands there now."""
    stored = rows.vectors(database, user)
    found: list[bytes | None] = []
    for record in records:
        vector, tag = stored.get((record.kind, record.key), (None, None))
        current = (
            type(vector) is bytes
            and len(vector) == 2 * embedder.dim
            and tag == embed.tag(embedder, retrieval.indexed(record))
        )
        found.append(vector if current else None)
    return found
