"""Tables and figures say what is stored and sent, with units, and hide nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import subprocess
import sys
from itertools import pairwise

import pandas
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from pandas import DataFrame

from memlab import (
    Delete,
    Hit,
    InvalidInput,
    Limits,
    MemlabError,
    MemoryAgent,
    MemoryStore,
    Policy,
    Put,
    Record,
    ScriptedModel,
    StoreError,
    call,
    retention,
    say,
    views,
)
from memlab.agent import Answer, Call, Sent, Step
from memlab.forgetting import plan

START = 1_790_000_000_000  # 2026-09-21 14:13:20 UTC
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
HOSTILE = "<img src=x onerror=alert(1)> $5 a\u202eb\u200bc"


class Clock:
    """A clock that a test can move."""

    def __init__(self):
        self.now = START

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    ids = (f"p{number}" for number in range(1, 1000))
    with MemoryStore.open(
        tmp_path / "memory", create=True, clock=clock, new_id=lambda: next(ids)
    ) as opened:
        yield opened


@pytest.fixture
def alice(store):
    return store.for_user("alice", session="s1")


def asked(alice, *replies, task="what about tea?", limits=None):
    return asyncio.run(MemoryAgent(alice, ScriptedModel(replies), limits=limits).ask(task))


def sent(chars, limit=100, **dropped):
    parts = {"system": chars - 10, "task": 10}
    gone = {"history": 0, "memories": 0, "exchanges": 0, **dropped}
    return Sent(chars, parts, limit, gone, ())


# Records ----------------------------------------------------------------------------------------


def test_records_of_a_memory(alice):
    alice.put("preference", "drink", "乌龙茶")
    alice.pin("preference", "drink")

    table = views.records(alice)

    assert type(table) is DataFrame
    assert table.to_dict("records") == [
        {
            "kind": "preference",
            "key": "drink",
            "value": "乌龙茶",
            "value (characters)": 3,
            "revision": 1,
            "session": "s1",
            "created (UTC)": "2026-09-21 14:13:20",
            "updated (UTC)": "2026-09-21 14:13:20",
            "last use": "not used yet",
            "uses (times)": 0,
            "pinned": True,
        }
    ]


def test_records_of_what_is_lent_and_of_a_list(alice):
    alice.put("note", "a", "one")
    alice.put("note", "b", "two")

    assert list(views.records(alice.lend())["key"]) == ["a", "b"]
    assert list(views.records(reversed(alice.list()))["key"]) == ["b", "a"]


def test_an_empty_memory_gives_an_empty_table_with_its_columns(alice):
    assert list(views.records(alice).columns) == list(views.records([]).columns)
    assert "value (characters)" in views.records(alice).columns
    assert len(views.records(alice)) == 0


@pytest.mark.parametrize(
    ("later", "label"),
    [
        (0, "used just now"),
        (3 * DAY, "used 3 days ago"),
        (-HOUR, "used at 2026-09-21 14:13:20 UTC"),  # the clock was set back: no age is true
    ],
)
def test_how_long_ago_a_record_was_used(alice, clock, later, label):
    alice.put("note", "a", "one")
    alice.touch(alice.list())
    clock.now += later

    assert list(views.records(alice)["last use"]) == [label]


def test_without_a_clock_a_table_tells_the_time_and_no_age(alice):
    alice.put("note", "a", "one")
    alice.touch(alice.list())

    assert list(views.records(alice.list())["last use"]) == ["used at 2026-09-21 14:13:20 UTC"]
    assert list(views.records(alice.list(), now=START + DAY)["last use"]) == ["used 1 day ago"]


# Hits, ledger -----------------------------------------------------------------------------------


def test_hits_tell_rank_score_and_why(alice):
    alice.put("note", "a", "green tea in the morning")
    alice.put("note", "b", "tea")

    table = views.hits(alice.recall("morning tea"))

    assert list(table["rank"]) == [1, 2]
    assert list(table["key"]) == ["a", "b"]
    best = alice.recall("morning tea")[0]
    assert table["score"][0] == round(best.score, 3)
    assert table["why"][0] == f"words: rank 1, score {best.why['words']['score']:.3f}"


def test_a_preference_that_no_ranking_found_says_so(alice):
    record = alice.put("preference", "style", "short")

    assert list(views.hits([Hit(record, 0.0, {})])["why"]) == [
        "a preference goes into every request"
    ]


def test_the_ledger_tells_each_decision_and_no_value(alice, clock):
    lent = alice.lend()
    first = lent.propose(Put("note", "a", "secret one"))
    second = lent.propose(Put("note", "b", "secret two"))
    clock.now += MINUTE
    alice.approvals.approve(first.id, how="panel")
    alice.approvals.reject(second.id, "not that")

    table = views.ledger(alice)

    assert table[["proposal", "action", "kind", "key", "decision", "effect", "note"]].to_dict(
        "split"
    )["data"] == [
        ["p1", "put", "note", "a", "used", "created", ""],
        ["p2", "put", "note", "b", "rejected", "", "not that"],
    ]
    assert list(table["decided by"]) == ["panel", "code"]
    assert list(table["asked (UTC)"]) == ["2026-09-21 14:13:20"] * 2
    assert list(table["decided (UTC)"]) == ["2026-09-21 14:14:20"] * 2
    assert "secret" not in table.to_csv()


def test_the_ledger_of_a_user_of_their_approvals_and_of_entries_is_one(alice):
    alice.approvals.grant(Put("note", "a", "one"))
    alice.lend().apply(Put("note", "a", "one"))
    table = views.ledger(alice)

    assert list(table["decided by"]) == ["granted"]
    assert table.equals(views.ledger(alice.approvals))
    assert table.equals(views.ledger(alice.approvals.ledger()))


# Requests ---------------------------------------------------------------------------------------


def test_requests_are_one_row_a_model_call_and_the_parts_add_up(alice):
    alice.put("note", "tea", "green tea")
    answer = asked(alice, call("memory_get", kind="note", key="tea"), say("green"))

    table = views.requests(answer)

    parts = [f"{part} (characters)" for part in answer.steps[0].request.by_part]
    assert list(table["call"]) == [1, 2]
    assert list(table[parts].sum(axis=1)) == list(table["total (characters)"])
    assert list(table["total (characters)"]) == [step.request.chars for step in answer.steps]
    assert list(table["limit (characters)"]) == [16_000, 16_000]
    assert list(table["exchanges (characters)"] > 0) == [False, True]


def test_requests_of_several_answers_are_numbered_by_turn(alice):
    first, second = asked(alice, say("a")), asked(alice, call("memory_get"), say("b"))

    table = views.requests([first, second])

    assert table[["turn", "call"]].to_numpy().tolist() == [[1, 1], [2, 1], [2, 2]]
    assert len(views.requests(second.steps)) == 2


def test_requests_tell_what_was_left_out():
    [row] = views.requests([sent(90, history=2, memories=1)]).to_dict("records")

    assert row["dropped history (items)"] == 2
    assert row["dropped memories (items)"] == 1
    assert row["dropped exchanges (items)"] == 0


def test_what_is_no_answer_is_refused():
    with pytest.raises(InvalidInput, match="answers"):
        views.requests(["answer"])
    with pytest.raises(InvalidInput, match="hold no request"):
        views.plot_requests([])


def test_the_words_for_the_requests_name_every_number():
    told = views.describe_requests([sent(1_090, limit=16_000, history=2), sent(90)])

    assert told == (
        "2 requests, sizes in characters.\n"
        "call 1: 1,090 of at most 16,000 (system 1,080, task 10); left out: 2 of history.\n"
        "call 2: 90 of at most 100 (system 80, task 10); left out: nothing."
    )


def test_the_figure_draws_each_request_and_its_limit(alice):
    alice.put("note", "tea", "green tea")
    answer = asked(alice, call("memory_get", kind="note", key="tea"), say("green"))

    figure = views.plot_requests(answer)

    [axes] = figure.axes
    wide = {bars.get_label(): [bar.get_width() for bar in bars] for bars in axes.containers}
    assert wide == {
        part: [step.request.by_part[part] for step in answer.steps]
        for part in answer.steps[0].request.by_part
    }
    assert [list(line.get_xdata()) for line in axes.lines] == [[16_000, 16_000]] * 2
    assert "characters" in axes.get_xlabel()
    assert isinstance(figure, Figure)
    assert figure.alt_text == repr(figure) == views.describe_requests(answer)


def test_the_parts_of_the_figure_can_be_told_apart_in_grey(alice):
    figure = views.plot_requests(asked(alice, say("ok")))

    looks = [
        (bars[0].get_hatch() or "", bars[0].get_facecolor()) for bars in figure.axes[0].containers
    ]
    plain = sorted(sum(look[1][:3]) / 3 for look in looks if not look[0])
    assert len({hatch for hatch, _ in looks if hatch}) == len(looks) - len(plain)
    assert all(b - a > 0.2 for a, b in pairwise(plain))


def test_a_notebook_gets_a_picture_without_pyplot(alice):
    figure = views.plot_requests(asked(alice, say("ok")))

    assert figure._repr_png_().startswith(b"\x89PNG")


# Where is it still? -----------------------------------------------------------------------------


def places(table):
    """The places where it was found, and how often."""
    return {place: times for place, times in table.itertuples(index=False) if times}


def test_a_text_is_found_in_each_table_and_in_the_files(store, alice):
    alice.put("note", "plan", "Zebra one")
    alice.put("note", "plan", "Zebra two, zebra three")
    alice.lend().propose(Put("note", "other", "no Zebra"), reason="Zebra")

    table = views.where_is_it(store, "Zebra")

    assert list(table.columns) == ["place", "found (times)"]
    assert set(table["place"]) >= {
        *("table memory", "table revision", "table proposal", "table tombstone"),
        "file memory.sqlite3",
    }
    found = places(table)
    assert found["table memory"] == 2  # Zebra and zebra, in one value
    assert found["table revision"] == 1
    assert found["table proposal"] == 2
    assert any(place.startswith("file ") for place in found)


def test_after_a_deletion_it_stands_nowhere_before_and_after_close(store, alice, tmp_path):
    alice.put("note", "plan", "Zebra one")
    alice.put("note", "plan", "Zebra two")
    alice.lend().propose(Put("note", "plan", "Zebra three"), reason="Zebra")
    alice.put("note", "other", "Yak")
    alice.delete("note", "plan")

    assert places(views.where_is_it(store, "Zebra")) == {}
    store.close()
    assert places(views.where_is_it(tmp_path / "memory", "Zebra")) == {}
    assert places(views.where_is_it(str(tmp_path / "memory"), "Yak")) != {}


def test_the_name_of_a_deleted_record_still_stands_in_its_tombstone(store, alice):
    alice.put("note", "zebra", "one")
    alice.delete("note", "zebra")

    assert places(views.where_is_it(store, "zebra"))["table tombstone"] == 1


def test_what_another_reader_still_holds_in_the_log_is_found_and_later_gone(store, alice, tmp_path):
    code = """
