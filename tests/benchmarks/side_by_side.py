"""memlab beside raw sqlite3 and the memories of others: the same calls, in turn, in one run.

    python -m tests.benchmarks.side_by_side [--million] [--out FOLDER]

Every engine gets the same records, 64 a user, and the same jobs; who goes first changes from round
to round. `ratio` is the median, over the rounds, of an engine's time over that of raw sqlite3 in
the same round. An engine that has used up its time sits out the other rounds, and one that is not
installed is a row that says so. `pip install memlab[bench]` brings them all.

`disk` rows wait for the disk as the engine does by itself. `cpu` rows count processor time, with
syncing off wherever the engine lets us. Recall is compared with reading all rows of the user, the
least that any recall must do; the question's vector is made before the clock runs. `open` is an
opening and one get; the module is loaded already. `import` is a new program's processor time over
one that imports nothing.

`growth` is the exponent with which the median time grows with the number of users: 0 is flat.

`--out` writes the table as Markdown, and a figure where matplotlib is there.
"""

from __future__ import annotations

import gc
import itertools
import math
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression, median
from typing import Any, NamedTuple

if __name__ == "__main__" and not __package__:  # run as a file: find memlab in the checkout
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks import others
from tests.benchmarks.imports import run
from tests.benchmarks.others import USER_RECORDS, Engine, Raw, a_job, question, sentence, words
from tests.benchmarks.report import Row, arguments, cpu, goal, ratio, show
from tests.benchmarks.store import Job, sync_ms

GROWTH_GOAL = 0.1
OPEN_GOAL_MS, IMPORT_GOAL_MS, WITH_STORE_GOAL_MS, SIZE_GOAL = 1.0, 5.0, 30.0, 1.3
MADE = "new."  # how the key of a record begins that is put by a job, and taken back

Clock = Callable[[], float]


class Task(NamedTuple):
    """One thing to be measured.

    Attributes:
        call, floor: What is called on an engine, and on raw sqlite3 to compare with.
        job: How a job is made: `new`, `replace`, `half each`, `known`, `literal`, `question`.
        synced: Whether it waits for the disk, by the clock on the wall.
        goals: The highest ratio that is wanted, by the name of the engine.
    """

    what: str
    call: str
    floor: str
    job: str
    synced: bool = False
    goals: dict[str, float] = {}  # noqa: RUF012 - never changed


TASKS = (
    Task("get", "get", "get", "known", goals={"memlab": 1.5}),
    Task("search", "search", "search", "literal", goals={"memlab": 1.3}),
    Task("recall, words", "recall_by_words", "read", "question", goals={"memlab": 4}),
    Task("recall, vectors", "recall", "read", "question", goals={"memlab, vectors": 6}),
    Task("put, new", "put", "put", "new", goals={"memlab": 2.5}),
    Task("put, replace", "replace", "replace", "replace", goals={"memlab": 2.5}),
    Task("put, proposed and approved", "propose_and_approve", "put", "new"),
    Task("put", "put", "put", "half each", synced=True, goals={"memlab": 1.2}),
)


class Effort(NamedTuple):
    """How much each task gets: rounds, calls in a round, seconds for one engine."""

    rounds: int = 41
    calls: int = 20
    seconds: float = 6.0
    imports: int = 9


QUICK = Effort(3, 3, 0.5, 1)


@dataclass
class Measured:
    """The time of one call in each round in which the engine took part, and over the floor's."""

    times: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)


