"""What other loops broke on: a call parted from its answer, and one bad call that ends the rest."""

from __future__ import annotations

import contextlib
import json

import pytest
from test_agent import NOTHING, Raw, ask, results, sound, told, user_message

from memlab import Limits, MemoryAgent, OverBudget, Put, StoreError, Turn, call, say, views
from memlab.tools import Tool

PAIRS = [
    [call("memory_search", query=f"茶 {n}"), call("memory_get", kind="note", key="tea")]
    for n in range(3)
]


def whole_turn(hand, **limits):
    """Run a turn of three exchanges of two calls each; return its answer and its requests."""
    agent = MemoryAgent(hand, None, limits=Limits(**limits))
    told(agent, say("好的。"), task="我喜欢喝茶")
    return told(agent, *PAIRS, say("Done."), task="我喝什么茶？")


def test_no_size_of_a_request_parts_a_call_from_its_answer(alice):
    alice.put("note", "tea", "龙井茶 " * 40)
    answer, _ = whole_turn(alice)
    largest = answer.steps[-1].request.chars

    kept = set()
    for limit in range(largest, 0, -83):
        try:
            answer, requests = whole_turn(alice, request_chars=limit)
        except OverBudget:
            break
        kept.add(len(results(sound(requests, limit)[-1])))

    assert kept == {2, 4, 6}, "every number of whole exchanges was met on the way"
    assert limit > 1000


def test_no_length_of_the_history_keeps_an_answer_without_its_question(alice):
    said = [Turn(f"第{n}个问题", "答" * n) for n in range(1, 7)]
    for limits in (
        *({"history_turns": n} for n in range(1, 8)),
        *({"history_chars": n} for n in range(1, 60, 4)),
    ):
        agent = MemoryAgent(alice, None, limits=Limits(**limits))
        for turn in said:
            told(agent, say(turn.answer), task=turn.task)

        _, (request,) = told(agent, say("Hm."))

        history = user_message(request)["history"]
        newest = [turn.to_dict() for turn in said[len(said) - len(history) :]]
        assert history == newest, limits


def test_a_tool_that_fails_one_that_is_not_there_and_broken_json_get_one_answer_each(alice):
    def fail():
        raise RuntimeError("out of paper")

    def unnamed(name, arguments):
        return {"function": {"name": name, "arguments": arguments}}

    alice.approvals.grant(Put("note", "tea", "绿茶"))
    good = json.dumps({"kind": "note", "key": "tea", "value": "绿茶"})
    agent = MemoryAgent(alice, None, tools=[Tool("print_page", "Prints.", NOTHING, fail)])
    agent.model = Raw(
        {
            "tool_calls": [
                unnamed("print_page", "{}"),
                unnamed("no_such_tool", "{}"),
                unnamed("memory_put", good[:-1]),
                unnamed("memory_put", good),
            ]
        },
        say("Done."),
    )

    answer = ask(agent)

    told_back = list(results(sound(agent.model.requests)[1]).values())
    assert [each["ok"] for each in told_back] == [False, False, False, True]
    assert answer.status == "complete"
    assert alice.get("note", "tea").value == "绿茶"


@pytest.mark.parametrize("cut_off", ['{"key": "a"', "{", '{"key"', "", "null", "[]", "{}}"])
def test_arguments_that_cannot_be_read_are_never_taken_for_none_at_all(alice, cut_off):
    """A tool that needs no argument is the one that would run."""
    ran = []
    careless = Tool("reset", "Takes what it gets.", NOTHING, lambda: ran.append("ran"))
    agent = MemoryAgent(alice, None, tools=[careless])
    agent.model = Raw(
        {"tool_calls": [{"id": "c1", "function": {"name": "reset", "arguments": cut_off}}]},
        say("Done."),
    )

    answer = ask(agent)

    assert ran == []
    assert answer.steps[0].results[0]["ok"] is False
    assert "arguments" in answer.steps[0].results[0]["error"]


def harmed(raw, sql):
    with contextlib.closing(raw.connect()) as other:
        other.execute("PRAGMA ignore_check_constraints = ON")
        other.execute(sql)


