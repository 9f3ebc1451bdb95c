"""Pipeline health alerts of a partition: labeling is stalled, traffic is silent, interactions are dropped.

The alerts follow from counts and ages that Redis reports, without statistics. The checkpoint stores the firing alerts,
so that each fires once. No clock, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import Alert, from_milliseconds

from ..errors import reading
from .low_traffic import TrafficLimit
from .trimming import StreamStatus

Symptom = Literal["labeling", "sample", "traffic", "dropped"]

_METRICS: Final[dict[Symptom, str]] = {
    "labeling": "stall.waiting_s",
    "sample": "stall.sample_waiting_s",
    "traffic": "stall.silent_s",
    "dropped": "stall.dropped",
}


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """The limits at which pipeline health alerts fire; an alert whose limit is None never fires."""

    labeling_s: float | None = 300.0
    """Seconds that the oldest interaction may wait for labels."""
    traffic_s: float | None = None
    """Seconds without a scored interaction, while no interaction waits."""
    quiet_s: float | None = 300.0
    """Seconds without a dropped interaction after which the alert resolves; every dropped interaction fires it."""
    absent_share: float | None = 0.2
    """Rise of the share of interactions in which a metric is absent (`absent_share.py`)."""
    low_traffic: tuple[TrafficLimit, ...] = ()
    """The least traffic of pipelines (`low_traffic.py`)."""
    split: frozenset[str] = frozenset()
    """Pipelines in several partitions, whose traffic has no limit."""


class PipelineHealth:
    """The health alerts of the pipelines of one partition, except those about absent metrics."""

    def __init__(self, limits: HealthLimits, partition: int) -> None:
        self._limits = limits
        self._partition = partition
        self._firing: dict[Symptom, Alert] = {}
        self._dropped = 0
        self._dropped_ms = 0
        self._written: dict[str, bytes] = {}
        self._gone: list[str] = []

    @property
    def firing(self) -> tuple[Symptom, ...]:
        """The symptoms whose alerts fire now."""
        return tuple(self._firing)

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The alerts that fire now."""
        return tuple(self._firing.values())

    def check(self, status: StreamStatus) -> list[Alert]:
        """Return the alerts that fire or resolve now, given the status of the streams."""
        alerts = [*self._labeling(status), *self._sample(status), *self._traffic(status), *self._drops(status)]
        for alert in alerts:
            symptom: Symptom = alert.rule.removeprefix("stall-")  # type: ignore[assignment]  # see _alert
            if alert.status == "firing":
                self._firing[symptom] = alert
                self._written[CheckpointField.HEALTH_FIRING + symptom] = alert.encode()
            else:
                del self._firing[symptom]
                self._written.pop(CheckpointField.HEALTH_FIRING + symptom, None)
                self._gone.append(CheckpointField.HEALTH_FIRING + symptom)
        return alerts

    def _labeling(self, status: StreamStatus) -> list[Alert]:
        waited = _waited_s(status, status.oldest_waiting_ms)
        return self._waiting(
            "labeling",
            status,
            waited,
            message=f"Labeling is behind: the oldest interaction of partition {self._partition} has waited "
            f"{waited:,.0f} s. Check that workers run and the judge answers (ragtide doctor), or add workers.",
            resolved=f"Labeling of partition {self._partition} is no longer behind.",
        )

    def _sample(self, status: StreamStatus) -> list[Alert]:
        waited = _waited_s(status, status.oldest_awaiting_ms)
        return self._waiting(
            "sample",
            status,
            waited,
            message=f"The sample of the cascade is behind: the oldest interaction that was chosen for the judge in "
            f"partition {self._partition} has waited {waited:,.0f} s, because the judge is unavailable. Interactions "
            "outside of the sample do not wait for it. Check that the judge answers (ragtide doctor).",
            resolved=f"The sample of the cascade in partition {self._partition} is no longer behind.",
        )

    def _waiting(
        self, symptom: Symptom, status: StreamStatus, waited_s: float, message: str, resolved: str
    ) -> list[Alert]:
        limit = self._limits.labeling_s
        bad = limit is not None and waited_s > limit
        # The alert resolves at half the limit: at the limit itself it would fire and resolve again and again.
        good = limit is None or waited_s < limit / 2
        return self._change(symptom, status, bad=bad, good=good, message=message, resolved=resolved)

    def _traffic(self, status: StreamStatus) -> list[Alert]:
        limit, last = self._limits.traffic_s, status.last_scored_ms
        silent = 0.0 if last is None else (status.now_ms - last) / 1000
        # While interactions wait, labeling is stalled, and traffic is not silent.
        bad = limit is not None and silent > limit and status.oldest_waiting_ms is None
        return self._change(
            "traffic",
            status,
            bad=bad,
            good=limit is None or silent <= limit,
            message=f"No traffic: partition {self._partition} has had no scored interaction for {silent:,.0f} s, and "
            "no interaction waits. Check that the applications still publish.",
            resolved=f"Traffic of partition {self._partition} is back.",
        )

    def _drops(self, status: StreamStatus) -> list[Alert]:
        # Unread alerts are no interactions, and an alert about them would push the next one over the cap.
        dropped = {why: count for why, count in status.dropped.items() if why != "alerts"}
        quiet, total = self._limits.quiet_s, sum(dropped.values())
        new = total - self._dropped
        if new:
            self._dropped, self._dropped_ms = total, status.now_ms
            self._written[CheckpointField.HEALTH_DROPPED] = f"{total} {status.now_ms}".encode()
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(dropped.items()))
        return self._change(
            "dropped",
            status,
            bad=quiet is not None and new > 0,
            good=quiet is None or status.now_ms - self._dropped_ms > 1000 * quiet,
            message=f"Interactions are dropped in partition {self._partition}: {max(new, 0):,} since the last check; "
            f"since the beginning {reasons}. Estimates miss them. {self._advice(dropped)}",
            resolved=f"Partition {self._partition} no longer drops interactions.",
        )

    def _advice(self, dropped: Mapping[str, int]) -> str:
        if set(dropped) == {"deleted"}:
            return "Another client deleted or replaced the stream: publish them again."
        return "Add workers, or raise interactions_cap."

    def _change(
        self, symptom: Symptom, status: StreamStatus, *, bad: bool, good: bool, message: str, resolved: str
    ) -> list[Alert]:
        fired = self._firing.get(symptom)
        now = from_milliseconds(status.now_ms)
        if fired is None and bad:
            return [self._alert(symptom, now, message)]
        if fired is not None and good and not bad:
            return [fired.model_copy(update={"status": "resolved", "resolved_at": now, "message": resolved})]
        return []

    def _alert(self, symptom: Symptom, now: datetime, message: str) -> Alert:
        return Alert(
            alert_id=f"stall-{symptom}:{self._partition}:{now.timestamp():.3f}",
            status="firing",
            rule=f"stall-{symptom}",
            kind="stall",
            pipeline="*",
            metric=_METRICS[symptom],
            direction="rise",
            fired_at=now,
            message=message,
        )

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return fields to write and fields to remove in the checkpoint since the last call."""
        changes = self._written, self._gone
        self._written, self._gone = {}, []
        return changes

    @classmethod
    def from_fields(cls, limits: HealthLimits, partition: int, fields: Mapping[str, bytes]) -> "PipelineHealth":
        """Return the health that the fields of a checkpoint hold."""
        health = cls(limits, partition)
        for symptom in _METRICS:
            data = fields.get(CheckpointField.HEALTH_FIRING + symptom)
            if data is not None:
                with reading(CheckpointField.HEALTH_FIRING + symptom):
                    health._firing[symptom] = Alert.decode(data)
        with reading(CheckpointField.HEALTH_DROPPED):
            total, _, at_ms = fields.get(CheckpointField.HEALTH_DROPPED, b"0 0").partition(b" ")
            health._dropped, health._dropped_ms = int(total), int(at_ms)
        return health


def _waited_s(status: StreamStatus, since_ms: int | None) -> float:
    return 0.0 if since_ms is None else (status.now_ms - since_ms) / 1000
