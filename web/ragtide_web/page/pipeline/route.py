"""`GET /p/NAME`: one pipeline."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.estimates.headline import MetricStanding
from ragtide_aggregator.reading.diagnoses import headline_diagnoses
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_aggregator.reading.verdicts import record_of
from ragtide_runtime.settings.open_sessions import waiting_sentence
from ragtide_schemas import Estimate, Headline, RagInteraction, utc_now
from ragtide_schemas.alert_text import AlertText
from ragtide_schemas.details import FleetPipeline

from ...guard.problems import HttpProblem
from ...guard.viewers import Reader
from ...reading.alerts import alert_texts, visible_alerts
from ...reading.bands import LEAST_N, Mark
from ...reading.context import Context, Shared
from ...reading.fleet import fleet, importance, important, worst_first
from ...reading.headlines import CHOICES
from ..release_card import release_cards, release_marks
from ..rendering import render
from .screen import (
    USES,
    VERSION_IS,
    TimeSpan,
    change_times,
    deploy_marks,
    may_have_panel,
    panels,
    segments_of,
    time_span,
    use_rows,
)
from .tools import tool_rows

POINTS_MAX = 144
"""Most points of a chart: the eye sees no more on the width of a panel."""
ALERTS_SHOWN = 20
"""Most alerts beside the panels, the newest."""
WORST_SHOWN = 5
"""Worst answers beside the panels."""

router = APIRouter(include_in_schema=False)


class PipelineChoice(NamedTuple):
    """The choices in the address."""

    span: TimeSpan
    versus: str
    """Name of the pipeline to compare with; empty for none."""
    labeler: str
    """Name of the labeler whose numbers are shown; empty for the recommended one of each metric."""


async def _choice(
    name: Annotated[
        str, Query(alias="range", max_length=10, description="`1h`, `24h`, `7d` or `60d` until now, or `all`.")
    ] = "",
    start: Annotated[str, Query(max_length=40, description="Start of another range, in ISO 8601.")] = "",
    end: Annotated[str, Query(max_length=40, description="End of this range.")] = "",
    versus: Annotated[str, Query(alias="vs", max_length=1000, description="Pipeline to compare with.")] = "",
    labeler: Annotated[
        str, Query(max_length=200, description="Labeler whose numbers are shown; the recommended one unless given.")
    ] = "",
) -> PipelineChoice:
    return PipelineChoice(time_span(name, start, end, utc_now()), versus, labeler)


Chosen = Annotated[PipelineChoice, Depends(_choice)]


@router.get("/p")
async def get_named_pipeline(
    request: Request,
    shared: Shared,
    viewer: Reader,
    name: Annotated[str, Query(max_length=1000, description="Name of the pipeline.")],
    chosen: Chosen,
) -> Response:
    """Do the same for a pipeline whose name is no segment of a path, such as `a/b`."""
    return await get_pipeline(request, shared, viewer, name, chosen)


@router.get("/p/{pipeline:path}")
async def get_pipeline(request: Request, shared: Shared, viewer: Reader, pipeline: str, chosen: Chosen) -> Response:
    """Show the metrics of a pipeline over time, its segments, and its alerts."""
    span, versus, labeler = chosen
    names_of_all = [name for name in await shared.deployment.pipelines() if viewer.may_use(name)]
    standings: Sequence[MetricStanding] = ()
    if pipeline in names_of_all:
        standings = await shared.deployment.standings(
            span.of_headlines, pipeline=pipeline, segments=True, labeler=labeler or None
        )
    whole_pipeline = [standing for standing in standings if standing.key.segment is None]
    if pipeline not in names_of_all or not (whole_pipeline or labeler):
        raise HttpProblem(404, f"there is no pipeline {pipeline[:200]!r}: the fleet lists all that you may see")
    if not whole_pipeline:
        raise HttpProblem(404, f"no labeler {labeler[:200]!r} scores pipeline {pipeline[:200]!r}: leave labeler out")
    level = shared.settings.confidence
    headlines = [standing.headline(level) for standing in standings]
    mine = [headline for headline in headlines if headline.segment is None]
    alerts = [alert for alert in await visible_alerts(shared, viewer) if alert.pipeline in (pipeline, "*")]
    metrics = sorted({headline.metric for headline in mine if headline.estimate is not None})
    (row,) = fleet(whole_pipeline, alerts, confidence=level, metrics=metrics).rows
    shown = {headline.metric: headline for headline in row.headlines}
    names = sorted(shown, key=importance)
    deploys = await _deploys(shared, pipeline, names, span)
    now = utc_now()
    watched = await shared.deployment.releases(pipeline)
    releases = [record_of(release) for release in watched]
    deploys += release_marks(releases, deploys, span.start, span.end)
    drawn = [name for name in names if may_have_panel(shown[name])]
    apart = {name: change_times(shown[name], alerts, deploys) for name in drawn}
    reading = (
        shared.deployment.history(
            pipeline, name, start=span.start, end=span.end, points_max=POINTS_MAX, least_n=LEAST_N, apart=apart[name]
        )
        for name in drawn
    )
    histories = dict(zip(drawn, await asyncio.gather(*reading), strict=True))
    whole = await _estimates(shared, pipeline)
    numbers = [estimate for estimate in whole if estimate.segment is None]
    columns = important(names)
    rules = [rule for rule in shared.settings.alerts if rule.pipeline in ("*", pipeline) and rule.segment is None]
    labelers = sorted({name for headline in mine for name in (headline.labeler, *headline.other_labelers)})
    worst_list, worst = await _worst(shared, row)
    waiting = max((estimate.n_waiting for estimate in numbers), default=0)
    firing = [alert for alert in alerts[ALERTS_SHOWN:] if alert.status != "resolved"]
    texts = await alert_texts(shared, [*alerts[:ALERTS_SHOWN], *firing])
    compared: Sequence[Any] = []
    if shared.laboratory is not None and versus and versus != pipeline and viewer.may_use(versus):
        compared = await shared.laboratory.compare(shared.redis, shared.deployment, pipeline, versus)
    return render(
        request,
        viewer,
        "pipeline.html",
        row=row,
        shown=shown,
        span=span,
        panels=panels(row.headlines, histories, span, alerts=alerts, rules=rules, deploys=deploys, numbers=numbers),
        history=shared.settings.history,
        numbers=numbers,
        labelers=labelers if len(labelers) > 1 else [],
        labeler=labeler,
        segments=segments_of(headlines, columns),
        uses=(uses := use_rows(whole, mine)),
        use_names=[name for name in USES if any(name in use.used for use in uses)],
        ratio_confidence=max(2 * shared.settings.confidence - 1, 0.0),
        segment_metrics=columns,
        alerts=texts[:ALERTS_SHOWN],
        releases=releases,
        cards=release_cards(releases, now),
        tools=tool_rows(mine, texts),
        diagnoses=_diagnoses(pipeline, mine, texts[:ALERTS_SHOWN]),
        others=[name for name in names_of_all if name != pipeline],
        versus=versus,
        compared=compared,
        worst=worst,
        worst_list=worst_list,
        waiting=waiting_sentence(waiting, shared.settings.clusters) if waiting else "",
        ranges=CHOICES,
    )


def _diagnoses(pipeline: str, headlines: Sequence[Headline], texts: Sequence[AlertText]) -> list[tuple[str, str]]:
    of_alerts = dict.fromkeys(sentence for text in texts if text.alert.segment is None for sentence in text.diagnosis)
    if of_alerts:
        return [("", sentence) for sentence in of_alerts]
    return [
        (where.removeprefix(pipeline).removeprefix(" · "), diagnosis.sentence())
        for where, diagnosis in headline_diagnoses(headlines)
    ]


async def _worst(shared: Context, row: FleetPipeline) -> tuple[str, list[RagInteraction]]:
    # They are by the labeler of its headline, or else by its proxy; the name of the list says by whom.
    kept = KeptSpecimens(shared.redis, shared.settings.layout)
    lists = await kept.lists(row.pipeline)
    names = [
        f"worst:{headline.metric}:{labeler}"
        for headline in worst_first(row)
        for labeler in (headline.labeler, headline.proxy)
        if labeler is not None
    ]
    name = next((name for name in names if name in lists), "")
    listed = await kept.listed(row.pipeline, name, WORST_SHOWN) if name else []
    return name, [entry.specimen.interaction for entry in listed]


async def _deploys(shared: Context, pipeline: str, metrics: Sequence[str], span: TimeSpan) -> list[Mark]:
    versions = sorted(
        {
            key.segment
            for key in await shared.deployment.series(pipeline)
            if key.segment is not None and key.segment.startswith(VERSION_IS)
        }
    )
    first_seen = {}
    for segment in versions[-50:]:
        histories = await shared.deployment.history(
            pipeline, metrics[0], segment=segment, start=span.start, end=span.end, points_max=POINTS_MAX
        )
        starts = [history.points[0].start for history in histories if history.points]
        if starts:
            first_seen[segment.removeprefix(VERSION_IS)] = min(starts)
    return deploy_marks(first_seen, span)


async def _estimates(shared: Context, pipeline: str) -> list[Estimate]:
    states = await shared.deployment.states(pipeline)
    confidence = shared.settings.confidence

    def compute() -> list[Estimate]:
        numbers = []
        for state in states:
            keys = [key for key in state.keys if key.pipeline == pipeline and key.run is None]
            numbers += estimates(state, keys=keys, confidence=confidence, windows=False)
        return numbers

    return await asyncio.to_thread(compute)