def in_turn(
    calls: dict[str, Callable[[Any], object]],
    rounds: Sequence[Sequence[Any]],
    clock: Clock,
    seconds: float = math.inf,
    between: Callable[[str, Sequence[Any]], object] = lambda name, jobs: None,
) -> dict[str, Measured]:
    """Give all the same jobs, a round each in turn; the first of `calls` is the floor.

    Args:
        rounds: The jobs of each round; the first round warms up and is not counted.
        seconds: What one of them may take in all; after that, and two rounds, it sits out.
        between: Told, untimed, who has done which jobs, to put things back.
    """
    floor, *rest = calls
    found = {name: Measured() for name in calls}
    spent = dict.fromkeys(calls, 0.0)

    def timed(name: str, jobs: Sequence[Any]) -> float:
        call = calls[name]
        wall, begin = time.perf_counter(), clock()
        for job in jobs:
            call(job)
        took = clock() - begin
        spent[name] += time.perf_counter() - wall
        between(name, jobs)
        return took / len(jobs)

    for number, jobs in enumerate(rounds):
        playing = [name for name in rest if spent[name] <= seconds or number < 3]
        order = [floor, *playing]
        turn = number % len(order)  # whoever goes later finds a warmer machine
        took = {name: timed(name, jobs) for name in order[turn:] + order[:turn]}
        if number:
            for name, each in took.items():
                found[name].times.append(each)
                found[name].ratios.append(ratio(each, took[floor]))
    return found


