"""Sends spans, or what is made of them, with OTLP over HTTP, in protobuf and gzip.

The exporter of the SDK adds the headers of `OTEL_EXPORTER_OTLP_HEADERS` to each request. These hold the key of another
backend, which must not go to this address. Import this module only where OpenTelemetry is installed.
"""

import gzip
import logging
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from typing import Any, Final
from urllib.parse import urlsplit

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtobufMessage
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from ..outside.certificates import tls_context
from ..outside.proxies import proxy_of
from ..processes.forks import at_exit_of_child
from ..settings.serve import is_loopback
from .log_limit import LogLimit

TRACES_PATH: Final = "/v1/traces"
REQUEST_MAX_BYTES: Final = 8 * 1024 * 1024
"""Most bytes of one request before compression, unless one span alone has more."""
ATTEMPT_S: Final = 5.0
"""Seconds that a step of one attempt may take: connecting, sending, waiting for the reply."""
PATIENCE_S: Final = 60.0
"""Seconds for which a batch is tried again while the receiver is away or has no room."""
LAST_S: Final = 5.0
"""Seconds for the remaining spans at the end of the process, and for a flush without a time."""
RETRIED: Final = frozenset({429, 502, 503, 504})
"""Replies after which the same request may succeed."""
ABSENT: Final = (404, 405, 501)
"""Replies of a receiver that takes no such requests at an address."""
REPLY_MAX_BYTES: Final = 65_536
BATCH_SPANS: Final = 128
"""Spans of one request, if they are small."""
_STEP_S: Final = 0.05

log = logging.getLogger("ragtide.otel")


