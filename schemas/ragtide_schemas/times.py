"""Times on the wire: aware, in UTC."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def to_utc(time: datetime) -> datetime:
    """Return the same instant in UTC."""
    return time.astimezone(UTC)


def from_milliseconds(milliseconds: int) -> datetime:
    """Return the UTC time of a number of milliseconds since 1970, such as the first half of a stream entry's id."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


def to_milliseconds(time: datetime) -> int:
    """Return the whole milliseconds since 1970 of an aware time."""
    return int(time.timestamp() * 1000)