class Jobs:
    """Makes jobs of every kind for a store of so many records; the same ones every time."""

    def __init__(self, count: int):
        self.count = count
        self._pick = random.Random(count)
        self._fresh = itertools.count(count)
        self._turns = itertools.cycle((self.new, self.replace))
        # An agent works for one user at a time, so all questions are one user's.
        self._asker = self._pick.randrange(-(-count // USER_RECORDS))
        self._mine = range(self._asker * USER_RECORDS, min((self._asker + 1) * USER_RECORDS, count))

    def rounds(self, kind: str, rounds: int, calls: int) -> list[list[Job]]:
        make = getattr(self, kind.replace(" ", "_"))
        return [[make() for _ in range(calls)] for _ in range(rounds + 1)]

    def new(self) -> Job:
        number = next(self._fresh)
        user = self._pick.randrange(-(-self.count // USER_RECORDS))
        return Job(user, "note", f"{MADE}{number}", sentence(number))

    def replace(self) -> Job:
        return a_job(self._pick.randrange(self.count), sentence(next(self._fresh)))

    def half_each(self) -> Job:
        return next(self._turns)()

    def known(self) -> Job:
        return a_job(self._pick.randrange(self.count), "")

    def literal(self) -> Job:
        number = self._pick.randrange(self.count)
        return a_job(number, self._pick.choice(words(number)[1:]))

    def question(self) -> Job:
        number = self._pick.choice(self._mine)
        return a_job(number, question(number))


def measure(engines: Sequence[Engine], count: int, effort: Effort) -> list[Row]:
    """Fill all the engines with so many records, and return a row for each task and engine."""
    sizes = {}
    for engine in engines:
        engine.open()
        engine.syncing(False)
        engine.fill(others.records(count))
        engine.close()  # what is left in memory or in a log is in the file now
        sizes[engine.name] = engine.bytes()
        engine.open()
    gc.collect()
    gc.freeze()  # what the others have loaded is no garbage to be looked through in our turn
    jobs, rows = Jobs(count), []
    try:
        _agree(engines, jobs)
        for task in TASKS:
            rounds = jobs.rounds(task.job, effort.rounds, effort.calls)
            rows += _task(engines, task, rounds, count, effort)
    finally:
        for engine in engines:
            engine.close()
        gc.unfreeze()
    return [*rows, *_opened(engines, jobs, count, effort), *_sizes(sizes, count)]


def imported(effort: Effort, engines: Sequence[type[Engine]]) -> list[Row]:
    """Return a row for what each engine's import costs a new program."""
    programs = {"": "", **{each.name: each.imports for each in engines}}
    programs.pop(others.MemlabWithVectors.name, None)  # the same import
    programs.pop(others.RawWithPromises.name, None)
    store = "memlab, a store opened"
    programs[store] = "import memlab\nwith memlab.MemoryStore.open('store', create=True): pass"
    goals = {"memlab": IMPORT_GOAL_MS, store: WITH_STORE_GOAL_MS}
    times: dict[str, list[float]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(effort.imports + 1):
            for name, code in programs.items():
                took = run(code, folder)[0] * 1000
                if number:  # the first run compiles what it imports
                    times[name].append(took)
    nothing = times.pop("")
    rows: list[Row] = []
    for name, found in times.items():
        over = median(mine - floor for mine, floor in zip(found, nothing, strict=True))
        row: Row = {"what": "import", "time": "cpu", "records": "", "engine": name}
        rows.append({**row, "us": round(over * 1000, 1), **goal_ms(over, goals.get(name))})
    return rows


def with_growth(rows: Sequence[Row]) -> None:
    """Add to the last row of each series how its time grows with the number of users."""
    series: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if "us" in row and row["records"]:
            series.setdefault((row["what"], row["time"], row["engine"]), []).append(row)
    for (_, _, engine), each in series.items():
        if len(each) > 1:
            each[-1]["growth"] = slope(
                [(-(-row["records"] // USER_RECORDS), row["us"]) for row in each]
            )
            if engine in (others.Memlab.name, others.MemlabWithVectors.name):
                each[-1]["flat"] = "yes" if each[-1]["growth"] <= GROWTH_GOAL else "NO"


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the exponent that fits (size, time) best: the slope where both are logarithms."""
    sizes, times = zip(*((math.log(size), math.log(took)) for size, took in points), strict=True)
    return round(linear_regression(sizes, times).slope, 3)


def goal_ms(value: float, most: float | None) -> Row:
    """Return the columns of a goal in milliseconds."""
    wanted = goal(value, most)
    return {**wanted, "goal": wanted["goal"] and f"{wanted['goal']} ms"}


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--million", action="store_true", help="a million records too (long)")
    parser.add_argument("--folder", help="where to make the files: the disk to measure")
    parser.add_argument("--out", help="a folder for the table and the figure")
    options = parser.parse_args(argv)
    effort, sizes = Effort(), [64, 10_000]
    if options.quick:
        effort, sizes = QUICK, [64, 192]
    if options.million:
        sizes.append(1_000_000)
    absent = {each: why for each in others.ENGINES if (why := each.missing())}
    here = [each for each in others.ENGINES if each not in absent]
    notes = [f"{each.name}: {each.promise}" for each in here]
    rows = [{"what": why, "engine": each.name} for each, why in absent.items()]
    measured: list[Row] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        wait = sync_ms(Path(name))
        for count in sizes:
            engines = [
                each(_made(Path(name) / f"{count}-{number}"))
                for number, each in enumerate(here)
                if count <= each.most
            ]
            measured += measure(engines, count, effort)
    with_growth(measured)
    rows = measured + imported(effort, here) + rows
    notes.insert(0, f"The disk of that folder takes {wait:.2f} ms to keep 4 KiB.")
    notes += [
        f"{each.name} is measured with at most {each.most:,} records."
        for each in here
        if each.most < max(sizes)
    ]
    if options.out:
        notes += write(Path(options.out), rows, notes)
    return show("side_by_side", rows, options.json, notes)


# What is written --------------------------------------------------------------------------------


def write(folder: Path, rows: Sequence[Row], notes: Sequence[str]) -> list[str]:
    """Write the table, and the figure where that is possible; return what to tell about them."""
    folder.mkdir(parents=True, exist_ok=True)
    picture, told = "side_by_side.png", []
    alt = draw(rows, folder / picture)
    lines = ["# memlab beside others", ""]
    if alt:
        lines += [f"![{alt}]({picture})", ""]
        told = [f"Figure: {picture}. In words: {alt}"]
    else:
        told = ["There is no matplotlib here: no figure was drawn."]
    lines += [markdown(rows), "", *(f"- {note}" for note in notes), ""]
    (folder / "side_by_side.md").write_text("\n".join(lines), encoding="utf-8")
    return told


def markdown(rows: Sequence[Row]) -> str:
    """Return one table: a line for each engine and size, a column for each thing measured."""
    columns = _columns(rows)
    lines: dict[tuple[str, Any], dict[str, str]] = {}
    for row in rows:
        engine, records = row["engine"], row.get("records", "")
        if "goal" not in row:  # nothing was measured
            lines[engine, ""] = {"": row["what"]}
            continue
        lines.setdefault((engine, records), {})[_column(row)] = _told(row)
    text = ["| engine | records | " + " | ".join(columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for (engine, records), cells in lines.items():
        told = [cells.get(name, "-") for name in columns]
        if "" in cells:
            told[0] = cells[""]
        count = f"{records:,}" if records else ""
        text.append(f"| {engine} | {count} | " + " | ".join(told) + " |")
    return "\n".join(text)


def draw(rows: Sequence[Row], path: Path) -> str:
    """Draw each engine's ratios at its second size, or its only one; return them in words.

    Nothing, where there is no matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    shown = _shown(rows)
    panels = [each for each in _columns(rows) if any(_column(row) == each for row in shown)]
    lines = math.ceil(len(panels) / 3)
    figure = Figure(figsize=(11, 2.2 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    most_bars = max(sum(_column(row) == each for row in shown) for each in panels)
    longest = 4 * max(row["ratio"] for row in shown)
    for place, axes in enumerate(figure.subplots(lines, 3, squeeze=False).flat):
        if place >= len(panels):
            axes.set_axis_off()
            continue
        mine = [row for row in shown if _column(row) == panels[place]]
        bars = axes.barh(
            [_who(row, shown) for row in mine],
            [row["ratio"] for row in mine],
            color=["black" if row["engine"].startswith("memlab") else "0.75" for row in mine],
            edgecolor="black",
            height=0.6,
        )
        axes.bar_label(bars, [_short(row["ratio"]) for row in mine], padding=3, fontsize=7)
        axes.axvline(1, color="black", linewidth=0.8)
        for row in mine:
            if row["goal"] and not row["goal"].endswith(" ms"):
                most = float(row["goal"].removeprefix("<= "))
                axes.axvline(most, color="black", linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
        axes.set_xlim(0.3, longest)  # the same in all, so that panels can be compared
        axes.set_ylim(most_bars - 0.5, -0.5)
        axes.set_title(panels[place], fontsize=9, loc="left")
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("times as long as raw sqlite3 (line: 1; dots: memlab's goal)", fontsize=8)
    figure.savefig(path, dpi=72)
    return _alt(shown, panels)


# Inside -----------------------------------------------------------------------------------------


def _task(
    engines: Sequence[Engine],
    task: Task,
    rounds: Sequence[Sequence[Job]],
    count: int,
    effort: Effort,
) -> Iterator[Row]:
    by_name = {engine.name: engine for engine in engines}
    calls = {Raw.name: others.call_of(by_name[Raw.name], task.floor)}
    calls |= {
        name: call
        for name, engine in by_name.items()
        if name != Raw.name and (call := others.call_of(engine, task.call))
    }
    for engine in engines:
        engine.syncing(task.synced)
    if task.job == "question":
        for call in calls.values():
            for job in {job.text: job for jobs in rounds for job in jobs}.values():
                call(job)  # the vector of each question is made here

    def put_back(name: str, jobs: Sequence[Job]) -> None:
        made = [job for job in jobs if job.key.startswith(MADE)]
        if made:
            by_name[name].syncing(False)
            by_name[name].take_back(made)
            by_name[name].syncing(task.synced)

    clock = time.perf_counter if task.synced else cpu
    found = in_turn(calls, rounds, clock, effort.seconds, put_back)
    for name, measured in found.items():
        times = median(measured.ratios)
        yield {
            "what": task.what,
            "time": "disk" if task.synced else "cpu",
            "records": count,
            "engine": name,
            "us": round(median(measured.times) * 1e6, 2),
            "ratio": round(times, 2),
            **goal(times, task.goals.get(name)),
        }


def _opened(engines: Sequence[Engine], jobs: Jobs, count: int, effort: Effort) -> Iterator[Row]:
    def call(engine: Engine) -> Callable[[Job], None]:
        def open_and_get(job: Job) -> None:
            engine.open()
            engine.get(job)

        return open_and_get

    by_name = {each.name: each for each in engines if others.call_of(each, "get")}
    found = in_turn(
        {name: call(engine) for name, engine in by_name.items()},
        jobs.rounds("known", effort.rounds, 1),
        time.perf_counter,
        effort.seconds,
        lambda name, done: by_name[name].close(),
    )
    for name, measured in found.items():
        took = median(measured.times)
        yield {
            "what": "open and get",
            "time": "wall",
            "records": count,
            "engine": name,
            "us": round(took * 1e6, 2),
            "ratio": round(median(measured.ratios), 2),
            **goal_ms(took * 1000, OPEN_GOAL_MS if name == others.Memlab.name else None),
        }


def _sizes(sizes: dict[str, int], count: int) -> Iterator[Row]:
    for name, size in sizes.items():
        times = size / sizes[Raw.name]
        yield {
            "what": "size",
            "time": "",
            "records": count,
            "engine": name,
            "bytes": size,
            "ratio": round(times, 2),
            **goal(times, SIZE_GOAL if name == others.Memlab.name else None),
        }


def _agree(engines: Sequence[Engine], jobs: Jobs) -> None:
    """Refuse to compare engines that do not give the same answers."""
    known, literal, asked = jobs.known(), jobs.literal(), jobs.question()
    raw = engines[0]
    value, many = raw.get(known), len(raw.search(literal))
    for engine in engines:
        if (get := others.call_of(engine, "get")) and get(known) != value:
            raise AssertionError(f"{engine.name} does not get what raw sqlite3 gets")
        if search := others.call_of(engine, "search"):
            found = search(literal)
            if len(found) != many or not all(literal.text in text.lower() for text in found):
                raise AssertionError(f"{engine.name} does not find what raw sqlite3 finds")
        for name in ("recall", "recall_by_words"):
            if (recall := others.call_of(engine, name)) and not recall(asked):
                raise AssertionError(f"{engine.name} recalls nothing")


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(_column(row) for row in rows if "goal" in row))


def _column(row: Row) -> str:
    return f"{row['what']} ({row['time']})" if row["time"] else row["what"]


def _told(row: Row) -> str:
    told = f"{row['ratio']:,.2f}" if "ratio" in row else f"{row['us'] / 1000:,.1f} ms"
    if row.get("goal"):
        told += f" (goal {row['goal']}: {row['met']})"
    if row.get("growth", "") != "":
        told += f", growth {row['growth']:.2f}"
    return told


def _shown(rows: Sequence[Row]) -> list[Row]:
    """Return, of each engine and thing, the ratio beside raw sqlite3 at its second size or last."""
    sizes = sorted({row["records"] for row in rows if type(row.get("records")) is int})
    chosen: dict[tuple[str, str], Row] = {}
    for row in rows:
        if "ratio" in row and row["engine"] != Raw.name and row["records"] in sizes[:2]:
            chosen[_column(row), row["engine"]] = row
    order = {each.name: place for place, each in enumerate(others.ENGINES)}
    return sorted(chosen.values(), key=lambda row: order[row["engine"]])


def _who(row: Row, shown: Sequence[Row]) -> str:
    """Return the engine's name, and its size where that is not the size of the others."""
    usual = max(each["records"] for each in shown)
    few = "" if row["records"] == usual else f", at {row['records']:,}"
    return row["engine"] + few


def _short(times: float) -> str:
    return f"{times:,.0f}" if times >= 100 else f"{times:.3g}"


def _alt(shown: Sequence[Row], panels: Sequence[str]) -> str:
    parts = []
    for panel in panels:
        mine = [row for row in shown if _column(row) == panel]
        parts.append(
            f"{panel}: " + ", ".join(f"{_who(row, shown)} {_short(row['ratio'])}" for row in mine)
        )
    return "Bars of how many times as long as raw sqlite3 each engine takes. " + "; ".join(parts)


if __name__ == "__main__":
    raise SystemExit(main())
