"""The versions of a data set are a chain from which every version's rows follow."""

import json
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from tests.support.cases import for_each

from ragtide_offline.datasets.rows import SetRow, read_set
from ragtide_offline.datasets.versions import DataSetVersions, content_of, labeled_by

NOW = datetime(2026, 11, 30, tzinfo=UTC)

ROW = {
    "interaction_id": "i-1",
    "question": "Where is it?",
    "documents": [{"id": "d-1", "text": "It is here."}],
    "response": "Here.",
    "gold_scores": {"trace.adherence": 1.0},
    "sampling_probability": 0.25,
    "segments": {"lang": "de"},
    "metadata": {
        "ragtide": {
            "chosen": [{"annotator": "ann"}],
            "labelings": [{"labeler": "judge", "labeler_version": "3", "profile": "ragbench", "scores": {}}],
        }
    },
}


def rows_of(folder: Path, *rows: dict[str, Any]) -> list[SetRow]:
    path = folder / "set.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return read_set(path)


def first_version(rows: list[SetRow]) -> DataSetVersions:
    return DataSetVersions().followed_by(rows, made_at=NOW, command="ragtide dataset draw")


@for_each(
    "change",
    [
        {"question": "Where was it?"},
        {"response": "There."},
        {"documents": [{"id": "d-1", "text": "It was here."}]},
        {"gold_scores": {"trace.adherence": 0.0}},
        {"sampling_probability": 0.5},
        {"segments": {"lang": "en"}},
        {"documents": [{"id": "d-1", "text": "It is here." * 10_000}]},
    ],
)
def test_a_change_of_any_field_is_a_change_of_the_set(tmp_path: Path, change: dict[str, Any]) -> None:
    """Also of those that an experiment does not read, and of texts that have no room in its metadata."""
    versions = first_version(rows_of(tmp_path, ROW))
    edit = versions.edit(rows_of(tmp_path, {**ROW, **change}))
    assert edit is not None
    assert (edit.added, edit.removed, edit.changed) == ([], [], ["i-1"])


def test_the_form_of_the_file_and_the_order_of_fields_are_no_change(tmp_path: Path) -> None:
    versions = first_version(rows_of(tmp_path, ROW))
    assert versions.edit(rows_of(tmp_path, dict(reversed(ROW.items())))) is None
    assert versions.followed_by(rows_of(tmp_path, ROW), made_at=NOW, command="again") is versions


def test_another_order_of_the_rows_is_another_version(tmp_path: Path) -> None:
    rows = [{**ROW, "interaction_id": f"i-{number}"} for number in range(3)]
    versions = first_version(rows_of(tmp_path, *rows))
    edit = versions.edit(rows_of(tmp_path, *reversed(rows)))
    assert edit is not None
    assert not any(edit)


def test_the_rows_of_a_version_are_those_of_its_parent_without_the_removed_and_with_the_added(tmp_path: Path) -> None:
    draw = Random(7)
    present: dict[str, dict[str, Any]] = {}
    versions, contents = DataSetVersions(), [dict[str, str]()]
    for step in range(40):
        for name in draw.sample(sorted(present), min(len(present), draw.randrange(3))):
            del present[name]
        for name in draw.sample(sorted(present), min(len(present), draw.randrange(2))):
            present[name] = {**present[name], "response": f"Edited {step}."}
        for number in range(1 + draw.randrange(3)):
            present[f"i-{step}-{number}"] = {**ROW, "interaction_id": f"i-{step}-{number}"}
        rows = rows_of(tmp_path, *present.values())
        versions = versions.followed_by(rows, made_at=NOW, command=None)
        contents.append(dict(content_of(rows)))
    assert len(versions.versions) == 40
    parent, n_rows = None, 0
    for version, before, now in zip(versions.versions, contents, contents[1:], strict=False):
        assert {name: row for name, row in before.items() if name not in version.removed} | version.added == now
        assert (version.parent, version.n_rows) == (parent, len(now))
        assert version.n_rows == n_rows - len(version.removed) + len(version.added)
        parent, n_rows = version.digest, version.n_rows
    assert DataSetVersions.decode(versions.encode()) == versions
    assert versions.content() == contents[-1]
    assert versions.edit(rows) is None


def test_people_labelers_and_gold_scores_are_counted(tmp_path: Path) -> None:
    alone = {"interaction_id": "i-2", "question": "Who?", "metadata": {"ragtide": {"labelings": "none", "chosen": 3}}}
    by = labeled_by(rows_of(tmp_path, ROW, alone))
    assert (by.labelers, by.people, by.gold) == ({"judge 3 ragbench": 1}, {"ann": 1}, 1)
