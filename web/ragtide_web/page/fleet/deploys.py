"""Deploy marks: the newest version of each pipeline, and when its first value came. Read at most once a minute."""

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from ragtide_aggregator.errors import DamagedFieldError
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.settings.model import Settings

SEGMENT: Final = "version"
"""Name of the segment whose changes are deployments."""
KEPT_S: Final = 60.0
"""Seconds for which the marks are used again."""


class Deploy(NamedTuple):
    """The newest version of a pipeline."""

    version: str
    at: datetime
    """Start of the pane of the history with its first value."""


def last_deploy(first_values: Mapping[str, datetime]) -> Deploy | None:
    """Return the newest version; None unless another version was there before.

    Args:
        first_values: start of the first pane of each version.
    """
    version, at = max(first_values.items(), key=lambda one: (one[1], one[0]), default=("", None))
    if at is None or not any(other < at for other in first_values.values()):
        return None
    return Deploy(version, at)


class Deploys:
    """The deploy marks of all pipelines; none unless `history.segments` names `version`.

    Args:
        deployment: read model.
        settings: of the deployment.
        clock: monotonic seconds.
    """

    def __init__(self, deployment: Deployment, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._deployment = deployment
        self._kept = settings.history.enabled and SEGMENT in settings.history.segments
        self._clock = clock
        self._reading = asyncio.Lock()
        self._until = float("-inf")
        self._known: Mapping[str, Deploy] = {}

    async def read(self) -> Mapping[str, Deploy]:
        """Return the marks by pipeline."""
        if not self._kept:
            return {}
        async with self._reading:
            if self._clock() >= self._until:
                try:
                    found = await self._deployment.first_values(SEGMENT)
                except DamagedFieldError:  # the screen of the pipeline tells it
                    found = {}
                marks = ((pipeline, last_deploy(of)) for pipeline, of in found.items())
                self._known = {pipeline: mark for pipeline, mark in marks if mark is not None}
                self._until = self._clock() + KEPT_S
            return self._known
