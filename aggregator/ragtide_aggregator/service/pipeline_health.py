"""Pipeline health of a partition: labeling is stalled, traffic is silent, interactions are dropped. No clock, no I/O.

The conditions follow from counts and ages that Redis reports, without statistics.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, Self

from ragtide_runtime.alert_book import AlertBook
from ragtide_runtime.redis.eviction import SAFE, Evictions, danger_of
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.settings.alerting import StallSettings
from ragtide_schemas import Alert, from_milliseconds
from ragtide_schemas.alert_rule import Severity

from ..errors import reading
from .trimming import StreamStatus

Symptom = Literal["labeling", "sample", "traffic", "dropped", "evicted"]

_METRICS: Final[dict[Symptom, str]] = {
    "labeling": "stall.waiting_s",
    "sample": "stall.sample_waiting_s",
    "traffic": "stall.silent_s",
    "dropped": "stall.dropped",
    "evicted": "stall.evicted",
}


class _Evicted(NamedTuple):
    """Keys that Redis evicted, as far as they were counted."""

    total: int = 0
    at_ms: int = 0
    """When the last of them was counted."""
    keys: int = 0
    """The server's own count then, which begins anew with each start of the server."""
    server: str = ""

    def encode(self) -> bytes:
        return " ".join(map(str, self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        if not data:
            return cls()
        total, at_ms, keys, server = data.decode().split(" ")
        return cls(int(total), int(at_ms), int(keys), server)


class PipelineHealth:
    """The conditions of the pipelines of one partition, except those about absent metrics and low traffic."""

    def __init__(self, limits: StallSettings, partition: int) -> None:
        self._limits = limits
        self._partition = partition
        self._dropped = 0
        self._dropped_ms = 0
        self._evicted = _Evicted()
        self._written: dict[str, bytes] = {}

    def check(self, status: StreamStatus, book: AlertBook, *, is_over_budget: bool = False) -> None:
        """Set the conditions in the book.

        Args:
            is_over_budget: whether the labeler has reached its spend limit, which has an alert of its own.
        """
        self._labeling(status, book, is_over_budget=is_over_budget)
        self._sample(status, book)
        self._traffic(status, book)
        self._drops(status, book)

    def _labeling(self, status: StreamStatus, book: AlertBook, *, is_over_budget: bool) -> None:
        waited = _waited_s(status, status.oldest_waiting_ms)
        self._set(
            book,
            "labeling",
            status.now_ms,
            None if is_over_budget else self._is_behind(waited),
            message=f"Labeling is behind: the oldest interaction of partition {self._partition} has waited "
            f"{waited:,.0f} s. Check that workers run and the judge answers (ragtide doctor), or add workers.",
            resolved=f"Labeling of partition {self._partition} is no longer behind.",
        )

    def _sample(self, status: StreamStatus, book: AlertBook) -> None:
        waited = _waited_s(status, status.oldest_awaiting_ms)
        self._set(
            book,
            "sample",
            status.now_ms,
            self._is_behind(waited),
            message=f"A sample is behind: the oldest interaction that was chosen for a judge, or another labeler, in "
            f"partition {self._partition} has waited {waited:,.0f} s, because the labeler is unavailable. Interactions "
            "outside of the sample do not wait for it. Check that the judge answers (ragtide doctor).",
            resolved=f"The sample in partition {self._partition} no longer waits for an unavailable labeler.",
        )

    def _is_behind(self, waited_s: float) -> bool | None:
        limit = self._limits.labeling_s
        # The alert resolves at half the limit: at the limit itself it would fire and resolve again and again.
        if limit is None or waited_s < limit / 2:
            return False
        return True if waited_s > limit else None

    def _traffic(self, status: StreamStatus, book: AlertBook) -> None:
        limit, last = self._limits.traffic_s, status.last_scored_ms
        silent = 0.0 if last is None else (status.now_ms - last) / 1000
        condition: bool | None = limit is not None and silent > limit
        if condition and status.oldest_waiting_ms is not None:
            condition = None  # While interactions wait, labeling is stalled, and traffic is not silent.
        self._set(
            book,
            "traffic",
            status.now_ms,
            condition,
            message=f"No traffic: partition {self._partition} has had no scored interaction for {silent:,.0f} s, and "
            "no interaction waits. Check that the applications still publish.",
            resolved=f"Traffic of partition {self._partition} is back.",
        )

    def _drops(self, status: StreamStatus, book: AlertBook) -> None:
        # Unread alerts are no interactions, and an alert about them would push the next one over the cap.
        dropped = {why: count for why, count in status.dropped.items() if why != "alerts"}
        quiet, total = self._limits.quiet_s, sum(dropped.values())
        new = total - self._dropped
        if new:
            self._dropped, self._dropped_ms = total, status.now_ms
            self._written[CheckpointField.HEALTH_DROPPED] = f"{total} {status.now_ms}".encode()
        condition: bool | None = None
        if quiet is None or (new <= 0 and status.now_ms - self._dropped_ms > 1000 * quiet):
            condition = False
        elif new > 0:
            condition = True
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(dropped.items()))
        advice = "Add workers, or raise interactions_cap."
        if set(dropped) == {"deleted"}:
            advice = "Another client deleted or replaced the stream: publish them again."
        self._set(
            book,
            "dropped",
            status.now_ms,
            condition,
            message=f"Interactions are dropped in partition {self._partition}: {max(new, 0):,} since the last check; "
            f"since the beginning {reasons}. Estimates miss them. {advice}",
            resolved=f"Partition {self._partition} no longer drops interactions.",
        )

    def count_evictions(self, now: Evictions, status: StreamStatus, book: AlertBook) -> int:
        """Count the keys that Redis evicted since the last call, set the condition, and return their number.

        Keys that were evicted before a deployment began are of other clients. Without a stored count in a deployment
        that has scored interactions, the count was evicted, too.
        """
        before, is_safe, now_ms = self._evicted, not danger_of(now.policy), status.now_ms
        began_before = bool(before.server) or status.last_scored_ms is not None
        known = before.keys if before.server == now.server else 0 if began_before else now.keys
        new = max(now.keys - known, 0)
        if new or before.server != now.server or now.keys < before.keys:
            self._evicted = _Evicted(before.total + new, now_ms if new else before.at_ms, now.keys, now.server)
            self._written[CheckpointField.HEALTH_EVICTED] = self._evicted.encode()
        quiet = self._limits.quiet_s
        over = is_safe and (quiet is None or now_ms - self._evicted.at_ms > 1000 * quiet)
        self._set(
            book,
            "evicted",
            now_ms,
            True if new else False if over else None,
            message=f"Redis evicts keys: {new:,} since the last check, {self._evicted.total:,} in all, with the policy "
            f"{now.policy}. Streams, estimates or known ids of this deployment may be among them, so estimates of "
            f"partition {self._partition} may miss interactions or count some twice. Set maxmemory-policy {SAFE}, give "
            "Redis more memory, and restore what is lost (ragtide doctor).",
            resolved=f"Redis evicts no more keys: its policy is {now.policy}. {self._evicted.total:,} were evicted; "
            "estimates since then may be wrong (ragtide doctor).",
            severity="page",
        )
        return new

    def _set(
        self,
        book: AlertBook,
        symptom: Symptom,
        now_ms: int,
        condition: bool | None,
        *,
        message: str,
        resolved: str,
        severity: Severity = "ticket",
    ) -> None:
        rule = f"stall-{symptom}"

        def alert() -> Alert:
            return Alert(
                alert_id=f"{rule}:{self._partition}:{now_ms}",
                status="firing",
                rule=rule,
                kind="stall",
                pipeline="*",
                metric=_METRICS[symptom],
                direction="rise",
                severity=severity,
                fired_at=from_milliseconds(now_ms),
                message=message,
            )

        book.set(rule, condition, now_ms, alert, resolved)
        book.end_others(rule, (rule,), now_ms, lambda _: "Its partition is gone: the pipelines moved to others.")

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return fields to write and fields to remove in the checkpoint since the last call."""
        written, self._written = self._written, {}
        return written, []

    @classmethod
    def from_fields(cls, limits: StallSettings, partition: int, fields: Mapping[str, bytes]) -> "PipelineHealth":
        """Return the health that the fields of a checkpoint hold."""
        health = cls(limits, partition)
        with reading(CheckpointField.HEALTH_DROPPED):
            total, _, at_ms = fields.get(CheckpointField.HEALTH_DROPPED, b"0 0").partition(b" ")
            health._dropped, health._dropped_ms = int(total), int(at_ms)
        with reading(CheckpointField.HEALTH_EVICTED):
            health._evicted = _Evicted.decode(fields.get(CheckpointField.HEALTH_EVICTED, b""))
        return health


def _waited_s(status: StreamStatus, since_ms: int | None) -> float:
    return 0.0 if since_ms is None else (status.now_ms - since_ms) / 1000
