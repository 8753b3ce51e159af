"""What most tests begin with: a clock that stands still, a store, and Alice's own hand on it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

import memlab
from memlab import MemoryStore

CHECKOUT = Path(memlab.__file__).resolve().parent.parent


class Clock:
    """Says what it is told, in milliseconds since 1970, and moves only when it is moved."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now

    def forward(self, seconds: float = 0, days: float = 0) -> None:
        self.now += int(seconds * 1000 + days * 86_400_000)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def reopen(folder, clock):
    """Open the store of this test, once more or anew; ids are p1, p2, ... for each opening."""
    opened = []

    def open_store(**options):
        ids = count(1)
        options = {"create": True, "clock": clock, "new_id": lambda: f"p{next(ids)}"} | options
        opened.append(MemoryStore.open(folder, **options))
        return opened[-1]

    yield open_store
    for each in opened:
        each.close()


@pytest.fixture
def store(reopen):
    return reopen()


@pytest.fixture
def alice(store):
    return store.for_user("alice", session="s1")


@pytest.fixture
def raw(folder):
    """Run SQL past memlab, as another program would; `raw.connect()` gives a connection."""

    def connect(mode="rw"):
        path = folder / "memory.sqlite3"
        return sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None)

    def run(sql, *args):
        with closing(connect()) as connection:
            return connection.execute(sql, args).fetchall()

    run.connect = connect
    return run


@pytest.fixture
def dump(raw):
    """Return every row of every table, or those of one user."""

    def everything(user=None):
        found = {}
        with closing(raw.connect("ro")) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (table,) in tables.fetchall():
                cursor = connection.execute(f"SELECT * FROM {table}")
                columns = [column[0] for column in cursor.description]
                for row in cursor.fetchall():
                    named = dict(zip(columns, row, strict=True))
                    if user is None or named.get("user") == user:
                        found.setdefault(table, []).append(row)
        return found

    return everything


@pytest.fixture
def standing(folder):
    """Return the names of the files in which the bytes of a text still stand."""

    def look(text):
        marker = text.encode()
        return [path.name for path in folder.iterdir() if marker in path.read_bytes()]

    return look


@pytest.fixture
def program(folder):
    """Start Python code as a program of its own; `sys.argv[1]` is the data folder."""
    started = []

    def start(code, *args, prefix=()):
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONIOENCODING": "utf-8"}
        command = [*prefix, sys.executable, "-c", code, str(folder), *map(str, args)]
        pipe = subprocess.PIPE
        started.append(
            subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        )
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()
