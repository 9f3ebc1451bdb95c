"""Extracts the words that the local labeler compares: lower case, no stop words, no endings.

The endings of English and Russian are listed. In another language words are equal if their first letters are, and
`stop_words.txt` has the stop words. Chinese, Japanese and Thai write no spaces between words: groups of neighboring
letters stand for words. Nothing is learned from the texts, so equal texts have equal words in every process.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from itertools import accumulate, chain, count
from threading import Lock
from typing import Final, NamedTuple
from unicodedata import category, digit, normalize

import numpy as np
from numpy.typing import NDArray

from ...text.kept_documents import KeptSentences

Indices = NDArray[np.intp]

WITH_ENDINGS: Final = frozenset({"en", "ru"})
"""Languages whose endings are known. They share a vocabulary, because a Russian text has English words."""

STEM_LETTERS: Final = 6
"""Letters by which words of another language are compared. What follows is mostly an ending."""

_MARKS: Final = "".join(chr(code) for code in range(0x0591, 0x1B00) if category(chr(code)).startswith("M"))
"""Vowel signs, which are parts of a word, of scripts such as Devanagari. Accents of Latin letters are not here."""

_SEPARATOR = re.compile(rf"[^\w\x00-\x7f{_MARKS}]")
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


STOP_WORDS_FILE: Final = "stop_words.txt"
"""Stop words of the other languages, in this package: a line `[xx]`, then the words of that language."""

_SPELLINGS: Final = {
    **{code: str(digit(chr(code))) for code in range(0x80, 0x10000) if category(chr(code)) == "Nd"},
    # Arabic: vowel signs and lengthening are optional, and some letters have several forms.
    **dict.fromkeys([*range(0x064B, 0x0653), 0x0670, 0x0640]),
    **str.maketrans("أإآٱىیےةک", "ااااييي\u0647\u0643"),
    # Hebrew vowel signs.
    **dict.fromkeys([*range(0x0591, 0x05BE), 0x05BF, 0x05C1, 0x05C2, 0x05C4, 0x05C5, 0x05C7]),
    # Greek accents, which capital letters do not have.
    **str.maketrans("άέήίόύώΐΰϊϋΆΈΉΊΌΎΏΪΫ", "αεηιουωιυιυΑΕΗΙΟΥΩΙΥ"),
    # The two letters i of Turkish: a sentence may begin with a capital letter.
    **str.maketrans("ıİ", "ii"),
}
"""One spelling, by code point, for what may be written in several ways: digits of all scripts, letters and signs."""

_RESPELLED: Final = re.compile(f"[{''.join(map(chr, _SPELLINGS))}]")


def _respell(text: str) -> str:
    text = normalize("NFC", text)
    # Most Latin texts have nothing to translate, which takes ten times as long as the search.
    return text.translate(_SPELLINGS) if _RESPELLED.search(text) else text


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language, as they are compared; none for a language that is not in the file."""
    sections = files(__package__).joinpath(STOP_WORDS_FILE).read_text(encoding="utf-8").split("\n[")
    words_by_language = {section[:2]: section.partition("]")[2] for section in sections[1:]}
    return frozenset(_respell(words_by_language.get(language, "")).casefold().split())


_HAN: Final = re.compile(r"[\u3005\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]+")
_HIRAGANA: Final = re.compile(r"[\u3041-\u309f]+")
_KATAKANA: Final = re.compile(r"[\u30a1-\u30fa\u30fc-\u30ff\uff66-\uff9f]+")
_THAI: Final = re.compile(r"[\u0e01-\u0e3a\u0e40-\u0e4e]+")


@cache
def _unspaced_patterns(language: str) -> Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
    if language == "zh":
        return ((_HAN, _groups_of(2)),)
    if language == "ja":
        # Endings and function words are written in Hiragana, foreign words in Katakana.
        return (_HIRAGANA, lambda _: " "), (_KATAKANA, lambda run: f" {run[0]} "), (_HAN, _groups_of(2))
    if language == "th":
        longest_first = sorted(stop_words("th"), key=lambda word: (-len(word), word))
        return (re.compile("|".join(longest_first)), lambda _: " "), (_THAI, _groups_of(4))
    return ()


def _groups_of(size: int) -> Callable[[re.Match[str]], str]:
    def pieces(match: re.Match[str]) -> str:
        run = match[0]
        return f" {' '.join([run[at : at + size] for at in range(max(len(run) - size, 0) + 1)])} "

    return pieces


def tokens(text: str, language: str = "en") -> list[str]:
    """Return all words of a text, in order; those in ASCII in lower case.

    Args:
        text: any text.
        language: its ISO 639-1 code.

    >>> tokens("The Tower's height"), tokens("東京タワーの高さ", "ja")
    (['the', "tower's", 'height'], ['東京', 'タワー', '高'])
    """
    if not text.isascii():
        if language not in WITH_ENDINGS:
            text = _respell(text)
            for pattern, written in _unspaced_patterns(language):
                text = pattern.sub(written, text)
        text = _SEPARATOR.sub(" ", text.replace("’", "'"))
    # Bytes outside ASCII are parts of words now. This costs a fifth of matching a pattern for words.
    return text.encode().translate(_ASCII).decode().split()


_SERIALS: Final = count()


