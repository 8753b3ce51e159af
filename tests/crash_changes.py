"""Changes of every kind, and a connection that fails or dies at the n-th statement of one.

`main` is the program that makes a change, or 200 writes, in a process of its own and is killed.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
import re
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from memlab import (
    Conflict,
    Delete,
    HashEmbedder,
    Limits,
    MemoryStore,
    NotApproved,
    Policy,
    Put,
)

try:
    import resource
except ImportError:  # Windows
    resource = None

NOW = 1_700_000_000_000
DAY = 86_400_000
LIMITS = Limits(value_chars=4000, lock_timeout_s=0.1, proposal_ttl_s=20_000)
WRITES = 200

# What stands in a folder ------------------------------------------------------------------------


def opened(folder, now=lambda: NOW, **options):
    """Open the store in `folder` with a clock and ids of its own, the same each time."""
    ids = itertools.count(1)
    options = {"limits": LIMITS, "clock": now, "new_id": lambda: f"p{next(ids)}"} | options
    return MemoryStore.open(folder, **options)


def state(folder):
    """Return every row of every table.

    Left out are the mark of what is still to be erased, and the ids of proposals: a try that
    fails may have used one up.
    """
    path = Path(folder) / "memory.sqlite3"
    if not path.exists():
        return None
    with closing(sqlite3.Connection(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")  # one moment of the file, whoever writes meanwhile
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        rows = {
            name: connection.execute(f"SELECT * FROM {name}").fetchall()
            for (name,) in sorted(tables.fetchall())
        }
        version = connection.execute("PRAGMA user_version").fetchone()
    if "meta" in rows:
        rows["meta"] = [row for row in rows["meta"] if row[0] != "erase_pending"]
        rows["proposal"] = [row[:2] + row[3:] for row in rows["proposal"]]
    return rows | {"version": version}


def text(name, length=3000):
    """Return a value that is found again in a file, and long enough to need pages of its own."""
    return f"marker-{name}- ".ljust(length, "x")


def markers_in_files(folder):
    """Return every marker that stands in the bytes of any file of the folder."""
    found = (re.findall(rb"marker-[a-z0-9.]+-", path.read_bytes()) for path in folder.iterdir())
    return {marker.decode() for each in found for marker in each}


def markers_in(rows):
    """Return every marker that stands in these rows."""
    return set(re.findall(r"marker-[a-z0-9.]+-", repr(rows)))


# One change of each kind ------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A folder as it is before, and one call that changes it.

    Attributes:
        opening: The opening itself is the change; `act` does nothing.
        options: What the store is opened with.
    """

    start: Callable
    act: Callable
    opening: bool = False
    options: tuple = ()

    def open(self, folder, **options):
        """Open the store that is to be changed."""
        return opened(folder, **(dict(self.options) | options))


def _filled(folder):
    with opened(folder, lambda: NOW - 40 * DAY, create=True) as store:
        alice = store.for_user("alice", session="old")
        for n in range(3):
            alice.put("episode", f"e{n}", text(f"e{n}"))
    with opened(folder) as store:
        alice = store.for_user("alice", session="s1")
        for n in range(4):
            alice.put("note", f"k{n}", text(f"k{n}"))
            alice.put("note", f"k{n}", text(f"k{n}.again"))
        store.for_user("bob", session="s9").put("note", "k0", text("bob"))
        lent = alice.lend()
        lent.propose(Put("note", "k1", text("asked")))
        lent.propose(Delete("note", "k2"))
        alice.approvals.grant(Put("note", "granted", text("granted")))
        alice.approvals.grant(Delete("note", "k3"))
        lent.propose(Put("preference", "style", text("style")))


def _old(journal):
    def start(folder):
        folder.mkdir()
        path = folder / "memory.sqlite3"
        with closing(sqlite3.connect(path, isolation_level=None)) as old:
            old.execute("PRAGMA synchronous = OFF")
            old.execute("PRAGMA page_size = 1024")
            old.execute(f"PRAGMA journal_mode = {journal}")
            old.execute(
                "CREATE TABLE memory (user_id TEXT, kind TEXT, memory_key TEXT, value TEXT,"
                " source_session TEXT, revision INTEGER)"
            )
            old.executemany(
                "INSERT INTO memory VALUES (?, 'general', ?, ?, 's', 3)",
                [(f"user{n % 2}", f"k{n}", text(f"k{n}")) for n in range(6)],
            )
            old.execute("PRAGMA user_version = 1")

    return start


