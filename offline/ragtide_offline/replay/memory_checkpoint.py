"""The checkpoint of a partition in memory: a replay that needs no Redis writes its steps here."""

from ragtide_aggregator.service.checkpoint import Checkpoint, checkpoint_of_fields
from ragtide_aggregator.service.commit import CHECKPOINT_VERSION, Step
from ragtide_aggregator.state.state import StateOptions
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import Alert


class MemoryCheckpoint:
    """The fields that a committed step would leave in Redis, and the alerts.

    Args:
        streams: keys of the partition, for error messages.
        options: of the state.
    """

    def __init__(self, streams: Streams, options: StateOptions) -> None:
        self._streams = streams
        self._options = options
        self._fields: dict[str, bytes] = {}
        self.alerts: dict[str, Alert] = {}
        """Alerts by id, each in its latest state, in the order in which they fired."""

    def load(self) -> Checkpoint:
        """Return the checkpoint; an empty state at the start of the stream before the first step."""
        return checkpoint_of_fields(self._streams, self._options, dict(self._fields))

    async def write(self, step: Step) -> None:
        """Write a step."""
        self._fields.update(step.rows)
        for name in step.gone:
            self._fields.pop(name, None)
        self._fields[CheckpointField.VERSION] = CHECKPOINT_VERSION
        self._fields[CheckpointField.POSITION] = step.position.encode()
        self._fields[CheckpointField.FEEDBACK_POSITION] = step.feedback_position.encode()
        self._fields[CheckpointField.STEPS] = b"%d" % (step.before + 1)
        self.alerts.update((alert.alert_id, alert) for alert in step.alerts)
