"""memlab: a memory for LLM agents whose every write was approved by the person it is about.

Open a `MemoryStore`, take one user's own `UserMemory`, and give it to a `MemoryAgent`. Each module
opens with one sentence about what it is for; the README lists them in reading order.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import memlab.panels as panels
    import memlab.views as views
    from memlab.agent import Answer, MemoryAgent
    from memlab.budget import fit
    from memlab.context import format_context
    from memlab.embed import HashEmbedder, LocalEmbedder, OpenAIEmbedder
    from memlab.errors import (
        Conflict,
        InvalidInput,
        MemlabError,
        ModelError,
        NotApproved,
        OverBudget,
        QuotaReached,
        StoreBusy,
        StoreDamaged,
        StoreError,
        StoreForeign,
        StoreMissing,
        StoreTooNew,
    )
    from memlab.extraction import extract
    from memlab.forgetting import Policy, retention
    from memlab.models import LiveModel, RuleModel, ScriptedModel, call, say
    from memlab.records import (
        KINDS,
        Applied,
        Delete,
        Hit,
        LedgerEntry,
        Limits,
        Outcome,
        Problem,
        Proposal,
        Put,
        Record,
        Revision,
        Turn,
    )
    from memlab.request import Request, measure
    from memlab.retrieval import bm25, cosine
    from memlab.store import Approvals, LentMemory, MemoryStore, UserMemory
    from memlab.text import canonical, terms
    from memlab.tools import Tool

__version__ = "0.1.0"

_HOME = {
    "agent": ("Answer", "MemoryAgent"),
    "budget": ("fit",),
    "context": ("format_context",),
    "embed": ("HashEmbedder", "LocalEmbedder", "OpenAIEmbedder"),
    "errors": (
        *("Conflict", "InvalidInput", "MemlabError", "ModelError", "NotApproved", "OverBudget"),
        *("QuotaReached", "StoreBusy", "StoreDamaged", "StoreError", "StoreForeign"),
        *("StoreMissing", "StoreTooNew"),
    ),
    "extraction": ("extract",),
    "forgetting": ("Policy", "retention"),
    "models": ("LiveModel", "RuleModel", "ScriptedModel", "call", "say"),
    "records": (
        *("KINDS", "Applied", "Delete", "Hit", "LedgerEntry", "Limits", "Outcome", "Problem"),
        *("Proposal", "Put", "Record", "Revision", "Turn"),
    ),
    "request": ("Request", "measure"),
    "retrieval": ("bm25", "cosine"),
    "store": ("Approvals", "LentMemory", "MemoryStore", "UserMemory"),
    "text": ("canonical", "terms"),
    "tools": ("Tool",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Answer",
    "Applied",
    "Approvals",
    "Conflict",
    "Delete",
    "HashEmbedder",
    "Hit",
    "InvalidInput",
    "KINDS",
    "LedgerEntry",
    "LentMemory",
    "Limits",
    "LiveModel",
    "LocalEmbedder",
    "MemlabError",
    "MemoryAgent",
    "MemoryStore",
    "ModelError",
    "NotApproved",
    "OpenAIEmbedder",
    "Outcome",
    "OverBudget",
    "Policy",
    "Problem",
    "Proposal",
    "Put",
    "QuotaReached",
    "Record",
    "Request",
    "Revision",
    "RuleModel",
    "ScriptedModel",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreForeign",
    "StoreMissing",
    "StoreTooNew",
    "Tool",
    "Turn",
    "UserMemory",
    "bm25",
    "call",
    "canonical",
    "cosine",
    "extract",
    "fit",
    "format_context",
    "measure",
    "panels",
    "retention",
    "say",
    "terms",
    "views",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is asked for: `import memlab` alone stays quick."""
    if name in ("panels", "views"):
        return import_module(f"memlab.{name}")
    if name not in _MODULE:
        raise AttributeError(f"module 'memlab' has no attribute {name!r}")
    value = getattr(import_module(f"memlab.{_MODULE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
