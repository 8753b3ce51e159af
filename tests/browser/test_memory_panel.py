"""The memory panel in a real JupyterLab: what a person sees, types, clicks and hears."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import nbformat
import pytest
from notebook_page import Notebook, contrast
from playwright.sync_api import expect

WAIT_MS = 20_000
HOSTILE = (
    "<img src=x onerror=\"window.__xss='img'\"><script>window.__xss='script'</script>"
    "<b>bold</b> </div></div><button>Delete</button> $\\alpha$ pay\u202e 001"
)
STORE = """\
from memlab import Limits, MemoryStore, Put
from memlab.panels import MemoryPanel
store = MemoryStore.open({folder!r}, create=True, limits=Limits(records_total=9000,
    records_per_user=9000))
alice = store.for_user("alice", session="monday")
later = store.for_user("alice", session="tuesday")"""
FILLED = f"""\
_ = alice.put("preference", "style", "I like long answers, with examples.")
_ = alice.put("preference", "style", "I like answers with one example.")
_ = later.put("preference", "style", "I like short answers, with one example.")
_ = alice.put("episode", "trip", "We went to Dali in May, by train, and it rained.")
_ = alice.put("note", "tea", "我喜欢喝乌龙茶，下午不喝。")
_ = later.put("note", "tea", "我喜欢喝绿茶，下午不喝。")
_ = later.put("note", "address", "The new office is at 12 Straße des 17. Juni.")
_ = alice.put("note", "markup", {HOSTILE!r})
_ = alice.put("project", "deadline", "The report is due on 30 November." + " Ask Bo first." * 20)
_ = alice.pin("project", "deadline")
_ = alice.lend().propose(Put("note", "tea", "我不喝茶"), "you said so")
panel = MemoryPanel(alice)
panel"""
MANY = """\
from memlab import rows
with store._database.transaction() as file:
    for n in range(5000):
        rows.write(file, "alice", Put("note", f"n.{n:04}", f"第{n}杯茶 and cup number {n}"),
                   "monday", n, store.limits)
