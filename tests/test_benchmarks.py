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
from tests.benchmarks import fitting, locomo, others, report, side_by_side, store, syncs

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


# Side by side -----------------------------------------------------------------------------------


def test_every_engine_has_rows_or_says_what_to_install(tmp_path):
    pytest.importorskip("numpy")
    out = tmp_path / "out"

    found = rows("side_by_side", "--folder", str(tmp_path), "--out", str(out))

    for engine in others.ENGINES:
        mine = [row for row in found if row["engine"] == engine.name]
        if why := engine.missing():
            assert [row["what"] for row in mine] == [why]
        else:
            assert {row["records"] for row in mine} >= {64}
    ours = {(row["what"], row["time"]): row for row in found if row["engine"] == "memlab"}
    assert {name: row["goal"] for (name, _), row in ours.items() if row["goal"]} == {
        "get": "<= 1.5",
        "search": "<= 1.3",
        "recall, words": "<= 4",
        "put, new": "<= 2.5",
        "put, replace": "<= 2.5",
        "put": "<= 1.2",
        "open and get": "<= 1 ms",
        "size": "<= 1.3",
        "import": "<= 5 ms",
    }
    assert {row["ratio"] for row in found if row["engine"] == "sqlite3" and "ratio" in row} == {1}
    text = (out / "side_by_side.md").read_text(encoding="utf-8")
    assert all(f"| {engine.name} |" in text for engine in others.ENGINES)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]  # the stores are gone
    pytest.importorskip("matplotlib")
    assert 0 < (out / "side_by_side.png").stat().st_size < 100_000
    assert "![Bars of" in text


def test_all_engines_take_turns_with_the_same_jobs_and_go_first_in_turn():
    done = []
    calls = {name: lambda job, name=name: done.append((name, job)) for name in ("a", "b", "c")}
    ticks = iter(range(100))

    found = side_by_side.in_turn(calls, [["warm"], ["x"], ["y"]], lambda: next(ticks))

    assert [name for name, _ in done] == [*"abc", *"bca", *"cab"]
    assert [job for _, job in done] == ["warm"] * 3 + ["x"] * 3 + ["y"] * 3
    assert found["b"] == side_by_side.Measured(times=[1, 1], ratios=[1, 1])


def test_an_engine_that_has_used_up_its_time_sits_out_after_two_rounds():
    done = []
    calls = {name: lambda job, name=name: done.append(name) for name in ("floor", "slow")}

    found = side_by_side.in_turn(calls, [["job"]] * 6, iter(range(100)).__next__, seconds=-1)

    assert (done.count("floor"), done.count("slow")) == (6, 3)
    assert len(found["slow"].ratios) == 2


def test_an_engine_that_answers_otherwise_is_not_compared(tmp_path):
    class Forgetful(others.Raw):
        name = "forgetful"

        def search(self, job):
            return super().search(job)[1:]

    engines = []
    for kind in (others.Raw, Forgetful):
        folder = tmp_path / kind.name
        folder.mkdir()
        engines.append(kind(folder))

    with pytest.raises(AssertionError, match="forgetful does not find"):
        side_by_side.measure(engines, 64, side_by_side.QUICK)


def test_the_slope_is_the_exponent_over_all_sizes():
    assert side_by_side.slope([(1, 5.0), (100, 5.0), (1000, 5.0)]) == 0
    assert side_by_side.slope([(1, 2.0), (100, 200.0), (1000, 2000.0)]) == 1


def test_the_texts_are_always_the_same_and_never_alike():
    texts = [others.sentence(number) for number in range(500)]

    assert texts == [others.sentence(number) for number in range(500)]
    assert len(set(texts)) == 500
    assert len({word for number in range(500) for word in others.words(number)}) > 2000


# Recall -----------------------------------------------------------------------------------------


def test_recall_is_timed_again_after_a_put_and_for_the_first_time(tmp_path):
    pytest.importorskip("numpy")

    found = rows("recall", "--folder", str(tmp_path))

    told = [(row["recall"], row["by"], row["records"], row["users"]) for row in found]
    both = ("words", "hybrid")
    assert told == [
        *(("again", way, 64, 1) for way in both),
        *((what, way, 200, 1) for way in both for what in ("again", "after a put")),
        *(("first in a process", "words", size, 1) for size in (64, 200)),
        *(
            (what, way, 64, users)
            for way in both
            for what in ("again", "first for a user")
            for users in (10, 20)
        ),
    ]
    assert [row["goal"] for row in found[:6]] == ["<= 5", "<= 8", *["<= 50 ms"] * 4]
    assert all(row["ms"] > 0 for row in found)
    assert [("growth" in row) for row in found[8:]] == [False, True] * 4
    assert list(tmp_path.iterdir()) == []


# LoCoMo -----------------------------------------------------------------------------------------


@pytest.fixture
def conversations(tmp_path):
    """Two short conversations, made up, in the form of LoCoMo's file."""

    def sample(name, said, questions):
        turns = [
            {"speaker": speaker, "dia_id": f"D1:{n}", "text": text}
            for n, (speaker, text) in enumerate(said, start=1)
        ]
        turns[-1]["blip_caption"] = "a photo of a green kite"
        talk = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
        qa = [
            {"question": question, "evidence": evidence, "category": category}
            for question, evidence, category in questions
        ]
        return {"sample_id": name, "conversation": talk, "qa": qa}

    samples = [
        sample(
            "one",
            [("Mira", "My violin needs new strings."), ("Otto", "The bakery opens at seven.")],
            [("Who talked about a violin?", ["D1:1"], 4), ("When is breakfast?", [], 5)],
        ),
        sample(
            "two",
            [("Lena", "I planted tomatoes."), ("Karl", "Look at this.")],
            [("Who has a kite and tomatoes?", ["D1:1", "D1:2", "D9:9", "D9:8"], 1)],
        ),
    ]
    path = tmp_path / "made_up.json"
    path.write_text(json.dumps(samples), encoding="utf-8")
    return path


def test_locomo_counts_the_evidence_that_recall_finds(conversations):
    found = rows("locomo", "--locomo", str(conversations), "--embedder", "none")

    by_name = {row["recall"]: row for row in found}
    assert {name: by_name[name]["questions"] for name in ("tuned", "reported", "all")} == {
        "tuned": 2,
        "reported": 1,
        "all": 3,
    }
    assert by_name["single-hop"]["R@5"] == 100  # found
    assert by_name["adversarial"]["R@5"] == 0  # names no evidence, as the paper counts
    assert by_name["multi-hop"]["R@5"] == 50  # two of the four that it names
    assert by_name["all"]["goal @5"] == ">= 62 NO"


def test_a_turn_of_locomo_is_a_record_of_its_day_with_what_was_shown(conversations):
    [sample, _] = json.loads(conversations.read_text(encoding="utf-8"))

    first, last = locomo.turns(sample["conversation"])

    assert first == locomo.Turn(
        "D1:1", 'Mira said, "My violin needs new strings."', "session_1", 1_683_554_160_000
    )
    assert last.text.endswith('seven." and shared a photo of a green kite')
    assert last.time == first.time + 1
