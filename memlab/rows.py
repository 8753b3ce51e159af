"""Records, revisions and proposals as rows: every statement, inside a transaction handed in.

Reading takes a `Database` or a `Transaction`; writing takes a `Transaction`. This is the seam at
which another engine could stand.
"""

from __future__ import annotations

import contextlib
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from memlab.approvals import OPEN, change_of, digest
from memlab.database import Database, Transaction
from memlab.errors import Conflict, InvalidInput, QuotaReached, StoreDamaged, StoreError
from memlab.records import (
    KINDS,
    Applied,
    Change,
    Delete,
    LedgerEntry,
    Limits,
    Problem,
    Proposal,
    Put,
    Record,
    Revision,
    check_key,
    check_name,
)
from memlab.text import clean, search_form

Source = Database | Transaction

_RECORD = "kind, key, value, revision, session, created, updated, last_used, uses, pinned"
_ONE = f"SELECT {_RECORD} FROM memory WHERE user = ? AND kind = ? AND key = ?"
_ALL = f"SELECT {_RECORD} FROM memory WHERE user = ? ORDER BY kind, key"
_ALL_OF_KIND = f"SELECT {_RECORD} FROM memory WHERE user = ? AND kind = ? ORDER BY key"
_FIND = (
    f"SELECT {_RECORD} FROM memory WHERE user = ?"
    " AND (instr(CASE folded WHEN '' THEN lower(value) ELSE folded END, ?) OR instr(key, ?))"
    " ORDER BY updated DESC, kind, key LIMIT ?"
)
_FIND_OF_KIND = _FIND.replace("user = ?", "user = ? AND kind = ?")
_BEFORE_NEW = (  # what counts against a new record, and the last number its name has had
    "SELECT (SELECT records FROM usage WHERE user = ?),"
    " (SELECT records FROM usage WHERE user = ''),"
    " (SELECT last FROM tombstone WHERE user = ? AND kind = ? AND key = ?)"
)
_PROPOSAL = (
    "id, action, kind, key, value, expect, base, old_value, reason, session, asked, expires,"
    " state, decided, how, note, effect"
)

_LONE = re.compile("[\ud800-\udfff]")  # bytes that are no UTF-8, as `read_damaged` shows them

# Records ----------------------------------------------------------------------------------------


def get(file: Source, user: str, kind: str, key: str) -> Record | None:
    """Return the record, or None where there is none."""
    found = file.read(_ONE, (user, kind, key))
    return _record(found[0]) if found else None


def every(file: Database, user: str, kind: str | None = None) -> list[Record]:
    """Return all sound records of a user, by kind and key; damaged ones cause a warning."""
    if kind is None:
        return _sound(file, _ALL, (user,))
    return _sound(file, _ALL_OF_KIND, (user, kind))


def find(file: Database, user: str, query: str, limit: int, kind: str | None) -> list[Record]:
    """Return the records whose folded value, or key, holds the folded `query`; latest first."""
    if kind is None:
        return _sound(file, _FIND, (user, query, query, limit))
    return _sound(file, _FIND_OF_KIND, (user, kind, query, query, limit))


def last_revision(file: Source, user: str, kind: str, key: str) -> int:
    """Return the last revision number the record has had, deleted or not; 0: none ever."""
    args = (user, kind, key)
    found = file.read("SELECT revision FROM memory WHERE user = ? AND kind = ? AND key = ?", args)
    if not found:
        found = file.read(
            "SELECT last FROM tombstone WHERE user = ? AND kind = ? AND key = ?", args
        )
    return _number(found[0][0] if found else 0, kind, key)


