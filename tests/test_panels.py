"""The approval panel shows what the store holds, and asks it to decide: no browser is needed.

An exception in a callback is swallowed by ipywidgets, so the tests look at the store and the card.
"""

from __future__ import annotations

import html
import re
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import ipywidgets
import pytest
from hypothesis import given
from hypothesis import strategies as st
from panel_reading import HOSTILE, MINUTE, START, Clock, every, markup, words

from memlab import Delete, InvalidInput, Limits, MemoryStore, Put, views
from memlab.panels import ApprovalPanel, safe
from memlab.panels.parts import difference


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    ids = (f"p{number}" for number in range(1, 1000))
    limits = Limits(records_per_user=3)
    with MemoryStore.open(
        tmp_path / "memory", create=True, clock=clock, new_id=lambda: next(ids), limits=limits
    ) as opened:
        yield opened


@pytest.fixture
def alice(store):
    return store.for_user("alice", session="monday")


@pytest.fixture
def lent(store):
    """What an agent holds, in another session."""
    return store.for_user("alice", session="tuesday").lend()


@pytest.fixture
def asked(alice, lent):
    """A change of an existing record, a new record, and a deletion wait."""
    alice.put("preference", "style", "I like long answers.")
    alice.put("note", "old", "moved out")
    lent.propose(Put("preference", "style", "I like short answers."), "you said so")
    lent.propose(Put("note", "tea", "乌龙茶"))
    lent.propose(Delete("note", "old"))
    return alice


def cards(panel):
    return [child for child in panel.children if "memlab-card" in child._dom_classes]


def buttons(widget):
    return {each.description: each for each in every(widget) if isinstance(each, ipywidgets.Button)}


# What a card shows ------------------------------------------------------------------------------


def test_a_card_tells_the_exact_change_and_where_it_comes_from(asked):
    said = words(cards(ApprovalPanel(asked))[0])

    assert "Replace preference/style" in said
    assert "for alice, once" in said
    assert "action: put" in said
    assert "from session tuesday" in said
    assert "Reason given:  you said so" in said
    assert "asked less than a minute ago" in said
    assert "expires in 1 hour (2026-09-21 15:13:20 UTC)" in said


def test_a_card_shows_the_old_value_beside_the_new_one_as_a_difference(asked):
    shown = markup(cards(ApprovalPanel(asked))[0])

    assert "I like <del>long</del> answers." in shown
    assert "I like <ins>short</ins> answers." in shown


def test_a_new_record_shows_its_whole_value_and_no_difference(asked):
    card = cards(ApprovalPanel(asked))[1]

    assert "Store note/tea" in words(card)
    assert ">乌龙茶</div>" in markup(card)
    assert "Old value" not in words(card)


def test_a_deletion_shows_what_goes_and_has_nothing_to_edit(asked):
    card = cards(ApprovalPanel(asked))[2]

    assert "Delete note/old" in words(card)
    assert "<del>moved out</del>" in markup(card)
    assert list(buttons(card)) == ["Approve", "Reject"]


def test_a_card_that_waits_has_three_plain_buttons(asked):
    found = buttons(cards(ApprovalPanel(asked))[0])

    assert list(found) == ["Approve", "Edit", "Reject"]
    assert {button.icon for button in found.values()} == {""}
    assert all("preference/style" in button.tooltip for button in found.values())


def test_a_difference_of_chinese_is_by_character(alice, lent):
    alice.put("note", "tea", "我喜欢红茶")
    lent.propose(Put("note", "tea", "我喜欢绿茶"))

    shown = markup(ApprovalPanel(alice))

    assert "我喜欢<del>红</del>茶" in shown
    assert "我喜欢<ins>绿</ins>茶" in shown


def test_ages_are_drawn_anew(asked, clock):
    panel = ApprovalPanel(asked)
    clock.now += 5 * MINUTE
    panel.refresh()

    assert "asked 5 minutes ago" in words(panel)
    assert "expires in 55 minutes" in words(panel)
    assert "As of 2026-09-21 14:18:20 UTC" in words(panel)


def test_only_the_users_own_hand_can_have_a_panel(lent):
    with pytest.raises(InvalidInput, match="UserMemory, not LentMemory"):
        ApprovalPanel(lent)


