"""Who may do what: the user's own hand does everything, what is lent to an agent only asks."""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from memlab import approvals, forgetting, retrieval, rows, vectors
from memlab.database import VERSION, Database, Transaction
from memlab.embed import Embedder
from memlab.errors import Conflict, InvalidInput, MemlabError, StoreError
from memlab.records import (
    Applied,
    Change,
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
    check_count,
    check_key,
    check_kind,
    check_name,
)
from memlab.text import canonical, clean, fold

EXPORT_VERSION = 1
_LINE_ENDS = {ord(c): f"\\u{ord(c):04x}" for c in "\x85\u2028\u2029"}  # JSON escapes the others

# Named here because inside the classes `list` is a method.
Records = list[Record]
Hits = list[Hit]
Revisions = list[Revision]


class MemoryStore:
    """One file of memories, many users. Open it, then ask it for one user's own object."""

    def __init__(
        self,
        database: Database,
        limits: Limits,
        clock: Callable[[], int],
        new_id: Callable[[], str],
        embedder: Embedder | None = None,
    ):
        self._database, self._clock, self._new_id = database, clock, new_id
        self.limits, self._embedder = limits, embedder

    @classmethod
    def open(
        cls,
        folder: str | Path,
        create: bool = False,
        *,
        limits: Limits | None = None,
        embedder: Embedder | None = None,
        clock: Callable[[], int] | None = None,
        new_id: Callable[[], str] | None = None,
        read_only: bool = False,
    ) -> MemoryStore:
        """Open the store in `folder`; with `create`, make it where there is none.

        While it is open, do not open memory.sqlite3 by hand in the same process: closing such a
        handle takes SQLite's locks away (a rule of POSIX). Another process may read it.

        Args:
            limits: The numbers to keep to; the defaults where none are given.
            embedder: Makes recall go by meaning too; None: by words alone.
            clock: Returns the time in milliseconds since 1970, UTC.
            new_id: Returns a name for a new proposal; one that is taken is passed over.
            read_only: Refuse every write; works where the folder cannot be written.

        Raises:
            StoreMissing, StoreDamaged, StoreForeign, StoreTooNew, StoreBusy: the file was left
                as it is.
            InvalidInput: the folder or the file is a symbolic link, or an argument is wrong.
        """
        if not isinstance(folder, str | Path) or not str(folder) or "\0" in str(folder):
            raise InvalidInput("folder", "must be the path of a folder.")
        if embedder is not None and not hasattr(embedder, "embed"):
            raise InvalidInput("embedder", "must have id, dim and embed(texts), or be None.")
        limits = limits or Limits()
        clock = clock or _now
        database = Database.open(Path(folder), limits, clock, create, read_only)
        return cls(database, limits, clock, new_id or _new_id, embedder)

    def for_user(self, user: str, session: str) -> UserMemory:
        """Return one user's own hand on their memories, in one session."""
        scope = _Scope(
            self._database,
            check_name(user, "user"),
            check_name(session, "session"),
            self.limits,
            self._clock,
            self._new_id,
            self._embedder,
        )
        return UserMemory(scope)

    def users(self) -> list[str]:
        """Return the names of all users about whom anything is stored."""
        return rows.users(self._database)

    def stats(self) -> dict[str, Any]:
        """Return counts and facts about the file, ready for JSON."""
        database = self._database
        by_kind = rows.counts(database)
        return {
            "schema_version": VERSION,
            "records": sum(by_kind.values()),
            "by_kind": by_kind,
            "users": len(self.users()),
            "database_bytes": database.bytes,
            "database_bytes_limit": self.limits.database_bytes,
            "journal": database.journal,
            "erase_pending": database.erase_pending,
        }

    def verify(self) -> list[Problem]:
        """Return everything in the file that is not as memlab writes it; nothing is good."""
        return list(rows.problems(self._database))

    def compact(self) -> bool:
        """Rewrite the file without what was deleted, however large; say whether that was done."""
        return self._database.erase(whatever_size=True)

    def close(self) -> None:
        """Close the file. What was put is durable already."""
        self._database.close()

    def __enter__(self) -> MemoryStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Scope:
    """One user in one session: what every statement is bound to."""

    database: Database
    user: str
    session: str
    limits: Limits
    clock: Callable[[], int]
    new_id: Callable[[], str]
    embedder: Embedder | None = None

    def embed(self, done: Applied) -> Applied:
        """Give a record that has just been stored its vector, outside the transaction."""
        if self.embedder is not None and done.record and done.effect in ("created", "replaced"):
            try:
                vectors.store(self.database, self.user, self.embedder, [done.record])
            except StoreError as error:  # the record is stored: to raise would say it is not
                warnings.warn(
                    f"Stored without a vector: {error} reindex() tries again.", stacklevel=4
                )
        return done

    def now(self) -> int:
        """Return the time in milliseconds, a whole number, whatever clock was passed."""
        now = self.clock()
        if type(now) is not int:
            raise InvalidInput("clock", "must return whole milliseconds since 1970, an int.")
        return now


