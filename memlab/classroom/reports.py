"""What a check of a whole store or agent found: one finding a promise, and a page of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memlab.text import cut, visible

FOUND_CHARS = 200  # of what was found; what is longer is cut, visibly


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise, tried.

    Attributes:
        name: The short name, the same in every run: `approval.once`.
        promise: The sentence that was tried.
        held: Whether it held.
        found: What was found instead; empty where it held.
    """

    name: str
    promise: str
    held: bool
    found: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of one kit, in the order in which it tried them."""

    title: str
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether every promise held. Nothing tried is nothing shown, so that does not hold."""
        return bool(self.findings) and all(each.held for each in self.findings)

    @property
    def broken(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if not each.held)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __str__(self) -> str:
        held = sum(each.held for each in self.findings)
        lines = [f"{self.title}: {held} of {len(self.findings)} promises held"]
        for each in self.broken:
            lines.append(f"  BROKEN {each.name}: {_line(each.promise)}")
            if each.found:
                lines.append(f"         found: {_line(each.found)}")
        return "\n".join(lines)

    __repr__ = __str__


def _line(text: str) -> str:
    """Return a text on one line: what a store under test answered is nobody's markup."""
    return cut(visible(text), FOUND_CHARS).replace("\n", " ⏎ ").replace("\t", " ")
