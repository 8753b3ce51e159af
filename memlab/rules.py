"""What `RuleModel` does with a request: plain rules, functions from data to data.

Read what stands in the request, decide on calls, else say what happened. Nothing is known here but
the request itself, and nothing is said of a change but what a tool result says.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from memlab import grammar
from memlab.text import canonical, cut

Message = dict[str, Any]

Call = tuple[str, dict[str, Any]]
_MOST_CALLS = 16
_MOST_QUOTED = 5
_FILE_CHARS = 4000


def decide(messages: list[Message], tools: list[Message]) -> list[Call] | str:
    """Return the calls to make now, as names and arguments, or else the answer in words."""
    seen = _read(messages, tools)
    return _next_calls(seen) or _words(seen)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What stands in a request.

    Attributes:
        history: Earlier turns, oldest first, each with its `task` and `answer`.
        exchanges: Per reply with calls, oldest first: each call's name, arguments and result.
        whole: Whether every exchange of this turn is still in the request.
    """

    task: str
    memories: list[Message]
    history: list[Message]
    approved: list[Message]
    decisions: list[Message]
    exchanges: list[list[tuple[str, Message, Message]]]
    tools: frozenset[str]
    whole: bool

    @property
    def chinese(self) -> bool:
        return len(re.findall("[\u4e00-\u9fff]", self.task)) > len(
            re.findall("[a-z]+", self.task, re.I)
        )

    def text(self, phrase: str, **parts: object) -> str:
        return _PHRASES[phrase][self.chinese].format(**parts)


# Reading the request.


def _read(messages: list[Message], tools: list[Message]) -> _Seen:
    talk = [each for each in messages if each.get("role") in ("user", "assistant", "tool")]
    last = max((at for at, each in enumerate(talk) if each["role"] == "user"), default=-1)
    content = talk[last].get("content") if last >= 0 else ""
    sent = _object(content)
    if not isinstance(sent.get("task"), str):
        sent = {"task": content if isinstance(content, str) else ""}
    omitted = sent.get("omitted")
    return _Seen(
        task=sent["task"],
        memories=_objects(sent, "memories", "kind", "key", "value"),
        history=_plain_turns(talk[: max(last, 0)]) + _objects(sent, "history", "task", "answer"),
        approved=_objects(sent, "approved", "action", "kind", "key"),
        decisions=_objects(sent, "decisions", "action", "kind", "key", "state"),
        exchanges=_exchanges(talk[last + 1 :]),
        tools=frozenset(str((each.get("function") or each).get("name")) for each in tools),
        whole=not (isinstance(omitted, dict) and omitted.get("exchanges")),
    )


def _object(content: object) -> Message:
    try:
        value = json.loads(content) if isinstance(content, str) else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _objects(sent: Message, name: str, *texts: str) -> list[Message]:
    """Return the objects in the list `name` whose fields `texts` are all there, as text."""
    found = sent.get(name)
    return [
        each
        for each in (found if isinstance(found, list) else ())
        if isinstance(each, dict) and all(isinstance(each.get(text), str) for text in texts)
    ]


def _plain_turns(talk: list[Message]) -> list[Message]:
    """Return a chat of plain messages as turns."""
    turns: list[Message] = []
    for each in talk:
        words = each["content"] if isinstance(each.get("content"), str) else ""
        if each["role"] == "user":
            task = _object(words).get("task")
            turns.append({"task": task if isinstance(task, str) else words, "answer": ""})
        elif each["role"] == "assistant" and words and turns:
            turns[-1]["answer"] = words
    return turns


def _exchanges(talk: list[Message]) -> list[list[tuple[str, Message, Message]]]:
    results = {
        each.get("tool_call_id"): each.get("content") for each in talk if "tool_call_id" in each
    }
    return [
        [
            (
                str((each.get("function") or {}).get("name")),
                _object((each.get("function") or {}).get("arguments")),
                _object(results.get(each.get("id"))),
            )
            for each in message["tool_calls"]
        ]
        for message in talk
        if message["role"] == "assistant" and message.get("tool_calls")
    ]


# Deciding what to do.


