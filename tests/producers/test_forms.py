"""Every form that clients hand over is read as its text, left out by name, or refused."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from pydantic import BaseModel
from tests.support.forms import ANSWER, CHUNKS, FORMS, NOTHING, PNG, REFUSED, THOUGHT, Form

from ragtide_producers.files.columns import interaction_fields
from ragtide_producers.given_fields import interaction_of
from ragtide_producers.shapes.replies import documents_in
from ragtide_producers.shapes.texts import UnreadableError, text_in
from ragtide_schemas import InvalidEntryError, RagInteraction


def read(form: Form, value: Any, left_out: Counter[str] | None = None) -> Any:
    """Text or texts of a value, or `REFUSED`, or `NOTHING`."""
    try:
        if form.meaning != "documents":
            found = text_in(value, form.meaning, left_out=left_out)
            return NOTHING if found is None else found
        documents = documents_in(value, left_out)
        return REFUSED if documents is None else tuple(document.text for document in documents)
    except UnreadableError as error:
        return REFUSED if str(error) else "a refusal without words"


def expected(form: Form) -> tuple[Any, ...]:
    return (REFUSED, NOTHING) if form.expected == NOTHING else (form.expected,)


@pytest.mark.parametrize("form", FORMS, ids=[form.name for form in FORMS])
def test_a_form_is_read_as_its_text_and_what_is_left_out_is_counted(form: Form) -> None:
    counts: Counter[str] = Counter()
    assert read(form, form.value, counts) in expected(form)
    assert set(form.left_out) <= set(counts), counts


@pytest.mark.parametrize(
    "form", [form for form in FORMS if not isinstance(form.value, str | bytes)], ids=lambda form: form.name
)
def test_the_json_of_a_form_is_read_as_the_form(form: Form) -> None:
    if form.value is not None and form.value == form.value and not isinstance(form.value, float):
        assert read(form, json.dumps(form.value)) in expected(form)


FIELDS = {"question": "question", "answer": "response", "reference": "reference_answer", "documents": "documents"}


def written(read: Callable[[dict[str, Any]], RagInteraction], field: str, value: Any) -> Any:
    """Text or texts of a field of an interaction, or `REFUSED`."""
    row = {"interaction_id": "i", "pipeline": "p", "question": "q", "documents": ["d"], "response": "r", field: value}
    try:
        found = read(row)
    except InvalidEntryError:
        return REFUSED
    return [document.text for document in found.documents] if field == "documents" else getattr(found, field)


@pytest.mark.parametrize("form", FORMS, ids=[form.name for form in FORMS])
def test_a_file_reads_a_form_under_the_name_of_its_field_as_the_sdk_does(form: Form) -> None:
    try:
        text = json.dumps(form.value)
    except TypeError:
        return  # no file has such an object
    for value in (json.loads(text), text):
        in_file = written(
            lambda row: RagInteraction.from_fields(interaction_fields(row, {})[0]), FIELDS[form.meaning], value
        )
        assert in_file == written(interaction_of, FIELDS[form.meaning], value)


def test_the_names_of_forms_are_their_own() -> None:
    assert len({form.name for form in FORMS}) == len(FORMS)


class Part(BaseModel):
    type: str = "text"
    text: str = ANSWER


class Role(Enum):
    ASSISTANT = "assistant"


@dataclass
class Said:
    role: Role
    content: list[Any]


@pytest.mark.parametrize(
    "value", [Part(), Said(Role.ASSISTANT, [Part()]), [Part()], {ANSWER}, np.array([ANSWER]), (ANSWER,)]
)
def test_an_object_with_fields_is_read_by_its_fields(value: Any) -> None:
    assert text_in(value, "answer") == ANSWER


@pytest.mark.parametrize(
    "value",
    [
        (piece for piece in CHUNKS),
        map(str, CHUNKS),
        MagicMock(),
        lambda: ANSWER,
        json,
        object(),
        {"a", "b"},
        [MagicMock()],
    ],
)
def test_an_object_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(UnreadableError):
        text_in(value, "answer")


@pytest.mark.parametrize("key", ["response", "output", "answer", "result"])
def test_media_and_reasoning_beside_an_answer_stay_out_at_any_depth(key: str) -> None:
    counts: Counter[str] = Counter()
    value = {"run": {key: [{"type": "text", "text": ANSWER}, {"type": "image", "data": PNG}], "thinking": THOUGHT}}
    assert text_in(value, "answer", left_out=counts) == ANSWER
    assert counts == {"image": 1, "reasoning": 1}


def test_documents_under_the_key_of_an_answer_are_no_answer() -> None:
    documents = [{"text": ANSWER}, {"text": "The filter is cleaned."}]
    assert text_in({"result": documents}, "answer") is None
    assert text_in({"result": documents, "message": ANSWER}, "answer") == ANSWER


def test_lists_of_up_to_twice_as_many_items_as_documents_are_read_and_longer_ones_refused() -> None:
    texts = [f"Text {place} of the pump." for place in range(1_001)]
    assert [document.text for document in documents_in(texts[:-1]) or ()] == texts[:-1]
    with pytest.raises(UnreadableError, match="1,001"):
        documents_in(texts)


def test_a_printed_value_of_more_calls_than_text_is_refused_and_one_of_honest_density_is_read() -> None:
    with pytest.raises(UnreadableError):
        text_in(f"f(x=[{'f(x=1),' * 10_000}])", "answer")
    parts = ", ".join(["TextBlock(text='The pump ', type='text')"] * 3_000)
    assert text_in(f"Message(role='assistant', content=[{parts}])", "answer") == ("The pump " * 3_000).strip()
