import hashlib
import inspect
import json
import random
import sqlite3
import time
import unicodedata
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memlab import (
    KINDS,
    Conflict,
    InvalidInput,
    Limits,
    MemoryStore,
    Policy,
    Put,
    QuotaReached,
    StoreDamaged,
)
from memlab.store import LentMemory, UserMemory

steady = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
values = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)
values = values.filter(lambda text: unicodedata.normalize("NFC", text).strip())


def keys(records):
    return [record.key for record in records]


@pytest.fixture
def bob(store):
    return store.for_user("bob", session="s1")


# Put and get ------------------------------------------------------------------------------------


def test_a_new_record_has_everything_a_record_has(alice, clock):
    record = alice.put("note", "k", "v")
    assert record == alice.get("note", "k")
    assert record.to_dict() == {
        "kind": "note",
        "key": "k",
        "value": "v",
        "revision": 1,
        "session": "s1",
        "created": clock.now,
        "updated": clock.now,
        "last_used": None,
        "uses": 0,
        "pinned": False,
    }


def test_what_is_not_there_is_none_or_empty(alice):
    assert alice.get("note", "missing") is None
    assert alice.list() == alice.search("x") == alice.recall("x") == []
    assert alice.history("note", "missing") == []
    assert alice.delete("note", "missing") is False


def test_replacing_keeps_who_it_is_and_moves_on(store, alice, clock):
    alice.put("note", "k", "one")
    alice.pin("note", "k")
    alice.touch(alice.list())
    clock.forward(seconds=9)
    record = store.for_user("alice", "s2").put("note", "k", "two")
    assert (record.revision, record.session, record.value) == (2, "s2", "two")
    assert (record.updated - record.created, record.uses, record.pinned) == (9000, 1, True)
    assert alice.get("note", "k") == record


def test_the_same_value_again_changes_nothing(store, alice, clock, dump):
    first = alice.put("note", "k", "café")
    before = dump()
    clock.forward(days=1)
    again = store.for_user("alice", "s2").put("note", "k", "cafe\u0301")
    assert again == first
    assert dump() == before


def test_a_key_lives_once_in_each_kind(alice):
    for kind in KINDS:
        alice.put(kind, "k", f"a {kind}")
    assert [alice.get(kind, "k").value for kind in KINDS] == [f"a {kind}" for kind in KINDS]
    alice.delete("note", "k")
    assert len(alice.list()) == 4


def test_two_keys_may_hold_the_same_value(alice, bob):
    for hand in (alice, bob):
        hand.put("note", "a", "same words")
        hand.put("note", "b", "same words")
        assert len(hand.search("same words")) == 2


def test_one_more_than_the_longest_value_is_refused_and_nothing_is_stored(alice):
    assert alice.put("note", "k", "語" * 512).value == "語" * 512
    for bad in ("x" * 513, "語" * 513, "x" * 10**6, "x" * 10**8):
        started = time.process_time()
        with pytest.raises(InvalidInput, match=r"value: has \d+ characters; the most allowed"):
            alice.put("note", "k", bad)
        assert time.process_time() - started < 1
    assert alice.get("note", "k").revision == 1


def test_length_is_counted_after_normalisation(alice):
    assert alice.put("note", "k", "e\u0301" * 512).value == "é" * 512


@pytest.mark.parametrize("bad", ["", "  \n", "a\0b", "\ud800", None, 5, b"x"])
def test_a_bad_value_is_refused_by_every_door(alice, bad):
    with pytest.raises(InvalidInput, match="value"):
        alice.put("note", "k", bad)
    with pytest.raises(InvalidInput, match="text"):
        alice.remember(bad)
    assert alice.list() == []


@pytest.mark.parametrize("key", ["Response_Style", "/a/../b", "a b", "", "x" * 65, "k\n", None])
def test_a_bad_key_is_refused_by_every_door(alice, key):
    alice.put("note", "response_style", "v")
    for act in (
        lambda: alice.put("note", key, "v"),
        lambda: alice.get("note", key),
        lambda: alice.delete("note", key),
        lambda: alice.history("note", key),
        lambda: alice.undo("note", key, 1),
        lambda: alice.pin("note", key),
    ):
        with pytest.raises(InvalidInput, match="key"):
            act()
    assert keys(alice.list()) == ["response_style"]


def test_a_bad_kind_is_refused_by_every_door(alice):
    for kind in ("diary", "Note", None, 1, ["note"], "note\n", "\ud800"):
        for act in (
            lambda kind=kind: alice.put(kind, "k", "v"),
            lambda kind=kind: alice.get(kind, "k"),
            lambda kind=kind: alice.delete(kind, "k"),
            lambda kind=kind: alice.history(kind, "k"),
            lambda kind=kind: alice.remember("text", kind=kind),
        ):
            with pytest.raises(InvalidInput, match="kind"):
                act()
    for read in (alice.list, lambda kind: alice.search("x", kind=kind)):
        with pytest.raises(InvalidInput, match="kind"):
            read(kind="diary")


