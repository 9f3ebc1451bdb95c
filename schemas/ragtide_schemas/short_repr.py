"""Short texts of objects for notebooks and logs: every part is bounded, so a long document is never written out."""

from collections.abc import Iterable
from reprlib import Repr
from typing import Final

MOST_CHARS: Final = 300
"""Most characters of an object's text."""

_PARTS: Final = Repr()
_PARTS.maxlevel = _PARTS.maxtuple = _PARTS.maxlist = _PARTS.maxdict = _PARTS.maxset = 2
_PARTS.maxstring, _PARTS.maxother = 60, 80


def short_repr(name: str, fields: Iterable[tuple[str | None, object]]) -> str:
    """Return the name and the fields of an object in at most `MOST_CHARS` characters.

    >>> short_repr("Item", [("id", "i-1"), ("text", "a" * 1000)])
    "Item(id='i-1', text='aaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaaaaa')"
    """
    text = f"{name}("
    for number, (field, value) in enumerate(fields):
        shown = _PARTS.repr(value)
        text += f"{', ' if number else ''}{shown if field is None else f'{field}={shown}'}"
        if len(text) >= MOST_CHARS:
            return f"{text[: MOST_CHARS - 2]}…)"
    return f"{text})"