def test_another_users_changes_do_not_show(store, asked):
    bob = store.for_user("bob", session="monday")

    assert "nothing waiting" in repr(ApprovalPanel(bob))
    assert "style" not in words(ApprovalPanel(bob))


# Deciding ---------------------------------------------------------------------------------------


def test_approve_writes_exactly_that_and_the_card_says_what_the_store_did(asked):
    panel = ApprovalPanel(asked)
    buttons(cards(panel)[0])["Approve"].click()

    record = asked.get("preference", "style")
    assert (record.value, record.revision, record.session) == (
        "I like short answers.",
        2,
        "tuesday",
    )
    card = cards(panel)[0]
    assert "Approved, once. The store says: preference/style replaced, revision 2." in words(card)
    assert 'role="status"' in markup(card)
    assert buttons(card) == {}
    assert len(asked.list()) == 2


def test_the_ledger_tells_that_it_was_the_panel(asked):
    panel = ApprovalPanel(asked)
    panel.approve("p1")
    panel.reject("p2", "no tea")

    assert [(entry.id, entry.how, entry.note) for entry in asked.approvals.ledger()] == [
        ("p1", "panel", ""),
        ("p2", "panel", "no tea"),
    ]


def test_a_double_click_writes_once_and_does_no_harm(asked):
    panel = ApprovalPanel(asked)
    approve = buttons(cards(panel)[0])["Approve"]
    approve.click()
    before = words(panel)
    approve.click()

    assert asked.get("preference", "style").revision == 2
    assert words(panel) == before
    assert 'role="alert"' not in markup(panel)


def test_approve_and_then_reject_stays_approved(asked):
    panel = ApprovalPanel(asked)
    found = buttons(cards(panel)[0])
    found["Approve"].click()
    found["Reject"].click()

    assert "Approved, once" in words(cards(panel)[0])
    assert asked.get("preference", "style").revision == 2


def test_reject_writes_nothing(asked):
    panel = ApprovalPanel(asked)
    buttons(cards(panel)[1])["Reject"].click()

    assert asked.get("note", "tea") is None
    assert "Rejected. note/tea was not written." in words(cards(panel)[1])
    assert buttons(cards(panel)[1]) == {}


def test_approving_a_deletion_deletes(asked):
    panel = ApprovalPanel(asked)
    buttons(cards(panel)[2])["Approve"].click()

    assert asked.get("note", "old") is None
    assert "note/old deleted." in words(cards(panel)[2])


def test_edit_opens_the_value_and_cancel_decides_nothing(asked):
    panel = ApprovalPanel(asked)
    card = cards(panel)[1]
    buttons(card)["Edit"].click()

    assert list(buttons(card)) == ["Approve edited", "Cancel"]
    [field] = [each for each in every(card) if isinstance(each, ipywidgets.Textarea)]
    assert (field.value, field.description) == ("乌龙茶", "New value")

    buttons(card)["Cancel"].click()
    assert list(buttons(card)) == ["Approve", "Edit", "Reject"]
    assert [proposal.id for proposal in asked.approvals.pending()] == ["p1", "p2", "p3"]


def test_approve_edited_stores_what_was_typed(asked):
    panel = ApprovalPanel(asked)
    card = cards(panel)[1]
    buttons(card)["Edit"].click()
    card.editor.value = "绿茶"
    assert "Would be stored (2 characters)" in words(card)
    buttons(card)["Approve edited"].click()

    assert asked.get("note", "tea").value == "绿茶"
    assert "Approved, once. The store says: note/tea created, revision 1." in words(card)
    assert asked.approvals.ledger()[-1].note == "edited"


def test_an_edited_value_that_breaks_a_rule_is_an_alert_and_still_waits(asked):
    panel = ApprovalPanel(asked)
    card = cards(panel)[1]
    buttons(card)["Edit"].click()
    card.editor.value = "  "
    buttons(card)["Approve edited"].click()

    assert 'role="alert">value: is blank.' in markup(card)
    assert asked.get("note", "tea") is None
    assert list(buttons(card)) == ["Approve edited", "Cancel"]
    assert card.editor.value == "  "


