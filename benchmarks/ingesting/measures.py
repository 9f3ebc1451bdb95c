"""Measurements of `ragtide serve`: the rate of traces, the memory of open traces, the rate of interactions."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from processes import interactions

from ragtide_producers.traces.interactions import interactions_of
from ragtide_producers.traces.otlp import spans_of
from ragtide_producers.traces.span import Span
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.ingest import IngestSettings

from .requests import one_span_traces, trace_requests
from .sending import request, send, service

R = TypeVar("R")

STREAMS = Streams("ragtide", 0)
PIPELINE = "helpdesk"
"""Pipeline of the captured applications without a name."""
TRACES, INTERACTIONS = "/v1/traces", "/v1/interactions"
PROTOBUF = "application/x-protobuf"
EXPORTERS = 4
"""Connections that send traces."""
SETTLE_S = 0.2
"""Seconds without a new span after which an interaction is complete, so that the wait counts little in the rate."""
LONG: dict[str, str] = {
    "RAGTIDE_INGEST_SETTLE_S": "600",
    "RAGTIDE_INGEST_QUIET_S": "3600",
}
"""Settings with which no trace is complete during a measurement."""


@dataclass(frozen=True)
class Cost:
    """Seconds that some work took."""

    wall_s: float
    processor_s: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.wall_s + other.wall_s, self.processor_s + other.processor_s)


@dataclass(frozen=True)
class TraceCosts:
    """Costs of one round of traces."""

    spans: int
    interactions: int
    parsed: Cost
    """Protobuf parses the requests."""
    mapped: Cost
    """The requests are parsed and become interactions in one thread, without Redis and HTTP."""
    served: Cost
    """From the first request to the last interaction in the stream; processor time is that of the service."""
    retries: int
    """Requests that were answered with 429, and sent again."""


async def measure_traces(redis: Any, url: str, log: Path, spans: int, seed: int) -> TraceCosts:
    """Measure from the first request to the last interaction in the stream."""
    bodies = trace_requests(spans, seed)
    parsed, parsing = _timed(lambda: [ExportTraceServiceRequest.FromString(body) for body in bodies])
    count = sum(
        len(scope.spans) for message in parsed for resource in message.resource_spans for scope in resource.scope_spans
    )
    wanted, mapping = _timed(lambda: _mapped(parsed))
    await _emptied(redis)
    settings = {"RAGTIDE_INGEST_SETTLE_S": str(SETTLE_S), "RAGTIDE_INGEST_DEFAULT_PIPELINE": PIPELINE}
    async with service(url, log, **settings) as serving:
        requests = [request("POST", TRACES, body, PROTOBUF) for body in bodies]
        processor_s, started = serving.processor_s(), time.perf_counter()
        statuses = await send(serving.port, requests, connections=EXPORTERS)
        await _until_published(redis, wanted)
        served = Cost(time.perf_counter() - started, serving.processor_s() - processor_s)
    if set(statuses) - {200, 429}:
        raise RuntimeError(f"requests of traces were answered with {dict(statuses)}: expected 200")
    return TraceCosts(count, wanted, parsing, parsing + mapping, served, statuses[429])


def _timed(body: Callable[[], R]) -> tuple[R, Cost]:
    """Return the result of some work in this thread, and its cost."""
    wall_s, processor_s = time.perf_counter(), time.thread_time()
    result = body()
    return result, Cost(time.perf_counter() - wall_s, time.thread_time() - processor_s)


def _mapped(requests: Sequence[Any]) -> int:
    """Return the number of interactions in requests."""
    options = IngestSettings(default_pipeline=PIPELINE)
    traces: defaultdict[str, list[Span]] = defaultdict(list)
    for message in requests:
        for span in spans_of(message):
            traces[span.trace_id].append(span)
    return sum(found.interaction is not None for spans in traces.values() for found in interactions_of(spans, options))


async def _emptied(redis: Any) -> None:
    """Delete every key; when this returns, Redis has freed their memory."""
    await redis.execute_command("FLUSHALL", "SYNC")


async def _until_published(redis: Any, count: int) -> None:
    deadline = time.perf_counter() + 300.0
    while (published := await redis.xlen(STREAMS.interactions)) < count:
        if time.perf_counter() > deadline:
            raise TimeoutError(f"{published} of {count} interactions were published in 300 s")
        await asyncio.sleep(0.02)


@dataclass(frozen=True)
class OpenTraces:
    """Memory when no more traces are taken."""

    traces: int
    """Traces that wait."""
    stored: int
    """Bytes of spans by the count of ragtide, which `ingest.traces_bytes` limits."""
    redis_used: int
    """Bytes by which the used memory of Redis has grown."""
    resident_before: int
    """Bytes of the service before the first span."""
    resident_after: int
    refused: int
    """Requests that were answered with 429."""


async def measure_memory(
    redis: Any, url: str, log: Path, *, traces_cap: int, traces_bytes: int, whole: bool, seed: int
) -> OpenTraces:
    """Send traces that stay open until requests are refused, and then some more.

    Args:
        redis: client.
        url: of Redis.
        log: file for the log of the service.
        traces_cap: the setting `ingest.traces_cap`.
        traces_bytes: the setting `ingest.traces_bytes`.
        whole: whether traces are whole; else each has a single span.
        seed: of the trace ids.
    """
    await _emptied(redis)
    used = (await redis.info("memory"))["used_memory"]
    limits = {"RAGTIDE_INGEST_TRACES_CAP": str(traces_cap), "RAGTIDE_INGEST_TRACES_BYTES": str(traces_bytes)}
    async with service(url, log, **LONG, **limits) as serving:
        before, refused = serving.resident_bytes(), 0
        while not refused:
            seed += 1
            bodies = trace_requests(20_000, seed) if whole else one_span_traces(10_000, seed)
            requests = (request("POST", TRACES, body, PROTOBUF) for body in bodies)
            refused = (await send(serving.port, requests, connections=EXPORTERS, retry=False))[429]
        return OpenTraces(
            traces=int(await redis.zcard(STREAMS.open_traces)),
            stored=int(await redis.get(STREAMS.traces_bytes)),
            redis_used=(await redis.info("memory"))["used_memory"] - used,
            resident_before=before,
            resident_after=serving.resident_bytes(),
            refused=refused,
        )


@dataclass(frozen=True)
class PostRates:
    """Interactions a second of one round, with one size of batch and one number of connections."""

    http: float
    http_of_processor: float
    """Interactions in a second of the processor time of the service."""
    raw: float
    """Interactions that redis-py adds with XADD, each batch in a pipeline."""


async def measure_posts(
    redis: Any, url: str, log: Path, *, requests: int, sizes: Sequence[int], connections: Sequence[int]
) -> dict[tuple[int, int], PostRates]:
    """Measure interactions over HTTP beside XADD, by size of batch and number of connections.

    Args:
        redis: client.
        url: of Redis.
        log: file for the log of the service.
        requests: requests of each measurement; a fifth of them with batches of 100 or more.
        sizes: interactions of a request.
        connections: numbers of connections.
    """
    found = {}
    async with service(url, log) as serving:
        for size in sizes:
            count = (requests if size < 100 else requests // 5) * size
            payloads = [interaction.encode() for interaction in interactions(count)]
            batches = [payloads[start : start + size] for start in range(0, count, size)]
            bodies = [batch[0] if size == 1 else b"[" + b",".join(batch) + b"]" for batch in batches]
            posts = [request("POST", INTERACTIONS, body) for body in bodies]
            for number in connections:
                await _emptied(redis)
                processor_s, started = serving.processor_s(), time.perf_counter()
                statuses = await send(serving.port, posts, connections=number)
                seconds = time.perf_counter() - started
                processor_s = serving.processor_s() - processor_s
                published = await redis.xlen(STREAMS.interactions)
                if set(statuses) != {200} or published != count:
                    raise RuntimeError(f"{published} of {count} interactions were published, with {dict(statuses)}")
                raw_s = await _added(redis, batches, number)
                found[size, number] = PostRates(count / seconds, count / processor_s, count / raw_s)
    return found


async def _added(redis: Any, batches: Sequence[Sequence[bytes]], connections: int) -> float:
    """Return the seconds that redis-py takes to add batches over so many connections."""
    await _emptied(redis)
    waiting = iter(batches)

    async def sender() -> None:
        for batch in waiting:
            async with redis.pipeline(transaction=False) as pipe:
                for payload in batch:
                    pipe.xadd(STREAMS.interactions, {DATA_FIELD: payload})
                await pipe.execute()

    started = time.perf_counter()
    await asyncio.gather(*(sender() for _ in range(connections)))
    return time.perf_counter() - started
