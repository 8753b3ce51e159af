"""Vectors beside the records: recall by meaning, and never a record lost for want of one."""

import contextlib
import hashlib
import os
import sqlite3
import tempfile
import warnings
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlab import (
    HashEmbedder,
    InvalidInput,
    MemoryAgent,
    MemoryStore,
    ModelError,
    Put,
    ScriptedModel,
    call,
    retrieval,
    say,
    vectors,
)
from memlab.database import FILE


class Topics:
    """An embedder that knows a few topics: the closest thing to meaning that a test can read."""

    WORDS = (("tea", "drink", "茶", "饮"), ("boat", "sail", "船"), ("train", "travel", "火车"))

    def __init__(self, id="topics", dim=3):
        self.id, self.dim, self.asked = id, dim, []

    def embed(self, texts):
        self.asked += texts
        found = np.zeros((len(texts), self.dim), "float32")
        for row, text in zip(found, texts, strict=True):
            for column, words in enumerate(self.WORDS):
                row[column] = any(word in text.casefold() for word in words)
            row[:] = row / (np.linalg.norm(row) or 1)
        return found


class Broken(Topics):
    def embed(self, texts):
        raise ModelError("the server is away.")


@pytest.fixture
def topics():
    return Topics()


@pytest.fixture
def alice(reopen, topics):
    return reopen(embedder=topics).for_user("alice", session="s1")


def keys(hits):
    return [hit.key for hit in hits]


def stored(folder):
    with sqlite3.connect(f"{(folder / FILE).as_uri()}?mode=ro", uri=True) as connection:
        found = connection.execute("SELECT key, vector, vector_of FROM memory").fetchall()
    connection.close()
    return {key: (vector, tag) for key, vector, tag in found}


def test_a_record_without_a_shared_word_is_found_by_its_meaning(alice):
    alice.put("note", "a", "oolong, the 茶 of my choice")
    alice.put("note", "b", "the boat is in the harbour")

    [hit] = alice.recall("something to drink")

    assert hit.key == "a"
    assert set(hit.why) == {"meaning"}


def test_a_vector_is_two_bytes_a_number_and_says_what_it_is_of(alice, folder, topics):
    alice.put("note", "a", "tea")

    vector, tag = stored(folder)["a"]

    assert len(vector) == 2 * topics.dim
    assert tag.startswith("topics:3:")
    assert np.frombuffer(vector, "<f2").tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    "write",
    [
        lambda alice: alice.put("note", "a", "tea"),
        lambda alice: alice.remember("tea"),
        lambda alice: alice.approvals.approve(alice.lend().propose(Put("note", "a", "tea")).id),
        lambda alice: (
            alice.approvals.grant(Put("note", "a", "tea")),
            alice.lend().apply(Put("note", "a", "tea")),
        ),
        lambda alice: (
            alice.put("note", "a", "tea"),
            alice.put("note", "a", "boat"),
            alice.undo("note", "a", 1),
        ),
        lambda alice: alice.approvals.approve_all(
            [each.id for each in alice.import_lines(
                ['{"version":1,"kind":"note","key":"a","value":"tea"}']
            )]
        ),
    ],
    ids=["put", "remember", "approve", "apply", "undo", "import"],
)  # fmt: skip
def test_every_way_to_write_leaves_a_vector_of_the_text_that_stands(alice, write):
    write(alice)

    assert [each.value for each in alice.list()] == ["tea"]
    assert alice.stats()["without_vector"] == 0
    assert len(alice.recall("a drink")) == 1


def test_a_replaced_value_is_not_found_by_its_old_meaning(alice):
    alice.put("note", "a", "tea")
    alice.put("note", "a", "boat")

    assert alice.recall("drink") == []
    assert keys(alice.recall("sail")) == ["a"]


def test_the_same_value_again_is_not_embedded_again(alice, topics):
    alice.put("note", "a", "tea")
    alice.put("note", "a", "tea")

    assert topics.asked == ["tea"]


