"""What it saves to add up sizes: `fit` beside a version that measures everything again.

Both get the same request and must return the same one; the limit leaves room for half of it. The
plain version measures all that is left for every item that goes, so its time is quadratic.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

if __name__ == "__main__" and not __package__:  # run as a file: find memlab in the checkout
    sys.path.insert(0, str(Path(__file__).parents[2]))

from memlab.budget import fit
from memlab.records import KINDS, Record, Turn
from memlab.request import Exchange, Request, measure
from tests.benchmarks.report import Pair, Row, arguments, growth, in_turn, show
from tests.plain_fit import plain_fit

GOALS = {100: 15}  # by items: how many times faster

Fit = Callable[[Request, int], Request]


def a_request(items: int) -> Request:
    """Return a request of so many items: half turns, four in ten memories, the rest exchanges."""
    exchanges = items // 10
    turns = items // 2
    return Request(
        task="What did I say about the release?",
        turns=[
            Turn(f"Question {n}: what about part {n}?", f'Answer {n}, with a "quote" and 中文.')
            for n in range(turns)
        ],
        memories=[_record(n) for n in range(items - turns - exchanges)],
        exchanges=[_exchange(n) for n in range(exchanges)],
    )


def compare(request: Request, rounds: int, ours: Fit = fit, other: Fit = plain_fit) -> Pair:
    """Time two ways to cut `request` to half its size.

    Raises:
        AssertionError: they do not give the same answer.
    """
    limit = measure(request.messages(), request.tools) // 2
    if ours(request, limit) != other(request, limit):
        raise AssertionError("the two ways to fit give different requests")
    return in_turn(
        lambda most: ours(request, most),
        lambda most: other(request, most),
        [[limit]] * (rounds + 1),
        time.perf_counter,
    )


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(__doc__ or "").parse_args(argv)
    plan = {20: 5, 100: 2} if options.quick else {20: 101, 100: 31, 1000: 5}
    rows: list[Row] = []
    before: tuple[int, Pair] | None = None
    for items, rounds in plan.items():
        pair = compare(a_request(items), rounds)
        row: Row = {
            "items": items,
            "fit ms": round(pair.ours * 1000, 3),
            "plain ms": round(pair.other * 1000, 3),
            "times faster": round(1 / pair.ratio, 1),
            "same answer": "yes",
        }
        if least := GOALS.get(items):
            row |= {"goal": f">= {least}", "met": "yes" if 1 / pair.ratio >= least else "NO"}
        for side, now in (("fit", pair.ours), ("plain", pair.other)):
            then = before and (before[1].ours if side == "fit" else before[1].other)
            row[f"{side} growth"] = (
                round(growth((then, now), (before[0], items)), 2) if before and then else ""
            )
        before = items, pair
        rows.append(row)
    notes = ["growth: the exponent since the row above; 1 is linear, 2 quadratic."]
    return show("fitting", rows, options.json, notes)


# Inside -----------------------------------------------------------------------------------------


def _record(number: int) -> Record:
    value = f"Fact {number}: the release waits for part {number % 7}; 第{number}条。"
    kind = KINDS[number % len(KINDS)]
    return Record(kind, f"fact.{number}", value, 1, "s1", 0, 0, None, 0, number % 11 == 0)


def _exchange(number: int) -> Exchange:
    id = f"call-{number}"
    asked = {"name": "memory_get", "arguments": f'{{"key":"fact.{number}","kind":"note"}}'}
    return Exchange(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": id, "type": "function", "function": asked}],
        },
        (
            {
                "role": "tool",
                "tool_call_id": id,
                "content": f'{{"ok":true,"value":"Fact {number}"}}',
            },
        ),
    )


if __name__ == "__main__":
    raise SystemExit(main())