@pytest.mark.parametrize("name", ["", "a b", "a\n", "x" * 65, "../a", "é", None, 1, "\ud800"])
def test_a_user_and_a_session_need_a_sound_name(store, name):
    with pytest.raises(InvalidInput, match="user: "):
        store.for_user(name, session="s1")
    with pytest.raises(InvalidInput, match="session: "):
        store.for_user("alice", session=name)


@steady
@given(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True),
    st.sampled_from(KINDS),
    st.from_regex(r"[a-z][a-z0-9_.:-]{0,63}", fullmatch=True),
    values,
)
def test_whatever_is_accepted_comes_back_by_every_road(store, user, session, kind, key, value):
    hand = store.for_user(user, session=session)
    record = hand.put(kind, key, value)
    assert record.value == unicodedata.normalize("NFC", value)
    assert hand.get(kind, key) == record
    assert hand.list() == hand.list(kind) == [record]
    assert hand.search(record.value) == hand.search(key.upper()) == hand.search("") == [record]
    assert hand.history(kind, key)[-1].value == record.value
    assert [json.loads(line)["value"] for line in hand.export()] == [record.value]
    assert store.users() == [user]
    assert hand.forget_everything() == 1
    assert store.users() == []


# Revisions --------------------------------------------------------------------------------------


def test_no_revision_number_is_ever_used_twice(alice):
    assert [alice.put("note", "k", f"v{n}").revision for n in range(3)] == [1, 2, 3]
    alice.delete("note", "k")
    assert alice.put("note", "k", "again").revision == 4
    alice.delete("note", "k")
    alice.delete("note", "k")
    assert alice.put("note", "k", "again").revision == 5
    assert [each.revision for each in alice.history("note", "k")] == [5]


def test_only_forgetting_everything_starts_anew(alice):
    alice.put("note", "k", "v")
    alice.put("note", "k", "w")
    alice.delete("note", "k")
    assert alice.forget_everything() == 0
    assert alice.put("note", "k", "v").revision == 1


def test_a_put_may_say_which_revision_it_replaces(alice):
    with pytest.raises(Conflict) as error:
        alice.put("note", "k", "v", expect=1)
    assert (error.value.expected, error.value.found) == (1, 0)
    alice.put("note", "k", "v", expect=0)
    with pytest.raises(Conflict):
        alice.put("note", "k", "w", expect=0)
    assert alice.put("note", "k", "w", expect=1).revision == 2
    alice.delete("note", "k")
    with pytest.raises(Conflict):
        alice.put("note", "k", "x", expect=2)
    assert alice.put("note", "k", "x", expect=0).revision == 3
    with pytest.raises(Conflict):
        alice.put("note", "k", "x", expect=10**30)


def test_history_tells_every_value_oldest_first(store, alice, clock):
    alice.put("note", "k", "one")
    clock.forward(seconds=1)
    store.for_user("alice", "s2").put("note", "k", "two")
    told = [(each.revision, each.value, each.session) for each in alice.history("note", "k")]
    assert told == [(1, "one", "s1"), (2, "two", "s2")]
    assert [each.updated for each in alice.history("note", "k")] == [clock.now - 1000, clock.now]


def test_only_the_new_value_is_found(alice):
    alice.put("note", "k", "lives in Berlin")
    alice.put("note", "k", "lives in Paris")
    assert alice.search("Berlin") == alice.recall("Berlin") == []
    assert keys(alice.search("paris")) == ["k"]
    assert alice.history("note", "k")[0].value == "lives in Berlin"


def test_undo_brings_a_value_back_as_a_new_revision(alice):
    for value in ("one", "two", "three"):
        alice.put("note", "k", value)
    record = alice.undo("note", "k", to_revision=1)
    assert (record.value, record.revision) == ("one", 4)
    assert [each.value for each in alice.history("note", "k")] == ["one", "two", "three", "one"]
    assert alice.undo("note", "k", to_revision=4).revision == 4


@pytest.mark.parametrize("revision", [0, -1, 9, 10**30, True, 1.0, "1", None])
def test_undo_refuses_a_revision_that_is_not_there(alice, revision):
    alice.put("note", "k", "v")
    alice.put("note", "k", "w")
    with pytest.raises(InvalidInput, match="to_revision"):
        alice.undo("note", "k", to_revision=revision)
    assert alice.get("note", "k").revision == 2


def test_what_was_deleted_cannot_be_undone(alice):
    alice.put("note", "k", "v")
    alice.delete("note", "k")
    with pytest.raises(InvalidInput, match="there are: none"):
        alice.undo("note", "k", to_revision=1)


def test_pinning_keeps_the_revision(alice):
    alice.put("note", "k", "v")
    assert alice.pin("note", "k").pinned
    assert alice.get("note", "k").revision == 1
    assert not alice.pin("note", "k", pinned=False).pinned
    with pytest.raises(InvalidInput, match="no note/missing to pin"):
        alice.pin("note", "missing")
    with pytest.raises(InvalidInput, match="pinned"):
        alice.pin("note", "k", pinned="yes")


