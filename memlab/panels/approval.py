"""The changes that wait for the user, a card each. A card changes only after the store answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import ipywidgets as w

from memlab import views
from memlab.errors import Conflict, InvalidInput, MemlabError, NotApproved
from memlab.panels.parts import (
    STYLE,
    Guarded,
    Panel,
    alert,
    difference,
    hidden_in,
    labelled,
    note,
    owner,
    safe,
)
from memlab.records import Applied, Proposal, Put, Record
from memlab.store import UserMemory
from memlab.text import fold, visible

_ENDS = {
    "approved": "Approved before, and waits to be used once.",
    "rejected": "Rejected. Nothing was written.",
    "expired": "Expired: it waited too long. Nothing was written.",
    "revoked": "Revoked. Nothing was written.",
}


class ApprovalPanel(Panel):
    """A card for each change that waits for the user, with Approve, Edit and Reject.

    The same by code: `approve`, `edit`, `reject` and `approve_all` do what the buttons do, and
    return the words that then stand in the panel.
    """

    def __init__(self, alice: UserMemory):
        super().__init__()
        self.add_class("memlab-panel")
        self._alice = owner(alice)
        self._head = w.HTML()
        self._cards: dict[str, _Card] = {}
        self._seen = _Seen(0, {}, {})
        self._again = w.Button(description="Look again", tooltip="ask the store what waits now")
        self._again.on_click(lambda _: self._guarded(self.refresh))
        self._several = w.Button(
            description="Approve all shown", tooltip="first lists every value; decides nothing yet"
        )
        self._several.on_click(lambda _: self._guarded(self._on_several))
        self._bar = w.HBox([self._again])
        self._bar.add_class("memlab-bar")
        self._list: _List | None = None
        self._place = w.VBox()  # for the list, so that no card is drawn anew when it comes or goes
        self.refresh()

    def __repr__(self) -> str:
        waiting = [card.name for card in self._cards.values() if card.waits]
        ended = [card.name for card in self._cards.values() if not card.waits]
        parts = [f"{len(waiting)} waiting: {', '.join(waiting)}" if waiting else "nothing waiting"]
        if ended:
            parts.append(f"{len(ended)} decided: {', '.join(ended)}")
        return f"ApprovalPanel({self._alice.user}: {'; '.join(parts)})"

    def refresh(self) -> None:
        """Draw every card anew from the store: what waits now, and what this panel has shown.

        What is decided is folded to one line; its text is not kept here.
        """
        for card in self._cards.values():
            card.fold()
        if self._list and self._list.over:
            self._list = None
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

    def approve_all(self, ids: Iterable[str]) -> str:
        """Approve each of these, once; say how many were saved, and which not and why.

        Each is a write of its own: one that is refused does not hold up the others.
        """
        if isinstance(ids, str):
            raise InvalidInput("ids", "must be a list of ids, not one text.")
        words, _ = self._approve_each([self._card(id) for id in dict.fromkeys(ids)])
        return words

    def _approve_each(self, cards: list[_Card]) -> tuple[str, bool]:
        saved = []
        for card in cards:
            act = partial(self._alice.approvals.approve, card.proposal.id, how="panel")
            if card.attempt(act, every=True):
                saved.append(card)
        words = _tally(cards, saved)
        self._draw_or_say()
        return words, len(saved) == len(cards)

    def _decide(self, id: str, act: Callable[[], Applied | Proposal]) -> str:
        card = self._card(id)
        waited = card.waits
        card.attempt(act)
        self._draw_or_say()
        if waited and not card.waits:
            self._move_on(card)
        return card.words

    def _card(self, id: str) -> _Card:
        if id not in self._cards:
            self._draw()
        if id not in self._cards:
            raise InvalidInput("id", f"there is no card {id!r}. {self!r}")
        return self._cards[id]

    def _failed(self, error: Exception) -> None:
        self._head.value = f"{STYLE}{alert(f'Not up to date: {error}')}"

    def _draw_or_say(self) -> None:
        """Draw what the store holds after a decision, which stands whatever happens here."""
        try:
            self._draw()
        except Exception as error:
            self._failed(error)
            for card in self._cards.values():
                card.say()

    def _draw(self) -> None:
        alice = self._alice
        for proposal in alice.approvals.pending():
            if proposal.id not in self._cards:
                self._cards[proposal.id] = _Card(self, proposal)
        cards, lent = self._cards.values(), alice.lend()
        found = {id: lent.proposal(id) for id in self._cards}
        waiting = [each for each in found.values() if each and each.state == "pending"]
        self._seen = _seen(views.now_of(alice), alice.list(), waiting)
        for id, card in self._cards.items():
            card.draw(found[id])
        self._head.value = self._heading()
        if self._list:
            self._list.draw()
        several = sum(card.can_be_approved for card in cards) > 1
        self._bar.children = (self._again, self._several) if several else (self._again,)
        self._place.children = (self._list,) if self._list else ()
        self.children = (self._head, self._bar, self._place, *cards)

    def _move_on(self, card: _Card | None = None) -> None:
        """Give the focus to the next card that waits, or it falls to the page, where keys command.

        Not to its Approve: a second Enter must not approve what nobody has read.
        """
        cards = list(self._cards.values())
        place = cards.index(card) + 1 if card else 0
        following = [*cards[place:], *cards[:place]]
        buttons = (each.first_button for each in following if each.waits)
        next(buttons, self._again).focus()

    def _on_several(self) -> None:
        """List what can be approved now, with every value. What is asked later is not in it."""
        if self._list is None or self._list.over:
            self.refresh()  # nobody should say yes to what has changed since it was drawn
            cards = [card for card in self._cards.values() if card.can_be_approved]
            if not cards:
                self._again.focus()
                return
            self._list = _List(self, cards)
            self._place.children = (self._list,)
        self._list.focus_first()

    def _close_list(self) -> None:
        self._list = None
        self._place.children = ()
        (self._several if self._several in self._bar.children else self._again).focus()

    def _heading(self) -> str:
        waiting = [card for card in self._cards.values() if card.waits]
        noun = "change waits" if len(waiting) == 1 else "changes wait"
        return (
            f'{STYLE}<div class="memlab-head" role="heading" aria-level="3">'
            f"{len(waiting) or 'No'} {noun} for {safe(self._alice.user)}</div>"
            f'<div class="memlab-small">As of {views.utc(self._seen.now)} UTC. Nothing is written '
            "before you approve it.</div>"
        )


class _Card(w.VBox, Guarded):  # type: ignore[misc]
    """One proposal: what it would change, then buttons, an editor, or what became of it."""

    def __init__(self, panel: ApprovalPanel, proposal: Proposal):
        super().__init__()
        self.add_class("memlab-card")
        self.proposal = proposal
        self.waits = True
        self.words = ""
        self._panel = panel
        self._edits = self._stale = False
        self._body, self._preview, self._message = w.HTML(), w.HTML(), w.HTML()
        self.what = what = visible(f"{proposal.action} {proposal.kind}/{proposal.key}")
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
        self.editor.observe(lambda _: self._guarded(self._on_typing), names="value")
        self._choices, self._edit_choices = w.HBox(), w.HBox()
        for choices in (self._choices, self._edit_choices):
            choices.add_class("memlab-bar")

    @property
    def can_be_approved(self) -> bool:
        """Whether the store would still say yes, as far as is known here."""
        return self.waits and not self._stale and self.proposal.change is not None

    @property
    def first_button(self) -> Any:
        """The one that takes the focus. Pressed by mistake it does the least."""
        if self._edits:
            return self.cancel_button
        return self._choices.children[-2 if len(self._choices.children) == 3 else -1]

    @property
    def name(self) -> str:
        """The card in the panel's `repr`."""
        proposal = self.proposal
        if self.waits:
            return f"{proposal.id} {self.what}{' (stale)' if self._stale else ''}"
        return f"{proposal.id} {'approved' if proposal.state == 'used' else proposal.state}"

    @property
    def title(self) -> str:
        """What it would do, as HTML for the top of the card."""
        old = self.proposal.old_value
        action = (
            "Delete"
            if self.proposal.action == "delete"
            else ("Replace" if old is not None else "Store")
        )
        return f"{action} {safe(self.proposal.kind)}/{safe(self.proposal.key)}"

    def values(self) -> str:
        """What stands and what would stand, and what to be careful about."""
        return _values(self.proposal, self._panel._seen, self._stale)

    def draw(self, found: Proposal | None) -> None:
        """Show the proposal as the store has it; None: the store has it no more.

        The text of a card stays as it was decided on, and buttons give way to a line as tall as
        they are: what stands below does not move under a second click.
        """
        if found is not None and found.state == "pending":
            self.proposal, seen = found, self._panel._seen
            self._stale = seen.moved(found)
            user = safe(self._panel._alice.user)
            self._body.value = (
                f'<div class="memlab-what" role="heading" aria-level="4">{self.title} '
                f"<span>for {user}, once</span></div>{self.values()}{_facts(found, seen.now)}"
            )
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
            self._message.value = _done(self.words, chosen)
        self._arrange()

    def fold(self) -> None:
        """Leave of a decided card its name and what became of it."""
        if not self.waits:
            self._body.value = (
                f'<div class="memlab-what" role="heading" aria-level="4">{safe(self.what)}</div>'
            )

    def attempt(self, act: Callable[[], Applied | Proposal], every: bool = False) -> bool:
        """Ask the store to decide, keep its answer in words, and say whether it did so just now.

        Args:
            every: Keep errors of any other kind in words too: others are still to be attempted.
        """
        if not self.waits:
            return False  # a second click
        self.words, self._message.value = "", ""
        try:
            answer = act()
        except NotApproved as error:  # decided elsewhere, or too late
            if error.proposal.state == "pending":
                self._warn(str(error))
            else:
                self.words = _ending(error.proposal)
        except Conflict as error:
            self._warn(f"Stale, so not approved. {error}")
        except MemlabError as error:
            self._warn(str(error))
        except Exception as error:
            if not every:
                raise
            self._warn(f"{type(error).__name__}: {error}")
        else:
            self.words = _outcome(answer)
            return isinstance(answer, Proposal) or answer.effect != "unchanged"
        return False

    def say(self) -> None:
        """Show the words of a decision that could not be followed by a look at the store."""
        if self.words and not self._message.value:
            self._message.value = _done(self.words, True)
        self._arrange()

    def _warn(self, text: str) -> None:
        self.words = text
        self._message.value = alert(text)

    def _arrange(self) -> None:
        """Show what belongs there now. A message comes last: buttons above it keep the focus."""
        message = (self._message,) if self._message.value else ()
        if not self.waits:
            self.children = (self._body, self._message)
        elif self._edits:
            save = (self.save_button,) if self.can_be_approved else ()
            self._edit_choices.children = (*save, self.cancel_button)
            editing = (self.editor, self._preview, self._edit_choices)
            self.children = (self._body, *editing, *message)
        else:
            edit = (self.edit_button,) if self.proposal.action == "put" else ()
            say_yes = (self.approve_button, *edit) if self.can_be_approved else ()
            self._choices.children = (*say_yes, self.reject_button)
            self.children = (self._body, self._choices, *message)

    def _button(self, name: str, tooltip: str, act: Callable[[], None]) -> Any:
        button = w.Button(description=name, tooltip=tooltip)
        button.on_click(lambda _: self._guarded(act))
        return button

    def _failed(self, error: Exception) -> None:
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
        if self.can_be_approved and isinstance(change, Put):
            self._edits = True
            self.editor.value = change.value
            self._on_typing()
            self._arrange()
            self.editor.focus()

    def _on_cancel(self) -> None:
        if self.waits:
            self._edits, self._message.value = False, ""
            self._arrange()
            self.first_button.focus()

    def _on_typing(self) -> None:
        text, proposal = self.editor.value, self.proposal
        _, came = difference(proposal.old_value or "", text)
        markup = came if proposal.old_value is not None else safe(text)
        most = self._panel._alice.limits.value_chars
        over = (
            alert(f"Too long: the most allowed is {most} characters.") if len(text) > most else ""
        )
        careful = hidden_in(text) + self._panel._seen.twins(proposal, text)
        self._preview.value = labelled("Would be stored", text, markup) + over + careful