import sqlite3, sys
reader = sqlite3.connect(sys.argv[1])
reader.execute("BEGIN")
reader.execute("SELECT count(*) FROM memory").fetchall()
print("reading", flush=True)
input()
"""
    alice.put("note", "plan", "Zebra one")
    file = str(tmp_path / "memory" / "memory.sqlite3")
    with subprocess.Popen(
        [sys.executable, "-c", code, file], stdin=-1, stdout=-1, text=True
    ) as reader:
        assert reader.stdout.readline().strip() == "reading"
        alice.delete("note", "plan")
        held = places(views.where_is_it(store, "Zebra"))
        reader.communicate("\n")
    store.compact()

    assert set(held) == {"file memory.sqlite3-wal"}
    assert store.stats()["erase_pending"] is False
    assert places(views.where_is_it(store, "Zebra")) == {}


def test_looking_takes_no_lock_away_and_writes_nothing(store, alice, tmp_path):
    code = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1])
print(other.execute("SELECT count(*) FROM memory").fetchone()[0])
other.close()  # whoever believes to be the last one takes the log away
"""
    file = str(tmp_path / "memory" / "memory.sqlite3")
    command = [sys.executable, "-c", code, file]
    alice.put("note", "plan", "Zebra")
    before = alice.list()

    views.where_is_it(store, "Zebra")

    assert alice.list() == before
    assert subprocess.check_output(command, text=True).strip() == "1"
    alice.put("note", "later", "still works")
    assert subprocess.check_output(command, text=True).strip() == "2"


