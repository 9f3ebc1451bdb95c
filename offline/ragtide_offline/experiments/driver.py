"""The driver of an experiment: the one process that begins it, calls its target, and runs its race and roles."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from ragtide_consumers.labelers.with_metrics import own_metrics
from ragtide_producers.files.items import Item
from ragtide_roles.running import together
from ragtide_roles.serving import aggregate, work
from ragtide_roles.workspaces import read_plan, settings_of_experiment
from ragtide_runtime.ownership.owner import PartitionOwner
from ragtide_runtime.ownership.ownership import Lease, Ownership, process_name
from ragtide_runtime.ownership.telemetry import OwnerTelemetry
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import EXPERIMENT_GROUP, Streams
from ragtide_runtime.redis.layout import agree_on_layout
from ragtide_runtime.redis.log import append_if_last, pin
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import find_workspace, register_workspace, settings_of_workspace
from ragtide_schemas import Workspace
from ragtide_schemas.experiments import Begun, Plan

from .errors import ExperimentError
from .execution_log import ExecutionLog
from .executor import Executor
from .measuring import MeasureFunction
from .race_runner import RaceRunner
from .reader import streams_of
from .targets import target_of


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
                f"the log of {plan.run!r} begins without a plan: remove it with ragtide workspaces remove {plan.run}"
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
            f"name, or remove the old one with ragtide workspaces remove {plan.run}"
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
        settings: of the deployment.
        url: of its Redis.
        plan: of the experiment.
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
            cancelled += [asyncio.ensure_future(one(redis)) for one in beside]
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
