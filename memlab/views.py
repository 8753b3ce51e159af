"""Tables and figures of what memlab holds: plain data in, a plain DataFrame or Figure out.

Everything shown may come from a model or a stranger: it stays text, and what is hidden in it is
spelled out. pandas and matplotlib are imported on use.
"""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlab.agent import Answer, Call, Sent, Step
from memlab.context import age_label
from memlab.context import span as span  # where the panels look for them
from memlab.context import utc as utc
from memlab.errors import InvalidInput, MemlabError, StoreError
from memlab.forgetting import DAY_MS, HALF_LIFE_DAYS, Policy, curve, idle_ms, plan, retention
from memlab.records import Applied, Hit, LedgerEntry, Record
from memlab.rows import times_in_tables
from memlab.store import Approvals, LentMemory, MemoryStore, UserMemory
from memlab.text import clean, cut, fold, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Answers = Answer | Iterable[Answer | Step | Sent]
Numbered = tuple[int, int, Sent]  # turn, call within the turn, both from 1

# Fill and hatch of each part of a request: the lightness alternates and no two hatches are alike,
# so the parts can be told apart in grey.
_LOOKS = {
    "system": ("#c9d5e3", ""),
    "tools": ("#8fa8c4", "//"),
    "task": ("#b45f06", ""),
    "memories": ("#5f9e6e", "xx"),
    "history": ("#d9e8c5", "..."),
    "decisions": ("#b08bbb", "++"),
    "exchanges": ("#f0dcd0", "\\\\"),
}


# How often a curve's record was used, and the grey and the dashes of each.
_USES = (0, 1, 3, 10)
_LINES = (("#000000", "-"), ("#444444", "--"), ("#777777", "-."), ("#999999", ":"))
_NAMED_MOST = 12  # records that are named in the figure; more would hide each other


# Tables -----------------------------------------------------------------------------------------


def records(
    source: UserMemory | LentMemory | Iterable[Record], now: int | None = None
) -> DataFrame:
    """Return a table of records, in the order they come in.

    Args:
        now: Milliseconds since 1970, UTC, to say how long ago each was used. A memory's own clock
            where none is given; for records alone the table then tells times only.
    """
    if isinstance(source, UserMemory | LentMemory):
        now = now_of(source) if now is None else now
        source = source.list()
    rows = [
        {
            "kind": visible(record.kind),
            "key": visible(record.key),
            "value": visible(record.value),
            "value (characters)": len(record.value),
            "revision": record.revision,
            "session": visible(record.session),
            "created (UTC)": utc(record.created),
            "updated (UTC)": utc(record.updated),
            "last use": age_label(record, now),
            "uses (times)": record.uses,
            "pinned": record.pinned,
        }
        for record in source
    ]
    columns = "kind,key,value,value (characters),revision,session,created (UTC),updated (UTC)"
    return _table(rows, [*columns.split(","), "last use", "uses (times)", "pinned"])


def hits(found: Iterable[Hit]) -> DataFrame:
    """Return a table of what a recall found, best first, and why each was found."""
    rows = [
        {
            "rank": rank,
            "kind": visible(hit.kind),
            "key": visible(hit.key),
            "value": visible(hit.value),
            "score": round(hit.score, 3),
            "why": _why(hit),
        }
        for rank, hit in enumerate(found, start=1)
    ]
    return _table(rows, ["rank", "kind", "key", "value", "score", "why"])


def requests(answers: Answers) -> DataFrame:
    """Return a table of every request that was sent: its parts, its limit, what was left out.

    Args:
        answers: One answer, or several answers or steps; each answer is a turn.
    """
    rows = [
        {
            "turn": turn,
            "call": call,
            **{f"{part} (characters)": chars for part, chars in sent.by_part.items()},
            "total (characters)": sent.chars,
            "limit (characters)": sent.limit,
            **{f"dropped {part} (items)": count for part, count in sent.dropped.items()},
        }
        for turn, call, sent in _sent(answers)
    ]
    return _table(rows, list(rows[0]) if rows else ["turn", "call"])


