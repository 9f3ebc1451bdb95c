"""The firing alerts about spend limits. Workers raise them; the owner of partition 0 reads them for Prometheus."""

from collections.abc import Sequence
from typing import cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams
from ragtide_schemas import Alert, InvalidEntryError


class SpendAlerts:
    """The firing alerts of a deployment about spend limits.

    Args:
        redis: client.
        streams: keys of the partition; only partition 0 has these alerts.
        labelers: names of the labelers that may have a limit.
    """

    def __init__(self, redis: Redis, streams: Streams, labelers: Sequence[str]) -> None:
        self._redis = redis
        self._keys = [streams.labeler_spend(name, "alert") for name in labelers] if streams.partition == 0 else []
        self._stored: list[bytes | None] = []
        self.alerts: tuple[Alert, ...] = ()
        """The alerts of the last `read`; an alert that cannot be decoded is left out."""

    async def read(self) -> bool:
        """Read the alerts, and return whether they have changed.

        Raises:
            redis.RedisError: Redis failed.
        """
        if not self._keys:
            return False
        before, self._stored = self._stored, cast("list[bytes | None]", await self._redis.mget(self._keys))
        if self._stored == before:
            return False
        self.alerts = tuple(one for data in self._stored if data is not None and (one := _decoded(data)) is not None)
        return True


def _decoded(data: bytes) -> Alert | None:
    try:
        return Alert.decode(data)
    except InvalidEntryError:
        return None
