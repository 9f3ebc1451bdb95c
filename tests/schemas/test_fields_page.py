"""The pages of the fields that users fill in: their examples are valid, and they show bounds."""

from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError
from tests.support.cases import for_each
from tools.pages.fields import EXAMPLES, interaction_page, labels_part

from ragtide_schemas import RagInteraction
from ragtide_schemas.base import WireModel


def adapter(model: type[WireModel], name: str) -> TypeAdapter[Any]:
    field = model.model_fields[name]
    return TypeAdapter(Annotated[field.annotation, field])  # type: ignore[arg-type]


@for_each("model", EXAMPLES)
def test_every_field_has_an_example_that_is_valid(model: type[WireModel]) -> None:
    assert EXAMPLES[model].keys() == model.model_fields.keys()
    for name, example in EXAMPLES[model].items():
        adapter(model, name).validate_python(example)


def test_an_example_beyond_a_bound_would_be_refused() -> None:
    with pytest.raises(ValidationError):
        adapter(RagInteraction, "segments").validate_python({str(number): "x" for number in range(17)})


def test_a_row_says_type_bounds_and_default() -> None:
    page = interaction_page()
    assert "| `pipeline` | text, 1 to 200 characters, **required** |" in page
    assert "| `segments` | object of text, 1 to 200 characters, at most 16 entries |" in page
    assert "| `learn_n` | whole number, 20 to 1e+12, default `200` |" in page
    assert "| `season` | `day` or `week` |" in page
    assert "| `baseline_spread` | number above 0 |" in page
    assert "| `fully_supported` | object of true or false |" in labels_part()