def write(
    file: Transaction, user: str, change: Put, session: str, now: int, limits: Limits
) -> Applied:
    """Create or replace one record; the same value again changes nothing.

    Raises:
        Conflict: the record is not at the revision that the change expects.
        QuotaReached: one record more would be too many.
    """
    kind, key, value = change.kind, change.key, change.value
    row = file.execute(_ONE, (user, kind, key)).fetchone()
    if change.expect is not None and change.expect != (row[3] if row else 0):
        raise Conflict(kind, key, change.expect, row[3] if row else 0)
    if row is None:
        own, total, last = file.execute(_BEFORE_NEW, (user, user, kind, key)).fetchone()
        _check_quota(user, own or 0, total or 0, limits)
        revision = _number(last or 0, kind, key) + 1
        file.execute(
            "INSERT INTO memory (user, kind, key, value, folded, revision, session, created,"
            " updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (user, kind, key, value, search_form(value), revision, session, now, now),
        )
        if revision > 1:
            file.execute(
                "DELETE FROM tombstone WHERE user = ? AND kind = ? AND key = ?", (user, kind, key)
            )
        record = Record(kind, key, value, revision, session, now, now, None, 0, False)
        return Applied(change, record, "created")
    if row[2] == value:
        return Applied(change, _record(row), "unchanged")
    _check_row(row)
    *_, revision, _, created, _, last_used, uses, pinned = row
    revision += 1
    file.execute(
        "UPDATE memory SET value = ?, folded = ?, revision = ?, session = ?, updated = ?,"
        " vector = NULL, vector_of = NULL WHERE user = ? AND kind = ? AND key = ?",
        (value, search_form(value), revision, session, now, user, kind, key),
    )
    record = Record(
        kind, key, value, revision, session, created, now, last_used, uses, bool(pinned)
    )
    return Applied(change, record, "replaced")


def remove(
    file: Transaction, user: str, kind: str, key: str, now: int, expect: int | None = None
) -> bool:
    """Delete a record with its history and the text of its proposals; say whether it was there.

    What stays is a tombstone without text, so that no revision number is ever used twice.
    """
    args = (user, kind, key)
    found = file.execute(
        "SELECT CASE typeof(revision) WHEN 'integer' THEN revision ELSE (SELECT"
        " coalesce(max(r.revision), 0) + 1 FROM revision r WHERE r.user = m.user"
        " AND r.kind = m.kind AND r.key = m.key) END FROM memory m"
        " WHERE user = ? AND kind = ? AND key = ?",
        args,
    ).fetchone()
    if expect is not None and expect != (found[0] if found else 0):
        raise Conflict(kind, key, expect, found[0] if found else 0)
    if not found:
        return False
    file.erases()
    file.execute("DELETE FROM memory WHERE user = ? AND kind = ? AND key = ?", args)
    file.execute("DELETE FROM revision WHERE user = ? AND kind = ? AND key = ?", args)
    file.execute("INSERT OR REPLACE INTO tombstone VALUES (?, ?, ?, ?)", (*args, found[0]))
    file.execute(
        "UPDATE proposal SET value = NULL, old_value = NULL, reason = '', note = '',"
        " decided = CASE WHEN state IN ('pending', 'approved') THEN min(expires, ?)"
        " ELSE decided END,"
        " state = CASE WHEN state NOT IN ('pending', 'approved') THEN state"
        " WHEN expires <= ? THEN 'expired' ELSE 'superseded' END"
        " WHERE user = ? AND kind = ? AND key = ?",
        (now, now, *args),
    )
    return True


def remove_misnamed(file: Transaction, user: str, kind: str, key: str) -> bool:
    """Delete a damaged record whose kind or key memlab never writes; say whether it was there.

    The name is the one that `problems` gives. It can never be written again: no tombstone.
    """
    try:
        args = (
            user,
            kind.encode("utf-8", "surrogateescape"),
            key.encode("utf-8", "surrogateescape"),
        )
    except UnicodeEncodeError:
        return False
    where = "user = ? AND CAST(kind AS BLOB) = ? AND CAST(key AS BLOB) = ?"
    if not file.read(f"SELECT 1 FROM memory WHERE {where}", args):
        return False
    file.erases()
    for table in ("memory", "revision", "proposal"):
        file.execute(f"DELETE FROM {table} WHERE {where}", args)
    return True


