"""Text as memlab sees it: cleaned when it comes in, folded to compare, cut into terms to search."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from typing import Any

from memlab.errors import InvalidInput

# No text at all may be longer, whatever the limits say: it is refused before it costs memory.
MAX_CHARS = 1_000_000
MARKS_IN_A_ROW = 1000  # to put more in order takes Python the square of their number

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_SURROGATE = re.compile("[\ud800-\udfff]")
_HIDDEN = frozenset(("Cc", "Cf", "Co", "Cs", "Zl", "Zp"))
_BLANK = re.compile(  # fillers and variation selectors that show nothing (but those of emoji)
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0000-\U000e0fff]"
)


def clean(text: object, field: str, *, limit: int = MAX_CHARS, blank: bool = False) -> str:
    """Return `text` in Unicode NFC, or refuse it.

    Args:
        field: What the error calls it.
        limit: Most code points allowed after NFC.
        blank: Whether nothing but white space is allowed.

    Raises:
        InvalidInput: no text, blank, too long, a NUL or half of a surrogate pair inside.
    """
    if type(text) is not str:
        raise InvalidInput(field, f"must be text, not {type(text).__name__}. Pass a str.")
    if text.isascii():  # nothing to normalise, no surrogate
        cleaned = text
    else:
        if len(text) > MAX_CHARS:
            raise InvalidInput(field, _too_long(len(text), min(limit, MAX_CHARS)))
        if _SURROGATE.search(text):
            raise InvalidInput(
                field, "holds half of a surrogate pair, which is no character. Remove it."
            )
        if len(text) > 4 * MARKS_IN_A_ROW and _piled_up(text):
            raise InvalidInput(
                field, f"has more than {MARKS_IN_A_ROW} accents on one letter. Remove some."
            )
        cleaned = unicodedata.normalize("NFC", text)
    if "\0" in cleaned:
        raise InvalidInput(field, "holds a NUL character. Remove it.")
    if len(cleaned) > limit:
        raise InvalidInput(field, _too_long(len(cleaned), limit))
    if not blank and (not cleaned or cleaned.isspace()):
        raise InvalidInput(field, "is blank. Write at least one visible character.")
    return cleaned


def fold(text: str) -> str:
    """Return the form in which two texts are compared: NFKC, case-folded, NFKC again."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def search_form(text: str) -> str:
    """Return the folded text as it is stored; empty where SQLite's `lower`, ASCII only, gives it.

    A text in English, and many a text in Chinese, needs no second copy in the file.
    """
    if text.isascii():
        return ""
    folded = fold(text)
    return "" if folded == text.translate(_LOWER) else folded


def canonical(value: Any) -> str:
    """Return the one JSON form in which sizes are counted and digests are made.

    Keys sorted, no spaces, nothing escaped that JSON does not require, no NaN.
    """
    return _ENCODE(value)


_ENCODE = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode


def cut(text: str, limit: int, mark: str = " […]") -> str:
    """Shorten `text` to at most `limit` code points, the visible `mark` included.

    Never cuts inside a character that a reader sees as one: an accent, a flag, a family of emoji.
    """
    if len(text) <= limit:
        return text
    end = max(limit - len(mark), 0)
    while end and _joined(text, end):
        end -= 1
    return text[:end] + mark[: max(limit - end, 0)]


def visible(text: str) -> str:
    """Return `text` with control, format, bidirectional and invisible characters spelled out.

    What a reader sees is then what is stored: `a\\u202eb` becomes `a⟨U+202E⟩b`.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"⟨U+{ord(c):04X}⟩"
        if c not in "\n\t" and (unicodedata.category(c) in _HIDDEN or _BLANK.match(c))
        else c
        for c in text
    )


# Terms ------------------------------------------------------------------------------------------

_CJK = (
    "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\u3041-\u309f\u30a0-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana
    "\uac00-\ud7a3"  # Hangul
    "\U00020000-\U0003134f"  # rarer Han
)
_PART = re.compile(r"[._:/@+#-]+")
_APOSTROPHE = re.compile(r"['’](?:s|m|re|ve|ll|d|t)$")


def terms(text: str) -> list[str]:
    """Return the words of `text` to be searched, in order, repeats kept.

    A run of Chinese, Japanese or Korean gives its characters and its overlapping pairs; an
    identifier such as `GB/s` or `file_name` gives itself and its parts; an English word its stem.
    """
    found: list[str] = []
    for match in _token().finditer(fold(text).replace("_", "-")):
        token = match[0]
        if match["run"]:
            found.extend(token)
            found.extend(token[i : i + 2] for i in range(len(token) - 1))
            continue
        if token.isalnum():  # a plain word, as most are
            found.append(stem(token))
            continue
        parts = [part for part in _PART.split(token) if part]
        if len(parts) > 1 or parts != [token]:
            found.append(token)
        found.extend(stem(part) for part in parts)
    return found


@lru_cache(maxsize=1)
def _token() -> re.Pattern[str]:
    """Return the pattern of one token; made on use, because to compile it takes milliseconds."""
    word = rf"[^\W_{_CJK}]+(?:['’][^\W_{_CJK}]+)*"
    return re.compile(
        rf"(?P<run>[{_CJK}]+)"  # of Chinese, Japanese or Korean
        rf"|{word}(?:[._:/@+#-]+{word})*[+#]*"
        r"|[\U0001f000-\U0001faff\u2600-\u27bf]"  # an emoji
    )


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return a light English stem: plural, -ing and -ed fall away, nothing cleverer."""
    word = _APOSTROPHE.sub("", word)
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-2] if word.endswith(("sses", "shes", "ches", "xes")) else word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE_HINT = re.compile("[0-9]-[0-9]|月|" + "|".join(_MONTHS))
_ZH_DIGITS = "零一二三四五六七八九"


