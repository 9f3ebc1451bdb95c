"""Questions of a data set come out the same whatever it is stored in; a bad row is named and refuses the data set."""

import csv
import json
import math
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.names import NAME_CHARACTERS

from ragtide import RagInteraction, load
from ragtide_producers import FileOptions, Item, UnreadableFileError, items_of, read_items
from ragtide_producers.files.items import ROOM_BYTES, digest
from ragtide_producers.files.values import MISSING

DATA = Path(__file__).parents[1] / "data"
TEXT = st.text(NAME_CHARACTERS, min_size=1, max_size=40).filter(lambda text: text.strip() and text not in MISSING)
ROW = st.fixed_dictionaries(
    {"question": TEXT, "segments": st.dictionaries(st.sampled_from(["lang", "tier"]), st.sampled_from(["de", "gold"]))},
    optional={"reference_answer": TEXT, "gold_document": TEXT, "cluster": TEXT},
)
ROWS = st.lists(ROW, min_size=1, max_size=8).map(
    lambda rows: [{"id": f"q{number}", **row} for number, row in enumerate(rows)]
)


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    flat = [
        {name: value for name, value in row.items() if name != "segments"}
        | {f"segments.{name}": value for name, value in row["segments"].items()}
        for row in rows
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in flat for name in row)))
        writer.writeheader()
        writer.writerows(flat)
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    names = ("id", "question", "reference_answer", "gold_document", "cluster")
    schema = pa.schema([(name, pa.string()) for name in names] + [("segments", pa.map_(pa.string(), pa.string()))])
    pq.write_table(pa.Table.from_pylist([{**r, "segments": list(r["segments"].items())} for r in rows], schema), path)
    return path


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=ROWS)
def test_the_same_items_come_out_of_every_format_and_out_of_python(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    lines = tmp_path / "rows.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    array = tmp_path / "rows.json"
    array.write_text(json.dumps(rows), encoding="utf-8")
    expected = items_of(rows)
    assert [item.item_id for item in expected] == [row["id"] for row in rows]
    assert [item.metadata.get("gold_document") for item in expected] == [row.get("gold_document") for row in rows]
    assert [item.cluster for item in expected] == [row.get("cluster") for row in rows]
    assert read_items(lines) == expected
    assert read_items(str(array)) == expected
    assert read_items(write_csv(tmp_path / "rows.csv", rows)) == expected
    assert read_items(write_parquet(tmp_path / "rows.parquet", rows)) == expected


@given(rows=ROWS)
def test_items_written_down_and_read_again_are_the_same(rows: list[dict[str, Any]]) -> None:
    items = items_of(rows)
    again = items_of([asdict(item) for item in items])
    assert again == items
    assert digest(again) == digest(items)


CHANGES: list[dict[str, Any]] = [
    {"item_id": "other"},
    {"question": "other?"},
    {"reference_answer": "other"},
    {"reference_answer": None},
    {"segments": {"lang": "other"}},
    {"metadata": {"other": 1}},
    {"cluster": "other"},
]


@given(rows=ROWS, data=st.data())
def test_the_digest_changes_with_every_field_and_with_the_order(rows: list[dict[str, Any]], data: Any) -> None:
    items = items_of(rows)
    at = data.draw(st.integers(0, len(items) - 1))
    changed = replace(items[at], **data.draw(st.sampled_from(CHANGES)))
    edited = [*items[:at], changed, *items[at + 1 :]]
    assert (digest(edited) == digest(items)) == (changed == items[at])
    assert digest(items[:-1]) != digest(items)
    shuffled = data.draw(st.permutations(items))
    assert (digest(shuffled) == digest(items)) == (shuffled == items)


def test_items_have_the_cluster_and_never_the_user_of_a_stored_interaction() -> None:
    stored = RagInteraction(
        interaction_id="i", pipeline="p", question="q", documents=["d"], response="r",
        session_id="s", turn=0, user_id="alice@example.com", cluster="topic-3",
    )  # fmt: skip
    (item,) = items_of([stored])
    assert (item.cluster, item.metadata["session_id"], item.metadata["turn"]) == ("topic-3", "s", 0)
    assert "alice" not in str(item)
    assert [item.cluster for item in items_of([{"question": "q", "cluster": 3}, {"question": "q"}])] == ["3", None]
    for wrong in (1.5, True, ["a"], " ", "a\nb"):
        with pytest.raises(ValueError, match="row 1: cluster"):
            items_of([{"question": "q", "cluster": wrong}])


def test_the_digest_does_not_depend_on_the_order_of_names() -> None:
    assert digest(items_of([{"id": "1", "question": "q", "a": 1, "b": 2}])) == digest(
        items_of([{"b": 2, "a": 1, "question": "q", "id": "1"}])
    )


@given(questions=st.lists(TEXT, min_size=1, max_size=8))
def test_questions_alone_are_enough_and_get_ids_that_stay(questions: list[str]) -> None:
    items = items_of(questions)
    assert [item.question for item in items] == questions
    assert len({item.item_id for item in items}) == len(items)
    assert items == items_of([{"question": question} for question in questions])
    assert {(item.reference_answer, len(item.segments), len(item.metadata)) for item in items} == {(None, 0, 0)}


@for_each(
    "row, reference, metadata",
    [
        ({"reference_answer": "a", "answer": "b"}, "a", {"answer": "b"}),
        ({"gt_answer": "a"}, "a", {}),
        ({"ground_truth": "a", "answer": "what a model said"}, "a", {"answer": "what a model said"}),
        ({"reference": "a", "answer": "what a model said"}, "a", {"answer": "what a model said"}),
        ({"answer": "a"}, "a", {}),
        ({"Ground Truth": "a", "Answer": "what a model said"}, "a", {"Answer": "what a model said"}),
        ({"Expected Output": "a", "UserId": "u"}, "a", {}),
        ({"answer": ["a", "b"]}, "a", {"answer": ["a", "b"]}),
        ({"answer": []}, None, {"answer": []}),
        ({"reference_answer": None, "answer": ""}, None, {"answer": ""}),
        ({"response": "what a model said"}, None, {"response": "what a model said"}),
        ({"metadata": {"level": "easy"}, "level": "hard", "page": 3}, None, {"page": 3, "level": "easy"}),
    ],
)
def test_the_reference_answer_is_found_and_everything_else_is_metadata(
    row: dict[str, Any], reference: str | None, metadata: dict[str, Any]
) -> None:
    assert items_of([{"query": "q", "query_id": 7, **row}]) == [Item("7", "q", reference, {}, metadata)]
    assert items_of([{"User Input": "q", "Query ID": 7, **row}]) == [Item("7", "q", reference, {}, metadata)]


def test_rows_of_ragbench_are_items_whose_stored_response_is_no_reference() -> None:
    source = DATA / "ragbench" / "ragbench_sample.jsonl"
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    items = read_items(source)
    assert [item.question for item in items] == [row["question"] for row in rows]
    assert {item.reference_answer for item in items} == {None}
    assert [item.metadata["response"] for item in items] == [row["response"] for row in rows]
    assert [item.metadata["documents"] for item in items] == [row["documents"] for row in rows]
    assert {frozenset(item.segments) for item in items} == {frozenset({"dataset"})}


def test_ragcheckers_json_is_items_with_reference_answers() -> None:
    source = DATA / "ragchecker-example" / "checking_inputs.json"
    stored = json.loads(source.read_text(encoding="utf-8"))["results"]
    items = read_items(source)
    assert [(item.item_id, item.question, item.reference_answer) for item in items] == [
        (row["query_id"], row["query"], row["gt_answer"]) for row in stored
    ]


def test_an_interaction_is_an_item_that_does_not_depend_on_when_it_was_answered() -> None:
    def asked(day: int) -> RagInteraction:
        return RagInteraction(
            interaction_id="i1",
            pipeline="shop",
            occurred_at=datetime(2026, 11, day, tzinfo=UTC),
            question="q",
            documents=["d"],
            response="r",
            reference_answer="a",
            segments={"lang": "de"},
            gold_scores={"trace.adherence": 1.0},
            metadata={"tenant": "x"},
        )

    (item,) = items_of([asked(1)])
    assert (item.item_id, item.reference_answer, item.segments) == ("i1", "a", {"lang": "de"})
    assert set(item.metadata) == {"tenant", "pipeline", "documents", "response"}
    assert items_of([asked(2)]) == [item]


def test_what_is_not_json_or_too_large_is_left_out_of_the_metadata() -> None:
    row = {
        "question": "q",
        "when": datetime(2026, 11, 21, tzinfo=UTC),
        "score": math.nan,
        "documents": ["x" * ROOM_BYTES],
        "gold_document": "d7",
        "pair": (1, 2),
    }
    (item,) = items_of([row])
    assert item.metadata == {"when": "2026-11-21T00:00:00Z", "gold_document": "d7", "pair": [1, 2]}


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, ROOM_BYTES), min_size=1, max_size=8),
    own=st.integers(0, ROOM_BYTES // 2),
)
def test_metadata_always_fits_and_only_larger_fields_are_left_out(sizes: list[int], own: int) -> None:
    row = {f"f{number}": "é" * (size // 2) for number, size in enumerate(sizes)}
    (item,) = items_of([{"question": "q", "metadata": {"own": "x" * own}, **row}])
    assert len(json.dumps(item.metadata, ensure_ascii=False, separators=(",", ":")).encode()) <= ROOM_BYTES
    left_out = [len(value) for name, value in row.items() if name not in item.metadata]
    assert all(len(value) <= min(left_out, default=math.inf) for name, value in row.items() if name in item.metadata)
    assert len(item.metadata["own"]) == own


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['{"question": "q"}', "", '{"text": "q"}'], r":3: question is missing: add it, as one of question, query"),
        (['{"question": " "}'], r":1: question must not be empty"),
        (['{"question": 7}'], r":1: question must be a string"),
        (["nonsense"], r":1: the entry is not valid JSON"),
        (['{"question": "q", "answer": {"text": "a"}}'], r":1: answer is .*: give a text or a list of texts"),
        (['{"question": "q", "answer": {"a": 1}}'], r":1: answer is .*: give a text or a list of texts"),
        (['{"question": "q", "id": [1]}'], r":1: id is '\[1\]': give a text or a whole number"),
        (['{"question": "q", "id": ""}'], r":1: item_id"),
        (['{"question": "q", "segments": {"lang": 1}}'], r":1: segments.lang must be a string"),
        (['{"question": "q", "metadata": "x"}'], r":1: metadata"),
        (['{"question": "q", "id": 1}', '{"question": "r", "id": "1"}'], r":2: .*:1 has the id '1', too"),
        ([], "has no question"),
    ],
)
def test_a_row_that_is_no_item_is_named_with_its_line_and_a_remedy(tmp_path: Path, lines: list[str], said: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(UnreadableFileError, match=said) as error:
        read_items(file)
    assert str(file) in str(error.value)


def test_a_row_from_python_that_is_no_item_is_named_by_its_number() -> None:
    with pytest.raises(ValueError, match="row 2: it is of type int"):
        items_of(["q", 7])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="row 2: row 1 has the id 'a', too"):
        items_of([{"id": "a", "question": "q"}, {"id": "a", "question": "q"}])


