import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.models import EVENT, MODELS

from ragtide_runtime.recordings import EntryKind, RecordedEntry, json_lines, parquet
from ragtide_runtime.recordings.columns import COLUMNS, SCORES, field_of
from ragtide_schemas import MetricEvent, RagInteraction


def numbered(models: list[Any]) -> list[RecordedEntry]:
    return [RecordedEntry(3, f"{1_700_000_000_000 + number}-{number}", model) for number, model in enumerate(models)]


def same(found: list[RecordedEntry], entries: list[RecordedEntry]) -> None:
    assert found == entries
    for entry, other in zip(found, entries, strict=True):
        # Equal bytes: floats to the bit, times to the microsecond, and the order of scores.
        assert entry.model.encode() == other.model.encode()


@pytest.mark.parametrize("kind", EntryKind)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_model_survives_parquet(kind: EntryKind, data: Any) -> None:
    entries = numbered(data.draw(st.lists(MODELS[kind], min_size=1, max_size=4)))
    table = parquet.decode_table(parquet.encode_table(parquet.table_of(kind, entries)), len(entries))
    same(list(parquet.entries_of(kind, table)), entries)


@pytest.mark.parametrize("kind", EntryKind)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_model_survives_json_lines(kind: EntryKind, data: Any) -> None:
    entries = numbered(data.draw(st.lists(MODELS[kind], min_size=1, max_size=4)))
    data = json_lines.pack(json_lines.lines_of(json_lines.rows_of(entries)))
    same(json_lines.decode_entries(kind, data, json_lines.Sizes(len(entries), 1 << 30, 1 << 30)), entries)


@settings(max_examples=40, deadline=None)
@given(parts=st.lists(st.lists(EVENT, min_size=1, max_size=3), min_size=1, max_size=3))
def test_the_files_of_a_step_merge_into_the_order_of_the_stream(parts: list[list[MetricEvent]]) -> None:
    entries = numbered([event for part in parts for event in part])
    dealt = [entries[first :: len(parts)] for first in range(len(parts))]
    tables = [parquet.table_of(EntryKind.METRICS, part) for part in dealt if part]
    found = list(parquet.entries_of(EntryKind.METRICS, parquet.merge_tables(EntryKind.METRICS, tables)))
    assert found == entries


def test_every_field_of_every_model_has_a_column() -> None:
    for kind in EntryKind:
        held = {field_of(kind, column) for column in COLUMNS[kind]} | set(SCORES[kind])
        assert held == set(kind.model.model_fields)


def test_a_score_is_a_column_of_its_bits() -> None:
    tiny = struct.unpack("<d", b"\x01" + b"\x00" * 7)[0]
    fields: dict[str, Any] = {"interaction_id": "i", "pipeline": "p", "labeler": "l", "labeler_version": "1"}
    fields |= {
        "profile": "ragbench",
        "occurred_at": "2026-11-21T00:00:00.000001Z",
        "labeled_at": "2026-11-21T00:00:00Z",
    }
    events = [MetricEvent(**fields, scores={"trace.adherence": value}) for value in (0.1 + 0.2, -0.0, tiny)]
    events.append(MetricEvent(**fields, scores={}))
    table = parquet.decode_table(
        parquet.encode_table(parquet.table_of(EntryKind.METRICS, numbered(events))), len(events)
    )
    column = table["scores.trace.adherence"]
    assert str(column.type) == "double"
    assert column.null_count == 1
    assert [struct.pack("<d", value) for value in column.to_pylist()[:3]] == [
        struct.pack("<d", value) for value in (0.1 + 0.2, -0.0, tiny)
    ]
    assert str(table["occurred_at"].type) == "timestamp[us, tz=UTC]"
    assert str(table["pipeline"].type).startswith("dictionary<values=string")


def test_steps_without_calls_are_stored_as_by_releases_without_calls() -> None:
    steps = [{"name": "dense", "kind": "retriever", "documents": [0], "returned": 2}]
    given = RagInteraction(pipeline="shop", question="q", documents=["d"], response="r", steps=steps)
    table = parquet.table_of(EntryKind.INTERACTIONS, numbered([given]))
    assert table["steps"].to_pylist() == [
        '[{"name":"dense","kind":"retriever","documents":[0],"returned":2,"shared":null}]'
    ]
