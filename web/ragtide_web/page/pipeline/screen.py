"""The pipeline: its metrics with their bands over time, and its segments. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from ragtide_aggregator.estimates.over_time import History
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_schemas import METRICS, Alert, AlertRule, Direction, Estimate, MetricDefinition

from ..bands import BandChart, Mark
from ..fleet.screen import Cell, FleetRow, importance, newness

RANGES: Final = {
    "1h": timedelta(hours=1),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "60d": timedelta(days=60),
}
"""Ranges with a button."""
DEFAULT: Final = "24h"
LEAST: Final = timedelta(minutes=1)

CellOf = Callable[[Estimate], Cell | None]
SEGMENT_ROWS: Final = 60
"""Segment values that the screen shows, those with the most values first."""
DEPLOYS: Final = 20
"""Marks of first values of `version`."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The shown range."""

    start: datetime
    end: datetime
    name: str
    """A name of `RANGES`; empty for a range that a user chose."""


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
        return TimeSpan(first, last, "")
    found = name if name in RANGES else DEFAULT
    return TimeSpan(now - RANGES[found], now, found)


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text[:40])
    except ValueError:
        return None
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
    try:
        return found.astimezone(UTC)
    except OverflowError:
        return None


@dataclass(frozen=True, slots=True)
class MetricPanel:
    """One metric of the pipeline."""

    metric: str
    cell: Cell
    chart: BandChart
    meaning: str
    does_not_tell: str
    bands: tuple[float, float, float] | None
    """Where the bands acceptable, good and excellent begin; None without bands."""
    higher_is_better: bool | None
    key: EstimateKey | None = None
    """Of the chart; None without a history."""
    since: tuple[str, datetime] | None = None
    """`falling` or `rising`, and the probable beginning: of the alert that fires, or of the evidence of a rule."""


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """One segment value."""

    value: str
    n: int
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The facts that the panels of a pipeline share."""

    span: TimeSpan
    """The shown range."""
    alerts: Sequence[Alert] = ()
    """Alerts of the pipeline, the newest first."""
    rules: Sequence[AlertRule] = ()
    """Rules on the whole pipeline."""
    deploys: Sequence[Mark] = ()
    """First values of `version`."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Range of each metric."""


def panels(row: FleetRow, histories: Mapping[str, Sequence[History]], known: Surroundings) -> list[MetricPanel]:
    """Return the panels of the metrics of a pipeline, the most important first.

    A metric without bands and without a history has no panel: it is among the numbers.

    Args:
        row: of the fleet.
        histories: of each metric.
        known: range, alerts, rules and versions.
    """
    found = [_panel(row.cells[name], histories.get(name, ()), known) for name in sorted(row.cells, key=importance)]
    return [panel for panel in found if panel.bands is not None or panel.chart.points]


def _panel(cell: Cell, histories: Sequence[History], known: Surroundings) -> MetricPanel:
    span, limits = known.span, known.ranges.get(cell.metric, (0.0, 1.0))
    mine = [alert for alert in known.alerts if alert.metric == cell.metric and alert.segment is None]
    # Labelers are never mixed in one line: the chart has the labeler of the number above it, in its newest version.
    found = [history for history in histories if history.key.labeler == cell.labeler and history.points]
    chosen = max(found, key=lambda history: history.points[-1].start, default=None)
    definition = METRICS.get(cell.metric)
    bands = None if definition is None else definition.bands
    chart = BandChart(
        points=() if chosen is None else chosen.points,
        start=span.start,
        end=span.end,
        step=_step(chosen, span),
        lowest=limits[0],
        highest=limits[1],
        target=_target(known.rules, cell.metric),
        baseline=next(
            (alert.baseline for alert in mine if alert.baseline_source in ("learned", "given", "window")), None
        ),
        marks=sorted((*_marks(mine, span), *known.deploys), key=lambda mark: mark.at),
    )
    return MetricPanel(
        metric=cell.metric,
        cell=cell,
        chart=chart,
        meaning="" if definition is None else definition.meaning,
        does_not_tell="" if definition is None else definition.does_not_tell,
        bands=None if bands is None else (bands.minimum, bands.good, bands.excellent),
        higher_is_better=_higher(definition),
        key=None if chosen is None else chosen.key,
        since=_since(cell, mine),
    )


def _since(cell: Cell, alerts: Sequence[Alert]) -> tuple[str, datetime] | None:
    words = {"fall": "falling", "rise": "rising"}
    for alert in alerts:
        if alert.status != "resolved" and alert.began_at is not None and alert.direction in words:
            return words[alert.direction], alert.began_at
    found = cell.suspicion
    if found is None or found.began_at is None or found.direction not in words:
        return None
    return words[found.direction], found.began_at


def _higher(definition: MetricDefinition | None) -> bool | None:
    if definition is None or definition.direction is Direction.NEITHER:
        return None
    return definition.direction is Direction.HIGHER


def _step(history: History | None, span: TimeSpan) -> timedelta:
    return (span.end - span.start) / 100 if history is None else history.step


def _target(rules: Sequence[AlertRule], metric: str) -> float | None:
    return next((rule.target for rule in rules if rule.metric == metric and rule.target is not None), None)


def _marks(alerts: Sequence[Alert], span: TimeSpan) -> list[Mark]:
    found = []
    for alert in alerts:
        for kind, at in (("began", alert.began_at), ("fired", alert.fired_at)):
            if at is not None and span.start <= at < span.end:
                found.append(Mark(at, kind, alert.rule))
    return found


def deploy_marks(first_seen: Mapping[str, datetime], span: TimeSpan) -> list[Mark]:
    """Return marks at the first values of versions within the range.

    Args:
        first_seen: start of the first pane of each value of the segment `version`.
        span: the shown range. A version that was there at its start has no mark.
    """
    found = [Mark(at, "deploy", value) for value, at in first_seen.items() if span.start < at < span.end]
    return sorted(found, key=lambda mark: mark.at)[-DEPLOYS:]


def segment_rows(found: Iterable[Estimate], cell_of: CellOf, metrics: Sequence[str]) -> dict[str, list[SegmentRow]]:
    """Return the segment values of a pipeline by the name of their segment, the most values first.

    Args:
        found: estimates of all time of the pipeline.
        cell_of: makes a cell of an estimate; None without an interval.
        metrics: that have a column.
    """
    by_value: defaultdict[str, dict[str, Estimate]] = defaultdict(dict)
    for estimate in found:
        if (
            estimate.segment is None
            or estimate.run is not None
            or estimate.estimator != "mean"
            or estimate.metric not in metrics
        ):
            continue
        known = by_value[estimate.segment].get(estimate.metric)
        if known is None or newness(estimate) > newness(known):
            by_value[estimate.segment][estimate.metric] = estimate
    rows = [
        SegmentRow(
            value,
            max(estimate.n for estimate in of.values()),
            {name: cell for name, estimate in of.items() if (cell := cell_of(estimate)) is not None},
        )
        for value, of in by_value.items()
    ]
    rows.sort(key=lambda row: (-row.n, row.value))
    groups: defaultdict[str, list[SegmentRow]] = defaultdict(list)
    for row in rows[:SEGMENT_ROWS]:
        groups[row.value.partition("=")[0]].append(row)
    return dict(groups)