def apply(
    file: Transaction, user: str, change: Change, session: str, now: int, limits: Limits
) -> Applied:
    """Make one change that is allowed, whatever it is."""
    if isinstance(change, Delete):
        gone = remove(file, user, change.kind, change.key, now, change.expect)
        return Applied(change, None, "deleted" if gone else "unchanged")
    return write(file, user, change, session, now, limits)


def remove_all(file: Transaction, user: str) -> int:
    """Delete everything about a user, tombstones and ledger too; return how many records went."""
    file.erases()
    count = int(file.read("SELECT count(*) FROM memory WHERE user = ?", (user,))[0][0])
    for table in ("memory", "revision", "tombstone", "proposal", "usage"):
        file.execute(f"DELETE FROM {table} WHERE user = ?", (user,))
    return count


def history(file: Source, user: str, kind: str, key: str) -> list[Revision]:
    """Return all values of a record, oldest first, the current one last."""
    found = file.read(
        "SELECT revision, value, session, updated FROM revision"
        " WHERE user = ? AND kind = ? AND key = ?"
        " UNION ALL SELECT revision, value, session, updated FROM memory"
        " WHERE user = ? AND kind = ? AND key = ? ORDER BY revision",
        (user, kind, key) * 2,
    )
    return [Revision(*row) for row in found]


def pin(file: Transaction, user: str, kind: str, key: str, pinned: bool) -> None:
    """Mark a record to be kept, or no longer; its revision stays."""
    file.execute(
        "UPDATE memory SET pinned = ? WHERE user = ? AND kind = ? AND key = ?",
        (int(pinned), user, kind, key),
    )


def touch(file: Transaction, user: str, names: Iterable[tuple[str, str]], now: int) -> None:
    """Count one use of each named (kind, key), in one statement."""
    file.execute(
        "UPDATE memory SET uses = uses + 1, last_used = max(?, coalesce(last_used, 0))"
        " WHERE user = ? AND (kind, key) IN (SELECT json_extract(value, '$[0]'),"
        " json_extract(value, '$[1]') FROM json_each(?))",
        (now, user, json.dumps(sorted(set(names)))),
    )


def set_vector(file: Transaction, user: str, record: Record, vector: bytes, tag: str) -> bool:
    """Store the vector of a record, if it still stands at this revision; say whether it does."""
    done = file.execute(
        "UPDATE memory SET vector = ?, vector_of = ?"
        " WHERE user = ? AND kind = ? AND key = ? AND revision = ?",
        (vector, tag, user, record.kind, record.key, record.revision),
    )
    return done.rowcount == 1


def vectors(file: Database, user: str) -> dict[tuple[str, str], tuple[Any, Any]]:
    """Return each record's vector and what it is a vector of, by (kind, key)."""
    sql = "SELECT kind, key, vector, vector_of FROM memory WHERE user = ? AND vector IS NOT NULL"
    try:
        found = file.read(sql, (user,))
    except StoreDamaged:
        found = file.read_damaged(sql, (user,))
    return {(kind, key): (vector, tag) for kind, key, vector, tag in found}


# Proposals --------------------------------------------------------------------------------------


def proposal(file: Source, user: str, id: str) -> Proposal | None:
    """Return a user's proposal by its id, or None."""
    found = file.read(f"SELECT {_PROPOSAL} FROM proposal WHERE user = ? AND id = ?", (user, id))
    return _proposal(found[0]) if found else None


def proposals_for(file: Source, user: str, change: Change) -> list[Proposal]:
    """Return the proposals of exactly this change, whatever revision they expect, newest first."""
    found = file.read(
        f"SELECT {_PROPOSAL} FROM proposal WHERE user = ? AND digest = ? ORDER BY seq DESC",
        (user, digest(change)),
    )
    return [_proposal(row) for row in found]


def open_proposals(file: Database, user: str, state: str) -> list[Proposal]:
    """Return a user's proposals in one of the open states, oldest first."""
    sql = f"SELECT {_PROPOSAL} FROM proposal WHERE user = ? AND state = ? ORDER BY seq"
    try:
        found = file.read(sql, (user, state))
    except StoreDamaged:  # one bad row does not hide the others
        found = file.read_damaged(sql, (user, state))
    return [_proposal(row) for row in found]


