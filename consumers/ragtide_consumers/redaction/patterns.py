"""Removes e-mail addresses, telephone numbers and payment cards from a text. Pure.

The patterns know forms only: names, addresses and spelled-out numbers stay. docs/offline/recording.md lists the forms.

Texts are untrusted, so every pattern takes time in proportion to the text: each character is looked at a bounded number
of times. `tests/consumers/redaction/test_patterns.py` gives each pattern a megabyte of its worst case.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

_AT: Final = re.compile(r"@|\s?(?:\(at\)|\[at\])\s?")
_HOST: Final = re.compile(r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.)+[^\W\d_]{2,24}(?![\w-])")

_LOCAL_SIGNS: Final = frozenset(".!#$%&'*+/=?^_`{|}~-")
"""Characters that may stand before the `@` besides letters and digits."""

_LOCAL_CHARS: Final = 64
"""Most characters before the `@` (RFC 5321, 4.5.3.1.1)."""

_DIGITS: Final = re.compile(r"(?<![\w.,-])\d(?:[ -]?\d){12,}(?![\w-]|[.,]\d)")
"""Thirteen digits or more in groups, not part of a longer word or number."""

_GROUP: Final = re.compile(r"\d+")

_CARD_FORMS: Final = tuple(
    re.compile(rf"{form}(?!\d)")
    for form in (
        r"\d{13,19}",
        r"\d{4}[ -]\d{6}[ -]\d{4,5}",
        # Groups of four digits; the longer form first.
        r"(?:\d{4}[ -]){4}\d{1,3}",
        r"(?:\d{4}[ -]){3}\d{1,4}",
    )
)
"""Groupings of the 13 to 19 digits of a card: none, 4-6-4 and 4-6-5, or groups of four with a rest."""

_PHONE: Final = re.compile(
    r"(?<![\w.,:/+-])(?:"
    # With a country code: 8 to 15 digits, with the usual separators.
    r"\+[1-9](?:[ ./-]?\(?\d\)?){7,14}"
    # Without it: an area code in brackets, or three groups as in North America, or ten digits after a Russian 8.
    r"|\((?:0\d{1,4}|\d{3})\)[ -]?\d{3,4}(?:[ -]?\d{2,4}){1,2}"
    r"|[2-9]\d{2}[-. ][2-9]\d{2}[-. ]\d{4}"
    r"|8[ -]?\(?\d{3}\)?[ -]?\d{3}[ -]?\d{2}[ -]?\d{2}"
    r")(?![\w-]|[.,:]\d)"
)

_SOME_DIGITS: Final = re.compile(r"\d(?:\D{0,3}\d){6}")

OF_DIGITS: Final = frozenset({"card", "phone"})
"""Patterns that find something only in a text that `has_digits`."""


def has_digits(text: str) -> bool:
    """Return whether seven digits are near each other, as in every telephone number and card; most texts have none."""
    return _SOME_DIGITS.search(text) is not None


def luhn(digits: str) -> bool:
    """Return whether the last digit is the check digit of the others, as on payment cards (ISO/IEC 7812-1).

    >>> luhn("4111111111111111"), luhn("4111111111111112")
    (True, False)
    """
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _email(text: str) -> tuple[str, int]:
    if "@" not in text and "at)" not in text and "at]" not in text:  # most texts
        return text, 0
    kept: list[str] = []
    done = 0
    for at in _AT.finditer(text):
        first = _start_of_local_part(text, done, at.start())
        host = _HOST.match(text, at.end()) if first < at.start() else None
        if host is not None:
            kept += [text[done:first], "[email]"]
            done = host.end()
    return "".join([*kept, text[done:]]), len(kept) // 2


def _start_of_local_part(text: str, first: int, end: int) -> int:
    # The search goes backwards, so it looks at no character twice.
    start, first = end, max(first, end - _LOCAL_CHARS)
    while start > first and (text[start - 1].isalnum() or text[start - 1] in _LOCAL_SIGNS):
        start -= 1
    return start


def _card(text: str) -> tuple[str, int]:
    count = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        digits, at = match[0], 0
        kept: list[str] = []
        for group in _GROUP.finditer(digits):
            start = group.start()
            end = _card_end(digits, start) if start >= at else None
            if end is not None:
                kept += [digits[at:start], "[card]"]
                at, count = end, count + 1
        return "".join([*kept, digits[at:]])

    return _DIGITS.sub(replace, text), count


def _card_end(text: str, start: int) -> int | None:
    if text[start] not in "23456":
        return None
    for form in _CARD_FORMS:
        match = form.match(text, start)
        if match is not None and luhn(match[0].replace(" ", "").replace("-", "")):
            return match.end()
    return None


def _phone(text: str) -> tuple[str, int]:
    return _PHONE.subn("[phone]", text)


PATTERNS: Final[Mapping[str, Callable[[str], tuple[str, int]]]] = {"email": _email, "card": _card, "phone": _phone}
"""Patterns by name, in the order of their use: each returns a text without its matches, and the number of matches.

Cards come before telephone numbers, because some cards contain the form of a telephone number.
"""