# Remember ---------------------------------------------------------------------------------------


def test_the_same_text_twice_is_one_record(alice):
    first = alice.remember("café at four")
    assert alice.remember("cafe\u0301 at four") == first
    assert first.key == "auto." + hashlib.sha256("café at four".encode()).hexdigest()[:16]
    assert (first.kind, first.revision) == ("note", 1)
    assert alice.remember("café at four", kind="episode").kind == "episode"
    assert len(alice.list()) == 2


def test_another_text_under_the_same_key_is_refused_and_never_overwritten(alice):
    key = alice.remember("first text").key
    alice.put("note", key, "somebody's own words")
    with pytest.raises(InvalidInput, match="holds another text"):
        alice.remember("first text")
    assert alice.get("note", key).value == "somebody's own words"


def test_a_text_forgotten_can_be_remembered_again(alice):
    alice.delete("note", alice.remember("text").key)
    assert alice.remember("text").revision == 2


# Search and list --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("100%", ["percent"]),
        ("%", ["percent"]),
        ("％", ["percent"]),
        ("_", ["snake"]),
        ("＿", ["snake"]),
        ("file_name", ["snake"]),
        ("file-name", ["kebab"]),
        ("pre-edit", ["punct"]),
        ("don't", ["punct"]),
        ('"--flag"', ["punct"]),
        ("GB/s", ["punct"]),
        ("a:b", ["punct"]),
        ("NEAR(a", ["punct"]),
        ("*", ["punct"]),
        ("\\", ["punct"]),
        ("' OR 1=1 --", []),
        ("STRASSE", ["street"]),
        ("große", ["street"]),
        ("МОСКВА", ["city"]),
        ("身份", ["chinese"]),
        ("份身", []),
        ("istanbul", []),
        ("İSTANBUL", ["turkish"]),
        ("KEBAB", ["kebab"]),
        ("no such words", []),
    ],
)
def test_search_takes_every_character_literally_in_any_case(alice, query, found):
    for key, value in {
        "percent": "100% off",
        "other": "1000 off",
        "snake": "file_name",
        "kebab": "file-name",
        "punct": 'pre-edit don\'t "--flag" GB/s a:b NEAR(a * \\',
        "street": "Große Straße",
        "city": "Москва",
        "chinese": "用户身份验证",
        "turkish": "İstanbul",
    }.items():
        alice.put("note", key, value)
    assert keys(alice.search(query, limit=100)) == found


@pytest.mark.parametrize("limit", [-1, 0, True, 1.5, "5", 10**9, 1001, None, float("nan")])
def test_a_limit_out_of_range_is_refused(alice, limit):
    for read in (alice.search, alice.recall, alice.lend().search, alice.lend().recall):
        with pytest.raises(InvalidInput, match="limit: must be a whole number, 1 to 1000"):
            read("x", limit=limit)


def test_a_limit_is_kept(alice):
    for n in range(10):
        alice.put("note", f"k{n}", "tea")
    for limit in (1, 9, 10, 1000):
        assert len(alice.search("tea", limit=limit)) == min(limit, 10)
        assert len(alice.recall("tea", limit=limit)) == min(limit, 10)
    assert len(alice.search()) == 5


def test_a_query_has_a_length(alice):
    assert alice.search("x" * 128) == []
    with pytest.raises(InvalidInput, match="query: has 129 characters; the most allowed is 128"):
        alice.search("x" * 129)
    assert alice.recall("x" * 1200) == []
    with pytest.raises(InvalidInput, match="query"):
        alice.recall("x" * 1201)


@pytest.mark.parametrize("query", [None, 5, "a\0b", "\ud800", b"x"])
def test_a_bad_query_is_refused(alice, query):
    for read in (alice.search, alice.recall):
        with pytest.raises(InvalidInput, match="query"):
            read(query)


def test_all_records_can_be_listed_and_found_each_once(alice):
    for n in range(64):
        alice.put(KINDS[n % 5], f"k{n}", f"value {n}")
    listed = [(each.kind, each.key) for each in alice.list()]
    assert listed == sorted(listed)
    assert len(set(listed)) == 64 == len(alice.search("value", limit=1000))
    assert sum(len(alice.list(kind)) for kind in KINDS) == 64


def test_the_latest_comes_first_and_equals_go_by_name(alice, clock):
    for key in ("b", "a", "c"):
        alice.put("note", key, "tea")
    alice.put("episode", "z", "tea")
    clock.forward(seconds=1)
    alice.put("note", "late", "tea")
    assert keys(alice.search("tea")) == keys(alice.recall("tea")) == ["late", "z", "a", "b", "c"]
    assert keys(alice.search("tea", kind="episode")) == keys(alice.recall("tea", kind="episode"))


@steady
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30))
def test_no_query_breaks_a_search(alice, query):
    alice.put("note", "k", "some words, 100% of them: don't")
    assert len(alice.search(query)) <= 1
    assert len(alice.recall(query)) <= 1


# Touch ------------------------------------------------------------------------------------------


