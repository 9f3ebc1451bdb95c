"""`ragtide experiment`: runs configs over a data set, shows the leaderboard, and gives commands to the experiment."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from redis import RedisError
from redis.asyncio import Redis
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ragtide_offline.experiments.board import Board, board
from ragtide_offline.experiments.control import ExperimentControl
from ragtide_offline.experiments.experiment import Experiment
from ragtide_offline.experiments.reader import ExperimentReader, streams_of
from ragtide_offline.experiments.state import ExperimentState
from ragtide_offline.gates.deciding import GateResult, UndecidedPolicy
from ragtide_roles.running import cancelled_by_signal, on_signal
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import RedisHandle, resolve_redis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_runtime.workspaces import get_workspace
from ragtide_schemas import Workspace
from ragtide_schemas.experiments import Command, Limits, Plan

from .command_groups import command_group
from .common import JsonOption, given
from .console import err, out, print_json, warn
from .experiment_gate import ExperimentGate, GateBaseline, GateConfig, experiment_gate
from .experiment_tables import board_view, shown_metrics
from .gate_options import FailIfOption, JunitOption, SummaryOption, UndecidedOption, exit_for, gate_of, with_gate
from .progress import BarView, cost_note, interrupted
from .with_redis import with_redis

REDRAW_S = 1.0
"""Seconds between two drawings of the leaderboard."""

NOT_COMPLETE = 3
"""Exit code of an experiment that was interrupted or paused: docs/gates.md, "Exit codes"."""

GO_ON = "run ragtide experiment run FILE again, or the program that began it"
"""The advice to start a driver again."""

experiment = command_group(
    "Run configs over a data set, and stop those that surely lose. The configs are compared while they run.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="Name of the experiment.")]
Config = Annotated[str, typer.Argument(help="Name of the config, or its number such as #3.")]


def _option(model: type[BaseModel], field: str, *names: str) -> Any:
    return typer.Option(*names, help=model.model_fields[field].description)


Reason = Annotated[str, _option(Command, "reason")]
NoRoles = Annotated[
    bool,
    typer.Option("--no-roles", help="Call the target only, and label with ragtide worker --workspace NAME elsewhere."),
]


@experiment.command()
def run(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="TOML file that describes the experiment.")],
    no_roles: NoRoles = False,
    fail_if: FailIfOption = None,
    config: GateConfig = None,
    baseline: GateBaseline = None,
    undecided: UndecidedOption = UndecidedPolicy.KEEP,
    junit: JunitOption = None,
    summary: SummaryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run or continue an experiment, until it is complete or Ctrl-C."""
    settings = given(context).settings()
    options = gate_of(settings, "experiment", fail_if, undecided=undecided, junit=junit, summary=summary)
    gate = experiment_gate(options, config, baseline)
    _run(settings, file, gate, roles=not no_roles, as_json=as_json)


