"""The verdict of an experiment: a win needs a decision against every other config."""

from dataclasses import replace
from typing import Any

import pytest

from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_offline.experiments.board import Board, BoardRow
from ragtide_offline.experiments.projections import Projection
from ragtide_offline.experiments.verdict import verdict_of, verdict_text
from ragtide_schemas import Kind

pytestmark = pytest.mark.pure

METRIC = "trace.adherence"


def row(number: int, mean: float | None, **fields: Any) -> BoardRow:
    at = Projection(mean, 0.0, 1.0, 0 if mean is None else 100, Kind.ALGEBRAIC)
    known: dict[str, Any] = {
        "name": f"c{number}", "label": f"c{number}", "number": number, "parameters": {}, "parent": None,
        "status": "complete",
        "n_items": 100, "n_failed": 0, "n_unlabeled": 0, "n_executed": 100, "estimates": {METRIC: at},
        "cost_usd": 1.0, "tokens": 0, "latency_s": None, "latency_quantiles_s": {},
    }  # fmt: skip
    return BoardRow(**(known | fields))


def board(*rows: BoardRow, **fields: Any) -> Board:
    saved = sum(100 - row.n_executed for row in rows if row.status == "stopped")
    known: dict[str, Any] = {
        "calls_total": 100 * len(rows), "calls_saved": saved,
        "run": "may", "metric": METRIC, "higher_is_better": True, "compared": 100, "population_size": 100,
        "shard": 8, "shards": 8, "paused": None, "completed": True,
    }  # fmt: skip
    return Board(**(known | fields), rows=list(rows))


BY_RACE = {"status": "stopped", "stopped_by": "race", "n_executed": 20, "cost_usd": 0.4}
BEHIND = {"behind": Interval(0.3, 0.1, 0.5), "against": "c1"}
OPEN = {"behind": Interval(0.1, -0.1, 0.3), "against": "c1"}


def said(*rows: BoardRow, **fields: Any) -> str:
    return verdict_text(verdict_of(board(*rows, **fields)))


def test_a_win_and_the_calls_that_stops_saved() -> None:
    found = verdict_of(board(row(1, 0.9), row(0, 0.5, **BY_RACE, **OPEN)))
    assert verdict_text(found) == "c1 (#1) wins; 1 stopped; 40% of calls saved."


def test_a_rival_that_is_not_surely_behind_makes_no_win() -> None:
    assert said(row(1, 0.9), row(0, 0.8, **OPEN)) == "c1 (#1) leads; none stopped."
    assert said(row(1, 0.9), row(0, 0.8, **BEHIND)) == "c1 (#1) wins; none stopped."
    assert said(row(1, 0.9), row(0, None)) == "c1 (#1) leads; none stopped."
    assert said(row(1, 0.9)) == "c1 (#1) leads; none stopped."


def test_a_stop_by_a_person_decides_nothing() -> None:
    by_ann = BY_RACE | {"stopped_by": "ann"}
    assert said(row(1, 0.9), row(0, 0.5, **by_ann, **OPEN)).startswith("c1 (#1) leads; 1 stopped")
    assert said(row(1, 0.9), row(0, 0.5, **by_ann, **BEHIND)).startswith("c1 (#1) wins; 1 stopped")


def test_before_the_end_the_leader_leads_so_far() -> None:
    rows = row(1, 0.9, n_executed=50), row(0, 0.5, **BY_RACE, **OPEN)
    assert said(*rows, completed=False) == "c1 (#1) leads so far; 1 stopped; 40% of calls saved."
    assert said(row(1, None), completed=False) == "No score yet."


def test_a_closed_interval_wins_for_these_questions_only() -> None:
    closed = row(0, 0.5, behind=Interval(0.3, 0.3, 0.3), against="c1")
    assert said(row(1, 0.9), closed) == "Of these 100 questions, exactly: c1 (#1) wins; none stopped."
    lower = replace(closed, behind=Interval(-0.3, -0.3, -0.3))
    assert said(row(1, 0.1), lower, higher_is_better=False).endswith("exactly: c1 (#1) wins; none stopped.")
