"""One entry of a recording."""

from typing import NamedTuple

from ragtide_schemas.base import VersionedModel

from ..redis.log import order


class RecordedEntry(NamedTuple):
    """What was on a stream: partition, id, and the model, equal to what was published."""

    partition: int
    entry_id: str
    model: VersionedModel

    @property
    def order(self) -> tuple[int, int]:
        """What entries of one partition are ordered by."""
        return order(self.entry_id)
