"""Values of Python as the plain values of JSON: what has a plain meaning is converted, the rest is left out by name.

No method of an application's object runs, and no generator. The depth and the number of values are bounded.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from inspect import isasyncgen, isawaitable
from math import isfinite
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from .printable import printable, shortened

DEPTH_MAX: Final = 40
"""Most levels of a value."""
VALUES_MAX: Final = 50_000
"""Most values in a value."""
BITS_MAX: Final = 10_000
"""Most bits of a whole number: Python writes no number of more than 4,300 digits, and readers of JSON read none."""
NAMES_MAX: Final = 100
"""Most names in a count of values that were left out; others count under the name of their field."""

LeftOut = Counter[str]
"""How many values were left out, by the name of their place, such as `metadata.trace` or `documents.score`."""

_STANDARD_TEXTS: Final = (date, time, timedelta, UUID)
_LISTS: Final[tuple[type[Any], ...]] = (list, tuple, deque, range, type({}.keys()), type({}.values()), type({}.items()))
_COMMON: Final = frozenset((list, dict, tuple, bool, type(None)))
"""Classes of which no value is another scalar; most values are of them."""
_ARRAYS: Final = frozenset(("numpy", "pandas"))
"""Packages whose values have `item` and `tolist`."""


class UnfitError(ValueError):
    """A value has no plain meaning; the message says what it is and the remedy, after the name of the value."""


class _BoundError(UnfitError):
    """A value is too deep or too large as a whole."""


def whole(text: str) -> str:
    r"""Return a text that is writable as UTF-8: a half of a pair of surrogates becomes the replacement character.

    >>> whole("\ud83d\ude00 ok"), whole("cut \ud83d")
    ('😀 ok', 'cut �')
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def count_left_out(left_out: LeftOut, name: str, number: int = 1) -> None:
    """Count values under their name, or under that of their field if there are many names already."""
    if name not in left_out and len(left_out) >= NAMES_MAX:
        name = name.partition(".")[0]
    else:
        name = printable(".".join(shortened(part) for part in whole(name).split(".")[:6]))
    left_out[name] += number


def plain_value(value: Any, name: str, left_out: LeftOut, *, depth: int = 0) -> Any:
    """Return a value as plain JSON values; an object without JSON inside of it is left out and counted.

    The key of such an object is missing; in a list null stands for it.

    Args:
        value: any object of Python.
        left_out: takes the names of what is left out.
        depth: levels above the value; an error of an inner one says less.

    Raises:
        UnfitError: the value as a whole has no plain meaning, is too deep, or has too many values.
    """
    return _PlainReader(left_out).read(value, name, depth)


