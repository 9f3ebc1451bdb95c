"""The entries of a stream: ids and their order, payloads, and entries that cannot be read.

Pure code needs them, so this module imports no client.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from ragtide_schemas import InvalidEntryError, Reason
from ragtide_schemas.base import WireModel

from .keys import DATA_FIELD

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


FASTSTREAM_FIELD = b"__data__"
"""The field in which FastStream's own publisher puts its envelope."""


def payload_of(fields: Mapping[bytes, bytes], what: str = "interaction") -> bytes:
    """Return the JSON in an entry: its field `data`, or the body of FastStream's envelope.

    Args:
        what: the name of the expected model, for the message.

    Raises:
        InvalidEntryError: the entry has neither field.
    """
    data = fields.get(DATA_FIELD)
    if data is not None:
        return data
    envelope = fields.get(FASTSTREAM_FIELD)
    if envelope is not None:
        from faststream.redis.parser import BinaryMessageFormatV1  # noqa: PLC0415 - not in the core install

        return BinaryMessageFormatV1.parse(envelope)[0]
    names = ", ".join(sorted(name.decode(errors="replace")[:40] for name in fields)) or "none"
    raise InvalidEntryError(
        Reason.MISSING_DATA_FIELD,
        f"the entry has no field data (its fields: {names}): put the JSON of one {what} into data",
    )


def raw_of(fields: Mapping[bytes, bytes]) -> bytes:
    """Return the content of an entry for a dead letter: its payload, or all its fields if it has no payload."""
    try:
        return payload_of(fields)
    except InvalidEntryError:
        return b"\n".join(name + b"=" + value for name, value in fields.items())


M = TypeVar("M", bound=WireModel)


class Unreadable:
    """The entries that a reader skipped because they are malformed or of an unknown schema version.

    A malformed entry must not end a reader: the entry stays until it is trimmed, so each new reader would meet it.

    Args:
        what: the name of the expected model, for the message, such as `alert`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self.count = 0
        """Number of entries that were skipped."""
        self._first = ""
        self._reported = 0

    def decode(self, model: type[M], stream: str, entry: Entry) -> M | None:
        """Return the model in an entry of a stream; count the entry and return None if it is unreadable."""
        try:
            return model.decode(payload_of(entry.fields, self._what))
        except InvalidEntryError as error:
            self.add(f"{entry.entry_id} of {stream}", error)
            return None

    def add(self, place: str, error: Exception) -> None:
        """Count an entry that cannot be read."""
        self.count += 1
        self._first = self._first or f"{place}: {error}"

    def warning(self) -> str | None:
        """Return a sentence for the user; None if every entry could be read."""
        if not self.count:
            return None
        entries = f"1 {self._what} cannot" if self.count == 1 else f"{self.count:,} {self._what}s cannot"
        return f"{entries} be read and {'is' if self.count == 1 else 'are'} skipped; the first is {self._first}"

    def due_warning(self) -> str | None:
        """Return the warning after the first unreadable entry, and each time their number has doubled; otherwise None.

        So a reader that runs for months logs only a few lines about a flood of such entries.
        """
        if self.count < max(2 * self._reported, 1):
            return None
        self._reported = self.count
        return self.warning()
