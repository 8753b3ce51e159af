"""What the benchmarks share: a fair way to time two things, the machine's name, one table.

    python -m tests.benchmarks.store      memlab beside SQLite used bare: put, get, search
    python -m tests.benchmarks.syncs      how often one put waits for the disk
    python -m tests.benchmarks.imports    what `import memlab` costs
    python -m tests.benchmarks.fitting    `fit` beside a version that measures everything again
    python -m tests.benchmarks.gold       is the right memory found, and nothing where there is none
    python -m tests.benchmarks.locomo     the same on long conversations, beside published figures
    python -m tests.benchmarks.recall     how long recall takes, also right after a change
    python -m tests.benchmarks.side_by_side  the memories of others, sqlite3 and memlab, in turn

Each runs from the checkout, also as `python tests/benchmarks/store.py`. `--quick` makes it tiny,
`--json` prints the same rows for a program. Times differ between machines; a ratio of two things
timed in turn in one run differs little, so the goals are ratios. A quiet machine is needed for
numbers worth keeping. No goal that is missed ends in an error: the table says so.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Row = dict[str, Any]

# Windows counts a process's time in steps of 16 ms, longer than a whole round.
cpu: Callable[[], float] = time.perf_counter if sys.platform == "win32" else time.process_time


@dataclass(frozen=True)
class Pair:
    """Medians of many rounds: seconds for one call of each, and how many times longer ours took."""

    ours: float
    other: float
    ratio: float


def in_turn(
    ours: Callable[[Any], object],
    other: Callable[[Any], object],
    rounds: Iterable[Sequence[Any]],
    clock: Callable[[], float],
    between: Callable[[Sequence[Any]], object] = lambda jobs: None,
) -> Pair:
    """Give both the same jobs, a round each in turn, and compare them round by round.

    Args:
        rounds: The jobs of each round, two rounds at least; every job is one argument. The first
            round is not counted.
        between: Called after each round, untimed, to put things back.
    """

    def timed(call: Callable[[Any], object], jobs: Sequence[Any]) -> float:
        begin = clock()
        for job in jobs:
            call(job)
        return (clock() - begin) / len(jobs)

    mine, theirs = [], []
    for number, jobs in enumerate(rounds, start=-1):
        if number % 2:  # whoever goes second finds a warmer machine, or a busier disk
            theirs.append(timed(other, jobs))
            mine.append(timed(ours, jobs))
        else:
            mine.append(timed(ours, jobs))
            theirs.append(timed(other, jobs))
        between(jobs)
        if number < 0:  # a first round fills the caches of both, and counts for neither
            mine.clear()
            theirs.clear()
    return Pair(median(mine), median(theirs), median(map(ratio, mine, theirs)))


def ratio(one: float, other: float) -> float:
    """Return how many times `other` goes into `one`; a clock that saw nothing gives infinity."""
    return one / other if other else math.inf


def growth(times: tuple[float, float], sizes: tuple[int, int]) -> float:
    """Return the exponent with which time grows with size: 0 is flat, 1 linear, 2 quadratic."""
    return math.log(ratio(times[1], times[0])) / math.log(sizes[1] / sizes[0])


def goal(value: float, most: float | None) -> Row:
    """Return the columns that say what `value` should be at most, and whether it is."""
    met = "" if most is None else "yes" if value <= most else "NO"
    return {"goal": "" if most is None else f"<= {most:g}", "met": met}


def machine() -> Row:
    """Return what the numbers were made on."""
    return {
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def table(rows: Sequence[Row]) -> str:
    """Return the rows as aligned text, one column for each name that any of them has."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, *([_cell(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def arguments(about: str) -> argparse.ArgumentParser:
    """Return the options that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tiny run, to see that it works")
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    return parser


def show(name: str, rows: Sequence[Row], as_json: bool, notes: Sequence[str] = ()) -> int:
    """Print what was measured, and on what; return the exit code."""
    where = machine()
    if as_json:
        told = {"benchmark": name, "machine": where, "rows": list(rows), "notes": list(notes)}
        print(json.dumps(told, indent=1))
        return 0
    print("\n".join(f"{key}: {value}" for key, value in where.items()), end="\n\n")
    if rows:
        print(table(rows))
    print(*(f"\n{note}" for note in notes), sep="")
    return 0


def _cell(value: Any) -> str:
    return (
        f"{value:,.2f}"
        if type(value) is float
        else f"{value:,}"
        if type(value) is int
        else str(value)
    )
