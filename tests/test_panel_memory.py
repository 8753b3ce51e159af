"""The memory panel shows what the store holds, and asks it to change: no browser is needed.

An exception in a callback is swallowed by ipywidgets, so the tests look at the store and the words.
"""

from __future__ import annotations

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

from memlab import Conflict, HashEmbedder, InvalidInput, Limits, MemoryStore, Put, rows
from memlab.panels import MemoryPanel
from memlab.panels.memory import _excerpt, _span
from memlab.text import fold


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    limits = Limits(records_per_user=9_000, records_total=9_000, database_bytes=64 * 1024 * 1024)
    with MemoryStore.open(tmp_path / "memory", create=True, clock=clock, limits=limits) as opened:
        yield opened


@pytest.fixture
def alice(store):
    return store.for_user("alice", session="monday")


@pytest.fixture
def later(store):
    """The same user, elsewhere."""
    return store.for_user("alice", session="tuesday")


@pytest.fixture
def filled(alice, later):
    """Four records; one has had three values."""
    alice.put("preference", "style", "I like long answers.")
    alice.put("preference", "style", "I like answers.")
    later.put("preference", "style", "I like short answers.")
    alice.put("note", "tea", "我喜欢喝绿茶")
    alice.put("note", "street", "12 Straße des 17. Juni, 100% sure")
    alice.put("project", "tea-house", "Opens in May.")
    return alice


def fill(store, count):
    """Store `count` notes in one transaction."""
    with store._database.transaction() as file:
        for n in range(count):
            text = f"第{n}杯茶, a cup of tea number {n}, drunk in the Garden"
            change = Put("note", f"n.{n:04}", text)
            rows.write(file, "alice", change, "monday", START, store.limits)


def buttons(widget):
    return {each.description: each for each in every(widget) if isinstance(each, ipywidgets.Button)}


def lines(panel):
    """The rows that are shown, each by its name; a deleted one has none."""
    found = [each for each in every(panel) if "memlab-row" in getattr(each, "_dom_classes", ())]
    return {each.item.record.kind + "/" + each.item.record.key: each for each in found}


def opened(panel, name):
    """Click on the name of a record, and return its row."""
    buttons(panel)[name].click()
    return lines(panel)[name]


# The list ---------------------------------------------------------------------------------------


def test_every_record_has_a_line_with_its_name_and_what_is_known_of_it(filled):
    panel = MemoryPanel(filled)

    assert list(lines(panel)) == [
        "note/street",
        "note/tea",
        "preference/style",
        "project/tea-house",
    ]
    style = words(lines(panel)["preference/style"])
    assert "I like short answers." in style
    assert "revision 3 · not used yet · from session tuesday" in style
    assert "4 memories of alice" in words(panel)
    assert "As of 2026-09-21 14:13:20 UTC. By kind: preference 1, project 1, note 2." in words(
        panel
    )
    assert "Showing 1-4 of 4." in words(panel)


def test_nothing_stored_is_said_so(alice):
    assert "There is no memory." in words(MemoryPanel(alice))
    assert repr(MemoryPanel(alice)) == "MemoryPanel(alice: 0 memories; filter: none)"


def test_only_the_users_own_hand_can_have_a_panel(filled):
    with pytest.raises(InvalidInput, match="UserMemory, not LentMemory"):
        MemoryPanel(filled.lend())


def test_another_users_records_do_not_show(store, filled):
    panel = MemoryPanel(store.for_user("bob", session="monday"))

    assert lines(panel) == {}
    with pytest.raises(InvalidInput, match="there is no note/tea"):
        panel.delete("note", "tea")
    assert filled.get("note", "tea") is not None


def test_showing_it_again_looks_at_the_store_again(filled, later):
    panel = MemoryPanel(filled)
    later.put("note", "new", "stored since")
    assert "note/new" not in lines(panel)

    assert panel._repr_mimebundle_()["text/plain"] == (
        "MemoryPanel(alice: 5 memories; filter: none; shown: 1-5)"
    )
    assert "note/new" in lines(panel)


