"""Reads JSON as models write it: Python's literals, smart quotes, comments, loose commas, quotes inside a text.

A text that ends before the value does gives the members that are complete. Three dots instead of a value are
unreadable, because what they stand for is not known. So is a name that an object has twice with two values.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

DEPTH: Final = 40
"""Most levels of a value."""

_SPACE: Final = re.compile(r"[\s\u200b\ufeff]++|//[^\n]{0,2000}+|#[^\n]{0,2000}+|/\*(?s:.{0,2000}?)\*/")
_CLOSERS: Final = {
    '"': '"', "'": "'", "`": "`", "“": "”“\"", "”": "”“\"", "„": "“”", "‟": "”", "«": "»", "‘": "’'", "’": "’'",
    "＂": "＂", "「": "」",
}  # fmt: skip
_RUNS: Final = {opener: re.compile(rf"[^\\{re.escape(closers)}]*+") for opener, closers in _CLOSERS.items()}
_QUOTES: Final = "".join(_CLOSERS)
_COLON: Final = re.compile(r"[ \t\r\n]{0,200}[:：]")
_AFTER_ITEM: Final = re.compile(r"[ \t\r\n]{0,200}(?:[,，\])]|//|#|/\*|$)")
_NAME: Final = rf"(?:[{_QUOTES}]?[\w $.-]{{1,80}}[{_QUOTES}”’»」]?|\"(?:[^\"\\\n]|\\.){{0,120}}\")\s{{0,40}}[:：]"
_AFTER_VALUE: Final = re.compile(
    rf"[ \t\r\n]{{0,200}}(?:\}}|[,，;]\s{{0,200}}(?:{_NAME}|\}}|//|#|/\*|$)|//|#|/\*|\n\s{{0,200}}{_NAME}|$)"
)
_ITEM: Final = re.compile(r"""[ \t\r\n]{0,200}(["'])([^"'\\]*)\1[ \t\r\n]{0,200},""")
"""A text of a list, as nearly all are."""
_BEGINS: Final = frozenset("\"'{}[]:,")
_BARE_NAME: Final = re.compile(r"([^\W\d][\w$-]{0,80}(?: [\w$-]{1,40}){0,6})\s{0,40}(?=[:：])")
_BARE: Final = re.compile(r"[+-]?[\w][\w.+-]{0,80}")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_HEX: Final = re.compile(r"u([0-9a-fA-F]{4})")
_WORDS: Final = {"true": True, "false": False, "null": None, "none": None}


class NoJson(ValueError):  # noqa: N818  # reads as the state it names
    """The text is no JSON, not even a sloppy one."""


class ReadingBudget:
    """Work that one answer may take, so that no answer takes more than time in proportion to its length."""

    def __init__(self, chars: int) -> None:
        self._left = 16 * chars + 400_000

    def use(self, work: int) -> None:
        """Count work."""
        self._left -= max(work, 1)

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self._left < 0


@dataclass(frozen=True, slots=True)
class Sloppy:
    """A value, and where it ends."""

    value: Any
    end: int
    cut: bool
    """Whether the text ended before the value did."""
    names: tuple[str, ...] = ()
    """Names of an object that was cut, those without a value included."""


TWO_VALUES: Final = "(two values)"
_CUT: Final[Any] = object()


def one_value(first: object, second: object) -> Any:
    """Return the value that a name has twice; a text that is no value of any field if the two differ."""
    # Of one type, because True equals 1.
    return second if type(first) is type(second) and first == second else TWO_VALUES


def read(text: str, start: int, budget: ReadingBudget | None = None) -> Sloppy:
    r"""Return the value that begins at `start`.

    Raises:
        NoJson: it is no JSON, or the budget is spent.

    >>> read("{'a': [True, None,], “b”: \"it's \\_ok\" /* c */}", 0).value
    {'a': [True, None], 'b': "it's _ok"}
    >>> read('{"a": ["0a"], "b": [{"c": 1}, {"c": 2', 0).value
    {'a': ['0a'], 'b': [{'c': 1}]}
    """
    budget = budget or ReadingBudget(len(text))
    reading: Sloppy | None = None
    # Quotes inside a text are a guess about its end, so they are looked for only where nothing else is readable.
    for inner_quotes in (False, True):
        reader = _SloppyReader(text, start, budget, inner_quotes=inner_quotes)
        try:
            value = reader.value(0)
        except NoJson:
            continue
        if not reader.cut or reading is None:
            reading = Sloppy(value, reader.at, reader.cut, tuple(reader.names))
        if not reading.cut:
            break
    if reading is None:
        raise NoJson
    return reading


class _SloppyReader:
    def __init__(self, text: str, start: int, budget: ReadingBudget, *, inner_quotes: bool) -> None:
        self._text = text
        self._budget = budget
        self._inner_quotes = inner_quotes
        self.at = start
        self.cut = False
        self.names: list[str] = []

    def value(self, depth: int) -> Any:
        """Return the value here; `_CUT` if the text ended before it did."""
        self._budget.use(140)
        if depth > DEPTH or self._budget.spent:
            raise NoJson
        first = self._peek()
        if first == "{":
            return self._object(depth)
        if first in ("[", "("):
            return self._list(depth, "]" if first == "[" else ")")
        if first in _CLOSERS:
            return self._string(_AFTER_VALUE)
        return self._bare()

    def _peek(self) -> str:
        while self._text[self.at : self.at + 1] not in _BEGINS and (space := _SPACE.match(self._text, self.at)):
            self._budget.use(space.end() - self.at)
            self.at = space.end()
        if self.at >= len(self._text):
            self.cut = True
            return ""
        return self._text[self.at]

    def _object(self, depth: int) -> Any:
        members: dict[str, Any] = {}
        self.at += 1
        while True:
            first = self._peek()
            while first in (",", "，", ";") and members:
                self.at += 1
                first = self._peek()
            if first == "}":
                self.at += 1
                return members
            name = self._name(first) if first else _CUT
            if name is not _CUT:
                if depth == 0:
                    self.names.append(name)
                first = self._peek()
                if first not in (":", "："):
                    if first:
                        raise NoJson
                    name = _CUT
            if name is not _CUT:
                self.at += 1
                self._peek()
                value = _CUT if self.cut else self.value(depth + 1)
                if value is not _CUT:
                    members[name] = one_value(members.get(name, value), value)
            if self.cut:
                return members if depth == 0 else _CUT

    def _name(self, first: str) -> Any:
        if first in _CLOSERS:
            return self._string(_COLON)
        bare = _BARE_NAME.match(self._text, self.at)
        if bare is None:
            raise NoJson
        self.at = bare.end()
        return bare[1]

    def _list(self, depth: int, end: str) -> Any:
        items: list[Any] = []
        self.at += 1
        while True:
            while item := _ITEM.match(self._text, self.at):
                self._budget.use(item.end() - self.at)
                items.append(item[2])
                self.at = item.end()
            first = self._peek()
            while first in (",", "，") and items:
                self.at += 1
                first = self._peek()
            if first == end:
                self.at += 1
                return items
            if first:
                value = self._string(_AFTER_ITEM, whole=True) if first in _CLOSERS else self.value(depth + 1)
                if value is not _CUT:
                    items.append(value)
                    if not self.cut and self._peek() not in (",", "，", end, "{", ""):
                        raise NoJson
            if self.cut:
                # The cut may have shortened a list of texts; an object in a list is complete by itself.
                whole = depth == 1 and items and all(isinstance(item, dict) for item in items)
                return items if whole else _CUT

    def _string(self, after: re.Pattern[str], *, whole: bool = False) -> Any:
        text = self._text
        begun = self.at
        run = _RUNS[text[begun]]
        pieces: list[str] = []
        at = begun + 1
        while True:
            match = run.match(text, at)
            stop = match.end() if match is not None else at
            self._budget.use(stop - at + 40)
            if self._budget.spent:
                raise NoJson
            pieces.append(text[at:stop])
            if stop >= len(text):
                self.at, self.cut = stop, True
                return _CUT
            if text[stop] == "\\":
                at = self._escape(stop + 1, pieces)
                continue
            if not self._inner_quotes or after.match(text, stop + 1) is not None:
                self.at = stop + 1
                return "".join(pieces)
            if whole:
                raise NoJson
            pieces.append(text[stop])
            at = stop + 1

    def _escape(self, at: int, pieces: list[str]) -> int:
        sign = self._text[at : at + 1]
        if sign == "u" and (code := _HEX.match(self._text, at)) is not None:
            pieces.append(chr(int(code[1], 16)))
            return code.end()
        pieces.append(_ESCAPES.get(sign, sign))
        return at + 1

    def _bare(self) -> Any:
        match = _BARE.match(self._text, self.at)
        if match is None:
            raise NoJson
        self.at = match.end()
        if self.at >= len(self._text):
            self.cut = True  # the cut may have shortened it
            return _CUT
        word = match[0]
        if word.lower() in _WORDS:
            return _WORDS[word.lower()]
        if len(word) <= 20:
            for number in (int, float):
                try:
                    return number(word)
                except ValueError:
                    continue
        return word
