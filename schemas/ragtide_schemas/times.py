"""Times on the wire: with a time zone, in UTC, from 1970 to 2200."""

import re
from datetime import UTC, datetime
from typing import Final

_ZERO_TIME: Final = re.compile(
    r"0001-01-01[Tt ]00:00:00(\.0{1,9})?([Zz]|[+-]\d\d:?\d\d)?"
    # The same moment in another time zone.
    r"|(0001-01-01|0000-12-31)[Tt ]\d\d:\d\d:\d\d(\.0{1,9})?[+-]\d\d:?\d\d"
)
_ZERO_TIME_CHARS: Final = 40


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def to_utc(time: datetime) -> datetime:
    """Return the same instant in UTC."""
    return time.astimezone(UTC)


def is_zero_time(value: object) -> bool:
    """Return whether a value is the first moment of year 1, which Go, .NET and others write for an unset time.

    >>> is_zero_time("0001-01-01T00:00:00Z"), is_zero_time("2026-11-21T00:00:00Z")
    (True, False)
    """
    if isinstance(value, datetime):
        return value.replace(tzinfo=None) == datetime.min  # noqa: DTZ901 - the zone does not matter
    # Most times do not begin so, and need no search.
    return (
        isinstance(value, str)
        and value.startswith("000")
        and len(value) <= _ZERO_TIME_CHARS
        and _ZERO_TIME.fullmatch(value) is not None
    )


def from_milliseconds(milliseconds: int) -> datetime:
    """Return the UTC time of a number of milliseconds since 1970, such as the first half of a stream entry's id."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


def to_milliseconds(time: datetime) -> int:
    """Return the whole milliseconds since 1970 of an aware time."""
    return int(time.timestamp() * 1000)
