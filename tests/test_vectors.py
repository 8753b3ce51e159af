"""Vectors beside the records: recall by meaning, and never a record lost for want of one."""

import hashlib
import sqlite3

import numpy as np
import pytest

from memlab import InvalidInput, MemoryAgent, ModelError, Put, ScriptedModel, call, say
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
