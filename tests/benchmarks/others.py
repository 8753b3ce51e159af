"""The engines that are compared, each behind the same few calls, and the texts they are given.

An engine has the calls that it can do, and no others: `put`, `get`, `search` (the literal text, of
one user), `recall` (what fits a question best, of one user). Where it has no such call of its own,
its nearest one is used and the rest done in Python, as a program would; `promise` says so, and also
what the engine promises less, or more, than the others. No engine reaches the network or a model:
where vectors are wanted, all of them get the same ones, made before the clock runs.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import random
import sqlite3
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar

if __name__ == "__main__" and not __package__:  # run as a file: find memlab in the checkout
    sys.path.insert(0, str(Path(__file__).parents[2]))

from memlab import KINDS, HashEmbedder, MemoryStore, Put
from memlab.text import fold
from tests.benchmarks.store import LIMITS, Bare, Job

USER_RECORDS = 64
DIM = 256  # of the vectors that all engines get
MANY = 10**9


# Texts ------------------------------------------------------------------------------------------


@cache
def vocabulary() -> tuple[list[str], list[str]]:
    """Return a few thousand made-up words, English by their sound and Chinese by their letters."""
    chance = random.Random(0)
    parts = [a + b + c for a in "bcdfghklmnprstvw" for b in "aeiou" for c in ("", "n", "r", "s")]
    english = dict.fromkeys("".join(chance.choices(parts, k=2)) for _ in range(4000))
    signs = [chr(0x4E00 + step) for step in range(0, 6000, 5)]
    chinese = dict.fromkeys("".join(chance.choices(signs, k=2)) for _ in range(3000))
    return list(english), list(chinese)


def words(number: int) -> list[str]:
    """Return the words of the text of that number; every third is Chinese, some words are rare."""
    chance = random.Random(number)
    known = vocabulary()[number % 3 == 2]
    return [known[int(len(known) * chance.random() ** 2)] for _ in range(chance.randint(9, 14))]


def sentence(number: int) -> str:
    """Return the text of that number; the same one every time."""
    found = words(number)
    if number % 3 == 2:
        return f"{''.join(found[:4])}，{''.join(found[4:])}。"
    return f"{' '.join(found)}."


def question(number: int) -> str:
    """Return a question that the text of that number answers."""
    found = list(dict.fromkeys(words(number)))[:6]
    return f"{''.join(found)}在哪里？" if number % 3 == 2 else f"Where is {' and '.join(found)}?"


def a_job(record: int, text: str) -> Job:
    """Return a job about the record of that number; records go 64 to a user."""
    user, place = divmod(record, USER_RECORDS)
    return Job(user, KINDS[place % len(KINDS)], f"fact.{place:02}", text)


def records(count: int) -> Iterable[Job]:
    """Yield so many records to be put."""
    return (a_job(number, sentence(number)) for number in range(count))


def user_name(number: int) -> str:
    return f"user{number:06}"


class Ready:
    """An embedder that remembers the texts it has met: only the first time costs anything.

    So a question can be embedded before the clock runs: stores are compared here, not models.
    """

    def __init__(self) -> None:
        self._hashes = HashEmbedder(DIM)
        self.id, self.dim = "ready", DIM
        self._of = lru_cache(maxsize=1000)(lambda text: self._hashes.embed([text])[0])

    def embed(self, texts: Sequence[str]) -> Any:
        import numpy

        return numpy.stack([self._of(text) for text in texts])


# Engines ----------------------------------------------------------------------------------------


class Engine:
    """What all have: a folder of their own, opened and closed, and what they promise.

    Attributes:
        package: What to install, `modules` what must then be there, `imports` what a program says.
        promise: What to know before comparing.
        most: How many records it is measured with; beyond that it takes too long, or too much.
    """

    name: ClassVar[str]
    package: ClassVar[str] = ""
    modules: ClassVar[tuple[str, ...]] = ()
    imports: ClassVar[str]
    promise: ClassVar[str]
    most: ClassVar[int] = MANY
    connection: sqlite3.Connection | None = None

    def __init__(self, folder: Path):
        self.folder = folder

    @classmethod
    def missing(cls) -> str:
        """Return why it cannot be measured here; nothing where it can."""
        absent = [name for name in cls.modules if importlib.util.find_spec(name) is None]
        return f"not installed: pip install {cls.package}" if absent else ""

    def open(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def fill(self, jobs: Iterable[Job]) -> None:
        """Put many records before anything is timed."""
        for job in jobs:
            self.put(job)

    def put(self, job: Job) -> None:
        raise NotImplementedError

    def replace(self, job: Job) -> None:
        """Put what is there already under the same name."""
        self.put(job)

    def syncing(self, on: bool) -> bool:
        """Wait for the disk at each commit, or not; say whether the engine lets us choose."""
        if self.connection is None:
            return False
        self.connection.execute(f"PRAGMA synchronous = {'FULL' if on else 'OFF'}")
        return True

    def bytes(self) -> int:
        """Return the size of all its files."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


