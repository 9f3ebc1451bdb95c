"""One call sends the spans of an instrumented application to ragtide, whole, and disturbs neither it nor others."""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.otlp_server import OtlpServer, otlp_server

from ragtide import otel
from ragtide_runtime.telemetry import span_exporter
from ragtide_runtime.telemetry.span_exporter import HttpSpanExporter, SpanBatches, otlp_url

pytestmark = pytest.mark.redis  # a server in the same process

WIDE = SpanLimits(max_span_attributes=10_000)


@pytest.fixture
def server() -> Iterator[OtlpServer]:
    with otlp_server() as found:
        yield found


@pytest.fixture
def provider() -> Iterator[TracerProvider]:
    made = TracerProvider(resource=Resource({"service.name": "app"}), span_limits=WIDE, shutdown_on_exit=False)
    yield made
    made.shutdown()


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("RAGTIDE_", "OTEL_"))]:
        monkeypatch.delenv(name)


def answer(provider: trace.TracerProvider, documents: int = 2, /, **root: Any) -> None:
    """Answer a question as an application with OpenInference does."""
    tracer = provider.get_tracer("openinference.instrumentation.test")
    with tracer.start_as_current_span("answer") as span:
        span.set_attributes(
            {"openinference.span.kind": "CHAIN", "input.value": "What is tea?", "output.value": "A drink.", **root}
        )
        with tracer.start_as_current_span("retrieve") as retriever:
            retriever.set_attributes({"openinference.span.kind": "RETRIEVER", "input.value": "What is tea?"})
            for number in range(documents):
                retriever.set_attributes(
                    {
                        f"retrieval.documents.{number}.document.id": f"d{number}",
                        f"retrieval.documents.{number}.document.content": f"Text of document {number}.",
                        f"retrieval.documents.{number}.document.score": 1.0 / (number + 1),
                        f"retrieval.documents.{number}.document.metadata": json.dumps({"page": number}),
                    }
                )
        with tracer.start_as_current_span("call") as call:
            call.set_attributes({"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o-mini"})


def test_the_spans_of_an_answer_arrive_as_an_interaction_with_all_documents(
    server: OtlpServer, provider: TracerProvider
) -> None:
    assert otel.configure(pipeline="shop", endpoint=server.url, provider=provider) is provider
    answer(provider, 50)
    assert provider.force_flush()
    (mapped,) = server.interactions()
    assert mapped.interaction is not None, mapped.detail
    assert (mapped.interaction.pipeline, mapped.interaction.question) == ("shop", "What is tea?")
    assert [document.id for document in mapped.interaction.documents] == [f"d{number}" for number in range(50)]
    ((path, headers, _),) = server.requests
    assert path == "/v1/traces"
    assert headers["content-type"] == "application/x-protobuf"
    assert "authorization" not in headers


def test_the_session_that_an_application_sets_wins_over_that_of_its_framework(
    server: OtlpServer, provider: TracerProvider
) -> None:
    otel.configure(pipeline="shop", endpoint=server.url, provider=provider)
    token = context.attach(context.set_value("user.id", "u-7", context.set_value("session.id", "s-81")))
    answer(provider, **{"session.id": "thread-77", "user.id": "robot"})
    context.detach(token)
    answer(provider, **{"session.id": "thread-77"})
    assert provider.force_flush()
    found = [mapped.interaction for mapped in server.interactions() if mapped.interaction]
    assert [(one.session_id, one.user_id) for one in found] == [("s-81", "u-7"), ("thread-77", None)]


def test_the_resource_of_the_application_stays_beside_the_pipeline(
    server: OtlpServer, provider: TracerProvider
) -> None:
    otel.configure("shop", endpoint=server.url, provider=provider)
    answer(provider)
    provider.force_flush()
    resource = server.spans[0].resource
    assert (resource["service.name"], resource["ragtide.pipeline"]) == ("app", "shop")


def test_a_span_may_name_another_pipeline(server: OtlpServer, provider: TracerProvider) -> None:
    otel.configure("shop", endpoint=server.url, provider=provider)
    with provider.get_tracer("app").start_as_current_span("session", attributes={"ragtide.pipeline": "helpdesk"}):
        answer(provider)
    provider.force_flush()
    (mapped,) = server.interactions()
    assert mapped.interaction is not None
    assert mapped.interaction.pipeline == "helpdesk"


def test_session_and_user_are_attributes_of_a_span(server: OtlpServer, provider: TracerProvider) -> None:
    otel.configure("shop", endpoint=server.url, provider=provider)
    answer(provider, 2, **{"session.id": "s1", "user.id": "u1"})
    provider.force_flush()
    (mapped,) = server.interactions()
    assert mapped.interaction is not None
    assert (mapped.interaction.session_id, mapped.interaction.user_id) == ("s1", "u1")