# The filter -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("绿茶", ["note/tea"]),
        ("茶", ["note/tea"]),
        ("STRASSE", ["note/street"]),
        ("１２", ["note/street"]),  # full width
        ("100%", ["note/street"]),
        ("1_0", []),
        ("tea", ["note/tea", "project/tea-house"]),  # keys
        ("may.", ["project/tea-house"]),
        ("  ", []),
        ("", ["note/street", "note/tea", "preference/style", "project/tea-house"]),
    ],
)
def test_what_is_typed_is_looked_for_literally_in_keys_and_values(filled, typed, found):
    panel = MemoryPanel(filled)
    panel.filter_field.value = "x"
    panel.filter_field.value = typed

    assert list(lines(panel)) == found
    assert list(lines(panel)) == sorted(
        f"{each.kind}/{each.key}" for each in filled.search(typed, limit=100)
    )


def test_by_kind_and_both_together(filled):
    panel = MemoryPanel(filled)
    panel.kind_field.value = "note"
    assert list(lines(panel)) == ["note/street", "note/tea"]

    panel.filter_field.value = "tea"
    assert list(lines(panel)) == ["note/tea"]
    assert 'Showing 1-1 of 1 with "tea" kind note, of 4 in all.' in words(panel)


def test_by_code_the_fields_show_it_and_the_words_come_back(filled):
    panel = MemoryPanel(filled)

    assert panel.filter("TEA") == 'Showing 1-2 of 2 with "TEA", of 4 in all.'
    assert panel.filter("TEA", "note") == 'Showing 1-1 of 1 with "TEA" kind note, of 4 in all.'
    assert (panel.filter_field.value, panel.kind_field.value) == ("TEA", "note")
    assert panel.filter("nowhere") == 'No memory with "nowhere".'
    assert panel.filter() == "Showing 1-4 of 4."
    with pytest.raises(InvalidInput, match="kind: must be one of"):
        panel.filter("x", "secret")


def test_what_was_found_is_marked_and_a_long_value_opens_there(alice):
    alice.put("note", "long", "a " * 150 + "Straße " + "b " * 50)
    panel = MemoryPanel(alice)
    panel.filter("STRASSE")

    shown = markup(lines(panel)["note/long"])
    assert "<mark>Straße</mark>" in shown
    assert ">[…] a a" in shown
    assert "b […]<" in shown


def test_more_than_may_be_looked_for_is_an_alert_and_the_list_stays(filled):
    panel = MemoryPanel(filled)
    panel.filter_field.value = "tea"
    panel.filter_field.value = "tea" * 60

    assert 'role="alert">Filter: has 180 characters; the most allowed is 128.' in markup(panel)
    assert list(lines(panel)) == ["note/tea", "project/tea-house"]
    panel.filter_field.value = "style"
    assert 'role="alert"' not in markup(panel)


@given(st.text(max_size=40), st.text(max_size=6))
def test_a_mark_never_changes_what_is_shown(value, sought):
    query = fold(sought)
    found = _span(value, query)

    assert (found is not None) == (bool(query) and query in fold(value))
    if found is not None:
        assert query in fold(value[slice(*found)])
    unmarked = re.sub("</?mark>", "", _excerpt(value, query))
    assert unmarked == _excerpt(value, "")


# Many -------------------------------------------------------------------------------------------


def test_a_page_holds_25_and_one_turns_them(store, alice):
    fill(store, 64)
    panel = MemoryPanel(alice)
    assert "Showing 1-25 of 64." in words(panel)
    assert len(lines(panel)) == 25

    buttons(panel)["Next"].click()
    buttons(panel)["Next"].click()
    assert "Showing 51-64 of 64." in words(panel)
    assert list(lines(panel))[-1] == "note/n.0063"
    assert panel.next_button.disabled
    assert not panel.previous_button.disabled

    buttons(panel)["Next"].click()  # a click that came too late
    assert "Showing 51-64 of 64." in words(panel)
    buttons(panel)["Previous"].click()
    assert "Showing 26-50 of 64." in words(panel)
    assert panel.page(1) == "Showing 1-25 of 64."
    with pytest.raises(InvalidInput, match="number: must be a whole number, 1 to 3"):
        panel.page(4)


