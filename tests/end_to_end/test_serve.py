"""`ragtide serve` as a process: traces in, scores out; of two processes one is killed in the middle."""

import json
import re
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.conditions import wait_until
from tests.support.ingest import NAMES, expected_of, one_span_each, requests_of
from tests.support.redis_processes import cluster
from tests.support.roles import begin, command, kill, running
from tests.support.wire_spans import rag, request, span
from tools.pages.constructions import CAPTURED

from ragtide_producers.traces.otlp import decode_request
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.layout import Layout
from ragtide_schemas import RagInteraction

INGEST = {
    "RAGTIDE_SERVE_PORT": "0",
    "RAGTIDE_INGEST_SETTLE_S": "0.5",
    "RAGTIDE_INGEST_QUIET_S": "3600",
    "RAGTIDE_INGEST_DEFAULT_PIPELINE": "helpdesk",
}


def port_in(log: Path) -> int:
    """Return the port that a process has logged."""
    found: list[str] = []

    def is_told() -> bool:
        found[:] = re.findall(r'"port": (\d+), "tokens"', log.read_text())
        return bool(found)

    wait_until(is_told)
    return int(found[-1])


def send(port: int, body: bytes, path: str = "/v1/traces", kind: str = "application/x-protobuf") -> Any:
    request = Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": kind})
    with urlopen(request, timeout=60) as reply:
        return reply.read()


def get(port: int, path: str) -> Any:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as reply:
        return json.loads(reply.read())


def published(redis: Any, partitions: int = 1) -> list[tuple[str, str, str]]:
    """Return trace id, question and response of all interactions."""
    found = [
        RagInteraction.from_entry(entry.decode(), fields[b"data"])
        for streams in Layout("ragtide", partitions).all()
        for entry, fields in redis.xrange(streams.interactions)
    ]
    return sorted((one.interaction_id.split("-")[1], one.question, one.response) for one in found)


def everything() -> list[tuple[str, str, str]]:
    return sorted(one for name in NAMES for one in expected_of(name))


def all_requests() -> list[ExportTraceServiceRequest]:
    return [request for name in NAMES for request in requests_of(name)]


