"""The cost of the model calls of a traced interaction: told, computed, or absent with a reason."""

import sys
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.traces import branch, spans

from ragtide_producers.ingest.telemetry import IngestTelemetry
from ragtide_producers.traces.interactions import interactions_of
from ragtide_runtime.calls.price_table import price_table
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_schemas import RagInteraction

pytestmark = pytest.mark.pure

OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.provider": "openai",
    "llm.model_name": "gpt-4o-mini-2024-07-18",
    "llm.token_count.prompt": 2000,
    "llm.token_count.completion": 1000,
}
GENAI = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "server.address": "api.openai.com",
    "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
    "gen_ai.usage.input_tokens": 2000,
    "gen_ai.usage.output_tokens": 1000,
}
LANGFUSE: dict[str, Any] = {
    "langfuse.observation.type": "generation",
    "langfuse.observation.model.name": "gpt-4o-mini",
    "langfuse.observation.usage_details": {"prompt_tokens": 2000, "completion_tokens": 1000, "total_tokens": 3000},
}
EXPECTED = (2000 * 0.15 + 1000 * 0.60) / 1e6


def interaction(*calls: Mapping[str, Any]) -> RagInteraction:
    """Return the interaction of a trace with these model calls."""
    retriever = branch(
        "search", {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "Tea is a drink."}
    )
    root = branch(
        "answer",
        {"openinference.span.kind": "CHAIN", "input.value": "What is tea?", "output.value": "A drink."},
        retriever,
        *(branch("call", call) for call in calls),
    )
    (mapped,) = interactions_of(spans(root), IngestSettings())
    assert mapped.interaction is not None, mapped.detail
    return mapped.interaction


def cost(*calls: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cost in the usage, and the metadata about it."""
    found = interaction(*calls)
    about = {key: value for key, value in found.metadata.items() if key.startswith("cost_")}
    usage = found.usage
    return about if usage is None or usage.cost_usd is None else {"cost_usd": usage.cost_usd, **about}


def table_name() -> str:
    table = price_table()
    assert table is not None
    return table.name


@for_each("call", [OPENINFERENCE, GENAI, LANGFUSE])
def test_tokens_and_a_known_model_give_a_cost_with_the_table_it_is_from(call: Mapping[str, Any]) -> None:
    assert cost(call) == {"cost_usd": pytest.approx(EXPECTED), "cost_source": table_name()}
    assert cost(call) == cost(call)


def test_the_calls_of_an_interaction_are_added_each_at_its_own_price() -> None:
    other = {**GENAI, "gen_ai.response.model": "gpt-4o"}
    assert cost(OPENINFERENCE, other)["cost_usd"] == pytest.approx(EXPECTED + (2000 * 2.5 + 1000 * 10) / 1e6)


def test_a_cost_that_the_trace_tells_is_not_computed() -> None:
    assert cost({**OPENINFERENCE, "llm.cost.total": 0.25}) == {"cost_usd": 0.25, "cost_source": "trace"}
    both = cost({**OPENINFERENCE, "llm.cost.total": 0.25}, OPENINFERENCE)
    assert both == {"cost_usd": pytest.approx(0.25 + EXPECTED), "cost_source": f"{table_name()}, trace"}


@for_each("told", [-1.0, float("nan"), float("inf"), 1e300, "much"])
def test_an_impossible_cost_is_not_taken(told: object) -> None:
    assert cost({**OPENINFERENCE, "llm.cost.total": told})["cost_usd"] == pytest.approx(EXPECTED)


def test_cached_tokens_cost_less() -> None:
    cached = {**GENAI, "gen_ai.usage.cache_read.input_tokens": 1000}
    assert cost(cached)["cost_usd"] == pytest.approx(EXPECTED - 1000 * 0.075 / 1e6)
    details = {**LANGFUSE["langfuse.observation.usage_details"], "prompt_tokens_details": {"cached_tokens": 1000}}
    assert cost({**LANGFUSE, "langfuse.observation.usage_details": details})["cost_usd"] == pytest.approx(
        EXPECTED - 1000 * 0.075 / 1e6
    )


ABSENT: list[tuple[str, Mapping[str, Any]]] = [
    ("unknown_model", {**OPENINFERENCE, "llm.model_name": "fake-gpt"}),
    ("unknown_model", {**OPENINFERENCE, "llm.provider": "ollama"}),
    ("unknown_model", {**OPENINFERENCE, "llm.model_name": "m" * 5000}),
    ("no_model", {key: value for key, value in OPENINFERENCE.items() if key != "llm.model_name"}),
    ("no_tokens", {key: value for key, value in OPENINFERENCE.items() if key != "llm.token_count.completion"}),
    ("no_tokens", {**OPENINFERENCE, "llm.token_count.prompt": -5}),
    ("no_tokens", {**OPENINFERENCE, "llm.token_count.prompt": 0, "llm.token_count.completion": 0}),
    ("no_tokens", {**OPENINFERENCE, "llm.token_count.prompt": float("nan")}),
    ("no_tokens", {**OPENINFERENCE, "llm.token_count.prompt": 1e12}),
    ("no_tokens", {**OPENINFERENCE, "llm.token_count.prompt_details.cache_read": 5000}),
    ("no_tokens", {**LANGFUSE, "langfuse.observation.usage_details": {"input": 5, "output": 5, "input_cached": 9}}),
    ("no_tokens", {**LANGFUSE, "langfuse.observation.usage_details": f'{{"prompt_tokens": 1{"0" * 400}}}'}),
    ("no_tokens", {**LANGFUSE, "langfuse.observation.usage_details": "[1, 2]"}),
]


@for_each("reason, call", ABSENT)
def test_an_unknown_cost_is_absent_with_a_reason_and_not_a_part_of_a_sum(reason: str, call: Mapping[str, Any]) -> None:
    assert cost(call) == {"cost_absent": reason}
    assert cost(OPENINFERENCE, call) == {"cost_absent": reason}


def test_calls_that_tell_nothing_have_no_cost_and_no_reason() -> None:
    assert cost({"openinference.span.kind": "LLM", "output.value": "A drink."}) == {}


def test_without_the_package_the_cost_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    price_table.cache_clear()
    try:
        assert cost(OPENINFERENCE) == {"cost_absent": "no_price_table"}
    finally:
        price_table.cache_clear()


def test_many_models_in_one_interaction_are_not_looked_up() -> None:
    calls = [{**OPENINFERENCE, "llm.model_name": f"gpt-none-{number}"} for number in range(100)]
    assert cost(*calls) == {"cost_absent": "unknown_model"}


def test_ingest_counts_interactions_by_the_source_of_their_cost() -> None:
    process = ProcessTelemetry()
    calls = [OPENINFERENCE, {**OPENINFERENCE, "llm.cost.total": 1}, ABSENT[0][1], {"openinference.span.kind": "LLM"}]
    IngestTelemetry(process).assembled(interaction(call) for call in calls)
    found = {
        source: process.registry.get_sample_value("ragtide_ingest_costs_total", {"source": source})
        for source in ("computed", "trace", "unknown_model")
    }
    assert found == {"computed": 1, "trace": 1, "unknown_model": 1}
