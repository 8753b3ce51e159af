"""The changes that wait for the user, a card each. A card changes only after the store answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as w

from memlab import views
from memlab.errors import InvalidInput, MemlabError, NotApproved
from memlab.panels.parts import STYLE, alert, difference, hidden_in, labelled, safe
from memlab.records import Applied, Proposal, Put
from memlab.store import UserMemory

_ENDS = {
    "approved": "Approved before, and waits to be used once.",
    "rejected": "Rejected. Nothing was written.",
    "expired": "Expired: it waited too long. Nothing was written.",
    "revoked": "Revoked. Nothing was written.",
}


class ApprovalPanel(w.VBox):  # type: ignore[misc]
    """A card for each change that waits for the user, with Approve, Edit and Reject.

    The same by code: `approve`, `edit` and `reject` do what the buttons do, and return the words
    that then stand on the card.
    """

    def __init__(self, alice: UserMemory):
        if not isinstance(alice, UserMemory):
            raise InvalidInput(
                "alice", f"must be the user's own UserMemory, not {type(alice).__name__}."
            )
        super().__init__()
        self.add_class("memlab-panel")
        self._alice = alice
        self._head = w.HTML()
        self._cards: dict[str, _Card] = {}
        self._again = w.Button(description="Look again", tooltip="ask the store what waits now")
        self._again.on_click(lambda _: self._look_again())
        self.refresh()

    def __repr__(self) -> str:
        waiting = [card.name for card in self._cards.values() if card.waits]
        ended = [card.name for card in self._cards.values() if not card.waits]
        parts = [f"{len(waiting)} waiting: {', '.join(waiting)}" if waiting else "nothing waiting"]
        if ended:
            parts.append(f"{len(ended)} decided: {', '.join(ended)}")
        return f"ApprovalPanel({self._alice.user}: {'; '.join(parts)})"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Show the store as it is now, and the whole of our `repr` where no widget can run."""
        self._look_again()
        bundle = super()._repr_mimebundle_(**kwargs)
        bundle["text/plain"] = repr(self)
        return bundle

    def refresh(self) -> None:
        """Draw every card anew from the store: what waits now, and what this panel has shown.

        What is decided is folded to one line; its text is not kept here.
        """
        for card in self._cards.values():
            card.fold()
        self._draw()

    def approve(self, id: str) -> str:
        """Approve this change, once, as it stands on the card."""
        return self._decide(id, lambda: self._alice.approvals.approve(id, how="panel"))

    def edit(self, id: str, value: str) -> str:
        """Approve this change with another value, once."""
        return self._decide(id, lambda: self._alice.approvals.approve(id, value, how="panel"))

    def reject(self, id: str, reason: str = "") -> str:
        """Refuse this change for good; the model is told `reason`."""
        return self._decide(id, lambda: self._alice.approvals.reject(id, reason, how="panel"))

    def _decide(self, id: str, act: Callable[[], Applied | Proposal]) -> str:
        if id not in self._cards:
            self._draw()
        if id not in self._cards:
            raise InvalidInput("id", f"there is no card {id!r}. {self!r}")
        card = self._cards[id]
        waited = card.waits
        card.attempt(act)
        self._draw()
        if waited and not card.waits:
            self._move_on(card)
        return card.words

    def _look_again(self) -> None:
        try:
            self.refresh()
        except Exception as error:  # a closed store, for example: in a callback nobody would see it
            self._head.value = f"{STYLE}{alert(f'Not up to date: {error}')}"

    def _draw(self) -> None:
        alice = self._alice
        for proposal in alice.approvals.pending():
            if proposal.id not in self._cards:
                self._cards[proposal.id] = _Card(self, proposal)
        now, lent = views.now_of(alice), alice.lend()
        for id, card in self._cards.items():
            card.draw(lent.proposal(id), _is_stale(alice, card.proposal), now)
        self._head.value = self._heading(now)
        self.children = (self._head, *self._cards.values(), self._again)

    def _move_on(self, card: _Card) -> None:
        """Give the focus to the next card that waits, or it falls to the page, where keys command.

        Not to its Approve: a second Enter must not approve what nobody has read.
        """
        cards = list(self._cards.values())
        place = cards.index(card)
        following = [*cards[place + 1 :], *cards[:place]]
        buttons = (each.first_button for each in following if each.waits)
        next(buttons, self._again).focus()

    def _heading(self, now: int) -> str:
        waiting = sum(card.waits for card in self._cards.values())
        noun = "change waits" if waiting == 1 else "changes wait"
        return (
            f'{STYLE}<div class="memlab-head" role="heading" aria-level="3">'
            f"{waiting or 'No'} {noun} for {safe(self._alice.user)}</div>"
            f'<div class="memlab-small">As of {views.utc(now)} UTC. Nothing is written '
            "before you approve it.</div>"
        )


