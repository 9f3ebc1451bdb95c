"""Hugging Face data sets are one more source of interactions and questions; folders stand in for the Hub."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ragtide_producers import FileOptions, UnreadableFileError, count_rows, read_items, read_rows
from ragtide_producers.files.formats.huggingface import HubDataset, hub_dataset
from ragtide_producers.files.formats.record import RecordError

DATA = Path(__file__).parents[1] / "data"
STORED = [
    json.loads(line)
    for line in (DATA / "ragbench" / "ragbench_sample.jsonl").read_text(encoding="utf-8").splitlines()[:12]
]
OWN = [
    {
        "interaction_id": f"i{number}",
        "pipeline": "shop",
        "question": f"q{number}",
        "documents": ["d"],
        "response": "r",
        "segments": {"lang": "de"} if number % 2 else {"tier": "gold"},
        "session_id": f"s{number // 3}" if number else None,
        "turn": number % 3 if number else None,
        "user_id": "alice",
        "cluster": "batch-7",
    }
    for number in range(6)
]


def data_set(rows: list[dict[str, Any]]) -> Any:
    from datasets import Dataset  # slow to import, so no other process of tests does

    return Dataset.from_list(rows)


def folder_of_lines(folder: Path, **splits: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    for split, rows in splits.items():
        (folder / f"{split}.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return folder


def read(source: str) -> list[dict[str, Any]]:
    rows = list(read_rows(source, FileOptions()))
    assert [row.problem for row in rows if row.problem] == []
    return [row.interaction.model_dump(exclude={"occurred_at"}) for row in rows if row.interaction is not None]


def test_a_folder_of_files_a_saved_data_set_and_a_file_read_the_same(tmp_path: Path) -> None:
    lines = folder_of_lines(tmp_path / "lines", test=OWN, train=OWN[:2])
    from datasets import DatasetDict

    DatasetDict({"test": data_set(OWN), "train": data_set(OWN[:2])}).save_to_disk(tmp_path / "dict")
    data_set(OWN).save_to_disk(tmp_path / "one")
    expected = read(str(lines / "test.jsonl"))
    assert [row["segments"] for row in expected[:2]] == [{"tier": "gold"}, {"lang": "de"}]
    assert [(row["session_id"], row["turn"]) for row in expected[:2]] == [(None, None), ("s0", 1)]
    assert {(row["user_id"], row["cluster"]) for row in expected} == {("alice", "batch-7")}
    assert read(f"hf:{lines}?split=test") == expected
    assert read(f"hf:{tmp_path / 'dict'}?split=test") == expected
    assert read(f"hf:{tmp_path / 'one'}") == expected
    assert read(f"hf:{lines}?split=train") == expected[:2]


def test_ragbench_as_a_data_set_is_ragbench_with_its_labels(tmp_path: Path) -> None:
    data_set(STORED).save_to_disk(tmp_path / "ragbench")
    lines = tmp_path / "rows.jsonl"
    lines.write_text("\n".join(json.dumps(row) for row in STORED), encoding="utf-8")
    of_set, of_file = (list(read_rows(s, FileOptions())) for s in (f"hf:{tmp_path / 'ragbench'}", lines))
    assert len(of_set) == len(STORED)
    for row, other in zip(of_set, of_file, strict=True):
        assert row.interaction is not None
        assert other.interaction is not None
        assert row.interaction.model_dump(exclude={"occurred_at"}) == other.interaction.model_dump(
            exclude={"occurred_at"}
        )
        assert row.labels == other.labels


def test_rows_without_an_id_get_the_same_one_every_time(tmp_path: Path) -> None:
    rows = [{name: value for name, value in row.items() if name != "interaction_id"} for row in OWN]
    source = f"hf:{folder_of_lines(tmp_path / 'lines', test=[*rows, rows[0]])}"
    ids = [[row["interaction_id"] for row in read(source)] for _ in range(2)]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(rows) + 1


def test_questions_come_out_of_a_data_set(tmp_path: Path) -> None:
    rows = [{"question": "who", "answer": ["me", "I"]}, {"question": "what", "answer": ["this"]}]
    items = read_items(f"hf:{folder_of_lines(tmp_path / 'nq', test=rows)}")
    assert [(item.question, item.reference_answer) for item in items] == [("who", "me"), ("what", "this")]


def test_rows_are_counted_where_the_data_set_knows(tmp_path: Path) -> None:
    data_set(OWN).save_to_disk(tmp_path / "one")
    assert count_rows(f"hf:{tmp_path / 'one'}", FileOptions()) == len(OWN)
    assert count_rows(f"hf:{folder_of_lines(tmp_path / 'lines', test=OWN)}", FileOptions()) is None
    card = "---\ndataset_info:\n  splits:\n  - name: test\n    num_examples: 6\n---\n"
    (folder_of_lines(tmp_path / "card", test=OWN) / "README.md").write_text(card)
    assert count_rows(f"hf:{tmp_path / 'card'}?split=test", FileOptions()) == len(OWN)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("hf:owner/name", HubDataset("owner/name")),
        ("hf:name?split=test", HubDataset("name", split="test")),
        ("hf:owner/name/de?split=dev", HubDataset("owner/name", "de", "dev")),
        ("hf:owner/name?config=de&revision=v2", HubDataset("owner/name", "de", revision="v2")),
        ("hf:./a/b/c?config=de", HubDataset("./a/b/c", "de")),
        ("hf:/a/b/c", HubDataset("/a/b/c")),
    ],
)
def test_a_source_says_what_load_dataset_is_given(source: str, said: HubDataset) -> None:
    assert hub_dataset(source) == said


@pytest.mark.parametrize("source", ["hf:", "hf:?split=test", "hf:a/b?splt=test", "hf:a/b?split=", "hf:a/b?test"])
def test_a_source_that_says_something_unknown_is_refused_with_the_form(source: str) -> None:
    with pytest.raises(RecordError, match="write hf:owner/name/config"):
        hub_dataset(source)


def test_what_is_not_there_is_named_with_what_is(tmp_path: Path) -> None:
    lines = folder_of_lines(tmp_path / "lines", test=OWN, train=OWN)
    data_set(OWN).save_to_disk(tmp_path / "one")
    for source, said in (
        (f"hf:{lines}", "several splits: choose one of train, test"),
        (f"hf:{lines}?split=dev", "no split 'dev'. There are: t"),
        (f"hf:{lines}?split=test&config=de", "'de' not found"),
        (f"hf:{tmp_path / 'one'}?split=test", "leave split out"),
        (f"hf:{tmp_path / 'absent'}", "cannot be opened"),
    ):
        with pytest.raises(UnreadableFileError, match=said) as error:
            list(read_rows(source, FileOptions()))
        assert str(error.value).startswith(source)
    with pytest.raises(UnreadableFileError, match="is for files"):
        list(read_rows(f"hf:{lines}", FileOptions(format="csv")))


def test_a_data_set_whose_files_are_broken_is_a_clear_error(tmp_path: Path) -> None:
    lines = folder_of_lines(tmp_path / "lines", test=OWN)
    with (lines / "test.jsonl").open("a") as file:
        file.write("\nnonsense")
    with pytest.raises(UnreadableFileError, match=r"cannot be read \("):
        list(read_rows(f"hf:{lines}", FileOptions()))


def test_without_the_library_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UnreadableFileError, match=r"pip install 'ragtide\[datasets\]'"):
        list(read_rows("hf:owner/name?split=test", FileOptions()))


def test_a_data_set_is_read_as_it_comes(tmp_path: Path) -> None:
    """The first row is there before a broken last one is looked at: nothing is read ahead as a whole."""
    lines = folder_of_lines(tmp_path / "lines", test=OWN)
    # More than datasets takes from a file of lines at once, which is 10 MiB.
    text = (lines / "test.jsonl").read_text(encoding="utf-8") + "\n"
    (lines / "test.jsonl").write_text(text * 17_000 + "nonsense", encoding="utf-8")
    rows = read_rows(f"hf:{lines}", FileOptions())
    assert next(rows).interaction is not None