class _List(w.VBox, Guarded):  # type: ignore[misc]
    """The changes that one click would approve, each with its value, and then what was saved."""

    def __init__(self, panel: ApprovalPanel, cards: list[_Card]):
        super().__init__()
        self.add_class("memlab-card")
        self.add_class("memlab-list")
        self.over = False
        self._panel = panel
        self._top, self._message = w.HTML(), w.HTML()
        self._lines = [_Line(card, self._count) for card in cards]
        self._yes = w.Button(button_style="success", tooltip="allow each that is ticked, once")
        self._yes.on_click(lambda _: self._guarded(self._on_yes))
        self._no = w.Button(description="Cancel", tooltip="back, nothing is decided")
        self._no.on_click(lambda _: self._guarded(panel._close_list))
        self._choices = w.HBox([self._yes, self._no])
        self._choices.add_class("memlab-bar")
        self.draw()

    def draw(self) -> None:
        """Show each line as its card now stands."""
        title = "What became of them" if self.over else "Read every value before you approve them"
        self._top.value = (
            f'<div class="memlab-what" role="heading" aria-level="4">{title}</div>'
            + ("" if self.over else self._rivals())
        )
        for line in self._lines:
            line.draw(self.over)
        self._count()
        message = (self._message,) if self._message.value else ()
        choices = () if self.over else (self._choices,)
        self.children = (self._top, *self._lines, *choices, *message)

    def focus_first(self) -> None:
        next((line.tick for line in self._lines if line.ticked), self._no).focus()

    def _rivals(self) -> str:
        names = [line.name for line in self._lines if line.card.can_be_approved]
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if not twice:
            return ""
        return note(
            f"More than one of these would change {', '.join(twice)}: the first that is saved "
            "makes the others stale."
        )

    def _count(self) -> None:
        count = sum(line.ticked for line in self._lines)
        self._yes.description = f"Approve these {count}" if count != 1 else "Approve this one"
        self._yes.disabled = count == 0

    def _on_yes(self) -> None:
        cards = [line.card for line in self._lines if line.ticked]
        if self.over or not cards:
            return  # a second click
        self.over = True
        self._message.value = _done(*self._panel._approve_each(cards))
        self.draw()
        self._panel._move_on()

    def _failed(self, error: Exception) -> None:
        self._message.value = alert(f"{type(error).__name__}: {error}")
        self.draw()


