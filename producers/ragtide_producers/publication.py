"""What is sent to Redis for one interaction, and what comes back. No I/O."""

from dataclasses import dataclass
from typing import Final

from ragtide_schemas import InvalidEntryError, RagInteraction, Reason, Streams, partition_of
from ragtide_schemas.limits import ENTRY_MAX_BYTES

PUBLISH_SCRIPT: Final = """
-- KEYS: interactions stream, owner of the interaction id. ARGV: payload, dedupe window in ms, traceparent or nothing.
-- Returns {entry id, 1 if it was added now}.
local owner = redis.call('GET', KEYS[2])
if owner then
    return {owner, 0}
end
local trace = ARGV[3] ~= '' and {'traceparent', ARGV[3]} or {}
local entry = redis.call('XADD', KEYS[1], '*', 'data', ARGV[1], unpack(trace))
redis.call('SET', KEYS[2], entry, 'PX', ARGV[2])
return {entry, 1}
"""
"""Adds an interaction unless its id was seen within the window. Sending it again after a lost reply adds nothing."""


@dataclass(frozen=True, slots=True)
class Publication:
    """What became of one published interaction."""

    interaction_id: str
    entry_id: str
    """Stream entry that holds it."""
    added: bool
    """False if an interaction with this id was already there, within the dedupe window."""


@dataclass(frozen=True, slots=True)
class Addressing:
    """Where interactions go: prefix, number of partitions and the dedupe window of a deployment."""

    prefix: str
    partitions: int
    dedupe_window_s: float

    def streams(self, pipeline: str) -> Streams:
        """Return the keys of a pipeline's partition."""
        return Streams(self.prefix, partition_of(pipeline, self.partitions))

    def call(self, interaction: RagInteraction, traceparent: str = "") -> tuple[list[str], list[bytes | int | str]]:
        """Return the keys and arguments of the publish script for one interaction.

        Args:
            interaction: to publish.
            traceparent: trace context that travels with it; empty for none.

        Raises:
            InvalidEntryError: its JSON is larger than one entry may be.
        """
        payload = interaction.encode()
        if len(payload) > ENTRY_MAX_BYTES:
            raise InvalidEntryError(
                Reason.TOO_LARGE,
                f"interaction {interaction.interaction_id} has {len(payload)} bytes of JSON; at most {ENTRY_MAX_BYTES} "
                "are taken: send fewer or shorter documents",
            )
        streams = self.streams(interaction.pipeline)
        return [streams.interactions, streams.owner(interaction.pipeline, interaction.interaction_id)], [
            payload,
            int(self.dedupe_window_s * 1000),
            traceparent,
        ]


def publication(interaction: RagInteraction, reply: tuple[bytes, int]) -> Publication:
    """Return what the publish script's reply says of an interaction."""
    entry, added = reply
    return Publication(interaction.interaction_id, entry.decode(), added == 1)
