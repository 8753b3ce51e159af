"""The chat panel in a real JupyterLab: asked by mouse and by keyboard, stopped, reopened."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import nbformat
import pytest
from accessibility import serious_findings
from notebook_page import KERNEL_IS_IDLE, START_MS, Notebook, contrast
from playwright.sync_api import expect

WAIT_MS = 20_000
HOSTILE = (
    "<img src=x onerror=\"window.__xss='img'\"><script>window.__xss='script'</script>"
    "<b>bold</b> </div></div><button>Approve</button> $\\alpha$ a\u202eb\u200bc"
)
STORE = """\
import asyncio
from memlab import MemoryAgent, MemoryStore, Put, RuleModel, ScriptedModel, call, say
from memlab.panels import ChatPanel
ids = (f"p{{n}}" for n in range(1, 1000))
store = MemoryStore.open({folder!r}, create=True, new_id=lambda: next(ids))
alice = store.for_user("alice", session="monday")
"""
RULES = """\
agent = MemoryAgent(alice, RuleModel())
panel = ChatPanel(agent, alice)
panel"""
SLOW = """\
gate, asked = asyncio.Event(), []
async def slowly(messages, tools):
    asked.append(messages)
    await gate.wait()
    return say("at last")
alice.approvals.grant(Put("note", "tea", "oolong"))
replies = [call("memory_put", kind="note", key="tea", value="oolong"), slowly]
agent = MemoryAgent(alice, ScriptedModel([*replies, *["and so on"] * 5]))
panel = ChatPanel(agent, alice)
panel"""
ASK_FOR = "Remember that I like short answers."
QUESTION = "How should you answer me?"


@pytest.fixture
def start(lab, page, tmp_path, request):
    """Open a notebook with a panel made by this code, and run it to its end."""

    def run(*cells):
        code = STORE.format(folder=str(tmp_path / "m"))
        name = lab.write(f"{request.node.originalname}.ipynb", code, *cells)
        notebook = Notebook(lab, page, name)
        notebook.run_all()
        expect(field(notebook).first).to_be_visible(timeout=WAIT_MS)
        return notebook

    return run


@pytest.fixture
def stored(tmp_path):
    """Read every record in the file, as another program sees it."""

    def read():
        path = tmp_path / "m" / "memory.sqlite3"
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
            return sorted(file.execute("SELECT key, value FROM memory"))

    return read


def field(notebook):
    return notebook.area.get_by_label("Question")


def turns(notebook):
    return notebook.area.locator(".memlab-chat-turn")


def ask(notebook, text):
    """Type a question and press Enter."""
    field(notebook).click()
    notebook.page.keyboard.type(text)
    notebook.page.keyboard.press("Enter")


def wait_for_answer(notebook, count):
    expect(notebook.area.locator(".memlab-chat-store")).to_have_count(count, timeout=WAIT_MS)


# Asking -----------------------------------------------------------------------------------------


def test_by_mouse_approve_and_see_the_answer_change(start, stored, shots):
    chat = start(RULES)
    field(chat).fill(QUESTION)
    chat.button("Send").click()
    wait_for_answer(chat, 1)
    expect(turns(chat).nth(0)).to_contain_text("I remember nothing about that.")
    expect(field(chat)).to_have_value("")

    field(chat).fill(ASK_FOR)
    chat.button("Send").click()
    wait_for_answer(chat, 2)
    told = turns(chat).nth(1).locator(".memlab-chat-store")
    expect(told).to_contain_text("nothing was written; waits for you: store preference/")
    assert stored() == []
    chat.page.screenshot(path=str(shots / "chat, waiting.png"))

    chat.button("Approve").click()
    expect(told).to_contain_text("approved since: preference/", timeout=WAIT_MS)
    [(key, value)] = stored()
    field(chat).fill(QUESTION)
    chat.button("Send").click()
    wait_for_answer(chat, 3)
    expect(turns(chat).nth(2)).to_contain_text(f"“{value}” (preference/{key}, session monday)")
    expect(chat.area.locator(".memlab-chat-found")).to_contain_text(value)
    expect(chat.area.locator(".memlab-chat-found")).to_contain_text("Why: number 1 by the words")
    expect(chat.area.get_by_role("meter")).to_have_attribute("aria-valuemax", "16000")
    chat.page.screenshot(path=str(shots / "chat, answered.png"))


def test_by_keyboard_alone(start, stored):
    chat = start(RULES)
    field(chat).focus()
    chat.page.keyboard.type(ASK_FOR)
    chat.page.keyboard.press("Enter")
    wait_for_answer(chat, 1)
    expect(field(chat)).to_be_focused()
    expect(field(chat)).to_have_value("")

    chat.tab_to("Approve")
    chat.page.keyboard.press("Enter")
    expect(chat.cards.first).to_contain_text("Approved, once", timeout=WAIT_MS)
    assert len(stored()) == 1
    chat.page.keyboard.press("Shift+Tab")
    field(chat).focus()
    chat.page.keyboard.type(QUESTION)
    chat.tab_to("Send", most=1)
    chat.page.keyboard.press("Enter")
    wait_for_answer(chat, 2)
    expect(turns(chat).nth(1)).to_contain_text("From what I remember: “I like short answers")
    expect(chat.button("Send")).to_be_focused()


def test_in_notebook_7_by_enter_and_by_button(lab, page, tmp_path, shots):
    code = STORE.format(folder=str(tmp_path / "m"))
    name = lab.write("in_notebook_7.ipynb", code, RULES)
    page.goto(f"{lab.url}/notebooks/{name}?token={lab.token}")
    page.get_by_text("Python 3 (ipykernel)").first.wait_for(timeout=START_MS)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    area = page.locator(".jp-Notebook")
    question = area.get_by_label("Question")
    question.click(timeout=START_MS)
    page.keyboard.type(ASK_FOR)
    page.keyboard.press("Enter")
    answered = area.locator(".memlab-chat-store")
    expect(answered).to_have_count(1, timeout=WAIT_MS)
    expect(question).to_have_value("")
    area.get_by_role("button", name="Approve", exact=True).click()
    expect(answered).to_contain_text("approved since", timeout=WAIT_MS)
    question.fill(QUESTION)
    area.get_by_role("button", name="Send", exact=True).click()
    expect(answered).to_have_count(2, timeout=WAIT_MS)
    expect(area.locator(".memlab-chat-turn").last).to_contain_text("“I like short answers")
    page.screenshot(path=str(shots / "chat, notebook 7.png"))


def test_a_double_click_asks_once(start):
    chat = start(RULES)
    field(chat).fill(QUESTION)
    chat.button("Send").dblclick()

    wait_for_answer(chat, 1)
    chat.page.wait_for_timeout(700)  # time for a second click to do harm
    expect(turns(chat)).to_have_count(1)
    expect(chat.area.locator(".memlab-chat .memlab-alert")).to_have_count(0)


def test_enter_twice_asks_once(start):
    chat = start(RULES)
    ask(chat, QUESTION)
    chat.page.keyboard.press("Enter")

    wait_for_answer(chat, 1)
    chat.page.wait_for_timeout(700)
    expect(turns(chat)).to_have_count(1)


# While one runs ---------------------------------------------------------------------------------


def test_stop_keeps_what_was_committed_and_leaves_the_turn_out(start, stored, shots):
    chat = start(SLOW)
    ask(chat, "Please remember tea")
    step = chat.area.locator(".memlab-chat-step")
    expect(step).to_contain_text("Asking the model (call 2 of at most 8)", timeout=WAIT_MS)
    chat.page.wait_for_function(KERNEL_IS_IDLE, timeout=START_MS)  # it returned at once
    chat.page.screenshot(path=str(shots / "chat, running.png"))

    chat.button("Stop").click()
    wait_for_answer(chat, 1)
    expect(turns(chat).first).to_contain_text("Stopped.")
    expect(turns(chat).first).to_contain_text("The store, meanwhile: note/tea created.")
    expect(step).to_have_text("Ready.")
    expect(chat.area.locator(".memlab-chat-beside")).to_contain_text("starts with 0 earlier turns")
    assert stored() == [("tea", "oolong")]

    chat.button("Ask again").click()
    wait_for_answer(chat, 2)
    expect(turns(chat).nth(1)).to_contain_text("and so on")
    expect(field(chat)).to_be_focused()
    expect(chat.button("Ask again")).to_have_count(0)


def test_a_second_question_is_refused_and_its_text_stays(start, shots):
    chat = start(SLOW)
    ask(chat, "Please remember tea")
    expect(chat.area.locator(".memlab-chat-step")).to_contain_text("call 2", timeout=WAIT_MS)
    ask(chat, "And what about coffee?")

    refusal = chat.area.get_by_text("Not asked yet: “Please remember tea” is still being answered")
    expect(refusal).to_be_visible(timeout=WAIT_MS)
    expect(field(chat)).to_have_value("And what about coffee?")
    expect(turns(chat)).to_have_count(1)
    chat.page.screenshot(path=str(shots / "chat, second refused.png"))

    chat.button("Stop").click()
    wait_for_answer(chat, 1)
    field(chat).click()
    chat.page.keyboard.press("Enter")  # the text has not changed since
    wait_for_answer(chat, 2)
    expect(turns(chat).nth(1)).to_contain_text("And what about coffee?")
    expect(field(chat)).to_have_value("")


def test_after_a_reload_the_panel_still_stands_and_still_stops(start, lab):
    chat = start(SLOW)
    ask(chat, "Please remember tea")
    expect(chat.area.locator(".memlab-chat-step")).to_contain_text("call 2", timeout=WAIT_MS)
    save(chat, lab.root / chat.name)
    chat = Notebook(lab, chat.page, chat.name)  # opened anew, on the same kernel
    expect(chat.area.locator(".memlab-chat-step")).to_contain_text("call 2", timeout=WAIT_MS)

    chat.button("Stop").click()
    wait_for_answer(chat, 1)
    ask(chat, "And now?")
    wait_for_answer(chat, 2)
    expect(turns(chat).nth(1)).to_contain_text("and so on")


def test_a_saved_and_untrusted_notebook_says_the_state(start, lab, page):
    chat = start(RULES, "_ = await panel.ask('Remember that I like short answers.')", "panel")
    expect(chat.area.locator(".memlab-chat-store")).to_have_count(2, timeout=WAIT_MS)
    path = lab.root / chat.name
    save(chat, path)
    page.goto("about:blank")
    lab.end_kernels()
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata["changed"] = "by another program, so its signature is void"
    nbformat.write(notebook, path)

    chat = Notebook(lab, page, chat.name)
    said = chat.area.locator(".jp-OutputArea-output")
    expect(said.last).to_contain_text(
        "ChatPanel(alice: 1 question; last answer complete; request ", timeout=WAIT_MS
    )
    expect(said.last).to_contain_text("ApprovalPanel(alice: 1 waiting: p1 put preference/")
    expect(chat.area.locator(".memlab-panel, .jp-OutputArea button")).to_have_count(0)


def save(notebook, path):
    """Save, and wait until all outputs stand in the file."""
    notebook.page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    for _ in range(100):
        cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
        if all(cell.execution_count for cell in cells) and cells[-1].outputs:
            return
        notebook.page.wait_for_timeout(100)
    raise AssertionError(f"{path.name} was not saved")


# What it looks like -----------------------------------------------------------------------------

HOSTILE_CELL = f"""\
hostile = {HOSTILE!r}
_ = alice.put("preference", "mean", hostile)
odd = {{"type": "function", "function": {{"name": hostile, "arguments": hostile}}}}
mean = call("memory_put", kind="note", key="x", value=hostile, reason=hostile)
reply = {{"role": "assistant", "content": hostile, "tool_calls": [odd, *mean["tool_calls"]]}}
agent = MemoryAgent(alice, ScriptedModel([reply, hostile, ValueError(hostile)]))
panel = ChatPanel(agent, alice)
panel"""


def test_hostile_text_runs_nothing_and_clicks_nothing(start, stored):
    chat = start(HOSTILE_CELL)
    field(chat).fill(HOSTILE)
    chat.button("Send").click()
    wait_for_answer(chat, 1)
    field(chat).fill(HOSTILE)
    chat.button("Send").click()
    wait_for_answer(chat, 2)
    chat.page.wait_for_timeout(500)  # time for an image to fail to load

    shown = HOSTILE.replace("\u202e", "⟨U+202E⟩").replace("\u200b", "⟨U+200B⟩")
    for text in turns(chat).nth(0).locator(".memlab-chat-text").all():
        expect(text).to_have_text(shown)
    expect(turns(chat).nth(1).locator(".memlab-alert")).to_contain_text(shown)
    expect(chat.cards.first.locator(".memlab-value").last).to_have_text(shown)
    inside = ".memlab-chat img, .memlab-chat script, .memlab-chat mjx-container, .memlab-chat b"
    expect(chat.area.locator(inside)).to_have_count(0)
    expect(chat.button("Approve")).to_have_count(1)
    assert chat.page.evaluate("window.__xss") is None
    assert [key for key, _ in stored()] == ["mean"]


FULL = """\
alice.approvals.grant(Put("note", "tea", "oolong"))
_ = alice.put("preference", "style", "I like short answers, with an example.")
tea = call("memory_put", kind="note", key="tea", value="oolong")
cup = call("memory_put", kind="note", key="cup", value="the blue one", reason="you said so")
model = ScriptedModel([[tea, cup], "Saved both of them for you!", RuntimeError("the wire broke")])
agent = MemoryAgent(alice, model)
panel = ChatPanel(agent, alice)
panel"""


@pytest.fixture
def full(start):
    """A panel that shows something of everything."""
    chat = start(FULL)
    ask(chat, "Please remember that I drink oolong tea, with short answers, from the blue cup")
    wait_for_answer(chat, 1)
    ask(chat, "And then?")
    wait_for_answer(chat, 2)
    chat.scroll_to("model = ")
    return chat


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_it_can_be_read_in_both_themes(full, theme, shots):
    full.use_theme(theme)
    full.page.set_viewport_size({"width": 1200, "height": 1300})
    full.page.wait_for_timeout(300)
    full.page.screenshot(path=str(shots / f"chat, {theme}.png"))

    for part in (
        ".memlab-head",
        ".memlab-chat-text",
        ".memlab-chat-who",
        ".memlab-chat-store",
        ".memlab-chat-step",
    ):
        assert contrast(full.area.locator(part).first) >= 4.5, part
    for part in (".memlab-small", ".memlab-chat-log .memlab-alert", ".memlab-chat-ask button"):
        for element in full.area.locator(part).all():
            assert contrast(element) >= 4.5, (part, element.inner_text())
    assert serious_findings(full.page, ".memlab-chat") == []


@pytest.mark.parametrize("width", [360, 800])
def test_a_narrow_window_hides_nothing(full, width, shots):
    full.page.set_viewport_size({"width": width, "height": 1800})
    full.page.wait_for_timeout(500)
    full.page.screenshot(path=str(shots / f"chat, {width}.png"))

    for part in (
        ".memlab-chat",
        ".memlab-chat-talk",
        ".memlab-chat-beside",
        ".memlab-chat-log",
        ".memlab-chat-ask",
    ):
        for element in full.area.locator(part).all():
            assert element.evaluate("e => e.scrollWidth <= e.clientWidth + 1"), part
    assert serious_findings(full.page, ".memlab-chat") == []


def test_the_newest_words_are_in_sight_and_the_keyboard_scrolls_back(start):
    chat = start(RULES)
    for number in range(1, 7):
        ask(chat, f"Question {number}: how should you answer me?")
        wait_for_answer(chat, number)
    log = chat.area.locator(".memlab-chat-log")
    assert log.evaluate("e => e.scrollHeight > e.clientHeight")
    expect(turns(chat).last.locator(".memlab-chat-store")).to_be_in_viewport()

    log.focus()
    chat.page.keyboard.press("Home")
    expect(turns(chat).first.locator(".memlab-chat-question")).to_be_in_viewport()
