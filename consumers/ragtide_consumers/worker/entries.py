"""A delivery of a stream entry to a worker: id, payload and number of deliveries. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

from ragtide_runtime.redis.entries import payload_of, raw_of


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One delivery of an entry."""

    entry_id: str
    fields: Mapping[bytes, bytes]
    deliveries: int = 1
    """Number of deliveries of the entry, including this delivery."""
    pending: bool = True
    """Whether the entry must still be acknowledged; since 7.0 Redis acknowledges a deleted entry when it is claimed."""
    awaiting: bool = False
    """Whether it waited for the labeler of a sample, and is held by the consumer of those that wait."""

    def payload(self) -> bytes:
        """Return the JSON in the entry.

        Raises:
            InvalidEntryError: the entry has no JSON.
        """
        return payload_of(self.fields)

    def raw(self) -> bytes:
        """Return the content of the entry, for a dead letter."""
        return raw_of(self.fields)
