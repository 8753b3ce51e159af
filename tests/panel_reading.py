"""What the tests of the panels share: a clock that can break, and how a widget is read."""

from __future__ import annotations

import html
import re

import ipywidgets

START = 1_790_000_000_000  # 2026-09-21 14:13:20 UTC
MINUTE = 60_000
HOSTILE = "<img src=x onerror=alert(1)></div><button>Approve</button> a\u202eb\u200bc"


class Clock:
    """A clock that a test can move, and break."""

    def __init__(self):
        self.now, self.broken = START, False

    def __call__(self):
        if self.broken:
            raise ZeroDivisionError("the clock stands still")
        return self.now


def every(widget):
    """A widget and all that stand in it, in order."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from every(child)


def markup(widget):
    found = "\n".join(each.value for each in every(widget) if isinstance(each, ipywidgets.HTML))
    return re.sub(r"<style>.*?</style>", "", found, flags=re.DOTALL)


def words(widget):
    """What a reader sees of a widget's text."""
    return html.unescape(re.sub(r"<[^>]+>", " ", markup(widget)))
