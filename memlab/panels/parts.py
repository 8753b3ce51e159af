"""What the panels share: how they stand in a page, their look, how a hostile text is shown."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

import ipywidgets as w

from memlab.errors import InvalidInput
from memlab.store import UserMemory
from memlab.text import visible

# The colours are JupyterLab's own, so they follow its theme; each has a fallback for other pages.
STYLE = """<style>
.memlab-panel { max-width: 860px; overflow: visible; }
.memlab-card { border: 1px solid var(--jp-border-color1, #9e9e9e);
  border-left: 5px solid var(--jp-brand-color1, #1976d2); border-radius: 4px;
  padding: 8px 12px; margin: 6px 3px; overflow: visible;
  color: var(--jp-ui-font-color1, inherit); }
.memlab-panel .widget-button.mod-success, .memlab-panel .widget-button.mod-danger {
  color: #ffffff; } /* the theme's own colours leave white on them too pale to read */
.memlab-panel .widget-button.mod-success { background-color: #2e7d32; }
.memlab-panel .widget-button.mod-danger { background-color: #c62828; }
.memlab-panel button:focus-visible, .memlab-card textarea:focus-visible {
  outline: 3px solid var(--jp-brand-color1, #1976d2) !important; outline-offset: 1px; }
.memlab-card.memlab-approved { border-left: 5px solid var(--jp-success-color1, #388e3c); }
.memlab-card.memlab-refused { border-left: 5px dashed var(--jp-error-color1, #d32f2f); }
.memlab-card .widget-html-content, .memlab-panel .widget-html-content { line-height: 1.45;
  width: 100%; }
.memlab-head { font-size: 15px; font-weight: 600; }
.memlab-what { font-size: 14px; font-weight: 600; overflow-wrap: anywhere; }
.memlab-small { font-size: 12px; color: var(--jp-ui-font-color2, inherit);
  overflow-wrap: anywhere; }
.memlab-pair { display: grid; gap: 8px; margin: 6px 0;
  grid-template-columns: repeat(auto-fit, minmax(min(240px, 100%), 1fr)); }
.memlab-value { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate;
  padding: 4px 8px; border-radius: 3px; border: 1px solid var(--jp-border-color2, #bdbdbd);
  background: var(--jp-layout-color2, transparent);
  font-family: var(--jp-code-font-family, monospace); font-size: 13px; }
.memlab-value ins { text-decoration: underline; text-decoration-thickness: 2px; font-weight: 700;
  color: inherit; background: transparent; }
.memlab-value del { text-decoration: line-through; color: inherit; background: transparent; }
.memlab-hidden { border: 1px solid var(--jp-error-color1, #d32f2f); border-radius: 2px;
  padding: 0 2px; font-size: 11px; unicode-bidi: isolate; }
.memlab-alert { font-weight: 600; overflow-wrap: anywhere; padding-left: 8px;
  border-left: 3px double var(--jp-error-color1, #d32f2f); }
.memlab-done { font-weight: 600; min-height: 28px; overflow-wrap: anywhere;
  white-space: pre-line; }
.memlab-bar { flex-wrap: wrap; }
.memlab-card .widget-textarea, .memlab-card .jupyter-widget-textarea { width: 100%;
  flex-flow: column; height: auto; }
.memlab-card textarea { width: 100%; font-family: var(--jp-code-font-family, monospace); }
.memlab-line { border-top: 1px solid var(--jp-border-color2, #bdbdbd); padding: 4px 0;
  overflow: visible; }
.memlab-line .widget-checkbox, .memlab-line .jupyter-widget-checkbox { width: 100%; height: auto;
  font-weight: 600; }
.memlab-line .widget-label-basic { overflow-wrap: anywhere; white-space: normal; }
/* The kernel is gone: a button would do nothing, so there is none. */
.memlab-panel.jupyter-widgets-disconnected::before { font-weight: 600;
  content: "Not connected to a kernel: what stands here is old. Run the cell again."; }
.memlab-panel .jupyter-widgets-disconnected::before { display: none; }
.memlab-panel .jupyter-widgets-disconnected:is(button, .widget-checkbox, .widget-textarea,
  .jupyter-widget-checkbox, .jupyter-widget-textarea) { display: none; }
</style>"""

_WORDS = re.compile(r"[^\W\u2e80-\U0010ffff]+|\s+|.", re.DOTALL)  # words; Chinese by character
_PAIRS = 20_000  # of equal words; with more of them an exact comparison takes seconds
_COMPARED = 4_000_000  # pairs of words; with more of them no comparison is worth its time
_JUNK_FROM = 200  # words; only then does SequenceMatcher leave out the frequent ones


class Guarded:
    """Something with buttons: no error in a callback is lost, where nobody would ever see it."""

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Show the error where the user looks."""
        raise NotImplementedError


class Panel(w.VBox, Guarded):  # type: ignore[misc]
    """A panel in a page; where no widget can run, its `repr` stands for it."""

    def refresh(self) -> None:
        """Draw what is there now; a panel over what never changes has nothing to do."""

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        self._guarded(self.refresh)
        bundle = super()._repr_mimebundle_(**kwargs)
        bundle["text/plain"] = repr(self)  # the whole of it
        return bundle


def owner(alice: object) -> UserMemory:
    """Return the user's own hand, or refuse what is not."""
    if not isinstance(alice, UserMemory):
        raise InvalidInput(
            "alice", f"must be the user's own UserMemory, not {type(alice).__name__}."
        )
    return alice


def safe(text: str) -> str:
    """Return text as HTML that shows exactly it: markup escaped, hidden characters in boxes."""
    return "".join(
        html.escape(char)
        if (spelled := visible(char)) == char
        else f'<span class="memlab-hidden">{spelled}</span>'
        for char in text
    )


def alert(text: str) -> str:
    return f'<div class="memlab-alert" role="alert">{safe(text)}</div>'


def note(text: str) -> str:
    """Return a warning that stands in a card and is read with it, not called out."""
    return f'<div class="memlab-alert" role="note">{safe(text)}</div>'


def labelled(label: str, text: str | None, markup: str) -> str:
    count = len(text or "")
    noun = "character" if count == 1 else "characters"
    return (
        f'<div><div class="memlab-small">{label} ({count} {noun})</div>'
        f'<div class="memlab-value" dir="auto">{markup}</div></div>'
    )


def hidden_in(text: str) -> str:
    """Warn of characters that an edit field or a page would not show."""
    count = sum(visible(char) != char for char in text)
    if not count:
        return ""
    found = "1 hidden character" if count == 1 else f"{count} hidden characters"
    return alert(f"Careful: {found} inside, shown in boxes.")


def difference(old: str, new: str) -> tuple[str, str]:
    """Return both values as HTML, with what goes in `del` and what comes in `ins`.

    It takes a fraction of a second at most, whatever a model wrote: where that would be exceeded,
    the middle is shown as changed in one piece.
    """
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    same = _same(before, after)
    tail = _same(before[same:][::-1], after[same:][::-1])
    left, right = before[same : len(before) - tail], after[same : len(after) - tail]
    gone, came = [], []
    for equal, cut, added in [
        (True, before[:same], after[:same]),
        *_steps(left, right),
        (True, before[len(before) - tail :], after[len(after) - tail :]),
    ]:
        if equal:
            gone.append(safe("".join(cut)))
            came.append(safe("".join(added)))
        else:
            gone.append(_changed("del", "".join(cut)))
            came.append(_changed("ins", "".join(added)))
    return "".join(gone), "".join(came)


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many words both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _steps(before: list[str], after: list[str]) -> Iterator[tuple[bool, list[str], list[str]]]:
    count = Counter(after)
    pairs = sum(count[word] for word in before)
    many = pairs > _PAIRS
    if many and (len(after) < _JUNK_FROM or len(before) * len(after) > _COMPARED):
        yield False, before, after
        return
    matcher = SequenceMatcher(None, before, after, autojunk=many)  # leaves out the frequent words
    for step, a, b, c, d in matcher.get_opcodes():
        yield step == "equal", before[a:b], after[c:d]


def _changed(tag: str, text: str) -> str:
    """Return text that goes or comes; a line's end and a tab, else not seen, have a sign."""
    shown = safe(text)
    for char, sign in (("\t", "⇥"), ("\n", "⏎")):
        shown = shown.replace(char, f'<span class="memlab-hidden">{sign}</span>{char}')
    return shown and f"<{tag}>{shown}</{tag}>"