def test_what_hides_in_an_edit_field_is_told_beside_it(asked):
    panel = ApprovalPanel(asked)
    card = cards(panel)[1]
    buttons(card)["Edit"].click()
    assert "Careful" not in words(card)

    card.editor.value = "pay\u202e 001"
    assert "Careful: 1 hidden character inside, shown in boxes." in words(card)
    assert "⟨U+202E⟩" in words(card)


def test_by_code_the_same_happens_and_the_words_come_back(asked):
    panel = ApprovalPanel(asked)

    approved = "Approved, once. The store says: preference/style replaced, revision 2."
    assert panel.approve("p1") == approved
    assert panel.approve("p1") == approved  # once more does nothing more
    assert (
        panel.edit("p2", "绿茶") == "Approved, once. The store says: note/tea created, revision 1."
    )
    assert panel.reject("p3", "keep it") == (
        "Rejected. note/old was not written. Told to the model: keep it"
    )
    assert asked.get("note", "tea").value == "绿茶"
    assert asked.get("note", "old") is not None
    assert buttons(panel).keys() == {"Look again"}


def test_by_code_an_unknown_id_is_refused(asked):
    with pytest.raises(InvalidInput, match="there is no card 'p9'"):
        ApprovalPanel(asked).approve("p9")


def test_by_code_a_change_asked_for_since_can_be_decided(asked, lent):
    panel = ApprovalPanel(asked)
    lent.propose(Put("note", "new", "asked since"))

    assert panel.approve("p4").startswith("Approved, once.")


# What goes wrong --------------------------------------------------------------------------------


def test_a_stale_card_says_so_before_and_after(asked):
    panel = ApprovalPanel(asked)
    asked.put("preference", "style", "I like no answers.")
    panel.refresh()
    card = cards(panel)[0]
    assert "Stale: the record has changed since this was asked." in words(card)
    assert "Stands now (18 characters)  I like no answers." in words(card)
    assert "Old value, when this was asked (20 characters)" in words(card)
    assert list(buttons(card)) == ["Reject"]  # a yes could only be refused
    assert "p1 put preference/style (stale)" in repr(panel)

    assert panel.approve("p1").startswith("Stale, so not approved. preference/style stands at")
    assert asked.get("preference", "style").value == "I like no answers."
    assert "at revision 2 now" in words(card)
    assert 'role="alert"' in markup(card)
    assert "p1 superseded" in repr(panel)


def test_a_card_that_went_stale_while_it_stood_says_so_at_the_click(asked):
    panel = ApprovalPanel(asked)
    asked.put("preference", "style", "I like no answers.")
    buttons(cards(panel)[0])["Approve"].click()

    assert asked.get("preference", "style").value == "I like no answers."
    assert "Stale, so not approved. preference/style stands at revision 2 now" in words(panel)
    assert buttons(cards(panel)[0]) == {}


def test_a_card_that_goes_stale_in_its_editor_offers_no_yes(asked):
    panel = ApprovalPanel(asked)
    card = cards(panel)[0]
    buttons(card)["Edit"].click()
    asked.put("preference", "style", "I like no answers.")
    buttons(panel)["Look again"].click()

    assert "Stale:" in words(card)
    assert list(buttons(card)) == ["Cancel"]
    buttons(card)["Cancel"].click()
    assert list(buttons(card)) == ["Reject"]


def test_a_damaged_proposal_is_no_deletion_and_can_only_be_rejected(asked, tmp_path):
    with closing(sqlite3.connect(tmp_path / "memory" / "memory.sqlite3")) as file:
        file.execute("UPDATE proposal SET value = NULL WHERE id = 'p2'")
        file.commit()
    panel = ApprovalPanel(asked)
    card = cards(panel)[1]

    assert "Damaged: its text cannot be read, so it cannot be approved." in words(card)
    assert "deleted" not in words(card)
    assert list(buttons(card)) == ["Reject"]
    panel.approve("p2")
    assert 'role="alert"' in markup(card)
    assert asked.get("note", "tea") is None
    buttons(card)["Reject"].click()
    assert "p2 rejected" in repr(panel)


