"""A table of a recording's columns is the events that were written to it."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from tests.aggregator.test_columns import OPTIONS, drawn, one_by_one, outcome

from ragtide_aggregator.state.state import AggregatorState
from ragtide_offline.replay.tables import columns_of
from ragtide_runtime.recordings import EntryKind, RecordedEntry
from ragtide_runtime.recordings.parquet import table_of
from ragtide_schemas import MetricEvent


def traffic(seed: int, n: int, *, judged: float) -> list[MetricEvent]:
    """Return events whose scores are in one order but for every 50th, whose order only its JSON can hold."""
    events = drawn(seed, n, judged=judged, absent=0.2, disorder_s=20.0, wrong=0.02, sampled=0.3 * (seed % 2))
    # The first one has every metric, whose order is then that of the columns.
    every = {name: 0.5 for event in events for name in event.scores}
    events[0] = events[0].model_copy(update={"scores": every, "absent": {}, "gold_scores": {}, "judged": None})
    return [
        event.model_copy(update={"scores": dict(sorted(event.scores.items(), reverse=number % 50 == 49))})
        for number, event in enumerate(events)
    ]


def recorded(events: Sequence[MetricEvent]) -> Any:
    """Return events as a recording has them."""
    return table_of(EntryKind.METRICS, [RecordedEntry(0, f"{number}-0", event) for number, event in enumerate(events)])


@pytest.mark.parametrize("seed", range(4))
def test_a_table_leaves_the_state_that_its_events_leave_one_by_one(seed: int) -> None:
    events = traffic(seed, 700, judged=0.05)
    table = recorded(events)
    assert 14 <= columns_of(table).row_wise.sum() < 100
    # As read from several files, and cut anywhere.
    chunked = pa.concat_tables([table.slice(0, 100), table.slice(100, 301), table.slice(401)])

    def add(state: AggregatorState) -> list[tuple[str, str]]:
        refused = []
        for start, part in ((0, chunked.slice(0, 250)), (250, chunked.slice(250))):
            found = state.apply_columns(columns_of(part))
            refused += [(events[start + one.place].interaction_id, str(one.error)) for one in found]
        return refused

    assert outcome(OPTIONS, add) == outcome(OPTIONS, one_by_one(events))


def test_a_row_is_the_event_that_was_written() -> None:
    events = traffic(9, 60, judged=0.5)
    origins = columns_of(recorded(events)).source
    assert [origins.event(place) for place in range(len(events))] == events
    assert origins.interaction_id(5) == events[5].interaction_id


def test_an_empty_table_is_no_events() -> None:
    events = traffic(1, 20, judged=0.0)
    state = AggregatorState(OPTIONS)
    assert state.apply_columns(columns_of(recorded(events).slice(0, 0))) == []
    assert state.take_changes().rows == {}
