"""Readers of fields whose values are not valid as they are: own texts, ids, segments, numbers and metadata.

Each is a `Reader` of `base`: it has the value, its name, and the counts of what is left out.
"""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

from pydantic_core import from_json, to_json

from .limits import METADATA_MAX_BYTES, NAME_MAX_CHARS
from .plain_values import (
    LeftOut,
    UnfitError,
    count_left_out,
    fields_of,
    key_text,
    name_of,
    plain_scalar,
    plain_text,
    plain_value,
    unfit,
    whole,
)
from .printable import NAME_PATTERN, STEERING

_NAME: Final = re.compile(NAME_PATTERN)
_STEERING: Final = re.compile(f"[{STEERING}]")
NAMED_MAX: Final = METADATA_MAX_BYTES // 6
"""Most values of metadata that are read: the shortest one takes 6 bytes of JSON."""
_BEGINNING: Final = NAME_MAX_CHARS - 40
"""Characters of an id that is no name, before its digest."""


def sentences(value: Any, name: str, left_out: LeftOut) -> Any:
    """Return sentences as texts.

    Raises:
        UnfitError: the value is no list of texts.
    """
    del name, left_out
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise UnfitError("is no list of texts")
    return [whole(text) for text in value]


def own_text(value: Any, name: str, left_out: LeftOut) -> Any:
    """Return the text of a value; a list or a mapping as it is.

    Raises:
        UnfitError: it is an object without a plain text.
    """
    del name, left_out
    if isinstance(value, Mapping | list | tuple) or value is None:
        return value
    text = plain_text(value)
    if text is None:
        raise UnfitError(unfit(value))
    return text


def scalar(value: Any, name: str, left_out: LeftOut) -> Any:
    """Return a number of any kind as a number of JSON, and seconds of a time span; another value as it is.

    Raises:
        UnfitError: it is no finite number.
    """
    del name, left_out
    if isinstance(value, timedelta):
        return value.total_seconds()
    try:
        return float(value) if isinstance(value, Decimal | Fraction) else plain_scalar(value)
    except (OverflowError, ValueError) as error:
        raise UnfitError(str(error)) from None


def id_text(value: Any, name: str, left_out: LeftOut) -> Any:
    """Return the text of an id; of one that is no name its beginning with a digest of all of it.

    The same id gives the same text, and another id another one.

    >>> id_text(4711.0, "user_id", LeftOut()), id_text("a" * 300, "user_id", LeftOut())[-34:]
    ('4711', 'a-ccc6f168e83a9fcfde99f7d9ddeeae49')

    Raises:
        UnfitError: the value is no id.
    """
    del name, left_out
    if isinstance(value, bool):
        raise UnfitError("is a truth value, and no id")
    if isinstance(value, bytes | bytearray):
        text = bytes(value).decode("utf-8", "backslashreplace")
    elif isinstance(value, str) and not isinstance(value, Enum):
        text = str.__str__(value)
    elif isinstance(value, Mapping | list):  # such as that of a document store
        text = to_json(plain_value(value, "", LeftOut())).decode()
    elif (plain := plain_text(value)) is not None:
        text = plain
    else:
        raise UnfitError(unfit(value))
    if is_name(text):
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{_STEERING.sub('', whole(text[:_BEGINNING])).strip()}-{digest}"


def is_name(text: str) -> bool:
    """Return whether a text may be a name: not blank, at most 200 characters, without control characters."""
    fits = 0 < len(text) <= NAME_MAX_CHARS and _NAME.fullmatch(text) is not None and bool(text.strip())
    return fits and whole(text) is text


def name_text(value: Any, name: str, left_out: LeftOut) -> Any:
    """Return the text of a label, such as the value of a segment, with one space for white space.

    Raises:
        UnfitError: the value has no text that may be a name.
    """
    del name, left_out
    text = plain_text(value)
    if text is None:
        raise UnfitError(unfit(value))
    text = " ".join(text.split())
    if not is_name(text):
        raise UnfitError(f"is no name of 1 to {NAME_MAX_CHARS} characters without control characters")
    return text


def named_values(read: Callable[[Any, str, LeftOut], Any], most: int) -> Callable[[Any, str, LeftOut], Any]:
    """Return the reader of values by name, of which each is read alone, and at most so many are kept.

    Args:
        read: reader of one value.
        most: values that are kept, the first ones.
    """

    def reader(value: Any, name: str, left_out: LeftOut) -> Any:
        kept: dict[str, Any] = {}
        for key, item in _object(value).items():
            inner = name_of(name, key)
            try:
                text, read_item = name_text(key, inner, left_out), read(item, inner, left_out)
            except UnfitError:
                count_left_out(left_out, inner)
                continue
            if len(kept) < most:
                kept[text] = read_item
            else:
                count_left_out(left_out, inner)
        return kept

    return reader


def metadata_values(value: Any, name: str, left_out: LeftOut, room: int = METADATA_MAX_BYTES) -> Any:
    """Return metadata as JSON values; of more bytes than there is room for, 64 KiB, without the largest values.

    Raises:
        UnfitError: the value has no fields.
    """
    kept: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    fields = _object(value)
    if len(fields) > NAMED_MAX:
        count_left_out(left_out, name, len(fields) - NAMED_MAX)
    for key, item in islice(fields.items(), NAMED_MAX):
        inner = name_of(name, key)
        try:
            text = key_text(key)
            kept[text] = plain_value(item, inner, left_out, depth=1)
            sizes[text] = len(to_json({text: kept[text]}))
        except UnfitError:
            count_left_out(left_out, inner)
    room -= 2
    for key, size in sorted(sizes.items(), key=lambda entry: entry[1]):
        room -= size
        if room < 0:
            del kept[key]
            count_left_out(left_out, f"{name}.{key}")
    return kept


def named_fields(value: Any, name: str, left_out: LeftOut) -> Any:
    """Return the fields of a value that has fields, or is the JSON text of an object.

    Raises:
        UnfitError: the value has none.
    """
    del name, left_out
    return _object(value)


def _object(value: Any) -> Mapping[Any, Any]:
    fields = fields_of(value)
    if fields is None and isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            fields = from_json(value)
        except ValueError:
            raise UnfitError("is a text that is no JSON object") from None
    if not isinstance(fields, Mapping):
        raise UnfitError(unfit(value) if not isinstance(value, str) else "is a text, and no object")
    return fields