def test_traces_become_scores_and_http_shows_those_of_the_command(redis: Any, redis_url: str, tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    with running("up", redis_url, log, INGEST):
        port = port_in(log)
        for request in all_requests():
            send(port, request.SerializeToString())
        expected = len(everything())

        def are_scored() -> bool:
            found = get(port, "/v1/estimates?metric=trace.adherence")
            n: int = sum(one["n"] + one["n_absent"] for one in found if one["segment"] is None)
            return n == expected

        wait_until(are_scored)
        shown = json.loads(command(redis_url, "estimates", "--json").stdout)
        assert get(port, "/v1/estimates") == shown
        assert get(port, "/readyz")["ok"]


def test_one_of_two_processes_is_killed_in_the_middle(redis: Any, redis_url: str, tmp_path: Path) -> None:
    """The sender repeats a request whose answer did not come, as an exporter does."""
    requests = one_span_each(all_requests())
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    first = begin(redis_url, logs[0], "serve", extra=INGEST)
    try:
        with running("serve", redis_url, logs[1], INGEST):
            ports = [port_in(log) for log in logs]
            _send_by_turns(ports, requests[: len(requests) // 2])
            first.kill()
            first.wait()
            _send_by_turns(ports, requests[len(requests) // 2 - 20 :])
            wait_until(lambda: published(redis) == everything())
            wait_until(lambda: not redis.zcard("ragtide:{0}:open-traces"))
            assert published(redis) == everything()
    finally:
        first.kill()


def _send_by_turns(ports: list[int], requests: Iterable[ExportTraceServiceRequest]) -> None:
    for number, one in enumerate(requests):
        try:
            send(ports[number % 2], one.SerializeToString())
        except (URLError, ConnectionError):
            send(ports[1], one.SerializeToString())


@pytest.mark.heavy
def test_on_a_cluster_traces_of_all_partitions_are_read(tmp_path: Path) -> None:
    settings = {**INGEST, "RAGTIDE_PARTITIONS": "8"}
    with cluster(tmp_path / "cluster") as nodes:
        log = tmp_path / "serve.log"
        with running("serve", nodes.url, log, settings):
            port = port_in(log)
            for request in all_requests():
                send(port, request.SerializeToString())
            with connect(nodes.url) as redis:
                wait_until(lambda: published(redis, 8) == everything())


def test_an_option_names_the_attribute_with_the_version_in_place_of_the_setting(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    sent = request(*rag(), **{"service.version": "1.2", "canary": "b"})
    for number, (setting, options, version) in enumerate(
        [("auto", [], {"version": "1.2"}), ("off", ["--version-from", "canary"], {"version": "b"}), ("off", [], {})]
    ):
        redis.flushdb()
        log = tmp_path / f"{number}.log"
        extra = {**INGEST, "RAGTIDE_INGEST_SETTLE_S": "0", "RAGTIDE_INGEST_VERSION_FROM": setting}
        process = begin(redis_url, log, "serve", *options, extra=extra)
        try:
            send(port_in(log), sent.SerializeToString())
            wait_until(lambda: redis.xlen("ragtide:{0}:interactions"))
        finally:
            kill(process)
        ((entry, fields),) = redis.xrange("ragtide:{0}:interactions")
        assert RagInteraction.from_entry(entry.decode(), fields[b"data"]).segments == version


def test_a_port_in_use_is_one_sentence(redis_url: str, redis: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = command(redis_url, "serve", "--port", str(port))
    assert done.returncode == 1
    assert f"cannot serve on 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr
    done = command(redis_url, "serve", "--host", "0.0.0.0")
    assert done.returncode == 2
    assert "serve.tokens" in done.stderr


def test_captured_requests_are_files_for_explain(redis_url: str, redis: Any, tmp_path: Path) -> None:
    log, folder = tmp_path / "serve.log", tmp_path / "captured"
    process = begin(redis_url, log, "serve", "--capture", str(folder), extra=INGEST)
    try:
        port = port_in(log)
        for request in requests_of("langchain_openinference"):
            send(port, request.SerializeToString())
    finally:
        process.kill()
        process.wait()
    files = sorted(str(path) for path in folder.iterdir())
    done = command(redis_url, "ingest", "explain", "--json", *files)
    found = [interaction for trace in json.loads(done.stdout) for interaction in trace["interactions"]]
    assert len(found) == len(expected_of("langchain_openinference"))


def by_ends(name: str) -> list[ExportTraceServiceRequest]:
    """Return the spans of a fixture, one a request, in the order in which they ended."""
    whole = decode_request((CAPTURED / f"{name}.json").read_bytes(), "json")
    return sorted(
        one_span_each([whole]), key=lambda one: one.resource_spans[0].scope_spans[0].spans[0].end_time_unix_nano
    )


@pytest.mark.parametrize("name", ["llamaindex/agent_two_rounds", "langchain/agent_two_tools"])
def test_an_agent_is_published_soon_after_its_span_ended(name: str, redis: Any, redis_url: str, tmp_path: Path) -> None:
    """With `ingest.quiet_s` of an hour it would come an hour later."""
    log = tmp_path / "serve.log"
    with running("serve", redis_url, log, INGEST):
        port = port_in(log)
        for export in by_ends(name):
            send(port, export.SerializeToString())
        wait_until(lambda: bool(published(redis)))


def test_what_gave_no_score_is_listed_counted_and_explained(redis: Any, redis_url: str, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    with running("serve", redis_url, log, {**INGEST, "RAGTIDE_INGEST_QUIET_S": "0.5"}):
        port = port_in(log)
        silent = [one for trace in (1, 2, 3) for one in rag(trace=trace, answer="")]
        send(port, request(*silent, *rag(trace=4)).SerializeToString())
        send(port, request(span(1, trace=5), service="index").SerializeToString())

        def are_over() -> bool:
            found = json.loads(command(redis_url, "doctor", "--json").stdout)
            shown.update({finding["subject"]: finding for finding in found})
            return {"traces of shop", "traces of index"} <= shown.keys() and "3 of 4" in shown["traces of shop"][
                "found"
            ]

        shown: dict[str, Any] = {}
        wait_until(are_over)
    assert "3 no content" in shown["traces of shop"]["found"]
    letters = json.loads(f"[{','.join(command(redis_url, 'dead-letters', '--json').stdout.splitlines())}]")
    assert {letter["reason"] for letter in letters} == {"no_content"}
    named = shown["traces of index"]["advice"].split()[-1]
    (explained,) = json.loads(command(redis_url, "ingest", "explain", "--json", named).stdout)
    assert explained["service"] == "index"
    assert explained["reason"].startswith("no span is a retrieval")
