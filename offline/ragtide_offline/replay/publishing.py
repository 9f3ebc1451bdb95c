"""Reads the selected interactions of a recording, each with its feedback, and publishes them exactly once.

One script publishes them with the position. The dedupe window of ordinary publishing is not enough, because a stopped
replay may continue much later.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, cast

from redis.asyncio import Redis

from ragtide_producers.errors import ReplayError
from ragtide_roles.criteria.sessions import CollectedSessions
from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.redis.keys import ReplayField, Streams, interaction_digest, known_digest
from ragtide_runtime.redis.scripts import Argument, Lua, ScriptCall, run_script
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import Feedback, RagInteraction
from ragtide_schemas.criterion import Criterion

from .selection import Selection, first_entry

PUBLISH: Final = Lua("publish_replay")


class ReplayedInteraction(NamedTuple):
    """One interaction with its position, which is the same each time the replay is started."""

    position: str
    interaction: RagInteraction
    feedback: tuple[Feedback, ...] = ()


class RecordedInteractions:
    """The selected interactions of a recording, in the order of publishing over all partitions.

    The sessions about which a criterion is asked come after all of them.

    Args:
        selection: the part to replay.
        criteria: that are asked.
        quiet_s: seconds without a turn after which a session has ended.
    """

    def __init__(
        self, recording: Recording, selection: Selection, criteria: Sequence[Criterion] = (), quiet_s: float = 600.0
    ) -> None:
        self._recording = recording
        self._selection = selection
        self._criteria = criteria
        self._quiet_s = quiet_s

    def after(self, position: str | None) -> Iterator[ReplayedInteraction]:
        """Yield the items after a position, or all items. Memory holds all feedback."""
        feedback_of: defaultdict[str, list[Feedback]] = defaultdict(list)
        for entry in self._entries(EntryKind.FEEDBACK):
            feedback = cast("Feedback", entry.model)
            feedback_of[interaction_digest(feedback.pipeline, feedback.interaction_id)].append(feedback)
        last = None if position is None else _order(position)
        for at, interaction in self._with_sessions():
            if last is None or _order(at) > last:
                digest = interaction_digest(interaction.pipeline, interaction.interaction_id)
                yield ReplayedInteraction(at, interaction, tuple(feedback_of.get(digest, ())))

    def _with_sessions(self) -> Iterator[tuple[str, RagInteraction]]:
        collected, at = CollectedSessions(self._criteria, self._quiet_s), ""
        partitions = [self._entries(EntryKind.INTERACTIONS, partition) for partition in self._recording.partitions]
        for entry in heapq.merge(*partitions, key=lambda entry: (entry.order, entry.partition)):
            interaction = cast("RagInteraction", entry.model)
            if self._selection.takes(interaction):
                at = f"{entry.entry_id}-{entry.partition}"
                collected.add(interaction)
                yield at, interaction
        # The position of a session is that of the last interaction with a number, so it is after all of them.
        for number, session in enumerate(collected.sessions()):
            yield f"{at}-{number}", session

    def _entries(self, kind: EntryKind, partition: int | None = None) -> Iterator[RecordedEntry]:
        return self._recording.entries(
            kind,
            since=first_entry(self._selection),
            pipelines=self._selection.pipelines,
            partitions=None if partition is None else [partition],
        )


def _order(position: str) -> tuple[int, ...]:
    return tuple(int(part) for part in position.split("-"))


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


class ReplayPublisher:
    """Publishes interactions in their order.

    Args:
        redis: client.
        streams: keys of the workspace.
        run: run of the published interactions.
        size_of: returns the number of interactions of a pipeline.
        user_ids: whether pseudonyms are published in place of ids of users.
        dedupe_window_s: seconds for which a worker knows an id.
        position: of the last published item.
    """

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        run: str,
        size_of: Callable[[str], int],
        *,
        user_ids: UserIds,
        dedupe_window_s: float,
        position: str | None,
    ) -> None:
        self._redis = redis
        self._streams = streams
        self._run = run
        self._size_of = size_of
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
                update={
                    "run": self._run,
                    "population_size": None
                    if item.interaction.is_session
                    else self._size_of(item.interaction.pipeline),
                }
            )
            for item in items
        ]
        feedback = [entry for item in items for entry in item.feedback]
        last = items[-1].position
        call = publish_replay(self._streams, (self._position, last), interactions, feedback, dedupe_ms=self._window_ms)
        if not await run_script(self._redis, call):
            raise ReplayError(
                "another process replays into this workspace: wait for its end, or give --workspace another name"
            )
        self._position = last


def publish_replay(
    streams: Streams,
    positions: tuple[str, str],
    interactions: Sequence[RagInteraction],
    feedback: Sequence[Feedback],
    *,
    dedupe_ms: int,
) -> ScriptCall[bool]:
    """Return the call that publishes a batch once; its reply is whether the replay was at a position of the batch.

    Args:
        positions: before and after the batch.
    """
    identities = [(interaction.pipeline, interaction.interaction_id) for interaction in interactions]
    owners = (key for identity in identities for key in streams.owner_keys(*identity))
    arguments: list[Argument] = [*positions, dedupe_ms, len(identities)]
    for identity, interaction in zip(identities, interactions, strict=True):
        arguments += [known_digest(*identity), interaction.encode()]
    arguments += [entry.encode() for entry in feedback]
    keys = (streams.replay, streams.interactions, streams.feedback, *owners)
    return ScriptCall(PUBLISH, keys, arguments, lambda reply: reply is not None)
