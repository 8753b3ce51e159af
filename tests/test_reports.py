"""What holds for the page that a kit of checks prints."""

from memlab.classroom.reports import Finding, Report


def test_a_report_holds_only_if_something_was_tried_and_all_of_it_held():
    good, bad = Finding("a", "A holds", True), Finding("b", "B holds", False, "it did not")
    assert Report("kit", (good,)).holds
    assert not Report("kit", (good, bad)).holds
    assert not Report("kit", ()).holds
    assert Report("kit", (good, bad)).broken == (bad,)


def test_a_report_says_how_many_held_and_shows_what_did_not():
    report = Report("kit", (Finding("a", "A holds", True), Finding("b", "B holds", False, "no")))
    assert str(report) == "kit: 1 of 2 promises held\n  BROKEN b: B holds\n         found: no"
    assert repr(report) == str(report)


def test_what_was_found_keeps_to_its_line_and_hides_nothing():
    report = Report("kit", (Finding("b", "B", False, "one\ntwo\u202e" + "x" * 1000),))
    found = str(report).splitlines()[-1]
    assert "one ⏎ two" in found
    assert "\u202e" not in found
    assert len(found) < 300
