"""When an interaction of a stored trace is complete, as a function of the times at which its spans arrived."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from tests.support.wire_spans import rag, request, span
from tools.pages.constructions import CAPTURED, fixtures

from ragtide_producers.ingest.assembling import Assembly, assemble
from ragtide_producers.ingest.outcomes import INTERACTION
from ragtide_producers.ingest.stored_spans import StoredTrace, TraceSpans, fields_by_trace, joined_ids
from ragtide_producers.traces.interactions import Refusal
from ragtide_producers.traces.nothing import Cause
from ragtide_producers.traces.otlp import decode_request
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_runtime.telemetry.catalogue import TRACE_OUTCOMES
from ragtide_runtime.user_ids import AS_SENT

pytestmark = pytest.mark.pure

UNFINISHED = {"llamaindex/stream_left"}
"""Fixtures whose outermost span never came."""


def stored(
    spans: Sequence[WireSpan],
    arrivals: Mapping[int, int] | None = None,
    *,
    used: Sequence[str] = (),
    contents: Sequence[bytes] = (),
    pipelines: str = "",
) -> StoredTrace:
    """Return the spans as they would be read from Redis; a span arrives at 0 unless `arrivals` has its number."""
    ((trace,), _) = fields_by_trace(request(*spans))
    at = {number.to_bytes(8, "big"): ms for number, ms in (arrivals or {}).items()}
    values = {field: at.get(field, 0).to_bytes(6, "big") + value for field, value in trace.spans.items()}
    fields = {**trace.resources, **values, b"c": joined_ids(used), b"i": b"".join(contents), b"v": b"1"}
    return StoredTrace.of(trace.trace_id, {**fields, **({b"p": pipelines.encode()} if pipelines else {})})


def read(trace: StoredTrace, now_ms: int) -> Assembly:
    return assemble(trace, now_ms, IngestSettings(), AS_SENT)


@pytest.mark.parametrize(
    ("name", "spans", "complete_ms"),
    [
        ("a root", rag(), 2_000),
        ("a root whose parent is in another process", rag(parent=99, remote=True), 2_000),
        ("a parent of the same process that is missing", rag(parent=99), 30_000),
        ("a root that is missing", rag()[:2], 30_000),
        ("a chain above that has come", [*rag(parent=50), span(50, 60), span(60)], 2_000),
        ("a chain above with a gap", [*rag(parent=50), span(50, 60), span(70)], 30_000),
        ("a circle above", [*rag(parent=50), span(50, 60), span(60, 50)], 30_000),
        ("a span that is its own parent", rag(parent=1), 30_000),
    ],
)
def test_an_interaction_is_complete_once_the_spans_above_have_come(
    name: str, spans: list[WireSpan], complete_ms: int
) -> None:
    before = read(stored(spans), complete_ms - 1)
    assert (before.interactions, before.next_step, before.at_ms) == ([], "again", complete_ms), name
    after = read(stored(spans), complete_ms)
    assert [interaction.question for interaction in after.interactions] == ["Which tea?"], name
    assert after.next_step == "keep", name


def test_each_span_below_the_anchor_begins_the_settle_time_again() -> None:
    spans = [*rag(), span(9, 1)]
    assert read(stored(spans, {9: 1_500}), 3_499).at_ms == 3_500
    assert len(read(stored(spans, {9: 1_500}), 3_500).interactions) == 1


def test_a_span_elsewhere_in_the_trace_delays_nothing() -> None:
    spans = [*rag(parent=50), span(50), span(51, 50)]
    assert len(read(stored(spans, {51: 1_900}), 2_000).interactions) == 1


def test_after_the_hold_time_an_interaction_is_complete_although_spans_keep_coming() -> None:
    spans = [*rag(parent=99), span(9, 1)]
    assert read(stored(spans, {9: 599_000}), 599_999).interactions == []
    late = read(stored(spans, {9: 599_000}), 600_000)
    assert len(late.interactions) == 1
    assert sorted(late.expired) == [f"{number:016x}" for number in (1, 2, 3)]


def test_a_long_trace_yields_its_answers_before_its_root_has_come() -> None:
    """A chat, or a batch job, may be one trace of hours; the span above may also be an agent with the question."""
    spans = [*rag("one", answer="1", parent=90), *rag("two", answer="2", first=11, parent=90, start=10)]
    later = {11: 29_000, 12: 29_000, 13: 29_000}
    assert read(stored(spans, later), 30_000).interactions == []
    found = read(stored(spans, later), 59_000)
    assert [interaction.question for interaction in found.interactions] == ["one", "two"]
    going_on = {**dict.fromkeys(later, 590_000), 20: 599_000}
    held = read(stored([*spans, span(20, 90)], going_on), 600_000)
    assert [interaction.question for interaction in held.interactions] == ["one"]


def turns(session: Sequence[WireSpan] = ()) -> list[WireSpan]:
    """Return two turns below span 77: each a retrieval and a call with its question among the messages."""
    spans = [*rag("one", answer="1")[:2], *rag("two", answer="2", first=11, start=9)[:2]]
    for one in spans:
        one.parent_span_id = (77).to_bytes(8, "big")
    for call, question in ((spans[1], "one"), (spans[3], "two")):
        for key, text in (("content", question), ("role", "user")):
            call.attributes.add(key=f"llm.input_messages.0.message.{key}").value.string_value = text
    return [*spans, *session]


@pytest.mark.parametrize(
    ("name", "top", "complete_ms"),
    [
        ("it ended last", span(77, at=(0, 10)), 3_000),
        ("it is the top of its process", span(77, 99, at=(0, 10), remote=True), 3_000),
        ("it ended first: its calls go on, as those of a stream", span(77, at=(0, 9.5)), 31_000),
        ("it was sent at its beginning", span(77, at=(0, 0)), 31_000),
        ("a span above it is missing", span(77, 99, at=(0, 10)), 31_000),
    ],
)
def test_an_agent_without_a_question_is_complete_when_it_ended_and_its_spans_have_come(
    name: str, top: WireSpan, complete_ms: int
) -> None:
    trace = stored(turns([top]), {12: 1_000, 13: 1_000})
    assert (read(trace, 2_999).interactions, read(trace, complete_ms - 1).next_step) == ([], "again"), name
    assert [found.question for found in read(trace, complete_ms).interactions] == ["one", "two"], name


def test_an_agent_waits_for_the_spans_of_another_process() -> None:
    """Their exporter sends them at its own times."""
    own, other = request(*turns([span(77, at=(0, 10))])), request(span(30, 77, remote=True), service="search")
    own.resource_spans.extend(other.resource_spans)
    ((trace,), _) = fields_by_trace(own)
    values = {field: bytes(6) + value for field, value in trace.spans.items()}
    found = StoredTrace.of(trace.trace_id, {**trace.resources, **values, b"v": b"1"})
    assert (read(found, 29_999).interactions, len(read(found, 30_000).interactions)) == ([], 2)


def test_turns_below_a_session_that_has_not_ended_follow_each_other() -> None:
    session = turns()
    found = read(stored(session, {12: 20_000, 13: 20_000}), 30_000)
    assert [interaction.question for interaction in found.interactions] == ["one"]
    both = read(stored(session, {12: 20_000, 13: 20_000}, used=found.used), 50_000)
    assert [interaction.question for interaction in both.interactions] == ["two"]


def test_spans_of_a_published_interaction_are_used_for_good() -> None:
    first = read(stored(rag()), 2_000)
    again = read(stored(rag(), used=first.used, contents=first.contents), 9_000)
    assert (again.interactions, again.used, again.changed) == ([], [], 0)


def test_a_late_document_is_counted_once_and_changes_nothing() -> None:
    first = read(stored(rag()), 2_000)
    more = span(
        7, 1, {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "Black tea."},
        at=(0.1, 0.2),
    )  # fmt: skip
    late = read(stored([*rag(), more], {7: 5_000}, used=first.used, contents=first.contents), 9_000)
    assert (late.interactions, late.changed) == ([], 1)
    once = read(stored([*rag(), more], {7: 5_000}, used=first.used, contents=[*first.contents, *late.contents]), 9_100)
    assert once.changed == 0


def test_a_trace_without_an_interaction_goes_after_the_quiet_time() -> None:
    found = read(stored([span(1), span(2, 1)]), 2_000)
    assert (found.next_step, found.at_ms, found.decides) == ("keep", 30_000, False)
    missing = read(stored([span(2, 1)]), 2_000)
    assert (missing.next_step, missing.at_ms) == ("keep", 600_000)
    assert read(stored([span(1), span(2, 1)]), 30_000).next_step == "close"


def test_a_trace_has_one_outcome() -> None:
    assert read(stored([span(1), span(2, 1)]), 2_000).outcome == "no_retrieval"
    assert read(stored(rag()), 1_999).outcome == ""
    first = read(stored(rag()), 2_000)
    assert (first.outcome, first.service) == ("interaction", "shop")
    assert read(stored(rag(), used=first.used, contents=first.contents), 9_000).outcome == "interaction"
    cut = rag()
    cut[0].dropped_attributes_count = 3
    refused = read(stored(cut), 2_000)
    assert refused.outcome == "truncated"
    assert read(stored(cut, used=refused.used), 9_000).outcome == ""


def test_every_outcome_has_its_counter() -> None:
    assert sorted(TRACE_OUTCOMES) == sorted([INTERACTION, *Refusal, *Cause])


def test_a_token_writes_only_to_its_pipelines() -> None:
    allowed = read(stored(rag(), pipelines="shop*\ntea"), 2_000)
    assert [interaction.pipeline for interaction in allowed.interactions] == ["shop"]
    refused = read(stored(rag(), pipelines="tea-*\nte?"), 2_000)
    assert refused.interactions == []
    assert "may not write to the pipeline 'shop'" in refused.refused[0].detail


def test_an_interaction_that_cannot_be_used_uses_its_spans_too() -> None:
    spans = rag()
    spans[0].dropped_attributes_count = 3
    found = read(stored(spans), 2_000)
    assert [mapped.refusal for mapped in found.refused] == ["truncated"]
    assert found.decides
    assert read(stored(spans, used=found.used), 3_000).refused == []


@given(st.dictionaries(st.sampled_from([1, 2, 3, 11, 12, 13, 90]), st.integers(0, 700_000)), st.integers(0, 1_300_000))
def test_whenever_a_trace_is_read_each_interaction_comes_once_and_in_time(
    arrivals: dict[int, int], step_ms: int
) -> None:
    """Reading at the told times, and at any other time in between, publishes each interaction once."""
    spans = [*rag("one", answer="1", parent=90), *rag("two", answer="2", first=11, parent=90, start=10), span(90)]
    used: list[str] = []
    contents: list[bytes] = []
    published: list[str] = []
    now_ms = step_ms % 5_000
    for _ in range(3_000):
        here = [one for one in spans if arrivals.get(int.from_bytes(one.span_id, "big"), 0) <= now_ms]
        if not here:
            now_ms += 1_000
            continue
        found = read(stored(here, arrivals, used=used, contents=contents), now_ms)
        used, contents = used + found.used, contents + found.contents
        published += [interaction.interaction_id for interaction in found.interactions]
        if found.next_step == "close":
            break
        assert found.at_ms > now_ms
        later = [at for at in arrivals.values() if at > now_ms]
        now_ms = min([found.at_ms, *(at + 2_000 for at in later)])
    assert len(published) == len(set(published)) <= 2
    assert found.next_step == "close"


@pytest.mark.parametrize("name", fixtures())
def test_a_real_trace_whose_next_span_takes_long_gives_what_it_gives_as_a_whole(name: str) -> None:
    """The spans come in the order of their ends; whatever is complete after the settle time, stays as it is."""
    captured = decode_request((CAPTURED / f"{name}.json").read_bytes(), "json")
    ends = {
        one.span_id: one.end_time_unix_nano
        for of_resource in captured.resource_spans
        for of_scope in of_resource.scope_spans
        for one in of_scope.spans
    }
    for trace in fields_by_trace(captured)[0]:
        order = sorted(trace.spans, key=ends.__getitem__)
        whole = contents(trace, order, 600_000)
        steps = {*range(1, len(order), len(order) // 3 + 1), *range(max(1, len(order) - 3), len(order))}
        assert [extra for count in steps if (extra := contents(trace, order[:count], 2_000) - whole)] == []
        if name not in UNFINISHED:
            assert contents(trace, order, 2_000) == whole


def contents(trace: TraceSpans, span_ids: Sequence[bytes], now_ms: int) -> set[tuple[object, ...]]:
    """Return what is complete at a time if only these spans have come."""
    spans = {span_id: bytes(6) + trace.spans[span_id] for span_id in span_ids}
    found = read(StoredTrace.of(trace.trace_id, {**trace.resources, **spans, b"v": b"1"}), now_ms)
    texts = {
        (one.interaction_id, one.question, one.response, *(document.text for document in one.documents))
        for one in found.interactions
    }
    return texts | {(mapped.interaction_id, mapped.refusal) for mapped in found.refused}
