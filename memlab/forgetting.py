"""What may be forgotten: a policy looks at last use, and a curve says in which order."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from memlab.errors import InvalidInput
from memlab.records import Record, check_count, check_kind

DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Policy:
    """Forget what has idled longer than `idle_days` and was used fewer than `min_uses` times."""

    idle_days: float = 30
    min_uses: int = 2
    kinds: tuple[str, ...] = ("episode", "note")

    def __post_init__(self) -> None:
        days = self.idle_days
        if type(days) not in (int, float) or not (0 <= days < math.inf):
            raise InvalidInput("idle_days", "must be a finite number of days, 0 or more.")
        check_count(self.min_uses, "min_uses", least=0)
        if isinstance(self.kinds, str):
            raise InvalidInput("kinds", "must be a list of kinds, not one text.")
        object.__setattr__(self, "kinds", tuple(check_kind(kind) for kind in self.kinds))


def idle_ms(record: Record, now: int) -> int:
    """Return how long the record has not been used, in milliseconds; never negative.

    One that was never used idles from its last update.
    """
    return max(now - max(record.last_used or 0, record.updated), 0)


def retention(record: Record, now: int, half_life_days: float = 30) -> float:
    """Return how much of a record is left, from 1 (just used) towards 0.

    Halves every `half_life_days`, which uses stretch by 1 + ln(1 + uses).
    """
    if not 0 < half_life_days < math.inf:
        raise InvalidInput("half_life_days", "must be a finite number of days above 0.")
    half_life = half_life_days * DAY_MS * (1 + math.log1p(record.uses))
    return float(0.5 ** (idle_ms(record, now) / half_life))


def plan(records: Iterable[Record], policy: Policy, now: int) -> list[Record]:
    """Return exactly the records that the policy forgets, the most faded first."""
    stale = [
        record
        for record in records
        if record.kind in policy.kinds
        and not record.pinned
        and record.uses < policy.min_uses
        and idle_ms(record, now) > policy.idle_days * DAY_MS
    ]
    return sorted(stale, key=lambda record: (retention(record, now), record.kind, record.key))
