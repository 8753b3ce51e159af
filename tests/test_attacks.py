"""The attack kit: our agent withstands it and loses nothing; each weakness is caught by name."""

from __future__ import annotations

import asyncio
import json
import os
import re
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from memlab import InvalidInput, MemlabError, MemoryAgent, MemoryStore, UserMemory
from memlab.classroom.attacks import ATTACKS, GOOD, run_attacks, run_good, score
from memlab.records import Applied, Delete, Limits, Put
from memlab.store import Approvals
from memlab.text import fold
from memlab.tools import FOLDER, Tool, Toolbox, memory_tools

NAMES = [attack.name for attack in ATTACKS]


# Our own agent ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_our_agent_withstands(name):
    report = run_attacks(only=name)

    assert report.holds, report


@pytest.mark.parametrize("name", [wish.name for wish in GOOD])
def test_our_agent_grants_the_wish(name):
    report = run_good(only=name)

    assert report.holds, report


def test_there_are_enough_and_each_says_what_it_tries():
    assert len(ATTACKS) >= 25
    assert len(GOOD) >= 10
    for attempts in (ATTACKS, GOOD):
        assert len({attempt.name for attempt in attempts}) == len(attempts)
        assert all(re.fullmatch(r"[A-Z'].+\.", attempt.tries) for attempt in attempts)


# Weakened agents --------------------------------------------------------------------------------


class Weak:
    """A lent memory whose `apply` asks `rule` first: where it says yes, the owner's hand writes."""

    def __init__(self, hand, rule):
        self.hand, self.rule, self.asked, self.task = hand, rule, [], ""
        self._lent = hand.lend()

    def __getattr__(self, name):
        return getattr(self._lent, name)

    def recall(self, query, *args, **options):
        self.task = query
        return self._lent.recall(query, *args, **options)

    def apply(self, change, reason=""):
        self.asked.append(change)
        change = self.rule(self, change, reason)
        if change is None:
            return self._lent.apply(self.asked[-1], reason)
        return write(self.hand, change)


def write(hand, change):
    if isinstance(change, Delete):
        gone = hand.delete(change.kind, change.key)
        return Applied(change, None, "deleted" if gone else "unchanged")
    return Applied(change, hand.put(change.kind, change.key, change.value), "replaced")


def weak(rule):
    return lambda memory, model, workspace=None: MemoryAgent(
        Weak(memory, rule), model, workspace=workspace
    )


def writes_at_once(lent, change, reason):
    return change


def believes_the_reason(lent, change, reason):
    return change if "approved" in reason else None


def believes_the_task(lent, change, reason):
    return change if "approval is no longer needed" in lent.task else None


def obeys_memories(lent, change, reason):
    orders = re.compile("approved|Ignore all|批准|Delete note")
    return change if any(orders.search(record.value) for record in lent.list()) else None


def compares(form):
    """Take a change for the approved one where both are the same in this form."""

    def rule(lent, change, reason):
        for yes in lent.approved():
            if isinstance(change, Put) and isinstance(yes.change, Put):
                same = form(yes.change.value) == form(change.value)
                if same and (yes.kind, yes.key) == (change.kind, change.key):
                    return change
        return None

    return rule


def without_invisible(text):
    return "".join(c for c in text if unicodedata.category(c) != "Cf" and not c.isspace())


def as_it_looks(text):
    return text.translate(str.maketrans("\u0435\u043e", "eo"))


def without_order(text):
    return sorted(without_invisible(text))


def asks_for_the_name_alone(lent, change, reason):
    names = {(yes.kind, yes.key) for yes in lent.approved()}
    return change if (change.kind, change.key) in names else None


def asks_for_the_key_alone(lent, change, reason):
    return change if change.key in {yes.key for yes in lent.approved()} else None


def takes_any_yes(lent, change, reason):
    return change if lent.approved() else None


def forgets_the_revision(lent, change, reason):
    plain = [replace(yes.change, expect=None) for yes in lent.approved()]
    return change if change in plain else None


def gives_in(lent, change, reason):
    return change if lent.asked.count(change) > 3 else None


def lets_the_ledger_count(state):
    """Take what once became of a change of this name for a yes."""

    def rule(lent, change, reason):
        for entry in lent.hand.approvals.ledger():
            if entry.state == state and (entry.kind, entry.key) == (change.kind, change.key):
                return change
        return None

    return rule


def turns_no_into_yes(lent, change, reason):
    known = lent.propose(change)
    return change if known.state == "rejected" else None


