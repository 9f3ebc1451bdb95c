"""Time, tokens and cost of an answer in the columns of files."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from tests.support.cases import for_each

from ragtide_producers.files.columns import interaction_fields
from ragtide_producers.files.interactions import FileOptions, read_rows
from ragtide_schemas import AnswerUsage, InvalidEntryError, RagInteraction

pytestmark = pytest.mark.pure

ROW: dict[str, Any] = {"question": "q", "documents": ["d"], "response": "r"}


def read(tmp_path: Path, name: str, text: str) -> RagInteraction:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    (row,) = read_rows(path, FileOptions(pipeline="p"))
    assert row.interaction is not None, row.problem
    return row.interaction


@for_each(
    "columns, expected",
    [
        ({"latency_ms": 1500}, {"latency_s": 1.5}),
        ({"Latency Seconds": 2}, {"latency_s": 2}),
        ({"latency_s": 1, "latency_ms": 9000}, {"latency_s": 1}),
        ({"input_tokens": 10, "outputTokens": 4}, {"prompt_tokens": 10, "completion_tokens": 4}),
        ({"attributes.llm.token_count.prompt": 7.0}, {"prompt_tokens": 7}),
        ({"usage": {"latency_s": 1}, "cost_usd": 0.5}, {"latency_s": 1, "cost_usd": 0.5}),
        ({"usage": '{"latency_s": 1}'}, {"latency_s": 1}),
        ({"retrieval_time_ms": "250"}, {"retrieval_latency_s": 0.25}),
        ({"duration_us": 1_500_000}, {"latency_s": 1.5}),
        ({"Latency (ms)": 1500}, {"latency_s": 1.5}),
        ({"latency_in_nanoseconds": 1_500_000_000}, {"latency_s": 1.5}),
        ({"latency": "1.5 s"}, {"latency_s": 1.5}),
        ({"response_time": "1500ms"}, {"latency_s": 1.5}),
        ({"latency_ms": "1.5 s"}, {"latency_s": 1.5}),
    ],
)
def test_a_column_with_a_unit_is_read(columns: dict[str, Any], expected: dict[str, Any]) -> None:
    fields, _ = interaction_fields({**ROW, **columns}, {})
    found = RagInteraction.from_fields({**fields, "pipeline": "p"})
    assert found.usage == AnswerUsage(**expected)


@for_each(
    "columns",
    [
        {"latency": 3},  # of which unit?
        {"cost": 0.5},
        {"input_tokens": [101, 2054, 102]},  # the tokens themselves
        {"latency_s": "fast"},
        {"latency_s": True},
        {"usage": "see the manual"},
    ],
)
def test_what_is_no_number_with_a_unit_becomes_metadata(columns: dict[str, Any]) -> None:
    fields, _ = interaction_fields({**ROW, **columns}, {})
    assert "usage" not in fields
    assert fields["metadata"] == columns


def test_the_usage_of_a_models_api_gives_its_tokens_and_stays_in_the_metadata() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    fields, _ = interaction_fields({**ROW, "usage": usage}, {})
    assert fields["usage"] == {"prompt_tokens": 9, "completion_tokens": 3}
    assert fields["metadata"] == {"usage": usage}


@for_each("value", ["1,234", "0,02", "1 234,5", "1.234.567", "-1'000"])
def test_a_number_with_separators_is_refused_and_not_left_out(value: str) -> None:
    """A mean over the numbers without separators would be that of the small ones."""
    with pytest.raises(InvalidEntryError, match=r"^latency_ms is .* write it like 1234\.5"):
        interaction_fields({**ROW, "latency_ms": value}, {})


@for_each("columns", [{"latency_ms": 2.5e-4}, {"duration_us": 3}, {"latency_ns": 1500}, {"usage": {"latency_ns": 9}}])
def test_a_time_that_no_answer_takes_is_refused(columns: dict[str, Any]) -> None:
    with pytest.raises(InvalidEntryError, match="seconds, which no answer takes: correct the unit"):
        interaction_fields({**ROW, **columns}, {})


@for_each(
    "columns, mapping",
    [({"latency_s": 2.5e-5}, {}), ({"usage": {"latency_s": 2.5e-5}}, {}), ({"usage.latency_s": "0.000025"}, {}),
     ({"duration_us": 25}, {"usage.latency_us": "duration_us"})],
)  # fmt: skip
def test_a_short_time_is_read_under_the_own_name_and_where_the_user_names_the_unit(
    columns: dict[str, Any], mapping: dict[str, str]
) -> None:
    fields, _ = interaction_fields({**ROW, **columns}, mapping)
    assert fields["usage"] == {"latency_s": pytest.approx(2.5e-5)}
    assert RagInteraction.from_fields({**fields, "pipeline": "p"}).left_out == {}


def test_a_time_without_a_unit_is_named_with_the_way_to_read_it() -> None:
    left_out = Counter[str]()
    interaction_fields({**ROW, "latency": 1500}, {}, left_out=left_out)
    assert list(left_out) == ["latency has no unit (name it: --map usage.latency_ms=latency)"]
    fields, _ = interaction_fields({**ROW, "latency": 1500}, {"usage.latency_ms": "latency"})
    assert fields["usage"] == {"latency_s": 1.5}
    fields, _ = interaction_fields({**ROW, "took": {"latency_ms": 1500}}, {"usage.latency_s": "took.latency_ms"})
    assert fields["usage"] == {"latency_s": 1.5}


@for_each("number", [-10, 1.5, "many"])
def test_a_number_of_a_models_api_that_is_none_is_left_out_by_name(number: Any) -> None:
    fields, _ = interaction_fields({**ROW, "usage": {"prompt_tokens": number, "total_tokens": 12}}, {})
    assert RagInteraction.from_fields({**fields, "pipeline": "p"}).left_out == {"usage.prompt_tokens": 1}


def test_a_misspelled_number_is_refused_with_the_right_name() -> None:
    with pytest.raises(InvalidEntryError, match="did you mean latency_s"):
        interaction_fields({**ROW, "usage": {"latencys": 1}}, {})


def test_every_format_has_the_field(tmp_path: Path) -> None:
    expected = AnswerUsage(latency_s=1.5, prompt_tokens=12, cost_usd=0.25)
    row = {**ROW, "usage": {"latency_s": 1.5, "prompt_tokens": 12, "cost_usd": 0.25}}
    assert read(tmp_path, "a.jsonl", json.dumps(row)).usage == expected
    csv = "question,documents,response,usage.latency_s,usage.prompt_tokens,cost_usd\nq,d,r,1.5,12,0.25\n"
    assert read(tmp_path, "a.csv", csv).usage == expected
    assert read(tmp_path, "b.csv", csv.replace("1.5,12,0.25", "1.5,12.0,0.25")).usage == expected
    assert read(tmp_path, "c.csv", csv.replace("1.5,12,0.25", ",,")).usage is None


def test_parquet_has_the_field(tmp_path: Path) -> None:
    options = FileOptions(pipeline="p")
    rows = [
        {**ROW, "usage": {"latency_s": 1.5, "cost_usd": None}},
        {**ROW, "usage": {"latency_s": None, "cost_usd": 1}},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    found = [row.interaction and row.interaction.usage for row in read_rows(tmp_path / "a.parquet", options)]
    assert found == [AnswerUsage(latency_s=1.5), AnswerUsage(cost_usd=1)]