def add_proposal(
    file: Transaction, user: str, new: Proposal, new_id: Callable[[], str], limits: Limits
) -> Proposal:
    """Store a new proposal under an id that is still free.

    Raises:
        QuotaReached: as many as are allowed are waiting already.
    """
    assert new.change is not None
    if new.state == "pending":
        waiting = file.read(
            "SELECT count(*) FROM proposal WHERE user = ? AND state = 'pending'", (user,)
        )[0][0]
        if waiting >= limits.pending_proposals:
            raise QuotaReached(
                "pending_proposals",
                limits.pending_proposals,
                f"{waiting} changes wait for a decision already, the most allowed. "
                "Nothing was written. Approve or reject some first.",
            )
    value = new.change.value if isinstance(new.change, Put) else None
    for _ in range(10_000):  # a second process may count its ids from the start again
        id = check_name(new_id(), "id")
        with_id = (
            user,
            id,
            *(new.action, new.kind, new.key, value, new.change.expect),
            *(new.base, new.old_value, digest(new.change), new.reason, new.session),
            *(new.asked, new.expires, new.state, new.decided, new.how, new.note, new.effect),
        )
        done = file.execute(
            "INSERT OR IGNORE INTO proposal (user, id, action, kind, key, value, expect, base,"
            " old_value, digest, reason, session, asked, expires, state, decided, how, note,"
            f" effect) VALUES ({', '.join('?' * 19)})",
            with_id,
        )
        if done.rowcount == 1:
            break
    else:
        raise StoreError("No free id was found for the proposal. Pass another new_id.")
    stored = proposal(file, user, id)
    assert stored is not None
    return stored


def save_proposal(file: Transaction, user: str, changed: Proposal, limits: Limits) -> Proposal:
    """Write back a proposal's state, with the text it still has."""
    if changed.change is None or changed.note == "edited":
        file.erases()
    value = changed.change.value if isinstance(changed.change, Put) else None
    expect = changed.change.expect if changed.change is not None else None
    file.execute(
        "UPDATE proposal SET value = ?, expect = ?, old_value = ?, reason = ?, expires = ?,"
        " state = ?, decided = ?, how = ?, note = ?, effect = ? WHERE user = ? AND id = ?",
        (
            *(value, expect, changed.old_value, changed.reason, changed.expires),
            *(changed.state, changed.decided, changed.how, changed.note, changed.effect),
            *(user, changed.id),
        ),
    )
    if changed.state not in OPEN:
        _trim_ledger(file, user, limits.ledger_entries)
    return changed


def expire(file: Transaction, user: str, now: int, limits: Limits) -> None:
    """Put aside what has waited too long, and erase its text."""
    done = file.execute(
        "UPDATE proposal SET state = 'expired', decided = expires, value = NULL, old_value = NULL,"
        " reason = '' WHERE user = ? AND state IN ('pending', 'approved') AND expires <= ?",
        (user, now),
    )
    if done.rowcount:
        file.erases()
        _trim_ledger(file, user, limits.ledger_entries)


def ledger(file: Source, user: str, now: int, limit: int) -> list[LedgerEntry]:
    """Return the last `limit` decisions, oldest first; what waited too long counts as expired."""
    found = file.read(
        "SELECT * FROM (SELECT seq, id, action, kind, key, session, asked,"
        " CASE WHEN state IN ('pending', 'approved') AND expires <= ? THEN 'expired'"
        " ELSE state END AS now_state, CASE WHEN state IN ('pending', 'approved') AND expires <= ?"
        " THEN expires ELSE decided END, how, note, effect"
        " FROM proposal WHERE user = ? AND (state <> 'pending' OR expires <= ?)"
        " ORDER BY seq DESC LIMIT ?) ORDER BY seq",
        (now, now, user, now, limit),
    )
    return [LedgerEntry(*row[1:]) for row in found]