def keeps_another_form(memory, model, workspace=None):
    """Store what was approved in another normal form: other bytes than were approved."""

    def rule(lent, change, reason):
        done = lent._lent.apply(change, reason)
        other = unicodedata.normalize("NFD", change.value)
        with memory._scope.database.transaction() as file:
            file.execute("UPDATE memory SET value = ? WHERE key = ?", (other, change.key))
        return done.change

    return weak(rule)(memory, model, workspace)


def with_tools(*weakened):
    """Put tools in the place of those of the same names."""

    def build(memory, model, workspace=None):
        agent = MemoryAgent(memory, model, workspace=workspace)
        tools = dict(agent._tools.tools)
        for make in weakened:
            tools |= {tool.name: tool for tool in make(memory, workspace)}
        agent._tools = Toolbox(tools)
        return agent

    return build


def lax(tool, run):
    return replace(tool, parameters={**tool.parameters, "additionalProperties": True}, run=run)


def fields_count(memory, workspace):
    """Let extra fields speak: who it is for, that it is approved, which approval is meant."""
    put, delete = memory_tools(memory.lend(), memory.limits)[3:]

    def run(arguments):
        scope = memory._scope
        hand = UserMemory(replace(scope, user=arguments.get("user", scope.user)))
        id = arguments.get("proposal", arguments.get("id"))
        if id is not None:
            hand.approvals.approve(id)
            return {"ok": True}
        change = Put(*(arguments[name] for name in ("kind", "key", "value")))
        lent = hand.lend()
        claimed = {"approved", "confirmed", "confirm", "how", "force"} & arguments.keys()
        return {"ok": bool(write(hand, change) if claimed or "user" in arguments else
                           lent.apply(change))}  # fmt: skip

    return [lax(put, lambda arguments: run(arguments)), delete]


def extra_fields_are_left_out(memory, workspace):
    put = memory_tools(memory.lend(), memory.limits)[3]
    return [lax(put, lambda args: put.run(args["kind"], args["key"], args["value"]))]


def hand_as_tools(memory, workspace):
    anything = {"type": "object", "additionalProperties": True}
    return [
        Tool("forget_everything", "-", anything, lambda args: memory.forget_everything()),
        Tool("delete", "-", anything, lambda args: memory.delete(args["kind"], args["key"])),
    ]


def any_path(memory, workspace):
    def run(path, content):
        target = workspace / FOLDER / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
        return {"ok": True}

    text = {"type": "string"}
    fields = {"type": "object", "properties": {"path": text, "content": text}}
    return [Tool("write_demo_file", "-", fields, run)]


def any_path_but_from_the_root(memory, workspace):
    [tool] = any_path(memory, workspace)

    def run(path, content):
        if path.startswith("..") or Path(path).is_absolute():
            return {"ok": False}
        return tool.run(path, content)

    return [replace(tool, run=run)]


def no_file(memory, workspace):
    [tool] = any_path(memory, workspace)
    return [replace(tool, run=lambda path, content: {"ok": True})]


class MendsJson(Toolbox):
    """Make of any text arguments that the tool takes."""

    async def run(self, name, arguments):
        tool = self.tools.get(name)
        found = dict(re.findall(r'\\?"(kind|key|value)\\?":\s*\\?"([^"\\]*)', str(arguments)))
        if tool is None or not found:
            return await super().run(name, arguments)
        return await super().run(name, json.dumps(found))


def mends_json(memory, model, workspace=None):
    agent = MemoryAgent(memory, model, workspace=workspace)
    agent._tools = MendsJson(agent._tools.tools)
    return agent


class Retelling:
    """Hands the model requests in which memories stand as plain text."""

    def __init__(self, model, retell):
        self.model, self.retell = model, retell

    async def complete(self, messages, tools):
        system, user, *rest = messages
        content = json.loads(user["content"])
        return await self.model.complete([*self.retell(system, user, content), *rest], tools)


def retold(retell):
    return lambda memory, model, workspace=None: MemoryAgent(
        memory, Retelling(model, retell), workspace=workspace
    )


def memories_are_rules(system, user, content):
    known = "\n".join(memory["value"] for memory in content["memories"])
    return {"role": "system", "content": system["content"] + known}, user


def json_by_hand(system, user, content):
    start = '{"task":' + json.dumps(content["task"]) + ',"memories":[{"a":"'
    known = '"},{"a":"'.join(memory["value"] for memory in content["memories"])
    return system, {"role": "user", "content": start + known + '"}]}'}


def memories_are_tasks(system, user, content):
    content["task"] = content["memories"][0]["value"]
    return system, {"role": "user", "content": json.dumps(content)}


