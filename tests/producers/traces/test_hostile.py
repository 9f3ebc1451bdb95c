"""Spans with any content give interactions or reasons: never an error, and in bounded time."""

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces import START_NS

from ragtide_producers.errors import InvalidTracesError, UnreadableFileError
from ragtide_producers.shapes.documents import documents_of
from ragtide_producers.shapes.literals import BrokenTextError, value_of
from ragtide_producers.shapes.messages import messages_of
from ragtide_producers.traces.conventions import CONVENTIONS
from ragtide_producers.traces.explaining import explain_traces
from ragtide_producers.traces.interactions import interactions_of
from ragtide_producers.traces.otlp import decode_request, read_capture, spans_of
from ragtide_producers.traces.span import Span
from ragtide_runtime.settings.ingest import IngestSettings

NAMES = sorted(
    {
        f"{name}0.document.content" if name.endswith(".") else name
        for row in CONVENTIONS
        for name in (*row.kinds, *row.inputs, *row.outputs, *row.documents, *row.input_messages, *row.output_messages)
    }
    | {
        "ragtide.question",
        "ragtide.response",
        "ragtide.documents",
        "ragtide.turn",
        "ragtide.segments.lang",
        "ragtide.history",
    }
)
KINDS = sorted({kind for row in CONVENTIONS for kind in row.roles})
WORDS = st.sampled_from(["text", "content", "role", "user", "assistant", "documents", "answer", "question", "messages"])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
VALUES = st.sampled_from(KINDS) | JSON_VALUES | JSON_VALUES.map(json.dumps) | JSON_VALUES.map(repr)
OPTIONS = IngestSettings(default_pipeline="shop")


@st.composite
def traces(draw: st.DrawFn) -> list[Span]:
    count = draw(st.integers(1, 8))
    ids = [f"{number:016x}" for number in range(1, count + 1)]
    return [
        Span(
            trace_id="0" * 31 + "1",
            span_id=ids[number],
            parent_id=draw(st.none() | st.sampled_from([*ids, "f" * 16])),
            name=draw(st.sampled_from(["search", "retrieve", "rerank", "chat"]) | st.text(max_size=5)),
            start_ns=draw(st.integers(0, 5)) * 10**9,
            end_ns=draw(st.integers(5, 9)) * 10**9,
            attributes=draw(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)),
            failed=draw(st.booleans()),
            dropped_attributes=draw(st.sampled_from([0, 0, 0, 4])),
        )
        for number in range(count)
    ]


@given(traces())
def test_any_trace_gives_interactions_or_reasons(trace: list[Span]) -> None:
    found = interactions_of(trace, OPTIONS)
    assert all((one.interaction is None) == bool(one.refusal) == bool(one.detail) for one in found)
    assert interactions_of(list(reversed(trace)), OPTIONS) == found
    (explained,) = explain_traces(trace, OPTIONS)
    assert explained.interactions == found
    assert bool(explained.reason) == (not found)


def test_columns_with_a_row_that_is_no_list_are_read_as_a_list() -> None:
    found = documents_of({"ids": [["a"], None], "documents": [["text"], None]})
    assert [one.text for one in found or ()] == ["text"]


@given(JSON_VALUES)
def test_any_value_is_read(value: Any) -> None:
    assert documents_of(value) is None or all(document.text or document.id for document in documents_of(value) or ())
    assert all(isinstance(message.text, str) for message in messages_of(value))


@given(st.text(alphabet="{}[]()<>'\",:=ab1\\ ", max_size=60) | st.text(max_size=30))
def test_any_text_is_a_value_or_is_cut(text: str) -> None:
    try:
        value_of(text)
    except BrokenTextError:
        assert text.strip()[0] in "[{"


@given(JSON_VALUES.filter(lambda value: isinstance(value, dict | list)))
def test_the_repr_of_a_value_is_read_as_the_value(value: Any) -> None:
    assert repr(value_of(repr(value))) == repr(value) or "nan" in repr(value) or "inf" in repr(value)


@given(st.lists(st.text(alphabet="ab'\"\\\n\t\0é\U0001f600", max_size=12) | st.text(max_size=12), min_size=1))
def test_the_repr_of_texts_is_read_as_the_texts(texts: list[str]) -> None:
    assert value_of(repr(texts)) == texts


@given(st.binary(max_size=200))
def test_any_body_is_a_request_or_refused(body: bytes) -> None:
    for encoding in ("protobuf", "json"):
        with suppress(InvalidTracesError):
            list(spans_of(decode_request(body, encoding)))


