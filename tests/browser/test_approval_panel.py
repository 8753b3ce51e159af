"""The approval panel in a real JupyterLab: what a person sees, clicks and hears."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from accessibility import serious_findings
from notebook_page import Notebook, contrast
from playwright.sync_api import expect

LESSON = Path(__file__).parents[2] / "notebooks" / "04_ask_before_you_write.ipynb"
WAIT_MS = 20_000
LESSON_MS = 60_000
HOSTILE = (
    "<img src=x onerror=\"window.__xss='img'\"><script>window.__xss='script'</script>"
    "<b>bold</b> </div></div><button>Approve</button> $\\alpha$"
)
TWENTY = (  # what has run script, hidden text or broken a layout somewhere
    "<img src=x onerror=\"window.__xss='img'\">",
    "<script>window.__xss='script'</script>",
    "<svg/onload=\"window.__xss='svg'\">",
    "<iframe srcdoc=\"<script>parent.__xss='frame'</script>\"></iframe>",
    "<details open ontoggle=\"window.__xss='toggle'\">",
    "<input autofocus onfocus=\"window.__xss='focus'\">",
    "<style>.memlab-card { display: none }</style>",
    "</div></div></div><button onclick=\"window.__xss='button'\">Approve</button>",
    "\" onmouseover=\"window.__xss='quote'\" x='",
    "' onmouseover='window.__xss=1' x=\"",
    "<a href=\"javascript:window.__xss='link'\">click</a>",
    "[click](javascript:window.__xss=1) ![x](x)",
    "$\\href{javascript:window.__xss=1}{x}$ \\(x\\) $$x$$",
    "&lt;b&gt; &amp;lt; &#60;b&#62; &nbsp;",
    "<!-- <b> --> ]]> <![CDATA[ <b>",
    "{{7*7}} ${7*7} <%= 7 %> %s %(x)s {0}",
    "\u202eevorppa\u202c \u2066x\u2069 \u200bzero\ufeff \u00ad",
    "Approve\r\nReject\x1b[31mred\x07\x7f\x85",
    "x\u0301\u0301\u0301\u0301\u0301 \U000e0041 \U0001f468\u200d\U0001f469 \u3164",
    "W" * 120 + " 宽" * 60 + "\n" * 5 + "\t\t end",
)
STORE = """\
from memlab import Delete, MemoryStore, Put
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
WAITING = (
    "ApprovalPanel(alice: 3 waiting: p1 put preference/style, p2 put note/markup, "
    "p3 put note/hidden)"
)
BEFORE = [("alice", "style", "I like long answers, with examples.")]
AFTER = [("alice", "style", "I like short answers, with examples.")]


RESTART = """async () => {
    await window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart();
}"""
SAVE = "() => window.jupyterapp.commands.execute('docmanager:save')"
SAVED = "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"


@pytest.fixture
def opened(lab, page, tmp_path, request):
    """A notebook with a panel over three changes that wait, run to its end."""
    file = f"{request.node.name}.ipynb"
    name = lab.write(file, STORE.format(folder=str(tmp_path / "m")), ASKED, "1")
    notebook = Notebook(lab, page, name)
    notebook.run_all()
    expect(notebook.button("Approve")).to_have_count(3, timeout=WAIT_MS)
    return notebook


@pytest.fixture
def elsewhere(tmp_path):
    """Change the store as another program does."""

    def run(statement, *values):
        with closing(sqlite3.connect(tmp_path / "m" / "memory.sqlite3")) as file:
            assert file.execute(statement, values).rowcount > 0
            file.commit()

    return run


@pytest.fixture
def stored(tmp_path):
    """Read every record in the file, as another program sees it."""
    return lambda: records(tmp_path / "m" / "memory.sqlite3")


def save(notebook):
    notebook.page.evaluate(SAVE)
    notebook.page.wait_for_function(SAVED, timeout=WAIT_MS)


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


# What changes while a card stands there ---------------------------------------------------------


def test_a_stale_card_says_so_at_the_click_and_when_looked_at_again(opened, stored, elsewhere):
    elsewhere("UPDATE memory SET revision = 7, value = 'moved' WHERE key = 'style'")
    opened.button("Approve").first.click()

    card = opened.cards.first
    expect(card).to_contain_text("Stale, so not approved.", timeout=WAIT_MS)
    expect(card.get_by_role("alert")).to_contain_text("Nothing was written")
    expect(card.get_by_role("button")).to_have_count(0)
    expect(opened.cards.nth(1).locator(":focus")).to_have_count(1)
    assert stored() == [("alice", "style", "moved")]


