"""A data set of specimens reads back as the interactions that were kept, with their provenance."""

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.models import INTERACTION, NAME, SCORES

from ragtide.testing import interaction
from ragtide_producers import FileOptions, read_rows
from ragtide_producers.files.items import items_of, read_items
from ragtide_roles.kept.choosing import ChosenSpecimen
from ragtide_roles.kept.rows import LEFT_OUT, json_lines, rows, write_new
from ragtide_schemas import AnswerUsage, RagInteraction, Specimen, SpecimenLabeling
from ragtide_schemas.drawn import PROVENANCE
from ragtide_schemas.limits import METADATA_MAX_BYTES
from ragtide_schemas.times import utc_now

pytestmark = pytest.mark.pure


def specimen(one: RagInteraction, scores: dict[str, float] | None = None) -> Specimen:
    labeling = SpecimenLabeling(
        labeler="local", labeler_version="1", profile="ragbench", scores={"trace.adherence": 0.25, **(scores or {})}
    )
    return Specimen(
        interaction=one, labelings=(labeling,), labeled_at=utc_now(), redacted_by=("email",), lists=("sample",)
    )


def chosen(one: RagInteraction, scores: dict[str, float] | None = None) -> ChosenSpecimen:
    return ChosenSpecimen(specimen(one, scores), [{"list": "sample", "inclusion_probability": 0.01}])


SENT = st.builds(
    lambda interaction, time, usage: interaction.model_copy(update={"occurred_at": time, "usage": usage}),
    INTERACTION,
    st.integers(946_684_800, 1_767_225_600).map(lambda second: datetime.fromtimestamp(second, UTC)),
    st.none() | st.builds(AnswerUsage, latency_s=st.floats(0.001, 900), prompt_tokens=st.integers(1, 9)),
)
"""Interactions with times that a file may have."""


@settings(max_examples=12)
@given(st.lists(SENT, min_size=1, max_size=4, unique_by=lambda one: (one.pipeline, one.interaction_id)), SCORES)
def test_the_rows_read_back_equal(found: list[RagInteraction], scores: dict[str, float]) -> None:
    written = json_lines(rows([chosen(one, scores) for one in found]))
    lines = written.splitlines()
    assert len(lines) == len(found), "a text of a user never begins a new line"
    read = _read(written)
    for one, before in zip(read, found, strict=True):
        left_out = {name: RagInteraction.model_fields[name].get_default() for name in LEFT_OUT}
        metadata = one.metadata
        provenance: Any = metadata.pop(PROVENANCE)
        assert one == before.model_copy(update={**left_out, "metadata": metadata})
        if "item_id" not in before.metadata:
            metadata.pop("item_id", None)  # of a row whose id another pipeline has, too
        assert metadata == {name: value for name, value in before.metadata.items() if name != PROVENANCE}
        assert provenance["labelings"][0]["scores"] == {"trace.adherence": 0.25, **scores}
        assert (provenance["pipeline"], provenance["interaction_id"]) == (before.pipeline, before.interaction_id)
        assert "user_id" not in str(provenance)


def _read(written: str) -> list[RagInteraction]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        write_new(path, written)
        found = list(read_rows(path, FileOptions()))
        assert [one.problem for one in found] == [None] * len(found)
        interactions = [one.interaction for one in found if one.interaction is not None]
        assert [item.question for item in read_items(path)] == [one.question for one in interactions]
        return interactions


def test_an_item_of_an_experiment_has_question_answer_documents_and_provenance() -> None:
    one = interaction(7, reference_answer="In 1889.", segments={"lang": "en"}, metadata={"shelf": 3}, user_id="anna")
    (item,) = items_of(rows([chosen(one)]))
    assert (item.item_id, item.question, item.reference_answer) == ("i-7", one.question, "In 1889.")
    assert (item.segments, item.metadata["response"], item.metadata["shelf"]) == ({"lang": "en"}, one.response, 3)
    assert item.metadata["documents"] == [one.model_dump(mode="json", exclude_none=True)["documents"][0]]
    provenance: Any = item.metadata[PROVENANCE]
    assert provenance["chosen"] == [{"list": "sample", "inclusion_probability": 0.01}]
    assert provenance["redacted_by"] == ["email"]
    assert "anna" not in str(item)


def test_one_id_in_two_pipelines_gives_two_items() -> None:
    found = items_of(rows([chosen(interaction(0)), chosen(interaction(0, pipeline="help")), chosen(interaction(1))]))
    assert len({one.item_id for one in found}) == 3
    assert found[2].item_id == "i-1"


def test_large_metadata_and_many_scores_leave_room_for_the_provenance() -> None:
    large = {"large": "x" * (METADATA_MAX_BYTES - 100), "small": 1}
    scores = {f"own.metric_{number}": 0.123456789 for number in range(5_000)}
    (row,) = rows([chosen(interaction(0, metadata=large), scores)])
    read = RagInteraction.from_fields(row)
    provenance: Any = read.metadata[PROVENANCE]
    assert (read.metadata["small"], "large" in read.metadata) == (1, False)
    assert (provenance["labelings"][0]["labeler"], provenance["labelings"][0]["scores"]) == ("local", None)
    assert items_of([row])[0].question == read.question


def test_a_file_is_new_or_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    write_new(path, "one\n")
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(FileExistsError):
        write_new(path, "two\n")
    assert path.read_text() == "one\n"
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    write_new(link, "two\n", force=True)
    assert (path.read_text(), link.is_symlink()) == ("two\n", True)
    with pytest.raises(OSError, match="regular"):
        write_new(Path("/dev/null"), "three\n", force=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link.jsonl", "set.jsonl"]


@settings(max_examples=25)
@given(NAME)
def test_a_name_in_a_row_controls_no_terminal(name: str) -> None:
    written = json_lines(rows([chosen(interaction(0, question=f"Is \x1b[2J {name} \x9b2J \u202e?"))]))
    assert not {"\x1b", "\x9b", "\u202e"} & set(written)


def test_a_row_has_the_reasons_of_the_judge_unless_they_are_too_long() -> None:
    def with_reasons(**reasons: str) -> dict[str, Any]:
        kept = specimen(interaction())
        labeling = kept.labelings[0].model_copy(update={"reasons": reasons})
        [row] = rows([ChosenSpecimen(kept.model_copy(update={"labelings": (labeling,)}), [{"list": "sample"}])])
        (found,) = row["metadata"][PROVENANCE]["labelings"]
        return dict(found)

    assert with_reasons(a="It is made up.")["reasons"] == {"a": "It is made up."}
    many = with_reasons(**{f"sentence{number}": "x" * 500 for number in range(200)})
    assert (many["reasons"], many["scores"]) == ({}, {"trace.adherence": 0.25})
