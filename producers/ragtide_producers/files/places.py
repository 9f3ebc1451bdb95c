"""Names of columns, and places in them, such as `request.messages.0.content`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from ragtide_schemas.limits import NAME_MAX_CHARS

from ..shapes.literals import literal_of

DIGITS_MAX: Final = 9
"""Most digits of the number of an item."""
_DEPTH_MAX: Final = 4


_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MARKS: Final = str.maketrans("_-()[]", "      ")


def plain_name(column: str) -> str:
    """Return a name in lower case with underscores: `User Input`, `userInput` and `user (input)` are `user_input`."""
    return _plain(column) if len(column) <= NAME_MAX_CHARS else column  # no known name is longer


@lru_cache(8192)  # every row of a file has the same names
def _plain(column: str) -> str:
    return "_".join(_HUMP.sub(" ", column).translate(_MARKS).split()).lower()


def reached(value: Any, place: str) -> tuple[tuple[str, ...], Any] | None:
    """Return the keys on the way to a place in a value, and what is there; None if there is no such place.

    >>> reached({"request": '{"messages": [{"content": "Why?"}]}'}, "request.messages.0.content")
    (('request', 'messages', '0', 'content'), 'Why?')

    Args:
        value: objects and lists, or a text that spells one.
        place: keys, which may have dots themselves, and numbers of items, with dots between them. A key of a list is
            that of each item.
    """
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            value = literal_of(value.strip())
    if isinstance(value, Mapping):
        if place in value:
            return (place,), value[place]
        ends = [end for end, letter in enumerate(place) if letter == "." and place[:end] in value]
        inner = ((place[:end], reached(value[place[:end]], place[end + 1 :])) for end in reversed(ends))
        return next(
            (((key, *inner_place[0]), inner_place[1]) for key, inner_place in inner if inner_place is not None), None
        )
    if not isinstance(value, list | tuple):
        return None
    number, _, rest = place.partition(".")
    if not number.removeprefix("-").isdecimal() or len(number) > DIGITS_MAX:
        items = [reached(item, place) if isinstance(item, Mapping) else None for item in value]
        return ((place,), [item and item[1] for item in items]) if any(items) else None
    if not -len(value) <= int(number) < len(value):
        return None
    inner_place = reached(value[int(number)], rest) if rest else ((), value[int(number)])
    return None if inner_place is None else ((number, *inner_place[0]), inner_place[1])


def without(row: Mapping[str, Any], keys: Sequence[str]) -> Mapping[str, Any]:
    """Return an object without the value at the end of keys; of a list or a text on the way to it nothing is left."""
    first, *others = keys
    inner = row.get(first)
    left = without(inner, others) if others and isinstance(inner, Mapping) else {}
    return {name: value for name, value in row.items() if name != first} | ({first: left} if left else {})


def places_in(row: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Yield the names of columns, and the places of values in their objects."""
    for name, value in row.items():
        yield f"{before}{name}"
        if isinstance(value, Mapping) and before.count(".") < _DEPTH_MAX:
            yield from places_in(value, f"{before}{name}.")
