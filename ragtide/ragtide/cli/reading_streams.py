"""Reading alerts and dead letters from the streams of all partitions of a deployment."""

from collections.abc import Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from ragtide_runtime.redis.known_ids import KNOWN_IDS
from ragtide_runtime.redis.log import read_all
from ragtide_runtime.redis.unreadable import Unreadable
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, DeadLetter, RagInteraction, Streams, known_digest

RETRY_SCRIPT = (
    KNOWN_IDS
    + """
-- KEYS: dead letters, the stream it came from, the keys of the interaction id's owner (7) or nothing.
-- ARGV: id of the dead letter, payload, stream entry that failed, digest if there are those keys.
-- Returns the new entry, or nothing if the dead letter is no longer there.
if redis.call('XDEL', KEYS[1], ARGV[1]) == 0 then
    return false
end
local entry = redis.call('XADD', KEYS[2], '*', 'data', ARGV[2])
-- The id may still belong to the entry that failed; what is tried again must not count as its duplicate.
if KEYS[3] then
    change_id(3, ARGV[4], ARGV[3], entry)
end
return entry
"""
)


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter with its partition and its id in the stream."""

    letter_id: str
    partition: int
    letter: DeadLetter


async def read_alerts(redis: Redis, settings: Settings) -> tuple[list[Alert], Unreadable]:
    """Return every alert in its latest state, in the order in which they fired, and the entries that are none."""
    latest: dict[str, Alert] = {}
    unreadable = Unreadable("alert")
    for streams in settings.layout.all():
        async for entry in read_all(redis, streams.alerts):
            alert = unreadable.decode(Alert, streams.alerts, entry)
            if alert is not None:
                latest[alert.alert_id] = alert
    return sorted(latest.values(), key=lambda alert: alert.fired_at), unreadable


async def read_dead_letters(
    redis: Redis, settings: Settings, *, payloads: bool = True
) -> tuple[list[StoredLetter], Unreadable]:
    """Return every dead letter, the oldest first, and the entries that are none.

    Args:
        redis: client.
        settings: of the deployment.
        payloads: whether the payloads are kept, which may be gigabytes together; they are empty otherwise.
    """
    found: list[StoredLetter] = []
    unreadable = Unreadable("dead letter")
    for streams in settings.layout.all():
        async for entry in read_all(redis, streams.dead_letters):
            letter = unreadable.decode(DeadLetter, streams.dead_letters, entry)
            if letter is not None:
                letter = letter if payloads else letter.model_copy(update={"payload": ""})
                found.append(StoredLetter(entry.entry_id, streams.partition, letter))
    return sorted(found, key=lambda stored: stored.letter.failed_at), unreadable


async def retry_dead_letters(
    redis: Redis, settings: Settings, letters: Sequence[StoredLetter], unreadable: Unreadable
) -> int:
    """Publish dead interactions and feedback again, each moved in one script, and return how many there were.

    A letter whose payload cannot be decoded, or of which only the beginning was kept, stays; it is counted among the
    unreadable ones.
    """
    script = redis.register_script(RETRY_SCRIPT)
    retried = 0
    for stored in letters:
        streams = Streams(settings.prefix, stored.partition)
        if stored.letter.stream not in {streams.interactions, streams.feedback}:
            continue
        if stored.letter.truncated:
            size = f"{stored.letter.size_bytes:,} bytes, of which only the beginning was kept"
            error = ValueError(f"it had {size}: publish a smaller interaction instead")
            unreadable.add(f"{stored.letter_id} of {streams.dead_letters}", error)
            continue
        try:
            payload = stored.letter.payload_bytes()
        except ValueError as error:
            unreadable.add(f"{stored.letter_id} of {streams.dead_letters}", error)
            continue
        keys = [streams.dead_letters, stored.letter.stream]
        arguments: list[str | bytes] = [stored.letter_id, payload, stored.letter.entry_id]
        identity = _identity(stored.letter, payload) if stored.letter.stream == streams.interactions else None
        if identity is not None:
            keys += streams.owner_keys(*identity)
            arguments.append(known_digest(*identity))
        retried += await script(keys=keys, args=arguments) is not None
    return retried


def _identity(letter: DeadLetter, payload: bytes) -> tuple[str, str] | None:
    try:
        interaction = RagInteraction.from_entry(letter.entry_id, payload)
    except (ValueError, OverflowError):  # the second: an entry id of an impossible time
        return None
    return interaction.pipeline, interaction.interaction_id
