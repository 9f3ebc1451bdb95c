"""Roles as coroutines: label workers, aggregators and recorders, alone or together in one process."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from ragtide_aggregator.housekeeping import Caps
from ragtide_aggregator.observer import Observer
from ragtide_aggregator.ownership import ServiceOptions
from ragtide_aggregator.service import Aggregator
from ragtide_aggregator.stalls import StallLimits
from ragtide_consumers.app import run_workers
from ragtide_consumers.labelers import labeler_of
from ragtide_consumers.metrics.custom import CustomMetric
from ragtide_consumers.plugins import custom_metrics
from ragtide_consumers.recorder.service import run_recorder
from ragtide_runtime.connection import CONNECTIONS, connect_async
from ragtide_runtime.deployment import agree_on_layout
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.garbage import collect_rarely
from ragtide_runtime.instruments import AggregatorInstruments, JudgeInstruments, WorkerInstruments
from ragtide_runtime.observed import Observed
from ragtide_runtime.settings import Settings
from ragtide_runtime.tasks import end

from .experiments.joining import taking_part
from .kept import state_options


async def serve(
    settings: Settings,
    url: str,
    stop: asyncio.Event,
    *,
    worker: bool,
    aggregator: bool,
    recorder: bool = False,
    observed: Observed,
) -> None:
    """Run the roles of a process until told to stop, once it is clear that they belong to the deployment.

    Raises:
        ConfigurationError: the deployment has another number of partitions.
    """
    async with connect_async(url) as redis:
        await agree_on_layout(redis, settings.layout)
        settings, also = await taking_part(redis, settings)
    roles = [work(settings, url, stop, observed, also=also)] if worker else []
    roles += [aggregate(settings, url, stop, observed)] if aggregator else []
    roles += [run_recorder(settings, url, stop, observed)] if recorder else []
    await together(*roles, stop=stop)


async def work(
    settings: Settings,
    url: str,
    stop: asyncio.Event,
    observed: Observed | None = None,
    *,
    also: Sequence[CustomMetric] = (),
) -> None:
    """Label interactions until told to stop; `also` has metrics besides those that the settings name."""
    collect_rarely()
    observed = observed or Observed()
    redis = connect_async(url)
    try:
        judged = JudgeInstruments(observed.registry)
        async with labeler_of(settings, redis, instruments=judged, also=also) as labeler:
            counted = WorkerInstruments(observed.registry)
            await run_workers(settings, url, labeler, stop, instruments=counted, health=observed.health)
    finally:
        await redis.aclose()


async def aggregate(settings: Settings, url: str, stop: asyncio.Event, observed: Observed | None = None) -> None:
    """Aggregate every partition until told to stop."""
    observed = observed or Observed()
    custom_metrics(settings)  # whose ranges it must know
    for rule in settings.alerts:
        try:
            rule.check_reachable()
        except ValueError as error:
            raise ConfigurationError(f"alert rule {rule.name}: {error}") from None
    redis = connect_async(url, connections=CONNECTIONS + settings.partitions)
    options = ServiceOptions(
        batch=settings.aggregator_batch,
        commit_interval_s=settings.commit_interval_s,
        lease_s=settings.lease_s,
        estimates_cap=settings.estimates_cap,
        confidence=settings.confidence,
        state=state_options(settings),
        feedback_window_s=settings.feedback_window_s,
        split=bool(settings.splits),
        caps=Caps(
            metrics_keep=settings.events_keep,
            interactions=settings.interactions_cap,
            alerts=settings.alert_cap,
            dead_letters=settings.dead_letters_cap,
        ),
        stalls=StallLimits(settings.stall.labeling_s, settings.stall.traffic_s, settings.stall.quiet_s),
    )
    holder = f"{socket.gethostname()}-{os.getpid()}"
    observer = Observer(AggregatorInstruments(observed.registry), observed.health)
    try:
        with observer.watched():
            await Aggregator(redis, settings.layout, options, holder=holder, observer=observer).run(stop)
    finally:
        await redis.aclose()


@contextmanager
def on_signal(action: Callable[[], object]) -> Iterator[None]:
    """Do something at the first SIGTERM or SIGINT; a second signal ends the process at once."""
    loop = asyncio.get_running_loop()

    def act(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        action()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, act, number)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def until_signal(*roles: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Run roles together until SIGTERM or SIGINT, and let them stop properly."""
    with on_signal(stop.set):
        await together(*roles, stop=stop)


async def cancelled_by_signal(endless: Coroutine[Any, Any, None]) -> None:
    """Run something that has no end of its own until SIGTERM or SIGINT."""
    task, stop = asyncio.ensure_future(endless), asyncio.Event()
    task.add_done_callback(lambda _: stop.set())
    with on_signal(stop.set):
        await stop.wait()
    if task.done():
        task.result()
    await end(task)


async def together(*roles: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Run roles until all have ended. When one fails the others are stopped properly and its error is raised."""
    tasks = [asyncio.create_task(role) for role in roles]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        stop.set()
        await asyncio.wait(tasks)
    for task in tasks:
        task.result()


@asynccontextmanager
async def in_background(*roles: Coroutine[Any, Any, None], stop: asyncio.Event) -> AsyncIterator[None]:
    """Run roles beside the body of an `async with`, and stop them at its end."""
    running = asyncio.create_task(together(*roles, stop=stop))
    try:
        yield
    finally:
        stop.set()
        await running
