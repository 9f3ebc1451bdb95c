"""How the background thread sends interactions, and how it sends feedback: where to, by which script. No I/O."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby, islice
from typing import Any, ClassVar, Final, Protocol

from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.telemetry.tracing import trace_publishing
from ragtide_schemas import Dropped, Feedback, InvalidEntryError, RagInteraction, Reason
from ragtide_schemas.limits import ENTRY_MAX_BYTES

from .course import BATCH
from .outbox import Held, Item
from .publication import PUBLISH_SCRIPT, Addressing, Call

ITEM_BYTES: Final = 1000
"""Bytes that an item is estimated to hold besides its texts."""

MARK_S: Final = 600.0
"""Seconds for which Redis keeps the mark of a feedback."""

FEEDBACK_SCRIPT: Final = """
-- KEYS: feedback stream, mark of this feedback.
-- ARGV: payload, milliseconds for which the mark is kept.
-- Returns {entry id, 1 if it was added now}.
local entry = redis.call('GET', KEYS[2])
if entry then
    return {entry, 0}
end
entry = redis.call('XADD', KEYS[1], '*', 'data', ARGV[1])
redis.call('SET', KEYS[2], entry, 'PX', ARGV[2])
return {entry, 1}
"""
"""Adds a feedback and its mark in one step, so that Redis loses the mark if it loses the entry.

The entry itself cannot be the mark: it is trimmed as soon as the aggregator has it.
"""


class Route(Protocol):
    """How one kind of item is sent."""

    @property
    def kind(self) -> str:
        """Plural noun for messages."""

    @property
    def item_type(self) -> type:
        """Class of the items."""

    @property
    def layout(self) -> Layout:
        """Where pipelines live."""

    @property
    def script(self) -> str:
        """Adds an item to its stream once, and returns a `Reply`."""

    @property
    def remembered_s(self) -> float:
        """Seconds for which Redis knows that it has an item."""

    def read(self, fields: Mapping[str, Any]) -> Item:
        """Return the item with these fields; raises pydantic's ValidationError."""

    def held(self, item: Any) -> Held:
        """Return an item as the queue holds it."""

    def call(self, held: Held) -> Call:
        """Return the script's call for an item; raises InvalidEntryError if it is too large."""

    def counted_as(self, why: Dropped) -> Dropped:
        """Return the field of the hash `dropped` under which a dropped item is counted."""


@dataclass(frozen=True, slots=True)
class InteractionRoute:
    """How interactions are sent."""

    addressing: Addressing
    kind: ClassVar[str] = "interactions"
    item_type: ClassVar[type] = RagInteraction
    script: ClassVar[str] = PUBLISH_SCRIPT

    @property
    def layout(self) -> Layout:
        """Where pipelines live."""
        return self.addressing.layout

    @property
    def remembered_s(self) -> float:
        """Seconds for which Redis knows an interaction's id."""
        return self.addressing.dedupe_window_s

    def read(self, fields: Mapping[str, Any]) -> RagInteraction:
        """Return the interaction with these fields."""
        return RagInteraction.model_validate(fields)

    def held(self, item: RagInteraction) -> Held:
        """Return an interaction as the queue holds it, with the trace context of its caller."""
        partition = self.layout.of(item.pipeline, item.interaction_id).partition
        return Held(item, partition, _size(item), trace_publishing(item))

    def call(self, held: Held) -> Call:
        """Return the publish script's call."""
        return self.addressing.call(held.item, held.traceparent)  # type: ignore[arg-type]  # `held` takes nothing else

    def counted_as(self, why: Dropped) -> Dropped:
        """Return the reason itself."""
        return why


@dataclass(frozen=True, slots=True)
class FeedbackRoute:
    """How feedback is sent: to the partition of its interaction."""

    layout: Layout
    kind: ClassVar[str] = "feedback items"
    item_type: ClassVar[type] = Feedback
    script: ClassVar[str] = FEEDBACK_SCRIPT
    remembered_s: ClassVar[float] = MARK_S

    def read(self, fields: Mapping[str, Any]) -> Feedback:
        """Return the feedback with these fields."""
        return Feedback.model_validate(fields)

    def held(self, item: Feedback) -> Held:
        """Return a feedback as the queue holds it."""
        return Held(item, self.layout.of(item.pipeline, item.interaction_id).partition, ITEM_BYTES)

    def call(self, held: Held) -> Call:
        """Return the feedback script's call."""
        item = held.item
        payload = item.encode()
        if len(payload) > ENTRY_MAX_BYTES:
            raise InvalidEntryError(
                Reason.TOO_LARGE,
                f"feedback of interaction {item.interaction_id} has {len(payload)} bytes of JSON; at most "
                f"{ENTRY_MAX_BYTES} are taken: send less metadata",
            )
        streams = self.layout.of(item.pipeline, item.interaction_id)
        mark = streams.feedback_probe(blake2b(payload, digest_size=16).hexdigest())
        keys = streams.feedback, mark, streams.dropped
        return Call(
            item.interaction_id,
            streams.partition,
            keys,
            (payload, int(MARK_S * 1000), 0, "block", 0.0, "", b""),
            mark_keys=(mark,),
            digest=b"",
        )

    def counted_as(self, why: Dropped) -> Dropped:
        """Return that it was feedback: the counts of interactions stay theirs."""
        del why
        return Dropped.FEEDBACK


def _size(interaction: RagInteraction) -> int:
    """Return about how many bytes an interaction holds, cheaply."""
    texts = len(interaction.question) + len(interaction.response) + len(interaction.reference_answer or "")
    return ITEM_BYTES + texts + sum(len(document.text) for document in interaction.documents)


def batches(layout: Layout, feedback: Iterable[Feedback]) -> Iterator[tuple[str, list[dict[Any, Any]]]]:
    """Yield feedback as entries of one stream at a time, each batch in one partition and so in one hash slot."""
    iterator = iter(feedback)
    while taken := list(islice(iterator, BATCH)):
        placed = sorted(
            ((layout.of(one.pipeline, one.interaction_id), one) for one in taken), key=lambda pair: pair[0].partition
        )
        for streams, batch in groupby(placed, key=lambda pair: pair[0]):
            yield streams.feedback, [{DATA_FIELD: one.encode()} for _, one in batch]