def test_touch_counts_one_use_of_each_record_in_one_statement(alice, clock):
    for n in range(5):
        alice.put("note", f"k{n}", "v")
    connection = alice._scope.database._live()
    counted, statements = connection.total_changes, []
    connection.set_trace_callback(statements.append)
    clock.forward(seconds=3)
    records = alice.list()[:3]
    alice.lend().touch([*records, records[0]])
    connection.set_trace_callback(None)
    assert connection.total_changes - counted == 3
    assert len([each for each in statements if each.startswith("UPDATE")]) == 1
    assert [each.uses for each in alice.list()] == [1, 1, 1, 0, 0]
    assert alice.get("note", "k0").last_used == clock.now
    assert alice.get("note", "k0").revision == 1


def test_a_clock_that_goes_back_does_not_make_a_record_older(alice, clock):
    alice.put("note", "k", "v")
    alice.touch(alice.list())
    used = clock.now
    clock.forward(days=-1)
    alice.touch(alice.list())
    assert alice.get("note", "k").last_used == used


def test_touching_nothing_or_what_is_gone_does_no_harm(alice, dump):
    record = alice.put("note", "k", "v")
    alice.delete("note", "k")
    before = dump()
    alice.touch([])
    alice.touch([record])
    assert dump() == before


# One user at a time -----------------------------------------------------------------------------


def test_similar_names_are_different_users(store):
    names = ["john_doe", "john-doe", "johnXdoe", "John_doe", "john.doe", "john_do", "john_doe1"]
    for name in names:
        store.for_user(name, "s1").put("note", "k", f"canary of {name}!")
    for name in names:
        hand = store.for_user(name, "s1")
        expected = [f"canary of {name}!"]
        assert [each.value for each in hand.list()] == expected
        assert [each.value for each in hand.search("canary", limit=1000)] == expected
        assert [hit.value for hit in hand.recall("canary john doe", limit=1000)] == expected
        assert [each.value for each in hand.history("note", "k")] == expected
        assert [json.loads(line)["value"] for line in hand.export()] == expected
        hand.touch(hand.list())
    assert all(store.for_user(name, "s1").get("note", "k").uses == 1 for name in names)
    store.for_user("john_doe", "s1").forget_everything()
    assert store.users() == sorted(names[1:])


def test_two_users_can_use_the_same_key(alice, bob):
    alice.put("preference", "style", "short answers")
    bob.put("preference", "style", "long answers")

    assert alice.get("preference", "style").value == "short answers"
    assert bob.get("preference", "style").value == "long answers"
    bob.delete("preference", "style")
    assert alice.get("preference", "style").value == "short answers"


def test_whatever_alice_does_changes_no_byte_of_bob(alice, bob, dump, clock):
    bob.put("note", "k", "one")
    bob.put("note", "k", "two")
    bob.put("note", "gone", "v")
    bob.delete("note", "gone")
    bob.touch(bob.list())
    bob.lend().propose(Put("note", "asked", "v"))
    bob.approvals.reject(bob.lend().propose(Put("note", "no", "v")).id)
    before = dump("bob")

    for n in range(20):
        alice.put("note", f"k{n}", "v")
    alice.put("note", "k1", "w")
    alice.pin("note", "k1")
    alice.touch(bob.list())
    alice.approvals.approve(alice.lend().propose(Put("note", "asked", "v")).id)
    clock.forward(days=90)
    alice.lend().propose(Put("note", "asked", "w"))
    alice.forget(Policy())
    alice.delete("note", "asked")
    assert dump("bob") == before
    assert alice.forget_everything() == 1
    assert dump("bob") == before
    assert dump("alice") == {}


def test_no_refusal_shows_what_belongs_to_another_user(alice, bob):
    alice.put("note", "k", "alice-canary")
    alice.lend().propose(Put("note", "k", "alice-canary-two"))
    told = []
    for act in (
        lambda: bob.put("note", "k", "v", expect=1),
        lambda: bob.undo("note", "k", 1),
        lambda: bob.pin("note", "k"),
        lambda: bob.approvals.approve("p1"),
        lambda: bob.approvals.reject("p1"),
    ):
        with pytest.raises((InvalidInput, Conflict)) as error:
            act()
        told.append(str(error.value) + repr(vars(error.value)))
    assert "canary" not in "".join(told)


def test_no_door_takes_a_user():
    for thing in (UserMemory, LentMemory):
        for name, method in inspect.getmembers(thing, inspect.isfunction):
            if not name.startswith("_"):
                assert not {"user", "user_id"} & set(inspect.signature(method).parameters)


# Quotas -----------------------------------------------------------------------------------------


def test_a_full_user_can_update_but_not_add(alice, bob, store):
    for n in range(64):
        alice.put("note", f"k{n}", "v")
    with pytest.raises(QuotaReached) as error:
        alice.put("note", "k64", "v")
    assert (error.value.what, error.value.limit) == ("records_per_user", 64)
    assert alice.put("note", "k0", "w").revision == 2
    bob.put("note", "k", "v")
    alice.delete("note", "k1")
    assert alice.put("note", "k64", "v").revision == 1
    assert store.verify() == []


