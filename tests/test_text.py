import sqlite3
import time
import unicodedata
from contextlib import closing

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memlab.errors import InvalidInput
from memlab.text import (
    MAX_CHARS,
    canonical,
    clean,
    cut,
    fold,
    one_slip,
    search_form,
    split_dates,
    stem,
    terms,
    visible,
)

steady = settings(deadline=None, derandomize=True, database=None, max_examples=200)

FAMILY = "👨‍👩‍👧‍👦"
PARTS = [FAMILY, "🇩🇪", "🏳️‍🌈", "👍🏽", "e\u0301", "한", "語", "a", " ", "1️⃣", "\r\n", "🏴󠁧󠁢󠁳󠁣󠁴󠁿"]


# clean ------------------------------------------------------------------------------------------


def test_text_is_kept_in_one_form_whatever_way_it_was_typed():
    assert clean("cafe\u0301", "value") == "caf\u00e9"
    assert clean("\u1112\u1161\u11ab", "value") == "한"


def test_compatibility_characters_are_stored_as_they_are():
    assert clean("ﬁ ％ ①", "value") == "ﬁ ％ ①"


@pytest.mark.parametrize("bad", ["a\0b", "\0", "é\0"])
def test_a_nul_is_refused(bad):
    with pytest.raises(InvalidInput, match="value: holds a NUL"):
        clean(bad, "value")


@pytest.mark.parametrize("bad", ["\ud800", "a\udfffb", "\ud83d\ude00"])
def test_half_of_a_surrogate_pair_is_refused(bad):
    with pytest.raises(InvalidInput, match="value: holds half of a surrogate"):
        clean(bad, "value")


@pytest.mark.parametrize("bad", ["", " ", "\n\t", "\u3000\u00a0", "\u2003"])
def test_blank_text_is_refused_unless_it_is_allowed(bad):
    with pytest.raises(InvalidInput, match="is blank"):
        clean(bad, "value")
    assert clean(bad, "query", blank=True) == bad


@pytest.mark.parametrize("bad", [None, 5, b"bytes", ["a"], type("Text", (str,), {})("a")])
def test_only_plain_text_is_text(bad):
    with pytest.raises(InvalidInput, match="must be text, not"):
        clean(bad, "value")


def test_length_counts_code_points_after_normalisation():
    assert clean("e\u0301" * 5, "value", limit=5) == "é" * 5
    grows = "\u0958" * 3  # a letter that NFC takes apart
    assert len(unicodedata.normalize("NFC", grows)) == 6
    with pytest.raises(InvalidInput, match="has 6 characters; the most allowed is 5"):
        clean(grows, "value", limit=5)


@pytest.mark.parametrize(
    "huge",
    ["x" * 10**8, "語" * 10**7, "e" + "\u0301\u0327" * 400_000, "\u0f73" * 900_000],
    ids=["ascii", "han", "accents in disorder", "double vowel signs"],
)
def test_huge_text_is_refused_at_once(huge):
    started = time.process_time()
    with pytest.raises(InvalidInput) as refused:
        clean(huge, "value")
    assert time.process_time() - started < 1
    assert len(str(refused.value)) < 200


def test_a_letter_may_carry_many_accents_but_not_without_end():
    assert clean("e" + "\u0327" * 900 + "x" * 5000, "value")
    assert clean(("e" + "\u0301" * 900) * 9, "value")
    with pytest.raises(InvalidInput, match="accents"):
        clean("e" + "\u0327" * 5000, "value")


@steady
@given(st.text(max_size=40))
def test_clean_text_stays_as_it_is_when_cleaned_again(text):
    try:
        once = clean(text, "value")
    except InvalidInput:
        assert not text.strip() or "\0" in text or not _encodable(text)
    else:
        assert clean(once, "value") == once == unicodedata.normalize("NFC", text)


def _encodable(text):
    return text.encode("utf-8", "replace").decode() == text


