"""What other stores showed to the wrong person: no model can name whose memory it means."""

from __future__ import annotations

import pytest
from test_agent import results, told

from memlab import InvalidInput, MemoryAgent, Put, call, say
from memlab.text import canonical

CANARY = "鲍勃的秘密 canary"
CALLS = {
    "memory_get": {"kind": "note", "key": "k"},
    "memory_search": {"query": "canary"},
    "memory_recall": {"query": "秘密"},
    "memory_put": {"kind": "note", "key": "k", "value": "mine"},
    "memory_delete": {"kind": "note", "key": "k"},
}


@pytest.fixture
def bob(store):
    bob = store.for_user("bob", session="s1")
    bob.put("note", "k", CANARY)
    bob.put("note", "k", f"{CANARY}, again")
    bob.lend().propose(Put("note", "k", f"{CANARY}, asked"))
    return bob


@pytest.mark.parametrize("field", ["user", "user_id", "owner", "session", "namespace", "用户"])
def test_a_user_that_a_model_makes_up_is_refused_and_touches_nobody(alice, bob, dump, field):
    """Every change is approved as it stands, so that the field alone is what stops it."""
    alice.put("note", "k", "hers")
    alice.approvals.grant(Put(**CALLS["memory_put"]))
    before = dump()

    answer, _ = told(
        MemoryAgent(alice, None),
        [call(name, **arguments, **{field: "bob"}) for name, arguments in CALLS.items()],
        say("Done."),
    )

    for result in answer.steps[0].results:
        assert result["ok"] is False
        assert field in result["error"]
        assert "canary" not in canonical(result)
    assert dump() == before


def test_what_belongs_to_another_answers_exactly_as_what_is_not_there(alice, bob):
    """A key of Bob's, and one of nobody's: the model is told the same of both."""

    def asked(key):
        answer, requests = told(
            MemoryAgent(alice, None),
            [
                call("memory_get", kind="note", key=key),
                call("memory_search", query=key),
                call("memory_put", kind="note", key=key, value="mine"),
                call("memory_delete", kind="note", key=key),
            ],
            say("Done."),
            task=f"What is under {key}?",
        )
        given = canonical(list(results(requests[1]).values()))
        for n, proposal in enumerate(answer.waiting):
            given = given.replace(proposal.id, f"proposal {n}")
        return given.replace(f"note/{key}", "note/KEY")

    assert asked("k") == asked("q")
    for key in ("k", "q"):
        assert alice.get("note", key) is None
        assert alice.history("note", key) == []
        assert alice.delete("note", key) is False
        with pytest.raises(InvalidInput, match="there are: none"):
            alice.undo("note", key, 1)