def test_a_full_store_can_update_but_not_add(reopen):
    store = reopen(limits=Limits(records_total=3))
    for name in ("a", "b", "c"):
        store.for_user(name, "s1").put("note", "k", "v")
    with pytest.raises(QuotaReached, match="of all users") as error:
        store.for_user("a", "s1").put("note", "new", "v")
    assert error.value.what == "records_total"
    store.for_user("b", "s1").forget_everything()
    assert store.for_user("a", "s1").put("note", "new", "v")


# Deleting for real ------------------------------------------------------------------------------

SECRETS = ["unique-secret-marker-7", "独一无二的秘密标记"]


def test_deleted_text_stands_in_no_file_with_all_it_has_been(store, alice, standing):
    for n, secret in enumerate(SECRETS):
        alice.put("note", f"k{n}", f"{secret} first")
        alice.put("note", f"k{n}", f"{secret} second")
        alice.approvals.approve(
            alice.lend().propose(Put("note", f"k{n}", f"{secret} third"), reason=secret).id
        )
        alice.lend().propose(Put("note", f"k{n}", f"{secret} fourth"))
        alice.put("note", "other", f"words {n}")
        assert standing(secret)
        assert alice.delete("note", f"k{n}")
        assert standing(secret) == []
    assert not store.stats()["erase_pending"]
    store.close()
    assert [standing(secret) for secret in SECRETS] == [[], []]


def test_nothing_finds_what_was_deleted(alice, dump):
    alice.put("note", "k", "the codeword is marzipan")
    alice.put("note", "k", "the codeword is nougat")
    alice.delete("note", "k")
    assert alice.get("note", "k") is None
    assert alice.search("codeword") == alice.recall("codeword marzipan") == []
    assert alice.history("note", "k") == list(alice.export()) == []
    left = dump()
    assert left.pop("tombstone") == [("alice", "note", "k", 2)]
    assert not [row for rows in left.values() for row in rows if "k" in row]


@pytest.mark.parametrize("seed", range(3))
def test_deletions_leave_no_copy_where_pages_were_rebalanced(reopen, standing, seed):
    """Without rewriting the file, each of these seeds finds a copy after 5 to 17 deletions."""
    store = reopen(limits=Limits(records_per_user=1000))
    alice, chance, kept = store.for_user("alice", "s"), random.Random(seed), []

    def put():
        key = f"k{chance.randrange(10**6):06}"
        alice.put("note", key, f"<{key}>" * chance.randrange(1, 56))
        kept.append(key)

    for _ in range(100):
        put()
    for _ in range(20):
        key = kept.pop(chance.randrange(len(kept)))
        alice.delete("note", key)
        assert standing(f"<{key}>") == []
        put()
    assert sorted(keys(alice.list())) == sorted(kept)
    assert store.verify() == []


def test_hundreds_of_deletions_leave_nothing(reopen, standing):
    limits = Limits(records_per_user=1000, records_total=5000)
    store = reopen(limits=limits)
    alice, bob = store.for_user("alice", "s"), store.for_user("bob", "s")
    for n in range(200):
        for hand in (alice, bob):
            hand.put(KINDS[n % 5], f"k{n}", f"{hand.user}-marker-{n} " + "语x" * (n * 53 % 240))
    assert alice.put("note", "k4", "alice-marker, overwritten").revision == 2
    for n in range(0, 200, 2):
        assert alice.delete(KINDS[n % 5], f"k{n}")
    assert alice.forget_everything() == 100
    assert standing("alice-marker") == []
    assert len(bob.list()) == 200
    assert store.verify() == []
    store.close()
    assert standing("alice-marker") == []


def test_forgetting_everything_leaves_nothing_about_the_user(store, alice, bob, dump, standing):
    bob.put("note", "k", "bob-marker")
    for n in range(64):
        alice.put("note", f"alices-key-{n}", f"alices-marker {n}")
    alice.delete("note", "alices-key-1")
    alice.approvals.reject(alice.lend().propose(Put("note", "alices-key-x", "alices-marker")).id)
    assert alice.forget_everything() == 63
    assert alice.list() == alice.approvals.ledger() == alice.approvals.pending() == []
    assert not [n for n in range(64) if alice.search(f"alices-marker {n}")]
    assert dump("alice") == {}
    assert standing("alices-") == standing("alice") == []
    assert store.users() == ["bob"]


def test_a_reader_that_needs_the_log_delays_erasing_and_the_next_chance_is_taken(
    store, alice, raw, standing
):
    alice.put("note", "k", SECRETS[0])
    with closing(raw.connect("ro")) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM memory").fetchone() == (1,)
        assert alice.delete("note", "k")
        assert store.stats()["erase_pending"]
        started = time.monotonic()
        for n in range(5):
            alice.put("note", "other", f"v{n}")
        assert time.monotonic() - started < 1  # nobody else waits for that reader
        assert store.stats()["erase_pending"]
        assert reader.execute("SELECT count(*) FROM memory").fetchone() == (1,)
    alice.put("note", "other", "the next chance")
    assert not store.stats()["erase_pending"]
    assert standing(SECRETS[0]) == []


