import dataclasses
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlab.errors import InvalidInput
from memlab.records import (
    KINDS,
    Delete,
    Hit,
    Limits,
    Outcome,
    Proposal,
    Put,
    Record,
    Turn,
    check_count,
    check_key,
    check_kind,
    check_name,
)

RECORD = Record("note", "k", "v", 2, "s1", 1, 2, None, 0, False)


# Names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "7", "john_doe", "John-Doe.2", "x" * 64])
def test_a_sound_name_is_taken_as_it_is(name):
    assert check_name(name, "user") == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "x" * 65, "_a", "-a", ".a", "a b", "a/b", "../a", "a\n", "\na", "a\0", "ä", "爱丽丝"),
        *("ａ", "a\u200b", "\ud800", None, 5, True, b"a", ["a"], type("S", (str,), {})("a")),
    ],
)
def test_a_bad_name_is_refused_by_field_and_rule(name):
    with pytest.raises(InvalidInput, match=r"user: must be 1 to 64 ASCII letters.*Choose") as error:
        check_name(name, "user")
    assert error.value.field == "user"


@pytest.mark.parametrize("key", ["a", "style", "auto.0123abcd", "a_b-c:d.e9", "x" * 64])
def test_a_sound_key_is_taken_as_it_is(key):
    assert check_key(key, 64) == key


@pytest.mark.parametrize(
    "key",
    [
        *("", "x" * 65, "A", "Response_Style", "9a", "_a", "/a/../b", "a/b", "a b", "a\n", "a\0"),
        *("ä", "键", "а", "a\ud800", None, 1, b"a", type("S", (str,), {})("a")),
    ],
)
def test_a_bad_key_is_refused_and_never_mended(key):
    with pytest.raises(InvalidInput, match="key: must be 1 to 64 of a-z"):
        check_key(key, 64)


def test_a_huge_key_is_refused_at_once():
    started = time.process_time()
    with pytest.raises(InvalidInput) as error:
        Put("note", "k" * 10**8, "v")
    assert time.process_time() - started < 1
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("kind", ["", "Note", "notes", "note\n", None, 1, ["note"], b"note"])
def test_only_the_five_kinds_exist(kind):
    with pytest.raises(InvalidInput, match="kind: must be one of preference, episode, project"):
        check_kind(kind)
    assert len(KINDS) == 5


@pytest.mark.parametrize("number", [-1, 0, 1001, True, 1.0, 1.5, "5", None, 10**9, float("nan")])
def test_a_count_is_a_whole_number_in_its_range(number):
    with pytest.raises(InvalidInput, match="limit: must be a whole number, 1 to 1000"):
        check_count(number, "limit", 1, 1000)


# Changes ----------------------------------------------------------------------------------------


def test_a_put_that_exists_is_well_formed():
    put = Put("note", "k", "cafe\u0301", expect=0)
    assert put.value == "café"
    assert put.to_dict() == {"action": "put", "kind": "note", "key": "k", "value": "café"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        put.value = "another"


@pytest.mark.parametrize("expect", [-1, True, 1.0, "1", float("nan")])
@pytest.mark.parametrize(
    "make", [lambda **e: Put("note", "k", "v", **e), lambda **e: Delete("note", "k", **e)]
)
def test_an_expected_revision_is_a_whole_number(make, expect):
    with pytest.raises(InvalidInput, match="expect: must be a whole number, 0 or more"):
        make(expect=expect)


@pytest.mark.parametrize("bad", [("x", "k"), ("note", "K"), (None, "k"), ("note", None)])
def test_a_delete_is_checked_like_a_put(bad):
    with pytest.raises(InvalidInput):
        Delete(*bad)
    with pytest.raises(InvalidInput):
        Put(*bad, "v")


@settings(deadline=None, derandomize=True, database=None)
@given(st.from_regex(r"[a-z][a-z0-9_.:-]{0,63}", fullmatch=True), st.sampled_from(KINDS))
def test_every_key_of_the_rule_is_accepted(key, kind):
    assert Put(kind, key, "v").key == Delete(kind, key).key == key


# What is shown ----------------------------------------------------------------------------------


def test_a_model_sees_a_record_in_one_form():
    assert RECORD.for_model() == {
        "kind": "note", "key": "k", "value": "v", "revision": 2, "session": "s1"
    }  # fmt: skip
    assert set(RECORD.to_dict()) == {field.name for field in dataclasses.fields(Record)}


def test_a_hit_speaks_for_its_record():
    hit = Hit(RECORD, 1.5, {})
    assert (hit.kind, hit.key, hit.value) == ("note", "k", "v")


def test_an_erased_proposal_shows_no_value():
    proposal = Proposal("p1", "put", "note", "k", None, 0, None, "", "s1", 1, 2, "rejected")
    assert proposal.to_dict()["value"] is None
    waiting = dataclasses.replace(proposal, change=Put("note", "k", "v"), state="pending")
    assert waiting.to_dict()["value"] == "v"


def test_an_outcome_is_good_or_holds_its_error():
    assert Outcome("p1").ok
    assert not Outcome("p1", error=ValueError("x")).ok


def test_a_turn_is_ready_for_json():
    assert Turn("q", "a").to_dict() == {"task": "q", "answer": "a"}


# Limits -----------------------------------------------------------------------------------------


def test_the_limits_are_those_of_the_rules():
    limits = Limits()
    assert (limits.value_chars, limits.key_chars) == (512, 64)
    assert (limits.records_per_user, limits.records_total) == (64, 1024)
    assert (limits.database_bytes, limits.pending_proposals) == (16 * 1024 * 1024, 64)
    assert (limits.proposal_ttl_s, limits.ledger_entries) == (3600, 1000)
    assert (limits.lock_timeout_s, limits.query_chars, limits.task_chars) == (5.0, 128, 1200)
    assert (limits.context_chars, limits.context_preferences) == (2200, 5)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
@pytest.mark.parametrize(
    "number", [0, -1, True, "5", None, float("nan"), float("inf"), -0.5, 10**13, 1e300, 10**30]
)
def test_a_limit_out_of_range_is_refused_by_its_name(name, number):
    with pytest.raises(InvalidInput, match=f"^{name}: "):
        Limits(**{name: number})


def test_only_times_may_be_broken_numbers():
    assert Limits(lock_timeout_s=0.05, proposal_ttl_s=0.5, model_seconds=0.1)
    with pytest.raises(InvalidInput, match="records_per_user"):
        Limits(records_per_user=1.5)


def test_no_length_may_exceed_what_any_text_may_have():
    with pytest.raises(InvalidInput, match="value_chars: must be at most 1000000"):
        Limits(value_chars=1_000_001)
