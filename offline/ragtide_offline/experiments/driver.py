"""Driving an experiment in one process: beginning it, executing it, judging it, and the roles it needs."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
from redis import RedisError, ResponseError
from redis.asyncio import Redis
from redis.asyncio.lock import Lock
from redis.exceptions import LockError

from ragtide_consumers.labelers.experiment_metrics import own_metrics
from ragtide_producers.files.items import Item
from ragtide_roles.experiment_workers import settings_of_experiment
from ragtide_roles.running import together
from ragtide_roles.serving import aggregate, work
from ragtide_runtime.cancellation import end
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.deployment import agree_on_layout
from ragtide_runtime.redis.keys import EXPERIMENT_GROUP, Streams
from ragtide_runtime.redis.log import START
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.outages import redis_outage
from ragtide_runtime.workspaces import find_workspace, register_workspace, settings_of_workspace
from ragtide_schemas import Workspace
from ragtide_schemas.experiments import Begun, Plan

from .errors import ExperimentError
from .executor import Executor
from .measuring import Measure
from .racer import APPEND_SCRIPT, Racer
from .reader import ExperimentReader
from .targets import target_of

POLL_S = 0.2
"""Most seconds between two looks whether it is over."""

log = structlog.get_logger("ragtide.experiment")


def streams_of(settings: Settings, run: str) -> Streams:
    """Return the keys of a run."""
    return Streams(settings_of_workspace(settings, run).prefix, 0)


async def begin(redis: Redis, settings: Settings, plan: Plan, *, file: Path | None = None) -> bool:
    """Write the beginning of an experiment, if it has not begun, and return whether it was written now.

    Raises:
        ExperimentError: a run of this name is something else, or an experiment with another plan.
    """
    known = await find_workspace(redis, settings, plan.run)
    if known is not None and known.kind != "experiment":
        raise ExperimentError(f"run {plan.run!r} is a {known.kind}: give the experiment another name")
    streams = streams_of(settings, plan.run)
    await agree_on_layout(redis, settings_of_workspace(settings, plan.run).layout)
    for stream in (streams.interactions, streams.metrics):
        try:
            await redis.xgroup_create(stream, EXPERIMENT_GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
    written = await redis.register_script(APPEND_SCRIPT)(
        keys=[streams.experiment], args=[START, Begun(plan=plan).encode()]
    )
    if not written:
        reader = ExperimentReader(redis, streams)
        await reader.read()
        _check_same(plan, reader.progress.plan)
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
    return bool(written)


def _check_same(plan: Plan, stored: Plan) -> None:
    # Where the data come from may be said in another way: their digest says whether they are the same. A function may
    # get another parameter meanwhile, and an older release did not write which ones it has.
    compared = [name for name in Plan.model_fields if name not in {"data", "parameters"}]
    differing = [name for name in compared if getattr(plan, name) != getattr(stored, name)]
    if differing:
        raise ExperimentError(
            f"there is an experiment {plan.run!r} with another {', '.join(differing)}: give this one another name, or "
            f"remove that one with ragtide workspaces remove {plan.run}"
        )


async def drive(
    settings: Settings,
    url: str,
    plan: Plan,
    items: list[Item],
    *,
    target: str | Callable[..., Any],
    measure: Measure | None,
    stop: asyncio.Event,
    folder: Path | None = None,
    roles: bool = True,
    beside: Sequence[Callable[[Redis], Awaitable[None]]] = (),
) -> None:
    """Execute and judge an experiment that has begun, until it is complete, halted, or told to stop.

    Args:
        settings: of the deployment.
        url: of its Redis.
        plan: of the experiment.
        items: in the order in which they are run.
        target: what answers.
        measure: the experiment's own metrics.
        stop: set to end.
        folder: where the target's module is looked for first.
        roles: whether this process also labels and aggregates; if not, others do.
        beside: what else to run meanwhile, such as a table; ended with the rest.

    Raises:
        ExperimentError: another process drives it, or it cannot be run.
    """
    own = settings_of_experiment(settings, plan)
    streams = Streams(own.prefix, 0)
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(connect_async(url))
        await stack.enter_async_context(_alone(redis, streams, plan.run, settings.lease_s))
        answering = await stack.enter_async_context(target_of(target, folder=folder, concurrency=plan.concurrency))
        racer = Racer(redis, streams)
        executor = Executor(redis, streams, items, answering, measure=measure, dedupe_window_s=settings.dedupe_window_s)
        ending = asyncio.Event()
        executing = asyncio.create_task(executor.run(ending))
        judging = asyncio.create_task(racer.run(ending))
        others = [asyncio.ensure_future(one(redis)) for one in beside]
        if roles:
            ended = asyncio.Event()
            serving = (work(own, url, ended, also=own_metrics(plan)), aggregate(own, url, ended))
            others.append(asyncio.create_task(together(*serving, stop=ended)))
        try:
            while not (stop.is_set() or any(task.done() for task in others)):
                if executing.done() and (executing.exception() or judging.done() or _settled(racer)):
                    break
                if judging.done() and judging.exception():
                    break
                await asyncio.wait({executing, judging, *others}, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.set()
            if roles:
                ended.set()
            await asyncio.wait({executing, judging, *others[len(beside) :]})
            for task in others[: len(beside)]:
                await end(task)
        for task in (executing, judging, *others):
            if not task.cancelled():
                task.result()


def _settled(racer: Racer) -> bool:
    """Return whether everything that was executed of a halted experiment is judged as far as it can be."""
    return (
        racer.reader.begun
        and bool(racer.reader.progress.halted)
        and all(
            cell.execution is None or cell.outcome != "waiting"
            for cells in racer.reader.book.cells.values()
            for cell in cells.values()
        )
    )


@asynccontextmanager
async def _alone(redis: Redis, streams: Streams, run: str, lease_s: float) -> AsyncIterator[None]:
    """Hold the lock of who drives an experiment for the body of an `async with`; that of a dead one is waited for.

    Raises:
        ExperimentError: another process holds it.
    """
    # A driver that lives prolongs its lock all the time; that of a dead one runs out.
    lock = Lock(redis, streams.driver, timeout=lease_s, blocking_timeout=1.2 * lease_s, thread_local=False)
    if not await lock.acquire(token=f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}"):
        raise ExperimentError(
            f"another process drives {run!r}: look at it with ragtide experiment show {run}, or stop that process first"
        )
    holding = asyncio.create_task(_hold(lock, lease_s))
    try:
        yield
    finally:
        await end(holding)
        try:
            await lock.release()
        except (LockError, RedisError):
            log.info("the lock of the experiment was lost", run=run)


async def _hold(lock: Lock, lease_s: float) -> None:
    outage = redis_outage(lock.redis).attempt("keeping the lock of the experiment")
    while True:
        await asyncio.sleep(lease_s / 3)
        try:
            await lock.reacquire()
        except LockError:
            # Lost while Redis or this process stood still. Results stay exact: the ledger takes each answer once.
            await lock.acquire(blocking=False)
        except RedisError as error:
            outage.failed(error)
        else:
            outage.succeeded()