def _next_calls(seen: _Seen) -> list[Call]:
    """Return the calls to make now; none: it is time to answer."""
    tried = [canonical([name, arguments]) for each in seen.exchanges for name, arguments, _ in each]
    approved = [_change(each) for each in seen.approved] if seen.whole else []
    approved = [each for each in approved if canonical(list(each)) not in tried]
    if seen.exchanges:
        calls = approved or _forget_what_came_back(seen)
    else:
        asked = approved or _forgets(seen) + [
            _put(*wish, seen) for wish in grammar.wishes(seen.task)
        ]
        write = _write(seen, asked)
        calls = asked[: _MOST_CALLS - len(write)] + write
    return [each for each in calls if each[0] in seen.tools][:_MOST_CALLS]


def _change(approved: Message) -> Call:
    fields = ("kind", "key", "value") if approved["action"] == "put" else ("kind", "key")
    return f"memory_{approved['action']}", {each: approved.get(each) for each in fields}


def _put(kind: str, value: str, seen: _Seen) -> Call:
    key = _known_key(kind, value, seen.memories) or grammar.new_key(value)
    return "memory_put", {"kind": kind, "key": key, "value": value}


def _delete(record: Message) -> Call:
    return "memory_delete", {"kind": record["kind"], "key": record["key"]}


def _forgets(seen: _Seen) -> list[Call]:
    """Delete what is in the request; look for what is not."""
    calls: list[Call] = []
    for what in grammar.to_forget(seen.task):
        best = _meant(what, seen.memories)
        if best:
            calls.append(_delete(best))
        elif grammar.wanted(what):
            calls.append(("memory_recall", {"query": cut(what, 128, ""), "limit": 5}))
    return [each for at, each in enumerate(calls) if each not in calls[:at]]


def _forget_what_came_back(seen: _Seen) -> list[Call]:
    return [
        _delete(best)
        for name, arguments, result in seen.exchanges[-1]
        if name == "memory_recall" and arguments.get("query") and grammar.to_forget(seen.task)
        if (best := _meant(str(arguments["query"]), _records(result)))
    ]


def _records(result: Message) -> list[Message]:
    found = result if "records" in result else {"records": [result.get("record")]}
    return _objects(found, "records", "kind", "key", "value")


def _write(seen: _Seen, changes: list[Call]) -> list[Call]:
    """Write a little program that shows the preferences, those about to be saved included."""
    asked = [each for each in grammar.sentences(seen.task) if grammar.asks_to_write(each)]
    if not asked:
        return []
    shown = {
        (each["kind"], each["key"]): each["value"]
        for each in seen.memories
        if each["kind"] == "preference"
    }
    for name, arguments in changes:
        if name == "memory_put":
            shown[arguments["kind"], arguments["key"]] = arguments["value"]
        elif name == "memory_delete":
            shown.pop((arguments["kind"], arguments["key"]), None)
    path = grammar.file_named(asked[0]) or "app.py"
    lines = [f"{key}: {value}" for (_, key), value in shown.items()]
    return [("write_demo_file", {"path": path, "content": _file(path, lines)})]


def _file(path: str, lines: list[str]) -> str:
    """Return a program or a text that shows `lines`. In a program they are only ever data."""
    while True:
        if path.lower().endswith(".txt"):
            content = "\n".join(lines) + "\n"
        else:
            content = _PROGRAM.format("".join(f"    {line!r},\n" for line in lines))
        if len(content) <= _FILE_CHARS or not lines:
            return content
        lines = lines[:-1]


_PROGRAM = '''"""Show what is remembered."""

import sys

REMEMBERED = [
{}]

if hasattr(sys.stdout, "reconfigure"):  # a terminal that lacks a character shows its number
    sys.stdout.reconfigure(errors="backslashreplace")
for line in REMEMBERED:
    print(line)
if not REMEMBERED:
    print("Nothing is remembered yet.")
'''


def _known_key(kind: str, value: str, memories: list[Message]) -> str | None:
    """Return the key of the memory that `value` is a new version of."""
    alike = [each for each in memories if each["kind"] == kind]
    about, said = grammar.about(kind, value), set(grammar.wanted(value)) - {grammar.LIKING}
    for each in alike:
        if about and about in (
            grammar.about(kind, each["value"]),
            frozenset(grammar.wanted(each["key"])),
        ):
            return str(each["key"])
        if said and said == set(grammar.wanted(each["value"])) - {grammar.LIKING}:
            return str(each["key"])
    best = _meant(value, alike) if grammar.replaces(value) else None
    return str(best["key"]) if best else None


# Matching by shared words.