# The whole store --------------------------------------------------------------------------------


def users(file: Source) -> list[str]:
    """Return the names of all users about whom anything is stored."""
    found = file.read(
        "SELECT user FROM usage WHERE user <> '' AND records > 0"
        " UNION SELECT user FROM proposal UNION SELECT user FROM tombstone ORDER BY 1"
    )
    return [row[0] for row in found]


def counts(file: Source, user: str | None = None) -> dict[str, int]:
    """Return how many records there are by kind, of one user or of all; kinds without any too."""
    where, args = ("", ()) if user is None else (" WHERE user = ?", (user,))
    found = dict(file.read(f"SELECT kind, count(*) FROM memory{where} GROUP BY kind", args))
    return {kind: found.get(kind, 0) for kind in KINDS}


def problems(file: Database) -> Iterator[Problem]:
    """Yield everything that is not as memlab writes it, each with what to do."""
    for look in (_file, _records, _counts, _histories, _proposals):
        try:
            yield from look(file)
        except StoreDamaged as error:
            yield Problem(f"a part of the file cannot be read: {error.detail}")


def _file(file: Database) -> Iterator[Problem]:
    for text in file.damage():
        yield Problem(f"SQLite's own check says: {text}")


def _records(file: Database) -> Iterator[Problem]:
    found = file.read_damaged(
        f"SELECT user, folded, {_RECORD} FROM memory ORDER BY user, kind, key"
    )
    for user, folded, *row in found:
        try:
            value = _record_of(row).value
            check_name(user, "user")
            check_key(row[1])
            if clean(value, "value") != value or search_form(value) != folded:
                raise StoreDamaged("what is searched is not what is stored")
        except (StoreDamaged, ValueError) as error:
            detail = error.detail if isinstance(error, StoreDamaged) else error
            yield _problem(f"a damaged record: {detail}", user, row[0], row[1])


def _counts(file: Database) -> Iterator[Problem]:
    for user, there, counted in file.read_damaged(
        "SELECT users.user, (SELECT count(*) FROM memory m WHERE users.user IN (m.user, '')),"
        " coalesce(u.records, 0) FROM (SELECT user FROM usage UNION SELECT user FROM memory)"
        " users LEFT JOIN usage u USING (user)"
    ):
        if there != counted:
            yield _problem(f"{counted} records are counted, {there} are there", user or None)


def _histories(file: Database) -> Iterator[Problem]:
    for user, kind, key in file.read_damaged(
        "SELECT DISTINCT r.user, r.kind, r.key FROM revision r LEFT JOIN memory m"
        " USING (user, kind, key) WHERE m.user IS NULL OR r.revision >= m.revision"
    ):
        yield _problem("history that fits no record", user, kind, key)
    for user, kind, key, value in file.read_damaged("SELECT user, kind, key, value FROM revision"):
        try:
            clean(value, "value")
        except ValueError as error:
            yield _problem(f"a damaged value in the history: {error}", user, kind, key)


def _proposals(file: Database) -> Iterator[Problem]:
    for user, id, stored, *row in file.read_damaged(
        "SELECT user, id, digest, action, kind, key, value, expect FROM proposal"
        " WHERE state IN ('pending', 'approved')"
    ):
        try:
            sound = digest(change_of(*row)) == stored
        except (ValueError, UnicodeError):
            sound = False
        if not sound:
            yield _problem(f"proposal {id} is not what was asked for", user, *row[1:3])


# Inside -----------------------------------------------------------------------------------------


def _record(row: Sequence[Any]) -> Record:
    _check_row(row)
    kind, key, value, revision, session, created, updated, last_used, uses, pinned = row
    return Record(
        kind, key, value, revision, session, created, updated, last_used, uses, bool(pinned)
    )


