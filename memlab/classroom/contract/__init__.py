"""The contract of a store: every promise it makes, tried on any implementation of it.

    print(check_store(MemoryStore.open))

A promise is kept as a clause: a function that is handed a `Trial` (a new store in a folder of its
own, two users, a clock, values that no store can know) and returns if the promise held. To add
one, write in the file of its theme, in its group,

    @promises("Putting the same value again changes nothing.")
    def put_unchanged(trial: Trial) -> None:
        first = trial.note("tea")
        same(plain(trial.note(tea=first.value)), plain(first), "the record")

The clause is called `put.unchanged` in every report: the first `_` of the function's name becomes
a dot. Say with `same`, `demand` and `refused` what must hold; each of them ends the clause with a
sentence about what was found instead. Use what is public alone, so that a store of another engine
can be tried, and break one store in tests/test_contract.py that only the new clause tells.
"""

from __future__ import annotations

import importlib.util
import random
import secrets
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

from memlab.classroom.contract import approvals, recall, records, users
from memlab.classroom.contract.clause import Clause, Trial
from memlab.classroom.reports import Finding, Report
from memlab.classroom.trials import Opener, chosen, folder, tried
from memlab.errors import InvalidInput

CLAUSES = {
    each.name: each
    for theme in (records, recall, users, approvals)
    for each in vars(theme).values()
    if isinstance(each, Clause)
}
"""All clauses by name, in the order in which they are tried."""


def check_store(
    opener: Opener, *, only: Collection[str] | None = None, seed: int | None = None
) -> Report:
    """Try every promise of a store on the one that `opener` opens, and report what held.

    A clause that raises what nobody promised is broken; the others go on.

    Args:
        opener: Called like `MemoryStore.open`: `opener(folder, create=True, limits=..., clock=...,
            new_id=..., embedder=...)`. What it opens is kept apart by folder, and is closed.
        only: The names of the clauses to run; None: all of them.
        seed: Makes the values the same in every run; None: nobody can know them before.

    Raises:
        InvalidInput: `only` names a clause that does not exist.
    """
    if not callable(opener):
        raise InvalidInput("opener", "must be called like MemoryStore.open. Pass a function.")
    seed = secrets.randbits(64) if seed is None else seed
    wanted = chosen(CLAUSES, only)
    able = importlib.util.find_spec("numpy") is not None
    left_out = [clause for clause in wanted if clause.vectors and not able]
    findings: list[Finding] = []
    for clause in wanted:
        if clause not in left_out:
            with (
                tried(clause.name, clause.promise, findings),
                folder() as name,
                ExitStack() as opened,
            ):
                chance = random.Random(f"{seed} {clause.name}")
                clause.run(Trial(opener, Path(name), chance, clause.options, opened))
    title = "contract of a store"
    if left_out:
        title += f" ({len(left_out)} left out: numpy is not installed)"
    return Report(title, tuple(findings))
