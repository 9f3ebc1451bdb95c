"""Starts the roles of a process: label worker, aggregator, recorder and notifier, alone or together."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext, suppress
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog
from redis import RedisError
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.ownership.ownership import process_name
from ragtide_runtime.processes.waiting import Backoff, sleep_or_stop
from ragtide_runtime.redis.client import CONNECTIONS, connect_async
from ragtide_runtime.redis.eviction import check_eviction
from ragtide_runtime.redis.failures import explained, is_misconfigured
from ragtide_runtime.redis.keys import workspace_of
from ragtide_runtime.redis.layout import agree_on_layout
from ragtide_runtime.redis.url import check_answers
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.watch import AGGREGATION, OUTCOMES, Outcome, SettingsWatch
from ragtide_runtime.settings_reports import WRITE_S, remove_report, report_of, write_report
from ragtide_runtime.stored_criteria import read_stored_criteria, with_stored_criteria
from ragtide_runtime.telemetry.catalogue import RULES_READ
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_runtime.telemetry.logs import say_role
from ragtide_runtime.telemetry.outages import Outage

from .rule_checks import check_rules, known_metrics, rule_findings
from .running import together
from .sentinels import ask_sentinels, asks_sentinels

if TYPE_CHECKING:
    from ragtide_consumers.metrics.custom import CustomMetric
    from ragtide_consumers.recorder.service import Prepared


# The modules of a single role are imported when that role runs: a worker needs no SciPy, an aggregator no FastStream.

log = structlog.get_logger("ragtide")

T = TypeVar("T")

REPORT_S: Final = 1.0
"""Seconds between two checks whether the report of settings has changed."""


async def serve(
    settings: Settings,
    url: str,
    stop: asyncio.Event,
    *,
    worker: bool,
    aggregator: bool,
    recorder: bool = False,
    notifier: bool = False,
    others: Mapping[str, Callable[[Settings, SettingsWatch | None], Coroutine[Any, Any, None]]] = MappingProxyType({}),
    process: ProcessTelemetry,
    warn: bool = True,
) -> None:
    """Wait for Redis, check that this process fits the deployment, then run its roles until stopped.

    Args:
        settings: of the process.
        url: of Redis.
        stop: ends the roles.
        worker: whether to label interactions.
        aggregator: whether to aggregate metric events.
        recorder: whether to record the streams.
        notifier: whether to send alerts to destinations.
        others: roles that other packages define, by name; each gets the settings, and the watch of the alert rules.
        process: health and metrics.
        warn: whether to warn of settings and of Redis; another process of the same command does otherwise.

    Raises:
        ConfigurationError: the deployment has another number of partitions, or only Redis names the labeler of the
            workspace.
        RedisUnavailable: a wrong setting, such as the password, so waiting would not help.
    """
    ready = await _when_redis_answers(
        lambda: _prepare(settings, url, stop, worker=worker, recorder=recorder, warn=warn), stop
    )
    if ready is None:
        return
    settings, also, prepared = ready
    # The rules of a workspace are in Redis, and stay as they are.
    names = {"worker": worker, "aggregator": aggregator, "recorder": recorder, "notify": notifier}
    running = {name for name, runs in names.items() if runs} | set(others)
    rules = None
    if workspace_of(settings.prefix) is None:
        rules = SettingsWatch(
            settings,
            roles=running,
            check=lambda changed: check_rules(changed.alerts, known_metrics(changed)),
            count=rules_counter(process),
        )
    roles = [work(settings, url, stop, process, also=also, rules=rules)] if worker else []
    roles += [ask_sentinels(settings, url, stop, process)] if worker and asks_sentinels(settings) else []
    roles += [aggregate(settings, url, stop, process, rules=rules)] if aggregator else []
    roles += [rules.run(stop), report_settings(rules, settings.prefix, url, stop)] if rules is not None else []
    roles += [record(settings, url, stop, process, prepared)] if prepared else []
    roles += [notify(settings, url, stop, process, rules)] if notifier else []
    roles += [other(settings, rules) for other in others.values()]
    await together(*roles, stop=stop)


async def _prepare(
    settings: Settings, url: str, stop: asyncio.Event, *, worker: bool, recorder: bool, warn: bool
) -> tuple[Settings, Sequence["CustomMetric"], "Prepared | None"]:
    """Return the settings and the further metrics of the roles, and what the recorder needs."""
    await asyncio.to_thread(check_answers, url)
    async with connect_async(url) as redis:
        await agree_on_layout(redis, settings.layout)
        if warn:
            await check_eviction(redis)
        own = settings
        also: Sequence[CustomMetric] = ()
        if (workspace := workspace_of(settings.prefix)) is not None:
            from .workspaces import check_labeler, join_experiment, wait_for_workspace  # noqa: PLC0415 - see above

            await wait_for_workspace(redis, settings, stop)
            own, also = await join_experiment(redis, settings)
            if worker:
                check_labeler(own.labeler, settings, workspace)
        if warn:
            await _warn_of_rules(own, redis)
        prepared = None
        if recorder:
            from ragtide_consumers.recorder.service import prepare_recorder  # noqa: PLC0415 - see above

            prepared = await prepare_recorder(own, redis)
    return own, also, prepared


async def _when_redis_answers(prepare: Callable[[], Awaitable[T]], stop: asyncio.Event) -> T | None:
    """Return the result of a preparation, which is tried again while Redis is away; None if stopped.

    A role that starts waits for Redis as a running role does. A wrong setting ends it at once.
    """
    attempt, backoff = Outage("Redis").attempt("starting"), Backoff()
    while not stop.is_set():
        try:
            ready = await prepare()
        except RedisUnavailable as error:
            if not error.may_recover:
                raise
            attempt.failed(error)
        except RedisError as error:
            if is_misconfigured(error):
                raise RedisUnavailable(explained(error)) from error
            attempt.failed(error)
        else:
            attempt.succeeded()
            return ready
        await sleep_or_stop(stop, backoff.pause_s())
    return None


async def report_settings(watch: SettingsWatch, prefix: str, url: str, stop: asyncio.Event) -> None:
    """Report which settings this process has in force, until stopped: at each change, and every few seconds.

    The roles log that Redis does not answer. Only a report that Redis refuses is logged here.
    """
    attempt, name, written, written_at = Outage("Redis").attempt("reporting settings"), process_name(), None, 0.0
    async with connect_async(url) as redis:
        while not stop.is_set():
            report = report_of(watch, name)
            if report != written or monotonic() - written_at >= WRITE_S:
                try:
                    await write_report(redis, prefix, report)
                except NoPermissionError as error:
                    attempt.failed(error)
                except (RedisError, OSError, TimeoutError):
                    pass
                else:
                    attempt.succeeded()
                    written, written_at = report, monotonic()
            await sleep_or_stop(stop, REPORT_S)
        with suppress(RedisError, OSError, TimeoutError):
            await remove_report(redis, prefix, name)


async def _warn_of_rules(settings: Settings, redis: Redis) -> None:
    # A workspace asks the criteria of its settings only.
    if workspace_of(settings.prefix) is None:
        settings = with_stored_criteria(settings, await read_stored_criteria(redis, settings.prefix))
    for finding in rule_findings(settings.alerts, settings):
        if finding.level == "warning":
            log.warning("an alert rule never fires", rule=finding.rule, detail=finding.message)


async def work(
    settings: Settings,
    url: str,
    stop: asyncio.Event,
    process: ProcessTelemetry | None = None,
    *,
    also: Sequence["CustomMetric"] = (),
    rules: SettingsWatch | None = None,
) -> None:
    """Label interactions until stopped; `also` has metrics besides those that the settings name."""
    from ragtide_consumers.labelers.registry import replaceable_labeler_of  # noqa: PLC0415
    from ragtide_consumers.labelers.remote.telemetry import LabelerTelemetry  # noqa: PLC0415
    from ragtide_consumers.worker.app import run_workers  # noqa: PLC0415
    from ragtide_consumers.worker.telemetry import WorkerTelemetry  # noqa: PLC0415 - see above

    say_role("worker")
    gc.freeze()  # with hundreds of calls in flight nearly all objects are alive
    process = process or ProcessTelemetry()
    redis = connect_async(url)
    try:
        worker, remote = WorkerTelemetry(process), LabelerTelemetry(process)
        async with replaceable_labeler_of(
            settings, redis, telemetry=remote, also=also, count=worker.replaced
        ) as labeler:
            await run_workers(settings, url, labeler, stop, telemetry=worker, rules=rules)
    finally:
        await redis.aclose()


async def record(
    settings: Settings, url: str, stop: asyncio.Event, process: ProcessTelemetry, prepared: "Prepared"
) -> None:
    """Archive the entries of the streams until stopped."""
    from ragtide_consumers.recorder.service import run_recorder  # noqa: PLC0415 - see above

    say_role("recorder")
    await run_recorder(settings, url, stop, process, prepared)


async def notify(
    settings: Settings,
    url: str,
    stop: asyncio.Event,
    process: ProcessTelemetry,
    rules: SettingsWatch | None = None,
) -> None:
    """Send alerts to destinations until stopped."""
    from ragtide_consumers.notify.service import run_notifier  # noqa: PLC0415 - see above

    say_role("notify")
    await run_notifier(settings, url, stop, process, rules)


async def aggregate(
    settings: Settings,
    url: str,
    stop: asyncio.Event,
    process: ProcessTelemetry | None = None,
    *,
    rules: SettingsWatch | None = None,
) -> None:
    """Aggregate every partition until stopped."""
    from ragtide_aggregator.service.aggregator import Aggregator  # noqa: PLC0415
    from ragtide_aggregator.service.telemetry import AggregatorTelemetry  # noqa: PLC0415

    say_role("aggregator")
    process = process or ProcessTelemetry()
    check_rules(settings.alerts, known_metrics(settings))
    telemetry = AggregatorTelemetry(settings.partitions, process)
    async with connect_async(url, connections=CONNECTIONS + settings.partitions) as redis:
        service = Aggregator(redis, settings, holder=process_name(), telemetry=telemetry)
        with nullcontext() if rules is None else rules.giving(service.take, AGGREGATION):
            await service.run(stop)


def rules_counter(process: ProcessTelemetry) -> Callable[[Outcome], None]:
    """Return a function that counts a reading by its outcome; every outcome is there from the start."""
    counter = RULES_READ.counter(process.registry)
    by_outcome = {outcome: counter.labels(outcome) for outcome in OUTCOMES}
    return lambda outcome: by_outcome[outcome].inc()
