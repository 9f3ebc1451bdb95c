"""Items as they come in at a door: their times are checked against the clock, which the schema does not know."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from .base import WireModel
from .errors import InvalidEntryError, Reason
from .times import check_time, time_in

TIMES: Final = ("occurred_at", "given_at")
"""Fields with the time of an item."""

_Model = TypeVar("_Model", bound=WireModel)


def sent(read: Callable[[dict[str, Any]], _Model], fields: Mapping[str, Any], now: datetime) -> _Model:
    """Return the item with the fields that a sender gave, whose time is from 2000 to tomorrow.

    A number is a time since 1970 in the only unit in which it is such a time. What is stored already is read by
    `decode` or `from_fields`, which take every time from 1970 to 2200.

    Args:
        read: returns the item with fields, such as `RagInteraction.from_fields`.
        now: the present, with a time zone.

    Raises:
        InvalidEntryError: a field is invalid, or the time is none that the item may have.
    """
    name = next((name for name in TIMES if name in fields), None)
    if name is None:
        return read(dict(fields))
    try:
        time, _ = time_in(fields[name], now)
        item = read({**fields, name: time})
        if name in item.model_fields_set:
            check_time(getattr(item, name), now)
    except (InvalidEntryError, ValidationError):
        raise
    except ValueError as error:
        raise InvalidEntryError(Reason.INVALID, f"{name} {error}") from None
    return item
