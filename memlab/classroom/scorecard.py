"""The audit of a store: contract, canaries and attacks, and one page that says what held."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from memlab.agent import MemoryAgent
from memlab.classroom.reports import Finding, Report
from memlab.classroom.trials import Opener, tried
from memlab.errors import InvalidInput
from memlab.store import MemoryStore
from memlab.text import cut, visible

PAGE_LINES = 60
LINE_CHARS = 160


@dataclass(frozen=True, slots=True)
class Scorecard:
    """What the kits found about one store.

    Attributes:
        store: Which store it was, in words.
    """

    store: str
    reports: tuple[Report, ...]

    @property
    def holds(self) -> bool:
        """Whether every promise of every kit held."""
        return bool(self.reports) and all(report.holds for report in self.reports)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that was tried, ready for JSON."""
        return {
            "store": self.store,
            "holds": self.holds,
            "kits": [
                {
                    "title": report.title,
                    "tried": len(report.findings),
                    "held": len(report.findings) - len(report.broken),
                    "findings": [asdict(finding) for finding in report],
                }
                for report in self.reports
            ],
        }

    def __str__(self) -> str:
        """Return the page: at most `PAGE_LINES` lines of plain text."""
        head = [f"Audit of {self.store}", "", *self._kits(), ""]
        room = PAGE_LINES - len(head) - len(["", "verdict"])
        broken = [*self._broken(in_full=True)]
        if len(broken) > room:
            broken = [*self._broken(in_full=False)]
        if len(broken) > room:
            left = len(broken) - (room - 1)
            broken = [*broken[: room - 1], f"  ... and {left} more; --json lists all."]
        lines = [*head, *broken, *[""] * bool(broken), self._verdict()]
        return "\n".join(cut(visible(line), LINE_CHARS) for line in lines)

    __repr__ = __str__

    def _kits(self) -> Iterator[str]:
        width = max((len(report.title) for report in self.reports), default=0)
        for report in self.reports:
            tried = len(report.findings)
            yield f"  {report.title:<{width}}  {tried - len(report.broken):>3} of {tried:>3} held"

    def _broken(self, in_full: bool) -> Iterator[str]:
        for report in self.reports:
            for finding in report.broken:
                found = _one_line(finding.found or "(nothing to show)")
                if in_full:
                    yield f"  BROKEN {finding.name}: {_one_line(finding.promise)}"
                    yield f"         found: {found}"
                else:
                    yield f"  BROKEN {finding.name}: {found}"

    def _verdict(self) -> str:
        tried = sum(len(report.findings) for report in self.reports)
        broken = sum(len(report.broken) for report in self.reports)
        if self.holds:
            return f"Verdict: all {tried} promises held."
        if not broken:
            return f"Verdict: a kit tried nothing, so nothing is shown ({tried} promises tried)."
        return f"Verdict: {broken} of {tried} promises are BROKEN."


def audit(opener: Opener = MemoryStore.open, name: str = "") -> Scorecard:
    """Run all kits on the store that `opener` opens, each trial in a temporary folder.

    Args:
        opener: Called as `MemoryStore.open` is: a folder, `create`, `clock`, `new_id`, `limits`.
        name: What the page calls the store.
    """
    from memlab.classroom.attacks import run_attacks
    from memlab.classroom.canaries import check_canaries
    from memlab.classroom.contract import check_store

    if not callable(opener):
        raise InvalidInput("opener", "must be called like MemoryStore.open. Pass a function.")
    return Scorecard(
        name or getattr(opener, "__qualname__", type(opener).__name__),
        (
            _ran("contract", lambda: check_store(opener)),
            _ran("canaries", lambda: check_canaries(opener)),
            _ran("attacks", lambda: run_attacks(_agent, opener=opener)),
        ),
    )


def find_opener(name: str) -> Opener:
    """Return what `package.module:opener` names; importing it runs its code.

    Raises:
        InvalidInput: there is no such module, or nothing in it that can be called.
    """
    module, colon, path = name.partition(":")
    if not (colon and module and path):
        raise InvalidInput(
            "--store", "must be package.module:opener, as in memlab:MemoryStore.open."
        )
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {error}"
        raise InvalidInput(
            "--store", f"module {visible(module)!r} cannot be imported ({visible(why)})."
        ) from None
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InvalidInput(
            "--store",
            f"there is nothing to call at {visible(path)!r} in module {visible(module)!r}. "
            "Name a function that is called like MemoryStore.open.",
        )
    opener: Opener = found
    return opener


# Inside -----------------------------------------------------------------------------------------


def _agent(memory: Any, model: Any, workspace: Any = None) -> MemoryAgent:
    """Make our own agent over what the store lends, whatever class that has."""
    return MemoryAgent(memory.lend(), model, workspace=workspace)


def _ran(title: str, kit: Callable[[], Report]) -> Report:
    """Run one kit; a store on which it cannot even end has broken a promise."""
    findings: list[Finding] = []
    with tried(f"{title}.ends", "The kit runs to its end.", findings):
        return kit()
    return Report(title, tuple(findings))


def _one_line(text: str) -> str:
    return text.replace("\n", " ⏎ ").replace("\t", " ")