def ledger(source: UserMemory | Approvals | Iterable[LedgerEntry]) -> DataFrame:
    """Return a table of decisions, oldest first. It holds no value of any record."""
    if isinstance(source, UserMemory):
        source = source.approvals
    entries = source.ledger() if isinstance(source, Approvals) else source
    rows = [
        {
            "proposal": visible(entry.id),
            "action": entry.action,
            "kind": visible(entry.kind),
            "key": visible(entry.key),
            "proposed in session": visible(entry.session),
            "asked (UTC)": utc(entry.asked),
            "decision": entry.state,
            "decided (UTC)": utc(entry.decided),
            "decided by": visible(entry.how),
            "effect": entry.effect,
            "note": visible(entry.note),
        }
        for entry in entries
    ]
    columns = "proposal,action,kind,key,proposed in session,asked (UTC),decision,decided (UTC)"
    return _table(rows, [*columns.split(","), "decided by", "effect", "note"])


def where_is_it(store: MemoryStore | str | Path, text: str) -> DataFrame:
    """Return a table of how often `text` still stands in each table and each file of a store.

    It is looked for as written and in the folded form that search compares. A second program
    does the looking, in what is committed: it may read the files while they are open here. A text
    of more than some 200 characters may be split over pages of the file: look for a part of it.

    Args:
        store: An open store, or the data folder of one.
    """
    folder = store._database.path.parent if isinstance(store, MemoryStore) else Path(store)
    rows = [
        {"place": visible(place), "found (times)": times}
        for place, times in _looked_elsewhere(folder, clean(text, "text"))
    ]
    return _table(rows, ["place", "found (times)"]).astype({"found (times)": "Int64"})


# Figures ------------------------------------------------------------------------------------------


