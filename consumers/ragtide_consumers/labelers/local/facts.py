"""Finds numbers and negated words of sentences, which words in common do not show. Pure, in linear time."""

import re
from collections.abc import Sequence
from typing import Final

from .words import END, Vocabulary, tokens

_ITEM: Final = re.compile(r"^\s*\(?\d{1,2}[.)](?=\s)|(?<=[.:!?;])\s{0,3}\(?\d{1,2}[.)]?\s*$")
"""The number of an item of a list, before its text or after the text before it."""

_DIGITS: Final = re.compile(r"\d+(?:[.,]\d+)*")
_NO_DIGITS: Final = str.maketrans("", "", ".,")

_COUNTED: Final = {
    word: number
    for line in (
        "1 first", "2 two second два две", "3 three third три", "4 four fourth четыре", "5 five fifth пять",
        "6 six шесть", "7 seven семь", "8 eight восемь", "9 nine девять", "10 ten десять", "11 eleven", "12 twelve",
        "13 thirteen", "14 fourteen", "15 fifteen", "16 sixteen", "17 seventeen", "18 eighteen", "19 nineteen",
        "20 twenty", "30 thirty", "40 forty", "50 fifty", "60 sixty", "70 seventy", "80 eighty", "90 ninety",
        "100 hundred",
    )
    for number, *words in (line.split(),)
    for word in words
}  # fmt: skip
_COUNTS: Final = re.compile(rf"(?<!\w)(?:{'|'.join(_COUNTED)})(?!\w)", re.IGNORECASE)

_DENIALS: Final = frozenset(
    (
        "not", "no", "never", "none", "nor", "neither", "cannot", "without", "nothing", "nobody",
        "не", "ни", "нет", "никогда", "без", "нельзя",
    )
)  # fmt: skip
_DENIES: Final = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(_DENIALS))})(?!\w)|n['’]t(?!\w)", re.IGNORECASE)

_REACH: Final = 3
"""Content words after a negation that it negates, within its part of the sentence."""

_PARTS: Final = re.compile(r"[.,;:!?()\n]")


def numbers_of(text: str) -> frozenset[str]:
    """Return the different numbers of a text as digits, without separators; not those of items of lists.

    >>> sorted(numbers_of("2. Two towers of 1,000 tonnes"))
    ['1000', '2']
    """
    text = _ITEM.sub(" ", text)
    digits = [found.translate(_NO_DIGITS) for found in _DIGITS.findall(text)]
    return frozenset([*digits, *[_COUNTED[found.lower()] for found in _COUNTS.findall(text)]])


def without_item_numbers(sentences: Sequence[str]) -> Sequence[str]:
    """Return sentences without numbers at their begin that count them: `1 Open the lid`, `2 Fill the tank`.

    >>> without_item_numbers(["1 Open the lid", "2 Fill the tank", "30 people came"])
    ['Open the lid', 'Fill the tank', '30 people came']
    """
    begins = [_BEGIN.match(sentence) for sentence in sentences]
    counts = [int(begin[1]) if begin else None for begin in begins]
    found = []
    for place, (sentence, begin, count) in enumerate(zip(sentences, begins, counts, strict=True)):
        around = (counts[place - 1] if place else None, counts[place + 1] if place + 1 < len(counts) else None)
        counted = count is not None and (count - 1 == around[0] or count + 1 == around[1])
        found.append(sentence[begin.end() :] if begin and counted else sentence)
    return found


_BEGIN: Final = re.compile(r"(\d{1,3})\s+")


def denied_words(text: str, vocabulary: Vocabulary, *, always: bool = False) -> tuple[frozenset[int], frozenset[int]]:
    """Return the content words of a text that are not negated, and those that are, as numbers of a vocabulary.

    Args:
        text: one or a few sentences.
        vocabulary: that numbers the words.
        always: whether words are wanted of a text without a negation, too; otherwise both are empty then.
    """
    if not always and not _DENIES.search(text):
        return frozenset(), frozenset()
    affirmed, denied = set(), set()
    for part in _PARTS.split(text.casefold()):
        reach = 0
        for word in tokens(part, vocabulary.language):
            if word in _DENIALS or word.endswith("n't"):
                reach = _REACH
                continue
            number = vocabulary[word]
            if number <= END:
                continue
            if reach:
                denied.add(number)
                reach -= 1
            else:
                affirmed.add(number)
    return frozenset(affirmed), frozenset(denied)
