"""What holds when programs die, race each other, fork, or share one file."""

import functools
import itertools
import os
import random
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from crash_changes import (
    CHANGES,
    WRITES,
    Writer,
    clean_run,
    markers_in,
    markers_in_files,
    opened,
    resource,
    state,
    striking,
    watched_connections,
)

from memlab import Limits, Put, StoreError

NIGHTLY = os.environ.get("MEMLAB_PROFILE") == "nightly"

OPEN = (
    "import sys\n"
    "from memlab import Delete, Limits, MemlabError, MemoryStore, Put, QuotaReached\n"
    "limits = Limits(records_per_user=100_000, records_total=100_000, database_bytes=10**8)\n"
    "store = MemoryStore.open(sys.argv[1], limits=limits)\n"
    "alice = store.for_user('alice', session='child')\n"
)
AT_THE_WORD = "print('ready', flush=True)\nsys.stdin.readline()\n"


@pytest.fixture
def race(program):
    """Start several programs, let all of them go at once, and return what each printed."""

    def run(code, how_many):
        racers = [program(OPEN + AT_THE_WORD + code, n) for n in range(how_many)]
        for each in racers:
            assert each.stdout.readline() == "ready\n"
        for each in racers:
            each.stdin.write("go\n")
            each.stdin.flush()
        told = [each.communicate(timeout=60)[0] for each in racers]
        assert [each.returncode for each in racers] == [0] * how_many
        return told

    return run


# Killed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_program_loses_nothing_that_it_was_told_is_stored(store, program, reopen, seed):
    dying = program(
        OPEN + "n = 0\n"
        "while True:\n"
        "    alice.put('note', f'k{n % 50}', f'value {n}')\n"
        "    print(n, flush=True)\n"
        "    n += 1\n"
    )
    chance = random.Random(seed)
    for _ in range(chance.randrange(5, 40)):
        last = dying.stdout.readline()
    time.sleep(chance.random() / 20)
    dying.kill()
    told = [int(line) for line in (last + dying.stdout.read()).split()]
    assert dying.wait() != 0

    stored = {each.key: each for each in reopen().for_user("alice", "s").list()}
    for key in range(50):
        promised = [n for n in range(told[-1] + 1) if n % 50 == key]
        if promised:
            found = int(stored[f"k{key}"].value.split()[1])
            assert found >= promised[-1]
            assert stored[f"k{key}"].revision == found // 50 + 1
    assert reopen().verify() == []


@pytest.mark.parametrize("seed", range(3))
def test_a_program_killed_while_deleting_leaves_no_half_and_is_cleaned_up_after(
    store, alice, program, reopen, standing, seed
):
    for n in range(30):
        alice.put("note", f"k{n}", f"marker-{n}- " + "x" * 300)
    store.close()
    dying = program(
        OPEN + "for n in range(30):\n    alice.delete('note', f'k{n}')\n    print(n, flush=True)\n"
    )
    chance = random.Random(seed)
    for _ in range(chance.randrange(1, 20)):
        last = dying.stdout.readline()
    time.sleep(chance.random() / 50)
    dying.kill()
    gone = int((last + dying.stdout.read()).split()[-1]) + 1

    again = reopen()
    left = {each.key for each in again.for_user("alice", "s").list()}
    assert len(left) in (30 - gone, 29 - gone)
    assert again.verify() == []
    assert not again.stats()["erase_pending"]
    for n in range(30):
        assert (standing(f"marker-{n}-") != []) == (f"k{n}" in left)


def test_what_was_approved_and_done_just_before_the_end_is_there(program, reopen):
    alice = reopen(clock=None).for_user("alice", "s")
    alice.approvals.grant(Put("note", "k", "approved words"))
    dying = program(
        OPEN + "print(alice.lend().apply(Put('note', 'k', 'approved words')).effect, flush=True)\n"
        "import os, signal\n"
        "os.kill(os.getpid(), getattr(signal, 'SIGKILL', signal.SIGTERM))\n"
    )
    assert dying.stdout.read() == "created\n"
    dying.wait()
    again = reopen(clock=None).for_user("alice", "s")
    assert again.get("note", "k").value == "approved words"
    assert again.lend().approved() == []


