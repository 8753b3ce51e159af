"""What has faded, by one curve and one policy; and that it stays forgotten."""

import asyncio
import math

import pytest

from memlab.agent import MemoryAgent
from memlab.errors import InvalidInput, NotApproved
from memlab.forgetting import DAY_MS, Policy, curve, idle_ms, plan, retention
from memlab.models import RuleModel
from memlab.records import KINDS, MOST, Put, Record

NOW = 1_700_000_000_000


def record(key="k", kind="note", updated=0.0, used=None, uses=0, pinned=False):
    """Times are days before now."""

    def at(days):
        return NOW - round(days * DAY_MS)

    last = None if used is None else at(used)
    return Record(kind, key, "v", 1, "s1", at(400), at(updated), last, uses, pinned)


def test_what_is_used_today_is_kept_however_old_it_is():
    assert plan([record(updated=31, used=1 / 86_400, uses=1)], Policy(), NOW) == []


def test_a_record_never_used_idles_from_its_last_update():
    assert plan([record(updated=29)], Policy(), NOW) == []
    assert plan([record(updated=31)], Policy(), NOW) != []


def test_the_edge_itself_is_kept():
    assert plan([record(updated=30)], Policy(idle_days=30), NOW) == []
    assert len(plan([record(updated=30.001)], Policy(idle_days=30), NOW)) == 1


def test_enough_uses_keep_a_record():
    old = [record("one", updated=90, used=90, uses=1), record("two", updated=90, used=90, uses=2)]
    assert [each.key for each in plan(old, Policy(), NOW)] == ["one"]


def test_pinned_records_are_spared():
    assert plan([record(updated=999, pinned=True)], Policy(), NOW) == []


def test_only_the_kinds_of_the_policy_are_forgotten():
    kinds = ("preference", "episode", "project", "decision", "note")
    old = [record(kind=kind, updated=99) for kind in kinds]
    assert [each.kind for each in plan(old, Policy(), NOW)] == ["episode", "note"]
    assert [each.kind for each in plan(old, Policy(kinds=["decision"]), NOW)] == ["decision"]
    assert plan(old, Policy(kinds=()), NOW) == []


def test_the_most_faded_goes_first_by_the_same_curve_that_is_plotted():
    old = [
        record("b", updated=40),
        record("a", updated=40),
        record("used", updated=99, used=50, uses=1),
        record("oldest", updated=60),
    ]
    planned = plan(old, Policy(), NOW)
    assert [each.key for each in planned] == ["oldest", "a", "b", "used"]
    left = [retention(each, NOW) for each in planned]
    assert left == sorted(left)


def test_a_clock_that_goes_back_never_gives_a_negative_age():
    future = record(updated=-10, used=-20, uses=1)
    assert idle_ms(future, NOW) == 0
    assert retention(future, NOW) == 1
    assert plan([future], Policy(idle_days=0, min_uses=9), NOW) == []


def test_half_is_left_after_the_half_life_and_uses_stretch_it():
    assert retention(record(updated=30), NOW) == 0.5
    assert retention(record(updated=30), NOW, half_life_days=15) == 0.25
    by_hand = 0.5 ** (1 / (1 + math.log(4)))
    assert retention(record(updated=99, used=30, uses=3), NOW) == pytest.approx(by_hand)


def test_a_record_changed_since_its_last_use_idles_from_the_change():
    assert idle_ms(record(updated=5, used=40, uses=1), NOW) == 5 * DAY_MS
    assert plan([record(updated=5, used=40, uses=1)], Policy(), NOW) == []


def test_retention_is_a_point_on_the_curve():
    for days, used, uses in ((0, None, 0), (7, None, 0), (99, 45, 1), (99, 80, 12)):
        one = record(updated=days, used=used, uses=uses)
        idle = days if used is None else used
        assert retention(one, NOW, 20) == pytest.approx(curve(idle, uses, 20))


def test_the_curve_starts_at_one_only_falls_and_falls_slower_with_each_use():
    for uses in range(5):
        left = [curve(days, uses) for days in range(0, 400, 10)]
        assert left[0] == 1
        assert left == sorted(left, reverse=True)
        assert left[-1] > 0
        assert curve(30, uses) < curve(30, uses + 1)


def test_the_order_is_the_same_for_every_half_life():
    old = [record(f"k{n}", updated=31 + 7 * n % 40, used=31 + n, uses=n % 3) for n in range(12)]
    planned = plan(old, Policy(min_uses=9), NOW)
    for half_life in (1, 30, 365):
        left = [retention(each, NOW, half_life) for each in planned]
        assert left == sorted(left)


def test_the_order_of_what_is_handed_in_makes_no_difference():
    old = [record(f"k{n}", updated=31 + n % 3) for n in range(9)]
    assert plan(old, Policy(), NOW) == plan(reversed(old), Policy(), NOW)


