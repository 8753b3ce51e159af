"""What holds when the disk fails or is full, the file is locked, may not be written, or is gone."""

import functools
import itertools
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import CHECKOUT
from crash_changes import (
    CHANGES,
    LIMITS,
    attempt,
    clean_run,
    failure,
    markers_in,
    markers_in_files,
    opened,
    resource,
    state,
    striking,
    text,
    watched_connections,
)

from memlab import HashEmbedder, Put, QuotaReached, StoreBusy, StoreError

NIGHTLY = os.environ.get("MEMLAB_PROFILE") == "nightly"
WITHIN = [name for name, change in CHANGES.items() if not change.opening]
PAGE = 4096


@pytest.fixture(scope="module", autouse=True)
def watched():
    with watched_connections():
        yield


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """Return a change as it goes when nothing fails; each is made once."""
    root = tmp_path_factory.mktemp("clean")
    return functools.cache(lambda name: clean_run(name, root))


@pytest.fixture
def trial(clean, tmp_path):
    """Make a change while `fault(folder, store)` holds; return what it raised and what is wrong."""
    numbers = itertools.count()

    def run(name, fault, root=tmp_path):
        change, folder = CHANGES[name], root / str(next(numbers))
        shutil.copytree(clean(name).start, folder)
        try:
            store = None if change.opening else change.open(folder)
            try:
                with fault(folder, store):
                    raised = attempt(change, folder, store)
                broken = broken_promise(name, clean(name), folder, store, raised)
            finally:
                if store is not None:
                    store.close()
            broken = broken or broken_later(name, clean(name), folder)
        finally:
            shutil.rmtree(folder)
        return raised, broken

    return run


def broken_promise(name, clean, folder, store, raised):
    """Say what is not as promised right after a fault; '' is good."""
    change = CHANGES[name]
    if raised is not None and not isinstance(raised, StoreError):
        return f"raised {raised!r}"
    if locked(folder):
        return "the write lock was kept"
    found = state(folder)
    if raised is None and found != clean.after:
        return "lost in silence"
    if raised is not None and found != clean.before:
        if found != clean.after:
            return "half done"
        if not change.opening:  # an opening that fails later may have migrated already
            return f"done, but raised {raised!r}"
    if raised is not None:
        again = attempt(change, folder, store)
        if again is not None:
            return f"not usable afterwards: {again!r}"
        if state(folder) != clean.after:
            return "the next try did something else"
    return ""


def broken_later(name, clean, folder):
    """Say what is not as promised once the store is opened again; '' is good."""
    with CHANGES[name].open(folder) as store:
        problems = store.verify()
    left = sorted(path.name for path in folder.iterdir())
    if left != ["memory.sqlite3"]:
        return f"left over: {left}"
    if problems:
        return f"verify: {problems}"
    if state(folder) != clean.after:
        return "gone when opened again"
    if markers_in_files(folder) != markers_in(clean.after):
        return "deleted text stands in a file"
    return ""


