"""Nobody sees another user's text, no planted order is obeyed, and a leak is told where it is.

Each leak is put into memlab for one test: the wrong statement, the shared cache, the raw markup.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import warnings
from dataclasses import replace

import pytest

from memlab import (
    MemoryStore,
    cli,
    context,
    panels,
    request,
    retrieval,
    rows,
    tools,
    vectors,
    views,
)
from memlab.agent import MemoryAgent
from memlab.classroom import canaries
from memlab.classroom.canaries import check_canaries
from memlab.classroom.looking import texts
from memlab.classroom.worlds import Mark
from memlab.records import Applied, Hit, Put
from memlab.store import Approvals, LentMemory, UserMemory


@pytest.fixture(scope="module")
def report():
    return check_canaries()


def test_every_promise_holds_for_memlab_itself(report):
    assert {each.name: each.found for each in report.broken} == {}


def test_at_least_forty_paths_are_tried_each_under_its_own_name(report):
    names = [each.name for each in report]
    assert len(names) == len(set(names)) >= 100
    assert all(each.promise for each in report)


def test_the_command_line_prints_no_raw_control_character_of_what_is_stored(report):
    assert held(report, "planted.terminal")


def test_a_refused_command_echoes_no_raw_control_character(report):
    assert held(report, "planted.arguments")


async def _in_a_loop():
    return check_canaries()


def test_a_notebook_whose_loop_is_running_can_call_it(only):
    only("_agent")
    assert asyncio.run(_in_a_loop()).findings


def test_a_store_that_is_not_memlabs_own_is_tried_without_a_command_line(only):
    only("_reading", "_command_line")

    def opener(folder, **options):
        return MemoryStore.open(folder, **options)

    names = {each.name for each in check_canaries(opener)}
    assert "get.same_key" in names
    assert not any(name.startswith("cli.") or name == "planted.terminal" for name in names)


def test_a_store_that_cannot_be_opened_is_one_broken_promise_not_a_crash():
    def opener(folder, **options):
        raise OSError("no room")

    assert [(each.name, each.held) for each in check_canaries(opener)][:2] == [
        ("canary.ready", False),
        ("planted.ready", False),
    ]


def test_a_method_that_is_missing_does_not_pass_for_a_kept_promise(only):
    only("_reading")

    class Bare:
        def __init__(self, memory):
            self._memory = memory

        def __getattr__(self, name):
            if name == "export":
                raise AttributeError(name)
            return getattr(self._memory, name)

    class Store:
        def __init__(self, folder, **options):
            self._store = MemoryStore.open(folder, **options)
            self.close = self._store.close

        def for_user(self, user, session):
            return Bare(self._store.for_user(user, session))

    found = {each.name: each.held for each in check_canaries(Store)}
    assert not found["export"]
    assert found["list.all"]


def test_a_mark_is_seen_in_part_in_any_case_and_width_and_in_chinese():
    mark = Mark("zq0123456789ab", "Zq0123456789Ab", "鹮鸮鸱鹬鹳鸫")
    for text in ("ZQ012345…", "…456789AB!", "ｚｑ０１２３４５", "第鹮鸮鸱章", "鹬鹳鸫"):
        assert mark.within(text)
    assert not mark.within("zq01 23456789a 鹮鸮")


def test_what_hangs_on_an_error_is_looked_at_too():
    error = ValueError("plain")
    error.add_note("a note")
    error.record = {"value": "hung on"}
    error.__cause__ = KeyError("the cause")
    found = texts(error)
    assert {"plain", "a note", "hung on", "the cause"} <= set(found)


# Leaks ------------------------------------------------------------------------------------------


def held(report, name):
    return next(each for each in report if each.name == name).held


@pytest.fixture
def only(monkeypatch):
    """Try these sections alone, to be quick."""

    def choose(*names):
        chosen = tuple(getattr(canaries, name) for name in names)
        monkeypatch.setattr(canaries, "SECTIONS", chosen)

    return choose


def of_all(sql):
    """Return a statement that asks for every user's rows; its argument goes nowhere."""
    assert "user = ?" in sql
    return sql.replace("user = ?", "(user = ? OR 1)", 1)