def test_numbers_beyond_all_sense_are_counted_with_or_refused():
    assert curve(MOST, 0) == 0
    assert curve(1, 0, 5e-324) == 0
    assert curve(1, MOST) > 0.99
    for bad in ((10**400, 0), (1, 10**400), (-1, 0), (1, -1), (1, 1.5), ("1", 0), (True, 0)):
        with pytest.raises(InvalidInput, match=r"idle_days|uses"):
            curve(*bad)


@pytest.mark.parametrize("days", [0, -1, math.nan, math.inf, 10**400, "30", None, True])
def test_a_half_life_out_of_range_is_refused(days):
    with pytest.raises(InvalidInput, match="half_life_days"):
        retention(record(), NOW, half_life_days=days)


@pytest.mark.parametrize("days", [-1, -0.1, math.nan, math.inf, -math.inf, 10**400, "30", True])
def test_idle_days_out_of_range_are_refused(days):
    with pytest.raises(InvalidInput, match="idle_days"):
        Policy(idle_days=days)


@pytest.mark.parametrize("uses", [-1, 1.5, math.nan, math.inf, "2", None, True])
def test_min_uses_out_of_range_are_refused(uses):
    with pytest.raises(InvalidInput, match="min_uses"):
        Policy(min_uses=uses)


@pytest.mark.parametrize("kinds", ["note", ("note", "diary"), (None,), None, 5])
def test_unknown_kinds_are_refused(kinds):
    with pytest.raises(InvalidInput, match="kind"):
        Policy(kinds=kinds)


def test_kinds_are_kept_once_and_in_one_order():
    assert Policy(kinds={"note", "episode"}) == Policy(kinds=("note", "episode", "note"))
    assert Policy(kinds=reversed(KINDS)).kinds == KINDS


def test_what_is_no_policy_is_refused(alice):
    for policy in (None, 30, {"idle_days": 30}):
        with pytest.raises(InvalidInput, match="policy"):
            plan([], policy, NOW)
        with pytest.raises(InvalidInput, match="policy"):
            alice.forget(policy)


# Forgotten stays forgotten


TOLD = "Remember that yesterday the server Zeus fell over."


@pytest.fixture
def forgotten(alice, clock):
    """An agent whose user told it something, approved it, and forgot it by policy."""
    agent = MemoryAgent(alice, RuleModel())
    [asked] = asyncio.run(agent.ask(TOLD)).waiting
    alice.approvals.approve(asked.id)
    assert [each.kind for each in alice.list()] == ["episode"]
    clock.forward(days=31)
    assert alice.forget(Policy()) != []
    return agent


def test_replaying_the_conversation_only_proposes_again(forgotten, alice, store, dump, standing):
    later = MemoryAgent(store.for_user("alice", "s2"), RuleModel())
    for agent in (forgotten, later):
        answer = asyncio.run(agent.ask(TOLD))

        assert answer.writes == ()
        assert [each.state for each in answer.waiting] == ["pending"]
    assert alice.list() == []
    assert alice.recall("server Zeus") == alice.search("Zeus") == []
    assert "memory" not in dump("alice")
    for asked in alice.approvals.pending():
        alice.approvals.reject(asked.id)
    assert standing("Zeus") == []


def test_a_person_may_approve_it_anew(forgotten, alice):
    [asked] = asyncio.run(forgotten.ask(TOLD)).waiting

    done = alice.approvals.approve(asked.id)

    assert done.effect == "created"
    assert done.record.revision == 2  # a number is never used twice


def test_a_rejected_memory_does_not_come_back_either(forgotten, alice):
    [asked] = asyncio.run(forgotten.ask(TOLD)).waiting
    alice.approvals.reject(asked.id, "leave it")

    answer = asyncio.run(forgotten.ask(TOLD))

    assert answer.waiting == answer.writes == ()
    assert alice.list() == []


def test_the_conversation_that_held_it_is_forgotten_as_well(forgotten):
    answer = asyncio.run(forgotten.ask("What happened to the server Zeus?"))

    assert forgotten.history[:-1] == ()
    assert all(turn.task != TOLD for turn in forgotten.history)
    assert "fell over" not in str(answer.steps[0].request.messages)


def test_a_leftover_grant_does_not_bring_it_back(alice, clock):
    lent, change = alice.lend(), Put("episode", "zeus", "the server Zeus fell over")
    alice.approvals.approve(lent.propose(change).id)
    grant = alice.approvals.grant(change)  # allowed once more, and not used
    clock.forward(days=31)
    alice.forget(Policy())

    with pytest.raises(NotApproved):
        lent.apply(change)
    assert lent.proposal(grant.id).state != "approved"
    assert alice.list() == []
