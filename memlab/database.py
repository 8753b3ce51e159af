"""The file: made, checked before it is touched, migrated, and changed in whole transactions."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
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
from memlab.text import MAX_CHARS, clean, fold

FILE = "memory.sqlite3"
VERSION = 2
APPLICATION_ID = 0x6D656D6C  # "meml", so that another program's file is never taken for ours
ERASE_UP_TO = 64 * 1024 * 1024  # bytes: a larger file is rewritten by compact() alone

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
  folded TEXT NOT NULL,
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
  user TEXT NOT NULL, id TEXT NOT NULL UNIQUE,
  action TEXT NOT NULL CHECK (action IN ('put', 'delete')),
  kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT, expect INTEGER,
  base INTEGER NOT NULL, old_value TEXT, digest TEXT NOT NULL,
  reason TEXT NOT NULL, session TEXT NOT NULL, asked INTEGER NOT NULL, expires INTEGER NOT NULL,
  state TEXT NOT NULL, decided INTEGER, how TEXT NOT NULL, note TEXT NOT NULL, effect TEXT NOT NULL
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
  UPDATE usage SET records = records - 1 WHERE user IN (OLD.user, '');
END;
CREATE TRIGGER memory_replaced AFTER UPDATE OF value ON memory
WHEN OLD.revision <> NEW.revision BEGIN
  INSERT INTO revision VALUES
    (OLD.user, OLD.kind, OLD.key, OLD.revision, OLD.value, OLD.session, OLD.updated);
END;
"""

_TABLES = frozenset(("memory", "revision", "tombstone", "proposal", "usage", "meta"))
_OLD_COLUMNS = ["user_id", "kind", "memory_key", "value", "source_session", "revision"]
_OLD_KINDS = {
    "user_pref": "preference",
    "project_info": "project",
    "tech_decision": "decision",
    "general": "note",
}
_MAGIC = b"SQLite format 3\0"

# Connections that a forked child inherited: closing one there could harm the parent's file.
_inherited: list[sqlite3.Connection] = []


