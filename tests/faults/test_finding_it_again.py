"""What other searches missed, broke on, or passed over in silence; asked as an agent asks."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from test_agent import ask, told, user_message

from memlab import HashEmbedder, MemoryAgent, ScriptedModel, StoreError, call, say


@pytest.mark.parametrize(
    ("value", "question"),
    [
        ("今天玩成语接龙游戏", "成语接龙"),
        ("今日は成語しりとりをした", "しりとり"),
        ("오늘 끝말잇기 게임", "끝말잇기"),
        ("用户身份验证", "用户"),
        ("用户身份验证", "身份"),
        ("上次讨论了记忆断裂问题", "我们上次说的记忆断裂问题怎么办"),
        ("用户喜欢用 VS Code 编辑器", "编辑器偏好"),
        ("migration of the database", "database migration"),
        ("Große Straße 5", "STRASSE"),
        ("живёт в городе Москва", "МОСКВА"),
    ],
)
def test_a_question_in_any_script_brings_the_memory_that_answers_it(alice, value, question):
    alice.put("note", "lunch", "noodles on Friday, 周五吃面")
    alice.put("note", "right", value)
    alice.put("note", "garden", "金曜日は庭にいる, 금요일에는 정원")

    answer, (request,) = told(MemoryAgent(alice, None), say("Hm."), task=question)

    assert answer.recalled[0].value == value
    assert user_message(request)["memories"][0]["value"] == value


AWKWARD = [
    *("pre-edit", "don't", "a:b", "*", "AND", "(", "GB/s", "NEAR(a", '"unbalanced', "--flag"),
    *(
        "100%",
        "file_name",
        "\\",
        "' OR 1=1 --",
        "col:val^2",
        "“引号”",
        "《书名》",
        "？",
        "％",
        "＿",
    ),
]


@pytest.mark.parametrize("words", AWKWARD)
def test_no_punctuation_breaks_a_question_and_the_text_itself_is_found(alice, words):
    alice.put("note", "right", f"it says {words} 在这里")
    alice.put("note", "other", "1000 off, file-name, 别的")

    answer, _ = told(
        MemoryAgent(alice, None),
        [call("memory_search", query=words), call("memory_recall", query=words)],
        say("Found."),
        task=words,
    )

    found, ranked = answer.steps[0].results
    assert [each["key"] for each in found["records"]] == ["right"]
    assert ranked["ok"] is True
    assert answer.status == "complete"


def test_memories_that_are_often_used_do_not_bury_the_one_that_answers(alice, clock):
    for n in range(20):
        alice.put("note", f"popular{n}", f"the team drinks tea, round {n}")
    for _ in range(50):
        alice.touch(alice.list())
    alice.put("note", "exact", "the teapot is cracked, 茶壶裂了")
    clock.forward(days=1)
    alice.touch([each for each in alice.list() if each.key != "exact"])

    for task in ("Is the teapot of the team cracked?", "茶壶"):
        answer, _ = told(MemoryAgent(alice, None), say("Yes."), task=task)

        assert answer.recalled[0].key == "exact"


@pytest.mark.parametrize("name", ["memory_get", "memory_search", "memory_recall"])
def test_a_search_that_fails_says_so_and_never_answers_with_nothing(alice, raw, name):
    alice.put("note", "k", "茶")
    query = {"kind": "note", "key": "k"} if name == "memory_get" else {"query": "茶"}

    def break_and_ask(messages, tools):
        raw("ALTER TABLE memory RENAME TO elsewhere")
        return call(name, **query)

    agent = MemoryAgent(alice, ScriptedModel([break_and_ask, say("You told me nothing.")]))
    with pytest.raises(StoreError):  # and the model is not let answer as if nothing were there
        ask(agent, "茶")
    assert len(agent.model.requests) == 1
    with pytest.raises(StoreError):
        alice.search("茶")
    with pytest.raises(StoreError):
        alice.recall("茶")
    raw("ALTER TABLE elsewhere RENAME TO memory")
    assert [each.value for each in alice.search("茶")] == ["茶"]


def test_two_memories_of_the_same_words_have_a_vector_each(reopen, raw):
    store = reopen(embedder=HashEmbedder())
    for user in ("alice", "bob"):
        hand = store.for_user(user, session="s1")
        hand.put("preference", "lang", "用中文回答")
        hand.put("note", "lang", "用中文回答")

    kept = raw("SELECT user, kind, length(vector), vector_of FROM memory ORDER BY user, kind")

    assert [row[:3] for row in kept] == [
        (user, kind, 512) for user in ("alice", "bob") for kind in ("note", "preference")
    ]
    assert len({row[3] for row in kept}) == 1


MADE_SMALLER = """
import json, sys, warnings
from memlab import HashEmbedder, MemoryStore
with MemoryStore.open(sys.argv[1], embedder=HashEmbedder(dim=int(sys.argv[2]))) as store:
    alice = store.for_user("alice", session="s2")
    before = [alice.stats()["without_vector"], [hit.key for hit in alice.recall("乌龙茶")]]
    alice.reindex(lambda done, total: None)
    print(json.dumps([*before, alice.stats()["without_vector"],
                      sorted(alice.recall("乌龙茶")[0].why)]))
"""


def test_a_new_embedder_in_the_next_program_costs_no_memory_and_reindex_mends_it(reopen, program):
    store = reopen(embedder=HashEmbedder(dim=256))
    store.for_user("alice", session="s1").put("note", "tea", "我喝乌龙茶")
    store.close()

    stale, found, left, why = json.loads(program(MADE_SMALLER, 64).communicate()[0])

    assert (stale, found) == (1, ["tea"])
    assert (left, why) == (0, ["meaning", "words"])


def test_a_memory_that_only_words_can_find_is_not_lost_to_a_distant_vector(reopen):
    class Elsewhere:
        """All that is stored lies across from all that is asked."""

        id, dim = "elsewhere", 2

        def embed(self, texts):
            return np.array([[1, 0] if "ISBN" in text else [0, 1] for text in texts], "float32")

    alice = reopen(embedder=Elsewhere()).for_user("alice", session="s1")
    alice.put("note", "book", "ISBN 978-7 书号")

    (hit,) = alice.recall("书号")

    assert (hit.key, set(hit.why)) == ("book", {"words"})


ON_PLAIN_SQLITE = """
import sys
asked = []
sys.addaudithook(lambda event, args: asked.append(event) if "load_extension" in event else None)
from memlab import HashEmbedder, MemoryStore
with MemoryStore.open(sys.argv[1], create=True, embedder=HashEmbedder()) as store:
    alice = store.for_user("alice", session="s1")
    alice.put("note", "k", "乌龙茶 oolong")
    found = [len(alice.search("乌龙")), len(alice.recall("oolong"))]
    alice.delete("note", "k")
    store.verify()
print(found, asked)
"""


def test_sqlite_is_used_as_python_brings_it_without_an_extension(program):
    """Many Pythons cannot load one; this one is watched for whether anybody tries."""
    assert program(ON_PLAIN_SQLITE).communicate()[0] == "[1, 1] []\n"
    assert "sqlite_vec" not in sys.modules
