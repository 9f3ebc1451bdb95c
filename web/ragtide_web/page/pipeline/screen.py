"""The pipeline: its metrics with their bands over time, and its segments. No clock, no I/O."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from ragtide_aggregator.estimates.over_time import History
from ragtide_aggregator.estimates.ranges import RANGES, HeadlineRange
from ragtide_aggregator.statistics.intervals.intervals import Interval, ratio
from ragtide_schemas import METRICS, Alert, AlertRule, Direction, Estimate, Headline, MetricDefinition
from ragtide_schemas.metric_definitions import ANSWER_COST, ANSWER_LATENCY, USAGE
from ragtide_schemas.step_metrics import TOOL_FAMILY

from ...reading.bands import BandChart, Mark, chart_start
from ...reading.fleet import importance

DEFAULT: Final = "24h"
LEAST: Final = timedelta(minutes=1)

SEGMENT_ROWS: Final = 60
"""Segment values that the screen shows, those with the most values first."""
VERSION_IS: Final = "version="
"""Begin of the values of the segment that marks deployments."""
USES: Final = (ANSWER_COST.name, ANSWER_LATENCY.name)
"""Metrics by which quality is divided."""
DEPLOYS: Final = 20
"""Marks of first values of `version`."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The shown range."""

    start: datetime
    end: datetime
    name: str
    """A name of `RANGES`, or `all`; empty for the default range and for a range that a user chose."""
    is_given: bool = False
    """Whether a user chose start and end."""

    @property
    def of_headlines(self) -> HeadlineRange | str:
        """The range of the numbers."""
        if self.is_given:
            return HeadlineRange("since", self.start, self.end)
        return self.name or "default"


def time_span(name: str, start: str, end: str, now: datetime) -> TimeSpan:
    """Return the range in an address; of anything that is no range the default.

    Args:
        name: of `RANGES`.
        start: in ISO 8601; empty for the range of the name.
        end: the same.
        now: end of the range of a name.
    """
    first, last = _time(start), _time(end)
    if first is not None and last is not None and last - first >= LEAST:
        return TimeSpan(first, last, "", is_given=True)
    if name == "all":
        return TimeSpan(now - max(RANGES.values()), now, name)
    return TimeSpan(now - RANGES.get(name, RANGES[DEFAULT]), now, name if name in RANGES else "")


def _time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text[:40])
    except ValueError:
        return None
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return None


@dataclass(frozen=True, slots=True)
class MetricPanel:
    """One metric of the pipeline."""

    headline: Headline
    chart: BandChart
    quantiles: Mapping[str, float]
    """Of a number of the answer, such as its latency, over all time, by `p50` and so on; empty for others."""
    rule: str = ""
    """A rule that would watch the metric, in TOML, where its level moved and no rule watches it."""

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return self.headline.metric

    @property
    def definition(self) -> MetricDefinition | None:
        """Meaning, bands and direction of one of ragtide's own metrics; None of another."""
        return METRICS.get(self.metric)


@dataclass(frozen=True, slots=True)
class UseRow:
    """Quality, cost and latency of a pipeline, or of one of its versions, over all time."""

    version: str
    """Empty for the whole pipeline."""
    quality: Estimate | None
    """By the labeler and estimator of the headline; None of a version without such a number yet."""
    used: Mapping[str, tuple[Estimate, Interval[float | None, float | None] | None]]
    """By `answer.cost_usd` and `answer.latency_s`: its mean, and the quality divided by it."""