def test_a_strange_file_in_the_folder_is_looked_into_and_a_strange_text_is_plain(store, alice):
    alice.put("note", "a", "100% \"sure\"; '记忆'")
    folder = store._database.path.parent
    (folder / "copy\u202e.bak").write_bytes(b"\xff 100% sure".replace(b"sure", b'"sure"'))

    assert places(views.where_is_it(store, '100% "sure"'))["file copy⟨U+202E⟩.bak"] == 1
    assert places(views.where_is_it(store, "'记忆'"))["table memory"] == 1
    assert places(views.where_is_it(store, "100_")) == {}


def test_where_there_is_no_store_looking_makes_none(tmp_path):
    with pytest.raises(StoreError, match="no memory store"):
        views.where_is_it(tmp_path / "nothing", "Zebra")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("text", ["", " ", None, "a\0b"])
def test_a_text_that_could_stand_nowhere_is_refused(store, text):
    with pytest.raises(InvalidInput, match="text"):
        views.where_is_it(store, text)


# Retention --------------------------------------------------------------------------------------


def aged(key, days, uses=0, kind="note", pinned=False):
    at = START - round(days * DAY)
    return Record(kind, key, "v", 1, "s1", at, at, at if uses else None, uses, pinned)


OLD = [aged("gone", 40), aged("kept", 10), aged("used", 40, 3), aged("wish", 40, kind="preference")]


def lines_of(figure):
    return {line.get_label(): line for line in figure.axes[0].lines}