def test_a_filter_starts_at_the_first_page(store, alice):
    fill(store, 64)
    panel = MemoryPanel(alice)
    panel.page(3)
    panel.filter_field.value = "tea"

    assert 'Showing 1-25 of 64 with "tea"' in words(panel)


def test_a_page_that_is_gone_gives_way_to_the_last_one(store, alice):
    fill(store, 30)
    panel = MemoryPanel(alice)
    panel.page(2)
    for n in range(25, 30):
        alice.delete("note", f"n.{n:04}")
    panel.refresh()

    assert "Showing 1-25 of 25." in words(panel)
    assert len(lines(panel)) == 25


def test_five_thousand_make_no_widget_each_and_no_lag(store, alice):
    fill(store, 5_000)
    start = time.perf_counter()
    panel = MemoryPanel(alice)
    drawn = time.perf_counter() - start
    took = []
    for typed in ("第", "第4", "第49", "第499", "garden", "GARDEN", "nothing", ""):
        start = time.perf_counter()
        panel.filter_field.value = typed
        took.append(time.perf_counter() - start)
    print(f"5,000: drawn in {drawn * 1000:.0f} ms, filtered in {max(took) * 1000:.1f} ms at most")

    assert "Showing 1-25 of 5,000." in words(panel)
    assert sum(1 for _ in every(panel)) < 150
    assert sorted(took)[len(took) // 2] < 0.1


# One record -------------------------------------------------------------------------------------


def test_its_name_opens_a_record_with_its_whole_history(filled):
    row = opened(MemoryPanel(filled), "preference/style")

    assert "Value (21 characters)" in words(row)
    assert "History: 2 earlier values, the latest first" in words(row)
    assert words(row).index("I like answers.") < words(row).index("I like long answers.")
    assert list(buttons(row)) == ["preference/style", "Undo", "Delete", "Close"]
    assert {button.icon for button in buttons(row).values()} == {""}
    assert "preference/style" in buttons(row)["Delete"].tooltip


def test_a_record_without_a_past_has_nothing_to_undo(filled):
    row = opened(MemoryPanel(filled), "note/tea")

    assert "History: no earlier value." in words(row)
    assert "Undo" not in buttons(row)


def test_several_stay_open_and_close_closes_one(filled):
    panel = MemoryPanel(filled)
    opened(panel, "note/tea")
    style = opened(panel, "preference/style")
    buttons(panel)["preference/style"].click()  # a second click leaves it open
    assert "open: note/tea, preference/style" in repr(panel)

    buttons(style)["Close"].click()
    assert "open: note/tea)" in repr(panel)
    assert "Close" not in buttons(style)


def test_the_history_by_code_is_a_line_a_value(filled):
    panel = MemoryPanel(filled)

    assert panel.history("preference", "style").splitlines() == [
        "revision 3, 2026-09-21 14:13:20 UTC, session tuesday: I like short answers.",
        "revision 2, 2026-09-21 14:13:20 UTC, session monday: I like answers.",
        "revision 1, 2026-09-21 14:13:20 UTC, session monday: I like long answers.",
    ]
    assert "History: 2 earlier values" in words(panel)
    with pytest.raises(InvalidInput, match="there is no note/nothing"):
        panel.history("note", "nothing")


def test_a_long_history_is_cut_and_all_of_it_can_be_chosen(alice):
    for n in range(30):
        alice.put("note", "n", f"value {n}")
    row = opened(MemoryPanel(alice), "note/n")

    assert "29 earlier values, the latest first; 9 older ones can be seen under Undo" in words(row)
    assert markup(row).count("<tr>") == 1 + 20
    buttons(row)["Undo"].click()
    [choice] = [each for each in every(row) if isinstance(each, ipywidgets.BoundedIntText)]
    assert (choice.min, choice.max, choice.value) == (1, 29, 29)
    choice.value = 3
    assert "Would stand, from revision 3 (7 characters)" in words(row)
    assert "value <ins>2</ins>" in markup(row)


# Undo -------------------------------------------------------------------------------------------


def test_undo_shows_the_difference_first_and_then_makes_a_new_revision(filled):
    row = opened(MemoryPanel(filled), "preference/style")
    buttons(row)["Undo"].click()
    [choice] = [each for each in every(row) if isinstance(each, ipywidgets.BoundedIntText)]
    choice.value = 1

    assert "I like <del>short</del> answers." in markup(row)
    assert "I like <ins>long</ins> answers." in markup(row)
    assert filled.get("preference", "style").revision == 3

    buttons(row)["Yes, undo"].click()
    record = filled.get("preference", "style")
    assert (record.value, record.revision, record.session) == ("I like long answers.", 4, "monday")
    assert (
        "Undone. The store says: preference/style replaced, revision 4, with the value of "
        "revision 1." in words(row)
    )
    assert "History: 3 earlier values" in words(row)
    assert "Yes, undo" not in buttons(row)


def test_cancel_undoes_nothing(filled):
    row = opened(MemoryPanel(filled), "preference/style")
    buttons(row)["Undo"].click()
    buttons(row)["Cancel"].click()

    assert "Yes, undo" not in buttons(row)
    assert filled.get("preference", "style").revision == 3


def test_a_second_yes_undoes_nothing_more(filled):
    row = opened(MemoryPanel(filled), "preference/style")
    buttons(row)["Undo"].click()
    yes = buttons(row)["Yes, undo"]
    yes.click()
    before = words(row)
    yes.click()

    assert filled.get("preference", "style").revision == 4
    assert words(row) == before


def test_undo_by_code(filled):
    panel = MemoryPanel(filled)

    assert panel.undo("preference", "style", 2).startswith("Undone. The store says: preference/")
    assert filled.get("preference", "style").value == "I like answers."
    assert panel.undo("preference", "style", 4) == (
        "Nothing to do: preference/style stands like this already. Nothing was written."
    )
    assert panel.undo("preference", "style", 9) == (
        "revision: 9 is not kept; there are: 1, 2, 3, 4."
    )
    assert "9 is not kept" in words(panel)


# Pin --------------------------------------------------------------------------------------------


def test_the_box_pins_and_unpins(filled):
    row = opened(MemoryPanel(filled), "note/tea")
    [box] = [each for each in every(row) if isinstance(each, ipywidgets.Checkbox)]
    box.value = True
    assert filled.get("note", "tea").pinned
    assert "The store says: note/tea is pinned." in words(row)
    assert '<span class="memlab-pinned">pinned</span>' in markup(row)

    box.value = False
    assert not filled.get("note", "tea").pinned
    assert "The store says: note/tea is not pinned." in words(row)
    assert "memlab-pinned" not in markup(row)


def test_pin_by_code(filled):
    panel = MemoryPanel(filled)

    assert "is pinned" in panel.pin("note", "tea")
    assert "is not pinned" in panel.pin("note", "tea", False)
    assert panel.pin("note", "tea", 1) == "pinned: must be True or False."


# Delete -----------------------------------------------------------------------------------------


def test_delete_asks_and_says_what_it_removes(filled):
    filled.lend().propose(Put("preference", "style", "I like none."))
    row = opened(MemoryPanel(filled), "preference/style")
    buttons(row)["Delete"].click()

    assert "Delete preference/style for good?" in words(row)
    assert "its value, 2 earlier values, 1 open proposal, the text of decided proposals." in words(
        row
    )
    assert "vector" not in words(row)  # this store makes none
    assert "What stays is its name with the last revision number" in words(row)
    assert filled.get("preference", "style") is not None
    buttons(row)["Delete"].click()  # a second click answers nothing
    assert filled.get("preference", "style") is not None


def test_cancel_deletes_nothing(filled):
    row = opened(MemoryPanel(filled), "note/tea")
    buttons(row)["Delete"].click()
    buttons(row)["Cancel"].click()

    assert "Yes, delete" not in buttons(row)
    assert filled.get("note", "tea") is not None


def test_yes_deletes_it_and_tells_what_the_store_says(filled, tmp_path):
    filled.lend().propose(Put("preference", "style", "I like none."))
    panel = MemoryPanel(filled)
    row = opened(panel, "preference/style")
    buttons(row)["Delete"].click()
    buttons(row)["Yes, delete"].click()

    assert filled.history("preference", "style") == []
    assert filled.approvals.pending() == []
    said = (
        "Deleted. The store says: preference/style is gone. Its values: 3 before, none now. "
        "Open proposals for it: 1 before, none now. Its text is erased from the file."
    )
    assert said in words(row)
    assert buttons(row) == {}
    assert "short answers" not in markup(panel)
    assert lines(panel)["preference/style"].item.record.value == ""
    assert "3 memories of alice" in words(panel)
    assert "Showing 1-3 of 3." in words(panel)
    assert list(lines(panel)) == [  # nothing moves under a second click
        "note/street",
        "note/tea",
        "preference/style",
        "project/tea-house",
    ]
    assert b"short answers" not in (tmp_path / "memory" / "memory.sqlite3").read_bytes()

    panel.refresh()
    assert "preference/style" not in lines(panel)


def test_a_second_yes_deletes_nothing_more(filled, later):
    row = opened(MemoryPanel(filled), "note/tea")
    buttons(row)["Delete"].click()
    yes = buttons(row)["Yes, delete"]
    yes.click()
    later.put("note", "tea", "new tea")
    yes.click()

    assert filled.get("note", "tea").value == "new tea"


def test_a_deletion_takes_every_other_question_away(filled):
    panel = MemoryPanel(filled)
    tea, street = opened(panel, "note/tea"), opened(panel, "note/street")
    buttons(tea)["Delete"].click()
    buttons(street)["Delete"].click()
    other = buttons(street)["Yes, delete"]
    buttons(tea)["Yes, delete"].click()
    other.click()  # where a second click may land once the rows have moved up

    assert filled.get("note", "tea") is None
    assert filled.get("note", "street") is not None


def test_a_vector_is_told_where_the_store_makes_them(tmp_path):
    with MemoryStore.open(tmp_path / "v", create=True, embedder=HashEmbedder()) as store:
        alice = store.for_user("alice", session="monday")
        alice.put("note", "tea", "green")
        panel = MemoryPanel(alice)
        row = opened(panel, "note/tea")
        buttons(row)["Delete"].click()
        assert "its vector." in words(row)

        assert "Its vector went with it." in panel.delete("note", "tea")


def test_text_that_another_program_keeps_in_the_file_is_said_so(filled, tmp_path):
    code = (
        "import sqlite3, sys; file = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "file.execute('BEGIN'); file.execute('SELECT count(*) FROM memory').fetchone()\n"
        "print('reads', flush=True); sys.stdin.read()"
    )
    path = str(tmp_path / "memory" / "memory.sqlite3")
    with subprocess.Popen(
        [sys.executable, "-c", code, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdout.readline() == "reads\n"
        said = MemoryPanel(filled).delete("note", "tea")
        reader.stdin.close()

    assert "Its text is still in the file, because another program reads it" in said


def test_delete_by_code_happens_once(filled, later):
    panel = MemoryPanel(filled)
    said = panel.delete("note", "tea")
    assert said.startswith("Deleted. The store says: note/tea is gone.")
    assert said in words(panel)
    assert panel.delete("note", "tea") == said

    later.put("note", "tea", "stored anew")
    assert panel.delete("note", "tea").startswith("Deleted.")  # the new one
    panel.refresh()
    with pytest.raises(InvalidInput, match="there is no note/tea"):
        panel.delete("note", "tea")


def test_by_code_a_record_that_is_not_on_the_page_is_told_above(store, alice):
    fill(store, 64)
    panel = MemoryPanel(alice)
    said = panel.delete("note", "n.0060")

    assert alice.get("note", "n.0060") is None
    assert said in words(panel)


# Changed elsewhere ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda panel: panel.delete("note", "tea"),
        lambda panel: panel.undo("note", "tea", 1),
        lambda panel: panel.pin("note", "tea"),
    ],
)
def test_a_record_that_moved_since_it_was_drawn_is_left_alone(filled, later, change):
    panel = MemoryPanel(filled)
    record = later.put("note", "tea", "白茶")

    said = change(panel)
    assert said == str(Conflict("note", "tea", 1, 2))
    assert said in words(panel)
    assert 'role="alert"' in markup(panel)
    assert filled.get("note", "tea") == record
    assert len(filled.history("note", "tea")) == 2


def test_a_stale_row_offers_to_look_again_and_then_it_works(filled, later):
    panel = MemoryPanel(filled)
    row = opened(panel, "note/tea")
    buttons(row)["Delete"].click()
    later.put("note", "tea", "白茶")
    buttons(row)["Yes, delete"].click()
    assert "note/tea stands at revision 2 now; this change was meant for revision 1." in words(row)
    assert "Yes, delete" not in buttons(row)

    buttons(row)["Look again"].click()
    assert "白茶" in words(row)
    assert "stands at revision" not in words(row)
    buttons(row)["Delete"].click()
    buttons(row)["Yes, delete"].click()
    assert filled.get("note", "tea") is None


def test_a_row_that_is_opened_late_says_at_once_that_it_is_stale(filled, later):
    panel = MemoryPanel(filled)
    later.put("note", "tea", "白茶")

    assert "note/tea stands at revision 2 now" in words(opened(panel, "note/tea"))
    assert "note/tea stands at revision 2 now" in panel.history("note", "tea")


def test_a_pin_that_is_refused_leaves_the_box_as_the_record_is(filled, later):
    row = opened(MemoryPanel(filled), "note/tea")
    later.put("note", "tea", "白茶")
    [box] = [each for each in every(row) if isinstance(each, ipywidgets.Checkbox)]
    box.value = True

    assert not box.value
    assert not filled.get("note", "tea").pinned
    assert "stands at revision 2 now" in words(row)


def test_what_was_deleted_elsewhere_is_said_so_and_goes_when_one_looks_again(filled, later):
    panel = MemoryPanel(filled)
    row = opened(panel, "note/tea")
    later.delete("note", "tea")
    buttons(row)["Delete"].click()
    buttons(row)["Yes, delete"].click()
    assert "note/tea is not there now; this change was meant for revision 1." in words(row)

    buttons(row)["Look again"].click()
    assert "note/tea" not in lines(panel)
    assert "open" not in repr(panel)


def test_forgotten_and_stored_anew_under_the_same_number_is_another_record(filled, later, clock):
    panel = MemoryPanel(filled)
    later.forget_everything()
    clock.now += MINUTE
    later.put("note", "tea", "stored anew")
    assert filled.get("note", "tea").revision == 1

    assert "is not there now; this change was meant for revision 1" in panel.delete("note", "tea")
    assert filled.get("note", "tea").value == "stored anew"


def test_another_process_changes_it_and_a_click_here_does_nothing(filled, tmp_path):
    row = opened(MemoryPanel(filled), "note/tea")
    buttons(row)["Delete"].click()
    code = (
        "import sys; from memlab import MemoryStore\n"
        "with MemoryStore.open(sys.argv[1]) as store:\n"
        "    store.for_user('alice', session='other').put('note', 'tea', 'from elsewhere')"
    )
    folder = tmp_path / "memory"
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, timeout=60)
    buttons(row)["Yes, delete"].click()

    assert "stands at revision 2 now" in words(row)
    assert filled.get("note", "tea").value == "from elsewhere"


