"""Texts of attributes become values: JSON, or the `repr` that Python instrumentations write."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
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
    r"""\s*(?:
        (?P<text>[bru]{0,2}(?:\"\"\"[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"\"\"|'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"))
      | (?P<number>[-+]?(?:\d[\d_]*\.?\d*(?:e[-+]?\d+)?|inf|nan)\b)
      | (?P<name>\w[\w.-]*|\.\.\.)
      | (?P<opaque><[^<>]*(?:<[^<>]*>[^<>]*)*>)
      | (?P<mark>[][{}(),:=])
    )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "\n": ""}
_ESCAPE: Final = re.compile(r"""\\(?:(?P<mark>[ntr'"\\\n])|(?P<hex>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))""")
_ENUM: Final = re.compile(r"<\w+\.\w+: (.+)>", re.DOTALL)
"""A member of an enumeration with its value, such as `<ChatRole.USER: 'user'>`."""
_CALL: Final = re.compile(r"[A-Za-z_][\w.]{0,80}\(\s{0,200}[a-z_]\w{0,60} ?[=:]")
_OMITTED: Final = re.compile(r"\) \((?:\d{1,9}(?: [a-z ]{0,20}\)?)?)?$")
"""What DSPy writes after a prediction that has more completions."""
_BEGUN: Final = re.compile(r"""\{\s*(?:['"]|$)|\[\s*(?:[\[{"']|$|[A-Z]\w{2,80}\()|[a-z_]\w{0,60}=['"\[{]""")
"""The beginning of a value that a text may spell."""
_FIELDS: Final = re.compile(r"[a-z_]\w{0,60}=['\"\[{]")
GAP_CHARS: Final = 200
"""Characters of white space between two items that are looked at."""
_SEQUENCE: Final = re.compile(r"(?:np\.|numpy\.|pd\.|pandas\.)?(?:array|Series|Index|deque)\(\s*[\[(]")
_OF_ONE: Final = frozenset(
    ("array", "ndarray", "Series", "Index", "list", "tuple", "set", "frozenset", "deque", "str_", "bytes_", "bool_",
     "float16", "float32", "float64", "int8", "int16", "int32", "int64")
)  # fmt: skip
"""Calls whose first argument is the value: `array(['a'], dtype=object)`, `np.str_('a')`, `list(['a'])`."""
_CLOSING: Final = {"[": "]", "{": "}", "(": ")"}
_NAMED: Final[dict[str, Any]] = {"None": None, "True": True, "False": False, "null": None, "true": True, "false": False}


class Constructed(dict[str, Any]):
    """The fields of a text such as `HumanMessage(content='...')`, with the text: it may be an answer that is code.

    Args:
        fields: by name.
        text: the whole text.
    """

    def __init__(self, fields: Mapping[str, Any], text: str) -> None:
        super().__init__(fields)
        self.text = text


class UnreadableError(ValueError):
    """A value cannot be read without guessing; the message says what it is, and the remedy."""


class BrokenTextError(UnreadableError):
    """A text begins as a list or a mapping and does not end as such: it was cut, or is no value."""


def value_of(text: str) -> Any:
    """Return the value that a text spells, or the text itself if it spells none.

    Raises:
        BrokenTextError: the text begins as a list or a mapping of JSON and ends early.
    """
    stripped = text.strip()
    begins = stripped[:1] in ("{", "[", '"', "(") or _SEQUENCE.match(stripped) is not None
    if not begins or len(stripped) > TEXT_MAX:
        return unless_cut(stripped, _constructed(stripped, text))
    try:
        return _read(stripped, strict=False)
    except ValueError:
        return unless_cut(stripped, text)


def unless_cut(stripped: str, value: Any) -> Any:
    """Return a value; raise BrokenTextError if it is a text that begins as a list or an object, and has no end."""
    if isinstance(value, str) and is_cut(stripped):
        raise BrokenTextError(f"{stripped[:40]!r} begins a value that does not end")
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
        found = json.loads(stripped)
    except RecursionError:
        raise ValueError("the value is too deep") from None
    except ValueError:
        try:
            return _LiteralReader(stripped, strict=strict).value()
        except RecursionError:
            raise ValueError("the value is too deep") from None
    if too_deep(found):
        raise ValueError("the value is too deep")
    return _spelled_out(found)


def too_deep(value: Any) -> bool:
    """Whether a value has more than `DEPTH_MAX` levels of lists and mappings."""
    level = [value]
    for _ in range(DEPTH_MAX):
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [item for items in inner for item in items]
        if not level:
            return False
    return True


def _spelled_out(value: Any) -> Any:
    """Return a value of JSON in which the texts that spell objects are their fields; each text is read once."""
    if isinstance(value, str):
        return _constructed(value, value) if value[-1:] in (")", "}", "'", '"', "]") else value
    if isinstance(value, list):
        return [_spelled_out(item) for item in value]
    if isinstance(value, dict):
        return {key: _spelled_out(item) for key, item in value.items()}
    return value


def _constructed(stripped: str, text: str) -> Any:
    """Return the fields of a text such as `Document(page_content='...')` or `content='...' id='...'`, else the text."""
    is_call = _CALL.match(stripped) is not None
    if len(stripped) > TEXT_MAX or not (is_call or _FIELDS.match(stripped)):
        return text
    end = _OMITTED.sub(")", stripped[-200:]) if is_call else stripped[-200:]
    reader = _LiteralReader(stripped[:-200] + end)
    try:
        found = reader.value() if is_call else reader.fields()
    except (ValueError, RecursionError):
        return text
    return Constructed(found, text) if isinstance(found, dict) else found