@pytest.mark.filterwarnings("ignore:Left out")
def test_a_conversation_goes_on_over_a_file_with_a_damaged_record(store, alice, reopen, raw):
    alice.put("note", "good", "绿茶 green tea")
    alice.put("note", "bad", "红茶 black tea")
    store.close()
    harmed(raw, "UPDATE memory SET value = CAST(x'ff' AS TEXT) WHERE key = 'bad'")

    agent = MemoryAgent(reopen(create=False).for_user("alice", session="s2"), None)
    for _ in range(2):
        answer, requests = told(
            agent,
            [call("memory_get", kind="note", key="bad"), call("memory_search", query="茶")],
            say("绿茶"),
            task="哪种茶？",
        )

        assert answer.status == "complete"
        assert [hit.key for hit in answer.recalled] == ["good"]
        one, both = results(sound(requests)[1]).values()
        assert (one["ok"], "damaged" in one["error"]) == (False, True)
        assert [each["key"] for each in both["records"]] == ["good"]


@pytest.mark.parametrize("harm", ["value = CAST(x'ff' AS TEXT)", "kind = 'diary'"])
def test_a_conversation_goes_on_over_a_file_with_a_damaged_approval(
    store, alice, reopen, raw, harm
):
    alice.approvals.grant(Put("note", "bad", "红茶"))
    alice.approvals.grant(Put("note", "good", "绿茶"))
    store.close()
    harmed(raw, f"UPDATE proposal SET {harm} WHERE key = 'bad'")
    again = reopen(create=False).for_user("alice", session="s2")

    answer, requests = told(
        MemoryAgent(again, None),
        call("memory_put", kind="note", key="good", value="绿茶"),
        say("好"),
    )

    assert answer.status == "complete"
    assert [each["key"] for each in user_message(requests[0])["approved"]] == ["good"]
    assert [each.key for each in again.list()] == ["good"]


@pytest.mark.filterwarnings("ignore:Left out")
def test_a_row_damaged_under_a_conversation_does_not_end_the_next_turn(alice, raw):
    alice.put("note", "bad", "红茶")
    alice.put("note", "good", "绿茶")
    agent = MemoryAgent(alice, None)
    told(agent, say("两种。"), task="我有什么茶？")
    harmed(raw, "DROP TRIGGER memory_replaced")
    harmed(raw, "UPDATE memory SET value = CAST(x'ff' AS TEXT) WHERE key = 'bad'")

    answer, _ = told(agent, say("绿茶。"), task="哪种茶？")

    assert [hit.key for hit in answer.recalled] == ["good"]


def test_a_deleted_memory_leaves_the_conversation_though_another_row_is_damaged(alice, raw):
    alice.put("episode", "walk", "one")
    alice.put("note", "secret", "杏仁糖")
    agent = MemoryAgent(alice, None)
    told(agent, say("杏仁糖。"), task="暗号是什么？")
    alice.put("episode", "walk", "two")
    alice.put("episode", "walk", "three")
    harmed(raw, "UPDATE revision SET value = CAST(x'ff' AS TEXT)")
    alice.delete("note", "secret")

    for _ in range(2):  # whether or not the damage is told first, what was deleted is gone
        with contextlib.suppress(StoreError):
            _, (request,) = told(agent, say("Hm."))
            assert "杏仁糖" not in request["messages"][1]["content"]
    assert "杏仁糖" not in repr(agent.history)


def test_a_chinese_character_counts_as_one_and_nothing_calls_a_character_a_token(alice):
    def turn(letter):
        agent = MemoryAgent(alice, None)
        return told(agent, say(letter * 9), task=letter * 300)[0]

    latin, chinese = turn("a"), turn("记")

    assert chinese.steps[0].request.chars == latin.steps[0].request.chars
    table = views.requests(chinese)
    assert any("char" in name for name in table.columns)
    shown = [*table.columns, *chinese.steps[0].request.by_part, repr(chinese)]
    agent = MemoryAgent(alice, None, limits=Limits(request_chars=300))
    with pytest.raises(OverBudget) as refused:
        told(agent, say("Hm."), task="记")
    shown += [str(refused.value), *vars(refused.value)]
    figure = views.plot_requests(chinese)
    shown += [figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel(), figure.axes[0].get_title()]
    assert "token" not in " ".join(shown).lower()
