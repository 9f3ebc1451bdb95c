"""Notifications for tests."""

from datetime import UTC, datetime
from typing import Any

from ragtide_consumers.notify.notification import Notification
from ragtide_schemas import Alert, ChangeCause, SegmentShare

DIAGNOSIS = (
    "The documents are relevant, and the answers go beyond them (context_relevance 0.52, adherence 0.71): restrict the "
    "prompt to the documents, lower the temperature, or try a model that keeps to its context."
)
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
        "normal": 0.91,
        "normal_n": 500,
        "limit": 0.833,
        "observed": 0.712,
        "observed_n": 240,
        "observed_lower": 0.68,
        "observed_upper": 0.744,
        "log_evidence": 10.2,
        "run_length": 10_000,
        "n": 5_000,
        "worst_interaction_ids": ("q-17", "q-4"),
        "diagnosis": (DIAGNOSIS,),
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


def mix_cause(**changes: Any) -> ChangeCause:
    """Return a cause: more of one language."""
    share = SegmentShare(
        value="lang=de", before=0.12, before_lower=0.1, before_upper=0.14, since=0.31, since_lower=0.27,
        since_upper=0.35, mean_before=0.61, mean_since=0.605,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "verdict": "mix", "segment": "lang", "n_before": 900, "n_since": 400, "mix": -0.1, "mix_lower": -0.14,
        "mix_upper": -0.06, "within": 0.01, "within_lower": -0.02, "within_upper": 0.03, "confidence": 0.95,
        "shares": (share,), "text": "mostly mix: more lang=de (12% to 31%)",
    }  # fmt: skip
    return ChangeCause(**fields | changes)
