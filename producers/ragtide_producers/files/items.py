"""Reads the items of an experiment's data set: questions, from the same files and sources as interactions."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import starmap
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints
from pydantic_core import to_json

from ragtide_schemas import EarlierTurn, InvalidEntryError, RagInteraction
from ragtide_schemas.base import Metadata, Name, NotBlank, WireModel
from ragtide_schemas.drawn import DrawRecord, drawn_of
from ragtide_schemas.errors import invalid
from ragtide_schemas.interaction import History
from ragtide_schemas.limits import (
    METADATA_MAX_BYTES,
    PROBABILITY_MIN,
    QUESTION_MAX_CHARS,
    RESPONSE_MAX_CHARS,
    SEGMENTS_MAX,
)
from ragtide_schemas.plain_values import LeftOut
from ragtide_schemas.value_readers import metadata_values

from ..errors import UnreadableFileError
from .chunk_rows import whole_rows
from .columns import COLUMNS, history_in, with_tables
from .formats import Record
from .formats.record import plain_fields
from .interactions import FileOptions, made_id, read_records
from .labeled import dataset_of, is_ragbench, row_id
from .places import plain_name
from .values import read_value

QUESTIONS: Final = ("question", *COLUMNS["question"])
"""Names of the field with the question; the first existing field counts."""

REFERENCES: Final = ("reference_answer", "gt_answer", "ground_truth", *COLUMNS["reference_answer"], "answer")
"""Names of the field with the right answer; the first that is not empty counts, others stay in the metadata. `answer`
beside another of them is that of a model."""

IDS: Final = ("item_id", "interaction_id", *COLUMNS["interaction_id"])
"""Names of the field with the item's id; the first existing field counts, others stay in the metadata."""

_OF_THE_OLD_RUN: Final = (
    "schema_version", "occurred_at", "run", "population_size", "gold_scores", "user_id", "sampling_probability",
)  # fmt: skip
"""Fields of a stored interaction that are not about its question; metadata must not hold the id of a user."""


@dataclass(frozen=True, slots=True)
class Item:
    """A question, with the known facts about its answer."""

    item_id: str
    """Unique in the data set."""
    question: str
    """The question; never blank."""
    reference_answer: str | None
    """The right answer, if the data set has one."""
    segments: Mapping[str, str]
    """Slices to estimate separately, such as `{"lang": "de"}`."""
    metadata: Mapping[str, Any]
    """All other JSON values of the row, such as ids of the right documents, or a stored response."""
    cluster: str | None = None
    """Name of a group of items whose answers depend on each other, such as those about one topic or document."""
    history: tuple[EarlierTurn, ...] | None = None
    """Earlier turns of the conversation that the question continues. The metadata have them, too, as they were."""
    drawn: DrawRecord | None = None
    """How the row was drawn from known answers; None of a row that was not drawn."""
    sampling_probability: float = 1.0
    """Of a drawn row: the probability of its source times that of the draw."""


class _CheckedItem(WireModel):
    """The bounds of an item's fields, which equal those of an interaction."""

    item_id: Name
    question: Annotated[str, StringConstraints(max_length=QUESTION_MAX_CHARS), NotBlank]
    reference_answer: Annotated[str, StringConstraints(max_length=RESPONSE_MAX_CHARS), NotBlank] | None
    segments: Annotated[dict[Name, Name], Field(max_length=SEGMENTS_MAX)]
    metadata: Metadata
    cluster: Name | None
    history: History


def read_items(source: str | Path, options: FileOptions | None = None) -> list[Item]:
    """Return the items of a data set, in its order.

    The data set may have any format that `read_rows` takes. A row needs only a question:

    - id: `item_id`, `interaction_id`, `query_id` or `id`, otherwise made from the row's number and content;
    - question: `question` or `query`;
    - reference answer: `reference_answer`, `gt_answer`, `ground_truth`, another known name, or `answer`; of a list of
      answers the first;
    - segments: `segments`; for RAGBench the data set;
    - cluster: `cluster`;
    - history: `history`, `chat_history` and others, or `messages` that end with the question;
    - metadata: `metadata`, and all other fields but `user_id`. Fields that are not JSON are left out; so are the
      largest fields if all fields together exceed 48 KiB.

    A stored `response` is metadata and never the reference answer: in RAGBench a model wrote it, and some responses are
    known to be wrong.

    Args:
        source: a file, or a Hugging Face data set.
        options: `format` as for `read_rows`; other options are ignored.

    Raises:
        UnreadableFileError: the source cannot be opened, has no question, a row is not an item, or two have one id.
    """
    try:
        chosen = options or FileOptions()
        items = _items(whole_rows(read_records(source, chosen), chosen.columns), f"{source}:")
    except ValueError as error:
        raise UnreadableFileError(str(error)) from None
    if not items:
        raise UnreadableFileError(f"{source} has no question: give at least one row with a question")
    return items


def items_of(rows: Iterable[str | Mapping[str, Any] | RagInteraction]) -> list[Item]:
    """Return the items in rows, in their order; a row is a question, an object as in a file, or an interaction.

    Args:
        rows: questions, objects as in a file, or interactions.

    >>> [item] = items_of([{"id": 7, "question": "Who wrote Emma?", "answer": "Jane Austen", "level": "easy"}])
    >>> item.item_id, item.reference_answer, item.metadata
    ('7', 'Jane Austen', {'level': 'easy'})

    Raises:
        ValueError: a row is not an item, or two have the same id; the message names row, field and remedy.
    """
    objects = ({"question": row} if isinstance(row, str) else row for row in rows)
    return _items(whole_rows(starmap(record_of, enumerate(objects, start=1)), {}), "row ")


