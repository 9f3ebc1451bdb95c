"""Results in the traces of their interactions: where they go, once each, and never in a worker's way."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.conditions import until
from tests.support.ingest import Ingest, requests_of
from tests.support.otlp_server import OtlpServer, otlp_server

from ragtide import ConfigurationError, RagInteraction
from ragtide_consumers.labelers.protocol import LabelerId, Labeling, ReferenceLabeling
from ragtide_consumers.redaction.redaction import Redaction
from ragtide_consumers.worker import result_export
from ragtide_consumers.worker.result_events import encode_events
from ragtide_consumers.worker.result_export import exporting_results
from ragtide_consumers.worker.result_spans import result_span
from ragtide_consumers.worker.result_target import ResultTarget, result_target, target_of
from ragtide_consumers.worker.telemetry import WorkerTelemetry
from ragtide_producers.traces.interactions import interactions_of
from ragtide_producers.traces.otlp import decode_request, is_of_ragtide, spans_of
from ragtide_roles.doctor.results import result_findings
from ragtide_roles.running import in_background
from ragtide_roles.serving import work
from ragtide_runtime.redis.keys import DATA_FIELD, TRACEPARENT_FIELD, Streams
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.telemetry import OtelSettings
from ragtide_runtime.telemetry import span_exporter
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_schemas import EvaluatorScores, JudgedScores, MetricEvent, definition_of

pytestmark = pytest.mark.redis

STREAMS = Streams("ragtide", 0)
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{SPAN}-01"
AT = datetime(2026, 11, 20, 12, 0, 0, 250_001, tzinfo=UTC)
FORMS = ("log_events", "span")


@pytest.fixture
def server() -> Iterator[OtlpServer]:
    with otlp_server() as found:
        yield found


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


def interaction(number: int = 0, **fields: Any) -> RagInteraction:
    given = {
        "interaction_id": f"i{number}",
        "pipeline": "shop",
        "occurred_at": AT,
        "question": "When was the tower built?",
        "documents": ["The tower was built in 1889."],
        "response": "The tower was built in 1889.",
    }
    return RagInteraction(**{**given, **fields})


def traced(number: int = 0) -> RagInteraction:
    """Return an interaction as `ragtide serve` makes it of a trace."""
    return interaction(number, source="otel", metadata={"trace_id": TRACE, "span_id": f"{number + 1:016x}"})


def event(**fields: Any) -> MetricEvent:
    given = {
        "interaction_id": "i0",
        "pipeline": "shop",
        "occurred_at": AT,
        "labeled_at": datetime(2026, 11, 20, 13, 0, tzinfo=UTC),
        "labeler": "judge",
        "labeler_version": "7",
        "profile": "ragbench",
        "scores": {"trace.adherence": 0.25, "trace.completeness": 1.0},
    }
    return MetricEvent(**{**given, **fields})


@asynccontextmanager
async def working(redis_url: str, server: OtlpServer, **otel: Any) -> AsyncIterator[ProcessTelemetry]:
    """Run a real worker that sends results to the server."""
    process, stop = ProcessTelemetry(), asyncio.Event()
    given = {"results": True, "results_endpoint": server.url, **otel}
    settings = Settings(redis_url=redis_url, otel=OtelSettings(**given))
    async with in_background(work(settings, redis_url, stop, process), stop=stop):
        yield process


async def publish(redis: Any, one: RagInteraction, traceparent: str = "") -> None:
    fields: dict[bytes, Any] = {DATA_FIELD: one.encode()}
    await redis.xadd(STREAMS.interactions, {**fields, **({TRACEPARENT_FIELD: traceparent} if traceparent else {})})


async def scored(redis: Any, count: int) -> None:
    async def enough() -> bool:
        return bool(await redis.xlen(STREAMS.metrics) == count)

    await until(enough)


def count(process: ProcessTelemetry, outcome: str) -> float:
    return process.registry.get_sample_value("ragtide_result_spans_total", {"outcome": outcome}) or 0.0


def places(server: OtlpServer, form: str) -> set[tuple[str, str]]:
    """Return the traces and spans in which results arrived."""
    if form == "span":
        return {(span.trace_id, str(span.parent_id)) for span in server.spans_of_anyone}
    return {(record.trace_id.hex(), record.span_id.hex()) for logs in server.logs for record in logs.log_records}


def nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1e6) * 1000


def expected_events(scored: MetricEvent, target: ResultTarget) -> list[dict[str, Any]]:
    """Return the attributes of each score's event, computed from the metric event alone."""
    found = []
    for part in scored.parts():
        for metric, value in part.scores.items():
            key = (part.labeler, part.labeler_version, metric)
            definition = definition_of(metric, None)
            optional = {
                "gen_ai.evaluation.score.label": target.answers.get(key) or (definition and definition.band(value)),
                "gen_ai.evaluation.explanation": target.reasons.get(key),
                "gen_ai.response.id": target.response_id,
            }
            found.append(
                {
                    "gen_ai.evaluation.name": metric,
                    "gen_ai.evaluation.score.value": value,
                    "gen_ai.evaluation.evaluator.id": part.labeler,
                    "gen_ai.evaluation.evaluator.version": part.labeler_version,
                    "ragtide.labeler": part.labeler,
                    "ragtide.labeler_version": part.labeler_version,
                    "ragtide.profile": part.profile,
                    "ragtide.pipeline": scored.pipeline,
                    "ragtide.interaction_id": scored.interaction_id,
                    "ragtide.labeled_at": scored.labeled_at.isoformat(),
                    **{name: text for name, text in optional.items() if text},
                }
            )
    return found


