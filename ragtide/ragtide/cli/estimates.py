"""`ragtide estimates`: shows the running estimates with their intervals."""

from collections.abc import Sequence
from typing import Annotated

import typer
from redis.asyncio import Redis

from ragtide_aggregator.estimates.estimates import ESTIMATORS, LIVE, RECOMMENDED, check_live, chosen
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.statistics.means.strategies import AUTO
from ragtide_aggregator.statistics.tables.windows import ALL_TIME
from ragtide_offline.gates.deciding import UndecidedPolicy
from ragtide_offline.gates.measurements import of_estimates, of_segment
from ragtide_offline.score.summary import diagnoses
from ragtide_runtime.redis.url import RedisHandle
from ragtide_schemas import Estimate
from ragtide_schemas.suggestions import unknown

from .common import JsonOption, PipelineOption, SegmentsOption
from .console import err, out, print_json, warn
from .gate_options import FailIfOption, JunitOption, SummaryOption, UndecidedOption, exit_for, gate_of, with_gate
from .groups import whole_pipelines
from .tables import estimates_note, estimates_table, labeling_table
from .with_redis import with_redis
from .workspace_option import WorkspaceOption, settings_with


def estimates(
    context: typer.Context,
    pipeline: PipelineOption = None,
    run: Annotated[str | None, typer.Option(help="Only this run, as given to publish --run.")] = None,
    workspace: WorkspaceOption = None,
    segment: Annotated[str | None, typer.Option(help="Only this segment value, such as lang=de.")] = None,
    segments: SegmentsOption = False,
    metric: Annotated[str | None, typer.Option(help="Only this metric, such as trace.adherence.")] = None,
    strategy: Annotated[
        str,
        typer.Option(
            help=f"Interval: {', '.join(LIVE)}; valid at every look, asymptotic once there are enough values."
        ),
    ] = AUTO,
    confidence: Annotated[
        float | None, typer.Option(min=0.01, max=0.9999, help="Confidence level [RAGTIDE_CONFIDENCE].")
    ] = None,
    window: Annotated[str, typer.Option(help="Window: all, or one of the setting windows, such as 1h.")] = ALL_TIME,
    estimator: Annotated[
        str | None,
        typer.Option(
            help=f"Estimator: {', '.join(ESTIMATORS)}, {RECOMMENDED} or all; default: {RECOMMENDED}, with --json mean."
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
    undecided: UndecidedOption = UndecidedPolicy.KEEP,
    junit: JunitOption = None,
    summary: SummaryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the running estimates with their intervals, once.

    Tables have whole pipelines, and --segments adds segment values; --json always has both.
    To score a file without Redis, use ragtide score.
    """
    settings = settings_with(context, workspace)
    gate = gate_of(settings, "estimates", fail_if, undecided=undecided, junit=junit, summary=summary)
    if gate is not None:
        gate.needs_baseline("use ragtide compare, which has two sides")
    # A gate decides the same with and without --json.
    estimator = estimator or ("mean" if as_json and gate is None else RECOMMENDED)
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
    if found and not as_json:
        _print(found if segments or segment is not None else whole_pipelines(found), len(found), labeling=labeling)
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


def _print(shown: Sequence[Estimate], found: int, *, labeling: bool) -> None:
    if shown and labeling:
        out.print(labeling_table(shown, out.width))
    elif shown:
        out.print(estimates_note(shown), style="bright_black", markup=False, highlight=False)
        out.print(estimates_table(shown, out.width))
        for where, diagnosis in diagnoses(shown):
            out.print(f"{where}: {diagnosis.sentence()}", markup=False, highlight=False)
    if hidden := found - len(shown):
        err.print(f"{hidden:,} estimates of segment values are not shown: --segments shows them.", highlight=False)


def _unmet(
    everything: Sequence[Estimate], *, pipeline: str | None, run: str | None, segment: str | None, metric: str | None
) -> str | None:
    """Return a sentence about the option that matches no estimate; None if there are no estimates."""
    if not everything:
        return None
    for kind, name, known in (
        ("pipeline", pipeline, {one.pipeline for one in everything}),
        ("run", run, {one.run for one in everything if one.run is not None}),
        ("segment", segment, {one.segment for one in everything if one.segment is not None}),
        ("metric", metric, {one.metric for one in everything}),
    ):
        if name is not None and name not in known:
            return unknown(kind, name, known)
    return "no estimate matches all of these options together: leave one out"
