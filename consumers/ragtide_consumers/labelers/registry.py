"""Which labeler the settings mean, built with all it needs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from inspect import isawaitable
from typing import Final

import structlog
from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import Health
from ragtide_runtime.telemetry.instruments import JudgeInstruments
from ragtide_schemas import RagInteraction

from .custom_metrics import CustomMetric, WithMetrics
from .local.labeler import LocalLabeler
from .outage import Outage
from .plugins import custom_labeler, custom_metrics, installed_labelers
from .protocol import Labeler, Labeling

CLOSE_S: Final = 10.0
"""Seconds that closing a labeler may take."""

log = structlog.get_logger("ragtide.worker")

BUILT_IN: Final = ("local", "judge", "cascade")
"""Labelers that come with ragtide."""


class Bounded:
    """A labeler of the user's own that may not take for ever."""

    def __init__(self, labeler: Labeler, timeout_s: float) -> None:
        self._labeler = labeler
        self._timeout_s = timeout_s
        self.name, self.version, self.profile = labeler.name, labeler.version, labeler.profile

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return its scores.

        Raises:
            TimeoutError: it took too long.
        """
        async with asyncio.timeout(self._timeout_s):
            return await self._labeler.label(interaction)

    async def aclose(self) -> None:
        """Close the labeler if it can be closed."""
        close = getattr(self._labeler, "aclose", None)
        closing = None if close is None else close()
        if isawaitable(closing):
            await closing


@asynccontextmanager
async def labeler_of(
    settings: Settings,
    redis: Redis | None,
    *,
    patient: bool = True,
    instruments: JudgeInstruments | None = None,
    health: Health | None = None,
    also: Sequence[CustomMetric] = (),
) -> AsyncIterator[Labeler]:
    """Give the labeler that the settings name, with the user's own metrics, and close it in the end.

    Args:
        settings: name it and hold what it needs.
        redis: where a judge's cache and spend limit are shared; without one they are this process's own.
        patient: whether a cascade may wait for its judge, as in a worker.
        instruments: count what a judge is asked.
        health: says whether the judge of a cascade can be asked, because its worker goes on without it.
        also: metrics besides those that the settings name.

    Raises:
        ConfigurationError: there is none of that name, or what it needs is missing.
    """
    metrics = [*custom_metrics(settings), *also]
    labeler = _built(settings, redis, patient=patient, instruments=instruments)
    outage = getattr(labeler, "outage", None)
    watched = health.reporting("judge", outage) if health and isinstance(outage, Outage) else nullcontext()
    try:
        with watched:
            yield WithMetrics(labeler, metrics) if metrics else labeler
    finally:
        await _close(labeler)


def _built(settings: Settings, redis: Redis | None, *, patient: bool, instruments: JudgeInstruments | None) -> Labeler:
    if settings.labeler not in BUILT_IN:
        return _own(settings)
    if settings.labeler == "local":
        return LocalLabeler()
    # Late, because the judge's client alone takes longer to import than most commands run.
    from .judge.build import judge_of  # noqa: PLC0415

    return judge_of(settings, redis, patient=patient, instruments=instruments)


async def _close(labeler: Labeler) -> None:
    """Close a labeler that has something to close; a failure of that is logged and stops nothing."""
    close = getattr(labeler, "aclose", None)
    if close is None:
        return
    try:
        async with asyncio.timeout(CLOSE_S):
            closing = close()
            if isawaitable(closing):
                await closing
    except Exception as error:  # noqa: BLE001 - a labeler may be a user's code: its error must not stop the rest
        log.warning("closing the labeler failed", labeler=labeler.name, error=f"{type(error).__name__}: {error}")


def _own(settings: Settings) -> Labeler:
    labeler = custom_labeler(settings.labeler, settings)
    if labeler is None:
        names = ", ".join([*BUILT_IN, *installed_labelers()])
        raise ConfigurationError(
            f"labeler is {settings.labeler!r}, which is unknown: set RAGTIDE_LABELER to {names}, or to module:attribute"
        )
    return Bounded(labeler, settings.label_timeout_s)
