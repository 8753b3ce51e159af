"""The loop: read, decide, act, until there is an answer; the answer records all of it."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from memlab import approvals, retrieval
from memlab.budget import fit, room, squeeze, tell
from memlab.errors import InvalidInput, MemlabError, ModelError, StoreDamaged
from memlab.models import Model
from memlab.records import Applied, Hit, Limits, Proposal, Record, Turn
from memlab.request import Exchange, Request, sizes
from memlab.store import LentMemory, UserMemory, folder_of
from memlab.text import canonical, clean, cut
from memlab.tools import Result, Tool, Toolbox, toolbox

COMPLETE = "complete"
Name = tuple[str, str]  # kind and key


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as it was sent.

    Attributes:
        chars: Its size, in characters of canonical JSON, everything included.
        by_part: The same by part; the sum is `chars`.
        limit: The most it was allowed to have.
        dropped: How many items of each part were left out.
        messages: A copy of what the model was handed.
    """

    chars: int
    by_part: Mapping[str, int]
    limit: int
    dropped: Mapping[str, int]
    messages: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One call that the model made; `arguments` is the JSON text it wrote."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Step:
    """One model call: what was sent, what came back, what its calls gave, in the same order.

    Attributes:
        reply: None when the time ran out before it came.
        results: What the model is told of each call, with `ok`.
    """

    request: Sent
    reply: Mapping[str, Any] | None
    calls: tuple[Call, ...] = ()
    results: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """Everything about one turn. What `text` claims counts for nothing: `writes` is what happened.

    Attributes:
        status: `complete`, `model_call_limit`, `tool_call_limit` or `time_limit`.
        recalled: What was chosen for the request, the most important first.
        writes: What the store really did.
        waiting: Changes asked for in this turn that wait for the user.
        problems: What went wrong without costing the answer.
    """

    text: str
    status: str
    recalled: tuple[Hit, ...] = ()
    steps: tuple[Step, ...] = ()
    writes: tuple[Applied, ...] = ()
    waiting: tuple[Proposal, ...] = ()
    problems: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Answer({self.status}, model calls: {len(self.steps)}, written: {len(self.writes)}, "
            f"waiting: {len(self.waiting)}, text: {self.text!r})"
        )


