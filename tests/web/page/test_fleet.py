"""The fleet: the worst first, the headline of each metric, positions on the metric's whole range."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from tests.support.alerts import alert
from tests.support.metric_events import START, adherence, event

from ragtide_aggregator.checkpoint.options import reader_options
from ragtide_aggregator.estimates.estimates import metric_means
from ragtide_aggregator.estimates.headline import (
    OVER_ALL,
    Circumstances,
    HeadlineNumber,
    MetricStanding,
    by_group,
    chosen_mean,
    firing_alerts,
    more_needed,
)
from ragtide_aggregator.estimates.view import IntervalMethod
from ragtide_aggregator.state.state import AggregatorState
from ragtide_aggregator.statistics.tables.names import AUTO
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, MetricEvent
from ragtide_web.reading import fleet as fleets
from ragtide_web.reading.fleet import positions, worst_first

NOW = START + timedelta(hours=1)
fleet = partial(fleets.fleet, confidence=0.95)


def of(events: list[MetricEvent], alerts: Sequence[Alert] = (), **around: Any) -> list[MetricStanding]:
    """Return how the metrics stand of events over all time."""
    state = AggregatorState(reader_options(Settings()))
    for one in events:
        state.apply(one)
    known = Circumstances(**{"now": NOW, "firing": firing_alerts(alerts), **around})
    found = []
    for means in by_group(metric_means(state, IntervalMethod(AUTO, 0.95))).values():
        choice = chosen_mean(means, {})
        assert choice is not None
        found.append(MetricStanding(means, choice, HeadlineNumber(means[choice.place], OVER_ALL), known))
    return found


def test_the_worst_pipeline_comes_first_and_few_values_are_too_few() -> None:
    shop = adherence([0.8, 0.6] * 400)
    bank = adherence([0.7, 0.5] * 400, pipeline="bank")
    tiny = adherence([0.5], pipeline="tiny")
    alerts = [alert("A-1", pipeline="shop")]
    drawn = fleet(of(shop + bank + tiny, alerts), alerts)
    assert [(row.pipeline, row.state, row.n) for row in drawn.rows] == [
        ("shop", "firing", 800),
        ("tiny", "too few", 1),
        ("bank", "unwatched", 800),
    ]
    assert drawn.metrics == ["trace.adherence"]
    (shown,) = drawn.rows[0].headlines
    assert (shown.n, shown.state) == (800, "firing")
    assert shown.estimate == pytest.approx(0.7)
    lower, mean, upper = positions(shown)
    assert lower < mean == 70.0 < upper


def test_a_pipeline_names_what_fires_even_without_a_column_of_it() -> None:
    alerts = [alert("A-1", metric="retrieval.match", segment="lang=de"), alert("A-2", metric="retrieval.match")]
    (row,) = fleet(of(adherence([0.8, 0.6] * 400), alerts), alerts).rows
    assert row.state == "firing"
    assert [headline.state for headline in row.headlines] == ["unwatched"]
    assert row.firing == ("retrieval.match, lang=de", "retrieval.match")


def test_a_metric_that_fires_has_a_column() -> None:
    names = ("adherence", "supported_fraction", "context_relevance", "context_utilization", "completeness")
    scores = {f"trace.{name}": 0.5 for name in names} | {"retrieval.match": 0.2}
    values = of([event(n, scores) for n in range(50)])
    assert "retrieval.match" not in fleet(values, []).metrics
    alerts = [alert("A-1", metric="retrieval.match"), alert("A-2", metric="trace.completeness", pipeline="elsewhere")]
    drawn = fleet(values, alerts)
    assert len(drawn.metrics) == 4
    assert "retrieval.match" in drawn.metrics
    assert "trace.completeness" not in drawn.metrics, "another pipeline fires, which is not shown"
    assert worst_first(drawn.rows[0])[0].metric == "retrieval.match"


def test_an_alert_that_is_resolved_fires_no_more() -> None:
    alerts = [alert("A-1", status="resolved", resolved_at=START)]
    assert fleet(of(adherence([0.8, 0.6] * 400), alerts), alerts).rows[0].state == "unwatched"


def test_filters_choose_metrics_states_and_names() -> None:
    scores = {"trace.adherence": 0.5, "trace.context_relevance": 0.4, "trace.context_utilization": 0.3}
    values = of([event(n, scores) for n in range(5)] + [event(n, scores, pipeline="bank") for n in range(5)])
    assert fleet(values, [], metrics=("trace.context_utilization", "unknown")).metrics == ["trace.context_utilization"]
    assert fleet(values, [], metrics=("unknown",)).metrics == fleet(values, []).metrics
    assert [row.pipeline for row in fleet(values, [], text="BAN").rows] == ["bank"]
    assert fleet(values, [], state="steady").rows == []
    assert len(fleet(values, [], state="too few").rows) == 2


def test_a_page_has_some_rows_of_the_whole_order() -> None:
    values = of([value for n in range(7) for value in adherence([0.5] * 3, pipeline=f"p{n}")])
    fires = [alert("A-1", pipeline="p5")]
    whole = [row.pipeline for row in fleet(values, fires).rows]
    assert whole[0] == "p5"
    pages = [fleet(values, fires, first=first, limit=3) for first in (0, 3, 6)]
    assert [row.pipeline for page in pages for row in page.rows] == whole
    assert {page.total for page in pages} == {7}
    beyond = fleet(values, fires, first=3000, limit=3)
    assert (beyond.first, [row.pipeline for row in beyond.rows]) == (6, whole[6:])
    assert fleet([], [], first=3, limit=3).rows == []


def test_a_patch_has_the_numbers_of_the_template() -> None:
    drawn = fleet(of(adherence([0.8, 0.6] * 400)), [])
    patches: dict[str, Any] = drawn.patches()
    assert patches["row:shop"] == ["unwatched", "800"]
    value, ends, low, mid, high, state = patches["shop\ntrace.adherence"]
    assert (value, mid, state) == ("0.700", 70.0, "unwatched")
    assert ends == f"{low / 100:.3f} – {high / 100:.3f}" or low < mid < high


def test_nothing_published_is_an_empty_fleet() -> None:
    drawn = fleet([], [])
    assert (drawn.rows, drawn.metrics, drawn.patches()) == ([], [], {})


def test_a_pipeline_without_a_value_for_a_day_is_silent_unless_an_alert_fires() -> None:
    later, fires = START + timedelta(days=2), [alert("A-1")]
    assert fleet(of(adherence([0.8, 0.6] * 400), now=later), []).rows[0].state == "silent"
    assert fleet(of(adherence([0.8, 0.6] * 400), fires, now=later), fires).rows[0].state == "firing"


@pytest.mark.simulation
def test_the_announced_number_of_values_narrows_the_interval() -> None:
    """After so many more values of the same spread, the interval is about as narrow as announced in 19 of 20 cases."""
    import numpy as np

    from ragtide_aggregator.estimates.headline import NARROW

    rng = np.random.default_rng(20261123)
    wide, runs = 0, 40
    for _ in range(runs):
        mean = rng.uniform(0.2, 0.8)
        values = rng.beta(4 * mean, 4 * (1 - mean), 4000)
        first = int(rng.integers(10, 60))
        (early,) = [one.interval for one in of(adherence(values[:first])) if one.key.metric == "trace.adherence"]
        assert early.lower is not None
        assert early.upper is not None
        more = more_needed(first, early.upper - early.lower)
        if more is None:
            continue
        after = of(adherence(values[: first + more]))
        (later,) = [one.interval for one in after if one.key.metric == "trace.adherence"]
        assert later.lower is not None
        assert later.upper is not None
        wide += later.upper - later.lower > 1.15 * NARROW
    assert wide <= runs // 20
