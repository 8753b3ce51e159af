"""Clauses: nobody reads or changes what is another user's, and what is deleted is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memlab.classroom.claims import shown
from memlab.classroom.contract.clause import (
    Trial,
    keys_of,
    names_of,
    plain,
    promises,
    readable,
    recalled,
    unchanged,
    value_at,
)
from memlab.classroom.trials import demand, refused, same, told
from memlab.errors import Conflict, InvalidInput, NotApproved
from memlab.forgetting import Policy
from memlab.records import KINDS, Delete, Proposal, Put, Revision

# Users ------------------------------------------------------------------------------------------


@promises("get gives a user nothing that another stored; both can use one key.")
def scope_get(trial: Trial) -> None:
    trial.note("tea")
    same(plain(trial.bob.get("note", "tea")), None, "what Bob gets")
    value = trial.word()
    same(trial.bob.put("note", "tea", value).revision, 1, "the revision of Bob's own")
    same(value_at(trial.bob, "tea"), value, "what Bob gets then")


@promises("list and export give a user nothing that another stored.")
def scope_list(trial: Trial) -> None:
    trial.note("tea")
    trial.bob.put("note", "rice", trial.word())
    same(keys_of(trial.bob.list()), ["rice"], "what Bob lists")
    same(keys_of(trial.bob.list("note")), ["rice"], "what Bob lists of a kind")
    same(len(list(trial.bob.export())), 1, "the lines that Bob exports")


@promises("search finds nothing that another user stored.")
def scope_search(trial: Trial) -> None:
    word = trial.word()
    trial.note(tea=word)
    trial.bob.put("note", "rice", f"{word} too")
    for query in (word, ""):
        same(keys_of(trial.bob.search(query)), ["rice"], f"what Bob finds for {query!r}")


@promises("recall finds nothing that another user stored.")
def scope_recall(trial: Trial) -> None:
    word = trial.word()
    trial.note(tea=word)
    same(recalled(trial.alice, word), ["tea"], "what Alice recalls")
    same(recalled(trial.bob, word), [], "what Bob recalls")
    trial.bob.put("note", "rice", f"{word} too")
    same(recalled(trial.bob, word), ["rice"], "what Bob recalls then")


@promises("history tells a user nothing of another's record.")
def scope_history(trial: Trial) -> None:
    for _ in range(2):
        trial.note("tea")
    same(len(list(trial.bob.history("note", "tea"))), 0, "the revisions that Bob reads")
    refused(InvalidInput, trial.bob.undo, "note", "tea", 1)


@promises("A proposal, an approval and a ledger are nobody's but the user's: as if not there.")
def scope_proposals(trial: Trial) -> None:
    change = trial.change("tea")
    waits = trial.pending(change)
    trial.alice.approvals.grant(trial.change("rice"))
    bob, lent = trial.bob.approvals, trial.bob.lend()
    same(len(bob.pending()) + len(bob.ledger()) + len(lent.approved()), 0, "what Bob is shown")
    same(lent.proposal(waits.id), None, "Alice's proposal asked for by Bob")
    for decide in (bob.approve, bob.reject, bob.revoke):
        told = [str(refused(InvalidInput, decide, id)) for id in (waits.id, "pnone")]
        same(told[0].replace(waits.id, "pnone"), told[1], "what Bob is told of Alice's proposal")
    same(trial.lent().proposal(waits.id).state, "pending", "the state of Alice's proposal")
    same(plain(trial.bob.get("note", "tea")), None, "what Bob got by it")


@promises("What one user approved, another's agent cannot use.")
def scope_approval(trial: Trial) -> None:
    change = trial.change("tea")
    granted = trial.alice.approvals.grant(change)
    refused(NotApproved, trial.bob.lend().apply, change)
    same(names_of(trial.bob.list()), [], "what Bob has then")
    same([each.id for each in trial.lent().approved()], [granted.id], "Alice's approvals then")


@promises("Nothing that one user does changes anything that another can read.")
def scope_writes(trial: Trial) -> None:
    _some_of_everything(trial, trial.bob)
    before = readable(trial.bob)
    trial.forward(seconds=60)
    alice = _some_of_everything(trial, trial.alice)
    alice.undo("note", "tea", 1)
    alice.touch(trial.bob.list())
    alice.delete("note", "tea")
    trial.forward(seconds=60)
    alice.forget(Policy(idle_days=0, kinds=KINDS))
    unchanged(before, trial.bob)


@promises("No refusal shows what belongs to another user.")
def scope_errors(trial: Trial) -> None:
    mark = trial.word()
    trial.note(tea=mark)
    asked = trial.pending(Put("note", "tea", f"{mark} too"), f"because {mark}")
    bob, change = trial.bob, trial.change("tea")
    errors = [
        refused(InvalidInput, bob.pin, "note", "tea"),
        refused(InvalidInput, bob.undo, "note", "tea", 1),
        refused(Conflict, bob.put, "note", "tea", change.value, expect=1),
        refused(InvalidInput, bob.approvals.approve, asked.id),
        refused(InvalidInput, bob.approvals.approve, asked.id, value=trial.word()),
        refused(NotApproved, bob.lend().apply, change),
    ]
    for error in errors:
        demand(mark not in f"{error} {vars(error)}", f"{told(error)} shows what Alice stored")


@promises("Users whose names look alike are different users.")
def scope_names(trial: Trial) -> None:
    stem = trial.word()
    names = [f"{stem}{mark}x" for mark in ("_", "-", ".", "z", "")] + [f"{stem}_X", f"{stem}_x1"]
    values = {name: trial.word() for name in names}
    for name, value in values.items():
        trial.user(name).put("note", "tea", value)
    for name, value in values.items():
        found = [record.value for record in trial.user(name).list()]
        same(found, [value], f"the values of {name.replace(stem, 'john')}")
        found = [record.value for record in trial.user(name).search("")]
        same(found, [value], f"the values found by {name.replace(stem, 'john')}")
    same(trial.store.users(), sorted(names), "users()")


@promises("forget_everything leaves nothing about the user, and every other user as they were.")
def scope_everything(trial: Trial) -> None:
    _some_of_everything(trial, trial.bob)
    empty = readable(trial.alice)
    before = readable(trial.bob)
    _some_of_everything(trial, trial.alice)
    count = len(trial.alice.list())
    same(trial.alice.forget_everything(), count, "what forget_everything returns")
    unchanged(empty, trial.alice)
    unchanged(before, trial.bob)
    same(trial.store.users(), [trial.names[1]], "users()")


def _some_of_everything(trial: Trial, memory: Any) -> Any:
    """Let a user have records, history, a pin, uses, and proposals in several states."""
    for key in ("tea", "rice", "milk"):
        memory.put("note", key, trial.word())
    memory.put("note", "tea", trial.word())
    memory.touch([memory.pin("note", "tea")])
    lent = memory.lend()
    lent.propose(trial.change("rice"))
    memory.approvals.grant(Delete("note", "milk"))
    memory.approvals.reject(lent.propose(trial.change("bread")).id)
    memory.approvals.approve(lent.propose(trial.change("salt")).id)
    return memory


# Deletion ---------------------------------------------------------------------------------------


@promises("delete takes one record away, says whether it was there, and touches no other.")
def delete_one(trial: Trial) -> None:
    for kind, key in (("note", "tea"), ("note", "tea2"), ("project", "tea")):
        trial.alice.put(kind, key, trial.word())
        trial.alice.put(kind, key, trial.word())
    kept = [plain(each) for each in trial.alice.list() if names_of([each]) != [("note", "tea")]]
    same([trial.alice.delete("note", "tea") for _ in range(2)], [True, False], "what it returns")
    same([plain(record) for record in trial.alice.list()], kept, "the records left")
    same(len(list(trial.alice.history("note", "tea2"))), 2, "the history of one that was left")


@promises("After a deletion no way of reading gives the text, nor what it was before.")
def delete_everywhere(trial: Trial) -> None:
    _leaves_nothing(trial, lambda: trial.alice.delete("note", "tea"))


@promises("What was forgotten can be read no more, nor what it was before.")
def forget_everywhere(trial: Trial) -> None:
    def forget() -> None:
        trial.forward(days=31)
        trial.alice.forget(Policy())

    _leaves_nothing(trial, forget)


def _leaves_nothing(trial: Trial, erase: Callable[[], object]) -> None:
    """Write a mark wherever a user can write one about a record, erase that, and look for it."""
    alice, lent, mark = trial.alice, trial.lent(), trial.word()
    trial.note("other")
    trial.note(tea=f"{mark} 1")
    trial.note(tea=f"{mark} 2")
    alice.approvals.grant(Put("note", "tea", f"{mark} 3"))
    lent.apply(Put("note", "tea", f"{mark} 3"))
    no = lent.propose(Put("note", "tea", f"{mark} 4"), f"for {mark}")
    alice.approvals.reject(no.id, f"not {mark}")
    waits = lent.propose(Put("note", "tea", f"{mark} 5"), f"for {mark}")
    alice.approvals.grant(Put("note", "tea", f"{mark} 6"))
    used = alice.approvals.ledger()[0].id
    ids = (used, no.id, waits.id)
    for again in (False, True):
        if again:
            trial.restart()
        else:
            erase()
        memory, lent = trial.alice, trial.lent()
        same(memory.get("note", "tea"), None, "get")
        found = readable(memory)
        found["history of it"] = [plain(each, Revision) for each in memory.history("note", "tea")]
        found["search for it"] = [plain(each) for each in memory.search(mark)]
        found["recall of it"] = [plain(hit.record) for hit in memory.recall(mark)]
        found["proposal by id"] = [
            plain(each, Proposal) for id in ids if (each := lent.proposal(id)) is not None
        ]
        for way, text in found.items():
            demand(mark not in repr(text), f"{way} still holds the deleted text: {shown(text)}")


@promises("What waited for a record that was deleted, or was granted, cannot bring it back.")
def delete_final(trial: Trial) -> None:
    trial.note("tea")
    waits = trial.pending(trial.change("tea"))
    granted = trial.change("tea")
    trial.alice.approvals.grant(granted)
    trial.alice.delete("note", "tea")
    refused(NotApproved, trial.alice.approvals.approve, waits.id)
    refused(NotApproved, trial.lent().apply, granted)
    same(plain(trial.alice.get("note", "tea")), None, "the record then")
