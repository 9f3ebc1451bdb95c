import json
from pathlib import Path
from typing import Any

import pytest

from ragtide_producers import FileOptions, UnreadableFileError, read_rows

OWN: dict[str, Any] = {"pipeline": "shop", "question": "q", "documents": ["d"], "response": "r"}
RAGBENCH = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "ragbench" / "ragbench_sample.jsonl").read_text().splitlines()
]


def write(path: Path, *lines: bytes | dict[str, Any]) -> Path:
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return path


def test_bad_rows_are_named_by_their_line_and_good_ones_around_them_are_kept(tmp_path: Path) -> None:
    file = write(
        tmp_path / "rows.jsonl",
        b"\xef\xbb\xbf" + json.dumps(OWN).encode(),
        b"",
        b"not json\r",
        {**OWN, "question": ""},
        b"  ",
        json.dumps(OWN).encode() + b"\r",
        {"pipeline": "shop"},
        b"\xff",
        OWN,
    )
    rows = list(read_rows(file, FileOptions()))
    assert [row.line for row in rows if row.interaction is not None] == [1, 6, 9]
    assert [row.line for row in rows if row.problem is not None] == [3, 4, 7, 8]
    problems = {row.line: row.problem or "" for row in rows}
    assert "JSON" in problems[3]
    assert "question must not be empty" in problems[4]
    assert "question is missing" in problems[7]


def test_every_row_of_ragbench_is_an_interaction_with_its_stored_scores_as_gold(tmp_path: Path) -> None:
    rows = list(read_rows(write(tmp_path / "ragbench.jsonl", *RAGBENCH), FileOptions()))
    assert len({row.interaction.interaction_id for row in rows if row.interaction}) == len(RAGBENCH) == 80
    for row, source in zip(rows, RAGBENCH, strict=True):
        assert row.interaction is not None
        assert row.interaction.pipeline == "ragbench"
        assert row.interaction.segments["dataset"] == source["subset"]
        assert [document.text for document in row.interaction.documents] == source["documents"]
        gold = row.interaction.gold_scores
        assert gold["trace.context_relevance"] == source["relevance_score"]
        assert gold["trace.adherence"] == float(source["adherence_score"])
        # The stored 1 for a response without relevant sentences is undefined in our default profile.
        assert ("trace.completeness" in gold) == bool(source["all_relevant_sentence_keys"])


def test_ids_are_the_same_every_time_and_different_for_every_line(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", OWN, OWN, {**OWN, "interaction_id": "mine"})
    first, again = ([row.interaction for row in read_rows(file, FileOptions())] for _ in range(2))
    ids = [interaction.interaction_id for interaction in first if interaction]
    assert ids == [interaction.interaction_id for interaction in again if interaction]
    assert len(set(ids)) == 3
    assert ids[2] == "mine"


def test_rows_are_put_into_a_run(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", {**OWN, "interaction_id": "mine"})
    (row,) = read_rows(file, FileOptions(run="nightly", population_size=1))
    assert row.interaction is not None
    assert (row.interaction.run, row.interaction.population_size) == ("nightly", 1)
    assert row.interaction.interaction_id == "nightly/mine"


def test_a_pipeline_is_filled_in_only_where_there_is_none(tmp_path: Path) -> None:
    without = {name: value for name, value in OWN.items() if name != "pipeline"}
    file = write(tmp_path / "rows.jsonl", OWN, without, RAGBENCH[0])
    named = [row.interaction.pipeline for row in read_rows(file, FileOptions(pipeline="x")) if row.interaction]
    assert named == ["shop", "x", "x"]
    (problem,) = [row.problem for row in read_rows(write(tmp_path / "b.jsonl", without), FileOptions())]
    assert problem is not None
    assert "pipeline is missing" in problem


@pytest.mark.parametrize("name", ["absent.jsonl", "."])
def test_a_file_that_cannot_be_read_is_a_clear_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableFileError, match="give the path of a file of interactions"):
        list(read_rows(tmp_path / name, FileOptions()))
