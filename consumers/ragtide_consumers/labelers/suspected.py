"""Reads which pipelines are suspected of a change, so that a cascade judges more of them for a while.

Estimates stay exact. The share depends on the past alone, and is the same for all interactions of a pipeline at a
moment, so what is judged then is a uniform sample; and each event has the probability with which it was drawn. An
interaction that is delivered again is drawn at the same place, and only the draw that is published counts. Only
interactions that occurred since the suspicion have the raised share. So an interaction that waits for the judge is not
published with a larger share than that at which it was chosen to wait. At a smaller one fewer of those that wait are
judged, by the same draw, and that is their probability.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from time import monotonic
from typing import Final

from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.suspected import read_suspected
from ragtide_schemas import RagInteraction

POLL_S: Final = 1.0
"""Least seconds between two reads."""


class SuspectedPipelines:
    """The suspected pipelines, read at most once a second; while Redis is away, no pipeline is suspected.

    Args:
        redis: client.
        partitions: keys of the partitions.
        for_s: seconds for which a suspicion counts.
    """

    def __init__(self, redis: Redis, partitions: Sequence[Streams], *, for_s: float) -> None:
        self._redis = redis
        self._partitions = partitions
        self._for = timedelta(seconds=for_s)
        self._since: dict[str, datetime] = {}
        self._read_at = -POLL_S

    async def read(self) -> None:
        """Read which pipelines are suspected; what is labeled meanwhile does not wait."""
        self._read_at = monotonic()
        since: dict[str, datetime] = {}
        with suppress(RedisError, OSError, TimeoutError):
            since = await read_suspected(self._redis, self._partitions)
        self._since = since

    async def covers(self, interaction: RagInteraction) -> bool:
        """Return whether an interaction occurred while its pipeline is suspected."""
        if monotonic() - self._read_at >= POLL_S:
            await self.read()
        since_when = self._since.get(interaction.pipeline)
        return since_when is not None and since_when <= interaction.occurred_at < since_when + self._for