def plain_scalar(value: Any) -> Any:  # noqa: PLR0911 - one for each kind
    """Return a value that is one text, number, truth value or null of JSON; another value as it is.

    >>> plain_scalar(Decimal("0.5")), plain_scalar(date(2026, 1, 2)), plain_scalar(Fraction(1, 3)), plain_scalar(b"ok")
    (0.5, '2026-01-02', '1/3', 'ok')

    Raises:
        UnfitError: it is no finite number, or bytes that are no text.
    """
    if type(value) in _COMMON:
        return value
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return whole(str.__str__(value))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _whole_number(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise UnfitError("is no finite number: leave the value out when it is unknown")
        return float.__float__(value)
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode()
        except ValueError:
            raise UnfitError("is bytes that are no text in UTF-8: decode them first") from None
    if isinstance(value, Decimal | Fraction):
        return _number(value)
    package = type(value).__module__.partition(".")[0]
    if package in _ARRAYS:
        return _scalar_of_array(value)
    if isinstance(value, PurePath):
        return str(value)
    return to_jsonable_python(value) if isinstance(value, _STANDARD_TEXTS) else value


def _whole_number(value: int) -> int:
    if value.bit_length() > BITS_MAX:
        raise UnfitError("is a number with more digits than JSON has: give its text")
    return int.__int__(value)


def _number(value: Decimal | Fraction) -> Any:
    """Return a number if it is exactly that of the value as people write it, otherwise its text."""
    if isinstance(value, Decimal) and not value.is_finite():
        raise UnfitError("is no finite number: leave the value out when it is unknown")
    try:
        number = float(value)
        same = Decimal(repr(number)) == value if isinstance(value, Decimal) else Fraction(number) == value
    except (OverflowError, ValueError):
        return str(value)
    return (int(number) if number.is_integer() and abs(number) < 2**53 else number) if same else str(value)


def _scalar_of_array(value: Any) -> Any:
    kind = type(value).__name__
    if kind in ("NaTType", "NAType"):
        return None
    if kind in ("datetime64", "timedelta64"):
        return None if str(value) == "NaT" else str(value)
    if isinstance(value, _STANDARD_TEXTS):
        return to_jsonable_python(value)
    if hasattr(type(value), "item") and getattr(value, "shape", None) == ():
        return plain_scalar(value.item())
    return value


def plain_text(value: Any) -> str | None:
    """Return the text of a value that is one text, number or truth value; None for another value.

    >>> plain_text(4.0), plain_text(0.5), plain_text(True), plain_text(UUID(int=7)), plain_text(["de"])
    ('4', '0.5', 'true', '00000000-0000-0000-0000-000000000007', None)

    Raises:
        UnfitError: it is no finite number, or bytes that are no text.
    """
    scalar = plain_scalar(value)
    if isinstance(scalar, str):
        return scalar
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    if isinstance(scalar, float):
        return str(int(scalar)) if scalar.is_integer() and abs(scalar) < 2**53 else str(scalar)
    if isinstance(scalar, int):
        return str(scalar)
    return None


def key_text(key: Any) -> str:
    """Return the text of a key.

    Raises:
        UnfitError: it has none.
    """
    text = plain_text(key)
    if text is None:
        raise UnfitError(unfit(key))
    return text


def name_of(name: str, key: Any) -> str:
    """Return the name of a value in a mapping of this name."""
    return f"{name}.{key if isinstance(key, str) else type(key).__name__}"


def unfit(value: object) -> str:
    """Return what a value is that has no plain meaning, with the remedy, to follow the name of the value."""
    if hasattr(type(value), "__anext__") or isasyncgen(value):
        return "is an async generator: await its parts and join them first"
    if isawaitable(value):
        return "is a coroutine or a future: await it first"
    if isinstance(value, Iterator):
        return "is a generator or another iterator: join its parts, or make a list of them, first"
    if callable(value):
        return f"is a function or a class ({type(value).__name__}): call it first"
    return f"is an object of the class {shortened(type(value).__name__)}, which has no plain value: give its text"


def fields_of(value: Any) -> dict[Any, Any] | Mapping[Any, Any] | None:
    """Return the fields of a mapping, a Pydantic model, a dataclass, a named tuple or an attrs object; else None.

    A field such as `_role` is named `role`.
    """
    kind = type(value)
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type):
        return None
    if isinstance(value, BaseModel) or (hasattr(kind, "__fields__") and hasattr(kind, "__fields_set__")):
        return {**vars(value), **(getattr(value, "__pydantic_extra__", None) or {})}
    if is_dataclass(value):
        names: Iterable[str] = (field.name for field in fields(value))
    elif isinstance(value, tuple) and hasattr(kind, "_fields"):
        names = kind._fields
    elif hasattr(kind, "__attrs_attrs__"):
        names = (field.name for field in kind.__attrs_attrs__)
    else:
        return None
    return {name.lstrip("_"): getattr(value, name, None) for name in names}


class _PlainReader:
    """Reads one value, within the bounds."""

    def __init__(self, left_out: LeftOut) -> None:
        self._left_out = left_out
        self._values = VALUES_MAX

    def read(self, value: Any, name: str, depth: int) -> Any:
        self._values -= 1
        if depth > DEPTH_MAX:
            raise _BoundError(f"has more than {DEPTH_MAX} levels, or contains itself")
        plain = plain_scalar(value)
        if plain is None or isinstance(plain, (str, int, float)):
            return plain
        if type(plain) is list:
            return self._list(plain, name, depth)
        if (fields := fields_of(plain)) is not None:
            return self._mapping(fields, name, depth)
        if isinstance(plain, AbstractSet) and not isinstance(plain, _LISTS):
            return sorted(self._list(plain, name, depth), key=lambda item: (type(item).__name__, str(item)))
        if isinstance(plain, _LISTS):
            return self._list(plain, name, depth)
        if type(plain).__module__.partition(".")[0] in _ARRAYS and hasattr(plain, "tolist"):
            self._check(plain.size)
            times = getattr(getattr(plain, "dtype", None), "kind", "") in ("m", "M")
            return self.read(list(plain) if times else plain.tolist(), name, depth)
        raise UnfitError(unfit(plain) if depth == 0 else "is an object")  # nobody reads the message of an inner one

    def _check(self, size: int) -> None:
        if size > self._values:
            raise _BoundError(f"has more than {VALUES_MAX:,} values")

    def _mapping(self, named: Mapping[Any, Any], name: str, depth: int) -> dict[str, Any]:
        self._check(len(named))
        plain: dict[str, Any] = {}
        for key, item in named.items():
            inner = name_of(name, key)
            try:
                plain[key_text(key)] = self.read(item, inner, depth + 1)
            except _BoundError:
                raise
            except UnfitError:
                count_left_out(self._left_out, inner)
        return plain

    def _list(self, items: Any, name: str, depth: int) -> list[Any]:
        self._check(len(items))
        plain: list[Any] = []
        for item in items:
            try:
                plain.append(self.read(item, name, depth + 1))
            except _BoundError:
                raise
            except UnfitError:
                plain.append(None)
                count_left_out(self._left_out, name)
        return plain