panel = MemoryPanel(alice)
panel"""
NOTHING_MORE_MS = 500  # time for a second click to do harm


@pytest.fixture
def opened(lab, page, tmp_path, request):
    """A notebook with a panel over six memories, run to its end."""
    name = re.sub(r"\W", "_", request.node.name) + ".ipynb"
    lab.write(name, STORE.format(folder=str(tmp_path / "m")), FILLED)
    notebook = Notebook(lab, page, name)
    notebook.run_all()
    expect(rows(notebook)).to_have_count(6, timeout=WAIT_MS)
    return notebook


@pytest.fixture
def stored(tmp_path):
    """Read what the file holds, as another program sees it: key, value and revision."""

    def read(table="memory"):
        path = tmp_path / "m" / "memory.sqlite3"
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
            sql = f"SELECT key, value, revision FROM {table}"
            return {(key, revision): value for key, value, revision in file.execute(sql)}

    return read


def rows(notebook):
    return notebook.area.locator(".memlab-row")


def field(notebook):
    return notebook.area.get_by_label("Filter")


def row(notebook, name):
    return rows(notebook).filter(has=notebook.page.get_by_role("button", name=name, exact=True))


def shots_of(notebook, shots, name):
    notebook.page.mouse.move(0, 0)
    notebook.page.screenshot(path=str(shots / f"memory, {name}.png"))


# With the mouse ---------------------------------------------------------------------------------


def test_the_list_narrows_as_one_types_in_any_script(opened, shots):
    field(opened).press_sequentially("绿茶")
    expect(rows(opened)).to_have_count(1, timeout=WAIT_MS)
    expect(opened.area.locator(".memlab-excerpt mark")).to_have_text("绿茶")
    expect(opened.area.get_by_text('Showing 1-1 of 1 with "绿茶", of 6 in all.')).to_be_visible()
    expect(field(opened)).to_be_focused()
    shots_of(opened, shots, "filtered")

    field(opened).fill("STRASSE")
    expect(row(opened, "note/address")).to_have_count(1, timeout=WAIT_MS)
    expect(rows(opened)).to_have_count(1)
    field(opened).fill("100% none")
    expect(opened.area.get_by_text('No memory with "100% none".')).to_be_visible(timeout=WAIT_MS)
    field(opened).fill("")
    opened.button("note").click()
    expect(rows(opened)).to_have_count(3, timeout=WAIT_MS)


def test_delete_asks_tells_what_goes_and_then_what_the_store_says(opened, stored, shots):
    opened.button("note/tea").click()
    tea = row(opened, "note/tea")
    expect(tea.locator(".memlab-history")).to_contain_text("乌龙茶", timeout=WAIT_MS)
    opened.button("Delete").click()
    expect(tea).to_contain_text("Delete note/tea for good?", timeout=WAIT_MS)
    expect(tea).to_contain_text(
        "its value, 1 earlier value, 1 open proposal, the text of decided proposals"
    )
    expect(tea.get_by_role("button", name="Cancel", exact=True)).to_be_focused(timeout=WAIT_MS)
    shots_of(opened, shots, "asked whether to delete")
    assert ("tea", 2) in stored()

    opened.button("Yes, delete").click()
    gone = rows(opened).filter(has_text="Deleted. The store says: note/tea is gone.")
    expect(gone).to_contain_text("Its values: 2 before, none now.", timeout=WAIT_MS)
    expect(gone).to_contain_text("Open proposals for it: 1 before, none now.")
    expect(opened.area.locator(".memlab-row", has_text="绿茶")).to_have_count(0)
    expect(opened.button("preference/style")).to_be_focused(timeout=WAIT_MS)
    shots_of(opened, shots, "deleted")
    assert ("tea", 2) not in stored()
    assert ("tea", 1) not in stored("revision")


def test_a_double_click_on_delete_only_asks_and_one_on_yes_deletes_one(opened, stored):
    opened.button("note/address").click()
    opened.button("note/tea").click()
    expect(opened.button("Delete")).to_have_count(2, timeout=WAIT_MS)
    before = stored()
    for number in (0, 1):
        opened.button("Delete").nth(number).dblclick()
        expect(opened.button("Yes, delete")).to_have_count(number + 1, timeout=WAIT_MS)
    opened.page.wait_for_timeout(NOTHING_MORE_MS)
    assert stored() == before

    opened.button("Yes, delete").first.dblclick()
    expect(rows(opened).first).to_be_visible()
    expect(opened.area.get_by_text("Deleted. The store says: note/address")).to_be_visible(
        timeout=WAIT_MS
    )
    opened.page.wait_for_timeout(NOTHING_MORE_MS)
    assert set(before) - set(stored()) == {("address", 1)}
    expect(opened.button("Yes, delete")).to_have_count(0)


def test_undo_shows_the_difference_and_makes_a_new_revision(opened, stored, shots):
    opened.button("preference/style").click()
    expect(opened.area.locator(".memlab-history tbody tr")).to_have_count(2, timeout=WAIT_MS)
    opened.button("Undo").click()
    choice = opened.area.get_by_label("Back to revision")
    expect(opened.button("Cancel")).to_be_focused(timeout=WAIT_MS)
    choice.press("ArrowDown")
    expect(opened.area.locator(".memlab-question ins")).to_have_text(
        ["long", "examples"], timeout=WAIT_MS
    )
    expect(choice).to_be_focused()
    shots_of(opened, shots, "asked whether to undo")
    opened.button("Yes, undo").dblclick()

    expect(row(opened, "preference/style")).to_contain_text(
        "Undone. The store says: preference/style replaced, revision 4, with the value of "
        "revision 1.",
        timeout=WAIT_MS,
    )
    expect(opened.button("Undo")).to_be_focused(timeout=WAIT_MS)
    opened.page.wait_for_timeout(NOTHING_MORE_MS)
    assert ("style", 4) in stored()
    assert stored()["style", 4] == "I like long answers, with examples."
    assert ("style", 5) not in stored()


def test_a_record_that_moved_elsewhere_is_not_touched(opened, stored, shots):
    opened.button("note/tea").click()
    opened.button("Delete").click()
    expect(opened.button("Yes, delete")).to_be_visible(timeout=WAIT_MS)
    opened.page.evaluate(
        """code => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel
            .requestExecute({ code }).done""",
        "_ = later.put('note', 'tea', '白茶')",
    )
    opened.button("Yes, delete").click()

    tea = row(opened, "note/tea")
    expect(tea.get_by_role("alert")).to_contain_text(
        "note/tea stands at revision 3 now; this change was meant for revision 2.", timeout=WAIT_MS
    )
    shots_of(opened, shots, "stale")
    assert stored()["tea", 3] == "白茶"
    again = tea.get_by_role("button", name="Look again", exact=True)
    expect(again).to_be_focused(timeout=WAIT_MS)
    again.click()
    expect(tea.locator(".memlab-value")).to_have_text("白茶", timeout=WAIT_MS)
    expect(tea.get_by_role("button", name="note/tea", exact=True)).to_be_focused(timeout=WAIT_MS)


def test_pin_and_unpin(opened):
    opened.button("note/tea").click()
    box = opened.area.get_by_label("Pinned")
    box.click()
    tea = row(opened, "note/tea")
    expect(tea).to_contain_text("The store says: note/tea is pinned.", timeout=WAIT_MS)
    expect(tea.locator(".memlab-pinned")).to_have_count(1)
    expect(box).to_be_checked()
    box.click()
    expect(tea).to_contain_text("The store says: note/tea is not pinned.", timeout=WAIT_MS)
    expect(tea.locator(".memlab-pinned")).to_have_count(0)


# By keyboard alone ------------------------------------------------------------------------------


def test_by_keyboard_alone_to_filter_look_cancel_and_delete(opened, stored):
    page = opened.page
    for _ in range(40):
        page.keyboard.press("Tab")
        if opened.focused("placeholder") == "part of a key or value":
            break
    page.keyboard.type("tea")
    expect(rows(opened)).to_have_count(1, timeout=WAIT_MS)
    opened.tab_to("note/tea")
    page.keyboard.press("Enter")
    expect(opened.button("Delete")).to_be_visible(timeout=WAIT_MS)
    expect(opened.button("note/tea")).to_be_focused()
    opened.tab_to("Delete")
    page.keyboard.press("Enter")
    expect(opened.button("Cancel")).to_be_focused(timeout=WAIT_MS)
    page.keyboard.press("Enter")  # a second Enter does the least
    expect(opened.button("Delete")).to_be_focused(timeout=WAIT_MS)
    assert ("tea", 2) in stored()

    page.keyboard.press("Enter")
    expect(opened.button("Cancel")).to_be_focused(timeout=WAIT_MS)
    opened.tab_to("Yes, delete", most=1)
    page.keyboard.press("Enter")
    expect(rows(opened)).to_contain_text("Deleted. The store says", timeout=WAIT_MS)
    expect(field(opened)).to_be_focused(timeout=WAIT_MS)
    assert ("tea", 2) not in stored()


def test_by_keyboard_alone_to_undo_and_close(opened, stored):
    page = opened.page
    opened.tab_to("preference/style")
    page.keyboard.press("Enter")
    expect(opened.button("Undo")).to_be_visible(timeout=WAIT_MS)
    opened.tab_to("Undo")
    page.keyboard.press("Enter")
    expect(opened.button("Cancel")).to_be_focused(timeout=WAIT_MS)
    page.keyboard.press("Shift+Tab")
    expect(opened.area.get_by_label("Back to revision")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(opened.area.locator(".memlab-question ins").first).to_have_text("long", timeout=WAIT_MS)
    opened.tab_to("Yes, undo", most=2)
    page.keyboard.press("Enter")
    expect(opened.button("Undo")).to_be_focused(timeout=WAIT_MS)
    assert ("style", 4) in stored()

    opened.tab_to("Close", most=2)
    page.keyboard.press("Enter")
    expect(opened.button("Close")).to_have_count(0, timeout=WAIT_MS)
    expect(opened.button("preference/style")).to_be_focused()


def test_escape_decides_nothing(opened, stored):
    before = stored()
    opened.button("note/tea").click()
    opened.button("Delete").click()
    expect(opened.button("Cancel")).to_be_focused(timeout=WAIT_MS)
    opened.page.keyboard.press("Escape")
    opened.page.keyboard.press("Enter")
    opened.page.wait_for_timeout(NOTHING_MORE_MS)
    assert stored() == before


# Five thousand ----------------------------------------------------------------------------------


def test_five_thousand_are_filtered_and_turned_without_lag(lab, page, tmp_path, shots):
    lab.write("many.ipynb", STORE.format(folder=str(tmp_path / "m")), MANY)
    many = Notebook(lab, page, "many.ipynb")
    many.run_all()
    expect(rows(many)).to_have_count(25, timeout=60_000)
    expect(many.area.get_by_text("Showing 1-25 of 5,000.")).to_be_visible()
    shots_of(many, shots, "five thousand")

    field(many).click()
    took = page.evaluate(
        """async () => {
            const field = document.querySelector(".memlab-memory input[type=text]");
            const count = document.querySelector(".memlab-memory [role=status]").parentElement;
            const times = [];
            for (const text of ["第", "第4", "第49", "第499", "第4999"]) {
                const before = count.textContent;
                const seen = new Promise(done => new MutationObserver((_, self) => {
                    if (count.textContent !== before) { self.disconnect(); done(); }
                }).observe(count, { childList: true, subtree: true }));
                const start = performance.now();
                field.value = text;
                field.dispatchEvent(new Event("input", { bubbles: true }));
                await seen;
                times.push(performance.now() - start);
            }
            return times;
        }"""
    )
    print("keystroke to redraw (ms):", [round(each) for each in took])
    expect(rows(many)).to_have_count(1, timeout=WAIT_MS)
    assert sorted(took)[2] < 500  # by way of the kernel, on a busy machine

    field(many).fill("")
    expect(many.area.get_by_text("Showing 1-25 of 5,000.")).to_be_visible(timeout=WAIT_MS)
    many.button("Next").click()
    expect(many.area.get_by_text("Showing 26-50 of 5,000.")).to_be_visible(timeout=WAIT_MS)
    many.button("Previous").press("Enter")
    expect(many.area.get_by_text("Showing 1-25 of 5,000.")).to_be_visible(timeout=WAIT_MS)
    expect(many.button("Next")).to_be_focused(timeout=WAIT_MS)  # Previous can go no further
    many.button("Next").click()
    expect(many.area.get_by_text("Showing 26-50 of 5,000.")).to_be_visible(timeout=WAIT_MS)
    field(many).press_sequentially("49", delay=100)
    expect(many.area.get_by_text('of 199 with "49"')).to_be_visible(timeout=WAIT_MS)
    expect(field(many)).to_be_focused()


# Reopened, hostile, small, dark -----------------------------------------------------------------


def test_after_a_reload_with_a_live_kernel_it_is_as_it_was_and_works(opened, stored):
    field(opened).fill("tea")
    expect(rows(opened)).to_have_count(1, timeout=WAIT_MS)
    opened.button("note/tea").click()
    expect(opened.button("Delete")).to_be_visible(timeout=WAIT_MS)
    opened.page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    opened.page.wait_for_timeout(NOTHING_MORE_MS)
    opened.page.reload()
    expect(field(opened)).to_have_value("tea", timeout=60_000)
    expect(rows(opened)).to_have_count(1)
    opened.button("Delete").click()
    opened.button("Yes, delete").click()

    expect(rows(opened)).to_contain_text("Deleted. The store says", timeout=WAIT_MS)
    assert ("tea", 2) not in stored()


def test_a_saved_notebook_that_is_not_trusted_shows_no_dead_button(lab, page, opened, shots):
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_timeout(NOTHING_MORE_MS)
    saved = nbformat.read(lab.root / opened.name, as_version=4)
    [output] = saved.cells[1].outputs
    assert output.data["text/plain"] == ("MemoryPanel(alice: 6 memories; filter: none; shown: 1-6)")
    lab.end_kernels()
    saved.metadata.pop("widgets", None)
    for cell in saved.cells:
        cell.metadata.pop("trusted", None)
        cell.source += "\n# another notebook: no signature fits it"
    nbformat.write(saved, lab.root / "stranger.ipynb")
    stranger = Notebook(lab, page, "stranger.ipynb")

    page.wait_for_timeout(2_000)
    shots_of(stranger, shots, "saved and not trusted")
    expect(stranger.area.locator(".memlab-panel button")).to_have_count(0)
    assert page.evaluate("window.__xss") is None


def test_hostile_text_runs_nothing_and_clicks_nothing(opened, stored, shots):
    before = stored()
    field(opened).fill("</div>")
    expect(rows(opened)).to_have_count(1, timeout=WAIT_MS)
    opened.button("note/markup").click()
    expect(opened.area.get_by_text("Careful: 1 hidden character inside")).to_be_visible(
        timeout=WAIT_MS
    )
    opened.button("Delete").click()
    expect(opened.button("Cancel")).to_be_focused(timeout=WAIT_MS)
    shots_of(opened, shots, "hostile")
    field(opened).fill("<img src=x onerror=\"window.__xss='field'\">")
    expect(opened.area.get_by_text("No memory with")).to_be_visible(timeout=WAIT_MS)
    opened.page.wait_for_timeout(NOTHING_MORE_MS)

    panel = opened.area.locator(".memlab-memory")
    expect(panel.locator("img, script, b, mjx-container")).to_have_count(0)
    assert opened.page.evaluate("window.__xss") is None
    assert stored() == before


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_it_can_be_read_in_both_themes_and_by_everybody(opened, theme, shots):
    opened.use_theme(theme)
    field(opened).fill("i")
    expect(opened.area.locator("mark").first).to_be_visible(timeout=WAIT_MS)
    opened.button("preference/style").click()
    opened.button("Undo").click()
    expect(opened.button("Cancel")).to_be_focused(timeout=WAIT_MS)
    shots_of(opened, shots, theme)
    accessibility = pytest.importorskip("accessibility")
    assert accessibility.serious_findings(opened.page, ".memlab-memory") == []

    for part in (".memlab-head", ".memlab-small", ".memlab-excerpt", "mark", ".memlab-pinned"):
        assert contrast(opened.area.locator(part).first) >= 4.5, part
    for part in (".memlab-history caption", ".memlab-history td", ".memlab-row button"):
        assert contrast(opened.area.locator(part).first) >= 4.5, part
    opened.button("Cancel").click()
    opened.button("Delete").click()
    expect(opened.button("Cancel")).to_be_focused(timeout=WAIT_MS)
    assert contrast(opened.button("Yes, delete")) >= 4.5


def test_a_narrow_window_hides_nothing(opened, shots):
    opened.page.set_viewport_size({"width": 360, "height": 900})
    opened.button("note/tea").click()
    opened.button("Delete").click()
    expect(opened.button("Cancel")).to_be_focused(timeout=WAIT_MS)
    opened.page.wait_for_timeout(NOTHING_MORE_MS)
    shots_of(opened, shots, "narrow")

    for part in opened.area.locator(".memlab-memory, .memlab-row, .memlab-look").all():
        assert part.evaluate("part => part.scrollWidth <= part.clientWidth + 1")
