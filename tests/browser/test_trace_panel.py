"""The trace panel in a real JupyterLab: what a person sees, clicks and hears."""

from __future__ import annotations

import nbformat
import pytest
from accessibility import serious_findings
from notebook_page import KERNEL_IS_IDLE, START_MS, Notebook, contrast
from playwright.sync_api import expect

WAIT_MS = 20_000
HOSTILE = (
    "<img src=x onerror=\"window.__xss='img'\"><script>window.__xss='script'</script>"
    "</div></details><button onclick=\"window.__xss='button'\">Forward</button> $\\alpha$ "
    "pay\u202e 001\u200b"
)
ASKED = """\
from memlab import MemoryAgent, MemoryStore, Put, ScriptedModel, Tool, call, say
from memlab.agent import Answer
from memlab.panels import TracePanel
ids = (f"p{n}" for n in range(1, 1000))
store = MemoryStore.open(folder, create=True, new_id=lambda: next(ids))
alice = store.for_user("alice", session="monday")
_ = alice.put("preference", "style", "Short answers, with one example.")
_ = alice.put("note", "hostile", hostile)
_ = alice.approvals.grant(Put("note", "tea", "I drink oolong."))
echoed = {"ok": True, "said": hostile}
echo = Tool("echo", "Says it again.", {"type": "object"}, lambda _: echoed)
bad = call("echo")
bad["content"] = hostile
bad["tool_calls"].append({"function": {"name": hostile, "arguments": hostile}})
model = ScriptedModel([
    call("memory_search", query="style"),
    [say("I save both now."), call("memory_put", kind="note", key="tea", value="I drink oolong."),
     call("memory_put", kind="note", key="car", value="My car is red.")],
    bad,
    call("memory_put", kind="note", key="copy", value=hostile),
    say("Saved: your car is red and you drink oolong."),
])
agent = MemoryAgent(alice, model, tools=[echo])
answer = await agent.ask("Save that I drink oolong and that my car is red. " + hostile)"""
PANEL = """\
panel = TracePanel(answer)
panel"""


@pytest.fixture
def opened(lab, page, tmp_path, request):
    """A notebook with a panel over an answer of five steps, run to its end."""
    code = f"folder, hostile = {str(tmp_path / 'm')!r}, {HOSTILE!r}\n{ASKED}"
    notebook = Notebook(lab, page, lab.write(f"{request.node.name}.ipynb", code, PANEL))
    notebook.run_all()
    expect(count(notebook)).to_have_text("step 1 of 5", timeout=WAIT_MS)
    notebook.scroll_to("TracePanel(answer)")
    return notebook


def count(notebook):
    return notebook.area.locator(".memlab-trace-count")


def shown(notebook):
    """The step that is shown; the others are there, but hidden."""
    return notebook.area.locator(".widget-tab-contents > :not(.lm-mod-hidden)")


def unfold(notebook):
    notebook.area.locator("details").evaluate_all("all => all.forEach(fold => fold.open = true)")


def tab(notebook, n):
    return notebook.area.get_by_role("tab", name=f"Step {n}", exact=True)


def test_by_mouse_buttons_and_tabs_show_the_same_steps(opened):
    opened.button("Forward").click()
    expect(count(opened)).to_have_text("step 2 of 5", timeout=WAIT_MS)
    expect(tab(opened, 2)).to_have_attribute("aria-selected", "true")
    expect(shown(opened)).to_contain_text("created note/tea, revision 1")
    expect(shown(opened)).to_contain_text("nothing was written yet: it waits for approval as p2")

    tab(opened, 5).click()
    expect(count(opened)).to_have_text("step 5 of 5", timeout=WAIT_MS)
    expect(shown(opened)).to_contain_text("Saved: your car is red and you drink oolong.")
    expect(shown(opened).locator(".memlab-trace-store")).to_have_text("nothing was written")

    opened.button("Back").click()
    expect(count(opened)).to_have_text("step 4 of 5", timeout=WAIT_MS)
    opened.button("First").click()
    expect(count(opened)).to_have_text("step 1 of 5", timeout=WAIT_MS)
    opened.button("Last").dblclick()
    expect(count(opened)).to_have_text("step 5 of 5", timeout=WAIT_MS)


def test_by_keyboard_alone_the_buttons_keep_the_focus(opened):
    opened.tab_to("Forward")
    for n in (2, 3, 4, 5):
        opened.page.keyboard.press("Enter")
        expect(count(opened)).to_have_text(f"step {n} of 5", timeout=WAIT_MS)
        expect(opened.button("Forward")).to_be_focused()
    opened.page.keyboard.press("Enter")
    expect(count(opened)).to_have_text("step 5 of 5: this is the last", timeout=WAIT_MS)
    expect(opened.button("Forward")).to_be_focused()

    opened.page.keyboard.press("Shift+Tab")
    opened.page.keyboard.press("Space")
    expect(count(opened)).to_have_text("step 4 of 5", timeout=WAIT_MS)
    expect(opened.button("Back")).to_be_focused()


