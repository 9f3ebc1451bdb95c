"""Criteria: what a user may write, the metric that it becomes, and its version."""

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.cases import for_each

from ragtide_schemas.criterion import BUILT_IN, Criterion, built_in_criteria
from ragtide_schemas.metrics import Direction

pytestmark = pytest.mark.pure

ASKS_BACK: dict[str, Any] = {
    "name": "asks_back",
    "question": "Does the response ask a clarifying question?",
    "scale": "yes_no",
}


def criterion(**fields: Any) -> Criterion:
    return Criterion.model_validate({**ASKS_BACK, **fields})


def test_a_criterion_is_a_metric_with_the_range_of_its_answers() -> None:
    own = criterion(scale=None, values={"good": 10, "bad": -2}, direction="lower")
    assert (own.metric, own.lower, own.upper) == ("criteria.asks_back", -2.0, 10.0)
    assert own.definition().direction is Direction.LOWER
    assert own.declaration().measure.version == own.version
    assert dict(criterion(scale="1-5").answers) == {"1": 1.0, "2": 2.0, "3": 3.0, "4": 4.0, "5": 5.0}


@for_each(
    "change",
    [
        {"question": "Does the response ask for more?"},
        {"scale": "1-5"},
        {"scale": None, "values": {"yes": 1.0, "no": 0.5}},
        {"needs": ["response"]},
        {"unit": "session"},
    ],
)
def test_whatever_changes_the_answer_changes_the_version(change: dict[str, Any]) -> None:
    assert criterion(**change).version != criterion().version


@for_each("change", [{"rate": 0.5}, {"pipelines": ["shop*"]}, {"segments": {"lang": ["de"]}}, {"name": "other"}])
def test_where_a_question_is_asked_does_not_change_the_version(change: dict[str, Any]) -> None:
    assert criterion(**change).version == criterion().version


def test_the_layout_of_a_question_does_not_change_the_version() -> None:
    assert criterion(question="Does the response\n  ask a clarifying question?").version == criterion().version


@for_each(
    "fields, named",
    [
        ({"scale": None}, "scale"),
        ({"values": {"a": 1, "b": 0}}, "values"),
        ({"scale": None, "values": {"a": 1}}, "values"),
        ({"scale": None, "values": {"a": 1, "A ": 0}}, "values"),
        ({"scale": None, "values": {"a": 1, "b": 1}}, "values"),
        ({"scale": None, "values": {"a": 1, "Cannot tell": 0}}, "values"),
        ({"name": "Asks"}, "name"),
        ({"name": "answer.relevance"}, "answer.relevance"),
        ({"name": "answer.relevance", "question": BUILT_IN["answer.relevance"]["question"]}, "scale"),
        ({"question": " "}, "question"),
        ({"question": "x" * 1001}, "question"),
        ({"question": "evil\u202e"}, "question"),
        ({"needs": ["question", "question"]}, "needs"),
        ({"needs": ["answer"]}, "needs"),
        ({"rate": 0}, "rate"),
        ({"ratee": 0.5}, "ratee"),
        ({"pipelines": []}, "pipelines"),
        ({"bands": {"minimum": 0.9, "good": 0.7, "excellent": 0.5}}, "minimum <= good <= excellent"),
        ({"bands": {"minimum": 0.5, "good": 0.7, "excellent": 1.5}}, "between 0 and 1"),
        ({"bands": {"minimum": 0.5, "good": float("nan"), "excellent": 1}}, "bands"),
        (
            {"direction": "lower", "bands": {"minimum": 0.5, "good": 0.7, "excellent": 0.9}},
            "minimum >= good >= excellent",
        ),
        ({"direction": "neither", "bands": {"minimum": 0.5, "good": 0.7, "excellent": 0.9}}, "no better or worse"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        criterion(**fields)


def test_a_built_in_criterion_brings_its_question_and_survives_storage() -> None:
    for built_in in built_in_criteria():
        assert built_in.metric == built_in.name
        assert Criterion.model_validate_json(built_in.model_dump_json()) == built_in
        again = Criterion.model_validate({"name": built_in.name, "rate": 0.1, "pipelines": ["shop"]})
        assert (again.version, again.rate) == (built_in.version, 0.1)


def test_an_interaction_needs_one_value_of_each_segment() -> None:
    of_shops = criterion(pipelines=["shop*"], segments={"lang": ["de", "en"], "tier": ["paid"]})
    assert of_shops.applies("shop-v2", {"lang": "en", "tier": "paid", "other": "x"})
    assert not of_shops.applies("docs", {"lang": "en", "tier": "paid"})
    assert not of_shops.applies("shop", {"lang": "fr", "tier": "paid"})
    assert not of_shops.applies("shop", {"lang": "de"})
