"""The stored states of rules of every kind are read and written to the same bytes."""

import json
from pathlib import Path
from typing import Any

import pytest

from ragtide import AlertRule
from ragtide_aggregator.alerts.compared_values import ComparedValues
from ragtide_aggregator.alerts.rule_state import FirstAnswerCounts, RuleState, StoredRows
from ragtide_aggregator.alerts.rule_values import BEGINNINGS
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.statistics.drift.drift import DetectorTable

STORED = Path(__file__).parents[1] / "data" / "rule_states.jsonl"
STATES = [json.loads(line) for line in STORED.read_text().splitlines()]


def loaded(stored: dict[str, Any], table: DetectorTable, compared: ComparedValues) -> RuleState:
    state = RuleState(AlertRule(**stored["rule"]), EstimateKey.read(stored["key"]), table, compared=compared)
    data = stored["state"].encode()
    if RuleState.took_first_answers(data):
        state.begin_first_answers({length: FirstAnswerCounts() for length in BEGINNINGS})
    state.load(data)
    return state


@pytest.mark.parametrize("stored", STATES, ids=lambda stored: stored["rule"]["name"])
def test_a_stored_state_is_written_as_it_was_read(stored: dict[str, Any]) -> None:
    table, compared = DetectorTable(), ComparedValues()
    state = loaded(stored, table, compared)
    rows = StoredRows.of([state], table, compared.table)
    assert state.to_bytes(stored["number"], rows).decode() == stored["state"]


def test_each_item_of_a_state_is_read() -> None:
    """A state that lacks an item cannot be read, or is written with another one."""
    for stored in STATES:
        items = json.loads(stored["state"])
        for item in items.keys() - {"search", "watch", "beginnings", "whole_known"}:
            less = {name: value for name, value in items.items() if name != item}
            with pytest.raises((KeyError, TypeError, ValueError)):
                loaded({**stored, "state": json.dumps(less)}, DetectorTable(), ComparedValues())
