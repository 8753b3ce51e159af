"""What only lessons need: claims, exercises, a real second program, the source of the library."""

from __future__ import annotations

from memlab.classroom.checks import check
from memlab.classroom.claims import ClaimFailed, claim, refute
from memlab.classroom.contract import check_store
from memlab.classroom.programs import ProgramFailed, run_python, source

__all__ = [
    "ClaimFailed",
    "ProgramFailed",
    "check",
    "check_store",
    "claim",
    "refute",
    "run_python",
    "source",
]
