"""A model of shared fields is the model that all its fields, checked again, would give."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError
from tests.support.models import INTERACTION

from ragtide import MetricEvent, RagInteraction

GIVEN: dict[str, Any] = {
    "labeler": "mine", "labeler_version": "1", "profile": "p", "labeled_at": datetime(2026, 1, 1, tzinfo=UTC),
    "scores": {"trace.adherence": 1},
}  # fmt: skip


@given(INTERACTION)
def test_it_equals_the_validated_model_to_the_byte(interaction: RagInteraction) -> None:
    event = MetricEvent.of_shared(interaction, GIVEN)
    validated = MetricEvent.model_validate({**interaction.shared_with(MetricEvent), **GIVEN})
    assert event == validated
    assert event.encode() == validated.encode()
    assert event.model_fields_set == validated.model_fields_set
    assert event.model_copy(update={"labeler": "other"}).model_fields_set == validated.model_fields_set


@pytest.mark.parametrize(
    "wrong", [{"scores": {"trace.adherence": float("nan")}}, {"labeler": ""}, {"absent": {"a b\n": "x"}}]
)
def test_a_given_value_that_breaks_the_contract_is_refused(wrong: dict[str, Any]) -> None:
    interaction = RagInteraction(pipeline="shop", question="q", documents=(), response="r")
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        MetricEvent.of_shared(interaction, {**GIVEN, **wrong})


def test_defaults_are_not_shared_between_models() -> None:
    interaction = RagInteraction(pipeline="shop", question="q", documents=(), response="r")
    first, second = (MetricEvent.of_shared(interaction, GIVEN) for _ in range(2))
    assert first.absent is not second.absent


def test_a_required_field_that_nobody_gives_is_a_mistake_of_the_caller() -> None:
    interaction = RagInteraction(pipeline="shop", question="q", documents=(), response="r")
    with pytest.raises(TypeError, match="labeled_at"):
        MetricEvent.of_shared(interaction, {name: value for name, value in GIVEN.items() if name != "labeled_at"})
    with pytest.raises(TypeError, match="rules about several fields"):
        RagInteraction.of_shared(interaction, {"question": "q"})
