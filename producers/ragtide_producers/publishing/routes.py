"""Routes: the command and the destination of interactions, and of feedback. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from ragtide_runtime.redis.keys import Streams, interaction_digest, known_digest
from ragtide_runtime.redis.known_ids import find_id
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.scripts import Lua, ScriptCall
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.producers import Policy
from ragtide_runtime.telemetry.tracing import trace_publishing
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import Dropped, Feedback, InvalidEntryError, RagInteraction, Reason
from ragtide_schemas.interaction import with_last_turns
from ragtide_schemas.limits import ENTRY_MAX_BYTES

from .sampling import EVERYTHING, Sampling

PUBLISH_INTERACTION: Final = Lua("publish_interaction")
PUBLISH_FEEDBACK: Final = Lua("publish_feedback")

FULL: Final = b"full"
"""Reply instead of an entry id if the stream is full and the policy is `block`."""

PROBE_S: Final = 600.0
"""Seconds for which Redis keeps the probe of a feedback item."""

ITEM_BYTES: Final = 1000
"""Estimated bytes of an item besides its texts."""

Item = RagInteraction | Feedback
"""Type of the items that an application submits."""

STREAMS_REMEMBERED = 1024
"""Most partitions whose keys are cached."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The outcome of publishing one interaction."""

    interaction_id: str
    entry_id: str | None
    """Stream entry of the interaction; None if it was dropped."""
    added: bool
    """False if the interaction was dropped, or if its id was published before within the dedupe window."""
    dropped: Dropped | None = None
    """Policy that dropped the interaction (`drop_new` or `sample`); None if it was not dropped."""
    sampled_out: bool = False
    """Whether the interaction was not sent, because it is not in the producer's sample of the traffic."""


class PublishCommand(NamedTuple):
    """The command for one interaction or feedback item. All its keys are in the hash slot of its partition."""

    interaction_id: str
    partition: int
    payload: bytes
    """The item as JSON. It is encoded here, and not again on the way into the stream."""
    script: ScriptCall[Publication | None]
    """Publishes the item; the reply is None if the item must wait for room."""
    probe_keys: Sequence[str]
    """Keys with the id of the entry from the moment it is in the stream."""
    digest: bytes
    """Digest under which these keys have the id."""

    def probe(self) -> ScriptCall[str | None]:
        """Return the call that checks whether Redis still has the entry; its reply is None if not."""
        return find_id(self.probe_keys, self.digest)


@dataclass(slots=True, eq=False)
class QueuedItem:
    """A submitted item; two queued items are never equal, even with equal content."""

    item: Item
    partition: int
    size_bytes: int
    traceparent: str = ""
    """Trace context of the submitting code; empty for none."""
    command: PublishCommand | None = None
    """The command that publishes it, if it was made already."""


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

    def queued(self, item: Any) -> QueuedItem | None:
        """Return an item for the queue; None if it is not in the sample of the traffic."""

    def command(self, item: Any, traceparent: str = "") -> PublishCommand:
        """Return the command that publishes an item; raises InvalidEntryError if it is too large."""

    def counted_as(self, why: Dropped) -> Dropped:
        """Return the field of the hash `dropped` under which a dropped item is counted."""


