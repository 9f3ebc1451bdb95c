"""`score_batches`: the scores of Arrow rows are a function of the rows, whatever tables and batches they come in."""

import asyncio
import datetime as dt
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.conditions import wait_until

from ragtide import ConfigurationError, Labeling, MetricEvent, RagtideError, score, score_batches
from ragtide.testing import FakeLabeler
from ragtide_offline.score.batches import EVENT_COLUMNS, ROWS_AT_ONCE, SCHEMA
from ragtide_producers import UnreadableFileError

ROWS = Path(__file__).parents[1] / "data" / "ragbench" / "ragbench_sample.jsonl"
ANSWER = "The tower was built in 1889."


def row(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "user_input": f"When was tower {number} built?",
        "retrieved_contexts": [
            {"text": f"Tower {number} was built in 18{number % 90 + 10} in Paris.", "id": str(number)}
        ],
        "answer": ANSWER,
        "segments": {"lang": "en"},
        "occurred_at": dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
        **fields,
    }


TABLE = pa.Table.from_pylist([row(number) for number in range(60)])


def scored(data: Any, **options: Any) -> Any:
    return score_batches(data, **{"labeler": "local", "pipeline": "shop", **options}).read_all()


ALL = scored(TABLE)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 25), max_size=8))
def test_no_cut_into_batches_changes_a_bit(sizes: list[int]) -> None:
    batches, at = [], 0
    (whole,) = TABLE.combine_chunks().to_batches()
    for size in [*sizes, TABLE.num_rows]:
        batches.append(whole.slice(at, size))
        at = min(at + size, TABLE.num_rows)
    assert scored(pa.RecordBatchReader.from_batches(TABLE.schema, batches)).equals(ALL)
    assert scored(iter(batches)).equals(ALL)


def test_tables_of_other_libraries_give_the_same_scores() -> None:
    plain = TABLE.drop_columns(["segments"])  # pandas and Polars have structs where the field is a map
    ours = scored(plain)
    own: Any = plain.slice(0)
    assert own is not plain
    for data in (pl.from_arrow(plain), duckdb.sql("SELECT * FROM own"), plain.to_pandas()):
        assert scored(data).equals(ours), type(data)


def test_the_scores_are_those_of_score() -> None:
    found = scored(TABLE).to_pylist()
    rows = [{**row(number), "interaction_id": each["interaction_id"]} for number, each in enumerate(found)]
    events = score(rows, labeler="local", pipeline="shop").events
    assert [dict(each["scores"]) for each in found] == [event.scores for event in events]
    assert [dict(each["absent"]) for each in found] == [event.absent for event in events]
    assert len({each["interaction_id"] for each in found}) == 60


def test_other_libraries_read_the_result() -> None:
    mean = sum(dict(each["scores"])["trace.adherence"] for each in ALL.to_pylist()) / 60
    result = score_batches(TABLE, labeler="local", pipeline="shop")
    assert result.schema == SCHEMA
    ((found,),) = duckdb.execute("SELECT avg(scores['trace.adherence']) FROM result").fetchall()
    assert found == pytest.approx(mean)
    frame = pl.DataFrame(score_batches(TABLE, labeler="local", pipeline="shop"))
    assert frame["scores"].len() == 60


def test_every_field_of_an_event_that_follows_from_the_row_has_a_column() -> None:
    others = {"entry_id", "labeled_at", "latency_s"}
    assert set(MetricEvent.model_fields) - others == set(EVENT_COLUMNS)
    assert ALL.schema.equals(SCHEMA)


def test_it_works_while_an_event_loop_runs() -> None:
    async def inside() -> Any:
        return scored(TABLE)

    assert asyncio.run(inside()).equals(ALL)


def test_a_bad_row_is_a_row_with_a_problem() -> None:
    rows: list[dict[str, Any]] = [
        row(0, turn=1),
        row(1, user_input=None),
        row(2, user_input=" "),
        row(3, occurred_at=None),
        row(4),
    ]
    table = pa.Table.from_pylist(rows)
    found = scored(table).to_pylist()
    assert [each["row"] for each in found] == [1, 2, 3, 4, 5]
    assert [each["problem"] is None for each in found] == [True, False, False, True, True]
    assert "question" in found[1]["problem"]
    assert found[1]["scores"] is None
    assert found[3]["occurred_at"] is None  # no time of ours takes its place
    assert [dict(found[place]["scores"]) for place in (0, 4)] == [
        dict(ALL["scores"][place].as_py()) for place in (0, 4)
    ]


