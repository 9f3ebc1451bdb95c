"""Raises alerts when a pipeline has less traffic than a limit for a while. No clock, no I/O.

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

from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import Alert, InvalidEntryError, from_milliseconds
from ragtide_schemas.alert_rule import Severity
from ragtide_schemas.limits import NAME_MAX_CHARS
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
_FIRED: Final = CheckpointField.HEALTH_TRAFFIC_FIRED


@dataclass(frozen=True, slots=True)
class TrafficLimit:
    """The least traffic of pipelines."""

    pipeline: str
    """Shell-style pattern of the names of pipelines."""
    below: int
    """Number of interactions, below which traffic is low."""
    period_ms: int
    """Milliseconds for which it must be low."""
    severity: Severity = "ticket"


class TrafficCount(NamedTuple):
    """The number of scored interactions of a pipeline at a time."""

    at_ms: int
    n: int


@dataclass(slots=True)
class _Pipeline:
    """The rows that count the interactions of a pipeline, its limits, and earlier counts, the oldest first."""

    limits: list[TrafficLimit]
    rows: list[int]
    samples: deque[TrafficCount]


class LowTraffic:
    """The traffic of the pipelines of one partition, and its alerts.

    Args:
        limits: of pipelines; a pipeline without a limit is not followed.
        partition: of the state.
        split: pipelines in several partitions; none of them is followed, because a partition has a part only.
    """

    def __init__(self, limits: Sequence[TrafficLimit], partition: int, split: Collection[str] = ()) -> None:
        self._limits = tuple(limits)
        self._partition = partition
        self._split = frozenset(split)
        self._pipelines: dict[str, _Pipeline] = {}
        self._restored: dict[str, deque[TrafficCount]] = {}
        self._n_rows = 0
        self._checked_ms = 0
        self._firing: dict[str, Alert] = {}
        """The alerts that fire, by the digest of pipeline and limit."""
        self._written: dict[str, bytes] = {}
        self._gone: list[str] = []

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The alerts that fire now."""
        return tuple(self._firing.values())

    def check(self, now_ms: int, state: AggregatorState, *, caught_up: bool) -> list[Alert]:
        """Return the alerts that fire or resolve now.

        Args:
            now_ms: time of the Redis server.
            state: of the partition.
            caught_up: whether no interaction waits for a worker, and no metric event for the state.
        """
        if not (self._limits or self._firing) or now_ms - self._checked_ms < CHECK_MS:
            return []
        self._checked_ms = now_ms
        self._find_rows(state)
        found, known = [], set[str]()
        for name, pipeline in self._pipelines.items():
            n = sum(int(state.moments.n(row)) + int(state.rows.counts[0, row]) for row in pipeline.rows)
            for limit in pipeline.limits:
                digest = _digest(name, limit)
                known.add(digest)
                n_since = _since(pipeline.samples, n, now_ms, limit)
                found += self._decided(digest, name, limit, n_since, now_ms, caught_up=caught_up)
            self._keep(name, pipeline, TrafficCount(now_ms, n))
        found += [self._ended(one, now_ms, "Its limit was removed.") for one in self._firing.keys() - known]
        return found

    def _find_rows(self, state: AggregatorState) -> None:
        """Find the rows of new keys that count the interactions of whole pipelines."""
        keys = state.keys
        for row in range(self._n_rows, len(keys)):
            key = keys[row]
            if key.metric != LATENCY or key.segment is not None or key.run is not None:
                continue
            if key.pipeline not in self._pipelines:
                limits = [one for one in self._limits if fnmatchcase(key.pipeline, one.pipeline)]
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
        content = {"pipeline": name, "counts": [list(one) for one in samples]}
        self._written[_COUNTS + _digest(name)] = json.dumps(content).encode()

    def _decided(
        self, digest: str, name: str, limit: TrafficLimit, n: int | None, now_ms: int, *, caught_up: bool
    ) -> list[Alert]:
        """Return the alert that a number of interactions in the period begins or ends; None is not known yet."""
        if n is None:
            return []
        if digest not in self._firing and n < limit.below and caught_up:
            alert = self._firing[digest] = self._alert(digest, name, limit, n, now_ms)
            self._written[_FIRED + digest] = alert.encode()
            return [alert]
        if digest in self._firing and n >= limit.below:
            return [self._ended(digest, now_ms, f"It has {n:,} interactions in {_period(limit)} again.")]
        return []

    def _ended(self, digest: str, now_ms: int, because: str) -> Alert:
        fired = self._firing.pop(digest)
        self._written.pop(_FIRED + digest, None)
        self._gone.append(_FIRED + digest)
        message = f"Traffic of {fired.pipeline} is no longer low. {because}"
        return fired.model_copy(
            update={"status": "resolved", "resolved_at": from_milliseconds(now_ms), "message": message}
        )

    def _alert(self, digest: str, name: str, limit: TrafficLimit, n: int, now_ms: int) -> Alert:
        pipeline = printable(name)[:NAME_MAX_CHARS]
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
            message=f"Little traffic: {pipeline} has {n:,} scored interactions in the last {_period(limit)}, and at "
            f"least {limit.below:,} are expected. Check that its application still publishes, and samples as before.",
        )

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return fields to write and fields to remove in the checkpoint since the last call."""
        changes = self._written, self._gone
        self._written, self._gone = {}, []
        return changes

    @classmethod
    def from_fields(
        cls,
        limits: Sequence[TrafficLimit],
        partition: int,
        fields: Mapping[str, bytes],
        *,
        split: Collection[str] = (),
    ) -> "LowTraffic":
        """Return the traffic that the fields of a checkpoint hold; unreadable fields are dropped."""
        traffic = cls(limits, partition, split)
        for name, data in fields.items():
            try:
                if name.startswith(_FIRED):
                    traffic._firing[name.removeprefix(_FIRED)] = Alert.decode(data)
                elif name.startswith(_COUNTS):
                    found = json.loads(data)
                    counts = deque(TrafficCount(int(at_ms), int(n)) for at_ms, n in found["counts"])
                    traffic._restored[str(found["pipeline"])] = counts
            except (InvalidEntryError, ValueError, TypeError, KeyError, RecursionError):
                traffic._gone.append(name)
        return traffic


def _since(samples: deque[TrafficCount], n: int, now_ms: int, limit: TrafficLimit) -> int | None:
    """Return the interactions since the newest count from before the period; None if there is no such count."""
    before = [one for one in samples if one.at_ms <= now_ms - limit.period_ms]
    # A count above the present one is of a state that was lost.
    return n - before[-1].n if before and before[-1].n <= n else None


def _period(limit: TrafficLimit) -> str:
    minutes = limit.period_ms // 60_000
    for unit, name in ((1440, "d"), (60, "h")):
        if minutes % unit == 0:
            return f"{minutes // unit} {name}"
    return f"{minutes} min"


def _digest(name: str, limit: TrafficLimit | None = None) -> str:
    parts = [name] if limit is None else [name, limit.pipeline, str(limit.below), str(limit.period_ms), limit.severity]
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
