"""What only lessons need: claims, exercises, a real second program, and kits that try a store.

Lessons read `claims`, `programs`, `checks`, `workspace`. The kits read `reports` and `trials`, then
`contract/`; `looking`, `worlds`, `planted`, `canaries`; `scene`, `wishes`, `attacks`; and at the
end `scorecard`, which runs all three. Each imports only what stands before it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from memlab.classroom.checks import check
from memlab.classroom.claims import ClaimFailed, claim, refute
from memlab.classroom.programs import ProgramFailed, run_python, source

if TYPE_CHECKING:
    from memlab.classroom.attacks import run_attacks, run_good, score
    from memlab.classroom.canaries import check_canaries
    from memlab.classroom.contract import check_store
    from memlab.classroom.scorecard import audit

_ON_USE = {  # whoever only claims and checks need not load a kit
    "audit": "scorecard",
    "check_canaries": "canaries",
    "check_store": "contract",
    "run_attacks": "attacks",
    "run_good": "attacks",
    "score": "attacks",
}

__all__ = [
    "ClaimFailed",
    "ProgramFailed",
    "audit",
    "check",
    "check_canaries",
    "check_store",
    "claim",
    "refute",
    "run_attacks",
    "run_good",
    "run_python",
    "score",
    "source",
]


def __getattr__(name: str) -> Any:
    if name not in _ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ON_USE[name]}"), name)
