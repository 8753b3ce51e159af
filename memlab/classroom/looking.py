"""What the canaries look with: every text within reach of an answer, and what else comes out."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from memlab.classroom.reports import Finding
from memlab.classroom.trials import BIRDS, LETTERS, Broken, tried
from memlab.store import UserMemory

MOST_OBJECTS = 5000  # that one look may lead to
# What changes a memory or says yes. No name of these may be within an agent's reach.
HAND = (
    *("put", "delete", "remember", "undo", "pin", "forget", "forget_everything", "import_lines"),
    *("approvals", "lend", "for_user", "grant", "approve", "approve_all", "reject", "revoke"),
)
_MARKED = re.compile(f"z[qp][{LETTERS}]{{8}}|[{BIRDS}]{{3}}", re.IGNORECASE)


def texts(thing: Any) -> list[str]:
    """Return every text and number that `thing` shows or holds under a public name, in order."""
    return walked(thing)[0]


def walked(thing: Any, private: bool = False) -> tuple[list[str], list[Any]]:
    """Return the texts within reach, and the objects that were met on the way."""
    found: list[str] = []
    met: list[Any] = []
    known: set[int] = set()
    waiting = [thing]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            found.append(each)
        elif each is None or isinstance(each, bool | int | float | bytes | Path):
            found.append(repr(each))
        elif id(each) not in known:
            known.add(id(each))
            met.append(each)  # which also keeps its id from being given to another
            if len(met) > MOST_OBJECTS:
                raise Broken(f"more than {MOST_OBJECTS} objects within reach; they end nowhere")
            waiting.extend(reversed(list(_inside(each, private, found))))
    return found, met


def _inside(thing: Any, private: bool, found: list[str]) -> Iterator[Any]:
    """Yield what a thing holds; what it says of itself goes to `found`."""
    if isinstance(thing, Mapping):
        for name, value in thing.items():
            yield from (name, value)
    elif isinstance(thing, set | frozenset):
        yield from sorted(thing, key=repr)
    elif isinstance(thing, list | tuple | Iterator):
        yield from thing
    elif hasattr(thing, "to_html"):  # a table
        yield from (thing.to_html(), thing.to_string(), list(thing.columns))
        yield thing.to_numpy().tolist()
    elif hasattr(thing, "alt_text"):  # a figure
        yield from (thing.alt_text, repr(thing))
        yield [
            each.get_text() for each in thing.findobj(lambda artist: hasattr(artist, "get_text"))
        ]
    elif callable(thing):
        if private:
            cells = getattr(thing, "__closure__", None) or ()
            yield from (cell.cell_contents for cell in cells)
            yield getattr(thing, "__self__", None)
    else:
        found.append(repr(thing))
        if isinstance(thing, BaseException):
            yield from (str(thing), thing.args, getattr(thing, "__notes__", ()), thing.__cause__)
            if not thing.__suppress_context__:
                yield thing.__context__
        home = type(thing).__module__.partition(".")[0]
        if home in sys.stdlib_module_names and not isinstance(thing, BaseException):
            return  # Python's own, whose attributes lead anywhere
        if private and home != "memlab":
            return
        for name in dir(thing):
            if name.startswith("__") or (name.startswith("_") and not private):
                continue
            with contextlib.suppress(Exception):  # what cannot be read shows nothing
                yield getattr(thing, name)


def without_hand(thing: Any, private: bool = False) -> list[str]:
    """Return the texts within reach of `thing`; refuse where the owner's hand is among it."""
    found, met = walked(thing, private)
    for each in met:
        names = [name for name in HAND if _has(each, name)]
        if names:
            raise Broken(f"{type(each).__name__} within reach has {', '.join(names)}")
    return [] if private else found


def _has(thing: object, name: str) -> bool:
    return not isinstance(thing, str | bytes | Mapping) and hasattr(type(thing), name)


def outcome(act: Callable[..., Any], *args: Any) -> Any:
    """Return what `act` gives, or the error it raises on purpose."""
    try:
        return act(*args)
    except (AttributeError, NameError, Broken):
        raise
    except Exception as error:
        return error


def some(found: Any) -> Any:
    """Return what was found; where it is nothing, there was nothing to look at."""
    if not found:
        raise Broken("it gave nothing of the user's own, so nothing was tried")
    return found


def no_raw(found: list[str], but: str = "") -> None:
    """Refuse texts that a terminal or a page would act on, or show in another order."""
    for text in some(found):
        for char in text:
            if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") and char not in but:
                at = text.index(char)
                raise Broken(f"a raw U+{ord(char):04X} after {text[max(at - 40, 0) : at]!r}")


def first_difference(seen: list[str], own: list[str]) -> str:
    """Return where two lists of texts part; empty where they do not."""
    for one, other in zip_longest(seen, own, fillvalue="(nothing more)"):
        if one != other:
            return f"{one!r}, not {other!r}"
    return ""


def with_warnings(act: Callable[..., Any], *args: Any) -> Any:
    """Return what `act` gives, and what it warns of."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        answer = act(*args)
    return [answer, [str(warning.message) for warning in warned]]


# Panels -----------------------------------------------------------------------------------------


def panel_of(alice: UserMemory) -> Any:
    from memlab.panels import ApprovalPanel

    return ApprovalPanel(alice)


def markup(widget: Any) -> Iterator[tuple[str, str, str]]:
    """Yield every text of a widget and of what is in it, with its class and its place."""
    for name in ("value", "description", "tooltip", "placeholder"):
        value = getattr(widget, name, None)
        if isinstance(value, str):
            yield type(widget).__name__, name, value
    for child in getattr(widget, "children", ()):
        yield from markup(child)


# What goes where nobody asked for it ------------------------------------------------------------


class Noise(logging.Handler):
    """Keeps what is logged, warned or printed while the others look."""

    def __init__(self) -> None:
        super().__init__(level=logging.NOTSET)
        self.logged: list[str] = []
        self.warned: list[Any] = []
        self.printed = io.StringIO()

    def emit(self, record: logging.LogRecord) -> None:
        self.logged.append(f"{self.format(record)} {vars(record)}")

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        root = logging.getLogger()
        level, disabled = root.level, root.manager.disable
        root.addHandler(self)
        root.setLevel(logging.DEBUG)
        logging.disable(logging.NOTSET)
        try:
            with (
                warnings.catch_warnings(record=True) as self.warned,
                contextlib.redirect_stdout(self.printed),
                contextlib.redirect_stderr(self.printed),
            ):
                warnings.simplefilter("always")
                yield
        finally:
            root.removeHandler(self)
            root.setLevel(level)
            logging.disable(disabled)

    def findings(self) -> list[Finding]:
        findings: list[Finding] = []
        warned = [str(warning.message) for warning in self.warned]
        printed = self.printed.getvalue()
        for name, promise, bad in (
            ("logged", "No text of a user is logged", filter(_MARKED.search, self.logged)),
            ("warned", "No text of a user is warned of", filter(_MARKED.search, warned)),
            ("printed", "Nothing is printed but by a command", [printed] * bool(printed)),
        ):
            with tried(f"noise.{name}", promise, findings):
                for line in bad:
                    raise Broken(line)
        return findings