@pytest.mark.parametrize("chance", ["close", "open", "compact", "delete"])
def test_each_next_chance_erases_what_waited(reopen, alice, store, raw, standing, chance):
    alice.put("note", "k", SECRETS[1])
    alice.put("note", "other", "v")
    with closing(raw.connect("ro")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM memory").fetchone()
        alice.delete("note", "k")
        second = reopen() if chance == "open" else None
        assert store.stats()["erase_pending"]
    assert standing(SECRETS[1])
    if chance == "close":
        store.close()
    elif chance == "open":
        second.close()
        assert not reopen().stats()["erase_pending"]
    elif chance == "compact":
        assert store.compact() is True
    else:
        alice.delete("note", "other")
    assert standing(SECRETS[1]) == []


def test_another_program_s_unfinished_erasing_is_not_forgotten(
    store, alice, raw, program, standing
):
    alice.put("note", "k", SECRETS[0] * 20)
    alice.put("note", "mine", "v")
    with closing(raw.connect("ro")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM memory").fetchone()
        alice.delete("note", "mine")  # the file is rewritten, but the log is needed
        dying = program(
            "import os, sys\n"
            "from memlab import MemoryStore\n"
            "store = MemoryStore.open(sys.argv[1])\n"
            "alice = store.for_user('alice', 's')\n"
            # A copy stays, as it may where a page was rebalanced.
            "store._database.read('PRAGMA secure_delete = OFF')\n"
            "def trace(frame, event, argument):\n"
            "    if frame.f_code.co_name == 'erase':\n"
            "        os._exit(9)\n"  # committed, and not rewritten
            "sys.settrace(trace)\n"
            "alice.delete('note', 'k')\n"
        )
        assert dying.wait() == 9
    assert keys(alice.list()) == []
    for n in range(2):
        alice.put("note", "other", f"the next chances: {n}")
    assert not store.stats()["erase_pending"]
    assert standing(SECRETS[0]) == []


def test_a_large_file_is_rewritten_by_compact_alone(reopen, raw, standing):
    roomy = Limits(database_bytes=10**9)
    store = reopen(limits=roomy)
    alice = store.for_user("alice", "s1")
    for n in range(1, 3):
        alice.put("note", f"k{n}", f"marker-{n}- " + "x" * 400)
    raw(f"CREATE TABLE large AS SELECT zeroblob({65 * 1024 * 1024})")
    assert store.stats()["database_bytes"] > 64 * 1024 * 1024
    assert alice.delete("note", "k1")
    assert store.stats()["erase_pending"]
    store.close()
    store = reopen(limits=roomy)
    assert store.stats()["erase_pending"]
    assert store.compact() is True
    assert not store.stats()["erase_pending"]
    assert standing("marker-1-") == []
    assert len(standing("marker-2-")) == 1


def test_compacting_at_any_time_does_no_harm(store, alice):
    assert store.compact() is True
    alice.put("note", "k", "v")
    assert store.compact() is True
    assert alice.get("note", "k").value == "v"


# Forgetting by a policy -------------------------------------------------------------------------


def test_forget_deletes_exactly_what_stale_lists(alice, clock, standing):
    alice.put("note", "old", "old-marker")
    alice.put("note", "pinned", "v")
    alice.pin("note", "pinned")
    alice.put("decision", "kept", "v")
    alice.put("episode", "used", "v")
    clock.forward(days=31)
    alice.touch([alice.get("episode", "used")])
    alice.put("note", "new", "v")
    clock.forward(seconds=1)
    stale = alice.stale(Policy())
    assert keys(stale) == ["old"]
    assert keys(alice.list()) == ["kept", "used", "new", "old", "pinned"]
    assert alice.forget(Policy()) == stale
    assert keys(alice.list()) == ["kept", "used", "new", "pinned"]
    assert standing("old-marker") == []
    assert alice.forget(Policy()) == []


def test_what_was_forgotten_does_not_come_back_by_asking_again(alice, clock):
    change = Put("note", "k", "forgotten words")
    alice.approvals.approve(alice.lend().propose(change).id)
    clock.forward(days=31)
    alice.forget(Policy())
    with pytest.raises(PermissionError):
        alice.lend().apply(change)
    assert alice.list() == []


# Export and import ------------------------------------------------------------------------------


def carry_over(hand, lines):
    return hand.approvals.approve_all([each.id for each in hand.import_lines(lines)])


@settings(steady, max_examples=15)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(KINDS), st.from_regex(r"[a-z][a-z0-9]{0,4}", fullmatch=True)),
        values,
        max_size=5,
    )
)
def test_export_import_export_gives_the_same_bytes(alice, bob, records):
    for (kind, key), value in records.items():
        alice.put(kind, key, value)
    lines = list(alice.export())
    assert all(outcome.ok for outcome in carry_over(bob, "\n".join(lines).splitlines()))
    assert list(bob.export()) == lines
    for hand in (alice, bob):
        hand.forget_everything()


