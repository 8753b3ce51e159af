"""The rules of the store as one would first write them: dicts, lists, one user after the other.

`memlab.store` must give the same answers; tests/test_state_machine.py takes each step with both.
Nothing here is fast or durable, and users share nothing but the count of all records.
"""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass, field, fields, replace

from memlab.errors import Conflict, InvalidInput, MemlabError, NotApproved, QuotaReached
from memlab.forgetting import DAY_MS
from memlab.records import (
    KINDS,
    Applied,
    Delete,
    LedgerEntry,
    Limits,
    Outcome,
    Proposal,
    Put,
    Record,
    Revision,
)

OPEN = ("pending", "approved")


def wanted(change):
    """Return what makes two changes the same: not the revision that they expect."""
    return change.action, change.kind, change.key, getattr(change, "value", None)


@dataclass
class Belongings:
    """All that is stored about one user. A name is (kind, key)."""

    records: dict = field(default_factory=dict)  # name -> Record
    histories: dict = field(default_factory=dict)  # name -> its revisions, oldest first
    last: dict = field(default_factory=dict)  # name -> last revision number, deleted or not
    proposals: dict = field(default_factory=dict)  # id -> Proposal, oldest first
    asked: dict = field(default_factory=dict)  # id -> what it asked for, kept when erased
    no: dict = field(default_factory=dict)  # what was asked -> id of the rejection that stands


class PlainStore:
    """Every user's belongings, the time, and the number of the last id."""

    def __init__(self, limits: Limits, now: int):
        self.limits, self.now, self.number = limits, now, 0
        self.users: dict[str, Belongings] = {}

    def for_user(self, user, session):
        return PlainMemory(self, self.users.setdefault(user, Belongings()), session)

    def new_id(self, taken):
        """Return the next id that none of the user's proposals has."""
        self.number += 1
        id = f"p{self.number}"
        return self.new_id(taken) if id in taken else id