class MemoryAgent:
    """Answers one user with one model, and remembers through a lent memory.

    Attributes:
        model: May be exchanged between turns.
    """

    def __init__(
        self,
        memory: UserMemory | LentMemory,
        model: Model,
        workspace: str | Path | None = None,
        limits: Limits | None = None,
        tools: Iterable[Tool] = (),
    ):
        """Take `memory` for one user; of the user's own hand only what it lends is kept.

        Args:
            workspace: Where `write_demo_file` may write; without one there is no such tool.
            limits: The store's own where none are given.
            tools: More tools for the model.
        """
        lent = memory.lend() if isinstance(memory, UserMemory) else memory
        self.model = model
        self.limits = limits or lent.limits
        self._memory = lent
        folder = Path(workspace) if workspace is not None else None
        self._tools: Toolbox = toolbox(lent, self.limits, folder, folder_of(lent), tools)
        self._history: list[Turn] = []
        self._stored: dict[Name, int] = {}  # what was stored when we last looked, by revision
        self._asked: dict[str, None] = {}  # proposals whose outcome the model does not know yet
        self._busy = False

    @property
    def history(self) -> tuple[Turn, ...]:
        """The completed turns that the next request will hold, oldest first."""
        return tuple(self._history)

    async def ask(self, task: str) -> Answer:
        """Answer `task` and return what happened, whole.

        Raises:
            InvalidInput: the task is blank or too long, or another one is being answered.
            OverBudget: what must be sent does not fit; the model was not called with it.
            ModelError: no usable reply came. What was written before stays.
        """
        task = clean(task, "task", limit=self.limits.task_chars)
        if self._busy:
            raise InvalidInput("task", "another one is being answered. Wait for its answer.")
        self._busy = True
        try:
            return await self._answer(task)
        finally:
            self._busy = False

    async def _answer(self, task: str) -> Answer:
        limits, memory = self.limits, self._memory
        self._forget_what_is_gone()
        chosen = retrieval.choose(
            memory.recall(task[: memory.limits.task_chars], limit=1000),
            memory.list("preference"),
            limits.context_chars,
            limits.context_preferences,
        )
        request = Request(
            task,
            memories=[hit.record for hit in chosen],
            turns=self._history,
            tools=self._tools.descriptions(),
        )
        turn = _Turn()
        problems: list[str] = []
        complete = False
        try:
            text, status = await self._loop(request, turn)
            complete = status == COMPLETE
        finally:  # also where the turn failed or was cancelled: what was done is done
            for id in turn.told:
                self._asked.pop(id, None)
            if self._forget_what_is_gone() or turn.deleted:
                self._history.clear()
                complete = False
            try:
                memory.touch(turn.sent.values())
            except MemlabError as error:  # a count that is lost must not cost the answer
                problems.append(f"uses were not counted: {error}")
        if complete:
            self._remember(Turn(cut(task, limits.turn_chars), cut(text, limits.turn_chars)))
        waiting = (memory.proposal(id) for id in turn.proposed)
        return Answer(
            text,
            status,
            tuple(chosen),
            tuple(turn.steps),
            tuple(applied for applied in turn.applied if applied.effect != "unchanged"),
            tuple(proposal for proposal in waiting if proposal and proposal.state == "pending"),
            tuple(problems),
        )

    async def _loop(self, request: Request, turn: _Turn) -> tuple[str, str]:
        """Call the model and its tools until there is an answer; return text and status."""
        limits, now = self.limits, asyncio.get_running_loop().time
        seconds, text = limits.model_seconds, ""
        request = self._as_it_stands(request)
        while len(turn.steps) < limits.model_calls:
            if seconds <= 0:
                return text, "time_limit"
            fitted = fit(request, limits.request_chars)
            sent = _sent(fitted, limits.request_chars)
            turn.note_sent(fitted)
            started = now()
            try:
                async with asyncio.timeout(seconds) as timer:
                    tools = [copy.deepcopy(dict(tool)) for tool in fitted.tools]
                    reply = await self.model.complete(fitted.messages(), tools)
            except TimeoutError:
                if not timer.expired():
                    raise
                turn.steps.append(Step(sent, None))
                return text, "time_limit"
            seconds -= now() - started
            message, calls = read_reply(reply, taken=turn.ids)
            text = message["content"] or ""
            turn.told.update(decision.id for decision in fitted.decisions)
            if not calls:
                turn.steps.append(Step(sent, message))
                return text, COMPLETE
            results = [await self._run(call, turn) for call in calls]
            if turn.calls > limits.tool_calls:
                data = tuple(result.data for result in results)
                turn.steps.append(Step(sent, message, tuple(calls), data))
                return text, "tool_call_limit"
            request = self._as_it_stands(request)
            exchange = _exchange(message, calls, results)
            told = squeeze(exchange, room(request, limits.request_chars))
            data = tuple(json.loads(answer["content"]) for answer in told.results)
            turn.steps.append(Step(sent, message, tuple(calls), data))
            turn.found += _records(told, exchange, results)
            request = replace(request, exchanges=(*request.exchanges, told))
        return text, "model_call_limit"

    def _as_it_stands(self, request: Request) -> Request:
        """Return the request with its records as stored now, and what the user has decided."""
        stored = {(record.kind, record.key): record for record in self._memory.list()}
        names = [(record.kind, record.key) for record in request.memories]
        request = replace(request, memories=[stored[name] for name in names if name in stored])
        found = (self._memory.proposal(id) for id in self._asked)
        decisions = [p for p in found if p is not None and p.state not in approvals.OPEN]
        return tell(request, self._memory.approved(), decisions, self.limits.request_chars)

    async def _run(self, call: Call, turn: _Turn) -> Result:
        turn.calls += 1
        if turn.calls > self.limits.tool_calls:
            most = self.limits.tool_calls
            return Result({"ok": False, "error": f"not run: {most} calls a task are allowed."})
        result = await self._tools.run(call.name, call.arguments)
        if result.applied is not None:
            turn.applied.append(result.applied)
        if result.proposal is not None:
            turn.proposed[result.proposal.id] = None
            if result.proposal.state == "pending":
                self._asked[result.proposal.id] = None
        return result

    # History ------------------------------------------------------------------------------------

    def _forget_what_is_gone(self) -> bool:
        """Clear the history where anything it may tell of was deleted, by whomever; say so."""
        memory = self._memory
        stored = {(r.kind, r.key): r.revision for r in memory.list()}
        try:
            gone = any(
                stored.get(name) != revision
                and all(kept.revision != revision for kept in memory.history(*name))
                for name, revision in self._stored.items()
            )
        except StoreDamaged:  # nobody can say what is gone there
            gone = True
        self._stored = stored  # only now: after an error the same is compared again
        for id in list(self._asked):
            asked = memory.proposal(id)
            if asked is None:
                del self._asked[id]  # everything about the user was forgotten
            if asked is None or (asked.state == "used" and asked.change is None):
                gone = True  # or it was stored by an approval and then deleted, text and all
        if gone:
            self._history.clear()
        return gone

    def _remember(self, turn: Turn) -> None:
        limits = self.limits
        self._history.append(turn)
        while len(self._history) > limits.history_turns or (
            sum(len(each.task) + len(each.answer) for each in self._history) > limits.history_chars
        ):
            del self._history[0]