def split_dates(folded: str) -> tuple[str, list[str]]:
    """Return a folded text without its days and months, and the terms of these.

    `8 may`, `may 8th`, `2026-05-08`, `5月8日` and `五月八号` all give `@05-08` and `@05`; `in may`
    and `五月` give `@05`. A year stays in the text, where it is a word like any other.
    """
    found: dict[str, None] = {}

    def take(match: re.Match[str]) -> str:
        part = {name[0]: text for name, text in match.groupdict().items() if text}
        month = _MONTHS.index(part["n"][:3]) + 1 if "n" in part else _number(part["m"])
        day = _number(part["d"]) if "d" in part else None
        if not 1 <= month <= 12 or not (day is None or 1 <= day <= 31):
            return match[0]
        if day is not None:
            found[f"@{month:02}-{day:02}"] = None
        found[f"@{month:02}"] = None
        return f" {part.get('y', '')} "

    if not _DATE_HINT.search(folded):  # most texts hold none, and this is quick to see
        return folded, []
    return _date().sub(take, folded), list(found)


@lru_cache(maxsize=1)
def _date() -> re.Pattern[str]:
    """Return the pattern of a day or a month; each group's name starts with what it holds."""
    name = (
        "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
        "|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
    )
    before = "in|of|by|mid|early|late|last|next|since|until|till|during|before|after|from"
    number = "[一二三四五六七八九十]{1,3}|[0-9]{1,2}"
    return re.compile(
        rf"(?<![\w.,:/-])(?P<d1>[0-9]{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+(?P<n1>{name})\b"
        rf"|\b(?P<n2>{name})\.?\s+(?P<d2>[0-9]{{1,2}})(?:st|nd|rd|th)?(?![\w:])"
        rf"|\b(?:{before})[\s-]+(?P<n3>{name})\b"  # `may` and `march` alone are no months
        r"|(?<![\w-])(?P<y4>[0-9]{4})-(?P<m4>[0-9]{2})-(?P<d4>[0-9]{2})(?![\w-])"
        rf"|(?:(?P<y5>[0-9]{{4}})\s*年\s*)?(?<![0-9])(?P<m5>{number})\s*月(?!\s*[0-9]+\s*年)"
        rf"(?:份|\s*(?P<d5>{number})\s*[日号號])?"
    )


def _number(text: str) -> int:
    """Return a number from 1 to 99 that is written in digits or in Chinese."""
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    if not ten:
        return _ZH_DIGITS.index(text) if len(text) == 1 else 0
    if len(tens) > 1 or len(ones) > 1 or "十" in tens:
        return 0
    return (_ZH_DIGITS.index(tens) if tens else 1) * 10 + (_ZH_DIGITS.index(ones) if ones else 0)


def one_slip(one: str, other: str) -> bool:
    """Say whether one letter too many, one missing or two swapped make `one` of `other`.

    In a word of seven letters or more, one wrong letter is such a slip, too.
    """
    if len(one) > len(other):
        one, other = other, one
    if one == other or len(other) - len(one) > 1:
        return False
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    if len(one) < len(other):
        return one[at:] == other[at + 1 :]
    if one[at + 2 :] == other[at + 2 :] and one[at : at + 2] == other[at : at + 2][::-1]:
        return True
    return len(one) >= 7 and one[at + 1 :] == other[at + 1 :]


def _piled_up(text: str) -> bool:
    run = 0
    for char in text:
        run = run + 1 if unicodedata.combining(char) or char in "\u0f73\u0f75\u0f81" else 0
        if run > MARKS_IN_A_ROW:
            return True
    return False


def _too_long(chars: int, limit: int) -> str:
    return f"has {chars} characters; the most allowed is {limit}. Shorten it."


def _joined(text: str, at: int) -> bool:
    """Say whether `text[at - 1]` and `text[at]` belong to one visible character."""
    before, after = text[at - 1], text[at]
    if unicodedata.category(after) in ("Mn", "Me", "Mc") or "\u200d" in (before, after):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return True  # a skin tone, a tag of a flag
    if _regional(before) and _regional(after):
        run = at
        while run and _regional(text[run - 1]):
            run -= 1
        return (at - run) % 2 == 1
    return before == "\r" and after == "\n"


def _regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
