"""Clauses: what a yes allows and what not, forgetting by a policy, export and import."""

from __future__ import annotations

import json
from typing import Any

from memlab.classroom.claims import shown
from memlab.classroom.contract.clause import (
    Trial,
    keys_of,
    names_of,
    plain,
    promises,
    readable,
    stored,
    value_at,
)
from memlab.classroom.trials import demand, refused, same
from memlab.errors import Conflict, InvalidInput, NotApproved, QuotaReached
from memlab.forgetting import Policy
from memlab.records import KINDS, Delete, LedgerEntry, Proposal, Put, Record

# Approvals --------------------------------------------------------------------------------------


def not_made(trial: Trial, change: Put | Delete) -> Any:
    """End the clause unless this change is refused and no record changed; return the proposal."""
    before = [plain(record) for record in trial.alice.list()]
    error = refused(NotApproved, trial.lent().apply, change)
    same([plain(record) for record in trial.alice.list()], before, "the records after a refusal")
    return error.proposal


@promises("Without approval no change is made: it waits, and asking again is the same proposal.")
def approval_needed(trial: Trial) -> None:
    value = trial.word()
    trial.note(tea=value)
    for change in (
        trial.change("new"),
        trial.change("tea"),
        Put("note", "tea", value),  # it would change nothing, and still nobody has said yes
        Delete("note", "tea"),
        Delete("note", "absent"),
    ):
        first, second = not_made(trial, change), not_made(trial, change)
        same((first.state, first.change), ("pending", change), "the proposal")
        same(second.id, first.id, "the proposal of the change asked for again")


@promises("A proposal says who asks for what, instead of what, why, how long.", proposal_ttl_s=60)
def approval_tells(trial: Trial) -> None:
    old, new = trial.word(), trial.word()
    trial.note(tea=old)
    change = Put("note", "tea", new)
    asked = trial.lent("s7").propose(change, "you said so")
    wanted = Proposal(
        *(asked.id, "put", "note", "tea", change, 1, old, "you said so", "s7"),
        *(trial.now, trial.now + 60_000, "pending"),
    )
    same(
        [plain(each, Proposal) for each in trial.alice.approvals.pending()],
        [plain(wanted, Proposal)],
        "what waits",
    )
    same(plain(trial.lent().proposal(asked.id), Proposal), plain(wanted, Proposal), "by its id")


@promises("An approval is used once: the second time is refused.")
def approval_once(trial: Trial) -> None:
    change, remove = trial.change("tea"), Delete("note", "tea")
    uses: list[tuple[Put | Delete, str]] = [(change, "created"), (remove, "deleted")]
    for each, effect in uses:
        granted = trial.alice.approvals.grant(each)
        same(trial.lent().apply(each).effect, effect, "the effect of the first use")
        same(trial.lent().proposal(granted.id).state, "used", "the state of the approval")
        same([p.id for p in trial.lent().approved()], [], "what is approved then")
        not_made(trial, each)
    not_made(trial, change)


@promises("What was approved is what is written: no other value, key, kind or action.")
def approval_exact(trial: Trial) -> None:
    value, old = f"{trial.word()} a", trial.word()
    for key in ("tea", "rice"):
        trial.alice.put("note", key, old)
    put, remove = Put("note", "tea", value), Delete("note", "rice")
    for change in (put, remove):
        trial.alice.approvals.grant(change)
    others = [trial.word(), f"{value} ", value.upper(), f"{value}b", value[:-1], old]
    for other in others:
        not_made(trial, Put("note", "tea", other))
    for kind, key in (("note", "teas"), ("episode", "tea"), ("note", "rice")):
        not_made(trial, Put(kind, key, value))
    for kind, key in (("note", "tea"), ("episode", "rice")):
        not_made(trial, Delete(kind, key))
    same(trial.lent().apply(put).record.value, value, "the value written")
    same(trial.lent().apply(remove).effect, "deleted", "the effect of the deletion")


