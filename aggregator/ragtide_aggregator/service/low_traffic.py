"""Finds pipelines that have less traffic than a limit for a while. No clock, no I/O.

Traffic is the number of scored interactions. Counts at earlier times are compared with the present count, so an alert
needs no event to fire. It is decided only while no interaction waits for a worker and every metric event is counted:
otherwise labeling is slow, and traffic is not low.
"""

import json
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Final, NamedTuple

from ragtide_runtime.alert_book import AlertBook
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.settings.alerting import LowTrafficSettings
from ragtide_schemas import Alert, from_milliseconds
from ragtide_schemas.limits import NAME_MAX_CHARS
from ragtide_schemas.metric_definitions import SENTINEL_PIPELINE
from ragtide_schemas.printable import printable

from ..events.keys import LATENCY
from ..state.state import AggregatorState

RULE: Final = "stall-low-traffic"
"""Rule of these alerts."""

SAMPLES: Final = 60
"""Counts that are kept within the longest period of a pipeline."""

CHECK_MS: Final = 5_000
"""Milliseconds between two looks, each of which applies the events that wait in the state."""

_COUNTS: Final = CheckpointField.HEALTH_TRAFFIC


class TrafficCount(NamedTuple):
    """The number of scored interactions of a pipeline at a time."""

    at_ms: int
    n: int


@dataclass(slots=True)
class _Pipeline:
    """The rows that count the interactions of a pipeline, its limits, and earlier counts, the oldest first."""

    limits: list[LowTrafficSettings]
    rows: list[int]
    samples: deque[TrafficCount]


class LowTraffic:
    """The traffic of the pipelines of one partition.

    Args:
        limits: of pipelines; a pipeline without a limit is not followed.
        split: pipelines in several partitions; none of them is followed, because a partition has a part only.
    """

    def __init__(self, limits: Sequence[LowTrafficSettings], partition: int, split: Collection[str] = ()) -> None:
        self._limits = tuple(limits)
        self._partition = partition
        self._split = frozenset(split)
        self._pipelines: dict[str, _Pipeline] = {}
        self._restored: dict[str, deque[TrafficCount]] = {}
        self._n_rows = 0
        self._checked_ms = 0
        self._written: dict[str, bytes] = {}
        self._gone: list[str] = []

    def check(self, now_ms: int, state: AggregatorState, *, caught_up: bool) -> None:
        """Set the conditions in the book of the state.

        Args:
            now_ms: time of the Redis server.
            caught_up: whether no interaction waits for a worker, and no metric event for the state.
        """
        if now_ms - self._checked_ms < CHECK_MS:
            return
        self._checked_ms = now_ms
        if self._limits:
            self._find_rows(state)
        known = set[str]()
        for name, pipeline in self._pipelines.items():
            n = sum(int(state.moments.n(row)) + int(state.rows.counts[0, row]) for row in pipeline.rows)
            for limit in pipeline.limits:
                known.add(f"{RULE}:{_digest(name, limit)}")
                before = [sample for sample in pipeline.samples if sample.at_ms <= now_ms - limit.period_ms]
                # A count above the present one is of a state that was lost.
                if before and before[-1].n <= n:
                    self._set(state.book, name, limit, n - before[-1].n, now_ms, caught_up=caught_up)
            self._keep(name, pipeline, TrafficCount(now_ms, n))
        state.book.end_others(RULE, known, now_ms, lambda fired: _ended(fired.pipeline, "Its limit was removed."))

    def _find_rows(self, state: AggregatorState) -> None:
        keys = state.keys
        for row in range(self._n_rows, len(keys)):
            key = keys[row]
            if key.metric != LATENCY or key.segment is not None or key.run is not None:
                continue
            if key.pipeline == SENTINEL_PIPELINE:
                continue
            if key.pipeline not in self._pipelines:
                limits = [limit for limit in self._limits if fnmatchcase(key.pipeline, limit.pipeline)]
                if not limits or key.pipeline in self._split:
                    continue
                samples = self._restored.pop(key.pipeline, deque[TrafficCount]())
                self._pipelines[key.pipeline] = _Pipeline(limits, [], samples)
            self._pipelines[key.pipeline].rows.append(row)
        self._n_rows = len(keys)

    def _keep(self, name: str, pipeline: _Pipeline, now: TrafficCount) -> None:
        longest_ms, samples = max(limit.period_ms for limit in pipeline.limits), pipeline.samples
        if samples and now.at_ms - samples[-1].at_ms < longest_ms / SAMPLES:
            return
        samples.append(now)
        # The newest count from before the period stays: with it the period begins.
        while len(samples) > 1 and samples[1].at_ms <= now.at_ms - longest_ms:
            samples.popleft()
        content = {"pipeline": name, "counts": [list(sample) for sample in samples]}
        self._written[_COUNTS + _digest(name)] = json.dumps(content).encode()

    def _set(
        self, book: AlertBook, name: str, limit: LowTrafficSettings, n: int, now_ms: int, *, caught_up: bool
    ) -> None:
        digest, pipeline = _digest(name, limit), printable(name)[:NAME_MAX_CHARS]
        condition = False if n >= limit.below else caught_up or None

        def alert() -> Alert:
            return Alert(
                alert_id=f"{RULE}:{self._partition}:{digest}:{now_ms}",
                status="firing",
                rule=RULE,
                kind="stall",
                pipeline=pipeline,
                metric="stall.scored",
                direction="fall",
                fired_at=from_milliseconds(now_ms),
                severity=limit.severity,
                message=f"Little traffic: {pipeline} has {n:,} scored interactions in the last {_period(limit)}, and "
                f"at least {limit.below:,} are expected. Check that its application still publishes, and samples as "
                "before.",
            )

        resolved = _ended(pipeline, f"It has {n:,} interactions in {_period(limit)} again.")
        book.set(f"{RULE}:{digest}", condition, now_ms, alert, resolved)

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return fields to write and fields to remove in the checkpoint since the last call."""
        changes = self._written, self._gone
        self._written, self._gone = {}, []
        return changes

    @classmethod
    def from_fields(
        cls,
        limits: Sequence[LowTrafficSettings],
        partition: int,
        fields: Mapping[str, bytes],
        *,
        split: Collection[str] = (),
    ) -> "LowTraffic":
        """Return the traffic that the fields of a checkpoint hold; unreadable fields are dropped."""
        traffic = cls(limits, partition, split)
        for name, data in fields.items():
            if not name.startswith(_COUNTS):
                continue
            try:
                content = json.loads(data)
                counts = deque(TrafficCount(int(at_ms), int(n)) for at_ms, n in content["counts"])
                traffic._restored[str(content["pipeline"])] = counts
            except (ValueError, TypeError, KeyError, RecursionError):
                traffic._gone.append(name)
        return traffic


def _ended(pipeline: str, because: str) -> str:
    return f"Traffic of {pipeline} is no longer low. {because}"


def _period(limit: LowTrafficSettings) -> str:
    minutes = limit.period_ms // 60_000
    for unit, name in ((1440, "d"), (60, "h")):
        if minutes % unit == 0:
            return f"{minutes // unit} {name}"
    return f"{minutes} min"


def _digest(name: str, limit: LowTrafficSettings | None = None) -> str:
    parts = [name] if limit is None else [name, limit.pipeline, str(limit.below), str(limit.period_ms), limit.severity]
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
