"""The user's memories, a page at a time: filter, look into one, undo, pin and delete."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ipywidgets as w

from memlab import views
from memlab.context import age_label
from memlab.errors import Conflict, InvalidInput, MemlabError
from memlab.panels.parts import STYLE as _SHARED
from memlab.panels.parts import Guarded, Panel, alert, difference, hidden_in, labelled, owner, safe
from memlab.records import KINDS, Record, Revision, check_count, check_key, check_kind
from memlab.store import UserMemory
from memlab.text import clean, cut, fold, visible

STYLE = (
    _SHARED
    + """<style>
.memlab-memory { container-type: inline-size; width: 100%; }
.memlab-memory .memlab-bar { flex-flow: row wrap; align-items: center; gap: 4px 8px; }
.memlab-memory .memlab-bar > * { margin: 2px 0; }
.memlab-memory .memlab-bar .widget-label { width: auto; margin-right: 6px; }
.memlab-memory .memlab-bar .widget-text { flex: 1 1 260px; width: auto; min-width: 0; }
.memlab-memory .widget-toggle-buttons { flex: 1 1 100%; width: auto; min-width: 0; }
.memlab-memory .widget-toggle-buttons > div { display: flex; flex-flow: row wrap; gap: 4px;
  overflow: visible; }
.memlab-memory .widget-toggle-button { width: auto; margin: 0; padding: 0 12px; }
.memlab-memory .widget-toggle-button.mod-active { font-weight: 700; text-decoration: underline;
  text-underline-offset: 3px; }