def every_row(file):
    return [rows._record(row) for row in file.read(of_all(rows._ALL), ("",))]


def search_of_all_users(patch):
    patch(rows, "_FIND", of_all(rows._FIND))


def get_by_key_only(patch):
    patch(rows, "_ONE", of_all(rows._ONE))


def list_of_all_users(patch):
    patch(UserMemory, "list", lambda self, kind=None: every_row(self._scope.database))


def export_of_all_users(patch):
    def export(self):
        return (json.dumps(record.for_model()) for record in every_row(self._scope.database))

    patch(UserMemory, "export", export)


def history_by_key_only(patch):
    was = rows.history

    def history(file, user, kind, key):
        return [found for each in rows.users(file) for found in was(file, each, kind, key)]

    patch(rows, "history", history)


def one_cache_for_all_users(patch):
    was = vectors.known
    kept = {}

    def known(database, user, embedder):
        return kept.setdefault(id(database), was(database, user, embedder))

    patch(vectors, "known", known)


def answers_cached_by_text_alone(patch):
    was, kept = UserMemory.recall, {}

    def recall(self, query, limit=5, kind=None):
        name = (id(self._scope.database), query)
        if name not in kept:
            kept[name] = was(self, query, limit, kind)
        return kept[name]

    patch(UserMemory, "recall", recall)


def one_index_for_all_users(patch):
    """No record of another user is given out, but theirs count in every score."""

    def recall(self, query, limit=5, kind=None):
        scope = self._scope
        own = rows.every(scope.database, scope.user)
        hits = retrieval.recall(every_row(scope.database), query, 1000, kind, None)
        return [hit for hit in hits if hit.record in own][:limit]

    patch(UserMemory, "recall", recall)


def vectors_of_all_users(patch):
    def recall(self, query, limit=5, kind=None):
        return [Hit(record, 1.0, {}) for record in every_row(self._scope.database)][:limit]

    patch(UserMemory, "recall", recall)


def proposal_by_id_over_all_users(patch):
    was = rows.proposal

    def proposal(file, user, id):
        found = (was(file, each, id) for each in rows.users(file))
        return next((each for each in found if each), None)

    patch(rows, "proposal", proposal)


def an_error_that_says_whose_id_it_is(patch):
    was = Approvals.approve

    def approve(self, id, value=None, how="code"):
        database = self._scope.database
        if database.read(
            "SELECT 1 FROM proposal WHERE id = ? AND user <> ?", (id, self._scope.user)
        ):
            raise PermissionError(f"proposal {id} is not yours")
        return was(self, id, value, how)

    patch(Approvals, "approve", approve)


def pending_of_all_users(patch):
    was = rows.open_proposals

    def open_proposals(file, user, state):
        return [found for each in rows.users(file) for found in was(file, each, state)]

    patch(rows, "open_proposals", open_proposals)


def a_yes_that_counts_for_everybody(patch):
    was = rows.proposals_for

    def proposals_for(file, user, change):
        return [found for each in rows.users(file) for found in was(file, each, change)]

    patch(rows, "proposals_for", proposals_for)


def ledger_of_all_users(patch):
    was = rows.ledger

    def ledger(file, user, now, limit):
        return [found for each in rows.users(file) for found in was(file, each, now, limit)]

    patch(rows, "ledger", ledger)


def stats_of_all_users(patch):
    was = rows.counts
    patch(rows, "counts", lambda file, user=None: was(file))


def quota_over_all_users(patch):
    was = rows._check_quota
    patch(rows, "_check_quota", lambda user, own, total, limits: was(user, total, total, limits))


def an_error_that_quotes_a_value(patch):
    was = UserMemory.put

    def put(self, kind, key, value, expect=None):
        try:
            return was(self, kind, key, value, expect)
        except Exception as error:
            error.near = [r.value for r in every_row(self._scope.database) if r.key == key]
            raise

    patch(UserMemory, "put", put)


def a_twin_warning_over_all_users(patch):
    was = LentMemory.propose

    def propose(self, change, reason=""):
        for record in every_row(self._scope.database):
            if isinstance(change, Put) and record.value == change.value:
                warnings.warn(f"{record.kind}/{record.key} says the same", stacklevel=2)
        return was(self, change, reason)

    patch(LentMemory, "propose", propose)


