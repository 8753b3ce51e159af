"""Buttons over the user's own hand: a panel shows what the store holds and decides nothing.

What stands in a panel may come from a model or a stranger. It is escaped, hidden characters are
boxed, and nothing looks done before the store has answered.
"""

from __future__ import annotations

from memlab.errors import MemlabError

try:
    import ipywidgets  # noqa: F401 - asked for once, here, by a message that helps
except ImportError:
    raise MemlabError(
        'Panels need ipywidgets, which is not installed. Run: pip install "memlab[lab]"'
    ) from None

from memlab.panels.approval import ApprovalPanel
from memlab.panels.chat import ChatPanel
from memlab.panels.memory import MemoryPanel
from memlab.panels.parts import safe
from memlab.panels.trace import TracePanel

__all__ = ["ApprovalPanel", "ChatPanel", "MemoryPanel", "TracePanel", "safe"]
