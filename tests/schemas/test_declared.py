"""Declarations of metrics on the wire."""

from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.metric_events import event

from ragtide import InvalidEntryError
from ragtide_schemas import (
    Direction,
    Kind,
    MetricDeclaration,
    MetricDefinition,
    MetricEvent,
    declaration_of,
    definition_of,
    range_of,
)
from ragtide_schemas.declared import DECLARED_MAX
from ragtide_schemas.metrics import Bands
from ragtide_schemas.step_metrics import (
    TOOL_QUANTITIES,
    StepMetric,
    ToolMetric,
    ToolQuantity,
    step_declaration,
    tool_declaration,
)


def decoded(**declared: Any) -> MetricEvent:
    fields = event(0, {"mine.words": 5.0}).model_dump(mode="json", exclude_none=True)
    return MetricEvent.from_fields({**fields, "declared": declared})


def test_an_event_that_declares_nothing_is_written_as_before() -> None:
    one = event(0, {"trace.adherence": 1.0})
    assert b"declared" not in one.encode()
    assert MetricEvent.decode(one.encode()) == one


def test_a_declaration_survives_the_wire_in_few_bytes() -> None:
    one = event(
        0, {"mine.words": 5.0}, declared={"mine.words": MetricDeclaration(lower=0, upper=1000, meaning="Words.")}
    )
    assert MetricEvent.decode(one.encode()) == one
    assert len(one.encode()) - len(event(0, {"mine.words": 5.0}).encode()) < 150


@for_each(
    "declared, said",
    [
        ({"trace.adherence": {"lower": 0, "upper": 5}}, "one of ragtide's own metrics"),
        ({"words": {"lower": 0, "upper": 5}}, "declared"),
        ({"mine.words": {"lower": 0}}, "upper is missing"),
        ({"mine.words": {"lower": 5, "upper": 5}}, "the smaller first"),
        ({"mine.words": {"lower": 0, "upper": 1e308}}, "choose another unit"),
        ({"mine.words": {"lower": -1e308, "upper": 1e308}}, "choose another unit"),
        ({"mine.words": {"lower": 0, "upper": 5e-324}}, "choose another unit"),
        ({"mine.words": {"lower": 0, "upper": 5, "edges": [3, 2]}}, "rising numbers"),
        ({"mine.words": {"lower": 0, "upper": 5, "meaning": "a\x1b[2Jb"}}, "meaning"),
        ({"mine.words": {"lower": 0, "upper": 5, "version": "a\nb"}}, "version"),
        (
            {"mine.words": {"lower": 0, "upper": 5, "bands": {"minimum": float("nan"), "good": 1, "excellent": 2}}},
            "ban",
        ),
        ({f"mine.m{number}": {"lower": 0, "upper": 5} for number in range(DECLARED_MAX + 1)}, "declared"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused_with_its_field(declared: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidEntryError, match=said):
        decoded(**declared)


def test_bands_of_ones_own_metric_are_in_the_order_of_quality() -> None:
    def declared(direction: Direction, *levels: float) -> MetricDeclaration:
        own = MetricDefinition("mine.words", 0, 10, direction, Kind.ALGEBRAIC, "", "us", bands=Bands(*levels))
        return declaration_of(own, "1")

    assert declared(Direction.HIGHER, 2, 5, 5).bands == Bands(2, 5, 5)
    assert declared(Direction.LOWER, 5, 2, 0).bands == Bands(5, 2, 0)
    for direction, levels in (
        (Direction.LOWER, (2, 5, 8)),
        (Direction.HIGHER, (2, 5, 11)),
        (Direction.NEITHER, (2, 5, 8)),
    ):
        with pytest.raises(ValueError, match=r"mine\.words"):
            declared(direction, *levels)


def test_a_definition_is_ragtides_own_or_declared_or_nothing() -> None:
    declared = {"mine.words": MetricDeclaration(version="2", lower=0, upper=1000)}
    found = definition_of("mine.words", declared)
    assert found is not None
    assert (found.name, found.upper) == ("mine.words", 1000.0)
    assert definition_of("mine.words", None) is None
    assert definition_of("trace.adherence", declared) is not None
    assert range_of("mine.words", declared["mine.words"].measure) == (0.0, 1000.0)
    assert range_of("trace.rmse_aggregation", None) == (0.0, 0.5)
    assert range_of("mine.words", None) == (0.0, 1.0)


def test_equal_measures_have_one_text() -> None:
    zero, minus_zero = (MetricDeclaration(lower=lower, upper=1).measure for lower in (0.0, -0.0))
    assert repr(zero) == repr(minus_zero)


@for_each("quantity", TOOL_QUANTITIES)
def test_a_metric_of_a_tool_has_a_name_that_is_read_back_and_is_none_of_a_step(quantity: ToolQuantity) -> None:
    metric = ToolMetric("search_orders", quantity)
    assert metric.name == f"tool.search_orders.{quantity}"
    assert ToolMetric.read(metric.name) == metric
    assert StepMetric.read(metric.name) is None
    declaration = tool_declaration(metric)
    assert declaration.version != step_declaration(StepMetric("search_orders", "relevance"), "retriever").version
    assert (declaration.lower, declaration.upper) == (0, {"calls": 64, "latency_s": 60}.get(quantity, 1))
    assert decoded(**{metric.name: declaration.model_dump(mode="json")}).declared == {metric.name: declaration}


@for_each("name", ["tool.search.mine", "tool.search.used", "agent.calls"])
def test_a_users_own_metric_cannot_take_a_name_of_tools_or_runs(name: str) -> None:
    definition = MetricDefinition(name, 0, 1, Direction.HIGHER, Kind.ALGEBRAIC, "Mine.", "us")
    with pytest.raises(ValueError, match="another name"):
        declaration_of(definition, "1")


def test_a_user_may_have_other_metrics_of_runs() -> None:
    definition = MetricDefinition("agent.politeness", 0, 1, Direction.HIGHER, Kind.ALGEBRAIC, "Mine.", "us")
    assert declaration_of(definition, "1").measure.direction is Direction.HIGHER