def test_the_curves_are_those_of_retention():
    figure = views.plot_retention(half_life_days=20)

    drawn = lines_of(figure)
    assert list(drawn) == ["never used", "used once", "used 3 times", "used 10 times"]
    for uses, line in zip((0, 1, 3, 10), drawn.values(), strict=True):
        for days, left in list(zip(line.get_xdata(), line.get_ydata(), strict=True))[::40]:
            assert left == pytest.approx(retention(aged("k", days, uses), START, 20), abs=1e-6)
    assert drawn["never used"].get_xdata()[-1] == 60
    assert "days" in figure.axes[0].get_xlabel()


def test_the_curves_can_be_told_apart_in_grey():
    drawn = lines_of(views.plot_retention()).values()

    assert len({line.get_linestyle() for line in drawn}) == len(drawn)
    greys = sorted(int(line.get_color()[1:3], 16) for line in drawn)
    assert all(b - a > 25 for a, b in pairwise(greys))
    assert all(line.get_color() == "#" + line.get_color()[1:3] * 3 for line in drawn)


def test_records_stand_on_their_curve_and_what_the_policy_forgets_is_marked():
    figure = views.plot_retention(OLD, Policy(), now=START)

    drawn = lines_of(figure)
    assert list(drawn["would be forgotten"].get_xdata()) == [40]
    assert sorted(drawn["a record"].get_xdata()) == [10, 40, 40]
    assert drawn["would be forgotten"].get_ydata()[0] == retention(OLD[0], START)
    assert drawn["would be forgotten"].get_markerfacecolor() == "black"
    assert drawn["a record"].get_markerfacecolor() == "white"
    assert list(drawn["idle for 30 days"].get_xdata()) == [30, 30]
    named = {text.get_text() for text in figure.axes[0].texts}
    assert named == {"note/gone, preference/wish", "note/kept", "note/used"}


def test_the_marked_records_are_exactly_those_of_the_plan():
    policy = Policy(idle_days=5, min_uses=9, kinds=("note", "preference"))

    told = views.describe_retention(OLD, policy, now=START)

    marked = {line.partition(":")[0] for line in told.splitlines() if "would be forgotten" in line}
    assert marked == {f"{record.kind}/{record.key}" for record in plan(OLD, policy, START)}


def test_the_words_for_the_curve_name_every_number():
    told = views.describe_retention(OLD[:2], Policy(), now=START)

    assert told == (
        "How much is left of a memory that is not used, from 1 (just used) towards 0.\n"
        "never used: 0.50 after 30 days, 0.25 after 60.\n"
        "used once: 0.66 after 30 days, 0.44 after 60.\n"
        "used 3 times: 0.75 after 30 days, 0.56 after 60.\n"
        "used 10 times: 0.82 after 30 days, 0.66 after 60.\n"
        "The policy forgets what was not used for more than 30 days and fewer than 2 times: "
        "episode, note.\n"
        "note/gone: idle 40.0 days, 0.40 left, would be forgotten.\n"
        "note/kept: idle 10.0 days, 0.79 left."
    )
    figure = views.plot_retention(OLD[:2], Policy(), now=START)
    assert figure.alt_text == repr(figure) == told
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_memory_brings_its_own_clock(alice, clock):
    alice.put("note", "a", "one")
    clock.now += 40 * DAY

    assert "note/a: idle 40.0 days" in views.describe_retention(alice)
    assert "note/a: idle 40.0 days" in views.describe_retention(alice.lend())
    assert "note/a: idle 0.0 days, 1.00" in views.describe_retention(alice.list(), now=START)


def test_records_alone_need_a_time():
    with pytest.raises(InvalidInput, match="now"):
        views.plot_retention(OLD)


def test_a_policy_or_half_life_that_is_none_is_refused():
    with pytest.raises(InvalidInput, match="policy"):
        views.plot_retention(policy="30 days")
    with pytest.raises(InvalidInput, match="half_life_days"):
        views.plot_retention(half_life_days=0)


# Hit rates --------------------------------------------------------------------------------------

RATES = [
    {"method": method, "language": language, "hit@3 (%)": rate}
    for method, language, rate in (
        ("words", "en", 88.0),
        ("words", "zh", 12.5),
        ("words and pairs", "en", 88.0),
        ("words and pairs", "zh", 91.0),
        ("vectors", "en", 70.0),
    )
]


def test_each_language_is_a_group_and_each_method_a_bar():
    figure = views.plot_hit_rates(RATES, "hit@3 (%)")

    [axes] = figure.axes
    bars = {group.get_label(): [bar.get_height() for bar in group] for group in axes.containers}
    assert bars == {"words": [88, 12.5], "words and pairs": [88, 91], "vectors": [70]}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["en", "zh"]
    middles = [round(bar.get_x() + bar.get_width() / 2) for bar in axes.patches]
    assert middles == [0, 1, 0, 1, 0]
    assert axes.get_ylabel() == "hit@3 (%)"
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches)
    assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(spans))


