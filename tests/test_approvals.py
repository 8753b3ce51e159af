import inspect
import sqlite3
import types

import pytest

from memlab import Conflict, Delete, InvalidInput, Limits, NotApproved, Put, QuotaReached
from memlab import approvals as rules
from memlab.approvals import answer, decided, digest, fits, seen, usable
from memlab.records import Proposal
from memlab.store import Approvals, LentMemory, MemoryStore, UserMemory

STYLE = Put("preference", "style", "short answers")


@pytest.fixture
def lent(alice):
    return alice.lend()


def refused(lent, change, **options):
    """Return the proposal that a refused change leaves."""
    with pytest.raises(NotApproved) as error:
        lent.apply(change, **options)
    return error.value.proposal


# The rules, as data -----------------------------------------------------------------------------


def proposal(state="pending", base=0, **more):
    return Proposal(
        "p1",
        "put",
        "note",
        "k",
        Put("note", "k", "v"),
        base,
        "old",
        "why",
        "s1",
        5,
        10,
        state,
        **more,
    )


@pytest.mark.parametrize("state", ["pending", "approved"])
def test_what_waited_too_long_has_expired_and_lost_its_text(state):
    assert seen(proposal(state), now=9).state == state
    late = seen(proposal(state), now=10)
    assert (late.state, late.decided) == ("expired", 10)
    assert (late.change, late.old_value, late.reason) == (None, None, "")


@pytest.mark.parametrize("state", ["rejected", "used", "revoked", "superseded"])
def test_what_is_decided_does_not_expire(state):
    assert seen(proposal(state), now=10**15).state == state


def test_only_what_waits_or_was_stored_keeps_its_text():
    for state in ("rejected", "expired", "revoked", "superseded"):
        assert decided(proposal(), state, 7).change is None
    assert decided(proposal(), "used", 7, effect="created").change is not None
    assert decided(proposal(), "used", 7, effect="deleted").old_value is None


def test_an_approval_fits_only_the_revision_it_was_given_for():
    assert fits(proposal(base=3), 3)
    assert not fits(proposal(base=3), 4)
    assert usable([proposal("approved", base=3)], last=4) is None
    assert usable([proposal("pending"), proposal("rejected")], last=0) is None


def test_a_rejection_answers_until_a_person_has_said_yes_since():
    assert answer([proposal("rejected")], 9).state == "rejected"
    assert answer([proposal("expired"), proposal("rejected")], 0).state == "rejected"
    assert answer([proposal("used"), proposal("rejected")], 0) is None
    assert answer([proposal("pending", base=1)], 2) is None


def test_the_digest_tells_every_part_of_a_change_apart():
    changes = [
        STYLE,
        Put("preference", "style", "long answers"),
        Put("preference", "tone", "short answers"),
        Put("note", "style", "short answers"),
        Delete("preference", "style"),
    ]
    assert len({digest(change) for change in changes}) == len(changes)
    assert digest(STYLE) == digest(Put("preference", "style", "short answers", expect=4))


# Without a yes, nothing -------------------------------------------------------------------------


@pytest.mark.parametrize("change", [STYLE, Put("note", "k", "old"), Delete("note", "k")])
def test_without_approval_not_one_record_changes(alice, lent, dump, change):
    alice.put("note", "k", "old")
    before = dump()

    assert refused(lent, change).state == "pending"

    after = dump()
    assert after.pop("proposal")
    assert after == before


def test_a_change_that_would_change_nothing_needs_approval_too(alice, lent):
    alice.put("note", "k", "v")
    assert refused(lent, Put("note", "k", "v")).state == "pending"
    assert refused(lent, Delete("note", "missing")).state == "pending"


def test_what_is_lent_has_no_way_to_say_yes(lent):
    can = {name for name in dir(lent) if not name.startswith("_")}
    assert can == {
        *("user", "session", "limits", "get", "list", "search", "recall", "history", "touch"),
        *("propose", "proposal", "approved", "apply"),
    }
    with pytest.raises(AttributeError):
        lent.approvals = None


