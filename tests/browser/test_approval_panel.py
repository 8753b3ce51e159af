"""The approval panel in a real JupyterLab: what a person sees, clicks and hears."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from notebook_page import Notebook
from playwright.sync_api import expect

LESSON = Path(__file__).parents[2] / "notebooks" / "04_ask_before_you_write.ipynb"
WAIT_MS = 20_000
STORE = """\
from memlab import Delete, MemoryStore, Put
from memlab.panels import ApprovalPanel
ids = (f"p{{n}}" for n in range(1, 1000))
store = MemoryStore.open({folder!r}, create=True, new_id=lambda: next(ids))
alice = store.for_user("alice", session="monday")
lent = store.for_user("alice", session="tuesday").lend()"""
HOSTILE = (
    "<img src=x onerror=\"window.__xss='img'\"><script>window.__xss='script'</script>"
    "<b>bold</b> </div></div><button>Approve</button> $\\alpha$"
)
ASKED = f"""\
_ = alice.put("preference", "style", "I like long answers, with examples.")
_ = lent.propose(Put("preference", "style", "I like short answers, with examples."), "you said so")
_ = lent.propose(Put("note", "markup", {HOSTILE!r}), reason={HOSTILE!r})
_ = lent.propose(Put("note", "hidden", "pay bob\\u202e 001 \\u202cnot\\u200b more"), "from turn 5")
panel = ApprovalPanel(alice)
panel"""


@pytest.fixture
def opened(lab, page, tmp_path, request):
    """A notebook with a panel over three changes that wait, run to its end."""
    folder = tmp_path / "memory"
    name = lab.write(f"{request.node.name}.ipynb", STORE.format(folder=str(folder)), ASKED)
    notebook = Notebook(lab, page, name)
    notebook.folder = folder
    notebook.run_all()
    expect(notebook.button("Approve")).to_have_count(3, timeout=WAIT_MS)
    return notebook


def stored(folder):
    """Every record in the file, as another program sees it."""
    path = folder / "memory.sqlite3"
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
        return dict(file.execute("SELECT key, value FROM memory"))


def test_approve_writes_exactly_what_stands_on_the_card(opened):
    opened.button("Approve").first.click()

    expect(opened.cards.first).to_contain_text("Approved, once", timeout=WAIT_MS)
    expect(opened.cards.first).to_contain_text("preference/style replaced, revision 2")
    expect(opened.button("Approve")).to_have_count(2)
    assert stored(opened.folder) == {"style": "I like short answers, with examples."}
