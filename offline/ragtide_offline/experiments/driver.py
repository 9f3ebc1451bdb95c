"""The driver of an experiment: the one process that begins it, calls its target, and runs its race and roles."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_consumers.labelers.own_metrics import own_metrics
from ragtide_producers.files.items import Item
from ragtide_roles.running import together
from ragtide_roles.serving import aggregate, work
from ragtide_roles.workspaces import read_plan, settings_of_experiment
from ragtide_runtime.ownership.owner import PartitionOwner
from ragtide_runtime.ownership.ownership import Lease, Ownership, process_name
from ragtide_runtime.ownership.telemetry import OwnerTelemetry
from ragtide_runtime.processes.waiting import Backoff, end, sleep_or_stop
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import EXPERIMENT_GROUP, Streams
from ragtide_runtime.redis.layout import agree_on_layout
from ragtide_runtime.redis.log import append_if_last, pin
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.outages import redis_outage
from ragtide_runtime.workspaces import find_workspace, register_workspace, settings_of_workspace
from ragtide_schemas import Workspace
from ragtide_schemas.experiments import Begun, Command, Completed, LogEntry, Paused, Plan

from .decisions import driver_decision, race_decision
from .errors import ExperimentError
from .execution_log import ExecutionLog
from .executor import Executor
from .reader import ExperimentReader, streams_of
from .targets import MeasureFunction, target_of

POLL_MS = 500
"""Milliseconds for which one read waits."""

log = structlog.get_logger("ragtide.experiment")


class RaceRunner:
    """Runs the race of one experiment.

    Several runners decide the same. A decision is written only if it follows the last entry that the runner has read.
    Otherwise the runner reads on and decides again.

    Args:
        redis: client.
        streams: keys of the experiment.
        executor: makes the calls. With an executor, the runner also writes the decisions of a driver, and ends when the
            experiment is paused and all answers are labeled.
        check: called often; raises an error once this process may no longer drive the experiment.
    """

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        executor: Executor | None = None,
        *,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._redis = redis
        self._streams = streams
        self._executor = executor
        self._check = check
        self.reader = ExperimentReader(redis, streams)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until the experiment is complete or `stop` is set.

        Raises:
            ConfigurationError: there is no experiment.
            ExperimentError: the executor cannot continue.
        """
        outage = redis_outage(self._redis).attempt("following the experiment")
        backoff = Backoff()
        while not stop.is_set():
            self._check()
            try:
                await self.reader.read(wait_ms=POLL_MS)
                while entries := self._decision():
                    await self._write(entries)
                    await self.reader.read()
            except RedisError as error:
                outage.failed(error)
                await sleep_or_stop(stop, backoff.pause_s())
                continue
            outage.succeeded()
            backoff.succeeded()
            if self._is_over():
                return
            if self._executor is not None:
                self._executor.begin_calls(self.reader.state)

    def _decision(self) -> list[LogEntry]:
        state = self.reader.state
        return race_decision(state) or ([] if self._executor is None else driver_decision(state))

    def _is_over(self) -> bool:
        state = self.reader.state
        if state.completed or self._executor is None or state.paused is None:
            return state.completed
        return not self._executor.calling and all(result.outcome != "waiting" for result in state.results.executed())

    async def _write(self, entries: list[LogEntry]) -> None:
        encoded = [entry.encode() for entry in entries]
        if not await append_if_last(self._redis, self._streams.experiment, self.reader.last_entry, encoded):
            return
        for entry in entries:
            if isinstance(entry, Command):
                log.info("config stopped", config=entry.config, by=entry.by, reason=entry.reason)
            elif isinstance(entry, Paused):
                log.warning("experiment paused", reason=entry.reason)
            elif isinstance(entry, Completed):
                log.info("experiment complete")