def test_the_words_for_the_hit_rates_name_every_number():
    figure = views.plot_hit_rates(pandas.DataFrame(RATES), "hit@3 (%)")

    assert figure.alt_text == repr(figure) == views.describe_hit_rates(RATES, "hit@3 (%)")
    assert figure.alt_text == (
        "hit@3 (%), by method and language.\n"
        "words: en 88.0, zh 12.5.\n"
        "words and pairs: en 88.0, zh 91.0.\n"
        "vectors: en 70.0."
    )
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_the_bars_can_be_told_apart_in_grey():
    many = [
        {"method": f"m{n}", "language": "en", "hit rate (%)": 10 * n} for n in range(len("1234567"))
    ]

    figure = views.plot_hit_rates(many)

    looks = {
        (group[0].get_hatch() or sum(group[0].get_facecolor()[:3]))
        for group in figure.axes[0].containers
    }
    assert len(looks) == 7


def test_a_rate_that_is_not_known_has_no_bar():
    table = pandas.DataFrame(RATES).pivot_table(
        index="method", columns="language", values="hit@3 (%)", dropna=False
    )
    long = table.stack(future_stack=True).rename("hit@3 (%)").reset_index()

    assert "vectors: en 70.0." in views.describe_hit_rates(long, "hit@3 (%)")
    assert len(views.plot_hit_rates(long, "hit@3 (%)").axes[0].patches) == 5


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([], "holds no rate"),
        ([{"method": "a", "language": "en"}], "must have the columns"),
        ([{"method": "a", "language": "en", "hit rate (%)": "high"}], "must have the columns"),
        ([{"method": "a", "language": "en", "hit rate (%)": 101}], "a rate of 101"),
        ([{"method": "a", "language": "en", "hit rate (%)": -1}], "a rate of -1"),
        ([{"method": "a", "language": "en", "hit rate (%)": 1}] * 2, "two rows for 'a', 'en'"),
        (["a"], "must have the columns"),
    ],
)
def test_a_table_without_rates_is_refused(rows, found):
    with pytest.raises(InvalidInput, match=f"table: .*{re.escape(found)}"):
        views.plot_hit_rates(rows)


def test_a_label_is_no_formula_and_a_missing_character_is_spelled_out():
    odd = [{"method": "_$x^2$ \U00013000\u202e", "language": "en", "hit rate (%)": 5}]

    figure = views.plot_hit_rates(odd)

    figure._repr_png_()  # a missing glyph would be a warning, and a warning is an error here
    [entry] = figure.legends[0].get_texts()
    assert entry.get_text().startswith(r" _\$x^2\$ ")
    assert "U+13000⟨U+202E⟩" in entry.get_text()


# Leaks ------------------------------------------------------------------------------------------

LEAKS = [
    {"user": user, "path": path, "leaked": leaked}
    for user, path, leaked in (
        ("alice", "get", False),
        ("alice", "search", True),
        ("小梅", "search", False),
        ("小梅", "export", True),
    )
]


def test_each_user_is_a_row_and_each_path_a_column():
    figure = views.plot_leaks(LEAKS, "Before")

    [axes] = figure.axes
    words = {text.get_position(): text.get_text() for text in axes.texts}
    assert words == {(0, 0): "apart", (1, 0): "LEAKED", (1, 1): "apart", (2, 1): "LEAKED"}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["get", "search", "export"]
    assert len(axes.get_yticklabels()) == 2
    boxes = {(box.get_x() + 0.5, box.get_y() + 0.5): box for box in axes.patches}
    assert set(boxes) == set(words)
    assert axes.get_ylim() == (1.5, -0.5)  # the first user stands at the top
    assert axes.get_title("left") == "Before"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("path", "user who looks")


def test_the_words_for_the_leaks_name_every_cell():
    figure = views.plot_leaks(DataFrame(LEAKS), "Before")

    assert figure.alt_text == repr(figure)
    assert figure.alt_text == (
        "Before\n"
        "alice: leaked on search; apart on get; not tried: export.\n"
        "小梅: leaked on export; apart on search; not tried: get."
    )
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_leak_can_be_told_in_grey():
    [axes] = views.plot_leaks(LEAKS).axes

    def grey(colour):
        red, green, blue = to_rgb(colour)
        return 0.299 * red + 0.587 * green + 0.114 * blue

    for box, text in zip(axes.patches, axes.texts, strict=True):
        leaked = text.get_text() == "LEAKED"
        assert (grey(box.get_facecolor()[:3]) < 0.4) == leaked
        assert abs(grey(box.get_facecolor()[:3]) - grey(text.get_color())) > 0.6


