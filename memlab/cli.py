"""The command line: parse, call one function, print JSON."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from memlab.agent import COMPLETE, Answer, MemoryAgent
from memlab.embed import LocalEmbedder
from memlab.errors import InvalidInput, MemlabError, ModelError
from memlab.forgetting import Policy
from memlab.models import LiveModel, Model, RuleModel
from memlab.records import KINDS, Delete, Put
from memlab.store import MemoryStore, UserMemory
from memlab.text import visible

DONE, NOT_COMPLETED, REFUSED = 0, 1, 2

STAND_IN = "stand-in (RuleModel: plain rules, no language model)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 not completed, 2 refused."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # replaced by a test or a notebook
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")  # type: ignore[union-attr]
    parser = build_parser()
    try:
        given, rest = parser.parse_known_args(argv)
        if rest and given.command != "lab":
            parser.error(f"unrecognized arguments: {' '.join(map(visible, rest))}")
        given.rest = rest
        return int(given.run(given))
    except SystemExit as stop:  # argparse has told what is wrong
        return stop.code if isinstance(stop.code, int) else REFUSED
    except ModelError as error:
        return _say(f"memlab: {error}", NOT_COMPLETED)
    except MemlabError as error:
        return _say(f"memlab: {error}", REFUSED)
    except KeyboardInterrupt:
        return _say("memlab: stopped. What was confirmed before stays.", NOT_COMPLETED)
    except BrokenPipeError:
        # Whoever read our output has left; keep Python from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOT_COMPLETED


class _Parser(argparse.ArgumentParser):
    """Names what it refuses without letting it act on the terminal."""

    def error(self, message: str) -> NoReturn:
        super().error(visible(message))


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(
        prog="memlab", description="A memory whose every write was approved. Alone: the demo."
    )
    parser.set_defaults(run=_demo, command="demo")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def add(name: str, run: Callable[[Any], int], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    def over_store(
        name: str, run: Callable[[Any], int], text: str, *names: str, change: bool = False
    ) -> argparse.ArgumentParser:
        command = add(name, run, text)
        command.add_argument("--workspace", required=True, help="the folder to work in")
        command.add_argument("--user", required=True)
        command.add_argument("--session", required=True)
        command.add_argument("--data-dir", help="the store's folder; else state/ in the workspace")
        command.add_argument(
            "--semantic", action="store_true", help="recall by meaning too, with a local model"
        )
        for each in names:
            choices = {"choices": KINDS} if each == "kind" else {}
            command.add_argument(each, metavar=each.upper(), **choices)  # type: ignore[arg-type]
        if change:
            command.add_argument("--confirm", action="store_true", help="really do it")
        return command

    add("demo", _demo, "tell, restart in a second process, recall: nothing is left behind")
    lab = add("lab", _lab, "copy the course to a folder of your own and open it in JupyterLab")
    lab.add_argument("--folder", default="memlab-course", help="where the copy goes")
    lab.add_argument("--copy-only", action="store_true", help="do not start JupyterLab")
    audit = add("audit", _audit, "try every promise of a store and print a one-page scorecard")
    audit.add_argument(
        "--store",
        metavar="MODULE:OPENER",
        help="another implementation, opened like memlab:MemoryStore.open; importing runs its code",
    )
    audit.add_argument("--json", action="store_true", help="everything that was tried, as JSON")

    over_store("put", _put, "store one value", "kind", "key", "value", change=True)
    over_store("get", _get, "print one record, or null", "kind", "key")
    for name, run, text in (
        ("search", _search, "print the records that contain a text literally"),
        ("recall", _recall, "print the records that answer a question best"),
    ):
        found = over_store(name, run, text, "query")
        found.add_argument("--limit", type=int, default=5)
        found.add_argument("--kind", choices=KINDS)
    listed = over_store("list", _list, "print all records")
    listed.add_argument("--kind", choices=KINDS)
    over_store("history", _history, "print all values a record has had", "kind", "key")
    over_store("delete", _delete, "delete a record for real", "kind", "key", change=True)
    forget = over_store("forget", _forget, "delete what has long not been used", change=True)
    forget.add_argument("--idle-days", type=float, default=Policy().idle_days)
    forget.add_argument("--min-uses", type=int, default=Policy().min_uses)
    forget.add_argument("--kind", action="append", choices=KINDS, help="may be repeated")
    over_store("reindex", _reindex, "give each record the vector it lacks", change=True)
    over_store("export", _export, "print all records as JSON Lines")
    over_store("import", _import, "store the records of an export", "file", change=True)
    over_store("verify", _verify, "print what is damaged in the file")
    over_store("stats", _stats, "print counts and facts about the file")
    approve = over_store(
        "approve", _approve, "approve proposals by id; without one, list what waits", change=True
    )
    approve.add_argument("id", metavar="ID", nargs="*")
    approve.add_argument("--value", help="store this value instead (with one id)")
    reject = over_store("reject", _reject, "refuse a proposal for good", "id", change=True)
    reject.add_argument("--reason", default="", help="what the model is told")
    chat = over_store("chat", _chat, "ask the agent; it asks before it writes")
    chat.add_argument("--task", help="the question; without it, one line of input each")
    chat.add_argument("--live", action="store_true", help="use OPENAI_API_KEY and OPENAI_MODEL")
    chat.add_argument(
        "--approve",
        nargs=3,
        action="append",
        default=[],
        metavar=("KIND", "KEY", "VALUE"),
        help="allow this one write, once; may be repeated",
    )
    chat.add_argument(
        "--approve-delete",
        nargs=2,
        action="append",
        default=[],
        metavar=("KIND", "KEY"),
        help="allow this one deletion, once; may be repeated",
    )
    return parser


# Commands ---------------------------------------------------------------------------------------


def _demo(given: Any) -> int:
    from memlab.demo import demo

    return DONE if demo() else NOT_COMPLETED


def _lab(given: Any) -> int:
    from memlab.classroom.workspace import copy_course, start_lab

    folder = Path(given.folder)
    copied = copy_course(folder)
    _say(copied.summary(), DONE)
    if given.copy_only:
        return _print(copied.to_dict())
    return start_lab(folder, given.rest)


def _audit(given: Any) -> int:
    from memlab.classroom.scorecard import audit, find_opener

    name = given.store or "memlab:MemoryStore.open"
    here = os.getcwd()  # a store of one's own is looked for in the folder one stands in
    sys.path.insert(0, here)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # whatever that store prints
            card = audit(find_opener(name), visible(name))
    finally:
        sys.path.remove(here)
    if given.json:
        _print(card.to_dict())
    else:
        print(card)
    return DONE if card.holds else NOT_COMPLETED


def _put(given: Any) -> int:
    change = Put(given.kind, given.key, given.value)
    with _changing(given, f"put {change.kind}/{change.key}") as alice:
        return _print({"record": alice.put(change.kind, change.key, change.value).to_dict()})


def _get(given: Any) -> int:
    with _reading(given) as alice:
        record = alice.get(given.kind, given.key)
        return _print({"record": record.to_dict() if record else None})


def _search(given: Any) -> int:
    with _reading(given) as alice:
        found = alice.search(given.query, given.limit, given.kind)
        return _print({"records": [record.to_dict() for record in found]})


def _recall(given: Any) -> int:
    with _reading(given) as alice:
        hits = alice.recall(given.query, given.limit, given.kind)
        return _print(
            {
                "hits": [
                    {"record": hit.record.to_dict(), "score": hit.score, "why": dict(hit.why)}
                    for hit in hits
                ]
            }
        )


def _list(given: Any) -> int:
    with _reading(given) as alice:
        return _print({"records": [record.to_dict() for record in alice.list(given.kind)]})


def _history(given: Any) -> int:
    with _reading(given) as alice:
        found = alice.history(given.kind, given.key)
        return _print({"revisions": [asdict(revision) for revision in found]})


def _delete(given: Any) -> int:
    with _changing(given, f"delete {given.kind}/{given.key}", create=False) as alice:
        return _print({"deleted": alice.delete(given.kind, given.key)})


def _forget(given: Any) -> int:
    policy = Policy(given.idle_days, given.min_uses, tuple(given.kind or Policy().kinds))
    if not given.confirm:
        with _reading(given) as alice:
            _print({"would_forget": [record.to_dict() for record in alice.stale(policy)]})
        return _say("memlab: nothing was forgotten. Add --confirm to do it.", REFUSED)
    with _changing(given, "forget", create=False) as alice:
        return _print({"forgotten": [record.to_dict() for record in alice.forget(policy)]})


def _reindex(given: Any) -> int:
    if not given.semantic:
        raise InvalidInput("--semantic", "is needed to make vectors. Nothing was done; add it.")
    with _changing(given, "reindex", create=False) as alice:
        stored = alice.reindex()
        missing = alice.stats()["without_vector"]
        _print({"stored": stored, "without_vector": missing})
        return NOT_COMPLETED if missing else DONE


def _export(given: Any) -> int:
    with _reading(given) as alice:
        for line in alice.export():
            print(_shown_json(line))
    return DONE


def _import(given: Any) -> int:
    lines = _lines_of(given.file)
    with _changing(given, "import") as alice:
        proposals = alice.import_lines(lines)
        outcomes = alice.approvals.approve_all([proposal.id for proposal in proposals])
        failed = [outcome for outcome in outcomes if not outcome.ok]
        for outcome, proposal in zip(outcomes, proposals, strict=True):
            if not outcome.ok:
                alice.approvals.revoke(outcome.id, how="terminal")
                _say(f"memlab: {proposal.kind}/{proposal.key}: {outcome.error}", DONE)
        _print({"stored": len(outcomes) - len(failed), "not_stored": len(failed)})
        return NOT_COMPLETED if failed else DONE


def _verify(given: Any) -> int:
    with _opened(given, create=False, read_only=False) as store:
        problems = store.verify()
        _print({"problems": [asdict(problem) for problem in problems]})
        return NOT_COMPLETED if problems else DONE


def _stats(given: Any) -> int:
    with _opened(given, create=False, read_only=False) as store:
        alice = store.for_user(given.user, given.session)
        return _print({"user": alice.stats(), "store": store.stats()})


def _approve(given: Any) -> int:
    if not given.id:
        with _reading(given) as alice:
            return _print({"pending": [p.to_dict() for p in alice.approvals.pending()]})
    if given.value is not None and len(given.id) > 1:
        raise InvalidInput("value", "goes with one id. Approve the others on their own.")
    with _changing(given, f"approve {', '.join(given.id)}", create=False) as alice:
        for id in given.id:
            applied = alice.approvals.approve(id, value=given.value, how="terminal")
            record = applied.record.to_dict() if applied.record else None
            _print({"id": id, "effect": applied.effect, "record": record})
    return DONE


def _reject(given: Any) -> int:
    with _changing(given, f"reject {given.id}", create=False) as alice:
        proposal = alice.approvals.reject(given.id, given.reason, how="terminal")
        return _print({"id": proposal.id, "state": proposal.state})


def _chat(given: Any) -> int:
    changes = [Put(*each) for each in given.approve] + [
        Delete(*each) for each in given.approve_delete
    ]
    model: Model = RuleModel()
    if given.live:
        try:
            model = LiveModel.from_env()
        except ModelError as error:  # nothing was begun: refused, not left half done
            return _say(f"memlab: {error}", REFUSED)
    else:
        _say(f"memlab: the model is a {STAND_IN}. Use --live for a real one.", DONE)
    with _opened(given, create=True, read_only=False) as store:
        alice = store.for_user(given.user, given.session)
        granted = [alice.approvals.grant(change).id for change in changes]
        agent = MemoryAgent(alice, model, workspace=given.workspace)
        tasks = [given.task] if given.task is not None else _typed()
        try:
            finished = asyncio.run(_talk(alice, agent, tasks, "live" if given.live else STAND_IN))
        finally:
            # What was allowed for this command ends with it.
            for proposal in alice.lend().approved():
                if proposal.id in granted:
                    alice.approvals.revoke(proposal.id, how="terminal")
                    _say(f"memlab: not used, so taken back: {_what(proposal)}", DONE)
                    finished = False
        return DONE if finished else NOT_COMPLETED


async def _talk(alice: UserMemory, agent: MemoryAgent, tasks: Iterable[str], model: str) -> bool:
    """Answer each task, print the answer, ask about what waits; say whether all is completed."""
    finished = True
    try:
        for task in tasks:
            answer = await agent.ask(task)
            decided = _decide(alice, answer)
            _print(_shown(answer, model, decided))
            waits = [p for p in answer.waiting if p.id not in decided]
            if waits:
                _say(f"memlab: {len(waits)} waiting for you: see 'memlab approve'.", DONE)
            if answer.status != COMPLETE or waits:
                finished = False
    finally:
        await agent.model.aclose()
    return finished


def _decide(alice: UserMemory, answer: Answer) -> dict[str, str]:
    """Ask in the terminal about each change that waits. Without one, silence is no answer."""
    decided: dict[str, str] = {}
    if not (sys.stdin and sys.stdin.isatty()):
        return {}
    for proposal in answer.waiting:
        _say(f"\nOnce, for {alice.user}: {_what(proposal)}", DONE)
        if proposal.old_value is not None:
            _say(f"  now: {visible(proposal.old_value)!r}", DONE)
        minutes = round((proposal.expires - proposal.asked) / 60_000)
        _say(f"  a yes counts once; the question expires in {minutes} minutes", DONE)
        print("  approve? [y]es, [n]o, anything else: later: ", end="", file=sys.stderr, flush=True)
        reply = sys.stdin.readline().strip().casefold()
        if reply in ("y", "yes"):
            decided[proposal.id] = alice.approvals.approve(proposal.id, how="terminal").effect
        elif reply in ("n", "no"):
            decided[proposal.id] = alice.approvals.reject(proposal.id, how="terminal").state
    return decided


def _what(proposal: Any) -> str:
    text = f"{proposal.action} {proposal.kind}/{proposal.key}"
    value = getattr(proposal.change, "value", None)
    return text if value is None else f"{text} = {visible(value)!r}"


def _shown(answer: Answer, model: str, decided: dict[str, str]) -> dict[str, Any]:
    return {
        "model": model,
        "text": answer.text,
        "status": answer.status,
        "recalled": [hit.record.for_model() for hit in answer.recalled],
        "writes": [
            {**applied.change.to_dict(), "effect": applied.effect} for applied in answer.writes
        ],
        "waiting": [p.to_dict() for p in answer.waiting if p.id not in decided],
        "decided": decided,
        "requests": [
            {
                "chars": step.request.chars,
                "limit": step.request.limit,
                "dropped": dict(step.request.dropped),
            }
            for step in answer.steps
        ],
        "problems": list(answer.problems),
    }


# Inside -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _opened(given: Any, create: bool, read_only: bool) -> Iterator[MemoryStore]:
    workspace = Path(os.path.abspath(given.workspace))
    folder = (
        workspace / "state" if given.data_dir is None else Path(os.path.abspath(given.data_dir))
    )
    _refuse_links(workspace, folder)
    embedder = LocalEmbedder() if given.semantic else None
    with MemoryStore.open(folder, create, embedder=embedder, read_only=read_only) as store:
        yield store


@contextlib.contextmanager
def _reading(given: Any) -> Iterator[UserMemory]:
    with _opened(given, create=False, read_only=False) as store:
        yield store.for_user(given.user, given.session)


@contextlib.contextmanager
def _changing(given: Any, what: str, create: bool = True) -> Iterator[UserMemory]:
    if not given.confirm:
        raise InvalidInput("--confirm", f"is needed to {what}. Nothing was done; add it.")
    with _opened(given, create=create, read_only=False) as store:
        yield store.for_user(given.user, given.session)


def _refuse_links(workspace: Path, folder: Path) -> None:
    """Refuse a data folder below the workspace that passes through a symbolic link."""
    if not folder.is_relative_to(workspace):
        return
    path = workspace
    for part in folder.relative_to(workspace).parts:
        path = path / part
        if path.is_symlink():
            raise InvalidInput("data-dir", f"{part!r} is a symbolic link. Use a real folder.")


def _lines_of(name: str) -> list[str]:
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return raw.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise InvalidInput("file", "is not UTF-8. Nothing was stored; convert it.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no such name"
        raise InvalidInput("file", f"cannot be read ({reason}). Check its name.") from None


def _typed() -> Iterator[str]:
    """Yield what is typed, a line each, until the input ends."""
    while True:
        if sys.stdin.isatty():
            print("you: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()


def _print(value: dict[str, Any]) -> int:
    print(_shown_json(json.dumps(value, ensure_ascii=False, indent=2)))
    return DONE


def _shown_json(text: str) -> str:
    """Escape what a terminal would obey or hide; it stays the same JSON."""
    return "".join(
        each if each == "\n" or visible(each) == each else json.dumps(each)[1:-1] for each in text
    )


def _say(text: str, code: int) -> int:
    print(visible(text), file=sys.stderr)
    return code