def locked(folder):
    """Say whether somebody holds the file's write lock."""
    path = folder / "memory.sqlite3"
    if not path.exists():
        return False
    with closing(sqlite3.Connection(path, timeout=0, isolation_level=None)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return True
    return False


# An error at each statement ---------------------------------------------------------------------

SETTINGS = ("PRAGMA page_size", "PRAGMA max_page_count")
HOW = {
    "kept": "the transaction stays open",
    "undone": "SQLite has rolled it back, as it does after most errors of the disk",
    "full": "so does a full disk",
    "gone": "and no other statement works until the call is over",
}


class Failing:
    """Fails in the stead of the at-th statement, as `how` says."""

    def __init__(self, at, how, spared=SETTINGS):
        self.at, self.how, self.spared, self.seen = at, how, spared, 0

    def __call__(self, connection, sql):
        self.seen += 1
        if self.seen != self.at and not (self.how == "gone" and self.seen > self.at):
            return
        if self.seen > self.at and (sql == "ROLLBACK" or sql.startswith(self.spared)):
            return  # these touch no disk
        if self.how != "kept":
            connection.undo()
        if self.how == "full":
            raise failure("database or disk is full", sqlite3.SQLITE_FULL)
        raise failure("disk I/O error", sqlite3.SQLITE_IOERR)


def erases(clean):
    return clean.statements[-1].startswith("PRAGMA max_page_count")


@pytest.mark.parametrize("name", CHANGES)
def test_an_error_at_any_statement_leaves_all_or_nothing(trial, clean, name):
    chance, broken, raised = random.Random(name), {}, set()
    statements = clean(name).statements
    if erases(clean(name)):
        statements = statements[: -len(SETTINGS)]
    for at, sql in enumerate(statements, start=1):
        for how in HOW if NIGHTLY else chance.sample(list(HOW), 2):
            failing = Failing(at, how)
            error, found = trial(name, lambda folder, store: striking(failing))  # noqa: B023
            raised.add(type(error))
            if found:
                broken[f"{at} {how}: {sql[:50]}"] = found
    assert broken == {}
    assert StoreError in raised


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", ["delete", "reject", "forget"])
def test_an_error_after_the_commit_does_not_look_like_a_failed_change(trial, clean, name, how):
    total = len(clean(name).statements)
    for at in range(total - 1, total + 1):
        failing = Failing(at, how, spared=())
        assert trial(name, lambda folder, store: striking(failing))[1] == ""  # noqa: B023


@pytest.mark.parametrize("name", WITHIN)
def test_an_error_in_the_middle_of_a_statement_leaves_all_or_nothing(trial, name):
    """SQLite itself stops at a step of its machine, as often as not with rows half written."""
    steps, sql_now, committed = [0, 0], [""], []

    @contextmanager
    def stopped(folder, store):
        def step():
            steps[0] += 1
            return steps[0] == steps[1] and not sql_now[0].startswith(SETTINGS)

        def watch(connection, sql):
            sql_now[0] = sql
            if sql == "COMMIT":
                committed.append(steps[0])

        connection = store._database._live()
        connection.set_progress_handler(step, 1)
        try:
            with striking(watch):
                yield
        finally:
            connection.set_progress_handler(None, 1)

    assert trial(name, stopped) == (None, "")
    chance, raised, points = random.Random(name), set(), 100 if NIGHTLY else 6
    for last in (committed[0], steps[0]) * points:  # most steps come after, while erasing
        at = chance.randint(1, last)
        steps[:] = [0, at]
        error, found = trial(name, stopped)
        assert (at, found) == (at, "")
        raised.add(type(error))
    assert StoreError in raised


@pytest.mark.skipif(resource is None, reason="no limits on a process here")
@pytest.mark.parametrize("name", CHANGES)
def test_a_write_that_the_disk_refuses_half_way_leaves_all_or_nothing(trial, clean, name):
    """A real error of the disk, in the middle of a page: no file may grow beyond so many bytes."""

    def refusing(most_bytes):
        @contextmanager
        def fault(folder, store):
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

        return fault

    chance, raised, points = random.Random(name), set(), 60 if NIGHTLY else 8
    size = clean(name).bytes
    for point in range(points):  # spread over the log that the change writes
        most = int(size * (point + chance.random()) ** 2 / points**2)
        error, found = trial(name, refusing(most))
        assert (most, found) == (most, "")
        raised.add(type(error))
    assert StoreError in raised


# Full -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITHIN)
def test_at_any_cap_on_its_pages_a_change_is_made_or_refused(trial, clean, name):
    def capped(pages_more):
        @contextmanager
        def fault(folder, store):
            connection = store._database._live()
            [[most]] = connection.execute("PRAGMA max_page_count").fetchall()
            [[pages]] = connection.execute("PRAGMA page_count").fetchall()
            connection.execute(f"PRAGMA max_page_count = {pages + pages_more}")
            try:
                yield
            finally:
                connection.execute(f"PRAGMA max_page_count = {most}")

        return fault

    refused = 0
    for pages_more in range(40):
        error, found = trial(name, capped(pages_more))
        assert (pages_more, found) == (pages_more, "")
        if error is None:
            break
        assert type(error) is QuotaReached
        assert error.what == "database_bytes"
        refused += 1
    else:
        pytest.fail("40 pages were not enough")
    if erases(clean(name)) and name != "approve_edited":
        assert refused == 0  # in a full file something can still be deleted
    elif name not in ("pin", "touch"):
        assert refused > 0


@pytest.mark.parametrize("name", ["migration", "migration_of_a_log"])
def test_at_any_cap_on_its_pages_a_file_is_migrated_or_left(clean, tmp_path, name):
    refused = 0
    for pages in itertools.count(1, step=1 if NIGHTLY else 5):
        folder = tmp_path / str(pages)
        shutil.copytree(clean(name).start, folder)
        try:
            opened(folder, limits=replace(LIMITS, database_bytes=pages * 1024)).close()
            break
        except QuotaReached:
            refused += 1
            assert state(folder) == clean(name).before
    assert state(folder) == clean(name).after
    assert refused > 2


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory):
    """A file system of one megabyte; a folder on it, and a fault that leaves it so many pages."""
    root = tmp_path_factory.mktemp("disk")
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a small disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(root)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    yield root
    subprocess.run(["umount", str(root)], check=True)