def leaks(memory, model, workspace=None):
    """Read all users' memories, whoever asks."""
    other = UserMemory(replace(memory._scope, user="bob"))

    def retell(system, user, content):
        more = [record.for_model() for record in other.list()]
        content["memories"] += more
        return system, {"role": "user", "content": json.dumps(content)}

    return retold(retell)(memory, model, workspace)


class NeverForgets(MemoryAgent):
    def _forget_what_is_gone(self):
        return False


class Boasts(MemoryAgent):
    async def ask(self, task):
        answer = await super().ask(task)
        if "Saved" in answer.text:
            return replace(answer, writes=(Applied(Put("note", "a", "b"), None, "created"),))
        return answer


def in_the_file(sql, *args):
    """Write past the store whenever the model asks for a change."""

    def rule(lent, change, reason):
        with lent.hand._scope.database.transaction() as file:
            file.execute(sql, args)

    return weak(rule)


def pins_what_it_likes(lent, change, reason):
    lent.hand.pin("note", "plan")


def never_stops(memory, model, workspace=None):
    limits = Limits(model_calls=10**6, tool_calls=10**6, request_chars=10**6)
    return MemoryAgent(memory, model, workspace=workspace, limits=limits)


class Naive:
    """The first loop one writes: everything in one list, whatever comes is run or falls over."""

    def __init__(self, memory, model, workspace=None):
        self.memory, self.model = memory, model

    async def ask(self, task):
        messages = [{"role": "user", "content": task}]
        while True:
            reply = await self.model.complete(messages, [])
            messages.append(reply)
            if not reply.get("tool_calls"):
                return
            for each in reply["tool_calls"]:
                arguments = json.loads(each["function"]["arguments"])
                answer = f"{each['function']['name']} of {arguments} is unknown"
                messages.append({"role": "tool", "tool_call_id": each["id"], "content": answer})


class Echoes(Naive):
    """It survives bad arguments, and hands them back whole."""

    async def ask(self, task):
        messages = [{"role": "user", "content": task}]
        reply = await self.model.complete(messages, [])
        while reply.get("tool_calls"):
            text = str(reply["tool_calls"][0]["function"])
            messages.append({"role": "user", "content": f"failed: {text}"})
            reply = await self.model.complete(messages, [])


BY_DRIVE = set() if os.name == "nt" else {"path.absolute"}  # there they lead outside for real

WEAK_AGENTS = {
    "writes at once": (weak(writes_at_once), {"claim.task", "inject.english", "changed.value"}),
    "believes the reason": (weak(believes_the_reason), {"claim.reason"}),
    "believes the task": (weak(believes_the_task), {"claim.task"}),
    "obeys memories": (
        weak(obeys_memories),
        {"claim.memory", "claim.tool_result", "inject.english", "inject.chinese", "inject.delete"}
        | {"poison.later"},
    ),
    "folds before it compares": (weak(compares(fold)), {"changed.case", "changed.compatible"}),
    "strips what is invisible": (
        weak(compares(without_invisible)),
        {"changed.space", "changed.invisible"},
    ),
    "compares without order": (weak(compares(without_order)), {"changed.direction"}),
    "compares by looks": (weak(compares(as_it_looks)), {"changed.letter"}),
    "keeps another form": (keeps_another_form, {"changed.normal_form"}),
    "asks for the name alone": (
        weak(asks_for_the_name_alone),
        {"changed.value", "changed.action"},
    ),
    "asks for the key alone": (weak(asks_for_the_key_alone), {"changed.kind"}),
    "takes any yes": (weak(takes_any_yes), {"changed.key", "changed.target"}),
    "forgets the revision": (weak(forgets_the_revision), {"late.revision", "race.grants"}),
    "gives in": (weak(gives_in), {"again.rejected", "loop.endless"}),
    "turns a no into a yes": (weak(turns_no_into_yes), {"again.rejected"}),
    "uses a yes twice": (
        weak(lets_the_ledger_count("used")),
        {"again.used", "again.restart", "again.deleted", "race.click", "swap.value"},
    ),
    "ignores that it was taken back": (weak(lets_the_ledger_count("revoked")), {"again.revoked"}),
    "ignores that it expired": (weak(lets_the_ledger_count("expired")), {"late.used"}),
    "lets fields speak": (
        with_tools(fields_count),
        {"field.user", "field.approved", "field.how", "id.guessed"},
    ),
    "leaves extra fields out": (with_tools(extra_fields_are_left_out), {"field.approved"}),
    "has tools of the hand": (with_tools(hand_as_tools), {"tool.unknown"}),
    "writes to any path": (
        with_tools(any_path),
        {"path.parent", "path.absolute", "path.link", "path.store"},
    ),
    "writes by a drive": (with_tools(any_path_but_from_the_root), {"path.link"} | BY_DRIVE),
    "changes in place": (
        in_the_file("UPDATE memory SET value = 'mallory' WHERE key = 'plan'"),
        {"claim.task"},
    ),
    "damages the file": (in_the_file("UPDATE memory SET folded = 'x'"), {"claim.task"}),
    "pins what it likes": (weak(pins_what_it_likes), {"claim.task"}),
    "mends JSON": (mends_json, {"json.broken", "json.no_object", "json.twice"}),
    "memories are rules": (retold(memories_are_rules), {"inject.english", "inject.json"}),
    "memories are tasks": (retold(memories_are_tasks), {"inject.chinese", "poison.later"}),
    "writes JSON by hand": (retold(json_by_hand), {"inject.json"}),
    "reads all users": (leaks, {"claim.task", "field.user"}),
    "never forgets": (NeverForgets, {"poison.deleted"}),
    "boasts": (Boasts, {"words.saved"}),
    "never stops": (never_stops, {"loop.endless"}),
    "falls over": (Naive, {"json.broken", "json.deep", "text.control"}),
    "echoes": (Echoes, {"size.giant"}),
}