@promises("An approval is void once the record has moved, also if its value came back.")
def approval_moved(trial: Trial) -> None:
    alice, old = trial.alice, trial.word()
    for key in ("tea", "rice"):
        alice.put("note", key, old)
    new, gone = trial.change("new"), Delete("note", "rice")
    changes: list[Put | Delete] = [trial.change("tea"), gone, new]
    for change in changes:
        alice.approvals.grant(change)
    trial.note("tea", "rice", "new")
    trial.note(rice=old)
    for change in changes:
        not_made(trial, change)


@promises("An approval is void once the record was deleted and made again.")
def approval_recreated(trial: Trial) -> None:
    value, change = trial.word(), trial.change("tea")
    trial.note(tea=value)
    trial.alice.approvals.grant(change)
    trial.alice.delete("note", "tea")
    trial.note(tea=value)
    not_made(trial, change)
    remove = Delete("note", "tea")
    trial.alice.approvals.grant(remove)
    trial.note("tea")
    not_made(trial, remove)


@promises("Approving by id what came too late raises Conflict, writes nothing, puts it aside.")
def approval_late(trial: Trial) -> None:
    waits = trial.pending(trial.change("tea"))
    value = trial.word()
    trial.note(tea=value)
    refused(Conflict, trial.alice.approvals.approve, waits.id)
    same(value_at(trial.alice, "tea"), value, "the value then")
    same(trial.lent().proposal(waits.id).state, "superseded", "the state of the proposal")
    refused(NotApproved, trial.alice.approvals.approve, waits.id)


@promises("A change that expects a revision is asked for, and made, at that revision alone.")
def approval_expect(trial: Trial) -> None:
    trial.note("tea")
    change = Put("note", "tea", trial.word(), expect=1)
    for ask in (trial.lent().propose, trial.lent().apply, trial.alice.approvals.grant):
        refused(Conflict, ask, Put("note", "tea", trial.word(), expect=2))
    waits = trial.pending(change)
    trial.alice.approvals.approve(waits.id)
    same(trial.alice.get("note", "tea").revision, 2, "the revision then")


@promises("An approval, or a question, that waited too long is void.", proposal_ttl_s=60)
def approval_expires(trial: Trial) -> None:
    alice = trial.alice
    in_time, late = trial.change("tea"), trial.change("rice")
    alice.approvals.grant(in_time)
    granted = alice.approvals.grant(late)
    waits = trial.pending(trial.change("milk"))
    trial.now += 59_999
    same(trial.lent().apply(in_time).effect, "created", "the effect in the last millisecond")
    trial.now += 1
    same([len(trial.lent().approved()), len(alice.approvals.pending())], [0, 0], "what is open")
    refused(NotApproved, alice.approvals.approve, waits.id)
    not_made(trial, late)
    for each in (granted, waits):
        same(trial.lent().proposal(each.id).state, "expired", "the state of the proposal")


@promises("A rejected change stays rejected, however often it is asked for, also after a restart.")
def approval_rejected(trial: Trial) -> None:
    change, reason = trial.change("tea"), f"because of {trial.word()}"
    asked = trial.pending(change)
    same(trial.alice.approvals.reject(asked.id, reason).state, "rejected", "the state")
    for _ in range(2):
        for _ in range(2):
            known = not_made(trial, change)
            same((known.id, known.state, known.note), (asked.id, "rejected", reason), "the answer")
            same(trial.pending(change).state, "rejected", "the state when it is proposed again")
        refused(NotApproved, trial.alice.approvals.approve, asked.id)
        same(len(trial.alice.approvals.pending()), 0, "what waits")
        trial.restart()


@promises("An approval that was taken back is worth nothing.")
def approval_revoked(trial: Trial) -> None:
    change = trial.change("tea")
    granted = trial.alice.approvals.grant(change)
    same(trial.alice.approvals.revoke(granted.id).state, "revoked", "the state")
    refused(NotApproved, trial.alice.approvals.approve, granted.id)
    not_made(trial, change)


