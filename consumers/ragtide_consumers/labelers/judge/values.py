"""Reads values of a judge's answer with the words that models put around them: keys, truth values, grades. No I/O.

What would need a guess is not read. Time is in proportion to the text.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final
from unicodedata import normalize

from ...metrics.trace import SPECIAL_KEYS
from ...text.keys import normalize_key

KEY_CHARS: Final = 64
"""Most characters of a key; a longer key names no sentence."""
TEXT_CHARS: Final = 20_000
"""Most characters of a text with keys."""
MOST_OTHERS: Final = 1_000
"""Most keys of a list beside four times those that exist."""
VALUE_CHARS: Final = 300
"""Most characters of a truth value or a grade with its words."""

# --- Keys ---

_TOKEN: Final = re.compile(r"[\w.]+|[^\w\s]")
_AROUND: Final = frozenset({*"()[]{}<>\"'`*#“”„‘’«»", ""})
_BULLET: Final = re.compile(r"^\s{0,9}(?:[-*•]|\d{1,3}[.)])\s{1,9}", re.MULTILINE)
_SEPARATES: Final = frozenset({",", ";", "/", "|", "&", "+", "、", "and", "und", "et", "и", "和", "及"})
_TO: Final = frozenset({"-", "–", "—", "~", "to", "through", "thru", "bis", "до", "по", "至", "到"})
_DOCUMENTS: Final = frozenset({"document", "documents", "doc", "docs", "документ", "документа", "文档"})
_LABELS: Final = _DOCUMENTS | {
    "sentence", "sentences", "key", "keys", "source", "sources", "claim", "claims", "response", "criterion", "the",
    "предложение", "предложения", "источник", "источники", "ключ", "ключи", "утверждение", "критерий", "句子",
}  # fmt: skip
_WHOLE: Final = frozenset({"all", "every", "entire", "whole", "весь", "все"})
_NOTHING: Final = frozenset({"none", "n/a", "na", "null", "nothing", "empty", "no", "-", "—", "–", "нет", "无", "[]"})
_FILLERS: Final = _LABELS | _WHOLE | {"of", "in", "from"}
_OF_NOTHING: Final = _FILLERS | {"relevant", "supporting", "such", "applicable", "list", "item", "items"}
_INVENTED: Final = re.compile(r"[0-9]{1,5}[a-z]{1,4}|[a-z][0-9]{1,5}(?:\.[0-9]{1,5})?")
"""A key that would be one if it existed."""
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


def keys_in(value: object, known: Collection[str]) -> list[str] | None:
    """Return the keys in a list of texts or in a text, in order, and those that do not exist; None if it needs a guess.

    Args:
        known: keys that exist, in order and normalized; the special keys exist too.

    >>> known = ("0a", "0b", "0c", "1a")
    >>> keys_in(["0A.", "sentence 1a", "9z"], known), keys_in("[0a] to [0b], 1a", known), keys_in("none", known)
    (['0a', '1a', '9z'], ['0a', '0b', '1a'], [])
    >>> keys_in("all of document 0", known), keys_in("0a, but not 0b", known), keys_in(None, known)
    (['0a', '0b', '0c'], None, None)
    """
    if isinstance(value, str):
        value = [value] if value.strip() else None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return None
    named: list[str] = []
    runs: dict[str, list[str]] = {}
    for text in value:
        key = normalize_key(text[:KEY_CHARS])
        keys = [key] if key in known else _keys_in(text, known, runs)
        if keys is None or len(named) > 4 * len(known) + MOST_OTHERS:
            return None
        named += keys
    return named


def key_in(value: object, known: Collection[str]) -> str | None:
    """Return the one key that a value names; None if it names none that exists, or several."""
    keys = keys_in(str(value)[:VALUE_CHARS], known)
    return keys[0] if keys is not None and len(keys) == 1 and keys[0] in known else None


def _keys_in(text: str, known: Collection[str], runs: dict[str, list[str]]) -> list[str] | None:
    plain = normalize("NFKC", text[:TEXT_CHARS]).casefold().strip()
    first, *others = plain.split() or [""]
    if {plain, normalize_key(plain)} & _NOTHING or (
        first in _NOTHING and _OF_NOTHING.issuperset(map(normalize_key, others))
    ):
        return []
    special = normalize_key(plain).replace(" ", "_").replace("-", "_")
    if special in SPECIAL_KEYS:
        return [special]
    words = _TOKEN.findall(_BULLET.sub("", plain).replace("...", "–").replace("..", "–").replace("\n", ","))
    read = _KeyWords(known, runs)
    if all(map(read.take, words)):
        return read.keys if read.is_whole else None
    named = [word for word in map(normalize_key, words) if word in known]
    head, colon, _ = plain.partition(":")
    if colon and (key := normalize_key(head[:KEY_CHARS])) in known and all(len(other) == 1 for other in named[1:]):
        return [key]  # a line of the prompt, with its text
    return None if named else [normalize_key(plain[:KEY_CHARS])]


class _KeyWords:
    """Reads the words of a text that has keys and nothing else."""

    def __init__(self, known: Collection[str], runs: dict[str, list[str]]) -> None:
        self._known = known
        self._runs = runs
        self._last = self._label = self._document = ""
        self._of_all = self._begins_range = False
        self.keys: list[str] = []

    @property
    def is_whole(self) -> bool:
        """Whether the words so far name keys, and no more of them are to come."""
        return bool(self.keys) and not (self._of_all or self._begins_range)

    def take(self, word: str) -> bool:  # noqa: PLR0911 - one answer a kind of word
        """Read the next word; return False if it is none of a text of keys."""
        word = word.strip(".")
        if word in _AROUND or (word == ":" and not self._last):
            return True
        if word in _SEPARATES:
            self._last = ""
            return not self._begins_range
        if word in _TO:
            self._begins_range = bool(self._last) and not self._begins_range
            return self._begins_range
        key = self._key(word)
        if not key and word.isdecimal() and self._label in _DOCUMENTS and not (self._of_all or self._last):
            self._document = word  # `document 0: a, b`
            return True
        if self._begins_range:
            last = key or self._last.rstrip(_LETTERS) + word
            run = self._run(_kind(self._last)) if len(self.keys) <= 4 * len(self._known) else []
            run = run[run.index(self._last) : run.index(last) + 1] if self._last in run and last in run else []
            self.keys += run[1:]
            self._begins_range, self._last = False, ""
            return bool(run)
        if self._of_all and self._label in _DOCUMENTS and word.isdecimal():
            run = self._run(word)
            self.keys += run
            self._of_all = False
            return bool(run) and len(self.keys) <= 8 * len(self._known)
        if key:
            self.keys.append(key)
            self._last = key
            return not self._of_all
        if word not in _FILLERS or len(self._last) == 1:  # "a sentence" is no key
            return False
        self._label = word if word in _LABELS else self._label
        self._of_all |= word in _WHOLE
        return True

    def _key(self, word: str) -> str:
        """Return the key that a word is, or would be if it existed; empty if it is none."""
        if word.isdecimal() and self._label in _DOCUMENTS and f"d{word}" in self._known:
            return f"d{word}"  # a whole document as a source
        if word in self._known or word in SPECIAL_KEYS:
            return word
        for spelling in (word.replace(".", "").replace("_", ""), self._document + word):
            if spelling in self._known:
                return spelling
        return word if _INVENTED.fullmatch(word) else ""

    def _run(self, kind: str) -> list[str]:
        if kind not in self._runs:
            self._runs[kind] = [key for key in self._known if _kind(key) == kind]
        return self._runs[kind]


def _kind(key: str) -> str:
    digits = key.rstrip(_LETTERS)
    return digits if digits != key else key[:1]


# --- Words ---

_YES: Final = frozenset({
    "yes", "true", "y", "t", "1", "1.0", "да", "верно", "истина", "是", "是的", "对", "对的", "真", "はい", "네", "예",
    "sí", "si", "sì", "sim", "oui", "ja", "tak", "evet", "correct", "entailed", "it is true", "supported",
    "fully supported", "yes fully supported", "yes it is fully supported", "✅", "✔", "✓",
})  # fmt: skip
_NO: Final = frozenset({
    "no", "false", "n", "f", "0", "0.0", "нет", "ложь", "неверно", "否", "不是", "假", "いいえ", "아니요", "non", "não",
    "nein", "nie", "hayır", "incorrect", "unsupported", "it is false", "it is not true", "not true", "not entailed",
    "❌", "✗", "✘", "partly", "partially", "partial", "not fully", "частично", "部分", "not supported",
    "not fully supported", "no not supported", "partly supported", "partially supported",
})  # fmt: skip
_ENDS: Final = " \t\r\n.,;:!?'\"`*()[]。，！“”‘’«»"
_WRAPPED: Final = re.compile(r"\\[a-z]{1,10}\{|</?[a-z_]{1,20}>|[*`${}]|^[✅✔✓❌✗✘]\ufe0f?\s{1,9}")
_LABEL: Final = re.compile(
    r"(?:(?:the |my |final )?(?:answer|verdict|score|rating|grade|label|result|value|fully[_ ]supported|ответ|оценка"
    r"|вердикт))(?: ?[:=：]| [–—-](?= )| ?is\b) ?"
)
_FRACTION: Final = re.compile(r"\s{0,9}[.,][0-9]")
_PAUSE: Final = re.compile(r"[;(\n—–。，；：（]|[.,:](?![0-9])| -+ ")
_TURNS: Final = re.compile(
    r"\b(?:but|however|partly|partially|partial|except|although|though|only|mostly|largely|almost|if|unless|maybe"
    r"|perhaps|or|но|однако|частично|кроме|если|или|возможно)\b|但|部分|或"
)
_DENIES: Final = re.compile(r"\b(?:no|not|never|false|unsupported|un\w{3,20}|нет|не|неверно)\b|n['’]t\b|不|没|否|非|假")
_AFFIRMS: Final = re.compile(r"\b(?:yes|true|supported|entailed|correct|да|верно)\b|是|对")


def stated(text: str) -> tuple[str, str]:
    """Return what a text states, in small letters without punctuation and without a label, and the words after it.

    >>> stated("**Answer:** Yes, fully supported."), stated("4.5 (of 5)")
    (('yes', 'fully supported'), ('4.5', 'of 5'))
    """
    plain = normalize("NFKC", text[:VALUE_CHARS]).casefold()
    plain = _WRAPPED.sub("", plain).rstrip(_ENDS)
    if not _FRACTION.match(plain):
        plain = plain.lstrip(_ENDS)
    if label := _LABEL.match(plain):
        plain = plain[label.end() :].strip(_ENDS)
    pause = _PAUSE.search(plain)
    if pause is None:
        return plain, ""
    return plain[: pause.start()].rstrip(_ENDS), plain[pause.end() :].strip(_ENDS)


@lru_cache(4096)
def _truth(text: str) -> bool | None:
    word, rest = stated(text)
    if f"{word} {rest}".strip() in _YES or (word in _YES and not _TURNS.search(rest) and not _DENIES.search(rest)):
        return True
    if f"{word} {rest}".strip() in _NO:
        return False
    denies = _DENIES.search(rest) is not None or not _AFFIRMS.search(rest)
    return False if word in _NO and denies and not _TURNS.search(rest) else None


def truth(value: object) -> bool | None:
    """Return the truth value in another spelling; None if it is none. A partial support is no full support.

    >>> truth(True), truth("Yes."), truth("FALSE"), truth(0), truth("partly"), truth("maybe"), truth(2), truth(None)
    (True, True, False, False, False, None, None, None)
    >>> truth("Yes, fully supported by 0a"), truth("No - not supported"), truth("No, fully supported")
    (True, False, None)
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return bool(value) if value in (0, 1) else None
    return _truth(value) if isinstance(value, str) and len(value) <= VALUE_CHARS else None