def test_an_approval_stays_told_when_the_look_after_it_fails(asked, store):
    """The decision is made; that the panel cannot be drawn does not make it look undone."""
    panel = ApprovalPanel(asked)
    approve = type(asked.approvals).approve

    class Closing:
        def __getattr__(self, name):
            return getattr(asked.approvals, name)

        def approve(self, *given, **named):
            done = approve(asked.approvals, *given, **named)
            store.close()
            return done

    class Hand:
        approvals = Closing()

        def __getattr__(self, name):
            return getattr(asked, name)

    panel._alice = Hand()
    buttons(cards(panel)[0])["Approve"].click()

    assert "Approved, once. The store says: preference/style replaced" in words(cards(panel)[0])
    assert "Not up to date: The store is closed." in words(panel)


def test_a_record_deleted_since_takes_its_buttons_away(asked):
    panel = ApprovalPanel(asked)
    asked.delete("note", "old")
    panel.refresh()

    assert "Superseded: the record has changed since" in words(cards(panel)[2])
    assert buttons(cards(panel)[2]) == {}
    assert list(buttons(cards(panel)[0])) == ["Approve", "Edit", "Reject"]


def test_an_expired_card_says_so_and_writes_nothing(asked, clock):
    panel = ApprovalPanel(asked)
    clock.now += 61 * MINUTE
    buttons(cards(panel)[0])["Approve"].click()

    assert asked.get("preference", "style").revision == 1
    for card in cards(panel):  # the click made the panel look at the store
        assert "Expired: it waited too long. Nothing was written." in words(card)
        assert 'role="alert"' in markup(card)
        assert buttons(card) == {}


def test_no_room_is_an_alert_on_a_card_that_still_waits(asked):
    asked.put("note", "third", "the last that is allowed")
    panel = ApprovalPanel(asked)
    buttons(cards(panel)[1])["Approve"].click()

    assert 'role="alert">' in markup(cards(panel)[1])
    assert "the most allowed" in words(cards(panel)[1])
    assert list(buttons(cards(panel)[1])) == ["Approve", "Edit", "Reject"]

    asked.delete("note", "third")
    buttons(cards(panel)[1])["Approve"].click()
    assert asked.get("note", "tea").value == "乌龙茶"
    assert "the most allowed" not in words(cards(panel)[1])


def test_a_closed_store_is_told_in_the_card_not_lost_in_the_callback(asked, store):
    panel = ApprovalPanel(asked)
    store.close()
    buttons(cards(panel)[0])["Approve"].click()

    assert "The store is closed. Open it again." in words(cards(panel)[0])


def test_showing_a_panel_over_a_closed_store_says_that_it_is_not_up_to_date(asked, store):
    panel = ApprovalPanel(asked)
    store.close()
    panel._repr_mimebundle_()

    assert "Not up to date: The store is closed." in words(panel)


def test_an_error_that_nobody_foresaw_is_told_in_the_card(asked, clock):
    panel = ApprovalPanel(asked)
    clock.broken = True
    buttons(cards(panel)[0])["Approve"].click()

    assert "ZeroDivisionError: the clock stands still" in words(cards(panel)[0])
    assert asked.get("preference", "style").revision == 1


def test_what_was_decided_elsewhere_is_seen(asked):
    panel = ApprovalPanel(asked)
    asked.approvals.approve("p1")
    asked.approvals.reject("p2")
    asked.approvals.revoke("p3")
    panel.refresh()

    assert "Approved elsewhere, once. The store says: preference/style replaced." in words(panel)
    assert "Rejected. Nothing was written." in words(panel)
    assert "Revoked. Nothing was written." in words(panel)
    assert buttons(panel).keys() == {"Look again"}


def test_a_click_on_what_was_decided_elsewhere_says_what_became_of_it(asked):
    panel = ApprovalPanel(asked)
    asked.approvals.reject("p1")
    buttons(cards(panel)[0])["Approve"].click()

    assert asked.get("preference", "style").revision == 1
    assert "Rejected. Nothing was written." in words(cards(panel)[0])


def test_what_was_forgotten_with_everything_else_is_gone(asked):
    panel = ApprovalPanel(asked)
    asked.forget_everything()
    buttons(cards(panel)[0])["Approve"].click()

    assert "there is no proposal 'p1'" in words(cards(panel)[0])
    assert "Gone: the store holds this proposal no more." in words(cards(panel)[1])
    assert asked.list() == []


