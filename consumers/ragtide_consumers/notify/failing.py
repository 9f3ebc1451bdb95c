"""The alert that a destination fails, and dead letters of changes that a destination was never told."""

from datetime import UTC, datetime

from ragtide_schemas import Alert, DeadLetter, Reason

from .grouping import PendingChange
from .routing import FAILING_RULE

COMPONENT = "notify"
"""Name of the component in dead letters."""


def failing_alert(destination: str, partition: int, reason: str, now_ms: int) -> Alert:
    """Return the alert that a destination was not told something; the other destinations are told it."""
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
            f"Destination {destination} could not be told an alert, which is now a dead letter: {reason} "
            "ragtide dead-letters shows it; ragtide notify test tries the destination."
        )[:4000],
    )


def dead_letter(
    change: PendingChange, destination: str, *, stream: str, tries: int, reason: str, now_ms: int
) -> DeadLetter:
    """Return the dead letter of a change that a destination was not told."""
    return DeadLetter.of(
        change.alert.encode(),
        stream=stream,
        entry_id=change.entry_id,
        reason=Reason.UNDELIVERABLE,
        detail=f"destination {destination} was not told that the alert is {change.status}: {reason}",
        component=COMPONENT,
        deliveries=tries,
        failed_at=_time(now_ms),
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
