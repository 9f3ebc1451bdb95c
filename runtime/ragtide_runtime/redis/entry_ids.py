"""The entries of a stream and the order of their ids. Pure code needs them, so this module imports no client."""

from typing import Final, NamedTuple

START: Final = "0-0"
"""Position before the first entry."""


class Entry(NamedTuple):
    """One entry of a stream."""

    entry_id: str
    fields: dict[bytes, bytes]


def order(entry_id: str) -> tuple[int, int]:
    """Return the sort key of an entry id: milliseconds, then the number within that millisecond."""
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number or 0)
