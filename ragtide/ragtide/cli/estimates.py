"""`ragtide estimates` and `ragtide compare`: the running numbers, and the difference of two pipelines."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer
from redis.asyncio import Redis

from ragtide_aggregator.estimates.estimates import ESTIMATORS, STRATEGIES, chosen
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.statistics.paired import CLOSED
from ragtide_aggregator.statistics.strategies import AUTO
from ragtide_aggregator.statistics.windows import ALL_TIME
from ragtide_offline.report.labelings import named_recording
from ragtide_offline.report.pipelines import Compared, Side, read_comparison, read_labelers, unknown_side
from ragtide_offline.score.summary import diagnoses
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import get_workspace
from ragtide_schemas import Estimate
from ragtide_schemas.suggestions import unknown

from .common import JsonOption, PipelineOption, err, given, out, print_json, warn, with_redis
from .tables import comparison_table, estimates_table, labeling_table
from .workspace_option import WorkspaceOption, settings_of, settings_with


def estimates(
    context: typer.Context,
    pipeline: PipelineOption = None,
    run: Annotated[str | None, typer.Option(help="Only this run, as given to publish --run.")] = None,
    workspace: WorkspaceOption = None,
    segment: Annotated[str | None, typer.Option(help="Only this segment value, such as lang=de.")] = None,
    metric: Annotated[str | None, typer.Option(help="Only this metric, such as trace.adherence.")] = None,
    strategy: Annotated[
        str,
        typer.Option(help=f"Interval: {', '.join(STRATEGIES)}. Looking again and again is fair with auto and running."),
    ] = AUTO,
    confidence: Annotated[float | None, typer.Option(min=0.01, max=0.9999, help="Confidence level.")] = None,
    window: Annotated[str, typer.Option(help="all, or a window of the settings such as 1h.")] = ALL_TIME,
    estimator: Annotated[str, typer.Option(help=f"How: {', '.join(ESTIMATORS)}, or all of them.")] = "mean",
    labeling: Annotated[bool, typer.Option("--labeling", help="What labeling took and cost, not scores.")] = False,
    ongoing: Annotated[
        bool, typer.Option("--ongoing", help="Intervals for traffic that goes on, not for a run of known size.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show every running estimate with its interval."""
    settings = settings_with(context, workspace)
    for value, known, hint in (
        (strategy, STRATEGIES, "--strategy"),
        (window, (ALL_TIME, *settings.windows), "--window"),
        (estimator, (*ESTIMATORS, "all"), "--estimator"),
    ):
        if value not in known:
            raise typer.BadParameter(f"{value!r} is unknown: use one of {', '.join(known)}", param_hint=hint)

    async def body(redis: Redis, _: RedisHandle) -> list[Estimate]:
        return await Deployment(redis, settings).estimates(
            strategy=strategy, confidence=confidence, ongoing=ongoing, windows=window != ALL_TIME
        )

    everything = with_redis(settings, body)
    found = [
        estimate
        for estimate in chosen(everything, window=window, estimator=estimator, labeling=labeling)
        if pipeline in (None, estimate.pipeline)
        and run in (None, estimate.run)
        and segment in (None, estimate.segment)
        and metric in (None, estimate.metric)
    ]
    unmet = None if found else _unmet(everything, pipeline=pipeline, run=run, segment=segment, metric=metric)
    if as_json:
        print_json([estimate.model_dump(mode="json") for estimate in found])
    elif found and labeling:
        out.print(labeling_table(found))
    elif found:
        out.print(estimates_table(found, out.width))
        for where, diagnosis in diagnoses(found):
            out.print(f"{where}: {diagnosis.sentence()}", markup=False, highlight=False)
    elif unmet is None:
        err.print("No estimates yet: publish interactions, and run a worker and an aggregator (ragtide up).")
    if unmet is not None:
        warn(unmet)
        raise typer.Exit(1)


def _unmet(
    everything: Sequence[Estimate], *, pipeline: str | None, run: str | None, segment: str | None, metric: str | None
) -> str | None:
    """Return which of the options names nothing that there is, in a sentence; None if there is nothing at all."""
    if not everything:
        return None
    for what, name, known in (
        ("pipeline", pipeline, {one.pipeline for one in everything}),
        ("run", run, {one.run for one in everything if one.run is not None}),
        ("segment", segment, {one.segment for one in everything if one.segment is not None}),
        ("metric", metric, {one.metric for one in everything}),
    ):
        if name is not None and name not in known:
            return unknown(what, name, known)
    return "no estimate fits all of these options: leave one out"


