"""The outcome of an experiment in a few words, from its leaderboard. No I/O."""

from dataclasses import dataclass
from typing import Literal

from ragtide_schemas.experiments import RACE

from .board import Board, BoardRow

VerdictKind = Literal["wins", "leads", "leads so far", "no score"]
"""Whether the leader wins (every other config is decided against it), leads at the end or so far, or has no score."""


@dataclass(frozen=True, slots=True)
class ExperimentVerdict:
    """The outcome of an experiment."""

    outcome: VerdictKind
    leader: int | None
    """Number of the leader; None without a score."""
    stopped: int
    """Stopped configs, by the race or by people."""
    calls_saved: float
    """Share of all calls of the shown configs that stops have made needless, 0 to 1."""
    saved_usd: float
    """About the cost of these calls in US dollars, at the mean cost of each config so far."""
    exactly: int | None
    """Number of questions if the win holds for these questions only; None if it holds for others like them, too."""


def verdict_of(board: Board) -> ExperimentVerdict:
    """Return the outcome of an experiment.

    The leader wins once the experiment is complete and each other config has lost: the race stopped it, or the
    interval of its difference to the leader leaves out 0. A stop by a person decides nothing.
    """
    leader, others = board.leader, board.rows[1:]
    stopped = sum(row.status == "stopped" for row in board.rows)
    calls_saved, saved_usd = _savings(board)
    if leader is None:
        return ExperimentVerdict("no score", None, stopped, calls_saved, saved_usd, None)
    lost = bool(others) and leader.status != "stopped" and all(_has_lost(row, board) for row in others)
    if not board.completed:
        outcome: VerdictKind = "leads so far"
    else:
        outcome = "wins" if lost else "leads"
    only_here = outcome == "wins" and any(_lost_here_only(row) for row in others)
    n = leader.estimates[board.metric].n
    return ExperimentVerdict(outcome, leader.number, stopped, calls_saved, saved_usd, n if only_here else None)


def verdict_text(verdict: ExperimentVerdict) -> str:
    """Return an outcome as a sentence.

    >>> verdict_text(ExperimentVerdict("wins", 1, 15, 0.38, 1.5, None))
    '#1 wins; 15 stopped; 38% of calls saved.'
    >>> verdict_text(ExperimentVerdict("wins", 1, 0, 0.0, 0.0, 146))
    'Of these 146 questions, exactly: #1 wins; none stopped.'
    """
    if verdict.leader is None:
        return "No score yet."
    parts = [f"#{verdict.leader} {verdict.outcome}"]
    parts.append(f"{verdict.stopped:,} stopped" if verdict.stopped else "none stopped")
    if verdict.calls_saved > 0:
        parts.append(f"{verdict.calls_saved:.0%} of calls saved" if verdict.calls_saved >= 0.01 else "few calls saved")
    begin = "" if verdict.exactly is None else f"Of these {verdict.exactly:,} questions, exactly: "
    return f"{begin}{'; '.join(parts)}."


def _has_lost(row: BoardRow, board: Board) -> bool:
    return row.stopped_by == RACE or surely_behind(row, board)


def surely_behind(row: BoardRow, board: Board) -> bool:
    """Return whether the difference of a config to the config that it is compared with leaves out 0."""
    if row.behind is None:
        return False
    return row.behind.lower > 0 if board.higher_is_better else row.behind.upper < 0


def _lost_here_only(row: BoardRow) -> bool:
    return row.stopped_by != RACE and row.behind is not None and row.behind.lower == row.behind.upper


def _savings(board: Board) -> tuple[float, float]:
    """Return the share of calls that stops have saved, and about their cost."""
    total = len(board.rows) * board.population_size
    # A race that ends with one config left also saves the rest of that config's calls.
    ended = [row for row in board.rows if row.status == "stopped" or board.completed]
    missing = [(row, max(board.population_size - row.n_executed, 0)) for row in ended]
    calls = sum(count for _, count in missing)
    return (calls / total if total else 0.0), sum(count * row.cost_per_item_usd for row, count in missing)