def test_two_panels_of_one_user_agree(filled):
    one, other = MemoryPanel(filled), MemoryPanel(filled)
    one.undo("preference", "style", 1)

    assert "stands at revision 4 now" in other.undo("preference", "style", 2)
    buttons(other)["Look again"].click()
    assert "revision 4" in words(lines(other)["preference/style"])


def test_a_click_may_come_on_another_thread(filled):
    panel = MemoryPanel(filled)
    row = opened(panel, "note/tea")
    for name in ("Delete", "Yes, delete"):
        thread = threading.Thread(target=buttons(row)[name].click)
        thread.start()
        thread.join()

    assert filled.get("note", "tea") is None
    assert "Deleted. The store says" in words(panel)


# What goes wrong --------------------------------------------------------------------------------


def test_a_closed_store_is_told_where_one_clicked(filled, store):
    panel = MemoryPanel(filled)
    row = opened(panel, "note/tea")
    buttons(row)["Delete"].click()
    store.close()
    buttons(row)["Yes, delete"].click()
    assert "The store is closed. Open it again." in words(row)
    assert "Yes, delete" in buttons(row)  # the question still stands

    buttons(panel)["Look again"].click()
    buttons(panel)["note/street"].click()
    assert 'role="alert">The store is closed.' in markup(panel.children[2])
    assert panel._repr_mimebundle_()["text/plain"].startswith("MemoryPanel(alice: 4 memories")