def test_no_attribute_of_what_is_lent_leads_to_a_hand_that_can_say_yes(store, lent):
    reached, left = [], [lent]
    while left:
        thing = left.pop()
        if any(thing is other for other in reached):
            continue
        reached.append(thing)
        names = [name for each in type(thing).__mro__ for name in getattr(each, "__slots__", ())]
        names += list(getattr(thing, "__dict__", ()))
        parts = [getattr(thing, name, None) for name in names if name != "__weakref__"]
        parts += [getattr(thing, name, None) for name in dir(type(thing)) if name[:1] != "_"]
        if isinstance(thing, dict):
            parts += [*thing, *thing.values()]
        if isinstance(thing, list | tuple | set | frozenset):
            parts += thing
        plain = (type, types.ModuleType, types.FunctionType, types.BuiltinMethodType, str, bytes)
        left += [part for part in parts if not isinstance(part, (*plain, int, float, type(None)))]
    kinds = {type(thing) for thing in reached}
    assert sqlite3.Connection in kinds  # the walk went all the way down
    assert not kinds & {UserMemory, Approvals, MemoryStore}


def test_no_method_takes_a_user():
    for thing in (UserMemory, LentMemory, Approvals):
        for name, method in inspect.getmembers(thing, inspect.isfunction):
            if not name.startswith("_"):
                assert not {"user", "user_id", "owner"} & set(inspect.signature(method).parameters)


def test_there_is_no_always():
    words = {name for thing in (Approvals, UserMemory, rules) for name in dir(thing)}
    assert not [word for word in words if "always" in word or "auto" in word]


# Exactly what was approved ----------------------------------------------------------------------


def test_another_value_than_the_approved_one_is_refused(alice, lent):
    alice.approvals.grant(STYLE)
    assert refused(lent, Put("preference", "style", "long answers")).state == "pending"
    assert alice.list() == []
    assert lent.apply(STYLE).effect == "created"


def test_an_approval_to_put_is_none_to_delete(alice, lent):
    alice.put("preference", "style", "old")
    alice.approvals.grant(STYLE)
    refused(lent, Delete("preference", "style"))
    assert alice.get("preference", "style").value == "old"


def test_an_approval_of_alice_is_none_for_bob(store, alice):
    granted = alice.approvals.grant(STYLE)
    bob = store.for_user("bob", session="s1")
    refused(bob.lend(), STYLE)
    assert bob.list() == alice.list() == []
    assert alice.lend().proposal(granted.id).state == "approved"


def test_an_approval_works_once(alice, lent):
    alice.approvals.grant(STYLE)
    assert lent.apply(STYLE).effect == "created"
    alice.put("preference", "style", "long answers")
    refused(lent, STYLE)
    assert alice.get("preference", "style").value == "long answers"


def test_two_grants_of_one_change_are_one(alice, lent):
    alice.approvals.grant(STYLE)
    alice.approvals.grant(STYLE)
    assert len(lent.approved()) == 1


def test_approving_by_id_writes_at_once_under_the_session_that_asked(store, alice):
    later = store.for_user("alice", session="s2")
    asked = refused(alice.lend(), STYLE)
    done = later.approvals.approve(asked.id)
    assert (done.effect, done.record.session) == ("created", "s1")
    with pytest.raises(NotApproved, match="used already"):
        later.approvals.approve(asked.id)


def test_an_edited_value_is_what_is_written_and_the_model_s_own_is_not(alice, lent, standing):
    asked = refused(lent, Put("note", "k", "proposed-words-marker"))
    done = alice.approvals.approve(asked.id, value="edited-words")
    assert alice.get("note", "k").value == done.record.value == "edited-words"
    assert lent.proposal(asked.id).change.value == "edited-words"
    assert alice.approvals.ledger()[-1].note == "edited"
    assert standing("proposed-words-marker") == []
    refused(lent, Put("note", "k", "proposed-words-marker"))


def test_an_edit_is_checked_like_any_value_and_a_deletion_has_none(alice, lent):
    asked = refused(lent, STYLE)
    for bad in ("", "x" * 513, "a\0b", "\ud800", 5):
        with pytest.raises(InvalidInput, match="value"):
            alice.approvals.approve(asked.id, value=bad)
    alice.put("note", "k", "v")
    gone = refused(lent, Delete("note", "k"))
    with pytest.raises(InvalidInput, match="no value to edit"):
        alice.approvals.approve(gone.id, value="x")
    assert [each.id for each in alice.approvals.pending()] == [asked.id, gone.id]


