"""The five-minute demo: two real processes, one memory, another user's secret that stays secret."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from memlab.agent import MemoryAgent
from memlab.errors import MemlabError
from memlab.models import RuleModel
from memlab.records import Put
from memlab.store import MemoryStore
from memlab.tools import FOLDER

WISH = Put("preference", "answer_style", "Short answers, and one example each.")
FACT = Put("project", "garden", "The garden project has 12 beds and a water tank.")
DECOY = "Never give an example; write long essays."

FIRST_TASK = "Please write a small program that shows how I like my answers."
SECOND_TASK = "How many beds does my garden project have?"


def demo() -> bool:
    """Run both phases, check every claim against what really happened, and print each."""
    with tempfile.TemporaryDirectory(prefix="memlab-demo-") as name:
        workspace = Path(name)
        with MemoryStore.open(workspace / "state", create=True) as store:
            bob = store.for_user("bob", session="earlier")
            bob.put(WISH.kind, WISH.key, DECOY)
        first = _child("first", workspace)
        second = _child("second", workspace)
        program = workspace / FOLDER / "app.py"
        printed = _python(str(program), cwd=workspace) if program.exists() else ""
        with MemoryStore.open(workspace / "state") as store:
            alice = store.for_user("alice", session="looking")
            ledger = alice.approvals.ledger()
            kept = {record.value for record in alice.list()}
            decoy_kept = [r.value for r in store.for_user("bob", session="x").list()] == [DECOY]
    sent = first["requests"] + second["requests"]
    claims = [
        (
            f"Two processes, one after the other: {first['pid']}, then {second['pid']}.",
            len({first["pid"], second["pid"], os.getpid()}) == 3,
        ),
        (
            "The first stored two records, each approved before it was written.",
            kept == {WISH.value, FACT.value}
            and [(entry.state, entry.how) for entry in ledger] == [("used", "granted")] * 2,
        ),
        (
            "The second, a new session, had both in its request and answered from them:\n"
            f"    {second['text']}",
            WISH.value in second["text"]
            and FACT.value in second["text"]
            and all(each.value in second["requests"][0] for each in (WISH, FACT)),
        ),
        (
            f"Another user's contrary wish is in the same file and in none of the {len(sent)} "
            "requests sent.",
            decoy_kept and not any(DECOY in request for request in sent),
        ),
        (
            f"The program that the first wrote runs, and prints: {printed!r}",
            WISH.value in printed,
        ),
        *(
            (
                f"Largest request of the {name} phase: {phase['largest']} of {phase['limit']} "
                "characters.",
                0 < phase["largest"] <= phase["limit"],
            )
            for name, phase in (("first", first), ("second", second))
        ),
        ("The folder is gone; nothing is left behind.", not workspace.exists()),
    ]
    print("The model is a stand-in that follows plain rules; the store and the processes are real.")
    for text, holds in claims:
        print(f"{'Holds.         ' if holds else 'DOES NOT HOLD. '}{text}")
    return all(holds for _, holds in claims)


async def phase(name: str, workspace: Path) -> dict[str, Any]:
    """Ask one question in this process, and return what was sent and answered."""
    with MemoryStore.open(workspace / "state") as store:
        alice = store.for_user("alice", session=name)
        if name == "first":
            for change in (WISH, FACT):
                alice.approvals.grant(change)
        model = RuleModel()
        answer = await MemoryAgent(alice, model, workspace=workspace).ask(
            FIRST_TASK if name == "first" else SECOND_TASK
        )
    return {
        "pid": os.getpid(),
        "text": answer.text,
        "requests": [json.dumps(sent, ensure_ascii=False) for sent in model.requests],
        "largest": max(step.request.chars for step in answer.steps),
        "limit": answer.steps[0].request.limit,
    }


def _child(name: str, workspace: Path) -> dict[str, Any]:
    """Run one phase in a new process and return what it printed."""
    printed = _python("-m", "memlab.demo", name, str(workspace), cwd=workspace)
    read: dict[str, Any] = json.loads(printed)
    return read


def _python(*arguments: str, cwd: Path) -> str:
    # The package may be run from a checkout: a child in another folder must find it too.
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.getenv("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    if done.returncode:
        raise MemlabError(
            f"A process of the demo ended with {done.returncode}: {done.stderr.strip()[-400:]}"
        )
    return done.stdout.strip()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(phase(sys.argv[1], Path(sys.argv[2])))))