class _Line(w.VBox):  # type: ignore[misc]
    """One change in the list: a tick and the whole value."""

    def __init__(self, card: _Card, on_tick: Callable[[], None]):
        super().__init__()
        self.card = card
        self.add_class("memlab-line")
        self.name = visible(f"{card.proposal.kind}/{card.proposal.key}")
        self.tick = w.Checkbox(value=True, indent=False, description=card.what)
        self.tick.observe(lambda _: on_tick(), names="value")
        self._what = w.HTML()
        self._value = w.HTML(card.values())
        self.children = (self.tick, self._value)

    @property
    def ticked(self) -> bool:
        return self.card.can_be_approved and bool(self.tick.value)

    def draw(self, over: bool) -> None:
        card = self.card
        if card.can_be_approved and not over:
            return
        if card.waits:
            end = "not saved, and still waits" if over else "cannot be approved now"
        elif card.proposal.state == "used":
            end = "saved" if card.proposal.action == "put" else "deleted"
        else:
            end = f"not saved ({card.proposal.state})" if over else card.proposal.state
        self._what.value = f'<div class="memlab-what">{safe(f"{card.what}: {end}")}</div>'
        self.children = (self._what, self._value)


# What stands in the store -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Seen:
    """What stood in the store when the panel last looked, and under which names each text."""

    now: int
    records: dict[tuple[str, str], Record]
    names: dict[str, list[tuple[str, str, str]]]  # folded value: kind, key, `stands` or `waits`

    def moved(self, proposal: Proposal) -> bool:
        """Say whether the record has changed since this was asked."""
        record = self.records.get((proposal.kind, proposal.key))
        if record is None:
            return proposal.old_value is not None
        return record.revision != proposal.base

    def twins(self, proposal: Proposal, text: str) -> str:
        """Warn where the same text, whatever its case and width, has another name already."""
        own = (proposal.kind, proposal.key)
        found: dict[str, list[str]] = {"stands": [], "waits": []}
        for kind, key, how in self.names.get(fold(text), ()):
            name = f"{kind}/{key}"
            if (kind, key) != own and name not in found[how]:
                found[how].append(name)
        told = [f"{how} as {', '.join(names)}" for how, names in found.items() if names]
        if not told:
            return ""
        return note(f"Twin: the same text {' and '.join(told)}. Do you want it twice?")


