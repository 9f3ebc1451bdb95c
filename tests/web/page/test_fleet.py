"""The fleet: the worst first, one labeler in a cell, positions on the metric's whole range."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.alerts import alert
from tests.support.metric_events import START, adherence, event

from ragtide_aggregator.checkpoint.options import reader_options
from ragtide_aggregator.estimates.estimates import metric_means
from ragtide_aggregator.estimates.means import MetricMean
from ragtide_aggregator.estimates.view import IntervalMethod
from ragtide_aggregator.reading.suspicions import Suspicion
from ragtide_aggregator.state.state import AggregatorState
from ragtide_aggregator.statistics.means.strategies import AUTO
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent
from ragtide_web.page.fleet.screen import NARROW, fleet


def of(events: list[MetricEvent]) -> list[MetricMean]:
    """Return the means of events."""
    state = AggregatorState(reader_options(Settings()))
    for one in events:
        state.apply(one)
    return metric_means(state, IntervalMethod(AUTO, 0.95))


def test_the_worst_pipeline_comes_first_and_few_values_are_too_few() -> None:
    shop = adherence([0.8, 0.6] * 400)
    bank = adherence([0.7, 0.5] * 400, pipeline="bank")
    tiny = adherence([0.5], pipeline="tiny")
    drawn = fleet(of(shop + bank + tiny), [alert("A-1", pipeline="shop")])
    assert [(row.pipeline, row.state, row.n) for row in drawn.rows] == [
        ("shop", "firing", 800),
        ("bank", "steady", 800),
        ("tiny", "too few", 1),
    ]
    assert drawn.metrics == ["trace.adherence"]
    cell = drawn.rows[0].cells["trace.adherence"]
    assert (round(cell.estimate, 3), cell.n, cell.state) == (0.7, 800, "firing")
    assert cell.at[0] < cell.at[1] == 70.0 < cell.at[2]
    assert cell.lower < 0.7 < cell.upper


def test_an_alert_that_is_resolved_fires_no_more() -> None:
    values = of(adherence([0.8, 0.6] * 400))
    assert fleet(values, [alert("A-1", status="resolved", resolved_at=START)]).rows[0].state == "steady"


def test_labelers_are_never_mixed() -> None:
    old = adherence([0.2] * 50, labeler="local")
    new = adherence([0.9, 0.8] * 400, first=1000, labeler="judge")
    (row,) = fleet(of(old + new), []).rows
    assert (row.cells["trace.adherence"].labeler, row.cells["trace.adherence"].n) == ("judge", 800)


def test_filters_choose_metrics_states_and_names() -> None:
    scores = {"trace.adherence": 0.5, "trace.context_relevance": 0.4, "trace.context_utilization": 0.3}
    values = of([event(n, scores) for n in range(5)] + [event(n, scores, pipeline="bank") for n in range(5)])
    assert fleet(values, [], metrics=("trace.context_utilization", "unknown")).metrics == ["trace.context_utilization"]
    assert fleet(values, [], metrics=("unknown",)).metrics == fleet(values, []).metrics
    assert [row.pipeline for row in fleet(values, [], text="BAN").rows] == ["bank"]
    assert fleet(values, [], state="steady").rows == []
    assert len(fleet(values, [], state="too few").rows) == 2


def test_a_target_is_a_position_on_the_range() -> None:
    values = of(adherence([0.8, 0.6] * 400))
    drawn = fleet(values, [], targets={("*", "trace.adherence"): 0.75, ("bank", "trace.adherence"): 0.2})
    assert drawn.rows[0].cells["trace.adherence"].target == 75.0


def test_a_patch_has_the_numbers_of_the_template() -> None:
    drawn = fleet(of(adherence([0.8, 0.6] * 400)), [])
    patches: dict[str, Any] = drawn.patches()
    assert patches["row:shop"] == ["steady", "800"]
    value, ends, low, mid, high, state = patches["shop\ntrace.adherence"]
    assert (value, mid, state) == ("0.700", 70.0, "steady")
    assert ends == f"{low / 100:.3f} – {high / 100:.3f}" or low < mid < high


def test_nothing_published_is_an_empty_fleet() -> None:
    drawn = fleet([], [])
    assert (drawn.rows, drawn.metrics, drawn.patches()) == ([], [], {})


def test_a_pipeline_without_a_value_for_a_day_is_silent_unless_an_alert_fires() -> None:
    values = of(adherence([0.8, 0.6] * 400))
    later = START + timedelta(days=2)
    assert fleet(values, [], now=later).rows[0].state == "silent"
    assert fleet(values, [], now=START + timedelta(hours=1)).rows[0].state == "steady"
    assert fleet(values, [alert("A-1")], now=later).rows[0].state == "firing"


@pytest.mark.simulation
def test_the_announced_number_of_values_narrows_the_interval() -> None:
    """After so many more values of the same spread, the interval is about as narrow as announced in 19 of 20 cases."""
    rng = np.random.default_rng(20261123)
    wide, runs = 0, 40
    for _ in range(runs):
        mean = rng.uniform(0.2, 0.8)
        values = rng.beta(4 * mean, 4 * (1 - mean), 4000)
        first = int(rng.integers(10, 60))
        (row,) = fleet(of(adherence(values[:first])), []).rows
        more = row.cells["trace.adherence"].more
        if more is None:
            continue
        (later,) = fleet(of(adherence(values[: first + more])), []).rows
        cell = later.cells["trace.adherence"]
        wide += cell.upper - cell.lower > 1.15 * NARROW
    assert wide <= runs // 20


def test_a_metric_is_suspicious_when_the_evidence_of_a_rule_is_near_its_line() -> None:
    values = of(adherence([0.8, 0.6] * 400))
    near = Suspicion("shop", "trace.adherence", "test", "floor", "fall", 1_500, 10_000, START)
    far = replace(near, once_in=500)
    drawn = fleet(values, [], suspicions=[near])
    assert (drawn.rows[0].state, drawn.rows[0].cells["trace.adherence"].suspicion) == ("suspicious", near)
    assert fleet(values, [], suspicions=[far]).rows[0].state == "steady"
    assert fleet(values, [alert("A-1")], suspicions=[near]).rows[0].cells["trace.adherence"].state == "firing"
    assert [row.pipeline for row in fleet(values, [], suspicions=[near], state="suspicious").rows] == ["shop"]
