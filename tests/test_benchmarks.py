"""The benchmarks run, agree with themselves, and print what their readers rely on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks are modules of the checkout
from memlab.budget import fit
from tests.benchmarks import fitting, report, store, syncs

FOLDER = Path(__file__).parent / "benchmarks"


def rows(name: str, *options: str) -> list[dict]:
    """Run a benchmark as a user does, at its smallest size; return the rows it prints."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--quick", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["benchmark"] == name
    assert {"system", "cores", "python", "sqlite"} <= set(told["machine"])
    return told["rows"]


def test_the_store_is_timed_beside_bare_sqlite_at_each_size(tmp_path):
    found = rows("store", "--folder", str(tmp_path))

    calls = ["get", "search", "put, replace", "put, create", "put, half each", "put, half each"]
    assert [row["what"] for row in found] == calls * 2
    assert [row["time"] for row in found] == (["cpu"] * 5 + ["wall"]) * 2
    assert [row["records"] for row in found] == [64] * 6 + [320] * 6
    assert all(row["memlab us"] > 0 and row["bare us"] > 0 for row in found)
    assert {row["what"]: row["goal"] for row in found if row["time"] == "cpu"} == {
        "get": "<= 2",
        "search": "<= 2",
        **dict.fromkeys(calls[2:], "<= 3"),
    }
    assert all(row["flat"] in ("yes", "NO") for row in found[6:] if row["time"] == "cpu")
    assert list(tmp_path.iterdir()) == []


def test_fitting_is_timed_beside_measuring_everything_again():
    found = rows("fitting")

    assert [row["items"] for row in found] == [20, 100]
    assert all(row["same answer"] == "yes" and row["times faster"] > 1 for row in found)
    assert (found[1]["goal"], found[1]["met"]) in ((">= 15", "yes"), (">= 15", "NO"))


def test_two_ways_to_fit_that_differ_are_not_compared():
    def one_too_few(request, limit):
        done = fit(request, limit)
        return replace(done, turns=done.turns[1:], memories=done.memories[1:])

    with pytest.raises(AssertionError, match="different requests"):
        fitting.compare(fitting.a_request(20), 1, other=one_too_few)


def test_an_import_is_measured_and_loads_nothing_heavy():
    found = {row["program"]: row for row in rows("imports")}

    assert set(found) == {"nothing", "import memlab", "and open a store", "and load the agent"}
    assert all(row["cpu ms"] > 0 for row in found.values())
    assert {row["heavy libraries"] for row in found.values()} == {"none"}


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not here")
def test_one_put_waits_for_the_disk_once():
    found = {row["side"]: row for row in rows("syncs")}
    if not found:
        pytest.skip("strace is not allowed to look")

    assert (found["memlab"]["puts"], found["memlab"]["commit waits"]) == (20, 20)
    assert (found["bare"]["puts"], found["bare"]["commit waits"]) == (20, 20)


def test_waits_for_copying_the_log_are_told_apart():
    done = 'write(5</dev/null>, "<put done>", 10) = 10'
    log, file = "fdatasync(7</d/memory.sqlite3-wal>) = 0", "fdatasync(6</d/memory.sqlite3>) = 0"
    opened = [log, file, log, done]
    plain, copies, begins = [log, done], [log, log, file, done], [log, log, done]
    after = ['write(5</dev/null>, "<all done>", 10) = 10', log, file]

    found = syncs.count([*opened, *plain, *copies, *begins, *plain, *after])

    assert found == syncs.Waits(puts=4, commits=4, checkpoints=1, checkpoint_waits=3)
    assert syncs.count([*opened, *begins, *after]).commits == 2  # two waits, and nothing to excuse


def test_both_sides_get_the_same_jobs_take_turns_and_have_a_round_to_warm_up():
    calls = []
    warm, first, second = (0, 100, 100, 150), (150, 152, 152, 153), (153, 154, 154, 158)

    pair = report.in_turn(
        lambda job: calls.append(("ours", job)),
        lambda job: calls.append(("other", job)),
        [["warm"], ["a"], ["b"]],
        iter([*warm, *first, *second]).__next__,
    )

    assert [job for _, job in calls] == ["warm", "warm", "a", "a", "b", "b"]
    assert [side for side, _ in calls[2:]] == ["ours", "other", "other", "ours"]
    assert pair == report.Pair(ours=3, other=1, ratio=3)


def test_growth_is_the_exponent():
    assert report.growth((1.0, 1.0), (10, 1000)) == 0
    assert report.growth((1.0, 100.0), (10, 1000)) == pytest.approx(1)
    assert report.growth((1.0, 100.0), (10, 100)) == pytest.approx(2)


@pytest.mark.parametrize(("large", "flat"), [(2.0, "yes"), (20.0, "NO")])
def test_a_call_is_flat_where_it_grows_no_more_than_bare_sqlite(large, flat):
    call = {"time": "cpu", "what": "get"}
    small = {**call, "records": 64, "memlab us": 1.0, "bare us": 1.0}
    found = store.with_growth(
        [small, {**call, "records": 6400, "memlab us": large, "bare us": 2.0}]
    )

    assert [row["flat"] for row in found] == ["", flat]


def test_a_table_has_a_column_for_every_name_in_any_row():
    text = report.table([{"what": "get", "us": 1.5}, {"what": "search", "us": 1234.5, "met": "NO"}])

    assert text.splitlines() == [
        "what          us  met",
        "---------------------",
        "get         1.50",
        "search  1,234.50   NO",
    ]


def test_a_goal_says_whether_it_is_met():
    assert report.goal(2.0, 2) == {"goal": "<= 2", "met": "yes"}
    assert report.goal(2.1, 2) == {"goal": "<= 2", "met": "NO"}
    assert report.goal(2.1, None) == {"goal": "", "met": ""}
