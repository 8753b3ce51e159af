"""Everything that memlab raises on purpose, as one tree.

    MemlabError
    ├── InvalidInput     (also a ValueError)       the call itself is wrong
    ├── NotApproved      (also a PermissionError)  nobody has said yes to this change
    ├── StoreError                                 the file could not do it
    │   ├── QuotaReached   a limit on records, proposals or bytes
    │   ├── StoreBusy      another program holds the file
    │   ├── StoreDamaged   the file is broken
    │   ├── StoreTooNew    a later memlab wrote the file
    │   ├── StoreForeign   another program's file
    │   ├── StoreMissing   there is no file
    │   └── Conflict       the record is at another revision than expected
    ├── OverBudget         a request does not fit, whatever is left out
    └── ModelError         no usable reply came from the model

Each message says what was found, what the rule is and what to do next. The numbers in it are
attributes too, so that nobody has to read them out of the text.
"""

from __future__ import annotations

from typing import Any


class MemlabError(Exception):
    """The root: catch this to catch everything that memlab raises on purpose."""


class InvalidInput(MemlabError, ValueError):
    """An argument breaks a rule; nothing was done.

    Attributes:
        field: The name of the argument.
        rule: What it has to be, with the next step.
    """

    def __init__(self, field: str, rule: str):
        self.field, self.rule = field, rule
        super().__init__(f"{field}: {rule}")


class NotApproved(MemlabError, PermissionError):
    """The change is not approved, so it was not made.

    Attributes:
        proposal: The proposal that asks for it, with its id and state.
    """

    def __init__(self, message: str, proposal: Any):
        self.proposal = proposal
        super().__init__(message)


class StoreError(MemlabError):
    """The store could not do what was asked; nothing was written."""


class QuotaReached(StoreError):
    """A limit on how much may be stored is reached.

    Attributes:
        what: The field of `Limits` that was reached.
        limit: Its value.
    """

    def __init__(self, what: str, limit: int, message: str):
        self.what, self.limit = what, limit
        super().__init__(message)


class StoreBusy(StoreError):
    """Another program held the file for longer than we wait.

    Attributes:
        seconds: How long we waited.
    """

    def __init__(self, seconds: float):
        self.seconds = seconds
        super().__init__(
            f"Another program has held the store for more than {seconds:g} s. "
            "Nothing was written. Close it there, or try again."
        )


class StoreDamaged(StoreError):
    """The file, or a row of it, is not what memlab wrote.

    Attributes:
        detail: What was found.
    """

    def __init__(self, detail: str, next_step: str | None = None):
        self.detail = detail
        super().__init__(
            f"The store is damaged: {detail}. "
            + (next_step or "It was left as it is. Restore a copy, or open another folder.")
        )


class StoreTooNew(StoreError):
    """A later version of memlab wrote the file.

    Attributes:
        found: The file's schema version.
        supported: The newest that this memlab knows.
    """

    def __init__(self, found: int, supported: int):
        self.found, self.supported = found, supported
        super().__init__(
            f"The store has schema version {found}; this memlab reads up to {supported}. "
            "It was left as it is. Update memlab, or open another folder."
        )


class StoreForeign(StoreError):
    """The file belongs to another program.

    Attributes:
        detail: What was found.
    """

    def __init__(self, detail: str):
        self.detail = detail
        super().__init__(
            f"memory.sqlite3 is not a memlab store: {detail}. "
            "It was left as it is. Open another folder."
        )


class StoreMissing(StoreError):
    """There is no store in that folder."""

    def __init__(self) -> None:
        super().__init__(
            "There is no memory store in that folder, and reading never makes one. "
            "Check the folder. In code create=True makes a store; on the command line a first put."
        )


class Conflict(StoreError):
    """The record is at another revision than the change expects.

    Attributes:
        expected: The revision the change was made for (0: no record).
        found: The revision that stands now (0: no record).
    """

    def __init__(self, kind: str, key: str, expected: int, found: int):
        self.kind, self.key, self.expected, self.found = kind, key, expected, found
        stands = f"stands at revision {found} now" if found else "is not there now"
        made = f"for revision {expected}" if expected else "to make a new record"
        super().__init__(
            f"{kind}/{key} {stands}; this change was meant {made}. "
            "Nothing was written. Read it again and ask anew."
        )


class OverBudget(MemlabError):
    """What must be sent is larger than the limit, whatever is left out.

    Attributes:
        chars: The smallest size it can have, in characters of canonical JSON.
        limit: The size allowed.
    """

    def __init__(self, chars: int, limit: int):
        self.chars, self.limit = chars, limit
        super().__init__(
            f"The request needs at least {chars} characters; the limit is {limit}. "
            "The model was not called. Shorten the task or the newest tool result, "
            "or raise request_chars."
        )


class ModelError(MemlabError):
    """No usable reply came from the model.

    Attributes:
        status: The HTTP status, where there was one.
    """

    def __init__(self, message: str, status: int | None = None):
        self.status = status
        super().__init__(message)