# fold -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Große Straße", "GROSSE STRASSE"),
        ("МОСКВА", "москва"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("ＦＵＬＬ ％", "full %"),
        ("ﬁne", "FINE"),
        ("ｶﾞ", "ガ"),
        ("Q", "q"),
    ],
)
def test_matching_sees_through_case_and_width(one, other):
    assert fold(one) == fold(other)


def test_the_turkish_letters_are_kept_apart():
    assert fold("ı") != fold("i")
    assert fold("İ") == "i\u0307" != fold("I")


@steady
@given(st.text(max_size=30))
def test_what_is_folded_matches_what_it_was_folded_from(text):
    assert fold(fold(text)) == fold(text)


# canonical --------------------------------------------------------------------------------------


def test_canonical_json_is_sorted_compact_and_not_escaped():
    assert canonical({"b": "語", "a": [1, None, True]}) == '{"a":[1,null,true],"b":"語"}'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_canonical_json_has_no_nan(number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"n": number})


# cut --------------------------------------------------------------------------------------------


def test_what_fits_is_not_cut():
    assert cut("12345", 5) == "12345"


def test_the_mark_counts():
    assert cut("1234567890", 8) == "1234 […]"


@pytest.mark.parametrize("whole", PARTS)
def test_one_visible_character_is_never_cut_in_two(whole):
    for limit in range(4, 4 + 3 * len(whole)):
        kept = cut(whole * 10, limit, mark="")
        assert kept == whole * (len(kept) // len(whole))


def test_flags_are_cut_between_countries():
    assert cut("🇩🇪🇫🇷🇯🇵", 3, mark="") == "🇩🇪"
    assert cut("x🇩🇪🇫🇷", 4, mark="") == "x🇩🇪"


@steady
@given(st.lists(st.sampled_from(PARTS), max_size=20).map("".join), st.integers(0, 40))
def test_a_cut_text_is_never_longer_than_its_limit(text, limit):
    short = cut(text, limit)
    assert len(short) <= limit
    assert short == text or text.startswith(short[: -len(" […]")]) or limit < len(" […]")


def test_no_room_gives_nothing():
    assert cut("abc", 0) == cut("abc", -1) == ""


# visible ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("\x1b[31m", "⟨U+001B⟩[31m"),
        ("a\rb", "a⟨U+000D⟩b"),
        ("\u2028", "⟨U+2028⟩"),
        ("\u200b", "⟨U+200B⟩"),
        ("\ue000", "⟨U+E000⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("ok\U000e0041", "ok⟨U+E0041⟩"),
        ("ok\U000e0101", "ok⟨U+E0101⟩"),
        ("a\u3164b", "a⟨U+3164⟩b"),
        ("a\u034f", "a⟨U+034F⟩"),
    ],
)
def test_what_a_reader_cannot_see_is_spelled_out(hidden, shown):
    assert visible(hidden) == shown


def test_what_a_reader_can_see_stays():
    for text in ("plain", "Größe 語 ❤️", "two\nlines\tand a tab"):
        assert visible(text) == text


# terms ------------------------------------------------------------------------------------------


def test_a_run_of_chinese_gives_its_characters_and_pairs():
    assert terms("成语接龙") == ["成", "语", "接", "龙", "成语", "语接", "接龙"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("用户身份验证", "身份"),
        ("今日は成語しりとりをした", "しり"),
        ("오늘 끝말잇기 게임", "끝말"),
        ("𠮷野家", "𠮷"),
        ("speed in GB/s", "gb/s"),
        ("speed in GB/s", "gb"),
        ("see file_name.py", "file-name.py"),
        ("see file_name.py", stem("name")),
        ("I like C++ and C#", "c++"),
        ("I like C++ and C#", "c#"),
        ("a 🎸 at home", "🎸"),
        ("don't", "don't"),
        ("version 3.11", "3.11"),
        ("Straße", stem("strasse")),
        ("МОСКВА", "москва"),
    ],
)
def test_words_are_found_in_every_script(text, word):
    wanted = word if "'" not in word else stem(word)
    assert wanted in terms(text)


