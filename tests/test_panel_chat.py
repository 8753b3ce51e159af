"""The chat panel asks the agent in the background and believes only the store: no browser needed.

An exception in a callback is swallowed by ipywidgets, so the tests look at the store and the panel.
"""

from __future__ import annotations

import asyncio
import html
import re

import ipywidgets
import pytest
from openai_server import Answer, OpenAIServer
from openai_server import text as server_says
from panel_reading import HOSTILE, every, markup

from memlab import (
    InvalidInput,
    Limits,
    LiveModel,
    MemoryAgent,
    ModelError,
    OverBudget,
    Put,
    RuleModel,
    ScriptedModel,
    call,
    say,
)
from memlab.panels import ChatPanel

TEA = call("memory_put", kind="note", key="tea", value="oolong")


@pytest.fixture
def chat(alice):
    """Make a panel over an agent with this model."""

    def make(model, **options):
        return ChatPanel(MemoryAgent(alice, model, **options), alice)

    return make


class Gate:
    """A scripted reply that comes when the gate is opened."""

    def __init__(self, text="at last"):
        self.text, self.opened = text, asyncio.Event()

    async def __call__(self, messages, tools):
        await self.opened.wait()
        return say(self.text)


async def until(holds):
    """Let the loop go on until it holds."""
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


