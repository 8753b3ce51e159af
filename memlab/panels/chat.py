"""A conversation, and beside it the memory that it uses. Only the store tells what was saved."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import ipywidgets as w

from memlab.agent import COMPLETE, Answer, MemoryAgent, Sent
from memlab.errors import InvalidInput, MemlabError
from memlab.models import Message, Model
from memlab.panels.approval import ApprovalPanel
from memlab.panels.parts import STYLE as SHARED_STYLE
from memlab.panels.parts import Panel, alert, owner, safe
from memlab.records import Applied, Hit, Proposal
from memlab.request import measure
from memlab.store import UserMemory, folder_of
from memlab.text import cut

STYLE = """<style>
.memlab-panel.memlab-chat { max-width: 1180px; }
.memlab-chat-columns { display: flex; flex-flow: row wrap; align-items: flex-start; gap: 4px 20px;
  overflow: visible; width: 100%; }
.memlab-chat-talk, .memlab-chat-beside { min-width: 0; width: auto; overflow: visible; }
.memlab-chat-columns > .memlab-chat-talk { flex: 3 1 300px; }
.memlab-chat-columns > .memlab-chat-beside { flex: 2 1 280px; }
.memlab-chat-log { flex-direction: column-reverse; align-items: stretch; height: auto;
  max-height: 460px; min-height: 96px; overflow-y: auto; margin: 6px 3px;
  border: 1px solid var(--jp-border-color1, #9e9e9e); border-radius: 4px; }
.memlab-chat-log:focus-visible, .memlab-chat-ask input:focus-visible {
  outline: 3px solid var(--jp-brand-color1, #1976d2) !important; outline-offset: 1px; }
.memlab-chat-log > label { display: none; }
.memlab-chat .memlab-chat-log > .widget-html-content { width: 100%; box-sizing: border-box;
  align-self: stretch; height: auto; flex: 0 0 auto; margin: 0 0 auto; padding: 8px 12px;
  color: var(--jp-ui-font-color1, inherit); }
.memlab-chat-turn + .memlab-chat-turn { margin-top: 12px; padding-top: 10px;
  border-top: 1px solid var(--jp-border-color2, #bdbdbd); }
.memlab-chat-who { font-size: 12px; font-weight: 600; color: var(--jp-ui-font-color2, inherit);
  overflow-wrap: anywhere; }
.memlab-chat-text { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate;
  font-size: 14px; margin: 1px 0 6px; }
.memlab-chat-question { padding: 4px 8px; border-radius: 3px; background: var(--jp-layout-color2,
  transparent); border: 1px solid var(--jp-border-color2, #bdbdbd); }
.memlab-chat-beside > .widget-html + .memlab-panel,
.memlab-chat-beside > .memlab-panel + .widget-html {
  margin-top: 12px; }
.memlab-chat-store { font-size: 13px; padding: 2px 8px; overflow-wrap: anywhere;
  border-left: 4px solid var(--jp-border-color1, #9e9e9e); }
.memlab-chat-store.memlab-chat-wrote { border-left-color: var(--jp-success-color1, #388e3c); }
.memlab-chat-store.memlab-chat-asks { border-left: 4px double var(--jp-brand-color1, #1976d2); }
.memlab-chat-log .memlab-alert { margin-bottom: 4px; font-size: 13px; }
.memlab-chat-ask { display: flex; flex-flow: row wrap; gap: 2px 6px; overflow: visible;
  width: 100%; }
.memlab-chat-ask > .widget-text { flex: 1 1 260px; width: auto; min-width: 0; }
.memlab-chat-ask > .widget-text > label { width: auto; }
.memlab-chat-ask > .widget-hbox { flex: 0 1 auto; flex-wrap: wrap; min-width: 0;
  overflow: visible; }
.memlab-chat-ask button { width: auto; min-width: 80px; }
.memlab-chat-step { min-height: 24px; font-weight: 600; overflow-wrap: anywhere; }
.memlab-chat-found { margin: 4px 0 8px; padding: 0; list-style: none; }
.memlab-chat-found > li { margin: 0 0 6px; padding: 0; }
.memlab-chat-bar { display: flex; height: 16px; margin: 4px 0; overflow: hidden; border-radius: 3px;
  border: 1px solid var(--jp-ui-font-color2, #616161);
  background: var(--jp-layout-color1, transparent); }
.memlab-chat-bar > span { flex: 0 0 auto; box-sizing: border-box; height: 100%;
  background: var(--jp-brand-color1, #1976d2);
  border-right: 1px solid var(--jp-layout-color1, #ffffff); }
.memlab-chat-bar > span:nth-child(even) { opacity: 0.55; }
</style>"""

_SHOWN_TURNS = 50
_ENTER_S = 0.3  # Enter comes before the text that it ends; after this long there is no new text
_MODELS = {
    "RuleModel": "RuleModel, a stand-in that follows plain rules",
    "ScriptedModel": "ScriptedModel, which gives fixed replies",
}
_LIMITS = {
    "model_call_limit": "the limit of {0.model_calls} model calls for one question",
    "tool_call_limit": "the limit of {0.tool_calls} tool calls for one question",
    "time_limit": "the limit of {0.model_seconds:g} s of model time for one question",
}
_NO_LOOP = (
    "Nothing was asked: no event loop runs here, so nothing can wait for the answer. In a notebook "
    "Send works as it is; in a script write: answer = asyncio.run(panel.ask('...'))"
)

Name = tuple[str, str]  # kind and key


class ChatPanel(Panel):
    """A conversation, with what is recalled for it, what waits for approval, how full a request is.

    Send returns at once and the answer comes in the background. Stop ends the turn: what was
    committed stays, what was not is not done later, and the history does not hold the turn. The
    same by code: `await panel.ask(text)` and `panel.stop()`.
    """

    def __init__(self, agent: MemoryAgent, alice: UserMemory):
        """Show the agent's conversation; `alice` is the user's own hand, for the approvals."""
        if not isinstance(agent, MemoryAgent):
            raise InvalidInput("agent", f"must be a MemoryAgent, not {type(agent).__name__}.")
        alice, lent = owner(alice), agent._memory
        if (lent.user, folder_of(lent)) != (alice.user, folder_of(alice)):
            raise InvalidInput("alice", "must be the user, in the store, that the agent answers.")
        super().__init__()
        for name in ("memlab-panel", "memlab-chat"):
            self.add_class(name)
        self._agent, self._alice = agent, alice
        self._loop = _running_loop()
        self._task: asyncio.Task[Answer] | None = None
        self._turn: _Turn | None = None  # the one that runs, or ran last
        self._turns: list[_Turn] = []  # the last that reached the model, oldest first
        self._count = 0
        self._enter: asyncio.TimerHandle | None = None

        self._head, self._step, self._notice = w.HTML(), w.HTML(), w.HTML()
        self._log = w.HTML(tabbable=True)  # so that the keyboard can scroll it
        self._log.add_class("memlab-chat-log")
        # Not synchronized as one types: a text that is still on its way when Send is pressed would
        # be asked in part. It comes whole when the field is left, or just after Enter. For the same
        # reason nothing but its value is ever set here: any other change would bring the old text.
        self.field = w.Text(
            description="Question",
            placeholder="Type here. Enter sends it.",
            continuous_update=False,
        )
        self.field.on_msg(self._on_field)
        self.field.observe(self._on_text, names="value")
        self.send_button = self._button("Send", "ask the question in the field", self._send_typed)
        self.stop_button = self._button("Stop", "end the answer that is being made", self.stop)
        self.again_button = self._button(
            "Ask again", "ask once more what got no answer", self._ask_again
        )
        self._choices = w.HBox([self.send_button, self.stop_button])
        ask = w.Box([self.field, self._choices])
        ask.add_class("memlab-chat-ask")
        talk = w.VBox([self._log, self._step, ask, self._notice])
        talk.add_class("memlab-chat-talk")

        self._recalled, self._size = w.HTML(), w.HTML()
        self.approvals = _Approvals(alice, lambda: self._on_loop(self._draw))
        beside = w.VBox([self._recalled, self.approvals, self._size])
        beside.add_class("memlab-chat-beside")
        columns = w.Box([talk, beside])
        columns.add_class("memlab-chat-columns")
        self.children = (self._head, columns)
        self._draw()

    def __repr__(self) -> str:
        count, turn = self._count, self._turn
        parts = [f"{count} {'question' if count == 1 else 'questions'}"]
        if turn is not None:
            if self._runs:
                parts.append(f"answering: {turn.step}")
            elif turn.answer is not None:
                parts.append(f"last answer {turn.answer.status}")
            else:
                parts.append("last one stopped" if turn.stopped else "last one failed")
            parts.append(self._fullness(turn))
        return f"ChatPanel({self._alice.user}: {'; '.join(parts)}; {self.approvals!r})"

    async def ask(self, text: str) -> Answer | None:
        """Ask, show the conversation as it goes, and return the answer; None: it was stopped.

        Raises:
            InvalidInput: the text is blank or too long, or another question is being answered.
            OverBudget: what must be sent does not fit.
            ModelError: no usable reply came.
        """
        task = self._begin(text, asyncio.get_running_loop())
        turn = self._turn
        try:
            return await task
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if turn is None or not turn.stopped or (me is not None and me.cancelling()):
                raise  # it is the caller that was cancelled
            return None

    def stop(self) -> None:
        """End the turn that runs, if one does. What it has committed stays."""
        self._on_loop(self._stop)

    def refresh(self) -> None:
        """Draw everything anew from the store and the agent."""
        self.approvals.refresh()  # which draws the rest too

    # Asking -------------------------------------------------------------------------------------

    @property
    def _runs(self) -> bool:
        return (
            self._task is not None
            and not self._task.done()
            and not self._task.get_loop().is_closed()
        )

    def _begin(
        self, text: str, loop: asyncio.AbstractEventLoop, *, typed: bool = False
    ) -> asyncio.Task[Answer]:
        """Start to answer `text` in the background."""
        if self._runs:
            raise InvalidInput("text", "another question is being answered. Wait, or stop it.")
        self._loop = loop
        turn = _Turn(text, self._model_words(), typed, _standing(self._alice))
        self._turn, self._notice.value = turn, ""
        self._task = loop.create_task(self._work(turn))
        self._task.add_done_callback(partial(self._ended, turn))
        self._draw()
        return self._task

    async def _work(self, turn: _Turn) -> Answer:
        """Let the agent answer, and listen in on its model to see how far it is."""
        agent = self._agent
        model = agent.model
        heard = _Heard(model, turn, self._asking, self._replied)
        agent.model = heard
        try:
            return await agent.ask(turn.question)
        finally:
            if agent.model is heard:  # or somebody has exchanged it meanwhile
                agent.model = model

    def _asking(self, turn: _Turn, messages: list[Message], tools: list[Message]) -> None:
        turn.calls += 1
        turn.chars = measure(messages, tools)
        most = self._agent.limits.model_calls
        turn.step = f"asking the model (call {turn.calls} of at most {most})"
        if turn.calls == 1:
            self._count += 1
            self._turns.append(turn)
            del self._turns[:-_SHOWN_TURNS]
            if turn.typed and self.field.value == turn.question:
                self.field.value = ""  # only now: a question that is refused stays there
        # The tools of the call before may have asked for something.
        self._guarded(self._draw if turn.calls == 1 else self.refresh)

    def _replied(self, turn: _Turn, reply: Any) -> None:
        names = _called(reply)
        if names:
            turn.step = f"running {', '.join(names)}"
            self._guarded(self._draw)

    def _ended(self, turn: _Turn, task: asyncio.Task[Answer]) -> None:
        """Keep how a turn ended. Runs whatever happened, also if the turn had not begun."""
        self._notice.value = ""
        if task.cancelled():
            turn.stopped = True
        elif (error := task.exception()) is not None:
            turn.error = _words(error)
        else:
            turn.answer = task.result()
            turn.asked = tuple(proposal.id for proposal in turn.answer.waiting)
        if turn.answer is None:
            if not turn.calls:  # the model was never asked, so nothing of it is a conversation
                ended = "Stopped before the model was asked." if turn.stopped else turn.error
                self._notice.value = alert(ended)
            self._guarded(lambda: turn.seen_after(_standing(self._alice)))
        self._guarded(self._draw)  # also where the store cannot be asked any more
        self._guarded(self.refresh)

    def _stop(self) -> None:
        task, turn = self._task, self._turn
        if task is None or turn is None or not self._runs:
            self._notice.value = _status("Nothing is being answered, so there is nothing to stop.")
            return
        turn.stopped, turn.step = True, "stopping"
        task.cancel()
        self._draw()

    # What is pressed ----------------------------------------------------------------------------

    def _button(self, name: str, tooltip: str, act: Callable[[], object]) -> Any:
        button = w.Button(description=name, tooltip=tooltip)
        button.on_click(lambda _: self._on_loop(act))
        return button

    def _on_field(self, _: object, content: Mapping[str, Any], __: object) -> None:
        if content.get("event") == "submit":
            self._on_loop(self._entered)

    def _on_text(self, _: object) -> None:
        self._on_loop(self._text_came)

    def _entered(self) -> None:
        """Enter was pressed. The text comes right after it, if it has changed."""
        self._forget_enter()
        loop = _running_loop()
        if loop is None:
            self._send_typed()
        else:
            self._enter = loop.call_later(_ENTER_S, lambda: self._guarded(self._send_typed))

    def _text_came(self) -> None:
        if self._enter is not None and self.field.value:
            self._send_typed()

    def _forget_enter(self) -> None:
        if self._enter is not None:
            self._enter.cancel()
            self._enter = None

    def _send_typed(self) -> None:
        self._forget_enter()
        text = self.field.value
        if self._runs and self._turn is not None:
            if text and not (text == self._turn.question and not self._turn.calls):
                self._notice.value = _status(
                    f"Not asked yet: “{cut(self._turn.question, 60)}” is still being answered. "
                    "Your text stays in the field: send it after the answer, or press Stop first."
                )
            return
        if text.strip():
            self._start(text, typed=True)
        else:
            self.field.focus()

    def _ask_again(self) -> None:
        turn = self._turn
        self.field.focus()  # the button goes away, and the focus must not go with it
        if turn is not None and turn.answer is None and not self._runs:
            self._start(turn.question)

    def _start(self, text: str, typed: bool = False) -> None:
        loop = _running_loop()
        if loop is None:
            self._notice.value = alert(_NO_LOOP)
        else:
            self._begin(text, loop, typed=typed)

    def _on_loop(self, act: Callable[[], object]) -> None:
        """Do this where the turn runs: some kernels call back on another thread."""
        loop = self._loop
        if loop is None or not loop.is_running() or _running_loop() is loop:
            self._guarded(act)
        else:
            loop.call_soon_threadsafe(self._guarded, act)

    def _failed(self, error: Exception) -> None:
        self._notice.value = alert(_words(error))

    # What is shown ------------------------------------------------------------------------------

    def _draw(self) -> None:
        turn, runs = self._turn, self._runs
        user, model = safe(self._alice.user), safe(self._model_words())
        self._head.value = (
            f'{SHARED_STYLE}{STYLE}<div class="memlab-head" role="heading" aria-level="3">'
            f'Conversation of {user}</div><div class="memlab-small">With {model}. What it says of '
            "saving is only text: what the store did stands under each answer.</div>"
        )
        step = turn.step if turn is not None and runs else ""
        told = f"{step[:1].upper()}{step[1:]} …" if runs else "Ready."
        self._step.value = f'<div class="memlab-chat-step" role="status">{safe(told)}</div>'
        self.stop_button.button_style = "danger" if runs else ""
        self.send_button.button_style = "" if runs else "primary"
        failed = turn is not None and turn.answer is None and bool(turn.calls) and not runs
        buttons = (self.send_button, self.stop_button, *([self.again_button] if failed else ()))
        if self._choices.children != buttons:
            self._choices.children = buttons
        entries = [
            _entry(each, self._alice.user, self._proposal, runs and each is turn, self._limit_words)
            for each in self._turns
        ]
        self._log.value = (
            '<div role="log" aria-live="polite" aria-label="Conversation">'
            f"{''.join(entries) or _NOTHING_YET}</div>"
        )
        self._size.value = self._fullness_shown()
        self._recalled.value = _recalled(
            self._last_answer(), _standing(self._alice)[0], runs, bool(self._turns)
        )

    def _proposal(self, id: str) -> Proposal | MemlabError | None:
        try:
            return self._alice.lend().proposal(id)
        except MemlabError as error:  # of a closed store, say so for each, and go on
            return error

    def _model_words(self) -> str:
        model = self._agent.model
        if isinstance(model, _Heard):
            model = model.model
        name = type(model).__name__
        asked = getattr(model, "model", None)  # a live one names what it asks
        return _MODELS.get(name, f"{name} ({asked})" if isinstance(asked, str) else name)

    def _last_answer(self) -> Answer | None:
        """The answer of the last turn; None where it has none (yet)."""
        return self._turns[-1].answer if self._turns else None

    def _limit_words(self, status: str) -> str:
        return _LIMITS.get(status, status).format(self._agent.limits)

    def _fullness(self, turn: _Turn) -> str:
        if not turn.chars:
            return "nothing was sent"
        limit = self._agent.limits.request_chars
        return f"request {turn.chars:,} of {limit:,} characters"

    def _fullness_shown(self) -> str:
        head = _heading("How full the request is")
        turn, answer = (self._turns[-1] if self._turns else None), self._last_answer()
        if turn is None:
            return f'{head}<div class="memlab-small">Nothing was sent yet.</div>'
        history = len(self._agent.history)
        noun = "turn" if history == 1 else "turns"
        after = (
            f'<div class="memlab-small">The next request starts with {history} earlier {noun} of '
            "this conversation.</div>"
        )
        if answer is not None and answer.steps:
            return head + _bar(answer.steps[-1].request) + after
        limit = self._agent.limits.request_chars
        return head + _bar(Sent(turn.chars, {"all": turn.chars}, limit, {}, ())) + after


class _Approvals(ApprovalPanel):
    """The cards beside the conversation; what is decided there also stands under the answer."""

    def __init__(self, alice: UserMemory, decided: Callable[[], None]):
        self._decided: Callable[[], None] = lambda: None
        super().__init__(alice)
        self._decided = decided

    def approve(self, id: str) -> str:
        return self._told(super().approve(id))

    def edit(self, id: str, value: str) -> str:
        return self._told(super().edit(id, value))

    def reject(self, id: str, reason: str = "") -> str:
        return self._told(super().reject(id, reason))

    def approve_all(self, ids: Iterable[str]) -> str:
        return self._told(super().approve_all(ids))

    def refresh(self) -> None:
        super().refresh()
        self._decided()

    def _told(self, words: str) -> str:
        self._decided()
        return words


@dataclass(slots=True, eq=False)
class _Turn:
    """A question, how far its answer is, and how it ended.

    Attributes:
        typed: It stands in the field until the model is asked.
        before: What stood in the store, and which proposals waited, when it began.
        step: What happens now, in words.
        calls, chars: Model calls so far, and the size of the last request.
        asked: The ids of what it asked for and nobody had decided when it ended.
        changed: What changed in the store during a turn that has no answer to tell of it; None
            where the store could not be asked.
    """

    question: str
    model: str
    typed: bool
    before: tuple[dict[Name, int], frozenset[str]]
    step: str = "starting"
    calls: int = 0
    chars: int = 0
    answer: Answer | None = None
    error: str = ""
    stopped: bool = False
    asked: tuple[str, ...] = ()
    changed: list[str] | None = None

    def seen_after(self, after: tuple[dict[Name, int], frozenset[str]]) -> None:
        """Compare the store with what it was before: there is no answer that would tell."""
        old, new = self.before[0], after[0]
        self.changed = []
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                effect = "deleted" if name not in new else "replaced"
                self.changed.append(f"{'/'.join(name)} {effect if name in old else 'created'}")
        self.asked = tuple(sorted(after[1] - self.before[1]))


class _Heard:
    """The agent's model for the time of one turn: says when a call begins, and obeys Stop."""

    def __init__(
        self,
        model: Model,
        turn: _Turn,
        asking: Callable[[_Turn, list[Message], list[Message]], None],
        replied: Callable[[_Turn, Any], None],
    ):
        self.model = model
        self._turn, self._asking, self._replied = turn, asking, replied

    async def complete(self, messages: list[Message], tools: list[Message]) -> Message:
        self._end_if_stopped()
        self._asking(self._turn, messages, tools)
        reply = await self.model.complete(messages, tools)
        self._end_if_stopped()
        self._replied(self._turn, reply)
        return reply

    async def aclose(self) -> None:
        await self.model.aclose()

    def _end_if_stopped(self) -> None:
        if self._turn.stopped:  # a model or a tool that took no notice of it
            raise asyncio.CancelledError

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)  # `requests`, for example: it is the same model


# What happened, in words ------------------------------------------------------------------------


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, MemlabError) else f"{type(error).__name__}: {error}"


def _standing(alice: UserMemory) -> tuple[dict[Name, int], frozenset[str]]:
    """Return every record's revision, and the ids of what waits."""
    revisions = {(record.kind, record.key): record.revision for record in alice.list()}
    return revisions, frozenset(proposal.id for proposal in alice.approvals.pending())


def _called(reply: Any) -> list[str]:
    """Return the names of the tools that a reply calls; the agent says what is wrong with it."""
    calls = reply.get("tool_calls") if isinstance(reply, Mapping) else None
    functions = [
        each.get("function") if isinstance(each, Mapping) else None
        for each in (calls if isinstance(calls, list | tuple) else ())
    ]
    return [
        cut(str(each["name"]), 64)
        for each in functions
        if isinstance(each, Mapping) and "name" in each
    ]


def _did(
    turn: _Turn, proposal: Callable[[str], Proposal | MemlabError | None]
) -> tuple[str, list[str]]:
    """Return what the store did in a turn: the kind of line it is, and its parts."""
    answer = turn.answer
    wrote = [_applied(each) for each in answer.writes] if answer else list(turn.changed or ())
    found = [(id, proposal(id)) for id in turn.asked]
    parts = wrote or ["nothing was written"]
    if answer is None and turn.changed is None:
        parts = ["it cannot be asked what was written"]
    parts += [_asked(id, each) for id, each in found]
    if answer:
        parts += [f"file written: {path}" for path in _files(answer)]
        parts += [f"also: {problem}" for problem in answer.problems]
    waits = any(isinstance(each, Proposal) and each.state == "pending" for _, each in found)
    return ("memlab-chat-asks" if waits else "memlab-chat-wrote" if wrote else ""), parts


def _applied(applied: Applied) -> str:
    name = f"{applied.change.kind}/{applied.change.key}"
    if applied.record is None:
        return f"{applied.effect}: {name}"
    return f"stored: {name} {applied.effect}, revision {applied.record.revision}"


def _asked(id: str, found: Proposal | MemlabError | None) -> str:
    if isinstance(found, MemlabError):
        return f"it cannot be asked what became of {id}"
    if found is None:
        return f"gone: the store holds {id} no more"
    name = f"{found.kind}/{found.key}"
    if found.state == "pending":
        return f"waits for you: {'store' if found.action == 'put' else 'delete'} {name}"
    if found.state == "used":
        return f"approved since: {name} {found.effect}"
    return f"{found.state} since: {name} was not written"


def _files(answer: Answer) -> list[str]:
    return [
        str(result["path"])
        for step in answer.steps
        for call, result in zip(step.calls, step.results, strict=False)
        if call.name == "write_demo_file" and result.get("ok") is True and "path" in result
    ]


def _why(hit: Hit) -> str:
    """Say why a record was recalled, for somebody who has never heard of a ranking."""
    said = {"words": "by the words it shares with the question", "meaning": "by its meaning"}
    ranks = [
        f"number {found['rank']:g} {said.get(name, f'by {name}')}"
        for name, found in hit.why.items()
    ]
    return " and ".join(ranks) or "a preference: some go into every request"


def _sent_names(answer: Answer) -> set[Name]:
    """Return the records that stand in the last request of an answer."""
    try:
        content = json.loads(answer.steps[-1].request.messages[1]["content"])
        return {(each["kind"], each["key"]) for each in content["memories"]}
    except (IndexError, KeyError, TypeError, ValueError):  # there is none
        return set()


# What happened, as HTML -------------------------------------------------------------------------

_NOTHING_YET = (
    '<div class="memlab-small">Nothing was asked yet. For example: “Remember that I like short '
    "answers.”, then “How should you answer me?”</div>"
)


def _heading(text: str) -> str:
    return f'<div class="memlab-head" role="heading" aria-level="3">{text}</div>'


def _status(text: str) -> str:
    return f'<div class="memlab-done" role="status">{safe(text)}</div>'


def _entry(
    turn: _Turn,
    user: str,
    proposal: Callable[[str], Proposal | MemlabError | None],
    runs: bool,
    limit_words: Callable[[str], str],
) -> str:
    answer = turn.answer
    lines = [_said(user, turn.question, "memlab-chat-question")]
    if answer is not None:
        lines.append(_said(turn.model.partition(",")[0], answer.text or "(no words)"))
        if answer.status != COMPLETE:
            ended = f"Ended early by {limit_words(answer.status)}. The history leaves it out."
            lines.append(f'<div class="memlab-alert">{safe(ended)}</div>')
    elif runs:
        return f'<div class="memlab-chat-turn">{lines[0]}</div>'
    else:
        ended = "Stopped." if turn.stopped else f"No answer: {turn.error}"
        lines.append(f'<div class="memlab-alert">{safe(ended)}</div>')
    kind, parts = _did(turn, proposal)
    who = "The store" if answer is not None else "The store, meanwhile"
    lines.append(f'<div class="memlab-chat-store {kind}">{who}: {safe("; ".join(parts))}.</div>')
    return f'<div class="memlab-chat-turn">{"".join(lines)}</div>'


def _said(who: str, text: str, look: str = "") -> str:
    return (
        f'<div class="memlab-chat-who">{safe(who)}</div>'
        f'<div class="memlab-chat-text {look}" dir="auto">{safe(text)}</div>'
    )


def _recalled(answer: Answer | None, standing: Mapping[Name, int], runs: bool, asked: bool) -> str:
    head = _heading("Recalled for the last answer")
    if answer is None:
        ended = "The last question got no answer." if asked else "Nothing was asked yet."
        told = "Stands here when the answer comes." if runs else ended
        return f'{head}<div class="memlab-small">{told}</div>'
    if not answer.recalled:
        return f'{head}<div class="memlab-small">Nothing: no memory matches the question.</div>'
    sent = _sent_names(answer)
    items = []
    for hit in answer.recalled:
        name = (hit.kind, hit.key)
        stands = standing.get(name)
        value = hit.value if stands == hit.record.revision else None
        notes = [_why(hit)]
        if name not in sent:
            notes.append("left out of the last request")
        if value is None:
            notes.append("deleted since" if stands is None else f"changed since: revision {stands}")
        shown = f'<div class="memlab-value" dir="auto">{safe(value)}</div>' if value else ""
        items.append(
            f'<li><div class="memlab-what">{safe("/".join(name))}</div>{shown}'
            f'<div class="memlab-small">Why: {safe("; ".join(notes))}.</div></li>'
        )
    return f'{head}<ul class="memlab-chat-found">{"".join(items)}</ul>'


def _bar(sent: Sent) -> str:
    """Show one request against its limit, in proportion, and say the same in words."""
    parts = {part: chars for part, chars in sent.by_part.items() if chars}
    share = 100 * sent.chars / sent.limit
    total = f"{sent.chars:,} of at most {sent.limit:,} characters ({share:.0f} %)"
    gone = ", ".join(f"{count} of {part}" for part, count in sent.dropped.items() if count)
    blocks = "".join(
        f'<span style="width: {100 * chars / sent.limit:.2f}%"></span>' for chars in parts.values()
    )
    named = " · ".join(f"{part} {chars:,}" for part, chars in parts.items() if part != "all")
    detail = (
        f"{named}. Left out to fit: {gone or 'nothing'}."
        if named
        else "The request of the last question."
    )
    return (
        f'<div class="memlab-chat-bar" role="meter" aria-label="Size of the last request" '
        f'aria-valuemin="0" aria-valuemax="{sent.limit}" aria-valuenow="{sent.chars}" '
        f'aria-valuetext="{safe(total)}">{blocks}</div>'
        f'<div>{safe(total)}</div><div class="memlab-small">{safe(detail)}</div>'
    )
