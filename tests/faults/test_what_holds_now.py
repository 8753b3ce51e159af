"""What a memory means: the newest value counts, use keeps it, and only the store says saved."""

from __future__ import annotations

from test_agent import told, user_message

from memlab import MemoryAgent, Policy, Put, call, say
from memlab.text import canonical


def test_an_old_value_is_in_a_later_request_only_where_the_person_said_it(alice):
    alice.put("preference", "city", "住在柏林")
    alice.approvals.grant(Put("preference", "city", "住在巴黎"))
    change = call("memory_put", kind="preference", key="city", value="住在巴黎")
    silent, spoken = MemoryAgent(alice, None), MemoryAgent(alice, None)

    told(silent, change, say("好的。"), task="我搬到巴黎了。")
    told(spoken, say("好的。"), task="我以前住在柏林。")

    (said_nothing,) = told(silent, say("巴黎。"), task="我住在哪里？")[1]
    (said_it,) = told(spoken, say("巴黎。"), task="我住在哪里？")[1]
    assert "柏林" not in canonical(said_nothing)
    content = user_message(said_it)
    assert [each["value"] for each in content["memories"]] == ["住在巴黎"]
    assert "柏林" in canonical(content["history"])
    assert "柏林" not in canonical({**content, "history": []})
    assert [each.value for each in alice.history("preference", "city")] == ["住在柏林", "住在巴黎"]


def test_a_memory_that_went_to_a_model_a_moment_ago_is_not_idle_however_old(alice, clock):
    alice.put("episode", "trip", "去年去了成都")
    alice.put("episode", "lunch", "吃了面条")
    clock.forward(days=31)
    told(MemoryAgent(alice, None), say("成都。"), task="去年去了哪里？成都")
    clock.forward(seconds=1)

    assert [each.key for each in alice.forget(Policy())] == ["lunch"]
    assert [each.key for each in alice.list()] == ["trip"]


def test_the_same_words_approved_again_are_no_new_revision_and_no_write(alice, dump):
    alice.put("preference", "tea", "绿茶")
    alice.approvals.grant(Put("preference", "tea", "绿茶"))

    answer, _ = told(
        MemoryAgent(alice, None),
        call("memory_put", kind="preference", key="tea", value="绿茶"),
        say("已保存！"),
    )

    assert answer.steps[0].results[0]["effect"] == "unchanged"
    assert answer.writes == ()
    assert alice.get("preference", "tea").revision == 1
    assert len(alice.history("preference", "tea")) == 1
    assert [each.change.value for each in alice.lend().approved()] == ["绿茶"]


def test_reading_by_a_model_counts_no_use_but_of_what_it_was_sent(alice, dump):
    for key, value in (("a", "绿茶"), ("b", "红茶"), ("c", "船")):
        alice.put("note", key, value)
    lent = alice.lend()
    before = dump()

    for _ in range(3):
        assert len(lent.search("茶")) == len(lent.recall("茶")) == 2
        assert lent.get("note", "c") in lent.list()
        assert len(lent.history("note", "a")) == 1

    assert dump() == before
    told(MemoryAgent(alice, None), say("Hm."), task="茶")
    assert [each.uses for each in alice.list()] == [1, 1, 0]
