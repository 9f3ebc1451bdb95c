"""Notifications for tests."""

from datetime import UTC, datetime
from typing import Any

from ragtide_consumers.notify.notification import Notification
from ragtide_schemas import Alert

BEGAN = datetime(2026, 11, 23, 2, 40, tzinfo=UTC)
FIRED = datetime(2026, 11, 23, 3, 2, tzinfo=UTC)
RESOLVED = datetime(2026, 11, 23, 5, 30, tzinfo=UTC)


def drift(**changes: Any) -> Alert:
    """Return an alert of a mean that fell."""
    fields: dict[str, Any] = {
        "alert_id": "adherence-3f2a9c",
        "status": "firing",
        "rule": "adherence",
        "kind": "drift",
        "severity": "page",
        "pipeline": "shop",
        "metric": "trace.adherence",
        "profile": "ragbench",
        "labeler": "judge",
        "labeler_version": "v1",
        "direction": "fall",
        "fired_at": FIRED,
        "began_at": BEGAN,
        "baseline": 0.853,
        "baseline_source": "learned",
        "observed": 0.712,
        "observed_n": 240,
        "observed_lower": 0.68,
        "observed_upper": 0.744,
        "log_evidence": 10.2,
        "run_length": 10_000,
        "n": 5_000,
        "worst_interaction_ids": ("q-17", "q-4"),
        "diagnosis": ("The documents are relevant, and the answers go beyond them (...): restrict the prompt.",),
        "message": "trace.adherence of shop fell.",
    }
    return Alert(**fields | changes)


def told_of(*alerts: Alert, **changes: Any) -> Notification:
    """Return a notification about alerts; by default about one that fires."""
    given = alerts or (drift(),)
    fields: dict[str, Any] = {
        "key": given[0].alert_id,
        "status": given[0].status,
        "alerts": given,
        "url": "https://ragtide.example/a/adherence-3f2a9c",
        "raised_at": FIRED,
    }
    return Notification(**fields | changes)