class Raw(Engine):
    name = "sqlite3"
    imports = "import sqlite3"
    promise = (
        "one table, one commit a write, WAL, a sync a commit; a lower-case copy of each text, to"
        " be searched; no quota, check or history."
    )

    def open(self) -> None:
        self.bare = Bare(self.folder / "raw.sqlite3")
        self.connection = self.bare.connection

    def close(self) -> None:
        self.bare.connection.close()

    def put(self, job: Job) -> None:
        self.bare.put(job)

    def get(self, job: Job) -> str:
        return self.bare.get(job)[2]

    def search(self, job: Job) -> list[str]:
        return [row[2] for row in self.bare.search(job)]

    def read(self, job: Job) -> list[Any]:
        """Return all rows of one user: the floor under every recall."""
        return self.bare.connection.execute(
            "SELECT kind, key, value, revision, session, created, updated FROM memory"
            " WHERE user = ?",
            (user_name(job.user),),
        ).fetchall()

    recall = recall_by_words = read

    def take_back(self, jobs: Iterable[Job]) -> None:
        assert self.connection is not None
        named = [(user_name(job.user), job.kind, job.key) for job in jobs]
        self.connection.execute("BEGIN")
        self.connection.executemany(
            "DELETE FROM memory WHERE user = ? AND kind = ? AND key = ?", named
        )
        self.connection.execute("COMMIT")


class RawWithPromises(Raw):
    """What the history and the counts cost in SQLite itself, whoever keeps them."""

    name = "sqlite3, history, counts"
    promise = "the same table with triggers for a history and for counts, as memlab has them."
    get = search = recall = recall_by_words = None

    def open(self) -> None:
        super().open()
        self.bare.connection.executescript(
            "CREATE TABLE IF NOT EXISTS revision (user TEXT, kind TEXT, key TEXT,"
            " revision INTEGER, value TEXT, session TEXT, updated INTEGER,"
            " PRIMARY KEY (user, kind, key, revision)) WITHOUT ROWID;"
            "CREATE TABLE IF NOT EXISTS usage (user TEXT PRIMARY KEY, records INTEGER)"
            " WITHOUT ROWID;"
            "CREATE TRIGGER IF NOT EXISTS kept AFTER UPDATE OF value ON memory BEGIN"
            " INSERT INTO revision VALUES (OLD.user, OLD.kind, OLD.key, OLD.revision, OLD.value,"
            " OLD.session, OLD.updated); END;"
            "CREATE TRIGGER IF NOT EXISTS counted AFTER INSERT ON memory BEGIN"
            " INSERT INTO usage VALUES (NEW.user, 1), ('', 1)"
            " ON CONFLICT (user) DO UPDATE SET records = records + 1; END;"
        )


class Memlab(Engine):
    name = "memlab"
    imports = "import memlab"
    promise = "each write checked, counted, with history; one user's object cannot name another."
    vectors: ClassVar[bool] = False

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.embedder = Ready() if self.vectors else None

    def open(self) -> None:
        self.store = MemoryStore.open(
            self.folder, create=True, limits=LIMITS, embedder=self.embedder
        )
        self.connection = self.store._database._live()
        self._users: dict[int, Any] = {}

    def close(self) -> None:
        self.store.close()

    def user(self, number: int) -> Any:
        found = self._users.get(number)
        if found is None:
            found = self._users[number] = self.store.for_user(user_name(number), session="s1")
        return found

    def put(self, job: Job) -> None:
        self.user(job.user).put(job.kind, job.key, job.text)

    def propose_and_approve(self, job: Job) -> None:
        user = self.user(job.user)
        proposal = user.lend().propose(Put(job.kind, job.key, job.text))
        user.approvals.approve(proposal.id)

    def get(self, job: Job) -> str:
        return self.user(job.user).get(job.kind, job.key).value

    def search(self, job: Job) -> list[str]:
        return [record.value for record in self.user(job.user).search(job.text)]

    def recalled(self, job: Job) -> list[Any]:
        return self.user(job.user).recall(job.text)

    recall_by_words = recalled
    take_back = Raw.take_back


