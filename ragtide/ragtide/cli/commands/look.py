"""A look at a deployment: `ragtide watch`, `estimates`, `compare`, `explain`, `dead-letters` and `mcp`."""

from collections import deque
from dataclasses import replace
from itertools import chain
from typing import Annotated, Literal

import typer

from ..printing import err, fitted, out, print_json, warn
from ..running import (
    AllMetricsOption,
    ConfidenceOption,
    FailIfOption,
    GateReports,
    JsonOption,
    PipelineOption,
    SegmentsOption,
    WorkspaceOption,
    given,
    settings_with,
)
from . import command, command_group


@command("ragtide watch", "ragtide watch --pipeline shop --segments")
def watch(
    context: typer.Context,
    pipeline: PipelineOption = None,
    segments: SegmentsOption = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two readings of Redis.")] = 0.5,
    once: Annotated[bool, typer.Option("--once", help="Print one screen and exit; so does a pipe or a file.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show numbers, states and alerts live, until Ctrl-C.

    The last line lists the keys: choose and open a pipeline, sort the pipelines, filter, quit. A pipeline's own view
    has its segment values, too.
    """
    settings = settings_with(context, workspace)
    from redis.asyncio import Redis

    from ragtide_consumers.notify.silences import read_muted
    from ragtide_roles.running import cancelled_by_signal
    from ragtide_runtime.redis.url import RedisHandle

    from ..running.redis import with_redis
    from ..running.watching import LiveWatch, Screen

    async def body(redis: Redis, _: RedisHandle) -> None:
        printed = once or not out.is_terminal
        screen = Screen(
            redis,
            settings,
            pipeline=pipeline,
            segments=segments,
            live=workspace is None,
            read_muted=lambda: read_muted(redis, settings.prefix),
        )
        if printed:
            await screen.refresh()
            out.print(screen.render(out.width))
        else:
            await cancelled_by_signal(LiveWatch(out, screen, segments=segments).run(interval))

    with_redis(settings, body)
    if not out.is_terminal and not once:
        err.print("The output is no terminal, so this is one screen of now: --once says so.", highlight=False)


@command("ragtide explain", "ragtide explain trace.adherence", exits="1 if there is no such metric")
def explain(
    context: typer.Context,
    metric: Annotated[
        str | None, typer.Argument(help="Name of a metric, such as trace.adherence or adherence; default: list all.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Explain a metric: formula, direction, limits and labelers.

    It also names the conclusions that the metric does not support, and the metrics to read beside it. A criterion that
    an operator stored is known while Redis can be read.
    """
    from ..printing.pages import METRIC_COLUMNS, KnownMetrics, UnknownMetricError, explanation, given_by

    settings, unread = given(context).settings(), None
    metrics = KnownMetrics.of(settings, metric)
    if metric is None or not metrics.knows(metric):
        from ..running.redis import asked_criteria

        asked, unread = asked_criteria(settings)
        metrics = KnownMetrics.of(asked, metric)
    if metric is None:
        if as_json:
            print_json([metrics.fields(name) for name in metrics.listed])
        else:
            out.print(fitted(METRIC_COLUMNS, [*metrics.listed.values()], out.width))
            out.print("ragtide explain METRIC explains one of them.", style="bright_black")
        warn(*filter(None, [unread]))
        return
    try:
        name = metrics.named(metric)
    except UnknownMetricError as error:
        warn(str(error), *filter(None, [unread]))
        raise typer.Exit(1) from None
    if as_json:
        print_json(metrics.fields(name))
    else:
        out.print(explanation(metrics.known[name], given_by(name, metrics.own, metrics.optional)))


dead_letters = command_group("dead-letters")


@command("ragtide dead-letters --reason too_large", "ragtide dead-letters --json > letters.jsonl", runs=dead_letters)
def list_dead_letters(
    context: typer.Context,
    reason: Annotated[str | None, typer.Option(help="Only this reason, such as not_json.")] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show entries that could not be used, or publish them again.

    Without a command it shows the newest; with --json all of them with payload, one per line.
    """
    settings = settings_with(context, workspace)
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.dead_letters import StoredDeadLetter, read_dead_letters
    from ragtide_runtime.redis.entries import Unreadable
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas import Reason
    from ragtide_schemas.suggestions import unknown

    from ..printing.live import LETTER_COLUMNS, SHOWN
    from ..running.redis import with_redis

    known = [member.value for member in Reason]
    if reason is not None and reason not in known:
        raise typer.BadParameter(unknown("reason", reason, known), param_hint="--reason")

    async def body(redis: Redis, _: RedisHandle) -> tuple[int, list[StoredDeadLetter]]:
        unreadable = Unreadable("dead letter")
        newest: deque[StoredDeadLetter] = deque(maxlen=SHOWN)
        count = 0
        async for stored in read_dead_letters(redis, settings.layout.all(), unreadable):
            letter = stored.letter
            if reason not in (None, letter.reason):
                continue
            count += 1
            if as_json:
                print_json({"id": stored.letter_id, "partition": stored.partition, **letter.model_dump(mode="json")})
            else:
                newest.append(stored.without_payload())
        warn(*filter(None, [unreadable.warning()]))
        return count, list(newest)

    count, newest = with_redis(settings, body)
    if as_json:
        return
    if newest:
        out.print(fitted(LETTER_COLUMNS, newest, out.width))
    else:
        out.print("No dead letters.", style="green")
    if count > len(newest):
        err.print(f"These are the newest {len(newest):,} of {count:,}; --json prints all.", highlight=False)


@command("ragtide dead-letters retry --all", of=dead_letters)
def retry(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of dead letters.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Publish every dead letter again.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Publish dead interactions and feedback again, after you have corrected the cause."""
    settings = settings_with(context, workspace, roles=True)
    from ..running.letters import retry_letters
    from ..running.redis import with_redis

    if bool(ids) == every:
        raise typer.BadParameter("give ids of dead letters, or --all")
    retried = with_redis(settings, lambda redis, _: retry_letters(redis, settings, ids))
    err.print(f"{retried:,} published again", highlight=False)


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
    every: AllMetricsOption = False,
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
    settings = settings_with(context, workspace)
    from redis.asyncio import Redis

    from ragtide_aggregator.estimates.choices import ESTIMATORS, RECOMMENDED, chosen
    from ragtide_aggregator.estimates.live import check_live
    from ragtide_aggregator.reading.first_commit import has_commits
    from ragtide_aggregator.statistics.tables.names import ALL_TIME, AUTO
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas import Estimate
    from ragtide_schemas.suggestions import unknown

    from ..printing.estimates import print_estimates, unmet_option, whole_pipelines
    from ..running.gating import exit_for, gate_of, with_gate
    from ..running.headlines import chosen_range, show_headlines
    from ..running.redis import with_redis

    gate = gate_of(settings, "estimates", fail_if, reports)
    if gate is not None:
        gate.needs_baseline("use ragtide compare, which has two sides")
    span = chosen_range(last, since, all_time=all_time)
    is_explicit = span is not None or labeler is not None
    details = {
        "run": run, "workspace": workspace, "window": window, "estimator": estimator, "strategy": strategy,
        "labeling": labeling, "ongoing": ongoing,
    }  # fmt: skip
    detailed = [f"--{name}" for name, value in details.items() if value]
    if detailed and is_explicit:
        raise typer.BadParameter(
            "--last, --since, --all-time and --labeler choose one number for each metric, and "
            f"{detailed[0]} shows the estimates of every labeler: give one of them"
        )
    if not detailed and (is_explicit or not as_json or gate is not None):
        has_live_traffic = show_headlines(
            settings, span, gate, metric=metric, small=every, as_json=as_json, confidence=confidence,
            pipeline=pipeline, segment=segment, segments=segments, labeler=labeler,
        )  # fmt: skip
        if has_live_traffic:
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
        if not await has_commits(redis, settings):
            return []
        from ragtide_aggregator.reading.deployment import Deployment

        deployment = Deployment(redis, settings)

        async def read(pipeline: str | None) -> list[Estimate]:
            return await deployment.estimates(
                strategy=strategy, confidence=confidence, ongoing=ongoing, windows=window != ALL_TIME, pipeline=pipeline
            )

        # A name that nothing matches is compared with all names.
        return await read(pipeline) or await read(None)

    everything = with_redis(settings, body)
    matching = [
        estimate
        for estimate in chosen(everything, window=window, estimator=estimator, labeling=labeling)
        if pipeline in (None, estimate.pipeline)
        and run in (None, estimate.run)
        and segment in (None, estimate.segment)
        and metric in (None, estimate.metric)
    ]
    unmet = None if matching else unmet_option(everything, pipeline=pipeline, run=run, segment=segment, metric=metric)
    if matching and not as_json:
        print_estimates(
            matching if segments or segment is not None else whole_pipelines(matching),
            len(matching),
            labeling=labeling,
            small=every or metric is not None,
            clusters=settings.clusters,
        )
    elif unmet is None and not matching and not as_json:
        err.print("No estimates yet: publish interactions, and run a worker and an aggregator (ragtide up).")
    result = None
    if gate is not None:
        from ragtide_offline.gates.measurements import measure_estimates, measure_segment

        measured = measure_estimates(matching) if segment is None else measure_segment(matching, segment)
        result = gate.decide(measured, as_json=as_json)
    if as_json:
        listed = [estimate.model_dump(mode="json") for estimate in matching]
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
    and --json always has both. To compare scores in files, use ragtide trust agreement.

    Two replays of the same interactions, and two labelers of one pipeline, are compared interaction by interaction.
    Other pipelines are compared by their means. Intervals are valid at every look.
    """
    settings = given(context).settings()
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_aggregator.statistics.tables.names import ALL_TIME
    from ragtide_offline.report.explained_pipelines import ExplainedDifference, read_explained_differences
    from ragtide_offline.report.labelings import Compared
    from ragtide_offline.report.pipelines import (
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

    from ..running.comparing import (
        compare_split,
        names_of_sides,
        redacted_side,
        report_comparison,
        traffic_split,
        workspace_side,
    )
    from ..running.gating import gate_of
    from ..running.redis import with_redis

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
        differences: list[Compared] | list[ExplainedDifference]
        if by is not None:
            differences = await read_explained_differences(both, by, window=window, confidence=confidence)
        elif labelers:
            differences = await read_labelers(redis, both[0], (labelers[0], labelers[1]), confidence=confidence)
        else:
            differences = await read_comparison(redis, both, window=window, confidence=confidence, ongoing=ongoing)
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
        return differences, None if differences else await unknown_side(both, labelers)

    differences, missing = with_redis(settings, body)
    names = names_of_sides(first, second, workspaces, labelers)
    report_comparison(differences, missing, names, gate, segments=segments, as_json=as_json)


@command(
    "ragtide mcp",
    "ragtide mcp --url https://ragtide.example.com",
    "ragtide mcp --recording recording",
)
def mcp(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(help="Address of ragtide serve; default: http://127.0.0.1:8080 [RAGTIDE_MCP_ENDPOINT]."),
    ] = None,
    recording: Annotated[
        str | None, typer.Option(help="Folder or URL of a recording, on which the model may test alert rules.")
    ] = None,
) -> None:
    """Let a language model read a deployment, over MCP.

    A program with a model starts this command and speaks with it over standard input and output. It reads a ragtide
    serve with the token in RAGTIDE_MCP_TOKEN, and changes nothing.
    """
    settings = given(context).settings()
    import asyncio
    import signal
    from functools import partial

    from ragtide_runtime.errors import ConfigurationError

    try:
        from ragtide.mcp_server.serving import serve_stdio, service_of
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name.startswith("ragtide"):
            raise
        raise ConfigurationError(f"ragtide mcp needs {name}: pip install 'ragtide[mcp]'") from None
    from ragtide.mcp_server.tools import tools_of

    address = settings.mcp if url is None else settings.mcp.model_copy(update={"endpoint": url})
    open_test = None
    if recording is not None:
        from ragtide_offline.replay.rule_test import open_rule_test

        open_test = partial(open_rule_test, settings, recording)
    serving = serve_stdio(service_of(address), tools_of(settings, open_test))
    # A thread waits for standard input and cannot be interrupted. There is nothing to finish, so signals end at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(serving)
