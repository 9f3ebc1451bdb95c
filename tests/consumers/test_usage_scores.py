"""The numbers of an answer as scores of its event: what was given, within the range of its metric, and nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.consumers.judge.asking import TOWER
from tests.support.cases import for_each

from ragtide_consumers.labelers.event import USAGE_CLIPPED, metric_event
from ragtide_consumers.labelers.protocol import LabelerId, Labeling
from ragtide_schemas import METRICS, AnswerUsage, MetricEvent, RagInteraction, utc_now
from ragtide_schemas.limits import COST_MAX_USD, LATENCY_MAX_S, TOKENS_MAX
from ragtide_schemas.metric_definitions import USAGE

pytestmark = pytest.mark.pure

NUMBERS = {
    "latency_s": st.floats(0, LATENCY_MAX_S),
    "prompt_tokens": st.integers(0, TOKENS_MAX),
    "completion_tokens": st.integers(0, TOKENS_MAX),
    "cost_usd": st.floats(0, COST_MAX_USD),
    "retrieval_latency_s": st.floats(0, LATENCY_MAX_S),
}


def event_of(**changes: Any) -> MetricEvent:
    by = LabelerId("mine", "1", "own")
    interaction = RagInteraction.model_validate({**TOWER.model_dump(), **changes})
    return metric_event(interaction, by, Labeling({}), labeled_at=utc_now(), latency_s=0.0)


@given(st.fixed_dictionaries({}, optional=NUMBERS))
def test_each_number_that_was_given_is_a_score_in_range_and_no_other_is(given_numbers: dict[str, float]) -> None:
    found = event_of(usage=given_numbers)
    of_usage = {definition.name: field for field, definition in USAGE.items()}
    scores = {of_usage[name]: score for name, score in found.scores.items() if name in of_usage}
    assert scores == {field: min(number, USAGE[field].upper) for field, number in given_numbers.items()}
    assert found.absent == {}
    beyond = sum(number > USAGE[field].upper for field, number in given_numbers.items())
    assert found.counters == ({USAGE_CLIPPED: beyond} if beyond else {})
    assert MetricEvent.decode(found.encode()) == found


def test_every_field_of_the_usage_has_a_metric_of_ragtides_own() -> None:
    assert USAGE.keys() == AnswerUsage.model_fields.keys()
    assert {definition.name for definition in USAGE.values()} <= METRICS.keys()


@for_each("changes", [{"documents": ()}, {"response": " "}, {"documents": (), "response": ""}])
def test_an_empty_outcome_has_the_numbers_of_its_answer(changes: dict[str, Any]) -> None:
    found = event_of(**changes, usage={"latency_s": 2.5})
    assert found.scores["answer.latency_s"] == 2.5
    assert found.scores["retrieval.documents"] == (0 if "documents" in changes else len(TOWER.documents))


def test_an_interaction_without_usage_costs_no_byte_of_its_event_but_the_number_of_documents() -> None:
    assert b"answer." not in event_of().encode()
    assert b"latency_s" not in event_of().encode().replace(b'"latency_s":0.0', b"")
    assert b"usage" not in TOWER.encode()


@for_each("usage", [{"latency_s": -1}, {"cost_usd": float("nan")}, {"prompt_tokens": 1.5}, {"tokens": 3}])
def test_an_impossible_number_is_left_out_by_its_name(usage: dict[str, Any]) -> None:
    found = RagInteraction.from_fields({**TOWER.model_dump(), "usage": {**usage, "retrieval_latency_s": 0.5}})
    assert found.left_out == {f"usage.{next(iter(usage))}": 1}
    assert found.usage == AnswerUsage(retrieval_latency_s=0.5)


@for_each("usage", [None, {}, {"latency_s": None}, {"latency_s": 1.0, "cost_usd": None}])
def test_a_null_counts_as_not_given(usage: Any) -> None:
    found = event_of(usage=usage)
    assert found.scores.keys() & {definition.name for definition in USAGE.values()} == (
        {"answer.latency_s"} if usage and usage.get("latency_s") else set()
    )
