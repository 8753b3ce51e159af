"""What may be forgotten: a policy looks at last use, and a curve says in which order."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from memlab.errors import InvalidInput
from memlab.records import KINDS, MOST, Record, check_count, check_kind

DAY_MS = 24 * 60 * 60 * 1000
HALF_LIFE_DAYS = 30


@dataclass(frozen=True, slots=True)
class Policy:
    """Forget what has idled longer than `idle_days` and was used fewer than `min_uses` times.

    Attributes:
        kinds: Only these are ever forgotten, kept in the order of `KINDS`; pinned records never.
    """

    idle_days: float = 30
    min_uses: int = 2
    kinds: tuple[str, ...] = ("episode", "note")

    def __post_init__(self) -> None:
        _check_days(self.idle_days, "idle_days", zero=True)
        check_count(self.min_uses, "min_uses", least=0)
        if isinstance(self.kinds, str) or not isinstance(self.kinds, Iterable):
            raise InvalidInput("kinds", "must be a list of kinds.")
        kinds = [check_kind(kind) for kind in self.kinds]
        object.__setattr__(self, "kinds", tuple(kind for kind in KINDS if kind in kinds))


def idle_ms(record: Record, now: int) -> int:
    """Return how long the record has not been used, in milliseconds; never negative.

    One that was never used idles from its last update, and so does one that was changed since.
    """
    return max(now - max(record.last_used or 0, record.updated), 0)


def curve(idle_days: float, uses: int, half_life_days: float = HALF_LIFE_DAYS) -> float:
    """Return how much is left after `idle_days` without use, from 1 towards 0.

    Halves every `half_life_days`, which uses stretch by 1 + ln(1 + uses).
    """
    _check_days(idle_days, "idle_days", zero=True)
    _check_days(half_life_days, "half_life_days")
    check_count(uses, "uses", 0, MOST)
    return float(0.5 ** (idle_days / (half_life_days * (1 + math.log1p(uses)))))


def retention(record: Record, now: int, half_life_days: float = HALF_LIFE_DAYS) -> float:
    """Return how much of a record is left, from 1 (just used) towards 0: its point on the curve."""
    return curve(idle_ms(record, now) / DAY_MS, record.uses, half_life_days)


def plan(records: Iterable[Record], policy: Policy, now: int) -> list[Record]:
    """Return exactly the records that the policy forgets, the most faded first.

    The order is that of `retention`; it is the same for every half-life.
    """
    if not isinstance(policy, Policy):
        raise InvalidInput("policy", f"must be a Policy, not {type(policy).__name__}.")
    stale = [
        record
        for record in records
        if record.kind in policy.kinds
        and not record.pinned
        and record.uses < policy.min_uses
        and idle_ms(record, now) > policy.idle_days * DAY_MS
    ]
    return sorted(stale, key=lambda record: (retention(record, now), record.kind, record.key))


def _check_days(days: object, what: str, zero: bool = False) -> None:
    """Refuse what is no number of days that can be counted with: from 0, or above 0."""
    if (
        not isinstance(days, int | float)
        or isinstance(days, bool)
        or not 0 <= days <= MOST
        or not (days or zero)
    ):
        least = "0 or more" if zero else "above 0"
        raise InvalidInput(what, f"must be a number of days, {least} and at most {MOST}.")
