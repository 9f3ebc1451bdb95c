"""Captures the spans of constructions as fixtures: `python -m tests.instrumentations.capture FRAMEWORK [NAME ...]`.

It runs `apps/constructions_FRAMEWORK.py` with the real libraries, and writes a file for each construction: its spans as
the exporter sent them (OTLP in JSON), and what the application itself saw. Ids and times are the same in each run.
"""

import gzip
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from tests.instrumentations.environments import ENVIRONMENTS
from tools.environments import ROOT

from ragtide_producers.traces.otlp import decode_request

APPS: Final = Path(__file__).parent / "apps"
CAPTURED: Final = ROOT / "tests" / "producers" / "traces" / "captured"
START_NS: Final = 1_790_000_000_000_000_000
LEFT_OUT: Final = (
    "exception.stacktrace",
    "code.filepath",
    "code.file.path",
    "process.",
    "host.",
    "telemetry.sdk.",
    "service.instance.",
)
"""Beginnings of the names of attributes that differ between machines, and have nothing of an answer."""


ENVIRONMENT: Final = {
    "crewai": "crewai",
    "dspy": "dspy",
    "google_adk": "google-adk",
    "haystack": "haystack",
    "langchain": "langchain",
    "langgraph": "langchain",
    "llamaindex": "llamaindex",
    "mcp": "mcp",
    "openai_agents": "openai-agents",
    "pydantic_ai": "pydantic-ai",
    "semantic_kernel": "semantic-kernel",
    "strands": "strands",
}
"""The environment of each framework."""


def run_constructions(framework: str, endpoint: str, truth: Path, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Run the constructions of a framework, whose spans go to an address, and return what each saw."""
    given = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE"))},
        "RAGTIDE_OTEL_ENDPOINT": endpoint,
        "RAGTIDE_TRUTH": str(truth),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [str(ENVIRONMENTS.python_of(ENVIRONMENT[framework])), str(APPS / f"constructions_{framework}.py"), *names]
    done = subprocess.run(
        command, env=given, cwd=truth.parent, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the constructions of {framework} failed:\n{done.stdout[-1000:]}{done.stderr[-2500:]}")
    return [json.loads(line) for line in truth.read_text("utf-8").splitlines()]


@contextmanager
def _receiver() -> Iterator[tuple[str, list[bytes]]]:
    """Yield the address of a receiver, and the bodies that it got."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            bodies.append(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", bodies
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class _Captured:
    """A span as OTLP's JSON has it, with the JSON of its resource and of its scope."""

    span: dict[str, Any]
    resource: str
    scope: str


def spans_by_trace(bodies: Sequence[bytes]) -> dict[str, list[_Captured]]:
    """Return the spans of requests by trace."""
    found: dict[str, list[_Captured]] = {}
    for body in bodies:
        request = decode_request(body, "protobuf")
        for of_resource in request.resource_spans:
            resource = json.dumps({"attributes": _kept(MessageToDict(of_resource.resource).get("attributes", []))})
            for of_scope in of_resource.scope_spans:
                scope = json.dumps({"name": of_scope.scope.name})
                for wire in of_scope.spans:
                    # Links name spans of other traces, and nothing reads them.
                    span = {key: value for key, value in MessageToDict(wire).items() if key != "links"}
                    span |= {"traceId": wire.trace_id.hex(), "spanId": wire.span_id.hex()}
                    if wire.parent_span_id:
                        span["parentSpanId"] = wire.parent_span_id.hex()
                    for place in (span, *span.get("events", ())):
                        place["attributes"] = _kept(place.get("attributes", []))
                    if "message" in span.get("status", {}):  # a traceback, which is long
                        span["status"]["message"] = span["status"]["message"][:200]
                    found.setdefault(span["traceId"], []).append(_Captured(span, resource, scope))
    return found


def _kept(attributes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in attributes if not item["key"].startswith(LEFT_OUT)]


def fixture(name: str, told: dict[str, Any], traces: dict[str, list[_Captured]]) -> str:
    """Return the text of a fixture, with ids by their order and times from a fixed one on."""
    captured = [captured for trace in told["traces"] for captured in traces.get(trace, ())]
    captured.sort(key=lambda captured: int(captured.span["startTimeUnixNano"]))
    moved_ns = START_NS - int(captured[0].span["startTimeUnixNano"]) if captured else 0
    numbers: dict[str, int] = {}
    grouped: dict[tuple[str, str], list[str]] = {}
    for span in (one.span for one in captured):
        for key, digits in (("traceId", 32), ("spanId", 16)):
            span[key] = f"{numbers.setdefault(span[key], len(numbers) + 1):0{digits}x}"
        if "parentSpanId" in span:
            span["parentSpanId"] = f"{numbers.setdefault(span['parentSpanId'], len(numbers) + 1):016x}"
        for place in (span, *span.get("events", ())):
            for key in ("startTimeUnixNano", "endTimeUnixNano", "timeUnixNano"):
                if key in place:
                    place[key] = str(int(place[key]) + moved_ns)
    for one in captured:
        grouped.setdefault((one.resource, one.scope), []).append(json.dumps(one.span, ensure_ascii=False))
    groups = ",\n".join(
        f'{{"resource": {resource}, "scopeSpans": [{{"scope": {scope}, "spans": [\n' + ",\n".join(lines) + "\n]}]}"
        for (resource, scope), lines in grouped.items()
    )
    head = {key: told[key] for key in ("construction", "outcome", "seen")}
    text = f'{{"truth": {json.dumps(head, ensure_ascii=False, indent=1)},\n"resourceSpans": [\n{groups}\n]}}\n'
    text = _with_stable_uuids(text).replace(str(ROOT), "/app")  # tracebacks have paths
    for secret in (str(Path.home()), socket.gethostname(), tempfile.gettempdir() + "/"):
        if len(secret) > len("/root") - 1 and secret in text:
            raise ValueError(f"{name}: the fixture has {secret!r}, which is of this machine")
    return text


_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def _with_stable_uuids(text: str) -> str:
    known: dict[str, str] = {}
    return _UUID.sub(lambda found: known.setdefault(found[0], f"00000000-0000-7000-8000-{len(known) + 1:012x}"), text)


def versions(framework: str) -> list[str]:
    """Return the packages of the environment of a framework that its requirements name, with their versions."""
    environment = ENVIRONMENT[framework]
    lines = (ENVIRONMENTS.requirements / f"{environment}.txt").read_text("utf-8").splitlines()
    names = [re.split(r"[\[<>=]", line)[0] for line in lines if not line.startswith(("#", "numpy", "arize"))]
    code = "import sys, importlib.metadata as m; print('\\n'.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
    command = [str(ENVIRONMENTS.python_of(environment)), "-c", code, *names]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def main(framework: str, *names: str) -> None:
    """Write the fixtures of a framework, or of the named constructions of it."""
    with tempfile.TemporaryDirectory() as folder, _receiver() as (endpoint, bodies):
        told = run_constructions(framework, endpoint, Path(folder) / "truth.jsonl", names)
    traces = spans_by_trace(bodies)
    place = CAPTURED / framework
    place.mkdir(parents=True, exist_ok=True)
    (place / "versions.txt").write_text("\n".join([*versions(framework), ""]), "utf-8")
    for construction in told:
        name = construction["construction"]
        text = fixture(f"{framework}/{name}", construction, traces)
        (place / f"{name}.json").write_text(text, "utf-8")
        sys.stdout.write(f"{framework}/{name}: {len(text):,} bytes, {len(construction['seen'])} answers\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
