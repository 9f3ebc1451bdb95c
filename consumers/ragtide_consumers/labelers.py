"""Which labeler the settings mean, built with all it needs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.instruments import JudgeInstruments
from ragtide_runtime.settings import Settings
from ragtide_schemas import RagInteraction

from .labeler import Labeler, Labeling
from .local.labeler import LocalLabeler
from .metrics.custom import CustomMetric, WithMetrics
from .plugins import custom_labeler, custom_metrics, installed_labelers

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


@asynccontextmanager
async def labeler_of(
    settings: Settings,
    redis: Redis | None,
    *,
    patient: bool = True,
    instruments: JudgeInstruments | None = None,
    also: Sequence[CustomMetric] = (),
) -> AsyncIterator[Labeler]:
    """Give the labeler that the settings name, with the user's own metrics, and close it in the end.

    Args:
        settings: name it and hold what it needs.
        redis: where a judge's cache and spend limit are shared; without one they are this process's own.
        patient: whether a judge that cannot be asked is waited for, as in a worker, or raises.
        instruments: count what a judge is asked.
        also: metrics besides those that the settings name.

    Raises:
        ConfigurationError: there is none of that name, or what it needs is missing.
    """
    metrics = [*custom_metrics(settings), *also]

    def measured(labeler: Labeler) -> Labeler:
        return WithMetrics(labeler, metrics) if metrics else labeler

    if settings.labeler not in BUILT_IN:
        yield measured(_own(settings))
    elif settings.labeler == "local":
        yield measured(LocalLabeler())
    else:
        # Late, because the judge's client alone takes longer to import than most commands run.
        from .judge.build import judge_of  # noqa: PLC0415

        labeler, client = judge_of(settings, redis, patient=patient, instruments=instruments)
        try:
            yield measured(labeler)
        finally:
            await client.aclose()


def _own(settings: Settings) -> Labeler:
    labeler = custom_labeler(settings.labeler, settings)
    if labeler is None:
        names = ", ".join([*BUILT_IN, *installed_labelers()])
        raise ConfigurationError(
            f"labeler is {settings.labeler!r}, which is unknown: set RAGTIDE_LABELER to {names}, or to module:attribute"
        )
    return Bounded(labeler, settings.label_timeout_s)
