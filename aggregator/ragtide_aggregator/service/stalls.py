"""Alerts about what does not move: labeling that is behind, traffic that stopped, interactions that are dropped.

No clock, no I/O. They need no statistics: what they say was counted. What is firing is kept in the checkpoint, so
that each fires once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import Alert, from_milliseconds

from ..errors import reading
from .trimming import Seen

What = Literal["labeling", "traffic", "dropped"]

_METRICS: Final[dict[What, str]] = {
    "labeling": "stall.waiting_s",
    "traffic": "stall.silent_s",
    "dropped": "stall.dropped",
}


@dataclass(frozen=True, slots=True)
class StallLimits:
    """When something counts as stalled; None never."""

    labeling_s: float | None = 300.0
    """The oldest interaction has waited so long."""
    traffic_s: float | None = None
    """Nothing was scored for so long, though nothing waits."""
    quiet_s: float | None = 300.0
    """Any dropped interaction fires; nothing dropped for so long resolves."""
    absent_share: float | None = 0.2
    """The share of interactions in which a metric is absent rises by so much (`absences.py`)."""


class Stalls:
    """The stall alerts of one partition."""

    def __init__(self, limits: StallLimits, partition: int) -> None:
        self._limits = limits
        self._partition = partition
        self._firing: dict[What, Alert] = {}
        self._dropped = 0
        self._dropped_ms = 0
        self._written: dict[str, bytes] = {}
        self._gone: list[str] = []

    @property
    def firing(self) -> tuple[What, ...]:
        """The stalls whose alerts are firing now."""
        return tuple(self._firing)

    def look(self, seen: Seen) -> list[Alert]:
        """Return the alerts that fire or resolve by what was found."""
        alerts = [*self._labeling(seen), *self._traffic(seen), *self._drops(seen)]
        for alert in alerts:
            what: What = alert.rule.removeprefix("stall-")  # type: ignore[assignment]  # as it was made
            if alert.status == "firing":
                self._firing[what] = alert
                self._written[CheckpointField.HEALTH_FIRING + what] = alert.encode()
            else:
                del self._firing[what]
                self._written.pop(CheckpointField.HEALTH_FIRING + what, None)
                self._gone.append(CheckpointField.HEALTH_FIRING + what)
        return alerts

    def _labeling(self, seen: Seen) -> list[Alert]:
        limit = self._limits.labeling_s
        waited = 0.0 if seen.oldest_waiting_ms is None else (seen.now_ms - seen.oldest_waiting_ms) / 1000
        stalled = limit is not None and waited > limit
        # Not at the limit itself, where it would come and go.
        back = limit is None or waited < limit / 2
        return self._change(
            "labeling",
            seen,
            stalled=stalled,
            back=back,
            message=f"Labeling is behind: the oldest interaction of partition {self._partition} has waited "
            f"{waited:,.0f} s. Look whether workers run and the judge answers (ragtide doctor), or add workers.",
            resolved=f"Labeling of partition {self._partition} is no longer behind.",
        )

    def _traffic(self, seen: Seen) -> list[Alert]:
        limit, last = self._limits.traffic_s, seen.last_scored_ms
        silent = 0.0 if last is None else (seen.now_ms - last) / 1000
        # While interactions wait it is labeling that stalls.
        stalled = limit is not None and silent > limit and seen.oldest_waiting_ms is None
        return self._change(
            "traffic",
            seen,
            stalled=stalled,
            back=limit is None or silent <= limit,
            message=f"No traffic: nothing was scored in partition {self._partition} for {silent:,.0f} s, and nothing "
            "waits. Look whether the applications still publish.",
            resolved=f"Traffic of partition {self._partition} is back.",
        )

    def _drops(self, seen: Seen) -> list[Alert]:
        quiet, total = self._limits.quiet_s, sum(seen.dropped.values())
        new = total - self._dropped
        if new:
            self._dropped, self._dropped_ms = total, seen.now_ms
            self._written[CheckpointField.HEALTH_DROPPED] = f"{total} {seen.now_ms}".encode()
        whys = ", ".join(f"{count:,} {why}" for why, count in sorted(seen.dropped.items()))
        return self._change(
            "dropped",
            seen,
            stalled=quiet is not None and new > 0,
            back=quiet is None or seen.now_ms - self._dropped_ms > 1000 * quiet,
            message=f"Interactions are being dropped in partition {self._partition}: {max(new, 0):,} just now, by why "
            f"since the beginning {whys}. Estimates miss them. Add workers, or raise interactions_cap.",
            resolved=f"Nothing more was dropped in partition {self._partition}.",
        )

    def _change(self, what: What, seen: Seen, *, stalled: bool, back: bool, message: str, resolved: str) -> list[Alert]:
        fired = self._firing.get(what)
        now = from_milliseconds(seen.now_ms)
        if fired is None and stalled:
            return [self._alert(what, now, message)]
        if fired is not None and back and not stalled:
            return [fired.model_copy(update={"status": "resolved", "resolved_at": now, "message": resolved})]
        return []

    def _alert(self, what: What, now: datetime, message: str) -> Alert:
        return Alert(
            alert_id=f"stall-{what}:{self._partition}:{now.timestamp():.3f}",
            status="firing",
            rule=f"stall-{what}",
            kind="stall",
            pipeline="*",
            metric=_METRICS[what],
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
    def from_fields(cls, limits: StallLimits, partition: int, fields: Mapping[str, bytes]) -> "Stalls":
        """Return what the fields of a checkpoint hold."""
        stalls = cls(limits, partition)
        for what in _METRICS:
            data = fields.get(CheckpointField.HEALTH_FIRING + what)
            if data is not None:
                with reading(CheckpointField.HEALTH_FIRING + what):
                    stalls._firing[what] = Alert.decode(data)
        with reading(CheckpointField.HEALTH_DROPPED):
            total, _, at_ms = fields.get(CheckpointField.HEALTH_DROPPED, b"0 0").partition(b" ")
            stalls._dropped, stalls._dropped_ms = int(total), int(at_ms)
        return stalls
