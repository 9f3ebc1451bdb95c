"""Times on the wire: with a time zone, in UTC, from 1970 to 2200. At a door they are also from 2000 to tomorrow.

Stored times follow the wider rule alone, so that what was stored once stays readable.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_ZERO_TIME: Final = re.compile(
    r"0001-01-01[Tt ]00:00:00(\.0{1,9})?([Zz]|[+-]\d\d:?\d\d)?"
    # The same moment in another time zone.
    r"|(0001-01-01|0000-12-31)[Tt ]\d\d:\d\d:\d\d(\.0{1,9})?[+-]\d\d:?\d\d"
)
_ZERO_TIME_CHARS: Final = 40

EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""No application answered earlier: an earlier time is of a clock that was not set, or in another unit."""

AHEAD: Final = timedelta(days=1)
"""Time that the clock of a sender may be ahead, such as by a time zone."""

PER_SECOND: Final[Mapping[str, int]] = {
    "seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9,
}  # fmt: skip
"""Units of times since 1970. A number is a time from 2000 to tomorrow in one of them at most."""

_OTHER_NUMBERS: Final = (
    (1900, 2200, "a year"),
    (20_000, 80_000, "a date as Excel counts it"),
    (2_440_000, 2_500_000, "a Julian day"),
    (19_000_101, 22_001_231, "a date"),
    (19_000_101_000_000, 22_001_231_235_959, "a date and a time of day"),
)
_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,25}(?:\.[0-9]{0,25})?(?:[eE][+-]?[0-9]{1,3})?")
_SHOWN_BELOW: Final = 10**25
_TIME_REMEDY: Final = "write it like 2026-05-01T12:00:00Z, or leave it out"


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def to_utc(time: datetime) -> datetime:
    """Return the same instant in UTC."""
    return time if time.tzinfo is UTC else time.astimezone(UTC)


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


def is_plausible(time: datetime, now: datetime) -> bool:
    """Return whether something may have happened at a time: from 2000 to a day after now.

    Args:
        now: the present, with a time zone.
    """
    return EARLIEST <= time <= now + AHEAD


def unit_since_1970(number: float, now: datetime) -> str | None:
    """Return the one unit of `PER_SECOND` in which a number since 1970 is a plausible time; None if none is.

    >>> unit_since_1970(1_714_564_800_000, datetime(2026, 1, 1, tzinfo=UTC))
    'milliseconds'

    Args:
        now: the present, with a time zone.
    """
    first, last = EARLIEST.timestamp(), (now + AHEAD).timestamp()
    return next((unit for unit, factor in PER_SECOND.items() if first * factor <= number <= last * factor), None)


def time_in(value: object, now: datetime) -> tuple[object, str | None]:
    """Return the time that a number or a text of digits is, and its unit; another value unchanged, without a unit.

    >>> time_in("1714564800000", datetime(2026, 1, 1, tzinfo=UTC))
    (datetime.datetime(2024, 5, 1, 12, 0, tzinfo=datetime.timezone.utc), 'milliseconds')

    Args:
        now: the present, with a time zone.

    Raises:
        ValueError: the number is no plausible time in any unit, or the time is not plausible; the message is the end of
            a sentence about the field, with the remedy.
    """
    if isinstance(value, datetime):
        if value.tzinfo is not None and not is_zero_time(value):
            check_time(value, now)
        return value, None
    if isinstance(value, str) and _DIGITS.fullmatch(text := value.strip()):
        number: object = float(text) if any(mark in text for mark in ".eE") else int(text)
    else:
        number = value
    if isinstance(number, bool) or not isinstance(number, int | float):
        return value, None
    unit = unit_since_1970(number, now)
    if unit is None:
        known = next((name for low, high, name in _OTHER_NUMBERS if low <= number <= high), None)
        looks = "" if known is None else f", which may be {known}"
        wrong = f"the number {value}" if abs(number) < _SHOWN_BELOW else "a number"
        raise ValueError(f"is {wrong}{looks}, and no time since 1970 from 2000 to now in any unit: {_TIME_REMEDY}")
    whole, rest = divmod(number, PER_SECOND[unit])
    return datetime.fromtimestamp(whole, UTC) + timedelta(seconds=rest / PER_SECOND[unit]), unit


def check_time(time: datetime, now: datetime) -> None:
    """Check that something may have happened at a time.

    Args:
        now: the present, with a time zone.

    Raises:
        ValueError: it is not plausible; the message is the end of a sentence about the field, with the remedy.
    """
    if not is_plausible(time, now):
        when = "before 2000" if time < EARLIEST else "more than a day from now"
        raise ValueError(f"is {time.isoformat()}, {when}: correct the clock or the unit, or leave it out")


@lru_cache(maxsize=1024)
def from_milliseconds(milliseconds: int) -> datetime:
    """Return the UTC time of a number of milliseconds since 1970, such as the first half of a stream entry's id."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


def to_milliseconds(time: datetime) -> int:
    """Return the whole milliseconds since 1970 of an aware time."""
    return int(time.timestamp() * 1000)
