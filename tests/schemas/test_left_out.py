"""An optional field that is null, or a blank text that it does not allow, is the field left out."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import ValidationError
from tools.pages.fields import EXAMPLES

import ragtide_consumers
import ragtide_offline
import ragtide_producers
import ragtide_schemas
import ragtide_web
from ragtide import Feedback, InvalidEntryError, MetricEvent, RagInteraction, RetrievedDocument
from ragtide_schemas import AlertRule
from ragtide_schemas.base import WireModel, is_left_out

GOOD: dict[str, Any] = {"pipeline": "shop", "question": "q", "documents": [{"text": "d"}], "response": "r"}
ID, TIME = "1700000000123-0", "2026-11-22T18:00:00Z"


def models(base: type[WireModel] = WireModel) -> Iterator[type[WireModel]]:
    """Every wire model of every component."""
    if base is WireModel:
        for package in (ragtide_schemas, ragtide_producers, ragtide_consumers, ragtide_offline, ragtide_web):
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                if "__main__" not in module.name:
                    importlib.import_module(module.name)
    for model in base.__subclasses__():
        yield model
        yield from models(model)


NEEDED: dict[type[WireModel], str] = {AlertRule: "metric"}
"""Optional fields that an example needs: a rule has a metric, or else a covariate."""


def required(model: type[WireModel]) -> dict[str, Any]:
    """Examples of the required fields; nothing for a model without examples."""
    fields = model.model_fields
    return {
        name: value
        for name, value in EXAMPLES.get(model, {}).items()
        if fields[name].is_required() or name == NEEDED.get(model)
    }


def outcome(model: type[WireModel], fields: dict[str, Any]) -> Any:
    """The values of a model without those that differ each time, or the errors."""
    try:
        found = model.model_validate(fields)
    except ValidationError as error:
        return [(detail["loc"], detail["type"]) for detail in error.errors(include_url=False)]
    factories = {name for name, field in model.model_fields.items() if field.default_factory and name not in fields}
    return found.model_dump(exclude=factories)


def test_in_every_wire_model_a_null_in_an_optional_field_is_the_field_left_out() -> None:
    seen = 0
    for model in dict.fromkeys(models()):
        full = {
            name: value for name, value in EXAMPLES.get(model, {}).items() if model.model_fields[name].is_required()
        }
        for name, field in model.model_fields.items():
            if not field.is_required():
                seen += 1
                without = outcome(model, full)
                if isinstance(without, dict):
                    without.pop(name, None) if field.default_factory else None
                found = outcome(model, {**full, name: None})
                if isinstance(found, dict) and field.default_factory:
                    assert found.pop(name, None) is not None
                assert found == without, (model, name)
    assert seen > 250


@pytest.mark.parametrize("blank", [None, "", "  \t\n"])
def test_each_optional_field_may_be_null_or_blank_on_every_way_into_a_model(blank: str | None) -> None:
    for model, example in EXAMPLES.items():
        for name in example.keys() - required(model).keys():
            fields = {**required(model), name: blank}
            made = [model(**fields), model.model_validate(fields), model.from_fields(fields)]
            for found in made:
                value = getattr(found, name)
                default = model.model_fields[name].get_default(call_default_factory=True)
                times_and_ids = ("interaction_id", "occurred_at", "given_at")
                assert value == default or name in times_and_ids or is_left_out(value), (model, name, value)


def test_nulls_in_documents_turns_segments_and_gold_scores_are_left_out_and_metadata_keep_theirs() -> None:
    found = RagInteraction.from_fields(
        {
            **GOOD,
            "documents": [
                {"id": None, "text": "a", "score": None, "metadata": None, "sentences": None},
                {"id": "", "text": "b", "score": "", "metadata": ""},
            ],
            "history": [{"question": "Is it old?", "response": None}],
            "segments": {"lang": None, "plan": "", "team": "a"},
            "gold_scores": {"trace.adherence": None, "trace.completeness": 0.5},
            "covariates": {"difficulty": None},
            "metadata": {"lang": None},
        }
    )
    assert found.documents == (RetrievedDocument(text="a"), RetrievedDocument(text="b"))
    assert found.history is not None
    assert found.history[0].response == ""
    assert (found.segments, found.gold_scores, found.covariates) == ({"team": "a"}, {"trace.completeness": 0.5}, None)
    assert found.metadata == {"lang": None}


def test_an_entry_with_a_null_id_and_time_has_those_of_the_stream() -> None:
    payload = b'{"pipeline":"p","question":"q","documents":[],"response":"r","interaction_id":%s,"occurred_at":%s}'
    wanted = RagInteraction.from_entry(ID, payload.replace(b',"interaction_id":%s,"occurred_at":%s', b""))
    for blank in (b"null", b'""', b'" "'):
        assert RagInteraction.from_entry(ID, payload % (blank, blank)) == wanted
    assert RagInteraction.from_entry(ID, payload % (b"null", b'"0001-01-01T00:00:00Z"')) == wanted


def test_a_null_in_a_required_field_is_refused_by_name_and_so_is_an_unknown_field() -> None:
    for name in GOOD:
        with pytest.raises(InvalidEntryError, match=name):
            RagInteraction.from_fields({**GOOD, name: None})
    with pytest.raises(InvalidEntryError, match="latency_ms is not a field"):
        RagInteraction.from_fields({**GOOD, "latency_ms": None, "turn": None})
    with pytest.raises(InvalidEntryError, match="gold_scores"):
        Feedback.from_fields({"pipeline": "p", "interaction_id": "i", "gold_scores": {"trace.adherence": None}})
    with pytest.raises(InvalidEntryError, match=r"documents\.1\.text"):
        RagInteraction.from_fields({**GOOD, "documents": [{"text": "a"}, {"text": None, "id": None}]})


def test_json_schemas_allow_a_null_where_it_is_taken_and_nowhere_else() -> None:
    for model in (RagInteraction, Feedback, MetricEvent, AlertRule, RetrievedDocument):
        schema = model.model_json_schema()
        for name, field in model.model_fields.items():
            kinds = [kind.get("type") for kind in schema["properties"][name].get("anyOf", [])]
            nullable = type(None) in get_args(field.annotation)
            assert ("null" in kinds) is (not field.is_required() or nullable), (model, name)