CASES: dict[str, Any] = {
    "no object": [],
    "resource spans are no list": {"resourceSpans": {"a": 1}},
    "a span is no object": {"resourceSpans": [{"scopeSpans": [{"spans": [7]}]}]},
    "an id is not hexadecimal": {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "xyz"}]}]}]},
    "an id is a number": {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 12}]}]}]},
    "a time is no number": {"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "soon"}]}]}]},
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES)
def test_a_wrong_request_in_json_is_refused(body: Any) -> None:
    with pytest.raises(InvalidTracesError, match="not a request of traces in JSON"):
        decode_request(json.dumps(body).encode(), "json")


def test_deep_json_is_refused() -> None:
    with pytest.raises(InvalidTracesError):
        decode_request(b"[" * 100_000, "json")


@pytest.mark.parametrize("trace_id", ["", "00" * 16, "ab" * 15, "ab" * 17])
def test_spans_with_wrong_ids_are_left_out(trace_id: str) -> None:
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": trace_id, "spanId": "ab" * 8}]}]}]}
    assert list(spans_of(decode_request(json.dumps(body).encode(), "json"))) == []


@pytest.mark.parametrize(
    "attributes",
    [
        {"openinference.span.kind": "RETRIEVER", "input.value": "Open?", "output.value": '["The tower i'},
        {"gen_ai.operation.name": "retrieve_and_generate", "openinference.span.kind": "RETRIEVER", "output.value": "["},
        {"openinference.span.kind": "TOOL", "tool.id": "1", "llm.output_messages.0.message.content": "{"},
        {
            "openinference.span.kind": "RETRIEVER",
            "retrieval.documents.1.document.content": "Text.",
            "output.value": "a",
        },
    ],
)
def test_a_content_that_is_cut_stops_no_other_interaction(attributes: dict[str, Any]) -> None:
    """The roots of a trace stand beside each other, and the last has an interaction."""
    whole = {"ragtide.question": "Open?", "ragtide.documents": ["It is."], "ragtide.response": "Yes."}
    trace = [
        Span("0" * 31 + "1", f"{number + 1:016x}", None, "root", START_NS + number, START_NS + 9, attributes=given)
        for number, given in enumerate((attributes, whole))
    ]
    assert interactions_of(trace, OPTIONS)[-1].interaction is not None
    assert len(explain_traces(trace, OPTIONS)[0].spans) == 2


@pytest.mark.parametrize("parent", [lambda number: number - 1, lambda _: 0], ids=["a chain", "a star"])
def test_ten_thousand_spans_of_every_role_end(parent: Any) -> None:
    roles = ["RETRIEVER", "LLM", "CHAIN", "TOOL", "RERANKER"]
    spans = [
        Span(
            trace_id="0" * 31 + "1",
            span_id=f"{number + 1:016x}",
            parent_id=f"{parent(number) + 1:016x}" if number else None,
            name="step",
            start_ns=START_NS + number,
            end_ns=START_NS + 100_000 - number,
            attributes={"openinference.span.kind": roles[number % len(roles)], "input.value": "a", "output.value": "b"},
        )
        for number in range(10_000)
    ]
    assert all(interaction.detail or interaction.interaction for interaction in interactions_of(spans, OPTIONS))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "{'a': " * 50_000,
        "'" * 100_001,
        "<" * 50_000,
        "f(" * 50_000,
        "-" * 100_000,
        '{"a": "' + "\\" * 99_999,
    ],
)
def test_long_hostile_texts_end(text: str) -> None:
    with suppress(BrokenTextError):
        value_of(text)


def test_a_capture_that_is_none_is_refused(tmp_path: Path) -> None:
    for name, body in {"cut.gz": gzip.compress(b"x" * 500)[:-9], "text": b"hello", "lines": b"{}\n{]\n"}.items():
        (tmp_path / name).write_bytes(body)
        with pytest.raises(UnreadableFileError, match=name):
            read_capture(tmp_path / name)
    with pytest.raises(UnreadableFileError, match="cannot be read"):
        read_capture(tmp_path / "missing")


def test_lines_of_json_are_requests(tmp_path: Path) -> None:
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "a"}
    line = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    (tmp_path / "traces.json").write_text(f"{line}\n{line}\n")
    assert [one.span_id for one in read_capture(tmp_path / "traces.json")] == ["cd" * 8, "cd" * 8]


def test_an_operation_that_is_no_text_is_no_agent() -> None:
    attributes = {"gen_ai.operation.name": [], "gen_ai.prompt": "advisor", "ai.prompt": "advisor"}
    span = Span(
        trace_id="0" * 31 + "1", span_id="0" * 15 + "1", parent_id=None, name="search", start_ns=0, end_ns=1,
        attributes={**attributes, "gen_ai.output.messages": "advisor"}, resource={},
    )  # fmt: skip
    interactions_of([span], OPTIONS)
