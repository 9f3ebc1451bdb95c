"""Reads the newest version of each pipeline, by the history of the segment `version`."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import Settings

from ..errors import DamagedFieldError
from ..events.keys import VERSION
from .history import HistoryReader

KEPT_S: Final = 60.0
"""Seconds for which what was read is used again."""


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
    version, at = max(first_values.items(), key=lambda item: (item[1], item[0]), default=("", None))
    if at is None or not any(other < at for other in first_values.values()):
        return None
    return Deploy(version, at)


class Versions:
    """The newest versions of all pipelines; none unless `history.segments` names `version`.

    Args:
        partitions: keys of the partitions.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        history: HistoryReader,
        partitions: Sequence[Streams],
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._history = history
        self._partitions = partitions
        self._kept = settings.history.enabled and VERSION in settings.history.segments
        self._clock = clock
        self._reading = asyncio.Lock()
        self._until = float("-inf")
        self._known: Mapping[str, Deploy] = {}

    async def read(self) -> Mapping[str, Deploy]:
        """Return the newest versions by pipeline."""
        if not self._kept:
            return {}
        async with self._reading:
            if self._clock() >= self._until:
                try:
                    first_values = await self._history.first_values(self._partitions, VERSION)
                except DamagedFieldError:  # the screen of the pipeline reports it
                    first_values = {}
                deploys = ((pipeline, last_deploy(values)) for pipeline, values in first_values.items())
                self._known = {pipeline: deploy for pipeline, deploy in deploys if deploy is not None}
                self._until = self._clock() + KEPT_S
            return self._known
