"""Claims, exercises and tables in a real JupyterLab: readable, and hostile text stays text."""

from __future__ import annotations

import pytest
from accessibility import serious_findings
from notebook_page import Notebook, contrast
from playwright.sync_api import expect

WAIT_MS = 60_000
HOSTILE = (
    "<img src=x onerror=\"window.__xss='img'\"><script>window.__xss='script'</script> "
    "$5 or $6, a\u202eb, $\\alpha$"
)
SHOWN = [
    f"from memlab.classroom import check, claim, refute, source\nhostile = {HOSTILE!r}",
    "claim(hostile, True, {hostile: hostile, 'list': [hostile]})",
    "refute(hostile, False, hostile)",
    "def answer(path): ...\n\n\ncheck('02a', answer)",
    "check('02a', lambda path: hostile)",
    "source(claim)",
    "from memlab import Delete, MemoryAgent, MemoryStore, ScriptedModel, say, views\n"
    "import tempfile\n"
    "folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)\n"
    "alice = MemoryStore.open(folder.name, create=True).for_user('alice', 'monday')\n"
    "_ = alice.put('note', 'price', hostile)\n"
    "views.records(alice)",
    "views.hits(alice.recall('alpha'))",
    "proposal = alice.lend().propose(Delete('note', 'price'), hostile)\n"
    "_ = alice.approvals.reject(proposal.id, hostile)\n"
    "views.ledger(alice)",
    "answer = await MemoryAgent(alice, ScriptedModel([say(hostile)])).ask(hostile)\n"
    "views.requests(answer)",
    "views.plot_requests(answer)",
]


@pytest.fixture
def opened(lab, page):
    notebook = Notebook(lab, page, lab.write("shown.ipynb", *SHOWN))
    page.set_viewport_size({"width": 1200, "height": 2600})  # all of it at once
    notebook.run_all()
    notebook.wait_for_the_end(WAIT_MS)
    expect(notebook.area.locator(".jp-OutputArea-output img")).to_have_count(1, timeout=WAIT_MS)
    return notebook


def test_hostile_text_stays_text_wherever_it_is_shown(opened):
    opened.page.wait_for_timeout(1000)  # time for an image to fail, and for a formula to be set

    pictures = opened.area.locator(".jp-OutputArea-output img")
    assert pictures.first.get_attribute("src").startswith("data:image/png")
    expect(opened.area.locator("mjx-container, .jp-OutputArea-output script")).to_have_count(0)
    expect(opened.area.get_by_text("a⟨U+202E⟩b").first).to_be_visible()
    assert opened.page.evaluate("window.__xss") is None
    shown = "".join(opened.area.locator(".jp-OutputArea-output").all_inner_texts())
    assert "\u202e" not in shown


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_verdicts_can_be_read_in_both_themes(opened, theme, shots):
    opened.use_theme(theme)
    opened.page.screenshot(path=str(shots / f"claims and tables, {theme}.png"))

    alerts, calm = opened.area.get_by_role("alert"), opened.area.get_by_role("status")
    assert (alerts.count(), calm.count()) == (2, 2)
    for verdict in [*alerts.all(), *calm.all()]:
        assert contrast(verdict) >= 4.5
        assert contrast(verdict.locator("strong")) >= 4.5
    assert contrast(opened.area.locator("li code").first) >= 4.5


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_axe_finds_nothing_serious_in_what_is_shown(opened, theme):
    opened.use_theme(theme)

    # Not the boxes around them, nor the figure's image: the Lab makes these, and gives no alt text.
    for part in ("[role='alert']", "[role='status']", "table.dataframe"):
        assert serious_findings(opened.page, f".jp-OutputArea-output {part}") == []