class _Card(w.VBox):  # type: ignore[misc]
    """One proposal: what it would change, then buttons, an editor, or what became of it."""

    def __init__(self, panel: ApprovalPanel, proposal: Proposal):
        super().__init__()
        self.add_class("memlab-card")
        self.proposal = proposal
        self.waits = True
        self.words = ""
        self._panel = panel
        self._edits = False
        self._body, self._preview, self._message = w.HTML(), w.HTML(), w.HTML()
        what = f"{proposal.action} {proposal.kind}/{proposal.key}"
        self.approve_button = self._button("Approve", f"{what}: allow it once", self._on_approve)
        self.edit_button = self._button("Edit", f"{what}: change the value first", self._on_edit)
        self.reject_button = self._button("Reject", f"{what}: refuse it", self._on_reject)
        self.save_button = self._button(
            "Approve edited", f"{what}: allow it once, with this value", self._on_save
        )
        self.cancel_button = self._button("Cancel", "back, nothing is decided", self._on_cancel)
        self.approve_button.button_style = self.save_button.button_style = "success"
        self.reject_button.button_style = "danger"
        self.editor = w.Textarea(description="New value", rows=4)
        self.editor.observe(self._on_typing, names="value")
        can_edit = [self.edit_button] if proposal.action == "put" else []
        self._choices = w.HBox([self.approve_button, *can_edit, self.reject_button])
        self._edit_choices = w.HBox([self.save_button, self.cancel_button])

    @property
    def first_button(self) -> Any:
        """The one that takes the focus. Pressed by mistake it does the least."""
        if self._edits:
            return self.cancel_button
        return self.edit_button if self.proposal.action == "put" else self.reject_button

    @property
    def name(self) -> str:
        """The card in the panel's `repr`."""
        proposal = self.proposal
        if self.waits:
            return f"{proposal.id} {proposal.action} {proposal.kind}/{proposal.key}"
        return f"{proposal.id} {'approved' if proposal.state == 'used' else proposal.state}"

    def draw(self, found: Proposal | None, stale: bool, now: int) -> None:
        """Show the proposal as the store has it; None: the store has it no more.

        The text of a card stays as it was decided on, and buttons give way to a line as tall as
        they are: what stands below does not move under a second click.
        """
        if found is not None and found.state == "pending":
            self.proposal = found
            self._body.value = _body(found, self._panel._alice.user, stale, now)
            self._arrange()
            return
        if self.waits:
            self.waits = self._edits = False
            self.words = self.words or _ending(found)
            if found is not None:
                self.proposal = found
            used = found is not None and found.state in ("used", "approved")
            self.add_class("memlab-approved" if used else "memlab-refused")
            chosen = used or (found is not None and found.state == "rejected")
            kind = "memlab-done" if chosen else "memlab-done memlab-alert"
            role = "status" if chosen else "alert"
            self._message.value = f'<div class="{kind}" role="{role}">{safe(self.words)}</div>'
        self._arrange()

    def fold(self) -> None:
        """Leave of a decided card its name and what became of it."""
        if not self.waits:
            name = safe(f"{self.proposal.action} {self.proposal.kind}/{self.proposal.key}")
            self._body.value = (
                f'<div class="memlab-what" role="heading" aria-level="4">{name}</div>'
            )

    def attempt(self, act: Callable[[], Applied | Proposal]) -> None:
        """Ask the store to decide, and keep its answer in words, also where it refuses."""
        if not self.waits:
            return  # a second click
        self.words, self._message.value = "", ""
        try:
            answer = act()
        except NotApproved:
            return  # decided elsewhere, or too late: the store tells what became of it
        except MemlabError as error:
            self._warn(str(error))
        else:
            self.words = _outcome(answer)

    def _warn(self, text: str) -> None:
        self.words = text
        self._message.value = alert(text)

    def _arrange(self) -> None:
        """Show what belongs there now. A message comes last: buttons above it keep the focus."""
        message = (self._message,) if self._message.value else ()
        if not self.waits:
            self.children = (self._body, self._message)
        elif self._edits:
            editing = (self.editor, self._preview, self._edit_choices)
            self.children = (self._body, *editing, *message)
        else:
            self.children = (self._body, self._choices, *message)

    def _button(self, name: str, tooltip: str, act: Callable[[], None]) -> Any:
        button = w.Button(description=name, tooltip=tooltip)
        button.on_click(lambda _: self._guarded(act))
        return button

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:  # in a callback nobody would ever see it
            self._warn(f"{type(error).__name__}: {error}")
            self._arrange()

    def _on_approve(self) -> None:
        self._panel.approve(self.proposal.id)

    def _on_reject(self) -> None:
        self._panel.reject(self.proposal.id)

    def _on_save(self) -> None:
        self._panel.edit(self.proposal.id, self.editor.value)

    def _on_edit(self) -> None:
        change = self.proposal.change
        if self.waits and isinstance(change, Put):
            self._edits = True
            self.editor.value = change.value
            self._on_typing()
            self._arrange()
            self.editor.focus()

    def _on_cancel(self) -> None:
        if self.waits:
            self._edits, self._message.value = False, ""
            self._arrange()
            self.edit_button.focus()

    def _on_typing(self, _: object = None) -> None:
        text = self.editor.value
        self._preview.value = labelled("Would be stored", text, safe(text)) + hidden_in(text)


