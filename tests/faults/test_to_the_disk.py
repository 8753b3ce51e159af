"""What other programs lost between 'saved' and the disk, or held up while they were away."""

from __future__ import annotations

import json

import pytest
from test_agent import told

from memlab import MemoryAgent, Put, call, say

SAVED_AND_GONE = """
import asyncio, json, sys, time
from memlab import MemoryAgent, MemoryStore, ScriptedModel, call
def tell(messages, tools):
    print(messages[-1]["content"], flush=True)
    time.sleep(60)
with MemoryStore.open(sys.argv[1]) as store:
    alice = store.for_user("alice", session="s1")
    asked = call("memory_put", **json.loads(sys.argv[2]))
    asyncio.run(MemoryAgent(alice, ScriptedModel([asked, tell])).ask("请记住"))
"""


def test_what_a_model_was_told_is_saved_survives_a_program_killed_that_moment(reopen, program):
    alice = reopen(clock=None).for_user("alice", session="s1")
    change = {"kind": "note", "key": "tea", "value": "绿茶"}
    alice.approvals.grant(Put(**change))
    dying = program(SAVED_AND_GONE, json.dumps(change))

    saved = json.loads(dying.stdout.readline())
    dying.kill()
    dying.wait()

    assert (saved["ok"], saved["effect"]) == (True, "created")
    again = reopen(create=False, clock=None)
    assert again.for_user("alice", session="s2").get("note", "tea").value == "绿茶"
    assert again.for_user("alice", session="s2").lend().approved() == []
    assert again.verify() == []


HOLDING = """
import sqlite3, sys
from pathlib import Path
path = Path(sys.argv[1]) / "memory.sqlite3"
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
connection.close()
"""

READING = """
import sys
from memlab import MemoryStore
with MemoryStore.open(sys.argv[1]) as store:
    alice = store.for_user("alice", session="s2")
    print(alice.get("note", "tea").value.encode(), len(alice.search("绿")), len(alice.recall("茶")))
"""


def test_a_program_that_starts_while_another_writes_reads_at_once(store, alice, program):
    alice.put("note", "tea", "绿茶")
    holder = program(HOLDING)
    assert holder.stdout.readline() == "held\n"

    reading = program(READING)

    assert reading.communicate(timeout=60)[0] == f"{'绿茶'.encode()} 1 1\n"
    assert holder.poll() is None, "it was still writing"
    holder.communicate("done\n")
    assert holder.returncode == 0


@pytest.mark.parametrize("stop", ["KeyboardInterrupt", "asyncio.CancelledError"])
def test_a_write_that_was_interrupted_lets_the_next_program_write(reopen, program, stop):
    """The clock is read inside the transaction: it strikes there."""
    interrupted = """
import asyncio, json, sys
from memlab import MemoryStore, Put
strike = []
def clock():
    if strike:
        raise strike.pop()
    return 1_700_000_000_000
store = MemoryStore.open(sys.argv[1], create=True, clock=clock)
alice = store.for_user("alice", session="s1")
alice.approvals.grant(Put("note", "k", "一半"))
strike.append(STOP())
try:
    alice.lend().apply(Put("note", "k", "一半"))
except BaseException as error:
    print(type(error).__name__, flush=True)
sys.stdin.readline()
store.close()
""".replace("STOP", stop)
    struck = program(interrupted)
    assert struck.stdout.readline().strip() == stop.rpartition(".")[2]

    later = reopen(create=False)
    alice = later.for_user("alice", session="s2")
    assert alice.list() == []
    assert alice.put("note", "other", "x").revision == 1
    answer, _ = told(
        MemoryAgent(alice, None), call("memory_put", kind="note", key="k", value="一半"), say("Ok.")
    )
    assert [each.effect for each in answer.writes] == ["created"], "the approval was not lost"
    assert later.verify() == []
    struck.communicate("done\n")
