"""An answer, step by step: what was sent, what the model said, and what the store really did."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as w

from memlab import views
from memlab.agent import COMPLETE, Answer, Sent, Step
from memlab.errors import InvalidInput
from memlab.panels.parts import STYLE as SHARED_STYLE
from memlab.panels.parts import Panel, alert, labelled, safe
from memlab.records import Hit, check_count
from memlab.text import canonical, cut, visible
from memlab.views import Done

# The colours and hatches of the parts are those of `views.plot_requests`, in both themes: lightness
# alternates and no two hatches are alike, so they can be told apart in grey.
STYLE = """<style>
.memlab-trace .lm-TabBar-content { flex-wrap: wrap; }
.memlab-trace .lm-TabBar-tab { flex: 0 0 auto !important; min-width: 0 !important; }
.memlab-trace .lm-TabBar-tab:focus-visible, .memlab-trace summary:focus-visible {
  outline: 3px solid var(--jp-brand-color1, #1976d2); outline-offset: -3px; }
.memlab-trace .lm-TabBar-tab.lm-mod-current { font-weight: 700; }
.memlab-trace .widget-tab-contents { padding: 0 12px 8px !important; overflow: visible; }
.memlab-trace-nav { flex-flow: row wrap; align-items: center; overflow: visible; }
.memlab-trace-nav .widget-button { width: auto; min-width: 56px; padding: 0 6px; }
.memlab-trace-nav .widget-html { flex: 1 1 200px; min-width: 0; }
.memlab-trace-count { font-weight: 600; overflow-wrap: anywhere; padding-left: 6px; }
.memlab-trace-title { font-size: 14px; font-weight: 600; margin: 12px 0 2px;
  overflow-wrap: anywhere; }
.memlab-trace-bar { display: flex; height: 24px; margin: 4px 0; box-sizing: border-box;
  border: 1px solid var(--jp-ui-font-color2, #616161);
  border-right: 5px solid var(--jp-ui-font-color1, #212121); }
.memlab-trace-bar > span { flex: 0 0 auto; box-sizing: border-box; height: 100%;
  border-right: 1px solid #333333; }
.memlab-trace-legend { display: flex; flex-flow: row wrap; gap: 2px 16px; margin: 4px 0 2px;
  padding: 0; list-style: none; }
.memlab-trace-legend > li { margin: 0; padding: 0; }
.memlab-trace-legend i { display: inline-block; width: 18px; height: 12px; margin-right: 5px;
  vertical-align: -1px; border: 1px solid #333333; }
.memlab-part-system { background: #c9d5e3; }
.memlab-part-tools { background:
  repeating-linear-gradient(135deg, #333333 0 1px, #8fa8c4 1px 6px); }
.memlab-part-task { background: #b45f06; }
.memlab-part-memories { background:
  repeating-linear-gradient(45deg, #333333 0 1px, transparent 1px 6px),
  repeating-linear-gradient(135deg, #333333 0 1px, #5f9e6e 1px 6px); }
.memlab-part-history { background:
  radial-gradient(#333333 1px, transparent 1.5px) 0 0 / 6px 6px, #d9e8c5; }
.memlab-part-decisions { background:
  repeating-linear-gradient(0deg, #333333 0 1px, transparent 1px 6px),
  repeating-linear-gradient(90deg, #333333 0 1px, #b08bbb 1px 6px); }
.memlab-part-exchanges { background:
  repeating-linear-gradient(45deg, #333333 0 1px, #f0dcd0 1px 6px); }
.memlab-part-other { background: #ffffff; }
.memlab-trace summary { cursor: pointer; padding: 3px 0; overflow-wrap: anywhere; }
.memlab-trace details > div { margin-bottom: 6px; }
.memlab-trace-list { margin: 2px 0; padding: 0; list-style: none; }
.memlab-trace-list > li { margin: 0 0 6px; padding: 0; }
.memlab-trace-store { font-size: 13px; padding: 4px 8px; overflow-wrap: anywhere;
  border-left: 4px double var(--jp-ui-font-color2, #616161); }
.memlab-trace-store.memlab-trace-wrote {
  border-left: 4px solid var(--jp-success-color1, #388e3c); }
.memlab-trace-frame { container-type: inline-size; }
.memlab-trace-table { border-collapse: collapse; width: 100%; font-size: 12px; }
.memlab-trace-table th, .memlab-trace-table td { text-align: left !important;
  vertical-align: top !important; padding: 3px 8px !important; white-space: normal !important;
  max-width: none !important; min-width: 44px; overflow-wrap: anywhere; unicode-bidi: isolate;
  border: 1px solid var(--jp-border-color2, #bdbdbd); }
.memlab-trace-table td.memlab-trace-number, .memlab-trace-table th.memlab-trace-number {
  text-align: right !important; overflow-wrap: normal; }
.memlab-trace-table td:nth-child(2), .memlab-trace-table td:nth-child(5) { min-width: 150px; }
@container (max-width: 600px) {
  .memlab-trace-table, .memlab-trace-table tbody, .memlab-trace-table tr,
  .memlab-trace-table td { display: block; }
  .memlab-trace-table td, .memlab-trace-table td.memlab-trace-number {
    text-align: left !important; border: 0; }
  .memlab-trace-table td:empty { display: none; }
  .memlab-trace-table td::before { content: attr(data-label) ": "; font-weight: 600; }
  .memlab-trace-table tr { border: 1px solid var(--jp-border-color2, #bdbdbd); margin-bottom: 4px; }
  .memlab-trace-table thead { position: absolute; width: 1px; height: 1px; overflow: hidden;
    clip-path: inset(50%); }
}
</style>"""

_PARTS = ("system", "tools", "task", "memories", "history", "decisions", "exchanges")
_FOLDED = 400  # characters; a longer text is folded
_ENDS = {
    COMPLETE: "the model answered and called nothing more",
    "model_call_limit": "stopped by the limit on model calls; the answer is not finished",
    "tool_call_limit": "stopped by the limit on tool calls; the answer is not finished",
    "time_limit": "stopped by the limit on model time; the answer is not finished",
    "error": "broken off by an error",
    "cancelled": "broken off: it was cancelled",
}


class TracePanel(Panel):
    """Steps through an answer: First, Back, Forward, Last, or a tab for each step.

    The arrow keys go from tab to tab, and Enter opens one. The same by code: `show`; the same as a
    table stands below the steps, and is what `views.trace` returns.
    """

    def __init__(self, answer: Answer):
        if not isinstance(answer, Answer):
            raise InvalidInput(
                "answer", f"must be what an agent's ask returned, not {type(answer).__name__}."
            )
        super().__init__()
        for name in ("memlab-panel", "memlab-trace"):
            self.add_class(name)
        self._answer = answer
        self._at = 1
        self._drawn: set[int] = set()
        self._done = views.outcomes(answer)
        self._head, self._count, self._foot = w.HTML(), w.HTML(), w.HTML()
        self._message = w.HTML()
        self._pages = [w.HTML() for _ in answer.steps]
        self._tabs = w.Tab(
            self._pages, titles=[f"Step {n}" for n in range(1, len(self._pages) + 1)]
        )
        self._tabs.observe(lambda _: self._guarded(self._on_tab), names="selected_index")
        last = len(self._pages)
        choices = [
            self._button("First", "to the first step", lambda: 1),
            self._button("Back", "one step back", lambda: self._at - 1),
            self._button("Forward", "one step forward", lambda: self._at + 1),
            self._button("Last", "to the last step", lambda: last),
        ]
        navigation = w.HBox([*choices, self._count])
        navigation.add_class("memlab-trace-nav")
        self._head.value = f"{SHARED_STYLE}{STYLE}{_head(answer)}"
        self._foot.value = _foot(answer)
        steps = (navigation, self._tabs) if self._pages else ()
        self.children = (self._head, *steps, self._message, self._foot)
        if self._pages:
            self.show(1)

    def __repr__(self) -> str:
        answer = self._answer
        if not answer.steps:
            return f"TracePanel(no step: {_line(answer.status)}; {_line(views.stored(answer))})"
        step, done = answer.steps[self._at - 1], self._done[self._at - 1]
        size = f"request {step.request.chars:,} of {step.request.limit:,} characters"
        return (
            f"TracePanel(step {self._at} of {len(answer.steps)}: {size}; {_line(_did(step))}; "
            f"the store: {_line(_store(step, done))}; "
            f"answer {_line(answer.status)}: {_line(views.stored(answer))})"
        )

    def show(self, n: int) -> None:
        """Show step `n`, from 1."""
        if not self._pages:
            raise InvalidInput("n", "this answer has no step. There is nothing to show.")
        check_count(n, "n", least=1, most=len(self._pages))
        self._draw(n)

    def _draw(self, n: int, note: str = "") -> None:
        if n not in self._drawn:
            self._pages[n - 1].value = _page(self._answer, n, self._done[n - 1])
            self._drawn.add(n)
        self._at = n
        self._count.value = (
            f'<div class="memlab-trace-count" role="status">step {n} of {len(self._pages)}{note}'
            "</div>"
        )
        self._message.value = ""
        self._tabs.selected_index = n - 1

    def _on_tab(self) -> None:
        at = self._tabs.selected_index
        if at is not None and at + 1 != self._at:
            self.show(at + 1)

    def _button(self, name: str, tooltip: str, target: Callable[[], int]) -> Any:
        """A button never goes away and is never disabled, so that the keyboard keeps its place."""
        button = w.Button(description=name, tooltip=tooltip)
        button.on_click(lambda _: self._guarded(lambda: self._go(target())))
        return button

    def _go(self, n: int) -> None:
        if 1 <= n <= len(self._pages):
            self.show(n)
        else:
            self._draw(self._at, ": this is the first" if n < 1 else ": this is the last")

    def _failed(self, error: Exception) -> None:
        self._message.value = alert(f"{type(error).__name__}: {error}")


# What stands around the steps -------------------------------------------------------------------


def _head(answer: Answer) -> str:
    count, asked = len(answer.steps), _asked(answer)
    ended = f" ({_ENDS[answer.status]})" if answer.status in _ENDS else ""
    words = f"Ended: {answer.status}{ended}."
    lines = ['<div class="memlab-head" role="heading" aria-level="3">An answer, step by step</div>']
    if asked:
        lines.append(
            f'<div class="memlab-small">Asked: <bdi>{safe(cut(asked, _FOLDED))}</bdi></div>'
        )
    noun = "step, which is one call" if count == 1 else "steps, each one call"
    lines.append(
        f'<div class="memlab-small">{count} {noun} of the model. All is shown as it was then.</div>'
        if count
        else "<div>No request was sent, so there is no step to show.</div>"
    )
    lines.append(f"<div>{safe(words)}</div>" if answer.status == COMPLETE else _warning(words))
    return "".join(lines)


def _foot(answer: Answer) -> str:
    count = len(answer.recalled)
    noun = "memory" if count == 1 else "memories"
    found = "".join(f"<li>{_hit(hit)}</li>" for hit in answer.recalled)
    lines = [
        _title("The whole answer"),
        _pair(answer.text, views.stored(answer), bool(answer.writes)),
        *(_warning(f"Also: {problem}") for problem in answer.problems),
    ]
    if count:
        lines.append(_fold(f"{count} {noun} recalled for it", _list(found)))
    else:
        lines.append('<div class="memlab-small">No memory was recalled for it.</div>')
    lines.append(_fold("The same as a table", _table(views.events(answer))))
    return "".join(lines)


def _asked(answer: Answer) -> str:
    """Return the question as it stands in the first request; nothing where none stands there."""
    try:
        task = json.loads(answer.steps[0].request.messages[1]["content"])["task"]
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        return ""
    return task if isinstance(task, str) else ""


def _hit(hit: Hit) -> str:
    ranks = [f"number {found['rank']:g} by {name}" for name, found in hit.why.items()]
    why = f"Why: {', '.join(ranks) or 'a preference: some go into every request'}."
    return f'{_long(f"{hit.kind}/{hit.key}", hit.value)}<div class="memlab-small">{safe(why)}</div>'


def _table(rows: list[dict[str, Any]]) -> str:
    """Draw a table. Its roles are written out: in a narrow panel each cell gets its own line."""
    numbers = ("step", "size (characters)", "limit (characters)")
    looks = {name: ' class="memlab-trace-number"' if name in numbers else "" for name in rows[0]}
    head = "".join(
        f'<th scope="col" role="columnheader"{look}>{safe(name)}</th>'
        for name, look in looks.items()
    )
    lines = "".join(
        '<tr role="row">'
        + "".join(
            f'<td role="cell" data-label="{safe(name)}"{look}>{_cell(row[name])}</td>'
            for name, look in looks.items()
        )
        + "</tr>"
        for row in rows
    )
    return (
        '<div class="memlab-trace-frame"><table class="memlab-trace-table" role="table">'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{lines}</tbody></table></div>'
    )


def _cell(told: object) -> str:
    return safe("" if told is None else f"{told:,}" if isinstance(told, int) else str(told))


# One step ---------------------------------------------------------------------------------------


def _page(answer: Answer, n: int, done: list[Done]) -> str:
    step = answer.steps[n - 1]
    before = answer.steps[n - 2].request.messages if n > 1 else ()
    ended = f" The answer ended: {answer.status}." if n == len(answer.steps) else ""
    did = f"It {_did(step)}."
    return "".join(
        [
            _title("1. What was sent"),
            _request(step.request),
            _messages(step.request, before),
            _title("2. What the model did"),
            f"<div>{safe(did)}</div>" if step.reply else _warning(f"No reply came.{ended}"),
            _calls(step, done),
            _title("3. What it said, and what the store did"),
            _pair(views.said(step), _store(step, done), any(each.wrote for each in done)),
        ]
    )


def _request(sent: Sent) -> str:
    """Draw a request against its limit, in proportion, and say the same in words beside it."""
    most = max(sent.limit, sent.chars, 1)
    parts = [(name, chars) for name, chars in sent.by_part.items() if chars]
    parts.sort(key=lambda part: _PARTS.index(part[0]) if part[0] in _PARTS else len(_PARTS))
    blocks = "".join(
        f'<span class="{_look(name)}" style="width: {100 * chars / most:.2f}%"></span>'
        for name, chars in parts
    )
    legend = "".join(
        f'<li><i class="{_look(name)}"></i>{safe(name)} {chars:,}</li>' for name, chars in parts
    )
    share = f" ({100 * sent.chars / sent.limit:.0f} %)" if sent.limit else ""
    total = f"{sent.chars:,} of at most {sent.limit:,} characters{share}"
    named = ", ".join(f"{name} {chars:,}" for name, chars in parts)
    gone = views.left_out(sent)
    return (
        f"<div>{total}. The thick line on the right is the limit.</div>"
        f'<div class="memlab-trace-bar" role="img" aria-label="{safe(f"{total}: {named}")}">'
        f'{blocks}</div><ul class="memlab-trace-legend memlab-small">{legend}</ul>'
        + (
            "<div>Nothing was left out.</div>"
            if gone == "nothing"
            else _warning(f"Left out for lack of room: {gone}.")
        )
    )


def _look(part: str) -> str:
    return f"memlab-part-{part if part in _PARTS else 'other'}"


def _messages(sent: Sent, before: tuple[Mapping[str, Any], ...]) -> str:
    items = "".join(
        f"<li>{_message(message, known=at < len(before) and before[at] == message)}</li>"
        for at, message in enumerate(sent.messages)
    )
    count = len(sent.messages)
    noun = "message, as it was" if count == 1 else "messages, as they were"
    return _fold(f"{count} {noun} sent", _list(items)) if count else ""


def _message(message: Mapping[str, Any], known: bool) -> str:
    """Show one message: its role, its text, and what else it holds as data."""
    content = message.get("content")
    rest = {name: told for name, told in message.items() if name not in ("role", "content")}
    texts = [content if isinstance(content, str) else "" if content is None else _data(content)]
    texts.append(_data(rest) if rest else "")
    again = ", the same as in the step before" if known else ""
    label = f"{message.get('role', 'no role')}{again}"
    return _long(label, "\n".join(text for text in texts if text), folded=known)


def _calls(step: Step, done: list[Done]) -> str:
    items = []
    for n, (call, each) in enumerate(zip(step.calls, done, strict=True)):
        result = _data(step.results[n]) if n < len(step.results) else ""
        items.append(
            f'<li><div class="memlab-what">{n + 1}. {safe(cut(call.name, 100))}</div>'
            f"{_long('arguments, as the model wrote them', call.arguments)}"
            f"{_long('result, as the model was told', result) if result else ''}"
            f'<div class="{_store_look(each.wrote)}">The store: {safe(each.words)}</div></li>'
        )
    return _list("".join(items)) if items else ""


def _did(step: Step) -> str:
    """Say what the model did, without its words."""
    if step.reply is None:
        return "gave no reply"
    names = ", ".join(cut(call.name, 64) for call in step.calls)
    return f"called {names}" if names else "called nothing"


def _store(step: Step, done: list[Done]) -> str:
    """Say what the store did in one step; what a reading call found stands beside the call."""
    wrote = [each.words for each in done if each.wrote]
    asked = sum(call.name in views.CHANGING for call in step.calls)
    if wrote and (others := asked - len(wrote)) > 0:
        wrote.append(f"{others} other {'change was' if others == 1 else 'changes were'} not made")
    return "; ".join(wrote) or "nothing was written"


# Pieces -----------------------------------------------------------------------------------------


def _title(text: str) -> str:
    return f'<div class="memlab-trace-title" role="heading" aria-level="4">{text}</div>'


def _warning(text: str) -> str:
    """Something to see that is no news: unlike `alert`, it is not read out when it appears."""
    return f'<div class="memlab-alert">{safe(text)}</div>'


def _pair(words: str, store: str, wrote: bool) -> str:
    """Put what the model said beside what the store did: only the second is what happened."""
    said = _long("The model said", words) if words else _small("The model said no words.")
    return (
        f'<div class="memlab-pair"><div>{said}</div><div>{_small("The store did")}'
        f'<div class="{_store_look(wrote)}">{safe(store)}</div></div></div>'
    )


def _store_look(wrote: bool) -> str:
    return f"memlab-trace-store{' memlab-trace-wrote' if wrote else ''}"


def _small(text: str) -> str:
    return f'<div class="memlab-small">{safe(text)}</div>'


def _list(items: str) -> str:
    return f'<ul class="memlab-trace-list">{items}</ul>'


def _fold(summary: str, markup: str) -> str:
    return f"<details><summary>{safe(summary)}</summary><div>{markup}</div></details>"


def _long(label: str, text: str, folded: bool = False) -> str:
    """Show a text as data; a long one, or one that was seen before, is folded."""
    if len(text) <= _FOLDED and not folded:
        return labelled(safe(label), text, safe(text))
    value = f'<div class="memlab-value" dir="auto">{safe(text)}</div>'
    return _fold(f"{label} ({len(text):,} characters): {cut(_line(text), 60, ' …')}", value)


def _data(value: object) -> str:
    try:
        return canonical(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _line(text: str) -> str:
    """Return text as it may stand in one line, with nothing hidden."""
    return visible(" ".join(text.split()))