@promises("Approving by id makes exactly that change at once, under the session that asked.")
def approval_executes(trial: Trial) -> None:
    value = trial.word()
    put = trial.lent("s7").propose(Put("note", "tea", value))
    trial.forward(seconds=60)
    done = trial.alice.approvals.approve(put.id)
    wanted = Record("note", "tea", value, 1, "s7", trial.now, trial.now, None, 0, False)
    same((done.effect, plain(done.record)), ("created", plain(wanted)), "what approve returns")
    same(plain(trial.alice.get("note", "tea")), plain(wanted), "the record")
    gone = trial.alice.approvals.approve(trial.pending(Delete("note", "tea")).id)
    same(
        (gone.effect, names_of(trial.alice.list())), ("deleted", []), "the effect and what is left"
    )


@promises("With an edited value that one is written, and the model's own is read nowhere.")
def approval_edited(trial: Trial) -> None:
    own, edited = trial.word(), trial.word()
    asked = trial.pending(Put("note", "tea", own))
    done = trial.alice.approvals.approve(asked.id, value=edited)
    same((done.record.value, done.record.revision), (edited, 1), "what is written")
    text = repr((readable(trial.alice), plain(trial.lent().proposal(asked.id), Proposal)))
    demand(own not in text, "the value that was edited away can still be read")
    not_made(trial, Put("note", "tea", own))
    waits = trial.pending(Delete("note", "tea"))
    refused(InvalidInput, trial.alice.approvals.approve, waits.id, value=edited)
    same(value_at(trial.alice, "tea"), edited, "the value then")


@promises("An approval that had no effect is not used up.")
def approval_unused(trial: Trial) -> None:
    value = trial.word()
    trial.note(tea=value)
    for change in (Put("note", "tea", value), Delete("note", "rice")):
        granted = trial.alice.approvals.grant(change)
        same(trial.lent().apply(change).effect, "unchanged", "the effect")
        same(trial.lent().proposal(granted.id).state, "approved", "the state of the approval")
    same(trial.alice.get("note", "tea").revision, 1, "the revision")


@promises("A proposal that would change nothing any more is superseded when it is approved.")
def approval_superseded(trial: Trial) -> None:
    waits = trial.pending(Delete("note", "tea"))
    same(trial.alice.approvals.approve(waits.id).effect, "unchanged", "the effect")
    same(trial.lent().proposal(waits.id).state, "superseded", "the state")


@promises("A decision is made once: what was used or rejected cannot be approved.")
def approval_decided(trial: Trial) -> None:
    alice = trial.alice
    used = trial.pending(trial.change("tea"))
    alice.approvals.approve(used.id)
    for decide in (alice.approvals.approve, alice.approvals.reject, alice.approvals.revoke):
        refused(NotApproved, decide, used.id)
    no = trial.pending(Delete("note", "tea"))
    alice.approvals.reject(no.id)
    for decide in (alice.approvals.approve, alice.approvals.revoke):
        refused(NotApproved, decide, no.id)
    refused(InvalidInput, alice.approvals.approve, "pnone")
    same(alice.get("note", "tea").revision, 1, "the revision then")


@promises("Several approvals are each for themselves; the answer says what became of each.")
def approval_all(trial: Trial) -> None:
    asked = [trial.pending(trial.change(f"n{n}")).id for n in range(3)]
    trial.alice.approvals.reject(asked[1])
    outcomes = trial.alice.approvals.approve_all(asked)
    same([each.id for each in outcomes], asked, "the ids in the answer")
    same([each.ok for each in outcomes], [True, False, True], "what succeeded")
    demand(isinstance(outcomes[1].error, NotApproved), f"the error is {outcomes[1].error!r}")
    same(stored(trial.alice), ["n0", "n2"], "the keys stored")


