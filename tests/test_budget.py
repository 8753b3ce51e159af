"""Whole items are left out, in a known order, until a request fits; nothing else is touched."""

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from plain_fit import plain_fit
from test_request import QUICK, exchange, exchanges, proposal, record, requests, sent

from memlab.budget import fit, room, squeeze, tell
from memlab.errors import InvalidInput, OverBudget
from memlab.records import Turn
from memlab.request import Dropped, Request, measure, sizes


def attempt(fitting, request, limit):
    try:
        return fitting(request, limit)
    except OverBudget as error:
        return (error.chars, error.limit)


def crowded(turns=3, memories=3, calls=3):
    """A request that has everything, each item of its own size."""
    return Request(
        "What now?",
        memories=[record("m" * (20 + n), f"k{n}", "note") for n in range(memories)],
        turns=[Turn(f"q{n}", "a" * (30 + n)) for n in range(turns)],
        exchanges=[exchange([f"call_{n}"], result='"' * (10 + n)) for n in range(calls)],
        tools=[{"type": "function", "function": {"name": "look"}}],
    )


def every_fit(request):
    """Fit to each limit from the whole size down, until nothing more can go."""
    limit = sizes(request).chars
    while True:
        try:
            fitted = fit(request, limit)
        except OverBudget:
            return
        yield fitted, limit
        limit = sizes(fitted).chars - 1


# The order and the numbers


@QUICK
@given(requests, st.floats(0, 1.1))
@example(Request("hi", turns=[Turn("", "")] * 10, dropped=Dropped(history=9)), 0.9)
@example(Request("hi", turns=[Turn("", "")] * 12, dropped=Dropped(history=98)), 0.7)
def test_fitting_gives_what_recomputing_everything_gives(request, share):
    limit = max(1, int(sizes(request).chars * share))

    assert attempt(fit, request, limit) == attempt(plain_fit, request, limit)


@QUICK
@given(requests, st.floats(0.3, 1.1))
def test_what_is_fitted_fits_shrinks_and_fits_again_as_it_is(request, share):
    limit = int(sizes(request).chars * share)
    try:
        fitted = fit(request, limit)
    except OverBudget:
        return

    assert measure(*sent(fitted)) <= limit
    assert fit(fitted, limit) is fitted
    if fitted is not request:
        assert sizes(fitted).chars < sizes(request).chars


@QUICK
@given(requests)
def test_a_request_that_fits_is_returned_itself_up_to_its_exact_size(request):
    exact = measure(*sent(request))

    assert fit(request, exact) is request
    assert attempt(fit, request, exact - 1) is not request


def test_history_goes_first_then_memories_then_exchanges_one_at_a_time():
    counts = [tuple(fitted.dropped.to_dict().values()) for fitted, _ in every_fit(crowded())]

    assert counts == [
        *((0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)),
        *((3, 1, 0), (3, 2, 0), (3, 3, 0), (3, 3, 1), (3, 3, 2)),
    ]


def test_the_oldest_turn_and_the_oldest_exchange_go_before_the_newer_ones():
    for fitted, _ in every_fit(crowded()):
        kept = [turn.task for turn in fitted.turns]
        assert kept == ["q0", "q1", "q2"][3 - len(kept) :]
        ids = [each.message["tool_calls"][0]["id"] for each in fitted.exchanges]
        assert ids == ["call_0", "call_1", "call_2"][3 - len(ids) :]
        assert ids[-1] == "call_2"


def test_memories_go_from_the_lowest_rank_up_preferences_later_and_pinned_ones_last():
    request = Request(
        "hi",
        memories=[
            record(key="pinned", kind="note", pinned=True),
            record(key="wish1"),
            record(key="wish2"),
            record(key="best", kind="note"),
            record(key="worst", kind="note"),
        ],
    )

    kept = [[m.key for m in fitted.memories] for fitted, _ in every_fit(request)]

    assert kept == [
        ["pinned", "wish1", "wish2", "best", "worst"],
        ["pinned", "wish1", "wish2", "best"],
        ["pinned", "wish1", "wish2"],
        ["pinned", "wish1"],
        ["pinned"],
        [],
    ]


def test_a_call_and_its_result_stay_or_go_together_at_every_limit():
    request = replace(
        crowded(), exchanges=[exchange([f"a{n}", f"b{n}"], result="x" * 50) for n in range(4)]
    )

    for fitted, _ in every_fit(request):
        open_calls = []
        for message in fitted.messages():
            if message["role"] == "tool":
                assert open_calls.pop(0) == message["tool_call_id"]
            else:
                assert open_calls == []
                open_calls = [call["id"] for call in message.get("tool_calls", ())]
        assert open_calls == []


def test_task_decisions_approvals_tools_and_newest_exchange_are_never_dropped():
    request = replace(
        crowded(), decisions=[proposal(state="used")], approved=[proposal(key="other")]
    )

    *_, (smallest, _) = every_fit(request)

    assert smallest.task == request.task
    assert smallest.decisions == request.decisions
    assert smallest.approved == request.approved
    assert smallest.tools == request.tools
    assert smallest.exchanges == request.exchanges[-1:]