@experiment.command()
def resume(
    context: typer.Context,
    name: Name,
    config: Annotated[str | None, typer.Argument(help="Config to resume; by default the whole experiment.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="TOML file that describes the experiment; needed without CONFIG.")
    ] = None,
    keep: Annotated[bool, _option(Command, "keep", "--keep")] = False,
    reason: Reason = "",
    no_roles: NoRoles = False,
    fail_if: FailIfOption = None,
    gate_config: GateConfig = None,
    baseline: GateBaseline = None,
    undecided: UndecidedOption = UndecidedPolicy.KEEP,
    junit: JunitOption = None,
    summary: SummaryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume a stopped config, or continue an experiment that was interrupted or paused."""
    settings = given(context).settings()
    options = gate_of(settings, "experiment", fail_if, undecided=undecided, junit=junit, summary=summary)
    gate = experiment_gate(options, gate_config, baseline)
    if config is not None and file is not None:
        raise typer.BadParameter("give a config to resume, or the file of the experiment to continue; not both")
    if config is not None and gate is not None:
        raise typer.BadParameter("a gate is about a whole experiment: give --file FILE and no CONFIG")
    if config is not None:
        driven = ExperimentControl(name, settings=settings).resume(config, keep=keep, reason=reason)
        _confirm(f"{config} is resumed", driven=driven)
        return
    if file is None:
        info = with_redis(settings, lambda redis, _: get_workspace(redis, settings, name))
        raise ConfigurationError(_how_to_continue(info))
    _run(settings, file, gate, roles=not no_roles, as_json=as_json, name=name)


def _how_to_continue(info: Workspace) -> str:
    # The path in Redis is shown and never opened, because any process with access to Redis may have written it.
    stored = info.options.get("file")
    if not isinstance(stored, str):
        return f"a Python program began {info.run}: run that program again to continue the experiment"
    return (
        f"give the file that describes {info.run}: ragtide experiment resume {info.run} --file FILE (it began with "
        f"{stored!r}; read that file before you run it)"
    )


@experiment.command()
def show(
    context: typer.Context,
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Redraw until it is complete, or Ctrl-C.")] = False,
    fail_if: FailIfOption = None,
    config: GateConfig = None,
    baseline: GateBaseline = None,
    undecided: UndecidedOption = UndecidedPolicy.KEEP,
    junit: JunitOption = None,
    summary: SummaryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the leaderboard of an experiment that any process runs."""
    settings = given(context).settings()
    options = gate_of(settings, "experiment", fail_if, undecided=undecided, junit=junit, summary=summary)
    gate = experiment_gate(options, config, baseline)

    async def body(redis: Redis, _: RedisHandle) -> GateResult | None:
        await get_workspace(redis, settings, name)
        streams = streams_of(settings, name)
        reader = ExperimentReader(redis, streams)
        await reader.read()

        async def driven() -> bool:
            return bool(await redis.exists(streams.driver))

        if follow and not as_json:
            await cancelled_by_signal(_follow(reader, driven))
            return None if gate is None else gate.decide(reader.state, as_json=False)
        found, runs = board(reader.state), await driven()
        result = _print(found, reader.state, gate, as_json=as_json, driven=runs)
        if not (found.completed or runs):
            warn(f"No driver runs, so no config of {name} is called. To continue, {GO_ON}.")
        return result

    exit_for(with_redis(settings, body))


@experiment.command()
def stop(context: typer.Context, name: Name, config: Config, reason: Reason = "") -> None:
    """Stop a config: it is no longer called, and its results are kept."""
    driven = _control(context, name).stop(config, reason)
    _confirm(f"{config} is stopped", driven=driven)


@experiment.command()
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
    changed = dict(_parameter(text) for text in parameters or [])
    driven = _control(context, name).clone(config, clone, reason=reason, **changed)
    _confirm(f"{clone} runs", driven=driven)


@experiment.command()
def delete(context: typer.Context, name: Name, config: Config, reason: Reason = "") -> None:
    """Stop a config for good, and remove it from leaderboard and report."""
    driven = _control(context, name).delete(config, reason)
    _confirm(f"{config} is deleted", driven=driven)


@experiment.command()
def limits(
    context: typer.Context,
    name: Name,
    max_cost_usd: Annotated[float | None, _option(Limits, "max_cost_usd")] = None,
    max_tokens: Annotated[int | None, _option(Limits, "max_tokens")] = None,
) -> None:
    """Set new limits of an experiment; a limit that is not given is removed."""
    control = _control(context, name)
    _confirm("the limits are set", driven=control.limits(max_cost_usd=max_cost_usd, max_tokens=max_tokens))


def _control(context: typer.Context, name: str) -> ExperimentControl:
    return ExperimentControl(name, settings=given(context).settings())


def _confirm(done: str, *, driven: bool) -> None:
    err.print(done, markup=False, highlight=False)
    if not driven:
        warn(f"No driver runs, so this takes effect when the experiment continues: {GO_ON}")


def _run(
    settings: Settings,
    file: Path,
    gate: ExperimentGate | None,
    *,
    roles: bool,
    as_json: bool,
    name: str | None = None,
) -> None:
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    made = Experiment.from_file(file, settings, name=name)
    err.print(_summary(made.plan), markup=False, highlight=False, soft_wrap=True)

    signalled = False

    async def body(url: str) -> None:
        stopping = asyncio.Event()

        async def table(redis: Redis) -> None:
            await _follow(ExperimentReader(redis, streams_of(settings, made.plan.run)))

        def stop() -> None:
            nonlocal signalled
            signalled = True
            stopping.set()

        with on_signal(stop):
            beside = [] if as_json or not out.is_terminal else [table]
            await made.drive(url, stopping, roles=roles, beside=beside)

    with resolve_redis(settings.redis_address, settings.data_dir, convert=True) as handle:
        asyncio.run(body(handle.url))
        state = made.control.state()
        found = board(state)
        result = _print(found, state, gate, as_json=as_json)
        if signalled and not found.completed:
            interrupted(
                f"{found.executed:,} answers and their scores are kept: to go on, give ragtide experiment run {file}."
            )
        if not found.completed:
            err.print(f"Not complete. Continue with: ragtide experiment run {file}", markup=False, highlight=False)
        exit_for(result, otherwise=0 if found.completed else NOT_COMPLETE)


async def _follow(reader: ExperimentReader, driven: Callable[[], Awaitable[bool]] | None = None) -> None:
    bar = BarView(out, "items compared")
    with Live(console=out, auto_refresh=False, transient=True) as live:
        while True:
            try:
                await reader.read()
                runs = driven is None or await driven()
            except RedisError as error:
                live.update(Text(f"Redis does not answer ({error}); trying again ...", style="red"), refresh=True)
                await asyncio.sleep(REDRAW_S)
                continue
            if reader.begun:
                # In a thread: the leaderboard is slow to compute, and other tasks of this process must not wait.
                found = await asyncio.to_thread(board, reader.state, metrics=[reader.state.plan.metric])
                cost = cost_note(found.cost_usd, found.compared, found.population_size)
                view: list[RenderableType] = [
                    board_view(found, out.width, driven=runs),
                    bar.drawn(found.compared, found.population_size, cost),
                ]
                if not (found.completed or runs):
                    view.append(Text(f"No driver runs. To continue, {GO_ON}.", style="yellow"))
                live.update(Group(*view), refresh=True)
                if found.completed:
                    return
            await asyncio.sleep(REDRAW_S)


def _print(
    found: Board, state: ExperimentState, gate: ExperimentGate | None, *, as_json: bool, driven: bool = True
) -> GateResult | None:
    """Print the leaderboard and the gate, and return the result of the gate."""
    if not as_json:
        out.print(board_view(found, out.width, shown_metrics(found), driven=driven))
    result = None if gate is None else gate.decide(state, as_json=as_json)
    if as_json:
        print_json(with_gate(found.as_dict(), result))
    return result


def _summary(plan: Plan) -> str:
    race = (
        f"the race compares configs every {plan.race.look_every} items, with a margin of {plan.race.margin:g}"
        if plan.race.enabled
        else "no race"
    )
    return (
        f"{plan.run}: {len(plan.configs)} configs x {plan.population_size:,} items of {plan.data}, by {plan.metric}; "
        f"{race}; seed {plan.seed}"
    )


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not name=value", param_hint="--set")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