def test_a_log_left_by_a_killed_program_is_read_by_every_opening(store, program, folder, reopen):
    store.close()
    dying = program(
        OPEN + "alice.put('note', 'k', 'only in the log')\n"
        "import os, signal\n"
        "os.kill(os.getpid(), getattr(signal, 'SIGKILL', signal.SIGTERM))\n"
    )
    dying.wait()
    assert b"only in the log" not in (folder / "memory.sqlite3").read_bytes()
    assert (folder / "memory.sqlite3-wal").stat().st_size > 0
    for options in ({"read_only": True}, {}):
        hand = reopen(create=False, **options).for_user("alice", "s")
        assert hand.get("note", "k").value == "only in the log"


@pytest.mark.parametrize("seed", range(3))
def test_a_program_killed_while_making_a_store_leaves_none_or_a_whole_one(
    program, folder, reopen, seed
):
    code = "import sys\nfrom memlab import MemoryStore\nprint('go', flush=True)\n"
    dying = program(code + "MemoryStore.open(sys.argv[1], create=True)\nsys.stdin.read()\n")
    assert dying.stdout.readline() == "go\n"
    time.sleep(random.Random(seed).random() / 30)
    dying.kill()
    dying.wait()
    store = reopen()
    assert store.for_user("alice", "s").put("note", "k", "v").revision == 1
    assert store.verify() == []


# Killed in the middle ---------------------------------------------------------------------------

DYING = (
    "import sys\n"
    f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    "import crash_changes\n"
    "crash_changes.main(*sys.argv[2:])\n"
)
AT_ONCE = 4  # programs
needs_limits = pytest.mark.skipif(resource is None, reason="no limits on a process here")


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """Return a change as it goes when nobody is killed; each is made once."""
    root = tmp_path_factory.mktemp("clean")
    return functools.cache(lambda name: clean_run(name, root))


@pytest.fixture
def killed(clean, program, tmp_path):
    """Let programs die in one change each; yield where, the folder, and whether it was done."""

    def run(name, how, points):
        for first in range(0, len(points), AT_ONCE):
            dying = []
            for at in points[first : first + AT_ONCE]:
                folder = tmp_path / f"{how}-{at}"
                shutil.copytree(clean(name).start, folder)
                dying.append((at, folder, program(DYING, folder, name, how, at)))
            for at, folder, each in dying:
                told = each.communicate(timeout=60)[0].split()
                assert told[0] == "ready"
                assert "done" in told or each.returncode != 0
                yield at, folder, "done" in told  # which may be the last that it said

    return run


def check_whole(folder, name, clean):
    """See that a folder holds all of a change or nothing; return what stands there."""
    with CHANGES[name].open(folder) as store:
        assert store.verify() == []
        assert not store.stats()["erase_pending"]
    found = state(folder)
    assert found in (clean.before, clean.after)
    assert markers_in_files(folder) == markers_in(found)
    assert not (folder / "memory.sqlite3-journal").exists()
    return found


def as_left(folder, beside):
    """Return what stands in a copy of a folder, as SQLite itself brings it in order."""
    shutil.copytree(folder, beside)
    if (beside / "memory.sqlite3").exists():
        with closing(sqlite3.connect(beside / "memory.sqlite3")) as connection:
            connection.execute("SELECT count(*) FROM memory").fetchall()
    return state(beside)


@pytest.mark.parametrize("name", CHANGES)
def test_killed_between_two_statements_a_change_is_not_begun_or_whole(
    killed, clean, tmp_path, name
):
    commit, total = clean(name).commit, len(clean(name).statements)
    points = set(range(1, total + 1))
    if not NIGHTLY and name != "creation":
        points = set(random.Random(name).sample(sorted(points), 1))
        points |= {commit, min(commit + 1, total)} if commit else set()
    for at, folder, done in killed(name, "statement", sorted(points)):
        assert not done
        if CHANGES[name].opening:
            left = as_left(folder, tmp_path / f"left-{at}")
            assert left == (clean(name).before if at <= (commit or 1) else left)
            assert left in (clean(name).before, clean(name).after)
            assert check_whole(folder, name, clean(name)) == clean(name).after
        else:
            found = check_whole(folder, name, clean(name))
            assert found == (clean(name).before if at <= commit else clean(name).after)


