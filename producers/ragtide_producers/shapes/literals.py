"""Texts of attributes become values: JSON, or the `repr` that Python instrumentations write."""

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ragtide_schemas.limits import RESPONSE_MAX_CHARS
from ragtide_schemas.opaque import never_closes

TEXT_MAX: Final = 16 * RESPONSE_MAX_CHARS
"""Characters up to which a text is read as a value; a longer one stays a text."""
DEPTH_MAX: Final = 40
"""Levels of lists and mappings in a value."""
CLASS: Final = "__class__"
"""Key of the class name in the mapping that stands for `HumanMessage(content='...')`."""

_TOKEN: Final = re.compile(
    r"""(\s*)(?:
        ([bru]{0,2}(?:\"\"\"[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"\"\"|'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"))
      | ([-+]?(?:\d[\d_]*(?:\.\d*)?(?:e[-+]?\d+)?|inf|nan)\b)
      | (\w[\w.-]*|\.\.\.)((?:\[[\w., ]{1,80}\](?=\())?\s*[(=])?
      | (<[^<>]*(?:<[^<>]*>[^<>]*)*>)
      | ([][{}(),:=])
      | \S
    )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_GAP, _TEXT, _NUMBER, _NAME, _BEGUN_NAME, _OPAQUE, _MARK = range(1, 8)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "\n": ""}
_ESCAPE: Final = re.compile(r"""\\(?:(?P<mark>[ntr'"\\\n])|(?P<hex>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))""")
_ENUM: Final = re.compile(r"<\w+\.\w+: (.+)>", re.DOTALL)
"""A member of an enumeration with its value, such as `<ChatRole.USER: 'user'>`."""
CALL: Final = re.compile(r"[A-Za-z_][\w.]{0,80}(?:\[[\w., ]{1,80}\])?\(\s{0,200}(?:[a-z_]\w{0,60} ?[=:]|\{['\"])")
_OMITTED: Final = re.compile(r"\) \((?:\d{1,9}(?: [a-z ]{0,20}\)?)?|input_keys=(?:None|\{[^{}]{0,180}\})\))?$")
"""What DSPy writes after a prediction that has more completions, and after an example."""
_BEGUN: Final = re.compile(
    r"""\{\s*(?:['"]|$)|\[\s*(?:[\[{"']|$|[A-Z]\w{2,80}\()|[a-z_]\w{0,60}=(?:None [a-z_]\w{0,60}=|['"\[{])"""
)
"""The beginning of a value that a text may spell."""
_FIELDS: Final = re.compile(r"[a-z_]\w{0,60}=(?:['\"\[{<\d-]|None\b|True\b|False\b|[A-Z]\w{0,80}\()")
FEWEST, DENSITY = 1_000, 12
"""A printed value has at most so many lists, objects and calls, and one more for so many characters."""
_QUOTES: Final = ("'", '"')
_BRACKETS: Final = ("{", "[", '"', "(")
_SEQUENCE: Final = re.compile(r"(?:np\.|numpy\.|pd\.|pandas\.)?(?:array|Series|Index|deque)\(\s*[\[(]")
_OF_ONE: Final = frozenset(
    ("array", "ndarray", "Series", "Index", "list", "tuple", "set", "frozenset", "deque", "str_", "bytes_", "bool_",
     "float16", "float32", "float64", "int8", "int16", "int32", "int64")
)  # fmt: skip
"""Calls whose first argument is the value: `array(['a'], dtype=object)`, `np.str_('a')`, `list(['a'])`."""
_ENDS: Final = (*")}'\"]0123456789", "None", "True", "False")
_CLOSING: Final = {"[": "]", "{": "}", "(": ")"}
_NAMED: Final[dict[str, Any]] = {"None": None, "True": True, "False": False, "null": None, "true": True, "false": False}


class Constructed(dict[str, Any]):
    """The fields of a text such as `HumanMessage(content='...')`, with the text: it may be an answer that is code.

    Args:
        text: the whole text.
    """

    def __init__(self, fields: Mapping[str, Any], text: str) -> None:
        super().__init__(fields)
        self.text = text


class UnreadableError(ValueError):
    """A value cannot be read without guessing; the message says what it is, and the remedy."""


class BrokenTextError(UnreadableError):
    """A text begins as a list or a mapping and does not end as such: it was cut, or is no value."""


class SeveralTextsError(UnreadableError):
    """A value has several texts of which none is known to be the one."""


def value_of(text: str, *, strict: bool = False) -> Any:
    """Return the value that a text spells, or the text itself if it spells none.

    Args:
        text: any.
        strict: whether a list or an object is read as by `literal_of`.

    Raises:
        BrokenTextError: the text begins as a list or a mapping of JSON and ends early.
        UnreadableError: the text has too many values.
    """
    stripped = text.strip()
    try:
        if len(stripped) <= TEXT_MAX and (stripped.startswith(_BRACKETS) or _SEQUENCE.match(stripped)):
            return _read(stripped, strict=strict)
    except UnreadableError:
        raise
    except ValueError:
        value: Any = text
    else:
        value = _constructed(stripped, text)
    if isinstance(value, str) and is_cut(stripped):
        raise BrokenTextError(f"{stripped[:40]!r} begins a value that does not end: give all of it")
    return value


def literal_of(text: str) -> Any:
    """Return the value that a whole text spells: JSON, Python, or NumPy's text of an array.

    Names without quotes are no texts here; `nan`, `NaT` and `<NA>` are None.

    Raises:
        ValueError: the text spells no value, or its parts may be one text or several.
    """
    stripped = text.strip()
    if len(stripped) > TEXT_MAX:
        raise ValueError("the text is too long")
    return _read(stripped, strict=True)


def _read(stripped: str, *, strict: bool) -> Any:
    try:
        value = json.loads(stripped)
    except RecursionError:
        raise ValueError("the value is too deep") from None
    except ValueError:
        return _LiteralReader(stripped, strict=strict).value()
    return _spelled_out(value)


def _spelled_out(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return _constructed(value, value) if value.endswith(_ENDS) else value
    if not isinstance(value, list | dict):
        return value
    if depth > DEPTH_MAX:
        raise ValueError("the value is too deep")
    if isinstance(value, list):
        return [_spelled_out(item, depth + 1) if item else item for item in value]
    return {key: _spelled_out(item, depth + 1) for key, item in value.items()}


def _constructed(stripped: str, text: str) -> Any:
    is_call = CALL.match(stripped) is not None
    if len(stripped) > TEXT_MAX or not (is_call or _FIELDS.match(stripped)):
        return text
    end = _OMITTED.sub(")", stripped[-200:]) if is_call else stripped[-200:]
    try:
        fields = _LiteralReader(stripped[:-200] + end).value(fields=not is_call)
    except UnreadableError:
        raise
    except ValueError:
        return text
    return Constructed(fields, text) if isinstance(fields, dict) else fields


def is_cut(text: str) -> bool:
    """Return whether a text is the beginning of a list, an object or fields of Python or JSON, and has no end."""
    stripped = text.strip()
    is_message = stripped.startswith(("content='", 'content="'))  # LangChain: fields, of which the last is cut
    return is_message or (_BEGUN.match(stripped) is not None and never_closes(stripped))


@dataclass(slots=True)
class _Parts:
    """What stands between two brackets, so far: items, or fields, of which `key` is the newest."""

    items: list[Any] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    gaps: dict[int, str] = field(default_factory=dict)
    """White space without a comma, by the place of the item before it."""
    key: str | None = None
    commas: int = 0
    begins: bool = True
    """Whether a value may begin here."""
    is_bare: bool = False
    """Whether it may be a name without quotes, such as `dtype=object`."""

    def add(self, value: Any, gap: str) -> None:
        if self.begins and self.key is None:
            self.items.append(value)
        elif self.key is not None and self.begins:
            self.fields[self.key] = value
        elif self.key is not None and isinstance(value, str) and _is_piece(self.fields[self.key], gap):
            self.fields[self.key] += value  # as `pprint` writes a long text
        elif self.fields or not gap:
            raise ValueError("a comma is missing")
        else:
            self.gaps[len(self.items) - 1] = gap
            self.items.append(value)
        self.begins = False

    def separate(self, mark: str) -> None:
        if self.begins or mark not in ",:=" or (mark != "," and (self.gaps or self.key is not None)):
            raise ValueError(f"{mark!r} begins no value")
        if mark == ",":
            self.key, self.begins, self.commas = None, True, self.commas + 1
        else:
            self.name(str(self.items.pop()), is_bare=mark == "=")

    def whole_items(self, *, is_array: bool) -> list[Any]:
        """Return the items, of which some have no comma after them.

        NumPy writes no commas at all. `pprint` cuts a long text into pieces in lines of their own.
        """
        items, gaps = self.items, self.gaps
        in_pieces = all(
            _is_piece(items[place], gap) and isinstance(items[place + 1], str) for place, gap in gaps.items()
        )
        if in_pieces == (is_array and self.commas == 0):
            raise ValueError("a comma is missing: the texts may be one or several")
        if not in_pieces:
            return items
        joined: list[Any] = []
        for place, item in enumerate(items):
            if place - 1 in gaps:
                joined[-1] += item
            else:
                joined.append(item)
        return joined

    def name(self, key: str, *, is_bare: bool = True) -> None:
        if self.begins and self.key is not None:
            raise ValueError("a field has two names")
        self.key, self.begins, self.is_bare = key, True, is_bare


class _LiteralReader:
    """A reader of Python's literals and constructor calls: each token is matched once, and looked at once."""

    def __init__(self, text: str, *, strict: bool = False) -> None:
        self._tokens = _TOKEN.finditer(text)
        self._strict = strict
        """Whether names without quotes are refused."""
        self._left = FEWEST + len(text) // DENSITY

    def value(self, *, fields: bool = False) -> Any:
        """Return the one value of the text, or the fields that it lists as Pydantic writes a model as text."""
        parts = self._parts("", 0)
        if (
            parts.gaps
            and all("\n" in gap for gap in parts.gaps.values())
            and all(isinstance(item, dict) and CLASS in item for item in parts.items)
        ):
            return parts.items  # as a program prints one after the other
        if parts.begins or parts.gaps or bool(parts.fields) != fields or len(parts.items) != (not fields):
            raise ValueError("the text is not one value")
        return parts.fields if fields else parts.items[0]

    def _parts(self, closing: str, depth: int) -> _Parts:
        self._left -= 1
        if self._left < 0:
            raise UnreadableError("it has more lists, objects and calls than its length allows: give the text alone")
        if depth > DEPTH_MAX:
            raise ValueError("the value is too deep")
        parts = _Parts()
        for match in self._tokens:
            kind = match.lastindex or 0
            if kind == _MARK and match[_MARK] not in _CLOSING:
                if match[_MARK] == closing and not (parts.begins and parts.key is not None):
                    return parts
                if not closing:
                    raise ValueError("the text continues after its value")
                parts.separate(match[_MARK])
            elif kind != _BEGUN_NAME or match[_BEGUN_NAME][-1] == "(":
                is_field = closing == ")" and bool(parts.fields)  # Haystack: Document(id=a1, content: 'text')
                is_bare = not self._strict or is_field or (parts.key is not None and parts.is_bare)
                parts.add(self._value(match, kind, depth, is_bare=is_bare), match[_GAP])
            elif not closing and match[_NAME] in parts.fields and "\n" in match[_GAP]:
                raise UnreadableError("it has the fields of several printed objects: give one text")
            elif parts.begins or not closing:
                parts.name(match[_NAME])
            else:
                raise ValueError("a comma is missing")
        if closing:
            raise ValueError("the value does not end")
        return parts

    def _value(self, match: re.Match[str], kind: int, depth: int, *, is_bare: bool) -> Any:
        if kind in _SCALARS:
            return _SCALARS[kind](match[kind])
        if kind == _OPAQUE:
            return self._opaque(match[_OPAQUE])
        if kind == _MARK:
            closing = _CLOSING[match[_MARK]]
            parts = self._parts(closing, depth + 1)
            items = parts.whole_items(is_array=closing == "]") if parts.gaps else parts.items
            return parts.fields if parts.fields or (closing == "}" and not items) else items
        name = match[_NAME]
        if kind == _BEGUN_NAME and name not in _NAMED:
            parts = self._parts(")", depth + 1)
            items = parts.whole_items(is_array=False) if parts.gaps else parts.items
            short = name.rpartition(".")[2]
            if short in _OF_ONE:
                return items[0] if items else []
            return {CLASS: short, **parts.fields} if parts.fields else items
        if kind == _NAME and (is_bare or name in _NAMED or name == "NaT"):
            return _NAMED.get(name, name if is_bare else None)
        raise ValueError(f"{match[0][:40]!r} has no quotes, or is no value")

    def _opaque(self, text: str) -> Any:
        self._left -= 1
        member = _ENUM.fullmatch(text)
        if member is not None:
            return _LiteralReader(member[1].strip()).value()
        if self._strict and text != "<NA>":
            raise ValueError(f"{text[:40]!r} is no value")
        return None if self._strict else text


def _is_piece(item: Any, gap: str) -> bool:
    return isinstance(item, str) and item[-1:].isspace() and "\n" in gap


def _unquoted(token: str) -> str:
    if token[0] in _QUOTES and token[:3] != '"""' and "\\" not in token:
        return token[1:-1]
    start = len(token) - len(token.lstrip("bBrRuU"))
    width = 3 if token.startswith('"""', start) and len(token) >= start + 6 else 1
    inner = token[start + width : -width]
    return _ESCAPE.sub(_unescaped, inner) if "\\" in inner else inner


def _unescaped(match: re.Match[str]) -> str:
    code = match["hex"]
    if code is None:
        return _ESCAPES[match["mark"]]
    number = int(code[1:], 16)
    return chr(number) if number <= sys.maxunicode else match[0]


def _number(token: str) -> Any:
    try:
        return int(token)
    except ValueError:
        return float(token)


_SCALARS: Final[Mapping[int, Callable[[str], Any]]] = {_TEXT: _unquoted, _NUMBER: _number}