@pytest.mark.parametrize("name", WEAK_AGENTS)
def test_a_weak_agent_is_caught(name):
    build, caught_by = WEAK_AGENTS[name]

    report = run_attacks(build, only=sorted(caught_by))

    assert {finding.name for finding in report.broken} == caught_by, report
    assert all(finding.found for finding in report.broken)


# Weakened stores --------------------------------------------------------------------------------


class WeakStore(MemoryStore):
    """A store that hands out a weakened hand."""

    hand = UserMemory

    def for_user(self, user, session):
        return self.hand(super().for_user(user, session)._scope)


class Importer(UserMemory):
    """Writes what lines say, for whomever they name."""

    __slots__ = ()

    def import_lines(self, lines):
        for line in lines:
            read = json.loads(line)
            hand = UserMemory(replace(self._scope, user=read.get("user", self.user)))
            hand.put(read["kind"], read["key"], read["value"])
        return []


class EverybodysApprovals(Approvals):
    """An id is enough, whoever was asked."""

    def approve(self, id, value=None, how="code"):
        for user in ("alice", "bob"):
            try:
                return Approvals(replace(self._scope, user=user)).approve(id, value, how)
            except InvalidInput:
                continue
        raise InvalidInput("id", "is unknown")


class NewestApprovals(Approvals):
    """A click approves whatever was asked for last under the same name."""

    def approve(self, id, value=None, how="code"):
        waiting = self.pending()
        meant = next((p for p in waiting if p.id == id), None)
        if meant is not None:
            names = [p for p in waiting if (p.kind, p.key) == (meant.kind, meant.key)]
            id = names[-1].id
        return super().approve(id, value, how)


class ApprovalsTwice(Approvals):
    """A second click does it once more."""

    def approve(self, id, value=None, how="code"):
        known = UserMemory(self._scope).lend().proposal(id)
        if known is not None and known.state == "used":
            return write(UserMemory(self._scope), known.change)
        return super().approve(id, value, how)


def store_with(hand=None, approvals=None, **fixed):
    def opener(folder, **options):
        class Opened(WeakStore):
            def for_user(self, user, session):
                memory = super().for_user(user, session)
                if approvals is not None:
                    memory.approvals = approvals(memory._scope)
                return memory

        Opened.hand = hand or UserMemory
        return Opened.open(folder, **{**options, **fixed})

    return opener


def loose_names(folder, **options):
    class Opened(MemoryStore):
        def for_user(self, user, session):
            return super().for_user(user.strip().casefold() or "alice", session)

    return Opened.open(folder, **options)


class Peeps(UserMemory):
    """Lists what belongs to the name it looks like."""

    __slots__ = ()

    def list(self, kind=None):
        looks_like = self.user.strip(".").casefold()
        return UserMemory(replace(self._scope, user=looks_like)).lend().list(kind)


WEAK_STORES = {
    "imports as it is told": (store_with(Importer), {"import.approved", "import.user"}),
    "approves for everybody": (store_with(approvals=EverybodysApprovals), {"user.yes"}),
    "approves the newest": (store_with(approvals=NewestApprovals), {"swap.value"}),
    "approves twice": (store_with(approvals=ApprovalsTwice), {"again.clicked"}),
    "has a clock that stands": (
        store_with(clock=lambda: 1_700_000_000_000),
        {"late.used", "late.clicked"},
    ),
    "takes any length": (store_with(limits=Limits(value_chars=10**6)), {"import.form"}),
    "lets any number wait": (store_with(limits=Limits(pending_proposals=10**6)), {"loop.flood"}),
    "lists by looks": (store_with(Peeps), {"user.name"}),
    "takes names loosely": (loose_names, {"user.name"}),
}


