"""Canaries: another user's marked text, and a planted order, looked for on every path there is.

Everything is done twice, in two stores: in one of them Bob lives too, with a fresh mark on all that
is his; in the other Alice is alone. On no path may Alice see the mark, and every answer must be the
same in both: a score, a count or an error that differs has told of Bob without his words. To add a
path, do in its section what Alice does on it, and say what she sees:

    with w.path("search.all", "A blank search lists one's own"):
        w.sees(some(w.alice.search("", 1000)))
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from memlab import views
from memlab.agent import Answer, MemoryAgent
from memlab.classroom.looking import (
    Noise,
    first_difference,
    markup,
    outcome,
    panel_of,
    some,
    texts,
    with_warnings,
    without_hand,
)
from memlab.classroom.planted import planted
from memlab.classroom.reports import Finding, Report
from memlab.classroom.trials import Opener, apart, demand, folder, refused, same, tried
from memlab.classroom.worlds import DOOR, LIMITS, OLD, SHARED, Mark, World
from memlab.context import format_context
from memlab.errors import MemlabError
from memlab.models import ScriptedModel, call, say
from memlab.records import Delete, Put
from memlab.store import MemoryStore, UserMemory
from memlab.text import canonical

UNKNOWN = "nobody-asked-this"  # an id that no proposal has


def check_canaries(opener: Opener = MemoryStore.open) -> Report:
    """Look for another user's text, and for the effect of a planted order, on every path.

    Args:
        opener: Opens the store that is tried; it takes what `MemoryStore.open` takes. The agent,
            the views and the panels are tried where its users are `UserMemory` objects, the command
            line with memlab's own store.
    """
    noise, now = Noise(), time.time_ns() // 1_000_000
    with noise.caught():
        findings = [*_strangers(opener, now), *planted(opener, now)]
    return Report("canaries", (*findings, *noise.findings()))


def _strangers(opener: Opener, now: int) -> list[Finding]:
    """Run every section in two worlds and compare what Alice gets to see."""
    mark = Mark.fresh()
    paths: list[Finding] = []
    ready: list[Finding] = []
    promise = "Two users can live in one store, each with what is theirs"
    with tried("canary.ready", promise, ready):
        for section in SECTIONS:
            with ExitStack() as stack:
                worlds = []
                for with_bob in (True, False):
                    name = stack.enter_context(folder())
                    w = World(opener, Path(name), mark, now, alike=section is _meaning)
                    stack.callback(w.store.close)
                    w.begin(with_bob)
                    worlds.append(w)
                if _exists_for(worlds[0], section):
                    for w in worlds:
                        section(w)
                    paths += _compared(*worlds)
    return [*paths, *(each for each in ready if not each.held)]


def _exists_for(world: World, section: object) -> bool:
    if section is _command_line:
        return world.opener == MemoryStore.open
    return section is not _agent or isinstance(world.alice, UserMemory)


def _compared(beside: World, alone: World) -> list[Finding]:
    """Return what came of each path, once both worlds have gone it."""
    findings: list[Finding] = []
    both = zip(beside.findings, alone.findings, beside.seen, alone.seen, strict=True)
    for one, other, seen, own in both:
        with tried(one.name, one.promise, findings):
            for finding in (one, other):
                demand(finding.held, finding.found)
            for text in seen:
                demand(not beside.mark.within(text), f"another user's mark: {text}")
            found = first_difference(seen, own)
            demand(not found, f"beside Bob Alice gets other than alone: {found}")
    return findings


# What a store says ------------------------------------------------------------------------------


def _reading(w: World) -> None:
    """Look at all that reads: nothing here writes, but for what `touch` counts."""
    alice, mark = w.alice, w.mark
    lent = alice.lend()

    with w.path("canary.planted", "The marked text is really there: its own user finds it"):
        w.sees(_bob_finds(w))
    with w.path("get.same_key", "A key that two users have gives each their own record"):
        w.sees(some(alice.get("preference", "style")))
    with w.path("get.other_key", "A key that another user alone has is no record"):
        w.sees([alice.get("note", key) for key in ("cellar", f"tea.{mark.small}")])
    with w.path("list.all", "A list holds the user's own records"):
        w.sees(some(alice.list()))
    with w.path("list.kind", "A list of one kind holds the user's own records"):
        w.sees([alice.list(kind) for kind in ("preference", "note", "episode", "decision")])
    with w.path("search.exact", "Another user's exact words are found by nobody else"):
        w.sees([alice.search(text, 1000) for text in (mark.latin, mark.chinese)])
    with w.path("search.part", "A part of another user's words finds nothing"):
        w.sees([alice.search(text) for text in ("lighthouse", "灯塔", mark.chinese[2:4], "Zora")])
    with w.path("search.case", "Case and width make no way to another user's words"):
        w.sees([alice.search(each) for each in (mark.latin.upper(), _wide(mark.small))])
    with w.path("search.wildcard", "No sign stands for any text"):
        w.sees([alice.search(text, 1000) for text in ("%", "_", "*", "%' OR 1=1 --")])
    with w.path("search.all", "A blank search lists one's own"):
        w.sees(some(alice.search("", 1000)))
    with w.path("search.key", "Another user's keys are not searched"):
        w.sees([alice.search(text) for text in ("cellar", mark.small)])
    with w.path("recall.own", "Recall finds the user's own records, by their own words alone"):
        w.sees(some(alice.recall("jasmine tea 茉莉花茶", 1000)))
    with w.path("recall.words", "Words that only another user wrote recall nothing"):
        w.sees([alice.recall(each) for each in ("lighthouse", "灯塔的包裹", mark.latin)])
    with w.path("recall.people", "A person of whom another user wrote is nobody here"):
        w.sees(alice.recall("What did Zora say of the parcel?", 1000))
    with w.path("recall.why", "Ranks and scores count the user's own records only"):
        w.sees([hit.why for hit in some(alice.recall("the parcel and the tea", 1000))])
    with w.path("recall.neighbours", "A session of the same name lends nothing across users"):
        w.sees(alice.recall("lighthouse Oslo", 1000))
    with w.path("recall.cached", "What was recalled for one user is not handed to the next"):
        w.sees(_after_others(w))
    with w.path("history.own", "History holds the user's own values"):
        w.sees(some(alice.history("preference", "style")))
    with w.path("history.other", "Another user's record has no history here"):
        w.sees(alice.history("note", "cellar"))
    with w.path("stale", "A policy's preview lists the user's own"):
        w.sees(some(alice.stale(OLD)))
    with w.path("stats", "A user's counts are of their own"):
        w.sees(alice.stats())
    with w.path("export", "An export holds the user's own lines"):
        w.sees(some(list(alice.export())))
    with w.path("touch", "Counting a use of another user's record counts nothing of theirs"):
        w.sees(_touched(w))
    with w.path("approvals.pending", "Only one's own changes wait"):
        w.sees(alice.approvals.pending())
    with w.path("approvals.ledger", "The ledger tells one's own decisions"):
        w.sees(alice.approvals.ledger())
    with w.path("lent.approved", "Another user's yes is not shown to an agent"):
        w.sees(lent.approved())
    with w.path("lent.proposal", "Another user's proposal is as unknown as one that never was"):
        w.sees([lent.proposal(id) for id in (*w.theirs, UNKNOWN)])
    with w.path(
        "lent.attributes", "What an agent can name leads to no other user and no owner's hand"
    ):
        w.sees(without_hand(lent))
    with w.path("lent.reading", "What is lent reads as the user does"):
        w.sees(lent.list(), lent.search("lighthouse"), lent.recall("lighthouse parcel 灯塔"))
        w.sees(lent.get("note", "cellar"), lent.history("note", "cellar"))
    with w.path("repr", "What an object says of itself is of its own user"):
        w.sees([repr(each) for each in (w.store, alice, lent, alice.approvals, alice.list())])
    with w.path("file.names", "No file is named after a user or a text"):
        w.sees(sorted(path.name for path in w.folder.rglob("*")))


def _deciding(w: World) -> None:
    """Try all that writes, decides or is refused, and look at what it answers."""
    alice, mark, hand = w.alice, w.mark, w.alice.approvals
    lent = alice.lend()

    for name, act in (
        ("approve", hand.approve),
        ("reject", hand.reject),
        ("revoke", hand.revoke),
        ("approve_all", lambda id: hand.approve_all([id])),
    ):
        with w.path(f"{name}.other_id", f"`{name}` answers another's id as one that never was"):
            w.sees(_all_as_unknown(act, w))
    with w.path("decisions.theirs", "Another user's proposals stay as they were decided"):
        w.sees(_bob_still_waits(w))
    with w.path("propose.same", "A change that another user asked for too is one's own"):
        w.sees(lent.propose(Put("project", "plan", "write the report")))
    with w.path("propose.rejected", "Another user's no does not answer for this one"):
        w.sees(lent.propose(Put("decision", "colour", "dark")))
    with w.path("propose.twin", "A text that another user also has is no twin, and no warning"):
        w.sees(with_warnings(lent.propose, Put("note", "door", DOOR)))
    with w.path("apply.granted", "Another user's yes allows nothing; the refusal shows one's own"):
        w.sees(refused(MemlabError, lent.apply, Put("decision", "engine", "use PostgreSQL")))
    with w.path("error.conflict", "A conflict tells of one's own record"):
        w.sees(
            refused(MemlabError, alice.put, "preference", "style", "x", expect=7),
            refused(MemlabError, alice.put, "note", "cellar", "x", expect=1),
            refused(MemlabError, lent.propose, Delete("note", "cellar", expect=1)),
        )
    with w.path("error.undo", "An undo can go back to one's own values only"):
        w.sees(
            refused(MemlabError, alice.undo, "preference", "style", 9),
            refused(MemlabError, alice.undo, "note", "cellar", 1),
        )
    with w.path("undo", "An undo brings one's own value back"):
        w.sees(alice.undo("preference", "style", 1))
    with w.path("error.pin", "Another user's record cannot be pinned, and is as unknown as any"):
        w.sees(refused(MemlabError, alice.pin, "note", "cellar"))
    with w.path("error.input", "A refused argument names the rule and nothing that is stored"):
        w.sees(
            refused(MemlabError, alice.get, "secret", "cellar"),
            refused(MemlabError, alice.put, "note", "Cellar Door", "x"),
            refused(MemlabError, alice.search, "x", limit=0),
            refused(MemlabError, alice.import_lines, ['{"kind": "note"}']),
        )
    with w.path("delete.other", "Deleting another user's key deletes nothing"):
        w.sees(alice.delete("note", "cellar"), _bob_finds(w))
    with w.path("import", "An import is compared with one's own records"):
        line = {"version": 1, "kind": "note", "value": "from a file"}
        w.sees(alice.import_lines(canonical(line | {"key": k}) for k in ("cellar", "parcel")))
    with w.path("error.proposals", "How many changes may wait counts one's own"):
        for n in range(LIMITS.pending_proposals):
            w.sees(outcome(lent.propose, Put("note", f"more{n}", "x")))
    with w.path("approve.own", "An approval answers with one's own record"):
        w.sees([outcome(hand.approve, each.id) for each in hand.pending()])
    with w.path("remember.same", "A text that another user remembered too is new here"):
        w.sees(alice.remember(DOOR))
    with w.path("error.quota", "How much is stored counts one's own, and shows nothing"):
        for n in range(LIMITS.records_per_user):
            w.sees(outcome(alice.put, "note", f"full{n}", "x"))
    with w.path("forget", "Forgetting lists and takes one's own"):
        w.sees(alice.forget(OLD), _bob_finds(w))
    with w.path("ledger.after", "After all that the ledger still tells one's own decisions"):
        w.sees(hand.ledger())
    with w.path("forget.everything", "Forgetting everything is about one user"):
        w.sees(alice.forget_everything(), alice.list(), hand.ledger(), _bob_finds(w))
    with w.path("new_user", "Who has stored nothing finds nothing, whoever is asked for"):
        for name in ("carol", "bob", "Bob"):
            carol = w.store.for_user(name, session=SHARED)
            w.sees(carol.list(), carol.recall(f"{mark.latin} lighthouse 灯塔"), carol.export())


def _meaning(w: World) -> None:
    """Recall by meaning, with an embedder to which every text is alike."""
    alice = w.alice
    with w.path("meaning.recall", "What means the same is still not found across users"):
        w.sees(some(alice.recall("tea", 1000)), alice.recall("lighthouse 灯塔的包裹", 1000))
    with w.path("meaning.cached", "Vectors that were read for one user are not kept for the next"):
        w.sees(_after_others(w))
    with w.path("meaning.stats", "Missing vectors are counted of one's own"):
        w.sees(alice.stats())
    with w.path("meaning.reindex", "Making vectors anew makes one's own"):
        w.sees(alice.reindex(progress=lambda done, total: None))


def _bob_finds(w: World) -> str:
    """Look as Bob, where he is: what is not there cannot be missed either."""
    if w.bob is not None:
        found = [w.bob.list(), w.bob.search(w.mark.latin, 1000), w.bob.recall(w.mark.latin)]
        for each in found:
            demand(any(map(w.mark.within, texts(each))), "Bob does not find what he stored")
        demand(w.bob.get("note", "cellar") is not None, "a record of Bob's is gone")
    return "as it should be"


def _bob_still_waits(w: World) -> str:
    if w.bob is not None:
        states = [getattr(w.bob.lend().proposal(id), "state", None) for id in w.theirs]
        same(states, ["pending", "approved", "rejected", "used"], "Bob's proposals")
    return "as it should be"


def _after_others(w: World) -> Any:
    """Recall as Alice what she has asked before and what others asked first, in this process."""
    asked, new = "lighthouse parcel tea 灯塔", "Zora at the lighthouse, with tea?"
    before = w.alice.recall(asked, 1000)
    others = [w.store.for_user(f"user{n}", session=SHARED) for n in range(6)]
    for user in ([w.bob] if w.bob is not None else []) + others:
        for query in (asked, new):
            user.recall(query, 1000)
    if w.bob is not None:
        w.bob.put("note", "late", f"tea with Zora at the lighthouse {w.mark.latin}")
    after = w.alice.recall(asked, 1000)
    found = first_difference(texts(before), texts(after))
    demand(not found, f"the question has another answer once others have asked it: {found}")
    return [after, w.alice.recall(new, 1000)]


def _touched(w: World) -> Any:
    if w.bob is not None:
        before = w.bob.list()
        w.alice.touch(before)
        demand(w.bob.list() == before, "uses of another user's records were counted")
    else:  # the keys that both have are Alice's own to count
        both = (("preference", "style"), ("note", "parcel"))
        w.alice.touch([w.alice.get(*name) for name in both])
    return w.alice.list()


def _all_as_unknown(act: Callable[[str], Any], w: World) -> Any:
    return [_as_unknown(act, id) for id in w.theirs]


def _as_unknown(act: Callable[[str], Any], id: str) -> Any:
    """Return what `act` answers for an id, if it is what it answers for one that never was."""
    known, unknown = (
        [text.replace(each, "ID") for text in texts(outcome(act, each))] for each in (id, UNKNOWN)
    )
    found = first_difference(known, unknown)
    demand(not found, f"it answers an unknown id otherwise: {found}")
    return known


# The agent, views and panels --------------------------------------------------------------------


def _agent(w: World) -> None:
    model = ScriptedModel(
        [
            [
                call("memory_get", kind="preference", key="style"),
                call("memory_get", kind="note", key="cellar"),
                call("memory_search", query="lighthouse"),
                call("memory_search", query="", limit=10),
                call("memory_recall", query="lighthouse parcel 灯塔 Zora tea", limit=10),
            ],
            [
                call("memory_put", kind="decision", key="engine", value="use PostgreSQL"),
                call("memory_put", kind="decision", key="colour", value="dark"),
                call("memory_delete", kind="note", key="cellar"),
                call("memory_get", kind="note", key="cellar", user=f"bob-{w.mark.small}"[:3]),
                call("memory_dump"),
                call("write_demo_file", path="../state/memory.sqlite3", content="x"),
            ],
            say("That is all I know."),
            say("Nothing new."),
        ]
    )
    agent = MemoryAgent(w.alice, model, workspace=w.folder / "work")
    answers: list[Answer] = []

    with w.path("agent.answer", "All that an answer holds is of one user"):
        for task in ("What of the parcel, the lighthouse and Zora?", "Anything else, 灯塔?"):
            answers.append(apart(asyncio.run, agent.ask(task)))
        w.sees(answers)
    with w.path("agent.requests", "No request to a model holds another user's text"):
        w.sees(some(model.requests))
    with w.path("agent.results", "No tool's result holds another user's text"):
        w.sees(some([step.results for answer in answers for step in answer.steps]))
    with w.path("agent.history", "What was said before is of this user"):
        w.sees(some(agent.history))
    with w.path("agent.attributes", "An agent keeps no owner's hand, even privately"):
        w.sees(without_hand(agent), without_hand(agent, private=True))
    with w.path("agent.files", "An agent leaves no file of another user's"):
        w.sees(sorted(path.name for path in (w.folder / "work").rglob("*")))
    with w.path("format_context", "A block for another prompt holds the user's own records"):
        w.sees(some(format_context(w.alice.recall("parcel tea 灯塔", 10), 4000, w.clock.now)))
    with w.path("views.records", "The table of records"):
        w.sees(views.records(w.alice))
    with w.path("views.hits", "The table of what was recalled"):
        w.sees(views.hits(some(w.alice.recall("parcel tea lighthouse 灯塔"))))
    with w.path("views.ledger", "The table of decisions"):
        w.sees(views.ledger(w.alice))
    with w.path("views.requests", "The table of requests"):
        w.sees(views.requests(answers))
    with w.path("views.figures", "The figures, their labels and their text alternatives"):
        w.sees(views.plot_requests(answers), views.plot_retention(w.alice, OLD))
    with w.path("panel", "All that the approval panel shows is of one user"):
        w.sees(_shown(w.alice))
    with w.path("panel.other_id", "The panel answers another's id as one that never was"):
        w.sees(_all_as_unknown(panel_of(w.alice).approve, w))


def _shown(alice: UserMemory) -> list[str]:
    """Return all that a panel shows, with one card in its editor and one decided."""
    panel = panel_of(alice)
    first, *more = some([child for child in panel.children if hasattr(child, "edit_button")])
    first.edit_button.click()
    if more:
        more[0].reject_button.click()
    return [repr(panel), *(value for _, _, value in markup(panel))]


# The command line -------------------------------------------------------------------------------


def _command_line(w: World) -> None:
    run, done = w.command, w.done
    w.store.close()
    for argv in (
        *(("get", "preference", "style"), ("get", "note", "cellar"), ("search", "lighthouse")),
        *(("search", ""), ("recall", "lighthouse parcel 灯塔 Zora"), ("list",)),
        *(("history", "preference", "style"), ("history", "note", "cellar"), ("export",)),
        *(("verify",), ("forget", "--confirm"), ("approve",)),
    ):
        name = "_".join(part for part in argv if part.isascii() and part.isalpha())
        if argv[0] == "forget":
            with w.path("cli.forget_preview", "`memlab forget` lists the user's own"):
                w.sees(run("forget"))
        with w.path(f"cli.{name}", f"`memlab {' '.join(argv)}` prints the user's own"):
            w.sees(done(*argv))
    with w.path("cli.stats", "`memlab stats` counts one's own, and of all prints numbers only"):
        printed = done("stats")
        demand(not w.mark.within(printed), f"another user's mark: {printed}")
        w.sees(json.loads(printed.split("\n", 1)[1])["user"])
    for name in ("approve", "reject"):
        with w.path(f"cli.{name}_other_id", f"`memlab {name}` takes another's id as unknown"):
            w.sees(_all_as_unknown(partial(run, name, "--confirm"), w))
    with w.path("cli.delete", "`memlab delete` finds no record of another user"):
        w.sees(done("delete", "note", "cellar", "--confirm"))
    with w.path("cli.put", "`memlab put` answers with the user's own record"):
        w.sees(
            done("put", "note", "cellar", "a new cellar", "--confirm"), run("put", "x", "y", "z")
        )
    with w.path("cli.chat", "`memlab chat` answers from the user's own memories"):
        w.sees(run("chat", "--task", "What do you know of the lighthouse parcel, 灯塔 and Zora?"))
    with w.path("cli.errors", "A refused command tells nothing that is stored"):
        w.sees(run("dump"))


def _wide(text: str) -> str:
    """Return ASCII in its full-width form."""
    return "".join(chr(ord(char) + 0xFEE0) for char in text)


SECTIONS: tuple[Callable[[World], None], ...] = (
    *(_reading, _deciding, _meaning, _agent, _command_line),
)
