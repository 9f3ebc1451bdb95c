"""`ragtide estimates`, `compare` and `explain-drift`: estimates, their differences, and the causes of changes."""

from dataclasses import replace
from itertools import chain
from typing import Annotated, Literal

import typer

from ..command import command
from ..console import err, out, print_json, warn
from ..options import (
    ConfidenceOption,
    FailIfOption,
    GateReports,
    JsonOption,
    PipelineOption,
    SegmentsOption,
    WorkspaceOption,
    given,
)


@command(
    "ragtide estimates --pipeline shop --segments",
    "ragtide estimates --last 7d --json",
    "ragtide estimates --metric trace.adherence --window 24h/1h --json",
    "ragtide estimates --fail-if 'trace.adherence.lower < 0.8'",
    exits="1 if an option names something that is not there",
)
def estimates(
    context: typer.Context,
    pipeline: PipelineOption = None,
    run: Annotated[str | None, typer.Option(help="Only this run, as given to publish --run.")] = None,
    workspace: WorkspaceOption = None,
    segment: Annotated[str | None, typer.Option(help="Only this segment value, such as lang=de.")] = None,
    segments: SegmentsOption = False,
    metric: Annotated[str | None, typer.Option(help="Only this metric, such as trace.adherence.")] = None,
    last: Annotated[
        str | None, typer.Option(help="Range of the numbers: 1h, 24h, 7d, 60d or another length, or all.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only values from this time on (ISO 8601, UTC).")] = None,
    all_time: Annotated[bool, typer.Option("--all-time", help="All values, as --last all.")] = False,
    labeler: Annotated[
        str | None, typer.Option(help="Numbers of this labeler, instead of the recommended numbers.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show small metrics, too, which are folded away.")] = False,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="Interval: auto, running, asymptotic; valid at every look, asymptotic once there are enough values."
        ),
    ] = None,
    confidence: ConfidenceOption = None,
    window: Annotated[
        str | None, typer.Option(help="All labelers in a window: all, or one of the setting windows, such as 1h.")
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            help="All labelers by an estimator: mean, weighted, prediction_powered, recommended or all; default with "
            "--json: mean."
        ),
    ] = None,
    labeling: Annotated[bool, typer.Option("--labeling", help="Show time and cost of labeling, not scores.")] = False,
    ongoing: Annotated[
        bool,
        typer.Option(
            "--ongoing", help="Treat a run as a sample of ongoing traffic, so that its interval never closes."
        ),
    ] = False,
    fail_if: FailIfOption = None,
    reports: GateReports = GateReports(),
    as_json: JsonOption = False,
) -> None:
    """Show the number of each metric that counts now.

    The numbers are of the last 24 hours, or since the last change or version, by the recommended labeler and estimator.
    --last, --since, --all-time and --labeler choose other numbers. --window, --estimator, --strategy, --labeling, --run
    and --workspace show the estimates of every labeler, and so does --json without --last, --since, --all-time or
    --labeler: over all time, with segment values. To score a file without Redis, use ragtide score.
    """
    from redis.asyncio import Redis

    from ragtide_aggregator.estimates.estimates import ESTIMATORS, RECOMMENDED, check_live, chosen
    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_aggregator.statistics.means.strategies import AUTO
    from ragtide_aggregator.statistics.tables.windows import ALL_TIME
    from ragtide_offline.gates.measurements import of_estimates, of_segment
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas import Estimate
    from ragtide_schemas.suggestions import unknown

    from ..gates import exit_for, gate_of, with_gate
    from ..groups import unmet_option, whole_pipelines
    from ..headline_options import HeadlineRequest, chosen_range, show_headlines
    from ..screen import print_estimates
    from ..with_redis import settings_with, with_redis

    settings = settings_with(context, workspace)
    gate = gate_of(settings, "estimates", fail_if, reports)
    if gate is not None:
        gate.needs_baseline("use ragtide compare, which has two sides")
    wanted = HeadlineRequest(
        chosen_range(last, since, all_time=all_time), pipeline, segment, segments, metric, labeler, confidence
    )
    detailed = wanted.without(
        run=run, workspace=workspace, window=window, estimator=estimator, strategy=strategy, labeling=labeling,
        ongoing=ongoing,
    )  # fmt: skip
    if not detailed and (wanted.is_explicit or not as_json or gate is not None):
        shown = show_headlines(settings, wanted, gate, small=every, as_json=as_json)
        if shown:
            return
    # A gate decides the same with and without --json.
    estimator = estimator or ("mean" if as_json and gate is None else RECOMMENDED)
    window, strategy = window or ALL_TIME, strategy or AUTO
    for value, known, hint in (
        (window, (ALL_TIME, *settings.windows), "--window"),
        (estimator, (*ESTIMATORS, RECOMMENDED, "all"), "--estimator"),
    ):
        if value not in known:
            raise typer.BadParameter(unknown(hint.removeprefix("--"), value, known), param_hint=hint)
    try:
        check_live(strategy)
    except ValueError as error:
        raise typer.BadParameter(f"{error}", param_hint="--strategy") from None

    async def body(redis: Redis, _: RedisHandle) -> list[Estimate]:
        deployment = Deployment(redis, settings)

        async def read(pipeline: str | None) -> list[Estimate]:
            return await deployment.estimates(
                strategy=strategy, confidence=confidence, ongoing=ongoing, windows=window != ALL_TIME, pipeline=pipeline
            )

        # A name that nothing matches is compared with all names.
        return await read(pipeline) or await read(None)

    everything = with_redis(settings, body)
    found = [
        estimate
        for estimate in chosen(everything, window=window, estimator=estimator, labeling=labeling)
        if pipeline in (None, estimate.pipeline)
        and run in (None, estimate.run)
        and segment in (None, estimate.segment)
        and metric in (None, estimate.metric)
    ]
    unmet = None if found else unmet_option(everything, pipeline=pipeline, run=run, segment=segment, metric=metric)
    if found and not as_json:
        print_estimates(
            found if segments or segment is not None else whole_pipelines(found),
            len(found),
            labeling=labeling,
            clusters=settings.clusters,
        )
    elif unmet is None and not found and not as_json:
        err.print("No estimates yet: publish interactions, and run a worker and an aggregator (ragtide up).")
    result = None
    if gate is not None:
        measured = of_estimates(found) if segment is None else of_segment(found, segment)
        result = gate.decide(measured, as_json=as_json)
    if as_json:
        listed = [estimate.model_dump(mode="json") for estimate in found]
        print_json(listed if result is None else with_gate({"estimates": listed}, result))
    if unmet is not None:
        warn(unmet)
    exit_for(result, otherwise=int(unmet is not None))


