"""Alerts for tests."""

from typing import Any

from ragtide import Alert
from ragtide_schemas import utc_now


def alert(alert_id: str, **fields: Any) -> Alert:
    """Return an alert that states no statistics."""
    given: dict[str, Any] = {
        "alert_id": alert_id,
        "status": "firing",
        "rule": "stall",
        "kind": "stall",
        "pipeline": "shop",
        "metric": "trace.adherence",
        "direction": "fall",
        "fired_at": utc_now(),
        "message": f"Alert {alert_id}.",
    }
    return Alert(**given | fields)
