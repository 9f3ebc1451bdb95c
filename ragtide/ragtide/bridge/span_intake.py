"""Takes messages of spans into Redis: what the exporters of an OpenTelemetry Collector write to a topic."""

import asyncio
from collections.abc import Sequence

from redis.asyncio import Redis

from ragtide_producers.errors import IngestFullError, InvalidTracesError, TooManySpansError
from ragtide_producers.ingest.receiver import ReadRequest, TraceReceiver, read_body
from ragtide_producers.ingest.span_store import SpanStore
from ragtide_producers.ingest.telemetry import IngestTelemetry
from ragtide_runtime.processes.waiting import Backoff
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Reason

from .addresses import BrokerAddress
from .intake import REDIS_ERRORS, Intake, dead_letter
from .links import Received
from .telemetry import BridgeTelemetry


class SpanIntake(Intake):
    """Stores the spans of messages; `TraceReader` publishes their interactions when they are complete.

    Args:
        redis: client.
        telemetry: counts spans.
        stop: ends waiting for Redis or for room.
        ingest: counts spans as the HTTP service does.
    """

    def __init__(  # noqa: PLR0917 - those of an intake, and one more
        self,
        redis: Redis,
        settings: Settings,
        address: BrokerAddress,
        telemetry: BridgeTelemetry,
        stop: asyncio.Event,
        ingest: IngestTelemetry,
    ) -> None:
        super().__init__(redis, settings, address, telemetry, stop)
        self._receiver = TraceReceiver(SpanStore(redis, settings.layout, settings.ingest), ingest)

    async def take(self, messages: Sequence[Received]) -> None:
        """Return once all spans of the messages are in Redis, or the message is a dead letter.

        Raises:
            StoppedError: the bridge stops first.
        """
        for message in messages:
            try:
                request = await asyncio.to_thread(read_spans, message.body)
            except InvalidTracesError as error:
                reason = Reason.TOO_LARGE if isinstance(error, TooManySpansError) else Reason.INVALID
                letter = dead_letter(message.body, message.entry_id, self._address, reason, str(error))
                await self.reject([letter])
                self._telemetry.taken({"dead_letter": 1})
                continue
            await self._store(request)

    async def _store(self, request: ReadRequest) -> None:
        pause = Backoff()
        while True:
            try:
                accepted = await self._receiver.store(request)
            except IngestFullError as error:
                await self.wait(str(error), pause)
            except REDIS_ERRORS as error:
                await self.redis_failed(error, pause)
            else:
                self._outage.succeeded()
                self._telemetry.taken({"spans": accepted.spans})
                return


def read_spans(body: bytes) -> ReadRequest:
    """Return the request in a message.

    Args:
        body: an export request of traces, in protobuf or JSON.

    Raises:
        InvalidTracesError: it is none.
    """
    # No blanks are skipped: protobuf begins with the byte of a new line, and the next one is a length.
    return read_body((body,), "json" if body[:1] == b"{" else "protobuf")