class PlainMemory:
    """One user in one session: the user's own hand, the approvals and what is lent, in one."""

    def __init__(self, store: PlainStore, mine: Belongings, session: str):
        self.store, self.mine, self.session, self.approvals = store, mine, session, self
        for proposal in self._proposals(*OPEN):
            if proposal.expires <= store.now:
                self._decide(proposal, "expired", at=proposal.expires)

    def lend(self):
        return self

    # Records ------------------------------------------------------------------------------------

    def list(self):
        return [self.mine.records[name] for name in sorted(self.mine.records)]

    def get(self, kind, key):
        return self.mine.records.get((kind, key))

    def history(self, kind, key):
        return list(self.mine.histories.get((kind, key), ()))

    def put(self, kind, key, value, expect=None):
        return self._execute(self._checked(Put(kind, key, value, expect)), self.session).record

    def delete(self, kind, key):
        return self._execute(Delete(kind, key), self.session).effect == "deleted"

    def undo(self, kind, key, to_revision):
        for revision in self.history(kind, key):
            if revision.revision == to_revision:
                return self.put(kind, key, revision.value)
        raise InvalidInput("to_revision", "is not kept")

    def remember(self, text):
        text = Put("note", "k", text).value
        key = "auto." + hashlib.sha256(text.encode()).hexdigest()[:16]
        found = self.get("note", key)
        if found and found.value != text:
            raise InvalidInput("text", "its key holds another text")
        return found or self.put("note", key, text)

    def pin(self, kind, key, pinned):
        if not self.get(kind, key):
            raise InvalidInput("key", "there is none to pin")
        return self._mark((kind, key), pinned=pinned)

    def touch(self, records):
        for name in {(record.kind, record.key) for record in records} & set(self.mine.records):
            found = self.mine.records[name]
            last_used = max(self.store.now, found.last_used or 0)
            self._mark(name, uses=found.uses + 1, last_used=last_used)

    def forget(self, policy):
        gone = [
            record
            for record in self.list()
            if record.kind in policy.kinds
            and not record.pinned
            and record.uses < policy.min_uses
            and self.store.now
            > max(record.updated, record.last_used or 0) + policy.idle_days * DAY_MS
        ]
        for record in gone:
            self.delete(record.kind, record.key)
        return gone

    def forget_everything(self):
        count = len(self.mine.records)
        vars(self.mine).update(vars(Belongings()))
        return count

    def export(self):
        lines = [
            {name: getattr(each, name) for name in ("key", "kind", "value")} for each in self.list()
        ]
        plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
        return [plain(line | {"version": 1}).replace("\u2028", "\\u2028") for line in lines]

    def import_lines(self, lines):
        read = [json.loads(line) for line in lines]
        changes = [self._checked(Put(each["kind"], each["key"], each["value"])) for each in read]
        before = copy.deepcopy(vars(self.mine))
        try:
            return [
                self._ask(change, "imported", "pending")
                for change in dict.fromkeys(changes)
                if self._value(change) != change.value
            ]
        except QuotaReached:
            vars(self.mine).update(before)
            raise

    def stats(self):
        kinds = [kind for kind, _ in self.mine.records]
        return {
            "records": len(kinds),
            "by_kind": {kind: kinds.count(kind) for kind in KINDS},
            "records_limit": self.store.limits.records_per_user,
            "waiting": len(self.pending()),
            "without_vector": None,
        }

    # What the agent may do ----------------------------------------------------------------------

    def propose(self, change, reason=""):
        for standing in self._alike(self._checked(change)):
            if standing.base == self._last(change):
                return standing
        if wanted(change) in self.mine.no:
            return self.proposal(self.mine.no[wanted(change)])
        return self._ask(change, reason, "pending")

    def apply(self, change, reason=""):
        for yes in self._alike(self._checked(change)):
            if yes.state == "approved" and yes.base == self._last(change):
                done = self._execute(change, self.session)
                if done.effect != "unchanged":
                    self._decide(yes, "used", effect=done.effect)
                return done
        raise NotApproved("", self.propose(change, reason))

    def proposal(self, id):
        return self.mine.proposals.get(id)

    def approved(self):
        return self._proposals("approved")

    # What the user may decide -------------------------------------------------------------------

    def pending(self):
        return self._proposals("pending")

    def grant(self, change):
        return self._ask(self._checked(change), "", "approved")

    def approve(self, id, value=None, how="code"):
        found = self._open(id)
        change = found.change
        if value is not None:
            if isinstance(change, Delete):
                raise InvalidInput("value", "a deletion has none")
            change = self._checked(replace(change, value=value))
        if found.base != self._last(change):
            self._decide(found, "superseded", how=how)
            raise Conflict(change.kind, change.key, found.base, self._last(change))
        done = self._execute(change, found.session)
        state = "superseded" if done.effect == "unchanged" else "used"
        note = "" if change == found.change else "edited"
        self._decide(replace(found, change=change), state, None, how, note, done.effect)
        return done

    def approve_all(self, ids):
        outcomes = []
        for id in ids:
            try:
                outcomes.append(Outcome(id, applied=self.approve(id)))
            except MemlabError as error:
                outcomes.append(Outcome(id, error=error))
        return outcomes

    def reject(self, id, reason=""):
        return self._close(id, "rejected", reason)

    def revoke(self, id):
        return self._close(id, "revoked", "")

    def ledger(self):
        names = [each.name for each in fields(LedgerEntry)]
        decided = [each for each in self.mine.proposals.values() if each.state != "pending"]
        return [LedgerEntry(*(getattr(each, name) for name in names)) for each in decided]

    # Inside -------------------------------------------------------------------------------------

    def _checked(self, change):
        if isinstance(change, Put) and len(change.value) > self.store.limits.value_chars:
            raise InvalidInput("value", "is too long")
        return change

    def _value(self, change):
        return getattr(self.get(change.kind, change.key), "value", None)

    def _last(self, change):
        return self.mine.last.get((change.kind, change.key), 0)

    def _check_expected(self, change):
        revision = getattr(self.get(change.kind, change.key), "revision", 0)
        if change.expect not in (None, revision):
            raise Conflict(change.kind, change.key, change.expect, revision)

    def _execute(self, change, session):
        """Make a change, as far as the revision it expects and the quotas allow it."""
        self._check_expected(change)
        name, old, now = (
            (change.kind, change.key),
            self.get(change.kind, change.key),
            self.store.now,
        )
        if self._value(change) == getattr(change, "value", None):
            return Applied(change, old, "unchanged")
        if isinstance(change, Delete):
            del self.mine.records[name], self.mine.histories[name]
            self._forget_words_about(name)
            return Applied(change, None, "deleted")
        if old is None:
            self._check_room()
            self.mine.records[name] = Record(*name, "", 0, "", now, now, None, 0, False)
            self.mine.histories[name] = []
        revision = self.mine.last[name] = self._last(change) + 1
        self.mine.histories[name].append(Revision(revision, change.value, session, now))
        new = {"value": change.value, "revision": revision, "session": session, "updated": now}
        return Applied(change, self._mark(name, **new), "replaced" if old else "created")

    def _check_room(self):
        limits, everybody = self.store.limits, self.store.users.values()
        if len(self.mine.records) >= limits.records_per_user:
            raise QuotaReached("records_per_user", limits.records_per_user, "")
        if sum(len(each.records) for each in everybody) >= limits.records_total:
            raise QuotaReached("records_total", limits.records_total, "")

    def _mark(self, name, **changed):
        self.mine.records[name] = replace(self.mine.records[name], **changed)
        return self.mine.records[name]

    def _forget_words_about(self, name):
        for each in self._proposals():
            if (each.kind, each.key) == name:
                if each.state in OPEN:
                    each = self._decide(each, "superseded")
                kept = each.change if isinstance(each.change, Delete) else None
                self.mine.proposals[each.id] = replace(
                    each, change=kept, old_value=None, reason="", note=""
                )

    def _proposals(self, *states):
        return [each for each in self.mine.proposals.values() if not states or each.state in states]

    def _alike(self, change):
        """Return what is open and asks for this change."""
        return [
            each for each in self._proposals(*OPEN) if self.mine.asked[each.id] == wanted(change)
        ]

    def _ask(self, change, reason, state):
        """Store a new proposal in place of what is open and asks for the same."""
        self._check_expected(change)
        limits, now, last, alike = (
            self.store.limits,
            self.store.now,
            self._last(change),
            self._alike(change),
        )
        for each in alike:
            if each.state == state == "pending" and each.base == last:
                return each
        others = [each for each in self.pending() if each not in alike]
        if state == "pending" and len(others) >= limits.pending_proposals:
            raise QuotaReached("pending_proposals", limits.pending_proposals, "")
        for each in alike:
            self._decide(each, "superseded")
        what = (change.action, change.kind, change.key, change, last, self._value(change))
        when = (now, now + int(limits.proposal_ttl_s * 1000))
        decided = (now, "granted") if state == "approved" else (None, "")
        id = self.store.new_id(self.mine.asked)
        new = Proposal(id, *what, reason, self.session, *when, state, *decided)
        self.mine.asked[new.id], self.mine.proposals[new.id] = wanted(change), new
        return new

    def _open(self, id):
        if id not in self.mine.proposals:
            raise InvalidInput("id", "there is none")
        if self.mine.proposals[id].state not in OPEN:
            raise NotApproved("", self.mine.proposals[id])
        return self.mine.proposals[id]

    def _close(self, id, state, note):
        found = self.proposal(id)
        if found and found.state == state:  # a second click
            return found
        return self._decide(self._open(id), state, None, "code", note)

    def _decide(self, proposal, state, at=None, how="", note="", effect=""):
        """Write a decision down, at once or as of `at`; only what was stored keeps its words."""
        asked, stored = self.mine.asked[proposal.id], state == "used" and effect != "deleted"
        if state == "used":
            self.mine.no.pop(asked, None)
        if state == "rejected":
            self.mine.no[asked] = proposal.id
        self.mine.proposals[proposal.id] = replace(
            proposal,
            state=state,
            decided=self.store.now if at is None else at,
            how=how or proposal.how,
            note=note,
            effect=effect,
            change=proposal.change if state == "used" else None,
            old_value=proposal.old_value if stored else None,
            reason=proposal.reason if stored else "",
        )
        return self.mine.proposals[proposal.id]
