"""Releases on the terminal: one in a line, and the metrics of one."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from ragtide_schemas.estimate import shown_metric
from ragtide_schemas.headline import MeanOfAll
from ragtide_schemas.release import MetricVerdict, Release, Verdict

from . import Column
from .estimates import short_name

STYLES: Final[dict[Verdict, str]] = {"worse": "red", "not_worse": "green", "undecided": "yellow", "not_comparable": ""}


def verdict_text(verdict: Verdict) -> Text:
    """Return a verdict in words, with its color."""
    return Text(verdict.replace("_", " "), style=STYLES[verdict])


def mean_text(mean: MeanOfAll | None) -> str:
    """Return a mean; a dash without a value."""
    return "-" if mean is None or mean.estimate is None else f"{mean.estimate:.3g}"


def _metric(row: MetricVerdict) -> str:
    return short_name(shown_metric(row.metric, row.metric_version))


def _of_first(release: Release) -> tuple[str, str, str]:
    """Return the metric that a release stands on, the worst, with both means."""
    if not release.metrics:
        return "", "", ""
    row = next((row for row in release.metrics if row.metric == release.decided_by), release.metrics[0])
    return _metric(row), mean_text(row.before), mean_text(row.after)


RELEASE_COLUMNS: Final[Sequence[Column[Release]]] = (
    Column("pipeline", lambda release: release.pipeline, yields=3, shortest=10),
    Column("from", lambda release: release.from_version, yields=5, shortest=7),
    Column("to", lambda release: release.to_version, yields=5, shortest=7),
    Column("verdict", lambda release: verdict_text(release.verdict)),
    Column("metric", lambda release: _of_first(release)[0], yields=4, shortest=10),
    Column("before", lambda release: _of_first(release)[1], right=True),
    Column("after", lambda release: _of_first(release)[2], right=True),
    Column("answers", lambda release: f"{release.n[1]:,}", right=True, yields=2),
    Column("opened", lambda release: f"{release.opened_at:%Y-%m-%d %H:%M}" if release.opened_at else "", yields=1),
    Column("ended", lambda release: f"{release.ended_at:%H:%M}" if release.ended_at else "open", yields=6),
)
"""Of releases, one in a row; the numbers are those of the metric that decided, or that stands worst."""

VERDICT_COLUMNS: Final[Sequence[Column[MetricVerdict]]] = (
    Column("metric", _metric, yields=4, shortest=12),
    Column("labeler", lambda row: row.labeler, yields=2, shortest=8),
    Column("before", lambda row: mean_text(row.before), right=True),
    Column("after", lambda row: mean_text(row.after), right=True),
    Column("difference", lambda row: "-" if row.difference is None else f"{row.difference:+.3g}", right=True),
    Column(
        "interval",
        lambda row: "-" if row.lower is None or row.upper is None else f"{row.lower:+.3g} to {row.upper:+.3g}",
        right=True,
    ),
    Column("margin", lambda row: f"{row.margin:.2g}", right=True, yields=3),
    Column("to go", lambda row: "" if row.answers_to_go is None else f"{row.answers_to_go:,}", right=True, yields=1),
    Column("verdict", lambda row: verdict_text(row.verdict)),
)
"""Of the metrics of a release."""
