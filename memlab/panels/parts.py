"""What the panels share: their look, and how a text that may be hostile is shown."""

from __future__ import annotations

import html
import re
from difflib import SequenceMatcher

from memlab.text import visible

# The colours are JupyterLab's own, so they follow its theme; each has a fallback for other pages.
STYLE = """<style>
.memlab-panel { max-width: 860px; overflow: visible; }
.memlab-card { border: 1px solid var(--jp-border-color1, #9e9e9e);
  border-left: 5px solid var(--jp-brand-color1, #1976d2); border-radius: 4px;
  padding: 8px 12px; margin: 6px 3px; overflow: visible;
  color: var(--jp-ui-font-color1, inherit); }
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
.memlab-done { font-weight: 600; min-height: 28px; overflow-wrap: anywhere; }
.memlab-card .widget-textarea, .memlab-card .jupyter-widget-textarea { width: 100%;
  flex-flow: column; height: auto; }
.memlab-card textarea { width: 100%; font-family: var(--jp-code-font-family, monospace); }
</style>"""

_WORDS = re.compile(r"[^\W\u2e80-\U0010ffff]+|\s+|.", re.DOTALL)  # words; Chinese by character
_COMPARED = 4_000_000  # pairs of words; above it a difference is not worth its time


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
    """Return both values as HTML, with what goes in `del` and what comes in `ins`."""
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    if len(before) * len(after) > _COMPARED:
        return f"<del>{safe(old)}</del>", f"<ins>{safe(new)}</ins>"
    gone, came = [], []
    steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for step, a, b, c, d in steps:
        left, right = safe("".join(before[a:b])), safe("".join(after[c:d]))
        if step != "equal":
            left, right = left and f"<del>{left}</del>", right and f"<ins>{right}</ins>"
        gone.append(left)
        came.append(right)
    return "".join(gone), "".join(came)
