"""Tables and figures of what memlab holds: plain data in, a plain DataFrame or Figure out.

Everything shown may come from a model or a stranger: it stays text, and what is hidden in it is
spelled out. pandas and matplotlib are imported on use.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from memlab.agent import Answer, Sent, Step
from memlab.errors import InvalidInput, MemlabError
from memlab.records import Hit, LedgerEntry, Record
from memlab.store import Approvals, LentMemory, UserMemory
from memlab.text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Answers = Answer | Iterable[Answer | Step | Sent]
Numbered = tuple[int, int, Sent]  # turn, call within the turn, both from 1

_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000))  # in milliseconds

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
            "last use": used(record, now),
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


# The figure -------------------------------------------------------------------------------------


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


# Words for times --------------------------------------------------------------------------------


def now_of(memory: UserMemory | LentMemory) -> int:
    """Return the time by the clock of a memory's store, in milliseconds since 1970, UTC."""
    return memory._scope.clock()


def utc(milliseconds: int) -> str:
    """Return a time as `2026-11-30 21:16:05`, UTC."""
    try:
        time = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms after 1970"
    return time.isoformat(sep=" ", timespec="seconds")


def used(record: Record, now: int | None) -> str:
    """Return `used 3 days ago` or `not used yet`; the time itself where the age is unknown."""
    if record.last_used is None:
        return "not used yet"
    if now is None or record.last_used > now:
        return f"used {utc(record.last_used)}"
    return f"used {span(now - record.last_used)} ago"


def span(milliseconds: int) -> str:
    """Return a length of time in its largest whole unit, rounded down: `3 days`."""
    for name, length in _UNITS:
        count = milliseconds // length
        if count > 0:
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "less than a minute"


# Inside -----------------------------------------------------------------------------------------


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
