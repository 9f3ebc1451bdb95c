"""Time, tokens and cost of a traced answer: what the spans state without doubt, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.producers.traces.test_captures import NAMES, mapped, spans
from tests.producers.traces.test_costs import GENAI, OPENINFERENCE, interaction
from tests.support.cases import for_each
from tests.support.traces import START_NS, STEP_NS, branch
from tests.support.traces import spans as spans_of

from ragtide_producers.ingest.telemetry import IngestTelemetry
from ragtide_producers.traces.interactions import interactions_of
from ragtide_producers.traces.span import Span
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_schemas import AnswerUsage, RagInteraction
from ragtide_schemas.limits import TOKENS_MAX

pytestmark = pytest.mark.pure
OPTIONS = IngestSettings()


def usage(found: RagInteraction) -> AnswerUsage:
    assert found.usage is not None
    return found.usage


@for_each("name", NAMES)
def test_a_capture_has_times_and_tokens_and_no_second_place_for_them(name: str) -> None:
    found_items = mapped(spans(name))
    assert any(item.interaction and usage(item.interaction).prompt_tokens for item in found_items)
    for item in found_items:
        assert item.interaction is not None
        found = usage(item.interaction)
        assert found.latency_s is not None
        assert found.retrieval_latency_s is not None
        assert 0 < found.retrieval_latency_s <= found.latency_s
        assert (found.prompt_tokens is None) == (found.completion_tokens is None)
        assert item.interaction.metadata.keys() & {*AnswerUsage.model_fields, "input_tokens", "retrieval_s"} == set()


@for_each("name", NAMES)
def test_the_usage_of_a_capture_is_counted_once_whatever_the_order_of_its_spans(name: str) -> None:
    usages = [
        {item.interaction_id: item.interaction and item.interaction.usage for item in mapped(found)}
        for found in _orders(name)
    ]
    assert usages[0] == usages[1]


def _orders(name: str) -> tuple[list[Span], list[Span]]:
    found = spans(name)
    return found, sorted(found, key=lambda span: (span.trace_id, span.span_id))


def test_tokens_are_sums_over_all_calls_and_absent_if_one_call_does_not_state_them() -> None:
    both = usage(interaction(OPENINFERENCE, GENAI))
    assert (both.prompt_tokens, both.completion_tokens) == (4000, 2000)
    silent = {"openinference.span.kind": "LLM", "output.value": "A drink."}
    negative, unknown = {**GENAI, "gen_ai.usage.output_tokens": -1}, {**GENAI, "gen_ai.usage.input_tokens": 0}
    for calls in ([silent], [OPENINFERENCE, silent], [OPENINFERENCE, negative], [OPENINFERENCE, unknown]):
        some = usage(interaction(*calls))
        assert (some.prompt_tokens, some.completion_tokens, some.cost_usd) == (None, None, None)


@for_each("name", ["OpenAILike._prepare_chat_with_tools", "OpenAILike.achat"])
def test_a_span_that_only_prepares_a_call_hides_no_tokens(name: str) -> None:
    """LlamaIndex gives the writing of a request the role of a model; a call without tokens still hides the sum."""
    prepared = branch(name, {"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o-mini", "output.value": "{}"})
    root = branch("answer", CHAIN, branch("search", SEARCH), prepared, branch("call", OPENINFERENCE))
    (found,) = interactions_of(spans_of(root), IngestSettings())
    assert found.interaction is not None, found.detail
    assert usage(found.interaction).prompt_tokens == (2000 if name.endswith("prepare_chat_with_tools") else None)


def test_more_tokens_than_any_answer_has_are_left_out_and_the_interaction_stays() -> None:
    much = {**OPENINFERENCE, "llm.token_count.prompt": TOKENS_MAX, "llm.cost.total": 1.0}
    found = usage(interaction(much, much))
    assert (found.prompt_tokens, found.completion_tokens, found.cost_usd) == (None, None, 2.0)


SEARCH = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "Tea is a drink."}
CHAIN = {"openinference.span.kind": "CHAIN", "input.value": "What is tea?", "output.value": "A drink."}


def traced(
    times: list[tuple[int, int]], chain: tuple[int, int] = (0, 100), own: dict[str, Any] | None = None
) -> RagInteraction:
    """Return an interaction with retrievals at these seconds, a call at 50 to 60, and a chain around them."""
    searches = [branch("search", SEARCH, start_ns=at(start), end_ns=at(end)) for start, end in times]
    call = branch("call", OPENINFERENCE, start_ns=at(50), end_ns=at(60))
    root = branch("answer", {**CHAIN, **(own or {})}, *searches, call, start_ns=at(chain[0]), end_ns=at(chain[1]))
    (found,) = interactions_of(spans_of(root), IngestSettings())
    assert found.interaction is not None, found.detail
    return found.interaction


def at(second: int) -> int:
    return START_NS + second * STEP_NS


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=6))
def test_the_time_of_retrieval_is_the_seconds_with_at_least_one_retriever(places: list[tuple[int, int]]) -> None:
    times = [(start, start + length) for start, length in places]
    seconds = {second for start, end in times for second in range(start, end)}
    assert usage(traced(times)).retrieval_latency_s == len(seconds)


def test_the_latency_is_that_of_the_span_of_the_question() -> None:
    assert usage(traced([(1, 3)], (0, 70))).latency_s == 70


@for_each("chain", [(70, 0), (0, 0), (0, 100_000)])
def test_a_duration_that_no_answer_has_is_left_out_and_the_interaction_stays(chain: tuple[int, int]) -> None:
    found = usage(traced([(1, 3)], chain))
    assert (found.latency_s, found.retrieval_latency_s, found.prompt_tokens) == (None, 2, 2000)


def test_explicit_attributes_replace_what_the_spans_say() -> None:
    own = {"ragtide.usage.latency_s": 0.5, "ragtide.usage.cost_usd": 0.25}
    found = usage(traced([(1, 3)], own=own))
    assert (found.latency_s, found.cost_usd, found.retrieval_latency_s) == (0.5, 0.25, 2)


SIDE = {
    "ragtide.usage.latency_s": (-1, "fast", True),
    "ragtide.turn": ("third", -1, 0.5),
    "ragtide.segments.lang": ("x" * 300, "\x00", ("a", "b")),
    "gen_ai.response.model": ("m" * 70_000,),
}


@for_each("name, value", [(name, value) for name, values in SIDE.items() for value in values])
def test_a_side_value_that_cannot_be_read_is_left_out_by_name(name: str, value: Any) -> None:
    call = branch("c", {**GENAI, name: value} if name.startswith("gen_ai") else GENAI)
    own = {} if name.startswith("gen_ai") else {name: value}
    (found,) = interactions_of(spans_of(branch("answer", {**CHAIN, **own}, branch("search", SEARCH), call)), OPTIONS)
    assert found.interaction is not None
    assert list(found.interaction.left_out) == [
        "metadata.model" if name.startswith("gen_ai") else name.removeprefix("ragtide.")
    ]
    assert found.interaction.response == "A drink."
    process = ProcessTelemetry()
    IngestTelemetry(process).assembled([found.interaction])
    field = {"field": next(iter(found.interaction.left_out)).partition(".")[0]}
    assert process.registry.get_sample_value("ragtide_ingest_left_out_values_total", field) == 1


@for_each("session", ["s" * 300, "a\nb", 7])
def test_an_id_of_a_session_that_is_no_name_stays_one_id(session: Any) -> None:
    roots = [branch("answer", {**CHAIN, "session.id": session}, branch("search", SEARCH), branch("c", GENAI))] * 2
    found = [interactions_of(spans_of(root), OPTIONS)[0].interaction for root in roots]
    assert len({item and item.session_id for item in found}) == 1
    assert all(item and item.session_id and not item.left_out for item in found)


def test_a_cut_side_value_costs_nothing_else() -> None:
    cut = {"langfuse.observation.type": "generation", "langfuse.observation.cost_details": '{"total": 0.1, "inp'}
    (found,) = interactions_of(
        spans_of(branch("answer", CHAIN, branch("search", SEARCH), branch("c", {**GENAI, **cut}))), OPTIONS
    )
    assert found.interaction is not None


def test_a_turn_of_a_conversation_below_one_span_has_no_time_of_the_others() -> None:
    alone = usage(traced([(1, 3)]))
    parts = spans_of(branch("answer", CHAIN, branch("search", SEARCH), branch("call", OPENINFERENCE)))
    without_root = [replace(span, parent_id="f" * 16) for span in parts if span.name != "answer"]
    assert alone.latency_s == 100
    for item in interactions_of(without_root, IngestSettings()):
        assert item.interaction is None or usage(item.interaction).latency_s == 3