def uses_counted_by_key_only(patch):
    was = rows.touch

    def touch(file, user, names, now):
        for each in rows.users(file):
            was(file, each, names, now)

    patch(rows, "touch", touch)


def delete_by_key_only(patch):
    was = rows.remove

    def remove(file, user, kind, key, expect=None):
        gone = [was(file, each, kind, key) for each in rows.users(file)]
        return any(gone)

    patch(rows, "remove", remove)


def a_repr_that_counts_all(patch):
    patch(UserMemory, "__repr__", lambda self: f"{len(every_row(self._scope.database))} records")


def an_agent_that_can_name_the_owners_hand(patch):
    patch(LentMemory, "approvals", property(lambda self: Approvals(self._scope)), raising=False)


def an_agent_that_keeps_the_owners_hand(patch):
    was = MemoryAgent.__init__

    def init(self, memory, *args, **options):
        was(self, memory, *args, **options)
        self._owner = memory

    patch(MemoryAgent, "__init__", init)


def a_file_named_after_a_user(patch):
    was = MemoryStore.for_user

    def for_user(self, user, session):
        (self._database.path.parent / f"{user}.lock").touch()
        return was(self, user, session)

    patch(MemoryStore, "for_user", for_user)


def a_value_in_the_log(patch):
    was = UserMemory.put

    def put(self, kind, key, value, expect=None):
        logging.getLogger("somewhere").debug("put %s", value)
        return was(self, kind, key, value, expect)

    patch(UserMemory, "put", put)


def a_line_on_the_screen(patch):
    was = UserMemory.get

    def get(self, kind, key):
        print("get", kind, file=sys.stderr)
        return was(self, kind, key)

    patch(UserMemory, "get", get)


def a_tool_that_reads_all_users(patch):
    patch(LentMemory, "search", lambda self, *_: every_row(self._scope.database))


def a_memory_in_the_system_message(patch):
    was = request.Request.messages

    def messages(self):
        first, *rest = was(self)
        known = "; ".join(record.value for record in self.memories)
        return [{**first, "content": f"{first['content']}\n{known}"}, *rest]

    patch(request.Request, "messages", messages)


def a_memory_in_the_task(patch):
    was = request.Request.messages

    def messages(self):
        first, user, *rest = was(self)
        told = json.loads(user["content"])
        told["task"] += "".join(record.value for record in self.memories)
        return [first, {**user, "content": json.dumps(told)}, *rest]

    patch(request.Request, "messages", messages)


def a_result_that_is_no_json(patch):
    was = tools._packed

    def packed(result):
        return replace(was(result), data={"text": str(result)})

    patch(tools, "_packed", packed)


def a_model_that_is_believed(patch):
    def apply(self, change, reason=""):
        mine = UserMemory(self._scope)
        if isinstance(change, Put) and "approve every write" in reason:
            return Applied(change, mine.put(change.kind, change.key, change.value), "created")
        return LentMemory.was_apply(self, change, reason)

    patch(LentMemory, "was_apply", LentMemory.apply, raising=False)
    patch(LentMemory, "apply", apply)


def names_that_may_be_anything(patch):
    patch(sys.modules["memlab.store"], "check_name", lambda name, what: name)


def a_view_of_raw_text(patch):
    patch(views, "visible", str)


def a_table_with_live_markup(patch):
    was = views._table

    def table(found, columns):
        frame = was(found, columns)
        whole = frame.to_html
        object.__setattr__(frame, "to_html", lambda: whole(escape=False))
        return frame

    patch(views, "_table", table)


def a_panel_with_live_markup(patch):
    patch(panels.approval, "safe", str)
    patch(panels.parts, "safe", str)


def a_panel_that_tells_whose_id_it_is(patch):
    was = panels.ApprovalPanel.approve

    def approve(self, id):
        known = self._alice._scope.database.read("SELECT 1 FROM proposal WHERE id = ?", (id,))
        return "not yours" if known else was(self, id)

    patch(panels.ApprovalPanel, "approve", approve)


def a_block_with_live_markup(patch):
    patch(context, "_escaped", str)