def test_an_embedder_that_fails_loses_no_record_and_words_still_find_it(reopen, folder):
    alice = reopen(embedder=Broken()).for_user("alice", session="s1")

    with pytest.warns(UserWarning, match="away"):
        record = alice.put("note", "a", "oolong tea")

    assert record.value == "oolong tea"
    assert stored(folder)["a"] == (None, None)
    assert keys(alice.recall("oolong")) == ["a"]
    assert alice.stats()["without_vector"] == 1


def test_an_embedder_that_fails_on_the_question_leaves_recall_by_words(alice, reopen):
    alice.put("note", "a", "oolong tea")
    broken = reopen(embedder=Broken()).for_user("alice", session="s1")

    with pytest.warns(UserWarning, match="by words alone"):
        assert keys(broken.recall("oolong")) == ["a"]


def test_reindex_repairs_what_is_missing_and_tells_how_far_it_is(reopen, topics):
    plain = reopen().for_user("alice", session="s1")
    for n in range(64):
        plain.put("note", f"k{n}", f"tea {n}") if n < 60 else plain.put("project", f"k{n}", "boat")
    alice = reopen(embedder=topics).for_user("alice", session="s1")
    told = []

    assert alice.reindex(lambda done, total: told.append((done, total))) == 60 + 4
    assert told == [(64, 64)]
    assert alice.reindex(lambda done, total: told.append((done, total))) == 0


def test_reindex_without_an_embedder_says_what_is_missing(store):
    with pytest.raises(InvalidInput, match="Open the store with one"):
        store.for_user("alice", session="s1").reindex()


@pytest.mark.parametrize(
    "other", [Topics(id="another"), Topics(dim=4)], ids=["same dimension", "other dimension"]
)
def test_vectors_of_another_embedder_count_as_absent_until_reindex(alice, reopen, other):
    alice.put("note", "a", "tea")
    swapped = reopen(embedder=other).for_user("alice", session="s1")

    assert swapped.recall("drink") == []
    assert keys(swapped.recall("tea")) == ["a"]
    assert swapped.stats()["without_vector"] == 1
    assert swapped.reindex(lambda done, total: None) == 1
    assert keys(swapped.recall("drink")) == ["a"]


@pytest.mark.parametrize("harm", ["vector = x'0000'", "vector_of = 'topics:3:x'", "vector = 'no'"])
def test_a_damaged_vector_counts_as_absent_and_never_as_close(alice, folder, harm):
    alice.put("note", "a", "tea")
    connection = sqlite3.connect(folder / FILE, isolation_level=None)
    connection.execute(f"UPDATE memory SET {harm}")
    connection.close()

    assert alice.recall("drink") == []
    assert keys(alice.recall("tea")) == ["a"]


def test_a_deleted_record_is_in_no_vector_and_no_recall_after_reindex(alice, folder):
    alice.put("note", "a", "tea")
    vector = stored(folder)["a"][0]
    tag = hashlib.sha256(b"tea").hexdigest()[:16].encode()
    alice.put("note", "b", "boat")

    alice.delete("note", "a")
    alice.reindex(lambda done, total: None)

    assert alice.recall("drink tea") == []
    assert list(stored(folder)) == ["b"]
    assert vector != stored(folder)["b"][0]
    assert not any(tag in file.read_bytes() for file in folder.iterdir())


def test_one_user_meets_no_vector_of_another(reopen, topics):
    store = reopen(embedder=topics)
    store.for_user("bob", session="s1").put("note", "a", "tea")

    assert store.for_user("alice", session="s1").recall("drink") == []


def test_recalling_writes_nothing(alice):
    alice.put("note", "a", "tea")
    before = alice._scope.database._live().total_changes

    alice.recall("drink")

    assert alice._scope.database._live().total_changes == before


