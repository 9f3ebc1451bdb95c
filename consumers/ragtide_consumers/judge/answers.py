"""Reading what a judge answered: JSON out of the text around it, and as much as possible of one that was cut off."""

from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json


@dataclass(frozen=True, slots=True)
class Answer:
    """What a judge answered, and what it cost."""

    text: str
    finish: str = "stop"
    """Why it ended: `stop`, `length` (cut off), `content_filter`."""
    refusal: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0
    from_cache: bool = False


@dataclass(frozen=True, slots=True)
class Parsed:
    """The JSON object in an answer."""

    fields: dict[str, Any]
    complete: bool
    """False if the answer was cut off; the fields are what came before."""


def parse(text: str) -> Parsed | None:
    """Return the JSON object in a text, None if there is none.

    >>> parse('Here it is: ```json {"a": [1]} ``` Anything else?')
    Parsed(fields={'a': [1]}, complete=True)
    >>> parse('{"a": ["0a", "0b"], "b": ["1')
    Parsed(fields={'a': ['0a', '0b'], 'b': []}, complete=False)
    >>> parse("I cannot do that.") is None
    True
    """
    start = text.find("{")
    if start < 0:
        return None
    end = text.rfind("}")
    if end > start:
        try:
            whole = from_json(text[start : end + 1], allow_inf_nan=False)
        except ValueError:
            pass
        else:
            return Parsed(whole, complete=True)
    try:
        part = from_json(text[start:], allow_inf_nan=False, allow_partial=True)
    except ValueError:
        return None
    return Parsed(part, complete=False)


def texts(value: object) -> list[str]:
    """Return the texts in something that should be a list of texts.

    >>> texts(["0a", 3, None, "1as, 1av"]), texts("0a")
    (['0a', '1as', '1av'], ['0a'])
    """
    items = value if isinstance(value, list) else [value]
    return [piece.strip() for item in items if isinstance(item, str) for piece in item.split(",") if piece.strip()]