class HttpSpanExporter(SpanExporter):
    """Sends batches of spans to one address. No method raises an error because of the receiver.

    It has no lock and no thread, so it survives a fork.

    Args:
        url: address of the receiver, with its path.
        headers: of each request, such as `authorization`.
        resource: attributes that every resource gets, beside its own.
        patience_s: seconds for which a batch is tried again.
        remedy: the action that a log line names when the receiver refuses the sender.
        absent: the action if the receiver has nothing at this address; by default `remedy`.
        encode: makes a request of spans, such as one of their log events.
        noun: what a log line calls the spans.
        report: is called with `sent` or `lost`, and a number of spans.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        resource: Mapping[str, str] | None = None,
        patience_s: float = PATIENCE_S,
        remedy: str = "correct address and token",
        absent: str | None = None,
        encode: Callable[[Sequence[ReadableSpan]], ProtobufMessage] = encode_spans,
        noun: str = "spans",
        report: Callable[[str, int], None] | None = None,
    ) -> None:
        self.url = url
        self._headers = {
            **(headers or {}),
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
            "user-agent": "ragtide",
        }
        self._resource = dict(resource or {})
        self._patience_s = patience_s
        self._remedy = remedy
        self._absent = absent or remedy
        self._encode = encode
        self._noun = noun
        self._report = report or (lambda _, __: None)
        self._until = float("inf")
        self._opener = _opener(url)
        self._log_limit = LogLimit()
        self.sent = 0
        """Spans that the receiver has taken."""
        self.lost = 0
        """Spans that were given up, or that the receiver refused."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans, in several requests if they are large; return when each was taken or given up."""
        try:
            request = self._encode(spans)
        except Exception as error:  # noqa: BLE001 - an attribute that no encoder knows must not end the thread
            return self._give_up(len(spans), f"they cannot be encoded: {type(error).__name__}: {error}")
        if request.ByteSize() > REQUEST_MAX_BYTES and len(spans) > 1:
            half = len(spans) // 2
            results = [self.export(spans[:half]), self.export(spans[half:])]
            return next((result for result in results if result is SpanExportResult.FAILURE), SpanExportResult.SUCCESS)
        return self._send(self._body(request), len(spans))

    def _body(self, request: ProtobufMessage) -> bytes:
        for of_resource in request.resource_spans if isinstance(request, ExportTraceServiceRequest) else ():
            attributes = of_resource.resource.attributes
            kept = [attribute for attribute in attributes if attribute.key not in self._resource]
            del attributes[:]
            attributes.extend(kept)
            for key, value in self._resource.items():
                attributes.add(key=key).value.string_value = value
        return gzip.compress(request.SerializeToString(), compresslevel=1)

    def _send(self, body: bytes, spans: int) -> SpanExportResult:
        began, pause_s = time.monotonic(), 0.5
        while True:
            left_s = min(began + self._patience_s, self._until) - time.monotonic()
            if left_s <= 0:
                return self._give_up(spans, "the time is over")
            status, asked_s, detail = self._attempt(body, min(ATTEMPT_S, max(left_s, 0.1)))
            if status == 200:
                return self._count_taken(spans, detail)
            if status is not None and status not in RETRIED:
                return self._give_up(spans, self._refusal(status))
            wait_s = max(pause_s, asked_s)
            if not self._wait(wait_s, began + self._patience_s):
                reason = "no answer" if status is None else f"status {status}"
                return self._give_up(spans, f"{reason} {detail}".strip())
            pause_s = min(pause_s * 2, 5.0)

    def refusal(self) -> str | None:
        """Return why the receiver takes nothing from here, by an empty request; None if nothing shows that."""
        status, _, detail = self._attempt(gzip.compress(b""), ATTEMPT_S)
        if status is None:
            return f"no answer {detail}"
        return self._refusal(status) if status in (401, 403, *ABSENT) else None

    def _refusal(self, status: int) -> str:
        return f"status {status}: {self._absent if status in ABSENT else self._remedy}"

    def _attempt(self, body: bytes, timeout_s: float) -> tuple[int | None, float, Any]:
        request = urllib.request.Request(self.url, data=body, headers=self._headers, method="POST")  # noqa: S310 - http
        try:
            with self._opener.open(request, timeout=timeout_s) as response:
                return 200, 0.0, _read_reply(response, timeout_s)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _retry_after_s(error.headers), ""
        except (OSError, HTTPException, ValueError) as error:
            return None, 0.0, f"({type(error).__name__}: {error})"

    def _wait(self, wait_s: float, patience_ends: float) -> bool:
        ends = time.monotonic() + wait_s
        while time.monotonic() < ends:
            if ends > min(self._until, patience_ends):
                return False
            time.sleep(_STEP_S)
        return True

    def _count_taken(self, spans: int, reply: bytes) -> SpanExportResult:
        try:
            # The reply to log events has the same form; an event that was refused counts as one result.
            partial = ExportTraceServiceResponse.FromString(reply).partial_success
            refused = max(min(partial.rejected_spans, spans), 0)
        except DecodeError:  # a receiver that answers with JSON
            refused, partial = 0, None
        self.sent += spans - refused
        self._report("sent", spans - refused)
        if refused and partial is not None:
            self._give_up(refused, f"the receiver refused them: {partial.error_message[:300]}")
        return SpanExportResult.SUCCESS

    def _give_up(self, spans: int, reason: str) -> SpanExportResult:
        self.lost += spans
        self._report("lost", spans)
        if times := self._log_limit.due(reason):
            log.warning(
                "%d %s were not sent to %s (%s); %d %s since the start, %d such failures since the last line",
                spans, self._noun, self.url, reason, self.lost, self._noun, times,
            )  # fmt: skip
        return SpanExportResult.FAILURE

    def end_within(self, seconds: float | None) -> None:
        """Give up whatever is not sent after so many seconds; None removes the limit."""
        self._until = float("inf") if seconds is None else time.monotonic() + seconds

    def shutdown(self) -> None:
        """Do nothing: no connection stays open."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return True: no span is held here."""
        del timeout_millis
        return True


