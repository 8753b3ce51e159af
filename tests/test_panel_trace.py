"""The trace panel steps through an answer and believes the store, not the model."""

from __future__ import annotations

import asyncio
import html
import re
from dataclasses import replace

import ipywidgets
import pytest
from panel_reading import HOSTILE, every

from memlab import (
    InvalidInput,
    Limits,
    MemoryAgent,
    MemoryStore,
    Put,
    ScriptedModel,
    Tool,
    call,
    say,
)
from memlab.agent import Answer, Call, Sent, Step
from memlab.panels import TracePanel

TAGS = {"div", "span", "ul", "ol", "li", "i", "bdi", "details", "summary", "style"} | {
    *("table", "thead", "tbody", "tr", "th", "td")
}


@pytest.fixture
def alice(tmp_path):
    ids = (f"p{number}" for number in range(1, 1000))
    with MemoryStore.open(
        tmp_path / "memory",
        create=True,
        clock=lambda: 1_790_000_000_000,
        new_id=lambda: next(ids),
    ) as store:
        yield store.for_user("alice", session="monday")


def asked(alice, *replies, task="what about tea?", limits=None, tools=()):
    agent = MemoryAgent(alice, ScriptedModel(replies), limits=limits, tools=tools)
    return asyncio.run(agent.ask(task))


@pytest.fixture
def answer(alice):
    """Five steps: read, refused, written, a failing call beside a reading one, a false claim."""
    alice.put("preference", "style", "short answers")
    alice.approvals.grant(Put("note", "tea", "oolong"))
    return asked(
        alice,
        call("memory_search", query="short"),
        [say("I save it now."), call("memory_put", kind="note", key="car", value="red")],
        call("memory_put", kind="note", key="tea", value="oolong"),
        [call("memory_get", kind="note", key="tea"), call("no_such_tool", a=1)],
        say("Saved: your car is red."),
        task="save that my car is red",
    )


def buttons(panel):
    return {each.description: each for each in every(panel) if isinstance(each, ipywidgets.Button)}


def tabs(panel):
    [found] = [each for each in every(panel) if isinstance(each, ipywidgets.Tab)]
    return found


def markup(widget):
    return "\n".join(each.value for each in every(widget) if isinstance(each, ipywidgets.HTML))


def words(text):
    """What a reader sees of a text in HTML."""
    text = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def shown(panel):
    """The words of the step that is shown."""
    return words(tabs(panel).children[tabs(panel).selected_index].value)


def around(panel):
    """The words above and below the steps."""
    return words("\n".join(each.value for each in panel.children if hasattr(each, "value")))


def counter(panel):
    [found] = [c for c in every(panel) if isinstance(c, ipywidgets.HTML) and '-count" ' in c.value]
    return words(found.value)


def sent(chars=90, limit=100, **dropped):
    gone = {"history": 0, "memories": 0, "exchanges": 0, **dropped}
    message = {"role": "user", "content": "hello"}
    return Sent(chars, {"system": chars - 10, "task": 10}, limit, gone, (message,))


# Stepping ---------------------------------------------------------------------------------------


def test_buttons_step_forward_and_back_and_stop_at_the_ends(answer):
    panel = TracePanel(answer)
    seen = [counter(panel)]
    for name in ("Forward", "Forward", "Back", "Last", "Forward", "First", "Back"):
        buttons(panel)[name].click()
        seen.append(counter(panel))

    assert seen == [
        "step 1 of 5",
        "step 2 of 5",
        "step 3 of 5",
        "step 2 of 5",
        "step 5 of 5",
        "step 5 of 5: this is the last",
        "step 1 of 5",
        "step 1 of 5: this is the first",
    ]


def test_no_button_goes_away_or_is_disabled_so_the_keyboard_keeps_its_place(answer):
    panel = TracePanel(answer)
    before = list(buttons(panel).values())
    buttons(panel)["Last"].click()

    assert list(buttons(panel).values()) == before
    assert [button.disabled for button in before] == [False] * 4
    assert {button.icon for button in before} == {""}
    assert all(button.tooltip for button in before)


def test_a_tab_and_code_and_a_button_show_the_same_step(answer):
    panel = TracePanel(answer)
    tabs(panel).selected_index = 2
    by_tab = (repr(panel), counter(panel), shown(panel))
    panel.show(1)
    panel.show(3)
    by_code = (repr(panel), counter(panel), shown(panel))

    assert by_tab == by_code
    assert counter(panel) == "step 3 of 5"
    assert tabs(panel).titles == tuple(f"Step {n}" for n in range(1, 6))