def digest(items: Sequence[Item]) -> str:
    """Return 32 hexadecimal digits that change whenever an item or the order of the items changes."""
    hashed = blake2b(digest_size=16)
    for item in items:
        mappings = [dict(item.segments), dict(item.metadata)]
        fields = [item.item_id, item.question, item.reference_answer, *mappings, item.cluster]
        # ASCII JSON contains no line feed, so two different lists of items never give the same bytes.
        hashed.update(json.dumps(fields, sort_keys=True).encode() + b"\n")
    return hashed.hexdigest()


def _items(records: Iterable[Record], place: str) -> list[Item]:
    items: dict[str, Item] = {}
    places: dict[str, str] = {}
    for record in records:
        here = f"{place}{record.number}"
        if record.fields is None:
            raise ValueError(f"{here}: {record.problem}")
        try:
            item = _item(record, record.fields)
        except InvalidEntryError as error:
            raise ValueError(f"{here}: {error.detail}") from None
        if item.item_id in items:
            raise ValueError(
                f"{here}: {places[item.item_id]} has the id {item.item_id!r}, too: give each question an id of its "
                "own, or no ids at all"
            )
        items[item.item_id], places[item.item_id] = item, here
    return list(items.values())


def record_of(number: int, row: object) -> Record:
    """Return the record of an object or an interaction, as if it stood in a file."""
    if isinstance(row, RagInteraction):
        fields = row.model_dump(mode="json", exclude_none=True)
    elif isinstance(row, Mapping):
        fields = plain_fields(row)
    else:
        kind = type(row).__name__
        return Record(number, problem=f"it is of type {kind}: give an object with its fields, or an interaction")
    return Record.of(number, fields)


def _item(record: Record, fields: dict[str, Any]) -> Item:
    values = ((name, value) for name, value in with_tables(fields).items() if value is not None)
    rest = {name: value for name, value in values if plain_name(name) not in _OF_THE_OLD_RUN}
    columns = {plain_name(name): name for name in reversed(rest)} | {name: name for name in rest}
    item_id, segments = None, rest.pop(columns.get("segments", ""), None) or {}
    if is_ragbench(rest):
        item_id, dataset = row_id(rest), dataset_of(rest)
        segments = {"dataset": str(dataset)} if dataset else {}
    question = next((columns[name] for name in QUESTIONS if name in columns), None)
    if question is None:
        raise invalid(f"question is missing: add it, as one of {', '.join(QUESTIONS[:4])}")
    named = next((columns[name] for name in IDS if name in columns), None)
    if item_id is None and named is not None:
        item_id = _id(named, rest.pop(named))
    own = rest.pop(columns.get("metadata", ""), None) or {}
    cluster = rest.pop(columns.get("cluster", ""), None)
    text = rest.pop(question)
    text = text if question == "question" else read_value("question", question, text)
    reference_answer = _reference_answer(rest, columns)
    metadata = {**fitting_metadata(rest, own), **own} if isinstance(own, dict) else own
    past = history_in(rest, text)
    checked = _CheckedItem.from_fields(
        {
            "item_id": made_id(record) if item_id is None else item_id,
            "question": text,
            "reference_answer": reference_answer,
            "segments": segments,
            "metadata": metadata,
            "cluster": None if cluster is None else _id("cluster", cluster),
            # `digest` has the history by the metadata, so a history that did not fit in them does not count.
            "history": past[1] if past and isinstance(metadata, dict) and past[0] in metadata else None,
        }
    )
    known = {name: getattr(checked, name) for name in _CheckedItem.model_fields}
    drawn = drawn_of(checked.metadata)
    return Item(**known) if drawn is None else Item(**known, drawn=drawn, sampling_probability=_probability(fields))


def _probability(fields: Mapping[str, Any]) -> float:
    value = fields.get("sampling_probability", 1.0)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and PROBABILITY_MIN <= value <= 1 else 1.0


def fitting_metadata(rest: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are JSON and have room in metadata beside others; without the largest if not all have."""
    others = {name: value for name, value in rest.items() if name not in own}
    fitting: dict[str, Any] = metadata_values(others, "metadata", LeftOut(), ROOM_BYTES - len(to_json(own)))
    return fitting


ROOM_BYTES: Final = METADATA_MAX_BYTES * 3 // 4
"""Most bytes of JSON of a row's fields in its metadata; the rest is for the metadata of its answers."""


def _id(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise invalid(f"{name} is {str(value)[:60]!r}: give a text or a whole number")
    return str(value)


def _reference_answer(rest: dict[str, Any], columns: Mapping[str, str]) -> str | None:
    for known in REFERENCES:
        name = columns.get(known, known)
        value = rest.get(name)
        if isinstance(value, list):
            value = next((item for item in value if item is not None), None)
        if known in COLUMNS["reference_answer"] or isinstance(value, int | float):
            value = read_value("reference_answer", name, value)
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        if not isinstance(value, str):
            raise invalid(f"{name} is {str(value)[:60]!r}: give a text or a list of texts")
        if not isinstance(rest[name], list):
            del rest[name]
        return value
    return None