@needs_limits
@pytest.mark.parametrize("name", ["creation", "delete", "approve", "forget", "import", "migration"])
def test_killed_in_the_middle_of_writing_a_page_a_change_is_not_begun_or_whole(killed, clean, name):
    chance, died = random.Random(name), 0
    points = [int(clean(name).bytes * chance.random() ** 2) for _ in range(40 if NIGHTLY else 4)]
    for _, folder, done in killed(name, "bytes", points):
        died += not done
        found = check_whole(folder, name, clean(name))
        if done or CHANGES[name].opening:
            assert found == clean(name).after
    assert died > 0


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Return what stands after each of the 200 writes of a seed, and how many statements ran."""
    root = tmp_path_factory.mktemp("course")

    @functools.cache
    def run(seed):
        ran = []
        with watched_connections():
            writer = Writer(root / str(seed), seed)
            states = [state(root / str(seed))]
            with striking(lambda connection, sql: ran.append(sql)):
                for n in range(WRITES):
                    writer.step(n)
                    states.append(state(root / str(seed)))
        writer.store.close()
        assert sum(one != other for one, other in itertools.pairwise(states)) > 150
        return states, len(ran)

    return run


def check_course(folder, states, told):
    """See that exactly what was told to be done is done, or one write more."""
    done = len(told.split()) - 1  # the first word is 'ready'
    with opened(folder) as store:
        assert store.verify() == []
        assert not store.stats()["erase_pending"]
    found = state(folder)
    assert found in states[done : done + 2]
    assert markers_in_files(folder) == markers_in(found)
    return done


def spread(chance, points, most):
    """Return so many random numbers below `most`, one from each part of the whole."""
    return [int(most * (point + chance.random()) / points) for point in range(points)]


@pytest.mark.parametrize("seed", range(6 if NIGHTLY else 1))
def test_killed_at_any_moment_of_200_writes_nothing_told_is_lost(course, program, tmp_path, seed):
    chance = random.Random(seed)
    for point in spread(chance, 40 if NIGHTLY else 4, WRITES):
        dying = program(DYING, tmp_path / str(point), seed, "time", 0)
        told = "".join(dying.stdout.readline() for _ in range(point + 1))
        time.sleep(chance.random() / 100)
        dying.kill()
        told += dying.communicate()[0]
        assert check_course(tmp_path / str(point), course(seed)[0], told) >= point


@pytest.mark.parametrize("seed", range(6 if NIGHTLY else 2))
def test_killed_at_any_statement_of_200_writes_nothing_told_is_lost(
    course, program, tmp_path, seed
):
    states, total = course(seed)
    for at in spread(random.Random(seed), 40 if NIGHTLY else 3, total):
        dying = program(DYING, tmp_path / str(at), seed, "statement", at + 1)
        told = dying.communicate()[0]
        assert dying.returncode != 0
        check_course(tmp_path / str(at), states, told)


@needs_limits
@pytest.mark.parametrize("seed", range(6 if NIGHTLY else 1))
def test_killed_in_the_middle_of_a_page_of_200_writes_nothing_told_is_lost(
    course, program, tmp_path, seed
):
    chance, died = random.Random(seed), 0
    for most in spread(chance, 40 if NIGHTLY else 4, 160_000):
        dying = program(DYING, tmp_path / str(most), seed, "bytes", most)
        told = dying.communicate()[0]
        died += dying.returncode != 0
        check_course(tmp_path / str(most), course(seed)[0], told)
    assert died > 0


# Racing -----------------------------------------------------------------------------------------


def test_eight_programs_can_write_at_once_and_none_is_turned_away(store, race):
    told = race(
        "for n in range(40):\n    alice.put('note', f'p{sys.argv[2]}.{n}', 'v')\nprint('done')\n",
        8,
    )
    assert told == ["done\n"] * 8
    assert store.stats()["records"] == 320
    assert store.verify() == []


def test_eight_programs_can_open_write_and_close_at_once(store, race):
    store.close()
    told = race(
        "store.close()\n"
        "for n in range(6):\n"
        "    with MemoryStore.open(sys.argv[1], limits=limits) as store:\n"
        "        store.for_user('alice', 's').put('note', f'p{sys.argv[2]}.{n}', 'x' * 500)\n"
        "        if n % 2:\n"
        "            store.for_user('alice', 's').delete('note', f'p{sys.argv[2]}.{n - 1}')\n"
        "print('done')\n",
        8,
    )
    assert told == ["done\n"] * 8


def test_racing_programs_never_exceed_the_quota(store, alice, race):
    for n in range(60):
        alice.put("note", f"k{n}", "v")
    told = race(
        "store.close()\n"
        "store = MemoryStore.open(sys.argv[1])\n"
        "alice = store.for_user('alice', 's')\n"
        "added = 0\n"
        "for n in range(5):\n"
        "    try:\n"
        "        alice.put('note', f'p{sys.argv[2]}.{n}', 'v')\n"
        "        added += 1\n"
        "    except QuotaReached:\n"
        "        pass\n"
        "print(added)\n",
        8,
    )
    assert sum(map(int, told)) == 4
    assert len(alice.list()) == 64
    assert store.verify() == []


@pytest.mark.parametrize("limit", ["records_per_user", "records_total"])
def test_eight_programs_by_forty_writes_at_a_quota_are_exact(reopen, race, limit):
    """Each makes new records, and replaces one that is there, which no quota may refuse."""
    store = reopen()
    users = ["alice"] if limit == "records_per_user" else ["alice", "bob"]
    for user in users:
        store.for_user(user, "s").put("note", "shared", "v")
    store.close()
    told = race(
        "store.close()\n"
        f"limits = Limits(**({{'records_per_user': 1000}} | {{{limit!r}: 100}}))\n"
        "store = MemoryStore.open(sys.argv[1], limits=limits)\n"
        f"hand = store.for_user({users!r}[int(sys.argv[2]) % {len(users)}], 's')\n"
        "added = 0\n"
        "for n in range(40):\n"
        "    try:\n"
        "        hand.put('episode', f'p{sys.argv[2]}.{n}', 'v')\n"
        "        added += 1\n"
        "    except QuotaReached as error:\n"
        f"        assert (error.what, error.limit) == ({limit!r}, 100)\n"
        "    if n % 4 == 0:\n"
        "        hand.put('note', 'shared', f'{sys.argv[2]} {n}')\n"
        "print(added)\n",
        8,
    )
    assert sum(map(int, told)) == 100 - len(users)
    again = reopen()
    assert again.stats()["records"] == 100
    assert again.verify() == []
    revisions = [again.for_user(user, "s").get("note", "shared").revision for user in users]
    assert revisions == [1 + 80 // len(users)] * len(users)


@pytest.mark.parametrize(
    "act",
    ["alice.lend().apply(Put('note', 'k', value))", "alice.approvals.approve(id)"],
    ids=["granted", "approved by its id"],
)
def test_one_approval_has_one_winner_in_each_of_ten_rounds(program, reopen, act):
    store = reopen(clock=None)
    alice = store.for_user("alice", "s")
    racers = [
        program(
            OPEN + "print('ready', flush=True)\n"
            "for line in sys.stdin:\n"
            "    id, value = line.split()\n"
            "    try:\n"
            f"        {act}\n"
            "        print('won', flush=True)\n"
            "    except MemlabError as error:\n"
            "        print(type(error).__name__, flush=True)\n"
        )
        for _ in range(8)
    ]
    assert [each.stdout.readline() for each in racers] == ["ready\n"] * 8
    for n in range(10):
        change = Put("note", "k", f"value{n}")
        asked = alice.approvals.grant(change) if "apply" in act else alice.lend().propose(change)
        for each in racers:
            each.stdin.write(f"{asked.id} value{n}\n")
            each.stdin.flush()
        told = sorted(each.stdout.readline() for each in racers)
        assert told == ["NotApproved\n"] * 7 + ["won\n"]
        record = alice.get("note", "k")
        assert (record.value, record.revision) == (f"value{n}", n + 1)
        assert alice.lend().proposal(asked.id).state == "used"
    assert [each.revision for each in alice.history("note", "k")] == list(range(1, 11))
    assert store.verify() == []


def test_of_eight_programs_with_one_approval_one_wins_each_round(race, reopen):
    alice = reopen(clock=None).for_user("alice", "s")
    rounds = 12
    for n in range(rounds):
        alice.approvals.grant(Put("note", f"k{n}", "v"))
        alice.put("episode", f"d{n}", "v")
    asked = [alice.lend().propose(Put("decision", f"k{n}", "v")).id for n in range(rounds)]
    told = race(
        "lent, won = alice.lend(), [0, 0, 0]\n"
        f"for n, id in enumerate({asked!r}):\n"
        "    for what, act in enumerate((\n"
        "        lambda: lent.apply(Put('note', f'k{n}', 'v')),\n"
        "        lambda: alice.approvals.approve(id),\n"
        "        lambda: lent.apply(Delete('episode', f'd{n}')),\n"
        "    )):\n"
        "        try:\n"
        "            act()\n"
        "            won[what] += 1\n"
        "        except MemlabError as error:\n"
        "            assert type(error).__name__ == 'NotApproved', error\n"
        "print(*won)\n",
        8,
    )
    wins = [sum(column) for column in zip(*(map(int, line.split()) for line in told), strict=True)]
    assert wins == [rounds, rounds, 0]  # nobody granted the deletions
    assert {each.revision for each in alice.list()} == {1}
    used = [each for each in alice.approvals.ledger() if each.state == "used"]
    assert len(used) == 2 * rounds


def test_of_eight_programs_that_expect_one_revision_one_wins(store, alice, race):
    alice.put("note", "k", "v")
    told = race(
        "try:\n"
        "    alice.put('note', 'k', f'mine {sys.argv[2]}', expect=1)\n"
        "    print('won')\n"
        "except MemlabError as error:\n"
        "    print(type(error).__name__)\n",
        8,
    )
    assert sorted(told) == ["Conflict\n"] * 7 + ["won\n"]
    assert alice.get("note", "k").revision == 2


def test_eight_programs_make_one_store(program, folder, reopen):
    code = (
        "import sys\n"
        "from memlab import MemoryStore\n"
        + AT_THE_WORD
        + "with MemoryStore.open(sys.argv[1], create=True) as store:\n"
        "    store.for_user('alice', 's').put('note', f'p{sys.argv[2]}', 'v')\n"
    )
    racers = [program(code, n) for n in range(8)]
    for each in racers:
        each.stdout.readline()
    for each in racers:
        each.stdin.write("go\n")
        each.stdin.flush()
    assert [each.wait() for each in racers] == [0] * 8
    assert len(reopen().for_user("alice", "s").list()) == 8
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".new")]


def test_deleting_programs_leave_nothing_behind_between_them(store, alice, race, standing):
    for n in range(40):
        alice.put("note", f"k{n}", f"marker-{n}- " + "语" * 200)
    told = race(
        "for n in range(int(sys.argv[2]), 40, 4):\n"
        "    assert alice.delete('note', f'k{n}')\n"
        "    alice.put('note', f'p{sys.argv[2]}.{n}', 'x' * 300)\n"
        "print('done')\n",
        4,
    )
    assert told == ["done\n"] * 4
    alice.put("note", "last", "v")
    store.compact()
    assert not store.stats()["erase_pending"]
    assert [n for n in range(40) if standing(f"marker-{n}-")] == []
    assert store.verify() == []


def test_what_another_program_decides_is_seen_at_once(store, alice, program):
    other = program(
        OPEN + AT_THE_WORD + "from memlab import NotApproved\n"
        "lent = alice.lend()\n"
        "try:\n"
        "    lent.apply(Put('note', 'k', 'v'))\n"
        "except NotApproved as error:\n"
        "    print(error.proposal.id, flush=True)\n"
        "sys.stdin.readline()\n"
        "print(lent.proposal(sys.stdin.readline().strip()).state, alice.get('note', 'k').value)\n"
    )
    other.stdout.readline()
    other.stdin.write("go\n")
    other.stdin.flush()
    id = other.stdout.readline().strip()
    alice.approvals.approve(id)
    assert other.communicate(f"go\n{id}\n")[0] == "used v\n"


# Forking ----------------------------------------------------------------------------------------

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="cannot fork here")


def in_a_fork(work):
    """Run `work` in a forked child, and return its exit status."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return child


