"""Finds numbers and negated words of sentences, which words in common do not show. Pure, in linear time."""

import re
from collections.abc import Sequence
from typing import Final

from ...text.kept_documents import KeptSentences
from .words import END, Vocabulary, tokens

_ITEM: Final = re.compile(r"^\s*\(?\d{1,2}[.)](?=\s)|(?<=[.:!?;])\s{0,3}\(?\d{1,2}[.)]?\s*$")
"""The number of an item of a list, before its text or after the text before it."""

_DIGIT: Final = re.compile(r"\d")
_DIGITS: Final = re.compile(r"\d+(?:[.,]\d+)*")
_OF_NUMBERS: Final = bytes(code if chr(code) in "0123456789.," else ord(" ") for code in range(256))
_NO_SEPARATORS: Final = str.maketrans("", "", ".,")

_SPELLED: Final = {
    number: words
    for line in (
        "1 first", "2 two second два две", "3 three third три", "4 four fourth четыре", "5 five fifth пять",
        "6 six шесть", "7 seven семь", "8 eight восемь", "9 nine девять", "10 ten десять", "11 eleven", "12 twelve",
        "13 thirteen", "14 fourteen", "15 fifteen", "16 sixteen", "17 seventeen", "18 eighteen", "19 nineteen",
        "20 twenty", "30 thirty", "40 forty", "50 fifty", "60 sixty", "70 seventy", "80 eighty", "90 ninety",
        "100 hundred",
    )
    for number, *words in (line.split(),)
}  # fmt: skip
"""The words of a number, by its digits."""
_COUNTED: Final = {word: number for number, words in _SPELLED.items() for word in words}
_DENIALS: Final = frozenset(
    (
        "not", "no", "never", "none", "nor", "neither", "cannot", "without", "nothing", "nobody",
        "не", "ни", "нет", "никогда", "без", "нельзя",
    )
)  # fmt: skip
_NOT: Final = ("n't", "n’t", "N'T", "N’T")
"""Ends of words that negate."""

_REACH: Final = 3
"""Content words after a negation that it negates, within its part of the sentence."""

_PARTS: Final = str.maketrans(dict.fromkeys(".,;:!?()", "\n"))


def numbers_of(text: str) -> frozenset[str]:
    """Return the different numbers of a text as digits, without separators; not those of items of lists.

    >>> sorted(numbers_of("2. Two towers of 1,000 tonnes"))
    ['1000', '2']
    """
    words = _COUNTED.keys() & tokens(text)
    digits = _numbers_in_digits(_ITEM.sub(" ", text)) if _DIGIT.search(text) else []
    return frozenset([*digits, *[_COUNTED[word] for word in words]])


def missing_numbers(sentences: Sequence[str], question: str, documents: Sequence[Sequence[str]]) -> Sequence[int]:
    """Return, by sentence, how many different numbers neither the question nor a document has.

    Args:
        sentences: in order; numbers that count them are left out.
        question: that was asked.
        documents: the sentences of each document.
    """
    stated = [*map(numbers_of, without_item_numbers(sentences))]
    unknown = frozenset().union(*stated)
    if unknown:
        unknown = unknown.difference(_numbers_in_digits(question))
        for document in documents:
            if not unknown:
                break
            unknown -= _digits_of_document(document)
        for texts in ([question], *documents):
            if unknown.isdisjoint(_SPELLED):
                break
            low = " ".join(texts).lower()
            words = [word for number in unknown for word in _SPELLED.get(number, ()) if word in low]
            unknown -= frozenset([_COUNTED[word] for word in words if re.search(rf"(?<!\w){word}(?!\w)", low)])
    return [len(numbers & unknown) for numbers in stated]


def _digits_of_document(document: Sequence[str]) -> frozenset[str]:
    if not isinstance(document, KeptSentences):
        return frozenset(_numbers_in_digits(" ".join(document)))
    digits: frozenset[str] | None = document.computed.get("digits")
    if digits is None:
        digits = document.computed["digits"] = frozenset(_numbers_in_digits(" ".join(document)))
    return digits


def _numbers_in_digits(text: str) -> list[str]:
    if text.isascii():
        # Most text has few digits, and a pattern passes all else slowly.
        text = " ".join(text.encode().translate(_OF_NUMBERS).decode().split())
    return [number.translate(_NO_SEPARATORS) for number in _DIGITS.findall(text)]


def without_item_numbers(sentences: Sequence[str]) -> Sequence[str]:
    """Return sentences without numbers at their begin that count them: `1 Open the lid`, `2 Fill the tank`.

    >>> without_item_numbers(["1 Open the lid", "2 Fill the tank", "30 people came"])
    ['Open the lid', 'Fill the tank', '30 people came']
    """
    begins = [_BEGIN.match(sentence) for sentence in sentences]
    counts = [int(begin[1]) if begin else None for begin in begins]
    texts = []
    for place, (sentence, begin, count) in enumerate(zip(sentences, begins, counts, strict=True)):
        around = (counts[place - 1] if place else None, counts[place + 1] if place + 1 < len(counts) else None)
        counted = count is not None and (count - 1 == around[0] or count + 1 == around[1])
        texts.append(sentence[begin.end() :] if begin and counted else sentence)
    return texts


_BEGIN: Final = re.compile(r"(\d{1,3})\s+")


def denies(text: str) -> bool:
    """Return whether a text has a negation."""
    return not _DENIALS.isdisjoint(tokens(text.casefold())) or any(end in text for end in _NOT)


def denied_words(text: str, vocabulary: Vocabulary, *, always: bool = False) -> tuple[frozenset[int], frozenset[int]]:
    """Return the content words of a text that are not negated, and those that are, as numbers of a vocabulary.

    Args:
        text: one or a few sentences.
        vocabulary: that numbers the words.
        always: whether words are wanted of a text without a negation, too; otherwise both are empty then.
    """
    if not always and not denies(text):
        return frozenset(), frozenset()
    affirmed, denied = set(), set()
    for part in text.casefold().translate(_PARTS).split("\n"):
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