# The record moved -------------------------------------------------------------------------------


def test_an_approval_is_void_when_the_record_has_moved(alice, lent):
    alice.put("preference", "style", "one")
    alice.approvals.grant(STYLE)
    alice.put("preference", "style", "two")
    refused(lent, STYLE)
    assert alice.get("preference", "style").value == "two"


def test_a_grant_for_a_deleted_record_is_void_after_it_was_made_again(alice, lent):
    alice.put("note", "k", "v")
    alice.approvals.grant(Delete("note", "k"))
    alice.delete("note", "k")
    alice.put("note", "k", "another")
    refused(lent, Delete("note", "k"))
    assert alice.get("note", "k").value == "another"


def test_approving_a_change_that_came_too_late_writes_nothing(alice, lent):
    asked = refused(lent, STYLE)
    alice.put("preference", "style", "my own words")
    with pytest.raises(Conflict) as error:
        alice.approvals.approve(asked.id)
    assert (error.value.expected, error.value.found) == (0, 1)
    assert alice.get("preference", "style").value == "my own words"
    assert lent.proposal(asked.id).state == "superseded"


def test_a_change_that_expects_another_revision_is_not_even_asked(alice, lent):
    alice.put("note", "k", "v")
    for change in (Put("note", "k", "w", expect=2), Delete("note", "k", expect=0)):
        with pytest.raises(Conflict):
            lent.propose(change)
        with pytest.raises(Conflict):
            alice.approvals.grant(change)
    assert alice.approvals.pending() == []


def test_what_changes_nothing_leaves_the_approval_unused(alice, lent):
    alice.put("preference", "style", "short answers")
    granted = alice.approvals.grant(STYLE)
    done = lent.apply(STYLE)
    assert (done.effect, done.record.revision) == ("unchanged", 1)
    assert lent.proposal(granted.id).state == "approved"


def test_deleting_what_is_not_there_leaves_the_approval_and_the_history(alice, lent):
    alice.put("note", "other", "one")
    alice.put("note", "other", "two")
    granted = alice.approvals.grant(Delete("note", "k"))
    assert lent.apply(Delete("note", "k")).effect == "unchanged"
    assert lent.proposal(granted.id).state == "approved"
    assert len(alice.history("note", "other")) == 2


def test_approving_what_would_change_nothing_puts_it_aside(alice, lent):
    asked = refused(lent, Delete("note", "missing"))
    assert alice.approvals.approve(asked.id).effect == "unchanged"
    assert lent.proposal(asked.id).state == "superseded"


def test_a_quota_that_stops_an_approved_change_leaves_it_waiting(reopen):
    alice = reopen(limits=Limits(records_per_user=1)).for_user("alice", "s1")
    alice.put("note", "k", "v")
    asked = refused(alice.lend(), STYLE)
    alice.approvals.grant(Put("note", "n", "v"))
    with pytest.raises(QuotaReached):
        alice.approvals.approve(asked.id)
    with pytest.raises(QuotaReached):
        alice.lend().apply(Put("note", "n", "v"))
    alice.delete("note", "k")
    assert alice.approvals.approve(asked.id).effect == "created"


# Time -------------------------------------------------------------------------------------------


def test_an_approval_of_yesterday_is_worth_nothing(reopen, clock):
    alice = reopen(limits=Limits(proposal_ttl_s=60)).for_user("alice", "s1")
    lent = alice.lend()
    granted, asked = alice.approvals.grant(STYLE), lent.propose(Put("note", "k", "v"))
    clock.forward(seconds=59.999)
    assert lent.proposal(granted.id).state == "approved"
    clock.forward(seconds=1.001)
    assert lent.proposal(granted.id).state == "expired"
    assert lent.approved() == alice.approvals.pending() == []
    refused(lent, STYLE)
    with pytest.raises(NotApproved, match="expired already"):
        alice.approvals.approve(asked.id)
    assert alice.list() == []


