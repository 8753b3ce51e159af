"""The loop: read, decide, act, until there is an answer; the answer records all of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memlab import retrieval
from memlab.budget import fit
from memlab.errors import InvalidInput, MemlabError, ModelError
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
        results: What the model was told, each with `ok`.
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
        self._history: list[tuple[Turn, frozenset[Name]]] = []
        self._asked: dict[str, None] = {}  # proposals whose outcome the model does not know yet
        self._busy = False

    @property
    def history(self) -> tuple[Turn, ...]:
        """The completed turns that the next request will hold, oldest first."""
        return tuple(turn for turn, _ in self._history)

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
        hits = memory.recall(task, limit=1000)
        chosen = retrieval.choose(
            hits, memory.list("preference"), limits.context_chars, limits.context_preferences
        )
        decisions = self._decisions()
        self._forget_what_is_gone(decisions)
        request = Request(
            task,
            memories=[hit.record for hit in chosen],
            turns=self.history,
            decisions=decisions,
            tools=self._tools.descriptions(),
            approved=memory.approved(),
        )
        turn = _Turn()
        problems: list[str] = []
        try:
            text, status = await self._loop(request, turn)
        finally:
            if turn.steps:
                for decision in decisions:
                    self._asked.pop(decision.id, None)
            self._asked.update(dict.fromkeys(turn.proposed))
            try:
                memory.touch(turn.sent.values())
            except MemlabError as error:  # a count that is lost must not cost the answer
                problems.append(f"uses were not counted: {error}")
        writes = tuple(applied for applied in turn.applied if applied.effect != "unchanged")
        self._remember_turn(task, text, status, turn, writes)
        waiting = (memory.proposal(id) for id in turn.proposed)
        return Answer(
            text,
            status,
            tuple(chosen),
            tuple(turn.steps),
            writes,
            tuple(proposal for proposal in waiting if proposal and proposal.state == "pending"),
            tuple(problems),
        )

    async def _loop(self, request: Request, turn: _Turn) -> tuple[str, str]:
        """Call the model and its tools until there is an answer; return text and status."""
        limits = self.limits
        seconds, text = limits.model_seconds, ""
        while len(turn.steps) < limits.model_calls:
            fitted = fit(request, limits.request_chars)
            messages, tools = fitted.messages(), self._tools.descriptions()
            sent = _sent(fitted, messages, limits.request_chars)
            turn.note_sent(fitted)
            started = asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(max(seconds, 0)) as timer:
                    reply = await self.model.complete(messages, tools)
            except TimeoutError:
                if not timer.expired():
                    raise
                turn.steps.append(Step(sent, None))
                return text, "time_limit"
            seconds -= asyncio.get_running_loop().time() - started
            message, calls = read_reply(reply, taken=turn.ids)
            text = message["content"] or ""
            if not calls:
                turn.steps.append(Step(sent, message))
                return text, COMPLETE
            results = [await self._run(call, turn) for call in calls]
            turn.steps.append(
                Step(sent, message, tuple(calls), tuple(result.data for result in results))
            )
            exchange = _exchange(message, calls, results)
            turn.found.append((exchange, [r for result in results for r in result.records]))
            request = replace(
                request,
                exchanges=(*request.exchanges, exchange),
                approved=self._memory.approved(),
            )
            if turn.calls > limits.tool_calls:
                return text, "tool_call_limit"
        return text, "model_call_limit"

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
        return result

    # History ------------------------------------------------------------------------------------

    def _decisions(self) -> list[Proposal]:
        found = (self._memory.proposal(id) for id in self._asked)
        return [p for p in found if p is not None and p.state not in ("pending", "approved")]

    def _forget_what_is_gone(self, decisions: list[Proposal]) -> None:
        """Clear the history when anything it may tell of has been deleted, by whomever."""
        deleted = any(d.action == "delete" and d.state == "used" for d in decisions)
        names = {name for _, known in self._history for name in known}
        if deleted or any(self._memory.get(*name) is None for name in sorted(names)):
            self._history.clear()
        if self._history:
            last, known = self._history[-1]
            stored = {(d.kind, d.key) for d in decisions if d.state == "used"}
            self._history[-1] = (last, known | stored)

    def _remember_turn(
        self, task: str, text: str, status: str, turn: _Turn, writes: tuple[Applied, ...]
    ) -> None:
        if any(applied.effect == "deleted" for applied in writes):
            self._history.clear()
            return
        if status != COMPLETE:
            return
        limits = self.limits
        short = Turn(cut(task, limits.turn_chars), cut(text, limits.turn_chars))
        written = {(applied.change.kind, applied.change.key) for applied in writes}
        self._history.append((short, frozenset(written | set(turn.sent))))
        while len(self._history) > limits.history_turns or (
            sum(len(t.task) + len(t.answer) for t, _ in self._history) > limits.history_chars
        ):
            del self._history[0]


class _Turn:
    """What one turn gathers while it runs."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.applied: list[Applied] = []
        self.proposed: dict[str, None] = {}
        self.sent: dict[Name, Record] = {}
        self.found: list[tuple[Exchange, list[Record]]] = []
        self.ids: set[str] = set()
        self.calls = 0

    def note_sent(self, fitted: Request) -> None:
        """Keep which records a model really gets to see: in the request, or in a result."""
        seen = [*fitted.memories]
        for exchange, records in self.found:
            if any(exchange is kept for kept in fitted.exchanges):
                seen.extend(records)
        self.sent.update({(record.kind, record.key): record for record in seen})


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
        if not isinstance(id, str) or not id.isprintable() or not id or id in taken:
            id = next(new for n in range(1, 10**9) if (new := f"call_{n}") not in taken)
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
    if len(arguments) > 20_000:
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


def _sent(fitted: Request, messages: list[dict[str, Any]], limit: int) -> Sent:
    by_part = sizes(fitted).by_part()
    return Sent(sum(by_part.values()), by_part, limit, fitted.dropped.to_dict(), tuple(messages))