SCORES = st.dictionaries(
    st.sampled_from(["trace.adherence", "trace.completeness", "answer.latency_s", "criteria.polite"]),
    st.floats(0.0, 1.0),
    min_size=1,
)
PARTS = st.fixed_dictionaries(
    {
        "labeler": st.sampled_from(["judge", "local", "mine"]),
        "labeler_version": st.text("ab1é/", min_size=1, max_size=9),
        "profile": st.sampled_from(["ragbench", "short"]),
        "scores": SCORES,
    }
)


@given(first=PARTS, judged=st.none() | PARTS, beside=st.lists(PARTS, max_size=2), text=st.text(max_size=20))
def test_every_attribute_of_a_log_event_is_that_of_the_metric_event(
    first: dict[str, Any], judged: dict[str, Any] | None, beside: list[dict[str, Any]], text: str
) -> None:
    scored = event(
        **first,
        judged=judged and JudgedScores(**judged),
        beside=tuple(EvaluatorScores(**part) for part in beside) or None,
    )
    key = (first["labeler"], first["labeler_version"], next(iter(first["scores"])))
    target = ResultTarget(SAMPLED, "chatcmpl-9" if text else "", {key: text}, {key: text[:3]} if text else {})
    span = result_span(scored, target)
    assert span is not None
    request = ExportLogsServiceRequest.FromString(encode_events([span]).SerializeToString())
    ((logs,),) = (of_resource.scope_logs for of_resource in request.resource_logs)
    found = []
    for record in logs.log_records:
        assert (record.trace_id.hex(), record.span_id.hex(), record.flags) == (TRACE, SPAN, 1)
        assert (record.event_name, record.severity_text) == ("gen_ai.evaluation.result", "INFO")
        assert record.time_unix_nano == nanoseconds(scored.occurred_at)
        assert record.observed_time_unix_nano == nanoseconds(scored.labeled_at)
        values = {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in record.attributes}
        assert len(values) == len(record.attributes), "an attribute is there twice"
        assert record.body.string_value.startswith(f"{values['gen_ai.evaluation.name']} ")
        found.append(values)
    rows = [[sorted(values.items()) for values in events] for events in (found, expected_events(scored, target))]
    assert sorted(rows[0], key=repr) == sorted(rows[1], key=repr)
    assert logs.scope.name == "ragtide.results"