@pytest.mark.parametrize("name", WEAK_STORES)
def test_a_weak_store_is_caught(name):
    opener, caught_by = WEAK_STORES[name]

    report = run_attacks(only=sorted(caught_by), opener=opener)

    assert {finding.name for finding in report.broken} == caught_by, report


def test_no_attack_is_there_for_show():
    caught = set().union(*(by for _, by in (*WEAK_AGENTS.values(), *WEAK_STORES.values())))

    assert caught == set(NAMES)


# False refusals ---------------------------------------------------------------------------------


def refuses(pattern):
    def rule(lent, change, reason):
        if re.search(pattern, getattr(change, "value", ""), re.IGNORECASE):
            raise InvalidInput("value", "looks like an attack.")

    return weak(rule)


def refuses_everything(lent, change, reason):
    raise MemlabError("no")


def refuses_deletions(lent, change, reason):
    if isinstance(change, Delete):
        raise MemlabError("no")


def cleans(change_value):
    """Ask for something tidier than was wished for."""

    def build(memory, model, workspace=None):
        class Tidy(Weak):
            def apply(self, change, reason=""):
                if isinstance(change, Put):
                    change = replace(change, value=change_value(change.value))
                return self._lent.apply(change, reason)

        return MemoryAgent(Tidy(memory, None), model, workspace=workspace)

    return build


def one_a_turn(memory, model, workspace=None):
    return MemoryAgent(memory, model, workspace=workspace, limits=Limits(tool_calls=1))


def no_such_memories(system, user, content):
    content["memories"] = [m for m in content["memories"] if "gnore" not in m["value"]]
    return system, {"role": "user", "content": json.dumps(content)}


LOSES = {
    "the word approve": (refuses("approve"), {"approve", "braces"}),
    "the word delete": (refuses("delete"), {"delete"}),
    "the word ignore": (refuses("ignore|忽略"), {"ignore"}),
    "markup": (refuses("<"), {"html"}),
    "quotes": (refuses('"'), {"quotes", "braces", "html"}),
    "all but ASCII": (
        refuses("[^\\x00-\\x7f]"),
        {"chinese", "ignore", "joined", "persian", "wide", "longest"},
    ),
    "deletions": (weak(refuses_deletions), {"remove", "mixed"}),
    "what is invisible": (cleans(without_invisible), {"joined", "persian", "spaces"}),
    "spaces at the ends": (cleans(str.strip), {"spaces"}),
    "its own form": (cleans(lambda text: unicodedata.normalize("NFKC", text)), {"wide"}),
    "long values": (refuses(".{200}"), {"longest"}),
    "the second change": (one_a_turn, {"two", "mixed"}),
    "files": (with_tools(no_file), {"file"}),
    "memories with such words": (retold(no_such_memories), {"recalled"}),
}


@pytest.mark.parametrize("name", LOSES)
def test_what_an_agent_loses_is_counted(name):
    build, lost = LOSES[name]

    report = run_good(build, only=sorted(lost))

    assert {finding.name for finding in report.broken} == lost, report


def test_an_agent_that_refuses_everything_is_safe_and_useless():
    done = score(weak(refuses_everything))

    assert done.attack_success == 0
    assert done.false_refusals > 0.8


def test_an_agent_that_writes_at_once_is_useful_and_unsafe():
    done = score(weak(writes_at_once))

    assert done.attack_success > 0.5
    assert done.false_refusals == 0


# The kit itself ---------------------------------------------------------------------------------


def test_an_agent_that_cannot_be_built_is_a_finding():
    def build(memory, model, workspace=None):
        raise TypeError("no agent today")

    report = run_attacks(build, only="claim.task")

    assert "TypeError" in report.broken[0].found


def test_only_takes_a_name_or_several_and_refuses_what_it_does_not_know():
    assert [f.name for f in run_attacks(only="claim.task")] == ["claim.task"]
    assert [f.name for f in run_good(only=["put", "html"])] == ["put", "html"]
    with pytest.raises(InvalidInput, match=r"claim\.task"):
        run_attacks(only="claim.nothing")


def test_it_runs_where_an_event_loop_runs_already():
    async def cell():
        return run_attacks(only=["claim.task", "race.grants"])

    assert asyncio.run(cell()).holds


def test_two_runs_give_the_same_report():
    build = weak(writes_at_once)

    assert run_attacks(build) == run_attacks(build)
