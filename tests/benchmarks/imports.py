"""What `import memlab` costs: CPU time of new programs, over one that imports nothing.

The heavy libraries are imported on use; the table says which of them each program has loaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

if __name__ == "__main__" and not __package__:  # run as a file: find memlab in the checkout
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.report import Row, arguments, goal, show

CLONE = Path(__file__).parents[2]
HEAVY = ("ipywidgets", "jsonschema", "matplotlib", "numpy", "openai", "pandas")
GOAL_MS = 30

# A program's own time starts with the interpreter; this is its last act.
_TELL = f"""
import json, sys, time
print(json.dumps([time.process_time(), [name for name in {HEAVY!r} if name in sys.modules]]))
"""
PROGRAMS = {
    "nothing": "",
    "import memlab": "import memlab",
    "and open a store": "import memlab\nwith memlab.MemoryStore.open('store', create=True): pass",
    "and load the agent": "import memlab\nmemlab.MemoryAgent",
}


def run(code: str, folder: str) -> tuple[float, list[str]]:
    """Run a new program; return its CPU time in seconds and the heavy libraries it has loaded."""
    environment = {**os.environ, "PYTHONPATH": str(CLONE), "PYTHONPYCACHEPREFIX": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or every run would compile everything
    done = subprocess.run(
        [sys.executable, "-c", code + _TELL],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, loaded = json.loads(done.stdout)
    return seconds, loaded


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(__doc__ or "").parse_args(argv)
    rounds = 2 if options.quick else 25
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    loaded: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            for name, code in PROGRAMS.items():
                seconds, loaded[name] = run(code, folder)
                if number:  # the first run compiles what it imports
                    times[name].append(seconds * 1000)
    bare = times["nothing"]
    rows: list[Row] = []
    for name, found in times.items():
        over = median(mine - floor for mine, floor in zip(found, bare, strict=True))
        row: Row = {
            "program": name,
            "cpu ms": round(median(found), 1),
            "over nothing": round(over, 1),
        }
        row |= goal(over, GOAL_MS if name == "import memlab" else None)
        rows.append({**row, "heavy libraries": ", ".join(loaded[name]) or "none"})
    return show("imports", rows, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
