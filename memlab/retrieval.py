"""Find the records that answer a question, and choose what fits: functions from data to data.

Two rankings are made, each for itself. By words: how much of the question a record says too. By
meaning, where there are vectors: how much closer a record is than the user's records usually are.
In both, what was said just before and after lends a record part of its score, and a person named in
the question lifts what that person said. Then the two are added.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property, lru_cache
from heapq import nlargest
from operator import attrgetter

from memlab.records import Hit, Record
from memlab.text import canonical, fold, one_slip, split_dates, terms

# Chosen on one half of tests/benchmarks/locomo.py and gold.py, reported on the other.
K1, B = 0.8, 0.2  # BM25: how soon a repeated word stops counting, how much a long text pays for it
NEAR = (0.5, 0.3)  # what the better neighbour lends, one step away and two
NAMED = 1.35  # what lifts the records of a person named in the question
ASKING = 0.5  # what a record loses that only asks, for a question answers nothing
MEANING = 0.8  # what the ranking by meaning weighs beside that by words
SLIP = 0.5  # what a word counts that is one slip away from the one asked for
FEW = 24  # fewer records tell too little of how rare a word is
USUAL, DOUBT = 0.1, 4  # how close two texts usually are; so many records outweigh that belief
ENOUGH_WORDS, ENOUGH_MEANING = 0.25, 0.15  # evidence: so much of either, or half of both
WORDS_ALONE = 0.2  # how much of that will do where there are no vectors to ask

_STOP_WORDS = frozenset(
    """a about am an and any are as at be been but by can could did do does for from had has have he
    her him his how i if in into is it its just me my of on or our please shall she should so some
    tell than that the their them then there they this to us was we were what when where which who
    whom whose why will with would you your""".split()  # noqa: SIM905 - read as a text, not a list
)
_STOP_CHARS = frozenset(
    "的了吗呢吧啊我你您他她它们是在有和与也都就不么什怎这那哪谁请のにをはがでともか"
)
_ASKING_ZH = re.compile(
    "什么时候|为什么|什么|怎么样?|怎样|哪里|哪儿|哪[个些种位次天家]|多少|是不是|有没有|请问"
)
_OPENING = re.compile(  # `Ana: ...`, `Ana said, ...`, `小明说：...`
    r"\s*([^\W\d_][^\d\n:：,，。;；!?！？\"“「()（）]{0,31}?)\s*"
    r"(?:[:：]|\b(?:said|says)\b|[说說](?=[,，:：\"“「\s]))"
)
_SENTENCE = re.compile(r"[^.!?。！？؟\n]+[.!?。！？؟\n]*")
_WORD = re.compile(r"[^\W_]+")
_AROUND = "?!.,;:\"'()[]“”‘’？！，。；：、「」（）《》"


def recall(
    records: Sequence[Record],
    query: str,
    limit: int,
    kind: str | None = None,
    similarities: Sequence[float | None] | None = None,
) -> list[Hit]:
    """Return the records that answer `query` best, best first, at most `limit`.

    Nothing, where no record has enough of the question's words and none is close enough to what it
    means. Equal scores: the latest first, then by kind and key.

    Args:
        records: All records of one user.
        kind: Return this kind only; the others still count as neighbours.
        similarities: The cosine of each record's vector with the query's; None for a record that
            has no valid vector, and None where there are no vectors at all.
    """
    index = _index_of(records)
    words, most = index.words(query_terms(query))
    close = index.closeness(similarities)
    chosen = [
        (n, at)
        for n, at in enumerate(index.places)
        if (words[at] or close[at]) and (kind is None or records[n].kind == kind)
    ]
    enough = WORDS_ALONE if similarities is None else 1.0
    if not any(words[at] / ENOUGH_WORDS + close[at] / ENOUGH_MEANING >= enough for _, at in chosen):
        return []
    named = index.spoken_by(query)
    by_words, by_meaning = _spread(words, named), _spread(close, named)
    for n, each in enumerate(similarities or ()):
        if each is None:  # neighbours may not lend a closeness that nobody measured
            by_meaning[index.places[n]] = 0.0
    scored = [((by_words[at] + MEANING * by_meaning[at]) * index.answers[n], n) for n, at in chosen]
    if len(scored) > limit:  # only the best need an order
        least = nlargest(limit, [score for score, _ in scored])[-1]
        scored = [each for each in scored if each[0] >= least]

    def order(each: tuple[float, int]) -> tuple[float, int, str, str]:
        record = records[each[1]]
        return -each[0], -record.updated, record.kind, record.key

    rankings: list[tuple[str, list[float], Sequence[float | None]]] = [
        ("words", by_words, [words[at] * most for at in index.places]),
        ("meaning", by_meaning, similarities or ()),
    ]
    ranked = {
        name: (sorted([spread[at] for at in index.places]), spread, own)
        for name, spread, own in rankings
    }
    return [
        Hit(
            records[n],
            score,
            {
                name: {
                    "rank": 1 + len(records) - bisect_right(every, spread[index.places[n]]),
                    "score": own[n] or 0.0,
                }
                for name, (every, spread, own) in ranked.items()
                if spread[index.places[n]] > 0
            },
        )
        for score, n in sorted(scored, key=order)[:limit]
    ]


def query_terms(query: str) -> list[str]:
    """Return the terms of a query that carry its meaning, each once, in order.

    A date gives the terms that stand in the index for a record's own day.
    """
    rest, days = split_dates(fold(query))
    words = [word for word in _ASKING_ZH.sub(" ", rest).split() if not _is_stop_word(word)]
    found = dict.fromkeys([*terms(" ".join(words)), *days])
    return [term for term in found if not _STOP_CHARS.issuperset(term)]


def indexed(record: Record) -> str:
    """Return the text of a record that is embedded: the words of its key, and its value."""
    name = "" if record.key.startswith("auto.") else record.key
    words = [word for word in re.split("[_.:-]", name) if word.isalpha() and len(word) > 1]
    return f"{' '.join(words)}: {record.value}" if words else record.value


def meaning(query: str, records: Sequence[Record]) -> str:
    """Return the text of a query that is embedded: without the names of who speaks in `records`.

    A name says nothing of what is meant, and makes all that one person said look alike. Empty
    where nothing but stop words is left.
    """
    names = _index_of(records).speakers
    if names:
        words = query.split()
        query = " ".join(word for word in words if names.keys().isdisjoint(_words_of(word)))
        for name in names:
            if _is_unspaced(name):
                query = query.replace(name, " ")
    return query if query_terms(query) else ""


def bm25(
    query_terms: Sequence[str], documents: Sequence[Sequence[str]], k1: float = K1, b: float = B
) -> list[float]:
    """Return one Okapi BM25 score a document, in their order; 0 where no term is shared.

    idf is ln(1 + (N - n + 0.5) / (n + 0.5)), which is never negative.
    """
    scores = [0.0] * len(documents)
    counted = [Counter(document) for document in documents]
    slowed = _slowed([len(document) for document in documents], k1, b)
    for term in dict.fromkeys(query_terms):
        places, weights = _posting(term, counted, range(len(documents)), slowed, k1)
        idf = _idf(len(places), len(documents))
        for place, weight in zip(places, weights, strict=True):
            scores[place] += idf * weight
    return scores


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


# The index -------------------------------------------------------------------------------------

Posting = tuple["array[int]", "array[float]"]  # where a term stands, and what it weighs there
Source = tuple[str, int, str, str, str]
_source = attrgetter("session", "created", "kind", "key", "value")
DAY = 24 * 60 * 60 * 1000  # in milliseconds
_GAP = len(NEAR)  # empty places between sessions, so that none lends to the next


@dataclass(frozen=True)
class _Index:
    """The words of some records, laid out in the order of time, one session after the other.

    Attributes:
        places: Where each record stands.
        size: How many places there are, the empty ones included.
        counts: The terms of each record, and how often it says each.
        slowed: What BM25 adds below the line for each record's length.
        postings: The places and weights of each term that has been asked for. To lay out all of
            them takes far longer than to look through the records for a few.
        speakers: The places of what a person said, by each word of the person's name.
        answers: What each record keeps of its score: less where it asks.
    """

    places: list[int]
    size: int
    counts: list[dict[str, int]]
    slowed: list[float]
    postings: dict[str, Posting]
    speakers: dict[str, list[int]]
    answers: list[float]

    def words(self, wanted: Sequence[str]) -> tuple[list[float], float]:
        """Return the share of the wanted words at each place, and the BM25 score of them all."""
        found, most = [], 0.0
        for term in wanted:
            trust = 1.0
            posting = self._posting(term)
            if not posting[0] and (meant := self._meant(term)):
                posting, trust = self._posting(meant), SLIP
            idf = _idf(len(posting[0]), max(len(self.places), FEW))
            most += idf * (K1 + 1)
            found.append((posting, idf * trust))
        scores = [0.0] * self.size
        for (places, weights), idf in found:
            part = idf / most
            for place, weight in zip(places, weights, strict=True):
                scores[place] += part * weight
        return scores, most

    def closeness(self, similarities: Sequence[float | None] | None) -> list[float]:
        """Return how much closer than usual the record at each place is; 0: not at all."""
        close = [0.0] * self.size
        known = [each for each in similarities or () if each is not None]
        usual = (math.fsum(known) + USUAL * DOUBT) / (len(known) + DOUBT)
        for place, each in zip(self.places, similarities or (), strict=False):
            if each is not None and each > usual:
                close[place] = each - usual
        return close

    def spoken_by(self, query: str) -> list[int]:
        """Return the places of what was said by the people whom `query` names."""
        if not self.speakers:
            return []
        folded, asked = fold(query), _words_of(query)
        named = [
            places
            for name, places in self.speakers.items()
            if name in asked or (_is_unspaced(name) and name in folded)
        ]
        return sorted({place for places in named for place in places})

    def _posting(self, term: str) -> Posting:
        posting = self.postings.get(term)
        if posting is None:
            posting = _posting(term, self.counts, self.places, self.slowed, K1)
            if posting[0]:  # what is kept must not grow with every unknown word ever asked
                self.postings[term] = posting
        return posting

    def _meant(self, term: str) -> str | None:
        """Return the known word that is one slip away from `term`: the most frequent one."""
        if len(term) < 5 or not term.isascii() or not term.isalpha():
            return None
        near = [known for known in self._initials.get(term[0], ()) if one_slip(term, known)]
        return max(near, key=lambda known: (len(self._posting(known)[0]), known), default=None)

    @cached_property
    def _initials(self) -> dict[str, list[str]]:
        """The words that a misspelt one may mean, by their first letter."""
        initials: dict[str, list[str]] = {}
        for term in set().union(*self.counts):
            if len(term) > 3 and term.isascii() and term.isalpha():
                initials.setdefault(term[0], []).append(term)
        return initials


class Frozen(tuple[Record, ...]):
    """Records that stay as they are, and so keep their index."""

    @cached_property
    def laid_out(self) -> _Index:
        return _index_of(list(self))


def _index_of(records: Sequence[Record]) -> _Index:
    if isinstance(records, Frozen):
        return records.laid_out
    source = tuple(map(_source, records))
    return _small_index(source) if len(source) <= 256 else _large_index(source)


def _index(source: tuple[Source, ...]) -> _Index:
    read = [_read(key, value, created // DAY) for _, created, _, key, value in source]
    in_time = [  # by session and time; at one time by key, `d2` before `d10`
        (session, created, kind, each.key)
        for (session, created, kind, _, _), each in zip(source, read, strict=True)
    ]
    places, size, last = [0] * len(source), 0, None
    for n in sorted(range(len(source)), key=in_time.__getitem__):
        session = source[n][0]
        size += 0 if session == last else _GAP
        places[n], last = size, session
        size += 1
    speakers: dict[str, list[int]] = {}
    for place, each in zip(places, read, strict=True):
        for name in each.speaker:
            speakers.setdefault(name, []).append(place)
    counts = [each.counts for each in read]
    slowed = _slowed([each.length for each in read], K1, B)
    answers = [each.answers for each in read]
    return _Index(places, size, counts, slowed, {}, speakers, answers)


# Kept by what they are made of, so that a change of any record makes a new one.
_small_index = lru_cache(maxsize=256)(_index)
_large_index = lru_cache(maxsize=4)(_index)


@dataclass(frozen=True, slots=True)
class _Read:
    """What there is to know of one record without the others.

    Attributes:
        counts: Its terms, those of its day too, and how often each stands there.
        length: How many terms that is, repeats counted.
        key: Its key in parts, so that `d2` sorts before `d10`.
        speaker: The words of the name of who speaks.
        answers: What it keeps of its score: less where it asks.
    """

    counts: dict[str, int]
    length: int
    key: list[tuple[int, str]]
    speaker: list[str]
    answers: float


@lru_cache(maxsize=16384)
def _read(key: str, value: str, day: int) -> _Read:
    found = [*terms(f"{key} {value}"), *split_dates(fold(value))[1], *_day(day)]
    parts = [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", key)]
    answers = 1 - ASKING * _asked(value)
    return _Read(dict(Counter(found)), len(found), parts, _speaker(value), answers)


def _slowed(lengths: Sequence[int], k1: float, b: float) -> list[float]:
    """Return what BM25 adds below the line for each length: more, the longer beside the others."""
    average = sum(lengths) / len(lengths) if lengths else 0
    return [k1 * (1 - b + b * length / average) if average else 0.0 for length in lengths]


def _posting(
    term: str,
    counted: Sequence[Mapping[str, int]],
    places: Sequence[int],
    slowed: Sequence[float],
    k1: float,
) -> Posting:
    """Return where a term stands and its weight there, without its idf."""
    holding = [n for n, counts in enumerate(counted) if term in counts]
    weights = [counted[n][term] * (k1 + 1) / (counted[n][term] + slowed[n]) for n in holding]
    return array("l", [places[n] for n in holding]), array("d", weights)


def _idf(holding: int, documents: int) -> float:
    return math.log(1 + (documents - holding + 0.5) / (holding + 0.5))


def _spread(scores: list[float], named: Iterable[int]) -> list[float]:
    """Return the scores with what neighbours lend, then with what a named person lifts."""
    one, two = NEAR
    wide = [0.0, 0.0, *scores, 0.0, 0.0]
    lent = [
        own + one * (a if a > b else b) + two * (c if c > d else d)
        for own, a, b, c, d in zip(scores, wide[1:], wide[3:], wide, wide[4:], strict=False)
    ]
    for place in named:
        lent[place] *= NAMED
    return lent


@lru_cache(maxsize=4096)
def _day(days: int) -> list[str]:
    """Return the terms of a day since 1970, as `split_dates` finds them in a text, and its year."""
    try:
        day = date(1970, 1, 1) + timedelta(days=days)
    except OverflowError:  # a clock that is far beyond any calendar
        return []
    return [f"@{day:%m-%d}", f"@{day:%m}", f"{day.year}"]


def _speaker(value: str) -> list[str]:
    """Return the words of the name in `Name: ...` or `Name said ...`; none: nobody is named."""
    opening = _OPENING.match(value)
    words = _WORD.findall(fold(opening[1])) if opening else []
    if len(words) > 3:  # no name, the start of a sentence
        return []
    return [word for word in words if not (_is_stop_word(word) or _STOP_CHARS.issuperset(word))]


def _words_of(text: str) -> set[str]:
    return set(_WORD.findall(fold(text)))


def _is_unspaced(word: str) -> bool:
    """Say whether a word may stand in a text without spaces around it."""
    return len(word) > 1 and not word.isascii()


def _asked(value: str) -> float:
    """Return how much of a text are questions, from 0 to 1."""
    if "?" not in value and "？" not in value and "؟" not in value:
        return 0.0
    sentences = _SENTENCE.findall(value)
    asked = sum(len(each) for each in sentences if "?" in each or "？" in each or "؟" in each)
    return asked / max(sum(map(len, sentences)), 1)


def _is_stop_word(word: str) -> bool:
    bare = word.strip(_AROUND).replace("’", "'")
    return bare.partition("'")[0] in _STOP_WORDS or bare.endswith("n't")
