import re

import pytest

from memlab import errors
from memlab.errors import (
    Conflict,
    InvalidInput,
    MemlabError,
    ModelError,
    NotApproved,
    OverBudget,
    QuotaReached,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreMissing,
    StoreTooNew,
)

ALL = {
    name: thing
    for name, thing in vars(errors).items()
    if isinstance(thing, type) and issubclass(thing, BaseException)
}


def test_every_error_is_in_the_tree_and_the_tree_is_drawn_whole():
    drawn = set(re.findall(r"[A-Z]\w*", errors.__doc__.split("Each message")[0])) & set(ALL)
    assert drawn == set(ALL)
    assert all(issubclass(error, MemlabError) for error in ALL.values())


def test_whoever_knows_only_python_can_catch_them_too():
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(NotApproved, PermissionError)


def test_one_except_catches_all_that_the_file_could_not_do():
    of_the_file = {name for name, error in ALL.items() if issubclass(error, StoreError)}
    assert of_the_file == {
        *("StoreError", "QuotaReached", "StoreBusy", "StoreDamaged", "StoreTooNew"),
        *("StoreForeign", "StoreMissing", "Conflict"),
    }


@pytest.mark.parametrize(
    ("error", "numbers"),
    [
        (InvalidInput("key", "is odd. Mend it."), {"field": "key"}),
        (QuotaReached("records_total", 64, "Full."), {"what": "records_total", "limit": 64}),
        (StoreBusy(0.5), {"seconds": 0.5}),
        (StoreDamaged("half is gone"), {"detail": "half is gone"}),
        (StoreTooNew(9, 2), {"found": 9, "supported": 2}),
        (StoreForeign("a diary"), {"detail": "a diary"}),
        (Conflict("note", "k", 2, 0), {"expected": 2, "found": 0, "kind": "note", "key": "k"}),
        (OverBudget(200, 100), {"chars": 200, "limit": 100}),
        (ModelError("gone", 503), {"status": 503}),
        (NotApproved("no", "the proposal"), {"proposal": "the proposal"}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_numbers_are_attributes_as_well(error, numbers):
    assert {name: getattr(error, name) for name in numbers} == numbers


@pytest.mark.parametrize(
    "error",
    [StoreBusy(5), StoreDamaged("x"), StoreTooNew(3, 2), StoreForeign("x"), StoreMissing()],
    ids=lambda each: type(each).__name__,
)
def test_what_stops_the_whole_store_says_what_to_do_next(error):
    assert re.search(r"(Close|Restore|Update|Open|open|Check)", str(error))


def test_a_missing_record_is_called_not_there():
    assert "not there" in str(Conflict("note", "k", 1, 0))
    assert "revision 3" in str(Conflict("note", "k", 1, 3))
