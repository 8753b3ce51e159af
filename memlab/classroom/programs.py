"""A real second program, and the source of what is taught: nothing in a lesson is staged."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import memlab
from memlab.errors import InvalidInput, MemlabError
from memlab.records import check_count
from memlab.text import clean, visible

ERROR_LINES = 6  # of standard error, in the message


class ProgramFailed(MemlabError):
    """The program that a lesson started did not end well.

    Attributes:
        code: Its exit code; None: it was stopped because its time was up.
        output: What it had printed until then.
        errors: All that it wrote to standard error.
    """

    def __init__(self, message: str, code: int | None, output: str, errors: str):
        self.code, self.output, self.errors = code, output, errors
        super().__init__(message)

    def _render_traceback_(self) -> list[str]:
        """Tell a notebook to show the program's error, not our way to it."""
        return [f"ProgramFailed: {self}"]


def run_python(
    code: str,
    hash_seed: int | None = None,
    *,
    args: Sequence[str] = (),
    folder: str | Path | None = None,
    timeout_s: float = 30.0,
) -> str:
    """Run `code` as a new Python program and return what it printed, without the last line end.

    Args:
        hash_seed: Salt of `hash()` in that program; None: a new one every time.
        args: What the program finds in `sys.argv[1:]`.
        folder: Where it runs; None: an empty folder that is removed afterwards.
        timeout_s: Seconds it may take.

    Raises:
        ProgramFailed: it ended with an error, or not in time.
    """
    code = clean(code, "code")
    if hash_seed is not None:
        check_count(hash_seed, "hash_seed", 0, 2**32 - 1)
    with tempfile.TemporaryDirectory(prefix="memlab-", ignore_cleanup_errors=True) as empty:
        try:
            done = subprocess.run(
                [sys.executable, "-c", code, *map(str, args)],
                cwd=folder if folder is not None else empty,
                env=_environment(hash_seed),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired as late:
            message = f"the program did not end within {timeout_s:g} s, and was stopped."
            raise ProgramFailed(message, None, _text(late.stdout), _text(late.stderr)) from None
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-ERROR_LINES:])
        message = f"the program ended with exit code {done.returncode}.\n{visible(last)}".strip()
        raise ProgramFailed(message, done.returncode, done.stdout, done.stderr)
    return done.stdout.removesuffix("\n")


class Source(str):
    """Python source that a notebook shows as code; anywhere else it is plain text."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.rstrip("\n"))

    def _repr_markdown_(self) -> str:
        """Return a fenced block, which the page colours in its own theme."""
        longest = max(map(len, re.findall(r"`+", self)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}python\n{self.rstrip()}\n{fence}"


def source(obj: Any) -> Source:
    """Return the source of a function, class or module, as installed; it can be run again."""
    target: Any = obj.fget if isinstance(obj, property) else obj
    try:
        return Source(textwrap.dedent(inspect.getsource(target)))
    except (OSError, TypeError):
        name = getattr(obj, "__name__", type(obj).__name__)
        raise InvalidInput(
            "obj", f"there is no Python source for {name}. Pass a function, class or module."
        ) from None


# Inside -----------------------------------------------------------------------------------------


def _environment(hash_seed: int | None) -> dict[str, str]:
    """Return our own environment, in UTF-8, with this memlab within reach."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    environment["PYTHONUTF8"] = "1"
    environment["PYTHONHASHSEED"] = "random" if hash_seed is None else str(hash_seed)
    home = str(Path(memlab.__file__).resolve().parent.parent)
    if home != sysconfig.get_path("purelib"):  # a checkout
        known = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{home}{os.pathsep}{known}" if known else home
    return environment


def _text(output: str | bytes | None) -> str:
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else output or ""