# --- Grades ---

_GRADES: Final = {word: str(grade) for grade, word in enumerate(("one", "two", "three", "four", "five"), start=1)}
_GRADE: Final = re.compile(r"([1-5])(?:\.0)? ?(?:(?:/|out of|of|из) ?5)?(?: ?(?:points?|stars?))?")


def grade_of_five(word: str) -> str | None:
    """Return the grade from 1 to 5 that a word is, with its unit; None if it is none.

    >>> grade_of_five("4/5"), grade_of_five("four"), grade_of_five("4 out of 5"), grade_of_five("4/10")
    ('4', '4', '4', None)
    """
    for name, digit in _GRADES.items():
        if word == name or word.startswith(f"{name} "):
            word = digit + word[len(name) :]
    grade = _GRADE.fullmatch(word)
    return None if grade is None else grade[1]


def takes_back(word: str, rest: str, others: Sequence[str]) -> bool:
    """Return whether words after an answer take it back, or name another one.

    Args:
        word: the answer that was read.
        rest: words after it.
        others: all other answers that are possible.
    """
    if _TURNS.search(rest) or (_DENIES.search(rest) and not word[:1].isdigit()):
        return True
    after, whole, begin = _spaced(rest), _spaced(f"{word} {rest}"), _spaced(word)
    named = [_spaced(other) for other in others]
    return any(other in after or (other.startswith(begin) and whole.startswith(other)) for other in named)


def _spaced(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "


_WORD: Final = re.compile(r"\w+")