def test_rows_of_one_chunk_each_are_one_answer_as_in_files() -> None:
    chunks = [
        {"query_id": name, "question": "When was it built?", "contexts": text, "answer": ANSWER}
        for name in "ab"
        for text in (ANSWER, "It is made of iron.")
    ]
    found = scored(pa.Table.from_pylist(chunks)).to_pylist()
    assert [(each["row"], each["interaction_id"]) for each in found] == [(1, "a"), (3, "b")]
    assert [dict(each["scores"]) for each in found] == [event.scores for event in score(chunks, pipeline="shop").events]


HARD = {
    "times of nanoseconds": pa.array([1, 2**62 + 1], pa.timestamp("ns")),
    "days beyond the calendar": pa.array([0, 2**31 - 1], pa.int32()).view(pa.date32()),
    "bytes": pa.array([b"\xff", b"a"]),
    "an ambiguous map": pa.array([[("a", "b"), ("a", "c")], None], pa.map_(pa.string(), pa.string())),
    "durations": pa.array([1, 2**62], pa.duration("s")),
    "a struct": pa.array([{"a": None}, None]),
}


@for_each("name, column", [(name, column) for name in HARD for column in ("extra", "segments", "usage")])
def test_no_type_of_a_column_ends_the_stream(name: str, column: str) -> None:
    table = TABLE.slice(0, 2).drop_columns(["segments"]).append_column(column, HARD[name])
    found = scored(table).to_pylist()
    assert [each["row"] for each in found] == [1, 2]
    assert all((each["problem"] is None) != (each["scores"] is None) for each in found), name


def test_two_columns_of_one_name_are_a_problem_of_every_row() -> None:
    twice = TABLE.slice(0, 2).append_column("answer", pa.array(["another answer"] * 2))
    assert all("several columns have the name 'answer'" in problem for problem in scored(twice)["problem"].to_pylist())


def test_a_labeler_of_the_caller_that_fails_is_a_problem_of_the_row() -> None:
    labeler = FakeLabeler(
        lambda _: Labeling({"own.score": 0.5}), script=[Labeling({"own.score": 1.0}), ValueError("no")]
    )
    found = scored(TABLE.slice(0, 3), labeler=labeler).to_pylist()
    assert [dict(each["scores"] or ()).get("own.score") for each in found] == [1.0, None, 0.5]
    assert (found[1]["interaction_id"], found[1]["pipeline"]) == (ALL["interaction_id"][1].as_py(), "shop")
    assert "no" in found[1]["problem"]


def test_labels_come_with_the_scores_if_asked_for() -> None:
    assert ALL["labels"].null_count == 60
    (line,) = scored(
        pa.Table.from_pylist([json.loads(ROWS.read_text().splitlines()[0])]), labeler="stored", labels=True
    )["labels"].to_pylist()
    assert json.loads(line)[0]["relevant"]


def test_rows_are_read_as_they_are_needed() -> None:
    read = 0

    def batches() -> Iterator[Any]:
        nonlocal read
        for _ in range(1000):
            read += 1
            yield TABLE.to_batches()[0]

    reader = score_batches(batches(), labeler="local", pipeline="shop")
    assert reader.read_next_batch().num_rows == ROWS_AT_ONCE
    assert read * 60 < 5 * ROWS_AT_ONCE
    del reader
    wait_until(lambda: "ragtide iterator" not in {thread.name for thread in threading.enumerate()})


@for_each(
    "data, options, words",
    [
        (TABLE, {"labeler": "nobody"}, "nobody"),
        (TABLE, {"profile": "nothing"}, "nothing"),
        (TABLE, {"labeler": FakeLabeler(lambda _: Labeling({})), "profile": "ragbench"}, "leave out the profile"),
        ("a.parquet", {}, "type str"),
        ([1], {}, "type list"),
        (TABLE.to_pandas().assign(answer=["yes", 1.5] * 30), {}, "give the column one type"),
    ],
)
def test_a_mistake_is_one_sentence_before_the_first_row(data: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises((ConfigurationError, UnreadableFileError), match=words) as caught:
        score_batches(data, **{"labeler": "local", **options})
    assert isinstance(caught.value, RagtideError)