@pytest.mark.parametrize("nothing", ["", "   ", "?!", "%", "_", "\"'", "---", "\u200d"])
def test_punctuation_alone_has_no_words(nothing):
    assert terms(nothing) == []


@pytest.mark.parametrize(
    ("word", "like"),
    [
        ("notes", "note"),
        ("stories", "story"),
        ("boxes", "box"),
        ("running", "run"),
        ("liked", "like"),
        ("likes", "like"),
        ("Alice's".lower(), "alice"),
        ("classes", "class"),
    ],
)
def test_forms_of_one_word_share_a_stem(word, like):
    assert stem(word) == stem(like)


@pytest.mark.parametrize("word", ["bus", "is", "this", "glass", "3.11s", "ing"])
def test_a_stem_is_not_cut_from_what_only_looks_like_a_form(word):
    assert stem(word) == word


@steady
@given(st.text(max_size=60))
def test_any_text_has_words_or_none_but_never_an_error(text):
    assert all(type(term) is str and term for term in terms(text))


def test_words_of_a_long_text_are_found_in_linear_time():
    started = time.process_time()
    for text in ("a" * MAX_CHARS, "a." * 100_000, "a" + "." * MAX_CHARS, "''" * 200_000):
        terms(text)
    assert time.process_time() - started < 5


# dates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "8 may",
        "on the 8th of may",
        "may 8th, please",
        "(2026-05-08)",
        "5月8日",
        "5 月 8 号",
        "2026年5月8日",
        "五月八号",
        "二〇年后的五月八日",
    ],
)
def test_a_day_is_one_term_however_it_is_written(text):
    assert split_dates(text)[1] == ["@05-08", "@05"]


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("12月31日", "@12-31"),
        ("十二月三十一号", "@12-31"),
        ("二月二十九日", "@02-29"),
        ("dec 31", "@12-31"),
        ("in mid march", "@03"),
        ("四月中旬", "@04"),
        ("10月份", "@10"),
    ],
)
def test_months_and_days_are_read_in_digits_and_in_words(text, term):
    assert split_dates(text)[1][0] == term


@pytest.mark.parametrize(
    "text",
    [
        "who may edit it",
        "a long march",
        "三个月",
        "每月",
        "may 45",
        "13月1日",
        "v2.3.0",
        "1-2-3",
        "",
    ],
)
def test_what_is_no_date_stays(text):
    assert split_dates(text) == (text, [])


def test_the_year_stays_among_the_words():
    assert terms(split_dates("what was on 8 may 2026?")[0]) == [*terms("what was on"), "2026"]
    assert terms(split_dates("2026-05-08")[0]) == ["2026"]


# slips ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["plumer", "plummber", "plubmer", "plumbir", "lumber"])
def test_one_slip_makes_another_word(wrong):
    assert one_slip(wrong, "plumber")
    assert one_slip("plumber", wrong)


@pytest.mark.parametrize(
    ("one", "other"), [("tea", "tea"), ("horse", "house"), ("plumber", "lumbar"), ("a", "abc")]
)
def test_two_slips_or_a_wrong_letter_in_a_short_word_are_too_many(one, other):
    assert not one_slip(one, other)
    assert not one_slip(other, one)


@given(text=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40))
@steady
@example(text="Straße")
@example(text="ＡＢＣ")
@example(text="İstanbul")
@example(text="MIXED Case")
@example(text="我喜欢乌龙茶，不要 Coffee")
def test_what_is_stored_to_search_in_or_what_sqlite_makes_of_the_text_is_the_folded_text(text):
    with closing(sqlite3.connect(":memory:")) as database:
        (lowered,) = database.execute("SELECT lower(?)", (text,)).fetchone()
    assert (search_form(text) or lowered) == fold(text)


def test_plain_english_and_plain_chinese_need_no_copy():
    assert search_form("Prefers Oolong tea, twice a day.") == ""
    assert search_form("喜欢乌龙茶。") == ""
    assert search_form("Große Straße") == "grosse strasse"
