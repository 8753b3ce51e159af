"""Make a request small enough, whole items at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from memlab.errors import OverBudget
from memlab.records import Proposal, Record, check_count
from memlab.request import Dropped, Exchange, Request, sizes
from memlab.text import canonical


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
    chars = size.chars
    if chars <= limit:
        return request
    items = {"history": size.history, "memories": size.memories, "exchanges": size.exchanges}
    gone: dict[str, set[int]] = {name: set() for name in items}
    before = request.dropped.to_dict()
    for name, index in _droppable(request):
        count = before[name] + len(gone[name])
        gone[name].add(index)
        chars -= items[name][index]
        if name != "exchanges" and len(gone[name]) < len(items[name]):
            chars -= len(",")  # an exchange is counted with its own
        chars += len(str(count + 1)) - len(str(count))
        if chars <= limit:
            return _without(request, gone)
    raise OverBudget(chars, limit)


def room(request: Request, limit: int) -> int:
    """Return how many characters one more exchange may take, once all that may go has gone."""
    every = {
        "history": set(range(len(request.turns))),
        "memories": set(range(len(request.memories))),
        "exchanges": set(range(len(request.exchanges))),
    }
    return limit - sizes(_without(request, every)).chars


def tell(
    request: Request, approved: Sequence[Proposal], decisions: Sequence[Proposal], limit: int
) -> Request:
    """Return `request` with these in it, whole, the first that fit into their share.

    They are never dropped later, and a person may approve any number of changes. So approved
    ones take at most half of what the task and the tools leave, decisions a quarter: there is
    always room for an exchange, and what is left out has its turn when the others are done.
    """
    free = room(replace(request, approved=(), decisions=()), limit)
    size = sizes(Request("-", approved=approved, decisions=decisions))
    return replace(
        request,
        approved=_first(approved, size.approved, free // 2),
        decisions=_first(decisions, size.decisions, free // 4),
    )


def squeeze(exchange: Exchange, chars: int) -> Exchange:
    """Return the newest exchange in at most `chars`, without its largest pieces, largest first.

    A piece is what one call gave, the arguments of one call, or the words beside the calls. A
    model is told which results it does not see. Every call keeps its answer, so where that is
    still too large, `fit` refuses it.
    """
    over = exchange.chars - chars
    if over <= 0:
        return exchange
    message, *results = exchange.messages()
    pieces = [
        (message, "content", None),
        *((call["function"], "arguments", "{}") for call in message["tool_calls"]),
        *((result, "content", _left_out(result["content"])) for result in results),
    ]
    saved = [len(canonical(holder[name])) - len(canonical(short)) for holder, name, short in pieces]
    for saving, at in sorted(zip(saved, range(len(pieces)), strict=True), reverse=True):
        if over <= 0 or saving <= 0:
            break
        holder, name, short = pieces[at]
        holder[name] = short
        over -= saving
    return Exchange(message, tuple(results))


def _left_out(content: str) -> str:
    """Return what a model is told in place of a result: what was done stays done."""
    told = json.loads(content)
    short = {name: told[name] for name in ("effect", "proposal", "state") if name in told}
    why = f"the result has {len(content)} characters, too many for this request. Ask for less."
    if "effect" in short:
        return canonical({"ok": told["ok"], "left_out": why, **short})
    return canonical({"ok": False, "error": why, **short})


def _first(items: Sequence[Proposal], chars: Sequence[int], most: int) -> list[Proposal]:
    kept = []
    for item, size in zip(items, chars, strict=True):
        if size + len(",") <= most:
            kept.append(item)
            most -= size + len(",")
    return kept


def _without(request: Request, gone: dict[str, set[int]]) -> Request:
    count = {name: n + len(gone[name]) for name, n in request.dropped.to_dict().items()}
    return replace(
        request,
        turns=[each for i, each in enumerate(request.turns) if i not in gone["history"]],
        memories=[each for i, each in enumerate(request.memories) if i not in gone["memories"]],
        exchanges=[each for i, each in enumerate(request.exchanges) if i not in gone["exchanges"]],
        dropped=Dropped(**count),
    )


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