def _seen(now: int, records: Iterable[Record], waiting: Iterable[Proposal]) -> _Seen:
    names: dict[str, list[tuple[str, str, str]]] = {}
    by_name = {(record.kind, record.key): record for record in records}
    for record in by_name.values():
        names.setdefault(fold(record.value), []).append((record.kind, record.key, "stands"))
    for each in waiting:
        if isinstance(each.change, Put):
            names.setdefault(fold(each.change.value), []).append((each.kind, each.key, "waits"))
    return _Seen(now, by_name, names)


# What a card says -------------------------------------------------------------------------------


def _values(proposal: Proposal, seen: _Seen, stale: bool) -> str:
    change, old = proposal.change, proposal.old_value
    hidden = twins = ""
    if change is None:
        warning = alert("Damaged: its text cannot be read, so it cannot be approved. Reject it.")
        return f'<div class="memlab-pair"></div>{warning}'
    before = "Old value, when this was asked" if stale else "Old value"
    if isinstance(change, Put):
        gone, came = difference(old or "", change.value)
        pair = [
            labelled(before, old, gone) if old is not None else "",
            labelled("New value", change.value, came if old is not None else safe(change.value)),
        ]
        hidden = hidden_in(change.value)
        twins = seen.twins(proposal, change.value)
    else:
        label = before if stale else "Old value, goes with its history"
        pair = [labelled(label, old, f"<del>{safe(old or '')}</del>")]
        hidden = hidden_in(old or "")
    warning = ""
    if stale:
        record = seen.records.get((proposal.kind, proposal.key))
        if record is not None:
            pair.insert(0, labelled("Stands now", record.value, safe(record.value)))
        warning = alert(
            "Stale: the record has changed since this was asked. It cannot be approved any more. "
            "Reject it, or have it asked anew."
        )
    return f'<div class="memlab-pair">{"".join(pair)}</div>{hidden}{twins}{warning}'


