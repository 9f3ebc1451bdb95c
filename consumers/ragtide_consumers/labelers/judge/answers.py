"""Parses a judge's answer: finds the JSON in the text, and keeps the usable part of an answer that was cut off."""

import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json

# A string without an end reaches to the end of the text: otherwise the search from each quote would take square time.
_COMMA_OR_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|,(?=[ \t\r\n]{0,40}[\]}])', re.DOTALL)


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """A judge's answer, and its cost."""

    text: str
    finish: str = "stop"
    """Reason of its end: `stop`, `length` (cut off), `content_filter`."""
    refusal: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0
    cost_source: str | None = None
    """Source of the price; None if no price is known."""
    from_cache: bool = False


@dataclass(frozen=True, slots=True)
class Parsed:
    """The JSON object in an answer."""

    fields: dict[str, Any]
    complete: bool
    """False if the answer was cut off; then `fields` has the fields before the cut, without a list that was cut."""


def parse(text: str) -> Parsed | None:
    """Return the JSON object in a text; None if there is none.

    >>> parse('Here it is: ```json {"a": [1]} ``` Anything else?')
    Parsed(fields={'a': [1]}, complete=True)
    >>> parse('{"a": ["0a", "0b"], "b": ["1')
    Parsed(fields={'a': ['0a', '0b']}, complete=False)
    >>> parse("I cannot do that.") is None
    True
    """
    start = text.find("{")
    if start < 0:
        return None
    end = text.rfind("}")
    if end > start:
        whole = _json(text[start : end + 1])
        if whole is not None:
            return Parsed(whole, complete=True)
    try:
        part = from_json(text[start:], allow_inf_nan=False, allow_partial=True)
    except ValueError:
        return None
    return Parsed(_without_cut_list(part), complete=False)


def _json(text: str) -> Any:
    """Return the JSON in a text, with or without commas after last elements; None if it has other faults."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        pass
    try:
        return from_json(without_trailing_commas(text), allow_inf_nan=False)
    except ValueError:
        return None


def without_trailing_commas(text: str) -> str:
    r"""Return a text without commas between the last element of a JSON list or object and its end; strings stay.

    Small models write such commas. It takes time in proportion to the text.

    >>> without_trailing_commas('{"a": ["0a", "b,]", ], }')
    '{"a": ["0a", "b,]" ] }'
    """
    parts: list[str] = []
    begun = 0
    for found in _COMMA_OR_STRING.finditer(text):
        if found[0][0] == ",":
            parts.append(text[begun : found.start()])
            begun = found.start() + 1
    return "".join([*parts, text[begun:]])


def _without_cut_list(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields without the last field if it is a list of texts, because the cut may have shortened it.

    A list of objects stays, because each object in it is checked by itself.
    """
    if not fields:
        return fields
    name, value = next(reversed(fields.items()))
    if isinstance(value, list) and not any(isinstance(item, dict) for item in value):
        return {other: fields[other] for other in fields if other != name}
    return fields


def texts(value: object) -> list[str] | None:
    """Return the texts in a list of texts, each split at its commas; None if the value is no list of texts.

    >>> texts(["0a", "1as, 1av"]), texts([]), texts("0a"), texts(["0a", 3]), texts(None)
    (['0a', '1as', '1av'], [], None, None, None)
    """
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return None
    return [piece.strip() for item in value for piece in item.split(",") if piece.strip()]
