"""Publishes a dead letter again: one script moves its entry back to its stream."""

from contextlib import suppress
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams, known_digest
from ragtide_runtime.redis.scripts import Argument, Lua, ScriptCall, run_script, text_or_none
from ragtide_schemas import DeadLetter, RagInteraction

RETRY: Final = Lua("retry_dead_letter")


class Retrier:
    """Publishes dead letters again."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def retry(self, streams: Streams, letter_id: str, letter: DeadLetter) -> bool:
        """Publish an interaction or feedback again, and return whether it was published.

        Other dead letters, such as metric events, are not published.

        Args:
            streams: keys of the dead letter's partition.
            letter_id: id in the stream of dead letters.
            letter: the dead letter.

        Raises:
            ValueError: the payload cannot be decoded, or only its beginning is stored.
        """
        if letter.stream not in {streams.interactions, streams.feedback}:
            return False
        if letter.truncated:
            raise ValueError(
                f"only the beginning of its {letter.size_bytes:,} bytes is stored: publish a smaller interaction"
            )
        payload = letter.payload_bytes()
        return await run_script(self._redis, retry_dead_letter(streams, letter_id, letter, payload)) is not None


def retry_dead_letter(streams: Streams, letter_id: str, letter: DeadLetter, payload: bytes) -> ScriptCall[str | None]:
    """Return the call that moves a payload back to its stream; its reply is the new id, None without the letter."""
    keys: tuple[str, ...] = (streams.dead_letters, letter.stream)
    arguments: tuple[Argument, ...] = (letter_id, payload, letter.entry_id)
    interaction = None
    if letter.stream == streams.interactions:
        with suppress(ValueError, OverflowError):  # OverflowError: the time in the entry id is impossible
            interaction = RagInteraction.from_entry(letter.entry_id, payload)
    if interaction is not None:
        identity = interaction.pipeline, interaction.interaction_id
        keys += streams.owner_keys(*identity)
        arguments += (known_digest(*identity),)
    return ScriptCall(RETRY, keys, arguments, text_or_none)
