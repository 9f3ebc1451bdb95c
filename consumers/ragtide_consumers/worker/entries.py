"""Stream entries as the workers take them: id, payload, deliveries. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

from ragtide_runtime.redis.payloads import payload_of, raw_of


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """A single delivery of an entry."""

    entry_id: str
    fields: Mapping[bytes, bytes]
    deliveries: int = 1
    """How often the entry has been delivered, this time included."""
    pending: bool = True
    """Whether it is still to be acknowledged; from 7.0 on Redis acknowledges a deleted entry when it is claimed."""

    def payload(self) -> bytes:
        """Return the JSON in the entry.

        Raises:
            InvalidEntryError: the entry has none.
        """
        return payload_of(self.fields)

    def raw(self) -> bytes:
        """Return the content of the entry, for a dead letter."""
        return raw_of(self.fields)
