"""The fleet: one row for each pipeline, with the interval of each chosen metric. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Final, NamedTuple

from ragtide_aggregator.estimates.means import MetricMean
from ragtide_aggregator.reading.suspicions import Suspicion
from ragtide_schemas import METRICS, Alert, Direction, Estimate

Mean = MetricMean | Estimate

COLUMNS: Final = 4
"""Metrics that the fleet shows unless the address names others."""
COLUMNS_MAX: Final = 20
PREFERRED: Final = (
    "adherence",
    "supported_fraction",
    "context_relevance",
    "context_utilization",
    "completeness",
    "faithfulness",
    "claim_recall",
    "hallucination",
    "rmse",
)
"""Metrics by their importance for the screen; others follow by name."""

STATES: Final = ("firing", "suspicious", "falling", "rising", "steady", "too few", "silent")
"""States of a pipeline or a metric, the worst first."""


class Cell(NamedTuple):
    """One metric of one pipeline, with positions on the metric's whole range from 0 to 100."""

    key: str
    """Identifies the cell on the page."""
    metric: str
    estimate: float
    lower: float
    upper: float
    n: int
    at: tuple[float, float, float]
    """Positions of lower end, estimate and upper end."""
    target: float | None
    """Position of the target of a rule, or of the edge of the band `good`; None without one."""
    state: str
    band: str
    labeler: str
    more: int | None = None
    """About how many more values narrow the interval enough; None unless it is too wide."""
    suspicion: Suspicion | None = None
    """Evidence of a rule that is near its line."""

    def patch(self) -> list[object]:
        """Return the numbers that change, as `live.js` reads them."""
        return [f"{self.estimate:z.3f}", f"{self.lower:z.3f} – {self.upper:z.3f}", *self.at, self.state]


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One pipeline."""

    pipeline: str
    state: str
    n: int
    updated_at: datetime | None
    cells: Mapping[str, Cell]
    alerts: int
    """Alerts that fire."""

    @property
    def key(self) -> str:
        """Identifies the row on the page."""
        return f"row:{self.pipeline}"


@dataclass(frozen=True, slots=True)
class Fleet:
    """The rows of the fleet, the worst state first, and the shown metrics."""

    rows: Sequence[FleetRow]
    metrics: Sequence[str]
    known_metrics: Sequence[str]
    """All metrics that any pipeline has."""

    def patches(self) -> dict[str, list[object]]:
        """Return all numbers of the screen by the key of their place."""
        found: dict[str, list[object]] = {}
        for row in self.rows:
            found[row.key] = [row.state, f"{row.n:,}"]
            found |= {cell.key: cell.patch() for cell in row.cells.values()}
        return found

    @property
    def shape(self) -> tuple[object, ...]:
        """The places on the screen: patches fit until the shape changes."""
        return tuple((row.pipeline, row.state, tuple(row.cells)) for row in self.rows), tuple(self.metrics)


def fleet(
    means: Iterable[MetricMean],
    alerts: Iterable[Alert],
    *,
    metrics: Sequence[str] = (),
    state: str = "",
    text: str = "",
    targets: Mapping[tuple[str, str], float] | None = None,
    now: datetime | None = None,
    suspicions: Iterable[Suspicion] = (),
) -> Fleet:
    """Return the fleet.

    Args:
        means: of the pipelines that the viewer may see.
        alerts: in their latest state.
        metrics: to show; the most important ones unless given.
        state: only pipelines in this state; all unless given.
        text: only pipelines whose name contains this text.
        targets: value of a target by pipeline (or `*`) and metric.
        now: for finding silent pipelines; without it none is silent.
        suspicions: evidence of rules that do not fire.
    """
    firing: defaultdict[str, list[Alert]] = defaultdict(list)
    for alert in alerts:
        if alert.status != "resolved":
            firing[alert.pipeline].append(alert)
    suspected = {
        (suspicion.pipeline, suspicion.metric): suspicion
        for suspicion in suspicions
        if suspicion.once_in * SUSPICIOUS_PART >= suspicion.run_length
    }
    by_pipeline: defaultdict[str, dict[str, MetricMean]] = defaultdict(dict)
    for mean in means:
        known = by_pipeline[mean.pipeline].get(mean.metric)
        # Labelers are never mixed: the cell has the labeler with the newest value.
        if known is None or newness(mean) > newness(known):
            by_pipeline[mean.pipeline][mean.metric] = mean
    known_metrics = sorted(
        {name for of in by_pipeline.values() for name, mean in of.items() if mean.estimate is not None}, key=importance
    )
    shown = [name for name in metrics[:COLUMNS_MAX] if name in known_metrics] or important(known_metrics)
    rows = [
        _silenced(_suspected(_row(pipeline, of, firing.get(pipeline, []), shown, targets or {}), suspected), now)
        for pipeline, of in by_pipeline.items()
        if text.lower() in pipeline.lower()
    ]
    order = {name: place for place, name in enumerate(STATES)}
    chosen = [row for row in rows if state in ("", row.state)]
    return Fleet(sorted(chosen, key=lambda row: (order[row.state], row.pipeline)), shown, known_metrics)


def newness(one: Mean) -> tuple[float, int]:
    """Return a key that orders estimates by the time of their last value."""
    return (0.0 if one.updated_at is None else one.updated_at.timestamp(), one.n)


def important(names: Sequence[str]) -> Sequence[str]:
    """Return the metrics that the fleet shows by itself: those with bands, so that a reader sees what is good."""
    banded = [name for name in names if (known := METRICS.get(name)) is not None and known.bands is not None]
    return (banded or names)[:COLUMNS]


def importance(name: str) -> tuple[int, str]:
    """Return a key that orders metrics for a screen."""
    short = name.removeprefix("trace.")
    return (PREFERRED.index(short) if short in PREFERRED else len(PREFERRED), name)


def _row(
    pipeline: str,
    of: Mapping[str, MetricMean],
    firing: Sequence[Alert],
    shown: Sequence[str],
    targets: Mapping[tuple[str, str], float],
) -> FleetRow:
    alarmed = {alert.metric for alert in firing}
    cells = {name: cell for name in shown if name in of and (cell := cell_of(of[name], alarmed, targets)) is not None}
    states = [cell.state for cell in cells.values()] or ["too few"]
    return FleetRow(
        pipeline,
        "firing" if firing else min(states, key=STATES.index),
        max((mean.n for mean in of.values()), default=0),
        max((mean.updated_at for mean in of.values() if mean.updated_at is not None), default=None),
        cells,
        len(firing),
    )


def _suspected(row: FleetRow, suspected: Mapping[tuple[str, str], Suspicion]) -> FleetRow:
    """Return the row with the state `suspicious` where the evidence of a rule is near its line, and nothing fires."""
    cells = {
        name: cell._replace(state="suspicious", suspicion=found)
        if (found := suspected.get((row.pipeline, name))) is not None and cell.state != "firing"
        else cell
        for name, cell in row.cells.items()
    }
    worst = min([row.state, *(cell.state for cell in cells.values())], key=STATES.index)
    return replace(row, state=worst, cells=cells)


def _silenced(row: FleetRow, now: datetime | None) -> FleetRow:
    is_old = now is not None and row.updated_at is not None and now - row.updated_at > SILENT
    return replace(row, state="silent") if is_old and row.state in ("steady", "too few") else row


def cell_of(one: Mean, alarmed: Collection[str], targets: Mapping[tuple[str, str], float]) -> Cell | None:
    """Return the cell of an estimate; None without an interval.

    Args:
        one: the estimate.
        alarmed: metrics of the pipeline with an alert that fires.
        targets: value of a target by pipeline (or `*`) and metric.
    """
    if one.estimate is None or one.lower is None or one.upper is None:
        return None
    lowest, highest = one.value_range
    span = (highest - lowest) or 1.0

    def place(value: float) -> float:
        return round(100 * min(max((value - lowest) / span, 0.0), 1.0), 1)

    target = targets.get((one.pipeline, one.metric), targets.get(("*", one.metric), _good(one.metric)))
    state = "firing" if one.metric in alarmed else "too few" if one.upper - one.lower > NARROW * span else "steady"
    return Cell(
        key=f"{one.pipeline}\n{one.metric}",
        metric=one.metric,
        estimate=one.estimate,
        lower=one.lower,
        upper=one.upper,
        n=one.n,
        at=(place(one.lower), place(one.estimate), place(one.upper)),
        target=None if target is None else place(target),
        state=state,
        band=one.band or "",
        labeler=one.labeler,
        # While all values wait in open sessions, the interval says nothing about how many are needed.
        more=None if one.n <= one.n_waiting else more_needed(one.n - one.n_waiting, (one.upper - one.lower) / span),
    )


def more_needed(n: int, width: float) -> int | None:
    """Return about how many more values make an interval as narrow as `NARROW`; None if it is.

    An interval narrows at least as fast as the square root of n grows, while the values keep their spread.

    >>> more_needed(100, 0.1), more_needed(100, 0.4), more_needed(1, 1.0)
    (None, 300, 24)
    """
    return None if width <= NARROW else max(ceil(n * ((width / NARROW) ** 2 - 1)), 1)


SUSPICIOUS_PART: Final = 10
"""A rule is suspicious from this part of its run length on: evidence that chance alone gives ten times as often as an
alarm."""

SILENT: Final = timedelta(days=1)
"""Age of the newest value of a pipeline from which it is silent."""

NARROW: Final = 0.2
"""Width of an interval, as a share of the metric's range, below which its metric has enough values."""


def _good(metric: str) -> float | None:
    """Return the edge of the band `good` of a metric; None without bands."""
    definition = METRICS.get(metric)
    if definition is None or definition.bands is None or definition.direction is Direction.NEITHER:
        return None
    return definition.bands.good