def _facts(proposal: Proposal, now: int) -> str:
    facts = [
        f"proposal {safe(proposal.id)}",
        f"from session {safe(proposal.session)}",
        f"asked {views.span(max(now - proposal.asked, 0))} ago",
        f"expires in {views.span(max(proposal.expires - now, 0))} "
        f"({views.utc(proposal.expires)} UTC)",
        f"action: {safe(proposal.action)}",
    ]
    reason = f"Reason given: <bdi>{safe(proposal.reason)}</bdi>" if proposal.reason else ""
    return (
        f'<div class="memlab-small">{reason}</div>'
        f'<div class="memlab-small">{" · ".join(facts)}</div>'
    )


def _done(words: str, chosen: bool) -> str:
    """Return a line that says what became of a change; an alert where that was not the wish."""
    kind = "memlab-done" if chosen else "memlab-done memlab-alert"
    role = "status" if chosen else "alert"
    return f'<div class="{kind}" role="{role}">{safe(words)}</div>'


def _tally(cards: list[_Card], saved: list[_Card]) -> str:
    """Say how many of several changes were saved, and which not and why."""
    kept = all(card.proposal.action == "put" for card in cards)
    did = "saved" if kept else "done"
    words = f"{len(saved)} of {len(cards)} {did}."
    missing = [card for card in cards if card not in saved]
    lines = [f"Not {did}: {card.what} ({card.proposal.id}). {card.words}" for card in missing]
    return "\n".join([words, *lines])


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
