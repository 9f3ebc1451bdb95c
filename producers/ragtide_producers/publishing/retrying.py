"""Publishing a dead letter again: its entry moves back to the stream it came from, in one script."""

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams, known_digest
from ragtide_runtime.redis.known_ids import KNOWN_IDS
from ragtide_schemas import DeadLetter, RagInteraction

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
-- The id may still belong to the entry that failed; the new entry must not count as its duplicate.
if KEYS[3] then
    change_id(3, ARGV[4], ARGV[3], entry)
end
return entry
"""
)


class Retrier:
    """Publishes dead letters again.

    Args:
        redis: client.
    """

    def __init__(self, redis: Redis) -> None:
        self._script = redis.register_script(RETRY_SCRIPT)

    async def retry(self, streams: Streams, letter_id: str, letter: DeadLetter) -> bool:
        """Publish an interaction or feedback again, and return whether it was published.

        Other dead letters, such as metric events, stay; so does one that has gone meanwhile.

        Args:
            streams: keys of its partition.
            letter_id: its id in the stream of dead letters.
            letter: the dead letter.

        Raises:
            ValueError: the payload cannot be decoded, or only its beginning was kept.
        """
        if letter.stream not in {streams.interactions, streams.feedback}:
            return False
        if letter.truncated:
            size = f"{letter.size_bytes:,} bytes, of which only the beginning was kept"
            raise ValueError(f"it had {size}: publish a smaller interaction instead")
        payload = letter.payload_bytes()
        keys = [streams.dead_letters, letter.stream]
        arguments: list[str | bytes] = [letter_id, payload, letter.entry_id]
        identity = _identity(letter, payload) if letter.stream == streams.interactions else None
        if identity is not None:
            keys += streams.owner_keys(*identity)
            arguments.append(known_digest(*identity))
        return await self._script(keys=keys, args=arguments) is not None


def _identity(letter: DeadLetter, payload: bytes) -> tuple[str, str] | None:
    try:
        interaction = RagInteraction.from_entry(letter.entry_id, payload)
    except (ValueError, OverflowError):  # the second: an entry id of an impossible time
        return None
    return interaction.pipeline, interaction.interaction_id