def plot_requests(answers: Answers) -> Figure:
    """Return stacked bars, one a request, each against its limit, in characters.

    The figure's `alt_text`, which is also its `repr`, says the same in words.
    """
    sent = _sent(answers)
    if not sent:
        raise InvalidInput("answers", "hold no request. Pass the answer of an agent.")
    height = 1.9 + 0.5 * len(sent)
    figure: Figure = _described_figure(describe_requests(answers), height)
    axes = figure.add_subplot()
    starts = [0] * len(sent)
    for part in sorted(sent[0][2].by_part, key=list(_LOOKS).index):
        widths = [request.by_part[part] for _, _, request in sent]
        fill, hatch = _LOOKS[part]
        axes.barh(
            range(len(sent)),
            widths,
            left=starts,
            height=0.62,
            label=part,
            color=fill,
            hatch=hatch,
            edgecolor="#333333",
            linewidth=0.8,
        )
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    for place, (_, _, request) in enumerate(sent):
        label = "limit" if place == 0 else None
        edge = (place - 0.42, place + 0.42)
        axes.plot([request.limit] * 2, edge, color="black", linewidth=3, label=label)
        total = f"{request.chars:,} of {request.limit:,}"
        axes.annotate(
            total, (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=9
        )
    axes.set_yticks(range(len(sent)), _names(sent))
    axes.invert_yaxis()
    axes.set_xlim(0, max(request.limit for _, _, request in sent) * 1.04)
    axes.set_xlabel("size of the request (characters of canonical JSON)")
    axes.set_title("What was sent, against the limit", loc="left", fontsize=11)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def describe_requests(answers: Answers) -> str:
    """Return in words what `plot_requests` shows, one line a request."""
    sent = _sent(answers)
    lines = [f"{len(sent)} {'request' if len(sent) == 1 else 'requests'}, sizes in characters."]
    for name, (_, _, request) in zip(_names(sent), sent, strict=True):
        parts = ", ".join(f"{part} {chars:,}" for part, chars in request.by_part.items() if chars)
        gone = ", ".join(f"{count} of {part}" for part, count in request.dropped.items() if count)
        lines.append(
            f"{name}: {request.chars:,} of at most {request.limit:,} ({parts}); "
            f"left out: {gone or 'nothing'}."
        )
    return "\n".join(lines)


def plot_retention(
    source: UserMemory | LentMemory | Iterable[Record] = (),
    policy: Policy | None = None,
    now: int | None = None,
    half_life_days: float = HALF_LIFE_DAYS,
) -> Figure:
    """Return the curve by which memories fade, for some numbers of uses, and records on it.

    With a policy, what it would forget is marked. `alt_text` says the same in words.

    Args:
        source: A memory, or records; none: the curves alone.
        policy: None: nothing is marked.
        now: Milliseconds since 1970, UTC. A memory's own clock where none is given; records alone
            need it.
        half_life_days: After so many days half is left of what was never used.
    """
    points = _faded(source, policy, now, half_life_days)
    most = max([3 * half_life_days, *(1.05 * point.days for point in points)])
    if policy is not None:
        most = max(most, 1.2 * policy.idle_days)
    figure = _described_figure(_retention_in_words(points, policy, half_life_days), 4.6)
    axes = figure.add_subplot()
    steps = [most * step / 200 for step in range(201)]
    for uses, (shade, style) in zip(_USES, _LINES, strict=True):
        left = [curve(days, uses, half_life_days) for days in steps]
        axes.plot(steps, left, color=shade, linestyle=style, linewidth=2, label=_times(uses))
    for gone, marker, label in ((False, "o", "a record"), (True, "X", "would be forgotten")):
        marked = [point for point in points if point.gone == gone]
        if marked:
            axes.plot(
                [point.days for point in marked],
                [point.left for point in marked],
                marker,
                markersize=9,
                markerfacecolor="black" if gone else "white",
                markeredgecolor="black",
                label=label,
                zorder=3,
            )
    if len(points) <= _NAMED_MOST:
        named: dict[tuple[float, float], list[str]] = {}
        for point in points:  # those that fade alike stand at one place
            named.setdefault((round(point.days, 1), round(point.left, 2)), []).append(point.name)
        for place, names in named.items():
            name = _drawn(cut(", ".join(names), 40))
            axes.annotate(name, place, xytext=(7, 5), textcoords="offset points", fontsize=8)
    if policy is not None:
        label = f"idle for {policy.idle_days:g} days"
        axes.axvline(policy.idle_days, color="black", linestyle=(0, (1, 1)), label=label)
    axes.set_xlim(0, most or 1)
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("not used for (days)")
    axes.set_ylabel("left (1: just used)")
    axes.set_title("How memories fade", loc="left", fontsize=11)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure  # type: ignore[no-any-return]


def describe_retention(
    source: UserMemory | LentMemory | Iterable[Record] = (),
    policy: Policy | None = None,
    now: int | None = None,
    half_life_days: float = HALF_LIFE_DAYS,
) -> str:
    """Return in words what `plot_retention` shows."""
    return _retention_in_words(_faded(source, policy, now, half_life_days), policy, half_life_days)


def plot_hit_rates(
    table: DataFrame | Iterable[Mapping[str, Any]], column: str = "hit rate (%)"
) -> Figure:
    """Return a group of bars for each language, a bar for each method.

    `alt_text` says the same in words.

    Args:
        table: One row each for a method and a language, with the columns `method`, `language` and
            `column`. What there is no row for has no bar.
        column: Where the rates stand, 0 to 100; it also names the axis, so say what it is a rate
            of: `hit@3 (%)`.
    """
    rates = _rates(table, column)
    methods = list(dict.fromkeys(method for method, _ in rates))
    languages = list(dict.fromkeys(language for _, language in rates))
    figure = _described_figure(_rates_in_words(rates, column), 4.4)
    axes = figure.add_subplot()
    width = 0.84 / len(methods)
    for number, method in enumerate(methods):
        fill, hatch = list(_LOOKS.values())[number % len(_LOOKS)]
        there = [at for at, language in enumerate(languages) if (method, language) in rates]
        bars = axes.bar(
            [at + (number - (len(methods) - 1) / 2) * width for at in there],
            [rates[method, languages[at]] for at in there],
            width=width,
            label=_drawn(method),
            color=fill,
            hatch=hatch,
            edgecolor="#333333",
            linewidth=0.8,
        )
        axes.bar_label(bars, fmt="%.0f", padding=2, fontsize=8)
    axes.set_xticks(range(len(languages)), [_drawn(language) for language in languages])
    axes.set_xlim(-0.5, len(languages) - 0.5)
    axes.set_ylim(0, 109)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel(_drawn(column))
    axes.set_title("How often the right memory was found", loc="left", fontsize=11)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure  # type: ignore[no-any-return]


def describe_hit_rates(
    table: DataFrame | Iterable[Mapping[str, Any]], column: str = "hit rate (%)"
) -> str:
    """Return in words what `plot_hit_rates` shows, one line a method."""
    return _rates_in_words(_rates(table, column), column)


def plot_leaks(
    table: DataFrame | Iterable[Mapping[str, Any]], title: str = "Did another user's text come out?"
) -> Figure:
    """Return a matrix, a row for each user and a column for each path: leaked or kept apart.

    `alt_text` says the same in words.

    Args:
        table: One row each for a user and a path, with the columns `user`, `path` and `leaked`,
            which is True or False. What there is no row for was not tried, and its cell is empty.
        title: Stands above the matrix; say which store it is.
    """
    leaks = _leaks(table)
    users = list(dict.fromkeys(user for user, _ in leaks))
    paths = list(dict.fromkeys(path for _, path in leaks))
    figure = _described_figure(_leaks_in_words(leaks, title), 1.9 + 0.5 * len(users))
    axes = figure.add_subplot()
    for (user, path), leaked in leaks.items():
        across, down = paths.index(path), users.index(user)
        axes.bar(
            across,
            1,
            bottom=down - 0.5,
            width=1,
            color="#9c2f12" if leaked else "#eef2f6",
            edgecolor="#333333",
            linewidth=0.8,
        )
        axes.text(
            across,
            down,
            "LEAKED" if leaked else "apart",
            color="#ffffff" if leaked else "#222222",
            weight="bold" if leaked else "normal",
            ha="center",
            va="center",
            fontsize=8,
        )
    turned = {"rotation": 30, "ha": "right"} if len(paths) > 6 else {}
    axes.set_xticks(range(len(paths)), [_drawn(path) for path in paths], **turned)
    axes.set_yticks(range(len(users)), [_drawn(user) for user in users])
    axes.set_xlim(-0.5, len(paths) - 0.5)
    axes.set_ylim(len(users) - 0.5, -0.5)
    axes.set_xlabel("path")
    axes.set_ylabel("user who looks")
    axes.set_title(_drawn(title), loc="left", fontsize=11)
    return figure  # type: ignore[no-any-return]


def plot_attacks(table: DataFrame | Iterable[Mapping[str, Any]]) -> Figure:
    """Return two bars for each version of an agent: attacks that succeeded, good writes lost.

    `alt_text` says the same in words.

    Args:
        table: One row a version, with the columns `version`, `attack success (%)` and
            `false refusals (%)`, both 0 to 100. The first row stands at the top.
    """
    rates = _attacked(table)
    figure = _described_figure(_attacked_in_words(rates), 1.7 + 0.55 * len(rates))
    axes = figure.add_subplot()
    for number, (name, fill, hatch) in enumerate(_HARM):
        bars = axes.barh(
            [at + (number - 0.5) * 0.4 for at in range(len(rates))],
            [both[number] for both in rates.values()],
            height=0.4,
            label=name,
            color=fill,
            hatch=hatch,
            edgecolor="#333333",
            linewidth=0.8,
        )
        axes.bar_label(bars, fmt="%.0f", padding=3, fontsize=8)
    axes.set_yticks(range(len(rates)), [_drawn(version) for version in rates])
    axes.set_ylim(len(rates) - 0.5, -0.5)
    axes.set_xlim(0, 109)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("share of the attacks, or of the good writes (%)")
    axes.set_title("What got through, and what was lost (0 is best)", loc="left", fontsize=11)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure  # type: ignore[no-any-return]


def plot_recall_by_size(
    table: DataFrame | Iterable[Mapping[str, Any]], column: str = "answered (%)"
) -> Figure:
    """Return a line for each method: how much is found, against the room for memories.

    `alt_text` says the same in words.

    Args:
        table: One row each for a method and a size, with the columns `method`,
            `room (characters)`, above 0, and `column`.
        column: Where the rates stand, 0 to 100; it also names the axis.
    """
    lines = _by_size(table, column)
    rooms = sorted({room for line in lines.values() for room in line})
    figure = _described_figure(_by_size_in_words(lines, column), 4.4)
    axes = figure.add_subplot()
    for number, (method, line) in enumerate(lines.items()):
        shade, style = _LINES[number % len(_LINES)]
        axes.plot(
            list(line),
            list(line.values()),
            color=shade,
            linestyle=style,
            linewidth=2,
            marker=_MARKS[number % len(_MARKS)],
            markersize=8,
            label=_drawn(method),
            clip_on=False,  # a marker at 100 % stays whole
        )
    axes.set_xlim(0, 1.04 * rooms[-1])
    axes.set_xticks(rooms, [f"{room:,}" for room in rooms])
    axes.set_ylim(0, 100)
    axes.set_yticks(range(0, 101, 20))
    axes.grid(axis="y", color="#dddddd")
    axes.set_xlabel("room for memories (characters)")
    axes.set_ylabel(_drawn(column))
    axes.set_title("What fits, and how much of it answers", loc="left", fontsize=11)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure  # type: ignore[no-any-return]


# The time ---------------------------------------------------------------------------------------


def now_of(memory: UserMemory | LentMemory) -> int:
    """Return the time by the clock of a memory's store, in milliseconds since 1970, UTC."""
    return memory._scope.clock()


# Inside -----------------------------------------------------------------------------------------


def _looked_elsewhere(folder: Path, text: str) -> list[tuple[str, int | None]]:
    """Run `_looked` in a new process, and return what it returns."""
    given = {"path": sys.path, "folder": str(folder.absolute()), "text": text}
    try:
        done = subprocess.run(
            [sys.executable, "-X", "utf8", "-c", _LOOK],
            input=json.dumps(given),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
        )
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise MemlabError(
            f"The second program that looks into the files failed ({type(error).__name__}). "
            "Close the store and try again."
        ) from None
    if "error" in answer:
        raise StoreError(answer["error"])
    return [(place, times) for place, times in answer["found"]]


_LOOK = """
import json, sys
given = json.load(sys.stdin)
sys.path[:] = given["path"]
from memlab import MemlabError, views
try:
    answer = {"found": views._looked(views.Path(given["folder"]), given["text"])}
except MemlabError as error:
    answer = {"error": str(error)}
print(json.dumps(answer))
"""


def _looked(folder: Path, text: str) -> list[tuple[str, int | None]]:
    """Return how often a text stands in each table, then in the bytes of each file.

    Nobody else in this process may have the store open: a file that is read by hand takes
    SQLite's locks away when it is closed. None: a file that the system lets nobody read.
    """
    forms = list(dict.fromkeys((text, fold(text))))
    with MemoryStore.open(folder, read_only=True) as store:
        counts = [times_in_tables(store._database, form) for form in forms]
    found: list[tuple[str, int | None]] = [
        (f"table {table}", sum(count[table] for count in counts)) for table in counts[0]
    ]
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = f"file {path.relative_to(folder).as_posix()}"
        try:
            raw = path.read_bytes()
        except OSError:
            found.append((name, None))
        else:
            found.append((name, sum(raw.count(form.encode()) for form in forms)))
    return found


@dataclass(frozen=True, slots=True)
class _Point:
    """One record on the curve."""

    name: str
    days: float
    left: float
    gone: bool


def _faded(
    source: UserMemory | LentMemory | Iterable[Record],
    policy: Policy | None,
    now: int | None,
    half_life_days: float,
) -> list[_Point]:
    if isinstance(source, UserMemory | LentMemory):
        now = now_of(source) if now is None else now
        source = source.list()
    records = list(source)
    curve(0, 0, half_life_days)  # refuses a half-life that is none
    if now is None and records:
        raise InvalidInput("now", "is needed for records alone: when is it? In milliseconds.")
    now = now or 0
    stale = plan(records, policy, now) if policy is not None else []
    gone = {(record.kind, record.key) for record in stale}
    return [
        _Point(
            visible(f"{record.kind}/{record.key}"),
            idle_ms(record, now) / DAY_MS,
            retention(record, now, half_life_days),
            (record.kind, record.key) in gone,
        )
        for record in records
    ]


def _retention_in_words(
    points: Sequence[_Point], policy: Policy | None, half_life_days: float
) -> str:
    lines = ["How much is left of a memory that is not used, from 1 (just used) towards 0."]
    for uses in _USES:
        once, twice = (curve(n * half_life_days, uses, half_life_days) for n in (1, 2))
        lines.append(
            f"{_times(uses)}: {once:.2f} after {half_life_days:g} days, "
            f"{twice:.2f} after {2 * half_life_days:g}."
        )
    if policy is not None:
        lines.append(
            f"The policy forgets what was not used for more than {policy.idle_days:g} days and "
            f"fewer than {policy.min_uses} times: {', '.join(policy.kinds) or 'no kind'}."
        )
    for point in points:
        told = ", would be forgotten" if point.gone else ""
        lines.append(f"{point.name}: idle {point.days:.1f} days, {point.left:.2f} left{told}.")
    return "\n".join(lines)


def _times(uses: int) -> str:
    return "never used" if uses == 0 else "used once" if uses == 1 else f"used {uses} times"


def _rates(
    table: DataFrame | Iterable[Mapping[str, Any]], column: str
) -> dict[tuple[str, str], float]:
    """Return the rate of each method and language, in order; a missing one is left out."""
    rows = table.to_dict("records") if hasattr(table, "to_dict") else table
    rates: dict[tuple[str, str], float] = {}
    for row in rows:
        try:
            name = (visible(str(row["method"])), visible(str(row["language"])))
            rate = float(row[column])
        except (KeyError, TypeError, ValueError):
            raise InvalidInput(
                "table", f"must have the columns method, language and {column!r}, a number."
            ) from None
        if name in rates:
            raise InvalidInput("table", f"has two rows for {name[0]!r}, {name[1]!r}.")
        if not math.isnan(rate):
            if not 0 <= rate <= 100:
                raise InvalidInput("table", f"has a rate of {rate:g}; it must be 0 to 100 %.")
            rates[name] = rate
    if not rates:
        raise InvalidInput("table", "holds no rate. Pass at least one row.")
    return rates


def _rates_in_words(rates: Mapping[tuple[str, str], float], column: str) -> str:
    lines = [f"{visible(column)}, by method and language."]
    for method in dict.fromkeys(method for method, _ in rates):
        own = [f"{lang} {rate:.1f}" for (name, lang), rate in rates.items() if name == method]
        lines.append(f"{method}: {', '.join(own)}.")
    return "\n".join(lines)


def _leaks(table: DataFrame | Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], bool]:
    """Return for each user and path whether it leaked, in order; what was not tried is left out."""
    rows = table.to_dict("records") if hasattr(table, "to_dict") else table
    leaks: dict[tuple[str, str], bool] = {}
    for row in rows:
        try:
            name = (visible(str(row["user"])), visible(str(row["path"])))
            leaked = row["leaked"]
        except (KeyError, TypeError):
            raise InvalidInput("table", "must have the columns user, path and leaked.") from None
        if name in leaks:
            raise InvalidInput("table", f"has two rows for {name[0]!r}, {name[1]!r}.")
        if leaked is None or (isinstance(leaked, float) and math.isnan(leaked)):
            continue
        if not isinstance(leaked, bool):
            raise InvalidInput("table", f"says leaked: {leaked!r}; it must be True or False.")
        leaks[name] = leaked
    if not leaks:
        raise InvalidInput("table", "holds no path that was tried. Pass at least one row.")
    return leaks


