"""What came back elsewhere after it was deleted: from an index, a history, or the next program."""

from __future__ import annotations

import json

import pytest
from test_agent import told

from memlab import Delete, HashEmbedder, MemoryAgent, call, say
from memlab.text import canonical

READ_AGAIN = """
import json, sys
from memlab import HashEmbedder, MemoryStore
with MemoryStore.open(sys.argv[1], embedder=HashEmbedder()) as store:
    alice = store.for_user("alice", session="s9")
    alice.reindex(lambda done, total: None)
    words = sys.argv[2]
    found = alice.search(words) + [hit.record for hit in alice.recall(words, limit=1000)]
    found += alice.history("note", "k") + alice.approvals.pending() + alice.list()
    print(json.dumps([str(each) for each in found + list(alice.export())]))
"""


@pytest.mark.parametrize("words", ["marzipan codeword", "杏仁糖暗号"])
def test_what_an_agent_deleted_is_found_by_no_program_after_it(
    reopen, program, dump, standing, words
):
    store = reopen(embedder=HashEmbedder())
    alice = store.for_user("alice", session="s1")
    for n in range(3):
        alice.put("note", "k", f"{words} {n}")
    alice.put("note", "other", "something else")
    alice.approvals.grant(Delete("note", "k"))
    agent = MemoryAgent(alice, None)

    answer, _ = told(agent, call("memory_delete", kind="note", key="k"), say("Gone."), task=words)

    assert [applied.effect for applied in answer.writes] == ["deleted"]
    answer, requests = told(
        agent,
        [
            call("memory_get", kind="note", key="k"),
            call("memory_search", query=words),
            call("memory_recall", query=words),
        ],
        say("Nothing."),
    )
    assert words not in canonical([each["messages"][1] for each in requests])
    assert words not in canonical(list(answer.steps[0].results))
    tables = dump("alice")
    assert tables["tombstone"] == [("alice", "note", "k", 3)]
    assert [name for name in ("memory", "revision") if "'k'" in repr(tables.get(name))] == []
    assert words not in repr(tables)
    store.close()
    assert standing(words) == []
    found = json.loads(program(READ_AGAIN, words).communicate()[0])
    assert not [each for each in found if words in each]
    assert [each for each in found if "something else" in each], "the other one is still found"


def test_after_forgetting_everything_no_question_finds_anything(reopen):
    alice = reopen(embedder=HashEmbedder()).for_user("alice", session="s1")
    values = [f"第{n}条记忆 memory number {n}" for n in range(64)]
    for n, value in enumerate(values):
        alice.put("episode", f"k{n}", value)

    assert alice.forget_everything() == 64

    for value in values:
        assert alice.search(value) == alice.recall(value) == []
    answer, _ = told(MemoryAgent(alice, None), say("Nothing."), task="memory number 7")
    assert answer.recalled == ()
