"""The recorded entries of a stream, their four kinds, and the error of a recording that cannot be read."""

from enum import StrEnum
from typing import NamedTuple

from ragtide_schemas import Alert, Feedback, MetricEvent, RagInteraction
from ragtide_schemas.base import VersionedModel

from ..errors import RagtideError
from ..redis.entries import order
from ..redis.keys import Streams


class UnreadableRecordingError(RagtideError):
    """A recording is missing, damaged, or of a newer release."""


class EntryKind(StrEnum):
    """The kind of a recorded entry, named by its stream."""

    INTERACTIONS = "interactions"
    METRICS = "metrics"
    FEEDBACK = "feedback"
    ALERTS = "alerts"

    @property
    def model(self) -> type[VersionedModel]:
        """The model in each entry."""
        return _MODELS[self]

    @property
    def time_field(self) -> str:
        """The field of the model's own time: of the response, of the feedback, or of the firing alert."""
        return {EntryKind.FEEDBACK: "given_at", EntryKind.ALERTS: "fired_at"}.get(self, "occurred_at")

    def stream(self, streams: Streams) -> str:
        """Return the key of the stream in a partition."""
        key: str = getattr(streams, self.value)
        return key

    def decode(self, entry_id: str, payload: bytes) -> VersionedModel:
        """Return the model in an entry, whichever client wrote it.

        Raises:
            InvalidEntryError: the payload is no valid model of this kind.
        """
        if self is EntryKind.INTERACTIONS:
            return RagInteraction.from_entry(entry_id, payload)
        return self.model.decode(payload)


_MODELS: dict[EntryKind, type[VersionedModel]] = {
    EntryKind.INTERACTIONS: RagInteraction,
    EntryKind.METRICS: MetricEvent,
    EntryKind.FEEDBACK: Feedback,
    EntryKind.ALERTS: Alert,
}


class RecordedEntry(NamedTuple):
    """One recorded entry of a stream; its model equals the published model."""

    partition: int
    entry_id: str
    model: VersionedModel

    @property
    def order(self) -> tuple[int, int]:
        """The sort key of the entries of one partition."""
        return order(self.entry_id)
