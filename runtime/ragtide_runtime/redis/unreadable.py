"""Entries that a reader cannot read: skipped, counted, and reported. Any client may write to a stream."""

from typing import TypeVar

from ragtide_schemas import InvalidEntryError
from ragtide_schemas.base import WireModel

from .log import Entry
from .payloads import payload_of

M = TypeVar("M", bound=WireModel)


class Unreadable:
    """The entries that a reader skipped because they are malformed, or of a schema version that is not known here.

    One malformed entry must not end a reader: the entry stays until it is trimmed, so each new reader would meet it.

    Args:
        what: the entries should hold, for the message, such as `alert`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self.count = 0
        """Number of entries that were skipped."""
        self._first = ""
        self._told = 0

    def decode(self, model: type[M], stream: str, entry: Entry) -> M | None:
        """Return the model that an entry of a stream holds; None if it holds none, which is counted."""
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
        """Return the sentence for the user; None if every entry could be read."""
        if not self.count:
            return None
        entries = f"1 {self._what} cannot" if self.count == 1 else f"{self.count:,} {self._what}s cannot"
        return f"{entries} be read and {'is' if self.count == 1 else 'are'} skipped; the first is {self._first}"

    def news(self) -> str | None:
        """Return the warning if it is due again: after the first such entry, and each time their number has doubled.

        A reader that runs for months warns of a flood of such entries with a handful of lines.
        """
        if self.count < max(2 * self._told, 1):
            return None
        self._told = self.count
        return self.warning()