class Database:
    """One open file and its one connection, which any thread may use, one at a time.

    Attributes:
        path: The file, absolute.
        read_only: Whether every write is refused.
        journal: `wal`, or what the file system granted instead.
    """

    def __init__(self, path: Path, limits: Limits, clock: Callable[[], int], read_only: bool):
        self.path, self.limits, self.read_only = path, limits, read_only
        self.journal = ""
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pid = os.getpid()
        self._log_due = False  # the file is rewritten, the log could not be emptied yet
        try:
            version = _inspect(path)
            self._connection = self._connect()
            if version < VERSION:
                self._migrate(clock)
            if not read_only and self.erase_pending:
                self.erase()
        except BaseException as error:
            if self._connection is not None:
                self._connection.close()
            if isinstance(error, sqlite3.Error):
                raise self._meaning(error) from error
            raise

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
            connection, self._connection = self._connection, None
            if connection is None or self._pid != os.getpid():
                return
            self._connection = connection
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
        return bool(self.read("SELECT value FROM meta WHERE name = 'erase_pending'"))

    def erase(self, whatever_size: bool = False) -> bool:
        """Rewrite the file without what was deleted, empty the log; say whether that was done.

        VACUUM is needed: `secure_delete` leaves copies behind where pages were rebalanced.
        """
        with self._lock:
            connection = self._live()
            try:
                if not whatever_size and self.bytes > ERASE_UP_TO:
                    return False
                connection.execute("PRAGMA busy_timeout = 100")
                connection.execute("VACUUM")
                self._log_due = True
                return self._empty_log(connection)
            except sqlite3.Error as error:
                if _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL):
                    return False  # the mark stays, the next chance is taken
                raise self._meaning(error) from error
            finally:
                connection.execute(f"PRAGMA busy_timeout = {self._wait_ms}")

    def _empty_log(self, connection: sqlite3.Connection) -> bool:
        if self.journal == "wal":
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            if busy:
                return False  # another reader still needs the log
        connection.execute("DELETE FROM meta WHERE name = 'erase_pending'")
        self._log_due = False
        return True

    # Facts --------------------------------------------------------------------------------------

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
        return int(self.limits.lock_timeout_s * 1000)

    def _live(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError("The store is closed. Open it again.")
        if self._pid != os.getpid():  # after a fork the child needs a connection of its own
            _inherited.append(self._connection)
            self._pid = os.getpid()
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        try:
            return self._configured("ro" if self.read_only else "rw")
        except sqlite3.OperationalError:
            if not self.read_only or _holds_something(f"{self.path}-wal"):
                raise
            # A folder that cannot be written: with no log beside it, the file alone is the truth.
            return self._configured("ro&immutable=1")

    def _configured(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            uri=True,
            timeout=self.limits.lock_timeout_s,
            isolation_level=None,  # transactions are ours to begin
            check_same_thread=False,  # the lock lets in one thread at a time
            cached_statements=256,
        )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA temp_store = MEMORY")
            if self.read_only:
                self.journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
                return connection
            self.journal = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            size = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {self.limits.database_bytes // size or 1}")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, clock: Callable[[], int]) -> None:
        if self.read_only:
            raise StoreError(
                "The store has schema version 1 and must be migrated, which a read-only opening "
                "cannot do. Open it once for writing."
            )
        with self.transaction() as file:
            if file.execute("PRAGMA user_version").fetchone()[0] == 1:  # nobody was quicker
                _migrate_1_to_2(file, clock())

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
    """All or nothing: committed when its block ends, rolled back when anything is raised.

    `erases` is set by whoever removes text: the file is then rewritten after the commit.
    """

    __slots__ = ("_database", "_connection", "erases", "execute")

    def __init__(self, database: Database):
        self._database = database
        self.erases = False

    def __enter__(self) -> Transaction:
        database = self._database
        database._lock.acquire()
        try:
            if database.read_only:
                raise StoreError("The store was opened to be read only. Nothing was written.")
            connection = self._connection = database._live()
            self.execute: Callable[..., sqlite3.Cursor] = connection.execute
            if connection.in_transaction:  # an interrupt struck between BEGIN and our block
                connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            database._lock.release()
            raise database._meaning(error) from error
        except BaseException:
            database._lock.release()
            raise
        return self

    def read(self, sql: str, args: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of one query, as they stand inside this transaction."""
        return self.execute(sql, args).fetchall()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        database, connection = self._database, self._connection
        try:
            if error is None:
                if self.erases:
                    connection.execute("INSERT OR REPLACE INTO meta VALUES ('erase_pending', 1)")
                connection.execute("COMMIT")
                if self.erases:
                    database.erase()
                elif database._log_due:
                    database._empty_log(connection)
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
            database._lock.release()


# Making, checking, migrating --------------------------------------------------------------------


def _create(folder: Path, path: Path) -> None:
    """Make the file beside its place and move it there whole, so that a crash leaves no half."""
    fresh = not folder.exists()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if fresh:
            folder.chmod(0o700)  # whatever the umask says
        handle, name = tempfile.mkstemp(prefix=".new-", suffix=".sqlite3", dir=folder)  # mode 0600
    except OSError as error:
        raise StoreError(
            f"The data folder cannot be made or written ({error.strerror}). Choose another folder."
        ) from error
    os.close(handle)
    temporary = Path(name)
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


def _inspect(path: Path) -> int:
    """Return the schema version of a file that is ours, without touching it; refuse any other."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise StoreError(
            f"{FILE} cannot be read ({error.strerror}). Check its permissions."
        ) from error
    if len(header) < 100 or not header.startswith(_MAGIC):
        found = f"{FILE} is empty" if not size else f"{FILE} does not start as SQLite files do"
        raise StoreDamaged(found)
    beside = [end for end in ("-wal", "-journal") if _holds_something(f"{path}{end}")]
    if not beside:  # else the rest of the file stands in there
        page = int.from_bytes(header[16:18], "big")
        page = 65536 if page == 1 else page
        counted = int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else 0
        if page < 512 or size % page or size < counted * page:
            raise StoreDamaged(f"{FILE} has been cut short")
    version = int.from_bytes(header[60:64], "big")
    owner = int.from_bytes(header[68:72], "big")
    if version == VERSION and owner == APPLICATION_ID and not beside:
        return version
    # Only an interrupted write needs a connection that may change the file: to roll it back.
    mode = "rw" if "-journal" in beside else "ro" if beside else "ro&immutable=1"
    return _examine(path, mode)


def _holds_something(name: str) -> bool:
    return os.path.exists(name) and os.path.getsize(name) > 0


def _examine(path: Path, mode: str) -> int:
    """Decide from its tables whose file this is, through a connection of its own."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True)
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        columns = [row[1] for row in connection.execute("PRAGMA table_info(memory)")]
    finally:
        connection.close()
    if owner == APPLICATION_ID:
        if version > VERSION:
            raise StoreTooNew(version, VERSION)
        if version == VERSION and names >= _TABLES:
            return version
        raise StoreDamaged(f"schema version {version} without its tables")
    if owner == 0 and version == 1 and columns == _OLD_COLUMNS:
        return 1
    if owner == 0 and version > VERSION and (not names or "memory" in names):
        raise StoreTooNew(version, VERSION)
    raise StoreForeign(f"it has schema version {version} and other tables")


def _migrate_1_to_2(file: Transaction, now: int) -> None:
    """Carry every row of a version 1 file over; refuse the whole if one cannot be carried."""
    old = f"SELECT {', '.join(_OLD_COLUMNS)} FROM memory ORDER BY user_id, kind, memory_key"
    rows = [_carried(row, now) for row in file.execute(old).fetchall()]
    file.execute("DROP TABLE memory")
    for statement in _statements(SCHEMA):
        file.execute(statement)
    for row in rows:
        try:
            file.execute(
                "INSERT INTO memory (user, kind, key, value, folded, revision, session, created,"
                " updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
        except sqlite3.IntegrityError:
            raise StoreDamaged(f"version 1 row {row[1]}/{row[2]} stands there twice") from None
    file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    file.execute(f"PRAGMA user_version = {VERSION}")


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
    return user, kind, key, value, fold(value), revision, session, now, now


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
