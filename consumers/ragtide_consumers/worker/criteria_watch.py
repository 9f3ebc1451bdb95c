"""Gives the judges of a process the criteria that are asked: those of the settings, and those that operators wrote."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.processes.waiting import sleep_or_stop
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import workspace_of
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.stored_criteria import StoredCriteria, criteria_in_force, read_revision, read_stored_criteria
from ragtide_runtime.telemetry.outages import Outage
from ragtide_schemas.criterion import Criterion

from ..labelers.protocol import Labeler, take_criteria

POLL_S: Final = 3.0
"""Seconds between two looks at the revision of the stored criteria."""

log = structlog.get_logger("ragtide.criteria")


class CriteriaWatch:
    """Looks for changed criteria in Redis. A look reads one short token; no interaction waits for it.

    A workspace has the criteria of its settings only, so that a replay asks the same from begin to end.

    Args:
        labeler: its judges ask the criteria; without a judge nothing is read.
        outage: of Redis, which is logged once.
    """

    def __init__(self, settings: Settings, labeler: Labeler, outage: Outage) -> None:
        self._prefix = settings.prefix
        self._of_settings: Sequence[Criterion] = settings.judge.criteria
        self._labeler = labeler
        self._reading = outage.attempt("reading criteria")
        self._stored = StoredCriteria()
        self.is_needed = workspace_of(settings.prefix) is None and hasattr(labeler, "take_criteria")

    def take_settings(self, settings: Settings) -> None:
        """Use the criteria of other settings from now on."""
        self._of_settings = settings.judge.criteria
        self._give()

    async def look(self, redis: Redis) -> None:
        """Read the stored criteria if they have changed, and give them to the judges; an outage changes nothing."""
        try:
            if await read_revision(redis, self._prefix) == self._stored.revision:
                return
            self._stored = await read_stored_criteria(redis, self._prefix)
        except (RedisError, OSError, TimeoutError) as error:
            self._reading.failed(error)
            return
        self._reading.succeeded()
        self._give()

    async def run(self, redis: Redis, stop: asyncio.Event) -> None:
        """Look until `stop` is set."""
        while not await sleep_or_stop(stop, POLL_S):
            await self.look(redis)

    def _give(self) -> None:
        criteria = criteria_in_force(self._of_settings, self._stored)
        try:
            take_criteria(self._labeler, criteria)
        except ValueError as error:
            log.warning("the criteria stay as they are, because the new ones cannot be asked", detail=str(error))
            return
        log.info("criteria are asked", criteria=[criterion.name for criterion in criteria])


@asynccontextmanager
async def asking_stored_criteria(
    settings: Settings, url: str, labeler: Labeler, outage: Outage
) -> AsyncIterator[CriteriaWatch]:
    """Give a labeler the stored criteria for the body of an `async with`; those of now before the body begins."""
    watch = CriteriaWatch(settings, labeler, outage)
    if not watch.is_needed:
        yield watch
        return
    stop = asyncio.Event()
    async with connect_async(url) as redis:
        await watch.look(redis)
        running = asyncio.create_task(watch.run(redis, stop))
        try:
            yield watch
        finally:
            stop.set()
            await running