def _ranked(wanted: list[str], records: list[Message]) -> list[tuple[float, Message]]:
    """Return the records that hold `wanted` words, best first; a rare word weighs more."""
    held = [set(grammar.words(f"{each['key']} {each['value']}")) for each in records]
    weight = {
        word: (0.2 if word == grammar.LIKING else 1.0)
        / max(sum(word in words for words in held), 1)
        for word in wanted
    }
    scores = [sum(weight[word] for word in wanted if word in words) for words in held]
    order = sorted(range(len(records)), key=lambda at: (-scores[at], at))
    return [(scores[at], records[at]) for at in order if scores[at] > 0]


def _matching(text: str, records: list[Message]) -> list[Message]:
    """Return the records that answer `text`, best first."""
    ranked = _ranked(grammar.wanted(text), records)
    return [each for score, each in ranked if score >= 0.5 * ranked[0][0]][:_MOST_QUOTED]


def _meant(text: str, records: list[Message]) -> Message | None:
    """Return the one record that `text` means: it must share a third of its content words."""
    wanted = [word for word in grammar.wanted(text) if word != grammar.LIKING]
    for _, each in _ranked(wanted, records):
        held = grammar.words(f"{each['key']} {each['value']}")
        if 3 * sum(word in held for word in wanted) >= len(wanted):
            return each
    return None


# Saying what happened.

_PHRASES = {
    "created": ("Saved {name}: “{value}”.", "已保存 {name}：“{value}”。"),
    "replaced": ("Changed {name} to “{value}”.", "已把 {name} 改为“{value}”。"),
    "deleted": ("Deleted {name}.", "已删除 {name}。"),
    "unchanged": ("Nothing changed for {name}.", "{name} 没有变化。"),
    "wrote": ("Wrote {path}.", "已写入 {path}。"),
    "done": ("{tool} is done.", "{tool} 已完成。"),
    "unread": ("What {tool} answered cannot be read.", "{tool} 的结果无法读取。"),
    "pending": (
        "Not done yet: the change of {name} waits for your approval.",
        "尚未执行：对 {name} 的更改等待你的批准。",
    ),
    "refused": (
        "Not done: you rejected the change of {name}.",
        "未执行：你已拒绝对 {name} 的更改。",
    ),
    "failed": ("Not done: {tool} answered: {error}", "未执行：{tool} 返回：{error}"),
    "used": ("You approved {name}: it is saved.", "你批准了 {name}：已保存。"),
    "used_delete": (
        "You approved the deletion of {name}: it is deleted.",
        "你批准了删除 {name}：已删除。",
    ),
    "rejected": ("You rejected {name}: nothing was changed.", "你拒绝了 {name}：没有更改。"),
    "expired": ("Nobody decided on {name} in time: it expired.", "{name} 没有及时决定，已过期。"),
    "decided": ("The change of {name} is {state}.", "对 {name} 的更改状态：{state}。"),
    "remembered": ("From what I remember: {quotes}.", "根据我记得的：{quotes}。"),
    "quote": ("“{value}” ({name}, session {session})", "“{value}”（{name}，会话 {session}）"),
    "preferences": ("Following your preferences: {quotes}.", "按照你的偏好：{quotes}。"),
    "turn": (
        "Earlier in this conversation you said: “{task}”.",
        "你之前在这次对话中说过：“{task}”。",
    ),
    "nothing": ("I remember nothing about that.", "关于这一点，我什么都不记得。"),
    "not_found": (
        "Nothing that matches is remembered, so there is nothing to forget.",
        "没有记住相符的内容，所以没有可以忘记的。",
    ),
    "which": (
        "Say what I should forget, one thing at a time.",
        "请说明要我忘记哪一条，一次一条。",
    ),
    "found_none": ("I found nothing about that.", "没有找到相关内容。"),
    "passing": (
        "I will go by that for now, and save nothing.",
        "这次我会照做，但不保存任何内容。",
    ),
    "no_tool": (
        "I have no tool for that here, so nothing was done.",
        "这里没有相应的工具，所以什么也没做。",
    ),
}


def _words(seen: _Seen) -> str:
    """Return the answer in words."""
    lines = [_decision(seen, each) for each in seen.decisions]
    newest = seen.exchanges[-1] if seen.exchanges else []
    for name, arguments, result in newest:
        line = _outcome(seen, name, arguments, result)
        if line not in lines:
            lines.append(line)
    sentences = grammar.sentences(seen.task)
    if any(grammar.is_passing(each) for each in sentences):
        lines.append(seen.text("passing"))
    asked = [each for each in sentences if grammar.is_question(each)]
    orders = bool(
        grammar.wishes(seen.task)
        or grammar.to_forget(seen.task)
        or any(map(grammar.asks_to_write, sentences))
    )
    if not newest and orders:
        lines.append(_why_nothing(seen))
    if asked or not (newest or orders or any(grammar.is_passing(each) for each in sentences)):
        lines += _answers(seen, " ".join(asked) or seen.task)
    return "\n".join(lines)


