"""Clauses: what search, recall and the other ways of reading find, and that they only read."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from memlab.classroom.contract.clause import (
    Trial,
    keys_of,
    names_of,
    promises,
    readable,
    recalled,
    unchanged,
    value_at,
)
from memlab.classroom.trials import demand, refused, same
from memlab.errors import InvalidInput
from memlab.forgetting import Policy
from memlab.records import KINDS, Delete

# Search -----------------------------------------------------------------------------------------


@promises("search takes every character literally: no wildcard, no operator, no escape.")
def search_literal(trial: Trial) -> None:
    word = trial.word()
    trial.note(percent=f"100% {word}", thousand=f"1000 {word}", back=f"C:\\temp {word}")
    trial.note(under=f"file_name {word}", minus=f"file-name {word}")
    trial.note(quotes=f'don\'t say "{word}"', star=f"a*b [c] {word}?")
    for wanted, queries in {
        "percent": ("100%", "%", "％"),
        "under": ("_", "e_n"),
        "minus": ("-",),
        "quotes": ("'", f'"{word}"'),
        "star": ("*", "[c]", "?"),
        "back": ("\\",),
        "": ("\\%", "' OR 1=1 --", "NEAR(a", f"say {word}", f"{word} 100%"),
    }.items():
        for query in queries:
            found = trial.alice.search(query)
            same(keys_of(found), [wanted] if wanted else [], f"search({query!r})")


@promises("search finds text in any case of any script, Chinese and parts of words, and keys.")
def search_case(trial: Trial) -> None:
    word, hanzi = trial.word(), trial.hanzi(5)
    trial.note(german="Große Straße", russian="Москва", wide="ＶＳ Ｃｏｄｅ")
    trial.note(chinese=f"用户喜欢{hanzi}", english=word.capitalize())
    for wanted, queries in {
        "german": ("STRASSE", "GERMA"),
        "russian": ("МОСКВА",),
        "wide": ("vs code",),
        "chinese": (hanzi[1:3],),
        "english": (word.upper(), word[2:6].upper()),
    }.items():
        for query in queries:
            same(keys_of(trial.alice.search(query)), [wanted], f"search({query!r})")


@promises("search gives the latest first, at one time by kind and key, however they were stored.")
def search_order(trial: Trial) -> None:
    word = trial.word()
    names = [(kind, key) for kind in ("episode", "note") for key in ("a", "b", "c")]
    for kind, key in trial.chance.sample(names, len(names)):
        trial.alice.put(kind, key, f"{word} first")
    same(names_of(trial.alice.search(word, limit=9)), names, "search at one time")
    for name in (("note", "b"), ("episode", "c"), ("note", "a")):
        trial.forward(seconds=1)
        trial.alice.put(*name, f"{word} then")
        names.remove(name)
        names.insert(0, name)
    for query in (word, ""):
        same(names_of(trial.alice.search(query, limit=9)), names, f"search({query!r})")
    same(names_of(trial.alice.search(word)), names[:5], "search without a limit")


@promises("search and recall give at most `limit`, from 1 to 1000; anything else is refused.")
def search_limit(trial: Trial) -> None:
    word = trial.word()
    for n in range(4):
        trial.alice.put("note", f"n{n}", f"{word} {trial.word()}")
    for read in (trial.alice.search, trial.alice.recall, trial.lent().search, trial.lent().recall):
        same([len(read(word, limit=limit)) for limit in (1, 3, 1000)], [1, 3, 4], "how many")
        for limit in (0, -1, True, 1.5, "5", 1001, 10**9, None):
            refused(InvalidInput, read, word, limit=limit)


@promises("search and recall give records of the asked kind alone.")
def search_kind(trial: Trial) -> None:
    word = trial.word()
    for kind in KINDS:
        trial.alice.put(kind, "tea", word)
    for kind in KINDS:
        same(names_of(trial.alice.search(word, kind=kind)), [(kind, "tea")], "search")
        hits = trial.alice.recall(word, kind=kind)
        same(names_of(hit.record for hit in hits), [(kind, "tea")], "recall")
    for read in (trial.alice.search, trial.alice.recall):
        refused(InvalidInput, read, word, kind="any")


@promises("A query that is too long, no text, or holds a NUL is refused; any other breaks nothing.")
def search_query(trial: Trial) -> None:
    trial.note(tea="x" * 200)
    same(keys_of(trial.alice.search("x" * 128)), ["tea"], "search of 128 characters")
    refused(InvalidInput, trial.alice.search, "x" * 129)
    refused(InvalidInput, trial.alice.recall, "x" * 1201)
    for query in ("a\0b", "\ud83d", None, 5, b"tea"):
        refused(InvalidInput, trial.alice.search, query)
        refused(InvalidInput, trial.alice.recall, query)
    odd = ("don't", 'a"b', "a:b", "--x", "(", "*", "[", "\\", "NEAR(a", "AND", "GB/s", "pre-edit")
    for query in odd:
        same(keys_of(trial.alice.search(query)), [], f"search({query!r})")
        trial.alice.recall(query)


# Recall -----------------------------------------------------------------------------------------


@promises("recall finds what holds the words of a question, says why, and puts the best first.")
def recall_best(trial: Trial) -> None:
    alice, first, second = trial.alice, trial.word(), trial.word()
    trial.note(both=f"{first} and {second}")
    trial.note(one=f"{first} and {trial.word()}")
    for n in range(6):
        alice.put("note", f"n{n}", f"{trial.word()} and {trial.word()}")
    question = f"What did I say about the {second.upper()} of {first}?"
    same(recalled(alice, question), ["both", "one"], "what is recalled")
    hits = alice.recall(question)
    demand(hits[0].score > hits[1].score > 0, f"the scores are {[hit.score for hit in hits]}")
    demand(all(hit.why for hit in hits), "a hit does not say why it is there")


@promises("recall finds Chinese by parts of what was written, in a question in Chinese.")
def recall_chinese(trial: Trial) -> None:
    thing = trial.hanzi(4)
    trial.note(wanted=f"用户上周买了{thing}")
    for n in range(6):
        trial.alice.put("note", f"n{n}", f"会议定于{trial.hanzi(3)}举行")
    same(recalled(trial.alice, f"我的{thing}呢？")[:1], ["wanted"], "recalled by all of it")
    same(recalled(trial.alice, thing[1:3])[:1], ["wanted"], "recalled by two characters")


@promises("A question that nothing answers gets nothing, and so does a blank one.")
def recall_abstains(trial: Trial) -> None:
    for n in range(8):
        trial.alice.put(KINDS[n % len(KINDS)], f"n{n}", f"the {trial.word()} is {trial.word()}")
    asked = [trial.word(), f"What is the {trial.word()}?", trial.hanzi()]
    for query in (*asked, "", " ", "?!", "什么"):
        same(recalled(trial.alice, query), [], f"recall({query!r})")


@promises("recall gives the same order however the records were stored, by falling score.")
def recall_order(trial: Trial) -> None:
    word = trial.word()
    values = {f"n{n}": f"{word} {trial.word()}" for n in range(8)}
    other = trial.hers(store=trial.open(trial.folder / "other"))
    for memory in (trial.alice, other):
        for key in trial.chance.sample(sorted(values), len(values)):
            memory.put("note", key, values[key])
    found = [recalled(memory, word, 8) for memory in (trial.alice, other)]
    same(found[1], found[0], "the order in a store made in another order")
    same(len(set(found[0])), 8, "the records recalled")
    same(recalled(trial.alice, word, 3), found[0][:3], "the first three")
    scores = [hit.score for hit in trial.alice.recall(word, limit=8)]
    same(scores, sorted(scores, reverse=True), "the scores")


@promises("Only the value that stands is found and recalled, not one that was replaced.")
def recall_current(trial: Trial) -> None:
    old, new = trial.word(), trial.word()
    for value in (old, new):
        trial.note(tea=value)
        found = [hit.record.value for hit in trial.alice.recall(value)]
        same(found, [value], "what is recalled of the value that stands")
    found = [hit.record.value for hit in trial.alice.recall(old)]
    demand(old not in found, "the value that was replaced is recalled")
    same(keys_of(trial.alice.search(old)), [], "what is found of the value that was replaced")
    same(keys_of(trial.alice.search(new)), ["tea"], "what is found of the value that stands")


# Meaning ----------------------------------------------------------------------------------------


class Meanings:
    """An embedder for which words mean the same if they are told to it together."""

    id, dim = "meanings", 16

    def __init__(self, *alike: Sequence[str]):
        self._alike, self.fails = alike, False

    def embed(self, texts: Sequence[str]) -> Any:
        if self.fails:
            raise RuntimeError("no embedding today")
        import numpy

        rows = numpy.zeros((len(texts), self.dim), "float32")
        for row, text in zip(rows, texts, strict=True):
            at = [n for n, words in enumerate(self._alike) if any(word in text for word in words)]
            row[at or [self.dim - 1]] = 1
        return rows


@promises("With an embedder, what means the same is recalled with no word shared.", vectors=True)
def meaning_found(trial: Trial) -> None:
    asked, said = trial.word(), trial.word()
    trial.restart(embedder=Meanings((asked, said)))
    trial.note(wanted=f"the {said}")
    for n in range(4):
        trial.alice.put("note", f"n{n}", f"the {trial.word()}")
    same(recalled(trial.alice, asked), ["wanted"], "what is recalled")
    same(recalled(trial.alice, said)[:1], ["wanted"], "what is recalled by its own word")
    trial.alice.delete("note", "wanted")
    trial.bob.put("note", "wanted", f"the {said}")
    demand("wanted" not in recalled(trial.alice, asked), "what is gone, or Bob's, is recalled")


@promises(
    "If embedding fails the record is kept, found by its words, and no old vector counts.",
    vectors=True,
)
def meaning_fails(trial: Trial) -> None:
    asked, old, new = trial.word(), trial.word(), trial.word()
    embedder = Meanings((asked, old))
    trial.restart(embedder=embedder)
    trial.note(tea=f"the {old}")
    for n in range(4):
        trial.alice.put("note", f"n{n}", f"the {trial.word()}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a store may warn here
        embedder.fails = True
        trial.note(tea=f"the {new}")
        same(value_at(trial.alice, "tea"), f"the {new}", "the value stored")
        same(recalled(trial.alice, new), ["tea"], "what is recalled by words")
        embedder.fails = False
        demand("tea" not in recalled(trial.alice, asked), "the old vector speaks for the new value")


# Reading ----------------------------------------------------------------------------------------


@promises("Reading writes nothing, by whichever door, the agent's included.")
def read_pure(trial: Trial) -> None:
    alice, lent, word = trial.alice, trial.lent(), trial.word()
    for key in ("tea", "rice"):
        alice.put("note", key, f"{word} first")
        alice.put("note", key, word)
    asked = trial.pending(trial.change("tea"))
    alice.approvals.grant(Delete("note", "rice"))
    before, facts = readable(alice), trial.store.stats()
    trial.forward(seconds=60)
    for memory in (alice, lent):
        memory.get("note", "tea")
        memory.list()
        memory.search(word)
        memory.recall(word)
        memory.history("note", "tea")
    lent.proposal(asked.id)
    lent.approved()
    alice.approvals.pending()
    alice.approvals.ledger()
    alice.stale(Policy())
    list(alice.export())
    trial.store.verify()
    trial.store.users()
    unchanged(before, alice)
    for name in ("records", "by_kind", "users"):
        same(trial.store.stats()[name], facts[name], f"stats()[{name!r}]")


@promises("What is lent to an agent reads the user's records, and has no hand that writes.")
def lent_reads(trial: Trial) -> None:
    alice, word = trial.alice, trial.word()
    trial.note(tea=f"{word} first")
    trial.note(tea=word)
    for name, args in (
        ("get", ("note", "tea")),
        *(("list", ()), ("search", (word,)), ("recall", (word,)), ("history", ("note", "tea"))),
    ):
        own, lent = (repr(getattr(each, name)(*args)) for each in (alice, trial.lent()))
        same(lent, own, f"what {name} gives the agent")
    owner = "put delete remember undo pin forget forget_everything import_lines approvals lend"
    has = [name for name in owner.split() if hasattr(trial.lent(), name)]
    same(has, [], "what of the owner's hand is lent")


@promises("stats counts the records by kind, the users, and what waits.")
def stats_count(trial: Trial) -> None:
    for kind, key in (("note", "tea"), ("note", "rice"), ("decision", "tea")):
        trial.alice.put(kind, key, trial.word())
    trial.bob.put("note", "tea", trial.word())
    trial.pending(Delete("note", "tea"))
    own, all_ = trial.alice.stats(), trial.store.stats()
    counts = dict.fromkeys(KINDS, 0)
    same(own["by_kind"], counts | {"note": 2, "decision": 1}, "Alice's records by kind")
    same((own["records"], own["waiting"]), (3, 1), "Alice's records and what waits")
    same(all_["by_kind"], counts | {"note": 3, "decision": 1}, "all records by kind")
    same((all_["records"], all_["users"]), (4, 2), "all records and users")


@promises("A store that was only used finds nothing wrong with itself.")
def verify_clean(trial: Trial) -> None:
    for n in range(4):
        trial.alice.put("note", f"n{n}", trial.hanzi())
        trial.note(f"n{n}")
    trial.alice.delete("note", "n1")
    trial.alice.undo("note", "n2", 1)
    trial.pending(trial.change("n3"))
    trial.alice.approvals.reject(trial.pending(Delete("note", "n0")).id)
    same(list(trial.store.verify()), [], "verify()")
    trial.restart()
    same(list(trial.store.verify()), [], "verify() after a restart")