def test_a_file_that_cannot_be_read_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="give the path of a file"):
        read_items(tmp_path / "absent.jsonl")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UnreadableFileError, match="question is missing: add it, as one of question, query"):
        read_items(tmp_path / "a.csv", FileOptions())


PAST = {"question": "Who wrote Emma?", "response": "Jane Austen."}


@for_each(
    "columns, expected",
    [
        ({"history": [PAST]}, (PAST,)),
        ({"chat_history": [["Who wrote Emma?", "Jane Austen."]]}, (PAST,)),
        (
            {
                "messages": [
                    {"role": "user", "content": "Who wrote Emma?"},
                    {"role": "assistant", "content": "Jane Austen."},
                    {"role": "user", "content": "And Ulysses?"},
                ]
            },
            (PAST,),
        ),
        ({"history": "of Ireland"}, None),
        ({"history": [{"question": "q" * 50_000, "response": ""}]}, None),  # does not fit into the metadata
        ({}, None),
    ],
)
def test_an_item_has_its_history_and_its_metadata_keep_it(columns: dict[str, Any], expected: Any) -> None:
    row = {"question": "And Ulysses?", "answer": "James Joyce", **columns}
    [item] = items_of([row])
    [plain] = items_of([{"question": "And Ulysses?", "answer": "James Joyce"}])
    assert (None if item.history is None else tuple(turn.model_dump() for turn in item.history)) == expected
    assert (item.reference_answer, item.question) == ("James Joyce", "And Ulysses?")
    assert "answer" not in item.metadata
    if expected is not None:
        assert item.metadata == columns
        assert digest([item]) != digest([plain])


def test_arrays_times_and_ids_of_python_are_plain_values() -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    row = {"id": UUID(int=7), "question": np.str_("q?"), "answer": np.array(["a"]), "when": when, "n": np.int64(3)}
    (item,) = items_of([row])
    assert (item.item_id, item.question, item.reference_answer) == (str(UUID(int=7)), "q?", "a")
    assert item.metadata == {"answer": ["a"], "when": "2026-01-02T00:00:00Z", "n": 3}
    (interaction,) = load(
        [{"pipeline": "p", "question": "q?", "contexts": np.array(["d1", None, "d2", float("nan")]), "answer": "r"}]
    )
    assert [document.text for document in interaction.documents] == ["d1", "d2"]
