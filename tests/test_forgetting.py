import math

import pytest

from memlab.errors import InvalidInput
from memlab.forgetting import DAY_MS, Policy, idle_ms, plan, retention
from memlab.records import Record

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


@pytest.mark.parametrize("days", [0, -1, math.nan, math.inf])
def test_a_half_life_out_of_range_is_refused(days):
    with pytest.raises(InvalidInput, match="half_life_days"):
        retention(record(), NOW, half_life_days=days)


@pytest.mark.parametrize("days", [-1, -0.1, math.nan, math.inf, -math.inf, "30", None, True])
def test_idle_days_out_of_range_are_refused(days):
    with pytest.raises(InvalidInput, match="idle_days"):
        Policy(idle_days=days)


@pytest.mark.parametrize("uses", [-1, 1.5, math.nan, math.inf, "2", None, True])
def test_min_uses_out_of_range_are_refused(uses):
    with pytest.raises(InvalidInput, match="min_uses"):
        Policy(min_uses=uses)


@pytest.mark.parametrize("kinds", ["note", ("note", "diary"), (None,)])
def test_unknown_kinds_are_refused(kinds):
    with pytest.raises(InvalidInput, match="kind"):
        Policy(kinds=kinds)