@promises("A quota that stops an approved change keeps the approval.", records_per_user=1)
def approval_quota(trial: Trial) -> None:
    trial.note("tea")
    waits, granted = trial.pending(Put("note", "n0", "x")), trial.change("n1")
    trial.alice.approvals.grant(granted)
    refused(QuotaReached, trial.alice.approvals.approve, waits.id)
    refused(QuotaReached, trial.lent().apply, granted)
    same(stored(trial.alice), ["tea"], "the keys stored")
    same(trial.lent().proposal(waits.id).state, "pending", "the state of what waits")
    trial.alice.delete("note", "tea")
    same(trial.lent().apply(granted).effect, "created", "the effect when there is room")


@promises("An id is never given twice, though two openings count theirs from the start.")
def approval_ids(trial: Trial) -> None:
    found = []
    for n in range(3):
        ids = (f"p{each}" for each in range(100))
        trial.restart(new_id=lambda ids=ids: next(ids))
        found.append(trial.pending(trial.change(f"n{n}")).id)
    found.append(trial.bob.lend().propose(trial.change("tea")).id)
    same(len(set(found)), 4, "the different ids of four proposals")
    same(len(trial.alice.approvals.pending()), 3, "what waits")


@promises("The ledger tells every decision: who asked, for what, how it was decided, what it did.")
def ledger_tells(trial: Trial) -> None:
    alice, lent, asked = trial.alice, trial.lent("s7"), trial.now
    change = trial.change("n0")
    alice.approvals.grant(change)
    waits = [lent.propose(trial.change(f"n{n}")).id for n in (1, 2, 3)]
    trial.forward(seconds=60)
    lent.apply(change)
    alice.approvals.approve(waits[0], how="panel")
    alice.approvals.reject(waits[1], "too early", how="terminal")
    wanted = [
        ("put", "note", "n0", "s1", asked, "used", trial.now, "granted", "", "created"),
        ("put", "note", "n1", "s7", asked, "used", trial.now, "panel", "", "created"),
        ("put", "note", "n2", "s7", asked, "rejected", trial.now, "terminal", "too early", ""),
    ]
    entries = [plain(each, LedgerEntry) or {} for each in alice.approvals.ledger()]
    same([tuple(each.values())[1:] for each in entries], wanted, "the ledger")


@promises("The ledger keeps the last ledger_entries decisions, oldest first.", ledger_entries=3)
def ledger_last(trial: Trial) -> None:
    for n in range(5):
        trial.alice.approvals.approve(trial.pending(trial.change(f"n{n}")).id)
    same(keys_of(trial.alice.approvals.ledger()), ["n2", "n3", "n4"], "the keys in the ledger")


# Forgetting -------------------------------------------------------------------------------------


@promises("forget deletes exactly what stale lists, in that order, and returns it.")
def forget_exact(trial: Trial) -> None:
    trial.note("old", "older", "oldest")
    trial.forward(days=31)
    trial.note("new")
    stale = [plain(record) for record in trial.alice.stale(Policy())]
    same(sorted(each["key"] for each in stale if each), ["old", "older", "oldest"], "stale lists")
    same(len(trial.alice.list()), 4, "the records after the preview")
    same([plain(record) for record in trial.alice.forget(Policy())], stale, "what forget returns")
    same(stored(trial.alice), ["new"], "the keys left")


@promises("A pinned record is never forgotten.")
def forget_pinned(trial: Trial) -> None:
    trial.note("kept", "lost")
    trial.alice.pin("note", "kept")
    trial.forward(days=400)
    same(keys_of(trial.alice.stale(Policy())), ["lost"], "what stale lists")
    trial.alice.forget(Policy())
    same(stored(trial.alice), ["kept"], "the keys left")


@promises("What counts is the last use, or the last change, not when a record was made.")
def forget_idle(trial: Trial) -> None:
    trial.note("used", "changed", "idle")
    trial.forward(days=20)
    trial.alice.touch([trial.alice.get("note", "used")])
    trial.note("changed")
    trial.forward(days=10)
    same(keys_of(trial.alice.stale(Policy())), [], "what stale lists after exactly 30 days")
    trial.now += 1
    same(keys_of(trial.alice.stale(Policy())), ["idle"], "what stale lists a millisecond later")