def test_what_a_model_stores_with_approval_can_be_recalled_by_meaning(alice):
    import asyncio

    alice.approvals.grant(Put("note", "a", "oolong tea"))
    model = ScriptedModel([call("memory_put", kind="note", key="a", value="oolong tea"), say("ok")])
    asyncio.run(MemoryAgent(alice, model).ask("hello"))

    answer = asyncio.run(MemoryAgent(alice, ScriptedModel([say("ok")])).ask("what do I drink?"))

    assert keys(answer.recalled) == ["a"]


# What is kept between two recalls ---------------------------------------------------------------


def afresh(folder, embedder, query, user="alice"):
    """Recall as a program does that has just been started: nothing is kept, all is read."""
    for kept in (retrieval._small_index, retrieval._large_index, retrieval._read):
        kept.cache_clear()
    with MemoryStore.open(folder, embedder=embedder) as store:
        return store.for_user(user, session="s9").recall(query, 50)


NAMES = st.tuples(st.sampled_from(["note", "project"]), st.sampled_from("abcdefg"))
TEXTS = st.sampled_from(["oolong tea", "Ana: a boat?", "火车 and tea", "the plumber came", "tea"])
OWN, OTHER, PLAIN, BOB = "own", "other", "plain", "bob"  # another program, one without vectors
STEPS = st.one_of(
    st.tuples(st.sampled_from([OWN, OTHER, PLAIN, BOB]), st.just("put"), NAMES, TEXTS),
    st.tuples(
        st.sampled_from([OWN, OTHER, BOB]),
        st.sampled_from(["delete", "pin", "touch", "undone", "reindex", "forget", "recall"]),
        NAMES,
        TEXTS,
    ),
)


def do(hand, act, name, text):
    record = hand.get(*name)
    if act == "put":
        hand.put(*name, text)
    elif act == "delete":
        hand.delete(*name)
    elif act == "pin" and record:
        hand.pin(*name, not record.pinned)
    elif act == "touch" and record:
        hand.touch([record])
    elif act == "reindex":
        hand.reindex(lambda done, total: None)
    elif act == "forget":
        hand.forget_everything()
    elif act == "undone":
        with contextlib.suppress(ZeroDivisionError), hand._scope.database.transaction() as file:
            file.execute("UPDATE memory SET value = ?, revision = revision + 1", (text,))
            file.execute("DELETE FROM memory WHERE key < 'd'")
            raise ZeroDivisionError  # and so it is rolled back


@pytest.mark.parametrize("embedder", [None, HashEmbedder(16)], ids=["words", "vectors"])
@settings(deadline=None, derandomize=True, database=None, max_examples=30)
@given(steps=st.lists(STEPS, max_size=20))
def test_after_any_change_recall_is_what_a_new_program_would_recall(embedder, steps):
    makes = embedder or HashEmbedder(4)  # others may make vectors where we go by words
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_:
        own, other, plain = (
            open_.enter_context(MemoryStore.open(folder, create=True, embedder=each))
            for each in (embedder, makes, None)
        )
        hands = {
            OWN: own.for_user("alice", session="s1"),
            OTHER: other.for_user("alice", session="s2"),
            PLAIN: plain.for_user("alice", session="s3"),
            BOB: own.for_user("bob", session="s1"),
        }
        for who, act, name, text in steps:
            if act == "recall":
                for user, hand in (("alice", hands[OWN]), ("bob", hands[BOB])):
                    kept = hand.recall("plumer, tea or 火车", 50)
                    assert kept == afresh(folder, embedder, "plumer, tea or 火车", user)
            elif act != "reindex" or hands[who]._scope.embedder:
                do(hands[who], act, name, text)
        assert hands[OWN].recall("tea boat", 50) == afresh(folder, embedder, "tea boat")