class _Turn:
    """What one turn gathers while it runs."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.applied: list[Applied] = []
        self.proposed: dict[str, None] = {}
        self.sent: dict[Name, Record] = {}
        self.found: list[Record] = []  # by calls; the next request holds the newest exchange
        self.told: set[str] = set()
        self.ids: set[str] = set()
        self.calls = 0

    @property
    def deleted(self) -> bool:
        return any(applied.effect == "deleted" for applied in self.applied)

    def note_sent(self, fitted: Request) -> None:
        """Keep which records a model really gets to see: in the request, or in a result."""
        for record in (*fitted.memories, *self.found):
            self.sent[record.kind, record.key] = record


def read_reply(reply: object, taken: set[str]) -> tuple[dict[str, Any], list[Call]]:
    """Return a model's reply as a well-formed assistant message, and its calls.

    Args:
        taken: The call ids of this turn so far; a missing or repeated id gets one of its own.

    Raises:
        ModelError: it is no assistant message at all.
    """
    if not isinstance(reply, Mapping) or reply.get("role", "assistant") != "assistant":
        raise ModelError("The model's reply is no assistant message. Try again, or change it.")
    content, raw = reply.get("content"), reply.get("tool_calls") or []
    if not isinstance(content, str | None) or not isinstance(raw, list | tuple):
        raise ModelError("The model's reply has content or calls of a wrong form. Try again.")
    text = (content or "").replace("\0", "").encode("utf-8", "replace").decode()
    calls = []
    for each in raw:
        each = each if isinstance(each, Mapping) else {}
        function = each.get("function")
        function = function if isinstance(function, Mapping) else {}
        id = each.get("id")
        if not isinstance(id, str) or not 0 < len(id) <= 128 or not id.isprintable() or id in taken:
            id = next(new for n in count(len(taken) + 1) if (new := f"call_{n}") not in taken)
        taken.add(id)
        calls.append(Call(id, str(function.get("name")), _text(function.get("arguments"))))
    message: dict[str, Any] = {"role": "assistant", "content": text if text or not calls else None}
    if calls:
        message["tool_calls"] = [_echoed(call) for call in calls]
    return message, calls


def _text(arguments: object) -> str:
    """Return a call's arguments as text, also where a provider sent them as data."""
    if isinstance(arguments, str):
        return arguments
    try:
        return canonical(arguments)
    except (TypeError, ValueError, RecursionError):
        return "?"  # no JSON: the tool will say so


def _echoed(call: Call) -> dict[str, Any]:
    """Return a call as it goes back to the model: what is no JSON object would wedge a provider."""
    try:
        read = json.loads(call.arguments)
        arguments = canonical(read) if isinstance(read, dict) else "{}"
        arguments.encode()
    except (ValueError, RecursionError):
        arguments = "{}"
    name = "".join(c for c in call.name[:64] if c.isascii() and (c.isalnum() or c in "_-"))
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": name or "unknown", "arguments": arguments},
    }


def _exchange(message: dict[str, Any], calls: list[Call], results: list[Result]) -> Exchange:
    answers = [
        {"role": "tool", "tool_call_id": call.id, "content": canonical(result.data)}
        for call, result in zip(calls, results, strict=True)
    ]
    return Exchange(message, tuple(answers))


def _records(told: Exchange, whole: Exchange, results: list[Result]) -> list[Record]:
    """Return the records that the model gets to see in the results it is told."""
    return [
        record
        for seen, answer, result in zip(told.results, whole.results, results, strict=True)
        if seen["content"] == answer["content"]
        for record in result.records
    ]


def _sent(fitted: Request, limit: int) -> Sent:
    size = sizes(fitted)
    messages = tuple(fitted.messages())
    return Sent(size.chars, size.by_part(), limit, fitted.dropped.to_dict(), messages)
