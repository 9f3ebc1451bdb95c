"""The history of a state: which panes close when, and with what."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.metric_events import START, event

from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.state.history import pane_of, series_name
from ragtide_aggregator.state.options import HistoryOptions
from ragtide_aggregator.state.pane_rows import PaneRows
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.model import load_settings
from ragtide_schemas import MetricEvent, to_milliseconds

METRIC = "trace.adherence"
MINUTE, HOUR, DAY = 60, 3600, 86_400
FINE_MS, COARSE_MS = 5 * 60_000, 60 * 60_000
HISTORY = HistoryOptions(FINE_MS, COARSE_MS, 1_000, 1_000, 86_400_000, 100, frozenset({"version"}))
OPTIONS = StateOptions(panes=Panes((window("5m"), window("1h")), 10 * MINUTE * 1000), history=HISTORY)
FIRST = to_milliseconds(START) // FINE_MS

Lists = dict[str, list[bytes]]


def at(second: int, value: float = 1.0, **changes: Any) -> MetricEvent:
    return event(second, {METRIC: value}, labeled_at=START.replace(year=START.year + 1), **changes)


class Committed:
    """What commits have written: fields of the checkpoint, and lists of closed panes."""

    def __init__(self, options: StateOptions = OPTIONS) -> None:
        self.options = options
        self.state = AggregatorState(options)
        self.fields: dict[str, bytes] = {}
        self.lists: Lists = {}

    def commit(self) -> None:
        changes = self.state.take_changes()
        for name in changes.gone:
            self.fields.pop(name, None)
        self.fields |= changes.rows
        for one in changes.closed:
            kept = self.lists.setdefault(one.series, [])
            kept += one.records
            del kept[: -one.kept]

    def restart(self, options: StateOptions | None = None) -> None:
        self.state = AggregatorState.from_fields(options or self.options, self.fields)

    def opened(self) -> dict[str, bytes]:
        return {name: data for name, data in self.fields.items() if name.startswith(("history:", "series:"))}


def after(events: Sequence[MetricEvent], options: StateOptions = OPTIONS) -> Committed:
    found = Committed(options)
    for metric_event in events:
        found.state.apply(metric_event)
    found.commit()
    return found


def key_of(one: MetricEvent, segment: str | None = None, metric: str = METRIC) -> str:
    return EstimateKey(
        one.pipeline, one.run, segment, metric, one.profile, one.labeler, one.labeler_version, None
    ).encode()


def counts(found: Committed, key: str, length_ms: int) -> dict[int, int]:
    """Return the number of values of each closed pane, by the number of panes since the start."""
    rows = PaneRows()
    for record in found.lists.get(series_name(key, length_ms), []):
        rows.load(0, *pane_of(record))
    first = to_milliseconds(START) // length_ms
    return {pane - first: int(rows.pooled([[(0, pane)]]).moments.n[0]) for pane in rows.numbers(0)}


def test_a_pane_closes_when_the_newest_interaction_is_the_lateness_beyond_its_end() -> None:
    one = at(0)
    assert counts(after([one, at(15 * MINUTE - 1)]), key_of(one), FINE_MS) == {}
    found = after([one, at(10), at(15 * MINUTE)])
    assert counts(found, key_of(one), FINE_MS) == {0: 2}
    assert counts(found, key_of(one), COARSE_MS) == {}
    found = after([one, at(6 * MINUTE), at(HOUR), at(HOUR + 10 * MINUTE)])
    assert counts(found, key_of(one), FINE_MS) == {0: 1, 1: 1}
    assert counts(found, key_of(one), COARSE_MS) == {0: 2}


def test_a_value_that_is_too_late_is_in_no_pane() -> None:
    found = after([at(0), at(16 * MINUTE), at(30, 0.0), at(9 * MINUTE, 0.0), at(2 * HOUR)])
    assert counts(found, key_of(at(0)), FINE_MS) == {0: 1, 1: 1, 3: 1}
    assert counts(found, key_of(at(0)), COARSE_MS) == {0: 3}


def test_a_metric_without_new_values_closes_with_its_pipeline() -> None:
    other = event(20 * MINUTE, {"trace.context_relevance": 0.5}, labeled_at=at(0).labeled_at)
    assert counts(after([at(0), other]), key_of(at(0)), FINE_MS) == {0: 1}


def test_pipelines_have_their_own_clocks() -> None:
    found = after([at(0), at(2 * HOUR, pipeline="fast")])
    assert counts(found, key_of(at(0)), FINE_MS) == {}


def test_chosen_segments_have_series_and_others_and_runs_have_none() -> None:
    segments = {"version": "2", "plan": "free"}
    events = [at(0, segments=segments), at(1, run="r"), at(HOUR, segments=segments), at(HOUR + 1, run="r")]
    found = after(events)
    lists = {name.partition(":")[0] for name in found.lists}
    whole, version = (key_of(at(0), segment) for segment in (None, "version=2"))
    assert counts(found, version, FINE_MS) == {0: 1}
    expected = [series_name(key, FINE_MS).partition(":")[0] for key in (whole, version)]
    assert lists >= set(expected)
    hidden = [key_of(at(0), "plan=free"), key_of(at(1, run="r"))]
    assert not lists & {series_name(key, FINE_MS).partition(":")[0] for key in hidden}


def test_beyond_the_most_series_new_keys_have_none_and_are_counted() -> None:
    options = replace(OPTIONS, history=replace(HISTORY, series_max=2))
    events = [at(second, pipeline=f"p-{second % 4}") for second in range(8)]
    found = after(events, options)
    assert found.state.history is not None
    assert (found.state.history.count, len([field for field in found.fields if field.startswith("series:")])) == (2, 2)
    assert found.state.history.refused > 0
    found.restart(replace(OPTIONS, history=HISTORY))
    assert found.state.history is not None
    assert found.state.history.count == 2, "further keys have series from their next value on"
    for one in events:
        found.state.apply(one)
    assert (found.state.history.count, found.state.history.refused) == (len(found.state.keys), 0)


def test_series_and_panes_that_the_settings_choose_no_more_are_removed() -> None:
    found = after([at(0, segments={"version": "2"}), at(HOUR, segments={"version": "2"})])
    before = found.opened()
    found.restart(replace(OPTIONS, history=replace(HISTORY, segments=frozenset())))
    found.commit()
    gone = before.keys() - found.opened().keys()
    assert gone
    assert all("version=2" in name for name in gone)
    found.restart(replace(OPTIONS, history=None))
    found.commit()
    assert found.opened() == {}


def test_panes_of_another_length_are_dropped_and_the_series_goes_on() -> None:
    found = after([at(0), at(MINUTE)])
    found.restart(replace(OPTIONS, history=replace(HISTORY, fine_ms=60_000)))
    found.state.apply(at(HOUR))
    found.commit()
    assert not any(f"history:{FINE_MS}:" in name for name in found.fields)
    assert any("history:60000:" in name for name in found.fields)
    assert found.state.history is not None
    assert found.state.history.has(found.state.index(EstimateKey.decode(key_of(at(0)))) or 0)


@pytest.mark.heavy
def test_panes_are_loaded_together_as_one_by_one() -> None:
    events = [at(7 * number, number % 10 / 9, session_id="s" if number % 90 < 40 else None) for number in range(900)]
    events = [
        one.model_copy(update={"sampling_probability": 0.5} if i % 300 < 50 else {}) for i, one in enumerate(events)
    ]
    found = after(events, replace(OPTIONS, clusters=ClusterSettings(by="session_id", size=3, quiet_s=60, open_cap=10)))
    records = [pane_of(record) for record in found.lists[series_name(key_of(at(0)), FINE_MS)]]
    records.append((0, after([at(0), at(DAY)]).lists[series_name(key_of(at(0)), FINE_MS)][0][8:]))
    assert len({len(data) for _, data in records}) > 1
    together, single = PaneRows(), PaneRows()
    together.load_panes([(1, pane, data) for pane, data in records])
    for pane, data in records:
        single.load(1, pane, data)
    for pane, data in records:
        assert together.bytes_of([(1, pane)]) == single.bytes_of([(1, pane)]) == [data]
    with pytest.raises(ValueError, match="version"):
        together.load_panes([(2, 0, bytes(len(records[-1][1])))])


def test_a_long_series_in_one_commit_keeps_its_newest_panes() -> None:
    options = replace(OPTIONS, history=replace(HISTORY, fine_kept=3, coarse_kept=2))
    found = after([at(20 * MINUTE * number) for number in range(30)], options)
    assert [*counts(found, key_of(at(0)), FINE_MS)] == [4 * 26, 4 * 27, 4 * 28]
    assert len(counts(found, key_of(at(0)), COARSE_MS)) == 2


@given(st.lists(st.tuples(st.integers(0, HOUR - 1), st.floats(0, 1)), min_size=1, max_size=60))
@settings(max_examples=25)
def test_twelve_fine_panes_are_their_coarse_pane(values: list[tuple[int, float]]) -> None:
    found = after([*(at(second, value) for second, value in sorted(values)), at(3 * HOUR)])
    fine, coarse = PaneRows(), PaneRows()
    for rows, length_ms in ((fine, FINE_MS), (coarse, COARSE_MS)):
        for record in found.lists[series_name(key_of(at(0)), length_ms)]:
            rows.load(0, *pane_of(record))
    pooled = fine.pooled([[(0, pane) for pane in sorted(fine.numbers(0))]]).moments
    (number,) = coarse.numbers(0)
    whole = coarse.pooled([[(0, number)]]).moments
    assert pooled.n == whole.n == [len(values)]
    for name in ("mean", "m2", "v", "minimum", "maximum"):
        np.testing.assert_allclose(getattr(pooled, name), getattr(whole, name), rtol=1e-12, atol=1e-12)


def test_a_segment_that_a_rule_watches_has_the_series_of_its_metric() -> None:
    watched = HistoryOptions(FINE_MS, COARSE_MS, 9, 9, 86_400_000, 100, watched=frozenset({("lang", METRIC)}))
    one = at(0, segments={"lang": "de", "tier": "free"})
    other = one.model_copy(update={"scores": {METRIC: 1.0, "trace.completeness": 1.0}})
    series = {name for name in after([other], StateOptions(history=watched)).fields if name.startswith("series:")}
    assert {name for name in series if "latency_s" not in name} == {
        f"series:{key_of(other)}",
        f"series:{key_of(other, metric='trace.completeness')}",
        f"series:{key_of(other, 'lang=de')}",
    }


def test_the_rules_of_the_settings_name_the_segments_that_they_watch() -> None:
    rule = {"name": "r", "kind": "threshold", "metric": METRIC, "target": 0.7, "segment": "lang"}
    settings = load_settings(alerts=[rule, {**rule, "name": "whole", "segment": None}])
    history = state_options(settings).history
    assert history is not None
    assert history.watched == {("lang", METRIC)}