def test_by_keyboard_alone_the_arrows_go_from_tab_to_tab(opened):
    opened.tab_to("Last")
    opened.page.keyboard.press("Tab")
    for key, n in (("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("End", 5), ("Home", 1)):
        opened.page.keyboard.press(key)
        expect(tab(opened, n)).to_be_focused()
        opened.page.keyboard.press("Enter")
        expect(count(opened)).to_have_text(f"step {n} of 5", timeout=WAIT_MS)
        expect(tab(opened, n)).to_be_focused()


def test_a_fold_opens_by_keyboard_and_the_table_says_the_same(opened):
    opened.tab_to("The same as a table")
    opened.page.keyboard.press("Enter")
    table = opened.area.get_by_role("table")

    expect(table).to_be_visible()
    expect(table.get_by_role("row")).to_have_count(16)
    expect(table).to_contain_text("created note/tea, revision 1")
    expect(table.get_by_role("row").last).to_contain_text("waits for approval: put note/car (p2)")


def test_by_code_the_panel_that_is_shown_moves(opened):
    opened.page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel
            .requestExecute({ code: "panel.show(3)" }).done"""
    )

    expect(count(opened)).to_have_text("step 3 of 5", timeout=WAIT_MS)
    expect(tab(opened, 3)).to_have_attribute("aria-selected", "true")


def test_hostile_text_runs_nothing_in_any_step(opened):
    for n in range(1, 6):
        tab(opened, n).click()
        expect(count(opened)).to_have_text(f"step {n} of 5", timeout=WAIT_MS)
        unfold(opened)
    opened.page.wait_for_timeout(500)  # time for an image to fail to load

    expect(opened.area.locator(".memlab-panel")).to_contain_text("<img src=x onerror=")
    expect(opened.area.locator(".memlab-panel .memlab-hidden").first).to_have_text("⟨U+202E⟩")
    within = ".memlab-panel :is(img, script, mjx-container, [onclick])"
    expect(opened.area.locator(within)).to_have_count(0)
    expect(opened.button("Forward")).to_have_count(1)
    assert opened.page.evaluate("window.__xss") is None


def test_after_a_reload_with_a_live_kernel_the_panel_works_on(opened):
    opened.button("Forward").click()
    expect(count(opened)).to_have_text("step 2 of 5", timeout=WAIT_MS)
    save(opened)
    opened.page.reload()
    opened.page.wait_for_function(KERNEL_IS_IDLE, timeout=START_MS)
    opened.scroll_to("TracePanel(answer)")

    expect(count(opened)).to_have_text("step 2 of 5", timeout=WAIT_MS)
    expect(shown(opened)).to_contain_text("created note/tea, revision 1")
    opened.button("Forward").click()
    expect(count(opened)).to_have_text("step 3 of 5", timeout=WAIT_MS)


def test_a_saved_notebook_from_elsewhere_shows_text_and_no_button(lab, opened):
    save(opened)
    notebook = nbformat.read(lab.root / opened.name, as_version=4)
    [output] = notebook.cells[1].outputs
    said = output.data["text/plain"]
    lab.end_kernels()
    notebook.cells[0].source += "\n# changed elsewhere, so nobody has trusted it here"
    nbformat.write(notebook, lab.root / "elsewhere.ipynb")
    elsewhere = Notebook(lab, opened.page, "elsewhere.ipynb")

    assert said.startswith("TracePanel(step 1 of 5: request ")
    assert said.endswith(
        "waits for approval: put note/car (p2); waits for approval: put note/copy (p3))"
    )
    expect(elsewhere.area).to_contain_text(said, timeout=WAIT_MS)
    expect(elsewhere.area.locator(".memlab-panel, .jupyter-button")).to_have_count(0)
    assert opened.page.evaluate("window.__xss") is None


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_a_panel_can_be_read_and_heard_in_both_themes(opened, theme, shots):
    opened.use_theme(theme)
    opened.page.set_viewport_size({"width": 1200, "height": 1500})
    for n in (2, 5):
        tab(opened, n).click()
        expect(count(opened)).to_have_text(f"step {n} of 5", timeout=WAIT_MS)
        opened.scroll_to("TracePanel(answer)")
        opened.page.wait_for_timeout(300)
        opened.page.screenshot(path=str(shots / f"trace, step {n}, {theme}.png"))
        assert serious_findings(opened.page, ".memlab-panel") == []
    unfold(opened)
    opened.page.wait_for_timeout(300)
    opened.page.screenshot(path=str(shots / f"trace, unfolded, {theme}.png"))
    assert serious_findings(opened.page, ".memlab-panel") == []
    for part in (".memlab-head", ".memlab-trace-count", ".memlab-trace-title", "summary"):
        assert contrast(opened.area.locator(f".memlab-trace {part}:visible").first) >= 4.5, part
    for part in (".memlab-trace-legend li", ".memlab-trace-store", "td", ".lm-TabBar-tab"):
        assert contrast(opened.area.locator(f".memlab-trace {part}:visible").first) >= 4.5, part


@pytest.mark.parametrize("width", [960, 480, 360])  # 960: a window of 1200 at 125 %
def test_a_narrow_or_zoomed_window_hides_nothing(opened, width, shots):
    opened.page.set_viewport_size({"width": width, "height": 1500})
    opened.button("Forward").click()
    expect(count(opened)).to_have_text("step 2 of 5", timeout=WAIT_MS)
    unfold(opened)
    opened.scroll_to("TracePanel(answer)")
    opened.page.wait_for_timeout(500)
    opened.page.screenshot(path=str(shots / f"trace, {width}.png"))
    opened.area.get_by_role("table").scroll_into_view_if_needed()
    opened.page.screenshot(path=str(shots / f"trace table, {width}.png"))

    panel = opened.area.locator(".memlab-panel")
    assert panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth")
    for part in panel.locator(".widget-tab-contents, .memlab-trace-nav, .memlab-trace-bar").all():
        assert part.evaluate("part => part.scrollWidth <= part.clientWidth")


def save(notebook):
    notebook.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
