"""Skips, counts and reports the entries that a reader cannot read, because any client may write to a stream."""

from typing import TypeVar

from ragtide_schemas import InvalidEntryError
from ragtide_schemas.base import WireModel

from .entry_ids import Entry
from .payloads import payload_of

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