@promises("What was used min_uses times is kept, and every kind that the policy does not name.")
def forget_policy(trial: Trial) -> None:
    for kind in KINDS:
        for n in (0, 1, 2):
            record = trial.alice.put(kind, f"used{n}", trial.word())
            for _ in range(n):
                trial.alice.touch([record])
    trial.forward(days=31)
    wanted = [(kind, key) for kind in ("episode", "note") for key in ("used0", "used1")]
    same(sorted(names_of(trial.alice.stale(Policy()))), wanted, "what stale lists")
    policy = Policy(min_uses=1, kinds=("project",))
    same(names_of(trial.alice.stale(policy)), [("project", "used0")], "for another policy")


# Export and import ------------------------------------------------------------------------------


@promises("An export is one line of JSON a record, by kind and key: version, kind, key, value.")
def export_lines(trial: Trial) -> None:
    values = {"b": f"{trial.word()}\n\r\x85\u2028\u2029 {trial.hanzi()}", "a": f'"{trial.word()}"'}
    trial.note(**values)
    trial.alice.put("episode", "c", trial.word())
    lines = list(trial.alice.export())
    same([len(line.splitlines()) for line in lines], [1, 1, 1], "the lines of each line")
    read = [json.loads(line) for line in lines]
    same(
        [(each["kind"], each["key"]) for each in read],
        [("episode", "c"), ("note", "a"), ("note", "b")],
        "their order",
    )
    wanted = {"version": 1, "kind": "note", "key": "b", "value": values["b"]}
    same(read[2], wanted, "a line")


@promises("Exported, imported into a new store, approved and exported again: the same bytes.")
def export_again(trial: Trial) -> None:
    for n, kind in enumerate(KINDS):
        trial.alice.put(kind, f"n{n}", trial.word())
        trial.forward(seconds=60)
        trial.alice.put(kind, f"n{n}", f"{trial.hanzi()} é ﬁ 🍵 \\ \u2028\n<{trial.word()}>")
    trial.alice.pin("note", "n4")
    lines = list(trial.alice.export())
    trial.forward(days=1)
    other = trial.user(trial.names[1], "s9", trial.open(trial.folder / "other"))
    outcomes = other.approvals.approve_all([each.id for each in other.import_lines(lines)])
    demand(all(each.ok for each in outcomes), f"not all could be approved: {shown(outcomes)}")
    same(list(other.export()), lines, "the second export")


@promises("An import only asks: nothing is stored before it is approved, what is there is skipped.")
def import_asks(trial: Trial) -> None:
    trial.note("tea", "rice")
    lines = list(trial.alice.export())
    trial.bob.put("note", "tea", value_at(trial.alice, "tea"))
    before = [plain(record) for record in trial.bob.list()]
    same(keys_of(trial.bob.import_lines(lines)), ["rice"], "what is proposed")
    same([plain(record) for record in trial.bob.list()], before, "the records then")
    same(keys_of(trial.bob.approvals.pending()), ["rice"], "what waits")


@promises(
    "One bad line, or one proposal too many, and nothing of an import is proposed.",
    pending_proposals=2,
)
def import_whole(trial: Trial) -> None:
    def line(**other: Any) -> str:
        return json.dumps({"version": 1, "kind": "note", "key": "tea", "value": "x"} | other)

    for bad in (
        *("{", "[]", "null", line(user="bob"), line(version=2), line(kind="any"), line(key="Tea")),
        *(line(value=""), line(value=5), line(value="\0"), '{"version": 1}'),
    ):
        refused(InvalidInput, trial.alice.import_lines, [line(key="rice"), bad])
    refused(QuotaReached, trial.alice.import_lines, [line(key=f"n{n}") for n in range(3)])
    same(len(trial.alice.approvals.pending()), 0, "what waits")
    same(len(trial.alice.list()), 0, "what is stored")
