"""Stream entries as the workers take them: id, payload, deliveries. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

from faststream.redis.parser import BinaryMessageFormatV1

from ragtide_schemas import DATA_FIELD, InvalidEntryError, Reason

FASTSTREAM_FIELD = b"__data__"
"""The field in which FastStream's own publisher puts its envelope."""


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One delivery of one entry."""

    entry_id: str
    fields: Mapping[bytes, bytes]
    deliveries: int = 1
    """How often the entry has been delivered, this time included."""

    def payload(self) -> bytes:
        """Return the JSON in the entry: its field `data`, or the body of FastStream's envelope.

        Raises:
            InvalidEntryError: the entry has neither.
        """
        data = self.fields.get(DATA_FIELD)
        if data is not None:
            return data
        envelope = self.fields.get(FASTSTREAM_FIELD)
        if envelope is not None:
            return BinaryMessageFormatV1.parse(envelope)[0]
        names = ", ".join(sorted(name.decode(errors="replace")[:40] for name in self.fields)) or "none"
        raise InvalidEntryError(
            Reason.MISSING_DATA_FIELD,
            f"the entry has no field data (its fields: {names}): put the JSON of one interaction into data",
        )

    def raw(self) -> bytes:
        """Return what the entry held, for a dead letter: its payload, or all its fields if it has none."""
        try:
            return self.payload()
        except InvalidEntryError:
            return b"\n".join(name + b"=" + value for name, value in self.fields.items())
