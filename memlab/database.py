"""The file: made, checked before it is touched, migrated, and changed in whole transactions."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from memlab.errors import (
    InvalidInput,
    QuotaReached,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreMissing,
    StoreTooNew,
)
from memlab.records import KINDS, Limits, check_key, check_kind, check_name
from memlab.text import MAX_CHARS, clean, search_form

FILE = "memory.sqlite3"
VERSION = 2
APPLICATION_ID = 0x6D656D6C  # "meml", so that another program's file is never taken for ours
ERASE_UP_TO = 64 * 1024 * 1024  # bytes: a larger file is rewritten by compact() alone
ERASE_ROOM = 64  # pages above the cap, so that in a full file something can still be deleted

_KIND_LIST = ", ".join(f"'{kind}'" for kind in KINDS)

# `usage` counts records so that a quota check never scans; its row '' counts all users. Triggers
# keep it and the history, so that no writer can forget them.
SCHEMA = f"""
CREATE TABLE memory (
  user TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ({_KIND_LIST})),
  key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND {MAX_CHARS}),
  value TEXT NOT NULL CHECK (typeof(value) = 'text' AND instr(value, char(0)) = 0
                             AND length(value) BETWEEN 1 AND {MAX_CHARS}),
  folded TEXT NOT NULL, -- '': lower(value), which most texts need no copy for
  revision INTEGER NOT NULL CHECK (revision >= 1),
  session TEXT NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  last_used INTEGER,
  uses INTEGER NOT NULL DEFAULT 0 CHECK (uses >= 0),
  pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
  vector BLOB,
  vector_of TEXT,
  PRIMARY KEY (user, kind, key)
) WITHOUT ROWID;
CREATE TABLE revision (
  user TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL,
  value TEXT NOT NULL, session TEXT NOT NULL, updated INTEGER NOT NULL,
  PRIMARY KEY (user, kind, key, revision)
) WITHOUT ROWID;
CREATE TABLE tombstone (
  user TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, last INTEGER NOT NULL,
  PRIMARY KEY (user, kind, key)
) WITHOUT ROWID;
CREATE TABLE proposal (
  seq INTEGER PRIMARY KEY,
  user TEXT NOT NULL, id TEXT NOT NULL,
  action TEXT NOT NULL CHECK (action IN ('put', 'delete')),
  kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT, expect INTEGER,
  base INTEGER NOT NULL, old_value TEXT, digest TEXT NOT NULL,
  reason TEXT NOT NULL, session TEXT NOT NULL, asked INTEGER NOT NULL, expires INTEGER NOT NULL,
  state TEXT NOT NULL, decided INTEGER, how TEXT NOT NULL, note TEXT NOT NULL, effect TEXT NOT NULL,
  UNIQUE (user, id) -- of one user: what another asked for must not show in the next id
);
CREATE INDEX proposal_digest ON proposal (user, digest);
CREATE INDEX proposal_state ON proposal (user, state);
CREATE TABLE usage (
  user TEXT PRIMARY KEY, records INTEGER NOT NULL CHECK (records >= 0)
) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER memory_added AFTER INSERT ON memory BEGIN
  INSERT INTO usage (user, records) VALUES (NEW.user, 1), ('', 1)
    ON CONFLICT (user) DO UPDATE SET records = records + 1;
END;
CREATE TRIGGER memory_removed AFTER DELETE ON memory BEGIN
  UPDATE usage SET records = max(records - 1, 0) WHERE user IN (OLD.user, '');
END;
CREATE TRIGGER memory_replaced AFTER UPDATE OF value ON memory
WHEN OLD.revision <> NEW.revision BEGIN
  INSERT INTO revision VALUES
    (OLD.user, OLD.kind, OLD.key, OLD.revision, OLD.value, OLD.session, OLD.updated);
