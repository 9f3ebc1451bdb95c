"""An application is traced, `ragtide serve` reads it, a worker scores it, and its backend shows the scores."""

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from tests.support.conditions import until
from tests.support.http_service import http_service
from tests.support.otlp_server import otlp_server

from ragtide import MetricEvent, RagInteraction, otel
from ragtide_roles.running import in_background
from ragtide_roles.serving import work
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.telemetry import OtelSettings
from ragtide_runtime.telemetry.health import ProcessTelemetry

pytestmark = pytest.mark.processes

STREAMS = Streams("ragtide", 0)
TOKEN = "of-the-application"
FAST = IngestSettings(settle_s=0.0, quiet_s=0.1)


def answer(provider: TracerProvider) -> None:
    tracer = provider.get_tracer("application")
    with tracer.start_as_current_span("answer") as root:
        root.set_attribute("openinference.span.kind", "CHAIN")
        root.set_attribute("input.value", "When was the tower built?")
        with tracer.start_as_current_span("search") as search:
            search.set_attribute("openinference.span.kind", "RETRIEVER")
            for number in range(50):
                text = f"The tower was built in 1889, says source {number}."
                search.set_attribute(f"retrieval.documents.{number}.document.content", text)
                search.set_attribute(f"retrieval.documents.{number}.document.id", f"d{number}")
                search.set_attribute(f"retrieval.documents.{number}.document.score", 0.5)
        with tracer.start_as_current_span("call") as call:
            call.set_attributes(
                {
                    "openinference.span.kind": "LLM",
                    "llm.provider": "openai",
                    "llm.model_name": "gpt-4o-mini",
                    "llm.token_count.prompt": 1_000_000,
                    "llm.token_count.completion": 100_000,
                }
            )
        root.set_attribute("output.value", "The tower was built in 1889.")


async def test_a_traced_answer_is_scored_and_its_scores_stand_in_its_trace(async_redis: Any, redis_url: str) -> None:
    provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=10_000), shutdown_on_exit=False)
    process, stop = ProcessTelemetry(), asyncio.Event()
    with otlp_server() as backend:
        options = OtelSettings(results=True, results_endpoint=backend.url)
        worker = work(Settings(redis_url=redis_url, otel=options), redis_url, stop, process)
        async with (
            http_service(redis_url, serve={"tokens": [TOKEN]}, ingest=FAST) as service,
            in_background(worker, stop=stop),
        ):
            otel.configure("helpdesk", endpoint=service.url, token=TOKEN, provider=provider)
            answer(provider)
            assert await asyncio.to_thread(provider.force_flush)

            async def scored() -> bool:
                return bool(await async_redis.xlen(STREAMS.metrics) == 1)

            await until(scored)
        (results,) = backend.logs
        provider.shutdown()
    ((_, fields),) = await async_redis.xrange(STREAMS.interactions)
    found = RagInteraction.decode(fields[DATA_FIELD])
    assert (found.pipeline, len(found.documents), found.source) == ("helpdesk", 50, "otel")
    assert found.usage is not None
    assert found.usage.cost_usd == pytest.approx(0.15 + 0.06)
    ((_, fields),) = await async_redis.xrange(STREAMS.metrics)
    event = MetricEvent.decode(fields[DATA_FIELD])
    assert event.scores["answer.cost_usd"] == found.usage.cost_usd
    assert event.scores["answer.latency_s"] == found.usage.latency_s
    sent = {}
    for record in results.log_records:
        place = (record.trace_id.hex(), record.span_id.hex())
        assert place == (found.metadata["trace_id"], found.metadata["span_id"])
        assert record.time_unix_nano // 1000 == round(found.occurred_at.timestamp() * 1e6)
        values = {attribute.key: attribute.value for attribute in record.attributes}
        sent[values["gen_ai.evaluation.name"].string_value] = values["gen_ai.evaluation.score.value"].double_value
    assert sent == event.scores