def test_another_backend_gets_the_spans_as_they_are(server: OtlpServer, provider: TracerProvider) -> None:
    other = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(other))
    otel.configure("shop", endpoint=server.url, provider=provider)
    answer(provider)
    provider.force_flush()
    assert len(server.spans) == len(other.get_finished_spans()) == 3
    assert all("ragtide.pipeline" not in span.resource.attributes for span in other.get_finished_spans())


def test_the_headers_of_another_backend_are_not_sent(
    server: OtlpServer, provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic c2VjcmV0,x-key=secret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    otel.configure("shop", endpoint=server.url, token="mine", provider=provider)
    answer(provider)
    provider.force_flush()
    ((_, headers, _),) = server.requests
    assert headers["authorization"] == "Bearer mine"
    assert "secret" not in json.dumps(headers)
    assert "c2VjcmV0" not in json.dumps(headers)


def test_address_and_token_come_from_the_settings(
    server: OtlpServer, provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTIDE_OTEL_ENDPOINT", f"{server.url}/mine/v1/traces")
    monkeypatch.setenv("RAGTIDE_OTEL_TOKEN", "of-settings")
    otel.configure("shop", provider=provider)
    answer(provider)
    provider.force_flush()
    ((path, headers, _),) = server.requests
    assert (path, headers["authorization"]) == ("/mine/v1/traces", "Bearer of-settings")


def test_a_second_call_changes_nothing(
    server: OtlpServer, provider: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        assert otel.configure("shop", endpoint=server.url, provider=provider) is provider
    assert caplog.records == []
    otel.configure("helpdesk", endpoint=server.url, provider=provider)
    assert "set the attribute ragtide.pipeline" in caplog.text
    answer(provider)
    provider.force_flush()
    assert len(server.spans) == 3
    assert {span.resource["ragtide.pipeline"] for span in server.spans} == {"shop"}


@pytest.mark.parametrize(
    "endpoint",
    ["localhost:4318", "ftp://host/v1", "http://", "http://user:geheim@[bad", "http://a b/", "http://h:99999"],
)
def test_a_wrong_address_is_logged_and_never_raised(
    endpoint: str, provider: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    assert otel.configure("shop", endpoint=endpoint, provider=provider) is provider
    answer(provider)
    assert provider.force_flush()
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "correct RAGTIDE_OTEL_ENDPOINT" in record.getMessage()
    assert "geheim" not in record.getMessage()


def test_wrong_settings_are_logged_and_never_raised(
    server: OtlpServer, provider: TracerProvider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RAGTIDE_PARTITIONS", "many")
    otel.configure("shop", endpoint=server.url, provider=provider)
    answer(provider)
    provider.force_flush()
    assert len(server.spans) == 3
    assert "ragtide.otel ignores the settings" in caplog.text


@pytest.mark.parametrize("pipeline", ["", " " * 3, "x" * 201, "a\nb"])
def test_a_name_that_no_pipeline_may_have_is_a_mistake_of_the_caller(pipeline: str, provider: TracerProvider) -> None:
    with pytest.raises(ValueError, match="pipeline is no name"):
        otel.configure(pipeline, provider=provider)


def test_a_provider_that_cuts_is_warned_of(
    server: OtlpServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "500")
    cutting = TracerProvider(shutdown_on_exit=False)
    otel.configure("shop", endpoint=server.url, provider=cutting)
    assert "keeps 128 attributes" in caplog.text
    assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=10000" in caplog.text
    assert "cuts values after 500 characters" in caplog.text
    answer(cutting, 50)
    cutting.shutdown()
    assert [str(mapped.refusal) for mapped in server.interactions()] == ["truncated"]


def test_a_provider_of_another_kind_is_left_alone(server: OtlpServer, caplog: pytest.LogCaptureFixture) -> None:
    other: Any = trace.NoOpTracerProvider()
    assert otel.configure("shop", endpoint=server.url, provider=other) is other
    assert "takes no exporter" in caplog.text


def batches(server: OtlpServer, **options: Any) -> tuple[TracerProvider, HttpSpanExporter]:
    exporter = HttpSpanExporter(otlp_url(server.url), **options)
    made = TracerProvider(span_limits=WIDE, shutdown_on_exit=False)
    made.add_span_processor(SpanBatches(exporter))
    return made, exporter


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_receiver_without_room_is_asked_again(status: int, server: OtlpServer) -> None:
    server.replies += [(status, {"retry-after": "0"}, b"")]
    made, exporter = batches(server)
    answer(made)
    assert made.force_flush(30_000)
    assert len(server.requests) == 2
    assert (exporter.sent, exporter.lost) == (3, 0)
    made.shutdown()


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413, 500])
def test_a_refusal_is_logged_once_and_not_repeated(
    status: int, server: OtlpServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.replies += [(status, {"location": f"{server.url}/elsewhere"}, b"")] * 2
    made, exporter = batches(server, remedy="correct the token")
    for _ in range(2):
        answer(made)
        assert not made.force_flush()
    assert [path for path, _, _ in server.requests] == ["/v1/traces"] * 2
    assert (exporter.sent, exporter.lost) == (0, 6)
    assert [f"status {status}: correct the token" in record.getMessage() for record in caplog.records] == [True]
    made.shutdown()


def test_spans_that_the_receiver_rejects_are_counted(server: OtlpServer, caplog: pytest.LogCaptureFixture) -> None:
    reply = ExportTraceServiceResponse()
    reply.partial_success.rejected_spans = 2
    reply.partial_success.error_message = "too many spans"
    server.replies += [(200, {}, reply.SerializeToString()), (200, {}, b"{}")]
    made, exporter = batches(server)
    answer(made)
    made.force_flush()
    assert (exporter.sent, exporter.lost) == (1, 2)
    assert "too many spans" in caplog.text
    answer(made)
    assert made.force_flush()
    assert (exporter.sent, exporter.lost) == (4, 2)
    made.shutdown()


def test_large_batches_are_divided(server: OtlpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_exporter, "REQUEST_MAX_BYTES", 20_000)
    made, exporter = batches(server)
    for _ in range(5):
        answer(made, 50)
    made.force_flush()
    assert exporter.sent == 15
    assert len(server.requests) > 2
    assert len(server.interactions(default_pipeline="p")) == 5
    made.shutdown()


@pytest.mark.parametrize("away", ["nobody listens", "hangs"])
def test_a_receiver_that_is_away_delays_the_end_for_few_seconds_only(
    away: str, server: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_exporter, "LAST_S", 0.3)
    monkeypatch.setattr(span_exporter, "ATTEMPT_S", 0.5)
    exporter = HttpSpanExporter(otlp_url(server.url if away == "hangs" else "http://127.0.0.1:1"))
    server.hangs.set()
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SpanBatches(exporter))
    answer(made)
    began = time.monotonic()
    assert not made.force_flush(300)
    made.shutdown()
    assert time.monotonic() - began < 20  # the patience is 60 s
    assert exporter.lost == 3


def test_ending_a_span_never_waits_for_the_receiver(server: OtlpServer) -> None:
    server.hangs.set()
    made, _ = batches(server)
    began = time.monotonic()
    for _ in range(1000):
        answer(made)
    assert time.monotonic() - began < 30
    server.hangs.clear()
    server.go_on.set()
    made.shutdown()


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("3", 3.0), ("-1", 0.0), ("1e9", 60.0), ("nan", 0.0), ("soon", 0.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
)
def test_retry_after_is_read_with_care(told: str, seconds: float) -> None:
    from http.client import HTTPMessage

    headers = HTTPMessage()
    headers["retry-after"] = told
    assert span_exporter._retry_after_s(headers) == seconds


APPLICATION = """
import os, sys
from ragtide import otel
provider = otel.configure(pipeline="shop", endpoint=sys.argv[1])
assert otel.configure("shop", endpoint=sys.argv[1]) is provider
from opentelemetry import trace
assert trace.get_tracer_provider() is provider

def answer(name):
    with trace.get_tracer("app").start_as_current_span(name) as span:
        for number in range(2000):
            span.set_attribute(f"a{number}", "x" * 1000)

answer("parent")
if os.fork() == 0:
    answer("child")
    sys.exit(0)
os.wait()
"""


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore")
def test_an_application_and_its_forks_send_everything_until_their_end(server: OtlpServer) -> None:
    environment = {**os.environ, "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "10"}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", APPLICATION, server.url], check=True, timeout=120, env=environment
    )
    assert sorted(span.name for span in server.spans) == ["child", "parent"]
    for span in server.spans:
        assert span.dropped_attributes == 0
        assert len(span.attributes) == 2000
        assert len(str(span.attributes["a7"])) == 1000
        assert (span.resource["service.name"], span.resource["ragtide.pipeline"]) == ("shop", "shop")


@pytest.mark.processes
def test_without_opentelemetry_the_import_names_the_extra() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None\nfrom ragtide import otel"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode != 0
    assert "pip install 'ragtide[otel]'" in result.stderr