class SpanBatches(BatchSpanProcessor):
    """Batches of spans for an exporter. Its end waits for at most five seconds, whatever the receiver does.

    Args:
        exporter: sends them.
        queue: most spans that wait; more are dropped.
        delay_s: most seconds that a span waits for others.
    """

    def __init__(self, exporter: HttpSpanExporter, *, queue: int = 2048, delay_s: float = 2.0) -> None:
        self.exporter = exporter
        super().__init__(
            exporter,
            max_queue_size=queue,
            schedule_delay_millis=delay_s * 1000,
            max_export_batch_size=min(BATCH_SPANS, queue),
        )
        self._queue = queue
        self._added = 0
        self._process = os.getpid()

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span that has ended."""
        if self._process != os.getpid():
            self._process = os.getpid()
            at_exit_of_child(self.shutdown)
        super().on_end(span)

    def add(self, span: ReadableSpan) -> bool:
        """Queue a span that has ended, and return whether there was room. Call it in one thread only."""
        if self._added - self.exporter.sent - self.exporter.lost >= self._queue:
            return False
        self._added += 1
        self.on_end(span)
        return True

    def shutdown(self) -> None:
        """Send the remaining spans, and end."""
        self.exporter.end_within(LAST_S)
        super().shutdown()  # type: ignore[no-untyped-call]  # of the SDK

    def force_flush(self, timeout_millis: int | None = None) -> bool:
        """Send the waiting spans within this time, and return whether all were taken."""
        lost = self.exporter.lost
        self.exporter.end_within(LAST_S if timeout_millis is None else timeout_millis / 1000)
        try:
            return super().force_flush(timeout_millis) and self.exporter.lost == lost
        finally:
            self.exporter.end_within(None)


def otlp_url(endpoint: str, path: str = TRACES_PATH) -> str:
    """Return the address of a receiver; an endpoint without a path gets this path.

    >>> otlp_url("http://localhost:4318"), otlp_url("https://logs.example", "/v1/logs")
    ('http://localhost:4318/v1/traces', 'https://logs.example/v1/logs')

    Raises:
        ValueError: it is no URL of HTTP; the message does not repeat it, because it may hold a password.
    """
    try:
        parts = urlsplit(endpoint.strip())
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_http = False
    if not is_http or any(character.isspace() or not character.isprintable() for character in endpoint.strip()):
        raise ValueError(f"it is no address: write one such as http://127.0.0.1:4318{path}")
    return parts.geturl() if parts.path.strip("/") else parts._replace(path=path).geturl()


def _read_reply(response: HTTPResponse, most_s: float) -> bytes:
    ends, reply = time.monotonic() + most_s, bytearray()
    while len(reply) < REPLY_MAX_BYTES and time.monotonic() < ends and (part := response.read1(8192)):
        reply += part
    return bytes(reply)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the request holds a token and texts."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return nothing, so that the reply counts as an error."""


def _opener(url: str) -> urllib.request.OpenerDirector:
    parts = urlsplit(url)
    # The way to this machine leads through no proxy, which would see the texts.
    proxy = None if is_loopback(parts.hostname or "") else proxy_of(url)
    # Without an entry the library would read the variables by rules of its own.
    handlers: list[urllib.request.BaseHandler] = [
        _NoRedirect(),
        urllib.request.ProxyHandler({} if proxy is None else {parts.scheme: proxy.url}),
    ]
    if "https" in (parts.scheme, "" if proxy is None else urlsplit(proxy.url).scheme):
        handlers.append(urllib.request.HTTPSHandler(context=tls_context()))
    return urllib.request.build_opener(*handlers)


def _retry_after_s(headers: Message) -> float:
    value = str(headers.get("retry-after") or "").strip()[:100]
    try:
        return min(max(0.0, float(value)), PATIENCE_S) if value else 0.0
    except ValueError:
        pass
    try:
        return min(max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0), PATIENCE_S)
    except (ValueError, TypeError, OverflowError):
        return 0.0
