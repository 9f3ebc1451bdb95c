"""Stores spans of captures and hand-made traces in Redis, and reads them until none is due."""

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.conditions import until

from ragtide_producers.ingest.receiver import TraceReceiver
from ragtide_producers.ingest.service import TraceReader
from ragtide_producers.ingest.span_store import SpanStore
from ragtide_producers.ingest.telemetry import IngestTelemetry
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_schemas import RagInteraction

CAPTURES = Path(__file__).parents[1] / "data" / "otlp"
NAMES = sorted(path.name for path in CAPTURES.iterdir() if path.is_dir())


def requests_of(name: str) -> list[ExportTraceServiceRequest]:
    """Return the requests of a capture, in their order."""
    files = sorted((CAPTURES / name).glob("*.pb*"))
    bodies = [gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes() for file in files]
    return [ExportTraceServiceRequest.FromString(body) for body in bodies]


def expected_of(name: str) -> list[tuple[str, str, str]]:
    """Return trace id, question and response of the interactions that a capture holds."""
    found = json.loads((CAPTURES / name / "expected.json").read_text("utf-8"))["interactions"]
    return sorted((item["trace_id"], item["question"], item["response"]) for item in found)


def one_span_each(requests: Iterable[ExportTraceServiceRequest]) -> list[ExportTraceServiceRequest]:
    """Return the same spans, one a request."""
    found: list[ExportTraceServiceRequest] = []
    for request in requests:
        for of_resource in request.resource_spans:
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    one = ExportTraceServiceRequest()
                    into = one.resource_spans.add()
                    into.resource.CopyFrom(of_resource.resource)
                    into.scope_spans.add().spans.add().CopyFrom(span)
                    found.append(one)
    return found


def joined(requests: Iterable[ExportTraceServiceRequest]) -> ExportTraceServiceRequest:
    """Return one request with the spans of all."""
    whole = ExportTraceServiceRequest()
    for request in requests:
        whole.resource_spans.extend(request.resource_spans)
    return whole


def copied(message: Message) -> Any:
    """Return a copy, because a receiver changes its request."""
    other = type(message)()
    other.CopyFrom(message)
    return other


class Ingest:
    """The receiver and the reader of one deployment, without a server."""

    def __init__(self, redis: Any, prefix: str = "ragtide", partitions: int = 1, **ingest: Any) -> None:
        given = {"settle_s": 0, "quiet_s": 0, "explain_s": 0, "default_pipeline": "helpdesk", **ingest}
        self.settings = Settings(prefix=prefix, partitions=partitions, ingest=IngestSettings(**given))
        self.redis = redis
        process = ProcessTelemetry()
        self.registry = process.registry
        self.telemetry = IngestTelemetry(process)
        self.store = SpanStore(redis, self.settings.layout, self.settings.ingest)
        self.receiver = TraceReceiver(self.store, self.telemetry)
        self.reader = TraceReader(self.settings, redis, self.telemetry)

    async def send(self, requests: Iterable[ExportTraceServiceRequest], pipelines: Sequence[str] = ()) -> None:
        for request in requests:
            await self.receiver.accept(copied(request), pipelines)

    async def read_all(self) -> None:
        """Read until no trace is open."""

        async def none_is_open() -> bool:
            await self.reader.step()
            return all(size.open == 0 for size in await self.store.sizes())

        await until(none_is_open)

    async def interactions(self) -> list[RagInteraction]:
        """Return the interactions in the streams."""
        found = []
        for streams in self.settings.layout.all():
            for entry_id, fields in await self.redis.xrange(streams.interactions):
                found.append(RagInteraction.from_entry(entry_id.decode(), fields[b"data"]))
        return found

    async def contents(self) -> list[tuple[str, str, str]]:
        """Return trace id, question and response of the published interactions."""
        return sorted(
            (interaction.interaction_id.split("-")[1], interaction.question, interaction.response)
            for interaction in await self.interactions()
        )
