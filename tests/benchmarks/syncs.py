"""How often one put waits for the disk: counted by strace, in a program of its own.

A wait is a call of fsync or fdatasync. Every put should have one, for its commit. SQLite also waits
when it copies a full log back into the file, every few hundred puts; those are told apart.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__" and not __package__:  # run as a file: find memlab in the checkout
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.report import Row, arguments, goal, show

CLONE = Path(__file__).parents[2]

# The marks are writes, too, so they stand in the trace where the puts begin and end. The first put
# into a new log also writes the log's header, so it is not counted.
_PROGRAM = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.benchmarks.store import LIMITS, Bare, Job, Ours
from memlab import MemoryStore
side, puts, folder = sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
if side == "memlab":
    MemoryStore.open(folder, create=True, limits=LIMITS).close()
memory = Ours(folder, 1) if side == "memlab" else Bare(folder / "bare.sqlite3")
out = os.open(os.devnull, os.O_WRONLY)
for number in range(-1, puts):
    memory.put(Job(0, "note", f"fact.{number % 32}", f"value {number}"))
    os.write(out, b"<put done>")
os.write(out, b"<all done>")
"""
_SYNC = re.compile(r"\bf(?:data)?sync\(\d+<([^>]*)>\)")


@dataclass(frozen=True)
class Waits:
    """How often the puts waited: for their commits, and for SQLite's copying of the log."""

    puts: int
    commits: int
    checkpoints: int
    checkpoint_waits: int


def count(trace: Iterable[str]) -> Waits:
    """Count the waits in strace's lines, from the first put's end to the last one's.

    A put that waits for the database file itself has copied the log, and the next one begins a new
    log: what these two wait for beyond one each is put down to the copying.
    """
    puts: list[Counter[str]] = []
    now: Counter[str] = Counter()
    for line in trace:
        if "<all done>" in line:
            break
        if "<put done>" in line:
            puts.append(now)
            now = Counter()
        elif found := _SYNC.search(line):
            now["log" if found[1].endswith("-wal") else "file"] += 1
    commits = checkpoints = extra = 0
    copied = False
    for put in puts[1:]:
        waits, copies = put.total(), put["file"] > 0
        mine = min(waits, 1) if copies or copied else waits
        commits += mine
        extra += waits - mine
        checkpoints += copies
        copied = copies
    return Waits(len(puts[1:]), commits, checkpoints, extra)


def traced(side: str, puts: int, folder: Path) -> Waits:
    """Run so many puts in a program of its own under strace.

    Raises:
        OSError, subprocess.CalledProcessError: strace is not here, or is not allowed to look.
    """
    trace, data = folder / f"{side}.trace", folder / side
    data.mkdir(mode=0o700)
    command = ["strace", "-f", "-y", "-e", "trace=fsync,fdatasync,write", "-o", str(trace)]
    program = [sys.executable, "-c", _PROGRAM, str(CLONE), side, str(puts), str(data)]
    subprocess.run([*command, *program], check=True, capture_output=True)
    return count(trace.read_text(encoding="utf-8", errors="replace").splitlines())


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(__doc__ or "").parse_args(argv)
    puts = 20 if options.quick else 2000
    rows: list[Row] = []
    if not shutil.which("strace"):
        return show("syncs", rows, options.json, ["There is no strace here: nothing was counted."])
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = {side: traced(side, puts, Path(folder)) for side in ("memlab", "bare")}
        except subprocess.CalledProcessError as error:
            why = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
            return show("syncs", rows, options.json, [f"strace could not look: {why}"])
    for side, waits in found.items():
        each = waits.commits / waits.puts
        row: Row = {"side": side, "puts": waits.puts, "commit waits": waits.commits}
        row |= {"a put": each, **goal(each, 1 if side == "memlab" else None)}
        row |= {"log copied": waits.checkpoints, "waits for that": waits.checkpoint_waits}
        rows.append(row)
    return show("syncs", rows, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