def test_what_would_change_nothing_says_so(asked):
    panel = ApprovalPanel(asked)

    said = panel.edit("p1", "I like long answers.")
    assert said == (
        "Nothing to do: preference/style stands like this already. Nothing was written."
    )
    assert asked.get("preference", "style").revision == 1
    assert "memlab-approved" not in cards(panel)[0]._dom_classes


# The same text twice ----------------------------------------------------------------------------


def test_the_same_text_under_another_name_is_told_whatever_its_case_and_width(asked, lent):
    asked.put("note", "db", "SQLite 3")
    lent.propose(Put("decision", "engine", "ｓｑｌｉｔｅ 3"))
    lent.propose(Put("project", "engine", "sqlite 3"))
    panel = ApprovalPanel(asked)

    said = "Twin: the same text stands as note/db and waits as "
    assert f"{said}project/engine. Do you want it twice?" in words(cards(panel)[3])
    assert f"{said}decision/engine. Do you want it twice?" in words(cards(panel)[4])
    assert "Twin" not in words(cards(panel)[0]) + words(cards(panel)[1])
    assert list(buttons(cards(panel)[3])) == ["Approve", "Edit", "Reject"]  # a warning, no more


def test_the_same_text_under_its_own_name_is_no_twin(asked, lent):
    lent.propose(Put("preference", "style", "I LIKE LONG ANSWERS."))

    assert "Twin" not in words(ApprovalPanel(asked))


def test_an_edit_to_what_stands_elsewhere_is_told_as_one_types(asked):
    panel = ApprovalPanel(asked)
    card = cards(panel)[1]
    buttons(card)["Edit"].click()
    card.editor.value = "MOVED out"

    assert "Twin: the same text stands as note/old." in words(card)


def test_an_edit_shows_its_difference_to_the_old_value_and_whether_it_is_too_long(asked):
    panel = ApprovalPanel(asked)
    card = cards(panel)[0]
    buttons(card)["Edit"].click()
    card.editor.value = "I like few answers."
    assert "I like <ins>few</ins> answers." in markup(card)

    card.editor.value = "x" * 513
    assert "Too long: the most allowed is 512 characters." in words(card)


# Several at once --------------------------------------------------------------------------------


@pytest.fixture
def listed(asked):
    """A panel whose list of all that can be approved is open."""
    panel = ApprovalPanel(asked)
    buttons(panel)["Approve all shown"].click()
    return panel


def the_list(panel):
    [found] = [each for each in every(panel) if "memlab-list" in getattr(each, "_dom_classes", ())]
    return found


def ticks(panel):
    return [each for each in every(the_list(panel)) if isinstance(each, ipywidgets.Checkbox)]


def test_approve_all_first_lists_every_value_and_decides_nothing(asked, listed):
    said = words(the_list(listed))

    assert [tick.description for tick in ticks(listed)] == [
        "put preference/style",
        "put note/tea",
        "delete note/old",
    ]
    assert "I like <ins>short</ins> answers." in markup(the_list(listed))
    assert "乌龙茶" in said
    assert "moved out" in said
    assert list(buttons(the_list(listed))) == ["Approve these 3", "Cancel"]
    assert len(asked.approvals.pending()) == 3


def test_approve_all_writes_what_was_listed_and_says_how_many(asked, listed):
    buttons(the_list(listed))["Approve these 3"].click()

    assert [record.value for record in asked.list()] == ["乌龙茶", "I like short answers."]
    assert "3 of 3 done." in words(the_list(listed))
    assert 'role="status"' in markup(the_list(listed))
    assert buttons(listed).keys() == {"Look again"}
    assert {entry.how for entry in asked.approvals.ledger()} == {"panel"}


def test_only_what_is_ticked_is_approved(asked, listed):
    ticks(listed)[2].value = False
    buttons(the_list(listed))["Approve these 2"].click()

    assert "2 of 2 saved." in words(the_list(listed))
    assert "delete note/old: not saved, and still waits" in words(the_list(listed))
    assert [proposal.id for proposal in asked.approvals.pending()] == ["p3"]


def test_with_nothing_ticked_there_is_nothing_to_approve(asked, listed):
    for tick in ticks(listed):
        tick.value = False
    yes = buttons(the_list(listed))["Approve these 0"]
    assert yes.disabled
    yes.click()

    assert len(asked.approvals.pending()) == 3