class _Reading:
    """What the user and what is lent can read, of this one user. Reading never writes."""

    __slots__ = ("_scope",)

    def __init__(self, scope: _Scope):
        self._scope = scope

    @property
    def user(self) -> str:
        return self._scope.user

    @property
    def session(self) -> str:
        return self._scope.session

    @property
    def limits(self) -> Limits:
        return self._scope.limits

    def get(self, kind: str, key: str) -> Record | None:
        """Return exactly this record, or None where there is none."""
        scope = self._scope
        check_kind(kind)
        check_key(key, scope.limits.key_chars)
        return rows.get(scope.database, scope.user, kind, key)

    def list(self, kind: str | None = None) -> Records:
        """Return all records, by kind and key."""
        if kind is not None:
            check_kind(kind)
        return rows.every(self._scope.database, self._scope.user, kind)

    def search(self, query: str = "", limit: int = 5, kind: str | None = None) -> Records:
        """Return the records that hold `query` literally, in any case; the latest first.

        Args:
            query: Plain text, looked for in keys and values. `%`, `_`, `"` mean themselves.
            limit: 1 to 1000.
        """
        scope = self._scope
        query = clean(query, "query", limit=scope.limits.query_chars, blank=True)
        check_count(limit, "limit", 1, 1000)
        if kind is not None:
            check_kind(kind)
        return rows.find(scope.database, scope.user, fold(query), limit, kind)

    def recall(self, query: str, limit: int = 5, kind: str | None = None) -> Hits:
        """Return the records that answer `query` best, best first; each hit says why.

        Args:
            query: A question or words, at most as long as a task.
            limit: 1 to 1000.
        """
        scope = self._scope
        query = clean(query, "query", limit=scope.limits.task_chars, blank=True)
        check_count(limit, "limit", 1, 1000)
        if kind is not None:
            check_kind(kind)
        # All kinds are read: what was said around a record lends it part of its score.
        found = vectors.known(scope.database, scope.user, scope.embedder)
        close = None
        if scope.embedder is not None:
            close = vectors.similarities(found, scope.embedder, query)
        return retrieval.recall(found.records, query, limit, kind, close)

    def history(self, kind: str, key: str) -> Revisions:
        """Return all values the record has had, oldest first, the current one last."""
        check_kind(kind)
        check_key(key, self._scope.limits.key_chars)
        return rows.history(self._scope.database, self._scope.user, kind, key)

    def touch(self, records: Iterable[Record]) -> None:
        """Count one use of each of these records: they were really sent to a model."""
        scope = self._scope
        names = [(record.kind, record.key) for record in records]
        if names:
            with scope.database.transaction() as file:
                rows.touch(file, scope.user, names, scope.now())