def _hand(store):
    return store.for_user("alice", session="s2")


def _imported(store):
    line = '{{"version": 1, "kind": "project", "key": "i{n}", "value": "{value}"}}'
    lines = [line.format(n=n, value=text(f"i{n}")) for n in range(3)]
    return _hand(store).import_lines(lines)


def _touched(store):
    alice = _hand(store)
    alice.touch(alice.list())


CHANGES = {
    "put": Change(_filled, lambda store: _hand(store).put("note", "new", text("new"))),
    "replace": Change(_filled, lambda store: _hand(store).put("note", "k0", text("newer"))),
    "undo": Change(_filled, lambda store: _hand(store).undo("note", "k0", 1)),
    "pin": Change(_filled, lambda store: _hand(store).pin("note", "k0")),
    "touch": Change(_filled, _touched),
    "delete": Change(_filled, lambda store: _hand(store).delete("note", "k0")),
    "propose": Change(
        _filled, lambda store: _hand(store).lend().propose(Put("note", "k0", text("wished")))
    ),
    "grant": Change(
        _filled, lambda store: _hand(store).approvals.grant(Put("note", "k0", text("given")))
    ),
    "apply": Change(
        _filled, lambda store: _hand(store).lend().apply(Put("note", "granted", text("granted")))
    ),
    "apply_delete": Change(_filled, lambda store: _hand(store).lend().apply(Delete("note", "k3"))),
    "approve": Change(_filled, lambda store: _hand(store).approvals.approve("p1")),
    "approve_edited": Change(
        _filled, lambda store: _hand(store).approvals.approve("p1", value=text("edited"))
    ),
    "approve_delete": Change(_filled, lambda store: _hand(store).approvals.approve("p2")),
    "reject": Change(_filled, lambda store: _hand(store).approvals.reject("p1", "not now")),
    "revoke": Change(_filled, lambda store: _hand(store).approvals.revoke("p3")),
    "forget": Change(_filled, lambda store: _hand(store).forget(Policy())),
    "forget_everything": Change(_filled, lambda store: _hand(store).forget_everything()),
    "import": Change(_filled, _imported),
    "reindex": Change(
        _filled,
        lambda store: _hand(store).reindex(progress=lambda done, total: None),
        options=(("embedder", HashEmbedder()),),
    ),
    "migration": Change(_old("DELETE"), lambda store: None, opening=True),
    "migration_of_a_log": Change(_old("WAL"), lambda store: None, opening=True),
    "creation": Change(
        lambda folder: folder.mkdir(),
        lambda store: None,
        opening=True,
        options=(("create", True),),
    ),
}


def attempt(change, folder, store):
    """Make a change, in a store that is open or by opening one; return what it raised."""
    try:
        if store is None:
            change.open(folder).close()
        else:
            change.act(store)
    except Exception as error:
        return error
    return None


@dataclass(frozen=True)
class Clean:
    """A change as it goes when nothing fails.

    Attributes:
        start: A folder as it is before, to copy.
        before, after: What stands in it before and after.
        statements: What is run on the way.
        bytes: How large the file is then.
    """

    start: Path
    before: dict
    after: dict
    statements: list
    bytes: int

    @property
    def commit(self):
        """The number of the statement that makes it durable, counted from 1."""
        ends = [n for n, sql in enumerate(self.statements, start=1) if sql == "COMMIT"]
        return ends[-1] if ends else None


def clean_run(name, root):
    """Make a change in a folder of its own below `root`, and return how it went."""
    change, start, done = CHANGES[name], root / name, root / f"{name}-done"
    change.start(start)
    shutil.copytree(start, done)
    statements = []
    with watched_connections():
        store = None if change.opening else change.open(done)
        with striking(lambda connection, sql: statements.append(sql)):
            assert attempt(change, done, store) is None
        if store is not None:
            store.close()
    size = (done / "memory.sqlite3").stat().st_size
    clean = Clean(start, state(start), state(done), statements, size)
    assert clean.before != clean.after
    return clean