def test_cancel_closes_the_list_and_decides_nothing(asked, listed):
    buttons(the_list(listed))["Cancel"].click()

    assert not [each for each in every(listed) if isinstance(each, ipywidgets.Checkbox)]
    assert len(asked.approvals.pending()) == 3
    assert "Approve all shown" in buttons(listed)


def test_what_was_asked_after_the_list_was_read_is_not_in_it(asked, lent, listed):
    lent.propose(Put("note", "new", "asked since"))
    listed.refresh()
    buttons(the_list(listed))["Approve these 3"].click()

    assert asked.get("note", "new") is None
    assert [proposal.id for proposal in asked.approvals.pending()] == ["p4"]


def test_one_that_fails_holds_up_no_other_and_is_named_with_its_reason(asked, listed):
    asked.put("preference", "style", "I like no answers.")
    asked.approvals.reject("p3")
    buttons(the_list(listed))["Approve these 3"].click()

    said = words(the_list(listed))
    assert "1 of 3 done." in said
    assert "Not done: put preference/style (p1). Stale, so not approved." in said
    assert "Not done: delete note/old (p3). Rejected. Nothing was written." in said
    assert 'role="alert">1 of 3' in markup(the_list(listed))
    assert asked.get("note", "tea").value == "乌龙茶"
    assert asked.get("preference", "style").value == "I like no answers."
    assert "at revision 2 now" in words(cards(listed)[0])  # in its card, too


def test_a_second_click_on_approve_these_does_nothing_more(asked, listed):
    yes = buttons(the_list(listed))["Approve these 3"]
    yes.click()
    before = words(the_list(listed))
    yes.click()

    assert words(the_list(listed)) == before
    assert asked.get("preference", "style").revision == 2


def test_looking_again_takes_a_list_away_that_is_over_and_keeps_one_that_is_open(listed):
    buttons(listed)["Look again"].click()
    assert len(ticks(listed)) == 3

    buttons(the_list(listed))["Approve these 3"].click()
    buttons(listed)["Look again"].click()
    assert "乌龙茶" not in markup(listed)


def test_a_line_of_the_list_that_was_decided_on_its_card_cannot_be_ticked(asked, listed):
    listed.reject("p2")

    assert [tick.description for tick in ticks(listed)] == [
        "put preference/style",
        "delete note/old",
    ]
    assert "put note/tea: rejected" in words(the_list(listed))
    assert "Approve these 2" in buttons(the_list(listed))


def test_two_changes_of_one_record_are_told_before_and_only_the_first_is_saved(alice, lent):
    lent.propose(Put("note", "tea", "绿茶"))
    lent.propose(Put("note", "tea", "红茶"))
    panel = ApprovalPanel(alice)
    buttons(panel)["Approve all shown"].click()
    assert "More than one of these would change note/tea" in words(the_list(panel))

    buttons(the_list(panel))["Approve these 2"].click()
    assert "1 of 2 saved." in words(the_list(panel))
    assert "Not saved: put note/tea (p2)." in words(the_list(panel))
    assert alice.get("note", "tea").value == "绿茶"


def test_a_stale_change_is_not_listed_and_one_alone_needs_no_list(asked):
    asked.put("preference", "style", "I like no answers.")
    panel = ApprovalPanel(asked)
    buttons(panel)["Approve all shown"].click()
    assert [tick.description for tick in ticks(panel)] == ["put note/tea", "delete note/old"]

    buttons(the_list(panel))["Cancel"].click()
    panel.reject("p2")
    assert "Approve all shown" not in buttons(panel)


def test_the_list_is_made_of_what_the_store_holds_at_the_click(asked):
    panel = ApprovalPanel(asked)
    asked.put("preference", "style", "I like no answers.")
    asked.approvals.reject("p2")
    buttons(panel)["Approve all shown"].click()

    assert [tick.description for tick in ticks(panel)] == ["delete note/old"]
    assert "Approve this one" in buttons(the_list(panel))


def test_a_store_closed_under_the_list_is_told_and_nothing_counts_as_saved(listed, store):
    store.close()
    buttons(the_list(listed))["Approve these 3"].click()

    assert "0 of 3 done." in words(the_list(listed))
    assert words(the_list(listed)).count("The store is closed.") == 3


