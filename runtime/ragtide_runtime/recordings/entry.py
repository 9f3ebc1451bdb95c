"""One entry of a recording."""

from typing import NamedTuple

from ragtide_schemas.base import VersionedModel

from ..redis.entry_ids import order


class RecordedEntry(NamedTuple):
    """One recorded entry of a stream; its model equals the published model."""

    partition: int
    entry_id: str
    model: VersionedModel

    @property
    def order(self) -> tuple[int, int]:
        """The sort key of the entries of one partition."""
        return order(self.entry_id)