def test_a_card_known_to_be_stale_shows_what_stands_now_and_offers_no_yes(opened, elsewhere):
    elsewhere("UPDATE memory SET revision = 7, value = 'moved' WHERE key = 'style'")
    opened.button("Look again").click()

    card = opened.cards.first
    expect(card).to_contain_text("Stale: the record has changed", timeout=WAIT_MS)
    expect(card.locator(".memlab-value").first).to_have_text("moved")
    expect(card.get_by_role("button")).to_have_text(["Reject"])
    expect(opened.button("Look again")).to_be_focused()


def test_an_expired_card_says_so_at_the_click(opened, stored, elsewhere):
    elsewhere("UPDATE proposal SET expires = 1")
    opened.button("Approve").first.click()

    for card in opened.cards.all():
        expect(card.get_by_role("alert").last).to_contain_text("Expired", timeout=WAIT_MS)
    expect(opened.button("Approve")).to_have_count(0)
    expect(opened.button("Look again")).to_be_focused()
    assert stored() == BEFORE


# Several at once --------------------------------------------------------------------------------


def test_several_are_listed_with_every_value_and_saved_at_one_click(opened, stored, shots):
    opened.button("Approve all shown").click()
    expect(opened.button("Approve these 3")).to_be_visible(timeout=WAIT_MS)
    opened.page.screenshot(path=str(shots / "panel, several.png"))
    listed = opened.area.locator(".memlab-list")
    for value in (AFTER[0][2], HOSTILE, "pay bob⟨U+202E⟩ 001 ⟨U+202C⟩not⟨U+200B⟩ more"):
        expect(listed.get_by_text(value, exact=True)).to_be_visible()
    assert stored() == BEFORE
    opened.button("Approve these 3").dblclick()

    expect(listed.get_by_role("status")).to_have_text("3 of 3 saved.", timeout=WAIT_MS)
    expect(opened.button("Look again")).to_be_focused()
    assert [key for _, key, _ in stored()] == ["hidden", "markup", "style"]
    assert AFTER[0] in stored()


def test_several_by_keyboard_alone_without_the_one_that_was_unticked(opened, stored):
    opened.tab_to("Approve all shown")
    opened.page.keyboard.press("Enter")
    first = opened.area.get_by_role("checkbox").first
    expect(first).to_be_focused(timeout=WAIT_MS)
    opened.page.keyboard.press("Enter")  # pressed twice: decides nothing
    opened.page.keyboard.press("Space")
    expect(opened.button("Approve these 2")).to_be_visible(timeout=WAIT_MS)
    assert stored() == BEFORE
    opened.tab_to("Approve these 2")
    opened.page.keyboard.press("Enter")

    expect(opened.area.get_by_text("2 of 2 saved.")).to_be_visible(timeout=WAIT_MS)
    expect(opened.cards.locator(":focus")).to_have_text("Edit")  # of the one that still waits
    opened.page.keyboard.press("Enter")
    expect(opened.button("Approve edited")).to_have_count(1, timeout=WAIT_MS)
    assert [key for _, key, _ in stored()] == ["hidden", "markup", "style"]
    assert BEFORE[0] in stored()


def test_of_several_the_ones_that_were_not_saved_are_named(opened, stored, elsewhere, shots):
    opened.button("Approve all shown").click()
    expect(opened.button("Approve these 3")).to_be_visible(timeout=WAIT_MS)
    elsewhere("UPDATE memory SET revision = 7, value = 'moved' WHERE key = 'style'")
    opened.button("Approve these 3").click()

    said = opened.area.locator(".memlab-list").get_by_role("alert").last
    expect(said).to_contain_text("2 of 3 saved.", timeout=WAIT_MS)
    expect(said).to_contain_text("Not saved: put preference/style (p1). Stale, so not approved.")
    opened.page.screenshot(path=str(shots / "panel, two of three.png"), full_page=True)
    assert ("alice", "style", "moved") in stored()