def test_an_export_is_one_line_a_record_whatever_is_in_it(alice):
    odd = 'a\nb\r\nc\x85d\u2028e\u2029f\x0bg\x1ch"i\\j'
    alice.put("note", "k", odd)
    (line,) = alice.export()
    assert line.splitlines() == [line]
    assert json.loads(line) == {"version": 1, "kind": "note", "key": "k", "value": odd}


def test_an_export_carries_no_time_and_no_session(store, alice, clock):
    alice.put("note", "k", "v")
    lines = list(alice.export())
    clock.forward(days=1)
    alice.put("note", "k", "w")
    store.for_user("alice", "s2").put("note", "k", "v")
    alice.touch(alice.list())
    assert list(alice.export()) == lines


def test_importing_asks_and_writes_nothing(alice, bob):
    alice.put("note", "k", "v")
    (asked,) = bob.import_lines(alice.export())
    assert (asked.state, asked.reason) == ("pending", "imported")
    assert bob.list() == []
    assert alice.import_lines(alice.export()) == []  # it is all here


GOOD = '{"version":1,"kind":"note","key":"good","value":"v"}'


@pytest.mark.parametrize(
    "bad",
    [
        "not JSON",
        "[]",
        "null",
        "5",
        '{"version":1,"kind":"note","key":"k"}',
        '{"version":1,"kind":"note","key":"k","value":"v","user":"bob"}',
        '{"version":1,"kind":"note","key":"k","value":"v","revision":9}',
        '{"version":1,"kind":"note","key":"k","value":"v","value":"w"}',
        '{"version":2,"kind":"note","key":"k","value":"v"}',
        '{"version":true,"kind":"note","key":"k","value":"v"}',
        '{"version":1.0,"kind":"note","key":"k","value":"v"}',
        '{"version":1,"kind":"diary","key":"k","value":"v"}',
        '{"version":1,"kind":"note","key":"K","value":"v"}',
        '{"version":1,"kind":"note","key":"k","value":""}',
        '{"version":1,"kind":"note","key":"k","value":"a\\u0000b"}',
        '{"version":1,"kind":"note","key":"k","value":"\\ud800"}',
        '{"version":1,"kind":"note","key":"k","value":5}',
        '{"version":1,"kind":"note","key":"k","value":NaN}',
        '{"version":1,"kind":"note","key":"k","value":"' + "x" * 513 + '"}',
        "[" * 100_000,
        None,
        5,
    ],
    ids=lambda bad: str(bad)[:60],
)
def test_one_bad_line_and_nothing_is_imported(alice, dump, bad):
    before = dump()
    with pytest.raises(InvalidInput):
        alice.import_lines([GOOD, bad])
    assert dump() == before


def test_a_bad_line_is_named_by_its_number(alice):
    with pytest.raises(InvalidInput, match="line 3 is not JSON"):
        alice.import_lines([GOOD, "", "{"])
    with pytest.raises(InvalidInput, match="splitlines"):
        alice.import_lines(GOOD)


def test_an_import_too_large_is_refused_whole(alice):
    lines = [GOOD.replace("good", f"k{n}") for n in range(65)]
    with pytest.raises(QuotaReached):
        alice.import_lines(lines)
    assert alice.approvals.pending() == []
    assert len(alice.import_lines(lines[:64])) == 64


# Damaged rows -----------------------------------------------------------------------------------

DAMAGES = {
    "text that is no UTF-8": "value = CAST(x'ff41' AS TEXT)",
    "bytes for text": "value = x'4142'",
    "nothing": "value = ''",
    "a revision in words": "revision = 'two'",
    "a time in words": "updated = 'yesterday'",
    "a broken time": "created = 1.5",
    "uses in words": "uses = 'many'",
    "last use in words": "last_used = 'now'",
    "a session in bytes": "session = x'00ff'",
    "a session that is no UTF-8": "session = CAST(x'ff' AS TEXT)",
    "an unknown kind": "kind = 'diary'",
    "a kind that is no UTF-8": "kind = CAST(x'fe' AS TEXT)",
    "a key in capitals": "key = 'BAD KEY'",
    "a key that is no UTF-8": "key = CAST(x'6bff' AS TEXT)",
    "a key in bytes": "key = x'6b'",
    "a folded form that differs": "folded = 'another'",
    "a value that was never folded": "value = 'Größer'",
    "a value out of form": "value = CAST(x'65cc81' AS TEXT), folded = CAST(x'c3a9' AS TEXT)",
    "a NUL": "value = CAST(x'610062' AS TEXT)",
}


def damage(raw, how, key="k2"):
    with closing(raw.connect()) as other:
        other.execute("PRAGMA ignore_check_constraints = ON")
        other.execute("DROP TRIGGER memory_replaced")
        other.execute(f"UPDATE memory SET {how} WHERE key = '{key}'")


