"""Experiments on the page: the list of replays and experiments, and the screen of an experiment. No clock, no I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import nlargest
from math import isnan
from typing import Any, Final

from ragtide_schemas import Workspace
from ragtide_schemas.experiments import DRIVER, RACE, Command, Completed, LogEntry, Look, Paused, Plan
from ragtide_schemas.metric_definitions import ANSWER_COST

from ...experiments.board import RACED_MAX, Board, BoardRow, board
from ...experiments.state import ExperimentState, FollowedCommand, RefusedCommand
from ...experiments.verdict import least_worse
from ...report.charts import CurveChart, curve_chart
from ...report.experiment_page import scale
from ...report.findings import as_in_pairs, curves_of, pairs_of
from ...report.pages import bar

LOG_TAIL: Final = 20
"""Newest entries of a log from which the list reads the state of an experiment."""
CALLS: Final = 200
"""Newest calls from which the pace of an experiment is known."""
COMMANDS_MAX: Final = 200
"""Newest commands on the screen."""
REFUSED_MAX: Final = 20
"""Newest commands without effect on the screen."""
STATES: Final = ("running", "paused", "complete", "not running")
"""States of an experiment: `not running` while no process executes it, and it is not complete."""
STILL_S: Final = 60.0
"""After this time without a call an experiment has no projected end."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A replay or an experiment in the list."""

    workspace: Workspace
    state: str
    """One of `STATES`; empty for a replay, whose state is in no log."""
    compared: int | None
    """Questions up to the newest comparison point; None if the end of the log has none."""


@dataclass(frozen=True, slots=True)
class LeaderRow:
    """A config on the leaderboard."""

    config: BoardRow
    at: Sequence[float]
    """Positions of lower end, estimate and upper end on the bar, from 0 to 100; empty without a score."""
    sure: float | None
    """Least amount by which a config that the race stopped is worse than the other, in the metric's unit; negative if
    it may be better by so much; None for other configs."""
    n_behind: int | None
    """Questions of the difference to the config that it is compared with, if the interval is closed; None otherwise."""


@dataclass(frozen=True, slots=True)
class ExperimentView:
    """The screen of an experiment."""

    workspace: Workspace
    plan: Plan
    seen: str
    """Id of the last entry of the log that the screen shows."""
    state: str
    """One of `STATES`."""
    board: Board
    rows: Sequence[LeaderRow]
    scale: tuple[float, float]
    """Ends of the bars, in the metric's unit."""
    curves: CurveChart | None
    commands: Sequence[FollowedCommand]
    """Commands that had an effect, the newest first."""
    refused: Sequence[RefusedCommand]
    """Commands without effect, the newest first."""
    ends_at: datetime | None
    """Projected end if no further config is stopped; None unless calls are made now."""
    grid: Mapping[str, Sequence[Any]]
    """Values of each parameter among all configs, in the order in which they were added."""
    protected: frozenset[str]
    """Configs that the race must not stop."""


def run_row(workspace: Workspace, newest: Iterable[LogEntry], *, driven: bool) -> RunRow:
    """Return a line of the list.

    Args:
        workspace: the replay or experiment.
        newest: entries at the end of an experiment's log, the newest first.
        driven: whether a process executes the experiment.
    """
    if workspace.kind == "replay":
        return RunRow(workspace, "", None)
    state, compared = "", None
    for entry in newest:
        match entry:
            case Completed() if not state:
                state = "complete"
            case Paused() if not state:
                state = "paused"
            case Command(op="resume" | "clone" | "limits") if not state:
                state = _executed(driven=driven)
            case Look(item=item):
                compared = item
                break
    return RunRow(workspace, state or _executed(driven=driven), compared)


def experiment_view(
    workspace: Workspace, state: ExperimentState, *, seen: str, driven: bool, now: datetime
) -> ExperimentView:
    """Return the screen of an experiment.

    Args:
        state: after the entry `seen` of its log.
        seen: id of the last entry of the log.
        driven: whether a process executes the experiment.
        now: time of the screen.
    """
    shown = board(state, metrics=dict.fromkeys([state.plan.metric, ANSWER_COST.name]))
    continued = any(command.command.op in ("resume", "clone") for command in state.commands)
    if state.race is None or continued or len(state.configs) > RACED_MAX:
        # The pairs that did not race have intervals that hold together, as in the report.
        shown = as_in_pairs(shown, pairs_of(state, shown))
    ends = scale([row.estimates[shown.metric] for row in shown.rows])
    return ExperimentView(
        workspace=workspace,
        plan=state.plan,
        seen=seen,
        state="complete" if state.completed else "paused" if state.paused is not None else _executed(driven=driven),
        board=shown,
        rows=[_leader_row(state, row, ends) for row in shown.rows],
        scale=ends,
        curves=curve_chart(shown, curves_of(state, shown)),
        commands=state.commands[: -COMMANDS_MAX - 1 : -1],
        refused=list(state.refused)[: -REFUSED_MAX - 1 : -1],
        ends_at=projected_end(state, now) if driven and state.paused is None and not state.completed else None,
        grid=grid_values(state),
        protected=frozenset(name for name, config in state.configs.items() if config.protected),
    )


def _leader_row(state: ExperimentState, row: BoardRow, ends: tuple[float, float]) -> LeaderRow:
    at = row.estimates[state.plan.metric]
    places = bar(at.lower, at.estimate, at.upper, ends) if at.n else []
    closed = row.behind is not None and row.behind.lower == row.behind.upper
    sure = None
    if row.stopped_by == RACE and row.behind is not None:
        sure = least_worse(row.behind, higher_is_better=state.plan.higher_is_better)
    n_behind = None
    if closed:
        first, second = (
            {item for item, result in state.counted(name) if not isnan(result.score(state.plan.metric))}
            for name in (row.name, row.against or "")
        )
        n_behind = len(first & second)
    return LeaderRow(row, places, sure, n_behind)


def _executed(*, driven: bool) -> str:
    return "running" if driven else "not running"


def projected_end(state: ExperimentState, now: datetime) -> datetime | None:
    """Return when all calls of the running configs are made at the pace of the newest calls; None without a pace."""
    times = nlargest(
        CALLS, (result.execution.at for result in state.results.executed() if result.execution is not None)
    )
    if len(times) < 2 or now - times[0] > timedelta(seconds=STILL_S):
        return None
    pace = (times[0] - times[-1]) / (len(times) - 1)
    made = {
        status.config.name: sum(
            result.execution is not None for result in state.results.by_config[status.config.name].values()
        )
        for status in state.running
    }
    left = sum(max(state.plan.population_size - count, 0) for count in made.values())
    try:
        return now + left * pace if left else None
    except OverflowError:  # in more than 8,000 years
        return None


def grid_values(state: ExperimentState) -> dict[str, list[Any]]:
    """Return the values of each parameter among all configs."""
    grid: dict[str, list[Any]] = {}
    for config in state.configs.values():
        for name, value in config.config.parameters.items():
            values = grid.setdefault(name, [])
            if not any(type(value) is type(known) and value == known for known in values):
                values.append(value)
    return grid


def shown_reason(command: Command, *, sees_texts: bool) -> str:
    """Return the reason of a command; the message of a failed call is for users who see texts."""
    if command.by == DRIVER and not sees_texts:
        return command.reason.partition(": ")[0]
    return command.reason
