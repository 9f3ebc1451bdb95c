"""Windows in event time: what counts in which, and what is late."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.metric_events import START, event

from ragtide import Estimate
from ragtide_aggregator.estimates.choices import chosen
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_schemas import MetricEvent

METRIC = "trace.adherence"
MINUTE, HOUR = 60, 3600
OPTIONS = StateOptions(panes=Panes((window("1h"), window("3h/1h")), 30 * MINUTE * 1000))


def at(second: int, value: float = 1.0, *, scored: int | None = None, **changes: Any) -> MetricEvent:
    when = START + timedelta(seconds=max(second if scored is None else scored, second))
    return event(second, {METRIC: value}, labeled_at=when, **changes)


def state_of(events: Sequence[MetricEvent]) -> AggregatorState:
    state = AggregatorState(OPTIONS)
    for metric_event in events:
        state.apply(metric_event)
    return state


def found(state: AggregatorState, name: str, metric: str = METRIC, **how: Any) -> Estimate:
    (one,) = [e for e in chosen(estimates(state, **how), window=name) if e.metric == metric]
    return one


def test_a_tumbling_window_holds_its_hour_and_a_sliding_one_the_last_three() -> None:
    events = [at(hour * HOUR + place, value) for hour, value in enumerate((1.0, 0.0, 0.5, 0.25)) for place in range(10)]
    state = state_of(events)
    hour, three = found(state, "1h"), found(state, "3h/1h")
    assert (hour.n, hour.estimate) == (10, 0.25)
    assert (hour.window_start, hour.window_end) == (START + timedelta(hours=3), START + timedelta(hours=4))
    assert (three.n, three.estimate) == (30, 0.25)
    assert (three.window_start, three.window_end) == (START + timedelta(hours=1), START + timedelta(hours=4))
    assert found(state, "all").n == 40
    assert hour.lower < hour.estimate < hour.upper  # type: ignore[operator]
    assert found(state, "all").window_start is None


def test_a_window_is_compared_with_the_one_before() -> None:
    rng = np.random.default_rng(1)

    def hours(*means: float) -> AggregatorState:
        return state_of(
            [at(h * HOUR + 3 * i, float(rng.random() < mean)) for h, mean in enumerate(means) for i in range(600)]
        )

    falling, steady, first = found(hours(0.9, 0.5), "1h"), found(hours(0.9, 0.9), "1h"), found(hours(0.9), "1h")
    assert falling.trend == "falling"
    assert falling.previous == pytest.approx(0.9, abs=0.05)
    assert steady.trend == "steady"
    assert (first.trend, first.previous) == (None, None)
    assert found(hours(0.5, 0.9), "1h").trend == "rising"
    assert found(hours(0.86, 0.89), "1h").trend == "steady"
    assert found(hours(0.9, 0.5), "all").trend is None


def test_an_error_has_windows_and_a_trend_too() -> None:
    errors = [(h, 0.05 if h == 0 else 0.4) for h in range(2) for _ in range(300)]
    events = [
        at(h * HOUR + place % 300, 0.5 + error, gold_scores={METRIC: 0.5}) for place, (h, error) in enumerate(errors)
    ]
    state = state_of(events)
    one = found(state, "1h", f"rmse.{METRIC}")
    assert one.estimate == pytest.approx(0.4)
    assert one.previous == pytest.approx(0.05)
    assert one.trend == "rising"
    whole, consistency = found(state, "1h", "rmse.trace"), found(state, "1h", "consistency_score.trace")
    assert (whole.trend, consistency.trend) == ("rising", "falling")
    assert consistency.previous == pytest.approx(0.95)
    assert found(state, "3h/1h", f"rmse.{METRIC}").n == 600


def test_what_comes_out_of_order_counts_and_what_comes_late_counts_in_all_time_only() -> None:
    events = [
        at(30 * MINUTE, 1.0),
        at(HOUR + 20 * MINUTE, 1.0),
        # Older than the newest, within the lateness of the first hour.
        at(50 * MINUTE, 0.0, scored=HOUR + 20 * MINUTE),
        at(HOUR + 40 * MINUTE, 1.0),
        # The first hour was closed 30 minutes after its end.
        at(55 * MINUTE, 0.0, scored=HOUR + 40 * MINUTE),
    ]
    state = state_of(events)
    hour, whole, three = found(state, "1h"), found(state, "all"), found(state, "3h/1h")
    assert (whole.n, whole.n_late, whole.n_out_of_order) == (5, 1, 2)
    assert hour.n == 2
    assert hour.previous == 0.5
    assert three.n == 4
    # Scored during the second hour: two of the first hour as well.
    assert hour.n_processed == 4


def test_a_clock_that_runs_ahead_closes_no_window() -> None:
    ahead = event(10 * 24 * HOUR, {METRIC: 0.5}, labeled_at=START + timedelta(seconds=30))
    state = state_of([at(10), ahead, at(60)])
    assert found(state, "1h").n == 3
    assert found(state, "all").n_late == 0


def test_absent_metrics_are_counted_by_window() -> None:
    missing = {METRIC: "incomplete_labels"}
    events = [at(10), event(20, {}, absent=missing), event(HOUR + 5, {}, absent=missing), at(HOUR + 10)]
    hour = found(state_of(events), "1h")
    assert (hour.n, hour.n_absent, hour.coverage) == (1, 1, 0.5)


def test_there_is_room_for_many_keys_and_panes() -> None:
    missing = {METRIC: "incomplete_labels"}
    events = [
        one
        for number in range(150)
        for one in (
            event(number, {METRIC: 0.5}, pipeline=f"p-{number}"),
            event(number, {}, absent=missing, pipeline=f"q-{number}"),
        )
    ]
    hourly = chosen(estimates(state_of(events)), window="1h")
    assert sorted((e.n, e.n_absent) for e in hourly) == [(0, 1)] * 150 + [(1, 0)] * 150


def test_pipelines_and_runs_have_their_own_clocks() -> None:
    events = [at(100 * HOUR), at(10, run="replayed"), at(20, run="replayed"), at(30, pipeline="quiet")]
    state = state_of(events)
    counted = {(e.pipeline, e.run): e.n for e in chosen(estimates(state), window="1h")}
    assert counted == {("shop", None): 1, ("shop", "replayed"): 2, ("quiet", None): 1}


KEPT = st.sampled_from([1.0, 1.0, 0.5, 0.1])
TIMES = st.lists(st.tuples(st.integers(0, 9 * HOUR), st.floats(0, 1), KEPT), min_size=1, max_size=40)


@settings(max_examples=40)
@given(TIMES)
def test_a_window_is_what_it_would_be_from_its_own_events_alone(times: list[tuple[int, float, float]]) -> None:
    events = [at(second, value, scored=9 * HOUR, sampling_probability=kept) for second, value, kept in times]
    state = state_of(events)
    newest = -1
    mine: dict[int, list[tuple[float, float]]] = {}
    for second, value, kept in times:
        late = (second // HOUR + 1) * HOUR + 30 * MINUTE <= newest
        newest = max(newest, second)
        if not late:
            mine.setdefault(second // HOUR, []).append((value, 1 / kept))
    hour = newest // HOUR
    expected = [pair for number in (hour - 2, hour - 1, hour) for pair in mine.get(number, [])]
    values, weights = zip(*expected, strict=True)
    one = found(state, "3h/1h")
    assert one.n == len(expected)
    assert one.estimate == pytest.approx(np.average(values, weights=weights), abs=1e-12)


def test_panes_that_no_window_needs_any_more_are_removed() -> None:
    state = AggregatorState(OPTIONS)
    stored: dict[str, bytes] = {}
    for hour in range(40):
        for place in range(3):
            state.apply(at(hour * HOUR + place))
        changes = state.take_changes()
        stored |= changes.rows
        for name in changes.gone:
            del stored[name]
    panes = [name for name in stored if name.startswith("pane:") and METRIC in name]
    # Twice three hours, and the lateness.
    assert len(panes) == 8
    assert found(AggregatorState.from_fields(OPTIONS, stored), "3h/1h").n == 9


def test_other_windows_than_before_begin_anew_and_the_old_panes_go() -> None:
    stored = dict(state_of([at(10), at(HOUR + 10)]).take_changes().rows)
    other = StateOptions(panes=Panes((window("15m"),), 0))
    state = AggregatorState.from_fields(other, stored)
    assert found(state, "15m").n == 0
    assert found(state, "all").n == 2
    gone = state.take_changes().gone
    assert sorted(gone) == sorted(name for name in stored if name.startswith(("pane:", "processed:")))
