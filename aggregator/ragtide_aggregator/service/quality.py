"""The estimates and firing alerts of one partition for Prometheus, computed from its committed state. No clock.

Computing all estimates at every commit would take most of its time, so they are computed at intervals, and only after a
commit. An interval is at least 20 times as long as the computation. Events and commits wait for a computation, so it
has turns of a few keys, with events and commits in between: each scope is shown as one of the last commits left it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import structlog
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.telemetry import PrometheusSettings
from ragtide_runtime.telemetry import quality_metrics
from ragtide_runtime.telemetry.metric import Metric
from ragtide_schemas import Alert, Estimate, InvalidEntryError
from ragtide_schemas.alert_rule import SEVERITIES
from ragtide_schemas.printable import printable

from ..estimates.choices import RECOMMENDED, chosen
from ..estimates.estimates import estimates
from ..events.keys import HIDDEN, SQUARED_ERROR, EstimateKey
from ..state.state import AggregatorState
from ..statistics.tables.names import ALL_TIME
from .key_turns import KeyTurns

PAUSES: Final = 20
"""Least ratio of the interval to the duration of a computation: it takes at most 5% of the time."""

KEYS_A_TURN: Final = 50
"""Keys of one turn; more if a scope has more."""

Samples = Sequence[tuple[tuple[str, ...], float]]
"""Values of a Prometheus metric, each with the values of its labels."""

Compute = Callable[[Sequence[EstimateKey]], list[Estimate]]
"""Returns the estimates of keys."""

log = structlog.get_logger("ragtide.aggregator")


@dataclass(frozen=True, slots=True)
class PartitionQuality:
    """The samples of a partition, by Prometheus metric."""

    samples: Mapping[Metric, Samples]


class QualityExport:
    """Computes the samples of one partition.

    Args:
        partition: its number.
        settings: which estimates and alerts.
        confidence: level of the intervals.
        now_s: monotonic time, as in all calls; the first computation is due at once.
    """

    def __init__(self, partition: int, settings: PrometheusSettings, *, confidence: float, now_s: float) -> None:
        self._partition = str(partition)
        self._settings = settings
        self._confidence = confidence
        self._due_s = now_s
        self._changed = True
        self._scanned = 0
        self._whole: list[EstimateKey] = []
        self._values: list[EstimateKey] = []
        self._failing: set[EstimateKey] = set()
        self._waiting = KeyTurns()
        self._known: defaultdict[Metric, list[tuple[tuple[str, ...], float]]] = defaultdict(list)
        self._left_out = 0
        self._took_s = 0.0
        self.has_begun = False
        """Whether some keys have had their turn, and others wait for theirs."""

    def changed(self) -> None:
        """Take note of a commit."""
        self._changed = True

    def is_due(self, now_s: float) -> bool:
        """Return whether it is time for a turn."""
        return self.has_begun or (self._changed and now_s >= self._due_s)

    def turned(self, now_s: float, took_s: float) -> None:
        """Take note of the end of a turn and its duration."""
        self._took_s += took_s
        if not self.has_begun:
            self._due_s = now_s + max(self._settings.interval_s, PAUSES * self._took_s)
            self._took_s = 0.0

    def compute(self, state: AggregatorState, firing: Iterable[Alert]) -> PartitionQuality | None:
        """Compute a turn, and return the samples after the last; None if other keys wait for theirs.

        Args:
            state: without uncommitted changes.
            firing: every alert that fires.
        """
        if not self.has_begun:
            self._begin(state)
        self._add(state, self._waiting.take(KEYS_A_TURN))
        self.has_begun = len(self._waiting) > 0
        return None if self.has_begun else self._samples(firing)

    def _begin(self, state: AggregatorState) -> None:
        self._scan(state.keys)
        keys = [*self._whole, *self._values]
        self._waiting.add(keys[: self._settings.cap])
        self._left_out = max(len(keys) - self._settings.cap, 0)
        self._known.clear()
        self._changed = False

    def _samples(self, firing: Iterable[Alert]) -> PartitionQuality:
        live: dict[tuple[str, ...], float] = {}
        for alert in sorted(firing, key=_urgency):
            if alert.run is None and not alert.is_news:
                scope = alert.pipeline, alert.segment, alert.metric, alert.metric_version
                labeler = alert.profile, alert.labeler, alert.labeler_version
                names = alert.rule, alert.kind, alert.severity, *scope, *labeler
                live[(self._partition, *(printable(name or "") for name in names))] = 1.0
        exported = list(live.items())[: self._settings.cap]
        left_out = {"estimates": self._left_out, "alerts": len(live) - len(exported)}
        samples: dict[Metric, Samples] = {
            quality_metrics.ALERT_FIRING: exported,
            quality_metrics.LEFT_OUT: [((self._partition, what), float(count)) for what, count in left_out.items()],
        }
        return PartitionQuality({**samples, **self._known})

    def _scan(self, keys: Sequence[EstimateKey]) -> None:
        for key in keys[self._scanned :]:
            if key.run is not None or (key.metric.startswith(HIDDEN) and not key.metric.startswith(SQUARED_ERROR)):
                continue
            if key.segment is None:
                self._whole.append(key)
            elif key.segment.partition("=")[0] in self._settings.segments:
                self._values.append(key)
        self._scanned = len(keys)

    def _add(self, state: AggregatorState, keys: Sequence[EstimateKey]) -> None:
        """Add the samples of some keys, all of whole scopes."""
        newest: dict[tuple[str, ...], Estimate] = {}
        for estimate in self._recommended_estimates(self._computed(state, keys)):
            labels = _estimate_labels(self._partition, estimate)
            # Declarations of a metric that differ only in range have the same labels: the newest counts.
            if labels not in newest or _newest_s(newest[labels]) <= _newest_s(estimate):
                newest[labels] = estimate
        for labels, estimate in newest.items():
            values = {quality_metrics.ESTIMATE_N: float(estimate.n)}
            if (newest_s := _newest_s(estimate)) > 0:
                values[quality_metrics.ESTIMATE_NEWEST] = newest_s
            if estimate.estimate is not None:
                ends = {quality_metrics.ESTIMATE_LOWER: estimate.lower, quality_metrics.ESTIMATE_UPPER: estimate.upper}
                values[quality_metrics.ESTIMATE] = estimate.estimate
                values |= {metric: end for metric, end in ends.items() if end is not None}
            for metric, value in values.items():
                self._known[metric].append((labels, value))

    def _computed(self, state: AggregatorState, keys: Sequence[EstimateKey]) -> list[Estimate]:
        windows = self._settings.windows is None or self._settings.windows != (ALL_TIME,)

        def compute(keys: Sequence[EstimateKey]) -> list[Estimate]:
            return estimates(state, keys=keys, confidence=self._confidence, windows=windows)

        try:
            return compute([key for key in keys if key not in self._failing])
        except Exception:  # noqa: BLE001 - the failing key is found and logged below
            return [estimate for key in keys for estimate in self._compute_alone(compute, key)]

    def _compute_alone(self, compute: Compute, key: EstimateKey) -> list[Estimate]:
        if key in self._failing:
            return []
        try:
            return compute([key])
        except Exception as error:  # one key must not keep the others from Prometheus, nor end the role
            self._failing.add(key)
            log.exception("the estimates of a key cannot be computed", key=key.encode(), error=str(error))
            return []

    def _recommended_estimates(self, computed: Sequence[Estimate]) -> Iterator[Estimate]:
        for window in self._settings.windows or dict.fromkeys(estimate.window for estimate in computed):
            for labeling in (False, True):
                yield from chosen(computed, window=window, estimator=RECOMMENDED, labeling=labeling)


def _newest_s(estimate: Estimate) -> float:
    return 0.0 if estimate.updated_at is None else estimate.updated_at.timestamp()


def _urgency(alert: Alert) -> tuple[int, bool, float, str]:
    return SEVERITIES.index(alert.severity), alert.segment is not None, alert.fired_at.timestamp(), alert.alert_id


def _estimate_labels(partition: str, estimate: Estimate) -> tuple[str, ...]:
    names = (
        estimate.pipeline,
        estimate.segment,
        estimate.metric,
        estimate.metric_version,
        estimate.profile,
        estimate.labeler,
        estimate.labeler_version,
    )
    return (partition, *(printable(name or "") for name in (*names, estimate.window, estimate.estimator)))


class SpendAlerts:
    """The firing alerts of a deployment about spend limits.

    Args:
        redis: client.
        streams: keys of the partition; only partition 0 has these alerts.
        labelers: names of the labelers that may have a limit.
    """

    def __init__(self, redis: Redis, streams: Streams, labelers: Sequence[str]) -> None:
        self._redis = redis
        self._keys = [streams.labeler_spend(name, "alert") for name in labelers] if streams.partition == 0 else []
        self._stored: list[bytes | None] = []
        self.alerts: tuple[Alert, ...] = ()
        """The alerts of the last `read`; an alert that cannot be decoded is left out."""

    async def read(self) -> bool:
        """Read the alerts, and return whether they have changed.

        Raises:
            redis.RedisError: Redis failed.
        """
        if not self._keys:
            return False
        before, self._stored = self._stored, cast("list[bytes | None]", await self._redis.mget(self._keys))
        if self._stored == before:
            return False
        self.alerts = tuple(
            alert for data in self._stored if data is not None and (alert := _decoded(data)) is not None
        )
        return True


def _decoded(data: bytes) -> Alert | None:
    try:
        return Alert.decode(data)
    except InvalidEntryError:
        return None