def test_expired_text_stands_in_no_file_after_the_next_question(alice, lent, clock, standing):
    lent.propose(Put("note", "k", "waited-too-long-marker"), reason="because-of-marker-two")
    assert standing("waited-too-long-marker")
    clock.forward(seconds=3600)
    lent.propose(STYLE)
    assert standing("waited-too-long-marker") == standing("because-of-marker-two") == []


def test_deciding_about_what_expired_erases_it_too(alice, lent, clock, standing):
    for n, decide in enumerate((alice.approvals.reject, alice.approvals.approve)):
        asked = lent.propose(Put("note", f"k{n}", "waited-too-long-marker"))
        clock.forward(seconds=3600)
        with pytest.raises(NotApproved, match="expired already"):
            decide(asked.id)
        assert standing("waited-too-long-marker") == []


def test_the_clock_must_give_whole_milliseconds(reopen):
    alice = reopen(clock=lambda: 1.5).for_user("alice", "s1")
    with pytest.raises(InvalidInput, match="clock"):
        alice.put("note", "k", "v")
    assert alice.list() == []


# No ---------------------------------------------------------------------------------------------


def test_a_rejected_change_stays_rejected_however_often_it_is_asked(reopen, alice, lent):
    asked = refused(lent, STYLE)
    alice.approvals.reject(asked.id, reason="I said no")
    for _ in range(3):
        again = refused(lent, Put("preference", "style", "short answers", expect=0))
        assert (again.id, again.state) == (asked.id, "rejected")
    with pytest.raises(NotApproved, match=r"rejected this change.*I said no.*Do not ask"):
        lent.apply(STYLE)
    later = reopen().for_user("alice", session="s9")
    assert refused(later.lend(), STYLE).state == "rejected"
    with pytest.raises(NotApproved, match="rejected already"):
        later.approvals.approve(asked.id)
    assert later.list() == later.approvals.pending() == []


def test_a_rejection_holds_after_the_record_was_deleted(alice, lent):
    alice.put("preference", "style", "old")
    alice.approvals.reject(refused(lent, STYLE).id)
    alice.delete("preference", "style")
    assert refused(lent, STYLE).state == "rejected"


def test_a_person_can_still_grant_what_was_rejected(alice, lent):
    alice.approvals.reject(refused(lent, STYLE).id)
    alice.approvals.grant(STYLE)
    assert lent.apply(STYLE).effect == "created"


def test_rejected_text_stands_in_no_file(alice, lent, standing):
    asked = lent.propose(Put("note", "k", "rejected-词语-marker"), reason="reason-marker")
    alice.approvals.reject(asked.id)
    assert standing("rejected-词语-marker") == standing("reason-marker") == []


def test_a_grant_can_be_taken_back(alice, lent):
    granted = alice.approvals.grant(STYLE)
    assert alice.approvals.revoke(granted.id).state == "revoked"
    assert alice.approvals.revoke(granted.id).state == "revoked"  # a second click
    refused(lent, STYLE)
    with pytest.raises(NotApproved, match="revoked already"):
        alice.approvals.approve(granted.id)
    assert alice.list() == []


def test_silence_is_pending_and_not_no(alice, lent):
    asked = refused(lent, STYLE)
    assert refused(lent, STYLE).id == asked.id
    assert [each.state for each in alice.approvals.pending()] == ["pending"]


def test_a_decision_is_made_once(alice, lent):
    asked = refused(lent, STYLE)
    alice.approvals.approve(asked.id)
    for decide in (alice.approvals.reject, alice.approvals.revoke):
        with pytest.raises(NotApproved, match="used already"):
            decide(asked.id)
    assert lent.proposal(asked.id).state == "used"


# Ids --------------------------------------------------------------------------------------------


def test_another_user_s_proposal_is_one_that_does_not_exist(store, alice):
    asked = alice.lend().propose(STYLE)
    bob = store.for_user("bob", session="s1")
    for act in (bob.approvals.approve, bob.approvals.reject, bob.approvals.revoke):
        answers = []
        for id in (asked.id, "p999"):
            with pytest.raises(InvalidInput) as error:
                act(id)
            answers.append(str(error.value).replace(id, "ID"))
        assert answers[0] == answers[1]
    assert bob.lend().proposal(asked.id) is bob.lend().proposal("p999") is None
    assert alice.lend().proposal(asked.id).state == "pending"


