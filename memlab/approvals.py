"""The life of a proposal: asked for, decided once by a person, used once by the store.

    pending ──approve──> used            executed at once, under the session that asked
       │  └──grant─────> approved ──apply──> used
       ├──reject───────> rejected        and stays so, however often it is asked again
       ├──revoke───────> revoked
       ├──(time)───────> expired
       └──(the record moved, or nothing is left to do)──> superseded

Functions from data to data: no SQL and nobody's hand in here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from memlab.errors import InvalidInput, NotApproved
from memlab.records import Applied, Change, Delete, Proposal, Put
from memlab.text import canonical, clean

OPEN = ("pending", "approved")
"""The states in which a proposal can still become a write."""


def digest(change: Change) -> str:
    """Return the SHA-256 of what is asked for: action, kind, key, value (not the revision)."""
    return hashlib.sha256(canonical(change.to_dict()).encode()).hexdigest()


def seen(proposal: Proposal, now: int) -> Proposal:
    """Return the proposal as it stands at `now`: what waited too long has expired."""
    if proposal.state in OPEN and proposal.expires <= now:
        return decided(proposal, "expired", proposal.expires)
    return proposal


def decided(
    proposal: Proposal, state: str, now: int, how: str = "", note: str = "", effect: str = ""
) -> Proposal:
    """Return the proposal in its next state. Only what waits, or was stored, keeps its text."""
    keep = state in OPEN or (state == "used" and effect != "deleted")
    return replace(
        proposal,
        state=state,
        decided=now,
        how=how or proposal.how,
        note=note,
        effect=effect,
        change=proposal.change if state in ("used", *OPEN) else None,
        old_value=proposal.old_value if keep else None,
        reason=proposal.reason if keep else "",
    )


def executed(proposal: Proposal, done: Applied, now: int, how: str) -> Proposal:
    """Return the proposal after the store did what `done` says with it, perhaps edited."""
    note = "edited" if done.change != proposal.change else ""
    state = "superseded" if done.effect == "unchanged" else "used"
    after = decided(proposal, state, now, how, note, done.effect)
    return replace(after, change=done.change) if after.change is not None else after


def fits(proposal: Proposal, last: int) -> bool:
    """Say whether the record still stands where it stood when this was asked.

    Args:
        last: The last revision number the record has had, deleted or not; 0: none ever.
    """
    return proposal.base == last


def usable(proposals: Iterable[Proposal], last: int) -> Proposal | None:
    """Return the approved proposal that allows the change now, if there is one."""
    return next((p for p in proposals if p.state == "approved" and fits(p, last)), None)


def answer(proposals: Iterable[Proposal], last: int) -> Proposal | None:
    """Return the newest proposal that already answers a change asked for again.

    A rejection answers it for good; a pending proposal while the record has not moved.
    """
    for proposal in proposals:
        if proposal.state == "rejected" or (proposal.state in OPEN and fits(proposal, last)):
            return proposal
        if proposal.state == "used":  # a person has said yes since: an older no is past
            return None
    return None


def edited(proposal: Proposal, value: object) -> Change:
    """Return the proposed change with another value, or refuse: a deletion has none to edit."""
    change = proposal.change
    if not isinstance(change, Put):
        raise InvalidInput("value", "a deletion has no value to edit. Approve or reject it.")
    return Put(change.kind, change.key, clean(value, "value"), change.expect)


def require_open(proposal: Proposal) -> Change:
    """Return the change that can still be approved, or say why it cannot."""
    if proposal.state in OPEN and proposal.change is not None:
        return proposal.change
    raise NotApproved(
        f"Proposal {proposal.id} is {proposal.state} already{told(proposal)}. "
        "Nothing was written. Only one that waits can be decided.",
        proposal,
    )


def refusal(proposal: Proposal) -> NotApproved:
    """Return the error that tells a model why its change was not made."""
    what = f"{proposal.action} {proposal.kind}/{proposal.key}"
    if proposal.state == "rejected":
        text = f"The user rejected this change ({what}){told(proposal)}. Do not ask for it again."
    else:
        text = f"Not done: {what} waits for the user's approval as proposal {proposal.id}."
    return NotApproved(text, proposal)


def told(proposal: Proposal) -> str:
    """Return what the user said about the decision, ready to stand in a sentence."""
    return f" ({proposal.note!r})" if proposal.note else ""


def check_reason(reason: object, field: str = "reason") -> str:
    """Return a reason of at most 200 characters, which may be empty, or refuse it."""
    return clean(reason, field, limit=200, blank=True)


def change_of(action: str, kind: str, key: str, value: str | None, expect: int | None) -> Change:
    """Build the change that a stored proposal holds."""
    if action == "delete":
        return Delete(kind, key, expect)
    return Put(kind, key, value or "", expect)
