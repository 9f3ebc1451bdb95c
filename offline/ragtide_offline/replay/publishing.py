"""Publishes recorded interactions and the position in one script, so that each is published exactly once.

The dedupe window of ordinary publishing is not enough, because a stopped replay may continue much later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from redis.asyncio import Redis

from ragtide_producers.errors import ReplayError
from ragtide_runtime.redis.keys import ReplayField, Streams, known_digest
from ragtide_runtime.redis.scripts import Argument, Lua, ScriptCall, run_script
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import Feedback, RagInteraction

from .recorded_interactions import ReplayedInteraction

PUBLISH: Final = Lua("publish_replay")


class PublishProgress(NamedTuple):
    """Position and counts of the published interactions."""

    position: str | None
    published: int
    duplicates: int
    """Interactions that were not published, because an earlier recorded interaction has the same id."""


async def read_published(redis: Redis, streams: Streams) -> PublishProgress:
    """Return the progress of publishing into a workspace."""
    fields = [ReplayField.POSITION, ReplayField.PUBLISHED, ReplayField.DUPLICATES]
    position, published, duplicates = cast("list[bytes | None]", await redis.hmget(streams.replay, fields))
    return PublishProgress(None if position is None else position.decode(), int(published or 0), int(duplicates or 0))


@dataclass(frozen=True, slots=True)
class ReplayFields:
    """Fields that a replay sets in the interactions that it publishes."""

    run: str
    size_of: Callable[[str], int]
    """Number of interactions of a pipeline."""


class ReplayPublisher:
    """Publishes interactions in their order.

    Args:
        redis: client.
        streams: keys of the workspace.
        fields: set in each interaction.
        user_ids: whether pseudonyms are published in place of ids of users.
        dedupe_window_s: seconds for which a worker knows an id.
        position: of the last published item.
    """

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        fields: ReplayFields,
        *,
        user_ids: UserIds,
        dedupe_window_s: float,
        position: str | None,
    ) -> None:
        self._redis = redis
        self._streams = streams
        self._fields = fields
        self._user_ids = user_ids
        self._window_ms = int(dedupe_window_s * 1000)
        self._position = position or ""

    async def publish(self, items: Sequence[ReplayedInteraction]) -> None:
        """Publish items, at least one.

        Raises:
            ReplayError: another process publishes into this workspace.
            redis.RedisError: the items may or may not have been published; publish them again.
        """
        interactions = [
            self._user_ids.with_pseudonym(item.interaction).model_copy(
                update={"run": self._fields.run, "population_size": self._fields.size_of(item.interaction.pipeline)}
            )
            for item in items
        ]
        feedback = [given for item in items for given in item.feedback]
        batch = Batch(self._position, items[-1].position, interactions, feedback)
        if not await run_script(self._redis, publish_replay(self._streams, batch, self._window_ms)):
            raise ReplayError(
                "another process replays into this workspace: wait for its end, or give --workspace another name"
            )
        self._position = batch.after


class Batch(NamedTuple):
    """A batch of a replay, with the positions before and after it."""

    before: str
    after: str
    interactions: Sequence[RagInteraction]
    feedback: Sequence[Feedback]


def publish_replay(streams: Streams, batch: Batch, dedupe_ms: int) -> ScriptCall[bool]:
    """Return the call that publishes a batch once; its reply is whether the replay was at a position of the batch."""
    identities = [(one.pipeline, one.interaction_id) for one in batch.interactions]
    owners = (key for identity in identities for key in streams.owner_keys(*identity))
    arguments: list[Argument] = [batch.before, batch.after, dedupe_ms, len(identities)]
    for identity, interaction in zip(identities, batch.interactions, strict=True):
        arguments += [known_digest(*identity), interaction.encode()]
    arguments += [given.encode() for given in batch.feedback]
    return ScriptCall(PUBLISH, (streams.replay, streams.interactions, streams.feedback, *owners), arguments, _is_there)


def _is_there(reply: int | None) -> bool:
    return reply is not None
