"""The check before a command makes anything: a mistake that shows only when roles start must leave nothing behind."""

import asyncio
import signal
from collections.abc import Collection
from multiprocessing.connection import Connection
from typing import Final

from ragtide_runtime.errors import ConfigurationError, RagtideError
from ragtide_runtime.processes.children import spawned, spawning
from ragtide_runtime.processes.waiting import blocking
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.settings.model import Settings

from .rule_checks import check_rules, known_metrics
from .sentinels import asks_sentinels, read_sentinels
from .supervising import process_context

NOT_ASKED: Final = "redis://localhost:0"
"""URL of a Redis to which nothing connects while labelers are built."""


def check_start(settings: Settings, roles: Collection[str], *, apart: bool = False) -> None:
    """Build all that roles need, without Redis, and close it again.

    Args:
        settings: of the process.
        roles: names of the roles.
        apart: whether another process does so, because this one forks, and code of users may start threads.

    Raises:
        ConfigurationError: a labeler, a metric, a function, a rule or a file cannot be used.
    """
    if not apart:
        blocking(_build(settings, roles))
        return
    context = process_context()
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(settings, roles, writer), daemon=True)  # type: ignore[attr-defined]
    with spawning():
        process.start()
    writer.close()
    try:
        mistake = reader.recv()
    except EOFError:
        process.join()
        mistake = f"the roles cannot be built (exit code {process.exitcode}): correct what the lines above name"
    if mistake:
        raise ConfigurationError(mistake)
    process.join()


def _report(settings: Settings, roles: Collection[str], writer: Connection) -> None:
    spawned()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    try:
        asyncio.run(_build(settings, roles))
    except RagtideError as error:
        writer.send(str(error))
    else:
        writer.send("")


async def _build(settings: Settings, roles: Collection[str]) -> None:
    check_rules(settings.alerts, known_metrics(settings))
    if "worker" in roles:
        from ragtide_consumers.labelers.registry import labeler_of  # noqa: PLC0415 - as in `serving`
        from ragtide_consumers.specimens.keeping import SpecimenKeeper  # noqa: PLC0415
        from ragtide_consumers.worker.result_export import exporting_results  # noqa: PLC0415
        from ragtide_consumers.worker.telemetry import WorkerTelemetry  # noqa: PLC0415

        SpecimenKeeper.of(settings, lambda _: None)
        if asks_sentinels(settings):
            read_sentinels(settings)
        async with (
            connect_async(NOT_ASKED) as redis,
            labeler_of(settings, redis),
            exporting_results(settings.otel, WorkerTelemetry()),
        ):
            pass
    if "recorder" in roles:
        from ragtide_consumers.recorder.service import open_recorder  # noqa: PLC0415

        open_recorder(settings)