def test_an_error_nobody_foresaw_stops_no_other_and_is_told(asked, listed, clock):
    clock.broken = True
    buttons(the_list(listed))["Approve these 3"].click()

    assert "0 of 3 done." in words(the_list(listed))
    assert "ZeroDivisionError: the clock stands still" in words(the_list(listed))
    assert asked.get("preference", "style").revision == 1


def test_several_by_code_gives_the_words_back(asked):
    panel = ApprovalPanel(asked)

    assert panel.approve_all(["p1", "p2", "p2"]) == "2 of 2 saved."
    assert panel.approve_all(["p2", "p3"]) == (
        "1 of 2 done.\nNot done: put note/tea (p2). "
        "Approved, once. The store says: note/tea created, revision 1."
    )
    assert "Approved, once" in words(cards(panel)[0])


def test_several_by_code_decide_nothing_where_one_id_is_unknown(asked):
    panel = ApprovalPanel(asked)

    with pytest.raises(InvalidInput, match="there is no card 'p9'"):
        panel.approve_all(["p1", "p9"])
    with pytest.raises(InvalidInput, match="a list of ids"):
        panel.approve_all("p1")
    assert len(asked.approvals.pending()) == 3


# Looking again ----------------------------------------------------------------------------------


def test_looking_again_shows_what_was_asked_since(asked, lent):
    panel = ApprovalPanel(asked)
    lent.propose(Put("note", "new", "asked since"))
    buttons(panel)["Look again"].click()

    assert "Store note/new" in words(panel)
    assert len(cards(panel)) == 4


def test_looking_again_folds_what_is_decided_and_keeps_no_text_of_it(asked):
    panel = ApprovalPanel(asked)
    panel.reject("p2")
    assert "乌龙茶" in words(panel)  # what stands below a click does not move
    panel.refresh()

    assert "乌龙茶" not in markup(panel)
    assert "Rejected. note/tea was not written." in words(panel)


def test_two_panels_of_one_user_agree(asked):
    one, other = ApprovalPanel(asked), ApprovalPanel(asked)
    one.approve("p1")
    buttons(cards(other)[0])["Approve"].click()

    assert asked.get("preference", "style").revision == 2
    assert "Approved elsewhere, once." in words(cards(other)[0])


def test_a_click_may_come_on_another_thread(asked):
    panel = ApprovalPanel(asked)
    clicked = [buttons(card)["Approve"] for card in cards(panel)]
    threads = [threading.Thread(target=button.click) for button in clicked]
    for thread in threads:
        thread.start()
        thread.join()

    assert asked.approvals.pending() == []
    assert asked.get("note", "tea").value == "乌龙茶"


def test_another_process_decides_and_a_click_here_does_nothing_more(asked, store, tmp_path):
    panel = ApprovalPanel(asked)
    code = (
        "import sys; from memlab import MemoryStore\n"
        "with MemoryStore.open(sys.argv[1], clock=lambda: int(sys.argv[2])) as store:\n"
        "    store.for_user('alice', session='other').approvals.approve('p1')"
    )
    folder = tmp_path / "memory"
    subprocess.run([sys.executable, "-c", code, str(folder), str(START)], check=True, timeout=60)
    buttons(cards(panel)[0])["Approve"].click()

    assert "Approved elsewhere, once." in words(cards(panel)[0])
    with closing(sqlite3.connect(folder / "memory.sqlite3")) as file:
        assert file.execute("SELECT count(*) FROM revision WHERE key = 'style'").fetchone() == (1,)


# What is shown without widgets ------------------------------------------------------------------


def test_the_repr_says_the_state(asked):
    panel = ApprovalPanel(asked)
    assert repr(panel) == (
        "ApprovalPanel(alice: 3 waiting: p1 put preference/style, p2 put note/tea, "
        "p3 delete note/old)"
    )

    panel.approve("p1")
    panel.reject("p3")
    assert repr(panel) == (
        "ApprovalPanel(alice: 1 waiting: p2 put note/tea; 2 decided: p1 approved, p3 rejected)"
    )

    panel.approve("p2")
    assert repr(panel).startswith("ApprovalPanel(alice: nothing waiting; 3 decided: ")