@contextmanager
def room_for(pages, disk):
    """Fill the disk but for so many pages, while the block runs."""
    ballast = disk / "ballast"
    free = os.statvfs(disk)
    ballast.write_bytes(bytes(max(free.f_bavail * free.f_bsize - pages * PAGE, 0)))
    try:
        yield
    finally:
        ballast.unlink()


@pytest.mark.parametrize("name", CHANGES)
def test_on_a_disk_that_is_really_full_a_change_is_made_or_refused(trial, small_disk, name):
    raised = []
    for pages in range(0, 60, 1 if NIGHTLY else 6):
        error, found = trial(
            name,
            lambda folder, store: room_for(pages, small_disk),  # noqa: B023
            root=small_disk,
        )
        assert (pages, found) == (pages, "")
        raised.append(error)
    assert isinstance(raised[0], StoreError)
    assert not isinstance(raised[0], QuotaReached)  # it is not our own cap
    assert raised[-1] is None


def test_on_a_full_disk_everything_can_still_be_read(small_disk):
    folder = small_disk / "read"
    CHANGES["put"].start(folder)
    with opened(folder) as store:
        alice = store.for_user("alice", "s2")
        records, lines = alice.list(), list(alice.export())
        with room_for(0, small_disk):
            with pytest.raises(StoreError, match=r"full|I/O"):
                alice.put("note", "new", text("new"))
            assert alice.list() == records
            assert list(alice.export()) == lines
            assert len(alice.recall("marker")) == 5
            assert store.verify() == []
        alice.put("note", "new", text("new"))
    shutil.rmtree(folder)


def test_deleted_on_a_full_disk_is_gone_from_the_file_when_there_is_room(small_disk):
    folder = small_disk / "delete"
    CHANGES["delete"].start(folder)
    with opened(folder) as store:
        alice = store.for_user("alice", "s2")
        with room_for(16, small_disk):
            assert alice.delete("note", "k0")
            assert store.stats()["erase_pending"]
        assert alice.delete("note", "k1")
        assert not store.stats()["erase_pending"]
        assert markers_in_files(folder).isdisjoint({"marker-k0-", "marker-k1-"})
    shutil.rmtree(folder)


# Locked -----------------------------------------------------------------------------------------

HOLDER = """
import sqlite3, sys
for line in sys.stdin:
    other = sqlite3.connect(line.strip(), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    print("held", flush=True)
    sys.stdin.readline()
    other.execute("ROLLBACK")
    other.close()
    print("free", flush=True)
"""


def test_while_another_process_holds_the_lock_every_change_is_busy(trial, program):
    holder, waited = program(HOLDER), []

    def tell(word):
        holder.stdin.write(word + "\n")
        holder.stdin.flush()
        return holder.stdout.readline()

    @contextmanager
    def held(folder, store):
        assert tell(str(folder / "memory.sqlite3")) == "held\n"
        try:
            if store is not None:
                assert len(store.for_user("alice", "s2").list()) == 7
                assert len(store.for_user("bob", "s2").recall("marker")) == 1
            started = time.monotonic()
            yield
            waited.append(time.monotonic() - started)
        finally:
            assert tell("go") == "free\n"

    for name in CHANGES:
        if name != "creation":
            error, found = trial(name, held)
            assert (name, type(error), found) == (name, StoreBusy, "")
            assert error.seconds == LIMITS.lock_timeout_s
            assert LIMITS.lock_timeout_s * 0.9 < waited.pop() < 5


# Not to be written ------------------------------------------------------------------------------

ACTS = """
import json, os, sys
from memlab import MemlabError, MemoryStore
folder, told = sys.argv[2], []
def tell(act):
    try:
        told.append(act())
    except MemlabError as error:
        told.append([type(error).__name__, str(error)])
def write():
    with MemoryStore.open(folder, create=True) as store:
        return store.for_user("bob", "s").put("note", "new", "v").revision
def delete():
    with MemoryStore.open(folder) as store:
        return store.for_user("alice", "s").delete("note", "k0")
def read(**options):
    with MemoryStore.open(folder, **options) as store:
        return store.for_user("bob", "s").get("note", "k0").value[:10]
def all_acts():
    tell(write)
    tell(delete)
    tell(lambda: read(read_only=True))
    tell(read)
all_acts()  # on a folder of its own, so that all is imported
if len(sys.argv) > 3:
    os.setgroups([])
    os.setgid(int(sys.argv[3]))
    os.setuid(int(sys.argv[3]))
folder = sys.argv[1]
told.clear()
all_acts()
print(json.dumps(told))
"""
NOBODY = 65534