def compare(
    context: typer.Context,
    first: Annotated[str, typer.Argument(help="A pipeline.")],
    second: Annotated[
        str | None, typer.Argument(help="Another pipeline; without it, the same pipeline in two workspaces.")
    ] = None,
    workspace: Annotated[
        list[str] | None, typer.Option(help="Workspace of both pipelines; given twice, of the first and the second.")
    ] = None,
    labeler: Annotated[
        list[str] | None,
        typer.Option(help="Given twice: two labelers of the one pipeline, such as local and judge in a cascade."),
    ] = None,
    window: Annotated[str, typer.Option(help="all, or a window of the settings such as 1h.")] = ALL_TIME,
    confidence: Annotated[float | None, typer.Option(min=0.01, max=0.9999, help="Confidence level.")] = None,
    recording: Annotated[
        str | None,
        typer.Option(help="Recording that a replay of metric events is of, to pair its interactions [recorder.url]."),
    ] = None,
    ongoing: Annotated[
        bool, typer.Option("--ongoing", help="Intervals for traffic that goes on, not for replays of known size.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two pipelines, live or in workspaces: the difference of every metric both have, valid at every look.

    Two replays of the same interactions, and two labelers of one pipeline, are compared interaction by interaction. All
    else is compared by means, for metrics that the same labeler measured with the same profile.
    """
    settings = given(context).settings()
    if window not in (ALL_TIME, *settings.windows):
        raise typer.BadParameter(
            f"{window!r} is unknown: use one of {', '.join((ALL_TIME, *settings.windows))}", param_hint="--window"
        )
    workspaces = workspace or []
    labelers = labeler or []
    if labelers and (len(labelers) != 2 or len(set(labelers)) != 2 or second is not None or len(workspaces) > 1):
        raise typer.BadParameter("give --labeler twice, with one pipeline and at most one --workspace")
    if len(workspaces) > 2 or (second is None and len(workspaces) != 2 and not labelers):
        raise typer.BadParameter("give two pipelines, or one pipeline and --workspace twice or --labeler twice")

    async def body(redis: Redis, _: RedisHandle) -> tuple[list[Compared], str | None]:
        live = Side(Deployment(redis, settings), first)
        sides = [await _side(redis, settings, name, recording) for name in workspaces] or [live]
        both = replace(sides[0], pipeline=first), replace(sides[-1], pipeline=second or first)
        if labelers:
            found = await read_labelers(redis, both[0], (labelers[0], labelers[1]), confidence=confidence)
        else:
            found = await read_comparison(redis, both, window=window, confidence=confidence, ongoing=ongoing)
        return found, None if found else await unknown_side(both)

    found, missing = with_redis(settings, body)
    names = [first, second or first]
    if labelers:
        names = labelers
    elif len(workspaces) == 2:
        names = [f"{name} ({where})" for name, where in zip(names, workspaces, strict=True)]
    if as_json:
        print_json([one.as_dict() for one in found])
    elif found:
        out.print(comparison_table(found, *names))
        out.print(_method(found), style="bright_black", highlight=False)
    if missing is not None:
        warn(missing)
        raise typer.Exit(1)
    if not found and not as_json:
        err.print(f"{names[0]} and {names[1]} have no metric in common yet: both need scores by the same labeler.")


async def _side(redis: Redis, settings: Settings, workspace: str, recording: str | None) -> Side:
    info = await get_workspace(redis, settings, workspace)
    deployment = Deployment(redis, await settings_of(redis, settings, workspace))
    return Side(deployment, "", info, named_recording(settings, info, recording))


def _method(found: Sequence[Compared]) -> str:
    """Return how the differences were made, in a sentence or two."""
    pairs = max((one.n[0] for one in found if one.method == "paired"), default=0)
    said = []
    if pairs:
        known = any(one.strategy == CLOSED for one in found)
        said.append(
            f"Paired by interaction id: {pairs:,} pairs."
            + (" All interactions of both workspaces are known, so no uncertainty is left about them." if known else "")
        )
    if any(one.method == "unpaired" for one in found):
        said.append(f"{'The rest is unpaired' if said else 'Unpaired'}: the difference of two means.")
    return " ".join(said)
