"""One trace from publish to estimate: real producer, worker, judge server and aggregator on a real Redis."""

import asyncio
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from ragtide import InteractionProducer, RagInteraction
from ragtide.testing import ScriptedJudge, Status
from ragtide_roles.running import in_background
from ragtide_roles.serving import aggregate, work
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.keys import DATA_FIELD, TRACEPARENT_FIELD, Streams
from ragtide_runtime.settings.labelers import JudgeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry import tracing

pytestmark = pytest.mark.processes

STREAMS = Streams("ragtide", 0)
TOWER = RagInteraction(
    interaction_id="tower",
    pipeline="shop",
    question="When was it built?",
    documents=["The tower was built in 1889."],
    response="The tower was built in 1889.",
)
TRACE = "0af7651916cd43dd8448eb211c80319c"
FROM_ELSEWHERE = f"00-{TRACE}-b7ad6b7169203331-01"


class Spans:
    """The spans of this process, kept in memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """Return the spans of a provider that is this test's own: OpenTelemetry's global one can be set only once."""
    kept = Spans()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: kept.provider)
    return kept


def settings(redis_url: str, **changes: Any) -> Settings:
    return Settings(redis_url=redis_url, commit_interval_s=0.05, **changes)


async def caught_up(redis: Any, count: int) -> None:
    async with asyncio.timeout(120):
        while True:
            entries = await redis.xrange(STREAMS.metrics)
            if len(entries) == count and await redis.hget(STREAMS.checkpoint, "position") == entries[-1][0]:
                return
            await asyncio.sleep(0.01)


async def run_until(redis: Any, options: Settings, count: int) -> None:
    """Run a worker and an aggregator until so many events are in the checkpoint."""
    stop = asyncio.Event()
    assert options.redis_url is not None
    roles = work(options, options.redis_url, stop), aggregate(options, options.redis_url, stop)
    async with in_background(*roles, stop=stop):
        await caught_up(redis, count)


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def ids_of(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


async def test_one_trace_runs_from_publish_to_estimate(async_redis: Any, redis_url: str, spans: Spans) -> None:
    with ScriptedJudge() as server:
        judge = JudgeSettings(model="m", base_url=server.url, api_key="k", cache_ttl_s=0.0)
        options = settings(redis_url, labeler="judge", judge=judge)
        async with InteractionProducer(settings=options) as producer:
            with spans.provider.get_tracer("application").start_as_current_span("answer a question") as answering:
                await producer.apublish(TOWER)
        await run_until(async_redis, options, 1)
    names = ["ragtide publish", "ragtide label", "ragtide judge call", "ragtide estimate"]
    publish, label, call, estimate = map(spans.one, names)
    trace_id, publish_id = ids_of(publish)
    assert trace_id == answering.get_span_context().trace_id
    assert {ids_of(span)[0] for span in (publish, label, call, estimate)} == {trace_id}
    assert parent_of(publish) == answering.get_span_context().span_id
    assert parent_of(label) == publish_id
    assert parent_of(call) == parent_of(estimate) == ids_of(label)[1]
    assert [span.kind for span in (publish, label, call, estimate)] == [
        SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.CLIENT, SpanKind.CONSUMER,
    ]  # fmt: skip
    for span in (publish, label, estimate):
        assert span.attributes is not None
        assert (span.attributes["ragtide.pipeline"], span.attributes["ragtide.interaction_id"]) == ("shop", "tower")
        assert span.attributes["messaging.system"] == "redis"
    assert label.attributes is not None
    assert label.attributes["ragtide.labeler"] == "judge"
    assert call.attributes is not None
    assert call.attributes["gen_ai.request.model"] == "m"
    assert int(str(call.attributes["gen_ai.usage.input_tokens"])) > 0
    assert estimate.end_time is not None
    assert label.end_time is not None
    assert estimate.start_time is not None
    assert estimate.end_time >= estimate.start_time >= label.end_time


async def test_a_call_that_fails_is_a_span_with_its_kind_and_the_next_try_is_another(
    async_redis: Any, redis_url: str, spans: Spans
) -> None:
    with ScriptedJudge() as server:
        server.script.append(Status(500, message="The tower was built in 1889."))
        judge = JudgeSettings(model="m", base_url=server.url, api_key="k", cache_ttl_s=0.0)
        await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: TOWER.encode()})
        await run_until(async_redis, settings(redis_url, labeler="judge", judge=judge), 1)
    failed, answered = spans.named("ragtide judge call")
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "server_error")
    assert answered.status.status_code is StatusCode.UNSET
    assert parent_of(failed) == parent_of(answered) == ids_of(spans.one("ragtide label"))[1]
    assert "tower was built" not in "".join(span.to_json() for span in (failed, answered))


async def test_a_plain_xadd_may_carry_a_trace_and_what_is_none_is_ignored(
    async_redis: Any, redis_url: str, spans: Spans
) -> None:
    for number, context in enumerate([FROM_ELSEWHERE.encode(), b"\xff" * 55, b"x" * 100_000]):
        one = TOWER.model_copy(update={"interaction_id": f"i-{number}"})
        await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: one.encode(), TRACEPARENT_FIELD: context})
    await run_until(async_redis, settings(redis_url), 3)
    labels = {span.attributes["ragtide.interaction_id"]: span for span in spans.named("ragtide label")}  # type: ignore[index]
    assert f"{ids_of(labels['i-0'])[0]:032x}" == TRACE
    assert labels["i-1"].parent is None
    assert labels["i-2"].parent is None
    assert len({ids_of(span)[0] for span in labels.values()}) == 3


async def test_without_a_provider_entries_are_as_they_were_and_a_context_is_handed_on(
    async_redis: Any, redis_url: str
) -> None:
    options = settings(redis_url)
    async with InteractionProducer(settings=options) as producer:
        await producer.apublish(TOWER)
    (entry,) = await async_redis.xrange(STREAMS.interactions)
    assert set(entry[1]) == {DATA_FIELD}
    other = TOWER.model_copy(update={"interaction_id": "other"})
    await async_redis.xadd(
        STREAMS.interactions, {DATA_FIELD: other.encode(), TRACEPARENT_FIELD: FROM_ELSEWHERE.encode()}
    )
    await run_until(async_redis, options, 2)
    found = [fields.get(TRACEPARENT_FIELD) for _, fields in await async_redis.xrange(STREAMS.metrics)]
    assert sorted(found, key=str) == [None, FROM_ELSEWHERE.encode()]


async def test_publishing_again_is_still_one_entry_when_traced(async_redis: Any, redis_url: str, spans: Spans) -> None:
    async with InteractionProducer(settings=settings(redis_url)) as producer:
        added = [(await producer.apublish(TOWER)).added for _ in range(2)]
    ((_, fields),) = await async_redis.xrange(STREAMS.interactions)
    assert added == [True, False]
    first, _ = spans.named("ragtide publish")
    assert fields[TRACEPARENT_FIELD].decode().startswith("00-{:032x}-{:016x}-".format(*ids_of(first)))


def test_what_is_submitted_belongs_to_the_span_it_was_submitted_in(redis: Any, redis_url: str, spans: Spans) -> None:
    with InteractionProducer(settings=settings(redis_url)) as producer:
        with spans.provider.get_tracer("application").start_as_current_span("answer a question") as answering:
            assert producer.submit(TOWER)
        assert producer.flush(20)
    ((_, fields),) = redis.xrange(STREAMS.interactions)
    publish = spans.one("ragtide publish")
    assert parent_of(publish) == answering.get_span_context().span_id
    assert fields[TRACEPARENT_FIELD].decode().startswith("00-{:032x}-{:016x}-".format(*ids_of(publish)))


async def test_a_labeler_that_fails_is_a_failed_span_without_its_message(
    async_redis: Any, redis_url: str, spans: Spans
) -> None:
    await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: TOWER.encode()})
    options = settings(redis_url, labeler="tests.runtime.test_tracing:Failing", max_deliveries=1)
    stop = asyncio.Event()
    async with in_background(work(options, redis_url, stop), stop=stop):
        async with asyncio.timeout(120):
            while not await async_redis.xlen(STREAMS.dead_letters):  # noqa: ASYNC110 - Redis changes, and tells nobody
                await asyncio.sleep(0.01)
    label = spans.one("ragtide label")
    assert (label.status.status_code, label.status.description) == (StatusCode.ERROR, "RuntimeError")
    assert label.events == ()


class Failing:
    name, version, profile = "failing", "1", "none"

    async def label(self, interaction: RagInteraction) -> Any:
        raise RuntimeError(interaction.response)


def test_an_endpoint_without_the_packages_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    # Another test may have imported it; with it, this test would set the provider of the whole process.
    monkeypatch.delitem(sys.modules, "ragtide_runtime.telemetry.sdk_exporter", raising=False)
    with pytest.raises(ConfigurationError, match=r"pip install 'ragtide\[otel\]'"), tracing.exporting("worker"):
        pass


def test_without_an_endpoint_no_provider_is_set() -> None:
    with tracing.exporting("worker"):
        assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
