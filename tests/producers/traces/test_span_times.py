"""Times of spans: whatever unit a sender counts, no interaction is of 1970, and its latency is right."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from ragtide_producers.errors import InvalidTracesError
from ragtide_producers.traces.interactions import Mapped, Refusal, interactions_of
from ragtide_producers.traces.otlp import decode_request, spans_of
from ragtide_producers.traces.span import Span
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_schemas.times import PER_SECOND

pytestmark = pytest.mark.pure

START_S = 1_760_000_000
START = datetime.fromtimestamp(START_S, UTC)
OWN = {"ragtide.question": "How?", "ragtide.documents": "So.", "ragtide.response": "So."}


def request_of(start: Any, end: Any, **fields: Any) -> bytes:
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in OWN.items()]
    span = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": "ask",
        "startTimeUnixNano": start,
        "endTimeUnixNano": end,
        "attributes": attributes,
        **fields,
    }
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def found_in(body: bytes) -> Mapped:
    (found,) = interactions_of(spans_of(decode_request(body, "json")), IngestSettings(default_pipeline="shop"))
    return found


@given(st.sampled_from(list(PER_SECOND)), st.sampled_from(list(PER_SECOND)), st.integers(1, 80_000), st.booleans())
def test_times_in_any_unit_give_the_same_time_and_latency(of_start: str, of_end: str, took_s: int, texts: bool) -> None:
    times = [START_S * PER_SECOND[of_start], (START_S + took_s) * PER_SECOND[of_end]]
    found = found_in(request_of(*(map(str, times) if texts else times))).interaction
    assert found is not None
    assert found.usage is not None
    assert (found.occurred_at, found.usage.latency_s) == (START + timedelta(seconds=took_s), took_s)
    others = {of_start, of_end} - {"nanoseconds"}
    assert ("time_unit" in found.metadata) is bool(others)
    assert not others or found.metadata["time_unit"] in others


@given(st.integers(0, 3_000_000_000), st.booleans())
def test_halves_of_a_number_are_read_with_or_without_a_sign(after_ns: int, signed: bool) -> None:
    def halves(number: int) -> dict[str, Any]:
        low = number & 0xFFFF_FFFF
        return {"low": low - (1 << 32) if signed and low >> 31 else low, "high": number >> 32, "unsigned": True}

    start, end = START_S * 10**9, START_S * 10**9 + after_ns
    (span,) = spans_of(decode_request(request_of(halves(start), halves(end)), "json"))
    assert (span.start_ns, span.end_ns) == (start, end)


@for_each("seconds", [0, 5, 1_000, 10**6, 86_400 * 365 * 20, (datetime.now(UTC) + timedelta(days=3)).timestamp()])
def test_a_time_before_2000_or_after_tomorrow_is_refused_by_name(seconds: float) -> None:
    found = found_in(request_of(0, int(seconds * 1e9)))
    assert (found.interaction, found.refusal) == (None, Refusal.INVALID)
    assert "occurred_at" in found.detail


@for_each("unset", [0, "0", "", None, 12_345])
def test_a_start_that_is_not_set_costs_the_latency_only(unset: Any) -> None:
    found = found_in(request_of(unset, START_S * 10**9)).interaction
    assert found is not None
    assert (found.occurred_at, found.usage) == (START, None)


@for_each("time", ["2025-10-09T08:53:20Z", -1, 1 << 64, 1.5, {"seconds": 1}, [1], "9" * 5000])
def test_a_time_that_is_no_number_is_refused_by_name(time: Any) -> None:
    with pytest.raises(InvalidTracesError, match="startTimeUnixNano is"):
        decode_request(request_of(time, START_S * 10**9), "json")


@for_each("time", ["2025-10-09T08:53:20Z", {"low": 1, "high": 2}, None])
def test_times_of_events_do_not_matter(time: Any) -> None:
    event = {"name": "x", "timeUnixNano": time}
    assert found_in(request_of(START_S, START_S + 1, events=[event])).interaction is not None


HOSTS = {"retrieve": "app", "call": "app", "server": "models", "model": "models"}
QUESTION, TEXT, ANSWER = "How often?", "The pump is serviced every 6 months.", "Every 6 months."


def spans_with(behind_ns: int, *, of_client: bool, answered: str | None) -> list[Span]:
    """Return a trace in which the clock of the model's host is behind.

    Args:
        behind_ns: by so many nanoseconds.
        of_client: whether a span of the application is around the call of the model.
        answered: output of the whole.
    """

    def span(number: int, parent: int, name: str, start: int, end: int, **attributes: Any) -> Span:
        late = behind_ns if HOSTS.get(name) == "models" else 0
        from_ns, until_ns = (START_S * 10**9 + at * 10**7 - late for at in (start, end))
        above = f"{parent:016x}" if parent else None
        named = {key.replace("__", "."): value for key, value in attributes.items() if value}
        resource = {"service.name": HOSTS.get(name, "app")}
        return Span("ab" * 16, f"{number:016x}", above, name, from_ns, until_ns, named, resource)

    kind = "openinference__span__kind"
    found = [
        span(1, 0, "ask", 0, 25, **{kind: "CHAIN", "input__value": QUESTION, "output__value": answered}),
        span(2, 1, "retrieve", 5, 10, **{kind: "RETRIEVER", "retrieval__documents__0__document__content": TEXT}),
        span(4, 3 if of_client else 1, "server", 14, 21),
        span(5, 4 if of_client else 1, "model", 15, 20, **{kind: "LLM", "output__value": ANSWER}),
    ]
    return [*found, span(3, 1, "call", 13, 22)] if of_client else found


@given(st.integers(0, 9 * 10**7) | st.integers(2 * 10**8, 3 * 10**10), st.booleans(), st.sampled_from([None, ANSWER]))
def test_a_clock_that_is_behind_on_the_models_host_costs_no_interaction(
    behind_ns: int, of_client: bool, answered: str | None
) -> None:
    spans = spans_with(behind_ns, of_client=of_client, answered=answered)
    found = [mapped.interaction for mapped in interactions_of(spans, IngestSettings())]
    decided = of_client or answered or behind_ns < 10**8
    assert [item and (item.question, item.response) for item in found] == [(QUESTION, ANSWER)] * bool(decided)
    if found:
        assert found[0] is not None
        assert found[0].usage is not None
        assert found[0].usage.latency_s == pytest.approx(0.25)


def test_a_call_before_the_retrieval_that_wrote_another_text_is_no_answer() -> None:
    assert interactions_of(spans_with(10**9, of_client=False, answered="Another text."), IngestSettings()) == []
