"""`ragtide explain-drift`: whether the traffic changed or the system, and in which segments."""

from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_offline.replay.selection import selection
from ragtide_offline.report.explaining import ExplainedDrift, Moment, explain_drift, moment_of_alert
from ragtide_runtime.redis.url import RedisHandle
from ragtide_schemas.alert_rule import Duration, duration_ms

from .common import JsonOption
from .console import out, print_json
from .explanation_tables import parts_table, segments_table
from .with_redis import with_redis
from .workspace_option import WorkspaceOption, settings_with


def explain(
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="The pipeline.")],
    metric: Annotated[
        str | None, typer.Option(help="Metric, such as trace.adherence; by default that of the alert.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Name of a segment, such as lang; by default the one that explains most.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Time of the change (ISO 8601, UTC).")] = None,
    alert: Annotated[
        str | None, typer.Option(help="Id of an alert that states the time; by default the latest of the pipeline.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(help="Length of the stretch before, such as 12h; by default all that is kept.")
    ] = None,
    labeler: Annotated[str | None, typer.Option(help="Only scores of this labeler.")] = None,
    workspace: WorkspaceOption = None,
    confidence: Annotated[
        float | None, typer.Option(min=0.01, max=0.9999, help="Confidence level [RAGTIDE_CONFIDENCE].")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Split a change into changed traffic and changed quality.

    The first part is a change of the traffic's mix, such as more questions in German. The second part is a change
    within the segments.
    """
    if since is not None and alert is not None:
        raise typer.BadParameter("--since and --alert exclude each other: give one")
    if since is not None and metric is None:
        raise typer.BadParameter("give --metric with --since, such as trace.adherence")
    start = None if since is None else selection(since).since
    length = None if before is None else _length_ms(before)
    settings = settings_with(context, workspace)

    async def body(redis: Redis, _: RedisHandle) -> ExplainedDrift:
        deployment = Deployment(redis, settings)
        if start is None:
            moment = await moment_of_alert(deployment, pipeline, metric=metric, alert_id=alert)
        else:
            moment = Moment(start)
        return await explain_drift(
            deployment,
            pipeline,
            moment,
            metric=moment.alert.metric if moment.alert is not None else str(metric),
            by=by,
            before_ms=length,
            labeler=labeler,
            confidence=confidence,
        )

    found = with_redis(settings, body)
    if as_json:
        print_json(found.as_dict())
        return
    out.print(segments_table(found.change, found.segment, out.width))
    out.print(parts_table(found.change))
    out.print(found.sentence, highlight=False)
    for name, words in found.others.items():
        out.print(f"By {name}: {words}.", style="bright_black", highlight=False)


def _length_ms(text: str) -> int:
    try:
        return duration_ms(TypeAdapter(Duration).validate_python(text))
    except ValidationError as error:
        raise typer.BadParameter(
            f"{text!r} is no length of time: write 30m, 12h or 7d", param_hint="--before"
        ) from error
