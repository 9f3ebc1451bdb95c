"""Publishing a dead letter again: its entry moves back to the stream it came from, in one script."""

from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams, known_digest
from ragtide_runtime.redis.scripts import Argument, Lua, ScriptCall, run_script, text_or_none
from ragtide_schemas import DeadLetter, RagInteraction

RETRY: Final = Lua("retry_dead_letter")


class Retrier:
    """Publishes dead letters again.

    Args:
        redis: client.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

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
        return await run_script(self._redis, retry_dead_letter(streams, letter_id, letter, payload)) is not None


def retry_dead_letter(streams: Streams, letter_id: str, letter: DeadLetter, payload: bytes) -> ScriptCall[str | None]:
    """Return the call that moves a payload back to its stream; it returns the new entry, None if the letter is gone."""
    keys: tuple[str, ...] = (streams.dead_letters, letter.stream)
    arguments: tuple[Argument, ...] = (letter_id, payload, letter.entry_id)
    identity = _identity(letter, payload) if letter.stream == streams.interactions else None
    if identity is not None:
        keys += streams.owner_keys(*identity)
        arguments += (known_digest(*identity),)
    return ScriptCall(RETRY, keys, arguments, text_or_none)


def _identity(letter: DeadLetter, payload: bytes) -> tuple[str, str] | None:
    try:
        interaction = RagInteraction.from_entry(letter.entry_id, payload)
    except (ValueError, OverflowError):  # the second: an entry id of an impossible time
        return None
    return interaction.pipeline, interaction.interaction_id
