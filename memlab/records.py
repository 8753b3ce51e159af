"""The nouns: what is stored, what may change, who asked for it, and how much is allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from memlab.errors import InvalidInput
from memlab.text import MAX_CHARS, clean

KINDS = ("preference", "episode", "project", "decision", "note")
"""A stable wish, what happened, facts of a project, a technical decision, anything else."""

STATES = ("pending", "approved", "rejected", "used", "expired", "revoked", "superseded")

Action = Literal["put", "delete"]
Effect = Literal["created", "replaced", "deleted", "unchanged"]

MOST = 10**12
"""No limit may be larger, so that each of them is a number that the file can hold."""

_KINDS = frozenset(KINDS)
_KEY = re.compile(r"[a-z][a-z0-9_.:-]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_name(name: object, what: str) -> str:
    """Return a user or session name, or refuse it: 1 to 64 ASCII letters, digits, `.`, `_`, `-`."""
    if type(name) is not str or not _NAME.fullmatch(name):
        raise InvalidInput(
            what,
            "must be 1 to 64 ASCII letters, digits, '.', '_' or '-', "
            "starting with a letter or digit. Choose another name.",
        )
    return name


def check_kind(kind: object) -> str:
    """Return `kind`, or refuse what is not one of `KINDS`."""
    if type(kind) is not str or kind not in _KINDS:
        raise InvalidInput("kind", f"must be one of {', '.join(KINDS)}. Choose one.")
    return kind


def check_key(key: object, limit: int = MAX_CHARS) -> str:
    """Return `key`, or refuse it: `a-z 0-9 _ . : -`, starting with a letter, at most `limit`."""
    if type(key) is not str or len(key) > limit or not _KEY.fullmatch(key):
        most = f"1 to {limit} of " if limit < MAX_CHARS else ""
        raise InvalidInput(
            "key", f"must be {most}a-z 0-9 _ . : -, starting with a letter. Choose another key."
        )
    return key


def check_count(number: object, what: str, least: int = 1, most: int | None = None) -> int:
    """Return a whole number from `least` to `most`, or refuse it (True and 1.0 are no numbers)."""
    if type(number) is not int or number < least or (most is not None and number > most):
        upper = f" to {most}" if most is not None else " or more"
        raise InvalidInput(what, f"must be a whole number, {least}{upper}.")
    return number


@dataclass(frozen=True, slots=True)
class Record:
    """One thing remembered about one user. Times are milliseconds since 1970, UTC."""

    kind: str
    key: str
    value: str
    revision: int
    session: str  # where it came from
    created: int
    updated: int
    last_used: int | None  # None: never sent to a model
    uses: int
    pinned: bool

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name, ready for JSON."""
        return asdict(self)

    def for_model(self) -> dict[str, Any]:
        """Return the one JSON form in which a model sees a record."""
        return {
            "kind": self.kind,
            "key": self.key,
            "value": self.value,
            "revision": self.revision,
            "session": self.session,
        }


@dataclass(frozen=True, slots=True)
class Put:
    """One exact change: store `value` under `kind` and `key`. A Put that exists is well formed.

    Attributes:
        value: Text, kept in Unicode NFC. How long it may be is for the store to say.
        expect: The revision it may replace; 0: only where there is no record; None: whatever
            stands there when the change is made, proposed or granted.
    """

    kind: str
    key: str
    value: str
    expect: int | None = None

    def __post_init__(self) -> None:
        check_kind(self.kind)
        check_key(self.key)
        object.__setattr__(self, "value", clean(self.value, "value"))
        if self.expect is not None:
            check_count(self.expect, "expect", least=0)

    @property
    def action(self) -> Action:
        return "put"

    def to_dict(self) -> dict[str, Any]:
        """Return the change as a model sees it."""
        return {"action": "put", "kind": self.kind, "key": self.key, "value": self.value}


@dataclass(frozen=True, slots=True)
class Delete:
    """One exact change: delete what stands under `kind` and `key`, with its history.

    Attributes:
        expect: As in `Put`.
    """

    kind: str
    key: str
    expect: int | None = None

    def __post_init__(self) -> None:
        check_kind(self.kind)
        check_key(self.key)
        if self.expect is not None:
            check_count(self.expect, "expect", least=0)

    @property
    def action(self) -> Action:
        return "delete"

    def to_dict(self) -> dict[str, Any]:
        """Return the change as a model sees it."""
        return {"action": "delete", "kind": self.kind, "key": self.key}


