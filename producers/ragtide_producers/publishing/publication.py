"""The script call that publishes one interaction, and the reply of Redis. No I/O."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ragtide_runtime.redis.keys import Streams, interaction_digest, known_digest
from ragtide_runtime.redis.known_ids import KNOWN_IDS
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.producer import Policy
from ragtide_schemas import Dropped, InvalidEntryError, RagInteraction, Reason
from ragtide_schemas.limits import ENTRY_MAX_BYTES

PUBLISH_SCRIPT: Final = (
    KNOWN_IDS
    + """
-- KEYS: interactions stream, counts of what was dropped, the keys of the interaction id's owner (7).
-- ARGV: payload, dedupe window in ms, cap, policy, the interaction's draw in [0, 1), traceparent or nothing, digest.
-- Returns {entry id, 1 if it was added now}, or {'full' or why it was dropped, -1}.
local owner = known_id(3, ARGV[7])
if owner then
    return {owner, 0}
end
local cap, room, why = tonumber(ARGV[3]), nil, nil
room = cap - redis.call('XLEN', KEYS[1])
if ARGV[4] == 'sample' then
    -- Kept with a probability that falls from 1 at half the cap to 0 at the cap.
    if tonumber(ARGV[5]) * cap >= 2 * room then
        why = 'sample'
    end
elseif room <= 0 then
    if ARGV[4] == 'block' then
        return {'full', -1}
    end
    why = 'drop_new'
end
if why then
    redis.call('HINCRBY', KEYS[2], why, 1)
    return {why, -1}
end
local trace = ARGV[6] ~= '' and {'traceparent', ARGV[6]} or {}
local entry = redis.call('XADD', KEYS[1], '*', 'data', ARGV[1], unpack(trace))
remember_id(3, ARGV[7], entry, tonumber(ARGV[2]))
return {entry, 1}
"""
)
"""Adds an interaction unless its id was seen within the window or there is no room for it.

Sending it again after a lost reply adds nothing. If the policy dropped it, the policy then decides, and counts, again.
"""

FULL: Final = b"full"
"""Reply in place of an entry id when the stream is full and the policy is to wait."""

Reply = tuple[bytes, int]
"""The reply of the publish script."""

STREAMS_REMEMBERED = 1024
"""Pipelines whose keys are kept at hand."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The outcome of publishing one interaction."""

    interaction_id: str
    entry_id: str | None
    """Stream entry that holds it; None if it was dropped."""
    added: bool
    """False if it was dropped, or if an interaction with this id was already there, within the dedupe window."""
    dropped: Dropped | None = None
    """Why the policy dropped it (`drop_new` or `sample`); None if it is in the stream."""


@dataclass(frozen=True, slots=True)
class Call:
    """The publish script's keys and arguments for one interaction. All keys are in its partition's hash slot."""

    interaction_id: str
    partition: int
    keys: tuple[str, ...]
    arguments: tuple[bytes, int, int, Policy, float, str, bytes]

    mark_keys: tuple[str, ...]
    """Keys that hold the entry's id from the moment it is in the stream: those of `FIND_SCRIPT`."""
    digest: bytes
    """Digest by which it is found there."""

    @property
    def size_bytes(self) -> int:
        """Bytes of its JSON."""
        return len(self.arguments[0])


@dataclass(frozen=True, slots=True)
class Addressing:
    """The settings of a deployment that a publish call depends on: where interactions go, and on which terms."""

    layout: Layout
    dedupe_window_s: float
    interactions_cap: int
    policy: Policy

    @classmethod
    def of(cls, settings: Settings) -> "Addressing":
        """Return the addressing that these settings describe."""
        return cls(
            settings.layout,
            settings.dedupe_window_s,
            settings.interactions_cap,
            settings.producer.policy,
        )

    def call(self, interaction: RagInteraction, traceparent: str = "") -> Call:
        """Return the publish script's call for one interaction.

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
        pipeline, interaction_id = interaction.pipeline, interaction.interaction_id
        partition, stream, counts, streams = _keys(self.layout.of(pipeline, interaction_id))
        owner_keys, digest = streams.owner_keys(pipeline, interaction_id), known_digest(pipeline, interaction_id)
        return Call(
            interaction_id,
            partition,
            (stream, counts, *owner_keys),
            (
                payload,
                int(self.dedupe_window_s * 1000),
                self.interactions_cap,
                self.policy,
                draw(pipeline, interaction_id) if self.policy == "sample" else 0.0,
                traceparent,
                digest,
            ),
            owner_keys,
            digest,
        )


@lru_cache(STREAMS_REMEMBERED)
def _keys(streams: Streams) -> tuple[int, str, str, Streams]:
    return streams.partition, streams.interactions, streams.dropped, streams


def draw(pipeline: str, interaction_id: str) -> float:
    """Return a number in [0, 1), uniform over interactions and the same whenever this one is published.

    >>> draw("shop", "i-1") == draw("shop", "i-1")
    True
    """
    return int(interaction_digest(pipeline, interaction_id)[:12], 16) / 16**12


def publication(call: Call, reply: Reply) -> Publication | None:
    """Return the outcome of an interaction from the publish script's reply; None if it has to wait for room."""
    entry, added = reply
    if added >= 0:
        return Publication(call.interaction_id, entry.decode(), added == 1)
    if entry == FULL:
        return None
    return Publication(call.interaction_id, None, added=False, dropped=Dropped(entry.decode()))
