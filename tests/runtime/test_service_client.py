"""The client of the HTTP service: it reads the answers of a later release, whose records have fields that it lacks."""

from collections.abc import Iterator
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import AwareDatetime, BaseModel, TypeAdapter
from pydantic_core import to_json
from tests.support.receiver import ScriptedAnswer, receiver

from ragtide_runtime.service_client import ServiceClient, ServiceError, ServiceNames
from ragtide_schemas import Alert, Estimate, InvalidEntryError
from ragtide_schemas.base import AnswerModel, WireModel
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.details import AlertDetails

NEW = "field_of_a_later_release"
FITTING = {
    "decided_by": "trace.adherence",
    "metric": "trace.adherence",
    "segment": "lang=de",
    "range": "24h",
}
"""Values of fields whose form their type does not say."""
ON_A_SCALE = {"scale": "yes_no", "values": None, "bands": None}


def subclasses(model: type[WireModel]) -> Iterator[type[WireModel]]:
    for kind in model.__subclasses__():
        yield kind
        yield from subclasses(kind)


STREAMED: tuple[type[WireModel], ...] = (Alert, Criterion, Estimate)
"""Records of answers that are entries of streams, or bodies of requests, too."""
ANSWERS: list[type[WireModel]] = [*subclasses(AnswerModel), *STREAMED]


def sample(kind: Any) -> Any:
    """Return a JSON value of a type, in which every object has a field more."""
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fixed = {**FITTING, **(ON_A_SCALE if kind is Criterion else {})}
        fields = {
            name: fixed[name] if name in fixed else sample(of.annotation) for name, of in kind.model_fields.items()
        }
        return {**fields, NEW: {"of": [1]}}
    if origin in (Annotated, Union, UnionType):
        return sample(next(part for part in parts if part is not NoneType))
    if origin is Literal:
        return parts[0]
    if origin in (tuple, dict):
        values = [sample(part) for part in parts if part is not ...]
        return {"name": values[1]} if origin is dict else values
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind)).value
    return {str: "some", float: 0.5, int: 1, bool: False, AwareDatetime: "2026-01-02T03:04:05Z"}[kind]


def without_new(value: Any) -> Any:
    """Return a JSON value without the fields of the later release."""
    if isinstance(value, list):
        return [without_new(part) for part in value]
    if isinstance(value, dict):
        return {name: without_new(part) for name, part in value.items() if name != NEW}
    return value


async def test_answers_with_a_field_more_at_every_level_are_read() -> None:
    refused = []
    async with (
        receiver() as service,
        ServiceClient(service.url, None, ServiceNames("the address", "the token"), timeout_s=10) as client,
    ):
        for model in ANSWERS:
            answer = sample(model)
            service.usual = ScriptedAnswer(body=to_json(answer))
            try:
                found = await client.get("/v1/answer", TypeAdapter(model))
            except ServiceError:
                refused.append(model.__name__)
            else:
                assert found == model.model_validate(without_new(answer))
    assert refused == []
    assert AlertDetails in ANSWERS


@pytest.mark.parametrize("model", STREAMED)
def test_an_entry_of_a_stream_with_a_field_more_is_refused(model: type[WireModel]) -> None:
    fields = {**without_new(sample(model)), NEW: 1}
    with pytest.raises(InvalidEntryError, match=f"{NEW} is not a field of this schema"):
        model.from_fields(fields)