@pytest.mark.parametrize("n", [0, 6, -1, True, 1.0, "2", None])
def test_a_step_that_is_not_there_is_refused_and_nothing_moves(answer, n):
    panel = TracePanel(answer)
    panel.show(2)
    before = repr(panel)

    with pytest.raises(InvalidInput, match="n: must be a whole number, 1 to 5"):
        panel.show(n)
    assert repr(panel) == before


def test_only_an_answer_is_stepped_through(answer):
    with pytest.raises(InvalidInput, match="what an agent's ask returned, not Step"):
        TracePanel(answer.steps[0])


def test_an_error_while_drawing_stands_in_the_panel_until_another_step_is_shown(answer):
    broken = Step(Sent(9, {}, 10, {}, ("no message",)), say("ok"))
    panel = TracePanel(Answer("x", "complete", steps=(answer.steps[0], broken)))
    buttons(panel)["Forward"].click()

    assert "AttributeError" in around(panel)
    buttons(panel)["First"].click()
    assert "AttributeError" not in around(panel)
    assert counter(panel) == "step 1 of 2"


# What a step shows ------------------------------------------------------------------------------


def test_a_request_is_a_bar_against_its_limit_and_the_same_in_words(answer):
    panel = TracePanel(answer)
    page = tabs(panel).children[0].value
    request = answer.steps[0].request
    widths = [float(width) for width in re.findall(r'style="width: ([\d.]+)%"', page)]
    parts = [part for part, chars in request.by_part.items() if chars]

    assert len(widths) == len(parts)
    assert sum(widths) == pytest.approx(100 * request.chars / request.limit, abs=0.1)
    total = f"{request.chars:,} of at most 16,000 characters"
    assert f'role="img" aria-label="{total}' in page
    for part in parts:
        assert f"{part} {request.by_part[part]:,}" in words(page)
        assert f'aria-label="{total}' in page.split(f"{part} {request.by_part[part]:,}")[0]


def test_what_was_left_out_is_told(answer):
    lost = Answer("ok", "complete", steps=(Step(sent(history=2, memories=1), say("ok")),))

    assert "Nothing was left out." in shown(TracePanel(answer))
    assert "Left out for lack of room: 2 of history, 1 of memories." in shown(TracePanel(lost))


def test_what_was_really_left_out_is_told(alice):
    for n in range(5):
        alice.put("note", f"tea{n}", "tea " * 60)
    answer = asked(alice, say("ok"), limits=Limits(request_chars=4_500))
    gone = answer.steps[0].request.dropped["memories"]

    assert gone > 0
    assert f"Left out for lack of room: {gone} of memories." in shown(TracePanel(answer))


def test_the_messages_stand_there_as_they_were_sent(answer):
    panel = TracePanel(answer)
    panel.show(4)
    said = shown(panel)

    for message in answer.steps[3].request.messages:
        assert " ".join((message["content"] or "").split()) in said
    assert said.count(", the same as in the step before (") == 5  # not the user's, which changed
    assert '"tool_call_id":"call_2"' in said


def test_long_messages_are_folded_and_short_ones_are_not():
    messages = ({"role": "system", "content": "x" * 401}, {"role": "user", "content": "y" * 400})
    request = Sent(900, {"system": 900}, 1000, {}, messages)
    panel = TracePanel(Answer("ok", "complete", steps=(Step(request, say("ok")),)))
    page = tabs(panel).children[0].value

    assert re.findall(r"<summary>(.*?)</summary>", page) == [
        "2 messages, as they were sent",
        f"system (401 characters): {'x' * 58} …",
    ]
    assert "x" * 401 in page
    assert "user (400 characters)" in words(page)


def test_the_question_stands_above_the_steps(answer):
    assert "Asked: save that my car is red 5 steps, each one call" in around(TracePanel(answer))


def test_calls_show_arguments_result_and_what_came_of_it(answer):
    panel = TracePanel(answer)
    panel.show(4)
    said = shown(panel)

    assert "It called memory_get, no_such_tool." in said
    assert '{"kind": "note", "key": "tea"}' in said
    assert "The store: read 1 record; nothing was written" in said
    assert "there is no tool 'no_such_tool'" in said


# Who is believed --------------------------------------------------------------------------------