def test_an_error_that_nobody_foresaw_is_told(filled, clock):
    panel = MemoryPanel(filled)
    row = opened(panel, "note/tea")
    clock.broken = True
    buttons(row)["Delete"].click()
    assert "ZeroDivisionError: the clock stands still" in words(row)

    buttons(panel)["Look again"].click()
    assert "ZeroDivisionError: the clock stands still" in words(panel.children[2])


def test_a_damaged_row_is_told_and_hides_no_other(filled, store, tmp_path):
    store.close()
    with closing(sqlite3.connect(tmp_path / "memory" / "memory.sqlite3")) as file, file:
        file.execute("PRAGMA ignore_check_constraints = ON")
        file.execute("UPDATE memory SET value = x'00ff' WHERE key = 'tea'")
    with MemoryStore.open(tmp_path / "memory") as again:
        panel = MemoryPanel(again.for_user("alice", session="monday"))

        assert list(lines(panel)) == ["note/street", "preference/style", "project/tea-house"]
        assert "Not all can be shown. Left out:" in words(panel)


# Hostile text -----------------------------------------------------------------------------------


def test_hostile_text_in_every_field_stays_text(alice, later):
    alice.put("note", "a", HOSTILE)
    alice.put("note", "a", HOSTILE + " more")
    later.put("note", "a", HOSTILE + " most")
    panel = MemoryPanel(alice)
    row = opened(panel, "note/a")
    buttons(row)["Undo"].click()
    panel.filter_field.value = HOSTILE[:60]
    panel.filter_field.value = "\u202e<b>"
    said = panel.history("note", "a") + repr(panel) + panel.filter("\u202e")
    buttons(row)["Yes, undo"].click()
    panel.filter("<img src")

    shown = markup(panel)
    tags = set(re.findall(r"<\s*/?\s*([a-z]+)", shown))
    assert tags <= {
        *("div", "span", "ins", "del", "mark"),
        *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    }
    assert "<mark>&lt;img src</mark>" in shown
    assert not set("\u202e\u200b") & set(shown + said)
    assert '<span class="memlab-hidden">⟨U+202E⟩</span>' in shown
    assert "Careful: 2 hidden characters inside" in words(panel)


def test_there_is_no_output_widget(filled):
    panel = MemoryPanel(filled)
    opened(panel, "note/tea")

    assert not any(isinstance(each, ipywidgets.Output) for each in every(panel))


def test_the_repr_says_user_count_and_what_is_filtered(filled):
    panel = MemoryPanel(filled)
    panel.filter("te\u202ea", "note")
    assert repr(panel) == (
        'MemoryPanel(alice: 4 memories; filter: "te⟨U+202E⟩a" kind note; 0 found)'
    )
    panel.filter("tea", "note")
    panel.history("note", "tea")
    assert repr(panel) == (
        'MemoryPanel(alice: 4 memories; filter: "tea" kind note; 1 found; shown: 1-1; '
        "open: note/tea)"
    )
