"""The command that publishes one interaction or feedback item: its script, keys, arguments and outcome. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Final, NamedTuple

from ragtide_runtime.redis.keys import Streams, interaction_digest, known_digest
from ragtide_runtime.redis.known_ids import find_id
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.scripts import Lua, ScriptCall
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.producers import Policy
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import Dropped, Feedback, InvalidEntryError, RagInteraction, Reason
from ragtide_schemas.limits import ENTRY_MAX_BYTES

PUBLISH_INTERACTION: Final = Lua("publish_interaction")
PUBLISH_FEEDBACK: Final = Lua("publish_feedback")

FULL: Final = b"full"
"""Reply instead of an entry id if the stream is full and the policy is `block`."""

PROBE_S: Final = 600.0
"""Seconds for which Redis keeps the probe of a feedback item."""

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
    script: ScriptCall[Publication | None]
    """Publishes the item; the reply is None if the item must wait for room."""
    size_bytes: int
    """Bytes of the item's JSON."""
    probe_keys: Sequence[str]
    """Keys with the id of the entry from the moment it is in the stream."""
    digest: bytes
    """Digest under which these keys have the id."""

    def probe(self) -> ScriptCall[str | None]:
        """Return the call that checks whether Redis still has the entry; its reply is None if not."""
        return find_id(self.probe_keys, self.digest)


@dataclass(frozen=True, slots=True)
class Routing:
    """The settings of a deployment on which a publish command depends."""

    layout: Layout
    dedupe_window_s: float
    interactions_cap: int
    policy: Policy
    user_ids: UserIds

    @classmethod
    def of(cls, settings: Settings) -> "Routing":
        """Return the routing of these settings."""
        return cls(
            settings.layout,
            settings.dedupe_window_s,
            settings.interactions_cap,
            settings.producer.policy,
            UserIds.of(settings),
        )

    def command(self, interaction: RagInteraction, traceparent: str = "") -> PublishCommand:
        """Return the command for one interaction.

        Every way of publishing calls this method, so it is the place where the id of a user is hashed.

        Args:
            interaction: interaction to publish.
            traceparent: trace context of the interaction; empty for none.

        Raises:
            InvalidEntryError: the interaction is larger than an entry may be.
        """
        payload = _checked(
            self.user_ids.replaced(interaction).encode(),
            f"interaction {interaction.interaction_id}",
            "send fewer or shorter documents",
        )
        pipeline, interaction_id = interaction.pipeline, interaction.interaction_id
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
        return PublishCommand(interaction_id, partition, script, len(payload), owner_keys, digest)


def feedback_command(layout: Layout, feedback: Feedback) -> PublishCommand:
    """Return the command for one feedback item, which is published in the partition of its interaction.

    Raises:
        InvalidEntryError: the feedback is larger than an entry may be.
    """
    payload = _checked(feedback.encode(), f"feedback of interaction {feedback.interaction_id}", "send less metadata")
    streams = layout.of(feedback.pipeline, feedback.interaction_id)
    probe = streams.feedback_probe(blake2b(payload, digest_size=16).hexdigest())
    reads = partial(publication, feedback.interaction_id)
    arguments = (payload, int(PROBE_S * 1000))
    script = ScriptCall(PUBLISH_FEEDBACK, (streams.feedback, probe), arguments, reads)
    return PublishCommand(feedback.interaction_id, streams.partition, script, len(payload), (probe,), b"")


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