@pytest.mark.parametrize("id", ["", "p 1", "' OR 1=1 --", "x" * 65, None, 1, "\ud800", "a\0"])
def test_a_malformed_id_is_refused(alice, id):
    with pytest.raises(InvalidInput, match="id"):
        alice.approvals.approve(id)
    with pytest.raises(InvalidInput, match="id"):
        alice.lend().proposal(id)


def test_ids_are_never_given_twice_even_where_counting_starts_anew(reopen):
    first = reopen().for_user("alice", "s1").lend().propose(Put("note", "a", "v"))
    second = reopen().for_user("alice", "s2").lend().propose(Put("note", "b", "v"))
    assert (first.id, second.id) == ("p1", "p2")


def test_an_id_tells_nothing_of_what_another_user_was_asked(reopen):
    reopen().for_user("alice", "s1").lend().propose(Put("note", "a", "hers"))
    bob = reopen().for_user("bob", "s1")
    assert bob.lend().propose(Put("note", "b", "his")).id == "p1"
    assert bob.approvals.approve("p1").record.value == "his"


# How many, and what is kept ---------------------------------------------------------------------


def test_at_most_so_many_wait_and_a_decision_makes_room(alice, lent, store):
    for n in range(64):
        lent.propose(Put("note", f"k{n}", "v"))
    with pytest.raises(QuotaReached) as error:
        lent.propose(Put("note", "k64", "v"))
    assert (error.value.what, error.value.limit) == ("pending_proposals", 64)
    assert lent.propose(Put("note", "k0", "v")).id == "p1"  # asking again is no new one
    store.for_user("bob", "s1").lend().propose(STYLE)
    alice.approvals.reject("p1")
    lent.propose(Put("note", "k64", "v"))
    assert len(alice.approvals.pending()) == 64


def test_what_expired_does_not_count_as_waiting(alice, lent, clock):
    for n in range(64):
        lent.propose(Put("note", f"k{n}", "v"))
    clock.forward(seconds=3600)
    lent.propose(STYLE)
    assert len(alice.approvals.pending()) == 1


def test_the_ledger_says_who_asked_what_and_how_it_was_decided(alice, lent, clock):
    lent.propose(STYLE)
    lent.propose(Put("note", "no", "v"))
    alice.approvals.grant(Put("note", "granted", "v"))
    lent.propose(Put("note", "waits", "v"))
    clock.forward(seconds=5)
    alice.approvals.approve("p1", how="panel")
    alice.approvals.reject("p2", reason="not true", how="terminal")
    lent.apply(Put("note", "granted", "v"))

    entries = alice.approvals.ledger()

    told = [(each.key, each.state, each.how, each.note, each.effect) for each in entries]
    assert told == [
        ("style", "used", "panel", "", "created"),
        ("no", "rejected", "terminal", "not true", ""),
        ("granted", "used", "granted", "", "created"),
    ]
    assert all(each.session == "s1" and each.decided - each.asked == 5000 for each in entries)


def test_the_ledger_shows_what_expired_though_nobody_wrote_it_down(alice, lent, clock, dump):
    asked = lent.propose(STYLE)
    clock.forward(seconds=3601)
    before = dump()
    (entry,) = alice.approvals.ledger()
    assert (entry.state, entry.decided) == ("expired", asked.expires)
    assert dump() == before


def test_the_ledger_keeps_the_last_ones_and_every_no(reopen, dump):
    alice = reopen(limits=Limits(ledger_entries=3)).for_user("alice", "s1")
    lent = alice.lend()
    alice.approvals.reject(lent.propose(STYLE).id)
    for n in range(6):
        alice.approvals.approve(lent.propose(Put("note", "k", f"v{n}")).id)
    assert [each.id for each in alice.approvals.ledger()] == ["p5", "p6", "p7"]
    assert len(dump()["proposal"]) == 4
    assert refused(lent, STYLE).state == "rejected"


