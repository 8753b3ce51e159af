"""Does recall find the right memory, and keep silent where there is none? Our own gold set says.

`data/README.md` tells what the set is. `hit@3` is the share of the answerable questions that got a
right record among the first three; `found`, one anywhere in what came back. `silent` is the share
of the unanswerable questions that got nothing at all. Shares are in percent; an interval holds 95 %
of what comes out when as many questions are drawn anew, with repeats, a thousand times.

Two floors stand below: a literal search for the question, or else for its longest word, and all of
the user's records, which always finds and is never silent.

`--dial` asks again with more and with less evidence wanted before recall answers at all: what one
of the two shares gains, the other loses. Which is worse, a wrong memory or none, is for you to say.

The constants of recall were chosen on the half 'tune'. Only 'report' says how good they are.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:  # run as a file: find memlab in the checkout
    sys.path.insert(0, str(Path(__file__).parents[2]))

from memlab import HashEmbedder, LocalEmbedder, MemlabError, MemoryStore, Record, retrieval
from memlab.embed import Embedder
from tests.benchmarks.report import Row, arguments, show

FOLDER = Path(__file__).parents[2] / "data" / "gold"
HALVES = ("tune", "report")
LANGUAGES = ("zh", "en", "mixed")
GOALS = {"hit@3": 90, "silent": 80}  # percent, on the half 'report'
FIRST = (1, 3, 5)
LIMIT = 10
DIAL = (0.5, 0.75, 1, 1.25, 1.5, 2)  # times the evidence that recall wants
SESSION = "benchmark"

Names = list[str]  # of records, as `kind/key`, best first


@dataclass(frozen=True)
class Question:
    """One question, and the names of the records that answer it; none where nobody knows."""

    user: str
    text: str
    language: str
    type: str
    answers: tuple[str, ...]
    half: str


@dataclass(frozen=True)
class Asked:
    """A question and what came back."""

    question: Question
    found: Names

    def hit(self, first: int | None = None) -> bool:
        return not set(self.question.answers).isdisjoint(self.found[:first])


class Calendar:
    """A clock that is told the day of a record; records of one day are a minute apart."""

    def __init__(self) -> None:
        self._now = datetime(2000, 1, 1, tzinfo=UTC)

    def __call__(self) -> int:
        return int(self._now.timestamp() * 1000)

    def turn_to(self, day: str) -> None:
        noon = datetime.fromisoformat(f"{day}T12:00+00:00")
        self._now = max(noon, self._now + timedelta(minutes=1))


def lines(name: str) -> Iterator[dict[str, Any]]:
    """Return the rows of `records` or `questions`."""
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    return map(json.loads, text.splitlines())


def questions() -> list[Question]:
    return [Question(**{**row, "answers": tuple(row["answers"])}) for row in lines("questions")]


def fill(store: MemoryStore, calendar: Calendar) -> None:
    """Put every record, as its user did: in order, in its session, on its day."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a record without its vector would be measured in silence
        for row in sorted(lines("records"), key=itemgetter("day")):
            calendar.turn_to(row["day"])
            user = store.for_user(row["user"], row["session"])
            user.put(row["kind"], row["key"], row["value"])


def methods(store: MemoryStore) -> dict[str, Callable[[Question], Names]]:
    """Return the ways to answer a question, by name; the first is the product."""

    def recall(question: Question) -> Names:
        hits = store.for_user(question.user, SESSION).recall(question.text, limit=LIMIT)
        return names(hit.record for hit in hits)

    def literal(question: Question) -> Names:
        user = store.for_user(question.user, SESSION)
        longest = max(re.findall(r"\w+", question.text), key=len)
        most = store.limits.query_chars
        return names(
            user.search(question.text[:most], limit=LIMIT)
            or user.search(longest[:most], limit=LIMIT)
        )

    def everything(question: Question) -> Names:
        return names(store.for_user(question.user, SESSION).list())

    return {"recall": recall, "literal search": literal, "everything": everything}


@contextmanager
def evidence(times: float) -> Iterator[None]:
    """Let recall want so many times the evidence before it answers."""
    usual = retrieval.ENOUGH_WORDS, retrieval.ENOUGH_MEANING
    retrieval.ENOUGH_WORDS, retrieval.ENOUGH_MEANING = (times * each for each in usual)
    try:
        yield
    finally:
        retrieval.ENOUGH_WORDS, retrieval.ENOUGH_MEANING = usual


def names(records: Iterable[Record]) -> Names:
    return [f"{record.kind}/{record.key}" for record in records]


def measured(asked: Sequence[Asked], draws: int) -> Row:
    """Return the columns for these questions: what was found, what was kept silent about."""
    known = [each for each in asked if each.question.answers]
    unknown = [each for each in asked if not each.question.answers]
    row: Row = {"answerable": len(known)}
    for first in FIRST:
        row[f"hit@{first}"] = share([each.hit(first) for each in known])
    row["hit@3 from-to"] = interval([each.hit(3) for each in known], draws)
    row["found"] = share([each.hit() for each in known])
    row["unanswerable"] = len(unknown)
    row["silent"] = share([not each.found for each in unknown])
    row["silent from-to"] = interval([not each.found for each in unknown], draws)
    return row


def share(outcomes: Sequence[bool]) -> float | str:
    """Return how many of them are true, in percent; nothing where there are none."""
    return round(100 * sum(outcomes) / len(outcomes), 1) if outcomes else ""


def interval(outcomes: Sequence[bool], draws: int) -> str:
    """Return where 95 % of the shares lie when the outcomes are drawn anew; the same every time."""
    if not outcomes:
        return ""
    chance = random.Random(0)
    count = len(outcomes)
    shares = sorted(100 * sum(chance.choices(outcomes, k=count)) / count for _ in range(draws))
    cut = draws // 40
    return f"{shares[cut]:.0f}-{shares[-1 - cut]:.0f}"


def met(row: Row, names: Sequence[str]) -> Row:
    """Return the columns that say what the row should reach at least, and whether it does."""
    wanted = {name: GOALS[name] for name in names if row[name] != ""}
    if not wanted:
        return {}
    return {
        "goal": ", ".join(f"{name} >= {least}" for name, least in wanted.items()),
        "met": "yes" if all(row[name] >= least for name, least in wanted.items()) else "NO",
    }


def tables(asked: Sequence[Asked], half: str, method: str, draws: int) -> list[Row]:
    """Return a row for all questions and each language; for recall, for each type as well."""

    def row(group: str, chosen: Sequence[Asked], goals: Sequence[str] = ()) -> Row:
        begin: Row = {"half": half, "method": method, "questions": group}
        figures = measured(chosen, draws)
        counts = half == "report" and method == "recall"
        return {**begin, **figures, **(met(figures, goals) if counts else {})}

    rows = [row("all", asked, ["silent"])]
    for language in LANGUAGES:
        chosen = [each for each in asked if each.question.language == language]
        rows.append(row(language, chosen, ["hit@3"]))
    if method == "recall":
        for kind in dict.fromkeys(each.question.type for each in asked):
            rows.append(row(kind, [each for each in asked if each.question.type == kind]))
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--half", choices=[*HALVES, "both"], default="report")
    parser.add_argument("--embedder", choices=["local", "none", "hash"], default="none")
    parser.add_argument("--dial", action="store_true", help="want more and less evidence in turn")
    options = parser.parse_args(argv)
    draws = 40 if options.quick else 1000
    try:
        embedder = an_embedder(options.embedder)
    except (ImportError, MemlabError) as error:
        print(error, file=sys.stderr)
        return 1
    calendar = Calendar()
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryStore.open(folder, create=True, embedder=embedder, clock=calendar) as store,
    ):
        fill(store, calendar)
        for half in HALVES if options.half == "both" else [options.half]:
            chosen = [each for each in questions() if each.half == half]
            if options.quick:
                chosen = chosen[::4]
            for method, ask in methods(store).items():
                asked = [Asked(question, ask(question)) for question in chosen]
                rows.extend(tables(asked, half, method, draws))
            for times in DIAL if options.dial else ():
                with evidence(times):
                    asked = [Asked(each, methods(store)["recall"](each)) for each in chosen]
                rows.extend(tables(asked, half, f"recall, evidence x {times:g}", draws))
    note = f"embedder: {options.embedder}; recall is asked for {LIMIT} records."
    return show("gold", rows, options.json, [note])


def an_embedder(name: str) -> Embedder | None:
    """Return the embedder of that name, tried once, so that a missing model is told at once."""
    if name == "none":
        return None
    embedder: Embedder = LocalEmbedder() if name == "local" else HashEmbedder()
    embedder.embed(["Is the model here?"])
    return embedder


if __name__ == "__main__":
    raise SystemExit(main())
