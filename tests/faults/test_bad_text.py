"""What is no text, or far too much of it: refused by name, and never at the cost of the rest."""

from __future__ import annotations

import json
import time

import pytest
from test_agent import NOTHING, Raw, ask, results, sound, told

from memlab import InvalidInput, MemoryAgent, Put, call, say
from memlab.tools import Tool

NO_TEXT = {"half a pair": "茶\ud800", "a NUL": "茶\0茶"}


@pytest.mark.parametrize("bad", NO_TEXT.values(), ids=NO_TEXT)
def test_what_is_no_text_is_refused_by_its_field_and_the_next_call_is_made(alice, bad):
    alice.approvals.grant(Put("note", "tea", "绿茶"))
    page = Tool("read_page", "Reads.", NOTHING, lambda: bad)
    asked = [
        ("memory_put", {"kind": "note", "key": "tea", "value": bad}, "value"),
        ("memory_put", {"kind": "note", "key": "tea", "value": "绿茶", "reason": bad}, "reason"),
        ("memory_put", {"kind": "note", "key": bad, "value": "绿茶"}, "key"),
        ("memory_get", {"kind": bad, "key": "tea"}, "kind"),
        ("memory_search", {"query": bad}, "query"),
        ("memory_recall", {"query": bad}, "query"),
    ]
    calls = [
        {"id": f"c{n}", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments, _) in enumerate(asked)
    ]
    good = {"kind": "note", "key": "tea", "value": "绿茶"}
    calls += call("memory_put", **good)["tool_calls"] + call("read_page")["tool_calls"]
    agent = MemoryAgent(alice, None, tools=[page])
    agent.model = Raw({"content": bad, "tool_calls": calls}, say("好的。"))

    answer = ask(agent, "茶？")

    *refused, made, read = answer.steps[0].results
    for result, (_, _, field) in zip(refused, asked, strict=True):
        assert result["ok"] is False
        assert field in result["error"]
    assert made["effect"] == "created"
    assert "\ud800" not in repr(read)
    assert len(results(sound(agent.model.requests)[1])) == 8
    assert [each.value for each in alice.list()] == ["绿茶"]


@pytest.mark.parametrize("bad", NO_TEXT.values(), ids=NO_TEXT)
def test_what_is_no_text_is_refused_by_the_owner_s_own_hand_too(alice, bad):
    for act, field in (
        (lambda: ask(MemoryAgent(alice, None), bad), "task"),
        (lambda: alice.put("note", "tea", bad), "value"),
        (lambda: alice.put("note", f"k{bad}", "x"), "key"),
        (lambda: alice.remember(bad), "text"),
        (lambda: alice.search(bad), "query"),
        (lambda: alice.recall(bad), "query"),
    ):
        with pytest.raises(InvalidInput) as refused:
            act()
        assert refused.value.field == field
        str(refused.value).encode()
    assert alice.list() == []


@pytest.mark.parametrize("chars", [513, 10**6, 10**7])
def test_a_value_too_long_is_refused_at_once_whoever_brings_it(alice, chars):
    value = "语" * chars
    started = time.process_time()

    with pytest.raises(InvalidInput, match="value"):
        alice.lend().propose(Put("note", "k", value))
    answer, requests = told(
        MemoryAgent(alice, None), call("memory_put", kind="note", key="k", value=value), say("Ok.")
    )

    assert time.process_time() - started < 3
    assert answer.steps[0].results[0]["ok"] is False
    assert len(sound(requests)) == 2
    assert alice.list() == alice.approvals.pending() == []