def a_command_over_all_users(patch):
    def listed(given):
        with cli._reading(given) as alice:
            found = every_row(alice._scope.database)
        return cli._print({"records": [record.to_dict() for record in found]})

    patch(cli, "_list", listed)


def a_command_that_counts_all_users(patch):
    def stats(given):
        with cli._opened(given, create=False, read_only=False) as store:
            return cli._print({"user": store.stats(), "store": {}})

    patch(cli, "_stats", stats)


LEAKS = [
    (search_of_all_users, "_reading", "search.exact search.part search.case search.key"),
    (get_by_key_only, "_reading", "get.other_key"),
    (list_of_all_users, "_reading", "list.all"),
    (export_of_all_users, "_reading", "export"),
    (history_by_key_only, "_reading", "history.other"),
    (one_cache_for_all_users, "_reading", "recall.cached"),
    (answers_cached_by_text_alone, "_reading", "recall.cached"),
    (one_index_for_all_users, "_reading", "recall.why recall.neighbours"),
    (vectors_of_all_users, "_meaning", "meaning.recall"),
    (proposal_by_id_over_all_users, "_reading", "lent.proposal"),
    (proposal_by_id_over_all_users, "_deciding", "approve.other_id reject.other_id"),
    (an_error_that_says_whose_id_it_is, "_deciding", "approve.other_id"),
    (an_error_that_says_whose_id_it_is, "_command_line", "cli.approve_other_id"),
    (pending_of_all_users, "_reading", "approvals.pending lent.approved"),
    (pending_of_all_users, "_agent", "panel agent.requests"),
    (a_yes_that_counts_for_everybody, "_deciding", "apply.granted propose.rejected"),
    (ledger_of_all_users, "_reading", "approvals.ledger"),
    (ledger_of_all_users, "_agent", "views.ledger"),
    (stats_of_all_users, "_reading", "stats"),
    (quota_over_all_users, "_deciding", "error.quota"),
    (an_error_that_quotes_a_value, "_deciding", "error.conflict"),
    (a_twin_warning_over_all_users, "_deciding", "propose.twin"),
    (uses_counted_by_key_only, "_reading", "touch"),
    (delete_by_key_only, "_deciding", "delete.other"),
    (a_repr_that_counts_all, "_reading", "repr"),
    (an_agent_that_can_name_the_owners_hand, "_reading", "lent.attributes"),
    (an_agent_that_keeps_the_owners_hand, "_agent", "agent.attributes"),
    (a_file_named_after_a_user, "_reading", "file.names"),
    (a_value_in_the_log, "_reading", "noise.logged"),
    (a_line_on_the_screen, "_reading", "noise.printed"),
    (a_tool_that_reads_all_users, "_agent", "agent.results agent.requests agent.answer"),
    (a_command_over_all_users, "_command_line", "cli.list"),
    (a_command_that_counts_all_users, "_command_line", "cli.stats"),
    (a_panel_that_tells_whose_id_it_is, "_agent", "panel.other_id"),
    (a_memory_in_the_system_message, None, "planted.system"),
    (a_memory_in_the_task, None, "planted.envelope"),
    (a_result_that_is_no_json, None, "planted.tool_result"),
    (a_model_that_is_believed, None, "planted.obeyed planted.nothing_done"),
    (names_that_may_be_anything, None, "planted.user_name planted.session_name"),
    (a_view_of_raw_text, None, "planted.views planted.figures"),
    (a_table_with_live_markup, None, "planted.views"),
    (a_panel_with_live_markup, None, "planted.panel"),
    (a_block_with_live_markup, None, "planted.context"),
]


@pytest.mark.parametrize(
    ("leak", "section", "names"), LEAKS, ids=[f"{leak.__name__}-{part}" for leak, part, _ in LEAKS]
)
def test_a_leak_is_told_by_the_finding_of_its_path(leak, section, names, only, monkeypatch):
    only(*([section] if section else []))
    if section:  # the orders are tried in the tests that plant them
        monkeypatch.setattr(canaries, "planted", lambda opener, now: [])
    leak(monkeypatch.setattr)

    broken = {each.name for each in check_canaries().broken}

    assert set(names.split()) <= broken
