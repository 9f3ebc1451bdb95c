"""Commits of an aggregator without its loop."""

from typing import Any

from ragtide_aggregator.checkpoint.change_log import ChangeLog
from ragtide_aggregator.checkpoint.commit import Committer, Step
from ragtide_aggregator.checkpoint.options import reader_options
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.ownership.ownership import Lease
from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent


class Owner:
    """Commits events to one partition, as an aggregator does."""

    def __init__(self, redis: Any, streams: Streams, settings: Settings) -> None:
        self._redis = redis
        self.streams = streams
        self.state = AggregatorState(reader_options(settings))
        self._committer = Committer(redis, streams)
        self._steps = 0
        self._log = ChangeLog()
        self._token = ""

    async def commit(self, *events: MetricEvent, alerts: tuple[Any, ...] = ()) -> None:
        """Add events to the stream, apply them, and commit the step."""
        if not self._token:
            acquired = await Lease(self._redis, self.streams, holder="test", lease_s=600).acquire()
            assert acquired.token is not None
            self._token = acquired.token
        for event in events:
            entry = await self._redis.xadd(self.streams.metrics, {DATA_FIELD: event.encode()})
            self.state.apply(event)
        self._steps += 1
        changes = self.state.take_changes()
        position = entry.decode() if events else "0-0"
        log = self._log.fields(self._steps, (position, START), changes)
        written = Step(
            self._steps - 1,
            position,
            rows={**changes.rows, **log},
            gone=changes.gone,
            alerts=alerts,
            closed=changes.closed,
        )
        await self._committer.commit(written, self._token)


def owners(redis: Any, settings: Settings) -> list[Owner]:
    """Return the owner of each partition."""
    return [Owner(redis, streams, settings) for streams in settings.layout.all()]
