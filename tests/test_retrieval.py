import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlab.records import Hit, Record
from memlab.retrieval import bm25, choose, cosine, query_terms, recall
from memlab.text import canonical, terms


def record(key, value, kind="note", updated=0, pinned=False):
    return Record(kind, key, value, 1, "s1", 0, updated, None, 0, pinned)


def found(records, query, limit=10):
    return [hit.key for hit in recall(records, query, limit)]


# bm25 -------------------------------------------------------------------------------------------


def test_bm25_gives_the_value_worked_out_by_hand():
    documents = [["red", "red", "fox"], ["red", "cat"], ["dog"]]
    # n(red) = 2, n(fox) = 1, N = 3, lengths 3, 2, 1 with average 2, k1 = 1.5, b = 0.75
    red, fox = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)
    first = red * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 1.5)) + fox * 2.5 / (1 + 1.5 * 1.375)
    second = red * 1 * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 1.0))
    assert bm25(["red", "fox"], documents) == pytest.approx([first, second, 0.0])


def test_bm25_of_nothing_is_nothing():
    assert bm25(["red"], []) == []
    assert bm25([], [["red"]]) == [0]
    assert bm25(["red"], [[], []]) == [0, 0]


@settings(deadline=None, derandomize=True, database=None)
@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=6), max_size=6), st.text("abcd"))
def test_bm25_is_never_negative_and_zero_exactly_where_no_word_is_shared(documents, query):
    for score, document in zip(bm25(list(query), documents), documents, strict=True):
        assert (score > 0) == bool(set(query) & set(document))


# cosine -----------------------------------------------------------------------------------------


def test_cosine_measures_the_angle():
    assert cosine([1, 0], [2, 0]) == 1
    assert cosine([1, 0], [0, 3]) == 0
    assert cosine([1, 1], [-1, -1]) == pytest.approx(-1)
    assert cosine([0, 0], [1, 1]) == 0
    with pytest.raises(ValueError, match="2 and 3 numbers"):
        cosine([1, 2], [1, 2, 3])


# recall -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "query"),
    [
        ("今天玩成语接龙游戏", "成语接龙"),
        ("今日は成語しりとりをした", "しりとり"),
        ("오늘 끝말잇기 게임", "끝말잇기"),
        ("用户身份验证", "用户"),
        ("用户身份验证", "身份"),
        ("上次讨论了记忆断裂问题", "我们上次说的记忆断裂问题怎么办"),
        ("migration of the database", "database migration"),
        ("the build runs in Docker", "docker-compose"),
        ("Große Straße 5", "GROSSE STRASSE"),
        ("живёт в городе Москва", "МОСКВА"),
        ("read speed is 3 GB/s", "GB/s"),
        ("she likes running", "does she like to run?"),
    ],
)
def test_a_question_finds_the_record_that_answers_it(value, query):
    others = [record("lunch", "noodles on Friday"), record("tea", "绿茶")]
    assert found([*others, record("right", value)], query)[0] == "right"


@pytest.mark.parametrize(
    "query", ["quantum", "what is it?", "", "   ", "?!", "的了吗", "the a of", "%", "_", "＿"]
)
def test_what_nothing_answers_gets_nothing(query):
    assert found([record("a", "tea at four, 100% of it"), record("b", "我喜欢喝茶的")], query) == []


@pytest.mark.parametrize(
    "query", ["pre-edit", "don't", "a:b", "*", "AND", "(", "NEAR(a", '"unbalanced', "--flag", "\\"]
)
def test_punctuation_of_other_engines_means_nothing_here(query):
    assert isinstance(found([record("a", f"the word {query} itself")], query), list)


def test_the_better_record_comes_first_whatever_its_name():
    equal = [record(f"a{n:02}", "tea in the garden") for n in range(12)]
    assert found([*equal, record("zzz", "green tea, always green")], "green tea", 3)[0] == "zzz"


def test_use_does_not_push_a_record_up():
    popular = [
        Record("note", f"p{n:02}", "tea in the garden", 1, "s1", 0, 0, 5, 500, False)
        for n in range(20)
    ]
    assert found([*popular, record("exact", "oolong")], "oolong tea", 1) == ["exact"]


def test_equal_scores_are_ordered_by_the_latest_then_by_name():
    same = [record("b", "tea"), record("a", "tea"), record("c", "tea", updated=9)]
    assert found(same, "tea") == found(same[::-1], "tea") == ["c", "a", "b"]


def test_each_hit_says_why():
    hits = recall([record("a", "green tea"), record("b", "tea")], "tea", 5)
    assert [hit.why["words"]["rank"] for hit in hits] == [1, 2]
    assert all(hit.why["words"]["score"] == hit.score > 0 for hit in hits)


def test_one_kind_can_be_asked_for():
    both = [record("a", "tea"), record("b", "tea", kind="decision")]
    assert [hit.kind for hit in recall(both, "tea", 5, "decision")] == ["decision"]


def test_stop_words_of_the_query_do_not_count():
    assert query_terms("What is the name of your dog?") == [*terms("name"), *terms("dog")]
    assert query_terms("dog dog dogs") == terms("dog")


# choose -----------------------------------------------------------------------------------------


def hits_of(*records):
    return [Hit(each, 1.0 / rank, {"words": {}}) for rank, each in enumerate(records, start=1)]


def size_of(chosen):
    return len(canonical([hit.record.for_model() for hit in chosen]))


def keys(chosen):
    return [hit.key for hit in chosen]


def test_preferences_always_go_pinned_first_then_by_rank_then_the_latest():
    wishes = [
        record("old", "v", "preference", updated=1),
        record("late", "v", "preference", updated=9),
        record("ranked", "v", "preference", updated=2),
        record("pinned", "v", "preference", updated=0, pinned=True),
        record("older", "v", "preference", updated=0),
    ]
    note = record("note", "v")
    chosen = choose(hits_of(note, wishes[2]), wishes, 2200, 4)
    assert keys(chosen) == ["pinned", "ranked", "late", "old", "note"]
    assert chosen[0].why == {}
    assert chosen[1].score == 0.5


def test_a_relevant_preference_is_not_lost_because_of_its_name():
    wishes = [record(f"a{n}", "v", "preference", updated=5) for n in range(8)]
    wishes.append(record("zzz", "v", "preference", updated=1))
    assert keys(choose(hits_of(wishes[-1]), wishes, 2200, 5))[0] == "zzz"


def test_one_that_does_not_fit_is_skipped_and_a_smaller_one_still_goes():
    big, small = record("big", "x" * 500), record("small", "x")
    assert keys(choose(hits_of(big, small), [], 200, 5)) == ["small"]


def test_the_limit_is_met_to_the_character():
    records = hits_of(record("a", "語" * 30), record("b", "y" * 30))
    exact = size_of(records)
    assert keys(choose(records, [], exact, 5)) == ["a", "b"]
    assert keys(choose(records, [], exact - 1, 5)) == ["a"]


@settings(deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60), max_size=12),
    st.integers(0, 900),
)
def test_whole_records_within_the_limit_and_each_once(values, chars):
    notes = [record(f"n{n}", value) for n, value in enumerate(values)]
    wishes = [record(f"w{n}", value, "preference") for n, value in enumerate(values)]
    chosen = choose(hits_of(*notes, *wishes), wishes, chars, 3)
    assert size_of(chosen) <= max(chars, len("[]"))
    assert len(set(keys(chosen))) == len(chosen)
    assert all(hit.record in notes + wishes for hit in chosen)