def test_a_result_is_a_span_below_the_span_that_was_evaluated() -> None:
    span = result_span(event(), ResultTarget(SAMPLED))
    assert span is not None
    assert span.context is not None
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}" == f"{span.parent.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == SPAN
    (link,) = span.links
    assert (link.context.trace_id, link.context.span_id) == (span.parent.trace_id, span.parent.span_id)
    attributes = dict(span.attributes or {})
    assert attributes["openinference.span.kind"] == "EVALUATOR"
    assert attributes["evaluations.0.evaluation.name"] == "trace.adherence"
    assert attributes["evaluations.0.evaluation.score"] == attributes["ragtide.score.trace.adherence"] == 0.25
    assert attributes["evaluations.0.evaluation.annotator_kind"] == "LLM"
    assert json.loads(str(attributes["output.value"])) == {"trace.adherence": 0.25, "trace.completeness": 1.0}
    first, _ = span.events
    assert first.name == "gen_ai.evaluation.result"
    assert first.attributes is not None
    assert first.attributes["gen_ai.evaluation.name"] == "trace.adherence"
    assert first.attributes["gen_ai.evaluation.score.value"] == 0.25


def test_an_event_has_level_version_response_and_the_judges_reason() -> None:
    judge, scores = LabelerId("judge", "gpt/7", "ragbench"), {"trace.adherence": 0.0, "criteria.asks_back": 1.0}
    judged = Labeling(
        scores,
        reasons={"trace.adherence": 'It says "1890".\nBob (bob@example.com): 1889.'},
        answers={"criteria.asks_back": "yes"},
    )
    labeling = Labeling(
        {"trace.adherence": 0.25},
        judged=ReferenceLabeling(judged, judge, inclusion_probability=0.1, uniform_probability=1.0),
    )
    by_judge_scores = JudgedScores(labeler="judge", labeler_version="gpt/7", profile="ragbench", scores=scores)
    scored = event(labeler="local", judged=by_judge_scores)
    one = traced().model_copy(update={"metadata": {"trace_id": TRACE, "span_id": SPAN, "response_id": "chatcmpl-9"}})
    for reasons in (Redaction(["email"]), None):
        target = result_target(one, "", labeling, scored, reasons=reasons)
        assert target is not None
        span = result_span(scored, target)
        assert span is not None
        found = {
            (sent.attributes["ragtide.labeler_version"], sent.attributes["gen_ai.evaluation.name"]): dict(
                sent.attributes
            )
            for sent in span.events
            if sent.attributes is not None
        }
        by_judge = found["gpt/7", "trace.adherence"]
        assert by_judge["gen_ai.evaluation.score.label"] == "poor"
        assert by_judge["gen_ai.response.id"] == "chatcmpl-9"
        assert found["gpt/7", "criteria.asks_back"]["gen_ai.evaluation.score.label"] == "yes"
        said = by_judge.get("gen_ai.evaluation.explanation")
        assert said == ('It says "1890".\nBob ([email]): 1889.' if reasons else None)
        assert "gen_ai.evaluation.explanation" not in found["7", "trace.adherence"], "the local labeler gave no reason"


def failing(text: str) -> str:
    raise RuntimeError(text)


async def test_a_reason_that_cannot_be_redacted_stays_here_and_the_scores_leave(server: OtlpServer) -> None:
    labeling = Labeling({"trace.adherence": 0.25}, reasons={"trace.adherence": "bob@example.com"})
    settings = OtelSettings(results=True, results_endpoint=server.url)
    async with exporting_results(settings, WorkerTelemetry(), reasons=Redaction(function=failing)) as export:
        assert export is not None
        target = await export.target(traced(), "", labeling, event())
    assert target is not None
    assert target.reasons == {}


def test_the_span_has_the_time_of_the_answer_so_that_the_trace_grows_no_longer() -> None:
    span = result_span(event(), ResultTarget(SAMPLED))
    assert span is not None
    expected = round(AT.timestamp() * 1e6) * 1000
    assert (span.start_time, span.end_time) == (expected, expected)
    assert (span.attributes or {})["ragtide.labeled_at"] == "2026-11-20T13:00:00+00:00"


def test_the_same_result_is_the_same_span_and_another_labeler_another() -> None:
    ids = [
        span.context.span_id
        for one in (event(), event(), event(labeler_version="8"), event(interaction_id="i1"))
        if (span := result_span(one, ResultTarget(SAMPLED))) is not None and span.context is not None
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


def test_scores_of_a_second_labeler_are_there_with_its_name() -> None:
    judged = JudgedScores(labeler="judge", labeler_version="7", profile="ragbench", scores={"trace.adherence": 1.0})
    span = result_span(event(labeler="local", judged=judged), ResultTarget(SAMPLED))
    assert span is not None
    found = [
        (one.attributes["ragtide.labeler"], one.attributes["gen_ai.evaluation.score.value"])
        for one in span.events
        if one.attributes is not None
    ]
    assert found == [("local", 0.25), ("local", 1.0), ("judge", 1.0)]
    assert (span.attributes or {})["ragtide.score.trace.adherence"] == 0.25


def test_an_event_without_scores_is_no_span() -> None:
    assert result_span(event(scores={}), ResultTarget(SAMPLED)) is None


@pytest.mark.parametrize(
    ("metadata", "source", "traceparent", "expected"),
    [
        ({"trace_id": TRACE, "span_id": SPAN}, "otel", "", SAMPLED),
        ({"trace_id": TRACE, "span_id": SPAN}, "sdk", f"00-{TRACE}-{'2' * 16}-01", SAMPLED),
        ({}, None, SAMPLED, SAMPLED),
        ({}, None, SAMPLED[:-2] + "00", ""),
        ({}, None, "", ""),
        ({}, "otel", SAMPLED, ""),
        ({"trace_id": "0" * 32, "span_id": SPAN}, None, "", ""),
        ({"trace_id": TRACE.upper(), "span_id": SPAN}, None, SAMPLED, SAMPLED),
        ({"trace_id": TRACE, "span_id": f"{SPAN}\n"}, None, "", ""),
        ({"trace_id": [TRACE], "span_id": 7}, None, "", ""),
        ({}, None, f"00-{'0' * 32}-{SPAN}-01", ""),
    ],
)
def test_a_result_belongs_to_a_trace_that_a_backend_has(
    metadata: dict[str, Any], source: str | None, traceparent: str, expected: str
) -> None:
    assert target_of(interaction(metadata=metadata, source=source), traceparent) == expected


@pytest.mark.parametrize("form", FORMS)
async def test_a_worker_sends_each_result_into_its_trace(
    form: str, async_redis: Any, redis_url: str, server: OtlpServer
) -> None:
    await publish(async_redis, traced(0))
    await publish(async_redis, interaction(1), SAMPLED)
    await publish(async_redis, interaction(2))
    await publish(async_redis, interaction(3), SAMPLED[:-2] + "00")
    given = {"results_form": form, "results_headers": "x-key=secret, authorization=Basic%20YTpi"}
    async with working(redis_url, server, **given) as process:
        await scored(async_redis, 4)
    assert places(server, form) == {(TRACE, f"{1:016x}"), (TRACE, SPAN)}
    assert [count(process, outcome) for outcome in ("sent", "no_trace", "lost", "dropped")] == [2, 2, 0, 0]
    path, headers, _ = server.requests[0]
    assert path == {"log_events": "/v1/logs", "span": "/v1/traces"}[form]
    assert (headers["x-key"], headers["authorization"]) == ("secret", "Basic YTpi")


@pytest.mark.parametrize("form", FORMS)
async def test_no_text_of_an_interaction_is_sent(
    form: str, async_redis: Any, redis_url: str, server: OtlpServer
) -> None:
    await publish(async_redis, traced())
    async with working(redis_url, server, results_form=form):
        await scored(async_redis, 1)
    ((_, _, body),) = server.requests
    assert b"1889" not in body
    assert b"tower" not in body


async def test_an_entry_that_is_delivered_again_is_sent_once(
    async_redis: Any, redis_url: str, server: OtlpServer
) -> None:
    await publish(async_redis, traced())
    async with working(redis_url, server):
        await scored(async_redis, 1)
    (sent,) = server.requests
    await publish(async_redis, traced())  # a dead letter by its id: a duplicate
    async with working(redis_url, server) as process:

        async def rejected() -> bool:
            return bool(await async_redis.xlen(STREAMS.dead_letters) == 1)

        await until(rejected)
    assert server.requests == [sent]
    assert count(process, "sent") == 0


async def test_results_are_not_sent_unless_the_setting_is_on(
    async_redis: Any, redis_url: str, server: OtlpServer
) -> None:
    await publish(async_redis, traced())
    async with working(redis_url, server, results=False):
        await scored(async_redis, 1)
    assert server.requests == []


@pytest.mark.parametrize("away", ["hangs", "nobody listens", "refuses"])
async def test_a_receiver_that_is_away_neither_slows_nor_stops_a_worker(
    away: str, async_redis: Any, redis_url: str, server: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_export, "QUEUE", 20)
    monkeypatch.setattr(span_exporter, "LAST_S", 0.3)
    monkeypatch.setattr(span_exporter, "ATTEMPT_S", 0.5)
    for number in range(100):
        await publish(async_redis, traced(number))
    server.replies += [(401, {}, b"")] * 100 if away == "refuses" else []
    if away == "hangs":
        server.hangs.set()
    endpoint = {"results_endpoint": "http://127.0.0.1:1"} if away == "nobody listens" else {}
    async with working(redis_url, server, **endpoint) as process:
        await scored(async_redis, 100)
    outcomes = {outcome: count(process, outcome) for outcome in ("sent", "lost", "dropped")}
    assert sum(outcomes.values()) == 100
    assert outcomes["sent"] == 0
    assert outcomes["lost"] > 0
    if away != "refuses":
        assert outcomes["dropped"] == 80


def test_a_result_that_no_span_can_be_made_of_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    process = ProcessTelemetry()
    exporter = span_exporter.HttpSpanExporter("http://127.0.0.1:1/v1/traces")
    batches = span_exporter.SpanBatches(exporter)
    export = result_export.ResultExport(batches, WorkerTelemetry(process))
    export.emit(event(), ResultTarget("no traceparent"))
    batches.shutdown()
    assert count(process, "dropped") == 1


@pytest.mark.parametrize(
    ("form", "status", "remedy"),
    [
        ("log_events", 404, 'set otel.results_form = "span"'),
        ("log_events", 405, 'set otel.results_form = "span"'),
        ("log_events", 401, "correct otel.results_endpoint and otel.results_headers"),
        ("span", 404, "correct otel.results_endpoint and otel.results_headers"),
    ],
)
async def test_a_backend_that_takes_no_such_results_is_named_once_and_each_result_counted(
    form: str, status: int, remedy: str, server: OtlpServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.replies += [(status, {}, b"no such page")] * 5
    settings, process = OtelSettings(results=True, results_endpoint=server.url, results_form=form), ProcessTelemetry()
    async with exporting_results(settings, WorkerTelemetry(process)) as export:
        assert export is not None
        for _ in range(300):  # three requests
            export.emit(event(), ResultTarget(SAMPLED))
    assert len(server.requests) == 3
    assert [count(process, outcome) for outcome in ("sent", "lost", "dropped")] == [0, 300, 0]
    (line,) = [record.getMessage() for record in caplog.records if record.name == "ragtide.otel"]
    assert f"{server.url}/v1/{'traces' if form == 'span' else 'logs'} (status {status}: " in line
    assert remedy in line


async def test_events_that_a_backend_refuses_are_lost_results(server: OtlpServer) -> None:
    partial = ExportLogsPartialSuccess(rejected_log_records=3, error_message="too old")
    server.replies.append((200, {}, ExportLogsServiceResponse(partial_success=partial).SerializeToString()))
    process = ProcessTelemetry()
    settings = OtelSettings(results=True, results_endpoint=server.url)
    async with exporting_results(settings, WorkerTelemetry(process)) as export:
        assert export is not None
        for _ in range(10):
            export.emit(event(), ResultTarget(SAMPLED))
    assert [count(process, outcome) for outcome in ("sent", "lost")] == [7, 3]


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(("form", "signal"), [("log_events", "logs"), ("span", "traces")])
async def test_the_address_may_be_that_of_opentelemetrys_variables(
    form: str, signal: str, server: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENDPOINT, f"{server.url}/api/public/otel/")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20of-environment")
    settings = OtelSettings(results=True, results_form=form)
    for path in (f"/api/public/otel/v1/{signal}", "/elsewhere"):
        async with exporting_results(settings, WorkerTelemetry()) as export:
            assert export is not None
            export.emit(event(), ResultTarget(SAMPLED))
        found, headers, _ = server.requests.pop()
        assert (found, headers["authorization"]) == (path, "Basic of-environment")
        monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", f"{server.url}/elsewhere")


async def test_headers_of_the_environment_do_not_go_to_an_address_of_the_settings(
    server: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20of-environment")
    settings = OtelSettings(results=True, results_endpoint=server.url)
    async with exporting_results(settings, WorkerTelemetry()) as export:
        assert export is not None
        export.emit(event(), ResultTarget(SAMPLED))
    ((_, headers, _),) = server.requests
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "otel.results is on without an address: set otel.results_endpoint, or OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"results_endpoint": "tempo:4318"}, "otel.results_endpoint is wrong"),
        ({"results_endpoint": "http://tempo:4318/v1/traces/"}, 'set otel.results_form = "span", or .*/v1/logs'),
        (
            {"results_endpoint": "https://loki/otlp/v1/logs", "results_form": "span"},
            'set otel.results_form = "log_events", or .*/v1/traces',
        ),
        ({"results_endpoint": "http://tempo:4318", "results_headers": "secret"}, "otel.results_headers cannot be read"),
    ],
)
async def test_a_mistake_in_the_settings_ends_the_worker_at_its_start(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        async with exporting_results(OtelSettings(results=True, **given), WorkerTelemetry()):
            pass
    assert "secret" not in str(caught.value)


def result_request(trace_id: str, span_id: str) -> ExportTraceServiceRequest:
    """Return the request in which the result of an interaction of a trace is sent."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    span = result_span(event(), ResultTarget(f"00-{trace_id}-{span_id}-01"))
    assert span is not None
    return encode_spans([span])


async def test_results_that_come_back_are_no_interactions_and_no_late_spans(async_redis: Any) -> None:
    """Beside one backend for all, the results of ragtide reach `ragtide serve` as spans of the traces that it reads."""
    process = ProcessTelemetry()
    ingest = Ingest(async_redis)
    requests = requests_of("openai_openinference_manual")
    await ingest.send(requests)
    await ingest.reader.step()
    entries = await async_redis.xrange(STREAMS.interactions)
    found = [RagInteraction.decode(fields[DATA_FIELD]) for _, fields in entries]
    assert found
    results = [result_request(str(one.metadata["trace_id"]), str(one.metadata["span_id"])) for one in found]
    for request in results:
        accepted = await ingest.receiver.accept(request)
        assert accepted.rejected == 0
    while await ingest.reader.step():
        pass
    assert await async_redis.xlen(STREAMS.interactions) == len(found)
    assert ingest.telemetry._late._value.get() == 0
    assert process is not None
    assert [list(spans_of(request)) for request in results] == [[]] * len(results)


def test_a_result_without_the_name_of_its_scope_changes_no_interaction_either() -> None:
    """A Collector may drop the scope."""
    spans = [span for request in requests_of("openai_openinference_manual") for span in spans_of(request)]
    traces = {span.trace_id for span in spans}
    for trace_id in traces:
        trace = [span for span in spans if span.trace_id == trace_id]
        before = interactions_of(trace, IngestSettings())
        for one in before:
            assert one.interaction is not None
            request = result_request(trace_id, str(one.interaction.metadata["span_id"]))
            request.resource_spans[0].scope_spans[0].scope.name = ""
            after = interactions_of([*trace, *spans_of(request)], IngestSettings())
            assert after == before


def test_calls_of_ragtides_own_judge_are_not_read_as_answers() -> None:
    assert is_of_ragtide("ragtide", "ragtide judge call")
    assert not is_of_ragtide("ragtide", "answer a question")


def test_the_spans_survive_the_wire(server: OtlpServer) -> None:
    request = result_request(TRACE, SPAN)
    request.resource_spans[0].scope_spans[0].scope.name = "copied"
    (span,) = spans_of(decode_request(request.SerializeToString(), "protobuf"))
    assert (span.trace_id, span.parent_id, span.name) == (TRACE, SPAN, "ragtide evaluation")
    assert [one.name for one in span.events] == ["gen_ai.evaluation.result"] * 2


@pytest.mark.parametrize(
    ("reply", "level", "found"),
    [(200, "ok", "log events go to"), (400, "ok", "log events go to"), (404, "problem", "results_form"),
     (401, "problem", "results_headers"), (None, "problem", "no answer")],
)  # fmt: skip
async def test_the_doctor_says_whether_a_backend_takes_results(
    reply: int | None, level: str, found: str, server: OtlpServer
) -> None:
    server.replies.append((reply or 200, {}, b""))
    settings = OtelSettings(results=True, results_endpoint=server.url if reply else "http://127.0.0.1:1")
    (finding,) = await result_findings(settings)
    assert (finding.level, found in finding.found) == (level, True), finding
    assert all(body == b"" for _, _, body in server.requests), "it sends no result"


async def test_the_doctor_says_nothing_of_results_that_stay_and_names_settings_with_which_no_worker_starts() -> None:
    assert await result_findings(OtelSettings()) == []
    (finding,) = await result_findings(OtelSettings(results=True, results_endpoint="http://tempo:4318/v1/traces"))
    assert (finding.level, "results_form" in finding.found) == ("problem", True)