@pytest.fixture
def as_plain_user(tmp_path):
    """Run a program on a folder of its own, as a user whom file modes bind; return what it told."""
    if sys.platform == "win32":
        pytest.skip("no POSIX modes there")
    root = Path(tempfile.mkdtemp())  # not below tmp_path, which is closed to others
    user = [str(NOBODY)] if os.geteuid() == 0 else []

    def run(folder_mode, file_mode, start=CHANGES["put"].start):
        folder, own = root / "data", tmp_path / "own"
        start(folder)
        CHANGES["put"].start(own)
        paths = [root, folder, *folder.iterdir()]
        if user:
            for path in paths:
                os.chown(path, NOBODY, NOBODY)
        for path in paths[2:]:
            path.chmod(file_mode)
        folder.chmod(folder_mode)
        before = {path.name: path.read_bytes() for path in paths[2:]} if user else None
        done = subprocess.run(
            [sys.executable, "-c", ACTS, str(folder), str(own), *user],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            check=True,
        )
        folder.chmod(0o700)
        if before is not None:
            assert {path.name: path.read_bytes() for path in paths[2:]} == before
        return json.loads(done.stdout)

    yield run
    shutil.rmtree(root)


@pytest.mark.parametrize(
    ("folder_mode", "file_mode"), [(0o500, 0o600), (0o500, 0o400), (0o700, 0o400)]
)
def test_what_may_not_be_written_is_refused_whole_and_can_be_read(
    as_plain_user, folder_mode, file_mode
):
    put, delete, read, _ = as_plain_user(folder_mode, file_mode)
    for refused in (put, delete):
        assert refused[0] == "StoreError"
        assert "permissions" in refused[1]
    assert read == "marker-bob"


def test_where_nothing_may_be_written_no_store_is_made(as_plain_user):
    told = as_plain_user(0o500, 0o600, start=lambda folder: folder.mkdir())
    assert [each[0] for each in told] == ["StoreError"] + ["StoreMissing"] * 3
    assert "Choose another folder" in told[0][1]


def test_what_may_not_be_read_is_an_error_and_never_looks_empty(as_plain_user):
    for each in as_plain_user(0o700, 0o000):
        assert each[0] == "StoreError"
        assert "permissions" in each[1]


# Gone or replaced -------------------------------------------------------------------------------

moves = pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be moved there")


def take_away(folder):
    for path in list(folder.iterdir()):
        path.unlink()


def put_another(folder):
    take_away(folder)
    with opened(folder, create=True) as other:
        other.for_user("alice", "s9").put("note", "theirs", "v")


@moves
@pytest.mark.parametrize("happens", [take_away, put_another])
def test_a_write_into_a_file_that_is_gone_is_refused_and_never_lost_in_silence(folder, happens):
    with opened(folder, create=True) as store:
        alice = store.for_user("alice", "s1")
        alice.put("note", "k", "v")
        happens(folder)
        for _ in range(2):
            with pytest.raises(StoreError, match="Open"):
                alice.put("note", "lost", "v")
            with pytest.raises(StoreError, match="Open"):
                alice.approvals.grant(Put("note", "lost", "v"))


@moves
def test_a_file_put_in_the_place_of_an_open_one_is_not_harmed(folder):
    with opened(folder, create=True) as store:
        alice = store.for_user("alice", "s1")
        alice.put("note", "k", text("k"))
        put_another(folder)
        for act in (
            lambda: alice.put("note", "lost", text("lost")),
            lambda: alice.delete("note", "k"),
        ):
            with suppress(StoreError):
                act()
    with opened(folder) as store:
        assert [each.key for each in store.for_user("alice", "s").list()] == ["theirs"]
        assert store.verify() == []


# A vector beside a record -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["put", "apply", "approve"])
def test_a_record_whose_vector_cannot_be_stored_is_saved_all_the_same(clean, tmp_path, name):
    folder = tmp_path / "data"
    shutil.copytree(clean(name).start, folder)
    with CHANGES[name].open(folder, embedder=HashEmbedder()) as store:
        at = len(clean(name).statements) + 2  # the first after BEGIN of the second transaction
        failing = striking(Failing(at, "kept"))
        with failing, pytest.warns(UserWarning, match="without a vector"):
            CHANGES[name].act(store)
        assert state(folder) == clean(name).after
        assert store.for_user("alice", "s1").reindex(progress=lambda done, total: None) > 0