class MemlabWithVectors(Memlab):
    name = "memlab, vectors"
    promise = "memlab with an embedder: a second commit a write, for the vector it makes by itself."
    vectors = True

    recall = Memlab.recalled
    get = search = recall_by_words = propose_and_approve = None  # as without vectors

    @classmethod
    def missing(cls) -> str:
        absent = importlib.util.find_spec("numpy") is None
        return "not installed: pip install numpy" if absent else ""


class SqliteUtils(Engine):
    name = "sqlite-utils"
    package, modules = "sqlite-utils", ("sqlite_utils",)
    imports = "import sqlite_utils"
    promise = "raw sqlite3's table and durability, in a handier form; nothing promised beyond."

    def open(self) -> None:
        from sqlite_utils import Database

        self.database = Database(self.folder / "utils.sqlite3")
        self.database.enable_wal()
        self.connection = self.database.conn
        self.connection.execute("PRAGMA synchronous = FULL")
        self.table = self.database["memory"]

    def close(self) -> None:
        self.database.close()

    def put(self, job: Job) -> None:
        row = {"user": user_name(job.user), "kind": job.kind, "key": job.key, "value": job.text}
        row |= {"folded": fold(job.text), "session": "s1", "updated": 0}
        self.table.upsert(row, pk=("user", "kind", "key"))

    def get(self, job: Job) -> str:
        return self.table.get((user_name(job.user), job.kind, job.key))["value"]

    def search(self, job: Job) -> list[str]:
        wanted = [user_name(job.user), fold(job.text), fold(job.text)]
        where = "user = ? AND (instr(folded, ?) OR instr(key, ?))"
        found = self.table.rows_where(where, wanted, order_by="updated DESC", limit=5)
        return [row["value"] for row in found]

    def take_back(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self.table.delete((user_name(job.user), job.kind, job.key))


class LangGraph(Engine):
    name = "LangGraph SqliteStore"
    package, modules = "langgraph-checkpoint-sqlite", ("langgraph.store.sqlite",)
    imports = "from langgraph.store.sqlite import SqliteStore"
    promise = (
        "set to WAL and a sync a commit; no history; the caller names the user in each call; no"
        " literal search: the user's items are read and looked through in Python; its vectors need"
        " loadable extensions and are not measured."
    )

    @classmethod
    def missing(cls) -> str:
        try:
            return super().missing()
        except ModuleNotFoundError:  # its parent package is not there either
            return f"not installed: pip install {cls.package}"

    def open(self) -> None:
        from langgraph.store.sqlite import SqliteStore

        self.connection = sqlite3.connect(
            self.folder / "langgraph.sqlite3", isolation_level=None, check_same_thread=False
        )
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.store = SqliteStore(self.connection)
        self.store.setup()

    def close(self) -> None:
        assert self.connection is not None
        self.connection.close()

    def put(self, job: Job) -> None:
        self.store.put((user_name(job.user), job.kind), job.key, {"text": job.text})

    def get(self, job: Job) -> str:
        return self.store.get((user_name(job.user), job.kind), job.key).value["text"]

    def search(self, job: Job) -> list[str]:
        items = self.store.search((user_name(job.user),), limit=1000)
        return _holding(job.text, [item.value["text"] for item in items])

    def take_back(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self.store.delete((user_name(job.user), job.kind), job.key)


class Chroma(Engine):
    name = "chroma"
    package, modules = "chromadb", ("chromadb",)
    imports = "import chromadb"
    promise = "its own durability, not to be set; no history; a vector each; search minds case."
    most = 10_000

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.vectors = Ready()

    def open(self) -> None:
        import chromadb
        from chromadb.config import Settings

        self.client = chromadb.PersistentClient(
            str(self.folder), settings=Settings(anonymized_telemetry=False)
        )
        # It never embeds anything: every call brings its vectors.
        self.collection = self.client.get_or_create_collection(
            "memory", embedding_function=None, metadata={"hnsw:space": "cosine"}
        )

    def close(self) -> None:
        self.client.close()

    def put(self, job: Job) -> None:
        self._put([job])

    def fill(self, jobs: Iterable[Job]) -> None:
        each = list(jobs)
        for start in range(0, len(each), 1000):
            self._put(each[start : start + 1000])

    def _put(self, jobs: Sequence[Job]) -> None:
        self.collection.upsert(
            ids=[_name(job) for job in jobs],
            documents=[job.text for job in jobs],
            metadatas=[{"user": user_name(job.user)} for job in jobs],
            embeddings=self.vectors.embed([job.text for job in jobs]),
        )

    def get(self, job: Job) -> str:
        return self.collection.get(ids=[_name(job)])["documents"][0]

    def search(self, job: Job) -> list[str]:
        return self.collection.get(
            where={"user": user_name(job.user)}, where_document={"$contains": job.text}, limit=5
        )["documents"]

    def recall(self, job: Job) -> list[Any]:
        return self.collection.query(
            query_embeddings=self.vectors.embed([job.text]),
            where={"user": user_name(job.user)},
            n_results=5,
        )["documents"][0]

    def take_back(self, jobs: Iterable[Job]) -> None:
        if named := [_name(job) for job in jobs]:
            self.collection.delete(ids=named)


class Mem0(Engine):
    name = "mem0"
    package, modules = "mem0ai", ("mem0", "qdrant_client")
    imports = "from mem0 import Memory"
    promise = (
        "with local qdrant, infer=False (no model is asked), our vectors; keeps a history; no"
        " literal search: the user's memories are read and looked through in Python."
    )
    most = 1000  # local qdrant holds and compares all vectors of all users in Python

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.vectors = Ready()
        self.ids: dict[str, str] = {}  # it names its memories itself

    def open(self) -> None:
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ["MEM0_DIR"] = str(self.folder)
        logging.getLogger("mem0").setLevel(logging.CRITICAL)  # it misses spaCy and fastembed aloud
        from mem0 import Memory

        key = {"provider": "openai", "config": {"api_key": "none"}}  # made, and never called
        stored = {"path": str(self.folder / "qdrant"), "on_disk": True}
        stored |= {"embedding_model_dims": DIM, "collection_name": "memory"}
        self.memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": stored},
                "history_db_path": str(self.folder / "history.sqlite3"),
                "llm": key,
                "embedder": key,
            }
        )
        self.memory.embedding_model = self

    def close(self) -> None:
        self.memory.vector_store.client.close()
        self.memory.close()

    def embed(self, text: str, *_: Any, **__: Any) -> list[float]:
        return self.vectors.embed([text])[0].tolist()

    def embed_batch(self, texts: list[str], *_: Any, **__: Any) -> list[list[float]]:
        return self.vectors.embed(texts).tolist()

    def put(self, job: Job) -> None:
        id = self.ids.get(_name(job))
        if id is not None:
            self.memory.update(id, job.text)
            return
        done = self.memory.add(job.text, user_id=user_name(job.user), infer=False)
        self.ids[_name(job)] = done["results"][0]["id"]

    def get(self, job: Job) -> str:
        return self.memory.get(self.ids[_name(job)])["memory"]

    def search(self, job: Job) -> list[str]:
        whose = {"user_id": user_name(job.user)}
        found = self.memory.get_all(filters=whose, top_k=1000)["results"]
        return _holding(job.text, [each["memory"] for each in found])

    def recall(self, job: Job) -> list[Any]:
        whose = {"user_id": user_name(job.user)}
        return self.memory.search(job.text, filters=whose, top_k=5, threshold=0.0)["results"]

    def take_back(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self.memory.delete(self.ids.pop(_name(job)))


class AgentsSession(Engine):
    name = "OpenAI Agents session"
    package, modules = "openai-agents", ("agents",)
    imports = "from agents import SQLiteSession"
    promise = (
        "a log of turns, not a memory: a put adds at the end, nothing is named, replaced, searched"
        " or recalled; asynchronous, in a thread of its own; always syncs."
    )
    most = USER_RECORDS  # a session keeps connections of its own, and there is one a user

    def open(self) -> None:
        from agents import SQLiteSession

        self.thread = ThreadPoolExecutor(1)
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(self.thread)
        self.session = SQLiteSession(user_name(0), self.folder / "agents.sqlite3")

    def close(self) -> None:
        self.session.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def put(self, job: Job) -> None:
        turn: Any = {"role": "user", "content": job.text}
        self.loop.run_until_complete(self.session.add_items([turn]))

    replace = None  # a turn stays as it was said

    def take_back(self, jobs: Iterable[Job]) -> None:
        for _ in jobs:
            self.loop.run_until_complete(self.session.pop_item())


ENGINES: tuple[type[Engine], ...] = (
    Raw,
    RawWithPromises,
    Memlab,
    MemlabWithVectors,
    SqliteUtils,
    LangGraph,
    AgentsSession,
    Chroma,
    Mem0,
)


def call_of(engine: Engine, name: str) -> Callable[[Job], Any] | None:
    """Return the engine's own way to do it, or None where it has none."""
    return getattr(engine, name, None)


# Inside -----------------------------------------------------------------------------------------


def _name(job: Job) -> str:
    return f"{user_name(job.user)}/{job.kind}/{job.key}"


def _holding(text: str, values: Iterable[str]) -> list[str]:
    wanted = fold(text)
    return [value for value in values if wanted in fold(value)][:5]