class UserMemory(_Reading):
    """The user's own hand: writes at once, approves, forgets. No method takes a user."""

    __slots__ = ("approvals",)

    def __init__(self, scope: _Scope):
        super().__init__(scope)
        self.approvals = Approvals(scope)

    def __repr__(self) -> str:
        return f"UserMemory(user={self.user!r}, session={self.session!r})"

    def lend(self) -> LentMemory:
        """Return what an agent may hold: it reads and asks, and cannot say yes."""
        return LentMemory(self._scope)

    def put(self, kind: str, key: str, value: str, expect: int | None = None) -> Record:
        """Store `value`; it is durable when this returns. The same value again changes nothing.

        Args:
            expect: The revision it may replace; 0: only a new record; None: whatever is there.

        Raises:
            InvalidInput: the kind, key or value breaks a rule.
            Conflict: the record is at another revision than expected.
            QuotaReached: one record more would be too many, or the file is full.
        """
        scope = self._scope
        change = _checked(Put(kind, key, value, expect), scope.limits)
        with scope.database.transaction() as file:
            done = rows.write(file, scope.user, change, scope.session, scope.now(), scope.limits)
        scope.embed(done)
        assert done.record is not None
        return done.record

    def remember(self, text: str, kind: str = "note") -> Record:
        """Store `text` under a key made from it, so that the same text twice is one record."""
        text = clean(text, "text", limit=self._scope.limits.value_chars)
        key = "auto." + hashlib.sha256(text.encode()).hexdigest()[:16]
        found = self.get(kind, key)
        if found is None:
            try:
                return self.put(kind, key, text, expect=0)
            except Conflict:  # another process was quicker
                found = self.get(kind, key)
        if found is None or found.value != text:
            raise InvalidInput(
                "text", f"its key {kind}/{key} holds another text. Use put with a key of your own."
            )
        return found

    def delete(self, kind: str, key: str) -> bool:
        """Delete a record, its history and its text from the file; say whether it was there."""
        scope = self._scope
        try:
            check_kind(kind)
            check_key(key, scope.limits.key_chars)
        except InvalidInput:  # a damaged row can be deleted by the name that verify() gives
            if type(kind) is not str or type(key) is not str:
                raise
            with scope.database.transaction() as file:
                if rows.remove_misnamed(file, scope.user, kind, key):
                    return True
            raise
        with scope.database.transaction() as file:
            return rows.remove(file, scope.user, kind, key, scope.now()) or rows.remove_misnamed(
                file, scope.user, kind, key
            )

    def undo(self, kind: str, key: str, to_revision: int) -> Record:
        """Bring an earlier value back, as a new revision."""
        check_count(to_revision, "to_revision")
        known = self.history(kind, key)
        for revision in known:
            if revision.revision == to_revision:
                return self.put(kind, key, revision.value, expect=known[-1].revision)
        there = ", ".join(str(revision.revision) for revision in known) or "none"
        raise InvalidInput("to_revision", f"{to_revision} is not kept; there are: {there}.")

    def pin(self, kind: str, key: str, pinned: bool = True) -> Record:
        """Keep a record from being forgotten, and send it first; or no longer."""
        scope = self._scope
        check_kind(kind)
        check_key(key, scope.limits.key_chars)
        if type(pinned) is not bool:
            raise InvalidInput("pinned", "must be True or False.")
        with scope.database.transaction() as file:
            rows.pin(file, scope.user, kind, key, pinned)
            record = rows.get(file, scope.user, kind, key)
        if record is None:
            raise InvalidInput("key", f"there is no {kind}/{key} to pin. Put it first.")
        return record

    def stale(self, policy: forgetting.Policy) -> Records:
        """Return what `forget` would delete with this policy, the most faded first."""
        return forgetting.plan(self.list(), policy, self._scope.now())

    def forget(self, policy: forgetting.Policy) -> Records:
        """Delete exactly what `stale` lists, in one transaction, and return it."""
        scope = self._scope
        gone = []
        with scope.database.transaction() as file:
            now = scope.now()
            for record in forgetting.plan(self.list(), policy, now):
                rows.remove(file, scope.user, record.kind, record.key, now, record.revision)
                gone.append(record)
        return gone

    def forget_everything(self) -> int:
        """Delete all that is stored about the user, the ledger too; return how many records."""
        with self._scope.database.transaction() as file:
            return rows.remove_all(file, self._scope.user)

    def reindex(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Give every record that lacks one a vector of the store's embedder; return how many.

        Args:
            progress: Told how many are done, and of how many; a progress bar where none is given.
        """
        scope = self._scope
        if scope.embedder is None:
            raise InvalidInput("embedder", "is missing. Open the store with one to make vectors.")
        return vectors.reindex(
            scope.database, scope.user, scope.embedder, progress or _progress_bar()
        )

    def stats(self) -> dict[str, Any]:
        """Return how many records the user has, by kind, and how many changes wait.

        `without_vector` counts what `reindex` would embed; None: the store has no embedder.
        """
        by_kind = rows.counts(self._scope.database, self._scope.user)
        return {
            "records": sum(by_kind.values()),
            "by_kind": by_kind,
            "records_limit": self._scope.limits.records_per_user,
            "waiting": len(self.approvals.pending()),
            "without_vector": self._without_vector(),
        }

    def _without_vector(self) -> int | None:
        scope = self._scope
        if scope.embedder is None:
            return None
        return len(vectors.missing(scope.database, scope.user, scope.embedder))

    def export(self) -> Iterator[str]:
        """Yield one line of JSON a record, by kind and key, without line end or time."""
        for record in self.list():
            line = {
                "version": EXPORT_VERSION,
                "kind": record.kind,
                "key": record.key,
                "value": record.value,
            }
            yield canonical(line).translate(_LINE_ENDS)

    def import_lines(self, lines: Iterable[str]) -> list[Proposal]:
        """Propose every record of an export that is not here yet; approve them to store them.

        All lines are checked first: one bad line, and nothing is proposed.
        """
        scope = self._scope
        changes = [_checked(_imported(line, n), scope.limits) for n, line in _numbered(lines)]
        with scope.database.transaction() as file:
            new = []
            for change in dict.fromkeys(changes):
                found = rows.get(file, scope.user, change.kind, change.key)
                if found is None or found.value != change.value:
                    new.append(_ask(file, scope, change, "imported", "pending"))
        return new


class Approvals:
    """The user's own hand on what others asked for. Whoever holds this can say yes."""

    __slots__ = ("_scope",)

    def __init__(self, scope: _Scope):
        self._scope = scope

    def __repr__(self) -> str:
        return f"Approvals(user={self._scope.user!r}, waiting={len(self.pending())})"

    def pending(self) -> list[Proposal]:
        """Return the proposals that wait for a decision, oldest first."""
        scope = self._scope
        now = scope.now()
        found = rows.open_proposals(scope.database, scope.user, "pending")
        return [proposal for proposal in found if approvals.seen(proposal, now).state == "pending"]

    def grant(self, change: Change) -> Proposal:
        """Approve one exact change before anybody asks for it; it can be used once."""
        scope = self._scope
        change = _checked(change, scope.limits)
        with scope.database.transaction() as file:
            return _ask(file, scope, change, "", "approved")

    def approve(self, id: str, value: str | None = None, how: str = "code") -> Applied:
        """Approve a proposal and execute exactly that change at once.

        Args:
            value: Store this instead of the value that was proposed.
            how: Where the decision was taken, for the ledger.

        Raises:
            NotApproved: it is decided already, or has expired.
            Conflict: the record has moved since it was asked for; the proposal is superseded.
            QuotaReached: there is no room; the proposal still waits.
        """
        scope = self._scope
        how = approvals.check_reason(how, "how")
        error: MemlabError | None = None
        done: Applied | None = None
        with scope.database.transaction() as file:
            now = scope.now()
            stored = _found(file, scope, id)
            proposal = approvals.seen(stored, now)
            if proposal is not stored:
                rows.save_proposal(file, scope.user, proposal, scope.limits)
            try:
                change = approvals.require_open(proposal)
            except MemlabError as refused:
                error = refused
            else:
                last = rows.last_revision(file, scope.user, proposal.kind, proposal.key)
                if value is not None:
                    change = _checked(approvals.edited(proposal, value), scope.limits)
                if approvals.fits(proposal, last):
                    done = rows.apply(file, scope.user, change, proposal.session, now, scope.limits)
                    after = approvals.executed(proposal, done, now, how)
                    rows.save_proposal(file, scope.user, after, scope.limits)
                else:
                    gone = approvals.decided(proposal, "superseded", now, how)
                    rows.save_proposal(file, scope.user, gone, scope.limits)
                    error = Conflict(proposal.kind, proposal.key, proposal.base, last)
        if error is not None:
            raise error
        assert done is not None
        return scope.embed(done)

    def approve_all(self, ids: Iterable[str]) -> list[Outcome]:
        """Approve several, each in a transaction of its own, and say what became of each."""
        outcomes = []
        for id in ids:
            try:
                outcomes.append(Outcome(id, applied=self.approve(id)))
            except MemlabError as error:
                outcomes.append(Outcome(id, error=error))
        return outcomes

    def reject(self, id: str, reason: str = "", how: str = "code") -> Proposal:
        """Refuse a change for good; the model is told `reason`. Its text is erased."""
        return self._close(id, "rejected", approvals.check_reason(reason), how)

    def revoke(self, id: str, how: str = "code") -> Proposal:
        """Take back a grant, or a proposal that still waits. Its text is erased."""
        return self._close(id, "revoked", "", how)

    def ledger(self) -> list[LedgerEntry]:
        """Return the decisions of the user, oldest first, the last ones that are kept."""
        scope = self._scope
        return rows.ledger(scope.database, scope.user, scope.now(), scope.limits.ledger_entries)

    def _close(self, id: str, state: str, note: str, how: str) -> Proposal:
        scope = self._scope
        how = approvals.check_reason(how, "how")
        with scope.database.transaction() as file:
            now = scope.now()
            stored = _found(file, scope, id)
            proposal = approvals.seen(stored, now)
            if proposal.state in approvals.OPEN:
                proposal = approvals.decided(proposal, state, now, how, note)
            if proposal is not stored:  # decided now, or found to have expired
                rows.save_proposal(file, scope.user, proposal, scope.limits)
        if proposal.state != state:  # else it may have been a second click
            approvals.require_open(proposal)
        return proposal


class LentMemory(_Reading):
    """What an agent holds: it reads one user's memories, asks, and uses what was approved."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"LentMemory(user={self.user!r}, session={self.session!r})"

    def propose(self, change: Change, reason: str = "") -> Proposal:
        """Ask for a change. Asking again gives the same proposal, a rejected one too.

        Raises:
            QuotaReached: as many as are allowed wait already.
            Conflict: the change expects a revision that does not stand.
        """
        scope = self._scope
        change, reason = _checked(change, scope.limits), approvals.check_reason(reason)
        with scope.database.transaction() as file:
            return self._asked(file, change, reason)

    def proposal(self, id: str) -> Proposal | None:
        """Return the proposal as it stands now, or None where there is none of that id."""
        scope = self._scope
        found = rows.proposal(scope.database, scope.user, check_name(id, "id"))
        return None if found is None else approvals.seen(found, scope.now())

    def approved(self) -> list[Proposal]:
        """Return what is approved and not used yet, oldest first."""
        scope = self._scope
        now = scope.now()
        found = rows.open_proposals(scope.database, scope.user, "approved")
        return [
            proposal
            for proposal in found  # a damaged one has no change, and approves none
            if proposal.change and approvals.seen(proposal, now).state == "approved"
        ]

    def apply(self, change: Change, reason: str = "") -> Applied:
        """Make a change that is approved; the approval is used up if the change had an effect.

        Raises:
            NotApproved: nobody has said yes to exactly this; `.proposal` waits for a decision,
                or was rejected.
            Conflict, QuotaReached: approved, but not possible; the approval stays.
        """
        scope = self._scope
        change, reason = _checked(change, scope.limits), approvals.check_reason(reason)
        with scope.database.transaction() as file:
            now = scope.now()
            last = rows.last_revision(file, scope.user, change.kind, change.key)
            known = [
                approvals.seen(proposal, now)
                for proposal in rows.proposals_for(file, scope.user, change)
            ]
            approved = approvals.usable(known, last)
            if approved is not None:
                done = rows.apply(file, scope.user, change, scope.session, now, scope.limits)
                if done.effect != "unchanged":
                    used = approvals.decided(approved, "used", now, effect=done.effect)
                    rows.save_proposal(file, scope.user, used, scope.limits)
            else:
                proposal = self._asked(file, change, reason)
        if approved is None:
            raise approvals.refusal(proposal)
        return scope.embed(done)

    def _asked(self, file: Transaction, change: Change, reason: str) -> Proposal:
        scope = self._scope
        now = scope.now()
        last = rows.last_revision(file, scope.user, change.kind, change.key)
        known = [approvals.seen(p, now) for p in rows.proposals_for(file, scope.user, change)]
        return approvals.answer(known, last) or _ask(file, scope, change, reason, "pending")


def folder_of(memory: UserMemory | LentMemory) -> Path | None:
    """Return the folder of a memory's store, which no tool may write into; None: it has none."""
    scope = getattr(memory, "_scope", None)  # a memory of another class has its own store
    return scope.database.path.parent if scope is not None else None


# Inside -----------------------------------------------------------------------------------------


def _ask(file: Transaction, scope: _Scope, change: Change, reason: str, state: str) -> Proposal:
    """Store a proposal in an open state, in place of an older one of the same change.

    What has waited too long, or no longer fits, is put aside first and its text erased.
    """
    now = scope.now()
    record = rows.get(file, scope.user, change.kind, change.key)
    found = record.revision if record else 0
    if change.expect is not None and change.expect != found:
        raise Conflict(change.kind, change.key, change.expect, found)
    last = rows.last_revision(file, scope.user, change.kind, change.key)
    rows.expire(file, scope.user, now, scope.limits)
    for old in rows.proposals_for(file, scope.user, change):
        if old.state in approvals.OPEN:
            if old.state == state == "pending" and approvals.fits(old, last):
                return old
            gone = approvals.decided(old, "superseded", now)
            rows.save_proposal(file, scope.user, gone, scope.limits)
    granted = state == "approved"
    new = Proposal(
        id="",
        action=change.action,
        kind=change.kind,
        key=change.key,
        change=change,
        base=last,
        old_value=record.value if record else None,
        reason=reason,
        session=scope.session,
        asked=now,
        expires=now + int(scope.limits.proposal_ttl_s * 1000),
        state=state,
        decided=now if granted else None,
        how="granted" if granted else "",
    )
    return rows.add_proposal(file, scope.user, new, scope.new_id, scope.limits)


def _found(file: Transaction, scope: _Scope, id: str) -> Proposal:
    proposal = rows.proposal(file, scope.user, check_name(id, "id"))
    if proposal is None:
        raise InvalidInput("id", f"there is no proposal {id!r}. See what is pending.")
    return proposal


def _checked(change: Any, limits: Limits) -> Any:
    """Return a change whose lengths this store allows."""
    if not isinstance(change, Put | Delete):
        raise InvalidInput("change", f"must be a Put or a Delete, not {type(change).__name__}.")
    if len(change.key) > limits.key_chars:
        check_key(change.key, limits.key_chars)
    if isinstance(change, Put) and len(change.value) > limits.value_chars:
        clean(change.value, "value", limit=limits.value_chars)
    return change


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    if isinstance(lines, str):
        raise InvalidInput("lines", "must be lines, not one text. Pass text.splitlines().")
    return ((n, line) for n, line in enumerate(lines, start=1) if str(line).strip())


def _imported(line: str, number: int) -> Put:
    def refuse(what: str) -> NoReturn:
        raise InvalidInput("lines", f"line {number} {what}. Nothing was proposed; mend it.")

    try:
        read = json.loads(line, object_pairs_hook=_once)
    except (ValueError, TypeError, RecursionError):
        refuse("is not JSON")
    if not isinstance(read, dict) or set(read) != {"version", "kind", "key", "value"}:
        refuse("does not have exactly version, kind, key and value")
    if type(read["version"]) is not int or read["version"] != EXPORT_VERSION:
        refuse(f"has version {read['version']!r}, not {EXPORT_VERSION}")
    try:
        return Put(read["kind"], read["key"], read["value"])
    except InvalidInput as error:
        refuse(f"is not valid ({error})")


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands there twice")
    return dict(pairs)


def _progress_bar() -> Callable[[int, int], None]:
    """Return a bar on the screen, in a terminal as in a notebook; nothing without tqdm."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return lambda done, total: None
    bar = tqdm(unit="record")

    def progress(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done >= total:
            bar.close()

    return progress


def _now() -> int:
    return time.time_ns() // 1_000_000


def _new_id() -> str:
    return "p" + os.urandom(6).hex()
