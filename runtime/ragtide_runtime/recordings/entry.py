"""One entry of a recording."""

from typing import NamedTuple

from ragtide_schemas.base import VersionedModel

from ..redis.log import order


class RecordedEntry(NamedTuple):
    """One entry of a stream: partition, id, and the model, equal to the published one."""

    partition: int
    entry_id: str
    model: VersionedModel

    @property
    def order(self) -> tuple[int, int]:
        """The sort key of the entries of one partition."""
        return order(self.entry_id)