# What a card says -------------------------------------------------------------------------------


def _body(proposal: Proposal, user: str, stale: bool, now: int) -> str:
    change, old = proposal.change, proposal.old_value
    action = "Delete" if proposal.action == "delete" else "Replace" if old is not None else "Store"
    facts = [
        f"proposal {safe(proposal.id)}",
        f"from session {safe(proposal.session)}",
        f"asked {views.span(max(now - proposal.asked, 0))} ago",
        f"expires in {views.span(max(proposal.expires - now, 0))} "
        f"({views.utc(proposal.expires)} UTC)",
    ]
    if isinstance(change, Put):
        gone, came = difference(old or "", change.value)
        pair = [
            labelled("Stands now", old, gone) if old is not None else "",
            labelled("Would stand", change.value, came if old is not None else safe(change.value)),
        ]
        hidden = hidden_in(change.value)
    else:
        pair = [
            labelled("Would be deleted, with its history", old, f"<del>{safe(old or '')}</del>")
        ]
        hidden = hidden_in(old or "")
    reason = f"Reason given: <bdi>{safe(proposal.reason)}</bdi>" if proposal.reason else ""
    warning = alert(
        "Stale: the record has changed since this was asked. Approving it will be refused."
    )
    return (
        f'<div class="memlab-what" role="heading" aria-level="4">{action} '
        f"{safe(proposal.kind)}/{safe(proposal.key)} <span>for {safe(user)}, once</span></div>"
        f'<div class="memlab-pair">{"".join(pair)}</div>{hidden}{warning if stale else ""}'
        f'<div class="memlab-small">{reason}</div>'
        f'<div class="memlab-small">{" · ".join(facts)} · action: {proposal.action}</div>'
    )


def _is_stale(alice: UserMemory, proposal: Proposal) -> bool:
    record = alice.get(proposal.kind, proposal.key)
    if record is None:
        return proposal.old_value is not None
    return record.revision != proposal.base


def _outcome(answer: Applied | Proposal) -> str:
    """Say what the store did, in its own terms."""
    if isinstance(answer, Proposal):
        told = f" Told to the model: {answer.note}" if answer.note else ""
        return f"Rejected. {answer.kind}/{answer.key} was not written.{told}"
    name = f"{answer.change.kind}/{answer.change.key}"
    if answer.effect == "unchanged":
        return f"Nothing to do: {name} stands like this already. Nothing was written."
    at = f", revision {answer.record.revision}" if answer.record else ""
    return f"Approved, once. The store says: {name} {answer.effect}{at}."


def _ending(found: Proposal | None) -> str:
    """Say what became of a proposal that somebody else decided, or nobody in time."""
    if found is None:
        return "Gone: the store holds this proposal no more."
    if found.state == "used":
        return f"Approved elsewhere, once. The store says: {found.kind}/{found.key} {found.effect}."
    if found.state == "superseded":
        return "Superseded: the record has changed since, or was asked anew. Nothing was written."
    return _ENDS[found.state]
