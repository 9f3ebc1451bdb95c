"""The fleet: one row for each pipeline, with the interval of each chosen metric. No clock, no I/O."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, Query

from ragtide_schemas import METRICS, Alert, Direction, Headline
from ragtide_schemas.headline import HEADLINE_STATES, HeadlineState

from ..guard.viewers import Viewer
from .alerts import visible_alerts
from .context import Context
from .headlines import CHOICES

COLUMNS: Final = 4
"""Metrics that the fleet shows unless the address names others."""
FIRING_MAX: Final = 6
"""Most metrics that have a column because they fire."""
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


@dataclass(frozen=True, slots=True)
class Cell:
    """The headline of one metric of one pipeline, with positions on the metric's whole range from 0 to 100."""

    headline: Headline
    lower: float
    """Lower end of the interval."""
    upper: float
    at: tuple[float, float, float]
    """Positions of lower end, estimate and upper end."""
    target: float | None
    """Position of the target of a rule, or of the edge of the band `good`; None without one."""

    @property
    def key(self) -> str:
        """Identifies the cell on the page."""
        return f"{self.headline.pipeline}\n{self.headline.metric}"

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return self.headline.metric

    @property
    def estimate(self) -> float:
        """The number."""
        return self.headline.estimate or 0.0

    @property
    def state(self) -> HeadlineState:
        """How the metric stands."""
        return self.headline.state

    def patch(self) -> list[object]:
        """Return the numbers that change, as `live.js` reads them."""
        ends = f"{self.lower:z.3f} – {self.upper:z.3f}" if self.headline.has_interval else ""
        return [f"{self.estimate:z.3f}", ends, *self.at, self.state]


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One pipeline."""

    pipeline: str
    state: HeadlineState
    n: int
    """Most values of a metric in the range."""
    updated_at: datetime | None
    cells: Mapping[str, Cell]
    firing: Sequence[tuple[str, str]]
    """Metric and segment value, or nothing, of the alerts that fire."""

    @property
    def key(self) -> str:
        """Identifies the row on the page."""
        return f"row:{self.pipeline}"

    @property
    def worst_first(self) -> Sequence[Cell]:
        """The cells, those whose metric fires first, then by importance."""
        fires = {metric for metric, _ in self.firing}
        return sorted(self.cells.values(), key=lambda cell: (cell.metric not in fires, importance(cell.metric)))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The rows of the fleet, the worst state first, and the shown metrics."""

    rows: Sequence[FleetRow]
    """The rows in view."""
    total: int
    """Number of all pipelines that match the filters."""
    first: int
    """Place of the first row in view, from 0."""
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
        rows = (
            (
                row.pipeline,
                row.state,
                tuple((name, cell.headline.labeler_text, cell.headline.judge_text) for name, cell in row.cells.items()),
            )
            for row in self.rows
        )
        return tuple(rows), tuple(self.metrics), self.total


def fleet(
    headlines: Iterable[Headline],
    alerts: Iterable[Alert],
    *,
    metrics: Sequence[str] = (),
    state: str = "",
    text: str = "",
    first: int = 0,
    limit: int | None = None,
    targets: Mapping[tuple[str, str], float] | None = None,
) -> Fleet:
    """Return the fleet.

    Args:
        headlines: of the pipelines that the viewer may see.
        metrics: to show; those that fire, and the most important ones, unless given.
        state: only pipelines in this state; all unless given.
        text: only pipelines whose name contains this text.
        first: place of the first row in view; beyond the last page, that page is in view.
        limit: most rows in view; None for all.
        targets: value of a target by pipeline (or `*`) and metric.
    """
    firing: defaultdict[str, dict[tuple[str, str], None]] = defaultdict(dict)
    for alert in alerts:
        if alert.status != "resolved":
            firing[alert.pipeline][alert.metric, alert.segment or ""] = None
    by_pipeline: defaultdict[str, dict[str, Headline]] = defaultdict(dict)
    for headline in headlines:
        by_pipeline[headline.pipeline][headline.metric] = headline
    known_metrics = sorted(
        {name for of in by_pipeline.values() for name, found in of.items() if found.estimate is not None},
        key=importance,
    )
    fires = {metric for pipeline, of in firing.items() if pipeline in by_pipeline for metric, _ in of}
    shown = [name for name in metrics[:COLUMNS_MAX] if name in known_metrics] or _columns(known_metrics, fires)
    order = {name: place for place, name in enumerate(HEADLINE_STATES)}
    states = {
        pipeline: _state(of, shown, fires=pipeline in firing)
        for pipeline, of in by_pipeline.items()
        if text.lower() in pipeline.lower()
    }
    matching = (pipeline for pipeline, known in states.items() if state in ("", known))
    chosen = sorted(matching, key=lambda pipeline: (order[states[pipeline]], pipeline))
    if limit is not None and first >= len(chosen):
        first = max(len(chosen) - 1, 0) // limit * limit
    rows = [
        _row(
            pipeline,
            states[pipeline],
            by_pipeline[pipeline],
            firing=[*firing[pipeline]],
            shown=shown,
            targets=targets or {},
        )
        for pipeline in chosen[first : None if limit is None else first + limit]
    ]
    return Fleet(rows, len(chosen), first, shown, known_metrics)


def _state(of: Mapping[str, Headline], shown: Sequence[str], *, fires: bool) -> HeadlineState:
    states = [of[name].state for name in shown if name in of and has_interval(of[name])]
    return "firing" if fires else min(states, key=HEADLINE_STATES.index, default="too few")


def important(names: Sequence[str]) -> Sequence[str]:
    """Return the metrics that the fleet shows by itself: those with bands, so that a reader sees what is good."""
    banded = [name for name in names if (known := METRICS.get(name)) is not None and known.bands is not None]
    return (banded or names)[:COLUMNS]


