"""Makes the record of an alert: the parts that alerts of all rules have in common. No state."""

from collections.abc import Sequence
from typing import Any

from ragtide_schemas import Alert, AlertRule, MetricEvent, from_milliseconds

from ..events.keys import EstimateKey


def alert_record(
    rule: AlertRule,
    key: EstimateKey,
    event: MetricEvent,
    *,
    alert_id: str,
    fired: Alert | None,
    began_ms: int,
    run_length: float,
    contributors: Sequence[str],
    **fields: Any,
) -> Alert:
    """Return a firing alert, or the resolution of the alert that had fired.

    Args:
        rule: the rule.
        key: scope and labeler of the values.
        event: the event at which the alert fired or was resolved.
        alert_id: its id.
        fired: the alert that had fired; None for a firing alert.
        began_ms: time at which the change of a firing alert began, in milliseconds.
        run_length: mean number of values to a false alarm.
        contributors: ids of the interactions that moved the evidence most.
        fields: the other fields of the alert.
    """
    # Interactions come in any order, and the times of an alert do not: a late one does not move them past each other.
    at = event.occurred_at
    known: dict[str, Any] = {
        "alert_id": alert_id,
        "status": "firing" if fired is None else "resolved",
        "rule": rule.name,
        "kind": rule.kind,
        "severity": rule.severity if fired is None else fired.severity,
        "pipeline": key.pipeline,
        "segment": key.segment,
        "run": key.run,
        "metric": rule.metric,
        "metric_version": None if key.measure is None else key.measure.version,
        "profile": key.profile,
        "labeler": key.labeler,
        "labeler_version": key.labeler_version,
        "fired_at": at if fired is None else fired.fired_at,
        "resolved_at": None if fired is None else max(at, fired.explained_at or fired.fired_at),
        # At the end of an alert the detector has found the return to normal; the alert is about the change before.
        "began_at": min(from_milliseconds(began_ms), at) if fired is None else fired.began_at,
        "run_length": run_length if fired is None else fired.run_length,
        "worst_interaction_ids": tuple(contributors) if fired is None else (),
    }
    return Alert(**known, **fields)