.memlab-memory .memlab-bar .widget-html { flex: 1 1 200px; min-width: 0; }
.memlab-memory .memlab-bar .widget-checkbox { width: auto; margin-right: 8px; }
.memlab-memory .widget-checkbox label { display: flex; align-items: center; }
.memlab-memory input:focus-visible {
  outline: 3px solid var(--jp-brand-color1, #1976d2) !important; outline-offset: 1px; }
.memlab-memory, .memlab-row, .memlab-row-line, .memlab-look, .memlab-memory .memlab-bar,
.memlab-memory .memlab-question, .memlab-memory .memlab-rows { overflow: visible; }
.memlab-memory .memlab-rows { border-bottom: 1px solid var(--jp-border-color2, #bdbdbd); }
.memlab-row { border-top: 1px solid var(--jp-border-color2, #bdbdbd); padding: 3px 0;
  margin: 0 3px; color: var(--jp-ui-font-color1, inherit); }
.memlab-row-line { flex-flow: row wrap; align-items: flex-start; gap: 2px 10px; }
.memlab-row-line > .widget-button { flex: 0 1 230px; width: auto; min-width: 0; height: auto;
  min-height: 28px; line-height: 1.35; padding: 4px 8px; margin: 0; text-align: left;
  white-space: normal; overflow-wrap: anywhere; }
.memlab-row-line > .widget-html { flex: 1 1 260px; min-width: 0; margin: 0; }
.memlab-look { border-left: 5px solid var(--jp-brand-color1, #1976d2); margin: 4px 0 8px 3px;
  padding: 2px 0 2px 12px; }
.memlab-question { border: 1px solid var(--jp-border-color1, #9e9e9e); border-radius: 4px;
  padding: 6px 10px; margin: 4px 0; }
.memlab-cells { display: grid; gap: 2px 12px; grid-template-columns: minmax(0, 1fr) 190px; }
.memlab-excerpt { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate;
  font-size: 13px; }
.memlab-excerpt mark { color: inherit; background: transparent; font-weight: 700;
  text-decoration: underline; text-decoration-thickness: 2px; }
.memlab-pinned { font-weight: 600; color: var(--jp-ui-font-color1, inherit); }
.memlab-history { border-collapse: collapse; width: 100%; margin: 6px 0; font-size: 13px; }
.memlab-history caption { text-align: left; font-size: 12px; padding: 2px 0;
  color: var(--jp-ui-font-color2, inherit); caption-side: top; }
.memlab-history th, .memlab-history td { text-align: left; vertical-align: top;
  padding: 3px 12px 3px 0; border-top: 1px solid var(--jp-border-color2, #bdbdbd); }
.memlab-history td { width: 100%; }
@container (max-width: 560px) {
  .memlab-cells { grid-template-columns: minmax(0, 1fr); }
}
</style>"""
)

PAGE_ROWS = 25
_EXCERPT = 160  # characters of a value in a row
_EARLIER = 20  # revisions in the table of a record; all of them can be chosen for an undo

Name = tuple[str, str]  # kind, key


class MemoryPanel(Panel):
    """The user's memories, 25 a page: filter as you type, look into one, undo, pin, delete.

    It shows the memories as they were when it last looked. A change of one that was changed
    elsewhere since is refused, and says so. The same by code: `filter`, `page`, `history`, `undo`,
    `pin` and `delete` do what the fields and buttons do, and return the words shown.
    """

    def __init__(self, alice: UserMemory):
        super().__init__()
        self.add_class("memlab-panel")
        self.add_class("memlab-memory")
        self._alice = owner(alice)
        self._items: dict[Name, _Item] = {}
        self._found: list[_Item] = []
        self._looks: dict[Name, _Look] = {}  # the records that are open
        self._rows: list[_Row] = []  # as many as a page needs, drawn anew for other records
        self._query = self._kind = ""
        self._at = 0  # number of the page, from 0
        self._now = 0
        self._damage = ""
        self._by_code = False
        self._head, self._message, self._count = w.HTML(), w.HTML(), w.HTML()
        self.filter_field = w.Text(
            description="Filter", placeholder="part of a key or value", continuous_update=True
        )
        # No list to drop down: in a notebook the arrow keys would leave it for the next cell.
        self.kind_field = w.ToggleButtons(description="Kind", options=[("all", ""), *_SAME_NAMES])
        self.again_button = _button("Look again", "ask the store what it holds now")
        self.previous_button = _button("Previous", "the page before")
        self.next_button = _button("Next", "the page after")
        self.filter_field.observe(lambda _: self._guarded(self._on_filter), names="value")
        self.kind_field.observe(lambda _: self._guarded(self._on_filter), names="value")
        for button, act in (
            (self.again_button, self.refresh),
            (self.previous_button, lambda: self._turn(-1)),
            (self.next_button, lambda: self._turn(+1)),
        ):
            button.on_click(lambda _, act=act: self._guarded(act))
        self._list = _box(w.VBox, "memlab-rows")
        search = _box(w.HBox, "memlab-bar", self.filter_field, self.again_button, self.kind_field)
        pager = _box(w.HBox, "memlab-bar", self._count, self.previous_button, self.next_button)
        self.children = (self._head, search, self._message, pager, self._list)
        self.refresh()

    def __repr__(self) -> str:
        total = sum(not item.gone for item in self._items.values())
        sought = _sought(self._query, self._kind)
        parts = [_count(total, "memory", "memories"), f"filter: {sought or 'none'}"]
        if sought:
            parts.append(f"{self._matches():,} found")
        if self._matches():
            parts.append(f"shown: {self._range()}")
        if self._looks:
            parts.append("open: " + ", ".join(f"{kind}/{key}" for kind, key in self._looks))
        return f"MemoryPanel({self._alice.user}: {'; '.join(parts)})"

    # By code, and by the buttons ----------------------------------------------------------------

    def refresh(self) -> None:
        """Look again: show the memories as the store has them now. Filter and page stay."""
        alice = self._alice
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            records = alice.list()
        self._damage = " ".join(str(each.message) for each in caught)
        self._items = {(record.kind, record.key): _Item(record) for record in records}
        self._now = views.now_of(alice)
        self._message.value = ""
        for name, look in list(self._looks.items()):
            if name in self._items:
                look.draw(self._items[name])
            else:
                del self._looks[name]
        self._sift()

    def filter(self, text: str = "", kind: str | None = None) -> str:
        """Show the memories that hold `text` literally, in any case, in their key or value.

        Args:
            kind: Show only this kind; None: all.
        """
        clean(text, "text", limit=self._alice.limits.query_chars, blank=True)
        if kind is not None:
            check_kind(kind)
        self._by_code = True
        try:
            self.filter_field.value, self.kind_field.value = text, kind or ""
        finally:
            self._by_code = False
        self._on_filter()
        return self._count_words()

    def page(self, number: int) -> str:
        """Show this page of what the filter found, counted from 1."""
        self._at = check_count(number, "number", 1, self._pages()) - 1
        self._draw()
        return self._count_words()

    def history(self, kind: str, key: str) -> str:
        """Open a record, and return its values: one a line, the latest first."""
        item = self._item(kind, key)
        if item.gone:
            return item.gone
        look = self._open(item)
        lines = [
            f"revision {each.revision}, {views.utc(each.updated)} UTC, session "
            f"{visible(each.session)}: {visible(each.value)}"
            for each in reversed(look.revisions)
        ]
        return "\n".join([*lines, *filter(None, [look.words])])

    def undo(self, kind: str, key: str, revision: int) -> str:
        """Bring the value of an earlier revision back, as a new revision."""
        return self._change(self._item(kind, key), lambda item: self._undone(item, revision))

    def pin(self, kind: str, key: str, pinned: bool = True) -> str:
        """Keep a record from being forgotten, and send it first; or no longer."""
        return self._change(self._item(kind, key), lambda item: self._pinned(item, pinned))

    def delete(self, kind: str, key: str) -> str:
        """Delete a record for good, with its history; by code nothing is asked first."""
        return self._change(self._item(kind, key), self._deleted)

    # What is done -------------------------------------------------------------------------------

    def _item(self, kind: str, key: str) -> _Item:
        name = check_kind(kind), check_key(key)
        found = self._items.get(name)
        if found is None or (found.gone and self._alice.get(kind, key) is not None):
            self.refresh()  # it was stored since
            found = self._items.get(name)
        if found is None:
            raise InvalidInput("key", f"there is no {kind}/{key}. {self!r}")
        return found

    def _change(self, item: _Item, act: Callable[[_Item], str]) -> str:
        """Ask the store for one change, and show its answer, also where it refuses."""
        if item.gone:
            return item.gone  # a second click
        look = self._looks.get(item.name) or self._open(item)
        try:
            words = act(item)
        except MemlabError as error:
            words = str(error)
            look.warn(words, stale=isinstance(error, Conflict))
        else:
            for other in self._looks.values():  # what moves under a second click asks nothing
                other.ask("")
            if item.gone:
                del self._looks[item.name]
            else:
                look.draw(item, words)
        self._draw()
        if item not in self._shown():
            self._message.value = _told(words)
        return words

    def _undone(self, item: _Item, revision: int) -> str:
        alice, record = self._alice, item.record
        check_count(revision, "revision")
        self._must_stand(record)
        known = {each.revision: each.value for each in alice.history(*item.name)}
        if revision not in known:
            there = ", ".join(map(str, known))
            raise InvalidInput("revision", f"{revision} is not kept; there are: {there}.")
        now = item.renew(alice.put(*item.name, known[revision], expect=record.revision))
        if now.revision == record.revision:
            return f"Nothing to do: {item} stands like this already. Nothing was written."
        return (
            f"Undone. The store says: {item} replaced, revision {now.revision}, "
            f"with the value of revision {revision}."
        )

    def _pinned(self, item: _Item, pinned: bool) -> str:
        self._must_stand(item.record)
        if item.renew(self._alice.pin(*item.name, pinned)).pinned:
            return f"The store says: {item} is pinned. It is not forgotten, and is sent first."
        return f"The store says: {item} is not pinned."

    def _deleted(self, item: _Item) -> str:
        alice = self._alice
        self._must_stand(item.record)
        before, asked = len(alice.history(*item.name)), self._asked(item)
        there = alice.delete(*item.name)
        after, still_asked = len(alice.history(*item.name)), self._asked(item)
        if not there:
            item.end(f"{item} was not there any more. Nothing was deleted.")
            return item.gone
        words = [
            f"Deleted. The store says: {item} is gone.",
            f"Its values: {before} before, {after or 'none'} now.",
            f"Open proposals for it: {asked or 'none'} before, {still_asked or 'none'} now.",
        ]
        if _has_vectors(alice):
            words.append("Its vector went with it.")
        words.append(
            "Its text is still in the file, because another program reads it; it is erased later."
            if _waits_to_erase(alice)
            else "Its text is erased from the file."
        )
        item.end(" ".join(words))
        return item.gone

    def _must_stand(self, drawn: Record) -> None:
        """Refuse a change of a record that is not any more what was drawn."""
        now = self._alice.get(drawn.kind, drawn.key)
        if now is None or now.revision != drawn.revision:
            raise Conflict(drawn.kind, drawn.key, drawn.revision, now.revision if now else 0)
        if (now.created, now.value) != (drawn.created, drawn.value):  # all forgotten, then anew
            raise Conflict(drawn.kind, drawn.key, drawn.revision, 0)

    def _asked(self, item: _Item) -> int:
        """Return how many proposals for this record wait, or are approved and not used yet."""
        alice = self._alice
        known = [*alice.approvals.pending(), *alice.lend().approved()]
        return sum((proposal.kind, proposal.key) == item.name for proposal in known)

    # What is shown ------------------------------------------------------------------------------

    def _failed(self, error: Exception) -> None:
        self._message.value = alert(_said(error))

    def _on_filter(self) -> None:
        if self._by_code:
            return
        limit = self._alice.limits.query_chars
        try:
            query = clean(self.filter_field.value, "Filter", limit=limit, blank=True)
        except InvalidInput as error:
            self._message.value = alert(f"{error} Until then the list stays as it is.")
            return
        self._message.value = ""
        self._query, self._kind, self._at = query, self.kind_field.value, 0
        self._sift()

    def _sift(self) -> None:
        """Find what the filter asks for, and draw it."""
        query, kind = fold(self._query), self._kind
        self._found = [
            item
            for item in self._items.values()
            if not item.gone and (not kind or item.record.kind == kind) and item.holds(query)
        ]
        self._at = min(self._at, self._pages() - 1)
        self._draw()

    def _turn(self, step: int) -> None:
        last = self._pages() - 1
        self._at = min(max(self._at + step, 0), last)
        if last and self._at in (0, last):  # a focused button that is disabled drops the focus
            other = self.next_button if self._at == 0 else self.previous_button
            other.disabled = False
            other.focus()
        self._draw()

    def _pages(self) -> int:
        return max(-(-len(self._found) // PAGE_ROWS), 1)

    def _shown(self) -> list[_Item]:
        return self._found[self._at * PAGE_ROWS : (self._at + 1) * PAGE_ROWS]

    def _draw(self) -> None:
        shown, query = self._shown(), fold(self._query)
        while len(self._rows) < len(shown):
            self._rows.append(_Row(self))
        rows = self._rows[: len(shown)]
        for row, item in zip(rows, shown, strict=True):
            row.draw(item, query, self._now, self._looks.get(item.name))
        self._list.children = rows
        self._head.value = self._heading()
        self._count.value = f'<div role="status">{safe(self._count_words())}</div>'
        last = self._pages() - 1
        self.previous_button.disabled, self.next_button.disabled = self._at == 0, self._at == last
        for button in (self.previous_button, self.next_button):
            button.layout.display = "none" if last == 0 else None

    def _heading(self) -> str:
        kinds = Counter(item.record.kind for item in self._items.values() if not item.gone)
        each = ", ".join(f"{kind} {kinds[kind]:,}" for kind in KINDS if kinds[kind])
        by_kind = f" By kind: {each}." if each else ""
        damage = alert(f"Not all can be shown. {self._damage}") if self._damage else ""
        return (
            f'{STYLE}<div class="memlab-head" role="heading" aria-level="3">'
            f"{_count(kinds.total(), 'memory', 'memories')} of {safe(self._alice.user)}</div>"
            f'<div class="memlab-small">As of {views.utc(self._now)} UTC.{by_kind} '
            f"The filter looks for exactly what you type.</div>{damage}"
        )

    def _range(self) -> str:
        first = self._at * PAGE_ROWS + 1
        there = sum(not item.gone for item in self._shown())
        return f"{first:,}-{first + there - 1:,}" if there else "none"

    def _matches(self) -> int:
        return sum(not item.gone for item in self._found)

    def _count_words(self) -> str:
        total = sum(not item.gone for item in self._items.values())
        found, sought = self._matches(), _sought(self._query, self._kind)
        if not found:
            return f"No memory with {sought}." if sought else "There is no memory."
        words = f"Showing {self._range()} of {found:,}"
        return f"{words} with {sought}, of {total:,} in all." if sought else f"{words}."

    # One record ---------------------------------------------------------------------------------

    def _open(self, item: _Item) -> _Look:
        look = self._looks.get(item.name)
        if look is None:
            look = _Look(self)
            look.draw(item)
            self._looks[item.name] = look
            self._draw()
        return look

    def _close(self, item: _Item) -> None:
        self._looks.pop(item.name, None)
        self._draw()
        self._to_row(item)

    def _look_again_at(self, item: _Item) -> None:
        self.refresh()
        self._to_row(self._items.get(item.name, item))

    def _to_row(self, item: _Item) -> None:
        """Give the focus to the name of a record, or where that is not shown to the filter."""
        shown = self._shown()
        if item in shown and not item.gone:
            self._rows[shown.index(item)].name.focus()
        else:
            self.filter_field.focus()

    def _to_next(self, item: _Item) -> None:
        """Give the focus to the name of the next record that is still there."""
        shown = self._shown()
        place = shown.index(item) if item in shown else 0
        following = [*shown[place + 1 :], *reversed(shown[:place])]
        self._to_row(next((each for each in following if not each.gone), item))


class _Item:
    """A record as it was drawn, or what became of it."""

    __slots__ = ("_folded", "gone", "name", "record")

    def __init__(self, record: Record):
        self.record, self.name, self.gone = record, (record.kind, record.key), ""
        self._folded = fold(record.value)  # now, so that no keystroke waits for it

    def __str__(self) -> str:
        return "/".join(self.name)

    def holds(self, query: str) -> bool:
        """Say whether the folded `query` stands in the key or the value."""
        return query in self.record.key or query in self._folded

    def renew(self, record: Record) -> Record:
        """Take the record as the store answered it."""
        self.record, self._folded = record, fold(record.value)
        return record

    def end(self, words: str) -> None:
        """Keep of a deleted record what became of it, and none of its text."""
        self.gone, self._folded = words, ""
        self.record = replace(self.record, value="")


class _Row(w.VBox):  # type: ignore[misc]
    """One line of the list: the name, which opens the record, and the start of its value."""

    def __init__(self, panel: MemoryPanel):
        super().__init__()
        self.add_class("memlab-row")
        self.name = _button("", "look into it: history, undo, pin, delete")
        self.name.on_click(lambda _: panel._guarded(lambda: panel._open(self.item)))
        self._text, self._end = w.HTML(), w.HTML()
        self._line = _box(w.HBox, "memlab-row-line", self.name, self._text)

    def draw(self, item: _Item, query: str, now: int, look: _Look | None) -> None:
        self.item = item
        if item.gone:
            self._text.value = ""
            self._end.value = _told(item.gone)
            self.children = (self._end,)
            return
        record = item.record
        self.name.description = str(item)
        pinned = '<span class="memlab-pinned">pinned</span> · ' if record.pinned else ""
        self._text.value = (
            f'<div class="memlab-cells"><div class="memlab-excerpt" dir="auto">'
            f"{_excerpt(record.value, query)}</div>"
            f'<div class="memlab-small">{pinned}revision {record.revision} · '
            f"{age_label(record, now)} · from session {safe(record.session)}</div></div>"
        )
        self.children = (self._line, *([look] if look is not None else []))


class _Look(w.VBox, Guarded):  # type: ignore[misc]
    """One record that is open: all of its value, its history, and what can be done with it.

    The buttons stay where they are while something is asked, below them: a second click cannot
    answer the question that the first one raised.
    """

    def __init__(self, panel: MemoryPanel):
        super().__init__()
        self.add_class("memlab-look")
        self.revisions: list[Revision] = []
        self.words = ""
        self._panel, self._asks, self._quiet = panel, "", False
        self._body, self._message, self._what = w.HTML(), w.HTML(), w.HTML()
        self.pin_box = w.Checkbox(description="Pinned", indent=False)
        self.pin_box.observe(lambda _: self._guarded(self._on_pin), names="value")
        self.undo_button = self._button("Undo", lambda: self.ask("undo"))
        self.delete_button = self._button("Delete", lambda: self.ask("delete"))
        self.close_button = self._button("Close", lambda: panel._close(self._item))
        self.again_button = self._button("Look again", lambda: panel._look_again_at(self._item))
        self.cancel_button = self._button("Cancel", self._on_cancel)
        self.yes_undo_button = self._button("Yes, undo", self._on_undo)
        self.yes_delete_button = self._button("Yes, delete", self._on_delete)
        self.yes_delete_button.button_style = "danger"
        self.revision_field = w.BoundedIntText(
            description="Back to revision", style={"description_width": "auto"}
        )
        self.revision_field.observe(lambda _: self._guarded(self._on_revision), names="value")
        self._choices, self._answers = _box(w.HBox, "memlab-bar"), _box(w.HBox, "memlab-bar")
        self._question = w.VBox()
        self.children = (self._body, self._choices, self._question, self._message)

    def draw(self, item: _Item, words: str = "") -> None:
        """Show the record as the store has it; `words` tell what was done with it."""
        self._item = item
        self.revisions = self._panel._alice.history(*item.name)
        self._body.value = _body(item.record, self.revisions, self._panel._now)
        self._set_pin()
        name = str(item)
        for button, does in (
            (self.undo_button, "choose an earlier value"),
            (self.delete_button, "asks first"),
            (self.close_button, "back to the list"),
            (self.again_button, "show it as the store has it now"),
            (self.cancel_button, "back, nothing is changed"),
            (self.yes_undo_button, "bring this value back, as a new revision"),
            (self.yes_delete_button, "delete it for good"),
        ):
            button.tooltip = f"{name}: {does}"
        can_undo = [self.undo_button] if _earlier(item.record, self.revisions) else []
        self._choices.children = (
            self.pin_box,
            *can_undo,
            self.delete_button,
            self.close_button,
        )
        self.ask("")
        self.words, self._message.value = words, _told(words) if words else ""
        last = self.revisions[-1].revision if self.revisions else 0
        if last != item.record.revision:
            self.warn(str(Conflict(*item.name, item.record.revision, last)), stale=True)

    def ask(self, what: str) -> None:
        """Ask whether to `undo` or to `delete`; or ask nothing any more."""
        if what == self._asks and what:
            return  # a second click
        self._asks = what
        if what:
            self.words = self._message.value = ""
        if what == "delete":
            self._what.value = self._deletion()
            self._answers.children = (self.cancel_button, self.yes_delete_button)
            self._question.children = (self._what, self._answers)
            self._question.add_class("memlab-question")
            self.cancel_button.focus()
        elif what == "undo":
            earlier = _earlier(self._item.record, self.revisions)
            low, high = earlier[-1].revision, earlier[0].revision
            self.revision_field.max = max(high, self.revision_field.max)  # never below the least
            self.revision_field.min, self.revision_field.max = low, high
            self.revision_field.value = high
            self._on_revision()
            self._answers.children = (self.cancel_button, self.yes_undo_button)
            self._question.children = (self.revision_field, self._what, self._answers)
            self._question.add_class("memlab-question")
            self.cancel_button.focus()
        else:
            self._question.children = ()
            self._question.remove_class("memlab-question")

    def warn(self, words: str, stale: bool = False) -> None:
        """Show why nothing was done; with `stale`, offer to look at it again."""
        self.words, self._message.value = words, alert(words)
        self._set_pin()
        if stale:
            self.ask("")
            if self.again_button not in self._choices.children:
                self._choices.children = (*self._choices.children, self.again_button)

    def _deletion(self) -> str:
        item, panel = self._item, self._panel
        earlier, asked = len(_earlier(item.record, self.revisions)), panel._asked(item)
        goes = ["its value"]
        if earlier:
            goes.append(_count(earlier, "earlier value", "earlier values"))
        if asked:
            goes.append(_count(asked, "open proposal", "open proposals"))
        goes.append("the text of decided proposals")
        if _has_vectors(panel._alice):
            goes.append("its vector")
        return (
            f'<div class="memlab-what" role="heading" aria-level="4">Delete {safe(str(item))} '
            f"for good?</div><div>This removes from the file: {', '.join(goes)}. It cannot be "
            "undone. What stays is its name with the last revision number, and the decisions in "
            "the ledger, all without its text.</div>"
        )

    def _set_pin(self) -> None:
        self._quiet = True
        try:
            self.pin_box.value = self._item.record.pinned
        finally:
            self._quiet = False

    def _button(self, name: str, act: Callable[[], object]) -> Any:
        button = _button(name, "")
        button.on_click(lambda _: self._guarded(act))
        return button

    def _failed(self, error: Exception) -> None:
        self.warn(_said(error))

    def _on_pin(self) -> None:
        if not self._quiet:
            self._panel.pin(*self._item.name, self.pin_box.value)

    def _on_cancel(self) -> None:
        button = self.undo_button if self._asks == "undo" else self.delete_button
        if self._asks:
            self.ask("")
            button.focus()

    def _on_revision(self) -> None:
        chosen, now = self.revision_field.value, self._item.record.value
        found = [each for each in self.revisions if each.revision == chosen]
        if not found:
            self._what.value = alert(f"Revision {chosen} is not kept.")
            return
        value = found[0].value
        gone, came = difference(now, value)
        pair = (
            labelled("Stands now", now, gone),
            labelled(f"Would stand, from revision {chosen}", value, came),
        )
        self._what.value = f'<div class="memlab-pair">{"".join(pair)}</div>{hidden_in(value)}'

    def _on_undo(self) -> None:
        if self._asks == "undo":
            item, panel = self._item, self._panel
            panel._change(item, lambda each: panel._undone(each, self.revision_field.value))
            self._focus_after(self.undo_button)

    def _on_delete(self) -> None:
        if self._asks == "delete":
            item, panel = self._item, self._panel
            panel._change(item, panel._deleted)
            if item.gone:
                panel._to_next(item)
            else:
                self._focus_after(self.delete_button)

    def _focus_after(self, button: Any) -> None:
        """Give the focus to `button`, or to what to do next; while it still asks, it has it."""
        if not self._asks:
            stale = self.again_button in self._choices.children
            (self.again_button if stale else button).focus()


# What stands in it ------------------------------------------------------------------------------

_SAME_NAMES = [(kind, kind) for kind in KINDS]


def _button(name: str, tooltip: str) -> Any:
    return w.Button(description=name, tooltip=tooltip)


def _box(kind: Any, name: str, *children: Any) -> Any:
    box = kind(children)
    box.add_class(name)
    return box


def _told(words: str) -> str:
    return f'<div class="memlab-done" role="status">{safe(words)}</div>'


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, MemlabError) else f"{type(error).__name__}: {error}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _sought(query: str, kind: str) -> str:
    """Say what the filter asks for; empty: nothing."""
    parts = [f'"{visible(query)}"'] if query else []
    return " ".join([*parts, f"kind {kind}"] if kind else parts)


def _excerpt(value: str, query: str) -> str:
    """Return the part of a value around what was found, as HTML with that marked."""
    found = _span(value, query)
    if found is None:
        return safe(cut(value, _EXCERPT))
    start, end = found
    first = 0 if end <= _EXCERPT else len(cut(value, max(start - _EXCERPT // 2, 0), mark=""))
    last = max(end, first + len(cut(value[first:], _EXCERPT, mark="")))
    before, after = "[…] " if first else "", " […]" if last < len(value) else ""
    return (
        f"{before}{safe(value[first:start])}<mark>{safe(value[start:end])}</mark>"
        f"{safe(value[end:last])}{after}"
    )


def _span(value: str, query: str) -> tuple[int, int] | None:
    """Return where the folded `query` first stands in `value`, which is not folded."""
    if not query or query not in fold(value):
        return None
    low, high = 0, len(value)
    while low < high:  # the shortest beginning that holds it
        middle = (low + high) // 2
        low, high = (low, middle) if query in fold(value[:middle]) else (middle + 1, high)
    end = low
    low, high = 0, end
    while low < high:  # the shortest end of that
        middle = (low + high + 1) // 2
        low, high = (middle, high) if query in fold(value[middle:end]) else (low, middle - 1)
    return low, end


def _body(record: Record, revisions: list[Revision], now: int) -> str:
    facts = [
        f"revision {record.revision}",
        f"from session {safe(record.session)}",
        f"stored {views.utc(record.created)} UTC",
        f"changed {views.utc(record.updated)} UTC",
        age_label(record, now),
    ]
    if record.uses:
        facts.append(f"{_count(record.uses, 'use', 'uses')} in all")
    earlier = _earlier(record, revisions)
    return (
        f"{labelled('Value', record.value, safe(record.value))}{hidden_in(record.value)}"
        f'<div class="memlab-small">{" · ".join(facts)}</div>{_history(earlier)}'
    )


def _earlier(record: Record, revisions: list[Revision]) -> list[Revision]:
    """Return the revisions before the one that was drawn, the latest first."""
    return [each for each in reversed(revisions) if each.revision < record.revision]


def _history(earlier: list[Revision]) -> str:
    if not earlier:
        return '<div class="memlab-small">History: no earlier value.</div>'
    rows = "".join(
        f'<tr><th scope="row">{each.revision}</th><td><div class="memlab-excerpt" dir="auto">'
        f'{safe(each.value)}</div><div class="memlab-small">from session {safe(each.session)} · '
        f"{views.utc(each.updated)} UTC</div></td></tr>"
        for each in earlier[:_EARLIER]
    )
    older = len(earlier) - _EARLIER
    more = f"; {older:,} older ones can be seen under Undo" if older > 0 else ""
    return (
        f'<table class="memlab-history"><caption>History: '
        f"{_count(len(earlier), 'earlier value', 'earlier values')}, the latest first{more}"
        '</caption><thead><tr><th scope="col">revision</th><th scope="col">value</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _has_vectors(alice: UserMemory) -> bool:
    return alice._scope.embedder is not None


def _waits_to_erase(alice: UserMemory) -> bool:
    return alice._scope.database.erase_pending