@pytest.mark.parametrize(
    "change",
    [
        lambda alice, bob: alice.put("note", "k55", "a new boat"),
        lambda alice, bob: alice.put("note", "k5", "a boat"),
        lambda alice, bob: alice.delete("note", "k5"),
        lambda alice, bob: alice.pin("note", "k5"),
        lambda alice, bob: alice.touch([alice.get("note", "k5")]),
        lambda alice, bob: bob.put("note", "k5", "a boat"),
        lambda alice, bob: [alice.put("note", f"k{n}", f"boat {n}") for n in (7, 99, 3, 30, 5)],
        lambda alice, bob: [alice.put("note", f"m{n}", f"boat {n}") for n in range(30)],
    ],
    ids=["new", "replaced", "deleted", "pinned", "used", "another's", "five", "many"],
)
def test_after_one_change_nothing_of_what_was_kept_is_old(reopen, folder, change):
    embedder = HashEmbedder(16)
    store = reopen(embedder=embedder)
    alice, bob = (store.for_user(user, session="s1") for user in ("alice", "bob"))
    for n in range(10):
        alice.put("note", f"k{n}", f"tea {n} on a boat")
    alice.recall("tea")

    change(alice, bob)

    assert alice.recall("a boat with tea 5", 50) == afresh(folder, embedder, "a boat with tea 5")


def test_what_was_noted_of_writes_does_not_grow_for_ever(reopen, folder, monkeypatch):
    monkeypatch.setattr("memlab.database.NOTED", 60)
    store = reopen(embedder=None)
    alice, bob = (store.for_user(user, session="s1") for user in ("alice", "bob"))
    for round_ in range(4):
        alice.recall("tea")
        for n in range(15):
            bob.put("note", f"k{round_}.{n}", f"tea {n} of round {round_}")
        assert bob.recall("tea round", 50) == afresh(folder, None, "tea round", "bob")
        alice.put("note", "mine", f"tea {round_}")
        assert alice.recall("tea", 50) == afresh(folder, None, "tea")
    [[noted]] = store._database.read("SELECT count(*) FROM written")
    assert noted < 35


def test_what_is_kept_is_kept_for_one_embedder(alice, topics):
    alice.put("note", "a", "tea")
    database = alice._scope.database

    assert vectors.known(database, "alice", topics).vectors is not None
    assert vectors.known(database, "alice", None).vectors is None


def test_after_a_put_only_what_was_put_is_read_again(alice, topics):
    for n in range(40):
        alice.put("note", f"k{n}", f"tea {n}")
    alice.recall("tea")
    database = alice._scope.database
    before = vectors.known(database, "alice", topics).records

    alice.put("note", "k7", "a boat")

    after = vectors.known(database, "alice", topics).records
    assert [one.key for one, two in zip(before, after, strict=True) if one is not two] == ["k7"]


@pytest.mark.parametrize("key", ["x'6b31'", "CAST(x'ff' AS TEXT)", "'K 1'"])
def test_a_damaged_record_that_is_written_here_does_not_stop_recall(reopen, topics, raw, key):
    store = reopen(embedder=topics)
    alice = store.for_user("alice", session="s1")
    alice.put("note", "a", "tea")
    raw(
        "INSERT INTO memory (user, kind, key, value, folded, revision, session, created, updated)"
        f" VALUES ('alice', 'note', {key}, 'tea', 'tea', 1, 's1', 0, 0)"
    )
    with warnings.catch_warnings():  # that it was left out
        warnings.simplefilter("ignore")
        assert keys(alice.recall("drink")) == ["a"]
        with store._database.transaction() as file:
            file.execute("UPDATE memory SET uses = uses + 1")
        assert keys(alice.recall("drink")) == ["a"]
    [problem] = store.verify()

    assert alice.delete(problem.kind, problem.key)

    assert keys(alice.recall("drink")) == ["a"]


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="cannot fork here")


@forks
def test_a_child_goes_by_nothing_that_its_parent_kept(reopen):
    reopen().close()
    alice = reopen().for_user("alice", session="s1")
    assert alice.recall("tea") == []
    child = os.fork()
    if child == 0:  # with a connection of its own, which has counted no change yet
        with contextlib.suppress(BaseException):
            reopen().for_user("alice", session="s2").put("note", "a", "tea")
            os._exit(len(alice.recall("tea")))
        os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
