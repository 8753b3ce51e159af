"""Where the canaries look: one store in which Alice lives, with Bob beside her or alone."""

from __future__ import annotations

import contextlib
import io
import random
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memlab.classroom.looking import texts
from memlab.classroom.reports import Finding
from memlab.classroom.trials import Opener, Words, apart, demand, tried
from memlab.forgetting import DAY_MS, Policy
from memlab.records import Delete, Limits, Put

SHARED = "shared"  # a session name that both users have
DOOR = "The office door opens with a blue card"  # Bob has it in a note, Alice will
LIMITS = Limits(records_per_user=16, pending_proposals=8)
OLD = Policy(idle_days=30, min_uses=2)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class Mark:
    """What stands in all that is Bob's, and nowhere else. `small` may stand in a name."""

    small: str
    latin: str
    chinese: str

    @classmethod
    def fresh(cls) -> Mark:
        words = Words(random.SystemRandom())
        small = f"zq{words.word()}"
        return cls(small, small.title(), words.hanzi(6))

    def within(self, text: str) -> bool:
        """Say whether a good part of the mark stands in a text, in any case."""
        text = unicodedata.normalize("NFKC", text).casefold()
        parts = (self.small[:8], self.small[-8:], self.chinese[:3], self.chinese[-3:])
        return any(part in text for part in parts)


class _Clock:
    """Stands still. No closure: on the way through one a look would meet the world behind it."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class _Ids:
    """Gives out b1, b2, ... while Bob acts and a1, a2, ... while Alice does."""

    def __init__(self) -> None:
        self.whose, self._given = "a", Counter[str]()

    def __call__(self) -> str:
        self._given[self.whose] += 1
        return f"{self.whose}{self._given[self.whose]}"


class _Alike:
    """An embedder to which all texts mean the same: whatever is not told apart is found."""

    id, dim = "all-alike", 2

    def embed(self, texts: Iterable[str]) -> Any:
        import numpy

        return numpy.array([[1.0, 0.0] for _ in texts], dtype="float32")


class World:
    """One store in which Alice does always the same, with Bob beside her or alone.

    Attributes:
        clock: Says the time of this run: to a command what waits has not expired yet.
        theirs: The ids of Bob's proposals, the pending one first; made up where there is no Bob.
        findings: What came of each path.
        seen: The texts that Alice got to see on each path.
    """

    bob: Any = None
    theirs: Sequence[str] = ("b1", "b2", "b3", "b4")

    def __init__(self, opener: Opener, folder: Path, mark: Mark, now: int, alike: bool = False):
        self.opener, self.folder, self.mark = opener, folder, mark
        self.clock, self.ids = _Clock(now), _Ids()
        self.findings: list[Finding] = []
        self.seen: list[list[str]] = []
        self.store = opener(
            folder / "state",
            create=True,
            limits=LIMITS,
            embedder=_Alike() if alike else None,
            clock=self.clock,
            new_id=self.ids,
        )
        self.alice = self.store.for_user("alice", session=SHARED)

    @contextlib.contextmanager
    def path(self, name: str, promise: str) -> Iterator[None]:
        """Try one path to another user's text; what is raised inside is what was found."""
        self.seen.append([])
        with tried(name, promise, self.findings):
            yield

    def sees(self, *answers: Any) -> None:
        """Keep the texts that Alice got, without what differs between any two runs."""
        for text in texts(answers):
            self.seen[-1].append(_ADDRESS.sub("", text.replace(str(self.folder), "FOLDER")))

    def begin(self, with_bob: bool) -> None:
        """Write what both have before anything is looked at, Bob before and after Alice."""
        self.clock.now -= 90 * DAY_MS
        if with_bob:
            self.bob = self.store.for_user(f"bob-{self.mark.small}", session=SHARED)
            self._as_bob(self._bob_writes)
        for kind, key, value in (
            ("episode", "trip", "A trip to Oslo by train"),
            ("preference", "style", "short answers"),
            ("preference", "style", "short answers, please"),
            ("note", "tea", "Alice likes jasmine tea 茉莉花茶"),
            ("note", "parcel", "The parcel of Alice is at the post office"),
        ):
            self.alice.put(kind, key, value)
        self.clock.now += 90 * DAY_MS
        if with_bob:
            self._as_bob(self._bob_is_asked)
        lent = self.alice.lend()
        lent.propose(Put("project", "plan", "write the report"), "she said so")
        refused = lent.propose(Put("project", "name", "Aurora"))
        self.alice.approvals.reject(refused.id, "not yet")

    def _as_bob(self, act: Callable[[Any], None]) -> None:
        self.ids.whose = "b"
        act(self.bob)
        self.ids.whose = "a"

    def _bob_writes(self, bob: Any) -> None:
        mark, far = self.mark, self.store.for_user(bob.user, session=f"at-{self.mark.small}")
        secret = f"Zora: the lighthouse parcel, tea 灯塔的包裹 {mark.latin} {mark.chinese}"
        for kind in ("preference", "note", "episode"):
            bob.put(kind, "style" if kind == "preference" else "parcel", secret)
        bob.put("preference", "style", f"{secret} again")
        far.put("note", f"tea.{mark.small}", f"jasmine tea 茉莉花茶 in Oslo {mark.latin}")
        far.put("note", "cellar", f"{mark.chinese} lighthouse {mark.latin}")
        far.put("note", "door", DOOR)

    def _bob_is_asked(self, bob: Any) -> None:
        mark, lent = self.mark, bob.lend()
        waits = lent.propose(
            Put("note", "parcel", f"moved {mark.latin} {mark.chinese}"), mark.latin
        )
        granted = bob.approvals.grant(Put("decision", "engine", "use PostgreSQL"))
        refused = lent.propose(Put("decision", "colour", "dark"))
        bob.approvals.reject(refused.id, f"no {mark.latin}")
        used = lent.propose(Put("note", f"used.{mark.small}", f"{mark.chinese} {mark.latin}"))
        bob.approvals.approve(used.id, how=f"code {mark.small}")
        lent.propose(Put("project", "plan", "write the report"), f"{mark.latin} said so")
        lent.propose(Delete("note", "parcel"), f"because {mark.latin}")
        self.theirs = [waits.id, granted.id, refused.id, used.id]

    def command(self, *argv: str, user: str = "alice", session: str = SHARED) -> str:
        """Run memlab's command line in this folder; return its exit code and what it prints."""
        from memlab.cli import main  # on use: it comes after all this, and an audit is its command

        name, *rest = argv
        whose = (f"--user={user}", f"--session={session}", f"--workspace={self.folder}")
        out, err = io.StringIO(), io.StringIO()

        def run() -> int:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _no_typing():
                return main([name, *whose, *rest])

        text = f"{apart(run)}\n{out.getvalue()}\n{err.getvalue()}"
        # when it was done differs between two runs
        return re.sub(r"\b1\d{12}\b", "TIME", text.replace(str(self.folder), "FOLDER"))

    def done(self, *argv: str) -> str:
        """Return what a command says that must succeed."""
        text = self.command(*argv)
        demand(text.startswith("0\n"), f"`memlab {argv[0]}` failed: {text}")
        return text


@contextlib.contextmanager
def _no_typing() -> Iterator[None]:
    """Let a command find an input that has ended, so that it asks nobody."""
    before, sys.stdin = sys.stdin, io.StringIO()
    try:
        yield
    finally:
        sys.stdin = before
