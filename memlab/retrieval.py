"""Find the records that answer a question, and choose what fits: functions from data to data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from memlab.records import Hit, Record
from memlab.text import canonical, fold, terms

K1, B = 1.5, 0.75  # the usual BM25 constants (Robertson and Zaragoza 2009, section 3.5)

_STOP_WORDS = frozenset(
    """a about am an and any are as at be been but by can could did do does for from had has have he
    her him his how i if in into is it its just me my of on or our please shall she should so some
    tell than that the their them then there they this to us was we were what when where which who
    whom whose why will with would you your""".split()  # noqa: SIM905 - read as a text, not a list
)
_STOP_CHARS = frozenset(
    "的了吗呢吧啊我你您他她它们是在有和与也都就不么什怎这那哪谁请のにをはがでともか"
)


def recall(records: Sequence[Record], query: str, limit: int, kind: str | None = None) -> list[Hit]:
    """Return the records that share words with `query`, best first, at most `limit`.

    Stop words of the query do not count. A query that no record shares a word with gets nothing.
    Equal scores: the latest first, then by kind and key.
    """
    wanted = query_terms(query)
    chosen = [record for record in records if kind is None or record.kind == kind]
    scores = bm25(wanted, [terms(f"{record.key} {record.value}") for record in chosen])
    found = [(score, record) for score, record in zip(scores, chosen, strict=True) if score > 0]
    found.sort(key=lambda pair: (-pair[0], -pair[1].updated, pair[1].kind, pair[1].key))
    return [
        Hit(record, score, {"words": {"rank": rank, "score": score}})
        for rank, (score, record) in enumerate(found[:limit], start=1)
    ]


def query_terms(query: str) -> list[str]:
    """Return the terms of a query that carry its meaning, each once, in order."""
    words = " ".join(
        word for word in fold(query).split() if word.strip("?!.,;:") not in _STOP_WORDS
    )
    found = dict.fromkeys(terms(words))
    return [term for term in found if not _STOP_CHARS.issuperset(term)]


def bm25(query_terms: Sequence[str], documents: Sequence[Sequence[str]]) -> list[float]:
    """Return one Okapi BM25 score a document, in their order; 0 where no term is shared.

    idf is ln(1 + (N - n + 0.5) / (n + 0.5)), which is never negative.
    """
    wanted = set(query_terms)
    counted = [Counter(term for term in document if term in wanted) for document in documents]
    average = sum(map(len, documents)) / len(documents) if documents else 0
    held = Counter(term for counts in counted for term in counts)
    idf = {term: math.log(1 + (len(documents) - n + 0.5) / (n + 0.5)) for term, n in held.items()}
    return [
        math.fsum(
            idf[term] * n * (K1 + 1) / (n + K1 * (1 - B + B * len(document) / average))
            for term, n in counts.items()
        )
        for counts, document in zip(counted, documents, strict=True)
    ]


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors of one length; 0 where one is all zero."""
    if len(a) != len(b):
        raise ValueError(f"vectors of {len(a)} and {len(b)} numbers cannot be compared")
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    lengths = math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))
    return product / lengths if lengths else 0.0


def choose(
    hits: Sequence[Hit], preferences: Iterable[Record], chars: int, most_preferences: int
) -> list[Hit]:
    """Return what goes into one request: some preferences always, then the hits, whole only.

    Args:
        hits: Ranked, best first.
        preferences: All the user's preferences. Pinned ones come first, then those among the
            hits by rank, then the latest.
        chars: How long the canonical JSON of the records may be together; a record that does not
            fit is skipped, and a smaller one after it may still go.
    """
    ranked = {(hit.kind, hit.key): (rank, hit) for rank, hit in enumerate(hits)}
    unranked = len(hits)

    def order(record: Record) -> tuple[bool, int, int, str]:
        rank = ranked.get((record.kind, record.key), (unranked, None))[0]
        return not record.pinned, rank, -record.updated, record.key

    wishes = {}
    for record in sorted(preferences, key=order)[:most_preferences]:
        name = (record.kind, record.key)
        wishes[name] = ranked[name][1] if name in ranked else Hit(record, 0.0, {})
    rest = [hit for hit in hits if (hit.kind, hit.key) not in wishes]
    kept: list[Hit] = []
    left = chars - len("[]")
    for hit in [*wishes.values(), *rest]:
        size = len(canonical(hit.record.for_model())) + len("," if kept else "")
        if size <= left:
            kept.append(hit)
            left -= size
    return kept