def panels(
    headlines: Iterable[Headline],
    histories: Mapping[str, Sequence[History]],
    span: TimeSpan,
    *,
    alerts: Sequence[Alert] = (),
    rules: Sequence[AlertRule] = (),
    deploys: Sequence[Mark] = (),
    numbers: Sequence[Estimate] = (),
) -> list[MetricPanel]:
    """Return the panels of the metrics of a pipeline, the most important first; small metrics are among the numbers.

    A metric without bands and without a history has no panel, either.

    Args:
        histories: of each metric.
        span: the shown range.
        alerts: of the pipeline, the newest first.
        rules: on the whole pipeline.
        deploys: first values of `version`.
        numbers: estimates of all time of the whole pipeline.
    """
    shown_panels = []
    for headline in sorted(headlines, key=lambda headline: importance(headline.metric)):
        if not may_have_panel(headline):
            continue
        mine = [alert for alert in alerts if alert.metric == headline.metric and alert.segment is None]
        marks = [
            Mark(at, kind, alert.rule)
            for alert in mine
            for kind, at in (("began", alert.began_at), ("fired", alert.fired_at))
            if at is not None and span.start <= at < span.end
        ]
        move = headline.move if headline.state in {"moved", "firing"} else None
        if (
            move is not None
            and all(alert.began_at is None for alert in mine)
            and span.start <= move.began_at < span.end
        ):
            marks.append(Mark(move.began_at, "began", ""))
        thresholds = (
            rule
            for rule in rules
            if rule.watches_metric(headline.metric) and rule.kind == "threshold" and rule.quantile is None
        )
        panel = MetricPanel(
            headline=headline,
            chart=_chart(
                headline,
                histories.get(headline.metric, ()),
                span,
                alerts=mine,
                target=next((rule.target for rule in thresholds), None),
                marks=[*marks, *deploys],
            ),
            quantiles=_quantiles(numbers, headline),
            rule=_rule(headline) if headline.state == "moved" and not headline.rules else "",
        )
        if panel.chart.points or (panel.definition and panel.definition.bands):
            shown_panels.append(panel)
    return shown_panels


def may_have_panel(headline: Headline) -> bool:
    """Return whether a metric has a panel if it has a history; metrics of tools are in their table until they move."""
    return headline.is_news or not (headline.is_small or headline.metric.startswith(TOOL_FAMILY))


def _chart(
    headline: Headline,
    histories: Sequence[History],
    span: TimeSpan,
    *,
    alerts: Sequence[Alert],
    target: float | None,
    marks: Sequence[Mark],
) -> BandChart:
    # Labelers are never mixed in one line: the chart has the labeler of the number above it, in its version.
    version = headline.labeler_version
    chosen = max(
        (history for history in histories if history.key.labeler == headline.labeler and history.points),
        key=lambda history: (history.key.labeler_version == version, history.points[-1].start),
        default=None,
    )
    lowest, highest = headline.value_range
    return BandChart(
        points=() if chosen is None else chosen.points,
        start=chart_start(chosen, span.start),
        end=span.end,
        lowest=lowest,
        highest=highest,
        target=target,
        baseline=next(
            (alert.normal for alert in alerts if alert.normal is not None and alert.quantity == "mean"), None
        ),
        marks=sorted(marks, key=lambda mark: mark.at),
        changed_at=next((alert.began_at for alert in alerts if alert.status != "resolved" and alert.began_at), None),
    )


def _rule(headline: Headline) -> str:
    # The level before the move is its baseline: a rule that learned now would take the changed level as normal.
    move = headline.move
    normal = (
        "" if move is None else f"\nbaseline = {move.before:.4f}  # learned before the change; {move.after:.3f} since"
    )
    name = re.sub(r"[^a-z0-9]+", "-", f"{headline.pipeline}-{headline.metric}".lower()).strip("-")
    return (
        f"[[alerts]]\nname = {json.dumps(name)}\npipeline = {json.dumps(headline.pipeline, ensure_ascii=False)}\n"
        f'metric = {json.dumps(headline.metric)}\nkind = "drift"{normal}\n'
    )


def _quantiles(numbers: Sequence[Estimate], headline: Headline) -> Mapping[str, float]:
    if headline.metric not in {definition.name for definition in USAGE.values()}:
        return {}
    known = (
        estimate.quantiles
        for estimate in numbers
        if (estimate.metric, estimate.labeler) == (headline.metric, headline.labeler) and estimate.quantiles
    )
    return next(known, {})