def test_saved_in_the_models_words_stands_beside_nothing_was_written(answer):
    panel = TracePanel(answer)
    panel.show(5)

    assert shown(panel).endswith(
        "The model said (23 characters) Saved: your car is red. The store did nothing was written"
    )
    assert "memlab-trace-wrote" not in tabs(panel).children[4].value


def test_a_write_is_told_by_the_store_with_its_revision(answer):
    panel = TracePanel(answer)
    panel.show(3)

    assert shown(panel).endswith("The store did created note/tea, revision 1")
    assert "memlab-trace-wrote" in tabs(panel).children[2].value


def test_a_change_that_waits_is_told_as_not_written(answer):
    panel = TracePanel(answer)
    panel.show(2)

    assert "nothing was written yet: it waits for approval as p2" in shown(panel)
    assert shown(panel).endswith("I save it now. The store did nothing was written")
    assert (
        "The store did created note/tea, revision 1; waits for approval: put note/car (p2)"
        in around(panel)
    )


def test_a_result_that_looks_like_a_write_is_none(alice):
    lie = {"ok": True, "effect": "created", "record": {"kind": "note", "key": "tea"}}
    tool = Tool("memory_save", "saves", {"type": "object"}, lambda _: lie)
    panel = TracePanel(asked(alice, call("memory_save"), say("saved"), tools=[tool]))

    assert "The store: ran; no write to the store is recorded" in shown(panel)
    assert "memlab-trace-wrote" not in tabs(panel).children[0].value


def test_each_write_is_told_once_and_only_of_the_call_that_made_it(alice):
    alice.approvals.grant(Put("note", "tea", "oolong"))
    real = asked(alice, call("memory_put", kind="note", key="tea", value="oolong"), say("ok"))
    [step, last] = real.steps
    [put], [result] = step.calls, step.results
    calls = (
        Call("a", "memory_save", put.arguments),
        Call("b", "memory_put", put.arguments.replace("tea", "car")),
        Call("c", "memory_put", "no JSON"),
        put,
        Call("d", "memory_put", put.arguments),
    )
    made = replace(step, calls=calls, results=(result,) * 5)
    panel = TracePanel(replace(real, steps=(made, last)))

    assert re.findall(r"The store: ([a-z ]+)", shown(panel)) == [
        "ran",
        "nothing was written ",
        "nothing was written ",
        "created note",
        "nothing was written ",
    ]


# How answers end --------------------------------------------------------------------------------


async def _forever(messages, tools):
    await asyncio.sleep(60)


def test_a_step_without_a_reply_says_so(alice):
    answer = asked(alice, _forever, limits=Limits(model_seconds=0.05))
    panel = TracePanel(answer)

    assert "No reply came. The answer ended: time_limit." in shown(panel)
    assert "Ended: time_limit (stopped by the limit on model time" in around(panel)
    assert "The model said no words. The store did nothing was written" in shown(panel)
    assert "gave no reply" in repr(panel)


def test_too_many_model_calls(alice):
    reads = [call("memory_get", kind="note", key="a") for _ in range(3)]
    panel = TracePanel(asked(alice, *reads, limits=Limits(model_calls=3)))

    assert "Ended: model_call_limit (stopped by the limit on model calls" in around(panel)
    assert counter(panel) == "step 1 of 3"


def test_too_many_tool_calls(alice):
    alice.approvals.grant(Put("note", "tea", "oolong"))
    put = call("memory_put", kind="note", key="tea", value="oolong")
    panel = TracePanel(asked(alice, [put, put], limits=Limits(tool_calls=1)))

    assert "Ended: tool_call_limit" in around(panel)
    assert "1. memory_put" in shown(panel)
    assert "The store: created note/tea, revision 1" in shown(panel)
    assert "not run: 1 calls a task are allowed." in shown(panel)
    assert shown(panel).endswith("created note/tea, revision 1; 1 other change was not made")


@pytest.mark.parametrize("status", ["error", "cancelled"])
def test_an_answer_that_was_broken_off_in_the_middle_of_its_calls(status):
    calls = (Call("1", "memory_put", '{"kind":"note","key":"a"}'), Call("2", "memory_get", "{}"))
    results = ({"ok": False, "error": "not allowed"},)
    reply = {"role": "assistant", "content": "saved"}
    answer = Answer("", status, steps=(Step(sent(), reply, calls, results),), problems=("lost",))
    panel = TracePanel(answer)

    assert f"Ended: {status} (broken off" in around(panel)
    assert "Also: lost" in around(panel)
    assert "no result: the answer ended before" in shown(panel)
    assert f"answer {status}: nothing was written)" in repr(panel)