def test_a_path_that_was_not_tried_has_no_cell():
    wide = DataFrame(LEAKS).pivot_table(
        index="user", columns="path", values="leaked", dropna=False, aggfunc="first"
    )
    long = wide.stack(future_stack=True).rename("leaked").reset_index()

    assert len(long) == 6
    assert len(views.plot_leaks(long).axes[0].patches) == 4
    assert len(views.plot_leaks([*LEAKS, {**LEAKS[0], "user": "bob", "leaked": None}]).axes) == 1


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([], "holds no path"),
        ([{"user": "a", "path": "get", "leaked": None}], "holds no path"),
        ([{"user": "a", "path": "get"}], "must have the columns"),
        ([{"user": "a", "path": "get", "leaked": "no"}], "says leaked: 'no'"),
        ([{"user": "a", "path": "get", "leaked": 1}], "says leaked: 1"),
        ([{"user": "a", "path": "get", "leaked": pandas.NA}], "says leaked: <NA>"),
        ([{"user": "a", "path": "get", "leaked": True}] * 2, "two rows for 'a', 'get'"),
        (["a"], "must have the columns"),
    ],
)
def test_a_table_without_leaks_is_refused(rows, found):
    with pytest.raises(InvalidInput, match=f"table: .*{re.escape(found)}"):
        views.plot_leaks(rows)


def test_names_and_title_of_the_leaks_are_no_formula_and_no_box():
    odd = "_$x^2$ \U00013000\u202e"

    figure = views.plot_leaks([{"user": odd, "path": odd, "leaked": True}], odd)

    figure._repr_png_()  # a missing glyph would be a warning, and a warning is an error here
    [axes] = figure.axes
    drawn = [axes.get_title("left")]
    drawn += [label.get_text() for label in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    assert drawn == [r" _\$x^2\$ U+13000⟨U+202E⟩"] * 3
    assert "\u202e" not in figure.alt_text


# Attacks ----------------------------------------------------------------------------------------

ATTACKED = [
    {"version": version, "attack success (%)": attacks, "false refusals (%)": lost}
    for version, attacks, lost in (("pastes", 96.7, 0), ("过滤", 90, 22.7), ("asks", 0, 0))
]


def test_each_version_has_two_bars_the_first_at_the_top():
    figure = views.plot_attacks(ATTACKED)

    [axes] = figure.axes
    bars = {group.get_label(): [bar.get_width() for bar in group] for group in axes.containers}
    assert bars == {"attack success (%)": [96.7, 90, 0], "false refusals (%)": [0, 22.7, 0]}
    assert [round(bar.get_y() + 0.2, 1) for bar in axes.patches] == [
        *(-0.2, 0.8, 1.8),
        *(0.2, 1.2, 2.2),
    ]
    assert axes.get_ylim() == (2.5, -0.5)
    assert axes.get_yticklabels()[0].get_text() == "pastes"
    assert axes.get_xlabel().endswith("(%)")


def test_the_words_for_the_attacks_name_every_number():
    figure = views.plot_attacks(DataFrame(ATTACKED))

    assert figure.alt_text == repr(figure)
    assert figure.alt_text == (
        "Attack success and false refusals, in %, by version.\n"
        "pastes: attack success 97, false refusals 0.\n"
        "过滤: attack success 90, false refusals 23.\n"
        "asks: attack success 0, false refusals 0."
    )
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_the_two_ways_to_fail_can_be_told_apart_in_grey():
    groups = views.plot_attacks(ATTACKED).axes[0].containers

    attacks, lost = (group[0] for group in groups)
    assert sum(attacks.get_facecolor()[:3]) + 1 < sum(lost.get_facecolor()[:3])
    assert attacks.get_hatch() != lost.get_hatch()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"attack success (%)": 101}, "a rate of 101"),
        ({"false refusals (%)": -1}, "a rate of -1"),
        ({"false refusals (%)": float("nan")}, "a rate of nan"),
        ({"attack success (%)": "high"}, "must have the columns"),
        ({"version": "asks"}, "two rows for 'asks'"),
    ],
)
def test_a_table_without_both_rates_is_refused(change, found):
    with pytest.raises(InvalidInput, match=f"table: .*{re.escape(found)}"):
        views.plot_attacks([ATTACKED[2], {**ATTACKED[0], **change}])


@pytest.mark.parametrize("rows", [[], ["a"], [{"version": "a", "attack success (%)": 1}]])
def test_a_table_without_versions_is_refused(rows):
    with pytest.raises(InvalidInput, match="table"):
        views.plot_attacks(rows)


def test_the_name_of_a_version_is_no_formula_and_no_box():
    figure = views.plot_attacks([{**ATTACKED[0], "version": "_$x^2$ \U00013000\u202e"}])

    figure._repr_png_()  # a missing glyph would be a warning, and a warning is an error here
    [label] = figure.axes[0].get_yticklabels()
    assert label.get_text() == r" _\$x^2\$ U+13000⟨U+202E⟩"
    assert "\u202e" not in figure.alt_text


