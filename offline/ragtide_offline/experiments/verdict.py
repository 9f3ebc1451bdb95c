"""The outcome of an experiment in a few words, from its leaderboard. No I/O."""

from dataclasses import dataclass
from typing import Literal

from ragtide_aggregator.statistics.intervals.intervals import Interval
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
    label: str
    """Label of the leader; empty without a score."""
    stopped: int
    """Stopped configs, by the race or by people."""
    calls_saved: float
    """Share of the calls of every config on every item that are not needed, 0 to 1."""
    exactly: int | None
    """Number of questions if the win holds for these questions only; None if it holds for others like them, too."""


def verdict_of(board: Board) -> ExperimentVerdict:
    """Return the outcome of an experiment.

    The leader wins once the experiment is complete and each other config has lost: the race stopped it, or the
    interval of its difference to the leader leaves out 0. A stop by a person decides nothing.
    """
    leader, others = board.leader, board.rows[1:]
    stopped = sum(row.status == "stopped" for row in board.rows)
    calls_saved = board.calls_saved / board.calls_total if board.calls_total else 0.0
    if leader is None:
        return ExperimentVerdict("no score", None, "", stopped, calls_saved, None)
    others_lost = all(row.stopped_by == RACE or surely_behind(row, board) for row in others)
    lost = bool(others) and leader.status != "stopped" and others_lost
    if not board.completed:
        outcome: VerdictKind = "leads so far"
    else:
        outcome = "wins" if lost else "leads"
    only_here = outcome == "wins" and any(
        row.stopped_by != RACE and row.behind is not None and row.behind.lower == row.behind.upper for row in others
    )
    n = leader.estimates[board.metric].n
    return ExperimentVerdict(outcome, leader.number, leader.label, stopped, calls_saved, n if only_here else None)


def verdict_text(verdict: ExperimentVerdict) -> str:
    """Return an outcome as a sentence.

    >>> verdict_text(ExperimentVerdict("wins", 1, "top_k=4", 15, 0.38, None))
    'top_k=4 (#1) wins; 15 stopped; 38% of calls saved.'
    >>> verdict_text(ExperimentVerdict("wins", 1, "top_k=4", 0, 0.0, 146))
    'Of these 146 questions, exactly: top_k=4 (#1) wins; none stopped.'
    """
    if verdict.leader is None:
        return "No score yet."
    parts = [f"{verdict.label} (#{verdict.leader}) {verdict.outcome}"]
    parts.append(f"{verdict.stopped:,} stopped" if verdict.stopped else "none stopped")
    if verdict.calls_saved > 0:
        parts.append(f"{verdict.calls_saved:.0%} of calls saved" if verdict.calls_saved >= 0.01 else "few calls saved")
    begin = "" if verdict.exactly is None else f"Of these {verdict.exactly:,} questions, exactly: "
    return f"{begin}{'; '.join(parts)}."


def surely_behind(row: BoardRow, board: Board) -> bool:
    """Return whether the difference of a config to the config that it is compared with leaves out 0."""
    if row.behind is None:
        return False
    return row.behind.lower > 0 if board.higher_is_better else row.behind.upper < 0


def least_worse(difference: Interval[float, float], *, higher_is_better: bool) -> float:
    """Return the least amount by which a config is surely worse than another; negative if it may be better.

    Args:
        difference: mean of the other config minus mean of the config.
        higher_is_better: direction of the metric.
    """
    return difference.lower if higher_is_better else -difference.upper


def stop_text(difference: Interval[float, float], other: str, *, higher_is_better: bool) -> str:
    """Return what the race was sure of when it stopped a config, which is the better end of the shown interval.

    Args:
        difference: mean of the other config minus mean of the stopped config.
        other: the config because of which it was stopped, in words.
        higher_is_better: direction of the metric.

    >>> stop_text(Interval(0.03, -0.02, 0.068), "top_k=4", higher_is_better=True)
    'surely at most 0.020 better than top_k=4'
    >>> stop_text(Interval(-0.2, -0.3, -0.1), "top_k=4", higher_is_better=False)
    'surely at least 0.100 worse than top_k=4'
    """
    least = least_worse(difference, higher_is_better=higher_is_better)
    return f"surely {f'at least {least:.3f} worse' if least > 0 else f'at most {abs(least):.3f} better'} than {other}"
