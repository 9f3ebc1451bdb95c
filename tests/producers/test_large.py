"""Large inputs: their files in order, and the same rows from one place to another in every format."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from tests.support.cases import for_each

from ragtide_producers import FileOptions, UnreadableFileError, read_rows
from ragtide_producers.files.large import InputFile, LargeInput, LargeReader, large_input

SIZES = {"a.parquet": 11, "b.jsonl": 7, "c.csv": 5, "d.json": 4, "e.parquet": 0, "f.parquet": 9}


def rows(name: str) -> list[dict[str, Any]]:
    return [
        {"question": f"{name} {number}?", "contexts": f"Text {number}.", "answer": f"Answer {number}."}
        for number in range(SIZES[name])
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("files")
    for name in SIZES:
        if name.endswith(".parquet"):
            schema = pa.schema([(column, pa.string()) for column in ("question", "contexts", "answer")])
            parquet.write_table(pa.Table.from_pylist(rows(name), schema), folder / name, row_group_size=4)
    (folder / "b.jsonl").write_text("\n\n".join(json.dumps(row) for row in rows("b.jsonl")))
    lines = ["question,contexts,answer", *(",".join(row.values()) for row in rows("c.csv"))]
    (folder / "c.csv").write_text("\n".join(lines))
    (folder / "d.json").write_text(json.dumps(rows("d.json")))
    return [str(folder / name) for name in SIZES]


def test_the_rows_of_each_file_are_counted(files: list[str]) -> None:
    assert [file.rows for file in large_input(files, FileOptions()).files] == list(SIZES.values())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 36), min_size=2, max_size=8))
def test_any_places_give_the_rows_of_one_pass(files: list[str], places: list[int]) -> None:
    of = large_input(files, FileOptions())
    whole = [row for name in files for row in read_rows(name, FileOptions(unnamed=Path(name).stem))]
    reader = LargeReader(of)  # places may go backwards, too
    for start, stop in pairwise(places):
        found = list(reader.between(start, stop))
        expected = whole[start:stop]
        assert [(row.line, row.problem) for row in found] == [(row.line, row.problem) for row in expected]
        assert [ids(row) for row in found] == [ids(row) for row in expected]


def ids(row: Any) -> Any:
    return row.interaction and (row.interaction.interaction_id, row.interaction.pipeline, row.interaction.question)


@given(st.integers(0, 500), st.integers(1, 70))
def test_shards_are_whole_and_even(count: int, shards: int) -> None:
    of = LargeInput([InputFile("a.parquet", "a", count)], FileOptions())
    places = [of.shard(number, shards) for number in range(1, shards + 1)]
    assert [start for start, _ in places] == [0, *(stop for _, stop in places[:-1])]
    assert places[-1][1] == count
    sizes = [stop - start for start, stop in places]
    assert max(sizes) - min(sizes) <= 1


def test_a_folder_and_a_url_have_their_parquet_files_in_order(tmp_path: Path) -> None:
    table = pa.table({"question": ["q"], "contexts": ["c"], "answer": ["a"]})
    for name in ("answers/day=2/b.parquet", "answers/day=1/c.pq", "answers/_tmp/d.parquet", "answers/.e.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, tmp_path / name)
    (tmp_path / "answers" / "_SUCCESS").touch()
    (tmp_path / "answers" / "notes.txt").touch()
    folder = tmp_path / "answers"
    wanted = [f"{folder}/day=1/c.pq", f"{folder}/day=2/b.parquet"]
    found = large_input([str(folder)], FileOptions())
    assert [file.source for file in found.files] == wanted
    assert {file.pipeline for file in found.files} == {"answers"}
    for url in (f"file://{folder}", f"file://{folder}/", f"file://{folder}/*/*.p*"):
        of = large_input([url], FileOptions())
        named = [file.source for file in of.files]
        assert named == [f"file://{path}" for path in wanted] or url.endswith("*.p*")
        assert [ids(row)[2] for row in LargeReader(of).between(0, 2)] == ["q", "q"]
    assert large_input([f"file://{folder}/day=1/c.pq"], FileOptions()).rows == 1


@for_each(
    "source, words",
    [
        ("nothing.parquet", "cannot be read"),
        ("empty", "has no Parquet files"),
        ("file:///nowhere/at/all", "cannot be read"),
        ("nosuch://bucket/a", "nosuch"),
    ],
)
def test_an_input_that_is_not_there_is_one_sentence(source: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir(exist_ok=True)
    with pytest.raises(UnreadableFileError, match=words):
        large_input([source], FileOptions())


def test_a_file_that_became_shorter_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"question": "q", "contexts": "c", "answer": "a"}) + "\n")
    of = LargeInput([InputFile(str(path), "a", 3)], FileOptions())
    with pytest.raises(UnreadableFileError, match="fewer rows than before"):
        list(LargeReader(of).between(0, 3))


def test_a_file_with_a_row_for_each_chunk_is_not_cut_into_parts(tmp_path: Path) -> None:
    row = {"id": "a", "question": "q?", "answer": "r"}
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({**row, "contexts": text}) for text in ("one", "two")))
    with pytest.raises(UnreadableFileError, match="a row for each chunk"):
        large_input([str(tmp_path / "a.jsonl")], FileOptions())


def test_a_file_in_which_two_columns_may_be_the_answer_is_asked_about_before_its_parts_are_scored(
    tmp_path: Path,
) -> None:
    row = {"question": "q", "contexts": ["d"], "answer": "right"}
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{json.dumps(row)}\n{json.dumps({**row, 'prediction': 'wrong'})}\n")
    with pytest.raises(UnreadableFileError, match="columns answer and prediction, which differ: say which with --map"):
        large_input([str(path)], FileOptions())
    assert large_input([str(path)], FileOptions(columns={"response": "answer"})).rows == 2
