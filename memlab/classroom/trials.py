"""What the kits of checks share: a promise that is tried in a folder of its own ends as a finding.

with tried("put.new", "A new record has revision 1.", findings), folder() as name:
    same(record.revision, 1, "the revision")
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from memlab.classroom.claims import shown
from memlab.classroom.reports import Finding
from memlab.errors import InvalidInput

Opener = Callable[..., Any]  # called like `MemoryStore.open`
E = TypeVar("E", bound=Exception)
T = TypeVar("T")

LETTERS = "bcdfghjkmnpqrtvwxz"
BIRDS = "鹮鸮鸱鹬鹳鸫鸬鹈鹕鹗鹞鹫鹭鹱鸢鸵鹀鹂鹃鹌鹎鹑鹛鹟鹡鹩"  # they stand in no text of a kit


class Broken(Exception):
    """Something else was found than was promised; the text says what."""


@contextmanager
def tried(name: str, promise: str, findings: list[Finding]) -> Iterator[None]:
    """Add one finding about what is done inside: held, or what it raised."""
    found = ""
    try:
        yield
    except Broken as broken:
        found = str(broken)
    except (Exception, SystemExit) as error:
        found = f"raised {told(error)}"
    findings.append(Finding(name, promise, not found, found))


def demand(holds: bool, found: str) -> None:
    """End the trial with `found` if this does not hold."""
    if not holds:
        raise Broken(found)


def same(found: object, wanted: object, what: str) -> None:
    """End the trial if `found` is not `wanted`."""
    if type(found) is not type(wanted) or found != wanted:
        raise Broken(f"{what}: {shown(found)}, not {shown(wanted)}")


def refused(expected: type[E], call: Callable[..., Any], /, *args: Any, **options: Any) -> E:
    """Return the error that this call must raise."""
    given = ", ".join([*map(shown, args), *(f"{n}={shown(v)}" for n, v in options.items())])
    what = f"{getattr(call, '__name__', 'the call')}({given})"
    try:
        call(*args, **options)
    except expected as error:
        return error
    except Exception as error:
        raise Broken(f"{what} raised {told(error)}, not {expected.__name__}") from None
    raise Broken(f"{what} was accepted; {expected.__name__} is promised")


def told(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # an error class of the store's own may be broken as well
        text = "an error that cannot be shown"
    return f"{type(error).__name__}: {text}"


def chosen(known: Mapping[str, T], only: Collection[str] | None) -> list[T]:
    """Return those of these names, or all, in their usual order.

    Raises:
        InvalidInput: a name is unknown, or `only` is one text.
    """
    wanted = known.keys() if only is None else only
    unknown = [only] if isinstance(only, str) else [name for name in wanted if name not in known]
    if unknown:
        names = ", ".join(known)
        raise InvalidInput("only", f"must name what there is, not {shown(unknown)}: {names}.")
    return [each for name, each in known.items() if name in wanted]


def folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that goes when its trial ends, even if a store has left a file open in it."""
    return tempfile.TemporaryDirectory(prefix="memlab-", ignore_cleanup_errors=True)


def apart(act: Callable[..., T], *args: Any) -> T:
    """Run `act` in a thread of its own: in a notebook an event loop runs in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act, *args).result()


class Words:
    """Words and Chinese characters that no store can know before."""

    def __init__(self, chance: random.Random):
        self._chance, self._birds = chance, chance.sample(BIRDS, len(BIRDS))

    def word(self) -> str:
        """Return a word that stands nowhere else, and that no stemming changes."""
        return "".join(self._chance.choices(LETTERS, k=12))

    def hanzi(self, count: int = 4) -> str:
        """Return so many Chinese characters, none of which was given out before."""
        taken, self._birds = self._birds[:count], self._birds[count:]
        return "".join(taken)