def is_cut(text: str) -> bool:
    """Return whether a text is the beginning of a list, an object or fields of Python or JSON, and has no end."""
    stripped = text.strip()
    is_message = stripped.startswith(("content='", 'content="'))  # LangChain: fields, of which the last is cut
    return is_message or (_BEGUN.match(stripped) is not None and never_closes(stripped))


@dataclass(slots=True)
class _LiteralReader:
    """A reader of Python's literals and constructor calls: each character is looked at a bounded number of times."""

    text: str
    at: int = 0
    strict: bool = False
    """Whether names without quotes are refused."""
    next_at: int = -1
    next: tuple[str, str, int] = ("", "", 0)

    def value(self) -> Any:
        found = self._value(0)
        if self.text[self.at :].strip():
            raise ValueError("the text continues after its value")
        return found

    def fields(self) -> dict[str, Any]:
        """Return the fields that the text lists with spaces between them, as Pydantic writes a model as text."""
        found: dict[str, Any] = {}
        while self.text[self.at :].strip():
            kind, name = self._token()
            if kind != "name" or self._token() != ("mark", "="):
                raise ValueError(f"{name!r} is no name of a field")
            found[name] = self._value(1)
        return found

    def _token(self) -> tuple[str, str]:
        kind, token, end = self._ahead()
        if not kind:
            raise ValueError(f"no value at {self.at}")
        self.at = end
        return kind, token

    def _peek(self) -> str:
        return self._ahead()[1]

    def _ahead(self) -> tuple[str, str, int]:
        """Return the kind, the text and the end of the next token; each is matched once."""
        if self.next_at != self.at:
            match = _TOKEN.match(self.text, self.at)
            kind = (match.lastgroup or "") if match else ""
            self.next_at, self.next = self.at, (kind, match[kind], match.end()) if match else ("", "", self.at)
        return self.next

    def _value(self, depth: int, *, bare: bool = False) -> Any:
        if depth > DEPTH_MAX:
            raise ValueError("the value is too deep")
        kind, token = self._token()
        if kind == "text":
            return _unquoted(token)
        if kind == "number":
            return _number(token)
        if kind == "opaque":
            member = _ENUM.fullmatch(token)
            if self.strict and member is None:
                return _missing(token)
            return _LiteralReader(member[1]).value() if member else token
        if kind == "name":
            return self._named(token, depth, bare=bare)
        if token in _CLOSING:
            return self._items(_CLOSING[token], depth)
        raise ValueError(f"{token!r} begins no value")

    def _named(self, name: str, depth: int, *, bare: bool) -> Any:
        """Return the value of a name; `bare` is true where calls have names without quotes, such as `dtype=object`."""
        if name in _NAMED:
            return _NAMED[name]
        if self._peek() != "(":
            if not self.strict or bare or self._peek() == "=":
                return name
            if name != "NaT":
                raise ValueError(f"{name[:40]!r} has no quotes")
            return None
        self._token()
        items, fields = self._parts(")", depth)
        short = name.rpartition(".")[2]
        if short in _OF_ONE:
            return items[0] if items else []
        return {CLASS: short, **fields} if fields else items

    def _items(self, closing: str, depth: int) -> Any:
        items, fields = self._parts(closing, depth)
        return fields if fields or (closing == "}" and not items) else items

    def _parts(self, closing: str, depth: int) -> tuple[list[Any], dict[str, Any]]:
        """Read up to a closing mark, and return the items and the fields before it."""
        items: list[Any] = []
        fields: dict[str, Any] = {}
        gaps: dict[int, str] = {}
        commas = 0
        while self._peek() != closing:
            item = self._value(depth + 1)
            mark = self._peek()
            if mark in (":", "="):
                self._token()
                fields[str(item)] = self._in_pieces(self._value(depth + 1, bare=mark == "="))
                mark = self._peek()
            else:
                items.append(item)
            if mark == ",":
                self._token()
                commas += 1
            elif mark != closing:
                gaps[len(items) - 1] = self._gap()
                if fields or not gaps[len(items) - 1]:
                    raise ValueError("a comma is missing")
        self._token()
        return _by_gaps(items, gaps, commas == 0 and closing == "]"), fields

    def _gap(self) -> str:
        rest = self.text[self.at : self.at + GAP_CHARS]
        return rest[: len(rest) - len(rest.lstrip())]

    def _in_pieces(self, value: Any) -> Any:
        """Return a text with the pieces that follow it, as `pprint` writes a long one."""
        while isinstance(value, str) and self._peek()[:1] in ("'", '"') and _is_piece(value, self._gap()):
            value += self._value(DEPTH_MAX)
        return value


def _by_gaps(items: list[Any], gaps: Mapping[int, str], without_commas: bool) -> list[Any]:
    """Return items of which some have no comma after them.

    NumPy writes no commas at all. `pprint` cuts a long text into pieces in lines of their own.
    """
    if not gaps:
        return items
    in_pieces = all(_is_piece(items[place], gap) for place, gap in gaps.items())
    if without_commas and not in_pieces:
        return items
    if without_commas or not in_pieces:
        raise ValueError("a comma is missing: the texts may be one or several")
    joined: list[Any] = []
    for place, item in enumerate(items):
        if place - 1 in gaps:
            joined[-1] += item
        else:
            joined.append(item)
    return joined


def _is_piece(item: Any, gap: str) -> bool:
    return isinstance(item, str) and item[-1:].isspace() and "\n" in gap


def _missing(text: str) -> None:
    if text != "<NA>":
        raise ValueError(f"{text[:40]!r} is no value")


def _unquoted(token: str) -> str:
    quote = min(token.find(mark) for mark in "'\"" if mark in token)
    width = 3 if token.startswith('"""', quote) and len(token) >= quote + 6 else 1
    return _ESCAPE.sub(_unescaped, token[quote + width : -width])


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