@pytest.mark.filterwarnings("ignore:Left out")
@pytest.mark.parametrize("how", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_row_hides_no_other_is_reported_and_can_be_deleted(store, alice, bob, raw, how):
    for n in range(4):
        alice.put("note", f"k{n}", f"value {n}")
    bob.put("note", "k2", "bob's own")
    damage(raw, how, key="k2' AND user = 'alice")

    sound = {"k0", "k1", "k3"}
    assert sound <= set(keys(alice.list()))
    assert sound <= set(keys(alice.search("value", limit=100)))
    assert sound <= {hit.key for hit in alice.recall("value", limit=100)}
    assert sound <= {json.loads(line)["key"] for line in alice.export()}
    alice.stale(Policy())
    assert [each.value for each in bob.list()] == ["bob's own"]
    assert alice.get("note", "k1").value == "value 1"
    named = [problem for problem in store.verify() if problem.key is not None]
    assert {problem.user for problem in named} == {"alice"}

    assert alice.delete(named[0].kind, named[0].key) is True

    assert set(keys(alice.list())) == sound
    assert [problem for problem in store.verify() if problem.key is not None] == []
    assert alice.put("note", "k2", "sound again").value == "sound again"


def test_what_is_left_out_is_said(alice, raw):
    alice.put("note", "k1", "v")
    alice.put("note", "k2", "v")
    damage(raw, "value = CAST(x'ff' AS TEXT)")
    with pytest.warns(UserWarning, match=r"Left out: note/k2.*verify"):
        assert keys(alice.list()) == ["k1"]


@pytest.mark.parametrize("how", ["value = CAST(x'ff' AS TEXT)", "revision = 'two'"])
def test_reading_or_replacing_just_a_damaged_record_raises(alice, raw, how):
    alice.put("note", "k2", "v")
    damage(raw, how)
    for act in (
        lambda: alice.get("note", "k2"),
        lambda: alice.put("note", "k2", "w"),
        lambda: alice.lend().propose(Put("note", "k2", "w")),
    ):
        with pytest.raises(StoreDamaged):
            act()


def test_a_damaged_history_is_reported_and_hides_no_record(store, alice, raw):
    alice.put("note", "k", "one")
    alice.put("note", "k", "two")
    raw("UPDATE revision SET value = CAST(x'ff' AS TEXT)")
    assert alice.get("note", "k").value == "two"
    with pytest.raises(StoreDamaged):
        alice.history("note", "k")
    assert [(each.user, each.key) for each in store.verify()] == [("alice", "k")]
    assert alice.delete("note", "k")
    assert store.verify() == []


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE usage SET records = 0 WHERE user = 'alice'",
        "UPDATE usage SET records = 9 WHERE user = ''",
        "DELETE FROM usage",
        "INSERT INTO revision VALUES ('alice', 'note', 'nowhere', 1, 'v', 's1', 1)",
        "INSERT INTO revision VALUES ('alice', 'note', 'k', 7, 'v', 's1', 1)",
        "UPDATE proposal SET value = 'tampered with'",
        "UPDATE proposal SET kind = 'diary'",
        "UPDATE memory SET folded = 'x'",
    ],
)
def test_what_does_not_fit_together_is_reported(store, alice, raw, sql):
    alice.put("note", "k", "v")
    alice.lend().propose(Put("note", "asked", "v"))
    assert store.verify() == []
    raw(sql)
    assert store.verify() != []


def test_wrong_counts_do_not_keep_a_record_from_being_deleted(store, alice, raw):
    alice.put("note", "k", "v")
    raw("UPDATE usage SET records = 0")
    assert alice.delete("note", "k")
    assert store.verify() == []


# What it looks like -----------------------------------------------------------------------------


def test_each_hand_says_whose_it_is(alice):
    assert repr(alice) == "UserMemory(user='alice', session='s1')"
    assert repr(alice.lend()) == "LentMemory(user='alice', session='s1')"
    assert repr(alice.approvals) == "Approvals(user='alice', waiting=0)"


def test_a_user_s_facts_can_be_told(alice, bob):
    bob.put("note", "k", "v")
    alice.put("preference", "k", "v")
    alice.lend().propose(Put("note", "k", "v"))
    facts = alice.stats()
    assert (facts["records"], facts["records_limit"], facts["waiting"]) == (1, 64, 1)
    assert facts["by_kind"]["note"] == 0


def test_without_a_clock_and_ids_of_its_own_a_store_uses_real_ones(folder):
    with MemoryStore.open(folder, create=True) as store:
        alice = store.for_user("alice", session="s1")
        before = time.time_ns() // 1_000_000
        record = alice.put("note", "k", "v")
        assert before <= record.created <= time.time_ns() // 1_000_000
        ids = {alice.lend().propose(Put("note", f"k{n}", "w")).id for n in range(20)}
        assert len(ids) == 20
    with closing(sqlite3.connect(folder / "memory.sqlite3")) as other:
        assert other.execute("SELECT count(*) FROM proposal").fetchone() == (20,)
