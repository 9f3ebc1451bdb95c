"""Reads experiments for the page, in a thread of its own: the race of many configs takes the processor for seconds."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.log import last_id
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import InvalidEntryError, Workspace, utc_now
from ragtide_schemas.experiments import Command, LogEntry, decode_entry
from ragtide_web.reading.background import ReadingThread

from ...experiments.control import check_command, give_command
from ...experiments.reader import ExperimentReader, streams_of
from .screen import LOG_TAIL, ExperimentView, RunRow, experiment_view, run_row

FOLLOWED_MAX: Final = 4
"""Experiments whose results stay in memory; a further one is read again from its beginning."""
FRESH_S: Final = 1.0
"""Seconds for which a screen is shared by all viewers."""
QUICK_S: Final = 0.05
"""A list of experiments that is read in less time is read again for every viewer."""
PAUSE: Final = 4
"""A screen that takes long is shared for this many times its duration, so that it takes a fifth of a processor."""


@dataclass(slots=True)
class _FollowedExperiment:
    """An experiment in memory."""

    streams: Streams
    reader: ExperimentReader
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    view: ExperimentView | None = None
    fresh_until: float = 0.0


class ExperimentsReading:
    """Reads experiments, and gives commands to them."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._settings = settings
        # A thread of its own: a large checkpoint in the thread of other reads must not hold an order up.
        self._thread = ReadingThread(url, settings)
        self._listing = asyncio.Lock()
        self._listed: Sequence[Workspace] = ()
        self._listed_until = float("-inf")
        self._followed: OrderedDict[tuple[str, str], _FollowedExperiment] = OrderedDict()

    async def view(self, workspace: Workspace) -> ExperimentView:
        """Return the screen of an experiment, at most about a second old unless it takes long to compute.

        Raises:
            ConfigurationError: its log has no plan.
            redis.RedisError: Redis failed.
        """

        async def read(redis: Redis, _: Deployment) -> ExperimentView:
            followed, loop = self._follow(redis, workspace), asyncio.get_running_loop()
            async with followed.lock:
                if followed.view is None or loop.time() >= followed.fresh_until:
                    await self._read_on(redis, followed)
                    driven = bool(await redis.exists(followed.streams.driver))
                    began = loop.time()
                    followed.view = experiment_view(
                        workspace, followed.reader.state, seen=followed.reader.last_entry, driven=driven, now=utc_now()
                    )
                    followed.fresh_until = loop.time() + max(FRESH_S, PAUSE * (loop.time() - began))
                return followed.view

        return await self._thread.run(read)

    async def workspaces(self) -> Sequence[Workspace]:
        """Return the replays and experiments, the oldest first.

        All are read at once. A list that takes long to read is shared for `PAUSE` times that time.

        Raises:
            redis.RedisError: Redis failed.
        """

        async def read(_: Redis, deployment: Deployment) -> Sequence[Workspace]:
            return await deployment.workspaces()

        loop = asyncio.get_running_loop()
        async with self._listing:
            if loop.time() >= self._listed_until:
                began = loop.time()
                self._listed = await self._thread.run(read)
                took = loop.time() - began
                self._listed_until = loop.time() + (PAUSE * took if took > QUICK_S else 0.0)
            return self._listed

    async def check(self, workspace: Workspace, command: Command, seen: str) -> Command:
        """Check a command as `check_command` does."""

        async def check(redis: Redis, _: Deployment) -> Command:
            followed = self._follow(redis, workspace)
            async with followed.lock:
                await self._read_on(redis, followed)
                return await check_command(redis, followed.streams, followed.reader, command, seen=seen)

        return await self._thread.run(check)

    async def give(self, workspace: Workspace, command: Command, seen: str) -> bool:
        """Give a command as `give_command` does; the next screen shows it."""

        async def give(redis: Redis, _: Deployment) -> bool:
            followed = self._follow(redis, workspace)
            async with followed.lock:
                followed.view = None
                await self._read_on(redis, followed)
                return await give_command(redis, followed.streams, followed.reader, command, seen=seen)

        return await self._thread.run(give)

    async def aclose(self) -> None:
        """End the thread."""
        await self._thread.aclose()

    def _follow(self, redis: Redis, workspace: Workspace) -> _FollowedExperiment:
        key = workspace.run, workspace.created_at.isoformat()
        followed = self._followed.pop(key, None)
        if followed is None:
            streams = streams_of(self._settings, workspace)
            followed = _FollowedExperiment(streams, ExperimentReader(redis, streams))
        self._followed[key] = followed
        while len(self._followed) > FOLLOWED_MAX:
            self._followed.popitem(last=False)
        return followed

    async def _read_on(self, redis: Redis, followed: _FollowedExperiment) -> None:
        last = await last_id(redis, followed.streams.experiment)
        if order(last) < order(followed.reader.last_entry):
            followed.reader = ExperimentReader(redis, followed.streams)
        # Each read has a client of its own.
        followed.reader.redis = redis
        await followed.reader.read()


async def read_runs(redis: Redis, settings: Settings, workspaces: Sequence[Workspace]) -> list[RunRow]:
    """Return a line for each replay and experiment, the newest first."""
    experiments = [workspace for workspace in workspaces if workspace.kind == "experiment"]
    async with redis.pipeline(transaction=False) as pipe:
        for experiment in experiments:
            streams = streams_of(settings, experiment)
            pipe.xrevrange(streams.experiment, count=LOG_TAIL)
            pipe.exists(streams.driver)
        replies: list[Any] = await pipe.execute() if experiments else []
    known = {
        experiment.run: (_decode_entries(newest), bool(driven))
        for experiment, newest, driven in zip(experiments, replies[::2], replies[1::2], strict=True)
    }
    rows = []
    for workspace in sorted(workspaces, key=lambda workspace: workspace.created_at, reverse=True):
        newest, driven = known.get(workspace.run, ([], False))
        rows.append(run_row(workspace, newest, driven=driven))
    return rows


def _decode_entries(entries: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> list[LogEntry]:
    decoded = []
    for _, fields in entries:
        with suppress(InvalidEntryError):  # any process may write to the log
            decoded.append(decode_entry(fields.get(DATA_FIELD, b"")))
    return decoded