def change_times(headline: Headline, alerts: Sequence[Alert], deploys: Sequence[Mark]) -> list[datetime]:
    """Return the times at which values of a metric of a whole pipeline may have changed.

    Args:
        deploys: first values of versions.
    """
    times = [mark.at for mark in deploys]
    times += [
        alert.began_at
        for alert in alerts
        if alert.began_at is not None and alert.segment is None and alert.metric == headline.metric
    ]
    return times if headline.move is None else [*times, headline.move.began_at]


def deploy_marks(first_seen: Mapping[str, datetime], span: TimeSpan) -> list[Mark]:
    """Return marks at the first values of versions within the range.

    Args:
        first_seen: start of the first pane of each value of the segment `version`.
        span: the shown range. A version that was there at its start has no mark.
    """
    marks = [Mark(at, "deploy", value) for value, at in first_seen.items() if span.start < at < span.end]
    return sorted(marks, key=lambda mark: mark.at)[-DEPLOYS:]


def use_rows(estimates: Sequence[Estimate], headlines: Iterable[Headline]) -> list[UseRow]:
    """Return the quality per dollar and per second of a pipeline and of its versions; empty without cost and latency.

    The quality is the most important metric that is better when it is higher, by the labeler and estimator of its
    headline. Cost and latency do not depend on the labeler, so those with the most values count.

    Args:
        estimates: of all time of the pipeline and its segment values.
    """
    qualities = (headline for headline in headlines if _is_quality(headline))
    headline = min(qualities, key=lambda headline: importance(headline.metric), default=None)
    if headline is None:
        return []
    rows: list[UseRow] = []
    scopes = {estimate.segment for estimate in estimates if (estimate.segment or VERSION_IS).startswith(VERSION_IS)}
    for segment in sorted(scopes, key=lambda segment: segment or ""):
        mine = [estimate for estimate in estimates if estimate.segment == segment and estimate.estimate is not None]
        quality = next((estimate for estimate in mine if _measures(estimate, headline)), None)
        used = {}
        for name in USES:
            same_use = (estimate for estimate in mine if estimate.metric == name)
            use = max(same_use, key=lambda estimate: estimate.n, default=None)
            if use is not None:
                used[name] = use, None if quality is None else ratio(_ends(quality), _ends(use))
        if used and (quality is not None or rows):
            rows.append(UseRow((segment or "").removeprefix(VERSION_IS), quality, used))
    rows[1:] = sorted(rows[1:], key=lambda row: -(row.quality.n if row.quality else 0))[:DEPLOYS]
    return rows


def _measures(estimate: Estimate, headline: Headline) -> bool:
    names = ("metric", "labeler", "labeler_version", "estimator", "proxy", "profile", "metric_version")
    return (estimate.has_interval or estimate.estimator == "mean") and all(
        getattr(estimate, name) == getattr(headline, name) for name in names
    )


def _is_quality(headline: Headline) -> bool:
    definition = METRICS.get(headline.metric)
    return (
        headline.estimate is not None
        and definition is not None
        and definition.direction is Direction.HIGHER
        and definition.bands is not None
        and definition.lower == 0
    )


def _ends(estimate: Estimate) -> Interval[float, float]:
    lowest, highest = estimate.value_range
    mean = estimate.estimate or 0.0
    return Interval(
        mean,
        lowest if estimate.lower is None else estimate.lower,
        highest if estimate.upper is None else estimate.upper,
    )


Segments = dict[str, dict[str, dict[str, Headline]]]
"""Headlines by the name of a segment, its value and the metric."""


def segments_of(headlines: Iterable[Headline], metrics: Sequence[str]) -> Segments:
    """Return the headlines of the segment values of a pipeline, the values with the most interactions first.

    Args:
        metrics: that have a column.
    """
    by_value: defaultdict[str, dict[str, Headline]] = defaultdict(dict)
    for headline in headlines:
        if headline.segment is not None and headline.metric in metrics:
            by_value[headline.segment][headline.metric] = headline
    most_n = {value: max(headline.n for headline in own.values()) for value, own in by_value.items()}
    most_first = sorted(by_value, key=lambda value: (-most_n[value], value))
    segments: Segments = {}
    for value in most_first[:SEGMENT_ROWS]:
        segments.setdefault(value.partition("=")[0], {})[value] = by_value[value]
    return segments