def _decision(seen: _Seen, each: Message) -> str:
    state, name = each["state"], f"{each['kind']}/{each['key']}"
    phrase = state if state in ("used", "rejected", "pending", "expired") else "decided"
    if state == "used" and each["action"] == "delete":
        phrase = "used_delete"
    note = each.get("note")
    line = seen.text(phrase, name=name, state=state)
    return f"{line} ({note})" if isinstance(note, str) and note else line


def _outcome(seen: _Seen, tool: str, arguments: Message, result: Message) -> str:
    """Return what one tool result says, and no more."""
    record = result.get("record")
    record = record if isinstance(record, dict) else {}
    name = "/".join(str(record.get(each, arguments.get(each, "?"))) for each in ("kind", "key"))
    if result.get("ok") is not True:
        if not result:
            return seen.text("unread", tool=tool)
        phrase = {"pending": "pending", "rejected": "refused"}.get(
            str(result.get("state")), "failed"
        )
        return seen.text(phrase, name=name, tool=tool, error=result.get("error"))
    effect = result.get("effect")
    if effect in ("created", "replaced", "deleted", "unchanged"):
        return seen.text(effect, name=name, value=record.get("value", ""))
    if isinstance(result.get("path"), str):
        return seen.text("wrote", path=result["path"])
    if "record" in result or "records" in result:
        found = _records(result)
        if grammar.to_forget(seen.task) and not _meant(str(arguments.get("query")), found):
            return seen.text("not_found")
        if found:
            return seen.text("remembered", quotes=_quotes(seen, found))
        return seen.text("found_none")
    return seen.text("done", tool=tool)


def _why_nothing(seen: _Seen) -> str:
    """Say why an order led to no call."""
    forget = grammar.to_forget(seen.task)
    if forget and not any(map(grammar.wanted, forget)):
        return seen.text("which")
    if forget and not any(_meant(each, seen.memories) for each in forget):
        return seen.text("not_found")
    return seen.text("no_tool")


def _answers(seen: _Seen, question: str) -> list[str]:
    """Answer from memory, else from the conversation, else say that there is nothing."""
    lines = []
    turn = _turn_meant(seen, question)
    found = [] if turn and _TALK.search(question) else _matching(question, seen.memories)
    if not found and not turn and not grammar.wanted(question) and _SELF.search(question):
        found = seen.memories[:_MOST_QUOTED]  # 'What do you know about me?'
    if found:
        lines.append(seen.text("remembered", quotes=_quotes(seen, found)))
    elif turn:
        lines.append(seen.text("turn", task=turn["task"]))
    else:
        lines.append(seen.text("nothing"))
    wishes = [each for each in seen.memories if each["kind"] == "preference" and each not in found]
    if wishes:
        lines.append(seen.text("preferences", quotes=_quotes(seen, wishes)))
    return lines


_SELF = re.compile(r"\b(?:i|me|my|remember|memor\w+)\b|我|记", re.I)
_TALK = re.compile(
    r"\b(?:i|we|you)\b (?:just |ever |already )?(?:say|said|ask|asked|tell you|told you|told"
    r"|mention(?:ed)?"
    r"|talk(?:ed)? about|discuss(?:ed)?)\b|刚才|刚刚|上一?[句个次]|说[了过]|提[到过]|聊[了到过]",
    re.I,
)


def _turn_meant(seen: _Seen, question: str) -> Message | None:
    """Return the earlier turn the question is about; a question is no answer to a question."""
    plain = _TALK.sub(" ", question)
    turns = [{"key": "", "value": each["task"], **each} for each in reversed(seen.history)]
    told = [each for each in turns if not grammar.is_question(each["task"])]
    found = _ranked(grammar.wanted(plain), told)
    if found:
        return found[0][1]
    return turns[0] if turns and _TALK.search(question) and not grammar.wanted(plain) else None


def _quotes(seen: _Seen, records: list[Message]) -> str:
    mark = "；" if seen.chinese else "; "
    return mark.join(
        seen.text(
            "quote",
            value=each["value"],
            name=f"{each['kind']}/{each['key']}",
            session=each.get("session", "?"),
        )
        for each in records
    )