def _columns(known_metrics: Sequence[str], fires: Collection[str]) -> Sequence[str]:
    firing = [name for name in known_metrics if name in fires][:FIRING_MAX]
    others = [name for name in important(known_metrics) if name not in firing]
    return sorted([*firing, *others[: max(COLUMNS - len(firing), 0)]], key=importance)


def importance(name: str) -> tuple[int, str]:
    """Return a key that orders metrics for a screen."""
    short = name.removeprefix("trace.")
    return (PREFERRED.index(short) if short in PREFERRED else len(PREFERRED), name)


def _row(
    pipeline: str,
    state: HeadlineState,
    of: Mapping[str, Headline],
    *,
    firing: Sequence[tuple[str, str]],
    shown: Sequence[str],
    targets: Mapping[tuple[str, str], float],
) -> FleetRow:
    cells = {name: cell for name in shown if name in of and (cell := cell_of(of[name], targets)) is not None}
    return FleetRow(
        pipeline,
        state,
        max((headline.n for headline in of.values()), default=0),
        max((headline.updated_at for headline in of.values() if headline.updated_at is not None), default=None),
        cells,
        firing,
    )


def has_interval(headline: Headline) -> bool:
    """Return whether a headline has a number with an interval."""
    return headline.estimate is not None and headline.lower is not None and headline.upper is not None


def cell_of(headline: Headline, targets: Mapping[tuple[str, str], float] | None = None) -> Cell | None:
    """Return the cell of a headline; None without a number.

    Args:
        targets: value of a target by pipeline (or `*`) and metric.
    """
    if headline.estimate is None:
        return None
    lowest, highest = headline.value_range
    lower = lowest if headline.lower is None else headline.lower
    upper = highest if headline.upper is None else headline.upper
    span, given = (highest - lowest) or 1.0, targets or {}

    def place(value: float) -> float:
        return round(100 * min(max((value - lowest) / span, 0.0), 1.0), 1)

    target = given.get((headline.pipeline, headline.metric), given.get(("*", headline.metric), _good(headline.metric)))
    return Cell(
        headline,
        lower,
        upper,
        (place(lower), place(headline.estimate), place(upper)),
        None if target is None else place(target),
    )


def _good(metric: str) -> float | None:
    definition = METRICS.get(metric)
    if definition is None or definition.bands is None or definition.direction is Direction.NEITHER:
        return None
    return definition.bands.good


IN_VIEW: Final = 50
"""Pipelines on one page."""
LARGE: Final = 2_000
"""Headlines from which on they are put in order in a thread: in the event loop they would hold other requests up."""


class FleetChoice(NamedTuple):
    """The filters in the address."""

    metrics: tuple[str, ...]
    state: str
    text: str
    pipeline: str
    """Exact name of one pipeline; empty for all."""
    segment: str = ""
    """Segment value such as `lang=de`; empty for whole pipelines."""
    range: str = ""
    """Name of a range; empty for the default range."""
    first: int = 0
    """Place of the first pipeline in view, from 0."""

    @property
    def scope(self) -> str | None:
        """The segment value; None for whole pipelines."""
        return self.segment or None


async def _filter(  # noqa: PLR0917 - each parameter of the address is described here
    metric: Annotated[
        list[str] | None, Query(max_length=20, description="Metrics with a column; the most important unless given.")
    ] = None,
    state: Annotated[str, Query(max_length=40, description="Only pipelines in this state, such as `firing`.")] = "",
    q: Annotated[str, Query(max_length=200, description="Only pipelines whose name contains this text.")] = "",
    pipeline: Annotated[str, Query(max_length=1000, description="Only this pipeline.")] = "",
    segment: Annotated[
        str, Query(max_length=1000, description="Numbers of this segment value, such as `lang=de`.")
    ] = "",
    span: Annotated[str, Query(alias="range", max_length=10, description="`1h`, `24h`, `7d`, `60d` or `all`.")] = "",
    first: Annotated[int, Query(ge=0, le=1_000_000, description="Place of the first pipeline, from 0.")] = 0,
) -> FleetChoice:
    return FleetChoice(
        tuple(metric or ()),
        state if state in HEADLINE_STATES else "",
        q,
        pipeline,
        segment.strip(),
        span if span in CHOICES else "",
        first,
    )


FleetFilter = Annotated[FleetChoice, Depends(_filter)]


def filter_of(chosen: FleetChoice) -> tuple[object, ...]:
    """Return the filters as a value that identifies them."""
    return tuple(chosen)


async def fleet_of(shared: Context, viewer: Viewer, chosen: FleetChoice, limit: int | None = IN_VIEW) -> Fleet:
    """Return the fleet that a viewer may see.

    Args:
        shared: objects of the service.
        viewer: who looks.
        chosen: the filters.
        limit: most rows; None for all.
    """
    headlines = await shared.shown.read(chosen.range, chosen.scope)
    alerts = await visible_alerts(shared, viewer)
    if chosen.scope is not None:
        alerts = [alert for alert in alerts if alert.segment == chosen.scope]

    def draw() -> Fleet:
        allowed = {name: viewer.may_use(name) for name in {headline.pipeline for headline in headlines}}
        return fleet(
            (
                headline
                for headline in headlines
                if allowed[headline.pipeline] and chosen.pipeline in ("", headline.pipeline)
            ),
            alerts,
            metrics=chosen.metrics,
            state=chosen.state,
            text=chosen.text,
            first=chosen.first,
            limit=limit,
        )

    return await asyncio.to_thread(draw) if len(headlines) > LARGE else draw()
