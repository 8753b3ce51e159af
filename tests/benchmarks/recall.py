"""How long `recall` takes: beside reading the same rows raw, in a large memory, with many users.

    python -m tests.benchmarks.recall

`raw` is what SQLite used bare needs to read all rows of the user: no recall can do with less. The
texts are made up of a few thousand words, in English and Chinese, no two alike, and each question
takes its words from one of them. `words` has no vectors; `hybrid` has one for every record, and the
question is embedded before the clock runs. All times are processor time.

- `again`: the same user is asked about once more, as an agent does all day long.
- `after a put`: one record has just been replaced, so what was kept in memory is old.
- `first in a process`: nothing is in memory yet; the module is loaded, the store open.
- `first for a user`: another user each time, whom the process has not met before.

`growth` is the exponent with which the time grows with the number of users: 0 is flat.
"""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

if __name__ == "__main__" and not __package__:  # run as a file: find memlab in the checkout
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.others import (
    USER_RECORDS,
    Memlab,
    MemlabWithVectors,
    Raw,
    question,
    sentence,
)
from tests.benchmarks.report import Row, arguments, cpu, goal, in_turn, show
from tests.benchmarks.side_by_side import GROWTH_GOAL, goal_ms, slope
from tests.benchmarks.store import Job

CHECKOUT = Path(__file__).parents[2]
WAYS: dict[str, type[Memlab]] = {"words": Memlab, "hybrid": MemlabWithVectors}
GOALS = {"words": 5.0, "hybrid": 8.0}  # times reading the rows, at 64 records
GOAL_MS = 50.0  # at 10,000 records

_FIRST = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.benchmarks.others import Memlab, question
from tests.benchmarks.report import cpu
engine = Memlab(Path(sys.argv[2]))
engine.open()
user = engine.user(0)
begin = cpu()
found = user.recall(question(0))
took = cpu() - begin
engine.close()
print(took if found else "nothing was found")
"""


class Effort(NamedTuple):
    rounds: int = 41
    calls: int = 10
    large: int = 10_000  # records of one user
    users: tuple[int, ...] = (10, 1000, 10_000)
    processes: int = 7


QUICK = Effort(rounds=3, calls=2, large=200, users=(10, 20), processes=2)
STRANGERS = 5  # users of each store that are met for the first time, by each way


def numbers(user: int, size: int) -> range:
    """Return the numbers of a user's texts, which stand in no other user's memory."""
    return range(user * size, (user + 1) * size)


def job(user: int, number: int, text: str) -> Job:
    return Job(user, "note", f"fact.{number}", text)


def records(users: Iterable[int], size: int) -> Iterator[Job]:
    return (job(user, number, sentence(number)) for user in users for number in numbers(user, size))


def questions(user: int, size: int, count: int) -> list[Job]:
    """Return questions about one user's texts; one question may come twice."""
    pick = random.Random(user)
    return [
        job(user, number, question(number))
        for number in (pick.choice(numbers(user, size)) for _ in range(count))
    ]


def opened(kind: type, folder: Path, users: Iterable[int], size: int) -> Any:
    """Return an engine with so many records of each user, filled without waiting for the disk."""
    folder.mkdir(mode=0o700)
    engine = kind(folder)
    engine.open()
    engine.syncing(False)
    engine.fill(records(users, size))
    return engine


def small(folder: Path, effort: Effort) -> Iterator[Row]:
    """Compare recall over 64 records with reading them."""
    raw = opened(Raw, folder / "raw", [0], USER_RECORDS)
    for way, kind in WAYS.items():
        ours = opened(kind, folder / way, [0], USER_RECORDS)
        asked = questions(0, USER_RECORDS, (effort.rounds + 1) * effort.calls)
        for each in asked:  # the questions' vectors are made here
            if not ours.recalled(each):
                raise AssertionError(f"{each.text!r} found nothing")
        rounds = [asked[at : at + effort.calls] for at in range(0, len(asked), effort.calls)]
        pair = in_turn(ours.recalled, raw.read, rounds, cpu)
        ours.close()
        yield {
            **_row("again", way, USER_RECORDS, 1, pair.ours),
            "raw ms": round(pair.other * 1000, 4),
            "times raw": round(pair.ratio, 2),
            **goal(pair.ratio, GOALS[way]),
        }
    raw.close()


