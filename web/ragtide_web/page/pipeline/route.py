"""`GET /p/NAME`: one pipeline."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from ragtide_aggregator.errors import CheckpointError, DamagedFieldError
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.estimates.over_time import History
from ragtide_offline.report.pipelines import Compared, PipelineSide, read_comparison
from ragtide_offline.score.summary import diagnoses
from ragtide_schemas import Estimate, utc_now

from ...context import Context, Shared
from ...items import REDIS_ERRORS
from ...problems import HttpProblem, redis_is_away
from ..bands import Mark
from ..fleet.route import visible_alerts
from ..fleet.screen import cell_of, fleet, importance, important
from ..rendering import render
from ..viewers import Reader, Viewer
from .chosen_range import VALUES_MAX, read_range
from .ranges import RANGES, TimeSpan, time_span
from .screen import Surroundings, deploy_marks, panels, segment_rows

POINTS_MAX = 144
"""Most points of a chart: the eye tells no more on the width of a panel."""
VERSION = "version="
"""Begin of the values of the segment that marks deployments."""

router = APIRouter(include_in_schema=False)


class PipelineChoice(NamedTuple):
    """The choices in the address."""

    span: TimeSpan
    versus: str
    """Name of the pipeline to compare with; empty for none."""


async def _choice(
    name: Annotated[str, Query(alias="range", max_length=10)] = "",
    start: Annotated[str, Query(max_length=40)] = "",
    end: Annotated[str, Query(max_length=40)] = "",
    versus: Annotated[str, Query(alias="vs", max_length=1000)] = "",
) -> PipelineChoice:
    return PipelineChoice(time_span(name, start, end, utc_now()), versus)


Chosen = Annotated[PipelineChoice, Depends(_choice)]


@router.get("/p")
async def get_named_pipeline(
    request: Request, shared: Shared, viewer: Reader, name: Annotated[str, Query(max_length=1000)], chosen: Chosen
) -> Response:
    """Do the same for a pipeline whose name is no segment of a path, such as `a/b`."""
    return await get_pipeline(request, shared, viewer, name, chosen)


@router.get("/p/{pipeline:path}")
async def get_pipeline(request: Request, shared: Shared, viewer: Reader, pipeline: str, chosen: Chosen) -> Response:
    """Show the metrics of a pipeline over time, its segments, and its alerts."""
    try:
        return render(request, viewer, "pipeline.html", **await _content(shared, viewer, pipeline, chosen))
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    except (CheckpointError, DamagedFieldError) as error:
        raise HttpProblem(503, f"{error}") from None


async def _content(shared: Context, viewer: Viewer, pipeline: str, chosen: PipelineChoice) -> dict[str, Any]:
    span, versus = chosen
    known = [one for one in await shared.deployment.means() if viewer.may_use(one.pipeline)]
    mine = [one for one in known if one.pipeline == pipeline]
    if not mine:
        raise HttpProblem(404, f"there is no pipeline {pipeline[:200]!r}: the fleet lists all that you may see")
    alerts = [one for one in await visible_alerts(shared, viewer) if one.pipeline in (pipeline, "*")]
    metrics = sorted({one.metric for one in mine if one.estimate is not None})
    suspicions = await shared.deployment.suspicions()
    (row,) = fleet(mine, alerts, metrics=metrics, suspicions=suspicions).rows
    names = sorted(row.cells, key=importance)
    histories = dict(zip(names, await _histories(shared, pipeline, names, span), strict=True))
    whole = await _estimates(shared, pipeline)
    columns = important(names)
    rules = [rule for rule in shared.settings.alerts if rule.pipeline in ("*", pipeline) and rule.segment is None]
    firing: defaultdict[str | None, set[str]] = defaultdict(set)
    for alert in alerts:
        if alert.status != "resolved":
            firing[alert.segment].add(alert.metric)
    segments = segment_rows(whole, lambda one: cell_of(one, firing[one.segment], {}), columns)
    return {
        "row": row,
        "span": span,
        "chosen": None
        if span.name
        else await read_range(shared.deployment, pipeline, span, segments=segments, columns=columns),
        "ranges": list(RANGES),
        "panels": panels(
            row,
            histories,
            Surroundings(
                span,
                alerts,
                rules,
                await _deploys(shared, pipeline, names, span),
                {one.metric: one.value_range for one in mine},
            ),
        ),
        "history": shared.settings.history,
        "numbers": [one for one in whole if one.segment is None and one.estimator == "mean"],
        "segments": segments,
        "values_max": VALUES_MAX,
        "segment_metrics": columns,
        "alerts": alerts[:20],
        "diagnoses": [
            (where.removeprefix(pipeline).removeprefix(" · "), found.sentence())
            for where, found in diagnoses([one for one in whole if one.segment is None])
        ],
        "others": sorted({one.pipeline for one in known} - {pipeline}),
        "versus": versus,
        "compared": await _compared(shared, viewer, pipeline, versus),
    }


async def _histories(shared: Context, pipeline: str, metrics: Sequence[str], span: TimeSpan) -> list[Sequence[History]]:
    reading = (
        shared.deployment.history(pipeline, name, start=span.start, end=span.end, points_max=POINTS_MAX)
        for name in metrics
    )
    return list(await asyncio.gather(*reading))


async def _deploys(shared: Context, pipeline: str, metrics: Sequence[str], span: TimeSpan) -> list[Mark]:
    """Return marks of the first values of each version, where the history keeps versions."""
    versions = sorted(
        {
            key.segment
            for key in await shared.deployment.series(pipeline)
            if key.segment is not None and key.segment.startswith(VERSION)
        }
    )
    first_seen = {}
    for segment in versions[-50:]:
        found = await shared.deployment.history(
            pipeline, metrics[0], segment=segment, start=span.start, end=span.end, points_max=POINTS_MAX
        )
        starts = [one.points[0].start for one in found if one.points]
        if starts:
            first_seen[segment.removeprefix(VERSION)] = min(starts)
    return deploy_marks(first_seen, span)


async def _estimates(shared: Context, pipeline: str) -> list[Estimate]:
    """Return all estimates of all time of a pipeline, its segment values among them."""
    states = await shared.deployment.states(pipeline)
    confidence = shared.settings.confidence

    def compute() -> list[Estimate]:
        found = []
        for state in states:
            keys = [key for key in state.keys if key.pipeline == pipeline and key.run is None]
            found += estimates(state, keys=keys, confidence=confidence, windows=False)
        return found

    return await asyncio.to_thread(compute)


async def _compared(shared: Context, viewer: Viewer, pipeline: str, versus: str) -> list[Compared]:
    """Return the differences to another pipeline."""
    if not versus or versus == pipeline or not viewer.may_use(versus):
        return []
    sides = (PipelineSide(shared.deployment, pipeline), PipelineSide(shared.deployment, versus))
    found = await read_comparison(shared.redis, sides, window="all")
    return [one for one in found if one.segment is None]
