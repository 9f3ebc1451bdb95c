"""Extracts the words that the local labeler compares: lower case, no stop words, no endings. English and Russian."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]

_SEPARATOR = re.compile(r"[^\w\x00-\x7f]")
"""A character outside ASCII that is not part of a word."""

_END: Final = "\x01"
"""Stands after each text, as a word of its own."""


def _words(text: str) -> list[str]:
    return text.split()


_LATIN_ENDINGS = ("ations", "ation", "ings", "ing", "edly", "ed", "ies", "es", "ly", "s")
_CYRILLIC_ENDINGS = tuple(
    sorted(
        _words(
            "ами ями иями ого его ому ему ыми ими ешь ете ишь ите ает яет ают яют ться тся ала ила ели али "
            "или ов ев ей ой ий ый ая яя ое ее ые ие ам ям ах ях ом ем им ым ую юю ия ию ии ть ет ит ют ут "
            "ят ат ла ло ли а я о е ы и у ю ь й "
        ),
        key=lambda ending: (-len(ending), ending),
    )
)

STOP_WORDS: Final = frozenset(
    _words(
        "a an the and or but if then else of in on at by for from to with without into onto over under "
        "about as is are was were be been being am do does did doing have has had having i you he she it "
        "we they me him her us them my your his its our their this that these those there here which who "
        "whom whose what when where why how not no nor so than too very can could will would shall "
        "should may might must also such only own same both each any all some more most other out up "
        "down off again once during before after above below between because while и в во не что он на я "
        "с со как а то все она так его но да ты к у же вы за бы по только ее мне было вот от меня еще "
        "нет о из ему теперь когда даже ну вдруг ли если уже или ни быть был него до вас нибудь опять уж "
        "вам ведь там потом себя ничего ей может они тут где есть надо ней для мы тебя их чем была сам "
        "чтоб без будто чего раз тоже себе под будет ж тогда кто этот того потому этого какой совсем ним "
        "здесь этом один почти мой тем чтобы нее сейчас были куда зачем всех никогда можно при наконец "
        "два об другой хоть после над больше тот через эти нас про всего них какая много разве три эту "
        "моя впрочем хорошо свою этой перед иногда лучше чуть том нельзя такой им более всегда конечно "
        "всю между это также который которая которые "
    )
)


def tokens(text: str) -> list[str]:
    """Return all words of a text, in order; those in ASCII in lower case."""
    if not text.isascii():
        text = _SEPARATOR.sub(" ", text.replace("’", "'"))
    # Bytes outside ASCII are parts of words now. This costs a fifth of matching a pattern for words.
    return text.encode().translate(_ASCII).decode().split()


class Vocabulary(dict[str, int]):
    """The number of a word: that of its stem, `STOP` for a stop word, `END` for the end of a text.

    Each stem is computed once, because most words repeat.
    """

    def __init__(self) -> None:
        """Make a vocabulary that knows no word."""
        super().__init__({_END: END})
        self._stems: dict[str, int] = {}
        # Two threads must not give one number to two words.
        self._lock = Lock()

    def __missing__(self, word: str) -> int:
        stem = stem_of(word)
        if len(word) > LONGEST_WORD:  # a million characters without a space are a word, too
            return _LONG_WORD + int.from_bytes(blake2b(stem.encode(), digest_size=7).digest(), "big")
        with self._lock:
            number = self[word] = self._stems.setdefault(stem, len(self._stems) + 2) if stem else STOP
        return number


STOP: Final = 0
END: Final = 1

MOST_WORDS: Final = 65_536
"""About the most words of a vocabulary."""
LONGEST_WORD: Final = 64
"""Longer words are not kept."""
_LONG_WORD: Final = 2**60
"""Numbers of long words, which no vocabulary keeps, are at least this."""

_known = [Vocabulary()]


def vocabulary() -> Vocabulary:
    """Return the vocabulary of this process. A full one is replaced, because a thread may still read it."""
    if len(_known[0]) > MOST_WORDS:
        _known[0] = Vocabulary()
    return _known[0]


@dataclass(frozen=True, slots=True)
class NumberedWords:
    """The content words of several texts, one after the other, as numbers of a vocabulary."""

    numbers: Indices
    """Number of each word."""
    texts: Indices
    """By word: number of its text."""
    vocabulary: Vocabulary
    """The vocabulary that has the numbers."""


def numbered(texts: Sequence[str]) -> NumberedWords:
    """Return the content words of texts as numbers.

    >>> found = numbered(["The tower was built.", "A tower of iron"])
    >>> found.texts.tolist(), bool(found.numbers[0] == found.numbers[2])
    ([0, 0, 1, 1], True)
    """
    known = vocabulary()
    joined = _BETWEEN.join([*texts, ""])
    if joined.count(_END) != len(texts):  # a text has the character that stands between texts
        joined = _BETWEEN.join([*(text.replace(_END, " ") for text in texts), ""])
    numbers = np.array([*map(known.__getitem__, tokens(joined))], np.intp)
    kept = (numbers > END).nonzero()[0]
    return NumberedWords(numbers.take(kept), np.add.accumulate(numbers == END, dtype=np.intp).take(kept), known)


_BETWEEN: Final = f" {_END} "
_ASCII: Final = bytes(
    code if code > 127 else ord(chr(code).lower()) if chr(code).isalnum() or chr(code) in f"_'{_END}" else ord(" ")
    for code in range(256)
)
"""Translation of UTF-8: ASCII letters become lower case, and ASCII characters outside words become spaces."""


def stem_of(word: str) -> str:
    """Return a word in lower case without its ending, empty for a stop word."""
    word = word.casefold().strip("'").replace("ё", "е").partition("'")[0]
    if not word or word in STOP_WORDS:
        return ""
    endings = _CYRILLIC_ENDINGS if word[0] > "Ѐ" else _LATIN_ENDINGS
    for ending in endings:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
