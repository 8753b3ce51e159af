"""Where replies come from: a script, a few plain rules, or a live model.

All three answer the same call with the assistant message as OpenAI's dict:

    {"role": "assistant", "content": "..." or None,
     "tool_calls": [{"id": ..., "type": "function",
                     "function": {"name": ..., "arguments": "<JSON>"}}]}

Without calls there is no `tool_calls` key. Nothing here falls back on anything else: a live model
that cannot answer raises `ModelError`, it never turns into a stand-in.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from memlab import rules
from memlab.errors import ModelError
from memlab.server import Server
from memlab.text import canonical

Message = dict[str, Any]
"""One message, as OpenAI's chat API writes it."""


class Model(Protocol):
    """Whatever can answer a request. An agent needs no more of it than this."""

    async def complete(self, messages: list[Message], tools: list[Message]) -> Message:
        """Return the assistant message that answers `messages`."""
        ...

    async def aclose(self) -> None:
        """Let go of connections. Closing twice does no harm."""
        ...


# Scripted ---------------------------------------------------------------------------------------


def say(text: str) -> Message:
    """Return a scripted reply: words, no calls."""
    return {"role": "assistant", "content": text}


def call(name: str, /, **arguments: Any) -> Message:
    """Return a scripted reply: one call of the tool `name`."""
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", "function": function}],
    }


class ScriptedModel:
    """Gives fixed replies in order, and records every request.

    Args:
        replies: Each is what `say` or `call` returns, a list of those (one reply with several
            calls), a str (short for `say`), an exception (raised), or a function of
            `(messages, tools)`, plain or async, that returns any of these.

    A call without an id gets one: `call_1`, `call_2`, ... in order.
    """

    def __init__(self, replies: Iterable[Any]):
        self.requests: list[dict[str, Any]] = []
        self._replies = [_copied(reply) for reply in replies]
        self._calls = 0

    async def complete(self, messages: list[Message], tools: list[Message]) -> Message:
        self.requests.append(_recorded(messages, tools))
        turn = len(self.requests)
        if turn > len(self._replies):
            raise ModelError(
                f"The script has {len(self._replies)} replies and this is request {turn}. "
                "Add a reply to ScriptedModel([...]), or end the script with say(...)."
            )
        reply = self._replies[turn - 1]
        if callable(reply):
            reply = reply(*_recorded(messages, tools).values())
            if inspect.isawaitable(reply):
                reply = await reply
        if isinstance(reply, BaseException):
            raise reply
        return self._with_ids(_one_message(_copied(reply)))

    async def aclose(self) -> None:
        """Nothing to let go of."""

    def _with_ids(self, message: Message) -> Message:
        for at, each in enumerate(message.get("tool_calls", [])):
            if "id" not in each:
                self._calls += 1
                message["tool_calls"][at] = {"id": f"call_{self._calls}", **each}
        return message


def _recorded(messages: list[Message], tools: list[Message]) -> dict[str, Any]:
    return {"messages": copy.deepcopy(messages), "tools": copy.deepcopy(tools)}


def _copied(reply: Any) -> Any:
    """Copy what is data; functions and exceptions are taken as they are."""
    return copy.deepcopy(reply) if isinstance(reply, dict | list | tuple) else reply


def _one_message(reply: Any) -> Message:
    parts = list(reply) if isinstance(reply, list | tuple) else [reply]
    parts = [say(part) if isinstance(part, str) else part for part in parts]
    if not parts or not all(isinstance(part, dict) for part in parts):
        raise ModelError(
            f"The script holds a {type(reply).__name__} where a reply should be. "
            "Use say(...), call(...), a list of these, text, an exception or a function."
        )
    if len(parts) == 1:
        message: Message = {"role": "assistant", "content": None, **parts[0]}
    else:
        words = [part["content"] for part in parts if part.get("content")]
        message = {"role": "assistant", "content": "\n".join(words) or None}
        message["tool_calls"] = [each for part in parts for each in part.get("tool_calls") or ()]
    if not message.get("tool_calls"):
        message.pop("tool_calls", None)
    return message


# Rules -------------------------------------------------------------------------------------------