def large(folder: Path, effort: Effort) -> Iterator[Row]:
    """Time recall over one user's large memory, as it stands and just after a put."""
    for way, kind in WAYS.items():
        ours = opened(kind, folder / way, [0], effort.large)
        asked = questions(0, effort.large, effort.rounds)
        for each in asked:  # the questions' vectors are made here
            ours.recalled(each)
        again, after = [], []
        for number, each in enumerate(asked):
            again.append(_timed(ours, each))
            ours.put(job(0, number, sentence(effort.large + number)))
            after.append(_timed(ours, each))
        ours.close()
        for what, times in (("again", again), ("after a put", after)):
            took = median(times)
            yield {**_row(what, way, effort.large, 1, took), **goal_ms(took * 1000, GOAL_MS)}


def first(folder: Path, effort: Effort) -> Iterator[Row]:
    """Time the first recall of new programs."""
    for size in (USER_RECORDS, effort.large):
        opened(Memlab, folder / str(size), [0], size).close()
        took = median(_program(folder / str(size)) for _ in range(effort.processes))
        yield _row("first in a process", "words", size, 1, took)


def many(folder: Path, effort: Effort) -> Iterator[Row]:
    """Time recall of one user's 64 records among ever more users, all stores in turn."""
    members, begin = {}, effort.large  # beyond all texts that were read above
    for users in effort.users:
        members[users] = range(begin, begin + users)
        begin += users  # no store has a text that was read in another one before
        opened(Memlab, folder / str(users), members[users], USER_RECORDS).close()
    for place, (way, kind) in enumerate(WAYS.items()):
        stores, asked = {}, {}
        for users in effort.users:
            step = users // (STRANGERS * len(WAYS))
            asked[users] = members[users][place * step :: step * len(WAYS)][:STRANGERS]
            stores[users] = kind(folder / str(users))
            stores[users].open()
            if kind.vectors:
                for user in asked[users]:
                    stores[users].user(user).reindex(progress=lambda done, of: None)
        strangers: dict[int, list[float]] = {users: [] for users in stores}
        friends: dict[int, list[float]] = {users: [] for users in stores}
        for number in range(STRANGERS):
            for users, ours in stores.items():
                [each] = questions(asked[users][number], USER_RECORDS, 1)
                if ours.embedder is not None:
                    ours.embedder.embed([each.text])
                strangers[users].append(_timed(ours, each))
        for number in range(effort.rounds + 1):
            for users, ours in stores.items():
                for each in questions(asked[users][0], USER_RECORDS, effort.calls):
                    took = _timed(ours, each)
                    if number:  # the first round makes the questions' vectors
                        friends[users].append(took)
        for ours in stores.values():
            ours.close()
        for what, found in (("again", friends), ("first for a user", strangers)):
            rows = [
                _row(what, way, USER_RECORDS, users, median(times))
                for users, times in found.items()
            ]
            grown = slope([(row["users"], row["ms"]) for row in rows])
            rows[-1] |= {"growth": grown, "flat": "yes" if grown <= GROWTH_GOAL else "NO"}
            yield from rows


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--folder", help="where to make the files")
    options = parser.parse_args(argv)
    effort = QUICK if options.quick else Effort()
    if importlib.util.find_spec("numpy") is None:
        return show("recall", [], options.json, ["Vectors need numpy: nothing was measured."])
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        for measure in (small, large, first, many):
            folder = Path(name) / measure.__name__
            folder.mkdir()
            rows += measure(folder, effort)
    return show("recall", rows, options.json)


# Inside -----------------------------------------------------------------------------------------


def _row(what: str, way: str, size: int, users: int, took: float) -> Row:
    row: Row = {"recall": what, "by": way, "records": size, "users": users}
    return {**row, "ms": round(took * 1000, 4)}


def _timed(ours: Memlab, asked: Job) -> float:
    begin = cpu()
    ours.recalled(asked)
    return cpu() - begin


def _program(folder: Path) -> float:
    """Return the seconds that the first recall of a new program takes.

    Raises:
        ValueError: it found nothing.
    """
    done = subprocess.run(
        [sys.executable, "-c", _FIRST, str(CHECKOUT), str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


if __name__ == "__main__":
    raise SystemExit(main())
