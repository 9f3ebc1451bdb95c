"""A receiver of OTLP over HTTP that records requests and answers as it is told."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import ScopeLogs

from ragtide_producers.traces.interactions import Mapped, interactions_of
from ragtide_producers.traces.otlp import decode_request, spans_of
from ragtide_producers.traces.span import Span
from ragtide_runtime.settings.ingest import IngestSettings


class OtlpServer:
    """The recorded requests, and the replies to come."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        """Path, headers in lower case, and decompressed body of each request."""
        self.replies: list[tuple[int, dict[str, str], bytes]] = []
        """Status, headers and body of the next replies; then every request is taken."""
        self.url = ""
        self.hangs = threading.Event()
        """Set lets every request wait for an answer until `go_on` is set."""
        self.go_on = threading.Event()

    @property
    def spans(self) -> list[Span]:
        """The spans of all requests, in their order."""
        return [span for _, _, body in self.requests for span in spans_of(decode_request(body, "protobuf"))]

    @property
    def spans_of_anyone(self) -> list[Span]:
        """The spans of all requests, with those of ragtide itself, which it does not read."""
        found: list[Span] = []
        for _, _, body in self.requests:
            request = decode_request(body, "protobuf")
            for of_resource in request.resource_spans:
                for of_scope in of_resource.scope_spans:
                    of_scope.scope.name = ""
            found.extend(spans_of(request))
        return found

    @property
    def logs(self) -> list[ScopeLogs]:
        """The log records of all requests, by scope."""
        requests = (ExportLogsServiceRequest.FromString(body) for _, _, body in self.requests)
        return [
            logs for request in requests for of_resource in request.resource_logs for logs in of_resource.scope_logs
        ]

    def interactions(self, **options: Any) -> list[Mapped]:
        """Return the interactions of all spans."""
        traces: dict[str, list[Span]] = {}
        for span in self.spans:
            traces.setdefault(span.trace_id, []).append(span)
        return [
            interaction
            for trace in traces.values()
            for interaction in interactions_of(trace, IngestSettings(**options))
        ]


@contextmanager
def otlp_server() -> Iterator[OtlpServer]:
    """Give a receiver on a free port of this machine."""
    kept = OtlpServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if kept.hangs.is_set():
                kept.go_on.wait(60)
            headers = {name.lower(): value for name, value in self.headers.items()}
            is_gzip = headers.get("content-encoding") == "gzip"
            kept.requests.append((self.path, headers, gzip.decompress(body) if is_gzip else body))
            status, more, reply = kept.replies.pop(0) if kept.replies else (200, {}, b"")
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        kept.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
