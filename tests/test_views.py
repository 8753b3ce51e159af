"""Tables and figures say what is stored and sent, with units, and hide nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from itertools import pairwise

import pandas
import pytest
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
    Put,
    ScriptedModel,
    call,
    say,
    views,
)
from memlab.agent import Sent

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
        (0, "used less than a minute ago"),
        (MINUTE - 1, "used less than a minute ago"),
        (MINUTE, "used 1 minute ago"),
        (HOUR - 1, "used 59 minutes ago"),
        (HOUR, "used 1 hour ago"),
        (2 * DAY - 1, "used 1 day ago"),
        (3 * DAY, "used 3 days ago"),
        (400 * DAY, "used 400 days ago"),
        (-1, "used 2026-09-21 14:13:20"),  # the clock was set back: no age is true
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

    assert list(views.records(alice.list())["last use"]) == ["used 2026-09-21 14:13:20"]
    assert list(views.records(alice.list(), now=START + DAY)["last use"]) == ["used 1 day ago"]


def test_a_time_beyond_all_calendars_is_told_in_milliseconds():
    assert views.utc(10**18) == "1000000000000000000 ms after 1970"


# Hits, ledger -----------------------------------------------------------------------------------


def test_hits_tell_rank_score_and_why(alice):
    alice.put("note", "a", "green tea in the morning")
    alice.put("note", "b", "tea")

    table = views.hits(alice.recall("morning tea"))

    assert list(table["rank"]) == [1, 2]
    assert list(table["key"]) == ["a", "b"]
    score = alice.recall("morning tea")[0].score
    assert table["score"][0] == round(score, 3)
    assert table["why"][0] == f"words: rank 1, score {score:.3f}"


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