# Recall by size -----------------------------------------------------------------------------------

BY_SIZE = [
    {"method": method, "room (characters)": room, "answered (%)": rate}
    for method, room, rate in (
        ("best first", 1000, 80),
        ("best first", 250, 75.4),
        ("最新", 250, 0),
        ("最新", 1000, 100),
    )
]


def test_each_method_is_a_line_over_the_room_it_has():
    [axes] = views.plot_recall_by_size(BY_SIZE).axes

    drawn = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert list(drawn.values()) == [[[250, 75.4], [1000, 80]], [[250, 0], [1000, 100]]]
    assert next(iter(drawn)) == "best first"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["250", "1,000"]
    assert axes.get_xlabel() == "room for memories (characters)"
    assert axes.get_ylabel() == "answered (%)"
    assert axes.get_xlim()[0] == 0  # half the room is half as far from the left
    assert axes.get_ylim() == (0, 100)


def test_the_words_for_the_recall_by_size_name_every_number():
    figure = views.plot_recall_by_size(DataFrame(BY_SIZE))

    assert figure.alt_text == repr(figure)
    assert figure.alt_text == (
        "answered (%), by method and by room for memories, in characters.\n"
        "best first: 75 in 250, 80 in 1,000.\n"
        "最新: 0 in 250, 100 in 1,000."
    )
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_the_lines_can_be_told_apart_without_colour():
    many = [{**BY_SIZE[0], "method": f"m{n}"} for n in range(20)]

    looks = {
        (line.get_marker(), line.get_linestyle())
        for line in views.plot_recall_by_size(many).axes[0].lines
    }
    assert len(looks) == 20


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"answered (%)": 101}, "a rate of 101"),
        ({"answered (%)": -1}, "a rate of -1"),
        ({"answered (%)": float("nan")}, "a rate of nan"),
        ({"answered (%)": "high"}, "must have the columns"),
        ({"room (characters)": 0}, "room for 0 characters"),
        ({"room (characters)": None}, "must have the columns"),
        ({}, "two rows for 'best first', 1000"),
    ],
)
def test_a_table_without_rates_or_sizes_is_refused(change, found):
    with pytest.raises(InvalidInput, match=f"table: .*{re.escape(found)}"):
        views.plot_recall_by_size([BY_SIZE[0], {**BY_SIZE[0], **change}])


@pytest.mark.parametrize("rows", [[], ["a"], [{"method": "a", "answered (%)": 1}]])
def test_a_table_without_methods_is_refused(rows):
    with pytest.raises(InvalidInput, match="table"):
        views.plot_recall_by_size(rows)


def test_the_name_of_a_line_is_no_formula_and_no_box():
    figure = views.plot_recall_by_size([{**BY_SIZE[0], "method": "_$x^2$ \U00013000\u202e"}])

    figure._repr_png_()  # a missing glyph would be a warning, and a warning is an error here
    [label] = figure.legends[0].get_texts()
    assert label.get_text() == r" _\$x^2\$ U+13000⟨U+202E⟩"
    assert "\u202e" not in figure.alt_text


# Hostile text -----------------------------------------------------------------------------------


def test_nothing_stored_runs_or_hides_in_a_table(alice):
    alice.put("note", "a", HOSTILE)
    lent = alice.lend()
    alice.approvals.reject(lent.propose(Delete("note", "a"), reason=HOSTILE).id, HOSTILE)

    for table in (views.records(alice), views.hits(alice.recall("img")), views.ledger(alice)):
        markup = table._repr_html_()
        assert table.to_csv().count("⟨U+202E⟩") == 1
        assert "\u202e" not in markup
        assert "\u200b" not in markup
        assert "<img" not in markup


def test_a_price_in_a_table_is_not_typeset_as_a_formula(alice):
    assert "tex2jax_ignore" in views.records(alice)._repr_html_()


def test_no_table_is_styled(alice):
    answer = asked(alice, say("ok"))
    tables = [views.records(alice), views.hits([]), views.ledger(alice), views.requests(answer)]

    assert {type(table) for table in tables} == {pandas.DataFrame}


# What is imported -------------------------------------------------------------------------------


def test_pandas_and_matplotlib_are_imported_on_use():
    code = "import json, sys, memlab.views; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", code], timeout=60))

    assert {"pandas", "matplotlib", "numpy"} & set(loaded) == set()