def _check_row(row: Sequence[Any]) -> None:
    """Refuse what only damage can have put there: the rest of memlab trusts a record's types."""
    kind, key, value, revision, session, created, updated, last_used, uses, pinned = row
    texts = type(key) is type(value) is type(session) is str and kind in KINDS
    numbers = type(revision) is type(created) is type(updated) is type(uses) is type(pinned) is int
    if not (texts and numbers and (last_used is None or type(last_used) is int)):
        raise _damaged(kind, key, "its row holds what memlab never writes")


def _record_of(row: Sequence[Any]) -> Record:
    """Build a record from a row of `read_damaged`."""
    if any(type(cell) is str and not cell.isascii() and _LONE.search(cell) for cell in row):
        raise _damaged(row[0], row[1], "its text is no UTF-8")
    return _record(row)


def _number(revision: object, kind: str, key: str) -> int:
    if type(revision) is not int:
        raise _damaged(kind, key, "its revision is no number")
    return revision


def _damaged(kind: object, key: object, detail: str) -> StoreDamaged:
    return StoreDamaged(
        f"{kind}/{key}: {detail}", "The other records can be read. Delete it, or undo the damage."
    )


def _problem(what: str, *name: object) -> Problem:
    """Return a problem of one row, whose name may be damaged as well."""
    return Problem(what, *map(_legible, name))


def _legible(part: object) -> str | None:
    if isinstance(part, bytes):
        return part.decode("utf-8", "surrogateescape")
    return part if part is None else str(part)


def _sound(file: Database, sql: str, args: tuple[Any, ...]) -> list[Record]:
    try:
        return [_record(row) for row in file.read(sql, args)]
    except StoreDamaged:
        records = []
        for row in file.read_damaged(sql, args):
            try:
                records.append(_record_of(row))
            except StoreDamaged as error:
                warnings.warn(f"Left out: {error.detail}. store.verify() lists all.", stacklevel=4)
        return records


def _proposal(row: tuple[Any, ...]) -> Proposal:
    """Build a proposal; one whose change is erased, or damaged, has none and cannot be approved."""
    id, action, kind, key, value, expect, *rest = row
    change = None
    if rest[6] in ("used", *OPEN) and (action == "delete" or value is not None):
        with contextlib.suppress(InvalidInput):
            change = change_of(action, kind, key, value, expect)
    return Proposal(id, action, kind, key, change, *rest)


def _check_quota(user: str, own: int, total: int, limits: Limits) -> None:
    if own >= limits.records_per_user:
        raise QuotaReached(
            "records_per_user",
            limits.records_per_user,
            f"{user!r} already has {own} memories, the most allowed. "
            "Nothing was written. Update an existing key, or delete one first.",
        )
    if total >= limits.records_total:
        raise QuotaReached(
            "records_total",
            limits.records_total,
            f"The store already holds {limits.records_total} memories of all users, the most "
            "allowed. Nothing was written. Delete one first, or raise records_total.",
        )


def _trim_ledger(file: Transaction, user: str, keep: int) -> None:
    """Drop the oldest finished proposals; a rejection is kept, for it must hold."""
    file.execute(
        "DELETE FROM proposal WHERE seq IN (SELECT seq FROM proposal WHERE user = ? AND state IN"
        " ('used', 'expired', 'revoked', 'superseded') ORDER BY seq DESC LIMIT -1 OFFSET ?)",
        (user, keep),
    )


# Looking for a text -----------------------------------------------------------------------------


def times_in_tables(file: Source, text: str) -> dict[str, int]:
    """Return how many times `text` stands in each table, in whichever column, by its name."""
    found = {}
    for (table,) in file.read("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"):
        columns = file.read("SELECT name FROM pragma_table_info(?) ORDER BY cid", (table,))
        times = " + ".join(
            f"""iif(typeof("{column}") = 'text', (length("{column}")"""
            f""" - length(replace("{column}", looked_for, ''))) / length(looked_for), 0)"""
            for (column,) in columns
        )
        sql = f'SELECT coalesce(sum({times}), 0) FROM "{table}", (SELECT ? AS looked_for)'
        found[table] = int(file.read(sql, (text,))[0][0])
    return found
