"""Fitting a request as one would first write it: take one item out, measure everything again.

`memlab.budget.fit` must give the same answer; it adds up sizes instead, and is compared with this.
"""

from __future__ import annotations

from dataclasses import replace

from memlab.errors import OverBudget
from memlab.records import Record
from memlab.request import Request, measure


def plain_fit(request: Request, limit: int) -> Request:
    """Return `request` with as few items left out, in the agreed order, as `limit` asks for.

    Args:
        limit: In characters of canonical JSON, as in `memlab.budget.fit`.

    Raises:
        OverBudget: what may not be left out is too large already.
    """
    while (chars := measure(request.messages(), request.tools)) > limit:
        if request.turns:
            request = _without(request, "history", turns=request.turns[1:])
        elif request.memories:
            going = _least(request.memories)
            kept = [record for record in request.memories if record is not going]
            request = _without(request, "memories", memories=kept)
        elif len(request.exchanges) > 1:
            request = _without(request, "exchanges", exchanges=request.exchanges[1:])
        else:
            raise OverBudget(chars, limit)
    return request


def _without(request: Request, part: str, **left: object) -> Request:
    count = getattr(request.dropped, part) + 1
    return replace(request, dropped=replace(request.dropped, **{part: count}), **left)


def _least(memories: tuple[Record, ...]) -> Record:
    """Return the last of those that are worth the least: others, preferences, pinned ones."""
    others = [record for record in memories if record.kind != "preference" and not record.pinned]
    preferences = [record for record in memories if not record.pinned]
    return (others or preferences or memories)[-1]