def test_questions_that_nobody_answers_do_not_fill_the_file(reopen, clock, dump):
    alice = reopen(limits=Limits(ledger_entries=5)).for_user("alice", "s1")
    for n in range(30):
        alice.lend().propose(Put("note", f"k{n}", "v"))
        clock.forward(seconds=3601)
    assert len(dump()["proposal"]) <= 6


def test_the_ledger_keeps_no_text_of_a_deleted_record(alice, lent, dump, standing):
    secret = "the-secret-词-marker"
    alice.approvals.approve(lent.propose(Put("note", "k", secret), reason=f"he said {secret}").id)
    alice.approvals.reject(lent.propose(Put("note", "k", "x")).id, reason=f"it is {secret}")
    lent.propose(Put("note", "k", f"{secret} again"))
    alice.delete("note", "k")
    assert secret not in repr(dump())
    assert standing(secret) == []
    assert [(each.key, each.state) for each in alice.approvals.ledger()] == [
        ("k", "used"),
        ("k", "rejected"),
        ("k", "superseded"),
    ]


# Several at once --------------------------------------------------------------------------------


def test_several_are_approved_each_for_itself(alice, lent):
    ids = [lent.propose(Put("note", f"k{n}", "v")).id for n in range(3)]
    alice.put("note", "k1", "my own")
    outcomes = alice.approvals.approve_all([*ids, "p999", ids[0]])
    assert [each.ok for each in outcomes] == [True, False, True, False, False]
    errors = [type(each.error) for each in outcomes if not each.ok]
    assert errors == [Conflict, InvalidInput, NotApproved]
    assert {each.key: each.value for each in alice.list()} == {"k0": "v", "k1": "my own", "k2": "v"}


def test_ten_of_each_kind_can_be_granted_before_and_used(alice, lent):
    changes = [Put(kind, f"k{n}", "v") for kind in ("preference", "episode") for n in range(10)]
    for change in changes:
        alice.approvals.grant(change)
    assert [lent.apply(change).effect for change in changes] == ["created"] * 20


def test_an_approval_outlives_the_program_and_the_agent(reopen, alice, lent):
    asked = lent.propose(STYLE, reason="you said so")
    alice.approvals.grant(Put("note", "k", "v"))
    again = reopen().for_user("alice", session="s2")
    (waiting,) = again.approvals.pending()
    assert waiting == asked
    assert again.lend().apply(Put("note", "k", "v")).record.session == "s2"
    refused(lent, Put("note", "k", "v"))


@pytest.mark.parametrize("change", [None, "put", {"action": "put"}, ("note", "k", "v")])
def test_only_a_change_can_be_asked_for(alice, lent, change):
    for act in (lent.apply, lent.propose, alice.approvals.grant):
        with pytest.raises(InvalidInput, match="must be a Put or a Delete"):
            act(change)


@pytest.mark.parametrize("reason", ["x" * 201, "a\0b", "\ud800", None, 5])
def test_a_reason_is_short_text(alice, lent, reason):
    asked = lent.propose(STYLE)
    with pytest.raises(InvalidInput, match="reason"):
        lent.propose(Put("note", "k", "v"), reason=reason)
    with pytest.raises(InvalidInput, match="reason"):
        alice.approvals.reject(asked.id, reason=reason)


def test_a_damaged_proposal_cannot_be_approved_but_rejected_and_hides_no_other(
    store, alice, lent, raw
):
    for n in range(3):
        lent.propose(Put("note", f"k{n}", "v"))
    raw("UPDATE proposal SET kind = 'diary' WHERE id = 'p1'")
    raw("UPDATE proposal SET value = CAST(x'ff' AS TEXT) WHERE id = 'p2'")
    assert [each.id for each in alice.approvals.pending()] == ["p1", "p2", "p3"]
    with pytest.raises(NotApproved):
        alice.approvals.approve("p1")
    assert {problem.what for problem in store.verify()} >= {
        "proposal p1 is not what was asked for",
        "proposal p2 is not what was asked for",
    }
    assert alice.approvals.reject("p1").state == "rejected"
    assert alice.approvals.approve("p3").effect == "created"