async def begin(redis: Redis, settings: Settings, plan: Plan, *, file: Path | None = None) -> bool:
    """Write the first entry of an experiment unless it has begun, and return whether it was written now.

    Raises:
        ExperimentError: a replay, or an experiment with another plan, has this name.
    """
    known = await find_workspace(redis, settings, plan.run)
    if known is not None and known.kind != "experiment":
        raise ExperimentError(f"workspace {plan.run!r} is a {known.kind}: give the experiment another name")
    streams = streams_of(settings, plan.run)
    await agree_on_layout(redis, settings_of_workspace(settings, plan.run).layout)
    for stream in (streams.interactions, streams.metrics):
        await pin(redis, stream, EXPERIMENT_GROUP)
    written = await append_if_last(redis, streams.experiment, START, [Begun(plan=plan).encode()])
    if not written:
        stored = await read_plan(redis, streams)
        if stored is None:
            raise ExperimentError(
                f"the log of {plan.run!r} begins without a plan: remove it with ragtide replay workspaces remove "
                f"{plan.run}"
            )
        _check_same(plan, stored)
    await register_workspace(
        redis,
        settings,
        Workspace(
            run=plan.run,
            kind="experiment",
            source=plan.data,
            population_size=plan.population_size,
            options={"target": plan.target, **({} if file is None else {"file": str(file)})},
        ),
    )
    return written


def _check_same(plan: Plan, stored: Plan) -> None:
    # The data may be at another path: their digest is compared. A function may have another parameter than before.
    compared = [name for name in Plan.model_fields if name not in {"data", "target_parameters"}]
    differing = [name for name in compared if getattr(plan, name) != getattr(stored, name)]
    if differing:
        raise ExperimentError(
            f"there is an experiment {plan.run!r} with another {', '.join(differing)}: give the new experiment another "
            f"name, or remove the old one with ragtide replay workspaces remove {plan.run}"
        )


async def drive(
    settings: Settings,
    url: str,
    plan: Plan,
    items: list[Item],
    *,
    target: str | Callable[..., Any],
    measure: MeasureFunction | None,
    stop: asyncio.Event,
    folder: Path | None = None,
    roles: bool = True,
    beside: Sequence[Callable[[Redis], Awaitable[None]]] = (),
) -> None:
    """Drive an experiment that has begun, until it is complete or paused, or `stop` is set.

    Args:
        items: in the order in which they are run.
        target: function or endpoint that answers.
        measure: function for the experiment's own metrics.
        stop: set to end.
        folder: folder in which the target's module is looked for first.
        roles: whether this process also labels and aggregates; otherwise other processes must.
        beside: other tasks to run meanwhile, such as a table; cancelled at the end.

    Raises:
        ExperimentError: another process drives the experiment, or it cannot be run.
    """
    own = settings_of_experiment(settings, plan)
    streams = Streams(own.prefix, 0)

    async def driving(ownership: Ownership) -> None:
        async with target_of(target, folder=folder, concurrency=plan.concurrency) as answering:
            executions = ExecutionLog(redis, streams, dedupe_window_s=settings.dedupe_window_s)
            executor = Executor(executions, items, answering, measure)
            runner = RaceRunner(redis, streams, executor, check=ownership.check)
            ending = asyncio.Event()
            ended = [asyncio.create_task(runner.run(ending))]
            if roles:
                serving = asyncio.Event()
                of_roles = (work(own, url, serving, also=own_metrics(plan)), aggregate(own, url, serving))
                ended.append(asyncio.create_task(together(*of_roles, stop=serving)))
            cancelled: list[asyncio.Task[Any]] = [asyncio.create_task(ownership.stop.wait())]
            cancelled += [asyncio.ensure_future(task(redis)) for task in beside]
            try:
                await asyncio.wait({*ended, *cancelled}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ending.set()
                if roles:
                    serving.set()
                await executor.close()
                await asyncio.wait(ended)
                for task in cancelled:
                    await end(task)
            for task in (*ended, *cancelled):
                if not task.cancelled():
                    task.result()

    refusal = ExperimentError(
        f"another process drives {plan.run!r}: show its leaderboard with ragtide experiment show {plan.run}, or stop "
        "that process first"
    )
    async with connect_async(url) as redis:
        lease = Lease(redis, streams, holder=process_name(), lease_s=settings.lease_s, role="driver")
        await PartitionOwner(redis, [lease], driving, telemetry=OwnerTelemetry("driver", 1), refusal=refusal).run(stop)
