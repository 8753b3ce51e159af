"""The vectors beside the records: made after the write, checked before they count for anything."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from memlab import embed, retrieval, rows
from memlab.database import Database
from memlab.embed import Embedder
from memlab.errors import MemlabError
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

    records: list[Record]
    rows: list[int | None]
    vectors: Any


def known(database: Database, user: str, embedder: Embedder | None) -> Known:
    """Return a user's records with their valid vectors, read again only after a change.

    A vector is valid if this embedder made it of the text that stands there now.
    """
    made_by = (embedder.id, embedder.dim) if embedder is not None else None
    version = (database.version, made_by)
    kept = database.kept.get(user)
    if kept is not None and kept[0] == version:
        found: Known = kept[1]
        return found
    records = rows.every(database, user)
    found = Known(records, [None] * len(records), None)
    if embedder is not None:
        stored = rows.vectors(database, user)
        valid: list[bytes] = []
        for at, record in enumerate(records):
            vector, tag = stored.get((record.kind, record.key), (None, None))
            if (
                type(vector) is bytes
                and len(vector) == 2 * embedder.dim
                and tag == embed.tag(embedder, retrieval.indexed(record))
            ):
                found.rows[at] = len(valid)
                valid.append(vector)
        if valid:
            found = replace(found, vectors=embed.unpack(valid, embedder.dim))
    database.kept.pop(user, None)
    while len(database.kept) >= KEPT:
        database.kept.pop(next(iter(database.kept)), None)  # who was read longest ago
    database.kept[user] = (version, found)
    return found


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
