"""The contract kit: our own store keeps all of it, and each broken store is told by its clause.

A fault is one small change of the real store. Together the faults break every clause, so that
there is none that cannot fail.
"""

import hashlib
import json
import os
import re
import string
import unicodedata
from collections import Counter
from dataclasses import replace

import pytest

from memlab import (
    Delete,
    InvalidInput,
    MemoryStore,
    NotApproved,
    Problem,
    Put,
    approvals,
    database,
    forgetting,
    retrieval,
    rows,
    vectors,
)
from memlab import store as store_module
from memlab.classroom import contract
from memlab.classroom.contract import CLAUSES, check_store
from memlab.store import Approvals, LentMemory, UserMemory, _Reading
from memlab.text import fold

MOST_OTHERS = 3  # clauses that a fault may break beside its own: many promises lean on others
FAULTS = {}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Let no write wait for the disk: what is promised here is not durability."""
    connect = database.Database._connect

    def without_waiting(self):
        connection = connect(self)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    monkeypatch.setattr(database.Database, "_connect", without_waiting)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def in_order(names):
    return [name for name in CLAUSES if name in names]


def broken(report):
    return [finding.name for finding in report.broken]


# The kit ----------------------------------------------------------------------------------------


def test_our_own_store_keeps_the_whole_contract():
    report = check_store(MemoryStore.open)
    assert report.holds, report
    assert [finding.name for finding in report] == list(CLAUSES)


def test_every_clause_says_what_is_promised_in_a_sentence_of_its_own():
    promises = [clause.promise for clause in CLAUSES.values()]
    assert len(set(promises)) == len(promises)
    assert all(each[0].isalpha() and each.endswith(".") and len(each) < 100 for each in promises)


def test_some_clauses_can_be_run_alone_in_the_usual_order():
    report = check_store(MemoryStore.open, only={"undo.revision", "put.new"})
    assert [finding.name for finding in report] == ["put.new", "undo.revision"]


@pytest.mark.parametrize("only", ["put.new", ["put.new", "put.knew"], [7]])
def test_a_clause_that_does_not_exist_is_refused(only):
    with pytest.raises(InvalidInput) as refused:
        check_store(MemoryStore.open, only=only)
    assert refused.value.field == "only"


def test_what_opens_must_be_callable():
    with pytest.raises(InvalidInput):
        check_store("memory.sqlite3")


def test_a_store_that_raises_breaks_its_clause_and_no_other():
    class Raises(MemoryStore):
        def users(self):
            raise TypeError("there are no users")

    report = check_store(Raises.open, only=["put.new", "scope.names", "search.case"])
    assert broken(report) == ["scope.names"]
    assert report.broken[0].found == "raised TypeError: there are no users"


def test_an_opener_that_raises_or_leaves_breaks_every_clause_and_ends_nothing():
    class Unspeakable(Exception):
        def __str__(self):
            raise ValueError

    for error in (Unspeakable(), SystemExit(3)):

        def opener(folder, error=error, **options):
            raise error

        report = check_store(opener)
        assert broken(report) == list(CLAUSES)
        assert all(type(error).__name__ in finding.found for finding in report)


def test_what_is_no_store_at_all_breaks_every_clause():
    class Nothing:
        def close(self):
            pass

    report = check_store(lambda folder, **options: Nothing())
    assert broken(report) == list(CLAUSES)


def test_an_interrupt_ends_the_run():
    def opener(folder, **options):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_store(opener)


def test_a_store_that_cannot_be_closed_breaks_the_clause():
    class Stuck(MemoryStore):
        def close(self):
            super().close()
            raise OSError("stuck")

    report = check_store(Stuck.open, only=["put.new"])
    assert report.broken[0].found == "raised OSError: stuck"


def test_each_clause_begins_in_an_empty_folder_and_closes_what_it_opened():
    opened, closed, folders = [], [], []

    class Counted(MemoryStore):
        def close(self):
            closed.append(id(self))
            super().close()

    def opener(folder, **options):
        assert not folder.exists() or folder in folders or options["create"] is False
        folders.append(folder)
        opened.append(Counted.open(folder, **options))
        return opened[-1]

    report = check_store(opener)
    assert report.holds, report
    assert {id(each) for each in opened} == set(closed)
    assert not any(folder.exists() for folder in folders)


def test_the_values_are_new_in_every_run_and_the_same_for_the_same_seed(monkeypatch):
    real, put = UserMemory.put, []

    def spy(self, kind, key, value, expect=None):
        put.append(value)
        return real(self, kind, key, value, expect)

    monkeypatch.setattr(UserMemory, "put", spy)

    def values(**options):
        put.clear()
        check_store(MemoryStore.open, only=["put.new", "search.case", "recall.order"], **options)
        return list(put)

    assert values(seed=1) == values(seed=1)
    assert values(seed=1) != values(seed=2)
    assert values() != values()


@pytest.mark.parametrize("seed", range(5))
def test_no_luck_is_needed(seed):
    assert check_store(MemoryStore.open, seed=seed).holds


def test_without_numpy_what_needs_it_is_left_out_and_the_report_says_so(monkeypatch):
    monkeypatch.setattr(contract.importlib.util, "find_spec", lambda name: None)
    report = check_store(MemoryStore.open, only=["put.new", "meaning.found"])
    assert [finding.name for finding in report] == ["put.new"]
    assert "1 left out: numpy is not installed" in str(report)


# The broken stores ------------------------------------------------------------------------------


def tells(*clauses):
    """Make a function a fault: it breaks the real store, and these clauses must tell."""

    def add(fault):
        FAULTS[fault.__name__] = (fault, clauses)
        return fault

    return add


def wrap(patch, owner, name, wrapper):
    """Replace `owner.name` by a function that is handed the real one first."""
    real = getattr(owner, name)
    patch(owner, name, lambda *args, **options: wrapper(real, *args, **options))


def sql(patch, name, old, new):
    """Change the text of a statement."""
    statement = getattr(rows, name)
    assert old in statement
    patch(rows, name, statement.replace(old, new))


# Opening and restarting


def opens(patch, change):
    """Open another file than was asked for."""
    real = database.Database.open.__func__
    patch(database.Database, "open", classmethod(lambda cls, *args: real(cls, *change(*args))))


def on_opening(patch, statement):
    """Run a statement each time a store is opened."""
    real = MemoryStore.open.__func__

    def open_store(cls, *args, **options):
        store = real(cls, *args, **options)
        with store._database.transaction() as file:
            file.execute(statement)
        return store

    patch(MemoryStore, "open", classmethod(open_store))


@tells("open.missing")
def opening_always_creates(patch):
    opens(
        patch, lambda folder, limits, clock, create, read_only: (folder, limits, clock, True, False)
    )


@tells("open.apart")
def one_store_whatever_the_folder(patch):
    opens(patch, lambda folder, *args: (folder.with_name("data"), *args))


@tells("restart.records")
def a_restart_loses_pins(patch):
    on_opening(patch, "UPDATE memory SET pinned = 0")


@tells("restart.records")
def a_restart_loses_the_history(patch):
    on_opening(patch, "DELETE FROM revision")


@tells("restart.proposals", "approval.rejected")
def a_restart_loses_proposals(patch):
    on_opening(patch, "DELETE FROM proposal")


@tells("shared.reads")
def get_believes_what_it_read_before(patch):
    kept = {}
    real_get, real_transaction = _Reading.get, database.Database.transaction

    def get(self, kind, key):
        known = kept.setdefault(self._scope.database, {})
        name = (self.user, kind, key)
        if name not in known:
            known[name] = real_get(self, kind, key)
        return known[name]

    def transaction(self):
        kept.pop(self, None)
        return real_transaction(self)

    patch(_Reading, "get", get)
    patch(database.Database, "transaction", transaction)


@tells("shared.reads", "shared.approval", "shared.quota")
def a_second_opening_is_another_store(patch):
    opened, close = Counter(), database.Database.close

    def elsewhere(folder, *args):
        opened[folder] += 1
        return folder.with_name(f"{folder.name}{opened[folder]}"), *args

    def closed(self):
        opened.clear()
        close(self)

    opens(patch, elsewhere)
    patch(database.Database, "close", closed)


# Records


@tells("put.new")
def put_returns_a_record_without_its_session(patch):
    def put(real, *args, **options):
        return replace(real(*args, **options), session="")

    wrap(patch, UserMemory, "put", put)


@tells("put.replaces")
def an_update_keeps_the_old_session(patch):
    def write(real, file, user, change, session, *rest):
        found = rows.get(file, user, change.kind, change.key)
        return real(file, user, change, found.session if found else session, *rest)

    wrap(patch, rows, "write", write)


@tells("put.unchanged")
def the_same_value_again_makes_a_revision(patch):
    def write(real, file, user, change, session, now, limits):
        done = real(file, user, change, session, now, limits)
        if done.effect != "unchanged":
            return done
        file.execute(
            "UPDATE memory SET revision = revision + 1 WHERE user = ? AND kind = ? AND key = ?",
            (user, change.kind, change.key),
        )
        record = rows.get(file, user, change.kind, change.key)
        return replace(done, record=record, effect="replaced")

    wrap(patch, rows, "write", write)


@tells("put.expect")
def put_takes_no_notice_of_what_it_expects(patch):
    def put(real, self, kind, key, value, expect=None):
        return real(self, kind, key, value)

    wrap(patch, UserMemory, "put", put)


@tells("get.absent")
def deleting_nothing_is_a_success(patch):
    wrap(patch, UserMemory, "delete", lambda real, *args: real(*args) is not None)


@tells("get.exact")
def get_folds_case(patch):
    def get(real, self, kind, key):
        return real(self, kind, key.lower() if isinstance(key, str) and key.isascii() else key)

    wrap(patch, _Reading, "get", get)


@tells("get.exact")
def get_takes_wildcards(patch):
    def get(real, self, kind, key):
        found = real(self, kind, key)
        alike = [each for each in self.list(kind) if re.fullmatch(key.replace("_", "."), each.key)]
        return found or next(iter(alike), None)

    wrap(patch, _Reading, "get", get)


@tells("get.kinds")
def deleting_one_kind_deletes_all(patch):
    def delete(real, self, kind, key):
        return sum(real(self, each.kind, key) for each in self.list() if each.key == key) > 0

    wrap(patch, UserMemory, "delete", delete)


@tells("list.all")
def a_list_begins_at_its_end(patch):
    wrap(patch, _Reading, "list", lambda real, *args: real(*args)[::-1])


@tells("list.all")
def a_list_has_ten_records_at_most(patch):
    wrap(patch, _Reading, "list", lambda real, *args: real(*args)[:10])


@tells("remember.once")
def remember_overwrites(patch):
    def remember(self, text, kind="note"):
        key = "auto." + hashlib.sha256(text.encode()).hexdigest()[:16]
        return self.put(kind, key, text)

    patch(UserMemory, "remember", remember)


@tells("pin.only")
def a_pin_makes_a_revision(patch):
    def pin(real, file, user, kind, key, pinned):
        real(file, user, kind, key, pinned)
        file.execute(
            "UPDATE memory SET revision = revision + 1 WHERE user = ? AND kind = ? AND key = ?",
            (user, kind, key),
        )

    wrap(patch, rows, "pin", pin)


@tells("touch.counts")
def touch_counts_every_record(patch):
    def touch(real, self, records):
        real(self, self.list())

    wrap(patch, _Reading, "touch", touch)


@tells("session.shared")
def a_session_reads_its_own_alone(patch):
    def get(real, self, kind, key):
        found = real(self, kind, key)
        return found if found and found.session == self.session else None

    wrap(patch, _Reading, "get", get)


# Revisions


@tells("history.all")
def history_gives_every_value_the_last_session(patch):
    def history(real, *args):
        found = real(*args)
        return [replace(each, session=found[-1].session) for each in found]

    wrap(patch, _Reading, "history", history)


@tells("revision.unique")
def revisions_begin_anew_after_a_deletion(patch):
    def remove(real, file, user, *args):
        done = real(file, user, *args)
        file.execute("DELETE FROM tombstone WHERE user = ?", (user,))
        return done

    wrap(patch, rows, "remove", remove)


@tells("revision.anew")
def forgetting_everything_keeps_the_revisions(patch):
    def remove_all(real, file, user):
        kept = file.read("SELECT user, kind, key, revision FROM memory WHERE user = ?", (user,))
        count = real(file, user)
        for row in kept:
            file.execute("INSERT INTO tombstone VALUES (?, ?, ?, ?)", row)
        return count

    wrap(patch, rows, "remove_all", remove_all)


@tells("undo.revision")
def undo_makes_no_revision(patch):
    def undo(real, self, kind, key, to_revision):
        known = {each.revision: each.value for each in self.history(kind, key)}
        if to_revision not in known:
            return real(self, kind, key, to_revision)
        with self._scope.database.transaction() as file:
            file.execute(
                "UPDATE memory SET value = ? WHERE user = ? AND kind = ? AND key = ?",
                (known[to_revision], self.user, kind, key),
            )
        return self.get(kind, key)

    wrap(patch, UserMemory, "undo", undo)


@tells("undo.absent")
def undo_of_anything_gives_what_stands(patch):
    def undo(real, self, *args):
        try:
            return real(self, *args)
        except InvalidInput:
            return self.get(*args[:2])

    wrap(patch, UserMemory, "undo", undo)


# Texts and limits


@tells("text.hostile")
def values_are_stripped(patch):
    def put(real, self, kind, key, value, expect=None):
        stripped = value.strip() if isinstance(value, str) else value
        return real(self, kind, key, stripped, expect)

    wrap(patch, UserMemory, "put", put)


@tells("text.hostile")
def values_are_escaped_as_they_come_in(patch):
    def put(real, self, kind, key, value, expect=None):
        escaped = value.replace("<", "&lt;") if isinstance(value, str) else value
        return real(self, kind, key, escaped, expect)

    wrap(patch, UserMemory, "put", put)


@tells("text.refused")
def whatever_comes_is_made_a_text(patch):
    def put(real, self, kind, key, value, expect=None):
        return real(self, kind, key, str(value), expect)

    wrap(patch, UserMemory, "put", put)


@tells("name.refused")
def any_name_is_a_user(patch):
    patch(store_module, "check_name", lambda name, what: str(name))


@tells("name.refused")
def a_name_may_end_with_a_line(patch):
    def check_name(real, name, what):
        return real(name.removesuffix("\n") if isinstance(name, str) else name, what)

    wrap(patch, store_module, "check_name", check_name)


@tells("limit.value")
def what_is_too_long_is_cut_in_silence(patch):
    def checked(real, change, limits):
        if isinstance(change, Put):
            change = replace(change, value=change.value[: limits.value_chars])
        return real(change, limits)

    wrap(patch, store_module, "_checked", checked)


@tells("limit.value")
def length_is_counted_in_bytes(patch):
    def checked(real, change, limits):
        if isinstance(change, Put) and len(change.value.encode()) > limits.value_chars:
            raise InvalidInput("value", "is too long")
        return real(change, limits)

    wrap(patch, store_module, "_checked", checked)


@tells("limit.key")
def a_key_may_be_one_longer(patch):
    def checked(real, change, limits):
        return real(change, replace(limits, key_chars=limits.key_chars + 1))

    wrap(patch, store_module, "_checked", checked)


@tells("quota.per_user", "shared.quota")
def the_quota_of_a_user_is_one_more(patch):
    def check_quota(real, user, own, total, limits):
        real(user, own - 1, total, limits)

    wrap(patch, rows, "_check_quota", check_quota)


@tells("quota.per_user")
def a_full_user_cannot_update(patch):
    def put(real, self, *args, **options):
        if len(self.list()) >= self.limits.records_per_user:
            rows._check_quota(self.user, len(self.list()), 0, self.limits)
        return real(self, *args, **options)

    wrap(patch, UserMemory, "put", put)


@tells("quota.total")
def the_quota_of_the_store_counts_one_user(patch):
    def check_quota(real, user, own, total, limits):
        real(user, own, own, limits)

    wrap(patch, rows, "_check_quota", check_quota)


@tells("quota.pending", "import.whole")
def one_proposal_more_may_wait(patch):
    def add(real, file, user, new, new_id, limits):
        more = replace(limits, pending_proposals=limits.pending_proposals + 1)
        return real(file, user, new, new_id, more)

    wrap(patch, rows, "add_proposal", add)


# Search


def finds(patch, holds):
    """Let search find only what it finds and what also `holds`."""

    def search(real, self, query="", limit=5, kind=None):
        return [each for each in real(self, query, limit, kind) if holds(query, each)]

    wrap(patch, _Reading, "search", search)


def text(record):
    return f"{record.key} {record.value}"


@tells("search.literal")
def search_takes_wildcards(patch):
    def search(real, self, query="", limit=5, kind=None):
        if not isinstance(query, str) or not {"%", "_"} & set(query):
            return real(self, query, limit, kind)
        wanted = re.escape(query).replace("%", ".*").replace("_", ".")
        return [each for each in self.list(kind) if re.search(wanted, each.value)][:limit]

    wrap(patch, _Reading, "search", search)


@tells("search.literal")
def search_looks_for_each_word(patch):
    def search(real, self, query="", limit=5, kind=None):
        words = query.split() if isinstance(query, str) else []
        if len(words) < 2:
            return real(self, query, limit, kind)
        return [each for word in words for each in real(self, word, limit, kind)][:limit]

    wrap(patch, _Reading, "search", search)


@tells("search.case")
def search_folds_ascii_alone(patch):
    lower = {ord(c): c.lower() for c in string.ascii_uppercase}
    finds(patch, lambda query, each: query.translate(lower) in text(each).translate(lower))


@tells("search.case")
def search_leaves_out_keys(patch):
    finds(patch, lambda query, each: fold(query) in fold(each.value))


@tells("search.order")
def search_gives_the_oldest_first(patch):
    wrap(patch, _Reading, "search", lambda real, *args, **options: real(*args, **options)[::-1])


@tells("search.order")
def search_gives_equals_in_the_order_they_came(patch):
    came = {}

    def write(real, file, user, change, *args):
        came.setdefault((user, change.kind, change.key), -len(came))
        return real(file, user, change, *args)

    def find(real, file, user, *args):
        return sorted(
            real(file, user, *args),
            key=lambda each: (-each.updated, came.get((user, each.kind, each.key), 0)),
        )

    wrap(patch, rows, "write", write)
    wrap(patch, rows, "find", find)


@tells("search.limit")
def a_limit_of_minus_one_gives_everything(patch):
    def search(real, self, query="", limit=5, kind=None):
        return real(self, query, 1000 if limit == -1 else limit, kind)

    wrap(patch, _Reading, "search", search)


@tells("search.limit")
def recall_gives_one_more(patch):
    def recall(real, self, query, limit=5, kind=None):
        store_module.check_count(limit, "limit", 1, 1000)
        return real(self, query, min(limit + 1, 1000), kind)

    wrap(patch, _Reading, "recall", recall)


@tells("search.kind")
def search_takes_no_notice_of_the_kind(patch):
    def search(real, self, query="", limit=5, kind=None):
        return real(self, query, limit)

    wrap(patch, _Reading, "search", search)


@tells("search.query")
def a_long_query_is_cut_in_silence(patch):
    def search(real, self, query="", limit=5, kind=None):
        return real(self, query[:128] if isinstance(query, str) else query, limit, kind)

    wrap(patch, _Reading, "search", search)


@tells("search.query")
def recall_takes_a_quote_for_an_operator(patch):
    def recall(real, self, query, *args, **options):
        if isinstance(query, str) and query.count('"') % 2:
            raise RuntimeError("unbalanced quotes")
        return real(self, query, *args, **options)

    wrap(patch, _Reading, "recall", recall)


# Recall and meaning


@tells("recall.best")
def recall_gives_the_worst_first(patch):
    wrap(patch, retrieval, "recall", lambda real, *args: real(*args)[::-1])


@tells("recall.chinese")
def recall_knows_only_words_between_spaces(patch):
    patch(retrieval, "terms", lambda text: text.lower().split())
    for cached in (retrieval._read, retrieval._small_index, retrieval._large_index):
        cached.cache_clear()


@tells("recall.abstains")
def recall_always_gives_something(patch):
    def recall(real, records, query, limit, kind=None, similarities=None):
        found = real(records, query, limit, kind, similarities)
        chosen = [each for each in records if kind in (None, each.kind)]
        return found or [store_module.Hit(each, 0.0, {}) for each in chosen[:limit]]

    wrap(patch, retrieval, "recall", recall)


@tells("recall.order")
def recall_keeps_the_order_in_which_records_came(patch):
    came = {}

    def write(real, file, user, change, *args):
        came.setdefault((file._database, user, change.value), len(came))
        return real(file, user, change, *args)

    def recall(real, self, query, limit=5, kind=None):
        hits = real(self, query, 1000 if type(limit) is int and 0 < limit <= 1000 else limit, kind)
        hits.sort(key=lambda hit: (-hit.score, came[self._scope.database, self.user, hit.value]))
        return hits[:limit]

    wrap(patch, rows, "write", write)
    wrap(patch, _Reading, "recall", recall)


@tells("recall.current")
def recall_reads_the_history_too(patch):
    def recall(real, self, query, limit=5, kind=None):
        hits = real(self, query, limit, kind)
        for record in self.list():
            for old in self.history(record.kind, record.key)[:-1]:
                if query and old.value in query and query in old.value:
                    hits.append(store_module.Hit(replace(record, value=old.value), 1.0, {}))
        return hits[:limit]

    wrap(patch, _Reading, "recall", recall)


@tells("meaning.found")
def vectors_are_never_asked(patch):
    patch(vectors, "similarities", lambda *args: None)


@tells("meaning.fails")
def a_failed_embedding_fails_the_write(patch):
    def store(real, base, user, embedder, records):
        embedder.embed([record.value for record in records])
        return real(base, user, embedder, records)

    wrap(patch, vectors, "store", store)


@tells("meaning.fails")
def an_old_vector_speaks_for_a_new_value(patch):
    def write(real, file, user, change, *args):
        name = (user, change.kind, change.key)
        where = "WHERE user = ? AND kind = ? AND key = ?"
        old = file.read(f"SELECT vector, vector_of FROM memory {where}", name)
        done = real(file, user, change, *args)
        if old and done.effect == "replaced":
            file.execute(f"UPDATE memory SET vector = ?, vector_of = ? {where}", (*old[0], *name))
        return done

    wrap(patch, rows, "write", write)
    patch(vectors.embed, "tag", lambda embedder, text: f"{embedder.id}:{embedder.dim}")


# Reading


@tells("read.pure")
def recalling_counts_as_use(patch):
    def recall(real, self, *args, **options):
        found = real(self, *args, **options)
        self.touch(hit.record for hit in found)
        return found

    wrap(patch, _Reading, "recall", recall)


@tells("lent.reads")
def what_is_lent_can_delete(patch):
    patch(LentMemory, "delete", UserMemory.delete, raising=False)


@tells("stats.count")
def a_user_s_stats_are_of_all_users(patch):
    wrap(patch, rows, "counts", lambda real, file, user=None: real(file))


@tells("verify.clean")
def verify_cries_wolf(patch):
    def verify(real, self):
        return real(self) + [Problem("many records")] * (self.stats()["records"] > 2)

    wrap(patch, MemoryStore, "verify", verify)


# Users


@tells("scope.get")
def get_falls_back_on_other_users(patch):
    def get(real, file, user, kind, key):
        users = [user, *rows.users(file)]
        return next((found for each in users if (found := real(file, each, kind, key))), None)

    patch(
        _Reading,
        "get",
        lambda self, kind, key: get(rows.get, self._scope.database, self.user, kind, key),
    )


@tells("scope.list", "scope.writes")
def a_list_is_of_all_users(patch):
    def every(real, self, kind=None):
        users = rows.users(self._scope.database)
        return [r for each in users for r in rows.every(self._scope.database, each, kind)]

    wrap(patch, _Reading, "list", every)


@tells("scope.search")
def search_takes_no_notice_of_the_user(patch):
    def search(real, self, query="", limit=5, kind=None):
        own = real(self, query, limit, kind)
        others = set(rows.users(self._scope.database)) - {self.user}
        found = [r for each in others for r in rows.every(self._scope.database, each, kind)]
        return (own + [each for each in found if fold(query) in fold(text(each))])[:limit]

    wrap(patch, _Reading, "search", search)


@tells("scope.recall")
def recall_reads_all_users(patch):
    def known(real, base, user, embedder):
        found = [record for each in rows.users(base) for record in rows.every(base, each)]
        return vectors.Known(found, [None] * len(found), None)

    wrap(patch, vectors, "known", known)


@tells("scope.history")
def history_is_of_all_users(patch):
    def history(real, file, user, kind, key):
        found = [each for name in rows.users(file) for each in real(file, name, kind, key)]
        return sorted(found, key=lambda each: each.revision)

    wrap(patch, rows, "history", history)


@tells("scope.proposals")
def a_proposal_is_found_by_its_id_alone(patch):
    def proposal(real, file, user, id):
        return next((p for each in rows.users(file) if (p := real(file, each, id))), None)

    wrap(patch, rows, "proposal", proposal)


@tells("scope.approval")
def what_anybody_approved_is_approved(patch):
    def proposals_for(real, file, user, change):
        return [p for each in rows.users(file) for p in real(file, each, change)]

    wrap(patch, rows, "proposals_for", proposals_for)


@tells("scope.writes")
def touch_takes_no_notice_of_the_user(patch):
    def touch(real, file, user, names, now):
        for each in rows.users(file):
            real(file, each, names, now)

    wrap(patch, rows, "touch", touch)


@tells("scope.errors")
def an_error_shows_what_others_stored(patch):
    def pin(real, self, kind, key, pinned=True):
        try:
            return real(self, kind, key, pinned)
        except InvalidInput:
            base = self._scope.database
            there = [rows.every(base, user) for user in rows.users(base)]
            raise InvalidInput("key", f"there is no {kind}/{key} among {there}") from None

    wrap(patch, UserMemory, "pin", pin)


@tells("scope.names")
def an_underscore_in_a_name_is_a_wildcard(patch):
    sql(patch, "_ALL", "user = ?", "user LIKE ?")


@tells("scope.everything")
def forgetting_everything_is_for_all_users(patch):
    def remove_all(real, file, user):
        return sum(real(file, each) for each in rows.users(file))

    wrap(patch, rows, "remove_all", remove_all)


# Deletion


@tells("delete.one")
def delete_takes_what_begins_alike(patch):
    def remove(real, file, user, kind, key, now, expect=None):
        alike = file.read(
            "SELECT key FROM memory WHERE user = ? AND kind = ? AND key LIKE ? || '_'",
            (user, kind, key),
        )
        for (other,) in alike:
            real(file, user, kind, other, now)
        return real(file, user, kind, key, now, expect)

    wrap(patch, rows, "remove", remove)


def keeps(patch, table):
    """Let what stands in a table outlive the deletion of its record."""

    def remove(real, file, user, kind, key, now, expect=None):
        name = (user, kind, key)
        where = "WHERE user = ? AND kind = ? AND key = ?"
        kept = file.read(f"SELECT * FROM {table} {where}", name)
        done = real(file, user, kind, key, now, expect)
        file.execute(f"DELETE FROM {table} {where}", name)
        for row in kept:
            file.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        return done

    wrap(patch, rows, "remove", remove)


@tells("delete.everywhere", "forget.everywhere")
def a_deletion_keeps_the_history(patch):
    keeps(patch, "revision")


@tells("delete.final", "delete.everywhere")
def a_deletion_keeps_what_was_asked_for(patch):
    keeps(patch, "proposal")


@tells("delete.everywhere")
def recall_gives_what_was_deleted(patch):
    gone = []

    def remove(real, file, user, kind, key, *args):
        record = rows.get(file, user, kind, key)
        gone.extend([record] if record else [])
        return real(file, user, kind, key, *args)

    def known(real, *args):
        found = real(*args)
        records, places = [*found.records, *gone], [*found.rows, *[None] * len(gone)]
        return replace(found, records=type(found.records)(records), rows=places)

    wrap(patch, rows, "remove", remove)
    wrap(patch, vectors, "known", known)


# Approvals


def allows(patch, states, fits=True):
    """Use a proposal in one of these states as if it were approved."""

    def usable(proposals, last):
        for each in proposals:
            moved = fits and each.state == "approved" and not approvals.fits(each, last)
            if each.state in states and not moved:
                return each
        return None

    patch(approvals, "usable", usable)


@tells("approval.needed")
def what_would_change_nothing_needs_no_approval(patch):
    def apply(real, self, change, reason=""):
        found = self.get(change.kind, change.key)
        if isinstance(change, Put) and found and found.value == change.value:
            return store_module.Applied(change, found, "unchanged")
        return real(self, change, reason)

    wrap(patch, LentMemory, "apply", apply)


@tells("approval.needed", "approval.exact")
def without_a_decision_it_is_done(patch):
    def asked(real, self, file, change, reason):
        found = real(self, file, change, reason)
        if found.state == "pending":
            rows.apply(file, self.user, change, self.session, self._scope.now(), self.limits)
        return found

    wrap(patch, LentMemory, "_asked", asked)


@tells("approval.tells")
def a_proposal_does_not_tell_the_old_value(patch):
    def add(real, file, user, new, *args):
        return real(file, user, replace(new, old_value=None), *args)

    wrap(patch, rows, "add_proposal", add)


@tells("approval.once")
def an_approval_is_used_again(patch):
    allows(patch, ("approved", "used"))


@tells("approval.exact")
def an_approval_covers_any_value(patch):
    def digest(change):
        return hashlib.sha256(f"{change.action} {change.kind} {change.key}".encode()).hexdigest()

    patch(rows, "digest", digest)


@tells("approval.exact")
def an_approval_to_put_is_one_to_delete(patch):
    def apply(real, self, change, reason=""):
        for each in self.approved() if isinstance(change, Delete) else ():
            if (each.action, each.kind, each.key) == ("put", change.kind, change.key):
                UserMemory(self._scope).delete(change.kind, change.key)
        return real(self, change, reason)

    wrap(patch, LentMemory, "apply", apply)


@tells("approval.moved", "approval.recreated", "approval.late")
def an_approval_outlives_any_change(patch):
    patch(approvals, "fits", lambda proposal, last: True)


@tells("approval.expect")
def an_approval_takes_no_notice_of_what_is_expected(patch):
    def ask(real, file, scope, change, *args):
        return real(file, scope, replace(change, expect=None), *args)

    wrap(patch, store_module, "_ask", ask)


@tells("approval.expires")
def approvals_do_not_expire(patch):
    patch(approvals, "seen", lambda proposal, now: proposal)


@tells("approval.expires")
def approvals_expire_a_millisecond_late(patch):
    wrap(patch, approvals, "seen", lambda real, proposal, now: real(proposal, now - 1))


@tells("approval.rejected")
def a_rejected_change_is_made(patch):
    allows(patch, ("approved", "rejected"))


@tells("approval.rejected")
def a_rejected_change_can_be_asked_for_anew(patch):
    def answer(real, proposals, last):
        return real([each for each in proposals if each.state != "rejected"], last)

    wrap(patch, approvals, "answer", answer)


@tells("approval.revoked")
def taking_back_is_not_kept(patch):
    def revoke(real, self, id, how="code"):
        found = rows.proposal(self._scope.database, self._scope.user, id)
        if found and found.state == "approved":
            return replace(found, state="revoked")
        return real(self, id, how)

    wrap(patch, Approvals, "revoke", revoke)


@tells("approval.executes")
def what_is_approved_is_stored_under_another_session(patch):
    def apply(real, file, user, change, session, *args):
        return real(file, user, change, "console", *args)

    wrap(patch, rows, "apply", apply)


@tells("approval.edited")
def the_edit_is_lost(patch):
    def approve(real, self, id, value=None, how="code"):
        if value is not None:
            store_module.clean(value, "value", limit=self._scope.limits.value_chars)
        return real(self, id, None, how)

    wrap(patch, Approvals, "approve", approve)


@tells("approval.unused")
def an_approval_without_effect_is_used_up(patch):
    def apply(real, self, change, reason=""):
        approved = [each.id for each in self.approved() if each.change == change]
        done = real(self, change, reason)
        if done.effect == "unchanged":
            Approvals(self._scope).revoke(approved[0])
        return done

    wrap(patch, LentMemory, "apply", apply)


@tells("approval.superseded")
def what_changed_nothing_counts_as_used(patch):
    def executed(real, proposal, done, now, how):
        return replace(real(proposal, done, now, how), state="used")

    wrap(patch, approvals, "executed", executed)


@tells("approval.decided")
def a_second_approval_is_answered_kindly(patch):
    def approve(real, self, id, value=None, how="code"):
        try:
            return real(self, id, value, how)
        except NotApproved as error:
            if error.proposal.state != "used":
                raise
            return None

    wrap(patch, Approvals, "approve", approve)


@tells("approval.all")
def several_approvals_stop_at_the_first_error(patch):
    def approve_all(real, self, ids):
        outcomes = []
        for id in ids:
            outcomes += real(self, [id])
            if not outcomes[-1].ok:
                break
        return outcomes

    wrap(patch, Approvals, "approve_all", approve_all)


@tells("approval.quota")
def a_quota_uses_the_approval_up(patch):
    def apply(real, self, change, reason=""):
        approved = [each.id for each in self.approved() if each.change == change]
        try:
            return real(self, change, reason)
        except store_module.MemlabError:
            for id in approved:
                Approvals(self._scope).revoke(id)
            raise

    wrap(patch, LentMemory, "apply", apply)


@tells("approval.ids")
def an_id_is_given_again(patch):
    def add(real, file, user, new, new_id, limits):
        id = new_id()
        file.execute("DELETE FROM proposal WHERE id = ?", (id,))
        return real(file, user, new, lambda: id, limits)

    wrap(patch, rows, "add_proposal", add)


@tells("ledger.tells")
def the_ledger_leaves_out_rejections(patch):
    def ledger(real, *args):
        return [each for each in real(*args) if each.state != "rejected"]

    wrap(patch, rows, "ledger", ledger)


@tells("ledger.tells")
def the_ledger_does_not_say_how(patch):
    wrap(patch, rows, "ledger", lambda real, *args: [replace(e, how="code") for e in real(*args)])


@tells("ledger.last")
def the_ledger_keeps_the_first_ones(patch):
    patch(rows, "_trim_ledger", lambda *args: None)

    def ledger(real, file, user, now, limit):
        return real(file, user, now, 10**6)[:limit]

    wrap(patch, rows, "ledger", ledger)


# Forgetting, export and import


def plans(patch, change):
    wrap(patch, forgetting, "plan", lambda real, records, *args: change(real, records, *args))


@tells("forget.exact")
def forget_spares_the_last_of_its_list(patch):
    real = UserMemory.forget

    def forget(self, policy):
        last = self.stale(policy)[-1:]
        gone = real(self, policy)
        for record in last if len(gone) > 1 else []:
            self.put(record.kind, record.key, record.value)
        return gone

    patch(UserMemory, "forget", forget)


@tells("forget.pinned")
def forget_takes_pinned_ones(patch):
    plans(
        patch, lambda real, records, *args: real([replace(r, pinned=False) for r in records], *args)
    )


@tells("forget.idle")
def stale_looks_at_the_creation(patch):
    patch(forgetting, "idle_ms", lambda record, now: now - record.created)


@tells("forget.idle")
def stale_looks_at_the_last_use_alone(patch):
    patch(forgetting, "idle_ms", lambda record, now: now - (record.last_used or record.created))


@tells("forget.policy")
def forget_takes_every_kind(patch):
    kinds = ("decision", "episode", "note", "preference", "project")
    plans(patch, lambda real, r, policy, now: real(r, replace(policy, kinds=kinds), now))


@tells("forget.policy")
def forget_takes_no_notice_of_use(patch):
    plans(patch, lambda real, records, *args: real([replace(r, uses=0) for r in records], *args))


def exports(patch, change):
    wrap(patch, UserMemory, "export", lambda real, self: map(change, real(self)))


@tells("export.lines")
def an_export_drops_a_field(patch):
    def without_version(line):
        return json.dumps({name: v for name, v in json.loads(line).items() if name != "version"})

    exports(patch, without_version)


@tells("export.lines")
def an_exported_line_may_break(patch):
    exports(patch, lambda line: line.replace("\\u2028", "\u2028"))


@tells("export.again")
def an_import_changes_letters(patch):
    def imported(real, *args):
        change = real(*args)
        return replace(change, value=unicodedata.normalize("NFKC", change.value))

    wrap(patch, store_module, "_imported", imported)


@tells("import.asks")
def an_import_writes_at_once(patch):
    def import_lines(real, self, lines):
        found = real(self, lines)
        self.approvals.approve_all([each.id for each in found])
        return found

    wrap(patch, UserMemory, "import_lines", import_lines)


@tells("import.whole")
def an_import_skips_bad_lines(patch):
    def import_lines(real, self, lines):
        found = []
        for line in lines:
            try:
                found += real(self, [line])
            except InvalidInput:
                continue
        return found

    wrap(patch, UserMemory, "import_lines", import_lines)


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_store_is_told_by_the_right_clause(name, monkeypatch):
    fault, wanted = FAULTS[name]
    fault(monkeypatch.setattr)
    report = check_store(MemoryStore.open, only=wanted)
    assert broken(report) == in_order(wanted)
    assert not re.search("NameError|TypeError", str(report)), "the fault itself is wrong"


SPREADING = ("put_returns_a_record_without_its_session", "without_a_decision_it_is_done")
# Every seventh of the others: a whole run takes a second, and ten where the disk is busy.
LOCAL = [name for name in FAULTS if name not in SPREADING][::7]


@pytest.mark.parametrize("name", LOCAL)
def test_a_fault_breaks_few_clauses_beside_its_own(name, monkeypatch):
    fault, wanted = FAULTS[name]
    fault(monkeypatch.setattr)
    told = broken(check_store(MemoryStore.open))
    assert len(set(told) - set(wanted)) <= MOST_OTHERS, told


def test_every_clause_tells_a_fault():
    told = {name for _, clauses in FAULTS.values() for name in clauses}
    assert told == set(CLAUSES)
