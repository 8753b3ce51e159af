"""What memlab's promises cost: put, get and search beside SQLite used bare, in one run.

The other side is the least that keeps a memory: one connection, a write-ahead log, one table
WITHOUT ROWID keyed by (user, kind, key), one upsert a put in a transaction of its own, the folded
text beside the value. It has no quota, no history, no check, no revision that is never used twice.

`cpu` rows have syncing off on both sides, in here alone, so that the disk hides nothing. `wall`
rows wait for the disk as every real put does. Both files hold 64 records a user.
"""

from __future__ import annotations

import itertools
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

if __name__ == "__main__" and not __package__:  # run as a file: find memlab in the checkout
    sys.path.insert(0, str(Path(__file__).parents[2]))

from memlab import KINDS, Limits, MemoryStore
from memlab.database import FILE
from memlab.text import fold
from tests.benchmarks.report import Row, arguments, cpu, goal, growth, in_turn, show

USER_RECORDS = 64
GOALS = {"put": 3.0, "get": 2.0, "search": 2.0}
WALL_GOAL = 1.3
FLAT = 0.05  # exponent beyond bare SQLite's own, whose trees grow deeper and caches colder

# The product's own limits are far below a million records.
LIMITS = Limits(records_per_user=10**6, records_total=10**9, database_bytes=10**12)

_COLUMNS = "user, kind, key, value, folded, revision, session, created, updated"
_FILL = f"INSERT INTO memory ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_NAMED = "user = ? AND kind = ? AND key = ?"


class Job(NamedTuple):
    """One call: which record, and what to store or to look for."""

    user: int
    kind: str
    key: str
    text: str


class Bare:
    """A memory in plain sqlite3, as short as it can be and still be used."""

    def __init__(self, path: Path):
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS memory (user TEXT, kind TEXT, key TEXT, value TEXT,"
            " folded TEXT, revision INTEGER, session TEXT, created INTEGER, updated INTEGER,"
            " PRIMARY KEY (user, kind, key)) WITHOUT ROWID"
        )

    def put(self, job: Job) -> None:
        now = time.time_ns() // 1_000_000
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        execute(
            f"INSERT INTO memory ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, 1, 's1', ?, ?)"
            " ON CONFLICT (user, kind, key) DO UPDATE SET value = excluded.value,"
            " folded = excluded.folded, revision = revision + 1, session = excluded.session,"
            " updated = excluded.updated",
            (_user(job.user), job.kind, job.key, job.text, job.text.lower(), now, now),
        )
        execute("COMMIT")

    def get(self, job: Job) -> Any:
        return self.connection.execute(
            f"SELECT kind, key, value, revision, session, created, updated FROM memory"
            f" WHERE {_NAMED}",
            (_user(job.user), job.kind, job.key),
        ).fetchone()

    def search(self, job: Job) -> list[Any]:
        return self.connection.execute(
            "SELECT kind, key, value, revision, session, created, updated FROM memory"
            " WHERE user = ? AND (instr(folded, ?) OR instr(key, ?))"
            " ORDER BY updated DESC LIMIT 5",
            (_user(job.user), job.text.lower(), job.text.lower()),
        ).fetchall()


class Ours:
    """The same calls to memlab."""

    def __init__(self, folder: Path, users: int):
        self.store = MemoryStore.open(folder, limits=LIMITS)
        self.users = [self.store.for_user(_user(n), session="s1") for n in range(users)]
        self.connection = self.store._database._live()

    def put(self, job: Job) -> None:
        self.users[job.user].put(job.kind, job.key, job.text)

    def get(self, job: Job) -> Any:
        return self.users[job.user].get(job.kind, job.key)

    def search(self, job: Job) -> list[Any]:
        return self.users[job.user].search(job.text)


class Effort(NamedTuple):
    """How many rounds each side gets, and how many calls in a round; waiting ones differ."""

    rounds: int = 15
    calls: int = 1000  # long enough that every round has its share of SQLite's checkpoints
    waiting_rounds: int = 150
    waiting_calls: int = 5  # few, so that both sides find the disk in the same mood