Change = Put | Delete


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that somebody asked for, and what became of it.

    Attributes:
        change: The exact change; None once its text has been erased.
        base: The revision number it stands on (of a deleted record: its last one; 0: never any).
        old_value: What stood there when it was proposed.
        asked, expires, decided: Milliseconds since 1970, UTC; `decided` is None while it waits.
        state: One of `STATES`.
        how: How it was decided: `granted`, `panel`, `terminal`, `code`, ...
        note: Why it was rejected, or that the value was edited.
        effect: What using it did.
    """

    id: str
    action: Action
    kind: str
    key: str
    change: Change | None
    base: int
    old_value: str | None
    reason: str
    session: str
    asked: int
    expires: int
    state: str
    decided: int | None = None
    how: str = ""
    note: str = ""
    effect: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return what the command line and a model are told, ready for JSON."""
        return {
            "id": self.id,
            "state": self.state,
            "action": self.action,
            "kind": self.kind,
            "key": self.key,
            "value": self.change.value if isinstance(self.change, Put) else None,
            "old_value": self.old_value,
            "reason": self.reason,
            "session": self.session,
            "expires": self.expires,
        }


@dataclass(frozen=True, slots=True)
class Applied:
    """What the store did with a change.

    Attributes:
        record: The record as it stands now; None after a deletion, or where there was none.
        effect: `created`, `replaced`, `deleted` or `unchanged`.
    """

    change: Change
    record: Record | None
    effect: Effect


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one of several approvals: `applied`, or the `error` that stopped it."""

    id: str
    applied: Applied | None = None
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class Revision:
    """One value that a record has had. `updated` is milliseconds since 1970, UTC."""

    revision: int
    value: str
    session: str
    updated: int


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One decision about a proposal. It keeps no value. Times as in `Proposal`.

    Attributes:
        state: What was decided: `approved`, `rejected`, `used`, `expired`, `revoked`, `superseded`.
        session: The session that proposed it.
    """

    id: str
    action: Action
    kind: str
    key: str
    session: str
    asked: int
    state: str
    decided: int
    how: str
    note: str
    effect: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A record that answers a query.

    Attributes:
        score: Higher is better; comparable within one answer only.
        why: For each ranking the record's `rank` (1 is best) and raw `score`; empty for a
            preference that no ranking found and that goes into every request.
    """

    record: Record
    score: float
    why: Mapping[str, Mapping[str, float]]

    @property
    def kind(self) -> str:
        return self.record.kind

    @property
    def key(self) -> str:
        return self.record.key

    @property
    def value(self) -> str:
        return self.record.value


@dataclass(frozen=True, slots=True)
class Turn:
    """One question of the user and the answer it got."""

    task: str
    answer: str

    def to_dict(self) -> dict[str, str]:
        return {"task": self.task, "answer": self.answer}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that `verify` found. `user`, `kind` and `key` name the row, where it is one."""

    what: str
    user: str | None = None
    kind: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Every number that memlab is limited by; the unit is in the name.

    `_chars` are Unicode code points (of canonical JSON where a request is meant), never tokens.
    """

    value_chars: int = 512
    key_chars: int = 64
    records_per_user: int = 64
    records_total: int = 1024
    database_bytes: int = 16 * 1024 * 1024
    pending_proposals: int = 64
    proposal_ttl_s: float = 3600
    ledger_entries: int = 1000
    lock_timeout_s: float = 5.0
    query_chars: int = 128
    task_chars: int = 1200
    context_chars: int = 2200
    context_preferences: int = 5
    history_turns: int = 8
    history_chars: int = 4000
    turn_chars: int = 1200
    request_chars: int = 16000
    model_calls: int = 8
    tool_calls: int = 16
    model_seconds: float = 20.0

    def __post_init__(self) -> None:
        for each in fields(self):
            number = getattr(self, each.name)
            timed = each.name.endswith(("_s", "_seconds"))
            if type(number) is not int and not (timed and type(number) is float):
                raise InvalidInput(each.name, "must be a whole number above 0.")
            if not 0 < number <= MOST:
                raise InvalidInput(each.name, f"must be a number above 0, at most {MOST}.")
            if each.name.endswith("_chars") and number > MAX_CHARS:
                raise InvalidInput(each.name, f"must be at most {MAX_CHARS}.")