# 200 writes -------------------------------------------------------------------------------------


class Writer:
    """Makes the same mixed writes in the same order whoever runs it, one transaction each."""

    def __init__(self, folder, seed):
        self.now = NOW
        self.store = opened(folder, lambda: self.now, create=True)
        self.chance = random.Random(seed)

    def step(self, n):
        """Make the n-th write: a put, a deletion, an import, a decision, ..."""
        self.now += 20 * 60_000
        alice = self.store.for_user("alice", session=f"s{n}")
        lent, hand = alice.lend(), alice.approvals
        chance = self.chance
        key = f"k{chance.randrange(20)}"
        value = text(n, chance.randrange(20, 900))
        waiting = [proposal.id for proposal in hand.pending()]
        approved = [proposal.change for proposal in lent.approved()]
        what = chance.choice(("put",) * 4 + ("delete", "ask", "grant", "import", "decide", "use"))
        with suppress(Conflict, NotApproved):  # the record has moved: that is written down too
            if what == "delete":
                alice.delete("note", key)
            elif what == "ask":
                lent.propose(Put("note", key, value))
            elif what == "grant":
                hand.grant(Put("note", key, value))
            elif what == "import":
                line = '{{"version": 1, "kind": "note", "key": "{}", "value": "{}"}}'
                alice.import_lines([line.format(f"i{n}.{i}", f"{value}{i}") for i in range(3)])
            elif what == "decide" and waiting:
                if chance.random() < 0.7:
                    hand.approve(waiting[0])
                else:
                    hand.reject(waiting[0])
            elif what == "use" and approved:
                lent.apply(approved[0])
            elif n % 50 == 49:
                alice.forget(Policy(idle_days=0.5))
            else:
                alice.put("note", key, value)


# Striking ---------------------------------------------------------------------------------------


class Striking(sqlite3.Connection):
    """Tells `before` of each statement that the package itself runs, just before it runs.

    It does not wait for the disk: that is there against a power cut, and thousands of faults
    would take minutes.
    """

    before = None

    def execute(self, sql, *args):
        if sql == "PRAGMA synchronous = FULL":
            sql = "PRAGMA synchronous = OFF"
        if Striking.before is not None:
            Striking.before(self, sql)
        return super().execute(sql, *args)

    def executescript(self, sql):
        if Striking.before is not None:
            Striking.before(self, sql)
        return super().executescript(sql)

    def undo(self):
        """Roll back as SQLite itself does after some errors."""
        if self.in_transaction:
            super().execute("ROLLBACK")


@contextmanager
def striking(before):
    """Call `before(connection, sql)` before each statement of this block."""
    Striking.before = before
    try:
        yield
    finally:
        Striking.before = None


@contextmanager
def watched_connections():
    """Let every connection that is made in this block be one that strikes."""
    plain = sqlite3.connect
    sqlite3.connect = functools.partial(plain, factory=Striking)
    try:
        yield
    finally:
        sqlite3.connect = plain


def failure(text, code):
    """Return an error as SQLite raises it."""
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


def die():
    """End this process as `kill -9` does: nothing is flushed, closed or rolled back."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def die_before(at):
    """Return a `before` that kills the process before the at-th statement."""
    seen = itertools.count(1)

    def before(connection, sql):
        if next(seen) == at:
            die()

    return before


def die_while_writing(most_bytes):
    """Let the kernel kill this process in the middle of the write that makes a file longer."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))


def main(folder, what, how, at):
    """Make one change, or the 200 writes of a seed, and die as told; say what is done.

    Args:
        how: `statement` or `bytes`, which `at` counts; `time`: whoever started this kills it.
    """
    change = CHANGES.get(what)
    folder = Path(folder)
    if how != "time":
        sqlite3.connect = functools.partial(sqlite3.connect, factory=Striking)
    writer = None if change else Writer(folder, int(what))
    store = change.open(folder) if change and not change.opening else None
    print("ready", flush=True)
    if how == "bytes":
        die_while_writing(int(at))
    with striking(die_before(int(at)) if how == "statement" else None):
        if change:
            if attempt(change, folder, store) is None:
                print("done", flush=True)
        else:
            for n in range(WRITES):
                writer.step(n)
                print(n, flush=True)
    if store is not None:
        store.close()