def test_a_saved_notebook_holds_the_whole_repr_as_the_store_is_when_shown(asked, lent):
    lent.propose(Put("project", "deadline", "30 November"))
    panel = ApprovalPanel(asked)
    asked.approvals.approve("p1")

    assert panel._repr_mimebundle_()["text/plain"] == (  # ipywidgets would cut it at 110
        "ApprovalPanel(alice: 3 waiting: p2 put note/tea, p3 delete note/old, "
        "p4 put project/deadline; 1 decided: p1 approved)"
    )


def test_there_is_no_output_widget_and_no_blocking_wait(asked):
    panel = ApprovalPanel(asked)

    assert not any(isinstance(each, ipywidgets.Output) for each in every(panel))


# Hostile text -----------------------------------------------------------------------------------


def test_hostile_text_in_every_field_stays_text(alice, lent):
    alice.put("note", "a", HOSTILE)
    lent.propose(Put("note", "a", HOSTILE + " more"), reason=HOSTILE)
    lent.propose(Put("note", "b", HOSTILE), reason=HOSTILE)
    lent.propose(Delete("note", "a"), reason=HOSTILE)
    panel = ApprovalPanel(alice)
    buttons(cards(panel)[1])["Edit"].click()
    panel.reject("p3", HOSTILE)
    panel.edit("p1", HOSTILE)

    shown = markup(panel)
    tags = set(
        re.findall(r"<\s*/?\s*([a-z]+)", re.sub(r"<style>.*?</style>", "", shown, flags=re.S))
    )
    assert tags <= {"div", "span", "ins", "del", "bdi"}
    assert "\u202e" not in shown
    assert "\u200b" not in shown
    assert '<span class="memlab-hidden">⟨U+202E⟩</span>' in shown
    assert "Careful: 2 hidden characters inside" in words(panel)


@given(st.text())
def test_any_text_is_shown_as_exactly_itself(text):
    shown = safe(text)
    boxes = re.sub(
        r'<span class="memlab-hidden">⟨U\+([0-9A-F]+)⟩</span>',
        lambda box: html.escape(chr(int(box[1], 16))),
        shown,
    )

    assert html.unescape(boxes) == text or "\r" in text or "&#" in text
    assert not re.search(r"<(?!span class=\"memlab-hidden\">|/span>)", shown)


def test_a_difference_shows_the_ends_of_lines_and_the_tabs_that_change():
    gone, came = difference("Lane 5\nFlat 2\n", "Lane 5\tFlat 2\n")

    assert gone == 'Lane 5<del><span class="memlab-hidden">⏎</span>\n</del>Flat 2\n'
    assert came == 'Lane 5<ins><span class="memlab-hidden">⇥</span>\t</ins>Flat 2\n'


@given(st.text("ab 的是\n"), st.text("ab 的是\n"))
def test_a_difference_loses_nothing_of_either_value(old, new):
    def text_of(shown):
        return re.sub(r'<span class="memlab-hidden">.</span>|</?(?:ins|del)>', "", shown)

    gone, came = difference(old, new)

    assert (text_of(gone), text_of(came)) == (old, new)
    assert ("<del>" in gone or "<ins>" in came) == (old != new)


@pytest.mark.parametrize("words", [("的是", "是的的"), ("x ", "x y "), (".,;", ",;..;")])
def test_a_text_made_to_be_slow_to_compare_does_not_stall(words):
    before, after = ((word * 2_000)[:2_000] for word in words)
    start = time.process_time()
    difference(before, after)

    assert time.process_time() - start < 5  # compared exactly it takes a minute


def test_a_very_long_difference_does_not_stall():
    gone, came = difference("a b " * 5_000, "b a " * 5_000)

    assert gone.startswith("<del>")
    assert came.startswith("<ins>")


# What is imported -------------------------------------------------------------------------------


def test_without_ipywidgets_the_error_names_its_install_line():
    code = (
        "import sys; sys.modules['ipywidgets'] = None\n"
        "import memlab\n"
        "try: memlab.panels\n"
        "except memlab.MemlabError as error: print(error)"
    )

    said = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60)
    assert 'pip install "memlab[lab]"' in said


def test_ages_come_from_the_clock_of_the_store(alice, clock):
    clock.now += MINUTE

    assert views.now_of(alice) == START + MINUTE
