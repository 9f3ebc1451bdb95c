"""`ragtide experiment` and `capacity`: what to run, and what it costs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..printing import err, out, print_json, warn
from ..running import ConfidenceOption, ExperimentGateOptions, GateReports, JsonOption, ReportFormat, given
from . import command, command_group

experiment = command_group(
    "experiment",
    "Run configs over a data set, and stop those that surely lose. The configs are compared while they run.",
)


Name = Annotated[str, typer.Argument(help="Name of the experiment.")]


Config = Annotated[str, typer.Argument(help="Name of the config, or its number such as #3.")]


Reason = Annotated[str, typer.Option(help="Reason for the report, in a sentence.")]


NoRoles = Annotated[
    bool,
    typer.Option("--no-roles", help="Call the target only, and label with ragtide worker --workspace NAME elsewhere."),
]


@command(
    "ragtide experiment run experiment.toml --fail-if 'trace.adherence < 0.8'",
    exits="3 if the experiment is not complete",
    of=experiment,
)
def run(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="TOML file that describes the experiment.")],
    no_roles: NoRoles = False,
    gate_options: ExperimentGateOptions = ExperimentGateOptions(),
    reports: GateReports = GateReports(),
    as_json: JsonOption = False,
) -> None:
    """Run or continue an experiment, until it is complete or Ctrl-C."""
    from ..running.gating import experiment_gate
    from ..running.laboratory import run_experiment

    settings = given(context).settings()
    gate = experiment_gate(settings, gate_options, reports)
    run_experiment(settings, file, gate, roles=not no_roles, as_json=as_json)


@command(
    "ragtide experiment resume try top_k=2 --keep",
    "ragtide experiment resume try --file experiment.toml",
    exits="3 if the experiment is not complete",
    of=experiment,
)
def resume(
    context: typer.Context,
    name: Name,
    config: Annotated[str | None, typer.Argument(help="Config to resume; by default the whole experiment.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="TOML file that describes the experiment; needed without CONFIG.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="With `resume`: a veto, so that the race must not stop the config again.")
    ] = False,
    reason: Reason = "",
    no_roles: NoRoles = False,
    gate_options: ExperimentGateOptions = ExperimentGateOptions(),
    reports: GateReports = GateReports(),
    as_json: JsonOption = False,
) -> None:
    """Resume a stopped config, or continue an experiment that was interrupted or paused."""
    from ragtide_offline.experiments.control import ExperimentControl
    from ragtide_runtime.errors import ConfigurationError
    from ragtide_runtime.workspaces import get_workspace

    from ..running.gating import experiment_gate
    from ..running.laboratory import confirm, how_to_continue, run_experiment
    from ..running.redis import with_redis

    settings = given(context).settings()
    gate = experiment_gate(settings, gate_options, reports)
    if config is not None and file is not None:
        raise typer.BadParameter("give a config to resume, or the file of the experiment to continue; not both")
    if config is not None and gate is not None:
        raise typer.BadParameter("a gate is about a whole experiment: give --file FILE and no CONFIG")
    if config is not None:
        driven = ExperimentControl(name, settings=settings).resume(config, keep=keep, reason=reason)
        confirm(f"{config} is resumed", driven=driven)
        return
    if file is None:
        info = with_redis(settings, lambda redis, _: get_workspace(redis, settings, name))
        raise ConfigurationError(how_to_continue(info))
    run_experiment(settings, file, gate, roles=not no_roles, as_json=as_json, name=name)


@command("ragtide experiment show try --follow", of=experiment, name="show")
def show_experiment(
    context: typer.Context,
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Redraw until it is complete, or Ctrl-C.")] = False,
    gate_options: ExperimentGateOptions = ExperimentGateOptions(),
    reports: GateReports = GateReports(),
    as_json: JsonOption = False,
) -> None:
    """Show the leaderboard of an experiment that any process runs."""
    from redis.asyncio import Redis

    from ragtide_offline.experiments.board import board
    from ragtide_offline.experiments.reader import ExperimentReader, streams_of
    from ragtide_offline.gates.deciding import GateResult
    from ragtide_roles.running import cancelled_by_signal
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_runtime.workspaces import get_workspace

    from ..running.gating import exit_for, experiment_gate
    from ..running.laboratory import GO_ON, follow_board, print_board
    from ..running.redis import with_redis

    settings = given(context).settings()
    gate = experiment_gate(settings, gate_options, reports)

    async def body(redis: Redis, _: RedisHandle) -> GateResult | None:
        await get_workspace(redis, settings, name)
        streams = streams_of(settings, name)
        reader = ExperimentReader(redis, streams)
        await reader.read()

        async def driven() -> bool:
            return bool(await redis.exists(streams.driver))

        if follow and not as_json:
            await cancelled_by_signal(follow_board(reader, driven))
            return None if gate is None else gate.decide_experiment(reader.state, as_json=False)
        leaderboard, runs = board(reader.state), await driven()
        result = print_board(leaderboard, reader.state, gate, as_json=as_json, driven=runs)
        if not (leaderboard.completed or runs):
            warn(f"No driver runs, so no config of {name} is called. To continue, {GO_ON}.")
        return result

    exit_for(with_redis(settings, body))


@command("ragtide experiment stop try '#3' --reason 'too slow'", of=experiment)
def stop(context: typer.Context, name: Name, config: Config, reason: Reason = "") -> None:
    """Stop a config: it is no longer called, and its results are kept."""
    from ..running.laboratory import confirm, control_of

    driven = control_of(name, given(context)).stop(config, reason)
    confirm(f"{config} is stopped", driven=driven)


@command("ragtide experiment clone try top_k=2 wider --set top_k=8", of=experiment)
def clone(
    context: typer.Context,
    name: Name,
    config: Config,
    clone: Annotated[str, typer.Argument(help="Name of the clone.")],
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", help="A changed parameter as name=value, where value is JSON or text; may be repeated."),
    ] = None,
    reason: Reason = "",
) -> None:
    """Add a config with the parameters of another config, except those given with --set."""
    from ..running.laboratory import changed_parameter, confirm, control_of

    changed = dict(changed_parameter(text) for text in parameters or [])
    driven = control_of(name, given(context)).clone(config, clone, reason=reason, **changed)
    confirm(f"{clone} runs", driven=driven)


@command("ragtide experiment delete try '#3'", of=experiment)
def delete(context: typer.Context, name: Name, config: Config, reason: Reason = "") -> None:
    """Stop a config for good, and remove it from leaderboard and report."""
    from ..running.laboratory import confirm, control_of

    driven = control_of(name, given(context)).delete(config, reason)
    confirm(f"{config} is deleted", driven=driven)


@command("ragtide experiment limits try --max-cost-usd 20", of=experiment)
def limits(
    context: typer.Context,
    name: Name,
    max_cost_usd: Annotated[
        float | None, typer.Option(help="Most US dollars, for answers and labels together; no limit unless given.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Most tokens, for answers and labels together; no limit unless given.")
    ] = None,
) -> None:
    """Set new limits of an experiment; a limit that is not given is removed."""
    from ..running.laboratory import confirm, control_of

    control = control_of(name, given(context))
    confirm("the limits are set", driven=control.limits(max_cost_usd=max_cost_usd, max_tokens=max_tokens))


@command(
    "ragtide experiment report try",
    "ragtide experiment report after --compare before --output - --format json",
    of=experiment,
)
def report(
    context: typer.Context,
    workspace: Annotated[str, typer.Argument(help="Name of an experiment or a replay.")],
    report_format: Annotated[
        ReportFormat | None,
        typer.Option("--format", help="Format of the page; default: the ending of --output, or html."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write, or - for standard output. Default: WORKSPACE.html."),
    ] = None,
    compare: Annotated[str | None, typer.Option(help="Another workspace to compare with.")] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(help="With --compare: A=B compares config A with config B; may be repeated. Default: same names."),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(min=0.5, max=0.9999, help="With --compare: level of the intervals.")
    ] = None,
    recording: Annotated[
        str | None,
        typer.Option(help="With --compare: recording that the replays have read. Default: recorder.url."),
    ] = None,
    items: Annotated[int, typer.Option(min=0, max=1000, help="Number of worst items, and of disputed items.")] = 10,
    mlflow: Annotated[bool, typer.Option("--mlflow", help="Export to MLflow too, or update an export.")] = False,
    tracking_uri: Annotated[
        str | None, typer.Option(help="Address of MLflow, such as sqlite:///mlflow.db [MLFLOW_TRACKING_URI].")
    ] = None,
    mlflow_experiment: Annotated[str, typer.Option(help="Name of the MLflow experiment.")] = "ragtide",
    reference: Annotated[
        str | None,
        typer.Option(help="Published results to show beside the best config: ClapNQ, RAGChecker or RAGBench."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the report of an experiment or a replay as a page.

    The report of an experiment has the leaderboard, cost, stopped configs and items. With --compare the page
    compares two experiments or two replays.
    """
    from ragtide_offline.report.content import ExperimentReport
    from ragtide_offline.report.mlflow_export import export
    from ragtide_offline.report.reports import page_of, read_report
    from ragtide_offline.score.reference_results import reference_results
    from ragtide_runtime.errors import ConfigurationError

    from ..running.progress import interruptible, progress_bar
    from ..running.redis import with_redis
    from ..running.reports import write_report

    if as_json and report_format not in {None, ReportFormat.JSON}:
        raise typer.BadParameter(f"--json and --format {report_format} contradict each other: give one of them")
    if config and compare is None:
        raise typer.BadParameter("--config names the configs to compare: give --compare OTHER too")
    if mlflow and compare is not None:
        raise typer.BadParameter("--mlflow exports a single experiment: leave --compare out")
    if tracking_uri is not None and not mlflow:
        raise typer.BadParameter("--tracking-uri is the address of MLflow: give --mlflow too")
    if reference is not None:
        if compare is not None:
            raise typer.BadParameter("--reference is for the report of one experiment: leave --compare out")
        try:
            reference_results(reference)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--reference") from None
    settings = given(context).settings()
    with (
        interruptible(lambda: "No report was written: give the same command again."),
        progress_bar("reading the workspace", None),
    ):
        content, warnings = with_redis(
            settings,
            lambda redis, _: read_report(
                redis,
                settings,
                workspace,
                compare,
                configs=config or (),
                confidence=confidence,
                items=items,
                recording=recording,
                reference=reference,
            ),
        )
    warn(*warnings)
    if mlflow and not isinstance(content, ExperimentReport):
        raise ConfigurationError(f"workspace {workspace} is a replay: only experiments are exported to MLflow")
    stem = workspace if compare is None else f"{workspace}-vs-{compare}"
    write_report(content, stem, ReportFormat.JSON if as_json else report_format, output)
    if mlflow and isinstance(content, ExperimentReport):
        written = export(
            content, {"report.html": page_of(content)}, tracking_uri=tracking_uri, experiment=mlflow_experiment
        )
        err.print(f"exported to MLflow as run {written} of {mlflow_experiment}", highlight=False)


