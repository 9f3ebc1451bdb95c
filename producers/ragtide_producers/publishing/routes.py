"""Routes: the command and the destination of interactions, and of feedback, for the background thread. No I/O."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, ClassVar, Final, Protocol

from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.telemetry.tracing import trace_publishing
from ragtide_schemas import Dropped, Feedback, RagInteraction
from ragtide_schemas.interaction import with_last_turns

from .batch_publisher import BATCH
from .outbox import Item, QueuedItem
from .publish_command import PROBE_S, PublishCommand, Routing, feedback_command
from .sampling import Sampling

ITEM_BYTES: Final = 1000
"""Estimated bytes of an item besides its texts."""


class Route(Protocol):
    """The command and the destination of one kind of item."""

    @property
    def kind(self) -> str:
        """Plural noun for messages."""

    @property
    def item_type(self) -> type:
        """Class of the items."""

    @property
    def layout(self) -> Layout:
        """Layout of the deployment."""

    @property
    def remembered_s(self) -> float:
        """Seconds for which Redis knows the id of an item."""

    def read(self, fields: Mapping[str, Any]) -> Item:
        """Return the item with these fields; raises pydantic's ValidationError."""

    def sampled(self, item: Any) -> Item | None:
        """Return the item as it is sent; None if it is not in the sample of the traffic."""

    def queued(self, item: Any) -> QueuedItem:
        """Return an item for the queue."""

    def command(self, queued: QueuedItem) -> PublishCommand:
        """Return the command that publishes an item; raises InvalidEntryError if it is too large."""

    def counted_as(self, why: Dropped) -> Dropped:
        """Return the field of the hash `dropped` under which a dropped item is counted."""


@dataclass(frozen=True, slots=True)
class InteractionRoute:
    """The route of interactions."""

    routing: Routing
    sampling: Sampling
    kind: ClassVar[str] = "interactions"
    item_type: ClassVar[type] = RagInteraction

    @property
    def layout(self) -> Layout:
        """Where pipelines live."""
        return self.routing.layout

    @property
    def remembered_s(self) -> float:
        """Seconds for which Redis knows an interaction's id."""
        return self.routing.dedupe_window_s

    def read(self, fields: Mapping[str, Any]) -> RagInteraction:
        """Return the interaction with these fields; of a long history it has the last turns."""
        return RagInteraction.model_validate(with_last_turns(fields))

    def sampled(self, item: RagInteraction) -> RagInteraction | None:
        """Return an interaction with its probability; None if it is not in the sample."""
        return self.sampling.sampled(item)

    def queued(self, item: RagInteraction) -> QueuedItem:
        """Return an interaction for the queue, with the trace context of its caller."""
        partition = self.layout.of(item.pipeline, item.interaction_id).partition
        return QueuedItem(item, partition, _size(item), trace_publishing(item))

    def command(self, queued: QueuedItem) -> PublishCommand:
        """Return the command that publishes an interaction."""
        # `queued` takes nothing else.
        return self.routing.command(queued.item, queued.traceparent)  # type: ignore[arg-type]

    def counted_as(self, why: Dropped) -> Dropped:
        """Return the reason itself."""
        return why


@dataclass(frozen=True, slots=True)
class FeedbackRoute:
    """The route of feedback, which is published in the partition of its interaction."""

    layout: Layout
    kind: ClassVar[str] = "feedback items"
    item_type: ClassVar[type] = Feedback
    remembered_s: ClassVar[float] = PROBE_S

    def read(self, fields: Mapping[str, Any]) -> Feedback:
        """Return the feedback with these fields."""
        return Feedback.model_validate(fields)

    def sampled(self, item: Feedback) -> Feedback:
        """Return the item: the producer cannot know whether another producer sent the interaction."""
        return item

    def queued(self, item: Feedback) -> QueuedItem:
        """Return a feedback item for the queue."""
        return QueuedItem(item, self.layout.of(item.pipeline, item.interaction_id).partition, ITEM_BYTES)

    def command(self, queued: QueuedItem) -> PublishCommand:
        """Return the command that publishes a feedback item."""
        return feedback_command(self.layout, queued.item)  # type: ignore[arg-type]  # `queued` takes nothing else

    def counted_as(self, why: Dropped) -> Dropped:
        """Return `feedback`, because other counts are of interactions."""
        del why
        return Dropped.FEEDBACK


def _size(interaction: RagInteraction) -> int:
    texts = len(interaction.question) + len(interaction.response) + len(interaction.reference_answer or "")
    texts += sum(len(turn.question) + len(turn.response) for turn in interaction.history or ())
    return ITEM_BYTES + texts + sum(len(document.text) for document in interaction.documents)


def batches(layout: Layout, feedback: Iterable[Feedback]) -> Iterator[tuple[str, list[dict[Any, Any]]]]:
    """Yield batches of feedback entries, each for one partition and so for one hash slot."""
    iterator = iter(feedback)
    while taken := list(islice(iterator, BATCH)):
        placed = sorted(
            ((layout.of(one.pipeline, one.interaction_id), one) for one in taken), key=lambda pair: pair[0].partition
        )
        for streams, batch in groupby(placed, key=lambda pair: pair[0]):
            yield streams.feedback, [{DATA_FIELD: one.encode()} for _, one in batch]