class Vocabulary(dict[str, int]):
    """The number of a word: that of its stem, `STOP` for a stop word, `END` for the end of a text.

    Each stem is computed once, because most words repeat.
    """

    def __init__(self, language: str = "en") -> None:
        """Make a vocabulary that knows no word.

        Args:
            language: ISO 639-1 code of the language that decides about stop words and stems.
        """
        super().__init__({_END: END})
        self.language = language
        self.serial = next(_SERIALS)
        """Number of this vocabulary in the process: what has the numbers of another one is of no use."""
        self._stems: dict[str, int] = {}
        # Two threads must not give one number to two words.
        self._lock = Lock()

    def __missing__(self, word: str) -> int:
        stem = stem_of(word, self.language)
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

_known: Final[dict[str, Vocabulary]] = {}
"""By language; English stands for all languages with known endings."""


def vocabulary(language: str = "en") -> Vocabulary:
    """Return the vocabulary of a language in this process. A full one is replaced: a thread may still read it."""
    if language in WITH_ENDINGS:
        language = "en"
    current = _known.get(language)
    if current is None or len(current) > MOST_WORDS:
        # Two threads may make one each. Both are right, and the later one is kept.
        current = _known[language] = Vocabulary(language)
    return current


class NumberedWords(NamedTuple):
    """The content words of several texts, one after the other, as numbers of a vocabulary."""

    numbers: Indices
    """Number of each word."""
    texts: Indices
    """By word: number of its text."""


def without_ends(text: str) -> str:
    """Return a text without the character that stands between texts."""
    return text.replace(_END, " ")


def number_words(texts: Sequence[str], known: Vocabulary) -> NumberedWords:
    """Return the content words of texts as numbers.

    Args:
        texts: any texts.
        known: the vocabulary, whose language is that of the texts.

    >>> words = number_words(["The tower was built.", "A tower of iron"], vocabulary("en"))
    >>> words.texts.tolist(), bool(words.numbers[0] == words.numbers[2])
    ([0, 0, 1, 1], True)
    """
    joined = _BETWEEN.join([*texts, ""])
    if joined.count(_END) != len(texts):  # a text has the character that stands between texts
        joined = _BETWEEN.join([*map(without_ends, texts), ""])
    words = tokens(joined, known.language)
    numbers = np.fromiter(map(known.__getitem__, words), np.intp, len(words))
    kept = (numbers > END).nonzero()[0]
    return NumberedWords(numbers.take(kept), np.add.accumulate(numbers == END, dtype=np.intp).take(kept))


def words_of_parts(
    texts: Sequence[str], documents: Sequence[Sequence[str]], known: Vocabulary
) -> tuple[NumberedWords, list[NumberedWords]]:
    """Return the content words of texts, and those of each document by sentence; a kept document keeps its words.

    Args:
        texts: any texts.
        documents: the sentences of each document.
        known: the vocabulary, whose language is that of all of them.
    """
    by_document = [_kept_words(document, known) for document in documents]
    new = [place for place, words in enumerate(by_document) if words is None]
    # All at once, because a document alone takes as many steps.
    numbers, places = number_words([*texts, *chain.from_iterable([documents[place] for place in new])], known)
    ends = [*accumulate([len(documents[place]) for place in new], initial=len(texts))]
    firsts = places.searchsorted(ends).tolist()
    for place, start, first, last in zip(new, ends, firsts, [*firsts[1:], len(places)], strict=False):
        document = documents[place]
        words = by_document[place] = NumberedWords(numbers[first:last].copy(), places[first:last] - start)
        if isinstance(document, KeptSentences):
            document.computed[f"words {known.language}"] = known.serial, words
    own = NumberedWords(numbers[: firsts[0]], places[: firsts[0]])
    return own, [words for words in by_document if words is not None]


def _kept_words(document: Sequence[str], known: Vocabulary) -> NumberedWords | None:
    if not isinstance(document, KeptSentences):
        return None
    serial, words = document.computed.get(f"words {known.language}", (None, None))
    return words if serial == known.serial else None


_BETWEEN: Final = f" {_END} "
_ASCII: Final = bytes(
    code if code > 127 else ord(chr(code).lower()) if chr(code).isalnum() or chr(code) in f"_'{_END}" else ord(" ")
    for code in range(256)
)
"""Translation of UTF-8: ASCII letters become lower case, and ASCII characters outside words become spaces."""


def stem_of(word: str, language: str = "en") -> str:
    """Return a word in lower case without its ending, empty for a stop word.

    Args:
        word: one of `tokens`.
        language: ISO 639-1 code. Without known endings the stem is the beginning of the word.

    >>> stem_of("Schwimmern", "de"), stem_of("dell'acqua", "it"), stem_of("und", "de")
    ('schwim', 'acqua', '')
    """
    if language not in WITH_ENDINGS:
        stops = stop_words(language)
        parts = [part for part in word.casefold().split("'") if part and part not in stops]
        longest = max(parts, key=len, default="")
        if language == "ar":
            longest = _ARABIC_PREFIX.sub("", longest)
        return longest if longest[:1].isdecimal() else longest[:STEM_LETTERS]
    word = word.casefold().strip("'").replace("ё", "е").partition("'")[0]
    if not word or word in STOP_WORDS:
        return ""
    endings = _CYRILLIC_ENDINGS if word[0] > "Ѐ" else _LATIN_ENDINGS
    for ending in endings:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


_ARABIC_PREFIX: Final = re.compile(r"^(?:(?:[وفبك]{0,2}ال|[وف]?لل)(?=\w{3})|[وف](?=\w{4}))")
"""The article and the conjunctions, which Arabic writes as the beginning of the next word."""
