"""The range of time that a screen shows, from its address."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

RANGES: Final = {
    "1h": timedelta(hours=1),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "60d": timedelta(days=60),
}
"""Ranges with a button."""
DEFAULT: Final = "24h"
LEAST: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The shown range."""

    start: datetime
    end: datetime
    name: str
    """A name of `RANGES`; empty for a range that a user chose."""


def time_span(name: str, start: str, end: str, now: datetime) -> TimeSpan:
    """Return the range in an address; of anything that is no range the default.

    Args:
        name: of `RANGES`.
        start: in ISO 8601; empty for the range of the name.
        end: the same.
        now: end of the range of a name.
    """
    first, last = _time(start), _time(end)
    if first is not None and last is not None and last - first >= LEAST:
        return TimeSpan(first, last, "")
    found = name if name in RANGES else DEFAULT
    return TimeSpan(now - RANGES[found], now, found)


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text[:40])
    except ValueError:
        return None
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
    try:
        return found.astimezone(UTC)
    except OverflowError:
        return None
