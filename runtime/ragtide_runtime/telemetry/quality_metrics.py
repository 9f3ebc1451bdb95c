"""Prometheus metrics of quality: the estimates of a partition and its firing alerts, as data."""

from typing import Final

from .metric import Metric

QUALITY: Final = "quality"
"""Name of these metrics in the catalogue."""

ESTIMATE_LABELS: Final = (
    "partition",
    "pipeline",
    "segment",
    "metric",
    "metric_version",
    "profile",
    "labeler",
    "labeler_version",
    "window",
    "estimator",
)
"""Labels of an estimate. Prometheus takes an empty label for a missing one."""

ALERT_LABELS: Final = (
    "partition",
    "rule",
    "kind",
    "severity",
    "pipeline",
    "segment",
    "metric",
    "metric_version",
    "profile",
    "labeler",
    "labeler_version",
)
"""Labels of an alert, which stay the same until it resolves."""

ESTIMATE: Final = Metric("ragtide_estimate", "gauge", "The estimate; no series while it is unknown.", ESTIMATE_LABELS)
ESTIMATE_LOWER: Final = Metric(
    "ragtide_estimate_lower",
    "gauge",
    "Lower end of its interval; no series without an estimate, or for a metric without an interval.",
    ESTIMATE_LABELS,
)
ESTIMATE_UPPER: Final = Metric(
    "ragtide_estimate_upper",
    "gauge",
    "Upper end of its interval; no series without an estimate, or for a metric without an interval.",
    ESTIMATE_LABELS,
)
ESTIMATE_N: Final = Metric("ragtide_estimate_n", "gauge", "Number of values in the estimate.", ESTIMATE_LABELS)
ESTIMATE_NEWEST: Final = Metric(
    "ragtide_estimate_newest_timestamp_seconds",
    "gauge",
    "Time of the newest interaction in the estimate, in seconds since 1970; no series without an interaction.",
    ESTIMATE_LABELS,
)
ALERT_FIRING: Final = Metric(
    "ragtide_alert_firing", "gauge", "1 while the alert fires; no series otherwise.", ALERT_LABELS
)
LEFT_OUT: Final = Metric(
    "ragtide_quality_left_out",
    "gauge",
    "Keys whose estimates (`estimates`) and firing alerts (`alerts`) have no series because of `prometheus.cap`.",
    ("partition", "what"),
)
QUALITY_METRICS: Final = (
    ESTIMATE,
    ESTIMATE_LOWER,
    ESTIMATE_UPPER,
    ESTIMATE_N,
    ESTIMATE_NEWEST,
    ALERT_FIRING,
    LEFT_OUT,
)


HEADLINE_LABELS: Final = ("pipeline", "metric", "metric_version", "profile", "labeler", "estimator", "range")
"""Labels of a headline, the one number of a metric that every screen shows."""

HEADLINE: Final = Metric(
    "ragtide_headline", "gauge", "The number that every screen shows; no series while it is unknown.", HEADLINE_LABELS
)
HEADLINE_LOWER: Final = Metric("ragtide_headline_lower", "gauge", "Lower end of its interval.", HEADLINE_LABELS)
HEADLINE_UPPER: Final = Metric("ragtide_headline_upper", "gauge", "Upper end of its interval.", HEADLINE_LABELS)
HEADLINE_N: Final = Metric("ragtide_headline_n", "gauge", "Number of values in its range.", HEADLINE_LABELS)
HEADLINE_STATE: Final = Metric(
    "ragtide_headline_state",
    "gauge",
    "1 for the state of the metric: `firing`, `suspicious`, `moved`, `silent`, `judge stopped`, `being measured`, "
    "`too few`, `learning`, `steady` or `unwatched`.",
    ("pipeline", "metric", "metric_version", "profile", "state"),
)
HEADLINE_METRICS: Final = (HEADLINE, HEADLINE_LOWER, HEADLINE_UPPER, HEADLINE_N, HEADLINE_STATE)


def quality_table() -> str:
    """Return these metrics as a Markdown table."""
    lines = ["| metric | labels | meaning |", "|---|---|---|"]
    of = {ESTIMATE_LABELS: "of an estimate", ALERT_LABELS: "of an alert", HEADLINE_LABELS: "of a headline"}
    for metric in (*QUALITY_METRICS, *HEADLINE_METRICS):
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        shown = of.get(metric.labels, labels)
        lines.append(f"| `{metric.name}` | {shown} | {metric.meaning} |")
    return "\n".join(lines) + "\n"