@dataclass(frozen=True, slots=True)
class InteractionRoute:
    """The route of interactions: the settings on which their commands depend, and the sample that is sent."""

    layout: Layout
    dedupe_window_s: float
    interactions_cap: int
    policy: Policy
    user_ids: UserIds
    sampling: Sampling = EVERYTHING
    kind: ClassVar[str] = "interactions"
    item_type: ClassVar[type] = RagInteraction

    @classmethod
    def of(cls, settings: Settings, sampling: Sampling = EVERYTHING) -> "InteractionRoute":
        """Return the route of these settings."""
        return cls(
            settings.layout,
            settings.dedupe_window_s,
            settings.interactions_cap,
            settings.producer.policy,
            UserIds.of(settings),
            sampling,
        )

    @property
    def remembered_s(self) -> float:
        """Seconds for which Redis knows an interaction's id."""
        return self.dedupe_window_s

    def read(self, fields: Mapping[str, Any]) -> RagInteraction:
        """Return the interaction with these fields; of a long history it has the last turns."""
        return RagInteraction.model_validate(with_last_turns(fields))

    def queued(self, item: RagInteraction) -> QueuedItem | None:
        """Return an interaction for the queue, with its probability and the trace context of its caller."""
        sampled = self.sampling.sampled(item)
        if sampled is None:
            return None
        partition = self.layout.of(sampled.pipeline, sampled.interaction_id).partition
        return QueuedItem(sampled, partition, _size(sampled), trace_publishing(sampled))

    def command(self, item: RagInteraction, traceparent: str = "", payload: bytes = b"") -> PublishCommand:
        """Return the command for one interaction.

        Every way of publishing calls this method, so it is the place where the id of a user is hashed, and where the
        interaction is encoded, unless it was encoded at the edge where it came in.

        Args:
            item: interaction to publish.
            traceparent: trace context of the interaction; empty for none.
            payload: the interaction as JSON, if it was encoded before; it must have the pseudonym of its user.

        Raises:
            InvalidEntryError: the interaction is larger than an entry may be.
        """
        payload = _checked(
            payload or self.user_ids.with_pseudonym(item).encode(),
            f"interaction {item.interaction_id}",
            "send fewer or shorter documents",
        )
        pipeline, interaction_id = item.pipeline, item.interaction_id
        partition, stream, dropped, streams = _keys(self.layout.of(pipeline, interaction_id))
        owner_keys, digest = streams.owner_keys(pipeline, interaction_id), known_digest(pipeline, interaction_id)
        arguments = (
            payload,
            int(self.dedupe_window_s * 1000),
            self.interactions_cap,
            self.policy,
            draw(pipeline, interaction_id) if self.policy == "sample" else 0.0,
            traceparent,
            digest,
        )
        reads = partial(publication, interaction_id)
        script = ScriptCall(PUBLISH_INTERACTION, (stream, dropped, *owner_keys), arguments, reads)
        return PublishCommand(interaction_id, partition, payload, script, owner_keys, digest)

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

    def queued(self, item: Feedback) -> QueuedItem:
        """Return a feedback item for the queue: none is left out, because the interaction may be in another sample."""
        return QueuedItem(item, self.layout.of(item.pipeline, item.interaction_id).partition, ITEM_BYTES)

    def command(self, item: Feedback, traceparent: str = "") -> PublishCommand:
        """Return the command for one feedback item.

        Raises:
            InvalidEntryError: the feedback is larger than an entry may be.
        """
        del traceparent
        payload = _checked(item.encode(), f"feedback of interaction {item.interaction_id}", "send less metadata")
        streams = self.layout.of(item.pipeline, item.interaction_id)
        probe = streams.feedback_probe(blake2b(payload, digest_size=16).hexdigest())
        reads = partial(publication, item.interaction_id)
        script = ScriptCall(PUBLISH_FEEDBACK, (streams.feedback, probe), (payload, int(PROBE_S * 1000)), reads)
        return PublishCommand(item.interaction_id, streams.partition, payload, script, (probe,), b"")

    def counted_as(self, why: Dropped) -> Dropped:
        """Return `feedback`, because other counts are of interactions."""
        del why
        return Dropped.FEEDBACK


def _size(interaction: RagInteraction) -> int:
    texts = len(interaction.question) + len(interaction.response) + len(interaction.reference_answer or "")
    texts += sum(len(turn.question) + len(turn.response) for turn in interaction.history or ())
    return ITEM_BYTES + texts + sum(len(document.text) for document in interaction.documents)


def _checked(payload: bytes, item: str, remedy: str) -> bytes:
    if len(payload) > ENTRY_MAX_BYTES:
        raise InvalidEntryError(
            Reason.TOO_LARGE,
            f"{item} has {len(payload)} bytes of JSON; the limit is {ENTRY_MAX_BYTES}: {remedy}",
        )
    return payload


@lru_cache(STREAMS_REMEMBERED)
def _keys(streams: Streams) -> tuple[int, str, str, Streams]:
    return streams.partition, streams.interactions, streams.dropped, streams


def draw(pipeline: str, interaction_id: str) -> float:
    """Return a number in [0, 1) for an interaction: uniform over interactions, and always the same for one of them.

    >>> draw("shop", "i-1") == draw("shop", "i-1")
    True
    """
    return int(interaction_digest(pipeline, interaction_id)[:12], 16) / 16**12


def publication(interaction_id: str, reply: tuple[bytes, int]) -> Publication | None:
    """Return the outcome of an item from the reply of its script; None if the item must wait for room."""
    entry, added = reply
    if added >= 0:
        return Publication(interaction_id, entry.decode(), added == 1)
    if entry == FULL:
        return None
    return Publication(interaction_id, None, added=False, dropped=Dropped(entry.decode()))