def test_cancel_puts_the_focus_back_and_decides_nothing(opened, stored):
    opened.button("Approve all shown").click()
    opened.button("Cancel").click(timeout=WAIT_MS)

    expect(opened.button("Approve all shown")).to_be_focused(timeout=WAIT_MS)
    expect(opened.area.get_by_role("checkbox")).to_have_count(0)
    assert stored() == BEFORE


# With and without a kernel ----------------------------------------------------------------------


def test_after_a_reload_a_panel_of_a_living_kernel_still_writes(opened, stored):
    save(opened)
    opened.page.reload()
    expect(opened.button("Approve")).to_have_count(3, timeout=LESSON_MS)
    opened.button("Approve").first.click()

    expect(opened.cards.first).to_contain_text("revision 2", timeout=WAIT_MS)
    assert stored() == AFTER


def test_when_the_kernel_has_gone_no_button_looks_alive(opened, stored, shots):
    opened.button("Edit").last.click()
    expect(opened.button("Approve edited")).to_be_visible(timeout=WAIT_MS)
    opened.page.evaluate(RESTART)

    told = "element => getComputedStyle(element, '::before').content"
    expect(opened.area.locator(".memlab-panel").get_by_role("button")).to_have_count(
        0, timeout=WAIT_MS
    )
    expect(opened.area.locator(".memlab-panel textarea")).to_be_hidden()
    assert "Not connected to a kernel" in opened.area.locator(".memlab-panel").evaluate(told)
    opened.page.screenshot(path=str(shots / "panel, no kernel.png"))
    assert stored() == BEFORE


def test_a_notebook_opened_again_has_no_dead_button(lab, page, opened):
    save(opened)
    lab.end_kernels()
    again = Notebook(lab, page, opened.name)

    output = again.area.locator(".jp-OutputArea-output").first
    expect(output).to_contain_text("model not found", timeout=WAIT_MS)  # the Lab's own words
    expect(output.get_by_role("button")).to_have_count(0)
    saved = json.loads((lab.root / opened.name).read_text(encoding="utf-8"))
    [shown] = saved["cells"][1]["outputs"]
    assert "".join(shown["data"]["text/plain"]) == WAITING


def test_an_untrusted_notebook_says_the_state_in_text(lab, page, opened):
    save(opened)
    lab.end_kernels()
    saved = json.loads((lab.root / opened.name).read_text(encoding="utf-8"))
    saved["cells"][2]["source"] = "2"  # by a stranger: the signature no longer fits
    (lab.root / "stranger.ipynb").write_text(json.dumps(saved), encoding="utf-8")
    strange = Notebook(lab, page, "stranger.ipynb")

    output = strange.area.locator(".jp-OutputArea-output").first
    expect(output).to_have_text(WAITING, timeout=WAIT_MS)
    expect(output.get_by_role("button")).to_have_count(0)


# Hostile text in every field --------------------------------------------------------------------

HOSTILE_CELLS = (
    STORE.replace("alice =", "texts = {texts!r}\nalice ="),
    """\
for number, text in enumerate(texts):
    _ = alice.put("note", f"old{number}", text)
    _ = lent.propose(Put("note", f"old{number}", text[::-1] + text), text[:200])
    _ = lent.propose(Put("decision", f"new{number}", text), text[:200])
_ = lent.propose(Delete("note", "old0"), texts[1])
panel = ApprovalPanel(alice)
panel""",
)


