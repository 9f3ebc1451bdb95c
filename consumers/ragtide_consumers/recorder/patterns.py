"""What looks like an e-mail address, a telephone number or a payment card in a text. Pure.

Found by form alone: names, addresses and what is spelled out stay. docs/recording.md says what is found and what not.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

_EMAIL: Final = re.compile(
    r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}(?:@|\s?(?:\(at\)|\[at\])\s?)(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.)+[^\W\d_]{2,24}"
    r"(?![\w-])"
)

_DIGITS: Final = re.compile(r"(?<![\w.,-])\d(?:[ -]?\d){12,}(?![\w-]|[.,]\d)")
"""Thirteen digits or more in groups, not part of a longer word or number."""

_CARD_LENGTHS: Final = range(13, 20)

_PHONE: Final = re.compile(
    r"(?<![\w.,:/+-])(?:"
    # With a country code: 8 to 15 digits, with the usual separators.
    r"\+[1-9](?:[ ./-]?\(?\d\)?){7,14}"
    # Without: an area code in brackets, or three groups as in North America, or ten digits after a Russian 8.
    r"|\((?:0\d{1,4}|\d{3})\)[ -]?\d{3,4}(?:[ -]?\d{2,4}){1,2}"
    r"|[2-9]\d{2}[-. ][2-9]\d{2}[-. ]\d{4}"
    r"|8[ -]?\(?\d{3}\)?[ -]?\d{3}[ -]?\d{2}[ -]?\d{2}"
    r")(?![\w-]|[.,:]\d)"
)


_SOME_DIGITS: Final = re.compile(r"\d(?:\D{0,3}\d){6}")
"""Seven digits near each other: what telephone numbers and cards have and most texts have not; found quickly."""


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
    return _EMAIL.subn("[email]", text)


def _card(text: str) -> tuple[str, int]:
    if _SOME_DIGITS.search(text) is None:
        return text, 0
    count = 0

    def replace(found: re.Match[str]) -> str:
        nonlocal count
        groups = list(re.finditer(r"\d+", found[0]))
        kept, at, first = [], 0, 0
        while first < len(groups):
            last = _card_from(groups, first)
            if last is None:
                first += 1
                continue
            kept += [found[0][at : groups[first].start()], "[card]"]
            at, first, count = groups[last].end(), last + 1, count + 1
        return "".join([*kept, found[0][at:]])

    return _DIGITS.sub(replace, text), count


def _card_from(groups: list[re.Match[str]], first: int) -> int | None:
    """Return the last group of the longest card number that begins with a group; other numbers may stand beside it."""
    digits, found = "", None
    for last in range(first, len(groups)):
        digits += groups[last][0]
        shape = tuple(len(group[0]) for group in groups[first : last + 1])
        if len(digits) in _CARD_LENGTHS and _as_on_cards(shape) and digits[0] in "23456" and luhn(digits):
            found = last
    return found


def _as_on_cards(shape: tuple[int, ...]) -> bool:
    """Return whether digits are grouped as on cards: not at all, by fours, or as 4-6-5 and 4-6-4."""
    return len(shape) == 1 or shape in {(4, 6, 5), (4, 6, 4)} or (set(shape[:-1]) == {4} and shape[-1] <= 4)


def _phone(text: str) -> tuple[str, int]:
    return (text, 0) if _SOME_DIGITS.search(text) is None else _PHONE.subn("[phone]", text)


PATTERNS: Final[Mapping[str, Callable[[str], tuple[str, int]]]] = {"email": _email, "card": _card, "phone": _phone}
"""By name, in the order in which they are applied: a function from a text to the text without, and how many there were.

Cards come before telephone numbers, which some of them contain.
"""