@command(
    "ragtide compare shop shop-new",
    "ragtide compare shop --workspace before --workspace after",
    "ragtide compare shop --labeler local --labeler judge",
    "ragtide compare shop shop-new --share 0.5 --covariate question_length",
    exits="1 if a pipeline is not there",
)
def compare(
    context: typer.Context,
    first: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    second: Annotated[
        str | None, typer.Argument(help="Another pipeline; by default the same pipeline in two workspaces.")
    ] = None,
    workspace: Annotated[
        list[str] | None, typer.Option(help="Workspace of both pipelines; give it twice for two workspaces.")
    ] = None,
    labeler: Annotated[
        list[str] | None,
        typer.Option(help="Give it twice to compare two labelers of a pipeline, such as local and judge in a cascade."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Split each difference into mix and change within the values of this segment.")
    ] = None,
    window: Annotated[str, typer.Option(help="Window: all, or one of the setting windows, such as 1h.")] = "all",
    confidence: ConfidenceOption = None,
    recording: Annotated[
        str | None,
        typer.Option(
            help="Recording that the replays have read, to pair their interactions; default: the setting recorder.url."
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=0.99,
            help="For traffic that is divided at random: the probability of FIRST, such as 0.5.",
        ),
    ] = None,
    unit: Annotated[
        Literal["interaction", "cluster"] | None,
        typer.Option(help="With --share: the unit that is divided; default: interaction."),
    ] = None,
    covariate: Annotated[
        list[str] | None,
        typer.Option(
            help="With --share: a covariate, or segment:NAME, that the pipelines do not change; may be repeated."
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="With --share: when the split began (ISO 8601, UTC); default: both have scores.")
    ] = None,
    ongoing: Annotated[
        bool,
        typer.Option(
            "--ongoing", help="Treat a replay as a sample of ongoing traffic, so that its interval never closes."
        ),
    ] = False,
    segments: SegmentsOption = False,
    fail_if: FailIfOption = None,
    reports: GateReports = GateReports(),
    as_json: JsonOption = False,
) -> None:
    """Compare two pipelines, two workspaces or two labelers.

    The table shows the difference of every metric that both have, for whole pipelines; --segments adds segment values,
    and --json always has both. To compare scores in files, use ragtide agreement.

    Two replays of the same interactions, and two labelers of one pipeline, are compared interaction by interaction.
    Other pipelines are compared by their means. Intervals are valid at every look.
    """
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_aggregator.statistics.tables.windows import ALL_TIME
    from ragtide_offline.report.explained_pipelines import ExplainedDifference, read_explained_differences
    from ragtide_offline.report.pipelines import (
        Compared,
        PipelineSide,
        other_versions,
        read_comparison,
        read_labelers,
        unknown_side,
        unnamed_recording,
    )
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas.printable import printable
    from ragtide_schemas.suggestions import unknown

    from ..comparisons import (
        compare_split,
        names_of_sides,
        redacted_side,
        report_comparison,
        traffic_split,
        workspace_side,
    )
    from ..gates import gate_of
    from ..with_redis import with_redis

    settings = given(context).settings()
    only_means = workspace or labeler or by is not None or window != ALL_TIME or ongoing
    split = traffic_split(share, unit, covariate, since)
    gate = gate_of(settings, "compare", fail_if, reports)
    if split is not None:
        if second is None or second == first or only_means:
            raise typer.BadParameter("--share compares two live pipelines over all time", param_hint="--share")
        compare_split(settings, (first, second), split, recording, gate, confidence=confidence, as_json=as_json)
        return
    if window not in (ALL_TIME, *settings.windows):
        raise typer.BadParameter(unknown("window", window, (ALL_TIME, *settings.windows)), param_hint="--window")
    workspaces = workspace or []
    labelers = labeler or []
    if labelers and (len(labelers) != 2 or len(set(labelers)) != 2 or second is not None or len(workspaces) > 1):
        raise typer.BadParameter("give --labeler twice, with one pipeline and at most one --workspace")
    if len(workspaces) > 2 or (second is None and len(workspaces) != 2 and not labelers):
        raise typer.BadParameter("give two pipelines, or one pipeline and --workspace twice or --labeler twice")
    if gate is not None and by is not None:
        raise typer.BadParameter("a gate is about whole pipelines: leave --by out", param_hint="--fail-if")
    if labelers and by is not None:
        raise typer.BadParameter("--by splits the difference of two pipelines; labelers score the same interactions")

    async def body(redis: Redis, _: RedisHandle) -> tuple[list[Compared] | list[ExplainedDifference], str | None]:
        live = PipelineSide(Deployment(redis, settings), first)
        sides = [await workspace_side(redis, settings, name, recording) for name in workspaces] or [live]
        both = replace(sides[0], pipeline=first), replace(sides[-1], pipeline=second or first)
        found: list[Compared] | list[ExplainedDifference]
        if by is not None:
            found = await read_explained_differences(both, by, window=window, confidence=confidence)
        elif labelers:
            found = await read_labelers(redis, both[0], (labelers[0], labelers[1]), confidence=confidence)
        else:
            found = await read_comparison(redis, both, window=window, confidence=confidence, ongoing=ongoing)
            source = unnamed_recording(*both) if window == ALL_TIME else None
            if source is not None:
                # Redis does not decide which files are opened: the user does.
                warn(
                    f"the workspaces are compared by their means, although both replay {printable(source)}: give "
                    "--recording with it, so that they are compared interaction by interaction"
                )
        if not labelers:
            warn(*await other_versions(both))
        warn(*dict.fromkeys(chain.from_iterable(map(redacted_side, both))))
        return found, None if found else await unknown_side(both, labelers)

    found, missing = with_redis(settings, body)
    names = names_of_sides(first, second, workspaces, labelers)
    report_comparison(found, missing, names, gate, segments=segments, as_json=as_json)


@command(
    "ragtide explain-drift shop",
    "ragtide explain-drift shop --metric trace.adherence --by lang --since 2026-11-01T12:00:00Z",
)
def explain_drift(
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
    confidence: ConfidenceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Split a change into changed traffic and changed quality.

    The first part is a change of the traffic's mix, such as more questions in German. The second part is a change
    within the segments.
    """
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_offline.replay.selection import selection
    from ragtide_offline.report.explaining import ExplainedDrift, Moment, explain_drift, moment_of_alert
    from ragtide_runtime.redis.url import RedisHandle

    from ..explanation_tables import parts_table, segments_table
    from ..with_redis import settings_with, with_redis

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
    from pydantic import TypeAdapter, ValidationError

    from ragtide_schemas.alert_rule import Duration, duration_ms

    try:
        return duration_ms(TypeAdapter(Duration).validate_python(text))
    except ValidationError as error:
        raise typer.BadParameter(
            f"{text!r} is no length of time: write 30m, 12h or 7d", param_hint="--before"
        ) from error
