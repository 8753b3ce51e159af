"""What a clause of the contract is, what it is handed, and how it reads a store."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from memlab.classroom.trials import Opener, Words, same
from memlab.forgetting import DAY_MS
from memlab.records import Delete, LedgerEntry, Limits, Proposal, Put, Record, Revision


@dataclass(frozen=True, slots=True)
class Clause:
    """One promise and how it is tried.

    Attributes:
        options: What the store of its trial is opened with.
        vectors: Whether it needs numpy.
    """

    name: str
    promise: str
    run: Callable[[Trial], None]
    options: Mapping[str, Any]
    vectors: bool


def promises(
    promise: str, vectors: bool = False, **limits: float
) -> Callable[[Callable[[Trial], None]], Clause]:
    """Make a function a clause; `limits` are those of its store."""

    def clause(run: Callable[[Trial], None]) -> Clause:
        options = {"limits": Limits(**limits)} if limits else {}  # type: ignore[arg-type]
        return Clause(run.__name__.replace("_", ".", 1), promise, run, options, vectors)

    return clause


class Trial(Words):
    """A new store in a folder of its own, with two users, Alice and Bob.

    Attributes:
        now: What the clock says, in milliseconds; it moves only when it is moved.
        opened: Closes at the end what was opened.
    """

    def __init__(
        self,
        opener: Opener,
        folder: Path,
        chance: random.Random,
        options: Mapping[str, Any],
        opened: ExitStack,
    ):
        super().__init__(chance)
        self.opener, self.folder, self.chance = opener, folder, chance
        self.options, self.opened = options, opened
        self.now = 1_700_000_000_000
        self.names = (f"alice-{self.word()}", f"bob-{self.word()}")
        self.begin()

    def begin(self, **options: Any) -> None:
        """Open the store, and take both users' own hands on it."""
        self.store = self.open(**options)
        self.alice, self.bob = (self.user(name) for name in self.names)

    def open(self, folder: Path | None = None, create: bool = True, **options: Any) -> Any:
        """Open this trial's store once more, or one in another folder; it is closed at the end."""
        given = {"clock": lambda: self.now, "new_id": self.word} | dict(self.options) | options
        store = self.opener(folder or self.folder / "data", create=create, **given)
        self.opened.callback(store.close)
        return store

    def restart(self, **options: Any) -> None:
        """Close all that is open, and open the store again."""
        self.opened.close()
        self.begin(**options)

    def user(self, name: str, session: str = "s1", store: Any = None) -> Any:
        return (store or self.store).for_user(name, session=session)

    def hers(self, session: str = "s1", store: Any = None) -> Any:
        """Return Alice's own hand, in another session or on another store."""
        return self.user(self.names[0], session, store)

    def lent(self, session: str = "s1") -> Any:
        """Return what an agent of Alice would hold."""
        return self.hers(session).lend()

    def forward(self, seconds: float = 0, days: float = 0) -> None:
        self.now += int(seconds * 1000 + days * DAY_MS)

    def note(self, *keys: str, **values: str) -> Any:
        """Let Alice store new words under these keys, or these values; return the last record."""
        for key, value in [*((key, self.word()) for key in keys), *values.items()]:
            record = self.alice.put("note", key, value)
        return record

    def change(self, key: str) -> Put:
        """Return a change that nobody has asked for."""
        return Put("note", key, self.word())

    def pending(self, change: Put | Delete, reason: str = "") -> Any:
        """Let Alice's agent ask for a change."""
        return self.lent().propose(change, reason)


def plain(thing: Any, of: type = Record) -> dict[str, Any] | None:
    """Return the fields of a record, or of another noun: a store may have a class of its own."""
    if thing is None:
        return None
    return {each.name: getattr(thing, each.name) for each in fields(of)}


def names_of(records: Iterable[Any]) -> list[tuple[str, str]]:
    return [(record.kind, record.key) for record in records]


def keys_of(records: Iterable[Any]) -> list[str]:
    return [record.key for record in records]


def stored(memory: Any) -> list[str]:
    """Return the keys of all records, sorted: that `list` has an order is a clause of its own."""
    return sorted(keys_of(memory.list()))


def recalled(memory: Any, query: str, limit: int = 5) -> list[str]:
    return keys_of(hit.record for hit in memory.recall(query, limit=limit))


def value_at(memory: Any, key: str) -> str | None:
    """Return the value of a note, or None where there is none."""
    found = memory.get("note", key)
    return None if found is None else str(found.value)


def readable(memory: Any) -> dict[str, Any]:
    """Return all that a user can read of their own, by the way it is read."""
    records = memory.list()
    approvals, lent = memory.approvals, memory.lend()
    return {
        "list": [plain(record) for record in records],
        "search": [plain(record) for record in memory.search("", limit=1000)],
        "history": {
            name: [plain(each, Revision) for each in memory.history(*name)]
            for name in names_of(records)
        },
        "export": list(memory.export()),
        "pending": [plain(each, Proposal) for each in approvals.pending()],
        "approved": [plain(each, Proposal) for each in lent.approved()],
        "ledger": [plain(each, LedgerEntry) for each in approvals.ledger()],
        "stats": memory.stats(),
    }


def unchanged(before: dict[str, Any], memory: Any) -> None:
    """End the clause if a user reads anything else than before."""
    after = readable(memory)
    for way, found in before.items():
        same(after[way], found, way)
