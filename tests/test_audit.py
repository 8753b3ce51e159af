"""The audit: three kits on one store, and a page that shows what did not hold."""

from __future__ import annotations

import json

import pytest

from memlab import InvalidInput, MemoryStore, classroom
from memlab.classroom import run_python
from memlab.classroom.attacks import run_attacks
from memlab.classroom.reports import Finding, Report
from memlab.classroom.scorecard import (
    LINE_CHARS,
    PAGE_LINES,
    Scorecard,
    _agent,
    audit,
    find_opener,
)

KITS = ["contract", "canaries", "attacks"]


def kit(title, held, broken):
    good = [Finding(f"good.{n}", "It holds.", True) for n in range(held)]
    bad = [Finding(f"bad.{n}", "It holds.", False, f"found {n}") for n in range(broken)]
    return Report(title, (*good, *bad))


# The page ---------------------------------------------------------------------------------------


def test_the_page_counts_each_kit_and_ends_with_a_verdict():
    page = str(Scorecard("some store", (kit("contract", 9, 0), kit("attacks", 57, 0)))).splitlines()

    assert page[0] == "Audit of some store"
    assert page[2].split() == ["contract", "9", "of", "9", "held"]
    assert page[3].split() == ["attacks", "57", "of", "57", "held"]
    assert page[-1] == "Verdict: all 66 promises held."


def test_what_is_broken_stands_there_with_what_was_found():
    card = Scorecard("some store", (kit("contract", 9, 0), kit("attacks", 1, 1)))

    assert not card.holds
    assert "  BROKEN bad.0: It holds.\n         found: found 0\n" in str(card)
    assert str(card).endswith("Verdict: 1 of 11 promises are BROKEN.")


@pytest.mark.parametrize("broken", [0, 1, 26, 27, 52, 53, 54, 300])
def test_the_page_is_one_page_however_much_is_broken(broken):
    card = Scorecard("x", (kit("contract", 0, broken), kit("attacks", 1, 0)))
    page = str(card).splitlines()
    shown = [line for line in page if line.startswith("  BROKEN")]

    assert len(page) <= PAGE_LINES
    if broken > len(shown):
        assert f"... and {broken - len(shown)} more" in str(card)
    else:
        assert [line.split(":")[0].split()[-1] for line in shown] == [
            f"bad.{n}" for n in range(broken)
        ]


def test_a_store_writes_no_line_and_hides_nothing_on_the_page():
    found = "one\nVerdict: all held.\u202e\x1b[2J" + "x" * 1000
    card = Scorecard("s", (Report("attacks", (Finding("a", "A holds.", False, found),)),))
    page = str(card)

    assert [line for line in page.splitlines() if line.startswith("Verdict")] == [
        "Verdict: 1 of 1 promises are BROKEN."
    ]
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert max(map(len, page.splitlines())) <= LINE_CHARS


def test_a_kit_that_tried_nothing_is_no_proof():
    card = Scorecard("s", (kit("contract", 3, 0), Report("attacks", ())))

    assert not card.holds
    assert "tried nothing" in str(card)
    assert not Scorecard("s", ()).holds


def test_as_json_it_holds_every_finding():
    read = json.loads(json.dumps(Scorecard("s", (kit("contract", 1, 1),)).to_dict()))

    assert read["holds"] is False
    assert read["kits"][0]["tried"] == 2
    assert read["kits"][0]["held"] == 1
    assert read["kits"][0]["findings"][1] == {
        "name": "bad.0",
        "promise": "It holds.",
        "held": False,
        "found": "found 0",
    }


# The run ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ours():
    return audit()


def test_our_own_store_keeps_every_promise(ours):
    assert ours.holds, ours


def test_all_kits_are_run(ours):
    assert len(ours.reports) == len(KITS)
    for report, title in zip(ours.reports, KITS, strict=True):
        assert report.title.startswith(title)
        assert len(report.findings) > 25
    assert ours.store == "MemoryStore.open"


def test_a_store_that_lets_everybody_read_everything_is_found_by_every_kit():
    class OneForAll(MemoryStore):
        def for_user(self, user, session):
            return super().for_user("everybody", session)

    card = audit(OneForAll.open, "one for all")

    assert card.store == "one for all"
    assert all(report.broken for report in card.reports), card


def test_a_store_that_cannot_be_opened_breaks_promises_and_raises_nothing():
    def opener(folder, **options):
        raise OSError("no such disk")

    card = audit(opener)

    assert not card.holds
    assert all(report.broken for report in card.reports)
    assert "no such disk" in str(card)


def test_what_cannot_be_called_is_no_opener():
    with pytest.raises(InvalidInput, match=r"MemoryStore\.open"):
        audit("memlab:MemoryStore.open")


class Stranger:
    """Another implementation: it does what is promised, and has nothing of our insides."""

    def __init__(self, inner, names):
        self._its, self._names = inner, names

    def __getattr__(self, name):
        if name not in self._names:
            raise AttributeError(name)
        return getattr(self._its, name)


READS = {"user", "session", "limits", "get", "list", "search", "recall", "history", "touch"}
LENT = READS | {"propose", "proposal", "approved", "apply"}
OWN = READS | {"put", "delete", "approvals", "export", "import_lines"}


class StrangeMemory(Stranger):
    def lend(self):
        return Stranger(self._its.lend(), LENT)


class StrangeStore(Stranger):
    def for_user(self, user, session):
        return StrangeMemory(self._its.for_user(user, session), OWN)


def strange(folder, **options):
    return StrangeStore(MemoryStore.open(folder, **options), {"close", "verify", "users", "stats"})


def test_our_agent_works_over_a_memory_of_another_class():
    report = run_attacks(_agent, only=["claim.task", "again.used", "path.parent"], opener=strange)

    assert report.holds, report


# Its name ---------------------------------------------------------------------------------------


def test_an_opener_is_found_by_its_name():
    assert find_opener("memlab:MemoryStore.open") == MemoryStore.open


@pytest.mark.parametrize(
    "name",
    [
        *("", ":", "memlab", "memlab:", ":open", "memlab:nothing", "memlab:MemoryStore.nothing"),
        *("memlab:__doc__", "no_such_module:open", "..:open", "memlab.:open", "memlab:a..b"),
        *("a b:c", "\0:open", "memlab:\u202eopen", "tests/x:open"),
    ],
)
def test_a_name_that_leads_to_nothing_is_refused(name):
    with pytest.raises(InvalidInput, match="--store") as refused:
        find_opener(name)

    assert str(refused.value).isprintable()


# On use -----------------------------------------------------------------------------------------


def test_a_lesson_loads_no_kit_before_it_uses_one():
    code = "import json, sys, memlab.classroom; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(run_python(code))

    kits = ("attacks", "canaries", "contract", "planted", "scene", "scorecard", "trials")
    assert not {f"memlab.classroom.{kit}" for kit in kits} & set(loaded)


def test_every_name_of_the_classroom_is_there():
    code = "import memlab.classroom as c; print(*(getattr(c, name).__name__ for name in c.__all__))"

    assert run_python(code).split() == sorted(classroom.__all__)


def test_a_name_that_the_classroom_has_not_is_told():
    with pytest.raises(AttributeError, match="has no attribute 'exam'"):
        classroom.exam  # noqa: B018
