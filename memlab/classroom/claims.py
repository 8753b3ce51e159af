"""Claims: a sentence about what just happened, its evidence, and a verdict that can turn red."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from memlab.errors import InvalidInput, MemlabError
from memlab.text import clean, cut, visible

EVIDENCE_CHARS = 600  # of one value; what is longer is cut, visibly

# White on each of these reads well (contrast above 5), so a badge looks the same on a light and on
# a dark page. The border differs too: the colours alone look alike in grey.
_TONES = {
    "good": ("✓", "#1b7a33", "solid"),
    "bad": ("✗", "#b3261e", "dashed"),
    "open": ("○", "#5f6368", "dotted"),
}
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class ClaimFailed(MemlabError, AssertionError):
    """A claim does not hold, or an exhibit that is broken on purpose does.

    Attributes:
        text: The sentence.
        evidence: What was shown with it.
    """

    def __init__(self, message: str, text: str, evidence: Any):
        self.text, self.evidence = text, evidence
        super().__init__(message)

    def _render_traceback_(self) -> list[str]:
        """Tell a notebook to show one line: the evidence stands above it already."""
        return [f"ClaimFailed: {self}"]


def claim(text: str, holds: bool, evidence: Any = None) -> None:
    """Show a sentence, its evidence and whether it holds.

    Args:
        holds: The comparison itself. Only True or False: a forgotten comparison is refused.
        evidence: Values by name, or one value.

    Raises:
        ClaimFailed: it does not hold.
    """
    sentence = _checked(text, holds)
    _say(sentence, holds, evidence)
    if not holds:
        raise ClaimFailed(f"this does not hold: {sentence}", text, evidence)


def refute(text: str, holds: bool, evidence: Any = None) -> None:
    """Show a sentence that fails, without a traceback: the exhibit is broken on purpose.

    Args:
        holds: As in `claim`.
        evidence: As in `claim`.

    Raises:
        ClaimFailed: it holds, so the exhibit is not broken any more.
    """
    sentence = _checked(text, holds)
    _say(sentence, holds, evidence)
    if holds:
        raise ClaimFailed(
            f"this was meant to fail, and it holds: {sentence}. The exhibit must stay broken.",
            text,
            evidence,
        )


def show(
    tone: str,
    verdict: str,
    sentence: str,
    lines: Sequence[tuple[str, str]] = (),
    values: bool = True,
) -> None:
    """Show a verdict in a notebook, or print it anywhere else.

    Args:
        tone: `good`, `bad` or `open`.
        lines: Names and texts that stand below it.
        values: The texts are values, to be read character by character.
    """
    plain = " · ".join(
        [f"{verdict} {sentence}", *(f"{name}: {_one_line(text)}" for name, text in lines)]
    )
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        data = {"text/plain": plain, "text/html": _markup(tone, verdict, sentence, lines, values)}
        ipython.display.display(data, raw=True)
    else:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        print(plain.encode(encoding, "backslashreplace").decode(encoding))


def shown(value: object) -> str:
    """Return a value as text that is the same in every process, nothing in it hidden."""
    return cut(visible(value if isinstance(value, str) else _stable(value)), EVIDENCE_CHARS)


# Inside -----------------------------------------------------------------------------------------


def _checked(text: object, holds: object) -> str:
    if type(holds) is not bool:
        raise InvalidInput(
            "holds",
            f"must be True or False, not {type(holds).__name__}. "
            "Write the whole comparison, for example `found == wanted`.",
        )
    return visible(clean(text, "text"))


def _say(sentence: str, holds: bool, evidence: Any) -> None:
    if isinstance(evidence, Mapping):
        lines = [(shown(name), shown(value)) for name, value in evidence.items()]
    else:
        lines = [] if evidence is None else [("evidence", shown(evidence))]
    show("good" if holds else "bad", "Holds." if holds else "Does not hold.", sentence, lines)


def _stable(value: object) -> str:
    """Return a `repr` without addresses, and with sets in order."""
    if isinstance(value, str):
        return repr(value)
    if type(value) is dict:
        items = (f"{_stable(name)}: {_stable(item)}" for name, item in value.items())
        return "{" + ", ".join(items) + "}"
    if type(value) is list:
        return "[" + ", ".join(map(_stable, value)) + "]"
    if type(value) is tuple:
        return "(" + ", ".join(map(_stable, value)) + ("," if len(value) == 1 else "") + ")"
    if type(value) in (set, frozenset) and value:
        return "{" + ", ".join(sorted(map(_stable, value))) + "}"  # type: ignore[call-overload]
    return _ADDRESS.sub("", repr(value))


def _one_line(text: str) -> str:
    """Keep a value from looking like a line of its own."""
    return text.replace("\n", " ⏎ ").replace("\t", " ")


def _markup(
    tone: str, verdict: str, sentence: str, lines: Sequence[tuple[str, str]], values: bool
) -> str:
    mark, colour, border = _TONES[tone]
    role = "alert" if tone == "bad" else "status"
    # `code` and the two classes keep a page from typesetting "$5 and $6" as a formula.
    tag = 'code style="white-space:pre-wrap"' if values else "span"
    items = "".join(
        f'<li style="margin:0">{_isolated(name)}: '
        f"<{tag}>{_isolated(text)}</{tag.partition(' ')[0]}></li>"
        for name, text in lines
    )
    below = f'<ul style="margin:4px 0 0 0;padding-left:20px">{items}</ul>' if items else ""
    return (
        f'<div class="tex2jax_ignore mathjax_ignore" role="{role}" '
        f'style="border-left:4px {border} {colour};padding:4px 0 4px 10px;margin:4px 0;'
        f'overflow-wrap:anywhere">'
        f'<strong style="background-color:{colour};color:#ffffff;padding:1px 7px;'
        f'border-radius:3px"><span aria-hidden="true">{mark} </span>{html.escape(verdict)}</strong>'
        f" {_isolated(sentence)}{below}</div>"
    )


def _isolated(text: str) -> str:
    """Escape a text, and keep its writing direction from reaching what stands beside it."""
    return f"<bdi>{html.escape(text)}</bdi>"