class CountedLabeler(StrEnum):
    """The labeler of all interactions whose cost is known."""

    LOCAL = "local"
    JUDGE = "judge"


capacity = command_group("capacity")


@command(
    "ragtide capacity --rate 500",
    "ragtide capacity --rate 500 --documents 5 --judge-share 0.1 --judge-model gpt-4.1-mini",
    "ragtide --partitions 64 capacity --rate 20000 --pipelines 10000 --retention 1d --json",
    runs=capacity,
)
def show_capacity(
    context: typer.Context,
    rate: Annotated[float, typer.Option(min=0.001, max=1e9, help="Interactions a second, of all pipelines.")],
    documents: Annotated[float, typer.Option(min=0, max=1000, help="Documents of an interaction.")] = 5.0,
    document_size: Annotated[
        float, typer.Option("--document-size", min=1, max=1_000_000, help="Characters of a document.")
    ] = 1024.0,
    pipelines: Annotated[int, typer.Option(min=1, max=1_000_000, help="Pipelines, all with the same rate.")] = 1,
    keys: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Keys of a pipeline: its metrics times one more than its segment values; default: no segments.",
        ),
    ] = None,
    labeler: Annotated[CountedLabeler, typer.Option(help="Labeler of all interactions.")] = CountedLabeler.LOCAL,
    judge_share: Annotated[
        float, typer.Option("--judge-share", min=0, max=1, help="Share that the judge labels, besides.")
    ] = 0.0,
    judge_model: Annotated[
        str | None, typer.Option("--judge-model", help="Model of the judge [RAGTIDE_JUDGE_MODEL].")
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="IN,OUT",
            help="Dollars for a million tokens sent, and answered, such as 0.4,1.6; default: that of the settings, or "
            "the list price.",
        ),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time for which feedback finds its interaction, such as 12h or 7d [RAGTIDE_FEEDBACK_WINDOW_S].",
        ),
    ] = None,
    costs: Annotated[
        Path | None, typer.Option(help="File of unit costs that make capacity wrote; default: that of ragtide.")
    ] = None,
    grown: Annotated[
        bool, typer.Option("--ten-times", help="Show how full each limit is at ten times each size.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what to buy for a traffic.

    It shows processors of each role, memory and network of Redis, how full each limit is, and dollars of the judge. The
    figures come from unit costs that were measured on one machine, and from the settings: partitions, windows, commits,
    specimens. The judge's bill counts every criterion for all pipelines, and those that operators stored if Redis can
    be read. Nothing is asked, and no Redis is needed.
    """
    import asyncio

    from ragtide_offline.capacity.judging import judge_bill
    from ragtide_offline.capacity.planning import PlannedTraffic, capacity_of, ten_times
    from ragtide_offline.capacity.unit_costs import KIB, SHIPPED, read_unit_costs

    from ..printing.laboratory import capacity_view
    from ..running.laboratory import price_of_option, seconds_of_option
    from ..running.redis import asked_criteria

    settings = given(context).settings()
    if retention is not None:
        settings = settings.model_copy(update={"feedback_window_s": seconds_of_option(retention)})
    model = judge_model or settings.judge.model
    changes: dict[str, object] = {"model": model}
    if price is not None:
        if model is None:
            raise typer.BadParameter("--price is that of a model: give --judge-model, too")
        changes["prices"] = {**settings.judge.prices, model: price_of_option(price)}
    settings = settings.model_copy(update={"judge": settings.judge.model_copy(update=changes)})
    if labeler is CountedLabeler.JUDGE:
        if judge_share:
            raise typer.BadParameter("--judge-share is for --labeler local: --labeler judge asks about everything")
        judge_share = 1.0
    if judge_share:
        settings, unread = asked_criteria(settings)
        if settings.redis_address and unread is not None:
            warn(unread)
    traffic = PlannedTraffic(
        rate=rate,
        documents=documents,
        document_kib=document_size / KIB,
        pipelines=pipelines,
        keys=keys,
        local_share=1.0 if labeler is CountedLabeler.LOCAL else 0.0,
        judge_share=judge_share,
    )
    measured = read_unit_costs(costs or SHIPPED)
    needs = capacity_of(traffic, settings, measured)
    sizes = ten_times(traffic, measured).items() if grown else ()
    larger = {size: capacity_of(capacity_needed, settings, measured) for size, capacity_needed in sizes}
    bill = asyncio.run(judge_bill(traffic, settings)) if judge_share else None
    if as_json:
        origin = {"measured_on": measured.measured_on, "machine": measured.machine, "versions": measured.versions}
        tens = (
            {"ten_times": {size: capacity_needed.as_dict() for size, capacity_needed in larger.items()}}
            if grown
            else {}
        )
        print_json({**needs.as_dict(), "judge": None if bill is None else bill.as_dict(), "unit_costs": origin, **tens})
    else:
        out.print(capacity_view(traffic, needs, bill, measured, width=out.width, larger=larger))


@command(
    "ragtide capacity plan criteria.asks_back --half-width 0.03 --traffic 5000",
    "ragtide capacity plan trace.adherence --half-width 0.02 --traffic 5000 --days 30 --pipeline shop",
    "ragtide capacity plan criteria.asks_back --half-width 0.03 --traffic 5000 --mean 0.2 --correlation 0.6 --json",
    exits="4 if the width is not reached though everything is judged",
    of=capacity,
)
def plan(
    context: typer.Context,
    metric: Annotated[str, typer.Argument(help="Metric that a judge scores, such as criteria.asks_back.")],
    half_width: Annotated[
        float, typer.Option("--half-width", min=1e-6, help="Wanted distance from the estimate to each end.")
    ],
    traffic: Annotated[float, typer.Option(min=1, max=1e12, help="Interactions of the pipeline in a day.")],
    days: Annotated[float, typer.Option(min=0.01, max=3650, help="Days until the interval is that narrow.")] = 7.0,
    pipeline: Annotated[str | None, typer.Option(help="Pipeline whose estimates are read.")] = None,
    estimates: Annotated[
        Path | None,
        typer.Option(help="File with the output of ragtide estimates --json --estimator all, instead of Redis."),
    ] = None,
    mean: Annotated[
        float | None, typer.Option(help="Mean of the judge's answers, instead of that of estimates.")
    ] = None,
    deviation: Annotated[
        float | None,
        typer.Option(min=0, help="With --mean: their standard deviation; default: the largest, that of yes and no."),
    ] = None,
    correlation: Annotated[
        float, typer.Option(min=0, max=0.999, help="With --mean: correlation of a proxy with the judge; 0 for none.")
    ] = 0.0,
    confidence: ConfidenceOption = None,
    documents: Annotated[
        float, typer.Option(min=0, max=1000, help="Documents of an interaction, for the price.")
    ] = 5.0,
    document_size: Annotated[
        float, typer.Option("--document-size", min=1, max=1_000_000, help="Characters of a document, for the price.")
    ] = 1024.0,
    as_json: JsonOption = False,
) -> None:
    """Show how many judged items a wanted width costs.

    It shows them with the proxy's scores and without, the rate of the sample, and dollars of the judge. Mean, variance,
    correlation and the design effect of sessions come from the estimates of the deployment, from a file of them, or
    from --mean. The interval is the live one, valid at every look. Nothing is asked.
    """
    import asyncio

    from ragtide_offline.capacity.judged_sample import sample_plan
    from ragtide_offline.capacity.judging import usd_of_judgement
    from ragtide_offline.capacity.unit_costs import KIB

    from ..printing.laboratory import plan_view
    from ..running.laboratory import (
        estimates_of_file,
        given_scale,
        live_estimates,
        planned_definition,
        scale_of_estimates,
    )
    from ..running.redis import asked_criteria, criteria_of_metrics

    if mean is not None and estimates is not None:
        raise typer.BadParameter("--mean and --estimates exclude each other: give one")
    settings = given(context).settings()
    is_live = mean is None and estimates is None
    settings, unread = asked_criteria(settings) if is_live else criteria_of_metrics(settings, [metric])
    warn(*filter(None, [unread]))
    level = settings.confidence if confidence is None else confidence
    definition = planned_definition(settings, metric, unread)
    if mean is not None:
        scale = given_scale(metric, definition, mean, deviation, correlation)
    else:
        judged = live_estimates(settings, level) if estimates is None else estimates_of_file(estimates)
        scale = scale_of_estimates(judged, metric, pipeline)
    usd_each = asyncio.run(usd_of_judgement(settings, metric, pipeline, documents=documents, kib=document_size / KIB))
    planned = sample_plan(
        metric, scale, half_width, days=days, interactions_a_day=traffic, confidence=level, usd_each=usd_each
    )
    if as_json:
        print_json(planned.as_dict())
    else:
        out.print(plan_view(planned, out.width))
    if planned.with_proxy is None and planned.judged_alone is None:
        raise typer.Exit(4)