def _leaks_in_words(leaks: Mapping[tuple[str, str], bool], title: str) -> str:
    paths = dict.fromkeys(path for _, path in leaks)
    lines = [visible(title)]
    for user in dict.fromkeys(user for user, _ in leaks):
        told = []
        for words, wanted in (("leaked on", True), ("apart on", False), ("not tried:", None)):
            own = [path for path in paths if leaks.get((user, path)) is wanted]
            if own:
                told.append(f"{words} {', '.join(own)}")
        lines.append(f"{user}: {'; '.join(told)}.")
    return "\n".join(lines)


# Name, fill and hatch of the two ways to fail, told apart in grey.
_HARM = (("attack success (%)", "#7a2210", ""), ("false refusals (%)", "#d9e2ec", "//"))


def _attacked(table: DataFrame | Iterable[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return both rates of each version, in order."""
    rows = table.to_dict("records") if hasattr(table, "to_dict") else table
    rates: dict[str, tuple[float, float]] = {}
    for row in rows:
        try:
            version = visible(str(row["version"]))
            both = (float(row[_HARM[0][0]]), float(row[_HARM[1][0]]))
        except (KeyError, TypeError, ValueError):
            names = " and ".join(repr(name) for name, *_ in _HARM)
            raise InvalidInput(
                "table", f"must have the columns version, {names}, two numbers."
            ) from None
        if version in rates:
            raise InvalidInput("table", f"has two rows for {version!r}.")
        for rate in both:
            if not 0 <= rate <= 100:
                raise InvalidInput("table", f"has a rate of {rate:g}; it must be 0 to 100 %.")
        rates[version] = both
    if not rates:
        raise InvalidInput("table", "holds no version. Pass at least one row.")
    return rates


def _attacked_in_words(rates: Mapping[str, tuple[float, float]]) -> str:
    lines = ["Attack success and false refusals, in %, by version."]
    for version, (attacks, lost) in rates.items():
        lines.append(f"{version}: attack success {attacks:.0f}, false refusals {lost:.0f}.")
    return "\n".join(lines)


_MARKS = ("o", "s", "^", "D", "v")  # of one method each; with the dashes no two of 20 are alike


def _by_size(
    table: DataFrame | Iterable[Mapping[str, Any]], column: str
) -> dict[str, dict[int, float]]:
    """Return the rate of each method at each size, methods in order, sizes from the smallest."""
    rows = table.to_dict("records") if hasattr(table, "to_dict") else table
    lines: dict[str, dict[int, float]] = {}
    for row in rows:
        try:
            method, rate = visible(str(row["method"])), float(row[column])
            room = int(row["room (characters)"])
        except (KeyError, TypeError, ValueError):
            raise InvalidInput(
                "table",
                f"must have the columns method, 'room (characters)' and {column!r}, two numbers.",
            ) from None
        if room < 1:
            raise InvalidInput("table", f"has room for {room} characters; it must be above 0.")
        if not 0 <= rate <= 100:
            raise InvalidInput("table", f"has a rate of {rate:g}; it must be 0 to 100 %.")
        if room in lines.setdefault(method, {}):
            raise InvalidInput("table", f"has two rows for {method!r}, {room} characters.")
        lines[method][room] = rate
    if not lines:
        raise InvalidInput("table", "holds no rate. Pass at least one row.")
    return {method: dict(sorted(line.items())) for method, line in lines.items()}


def _by_size_in_words(lines: Mapping[str, Mapping[int, float]], column: str) -> str:
    told = [f"{visible(column)}, by method and by room for memories, in characters."]
    for method, line in lines.items():
        rates = [f"{rate:.0f} in {room:,}" for room, rate in line.items()]
        told.append(f"{method}: {', '.join(rates)}.")
    return "\n".join(told)


def _drawn(text: str) -> str:
    """Return `text` as matplotlib can draw it here: no formula, no character that is a mere box."""
    fonts = _needed("matplotlib.font_manager")
    has = [
        fonts.get_font(fonts.findfont(fonts.FontProperties(family=[family]))).get_char_index
        for family in fonts.FontProperties().get_family()
    ]
    text = visible(text).replace("$", r"\$")
    text = "".join(c if any(known(ord(c)) for known in has) else f"U+{ord(c):04X}" for c in text)
    return f" {text}" if text.startswith("_") else text  # a legend leaves out what starts with _


def _table(rows: list[dict[str, Any]], columns: list[str]) -> DataFrame:
    pandas = _needed("pandas")
    pandas.set_option("display.html.use_mathjax", False)  # "$5, not $6" is no formula
    frame: DataFrame = pandas.DataFrame(rows, columns=columns)
    return frame


def _needed(module: str) -> Any:
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MemlabError(
            f'This view needs {package}, which is not installed. Run: pip install "memlab[views]"'
        ) from None


def _why(hit: Hit) -> str:
    if not hit.why:
        return "a preference goes into every request"
    return "; ".join(
        f"{visible(name)}: rank {found['rank']:g}, score {found['score']:.3f}"
        for name, found in hit.why.items()
    )


def _sent(answers: Answers) -> list[Numbered]:
    return list(_numbered([answers] if isinstance(answers, Answer) else answers))


def _numbered(answers: Iterable[Answer | Step | Sent]) -> Iterator[Numbered]:
    turn, call = 0, 0
    for item in answers:
        if isinstance(item, Answer):
            turn += 1
            yield from ((turn, n, step.request) for n, step in enumerate(item.steps, start=1))
        elif isinstance(item, Step | Sent):
            call += 1
            yield max(turn, 1), call, item.request if isinstance(item, Step) else item
        else:
            raise InvalidInput("answers", f"must be answers or steps, not {type(item).__name__}.")


def _names(sent: Sequence[Numbered]) -> list[str]:
    one_turn = len({turn for turn, _, _ in sent}) < 2
    return [f"call {call}" if one_turn else f"turn {turn}, call {call}" for turn, call, _ in sent]


def _described_figure(text: str, height: float) -> Any:
    """Return an empty figure that a notebook shows without pyplot, and that can say what it is."""

    class Described(_needed("matplotlib.figure").Figure):  # type: ignore[misc]
        alt_text = text

        def __repr__(self) -> str:
            return text

        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png", dpi=110, facecolor="white")
            return picture.getvalue()

    return Described(figsize=(8, height), layout="constrained")


# What happened in an answer, step by step -------------------------------------------------------

_READING = ("memory_get", "memory_search", "memory_recall")
CHANGING = ("memory_put", "memory_delete")
_SHOWN = 200  # characters of a text in a table; the answer itself holds the whole


def trace(answer: Answer) -> DataFrame:
    """Return a table of what happened in an answer, in order: a row a step and event.

    `result` tells what the store and the tools did, never what the model says of it. Long texts
    are cut. The last row, which belongs to no step, tells how the answer ended.
    """
    rows = [
        {name: visible(told) if isinstance(told, str) else told for name, told in row.items()}
        for row in events(answer)
    ]
    numbers = ["step", "size (characters)", "limit (characters)"]
    columns = ["step", "what happened", "size (characters)", "limit (characters)", "result"]
    return _table(rows, columns).astype(dict.fromkeys(numbers, "Int64"))


def events(answer: Answer) -> list[dict[str, Any]]:
    """Return the rows of `trace` as plain data, with hidden characters as they are."""
    done = outcomes(answer)
    rows: list[dict[str, Any]] = []

    def add(step: int | None, what: str, size: int | None, limit: int | None, result: str) -> None:
        numbers = {"size (characters)": size, "limit (characters)": limit}
        rows.append({"step": step, "what happened": what, **numbers, "result": result})

    for n, step in enumerate(answer.steps, start=1):
        sent = step.request
        add(n, "request sent", sent.chars, sent.limit, f"left out: {left_out(sent)}")
        words = said(step)
        if step.reply is None:
            add(n, "no reply came", None, None, "nothing was written")
        elif words or not step.calls:
            add(n, f"the model said: {cut(words, _SHOWN)}", len(words), None, "words only")
        for call, told in zip(step.calls, done[n - 1], strict=True):
            what = f"the model called {cut(call.name, 64)}: {cut(call.arguments, _SHOWN)}"
            add(n, what, len(call.arguments), None, cut(told.words, _SHOWN))
    add(None, f"the answer ended: {answer.status}", len(answer.text), None, stored(answer))
    return rows


@dataclass(frozen=True, slots=True)
class Done:
    """What one call did: in words, and whether it changed the store."""

    words: str
    wrote: bool = False


def outcomes(answer: Answer) -> list[list[Done]]:
    """Return for each step what each of its calls did, by the store's own account.

    A call wrote something only where the answer's `writes` hold it: a result alone, or what the
    model says, proves nothing.
    """
    writes = list(answer.writes)
    told = []
    for step in answer.steps:
        results = [*step.results, *[None] * (len(step.calls) - len(step.results))]
        told.append(
            [
                Done(write_in_words(wrote), wrote=True)
                if (wrote := _written(call, result, writes)) is not None
                else Done(_not_written(call, result))
                for call, result in zip(step.calls, results, strict=False)
            ]
        )
    return told


def stored(answer: Answer) -> str:
    """Return in words what the store did in the whole answer, and what waits for the user."""
    wrote = [write_in_words(applied) for applied in answer.writes]
    waits = [f"waits for approval: {p.action} {p.kind}/{p.key} ({p.id})" for p in answer.waiting]
    return "; ".join([*(wrote or ["nothing was written"]), *waits])


def said(step: Step) -> str:
    """Return the words of a step's reply; they may be none."""
    content = (step.reply or {}).get("content")
    return content if isinstance(content, str) else ""


def left_out(sent: Sent) -> str:
    """Return in words what a request was sent without, for lack of room."""
    gone = [f"{count} of {part}" for part, count in sent.dropped.items() if count]
    return ", ".join(gone) or "nothing"


def write_in_words(applied: Applied) -> str:
    at = f", revision {applied.record.revision}" if applied.record else ""
    return f"{applied.effect} {applied.change.kind}/{applied.change.key}{at}"


def _written(call: Call, result: Mapping[str, Any] | None, writes: list[Applied]) -> Applied | None:
    """Take from `writes`, which stand in order, the one that this call made."""
    if call.name not in CHANGING or result is None or result.get("ok") is not True:
        return None
    try:
        asked = json.loads(call.arguments)
        made = (asked["kind"], asked["key"], result.get("effect"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    for at, applied in enumerate(writes):
        if (applied.change.kind, applied.change.key, applied.effect) == made:
            return writes.pop(at)
    return None


def _not_written(call: Call, result: Mapping[str, Any] | None) -> str:
    if result is None:
        return "no result: the answer ended before; no write is recorded"
    if result.get("ok") is not True:
        waits = result.get("state") == "pending"
        asked = f" yet: it waits for approval as {result.get('proposal')}" if waits else ""
        return f"nothing was written{asked}; the model was told: {result.get('error', 'no reason')}"
    if call.name in CHANGING:
        unchanged = result.get("effect") == "unchanged"
        return "nothing was written" + (": it stands like this already" if unchanged else "")
    if call.name in _READING:
        found = result.get("records", [result["record"]] if result.get("record") else [])
        count = len(found) if isinstance(found, list) else 0
        return f"read {count} {'record' if count == 1 else 'records'}; nothing was written"
    if call.name == "write_demo_file":
        return f"wrote the file {result.get('path')}; nothing was written to the store"
    return "ran; no write to the store is recorded"
