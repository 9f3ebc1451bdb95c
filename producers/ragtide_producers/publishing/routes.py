"""Routes: the command and the destination of interactions, and of feedback. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from ragtide_runtime.redis.keys import Streams, identity_digest, known_digest
from ragtide_runtime.redis.known_ids import find_id
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.scripts import Argument, Lua, ScriptCall
from ragtide_runtime.settings.application import ApplicationSettings
from ragtide_runtime.settings.producers import Policy
from ragtide_runtime.telemetry.tracing import trace_publishing
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import Dropped, Feedback, InvalidEntryError, RagInteraction, Reason
from ragtide_schemas.limits import ENTRY_MAX_BYTES
from ragtide_schemas.sent import sent
from ragtide_schemas.times import utc_now

from ..given_fields import interaction_of
from .sampling import EVERYTHING, Sampling

PUBLISH_INTERACTIONS: Final = Lua("publish_interactions")
PUBLISH_FEEDBACK: Final = Lua("publish_feedback")

FULL: Final = "full"
"""Reply for an item if the stream is full and the policy is `block`."""

KNOWN: Final = "="
"""Precedes the entry of an item that was in its stream before."""

PROBE_S: Final = 600.0
"""Seconds for which Redis keeps the probe of a feedback item."""

ITEM_BYTES: Final = 1000
"""Estimated bytes of an item besides its texts."""

Item = RagInteraction | Feedback
"""Type of the items that an application submits."""


class Publication(NamedTuple):
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
    """The command for one interaction or feedback item. One call of a script runs many commands of a partition."""

    pipeline: str
    interaction_id: str
    partition: int
    payload: bytes
    """The item as JSON. It is encoded here, and not again on the way into the stream."""
    digest: bytes
    """Digest of the interaction, or of the payload of feedback: 16 bytes."""
    traceparent: str = ""
    """Trace context of the interaction; empty for none."""


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
        """Return the item with these fields; raises InvalidEntryError."""

    def queued(self, item: Any) -> QueuedItem | None:
        """Return an item for the queue; None if it is not in the sample of the traffic."""

    def command(self, item: Any, traceparent: str = "") -> PublishCommand:
        """Return the command that publishes an item; raises InvalidEntryError if it is too large."""

    def call(self, commands: Sequence[PublishCommand]) -> "ScriptCall[list[Publication | None]]":
        """Return the call that publishes items of one partition; its reply has None for each that must wait for room.

        It is safe to repeat: an item that is in its stream is not added again.
        """

    def probe(self, command: PublishCommand) -> "ScriptCall[str | None]":
        """Return the call that checks whether Redis still has the entry of an item; its reply is None if not."""

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
    def of(cls, settings: ApplicationSettings, sampling: Sampling = EVERYTHING) -> "InteractionRoute":
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
        """Return the interaction with these fields."""
        return interaction_of(fields)

    def queued(self, item: RagInteraction) -> QueuedItem | None:
        """Return an interaction for the queue, with its probability and the trace context of its caller."""
        sampled = self.sampling.sampled(item)
        if sampled is None:
            return None
        partition = self.layout.partition_of(sampled.pipeline, sampled.interaction_id)
        traceparent_of = trace_publishing()
        return QueuedItem(sampled, partition, _size(sampled), traceparent_of(sampled) if traceparent_of else "")

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
        if not payload:
            payload = (item if item.user_id is None else self.user_ids.with_pseudonym(item)).encode()
        pipeline, interaction_id = item.pipeline, item.interaction_id
        if len(payload) > ENTRY_MAX_BYTES:
            raise _too_large(payload, f"interaction {interaction_id}", "send fewer or shorter documents")
        partition = self.layout.partition_of(pipeline, interaction_id)
        digest = identity_digest(pipeline, interaction_id)
        return PublishCommand(pipeline, interaction_id, partition, payload, digest, traceparent)

    def call(self, commands: Sequence[PublishCommand]) -> ScriptCall[list[Publication | None]]:
        """Return the call that publishes interactions of one partition."""
        streams = self._streams(commands[0])
        traceparents = [command.traceparent for command in commands]
        arguments = (
            int(self.dedupe_window_s * 1000),
            self.interactions_cap,
            self.policy,
            *streams.known_id_families[:2],
            b"".join([command.digest for command in commands]),
            *[command.payload for command in commands],
            *(traceparents if any(traceparents) else ()),
        )
        return ScriptCall(PUBLISH_INTERACTIONS, (streams.interactions, streams.dropped), arguments, _reader(commands))

    def probe(self, command: PublishCommand) -> ScriptCall[str | None]:
        """Return the call that checks whether Redis still knows the id of an interaction."""
        identity = command.pipeline, command.interaction_id
        return find_id(self._streams(command).owner_keys(*identity), known_digest(*identity))

    def _streams(self, command: PublishCommand) -> Streams:
        return Streams(self.layout.prefix, command.partition)

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
        return sent(Feedback.from_fields, fields, utc_now())

    def queued(self, item: Feedback) -> QueuedItem:
        """Return a feedback item for the queue: none is left out, because the interaction may be in another sample."""
        return QueuedItem(item, self.layout.partition_of(item.pipeline, item.interaction_id), ITEM_BYTES)

    def command(self, item: Feedback, traceparent: str = "") -> PublishCommand:
        """Return the command for one feedback item.

        Raises:
            InvalidEntryError: the feedback is larger than an entry may be.
        """
        del traceparent
        payload = item.encode()
        if len(payload) > ENTRY_MAX_BYTES:
            raise _too_large(payload, f"feedback of interaction {item.interaction_id}", "send less metadata")
        partition = self.layout.partition_of(item.pipeline, item.interaction_id)
        digest = blake2b(payload, digest_size=16).digest()
        return PublishCommand(item.pipeline, item.interaction_id, partition, payload, digest)

    def call(self, commands: Sequence[PublishCommand]) -> ScriptCall[list[Publication | None]]:
        """Return the call that publishes feedback items of one partition; none waits for room."""
        keys = (Streams(self.layout.prefix, commands[0].partition).feedback, *map(self._probe_key, commands))
        arguments: tuple[Argument, ...] = (int(PROBE_S * 1000), *[command.payload for command in commands])
        return ScriptCall(PUBLISH_FEEDBACK, keys, arguments, _reader(commands))

    def probe(self, command: PublishCommand) -> ScriptCall[str | None]:
        """Return the call that checks whether Redis still has the probe of a feedback item."""
        return find_id((self._probe_key(command),), b"")

    def _probe_key(self, command: PublishCommand) -> str:
        return Streams(self.layout.prefix, command.partition).feedback_probe(command.digest.hex())

    def counted_as(self, why: Dropped) -> Dropped:
        """Return `feedback`, because other counts are of interactions."""
        del why
        return Dropped.FEEDBACK


def _size(interaction: RagInteraction) -> int:
    texts = len(interaction.question) + len(interaction.response) + len(interaction.reference_answer or "")
    texts += sum(len(turn.question) + len(turn.response) for turn in interaction.history or ())
    return ITEM_BYTES + texts + sum(len(document.text) for document in interaction.documents)


def _too_large(payload: bytes, item: str, remedy: str) -> InvalidEntryError:
    return InvalidEntryError(
        Reason.TOO_LARGE, f"{item} has {len(payload)} bytes of JSON; the limit is {ENTRY_MAX_BYTES}: {remedy}"
    )


def _reader(commands: Sequence[PublishCommand]) -> Callable[[bytes], list[Publication | None]]:
    return partial(publications, [command.interaction_id for command in commands])


def publications(interaction_ids: Sequence[str], reply: bytes) -> list[Publication | None]:
    """Return the outcomes of items from the reply of their script; None for an item that must wait for room."""
    words = reply.decode().split(" ")
    return [
        # Most are added.
        Publication(name, word, True) if word[0].isdecimal() else _publication(name, word)
        for name, word in zip(interaction_ids, words, strict=True)
    ]


def _publication(interaction_id: str, word: str) -> Publication | None:
    if word[0] == KNOWN:
        return Publication(interaction_id, word[1:], added=False)
    return None if word == FULL else Publication(interaction_id, None, added=False, dropped=Dropped(word))