def test_twenty_hostile_texts_in_every_field_run_nothing(lab, page, tmp_path, elsewhere):
    first, second = HOSTILE_CELLS
    first = first.format(folder=str(tmp_path / "m"), texts=TWENTY)
    notebook = Notebook(lab, page, lab.write("hostile.ipynb", first, second))
    notebook.run_all()
    expect(notebook.button("Approve")).to_have_count(41, timeout=LESSON_MS)
    elsewhere("UPDATE proposal SET session = ? WHERE id = 'p1'", TWENTY[2])
    notebook.button("Look again").click()
    expect(notebook.cards.first).to_contain_text("from session <svg", timeout=WAIT_MS)
    for number, text in enumerate(TWENTY):
        edit = notebook.cards.nth(2 * number + 1).get_by_role("button", name="Edit", exact=True)
        edit.click()
        field = notebook.cards.nth(2 * number + 1).get_by_label("New value")
        expect(field).to_have_value(text.replace("\r\n", "\n"), timeout=WAIT_MS)
        field.fill(f"{text} typed")
        field.hover()
    notebook.button("Approve all shown").click()
    expect(notebook.button("Approve these 41")).to_be_visible(timeout=LESSON_MS)
    page.wait_for_timeout(500)  # time for an image to fail to load

    inside = ".memlab-panel :is(img, script, svg, iframe, details, a, input:not([type=checkbox]))"
    expect(notebook.area.locator(f"{inside}, mjx-container")).to_have_count(0)
    expect(notebook.area.locator(".memlab-panel [onclick], .memlab-panel [onload]")).to_have_count(
        0
    )
    shown = "".join(notebook.area.locator(".memlab-value").all_inner_texts())
    assert not set(shown) & set("\u202e\u2066\u200b\ufeff\u3164\x1b\x07")
    assert page.evaluate("window.__xss") is None
    assert len(records(tmp_path / "m" / "memory.sqlite3")) == 20
    assert notebook.area.locator(".memlab-panel style").count() == 1  # our own


# How it looks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_a_panel_can_be_read_in_both_themes(opened, theme, shots):
    opened.use_theme(theme)
    opened.page.screenshot(path=str(shots / f"panel, {theme}.png"))
    for name in ("Approve", "Edit", "Reject"):
        assert contrast(opened.button(name).first) >= 4.5, name
    opened.button("Approve").first.click()
    expect(opened.cards.first).to_contain_text("Approved, once", timeout=WAIT_MS)
    opened.button("Edit").last.click()
    expect(opened.area.get_by_label("New value")).to_be_focused(timeout=WAIT_MS)
    opened.page.screenshot(path=str(shots / f"panel decided and edited, {theme}.png"))

    for part in (".memlab-head", ".memlab-what", ".memlab-value", ".memlab-hidden"):
        assert contrast(opened.area.locator(part).first) >= 4.5, part
    for part in (".memlab-alert", ".memlab-done", ".memlab-card textarea"):
        assert contrast(opened.area.locator(part).first) >= 4.5, part


@pytest.mark.parametrize("width", [360, 960])  # 960: what 1200 leave at a zoom of 125 %
def test_a_narrow_or_zoomed_window_hides_nothing(opened, shots, width):
    opened.button("Approve all shown").click()
    opened.button("Edit").last.click()
    expect(opened.button("Approve edited")).to_be_visible(timeout=WAIT_MS)
    opened.page.set_viewport_size({"width": width, "height": 900})
    opened.page.wait_for_timeout(500)
    opened.page.screenshot(path=str(shots / f"panel, {width} wide.png"))

    for card in opened.cards.all():
        assert card.evaluate("card => card.scrollWidth <= card.clientWidth")
    right = "element => element.getBoundingClientRect().right"
    edge = opened.area.locator(".memlab-panel").evaluate(right) + 1
    for button in opened.area.locator(".memlab-panel button").all():
        assert button.evaluate(right) <= edge
        assert button.evaluate("button => button.scrollWidth <= button.clientWidth")


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_axe_finds_nothing_serious(opened, theme, elsewhere):
    opened.use_theme(theme)
    assert serious_findings(opened.page, ".memlab-panel") == []

    elsewhere("UPDATE memory SET revision = 7, value = 'MOVED' WHERE key = 'style'")
    opened.button("Reject").last.click()
    expect(opened.button("Reject")).to_have_count(2, timeout=WAIT_MS)
    opened.button("Look again").click()
    expect(opened.cards.first).to_contain_text("Stale:", timeout=WAIT_MS)
    opened.button("Edit").click()
    opened.area.get_by_label("New value").fill("moved")
    expect(opened.cards.nth(1)).to_contain_text("Twin: the same text stands", timeout=WAIT_MS)
    assert serious_findings(opened.page, ".memlab-panel") == []


def test_axe_finds_nothing_serious_in_the_list(opened):
    opened.button("Approve all shown").click()
    expect(opened.button("Approve these 3")).to_be_visible(timeout=WAIT_MS)
    assert serious_findings(opened.page, ".memlab-panel") == []

    opened.button("Approve these 3").click()
    expect(opened.area.get_by_text("3 of 3 saved.")).to_be_visible(timeout=WAIT_MS)
    assert serious_findings(opened.page, ".memlab-panel") == []


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
