"""A table of a recording's columns is the events that were written to it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.aggregator.test_columns import OPTIONS, drawn, one_by_one, outcome

from ragtide_aggregator.arrow import columns_of
from ragtide_aggregator.state import AggregatorState
from ragtide_schemas import MetricEvent

TEXTS = ("pipeline", "run", "source", "labeler", "labeler_version", "profile")
NAMES = pa.map_(pa.string(), pa.string())


def table_of(events: Sequence[MetricEvent], *, exact: Sequence[int] = ()) -> Any:
    """Return events as a table; those at the places `exact` have only what every row has, and their JSON."""

    def column(name: str, kind: Any, write: Any = lambda value: value) -> Any:
        values = [getattr(one, name) for one in events]
        return pa.array([None if value is None else write(value) for value in values], kind)

    columns = {name: column(name, pa.string()).dictionary_encode() for name in TEXTS}
    columns |= {name: column(name, pa.timestamp("us", tz="UTC")) for name in ("occurred_at", "labeled_at")}
    columns |= {name: column(name, NAMES, lambda value: list(value.items())) for name in ("segments", "absent")}
    columns |= {name: column(name, pa.float64()) for name in ("latency_s", "cost_usd", "inclusion_probability")}
    columns |= {
        "interaction_id": column("interaction_id", pa.string()),
        "population_size": column("population_size", pa.int64()),
        "prompts": column("prompts", pa.list_(pa.string()), list),
        "judged": column("judged", pa.string(), lambda value: value.model_dump_json()),
        "entry_id": pa.array([f"{number}-0" for number in range(len(events))], pa.string()),
    }
    for field in ("scores", "gold_scores"):
        for metric in sorted({metric for one in events for metric in getattr(one, field)}):
            scores = [None if number in exact else getattr(one, field).get(metric) for number, one in enumerate(events)]
            columns[f"{field}.{metric}"] = pa.array(scores, pa.float64())
    said = [one.encode().decode() if number in exact else None for number, one in enumerate(events)]
    return pa.table({**columns, "exact": pa.array(said, pa.string())})


@pytest.mark.parametrize("seed", range(4))
def test_a_table_leaves_the_state_that_its_events_leave_one_by_one(seed: int) -> None:
    events = drawn(seed, 700, judged=0.05, absent=0.2, disorder_s=20.0, wrong=0.02)
    table = table_of(events, exact=(3, 77, 500))
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
    events = drawn(9, 60, judged=0.5, absent=0.2, disorder_s=20.0, wrong=0.0)
    origins = columns_of(table_of(events, exact=(2,))).origins
    assert [origins.event(place) for place in range(len(events))] == events
    assert origins.interaction_id(5) == events[5].interaction_id


def test_columns_that_are_not_there_hold_nothing() -> None:
    events = drawn(1, 20, judged=0.0, absent=0.0, disorder_s=0.0, wrong=0.0)
    few = ("interaction_id", "pipeline", "occurred_at", "labeled_at", "labeler", "labeler_version", "profile")
    columns = columns_of(table_of(events).select([*few, "scores.trace.adherence"]))
    assert list(columns.scores) == ["trace.adherence"]
    assert not columns.alone.any()
    assert not np.any(columns.population_size)
    assert AggregatorState(OPTIONS).apply_columns(columns) == []


def test_an_empty_table_is_no_events() -> None:
    events = drawn(1, 20, judged=0.0, absent=0.0, disorder_s=0.0, wrong=0.0)
    state = AggregatorState(OPTIONS)
    assert state.apply_columns(columns_of(table_of(events).slice(0, 0))) == []
    assert state.take_changes().rows == {}
