"""Patterns meet text from anywhere: none may take more than time in proportion to it."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.cases import for_each

from ragtide_consumers.labelers.local.words import number_words, vocabulary
from ragtide_consumers.redaction.patterns import PATTERNS, luhn
from ragtide_consumers.redaction.redaction import Redaction
from ragtide_consumers.text.languages import language_of
from ragtide_consumers.text.sentences import split_sentences

pytestmark = pytest.mark.processes

SIZE = 1_000_000
"""Characters of every worst case: a quadratic pattern takes hours, a cubic one ages."""

LIMIT_S = 500.0
"""Seconds that all of them may take, which is hundreds of times what they need: only growth can miss it."""


def worst_cases() -> Iterator[tuple[str, Callable[[str], object], str]]:
    """Yield each function that reads foreign text with texts that make it look back or ahead most."""
    email = ["a", "!@", "a.", " (at) a", "a@" + "a" * 60 + ".", "a@b.co", "@" + "a" * 64 + "."]
    digits = [
        "1",
        "0 1 ",
        "4111 ",
        "4111-",
        "1-",
        "4" * 17 + " ",
        "4111 111111 11111 ",
        "1.",
        "1  1",
        "4111 1111 1111 1x",
    ]
    phone = ["+1" + "(1)" * 14, "+1 ", "(202) 555 ", "8 (912) 345-67-8", "202-555-014", "(0", "+1/"]
    for name, units in {"email": email, "card": digits, "phone": [*digits, *phone]}.items():
        for unit in units:
            yield name, PATTERNS[name], unit * (SIZE // len(unit))
    yield "email", PATTERNS["email"], "a" * 64 + "@" + "a." * (SIZE // 2) + "_"
    yield "card", PATTERNS["card"], "1-" * (SIZE // 2) + "x"
    yield "language_of", language_of, "a" * SIZE
    words = ["a", "a'", "'", "“", "'a' ", "A ", "İ", "Dr. ", '"a." ', "(", "!?", "1. ", "«a» ", "\n", "w1 "]
    for unit in words:
        text = unit * (SIZE // len(unit))
        yield "numbered", lambda text: number_words([text], vocabulary()), text
        yield "split_sentences", split_sentences, text
    for language, unit in {"th": "คอ ", "zh": "塔", "ja": "塔パの", "fr": "l'"}.items():
        text = unit * (SIZE // len(unit))
        yield f"numbered {language}", partial(_numbered_in, language), text
        yield f"split_sentences {language}", partial(split_sentences, language=language), text


def _numbered_in(language: str, text: str) -> object:
    return number_words([text], vocabulary(language))


@pytest.mark.heavy
def test_a_megabyte_of_its_worst_case_takes_each_pattern_seconds() -> None:
    # In a process of its own, since nothing else ends a regular expression.
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-m", __name__], cwd=root, check=True, timeout=LIMIT_S)


PARTS = [
    *("1", "23", "456", "7890", "+1", "+49", "8", "(", ")", "(030)", "(202)", "-", "--", ".", ",", ":", "/", " ", "  "),
    *("\n", "٣", "a", "x ", "4111", "1111", "4111 1111 1111 1111", "378282246310005", "202-555-0143"),
    *(
        "a@b.co",
        "1@2.org",
        "me (at) home.net",
        "a[at]b.de",
        "@",
        "at)",
        "8 912 345-67-89",
        "+1 (2) (3) (4) (5) (6) (7) (8)",
    ),
]


@example(parts=["+1 (2) (3) (4) (5) (6) (7) (8)"], names={"phone"})
@given(parts=st.lists(st.sampled_from(PARTS), max_size=14), names=st.sets(st.sampled_from(sorted(PATTERNS))))
def test_a_redaction_finds_what_its_patterns_find_one_after_the_other(parts: list[str], names: set[str]) -> None:
    redaction, text, counts = Redaction(sorted(names)), "".join(parts), dict[str, int]()
    redacted = redaction.text(text)
    for name, find in PATTERNS.items():
        if name in names:
            text, counts[name] = find(text)
    assert redacted == text
    assert redaction.counts == Counter(counts)


@for_each("groups", [(4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 4, 4, 1), (4, 6, 5), (4, 6, 4), (13,), (19,)])
@for_each("separator", [" ", "-"])
def test_a_card_is_found_in_every_grouping(groups: tuple[int, ...], separator: str) -> None:
    card = _card(groups, separator, seed=7)
    text = f"1889 12{separator}{card}; 7 {card}"
    assert PATTERNS["card"](text) == (f"1889 12{separator}[card]; 7 [card]", 2)


@given(
    st.lists(
        st.sampled_from([(4, 4, 4, 4), (4, 6, 5), (16,), (3, 3), (4, 4), (5, 5, 5), (2,)]), min_size=1, max_size=6
    ),
    st.integers(0, 10**6),
)
def test_cards_beside_each_other_and_beside_other_numbers_are_all_found(
    shapes: list[tuple[int, ...]], seed: int
) -> None:
    """No group of another number begins like a card, so that only whole cards can be found."""
    parts = [
        _card(shape, " ", seed + place) if sum(shape) >= 13 and shape != (5, 5, 5) else " ".join("9" * n for n in shape)
        for place, shape in enumerate(shapes)
    ]
    expected = ["[card]" if part[0] == "4" else part for part in parts]
    assert PATTERNS["card"](" ; ".join(parts)) == (" ; ".join(expected), expected.count("[card]"))


@for_each("local", [63, 64])
def test_of_a_name_longer_than_an_address_can_have_the_last_64_characters_are_taken(local: int) -> None:
    assert PATTERNS["email"](f"{'a' * local}@example.com, x@y.org@z.net") == ("[email], [email]@z.net", 2)
    assert PATTERNS["email"](f"{'a' * 66}@example.com") == ("aa[email]", 1)


def _card(groups: tuple[int, ...], separator: str, seed: int) -> str:
    digits = ("4" + str(seed * 7919 + 10**18)[::-1])[: sum(groups) - 1]
    digits += next(last for last in "0123456789" if luhn(digits + last))
    parts, at = [], 0
    for size in groups:
        parts.append(digits[at : at + size])
        at += size
    return separator.join(parts)


if __name__ == "__main__":
    for name, function, text in worst_cases():
        print(name, repr(text[:20]), flush=True)  # noqa: T201 - shown when one does not end
        function(text)
