"""The approval panel in a real JupyterLab: what a person sees, clicks and hears."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from notebook_page import Notebook, contrast
from playwright.sync_api import expect

LESSON = Path(__file__).parents[2] / "notebooks" / "04_ask_before_you_write.ipynb"
WAIT_MS = 20_000
LESSON_MS = 60_000
HOSTILE = (
    "<img src=x onerror=\"window.__xss='img'\"><script>window.__xss='script'</script>"
    "<b>bold</b> </div></div><button>Approve</button> $\\alpha$"
)
STORE = """\
from memlab import MemoryStore, Put
from memlab.panels import ApprovalPanel
ids = (f"p{{n}}" for n in range(1, 1000))
store = MemoryStore.open({folder!r}, create=True, new_id=lambda: next(ids))
alice = store.for_user("alice", session="monday")
lent = store.for_user("alice", session="tuesday").lend()"""
ASKED = f"""\
_ = alice.put("preference", "style", "I like long answers, with examples.")
_ = lent.propose(Put("preference", "style", "I like short answers, with examples."), "you said so")
_ = lent.propose(Put("note", "markup", {HOSTILE!r}), reason={HOSTILE!r})
_ = lent.propose(Put("note", "hidden", "pay bob\\u202e 001 \\u202cnot\\u200b more"), "from turn 5")
panel = ApprovalPanel(alice)
panel"""
BEFORE = [("alice", "style", "I like long answers, with examples.")]
AFTER = [("alice", "style", "I like short answers, with examples.")]


@pytest.fixture
def opened(lab, page, tmp_path, request):
    """A notebook with a panel over three changes that wait, run to its end."""
    name = lab.write(f"{request.node.name}.ipynb", STORE.format(folder=str(tmp_path / "m")), ASKED)
    notebook = Notebook(lab, page, name)
    notebook.run_all()
    expect(notebook.button("Approve")).to_have_count(3, timeout=WAIT_MS)
    return notebook


@pytest.fixture
def stored(tmp_path):
    """Read every record in the file, as another program sees it."""
    return lambda: records(tmp_path / "m" / "memory.sqlite3")


def records(path):
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
        return sorted(file.execute("SELECT user, key, value FROM memory"))


def test_approve_writes_exactly_what_stands_on_the_card(opened, stored):
    opened.button("Approve").first.click()

    expect(opened.cards.first).to_contain_text("Approved, once", timeout=WAIT_MS)
    expect(opened.cards.first).to_contain_text("preference/style replaced, revision 2")
    expect(opened.button("Approve")).to_have_count(2)
    assert stored() == AFTER


def test_a_double_click_writes_once_and_hits_no_other_card(opened, stored):
    opened.button("Approve").first.dblclick()

    expect(opened.cards.first).to_contain_text("revision 2", timeout=WAIT_MS)
    opened.page.wait_for_timeout(500)  # time for a second click to do harm
    expect(opened.button("Approve")).to_have_count(2)
    assert stored() == AFTER


def test_reject_writes_nothing(opened, stored):
    opened.button("Reject").first.click()

    expect(opened.cards.first).to_contain_text("Rejected.", timeout=WAIT_MS)
    expect(opened.button("Approve")).to_have_count(2)
    assert stored() == BEFORE


def test_hostile_text_runs_nothing_and_clicks_nothing(opened, stored):
    opened.page.wait_for_timeout(500)  # time for an image to fail to load

    expect(opened.cards.nth(1)).to_contain_text(HOSTILE)
    expect(opened.cards.nth(2)).to_contain_text("⟨U+202E⟩")
    expect(opened.cards.nth(2)).to_contain_text("Careful: 3 hidden characters inside")
    expect(
        opened.area.locator(".memlab-card img, .memlab-card script, mjx-container")
    ).to_have_count(0)
    assert opened.page.evaluate("window.__xss") is None
    assert stored() == BEFORE

    opened.cards.nth(1).get_by_role("button", name="Edit", exact=True).click()
    expect(opened.area.get_by_label("New value")).to_have_value(HOSTILE)
    opened.button("Cancel").click()
    expect(opened.button("Approve")).to_have_count(3, timeout=WAIT_MS)
    assert opened.page.evaluate("window.__xss") is None


def test_by_keyboard_alone_and_a_second_enter_approves_nothing_more(opened, stored):
    opened.tab_to("Approve", title="preference/style")
    opened.page.keyboard.press("Enter")

    expect(opened.cards.first).to_contain_text("Approved, once", timeout=WAIT_MS)
    expect(opened.cards.nth(1).locator(":focus")).to_have_count(1, timeout=WAIT_MS)
    opened.page.keyboard.press("Enter")
    expect(opened.button("Approve edited")).to_have_count(1, timeout=WAIT_MS)
    opened.page.keyboard.press("Enter")
    assert stored() == AFTER


def test_an_edit_by_keyboard_alone(opened, stored):
    opened.tab_to("Edit", title="preference/style")
    opened.page.keyboard.press("Enter")
    expect(opened.area.get_by_label("New value")).to_be_focused(timeout=WAIT_MS)
    opened.page.keyboard.press("ControlOrMeta+a")
    opened.page.keyboard.type("I like tables, 用中文.")
    expect(opened.cards.first).to_contain_text("Would be stored (19 characters)", timeout=WAIT_MS)
    opened.tab_to("Approve edited")
    opened.page.keyboard.press("Enter")

    expect(opened.cards.first).to_contain_text("Approved, once", timeout=WAIT_MS)
    assert stored() == [("alice", "style", "I like tables, 用中文.")]


def test_after_cancel_and_after_the_last_card_the_focus_stays_in_the_panel(opened):
    opened.cards.first.get_by_role("button", name="Edit", exact=True).click()
    expect(opened.area.get_by_label("New value")).to_be_focused(timeout=WAIT_MS)
    opened.button("Cancel").click()
    expect(opened.cards.first.get_by_role("button", name="Edit", exact=True)).to_be_focused()

    for left in (2, 1, 0):
        opened.button("Reject").first.click()
        expect(opened.button("Reject")).to_have_count(left, timeout=WAIT_MS)
    expect(opened.button("Look again")).to_be_focused(timeout=WAIT_MS)


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_a_panel_can_be_read_in_both_themes(opened, theme, shots):
    opened.use_theme(theme)
    opened.page.screenshot(path=str(shots / f"panel, {theme}.png"))
    opened.button("Approve").first.click()
    expect(opened.cards.first).to_contain_text("Approved, once", timeout=WAIT_MS)
    opened.button("Edit").last.click()
    expect(opened.area.get_by_label("New value")).to_be_focused(timeout=WAIT_MS)
    opened.page.screenshot(path=str(shots / f"panel decided and edited, {theme}.png"))

    for part in (".memlab-head", ".memlab-what", ".memlab-value", ".memlab-hidden"):
        assert contrast(opened.area.locator(part).first) >= 4.5, part
    for part in (".memlab-alert", ".memlab-done", ".memlab-card textarea"):
        assert contrast(opened.area.locator(part).first) >= 4.5, part


def test_a_narrow_window_hides_nothing(opened, shots):
    opened.page.set_viewport_size({"width": 480, "height": 900})
    opened.page.wait_for_timeout(500)
    opened.page.screenshot(path=str(shots / "panel, narrow.png"))

    for card in opened.cards.all():
        assert card.evaluate("card => card.scrollWidth <= card.clientWidth")


def test_the_lesson_asks_and_a_click_writes(lab, page, shots):
    assert LESSON.is_file(), f"{LESSON.name} is not there yet"
    lesson = Notebook(lab, page, lab.copy(LESSON))
    title = page.title()
    lesson.run_all()
    lesson.wait_for_the_end(LESSON_MS)
    lesson.scroll_to("ApprovalPanel(")
    page.screenshot(path=str(shots / "lesson.png"))
    waiting = lesson.button("Approve")
    expect(waiting.first).to_be_visible(timeout=WAIT_MS)
    count = waiting.count()
    [file] = lab.temporary.rglob("memory.sqlite3")
    card = lesson.cards.first
    before, value = records(file), card.locator(".memlab-value").last.inner_text()

    waiting.first.click()

    expect(card).to_contain_text("Approved, once", timeout=WAIT_MS)
    expect(waiting).to_have_count(count - 1)
    [new] = set(records(file)) - set(before)
    assert (new[0], new[2]) == ("alice", value)
    assert page.evaluate("window.__xss") is None
    assert page.title() == title
