"""Make a request small enough, whole items at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from memlab.errors import OverBudget
from memlab.records import Record, check_count
from memlab.request import Dropped, Request, sizes


def fit(request: Request, limit: int) -> Request:
    """Return `request`, cut to at most `limit` characters by dropping whole items.

    History goes first (oldest first), then memories (lowest rank first; preferences after all
    others, pinned ones last), then complete exchanges (oldest first, never the newest). The task,
    the decisions and the tools are never dropped. A request that fits is returned as it is.

    Args:
        limit: In Unicode characters of canonical JSON (not tokens, not bytes).

    Raises:
        OverBudget: nothing optional is left and the request is still too large.
    """
    check_count(limit, "limit")
    size = sizes(request)
    chars = sum(size.by_part().values())
    if chars <= limit:
        return request
    parts = {"history": size.history, "memories": size.memories, "exchanges": size.exchanges}
    left = {name: len(items) for name, items in parts.items()}
    count = request.dropped.to_dict()
    out: set[tuple[str, int]] = set()
    for name, index in _droppable(request):
        out.add((name, index))
        left[name] -= 1
        comma = 1 if name != "exchanges" and left[name] else 0  # exchanges count their own
        longer = len(str(count[name] + 1)) - len(str(count[name]))
        count[name] += 1
        chars += longer - parts[name][index] - comma
        if chars <= limit:
            return replace(
                request,
                turns=[t for i, t in enumerate(request.turns) if ("history", i) not in out],
                memories=[m for i, m in enumerate(request.memories) if ("memories", i) not in out],
                exchanges=[
                    e for i, e in enumerate(request.exchanges) if ("exchanges", i) not in out
                ],
                dropped=Dropped(**count),
            )
    raise OverBudget(chars, limit)


def _droppable(request: Request) -> Iterator[tuple[str, int]]:
    """Yield what may go, as (part, index), in the order in which it goes."""
    for index in range(len(request.turns)):
        yield "history", index
    ranked = list(enumerate(request.memories))
    for index, _ in sorted(ranked, key=lambda pair: (_worth(pair[1]), -pair[0])):
        yield "memories", index
    for index in range(len(request.exchanges) - 1):
        yield "exchanges", index


def _worth(record: Record) -> int:
    return 2 if record.pinned else 1 if record.kind == "preference" else 0