def measure(folder: Path, records: int, effort: Effort) -> list[Row]:
    """Return one row for each thing measured in two stores of so many records."""
    users = -(-records // USER_RECORDS)
    path = folder / "bare.sqlite3"
    _fill(folder / "ours", path, records)
    bare, ours = Bare(path), Ours(folder / "ours", users)
    pick = random.Random(records)
    fresh = itertools.count()

    def known(text: Callable[[], str]) -> Job:
        user, kind, key = _name(pick.randrange(records))
        return Job(user, kind, key, text())

    def new() -> Job:
        return Job(pick.randrange(users), "note", f"new.{next(fresh)}", value())

    def value() -> str:
        return _value(records + next(fresh))

    def batches(make: Callable[[], Job], rounds: int, calls: int) -> Iterator[list[Job]]:
        return ([make() for _ in range(calls)] for _ in range(rounds + 1))

    def forget(done: Sequence[Job]) -> None:
        """Take out what was created, so that the size stays what the row says."""
        named = [(_user(job.user), job.kind, job.key) for job in done if job.key.startswith("new.")]
        for each in (bare, ours):
            each.connection.execute("BEGIN")
            each.connection.executemany(f"DELETE FROM memory WHERE {_NAMED}", named)
            each.connection.execute("COMMIT")

    create, replace = new, lambda: known(value)
    turns = itertools.cycle((create, replace))
    puts = {"replace": replace, "create": create, "half each": lambda: next(turns)()}
    plain: dict[str, Callable[[], Job]] = {
        "get": lambda: known(str),
        "search": lambda: known(lambda: f"NUMBER {pick.randrange(10)}"),
    }
    rows = []
    try:
        for each in (bare, ours):
            each.connection.execute("PRAGMA synchronous = OFF")
        for what, make in plain.items():
            a, b = getattr(ours, what), getattr(bare, what)
            _agree(a, b, make())
            pair = in_turn(a, b, batches(make, effort.rounds, effort.calls), cpu)
            rows.append(_row("cpu", what, records, pair.ours, pair.other, pair.ratio, GOALS[what]))
        for what, make in puts.items():
            pair = in_turn(
                ours.put, bare.put, batches(make, effort.rounds, effort.calls), cpu, forget
            )
            name = f"put, {what}"
            rows.append(_row("cpu", name, records, pair.ours, pair.other, pair.ratio, GOALS["put"]))
        for each in (bare, ours):
            each.connection.execute("PRAGMA synchronous = FULL")
        rounds = batches(puts["half each"], effort.waiting_rounds, effort.waiting_calls)
        pair = in_turn(ours.put, bare.put, rounds, time.perf_counter, forget)
        name = "put, half each"
        rows.append(_row("wall", name, records, pair.ours, pair.other, pair.ratio, WALL_GOAL))
    finally:
        ours.store.close()
        bare.connection.close()
    return rows


def with_growth(rows: list[Row]) -> list[Row]:
    """Add to each row how its time has grown since the next smaller size, for both sides."""
    before: dict[tuple[str, str], Row] = {}
    for row in rows:
        small = before.get((row["time"], row["what"]))
        before[row["time"], row["what"]] = row
        for side in ("memlab", "bare"):
            row[f"{side} growth"] = "" if small is None else round(_growth(small, row, side), 3)
        if small is not None and row["time"] == "cpu":
            more = row["memlab growth"] - max(row["bare growth"], 0)
            row["flat"] = "yes" if more <= FLAT else "NO"
        else:
            row["flat"] = ""
    return rows


def sync_ms(folder: Path) -> float:
    """Return how long the disk takes to keep 4 KiB: near 0, and `wall` says little."""
    times = []
    with (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(20):
            file.write(bytes(4096))
            begin = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begin)
    return median(times) * 1000


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--million", action="store_true", help="a million records too (minutes)")
    parser.add_argument("--folder", help="where to make the files: the disk to measure")
    options = parser.parse_args(argv)
    sizes, effort = [64, 10_000], Effort()
    if options.quick:
        sizes, effort = [64, 320], Effort(3, 20, 3, 2)
    if options.million:
        sizes.append(1_000_000)
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        wait = sync_ms(Path(name))
        for records in sizes:
            folder = Path(name) / str(records)
            folder.mkdir()
            rows += measure(folder, records, effort)
    notes = [
        f"The disk of that folder takes {wait:.2f} ms to keep 4 KiB.",
        "growth: the exponent since the next smaller size; 0 is flat, 1 is linear.",
        f"flat: memlab's growth is at most {FLAT} more than that of bare SQLite.",
    ]
    return show("store", with_growth(rows), options.json, notes)


# Inside -----------------------------------------------------------------------------------------


def _fill(folder: Path, path: Path, records: int) -> None:
    """Write the same records into both files in bulk; memlab's triggers count as they always do."""
    MemoryStore.open(folder, create=True, limits=LIMITS).close()
    Bare(path).connection.close()
    for each in (folder / FILE, path):
        connection = sqlite3.connect(each, isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        connection.executemany(_FILL, map(_stored, range(records)))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()


def _user(number: int) -> str:
    return f"user{number:06}"


def _name(number: int) -> tuple[int, str, str]:
    """Return user, kind and key of a record; they sort as their numbers do."""
    user, place = divmod(number, USER_RECORDS)
    return user, sorted(KINDS)[place * len(KINDS) // USER_RECORDS], f"fact.{place:02}"


def _value(number: int) -> str:
    return f"Fact {number}: Alice likes short answers in plain English, and number {number % 97}."


def _stored(number: int) -> tuple[Any, ...]:
    user, kind, key = _name(number)
    value = _value(number)
    return _user(user), kind, key, value, fold(value), 1, "s1", number, number


def _agree(ours: Callable[[Job], Any], bare: Callable[[Job], Any], job: Job) -> None:
    """Refuse to compare two things that do not give the same answer."""
    mine, theirs = ours(job), bare(job)
    if not isinstance(theirs, list):
        mine, theirs = [mine], [theirs]
    if [record.value for record in mine] != [row[2] for row in theirs] or not mine:
        raise AssertionError(f"memlab and bare SQLite answer differently: {mine}, {theirs}")


def _row(
    clock: str, what: str, records: int, ours: float, bare: float, times: float, most: float
) -> Row:
    return {
        "time": clock,
        "what": what,
        "records": records,
        "memlab us": round(ours * 1e6, 2),
        "bare us": round(bare * 1e6, 2),
        "ratio": round(times, 2),
        **goal(times, most),
    }


def _growth(small: Row, large: Row, side: str) -> float:
    times = small[f"{side} us"], large[f"{side} us"]
    return growth(times, (small["records"], large["records"]))


if __name__ == "__main__":
    raise SystemExit(main())