def test_the_items_that_stay_are_the_same_items():
    request = crowded()

    fitted = fit(request, sizes(request).chars - 1)

    assert fitted.memories == request.memories
    assert [id(each) for each in fitted.exchanges] == [id(each) for each in request.exchanges]
    assert len(request.turns) == 3, "the full request is kept as it was"


def test_what_cannot_fit_is_refused_with_its_numbers():
    request = crowded()
    *_, (smallest, _) = every_fit(request)
    least = sizes(smallest).chars

    with pytest.raises(OverBudget) as refused:
        fit(request, least - 1)

    assert (refused.value.chars, refused.value.limit) == (least, least - 1)
    assert str(least) in str(refused.value)
    assert str(least - 1) in str(refused.value)
    assert "token" not in str(refused.value)


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "5", None])
def test_a_limit_that_is_no_count_is_refused(limit):
    with pytest.raises(InvalidInput):
        fit(Request("hi"), limit)


def test_what_was_left_out_before_is_counted_on_and_never_twice():
    first = fit(crowded(), sizes(crowded()).chars - 1)

    again = fit(first, sizes(first).chars - 1)

    assert first.dropped == Dropped(history=1)
    assert again.dropped == Dropped(history=2)
    assert len(again.turns) + again.dropped.history == 3


# Room for the newest exchange


@QUICK
@given(requests, exchanges)
def test_an_exchange_of_exactly_the_room_can_be_added_and_a_larger_one_cannot(request, newest):
    limit = sizes(request).chars + 500
    left = room(request, limit)
    grown = replace(request, exchanges=(*request.exchanges, newest))

    assert fit(grown, limit + newest.chars - left).exchanges == (newest,)
    with pytest.raises(OverBudget):
        fit(grown, limit + newest.chars - left - 1)


@QUICK
@given(exchanges, st.floats(0, 1.2))
def test_a_squeezed_exchange_answers_the_same_calls_and_never_grows(whole, share):
    results = tuple({**each, "content": '{"ok":true,"n":1}'} for each in whole.results)
    whole = replace(whole, results=results)
    chars = int(whole.chars * share)

    small = squeeze(whole, chars)

    assert small.chars <= whole.chars
    if whole.chars <= chars:
        assert small is whole
    calls = [call["id"] for call in small.message["tool_calls"]]
    assert calls == [call["id"] for call in whole.message["tool_calls"]]
    assert calls == [result["tool_call_id"] for result in small.results]
    assert all("ok" in json.loads(result["content"]) for result in small.results)


def test_the_largest_piece_is_left_out_and_the_others_stay_as_they_are():
    whole = exchange(["a", "b"], "I look.", '{"query":"x"}', '{"ok":true,"found":1}')
    large = json.dumps({"ok": True, "found": "x" * 900})
    whole = replace(whole, results=({**whole.results[0], "content": large}, whole.results[1]))

    small = squeeze(whole, whole.chars - 1)

    assert small.message == whole.message
    assert small.results[1] == whole.results[1]
    told = json.loads(small.results[0]["content"])
    assert told["ok"] is False
    assert str(len(large)) in told["error"]
    assert "Ask for less" in told["error"]
    assert whole.results[0]["content"] == large, "the whole one is kept"


def test_arguments_and_words_can_be_left_out_too():
    whole = exchange(["a"], "w" * 900, json.dumps({"content": "x" * 800}), '{"ok":true}')

    small = squeeze(whole, 300)

    assert small.chars <= 300
    assert small.message["content"] is None
    assert small.message["tool_calls"][0]["function"]["arguments"] == "{}"
    assert json.loads(small.results[0]["content"]) == {"ok": True}


@pytest.mark.parametrize("known", [{"effect": "created"}, {"proposal": "p1", "state": "pending"}])
def test_what_a_change_did_is_told_even_where_its_result_is_left_out(known):
    done = "effect" in known
    result = json.dumps({"ok": done, "record": {"value": "x" * 900}, **known})

    small = squeeze(exchange(["a"], result=result), 400)

    told = json.loads(small.results[0]["content"])
    assert told["ok"] is done
    assert known.items() <= told.items()


# Decisions have a share


def test_decisions_and_approvals_leave_room_for_an_exchange_however_many_there_are():
    approved = [proposal("v" * 500, f"k{n}") for n in range(99)]
    decisions = [proposal(key=f"k{n}", state="rejected", note="n" * 200) for n in range(99)]
    request = Request("hi", tools=crowded().tools)
    free = room(request, 16_000)

    told = tell(request, approved, decisions, 16_000)

    assert 0 < len(told.approved) < 99
    assert 0 < len(told.decisions) < 99
    assert told.approved == tuple(approved[: len(told.approved)])
    assert told.decisions == tuple(decisions[: len(told.decisions)])
    assert room(told, 16_000) >= free // 4


def test_a_few_decisions_are_all_told_and_one_too_large_does_not_hide_the_next():
    approved = [proposal("v" * 9000, "long"), proposal("short", "next")]
    decisions = [proposal(state="used")]

    told = tell(Request("hi"), approved, decisions, 16_000)

    assert [each.key for each in told.approved] == ["next"]
    assert told.decisions == tuple(decisions)


def test_telling_again_replaces_what_was_told_before():
    first = tell(Request("hi"), [proposal()], [], 16_000)

    assert tell(first, [], [proposal(state="used")], 16_000).approved == ()
