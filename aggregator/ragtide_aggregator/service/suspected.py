"""Writes which pipelines of a partition are suspected of a change, for the label workers, after commits."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Final

import numpy as np
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.suspected import read_suspected, write_suspected
from ragtide_schemas import utc_now

from ..estimates.headline import SUSPICIOUS_PART
from ..events.keys import HIDDEN, EstimateKey
from ..state.state import AggregatorState

SAMPLED_PART: Final = 60
"""A rule on the sample that becomes larger is suspicious at this part of its line: 5% then find a fall as soon as 10%
with about half of the calls (benchmarks/falls.py). Far below, most calls would be those of false suspicions."""


class SuspicionWriter:
    """The suspected pipelines of a partition.

    Args:
        redis: client.
        streams: keys of the partition.
        reference: name of the labeler whose share a suspicion raises.
    """

    def __init__(self, redis: Redis, streams: Streams, reference: str) -> None:
        self._redis = redis
        self._streams = streams
        self._reference = reference
        self._near: dict[str, set[EstimateKey]] | None = None
        """By pipeline its keys with a rule near its line; None before the first look."""
        self._written: dict[str, datetime] | None = None
        """What Redis holds; None if that is not known."""

    def look(self, state: AggregatorState, changed: Iterable[EstimateKey]) -> None:
        """Look at the evidence of the rules on keys that changed; at first on all keys."""
        if self._near is None:
            self._near, changed = {}, state.keys
        whole = {key: row for key in changed if is_whole(key) and (row := state.index(key)) is not None}
        evidence = state.evidence(np.fromiter(whole.values(), dtype=np.intp)).tolist()
        for key, part in zip(whole, evidence, strict=True):
            near = is_suspicious(part, is_sampled=key.labeler == self._reference)
            keys = self._near.setdefault(key.pipeline, set()) if near else self._near.get(key.pipeline, set())
            (keys.add if near else keys.discard)(key)
            if not keys:
                self._near.pop(key.pipeline, None)

    async def write(self) -> None:
        """Write the pipelines that are newly suspected or no longer; if Redis fails, after a later commit."""
        near = self._near or {}
        with suppress(RedisError):
            if self._written is None:
                self._written = await read_suspected(self._redis, [self._streams])
            now = utc_now()
            begun = {pipeline: now for pipeline in near if pipeline not in self._written}
            ended = [pipeline for pipeline in self._written if pipeline not in near]
            if not begun and not ended:
                return
            written = {name: since for name, since in self._written.items() if name in near} | begun
            self._written = None
            await write_suspected(self._redis, self._streams, begun, ended)
            self._written = written


def is_whole(key: EstimateKey) -> bool:
    """Return whether a key is of a metric of a whole live pipeline."""
    return key.segment is None and key.run is None and not key.metric.startswith(HIDDEN)


def is_suspicious(evidence: float, *, is_sampled: bool) -> bool:
    """Return whether the evidence of a rule is enough to judge more.

    Args:
        evidence: as a part of the line at which the rule fires.
        is_sampled: whether the values of the rule are those of the sample that becomes larger. False suspicions then
            cost little, because the rule soon has the values that clear them. Otherwise the line is that of a
            suspicious headline.

    >>> is_suspicious(0.02, is_sampled=True), is_suspicious(0.02, is_sampled=False)
    (True, False)
    """
    return evidence * (SAMPLED_PART if is_sampled else SUSPICIOUS_PART) >= 1