@forks
def test_a_forked_child_and_its_parent_can_both_write(store, alice):
    alice.put("note", "before", "v")

    def work():
        for n in range(20):
            alice.put("note", f"child{n}", "v")

    child = in_a_fork(work)
    for n in range(20):
        alice.put("note", f"parent{n}", "v")
    assert os.waitpid(child, 0)[1] == 0
    assert len(alice.list()) == 41
    assert store.verify() == []


@forks
def test_what_a_child_stores_after_its_parent_has_closed_is_not_lost(store, alice, reopen):
    alice.put("note", "before", "v")
    closed, tell = os.pipe()

    def work():
        alice.put("note", "first", "v")
        os.read(closed, 1)
        alice.put("note", "second", "v")

    child = in_a_fork(work)
    while alice.get("note", "first") is None:
        time.sleep(0.01)
    store.close()
    os.write(tell, b"x")
    assert os.waitpid(child, 0)[1] == 0
    os.close(closed)
    os.close(tell)
    keys = [each.key for each in reopen().for_user("alice", "s").list()]
    assert keys == ["before", "first", "second"]


@forks
def test_a_fork_while_another_thread_writes_does_not_hang_the_child(program):
    child = program(
        "import os, sys, threading, time, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from memlab import MemoryStore\n"
        "store = MemoryStore.open(sys.argv[1], create=True)\n"
        "alice = store.for_user('alice', 's')\n"
        "stop = threading.Event()\n"
        "def work():\n"
        "    n = 0\n"
        "    while not stop.is_set():\n"
        "        alice.put('note', 'thread', str(n))\n"
        "        n += 1\n"
        "        time.sleep(0.001)\n"  # or the others never get the lock
        "threading.Thread(target=work, daemon=True).start()\n"
        "for n in range(10):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        alice.put('note', f'child{n}', 'v')\n"
        "        os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "stop.set()\n"
        "print(len(alice.list()), store.verify())\n"
    )
    assert child.communicate(timeout=30)[0] == "11 []\n"