def words(widget):
    """What a reader sees of a widget's text."""
    without_style = re.sub(r"<style>.*?</style>", "", markup(widget), flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", without_style)))


def buttons(widget):
    return {each.description: each for each in every(widget) if isinstance(each, ipywidgets.Button)}


def type_and_send(panel, text):
    panel.field.value = text
    panel.send_button.click()


def press_enter(panel, text=None):
    """What a browser sends: first the key, then the text where it has changed."""
    panel.field._handle_custom_msg({"event": "submit"}, [])
    if text is not None:
        panel.field.value = text


# Asking -----------------------------------------------------------------------------------------


def test_what_was_approved_visibly_changes_the_answer(chat, alice):
    panel = chat(RuleModel())
    asyncio.run(panel.ask("How should you answer me?"))
    assert "I remember nothing about that." in words(panel)

    asyncio.run(panel.ask("Remember that I like short answers."))
    assert "nothing was written; waits for you: store preference/short_answers." in words(panel)
    buttons(panel)["Approve"].click()
    assert "approved since: preference/short_answers created." in words(panel)

    asyncio.run(panel.ask("How should you answer me?"))
    assert "From what I remember: “I like short answers” (preference/short_answers" in words(panel)
    assert "Why: number 1 by the words it shares with the question." in words(panel)


def test_send_returns_at_once_and_empties_the_field_when_the_model_is_asked(chat):
    gate = Gate()

    async def run():
        panel = chat(ScriptedModel([gate]))
        type_and_send(panel, "Hello")
        assert panel.field.value == "Hello"
        await until(lambda: "Asking the model (call 1 of at most 8)" in words(panel))
        assert panel.field.value == ""
        assert "answering: asking the model" in repr(panel)
        gate.opened.set()
        await until(lambda: "at last" in words(panel))
        assert "Ready." in words(panel)

    asyncio.run(run())


def test_enter_sends_the_text_that_comes_after_it(chat):
    async def run():
        panel = chat(ScriptedModel(["one", "two"]))
        press_enter(panel, "first")
        await until(lambda: "one" in words(panel))
        panel.field.value = "second"  # the field is left: that sends nothing
        await asyncio.sleep(0.4)
        assert len(panel._agent.history) == 1
        press_enter(panel)  # and then Enter, with the text unchanged
        await until(lambda: "two" in words(panel))

    asyncio.run(run())


def test_a_double_click_and_a_second_enter_ask_once(chat):
    async def run():
        panel = chat(ScriptedModel(["one", "two"]))
        type_and_send(panel, "first")
        panel.send_button.click()
        press_enter(panel)
        assert "Not asked yet" not in words(panel)  # that it is refused is told of other texts
        await until(lambda: "one" in words(panel))
        panel.send_button.click()
        press_enter(panel)
        await asyncio.sleep(0.4)
        assert len(panel._agent.history) == 1
        assert "Not asked yet" not in words(panel)

    asyncio.run(run())


def test_a_live_model_answers_and_a_stop_ends_its_call(chat):
    async def run(server):
        async with LiveModel("test-model", api_key="not-a-key", base_url=server.url) as model:
            panel = chat(model)
            assert "With LiveModel (test-model)." in words(panel)
            type_and_send(panel, "Hello")
            await until(lambda: "hello from the server" in words(panel))
            type_and_send(panel, "And now?")
            await until(lambda: len(model.requests) == 2)
            panel.stop_button.click()
            await until(lambda: "Stopped." in words(panel))
            assert [turn.task for turn in panel._agent.history] == ["Hello"]

    with OpenAIServer(server_says("hello from the server"), Answer(delay_s=1.0)) as server:
        asyncio.run(run(server))


def test_by_code_the_answer_comes_back(chat):
    panel = chat(ScriptedModel(["words"]))

    answer = asyncio.run(panel.ask("Hello"))
    assert (answer.text, answer.status) == ("words", "complete")
    assert isinstance(panel._agent.model, ScriptedModel)


def test_the_steps_are_told_as_they_come(chat, alice):
    alice.approvals.grant(Put("note", "tea", "oolong"))
    gate, seen = Gate(), []

    async def run():
        panel = chat(ScriptedModel([TEA, gate]))
        step = panel._step
        step.observe(lambda change: seen.append(change["new"]), names="value")
        type_and_send(panel, "Please remember tea")
        await until(lambda: "call 2 of at most 8" in words(panel))
        gate.opened.set()
        await until(lambda: "Ready." in words(panel))

    asyncio.run(run())
    told = [re.sub(r"<[^>]+>", "", each) for each in seen]
    assert told == [
        "Starting …",
        "Asking the model (call 1 of at most 8) …",
        "Running memory_put …",
        "Asking the model (call 2 of at most 8) …",
        "Ready.",
    ]


# While one runs ---------------------------------------------------------------------------------


def test_stop_keeps_what_was_committed_and_does_nothing_later(chat, alice):
    alice.approvals.grant(Put("note", "tea", "oolong"))
    alice.approvals.grant(Put("note", "cup", "blue"))
    late = []

    async def slowly(messages, tools):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:  # a model that takes no notice of it
            late.append(messages)
        return call("memory_put", kind="note", key="cup", value="blue")

    async def run():
        panel = chat(ScriptedModel([TEA, slowly, "done", "after"]))
        type_and_send(panel, "Please remember both")
        await until(lambda: "call 2" in words(panel))
        panel.stop_button.click()
        assert "Stopping" in words(panel)
        await until(lambda: "Ready." in words(panel))
        assert "Stopped. The store, meanwhile: note/tea created." in words(panel)
        assert "last one stopped" in repr(panel)
        assert await panel.ask("And now?") is not None
        return panel

    panel = asyncio.run(run())
    assert late
    assert [record.key for record in alice.list()] == ["tea"]
    assert [turn.task for turn in panel._agent.history] == ["And now?"]


def test_stop_before_the_first_step_leaves_the_text_in_the_field(chat):
    async def run():
        panel = chat(ScriptedModel(["one"]))
        type_and_send(panel, "Hello")
        panel.stop()
        await until(lambda: "Stopped before the model was asked." in words(panel))
        assert panel.field.value == "Hello"
        assert panel._agent.model.requests == []

    asyncio.run(run())


def test_by_code_a_stopped_question_gives_none_and_a_cancelled_caller_is_cancelled(chat):
    async def run():
        panel = chat(ScriptedModel([Gate(), Gate()]))
        asked = asyncio.create_task(panel.ask("Hello"))
        await until(lambda: "call 1" in words(panel))
        panel.stop()
        assert await asked is None

        asked = asyncio.create_task(panel.ask("Hello"))
        await until(lambda: panel._agent.model.requests[1:])
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert "Ready." in words(panel)
        assert panel._agent.history == ()

    asyncio.run(run())


def test_stop_with_nothing_running_says_so(chat):
    panel = chat(ScriptedModel([]))
    panel.stop_button.click()

    assert "Nothing is being answered, so there is nothing to stop." in words(panel)


def test_a_second_question_is_refused_and_its_text_stays(chat):
    gate = Gate()

    async def run():
        panel = chat(ScriptedModel([gate, "two"]))
        type_and_send(panel, "first")
        await until(lambda: "call 1" in words(panel))
        type_and_send(panel, "second")
        assert "Not asked yet: “first” is still being answered." in words(panel)
        assert panel.field.value == "second"
        with pytest.raises(InvalidInput, match="another question is being answered"):
            await panel.ask("third")
        gate.opened.set()
        await until(lambda: "Ready." in words(panel))
        assert panel.field.value == "second"
        assert "Not asked yet" not in words(panel)
        panel.send_button.click()
        await until(lambda: "two" in words(panel))

    asyncio.run(run())


def test_two_panels_of_one_agent_do_not_mix(chat, alice):
    gate = Gate()

    async def run():
        one = chat(ScriptedModel([gate, "two"]))
        model = one._agent.model
        other = ChatPanel(one._agent, alice)
        type_and_send(one, "first")
        await until(lambda: "call 1" in words(one))
        type_and_send(other, "second")
        await until(lambda: "another one is being answered" in words(other))
        assert other.field.value == "second"
        gate.opened.set()
        await until(lambda: "at last" in words(one))
        assert one._agent.model is model

    asyncio.run(run())


def test_a_model_exchanged_during_a_turn_stays(chat):
    gate, new = Gate(), ScriptedModel(["new"])

    async def run():
        panel = chat(ScriptedModel([gate]))
        type_and_send(panel, "first")
        await until(lambda: "call 1" in words(panel))
        panel._agent.model = new
        gate.opened.set()
        await until(lambda: "at last" in words(panel))
        assert panel._agent.model is new

    asyncio.run(run())


def test_clicks_may_come_on_another_thread(chat):
    gate = Gate()

    async def run():
        panel = chat(ScriptedModel([gate]))
        panel.field.value = "Hello"
        await asyncio.to_thread(panel.send_button.click)
        await until(lambda: "call 1" in words(panel))
        await asyncio.to_thread(panel.stop_button.click)
        await until(lambda: "Stopped." in words(panel))

    asyncio.run(run())


# What goes wrong --------------------------------------------------------------------------------


def test_a_model_error_stands_in_the_conversation_and_can_be_asked_again(chat):
    async def run():
        panel = chat(ScriptedModel([ModelError("The server said 500."), "better"]))
        type_and_send(panel, "Hello")
        await until(lambda: "Ready." in words(panel) and "No answer" in words(panel))
        assert "Hello No answer: The server said 500. The store, meanwhile: nothing was" in (
            words(panel)
        )
        assert "last one failed" in repr(panel)
        panel.field.value = "typed meanwhile"
        buttons(panel)["Ask again"].click()
        await until(lambda: "better" in words(panel))
        assert panel.field.value == "typed meanwhile"
        assert "Ask again" not in buttons(panel)

    asyncio.run(run())


@pytest.mark.parametrize("text", ["x" * 1201, "a\0b"])
def test_a_refused_question_stays_in_the_field(chat, text):
    async def run():
        panel = chat(ScriptedModel([]))
        type_and_send(panel, text)
        await until(lambda: 'role="alert"' in markup(panel))
        assert "task: " in words(panel)
        assert panel.field.value == text
        assert panel._agent.model.requests == []
        with pytest.raises(InvalidInput):
            await panel.ask(text)

    asyncio.run(run())


def test_a_request_that_does_not_fit_is_told_and_stays_in_the_field(chat):
    async def run():
        panel = chat(ScriptedModel([]), limits=Limits(request_chars=500))
        type_and_send(panel, "Hello")
        await until(lambda: "The model was not called." in words(panel))
        assert panel.field.value == "Hello"
        with pytest.raises(OverBudget):
            await panel.ask("Hello")

    asyncio.run(run())


def test_the_time_limit_is_told_in_words(chat):
    panel = chat(ScriptedModel([Gate()]), limits=Limits(model_seconds=0.05))
    answer = asyncio.run(panel.ask("Hello"))

    assert answer.status == "time_limit"
    assert "Ended early by the limit of 0.05 s of model time for one question." in words(panel)


def test_an_error_that_nobody_foresaw_is_told(chat):
    async def run():
        panel = chat(ScriptedModel([ZeroDivisionError("odd")]))
        type_and_send(panel, "Hello")
        await until(lambda: "No answer: ZeroDivisionError: odd" in words(panel))

    asyncio.run(run())


def test_a_store_closed_during_the_turn_leaves_no_false_word(chat, store):
    gate = Gate()

    async def run():
        panel = chat(ScriptedModel([TEA, gate]))
        type_and_send(panel, "Please remember tea")
        await until(lambda: "call 2" in words(panel))
        store.close()
        panel.stop()
        await until(lambda: "Ready." in words(panel))
        assert "it cannot be asked what was written" in words(panel)
        assert "The store is closed." in words(panel)
        type_and_send(panel, "more")
        await until(lambda: "The store is closed." in words(panel))
        assert panel.field.value == "more"

    asyncio.run(run())


def test_in_a_plain_script_the_panel_says_what_to_do(chat):
    panel = chat(ScriptedModel([]))
    type_and_send(panel, "Hello")

    assert "answer = asyncio.run(panel.ask('...'))" in words(panel)
    assert panel.field.value == "Hello"
    press_enter(panel)
    assert panel._agent.model.requests == []


def test_it_takes_an_agent_and_the_users_own_hand(alice):
    agent = MemoryAgent(alice, RuleModel())
    with pytest.raises(InvalidInput, match="must be a MemoryAgent"):
        ChatPanel(alice, agent)
    with pytest.raises(InvalidInput, match="must be the user's own UserMemory"):
        ChatPanel(agent, alice.lend())


def test_the_approvals_beside_it_are_the_agents_own_users(alice, store):
    bob = store.for_user("bob", session="s1")

    with pytest.raises(InvalidInput, match="must be the user, in the store, that the agent"):
        ChatPanel(MemoryAgent(bob, RuleModel()), alice)


# What the store did -----------------------------------------------------------------------------


def test_saved_in_the_models_words_counts_for_nothing(chat):
    panel = chat(ScriptedModel(["Saved! I stored everything."]))
    asyncio.run(panel.ask("Remember tea"))

    assert "Saved! I stored everything. The store: nothing was written." in words(panel)


def test_what_is_stored_and_deleted_and_waits_is_told(chat, alice):
    alice.put("note", "old", "gone soon")
    alice.approvals.grant(Put("note", "tea", "oolong"))
    forget = call("memory_delete", kind="note", key="old")
    panel = chat(ScriptedModel([[TEA, forget], "fine"]))
    asyncio.run(panel.ask("Remember tea"))
    told = "The store: stored: note/tea created, revision 1; waits for you: delete note/old."
    assert told in words(panel)

    panel.approvals.reject(alice.approvals.pending()[0].id)
    assert "rejected since: note/old was not written." in words(panel)


@pytest.mark.parametrize("by", ["approve", "edit", "reject", "approve_all", "look again"])
def test_whatever_is_decided_beside_it_stands_under_the_answer(chat, alice, by):
    panel = chat(ScriptedModel([TEA, "Saved."]))
    asyncio.run(panel.ask("Remember tea"))
    [waiting] = alice.approvals.pending()
    if by == "look again":
        alice.approvals.approve(waiting.id)
        buttons(panel)["Look again"].click()
    else:
        more = {"approve_all": [[waiting.id]], "edit": [waiting.id, "sencha"]}
        getattr(panel.approvals, by)(*more.get(by, [waiting.id]))

    log = re.sub(r"<[^>]+>", "", panel._log.value)
    assert "waits for you" not in log
    assert ("rejected since" if by == "reject" else "approved since: note/tea created") in log


def test_a_recalled_record_that_is_gone_keeps_no_text(chat, alice):
    alice.put("preference", "tea", "I like oolong")
    panel = chat(ScriptedModel(["yes"]))
    asyncio.run(panel.ask("Which tea?"))
    assert "I like oolong" in words(panel)

    alice.put("preference", "tea", "I like sencha")
    panel.refresh()
    assert "changed since: revision 2" in words(panel)
    alice.delete("preference", "tea")
    panel.refresh()
    assert "deleted since" in words(panel)
    assert "I like oolong" not in markup(panel)


def test_why_is_told_in_words_and_what_did_not_fit_says_so(chat, alice):
    alice.put("preference", "style", "short answers")
    for number in range(5):
        alice.put("note", f"tea{number}", "tea " * 100)
    roomy = chat(ScriptedModel(["yes"]))
    asyncio.run(roomy.ask("Tea?"))
    assert "Why: a preference: some go into every request." in words(roomy)

    tight = chat(ScriptedModel(["yes"]), limits=Limits(request_chars=4200))
    answer = asyncio.run(tight.ask("Tea?"))
    gone = answer.steps[-1].request.dropped["memories"]
    assert words(tight).count("left out of the last request") == gone > 0
    assert f"Left out to fit: {gone} of memories." in words(tight)


def test_the_bar_says_its_numbers(chat):
    panel = chat(ScriptedModel(["yes"]))
    answer = asyncio.run(panel.ask("Tea?"))
    sent = answer.steps[-1].request

    assert f'aria-valuenow="{sent.chars}"' in markup(panel)
    assert f"{sent.chars:,} of at most 16,000 characters" in words(panel)
    widths = [float(width) for width in re.findall(r'style="width: ([\d.]+)%"', markup(panel))]
    assert sum(widths) == pytest.approx(100 * sent.chars / sent.limit, abs=0.1)


def test_a_written_file_is_told(chat, tmp_path):
    write = call("write_demo_file", path="app.py", content="print(1)")
    panel = chat(ScriptedModel([write, "done"]), workspace=tmp_path)
    asyncio.run(panel.ask("Write it"))

    assert "nothing was written; file written: " in words(panel)


# What is shown without widgets ------------------------------------------------------------------


def test_the_repr_says_the_state(chat):
    panel = chat(ScriptedModel([TEA, "Saved."]))
    assert repr(panel) == "ChatPanel(alice: 0 questions; ApprovalPanel(alice: nothing waiting))"

    answer = asyncio.run(panel.ask("Remember tea"))
    size = f"{answer.steps[-1].request.chars:,}"
    assert repr(panel) == (
        f"ChatPanel(alice: 1 question; last answer complete; request {size} of 16,000 characters; "
        "ApprovalPanel(alice: 1 waiting: p1 put note/tea))"
    )
    assert panel._repr_mimebundle_()["text/plain"] == repr(panel)


def test_hostile_text_in_every_place_stays_text(chat, alice):
    alice.put("preference", "tea", HOSTILE)
    odd = {"type": "function", "function": {"name": HOSTILE, "arguments": HOSTILE}}
    mean = call("memory_put", kind="note", key="x", value=HOSTILE, reason=HOSTILE)
    called = {"role": "assistant", "content": HOSTILE, "tool_calls": [odd, *mean["tool_calls"]]}
    seen = []

    async def run():
        panel = chat(ScriptedModel([called, HOSTILE, ModelError(HOSTILE)]))
        panel._step.observe(lambda change: seen.append(change["new"]), names="value")
        type_and_send(panel, HOSTILE)
        await until(lambda: "Ready." in words(panel) and panel._agent.history)
        type_and_send(panel, HOSTILE)
        type_and_send(panel, HOSTILE + HOSTILE)
        await until(lambda: "No answer" in words(panel))
        return panel

    panel = asyncio.run(run())
    shown = re.sub(r"<style>.*?</style>", "", markup(panel), flags=re.S) + "".join(seen)
    tags = set(re.findall(r"<\s*/?\s*([a-z]+)", shown))
    assert tags <= {"div", "span", "ins", "del", "bdi", "ul", "li"}
    assert "\u202e" not in shown
    assert "\u200b" not in shown
    assert any("Running" in each and "⟨U+202E⟩" in each for each in seen)


def test_there_is_no_output_widget_and_no_icon(chat):
    panel = chat(RuleModel())

    assert not any(isinstance(each, ipywidgets.Output) for each in every(panel))
    assert not any(each.icon for each in buttons(panel).values())
