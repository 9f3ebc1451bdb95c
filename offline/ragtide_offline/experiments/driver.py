"""Driving an experiment in one process: beginning it, executing it, judging it, and the roles it needs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from ragtide_consumers.labelers.experiment_metrics import own_metrics
from ragtide_producers.files.items import Item
from ragtide_roles.experiment_workers import settings_of_experiment
from ragtide_roles.running import together
from ragtide_roles.serving import aggregate, work
from ragtide_runtime.cancellation import end
from ragtide_runtime.ownership.lease import Lease, process_name
from ragtide_runtime.ownership.owner import PartitionOwner
from ragtide_runtime.ownership.ownership import Ownership
from ragtide_runtime.ownership.telemetry import OwnerTelemetry
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.deployment import agree_on_layout
from ragtide_runtime.redis.keys import EXPERIMENT_GROUP, Streams
from ragtide_runtime.redis.log import START, append_if_last, pin
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import find_workspace, register_workspace, settings_of_workspace
from ragtide_schemas import Workspace
from ragtide_schemas.experiments import Begun, Plan

from .errors import ExperimentError
from .executor import Executor
from .measuring import Measure
from .racer import Racer
from .reader import ExperimentReader
from .targets import target_of

POLL_S = 0.2
"""Most seconds between two looks whether it is over."""


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
        await pin(redis, stream, EXPERIMENT_GROUP)
    written = await append_if_last(redis, streams.experiment, START, [Begun(plan=plan).encode()])
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
    return written


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

    async def driving(ownership: Ownership) -> None:
        async with AsyncExitStack() as stack:
            answering = await stack.enter_async_context(target_of(target, folder=folder, concurrency=plan.concurrency))
            racer = Racer(redis, streams)
            executor = Executor(
                redis, streams, items, answering, measure=measure, dedupe_window_s=settings.dedupe_window_s
            )
            ending = asyncio.Event()
            executing = asyncio.create_task(executor.run(ending))
            judging = asyncio.create_task(racer.run(ending))
            others = [asyncio.ensure_future(one(redis)) for one in beside]
            if roles:
                ended = asyncio.Event()
                serving = (work(own, url, ended, also=own_metrics(plan)), aggregate(own, url, ended))
                others.append(asyncio.create_task(together(*serving, stop=ended)))
            tasks = {executing, judging, *others}
            try:
                while not (ownership.stop.is_set() or _over(racer, executing, judging, others)):
                    ownership.check()
                    await asyncio.wait(tasks, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
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

    refusal = ExperimentError(
        f"another process drives {plan.run!r}: look at it with ragtide experiment show {plan.run}, or stop that "
        "process first"
    )
    async with connect_async(url) as redis:
        lease = Lease(redis, streams, holder=process_name(), lease_s=settings.lease_s, role="driver")
        await PartitionOwner(redis, [lease], driving, telemetry=OwnerTelemetry("driver", 1), refusal=refusal).run(stop)


def _over(
    racer: Racer, executing: asyncio.Task[None], judging: asyncio.Task[None], others: Sequence[asyncio.Future[None]]
) -> bool:
    """Return whether the experiment is over, or a task has failed."""
    if any(task.done() for task in others) or (judging.done() and judging.exception()):
        return True
    return executing.done() and bool(executing.exception() or judging.done() or _settled(racer))


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