@forks
def test_a_closed_store_stays_closed_in_a_child(store, alice):
    store.close()

    def work():
        with pytest.raises(StoreError, match="closed"):
            alice.list()

    assert os.waitpid(in_a_fork(work), 0)[1] == 0


# What it costs, and what it leaves --------------------------------------------------------------


def test_a_put_waits_for_the_disk_exactly_once(store, program, tmp_path):
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    store.close()

    def synced(puts):
        record = tmp_path / f"calls-{puts}"
        traced = program(
            OPEN + "import uuid\n"
            f"for n in range({puts}):\n"
            "    alice.put('note', f'k{n}', uuid.uuid4().hex)\n"
            "print('done')\n",
            prefix=["strace", "-f", "-o", str(record), "-e", "trace=fsync,fdatasync"],
        )
        if traced.communicate()[0] != "done\n":
            pytest.skip("strace may not trace here")
        return sum("sync(" in line for line in record.read_text().splitlines())

    assert synced(25) - synced(5) == 20


def test_a_put_holds_the_lock_only_for_a_moment(store, alice):
    lasted = []
    connection = alice._scope.database._live()

    def watch(statement):
        if statement.startswith("BEGIN"):
            lasted.append(-time.perf_counter())
        if statement.startswith("COMMIT"):
            lasted[-1] += time.perf_counter()

    connection.set_trace_callback(watch)
    for n in range(60):
        alice.put("note", f"k{n % 20}", f"value {n}")
    connection.set_trace_callback(None)
    assert sorted(lasted)[len(lasted) // 2] < 0.005


def test_a_put_runs_no_housekeeping(store, alice):
    statements = []
    connection = alice._scope.database._live()
    alice.put("note", "k", "one")
    connection.set_trace_callback(statements.append)
    alice.put("note", "k", "two")
    connection.set_trace_callback(None)
    outer = [each.split()[0] for each in dict.fromkeys(statements)]  # a trigger repeats its cause
    assert outer == ["BEGIN", "SELECT", "UPDATE", "COMMIT"]


def test_nothing_is_left_open(program):
    child = program(
        "import gc, sys, warnings\n"
        "warnings.simplefilter('error')\n"
        "seen = []\n"
        "sys.unraisablehook = lambda problem: seen.append(problem.exc_value)\n"
        "from memlab import MemlabError, MemoryStore\n"
        "for n in range(3):\n"
        "    with MemoryStore.open(sys.argv[1], create=True) as store:\n"
        "        store.for_user('alice', 's').put('note', 'k', str(n))\n"
        "        store.for_user('alice', 's').delete('note', 'k')\n"
        "with MemoryStore.open(sys.argv[1], read_only=True) as store:\n"
        "    store.verify()\n"
        "open(sys.argv[1] + '/memory.sqlite3', 'wb').close()\n"
        "try:\n"
        "    MemoryStore.open(sys.argv[1])\n"
        "except MemlabError:\n"
        "    pass\n"
        "del store\n"
        "gc.collect()\n"
        "print(seen)\n"
    )
    assert child.communicate()[0] == "[]\n"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc here")
def test_no_file_stays_open_after_closing(store, alice, folder, reopen):
    alice.put("note", "k", "v")
    store.close()
    held = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    assert not [name for name in held if name.startswith(str(folder))]


def test_a_reader_sees_whole_changes_while_another_program_writes(store, alice, program):
    writer = program(
        OPEN + AT_THE_WORD + "for n in range(1, 60):\n    alice.put('note', 'k', f'{n} ' * 20)\n"
    )
    assert writer.stdout.readline() == "ready\n"
    writer.stdin.write("go\n")
    writer.stdin.flush()
    last = 0
    while writer.poll() is None:
        record = alice.get("note", "k")
        if record is not None:
            assert len(set(record.value.split())) == 1
            assert record.revision >= last
            last = record.revision
    assert last > 0


def test_limits_may_differ_between_programs(store, alice, reopen):
    for n in range(5):
        alice.put("note", f"k{n}", "v")
    strict = reopen(limits=Limits(records_per_user=3)).for_user("alice", "s")
    assert len(strict.list()) == 5
    assert strict.put("note", "k1", "w").revision == 2


# Opened twice in one process --------------------------------------------------------------------


@pytest.mark.parametrize("again", ["pass", "MemoryStore.open(sys.argv[1]).close()"])
def test_a_store_opened_twice_in_one_program_loses_nothing_when_that_is_killed(
    store, program, reopen, again
):
    """A plain handle on the file, once closed, would take away the locks of the first opening."""
    store.close()
    dying = program(
        OPEN + "alice.put('note', 'a', 'one')\n"
        f"{again}\n"
        "print('put', flush=True)\n"
        "sys.stdin.readline()\n"
        "alice.put('note', 'b', 'two')\n"
        "print('put', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    assert dying.stdout.readline() == "put\n"
    other = program(OPEN + "alice.list()\nstore.close()\n")  # the last one out removes the log
    other.communicate(timeout=60)
    assert other.returncode == 0
    dying.stdin.write("go\n")
    dying.stdin.flush()
    assert dying.stdout.readline() == "put\n"
    dying.kill()
    dying.wait()

    assert [each.key for each in reopen().for_user("alice", "s").list()] == ["a", "b"]
