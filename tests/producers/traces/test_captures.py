"""Real requests of instrumentations and frameworks hold the interactions written beside them, and no others."""

import gzip
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from tests.support.cases import for_each

from ragtide_producers.traces.interactions import Mapped, interactions_of
from ragtide_producers.traces.otlp import decode_request, spans_of
from ragtide_producers.traces.span import Span
from ragtide_runtime.settings.ingest import IngestSettings

CAPTURES = Path(__file__).parents[2] / "data" / "otlp"
NAMES = sorted(path.name for path in CAPTURES.iterdir() if path.is_dir())


def bodies(name: str) -> list[bytes]:
    files = sorted((CAPTURES / name).glob("*.pb*"))
    return [gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes() for file in files]


def spans(name: str) -> list[Span]:
    return [span for body in bodies(name) for span in spans_of(decode_request(body, "protobuf"))]


def mapped(found: Iterable[Span]) -> list[Mapped]:
    traces: dict[str, list[Span]] = {}
    for span in found:
        traces.setdefault(span.trace_id, []).append(span)
    options = IngestSettings(default_pipeline="helpdesk")
    return [interaction for trace in traces.values() for interaction in interactions_of(trace, options)]


def expected(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((CAPTURES / name / "expected.json").read_text("utf-8"))["interactions"]
    return found


@for_each("name", NAMES)
def test_a_capture_holds_the_expected_interactions_and_no_others(name: str) -> None:
    found = mapped(spans(name))
    assert [item.detail for item in found if item.interaction is None] == []
    content = sorted(
        (item.interaction_id.split("-")[1], item.interaction.question, item.interaction.response)
        for item in found
        if item.interaction
    )
    assert content == sorted((item["trace_id"], item["question"], item["response"]) for item in expected(name))
    wanted = {(item["trace_id"], item["question"]): item["documents"] for item in expected(name)}
    for item in found:
        assert item.interaction
        documents = [document.model_dump() for document in item.interaction.documents]
        for document, known in zip(
            documents, wanted[item.interaction_id.split("-")[1], item.interaction.question], strict=True
        ):
            assert {key: document[key] for key in known} == known


@for_each("name", NAMES)
def test_neither_order_nor_repeats_of_spans_matter(name: str) -> None:
    whole = spans(name)
    first = sorted(mapped(whole), key=lambda item: item.interaction_id)
    for seed in range(5):
        shuffled = [*whole, *whole]
        random.Random(seed).shuffle(shuffled)
        assert sorted(mapped(shuffled), key=lambda item: item.interaction_id) == first


@for_each("name", NAMES)
def test_the_json_of_a_request_holds_the_same_spans(name: str) -> None:
    for body in bodies(name):
        request = decode_request(body, "protobuf")
        fields = MessageToDict(request)
        for of_resource in fields["resourceSpans"]:
            for of_scope in of_resource["scopeSpans"]:
                for wire, span in zip(
                    of_scope["spans"], _wire_spans(request, fields, of_resource, of_scope), strict=True
                ):
                    wire["traceId"], wire["spanId"] = span.trace_id.hex(), span.span_id.hex()
                    if span.parent_span_id:
                        wire["parentSpanId"] = span.parent_span_id.hex()
                    wire["unknownField"] = {"of": "a later version"}
        again = decode_request(json.dumps(fields).encode(), "json")
        assert list(spans_of(again)) == list(spans_of(request))


def _wire_spans(request: Any, fields: Any, of_resource: Any, of_scope: Any) -> Any:
    resource = request.resource_spans[fields["resourceSpans"].index(of_resource)]
    return resource.scope_spans[of_resource["scopeSpans"].index(of_scope)].spans


@for_each("name", NAMES)
def test_a_trace_without_its_model_call_is_no_interaction_unless_nothing_was_found(name: str) -> None:
    without = [span for span in spans(name) if not _is_call(span)]
    assert [item.detail for item in mapped(without) if not item.interaction or item.interaction.documents] == []


OPERATIONS = {"chat", "generate_content", "ai.generateText.doGenerate", "generation", "LLM"}


def _is_call(span: Span) -> bool:
    kinds = ("openinference.span.kind", "gen_ai.operation.name", "langfuse.observation.type", "ai.operationId")
    return span.name == "call_llm" or any(span.attributes.get(kind) in OPERATIONS for kind in kinds)


@for_each("name", ["openllmetry_langchain", "otel_genai_langchain", "ai_sdk_7"])
def test_the_metadata_have_the_providers_id_of_the_response(name: str) -> None:
    ids = [item.interaction.metadata.get("response_id") for item in mapped(spans(name)) if item.interaction]
    assert ids
    assert all(str(found).startswith(("chatcmpl-", "completion-")) for found in ids)
