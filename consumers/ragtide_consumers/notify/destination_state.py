"""The state of one destination: its storm guard, its last failure, and the time before which it is not tried.

A failing destination raises an alert, and changes that it never received become dead letters.
"""

from datetime import UTC, datetime
from typing import Final

from pydantic import BaseModel, ConfigDict

from ragtide_schemas import Alert, DeadLetter, Reason

from .grouping import DueMessage, PendingChange
from .routing import FAILING_RULE

SUMMARY_ALERTS: Final = 50
"""Most alerts that a summary holds; further alerts are counted only."""


class StormSummary(BaseModel):
    """The messages that the storm guard withheld since the last summary."""

    model_config = ConfigDict(frozen=True)

    key: str
    """Id of the summary."""
    due_ms: int
    """Time at which it is sent."""
    alerts: dict[str, Alert] = {}
    """Alerts of the withheld messages as they were last, by id."""
    n_withheld: int = 0
    """Number of withheld messages."""
    tries: int = 0
    """Failed tries."""
    tried_ms: int | None = None
    """Time of the first try."""
    retry_ms: int = 0
    """Time before which there is no further try."""

    def with_alerts(self, alerts: list[Alert]) -> "StormSummary":
        """Return a summary with one more message."""
        kept = dict(self.alerts)
        for alert in alerts:
            if alert.alert_id in kept or len(kept) < SUMMARY_ALERTS:
                kept[alert.alert_id] = alert
        return self.model_copy(update={"alerts": kept, "n_withheld": self.n_withheld + 1})


class DestinationState(BaseModel):
    """What is stored about a destination besides its groups."""

    model_config = ConfigDict(frozen=True)

    name: str
    """Name of the destination."""
    sent_ms: tuple[int, ...] = ()
    """Times of the messages in the window of the storm guard."""
    summary: StormSummary | None = None
    """The next summary; None while no message is withheld."""
    summary_sent_ms: int | None = None
    """Time of the last summary."""
    not_before_ms: int = 0
    """Time before which the destination asked not to be called."""

    def in_storm(self, now_ms: int, most: int, window_ms: int) -> bool:
        """Return whether a further message would be one too many in the window."""
        return sum(now_ms - window_ms < at_ms for at_ms in self.sent_ms) >= most

    def with_message(self, now_ms: int, window_ms: int) -> "DestinationState":
        """Return the state after one more message."""
        kept = (*(at_ms for at_ms in self.sent_ms if now_ms - window_ms < at_ms), now_ms)
        return self.model_copy(update={"sent_ms": kept})

    def with_withheld(self, alerts: list[Alert], now_ms: int, wait_ms: int, window_ms: int) -> "DestinationState":
        """Return the state after a message was withheld: a summary has it, at most one in each window."""
        summary = self.summary
        if summary is None:
            due_ms = now_ms + wait_ms
            if self.summary_sent_ms is not None:
                due_ms = max(due_ms, self.summary_sent_ms + window_ms)
            summary = StormSummary(key=f"storm-{self.name}-{now_ms}", due_ms=due_ms)
        return self.model_copy(update={"summary": summary.with_alerts(alerts)})

    def due_summary(self, now_ms: int) -> DueMessage | None:
        """Return the summary if it is due."""
        summary = self.summary
        if summary is None or now_ms < max(summary.due_ms, summary.retry_ms):
            return None
        return DueMessage(self.name, summary.key, "firing", tuple(summary.alerts), is_summary=True)

    def without_summary(self, ended: StormSummary, now_ms: int, window_ms: int) -> "DestinationState":
        """Return the state after a summary was sent, or given up; later messages wait for the next summary."""
        left = None
        if self.summary is not None and self.summary.n_withheld > ended.n_withheld:
            later = {name: alert for name, alert in self.summary.alerts.items() if ended.alerts.get(name) != alert}
            left = StormSummary(
                key=f"storm-{self.name}-{now_ms}",
                due_ms=now_ms + window_ms,
                alerts=later,
                n_withheld=self.summary.n_withheld - ended.n_withheld,
            )
        return self.model_copy(update={"summary": left, "summary_sent_ms": now_ms})


COMPONENT = "notify"
"""Name of the component in dead letters."""


def failing_alert(destination: str, partition: int, reason: str, now_ms: int) -> Alert:
    """Return the alert that a destination fails; it is sent to the other destinations."""
    return Alert(
        alert_id=f"{FAILING_RULE}{destination}:{partition}:{now_ms}",
        status="firing",
        rule=f"{FAILING_RULE}{destination}",
        kind="stall",
        pipeline="*",
        metric="notify.deliveries",
        direction="fall",
        fired_at=_time(now_ms),
        message=(
            f"An alert could not be delivered to destination {destination} and is now a dead letter: {reason} "
            "ragtide dead-letters shows it; ragtide notify test tries the destination."
        )[:4000],
    )


def dead_letter(
    change: PendingChange, destination: str, *, stream: str, tries: int, reason: str, now_ms: int
) -> DeadLetter:
    """Return the dead letter of a change that was not delivered to a destination."""
    return DeadLetter.of(
        change.alert.encode(),
        stream=stream,
        entry_id=change.entry_id,
        reason=Reason.UNDELIVERABLE,
        detail=f"destination {destination} did not get the change of the alert to {change.status}: {reason}",
        component=COMPONENT,
        deliveries=tries,
        failed_at=_time(now_ms),
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
