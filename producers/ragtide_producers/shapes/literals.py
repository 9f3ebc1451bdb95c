"""Texts of attributes become values: JSON, or the `repr` that Python instrumentations write."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ragtide_schemas.limits import RESPONSE_MAX_CHARS

TEXT_MAX: Final = 16 * RESPONSE_MAX_CHARS
"""Characters up to which a text is read as a value; a longer one stays a text."""
DEPTH_MAX: Final = 40
"""Levels of lists and mappings in a value."""
CLASS: Final = "__class__"
"""Key of the class name in the mapping that stands for `HumanMessage(content='...')`."""

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<text>[bru]{0,2}(?:'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"))
      | (?P<number>[-+]?(?:\d[\d_]*\.?\d*(?:e[-+]?\d+)?|inf|nan)\b)
      | (?P<name>\w[\w.-]*)
      | (?P<opaque><[^<>]*(?:<[^<>]*>[^<>]*)*>)
      | (?P<mark>[][{}(),:=])
    )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "\n": ""}
_ESCAPE: Final = re.compile(r"""\\(?:(?P<mark>[ntr'"\\\n])|(?P<hex>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))""")
_ENUM: Final = re.compile(r"<\w+\.\w+: (.+)>", re.DOTALL)
"""A member of an enumeration with its value, such as `<ChatRole.USER: 'user'>`."""
_CALL: Final = re.compile(r"[A-Za-z_][\w.]{0,80}\([a-z_]\w{0,60} ?[=:]")
_FIELDS: Final = re.compile(r"[a-z_]\w{0,60}=['\"\[{]")
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


class BrokenTextError(ValueError):
    """A text begins as a list or a mapping and does not end as such: it was cut, or is no value."""


def value_of(text: str) -> Any:
    """Return the value that a text spells, or the text itself if it spells none.

    Raises:
        BrokenTextError: the text begins as a list or a mapping of JSON and ends early.
    """
    stripped = text.strip()
    if not stripped or stripped[0] not in '{["(' or len(stripped) > TEXT_MAX:
        return _constructed(stripped, text)
    try:
        found = json.loads(stripped)
    except (ValueError, RecursionError):
        pass
    else:
        return text if too_deep(found) else _spelled_out(found)
    try:
        return _LiteralReader(stripped).value()
    except (ValueError, RecursionError):
        pass
    if _cut(stripped):
        raise BrokenTextError(f"{stripped[:40]!r} begins a value that does not end")
    return text


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
    if len(stripped) > TEXT_MAX:
        return text
    reader = _LiteralReader(stripped)
    try:
        if _CALL.match(stripped):
            found = reader.value()
        elif _FIELDS.match(stripped):
            found = reader.fields()
        else:
            return text
    except (ValueError, RecursionError):
        return text
    return Constructed(found, text) if isinstance(found, dict) else found


def _cut(text: str) -> bool:
    """Whether a text is the beginning of a JSON list or object: it starts as such and has no end."""
    return bool(re.match(r'\{\s*"[^"]{0,200}"\s*:|\[\s*[\[{"]', text)) and text[-1] not in "}]"


@dataclass(slots=True)
class _LiteralReader:
    """A reader of Python's literals and constructor calls: each character is looked at a bounded number of times."""

    text: str
    at: int = 0

    def value(self) -> Any:
        found = self._value(0)
        if self.text[self.at :].strip():
            raise ValueError("the text goes on after its value")
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
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            raise ValueError(f"no value at {self.at}")
        self.at = match.end()
        kind = match.lastgroup or ""
        return kind, match[kind]

    def _peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        return match[0].strip() if match else ""

    def _value(self, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise ValueError("the value is too deep")
        kind, token = self._token()
        if kind == "text":
            return self._joined(token)
        if kind == "number":
            return _number(token)
        if kind == "opaque":
            member = _ENUM.fullmatch(token)
            return _LiteralReader(member[1]).value() if member else token
        if kind == "name":
            return self._named(token, depth)
        if token in _CLOSING:
            return self._items(_CLOSING[token], depth)
        raise ValueError(f"{token!r} begins no value")

    def _joined(self, token: str) -> str:
        """Return a text; Python joins texts that follow each other."""
        parts = [_unquoted(token)]
        while (match := _TOKEN.match(self.text, self.at)) and match.lastgroup == "text":
            self.at = match.end()
            parts.append(_unquoted(match["text"]))
        return "".join(parts)

    def _named(self, name: str, depth: int) -> Any:
        if name in _NAMED:
            return _NAMED[name]
        if self._peek() != "(":
            return name
        self._token()
        found = self._items(")", depth)
        return {CLASS: name.rpartition(".")[2], **found} if isinstance(found, dict) else found

    def _items(self, closing: str, depth: int) -> Any:
        items: list[Any] = []
        fields: dict[str, Any] = {}
        while self._peek() != closing:
            item = self._value(depth + 1)
            if self._peek() in (":", "="):
                self._token()
                fields[str(item)] = self._value(depth + 1)
            else:
                items.append(item)
            if self._peek() != closing and self._token() != ("mark", ","):
                raise ValueError("a comma is missing")
        self._token()
        return fields if fields or (closing == "}" and not items) else items


def _unquoted(token: str) -> str:
    """Return the text between quotes; an unknown escape stays as it is, as in Python."""
    quote = min(token.find(mark) for mark in "'\"" if mark in token)
    return _ESCAPE.sub(_unescaped, token[quote + 1 : -1])


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
