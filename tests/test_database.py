import asyncio
import contextlib
import hashlib
import os
import random
import sqlite3
import stat
import sys
import threading
import time
from contextlib import closing

import pytest

from memlab import (
    InvalidInput,
    Limits,
    MemlabError,
    MemoryStore,
    Put,
    QuotaReached,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreMissing,
    StoreTooNew,
    rows,
)

needs_modes = pytest.mark.skipif(sys.platform == "win32", reason="no POSIX modes there")


def files(folder):
    """Return the hash of every file in the folder."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if not path.name.endswith("-shm")  # an index that SQLite makes anew as it likes
    }


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def filled(reopen, folder):
    """A closed store with Alice's records in it; returns its file."""
    with reopen() as store:
        alice = store.for_user("alice", session="s1")
        for n in range(20):
            alice.put("note", f"k{n}", f"value {n} " + "x" * 480)
    return folder / "memory.sqlite3"


def refuses(folder, error, **options):
    """Open the folder in every way and see it refused, with nothing changed."""
    before = files(folder)
    messages = []
    for more in ({}, {"create": True}, {"read_only": True}):
        with pytest.raises(error) as refused:
            MemoryStore.open(folder, **options, **more)
        messages.append(str(refused.value))
        assert str(folder) not in messages[-1]
        assert files(folder) == before
    return messages[0]


# Made, or missed --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"read_only": True}, {"create": True, "read_only": True}])
def test_reading_never_makes_a_store(tmp_path, options):
    with pytest.raises(StoreMissing, match="create=True"):
        MemoryStore.open(tmp_path / "nowhere", **options)
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreMissing):
        MemoryStore.open(tmp_path / "empty", **options)
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_a_new_store_is_one_file_in_its_folder(store, folder, tmp_path):
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    store.close()
    assert [path.name for path in folder.iterdir()] == ["memory.sqlite3"]


@needs_modes
def test_nobody_else_can_read_the_folder_or_a_file_of_it(folder, reopen):
    before = os.umask(0)
    try:
        alice = reopen().for_user("alice", "s1")
        alice.put("note", "k", "v")
    finally:
        os.umask(before)
    assert mode(folder) == 0o700
    assert {mode(path) for path in folder.iterdir()} == {0o600}


def test_the_folder_can_be_removed_right_after_closing(store, alice, folder):
    alice.put("note", "k", "v")
    store.close()
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_a_closed_store_says_so_and_closing_twice_does_no_harm(store, alice):
    store.close()
    store.close()
    for act in (alice.list, lambda: alice.put("note", "k", "v"), store.stats, store.verify):
        with pytest.raises(StoreError, match="closed"):
            act()


@pytest.mark.parametrize("folder", ["", None, 5, b"x", "a\0b"])
def test_a_folder_must_be_a_path(folder):
    with pytest.raises(InvalidInput, match="folder"):
        MemoryStore.open(folder, create=True)


def test_a_folder_with_odd_characters_is_a_folder(tmp_path):
    odd = tmp_path / "50% #1 übung 语 'x' & y"
    with MemoryStore.open(odd, create=True) as store:
        store.for_user("alice", "s1").put("note", "k", "v")
    with MemoryStore.open(odd, read_only=True) as store:
        assert store.stats()["records"] == 1


def test_where_no_folder_can_be_the_refusal_says_so(tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(StoreError, match="cannot be made") as error:
            MemoryStore.open(folder, create=True)
        assert str(tmp_path) not in str(error.value)
    assert (tmp_path / "file").read_text() == "mine"


def test_symbolic_links_are_refused(filled, folder, tmp_path):
    link = tmp_path / "link"
    try:
        link.symlink_to(folder, target_is_directory=True)
    except OSError:
        pytest.skip("links cannot be made here")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "memory.sqlite3").symlink_to(filled)
    (tmp_path / "dangling").mkdir()
    (tmp_path / "dangling" / "memory.sqlite3").symlink_to(tmp_path / "target")
    for place in (link, tmp_path / "other", tmp_path / "dangling"):
        with pytest.raises(InvalidInput, match="symbolic link"):
            MemoryStore.open(place, create=True)
    assert not (tmp_path / "target").exists()


