"""The fleet: one row for each pipeline, with the interval of each chosen metric. No clock, no I/O."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, Query

from ragtide_aggregator.estimates.headline import MetricStanding
from ragtide_schemas import METRICS, Alert, Direction, Headline
from ragtide_schemas.details import FleetPipeline
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
class Fleet:
    """The rows of the fleet, the worst state first, and the shown metrics."""

    rows: Sequence[FleetPipeline]
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
        patches: dict[str, list[object]] = {}
        for row in self.rows:
            patches[f"row:{row.pipeline}"] = [row.state, f"{row.n:,}"]
            patches |= {number_key(headline): patch(headline) for headline in row.headlines}
        return patches

    @property
    def shape(self) -> tuple[object, ...]:
        """The places on the screen: patches fit until the shape changes."""
        rows = (
            (
                row.pipeline,
                row.state,
                tuple((number.metric, number.labeler_text, number.judge_text) for number in row.headlines),
            )
            for row in self.rows
        )
        return tuple(rows), tuple(self.metrics), self.total


def fleet(
    standings: Iterable[MetricStanding],
    alerts: Iterable[Alert],
    *,
    confidence: float,
    metrics: Sequence[str] = (),
    state: str = "",
    text: str = "",
    first: int = 0,
    limit: int | None = None,
) -> Fleet:
    """Return the fleet.

    Args:
        standings: of the pipelines that the viewer may see; only the rows in view have headlines.
        confidence: level of the intervals.
        metrics: to show; those that fire, and the most important ones, unless given.
        state: only pipelines in this state; all unless given.
        text: only pipelines whose name contains this text.
        first: place of the first row in view; beyond the last page, that page is in view.
        limit: most rows in view; None for all.
    """
    firing: defaultdict[str, dict[tuple[str, str], None]] = defaultdict(dict)
    for alert in alerts:
        if alert.status != "resolved" and not alert.is_news:
            firing[alert.pipeline][alert.metric, alert.segment or ""] = None
    by_pipeline: defaultdict[str, dict[str, MetricStanding]] = defaultdict(dict)
    known: set[str] = set()
    for standing in standings:
        mean = standing.number.mean
        by_pipeline[mean.key.pipeline][mean.key.metric] = standing
        if mean.interval.estimate is not None:
            known.add(mean.key.metric)
    known_metrics = sorted(known, key=importance)
    fires = {metric for pipeline, changes in firing.items() if pipeline in by_pipeline for metric, _ in changes}
    columns = [name for name in metrics[:COLUMNS_MAX] if name in known_metrics] or _columns(known_metrics, fires)
    order = {name: place for place, name in enumerate(HEADLINE_STATES)}
    states = {
        pipeline: _state(own, columns, fires=pipeline in firing)
        for pipeline, own in by_pipeline.items()
        if text.lower() in pipeline.lower()
    }
    matching = (pipeline for pipeline, known in states.items() if state in ("", known))
    chosen = sorted(matching, key=lambda pipeline: (order[states[pipeline]], pipeline))
    if limit is not None and first >= len(chosen):
        first = max(len(chosen) - 1, 0) // limit * limit
    rows = []
    for pipeline in chosen[first : None if limit is None else first + limit]:
        own = by_pipeline[pipeline]
        shown = (own[name] for name in columns if name in own and own[name].interval.estimate is not None)
        headlines = [standing.headline(confidence) for standing in shown]
        rows.append(_row(pipeline, states[pipeline], own, [*firing[pipeline]], headlines))
    return Fleet(rows, len(chosen), first, columns, known_metrics)


def _row(
    pipeline: str,
    state: HeadlineState,
    standings: Mapping[str, MetricStanding],
    firing: Sequence[tuple[str, str]],
    headlines: Sequence[Headline],
) -> FleetPipeline:
    means = [standing.number.mean for standing in standings.values()]
    return FleetPipeline(
        pipeline=pipeline,
        state=state,
        n=max((mean.n for mean in means), default=0),
        updated_at=max((mean.updated_at for mean in means if mean.updated_at), default=None),
        firing=tuple(f"{metric}, {segment}" if segment else metric for metric, segment in firing),
        headlines=tuple(headlines),
    )


def _state(standings: Mapping[str, MetricStanding], columns: Sequence[str], *, fires: bool) -> HeadlineState:
    if fires:
        return "firing"
    shown = (standings[name] for name in columns if name in standings)
    states = [standing.state for standing in shown if standing.has_ends]
    return min(states, key=HEADLINE_STATES.index, default="too few")


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


def bounds(headline: Headline) -> tuple[float, float]:
    """Return the ends of the interval; those of the metric's range where an end is not known."""
    lowest, highest = headline.value_range
    return (
        lowest if headline.lower is None else headline.lower,
        highest if headline.upper is None else headline.upper,
    )


def position(headline: Headline, value: float) -> float:
    """Return the position of a value on the metric's range, from 0 to 100."""
    lowest, highest = headline.value_range
    return round(100 * min(max((value - lowest) / ((highest - lowest) or 1.0), 0.0), 1.0), 1)


def positions(headline: Headline) -> tuple[float, float, float]:
    """Return the positions of lower end, estimate and upper end, from 0 to 100."""
    lower, upper = bounds(headline)
    return position(headline, lower), position(headline, headline.estimate or 0.0), position(headline, upper)


def good_position(headline: Headline) -> float | None:
    """Return the position of the edge of the band `good`; None without one."""
    known = METRICS.get(headline.metric)
    if known is None or known.bands is None or known.direction is Direction.NEITHER:
        return None
    return position(headline, known.bands.good)


def number_key(headline: Headline) -> str:
    """Return what identifies the number on an open page."""
    return f"{headline.pipeline}\n{headline.metric}"


def patch(headline: Headline) -> list[object]:
    """Return the numbers that change on an open page, as `live.js` reads them."""
    lower, upper = bounds(headline)
    ends = f"{lower:z.3f} – {upper:z.3f}" if headline.has_interval else ""
    return [f"{headline.estimate or 0.0:z.3f}", ends, *positions(headline), headline.state]


def worst_first(row: FleetPipeline) -> Sequence[Headline]:
    """Return the headlines of a pipeline, those whose metric fires first, then by importance."""
    fires = {name.partition(", ")[0] for name in row.firing}
    return sorted(row.headlines, key=lambda headline: (headline.metric not in fires, importance(headline.metric)))


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


async def fleet_of(shared: Context, viewer: Viewer, chosen: FleetChoice, limit: int | None = IN_VIEW) -> Fleet:
    """Return the fleet that a viewer may see.

    Args:
        shared: objects of the service.
        viewer: who looks.
        chosen: the filters.
        limit: most rows; None for all.
    """
    standings = await shared.shown.read(chosen.range, chosen.scope)
    alerts = await visible_alerts(shared, viewer)
    if chosen.scope is not None:
        alerts = [alert for alert in alerts if alert.segment == chosen.scope]

    def draw() -> Fleet:
        own = [standing for standing in standings if chosen.pipeline in ("", standing.key.pipeline)]
        allowed = {name: viewer.may_use(name) for name in {standing.key.pipeline for standing in own}}
        return fleet(
            (standing for standing in own if allowed[standing.key.pipeline]),
            alerts,
            confidence=shared.settings.confidence,
            metrics=chosen.metrics,
            state=chosen.state,
            text=chosen.text,
            first=chosen.first,
            limit=limit,
        )

    return await asyncio.to_thread(draw) if len(standings) > LARGE else draw()
