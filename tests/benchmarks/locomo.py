"""Does recall find the evidence? LoCoMo says: ten long conversations, 1,986 questions about them.

    python -m tests.benchmarks.locomo --locomo PATH [--embedder local|none|hash]

The data (Maharana et al., ACL 2024; CC BY-NC 4.0) is not part of memlab. PATH is `locomo10.json`
from https://github.com/snap-research/locomo, folder `data`.

Each conversation is one user, each turn one record, put in its session on its day; every question
is asked through the public `recall`. As in the paper, the score of a question is the share of its
evidence among the first k turns, 0 where it names none. The interval holds 95 % of what comes out
when as many questions are drawn anew, with repeats, a thousand times.

The constants of recall were chosen on every other conversation ('tuned'). Only the rest
('reported') says how good they are. DRAGON is the retriever of the paper's Table 3.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:  # run as a file: find memlab in the checkout
    sys.path.insert(0, str(Path(__file__).parents[2]))

from memlab import HashEmbedder, Limits, LocalEmbedder, MemlabError, MemoryStore
from tests.benchmarks.report import Row, arguments, show

FIRST = (5, 10, 25, 50)
DRAGON = {
    "all": (56.7, 66.2, 76.7, 82.7),
    "multi-hop": (35.4,),  # of single categories only these are at hand, at 5
    "temporal": (70.4,),
    "open-domain": (33.1,),
}
GOALS = {"local": (65.0, 75.4, 85.2, 90.7), "none": (62.0, 71.0, 80.0, 86.0)}
CATEGORIES = {4: "single-hop", 1: "multi-hop", 2: "temporal", 3: "open-domain", 5: "adversarial"}
EMBEDDERS: dict[str, Callable[[], Any]] = {
    "local": LocalEmbedder,
    "none": lambda: None,
    "hash": HashEmbedder,
}
LIMITS = Limits(
    value_chars=4000, records_per_user=10**5, records_total=10**6, database_bytes=10**10
)
HALVES = ("tuned", "reported")
DRAWS = 1000


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation: who said what, when, in which session."""

    id: str
    text: str
    session: str
    time: int  # milliseconds since 1970, UTC


@dataclass(frozen=True)
class Asked:
    """A question's half and category, and the share of its evidence among the first k turns."""

    half: str
    category: str
    shares: tuple[float, ...]


def turns(conversation: dict[str, Any]) -> Iterator[Turn]:
    """Yield the turns in order, a millisecond apart, as the paper writes them."""
    sessions = (name for name in conversation if re.fullmatch(r"session_\d+", name))
    for session in sorted(sessions, key=lambda name: int(name.rpartition("_")[2])):
        began = datetime.strptime(conversation[f"{session}_date_time"], "%I:%M %p on %d %B, %Y")
        start = int(began.replace(tzinfo=UTC).timestamp() * 1000)
        for number, turn in enumerate(conversation[session]):
            text = f'{turn["speaker"]} said, "{turn["text"]}"'
            if turn.get("blip_caption"):
                text += f" and shared {turn['blip_caption']}"
            yield Turn(turn["dia_id"], text, session, start + number)


def ask(
    samples: Sequence[dict[str, Any]], folder: Path, embedder: Any, most: int | None
) -> list[Asked]:
    """Put every conversation into a store, ask every question, and score what came back."""
    now = [0]
    with MemoryStore.open(folder, create=True, limits=LIMITS, clock=lambda: now[0]) as store:
        for sample in samples:
            for turn in turns(sample["conversation"]):
                now[0] = turn.time
                user = store.for_user(sample["sample_id"], session=turn.session)
                user.put("episode", turn.id.lower(), turn.text)
    asked = []
    with MemoryStore.open(folder, limits=LIMITS, embedder=embedder) as store:
        for number, sample in enumerate(samples):
            user = store.for_user(sample["sample_id"], session="benchmark")
            if embedder is not None:
                user.reindex(progress=lambda done, of: None)
            half = "reported" if number % 2 else "tuned"
            for question in sample["qa"][:most]:
                hits = user.recall(question["question"], limit=max(FIRST))
                found = [hit.key for hit in hits]
                asked.append(
                    Asked(
                        half,
                        CATEGORIES[question["category"]],
                        tuple(share(question["evidence"], found[:first]) for first in FIRST),
                    )
                )
    return asked


def share(evidence: Sequence[str], found: Sequence[str]) -> float:
    """Return which part of the evidence was found; 0 where there is none."""
    return sum(each.lower() in found for each in evidence) / len(evidence) if evidence else 0.0


def row(who: str, asked: Sequence[Asked], goals: Sequence[float] = ()) -> Row:
    """Return one line of the table: percent of the evidence, and how sure that is."""
    line: Row = {"recall": who, "questions": len(asked)}
    draw = random.Random(0)
    again = [draw.choices(asked, k=len(asked)) for _ in range(DRAWS)] if asked else []
    for at, first in enumerate(FIRST):
        means = sorted(100 * sum(each.shares[at] for each in some) / len(some) for some in again)
        mean = 100 * sum(each.shares[at] for each in asked) / max(len(asked), 1)
        line[f"R@{first}"] = round(mean, 1)
        if means:
            low, high = means[DRAWS // 40], means[-DRAWS // 40 - 1]
            line[f"95 % @{first}"] = f"{low:.1f}-{high:.1f}"
        if goals:
            line[f"goal @{first}"] = f">= {goals[at]:g} {'yes' if mean >= goals[at] else 'NO'}"
    return line


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--locomo", required=True, help="the path of locomo10.json")
    parser.add_argument("--embedder", choices=tuple(EMBEDDERS), default="local")
    options = parser.parse_args(argv)
    samples = json.loads(Path(options.locomo).read_text(encoding="utf-8"))
    if options.quick:
        samples = samples[:2]
    try:
        embedder = EMBEDDERS[options.embedder]()
        with tempfile.TemporaryDirectory() as name:
            asked = ask(samples, Path(name), embedder, 20 if options.quick else None)
    except MemlabError as error:
        return show("locomo", [], options.json, [f"Nothing was measured: {error}"])
    rows = [row(half, [each for each in asked if each.half == half]) for half in HALVES]
    rows.append(row("all", asked, GOALS.get(options.embedder, ())))
    for category in CATEGORIES.values():
        rows.append(row(category, [each for each in asked if each.category == category]))
    rows += [
        {"recall": f"DRAGON, {what}", **{f"R@{k}": v for k, v in zip(FIRST, values, strict=False)}}
        for what, values in DRAGON.items()
    ]
    notes = [f"Embedder: {options.embedder}. Percent of the evidence among the first k turns."]
    return show("locomo", rows, options.json, notes)


if __name__ == "__main__":
    raise SystemExit(main())