END;
"""

NOTED = 10_000  # changes by this connection, before the notes of what it wrote are dropped

# What this connection wrote, and when by its own count of changes. In memory, this connection's
# alone, and rolled back with the rest, so that no writer has to say what was written.
_WATCH = [
    "CREATE TEMP TABLE IF NOT EXISTS written (user, kind, key, at, PRIMARY KEY (user, kind, key))"
    " WITHOUT ROWID",
    *(
        f"CREATE TEMP TRIGGER IF NOT EXISTS watch_{change} AFTER {change} ON main.memory BEGIN"
        f" INSERT OR REPLACE INTO written VALUES ({row}.user, {row}.kind, {row}.key,"
        " total_changes()); END"
        for change, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD"))
    ),
]
_WRITTEN = (
    "SELECT kind, key, vector, vector_of FROM written LEFT JOIN memory USING (user, kind, key)"
    " WHERE user = ? AND at >= ? ORDER BY kind, key"
)

_TABLES = frozenset(("memory", "revision", "tombstone", "proposal", "usage", "meta"))
_OLD_COLUMNS = ["user_id", "kind", "memory_key", "value", "source_session", "revision"]
_OLD_ROWS = f"SELECT {', '.join(_OLD_COLUMNS)} FROM memory ORDER BY user_id, kind, memory_key"
_OLD_KINDS = {
    "user_pref": "preference",
    "project_info": "project",
    "tech_decision": "decision",
    "general": "note",
}
_MAGIC = b"SQLite format 3\0"


class Database:
    """One open file and its one connection, which any thread may use, one at a time.

    Attributes:
        path: The file, absolute.
        read_only: Whether every write is refused.
        journal: `wal`, or what the file system granted instead.
        kept: What was read of a user, beside the `version` it was read at; gone with the process.
    """

    def __init__(self, path: Path, limits: Limits, clock: Callable[[], int], read_only: bool):
        self.path, self.limits, self.read_only = path, limits, read_only
        self.journal = ""
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._rewritten: int | None = None  # the mark up to which all is erased but in the log
        self._inode: tuple[int, int] | None = None
        self._noted_from = 0
        self.kept: dict[str, Any] = {}
        with _opening:
            try:
                version = VERSION if _is_open_here(path) else _inspect(path, self._wait_ms / 1000)
                self._inode = _inode(path)
                if version < VERSION:
                    self._migrate(clock)
                self._live()
                if not read_only and self.erase_pending:
                    self.erase()
            except BaseException as error:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
                if isinstance(error, sqlite3.Error):
                    raise self._meaning(error) from error
                raise
            _open.add(self)

    @classmethod
    def open(
        cls, folder: Path, limits: Limits, clock: Callable[[], int], create: bool, read_only: bool
    ) -> Database:
        """Open the store in `folder`, or make it there when `create` says so."""
        folder = Path(os.path.abspath(folder))
        path = folder / FILE
        _refuse_link(folder, "the data folder")
        if not os.path.lexists(path):
            if not create or read_only:
                raise StoreMissing()
            _create(folder, path)
        _refuse_link(path, FILE)
        return cls(path, limits, clock, read_only)

    # Reading and writing ------------------------------------------------------------------------

    def read(self, sql: str, args: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of one query."""
        with self._lock:
            try:
                return self._live().execute(sql, args).fetchall()
            except sqlite3.Error as error:
                raise self._meaning(error) from error

    def read_damaged(self, sql: str, args: Sequence[Any] = ()) -> list[Any]:
        """Return all rows, with bytes that are no UTF-8 shown as lone surrogates."""
        with self._lock:
            self.read("SELECT 1")  # a connection of this process
            connection = self._live()
            connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
            try:
                return self.read(sql, args)
            finally:
                connection.text_factory = str

    def transaction(self) -> Transaction:
        """Return the one way to write: all of the `with` block, durably, or nothing of it."""
        return Transaction(self)

    def close(self) -> None:
        """Close the file; what is left to erase is erased first. Closing twice does no harm."""
        with self._lock:
            self._closed = True
            self.kept.clear()
            connection = self._connection
            if connection is None:
                return
            try:
                if not self.read_only and self.erase_pending:
                    self.erase()
            except StoreError:
                pass  # the mark stays in the file, and the next opening tries again
            finally:
                self._connection = None
                connection.close()

    # Erasing ------------------------------------------------------------------------------------

    @property
    def erase_pending(self) -> bool:
        """Whether deleted text may still stand in a file of the folder."""
        return self._mark() is not None

    def erase(self, whatever_size: bool = False) -> bool:
        """Rewrite the file without what was deleted, empty the log; say whether that was done.

        VACUUM is needed: `secure_delete` leaves copies behind where pages were rebalanced.
        """
        with self._lock:
            try:
                connection, mark = self._live(), self._mark()
                if mark is None and not whatever_size:
                    self._rewritten = None  # another process was quicker
                    return True
                done = mark is not None and mark == self._rewritten
                if not done and not whatever_size and self.bytes > ERASE_UP_TO:
                    return False
                # Whoever deletes can wait a little, but not each writer after that.
                connection.execute(f"PRAGMA busy_timeout = {0 if done else 100}")
                try:
                    if not done:
                        connection.execute("VACUUM")
                        self._rewritten = mark
                    if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                        return False  # another reader still needs the log
                    connection.execute(
                        "DELETE FROM meta WHERE name = 'erase_pending' AND value = ?", (mark,)
                    )
                    self._rewritten = None
                    return True
                finally:
                    connection.execute(f"PRAGMA busy_timeout = {self._wait_ms}")
            except sqlite3.Error as error:
                if _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL):
                    return False  # the mark stays, the next chance is taken
                raise self._meaning(error) from error

    def _mark(self) -> int | None:
        """Return the number that the last deletion left, until its text is erased for real."""
        found = self.read("SELECT value FROM meta WHERE name = 'erase_pending'")
        return int(found[0][0]) if found else None

    # Facts --------------------------------------------------------------------------------------

    @property
    def version(self) -> tuple[tuple[int, int], int]:
        """What changes whenever the file does: by any other connection, and by this one."""
        with self._lock:
            own = self._live().total_changes
            if own - self._noted_from > NOTED:  # notes must not grow for ever: all starts anew
                self.watch()
                self.read("DELETE FROM written")
                own = self._noted_from = self._live().total_changes
            [[others]] = self.read("PRAGMA data_version")
            return (others, self._noted_from), own

    def watch(self) -> None:
        """Note from now on what this connection writes, for `written`."""
        for statement in _WATCH:
            self.read(statement)

    def written(self, user: str, since: int) -> list[Any]:
        """Return kind, key, vector and its tag of what was written here, by kind and key.

        Where one is deleted, its vector and tag are None.

        Args:
            since: The second part of an earlier `version`, read after `watch` was called.
        """
        return self.read(_WRITTEN, (user, since))

    @property
    def bytes(self) -> int:
        """The size of the database in bytes, the log not counted."""
        pages, size = self.read("SELECT * FROM pragma_page_count(), pragma_page_size()")[0]
        return int(pages * size)

    def damage(self) -> list[str]:
        """Return what SQLite's own check of the file finds; nothing is good."""
        rows = self.read("PRAGMA integrity_check")
        return [str(row[0]) for row in rows if row[0] != "ok"]

    # Inside -------------------------------------------------------------------------------------

    @property
    def _wait_ms(self) -> int:
        return min(int(self.limits.lock_timeout_s * 1000), 2**31 - 1)

    def _live(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._closed:
                raise StoreError("The store is closed. Open it again.")
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        try:
            return self._configured("ro" if self.read_only else "rw")
        except sqlite3.OperationalError as error:
            refused = _code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
            if not (self.read_only and refused) or _holds_something(f"{self.path}-wal"):
                raise
            # A folder that cannot be written: with no log beside it, the file alone is the truth.
            return self._configured("ro&immutable=1")

    def _configured(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            uri=True,
            timeout=self._wait_ms / 1000,
            isolation_level=None,  # transactions are ours to begin
            check_same_thread=False,  # the lock lets in one thread at a time
            cached_statements=256,
        )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA temp_store = MEMORY")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if not self.read_only:
                connection.execute(f"PRAGMA max_page_count = {self._most_pages(connection)}")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA secure_delete = ON")
                if version == VERSION:  # an older file stays as it is until it is migrated
                    _use_log(connection)
            self.journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
        except BaseException:
            connection.close()
            raise
        return connection

    def _most_pages(self, connection: sqlite3.Connection) -> int:
        size: int = connection.execute("PRAGMA page_size").fetchone()[0]
        return self.limits.database_bytes // size or 1

    def _migrate(self, clock: Callable[[], int]) -> None:
        if self.read_only:
            raise StoreError(
                "The store has schema version 1 and must be migrated, which a read-only opening "
                "cannot do. Open it once for writing."
            )
        self.path.chmod(0o600)
        with self.transaction() as file:
            if file.execute("PRAGMA user_version").fetchone()[0] == 1:  # nobody was quicker
                _migrate_1_to_2(file, clock())
        self._live().close()
        self._connection = None  # the next one works as for a new file

    def _meaning(self, error: sqlite3.Error) -> StoreError:
        """Translate SQLite's error into ours."""
        code = _code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreBusy(self.limits.lock_timeout_s)
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "decode to UTF-8" in str(
            error
        ):
            return StoreDamaged(str(error))
        if code == sqlite3.SQLITE_FULL:
            if self._at_its_cap():
                return QuotaReached(
                    "database_bytes",
                    self.limits.database_bytes,
                    f"The store has reached its {self.limits.database_bytes} bytes. "
                    "Nothing was written. Delete something, or raise database_bytes.",
                )
            return StoreError("The disk is full. Nothing was written. Free some room, try again.")
        if code == sqlite3.SQLITE_READONLY:
            return StoreError(
                "The store can only be read here. Nothing was written. "
                "Check the file's permissions, or open it without read_only."
            )
        if code == sqlite3.SQLITE_CANTOPEN:
            return StoreError("The store cannot be opened here. Check the folder's permissions.")
        return StoreError(f"SQLite could not do it: {error}. Nothing was written.")

    def _at_its_cap(self) -> bool:
        """Tell our own cap from a full disk: SQLite answers both with the same code."""
        connection = self._connection
        if connection is None:
            return False
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        most = connection.execute("PRAGMA max_page_count").fetchone()[0]
        return bool(pages + 32 >= most)  # a write that failed has given its few pages back


class Transaction:
    """All or nothing: committed when its block ends, rolled back when anything is raised."""

    __slots__ = ("_database", "_connection", "_erases", "execute")

    def __init__(self, database: Database):
        self._database = database
        self._erases = False

    def __enter__(self) -> Transaction:
        database = self._database
        database._lock.acquire()
        connection = None
        try:
            if database.read_only:
                raise StoreError("The store was opened to be read only. Nothing was written.")
            if _inode(database.path) != database._inode:  # SQLite would write where nobody looks
                raise StoreError(
                    "The store's file was removed or replaced while it was open. "
                    "Nothing was written. Open the store again."
                )
            connection = self._connection = database._live()
            self.execute: Callable[..., sqlite3.Cursor] = connection.execute
            if connection.in_transaction:  # an interrupt struck while the last one was ended
                connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            return self
        except BaseException as error:
            try:
                if connection is not None and connection.in_transaction:  # an interrupt
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise database._meaning(error) from error
                raise
            finally:
                database._lock.release()

    def read(self, sql: str, args: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of one query, as they stand inside this transaction."""
        return self.execute(sql, args).fetchall()

    def erases(self) -> None:
        """Announce that text is about to be removed: the file is rewritten after the commit."""
        if not self._erases:
            self._erases = True
            room = self._database._most_pages(self._connection) + ERASE_ROOM
            self.execute(f"PRAGMA max_page_count = {room}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        database, connection = self._database, self._connection
        try:
            if error is None:
                if self._erases:  # a new number each time: who erases takes no later mark away
                    connection.execute(
                        "INSERT OR REPLACE INTO meta VALUES ('erase_pending', random())"
                    )
                connection.execute("COMMIT")
                if self._erases or database._rewritten is not None:
                    with contextlib.suppress(StoreError):  # what is committed stays so
                        database.erase()
                return
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise database._meaning(error) from error
        except sqlite3.Error as failed:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise database._meaning(failed) from failed
        finally:
            try:
                if connection.in_transaction:  # an interrupt struck before the COMMIT
                    connection.execute("ROLLBACK")
                if self._erases:
                    with contextlib.suppress(sqlite3.Error):  # what is committed stays so
                        pages = database._most_pages(connection)
                        connection.execute(f"PRAGMA max_page_count = {pages}")
            finally:
                database._lock.release()


# What is open in this process ------------------------------------------------------------------

# On POSIX a process that closes any handle of a file gives up all its locks on that file, those of
# SQLite too: another process would then take the log away under a connection that is still open.
# So a file that is open here already is not read by hand again, and nobody connects meanwhile.
_open: weakref.WeakSet[Database] = weakref.WeakSet()
_opening = threading.Lock()


def _is_open_here(path: Path) -> bool:
    found = _inode(path)
    return any(
        database._inode == found and database._connection is not None for database in list(_open)
    )


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # asked before each write, and quicker than `path.stat()`
    except OSError:
        return None  # whoever opens it will say why
    return found.st_dev, found.st_ino


# Forking ----------------------------------------------------------------------------------------

# SQLite keeps its locks by process. A child that went on with the parent's connection, or merely
# opened a second one beside it, would believe in locks that it does not hold, and lose writes. So a
# fork waits until no transaction runs, and the child gives up what it inherited and opens its own.
_forking: list[Database] = []


def _before_fork() -> None:
    _opening.acquire()
    databases = sorted(_open, key=id)  # one order, so that two threads never wait for each other
    for database in databases:
        database._lock.acquire()
    _forking[:] = databases


def _in_parent() -> None:
    for database in _forking:
        database._lock.release()
    _forking.clear()
    _opening.release()


def _in_child() -> None:
    for database in _forking:
        if database._connection is not None:
            database._connection.close()
            database._connection = None
        database.kept.clear()  # a new connection counts its changes from the start
        database._noted_from = 0
    _in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


# Making, checking, migrating --------------------------------------------------------------------


def _create(folder: Path, path: Path) -> None:
    """Make the file beside its place and move it there whole, so that a crash leaves no half."""
    fresh = not folder.exists()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if fresh:
            folder.chmod(0o700)  # whatever the umask says
        temporary = folder / f".new-{os.urandom(8).hex()}.sqlite3"
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600))
    except OSError as error:
        raise StoreError(
            f"The data folder cannot be made or written ({error.strerror}). Choose another folder."
        ) from error
    try:
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            connection.executescript(
                f"BEGIN;{SCHEMA}PRAGMA application_id = {APPLICATION_ID};"
                f"PRAGMA user_version = {VERSION};COMMIT;"
            )
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        try:
            os.link(temporary, path)  # fails where another process was quicker: theirs is used
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            if not path.exists():
                temporary.rename(path)
        _sync_folder(folder)
    except sqlite3.Error as error:
        raise StoreError(f"The store could not be made: {error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def _inspect(path: Path, wait_s: float) -> int:
    """Return the schema version of a file that is ours, without touching it; refuse any other."""
    header, size, beside = seen = _look(path)
    while not beside and size and _cut_short(header, size):
        time.sleep(0.02)
        header, size, beside = again = _look(path)
        if again == seen:  # nobody is at work on it
            raise StoreDamaged(f"{FILE} has been cut short")
        seen = again
    if len(header) < 100 or not header.startswith(_MAGIC):
        found = f"{FILE} is empty" if not size else f"{FILE} does not start as SQLite files do"
        raise StoreDamaged(found)
    version = int.from_bytes(header[60:64], "big")
    owner = int.from_bytes(header[68:72], "big")
    if version == VERSION and owner == APPLICATION_ID and not beside:
        return version
    if owner == APPLICATION_ID and version > VERSION:
        raise StoreTooNew(version, VERSION)
    ours = owner == APPLICATION_ID or (owner == 0 and version == 1)
    if "-journal" in beside and ours:
        mode = "rw"  # an interrupted write has to be rolled back first
    elif "-wal" in beside or header[18] == 1:
        mode = "ro"
    else:
        mode = "ro&immutable=1"  # else SQLite puts an empty log beside another program's file
    return _examine(path, mode, wait_s)


def _look(path: Path) -> tuple[bytes, int, list[str]]:
    """Return the file's header, its size, and which other files hold a part of it."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise StoreForeign("it is no regular file")
        with path.open("rb") as file:
            header = file.read(100)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise StoreError(
            f"{FILE} cannot be read ({error.strerror}). Check its permissions."
        ) from error
    return header, size, [end for end in ("-wal", "-journal") if _holds_something(f"{path}{end}")]


def _cut_short(header: bytes, size: int) -> bool:
    if len(header) < 100 or not header.startswith(_MAGIC):
        return False  # no SQLite file at all
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    counted = int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else 0
    return page < 512 or size % page != 0 or size < counted * page


def _holds_something(name: str) -> bool:
    try:
        return os.path.getsize(name) > 0
    except OSError:
        return False  # not there, or gone since


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch the write-ahead log on, where the file system grants it and nobody is in the way."""
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if _code(error) != sqlite3.SQLITE_BUSY:  # busy: others use the file without it, so do we
            raise


def _examine(path: Path, mode: str, wait_s: float) -> int:
    """Decide from its tables whose file this is, through a connection of its own."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, timeout=wait_s, isolation_level=None
    )
    try:
        connection.execute("BEGIN")  # one state of the file, whoever writes meanwhile
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        columns = [row[1] for row in connection.execute("PRAGMA table_info(memory)")]
        if owner == 0 and version == 1 and columns == _OLD_COLUMNS:
            _carried_all(connection.execute(_OLD_ROWS), now=0)  # refused before it is touched
            return 1
    finally:
        connection.close()
    if owner == APPLICATION_ID:
        if version > VERSION:
            raise StoreTooNew(version, VERSION)
        if version == VERSION and names >= _TABLES:
            return version
        raise StoreDamaged(f"schema version {version} without its tables")
    if owner == 0 and version > VERSION and (not names or "memory" in names):
        raise StoreTooNew(version, VERSION)
    raise StoreForeign(f"it has schema version {version} and other tables")


def _migrate_1_to_2(file: Transaction, now: int) -> None:
    """Carry every row of a version 1 file over; refuse the whole if one cannot be carried."""
    rows = _carried_all(file.execute(_OLD_ROWS), now)
    file.execute("DROP TABLE memory")
    for statement in _statements(SCHEMA):
        file.execute(statement)
    for row in rows:
        file.execute(
            "INSERT INTO memory (user, kind, key, value, folded, revision, session, created,"
            " updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
    file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    file.execute(f"PRAGMA user_version = {VERSION}")


def _carried_all(old: Iterable[tuple[Any, ...]], now: int) -> list[tuple[Any, ...]]:
    found = {}
    for row in old:
        user, kind, key, *rest = _carried(row, now)
        if (user, kind, key) in found:
            raise StoreDamaged(f"version 1 row {kind}/{key} stands there twice")
        found[user, kind, key] = (user, kind, key, *rest)
    return list(found.values())


def _carried(row: tuple[Any, ...], now: int) -> tuple[Any, ...]:
    user, kind, key, value, session, revision = row
    try:
        kind = check_kind(_OLD_KINDS.get(kind, kind))
        value = clean(value, "value")
        check_name(user, "user")
        check_key(key)
        check_name(session, "session")
        if type(revision) is not int or revision < 1:
            raise InvalidInput("revision", "must be 1 or more.")
    except InvalidInput as error:
        raise StoreDamaged(
            f"version 1 row {kind!r}/{key!r} cannot be carried over ({error})"
        ) from error
    return user, kind, key, value, search_form(value), revision, session, now, now


def _statements(script: str) -> list[str]:
    found, statement = [], ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found


def _refuse_link(path: Path, what: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # not there: for the caller to make or to miss
    if stat.S_ISLNK(mode):
        raise InvalidInput(
            "folder", f"{what} is a symbolic link, which could lead anywhere. Use a real one."
        )


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return  # a folder cannot be opened there, and NTFS journals its names
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems refuse it
            os.fsync(handle)
    finally:
        os.close(handle)


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; -1 where Python raised it itself."""
    code: int = getattr(error, "sqlite_errorcode", -1)
    return code & 0xFF if code >= 0 else code