class RuleModel:
    """A small honest stand-in: it reads the request and follows plain rules, offline.

    It knows nothing but the request in front of it, so an answer changes when the memories in the
    request change, and for no other reason. It says only what tool results say. It keeps no state;
    `requests` is a record for the reader, as in `ScriptedModel`. The rules stand in `rules.py`.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def complete(self, messages: list[Message], tools: list[Message]) -> Message:
        self.requests.append(_recorded(messages, tools))
        decided = rules.decide(messages, tools)
        if isinstance(decided, str):
            return say(decided)
        message = _one_message([call(name, **arguments) for name, arguments in decided])
        made = sum(len(each.get("tool_calls") or ()) for each in messages)
        for number, each in enumerate(message["tool_calls"], made + 1):
            each["id"] = f"rule_{number}"
        return message

    async def aclose(self) -> None:
        """Nothing to let go of."""


# Live -------------------------------------------------------------------------------------------

_OFFLINE = "ScriptedModel and RuleModel work offline."


class LiveModel:
    """Asks a real server through the official `openai` client.

    Args:
        base_url: Another server that speaks the same language; None: OpenAI's own. A server on
            this machine is spoken to directly; any other through the proxy that the environment
            names, if it names one.
        timeout_s: Seconds without an answer after which one attempt is given up.
        max_retries: Further attempts after 429, 5xx, a time-out or a lost connection.

    Attributes:
        requests: A copy of each request, as in `ScriptedModel`.
        usage: What the provider says each reply cost, in its own words; None where it says nothing.

    One client serves one event loop and is closed with it, by `aclose`, and after every failure or
    cancellation; the next request opens a new one.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None,
        base_url: str | None = None,
        timeout_s: float = 60.0,
        max_retries: int = 2,
    ):
        self.model = _given(model, "OPENAI_MODEL")
        self._server = Server(
            api_key,
            base_url,
            timeout_s=timeout_s,
            max_retries=max_retries,
            offline=_OFFLINE,
            steps=_NEXT_STEP,
        )
        self.base_url = self._server.base_url
        self.requests: list[dict[str, Any]] = []
        self.usage: list[dict[str, Any] | None] = []
        self._line: _Line | None = None

    @classmethod
    def from_env(
        cls,
        environ: Mapping[str, str] | None = None,
        *,
        timeout_s: float = 60.0,
        max_retries: int = 2,
    ) -> Self:
        """Read OPENAI_API_KEY, OPENAI_MODEL and, where it is set, OPENAI_BASE_URL.

        Raises:
            ModelError: a variable is missing or blank, or the `openai` package is not installed.
        """
        env = os.environ if environ is None else environ
        return cls(
            _given(env.get("OPENAI_MODEL"), "OPENAI_MODEL"),
            api_key=env.get("OPENAI_API_KEY"),
            base_url=env.get("OPENAI_BASE_URL"),
            timeout_s=timeout_s,
            max_retries=max_retries,
        )

    def __repr__(self) -> str:
        return f"LiveModel({self.model!r}, base_url={self.base_url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def complete(self, messages: list[Message], tools: list[Message]) -> Message:
        """Send exactly `messages` and `tools`, and return the assistant message.

        Raises:
            ModelError: no usable reply came, for whatever reason.
        """
        self.requests.append(_recorded(messages, tools))
        line = await self._open()
        line.calls += 1
        try:
            body = await self._ask(line.client, messages, tools)
            reply = _reply(body)
        except BaseException:  # a cancellation as well: nothing of it may stay open
            line.spoiled = True
            if self._line is line:
                self._line = None
            raise
        finally:
            line.calls -= 1
            if line.spoiled and not line.calls:  # nobody else is still listening on it
                await line.opened.aclose()
        usage = body.get("usage")
        self.usage.append(usage if isinstance(usage, dict) else None)
        return reply

    async def aclose(self) -> None:
        """Close the client. Closing twice does no harm; the next request opens a new one."""
        line, self._line = self._line, None
        if line and line.loop is asyncio.get_running_loop():
            await line.opened.aclose()  # another loop closes its own

    async def _open(self) -> _Line:
        loop = asyncio.get_running_loop()
        if self._line is None or self._line.loop is not loop:
            opened = self._clients()
            self._line = _Line(loop, opened, await anext(opened))
        return self._line

    async def _clients(self) -> AsyncGenerator[Any, None]:
        """Yield one client. An event loop that ends closes its generators, and so this client."""
        client = self._server.client("AsyncOpenAI", "DefaultAsyncHttpxClient")
        try:
            yield client
        finally:
            await client.close()

    async def _ask(self, client: Any, messages: list[Message], tools: list[Message]) -> Message:
        """Return the decoded body of the server's answer."""
        offered = {"tools": tools} if tools else {}
        try:
            answer = await client.chat.completions.with_raw_response.create(
                model=self.model, messages=messages, **offered
            )
            status, text = int(answer.status_code), str(answer.text)
        except Exception as error:
            failure = self._server.explained(error)
        else:
            return self._server.decoded(status, text)
        raise failure  # out here the cause, which may print the key, is no longer attached


_NEXT_STEP = {
    400: "Check that OPENAI_MODEL names a chat model that takes tools.",
    404: "Check OPENAI_MODEL and OPENAI_BASE_URL.",
}


@dataclass(slots=True)
class _Line:
    """An open client, the event loop it belongs to, and how many calls are using it."""

    loop: asyncio.AbstractEventLoop
    opened: AsyncGenerator[Any, None]
    client: Any
    calls: int = 0
    spoiled: bool = False


def _given(value: str | None, variable: str) -> str:
    if value is None or not value.strip():
        raise ModelError(
            f"{variable} is {'not set' if value is None else 'blank'}. "
            f"Set it to use a live model; {_OFFLINE}"
        )
    return value.strip()


def _unusable(found: str, status: int | None = 200) -> ModelError:
    return ModelError(
        f"The model's server answered with {found}. "
        "Check that OPENAI_BASE_URL is an OpenAI-compatible chat API, or ask again.",
        status,
    )


def _reply(body: Message) -> Message:
    """Return the assistant message of a chat completion, with nothing beside what we know."""
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise _unusable("no choices")
    if choice.get("finish_reason") == "content_filter":
        raise _unusable("a reply that its content filter stopped")
    message = choice.get("message")
    if not isinstance(message, dict):
        raise _unusable("a choice without a message")
    content, calls = message.get("content"), message.get("tool_calls") or []
    if not (content is None or isinstance(content, str)) or not isinstance(calls, list):
        raise _unusable("a message of another form")
    if not calls and not (content and content.strip()):
        refused = " (the model refused)" if message.get("refusal") else ""
        raise _unusable(f"neither text nor a call{refused}")
    reply: Message = {"role": "assistant", "content": content}
    if calls:
        reply["tool_calls"] = [_call(each) for each in calls]
    return reply


def _call(given: Any) -> Message:
    function = given.get("function") if isinstance(given, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise _unusable("a call that names no function")
    arguments = function.get("arguments")
    if not isinstance(arguments, str):  # some servers decode it
        arguments = "" if arguments is None else canonical(arguments)
    return {
        "id": str(given.get("id") or ""),
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }
