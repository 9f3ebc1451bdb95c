"""Reads the estimates of whole pipelines several times a second, for screens that stay open."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import Estimate

from ..estimates.estimates import estimates
from ..estimates.view import IntervalMethod
from ..estimates.whole_means import WholeMean, whole_means
from ..state.options import NO_WINDOWS
from ..state.state import AggregatorState, StateOptions
from ..statistics.means.strategies import AUTO
from .states import FieldSelection, PartitionStates

_Number = TypeVar("_Number", Estimate, WholeMean)
_Known = tuple[list[int], list[_Number]]
"""Numbers, and the numbers of the loads from which they are."""


class Overview:
    """The estimates of whole live pipelines over all time, without quantiles and design effects.

    Args:
        redis: client.
        partitions: keys of the partitions.
        options: of a state that is only read.
        confidence: level of the intervals.
        split: whether pipelines are split over partitions, so that several states are merged into one.
        segment: segment value of which the estimates are; None for whole pipelines.
    """

    def __init__(
        self,
        redis: Redis,
        partitions: Sequence[Streams],
        options: StateOptions,
        *,
        confidence: float,
        split: bool,
        segment: str | None = None,
    ) -> None:
        of_segment = replace(options, panes=NO_WINDOWS, quantiles=False)
        self._states = PartitionStates(redis, of_segment, split=split, select=live_keys(segment))
        self._partitions = partitions
        self._method = IntervalMethod(AUTO, confidence)
        self._segment = segment
        self._reading = asyncio.Lock()
        self._estimates: _Known[Estimate] = ([], [])
        self._means: _Known[WholeMean] = ([], [])

    async def read(self) -> list[Estimate]:
        """Return the estimates at the last commits.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        async with self._reading:
            level = self._method.confidence
            self._estimates = await self._computed(
                self._estimates, lambda state: estimates(state, confidence=level, windows=False)
            )
            return self._estimates[1]

    async def means(self) -> list[WholeMean]:
        """Return the means at the last commits: the same numbers in less time.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        async with self._reading:
            self._means = await self._computed(
                self._means, lambda state: whole_means(state, self._method, self._segment)
            )
            return self._means[1]

    async def _computed(
        self, known: _Known[_Number], compute: Callable[[AggregatorState], list[_Number]]
    ) -> _Known[_Number]:
        loads, states = await self._states.read(self._partitions)
        if known[0] == loads:
            return known
        return loads, await asyncio.to_thread(lambda: [number for state in states for number in compute(state)])


def live_keys(segment: str | None) -> FieldSelection:
    """Return the fields of a segment value of live pipelines; None for whole pipelines."""
    # A key is a JSON list that begins with pipeline, run and segment: in these fields the run is null.
    text = re.sub(r"([\\\[\]*?])", r"\\\1", json.dumps(segment, ensure_ascii=False))
    kinds = (CheckpointField.ESTIMATE, CheckpointField.CLUSTERS)
    patterns = (
        *(f'{kind}\\["*",null,{text},*' for kind in kinds),
        f"{CheckpointField.CLUSTER_SCOPE}*",
        f"{CheckpointField.DECLARED}*",
    )

    def wanted(name: str) -> bool:
        kind, _, key = name.partition(":")
        if not key.startswith("[") or f"{kind}:" == CheckpointField.CLUSTER_SCOPE:
            return True
        try:
            _, run, value, *_ = json.loads(key)
        except ValueError:
            return True  # loading the field reports the damage
        return run is None and value == segment

    return FieldSelection(patterns, wanted)