def test_a_status_that_nobody_knows_is_shown_as_it_is():
    panel = TracePanel(Answer("", HOSTILE, steps=(Step(sent(), None),)))

    assert f"Ended: {html.unescape(HOSTILE)[:20]}" in around(panel)
    assert "<img" not in markup(panel)


def test_an_answer_with_no_step_has_no_button_and_says_why():
    panel = TracePanel(Answer("", "time_limit"))

    assert buttons(panel) == {}
    assert "No request was sent, so there is no step to show." in around(panel)
    assert repr(panel) == "TracePanel(no step: time_limit; nothing was written)"
    with pytest.raises(InvalidInput, match="n: this answer has no step"):
        panel.show(1)


# The same as a table, and the text --------------------------------------------------------------


def test_the_table_in_the_panel_is_that_of_the_view(answer):
    from memlab import views

    frame = views.trace(answer)
    table = re.search(r"<table.*</table>", markup(TracePanel(answer)), re.DOTALL)[0]
    rows = re.findall(r"<tr .*?>(.*?)</tr>", table, re.DOTALL)
    cells = [[words(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows]

    assert cells[0] == list(frame.columns)
    assert [row[4] for row in cells[1:]] == list(frame["result"])
    assert [row[1] for row in cells[1:]] == [
        " ".join(what.split()) for what in frame["what happened"]
    ]
    assert len(cells) == len(frame) + 1


def test_what_was_recalled_is_listed_with_why(alice):
    alice.put("preference", "style", "short answers")
    alice.put("note", "tea", "oolong")
    panel = TracePanel(asked(alice, say("ok"), task="which tea?"))

    assert "2 memories recalled for it" in around(panel)
    assert "note/tea (6 characters) oolong Why: number 1 by words." in around(panel)
    assert "Why: a preference: some go into every request." in around(panel)


def test_the_repr_tells_the_step_in_one_stable_line(answer):
    panel = TracePanel(answer)
    panel.show(2)
    chars = answer.steps[1].request.chars

    assert repr(panel) == (
        f"TracePanel(step 2 of 5: request {chars:,} of 16,000 characters; called memory_put; "
        "the store: nothing was written; answer complete: created note/tea, revision 1; "
        "waits for approval: put note/car (p2))"
    )
    assert panel._repr_mimebundle_()["text/plain"] == repr(panel)


# Hostile text -----------------------------------------------------------------------------------


def test_hostile_text_is_text_in_every_place(alice):
    alice.put("note", "tea", HOSTILE)
    alice.approvals.grant(Put("note", "img", HOSTILE))
    tool = Tool("echo", "echoes", {"type": "object"}, lambda _: {"ok": False, "error": HOSTILE})
    bad = {"type": "function", "function": {"name": HOSTILE, "arguments": HOSTILE}}
    bad = {"role": "assistant", "content": HOSTILE, "tool_calls": [bad]}
    answer = asked(
        alice,
        bad,
        call("echo"),
        call("memory_put", kind="note", key="img", value=HOSTILE),
        call("memory_search", query="img"),
        say(HOSTILE),
        task=f"tea {HOSTILE}",
        tools=[tool],
    )
    answer = Answer(*(getattr(answer, n) for n in list(Answer.__slots__)[:-1]), (HOSTILE,))
    panel = TracePanel(answer)
    for n in range(1, 6):
        panel.show(n)
        assert repr(panel).isprintable()

    found = markup(panel)
    assert set(re.findall(r"</?([a-z]+)", found)) <= TAGS
    assert found.count("&lt;img src=x onerror=alert(1)&gt;") > 20
    assert not re.search("[\u202e\u200b]", found)
    assert '<span class="memlab-hidden">⟨U+202E⟩</span>' in found


def test_a_name_or_a_part_cannot_break_out_of_an_attribute():
    evil = 'x" onmouseover="alert(1)'
    request = Sent(9, {evil: 9}, 10, {evil: 3}, ({"role": evil, "content": None, evil: evil},))
    panel = TracePanel(Answer("ok", "complete", steps=(Step(request, say("ok")),)))

    assert '" onmouseover' not in markup(panel)
    assert f"Left out for lack of room: 3 of {evil}." in shown(panel)
