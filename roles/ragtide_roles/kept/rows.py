"""Writes specimens as rows of a data set: the interaction as it is kept, and its provenance in the metadata.

A file is new at once: a reader sees the whole file or none, and a file that exists is not replaced unasked.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from ragtide_runtime.redis.keys import interaction_digest
from ragtide_schemas import RagInteraction
from ragtide_schemas.drawn import PROVENANCE
from ragtide_schemas.limits import METADATA_MAX_BYTES
from ragtide_schemas.printable import printable_json

from .choosing import ChosenSpecimen

LEFT_OUT: Final = frozenset({"run", "population_size", "user_id", "sampling_probability"})
"""Fields of an interaction that a row does not have: a row of a data set counts once, and names no user."""

_PROVENANCE_MAX_BYTES: Final = METADATA_MAX_BYTES // 4


def rows(chosen: Sequence[ChosenSpecimen]) -> list[dict[str, Any]]:
    """Return a row for each specimen, as values that JSON can hold.

    `read_rows` reads the interaction from it, and `read_items` a question. If two pipelines have the same interaction
    id, their rows have an `item_id`, because the questions of an experiment have different ids.
    """
    ids = Counter(specimen.specimen.interaction.interaction_id for specimen in chosen)
    return [_row(specimen, alone=ids[specimen.specimen.interaction.interaction_id] == 1) for specimen in chosen]


def json_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as JSON Lines in which no character controls a terminal."""
    return "".join(f"{printable_json(row)}\n" for row in rows)


def provenance(chosen: ChosenSpecimen) -> dict[str, Any]:
    """Return where a row comes from: its interaction, the reasons, the redaction, and its scores at that time."""
    specimen = chosen.specimen
    fields = specimen.model_dump(mode="json")
    interaction = fields["interaction"]
    labelings = [
        {name: labeling[name] for name in ("labeler", "labeler_version", "profile", "prompts", "scores", "reasons")}
        for labeling in fields["labelings"]
    ]
    origin = {
        "pipeline": interaction["pipeline"],
        "interaction_id": interaction["interaction_id"],
        "occurred_at": interaction["occurred_at"],
        "labeled_at": fields["labeled_at"],
        "chosen": [dict(reason) for reason in chosen.reasons],
        "lists": fields["lists"],
        "sampling_probability": specimen.interaction.sampling_probability,
        "sample_probability": specimen.sample_probability,
        "redacted_by": fields["redacted_by"],
        "splitter": specimen.splitter,
        "trace_id": specimen.trace_id,
        "labelings": labelings,
    }
    if len(json.dumps(origin)) > _PROVENANCE_MAX_BYTES:  # reasons of many sentences
        origin["labelings"] = labelings = [{**labeling, "reasons": {}} for labeling in labelings]
    if len(json.dumps(origin)) > _PROVENANCE_MAX_BYTES:  # hundreds of metrics of one's own
        origin["labelings"] = [{**labeling, "scores": None} for labeling in labelings]
    return origin


def _row(chosen: ChosenSpecimen, *, alone: bool) -> dict[str, Any]:
    row = row_of(chosen.specimen.interaction, provenance(chosen), chosen.gold_scores)
    interaction = chosen.specimen.interaction
    return row if alone else {"item_id": interaction_digest(interaction.pipeline, interaction.interaction_id), **row}


def row_of(
    interaction: RagInteraction, origin: Mapping[str, Any], gold_scores: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Return the row of an interaction, as values that JSON can hold.

    Args:
        origin: its provenance.
        gold_scores: gold scores beside those of the interaction, by metric.
    """
    from ragtide_producers.files.items import fitting_metadata  # noqa: PLC0415 - the page makes rows seldom

    fields = interaction.model_dump(mode="json", exclude=set(LEFT_OUT), exclude_none=True)
    own = {PROVENANCE: dict(origin)}
    kept = fitting_metadata({name: value for name, value in interaction.metadata.items() if name != PROVENANCE}, own)
    gold = {"gold_scores": {**interaction.gold_scores, **gold_scores}} if gold_scores else {}
    return {**fields, **gold, "metadata": {**kept, **own}}


def write_new(path: Path, text: str, *, force: bool = False) -> None:
    """Write a file beside its place, then move it there. Only its owner may read it.

    Args:
        text: its text.
        force: whether a file that exists is replaced.

    Raises:
        FileExistsError: the file exists, and `force` is not set.
        OSError: the file cannot be written.
    """
    target = Path(os.path.realpath(path))  # a symbolic link stays, and its target is replaced
    if target.exists() and not target.is_file():
        raise OSError(None, "it is not a regular file")
    with NamedTemporaryFile("w", encoding="utf-8", dir=target.parent, prefix=".ragtide-", delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            if force:
                temporary.replace(target)
            else:
                os.link(temporary, target)  # fails if another process made the file meanwhile
        finally:
            temporary.unlink(missing_ok=True)
