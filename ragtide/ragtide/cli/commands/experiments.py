"""`ragtide experiment` and `report`: configs that compete, and the page about them."""

from pathlib import Path
from typing import Annotated

import typer

from ..command import command, command_group
from ..console import err, warn
from ..options import ExperimentGateOptions, JsonOption, ReportFormat, given

experiment = command_group(
    "experiment",
    "Run configs over a data set, and stop those that surely lose. The configs are compared while they run.",
    no_args_is_help=True,
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
    as_json: JsonOption = False,
) -> None:
    """Run or continue an experiment, until it is complete or Ctrl-C."""
    from ..experiment_runs import run_experiment
    from ..gates import experiment_gate

    settings = given(context).settings()
    gate = experiment_gate(settings, gate_options)
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
    as_json: JsonOption = False,
) -> None:
    """Resume a stopped config, or continue an experiment that was interrupted or paused."""
    from ragtide_offline.experiments.control import ExperimentControl
    from ragtide_runtime.errors import ConfigurationError
    from ragtide_runtime.workspaces import get_workspace

    from ..experiment_runs import confirm, how_to_continue, run_experiment
    from ..gates import experiment_gate
    from ..with_redis import with_redis

    settings = given(context).settings()
    gate = experiment_gate(settings, gate_options)
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

    from ..experiment_runs import GO_ON, follow_board, print_board
    from ..gates import exit_for, experiment_gate
    from ..with_redis import with_redis

    settings = given(context).settings()
    gate = experiment_gate(settings, gate_options)

    async def body(redis: Redis, _: RedisHandle) -> GateResult | None:
        await get_workspace(redis, settings, name)
        streams = streams_of(settings, name)
        reader = ExperimentReader(redis, streams)
        await reader.read()

        async def driven() -> bool:
            return bool(await redis.exists(streams.driver))

        if follow and not as_json:
            await cancelled_by_signal(follow_board(reader, driven))
            return None if gate is None else gate.decide(reader.state, as_json=False)
        found, runs = board(reader.state), await driven()
        result = print_board(found, reader.state, gate, as_json=as_json, driven=runs)
        if not (found.completed or runs):
            warn(f"No driver runs, so no config of {name} is called. To continue, {GO_ON}.")
        return result

    exit_for(with_redis(settings, body))


@command("ragtide experiment stop try '#3' --reason 'too slow'", of=experiment)
def stop(context: typer.Context, name: Name, config: Config, reason: Reason = "") -> None:
    """Stop a config: it is no longer called, and its results are kept."""
    from ..experiment_runs import confirm, control_of

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
    from ..experiment_runs import changed_parameter, confirm, control_of

    changed = dict(changed_parameter(text) for text in parameters or [])
    driven = control_of(name, given(context)).clone(config, clone, reason=reason, **changed)
    confirm(f"{clone} runs", driven=driven)


@command("ragtide experiment delete try '#3'", of=experiment)
def delete(context: typer.Context, name: Name, config: Config, reason: Reason = "") -> None:
    """Stop a config for good, and remove it from leaderboard and report."""
    from ..experiment_runs import confirm, control_of

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
    from ..experiment_runs import confirm, control_of

    control = control_of(name, given(context))
    confirm("the limits are set", driven=control.limits(max_cost_usd=max_cost_usd, max_tokens=max_tokens))


@command("ragtide report try", "ragtide report after --compare before --output - --format md")
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
    from ragtide_offline.report.reports import ReportRequest, page_of, read_report
    from ragtide_offline.score.reference_results import reference_results
    from ragtide_runtime.errors import ConfigurationError

    from ..progress import interruptible, progress_bar
    from ..report_files import write_report
    from ..with_redis import with_redis

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
    request = ReportRequest(workspace, compare, config or (), confidence, items, recording, reference)
    with (
        interruptible(lambda: "No report was written: give the same command again."),
        progress_bar("reading the workspace", None),
    ):
        found, warnings = with_redis(settings, lambda redis, _: read_report(redis, settings, request))
    warn(*warnings)
    if mlflow and not isinstance(found, ExperimentReport):
        raise ConfigurationError(f"workspace {workspace} is a replay: only experiments are exported to MLflow")
    stem = workspace if compare is None else f"{workspace}-vs-{compare}"
    write_report(found, stem, ReportFormat.JSON if as_json else report_format, output)
    if mlflow and isinstance(found, ExperimentReport):
        pages = {"report.html": page_of(found, "html"), "report.md": page_of(found, "md")}
        written = export(found, pages, tracking_uri=tracking_uri, experiment=mlflow_experiment)
        err.print(f"exported to MLflow as run {written} of {mlflow_experiment}", highlight=False)
