"""Runs, follows and prints an experiment."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import typer
from redis import RedisError
from redis.asyncio import Redis
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ragtide_offline.experiments.board import Board, board
from ragtide_offline.experiments.control import ExperimentControl
from ragtide_offline.experiments.drafts import read_draft
from ragtide_offline.experiments.experiment import Experiment
from ragtide_offline.experiments.reader import ExperimentReader, streams_of
from ragtide_offline.experiments.state import ExperimentState
from ragtide_offline.gates.deciding import GateResult
from ragtide_roles.running import on_signal
from ragtide_runtime.redis.url import resolve_redis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import Workspace
from ragtide_schemas.experiments import Plan

from .asked_criteria import criteria_of_metrics
from .console import err, out, print_json, warn
from .experiment_tables import board_view, shown_metrics
from .gates import ExperimentGate, exit_for, with_gate
from .options import Given
from .progress import BarView, cost_note, interrupted

REDRAW_S = 1.0
"""Seconds between two drawings of the leaderboard."""


NOT_COMPLETE = 3
"""Exit code of an experiment that was interrupted or paused: docs/offline/gates.md, "Exit codes"."""


GO_ON = "run ragtide experiment run FILE again, or the program that began it"
"""The advice to start a driver again."""


def how_to_continue(info: Workspace) -> str:
    """Return the way to continue an experiment, in words."""
    # The path in Redis is shown and never opened, because any process with access to Redis may have written it.
    stored = info.options.get("file")
    if not isinstance(stored, str):
        return f"a Python program began {info.run}: run that program again to continue the experiment"
    return (
        f"give the file that describes {info.run}: ragtide experiment resume {info.run} --file FILE (it began with "
        f"{stored!r}; read that file before you run it)"
    )


def control_of(name: str, options: Given) -> ExperimentControl:
    """Return the control of an experiment of the deployment."""
    return ExperimentControl(name, settings=options.settings())


def confirm(done: str, *, driven: bool) -> None:
    """Print what was done, and whether a driver reads it."""
    err.print(done, markup=False, highlight=False)
    if not driven:
        warn(f"No driver runs, so this takes effect when the experiment continues: {GO_ON}")


def run_experiment(
    settings: Settings,
    file: Path,
    gate: ExperimentGate | None,
    *,
    roles: bool,
    as_json: bool,
    name: str | None = None,
) -> None:
    """Run an experiment until it is complete or interrupted, and end with the exit code."""
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    asked = criteria_of_metrics(settings, [read_draft(file).metric])
    warn(*filter(None, [asked.unread]))
    made = Experiment.from_file(file, settings, name=name, criteria=asked.settings.judge.criteria)
    err.print(_plan_in_words(made.plan), markup=False, highlight=False, soft_wrap=True)

    made.check(roles=roles)
    signalled = False

    async def body(url: str) -> None:
        stopping = asyncio.Event()

        async def table(redis: Redis) -> None:
            await follow_board(ExperimentReader(redis, streams_of(settings, made.plan.run)))

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
        result = print_board(found, state, gate, as_json=as_json)
        if signalled and not found.completed:
            interrupted(
                f"{found.executed:,} answers and their scores are kept: to go on, give ragtide experiment run {file}."
            )
        if not found.completed:
            err.print(f"Not complete. Continue with: ragtide experiment run {file}", markup=False, highlight=False)
        exit_for(result, otherwise=0 if found.completed else NOT_COMPLETE)


async def follow_board(reader: ExperimentReader, driven: Callable[[], Awaitable[bool]] | None = None) -> None:
    """Redraw the leaderboard until the experiment is complete."""
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


def print_board(
    found: Board, state: ExperimentState, gate: ExperimentGate | None, *, as_json: bool, driven: bool = True
) -> GateResult | None:
    """Print the leaderboard and the gate, and return the result of the gate."""
    if not as_json:
        out.print(board_view(found, out.width, shown_metrics(found), driven=driven))
    result = None if gate is None else gate.decide(state, as_json=as_json)
    if as_json:
        print_json(with_gate(found.as_dict(), result))
    return result


def _plan_in_words(plan: Plan) -> str:
    race = (
        f"the race compares configs every {plan.race.look_every} items, with a margin of {plan.race.margin:g}"
        if plan.race.enabled
        else "no race"
    )
    return (
        f"{plan.run}: {len(plan.configs)} configs x {plan.population_size:,} items of {plan.data}, by {plan.metric}; "
        f"{race}; seed {plan.seed}"
    )


def changed_parameter(text: str) -> tuple[str, Any]:
    """Return name and value of a parameter, written as name=value."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not name=value", param_hint="--set")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
