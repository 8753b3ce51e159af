"""The README's commands, to be run as they stand there: `python3 .ci/readme.py demo` prints one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
FENCE = re.compile(r"^```(\w+)(?: ([\w-]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str, str]]:
    """Return every fenced block in order: its language, its name ("" for most), its text."""
    return FENCE.findall(README.read_text(encoding="utf-8"))


def command(name: str) -> str:
    """Return the one-line command in the block called `name`."""
    found = {called: text.strip() for _, called, text in blocks() if called}
    if name not in found:
        raise SystemExit(f"README.md has no block {name!r}. It has: {', '.join(found)}.")
    return found[name]


if __name__ == "__main__":
    print(command(sys.argv[1]))