def test_what_is_no_file_is_no_store(folder):
    (folder / "memory.sqlite3").mkdir(parents=True)
    with pytest.raises(StoreForeign, match="no regular file"):
        MemoryStore.open(folder, create=True)


# Damaged, foreign, newer ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: b"\0",
        lambda whole: b"x" * 100 + whole[100:],
        lambda whole: b"\xff" * len(whole),
        lambda whole: whole[:50],
        lambda whole: whole[:100],
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:-1],
        lambda whole: whole[:-4096],
        lambda whole: whole[:16] + b"\0" * 84 + whole[100:],
    ],
    ids=[
        *("empty", "one byte", "header", "all garbage", "half a header", "header only", "half"),
        *("last byte", "last page", "zeroed header"),
    ],
)
def test_a_damaged_file_is_refused_and_left_as_it_is(filled, folder, damage):
    filled.write_bytes(damage(filled.read_bytes()))
    refuses(folder, StoreDamaged)


def test_garbage_in_the_middle_raises_and_never_looks_like_nothing(filled, reopen):
    whole = bytearray(filled.read_bytes())
    for page in range(1, len(whole) // 4096):
        whole[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    filled.write_bytes(whole)
    store = reopen(create=False, read_only=True)
    alice = store.for_user("alice", "s1")
    for read in (alice.list, lambda: alice.get("note", "k1"), lambda: alice.recall("value")):
        with pytest.raises(StoreDamaged):
            read()
    assert store.verify() != []
    store.close()
    assert filled.read_bytes() == whole


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
@pytest.mark.parametrize("version", [0, 1, 2, 3, 99])
@pytest.mark.parametrize("owner", [0, 12345])
def test_another_program_s_database_is_refused_and_left_as_it_is(folder, journal, version, owner):
    folder.mkdir()
    with closing(sqlite3.connect(folder / "memory.sqlite3", isolation_level=None)) as other:
        other.execute(f"PRAGMA journal_mode = {journal}")
        other.execute("CREATE TABLE diary (day TEXT, text TEXT)")
        other.execute("INSERT INTO diary VALUES ('today', 'dear diary')")
        other.execute(f"PRAGMA user_version = {version}")
        other.execute(f"PRAGMA application_id = {owner}")
    assert "other tables" in refuses(folder, StoreForeign)
    assert [path.name for path in folder.iterdir()] == ["memory.sqlite3"]


def test_another_program_s_database_in_use_is_refused_and_left_as_it_is(folder):
    folder.mkdir()
    with closing(sqlite3.connect(folder / "memory.sqlite3", isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE memory (user_id, note)")
        other.execute("PRAGMA user_version = 1")
        refuses(folder, StoreForeign)
        assert other.execute("PRAGMA user_version").fetchone() == (1,)


@pytest.mark.parametrize("version", [3, 1000])
def test_a_newer_store_is_refused_and_left_as_it_is(filled, folder, raw, version):
    raw(f"PRAGMA user_version = {version}")
    assert f"schema version {version}; this memlab reads up to 2" in refuses(folder, StoreTooNew)
    with closing(raw.connect()) as other:  # the same with its log beside it
        other.execute("INSERT INTO meta VALUES ('x', 1)")
        refuses(folder, StoreTooNew)


def test_a_store_without_its_tables_is_damaged(filled, folder, raw):
    raw("DROP TABLE tombstone")
    raw("INSERT INTO meta VALUES ('x', 1)")
    with closing(raw.connect()) as other:
        other.execute("INSERT INTO meta VALUES ('y', 1)")
        assert "without its tables" in refuses(folder, StoreDamaged)


# Held by another --------------------------------------------------------------------------------


def test_reading_needs_no_lock_while_another_program_writes(filled, program, reopen):
    holder = program(
        "import sqlite3, sys\n"
        "other = sqlite3.connect(sys.argv[1] + '/memory.sqlite3', isolation_level=None)\n"
        "other.execute('BEGIN IMMEDIATE')\n"
        "other.execute('DELETE FROM memory')\n"
        "print('held', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    assert holder.stdout.readline() == "held\n"
    started = time.monotonic()
    for options in ({}, {"read_only": True}):
        store = reopen(create=False, limits=Limits(lock_timeout_s=0.2), **options)
        alice = store.for_user("alice", "s1")
        assert alice.get("note", "k1").value.startswith("value 1 ")
        assert len(alice.list()) == len(alice.search("value", limit=1000)) == 20
    assert time.monotonic() - started < 2
    with pytest.raises(StoreBusy, match=r"more than 0\.2 s") as error:
        reopen(limits=Limits(lock_timeout_s=0.2)).for_user("alice", "s1").put("note", "k", "v")
    assert error.value.seconds == 0.2
    holder.communicate("done\n")


def test_a_file_held_exclusively_is_busy_soon_and_left_as_it_is(filled, folder, raw):
    with closing(raw.connect()) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        before = filled.read_bytes()
        started = time.monotonic()
        for options in ({}, {"read_only": True}):
            with pytest.raises(StoreBusy):
                MemoryStore.open(folder, limits=Limits(lock_timeout_s=0.1), **options)
        assert time.monotonic() - started < 3
        assert filled.read_bytes() == before


def test_a_store_in_use_without_its_log_is_used_without_it(filled, reopen, raw):
    raw("PRAGMA journal_mode = DELETE")
    with closing(raw.connect()) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM memory").fetchall()
        store = reopen(limits=Limits(lock_timeout_s=0.1))
        assert store.stats()["journal"] == "delete"
        assert len(store.for_user("alice", "s1").list()) == 20
        other.execute("ROLLBACK")
    alice = store.for_user("alice", "s1")
    alice.put("note", "new", "v")
    assert alice.delete("note", "k1")
    assert not store.stats()["erase_pending"]
    assert reopen().stats()["journal"] == "wal"


def test_a_read_only_opening_refuses_every_write_and_changes_nothing(filled, folder, reopen):
    before = files(folder)
    store = reopen(create=False, read_only=True)
    alice = store.for_user("alice", "s1")
    record = alice.get("note", "k1")
    for write in (
        lambda: alice.put("note", "k", "v"),
        lambda: alice.delete("note", "k1"),
        lambda: alice.touch([record]),
        lambda: alice.lend().propose(Put("note", "k", "v")),
        alice.forget_everything,
        store.compact,
    ):
        with pytest.raises(StoreError, match=r"read only|only be read"):
            write()
    assert store.stats()["journal"] == "wal"
    store.close()
    assert {name: files(folder)[name] for name in before} == before


@needs_modes
def test_a_folder_that_cannot_be_written_can_be_read(filled, folder, reopen):
    folder.chmod(0o500)
    try:
        if os.access(folder, os.W_OK):
            pytest.skip("this user may write everywhere")
        store = reopen(create=False, read_only=True)
        assert len(store.for_user("alice", "s1").list()) == 20
        store.close()
    finally:
        folder.chmod(0o700)


# Full -------------------------------------------------------------------------------------------

ROOMY = {"records_per_user": 10**6, "records_total": 10**6}


def test_a_full_file_refuses_what_is_new_and_loses_nothing(reopen):
    limits = Limits(database_bytes=150_000, **ROOMY)
    alice = reopen(limits=limits).for_user("alice", "s1")
    stored = {}

    def fill():
        for n in range(10_000):
            stored[f"k{n}"] = f"{n} " + "x" * 300
            alice.put("note", f"k{n}", stored[f"k{n}"])

    with pytest.raises(QuotaReached, match="Delete something") as error:
        fill()
    stored.popitem()
    assert (error.value.what, error.value.limit) == ("database_bytes", 150_000)
    assert {each.key: each.value for each in alice.list()} == stored
    again = reopen(limits=limits)
    assert again.stats()["database_bytes"] <= 150_000
    assert again.verify() == []


def test_in_a_full_file_everything_can_still_be_deleted(reopen, standing):
    store = reopen(limits=Limits(database_bytes=100_000, **ROOMY))
    alice = store.for_user("alice", "s1")

    def key(n):  # long, so that the tombstones soon need a page of their own
        return f"k{n:05}".ljust(64, "x")

    def fill(n):
        try:
            while True:
                alice.put("note", key(n), f"marker-{n} " + "x" * (n * 37 % 300))
                n += 1
        except QuotaReached:
            return n

    n, chance = fill(0), random.Random(0)
    for each in chance.sample(range(n), 60):
        assert alice.delete("note", key(each))
        assert standing(f"marker-{each} ") == []
        n = fill(n)
    assert store.stats()["database_bytes"] <= 100_000 + 64 * 4096
    assert alice.forget_everything() > 0
    assert alice.put("note", "k", "v").revision == 1


def test_a_limit_below_the_present_size_still_lets_delete(filled, reopen):
    store = reopen(limits=Limits(database_bytes=1))
    alice = store.for_user("alice", "s1")
    fitted = 0
    with contextlib.suppress(QuotaReached):
        for fitted in range(20):
            alice.put("note", f"new{fitted}", "x" * 500)
    assert fitted < 19
    assert alice.delete("note", "k1")


# Version 1 --------------------------------------------------------------------------------------

OLD = [
    ("alice", "user_pref", "style", "short answers", "s1", 3),
    ("alice", "project_info", "style", "cafe\u0301 语言", "s2", 1),
    ("bob", "tech_decision", "db", "SQLite", "s9", 12),
    ("bob", "general", "k", "x", "s9", 1),
    ("bob", "episode", "k", "y", "s9", 2),
]


def make_old(folder, rows=OLD, journal="DELETE", page_size=4096):
    """Write a version 1 file and return its connection, still open."""
    folder.mkdir()
    other = sqlite3.connect(folder / "memory.sqlite3", isolation_level=None)
    other.execute(f"PRAGMA page_size = {page_size}")
    other.execute(f"PRAGMA journal_mode = {journal}")
    other.execute(
        "CREATE TABLE memory (user_id TEXT, kind TEXT, memory_key TEXT, value TEXT,"
        " source_session TEXT, revision INTEGER)"
    )
    other.executemany("INSERT INTO memory VALUES (?, ?, ?, ?, ?, ?)", rows)
    other.execute("PRAGMA user_version = 1")
    return other


def carried(store):
    return [
        (user, each.kind, each.key, each.value, each.session, each.revision)
        for user in store.users()
        for each in store.for_user(user, "s").list()
    ]


EXPECTED = [
    ("alice", "preference", "style", "short answers", "s1", 3),
    ("alice", "project", "style", "café 语言", "s2", 1),
    ("bob", "decision", "db", "SQLite", "s9", 12),
    ("bob", "episode", "k", "y", "s9", 2),
    ("bob", "note", "k", "x", "s9", 1),
]


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_a_version_1_file_is_carried_over_whole(folder, reopen, clock, journal, page_size):
    make_old(folder, journal=journal, page_size=page_size).close()
    store = reopen(create=False)
    assert sorted(carried(store)) == sorted(EXPECTED)
    assert store.verify() == []
    assert store.stats()["journal"] == "wal"
    alice = store.for_user("alice", "s3")
    assert alice.get("preference", "style").created == clock.now
    assert alice.put("preference", "style", "long answers").revision == 4
    assert [each.key for each in alice.search("CAFÉ")] == ["style"]


@needs_modes
def test_a_migrated_file_is_closed_to_others(folder, reopen):
    make_old(folder).close()
    (folder / "memory.sqlite3").chmod(0o644)
    reopen().for_user("alice", "s1").put("note", "k", "v")
    assert {mode(path) for path in folder.iterdir()} == {0o600}


def test_what_stands_only_in_the_log_of_a_version_1_file_is_carried_too(folder, reopen, program):
    make_old(folder, journal="WAL").close()
    dying = program(
        "import os, sqlite3, sys\n"
        "other = sqlite3.connect(sys.argv[1] + '/memory.sqlite3', isolation_level=None)\n"
        "other.execute(\"INSERT INTO memory VALUES ('eve', 'general', 'k', 'v', 's', 1)\")\n"
        "os._exit(9)\n"
    )
    assert dying.wait() == 9
    assert (folder / "memory.sqlite3-wal").stat().st_size > 0
    assert ("eve", "note", "k", "v", "s", 1) in carried(reopen(create=False))


def test_a_version_1_file_that_died_writing_is_rolled_back_and_carried(folder, reopen, program):
    rows = [("alice", "general", f"k{n}", f"old {n} " + "x" * 300, "s", 1) for n in range(60)]
    make_old(folder, rows=rows).close()
    dying = program(
        "import os, sqlite3, sys\n"
        "other = sqlite3.connect(sys.argv[1] + '/memory.sqlite3', isolation_level=None)\n"
        "other.execute('PRAGMA cache_size = 2')\n"
        "other.execute('BEGIN IMMEDIATE')\n"
        "other.execute(\"UPDATE memory SET value = 'half written' || value\")\n"
        "os._exit(9)\n"
    )
    assert dying.wait() == 9
    assert (folder / "memory.sqlite3-journal").stat().st_size > 0
    assert b"half written" in (folder / "memory.sqlite3").read_bytes()
    store = reopen(create=False)
    assert sorted(row[3] for row in carried(store)) == sorted(row[3] for row in rows)


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
@pytest.mark.parametrize(
    "bad",
    [
        ("alice", "diary", "k", "v", "s", 1),
        ("alice", "general", "Bad Key", "v", "s", 1),
        ("alice", "general", "k", "", "s", 1),
        ("alice", "general", "k", None, "s", 1),
        ("alice", "general", "k", b"\xff", "s", 1),
        ("alice", "general", "k", "v", "s", 0),
        ("alice", "general", "k", "v", "s", "one"),
        ("a b", "general", "k", "v", "s", 1),
        ("bob", "note", "k", "twice", "s", 1),
    ],
)
def test_a_version_1_file_that_cannot_be_carried_whole_is_left_as_it_is(folder, bad, journal):
    make_old(folder, rows=[*OLD, bad], journal=journal).close()
    before = files(folder)
    with pytest.raises(StoreDamaged, match="version 1 row"):
        MemoryStore.open(folder, create=True)
    assert files(folder) == before


def test_even_its_log_is_left_as_it_is(folder, program):
    make_old(folder, journal="WAL").close()
    dying = program(
        "import os, sqlite3, sys\n"
        "other = sqlite3.connect(sys.argv[1] + '/memory.sqlite3', isolation_level=None)\n"
        "other.execute(\"INSERT INTO memory VALUES ('eve', 'diary', 'k', 'v', 's', 1)\")\n"
        "os._exit(9)\n"
    )
    dying.wait()
    before = files(folder)
    assert len(before) == 2
    with pytest.raises(StoreDamaged, match="diary"):
        MemoryStore.open(folder)
    assert files(folder) == before


def test_a_version_1_file_cannot_be_migrated_by_reading(folder):
    make_old(folder).close()
    before = files(folder)
    with pytest.raises(StoreError, match="Open it once for writing"):
        MemoryStore.open(folder, read_only=True)
    assert files(folder) == before


def test_a_version_1_file_too_large_for_the_limit_is_left_as_it_is(folder):
    rows = [("alice", "general", f"k{n}", "x" * 500, "s", 1) for n in range(200)]
    make_old(folder, rows=rows).close()
    before = files(folder)
    with pytest.raises(QuotaReached):
        MemoryStore.open(folder, limits=Limits(database_bytes=100_000))
    assert files(folder) == before


def interrupted(line):
    """Trace a migration, and stop it at its n-th line as Ctrl-C would."""
    left = [line]

    def trace(frame, event, argument):
        if frame.f_code.co_name not in ("_migrate_1_to_2", "_statements"):
            return None if event != "call" else trace
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    return trace


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_an_interrupted_migration_leaves_the_old_file_whole(folder, journal):
    make_old(folder, journal=journal).close()
    before = (folder / "memory.sqlite3").read_bytes()
    stopped = 0
    for line in range(1, 2000, 23):
        sys.settrace(interrupted(line))
        try:
            MemoryStore.open(folder).close()
            break
        except KeyboardInterrupt:
            stopped += 1
        finally:
            sys.settrace(None)
        assert (folder / "memory.sqlite3").read_bytes() == before
    assert stopped > 5
    with MemoryStore.open(folder) as store:
        assert sorted(carried(store)) == sorted(EXPECTED)


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_a_migration_that_was_killed_is_done_anew(folder, reopen, program, journal):
    make_old(folder, journal=journal).close()
    dying = program(
        "import linecache, os, sys\n"
        "from memlab import MemoryStore\n"
        "def trace(frame, event, argument):\n"
        "    if frame.f_code.co_name == '_migrate_1_to_2' and event == 'line':\n"
        "        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)\n"
        "        if 'user_version' in line:\n"
        "            os._exit(9)\n"
        "    return trace\n"
        "sys.settrace(trace)\n"
        "MemoryStore.open(sys.argv[1])\n"
    )
    assert dying.wait() == 9
    assert sorted(carried(reopen(create=False))) == sorted(EXPECTED)


def test_two_programs_can_migrate_at_once(folder, program):
    make_old(folder).close()
    code = (
        "import sys\n"
        "from memlab import MemoryStore\n"
        "sys.stdin.readline()\n"
        "with MemoryStore.open(sys.argv[1]) as store:\n"
        "    print(len(store.users()), store.verify())\n"
    )
    both = [program(code) for _ in range(4)]
    for each in both:
        each.stdin.write("go\n")
        each.stdin.flush()
    assert [each.communicate()[0] for each in both] == ["2 []\n"] * 4


# Transactions -----------------------------------------------------------------------------------


def test_a_store_can_be_used_from_another_thread(store, alice):
    failed = []

    def work(n):
        try:
            for i in range(10):
                alice.put("note", f"t{n}.{i}", f"value {i}")
                assert alice.get("note", f"t{n}.{i}").value == f"value {i}"
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(alice.list()) == 60
    assert store.verify() == []


def test_a_writer_never_shows_another_thread_half_of_a_change(reopen):
    alice = reopen().for_user("alice", "s1")
    alice.put("note", "k", "0")
    seen, done = [], threading.Event()

    def watch():
        while not done.is_set():
            record, history = alice.get("note", "k"), alice.history("note", "k")
            seen.append((record.revision, history[-1].revision >= record.revision))

    watcher = threading.Thread(target=watch)
    watcher.start()
    for n in range(1, 60):
        alice.put("note", "k", str(n))
    done.set()
    watcher.join()
    assert seen
    assert all(whole for _, whole in seen)


class Interrupting:
    """A clock that strikes as Ctrl-C or a cancelled task would, in the middle of a transaction."""

    def __init__(self):
        self.error = None

    def __call__(self):
        if self.error is not None:
            raise self.error
        return 1_700_000_000_000


def can_write(connection):
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")


def test_an_interrupted_write_is_undone_and_holds_nobody_up(reopen, raw, dump):
    clock = Interrupting()
    store = reopen(clock=clock)
    alice = store.for_user("alice", "s1")
    alice.put("note", "k", "v")
    alice.approvals.grant(Put("note", "k", "w"))
    before = dump()
    for error in (KeyboardInterrupt, asyncio.CancelledError, RuntimeError, SystemExit):
        clock.error = error
        for act in (
            lambda: alice.put("note", "k", "x"),
            lambda: alice.lend().apply(Put("note", "k", "w")),
            lambda: alice.lend().propose(Put("note", "other", "w")),
            lambda: alice.approvals.grant(Put("note", "n", "v")),
        ):
            with pytest.raises(error):
                act()
            with closing(raw.connect()) as other:
                can_write(other)
            assert dump() == before
    clock.error = None
    assert alice.lend().apply(Put("note", "k", "w")).effect == "replaced"


def test_wherever_ctrl_c_strikes_a_write_is_whole_or_undone(reopen, raw):
    """Strike at each line of the package that a `put` runs through."""
    store = reopen()
    alice = store.for_user("alice", "s1")
    alice.put("note", "k", "0")
    left_open = []
    for line in range(1, 500):
        struck = _put_struck_at(alice, line)
        with closing(raw.connect()) as other:
            try:
                can_write(other)
            except sqlite3.OperationalError:
                left_open.append(line)
            (stored, kept) = other.execute(
                "SELECT value, (SELECT count(*) FROM revision) FROM memory"
            ).fetchone()
        record = alice.put("note", "k", f"after {line}")
        assert record.revision == kept + 2
        assert stored in (f"struck {line}", f"after {line - 1}", "0")
        if not struck:
            break
    else:
        pytest.fail("a put ran through more lines than were tried")
    assert line > 40
    assert len(left_open) <= 3  # on its way to the COMMIT: then the next write undoes it
    assert store.verify() == []


def _put_struck_at(alice, line):
    left = [line]

    def trace(frame, event, argument):
        if "memlab" not in frame.f_code.co_filename:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        alice.put("note", "k", f"struck {line}")
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return left[0] <= 0


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM nothing", "INSERT INTO memory (user) VALUES ('x')", "not SQL"]
)
def test_an_error_of_sqlite_is_an_error_of_the_store(store, alice, sql):
    database = alice._scope.database
    with pytest.raises(StoreError), database.transaction() as file:
        file.execute(sql)
    with pytest.raises(StoreError):
        database.read(sql)
    assert rows.users(database) == []


# What the store says about itself ---------------------------------------------------------------


def test_reading_writes_nothing(alice, folder, store):
    for n in range(10):
        alice.put("note", f"k{n}", f"value {n}")
    lent = alice.lend()
    connection = alice._scope.database._live()
    before, counted = files(folder), connection.total_changes
    for hand in (alice, lent):
        hand.get("note", "k1")
        hand.get("note", "missing")
        hand.list()
        hand.search("value")
        hand.recall("value 3")
        hand.history("note", "k1")
    lent.proposal("p1")
    lent.approved()
    list(alice.export())
    alice.approvals.pending()
    alice.approvals.ledger()
    alice.stats()
    store.stats()
    store.users()
    assert store.verify() == []
    assert connection.total_changes == counted
    assert files(folder) == before


def test_the_facts_of_the_store_can_be_told(store, alice):
    alice.put("note", "k", "v")
    alice.put("preference", "k", "v")
    facts = store.stats()
    assert facts["schema_version"] == 2
    assert (facts["records"], facts["users"], facts["journal"]) == (2, 1, "wal")
    assert facts["by_kind"] == {
        "preference": 1, "episode": 0, "project": 0, "decision": 0, "note": 1
    }  # fmt: skip
    assert not facts["erase_pending"]


def test_every_refusal_of_the_package_is_one_of_its_own_errors(tmp_path):
    for options in ({"embedder": object()}, {"limits": Limits(), "embedder": 1}):
        with pytest.raises(MemlabError):
            MemoryStore.open(tmp_path / "x", create=True, **options)
    assert not (tmp_path / "x").exists()
