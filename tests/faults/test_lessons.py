"""What other courses broke on: hacks around the event loop, numbers that differ, and a network."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import nbformat
import pytest
from test_notebook_files import FOLDER, NOTEBOOKS, code_cells, outputs, words

import memlab

PACKAGE = Path(memlab.__file__).parent
HACKS = {"do_one_iteration", "nest_asyncio", "run_until_complete", "ui_events"}
LONG_FRACTION = re.compile(r"(?<![\w.])\d*\.\d{4,}")
each_notebook = pytest.mark.parametrize(
    "path", NOTEBOOKS, ids=lambda path: path.relative_to(FOLDER).as_posix()
)


def hacks(tree):
    """Return what in a piece of code drives an event loop by hand, or waits for a click."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found |= {node.attr, ast.unparse(node)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.name for alias in node.names} | {getattr(node, "module", None)}
    return found & {*HACKS, "asyncio.run"}


def cell_tree(source):
    """Parse a cell as IPython runs it: `await` at the top, a `?` at the end, no magics."""
    lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines()]
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile("\n".join(lines).rstrip("?"), "cell", "exec", flags)


@each_notebook
def test_a_notebook_awaits_and_drives_no_event_loop_by_hand(path):
    for cell in code_cells(nbformat.read(path, as_version=4)):
        assert hacks(cell_tree(cell.source)) == set(), cell.source


@pytest.mark.parametrize("name", ["agent", "models", "panels", "tools", "views"])
def test_what_runs_in_a_notebook_starts_no_event_loop_and_polls_for_no_click(name):
    files = [*PACKAGE.glob(f"{name}.py"), *(PACKAGE / name).glob("*.py")]

    assert files
    for file in files:
        assert hacks(ast.parse(file.read_text(encoding="utf-8"))) == set(), file.name


def test_a_hack_would_be_noticed():
    assert hacks(cell_tree("import nest_asyncio\nnest_asyncio.apply()")) == {"nest_asyncio"}
    assert hacks(cell_tree("answer = asyncio.run(agent.ask('?'))")) == {"asyncio.run"}
    assert hacks(cell_tree("answer = await agent.ask('asyncio.run')")) == set()


@each_notebook
def test_no_output_has_more_digits_than_every_machine_agrees_on(path):
    shown = [words(output) for output in outputs(nbformat.read(path, as_version=4))]

    assert [found for text in shown for found in LONG_FRACTION.findall(text)] == []


OFFLINE = """
import asyncio, json, sys
tried = []
def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        tried.append([event, repr(args[1:])])
        raise OSError("there is no network in class")
from memlab import HashEmbedder, MemoryAgent, MemoryStore, RuleModel, views
from memlab.panels import ApprovalPanel
loop = asyncio.new_event_loop()  # before the watch: on Windows a loop wakes itself by a socket
sys.addaudithook(watch)
with MemoryStore.open(sys.argv[1], create=True, embedder=HashEmbedder()) as store:
    alice = store.for_user("alice", session="s1")
    agent = MemoryAgent(alice, RuleModel())
    first = loop.run_until_complete(agent.ask("请记住我喜欢绿茶。"))
    panel = ApprovalPanel(alice)
    panel.approve(first.waiting[0].id)
    second = loop.run_until_complete(agent.ask("我喜欢喝什么茶？"))
    views.plot_requests(second)
    print(json.dumps([len(views.records(alice)), "绿茶" in second.text, tried]))
loop.close()
"""


def test_a_class_without_a_network_can_ask_approve_and_see(program):
    assert json.loads(program(OFFLINE).communicate()[0]) == [1, True, []]