def test_the_figure_leaves_pyplot_alone():
    code = (
        "import sys; from memlab import views; from memlab.agent import Sent\n"
        "views.plot_requests([Sent(9, {'system': 9}, 10, {}, ())])._repr_png_()\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )

    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


@pytest.mark.parametrize("package", ["pandas", "matplotlib"])
def test_where_a_package_is_missing_the_error_names_its_install_line(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure")
    show = views.records if package == "pandas" else lambda _: views.plot_requests([sent(90)])

    with pytest.raises(MemlabError, match=r'needs \w+.*pip install "memlab\[views\]"') as caught:
        show([])
    assert package in str(caught.value)


def test_a_limit_of_ones_own_stands_beside_the_request(alice):
    answer = asked(alice, say("ok"), limits=Limits(request_chars=9_000))

    assert list(views.requests(answer)["limit (characters)"]) == [9_000]


# What happened in an answer ---------------------------------------------------------------------


@pytest.fixture
def traced(alice):
    """Two changes asked for in one step, of which one is approved, and a false claim."""
    alice.approvals.grant(Put("note", "tea", "oolong"))
    put = {"kind": "note", "value": "oolong"}
    both = [say("Both!"), *(call("memory_put", key=key, **put) for key in ("car", "tea"))]
    return asked(alice, call("memory_get", kind="note", key="tea"), both, say("Both are saved."))


def test_a_trace_has_a_row_for_each_step_and_event_in_order(traced):
    table = views.trace(traced)

    assert list(table.columns) == [
        "step",
        "what happened",
        "size (characters)",
        "limit (characters)",
        "result",
    ]
    assert [step if step is not pandas.NA else None for step in table["step"]] == [
        *(1, 1, 2, 2, 2, 2, 3, 3, None)
    ]
    assert [what.partition(":")[0] for what in table["what happened"]] == [
        "request sent",
        "the model called memory_get",
        "request sent",
        "the model said",
        "the model called memory_put",
        "the model called memory_put",
        "request sent",
        "the model said",
        "the answer ended",
    ]
    sent = table[table["what happened"] == "request sent"]
    assert list(sent["size (characters)"]) == [step.request.chars for step in traced.steps]
    assert set(sent["limit (characters)"]) == {16_000}
    assert set(sent["result"]) == {"left out: nothing"}
    assert type(table) is DataFrame


def test_a_trace_believes_the_store_and_not_the_model(traced):
    results = list(views.trace(traced)["result"])

    assert results[1] == "read 0 records; nothing was written"
    assert results[3] == "words only"
    assert results[4].startswith("nothing was written yet: it waits for approval as ")
    assert results[5] == "created note/tea, revision 1"
    assert results[7] == "words only"
    assert results[8].startswith("created note/tea, revision 1; waits for approval: put note/car (")


def test_a_write_that_only_a_result_tells_of_is_none(traced):
    without = dataclasses.replace(traced, writes=())

    assert list(views.trace(without)["result"])[5] == "nothing was written"


def test_a_trace_tells_every_kind_of_change(alice):
    alice.put("note", "tea", "oolong")
    for change in (Put("note", "tea", "sencha"), Delete("note", "tea")):
        alice.approvals.grant(change)
        name = "memory_put" if isinstance(change, Put) else "memory_delete"
        arguments = change.to_dict()
        del arguments["action"]
        answer = asked(alice, [call(name, **arguments), call(name, **arguments)], say("ok"))
        results = list(views.trace(answer)["result"])
        effect = "replaced note/tea, revision 2" if name == "memory_put" else "deleted note/tea"
        assert results[1] == effect
        assert results[2].startswith("nothing was written")


def test_a_trace_of_what_came_back_without_a_reply_or_a_result():
    reply = {"role": "assistant", "content": None}
    steps = (
        Step(sent(90, history=2), reply, (Call("1", "memory_put", "{}"),), ()),
        Step(sent(90), None),
    )
    table = views.trace(Answer("", "cancelled", steps=steps))

    assert list(table["result"]) == [
        "left out: 2 of history",
        "no result: the answer ended before; no write is recorded",
        "left out: nothing",
        "nothing was written",
        "nothing was written",
    ]
    assert list(table["what happened"])[3:] == ["no reply came", "the answer ended: cancelled"]


def test_a_trace_without_steps_has_one_row():
    table = views.trace(Answer("", "time_limit"))

    assert list(table["what happened"]) == ["the answer ended: time_limit"]
    assert str(table["step"].dtype) == "Int64"


def test_hostile_text_in_a_trace_is_text(alice):
    bad = {"function": {"name": HOSTILE, "arguments": HOSTILE}}
    answer = asked(alice, {"role": "assistant", "content": HOSTILE, "tool_calls": [bad]}, HOSTILE)
    table = views.trace(answer)

    assert "<img" not in table._repr_html_()
    assert not re.search("[\u202e\u200b]", table.to_csv())
    assert table.to_csv().count("⟨U+202E⟩") >= 4
