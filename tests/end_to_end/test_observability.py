"""Roles as real processes, looked at from outside: scraped, probed, their logs and traces read."""

import http.server
import json
import os
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families
from redis import RedisError
from tests.support.conditions import wait_until
from tests.support.roles import (
    STREAMS,
    command,
    interactions,
    metric_events,
    running,
    wait_for_aggregation,
    wait_for_events,
)

from ragtide import InteractionProducer
from ragtide.testing import ScriptedJudge, Status
from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.telemetry.catalogue import (
    AGGREGATOR_METRICS,
    INGEST_METRICS,
    JUDGE,
    NOTIFY_METRICS,
    RECORDED_KINDS,
    REDIS_METRICS,
    WORKER_METRICS,
)
from ragtide_schemas import Dropped
from ragtide_schemas.errors import Reason

SETTINGS_OF_ALL_ROLES = """
labeler = "cascade"
[cascade]
rate = 0.1
[judge]
base_url = "http://127.0.0.1:9"
model = "judge-1"
api_key = "k"
[notify]
allow_private = true
[[notify.destinations]]
name = "hook"
kind = "webhook"
url = "http://127.0.0.1:9/"
[[alerts]]
name = "fall"
metric = "trace.adherence"
kind = "drift"
"""
SERVED = {"RAGTIDE_HTTP_PORT": "0", "RAGTIDE_LOG_LEVEL": "debug"}


class Role:
    """A role, as its HTTP endpoints show it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        wait_until(lambda: self._events("serving metrics and health"))
        self.port = self._events("serving metrics and health")[-1]["port"]

    def _events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.logged() if event["event"] == name]

    def logged(self) -> list[dict[str, Any]]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def status(self, path: str) -> int:
        return self.get(path)[0]

    def scrape(self) -> dict[tuple[str, ...], float]:
        """Return each sample by its name and label values."""
        status, text = self.get("/metrics")
        assert status == 200
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


def publish(url: str, count: int) -> None:
    with InteractionProducer(url) as producer:
        producer.publish_many(interactions(count))


def test_every_counter_exists_at_0_before_its_first_event(redis: Any, redis_url: str, tmp_path: Path) -> None:
    """`increase` of Prometheus misses the first events of a series that is born with a value."""
    log = tmp_path / "up.log"
    (tmp_path / "ragtide.toml").write_text(SETTINGS_OF_ALL_ROLES, encoding="utf-8")
    extra = {**SERVED, "RAGTIDE_SERVE_PORT": "0", "RAGTIDE_CONFIG": str(tmp_path / "ragtide.toml")}
    with running("up", redis_url, log, extra):
        role = Role(log)
        wait_until(lambda: role.status("/readyz") == 200)
        found = role.scrape()
    assert tuple(EntryKind) == RECORDED_KINDS
    started = {name for name, *_ in found}
    roles = (WORKER_METRICS, AGGREGATOR_METRICS, INGEST_METRICS, NOTIFY_METRICS, REDIS_METRICS, JUDGE.all())
    counters = [metric for metrics in roles for metric in metrics if metric.kind == "counter"]
    assert len(counters) > 25
    assert {metric.name for metric in counters} - started == set()
    for name, *values in (
        *(("ragtide_dead_letters_total", reason) for reason in Reason),
        *(("ragtide_dropped_total", "0", why) for why in Dropped),
        ("ragtide_notifications_total", "hook", "given_up"),
        ("ragtide_notifications_withheld_total", "hook", "storm"),
        ("ragtide_judge_calls_total", "judge-1", "timeout"),
        ("ragtide_judge_tokens_total", "prompt", "judge-1"),
        ("ragtide_alerts_total", "fall", "firing"),
        ("ragtide_http_requests_total", "/v1/interactions", "429"),
    ):
        assert found[(name, *values)] == 0, (name, values)


def test_the_numbers_of_a_scrape_are_those_of_what_happened(redis: Any, redis_url: str, tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    with running("up", redis_url, log, SERVED):
        role = Role(log)
        wait_until(lambda: role.status("/readyz") == 200)
        publish(redis_url, 60)
        redis.xadd(STREAMS.interactions, {DATA_FIELD: b"not json"})
        wait_for_events(redis, 60)
        wait_for_aggregation(redis)
        wait_until(lambda: redis.xlen(STREAMS.dead_letters) == 1)
        wait_until(lambda: role.scrape()["ragtide_labelings_in_flight",] == 0)
        wait_until(lambda: role.scrape()["ragtide_events_applied_total",] == 60)
        found = role.scrape()
    assert found["ragtide_redis_up",] == 1
    assert found["ragtide_labelings_total", "local", "emitted"] == 60
    assert found["ragtide_labelings_total", "local", "rejected"] == 1
    assert found["ragtide_labelings_total", "local", "failed"] == 0
    assert found["ragtide_dead_letters_total", "not_json"] == 1
    assert found["ragtide_labeling_seconds_count", "local"] == 60
    assert found["ragtide_labeling_seconds_sum", "local"] == pytest.approx(
        sum(event.latency_s or 0.0 for event in metric_events(redis))
    )
    assert found["ragtide_checkpoint_seconds_count",] >= 1
    assert found["ragtide_lease_owned", "0"] == found["ragtide_partition_has_owner", "0"] == 1
    assert found["ragtide_keys", "0"] >= 1
    for name in ("interactions_waiting", "interactions_pending", "interactions_oldest_seconds", "events_waiting"):
        assert found[f"ragtide_{name}", "0"] == 0
    assert found["ragtide_workers", "0"] == 1
    lengths = {stream: found["ragtide_stream_entries", "0", stream] for stream in ("metrics", "dead_letters")}
    assert lengths == {"metrics": 60, "dead_letters": 1}
    labeled = [event for event in role.logged() if event["event"] == "labeled"]
    assert {event["interaction_id"] for event in labeled} == {
        interaction.interaction_id for interaction in interactions(60)
    }
    assert all(event["pipeline"] == "shop" and event["entry_id"] and event["latency_s"] > 0 for event in labeled)
    said = log.read_text()
    assert [interaction.question for interaction in interactions(60) if interaction.question in said] == []


@pytest.mark.heavy
def test_while_redis_hangs_a_role_is_alive_and_not_ready(tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    with EmbeddedRedis.open(tmp_path / "redis") as server, connect(server.url) as redis:
        process = int(redis.info("server")["process_id"])
        with running("up", server.url, log, SERVED):
            role = Role(log)
            wait_until(lambda: role.status("/readyz") == 200)
            os.kill(process, signal.SIGSTOP)
            try:
                wait_until(lambda: role.status("/readyz") == 503)
                assert role.status("/healthz") == 200
                assert role.scrape()["ragtide_redis_up",] == 0
                assert "redis: does not answer" in role.get("/readyz")[1]
            finally:
                os.kill(process, signal.SIGCONT)
            wait_until(lambda: role.status("/readyz") == 200)
            publish(server.url, 20)
            wait_until(lambda: redis.xlen(STREAMS.metrics) == 20)
            assert role.scrape()["ragtide_redis_up",] == 1


def test_a_redis_that_is_killed_and_comes_back_makes_a_role_ready_again(tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    with (
        EmbeddedRedis.open(tmp_path / "redis") as server,
        connect(server.url) as redis,
        running("up", server.url, log, SERVED),
    ):
        role = Role(log)
        wait_until(lambda: role.status("/readyz") == 200)
        os.kill(int(redis.info("server")["process_id"]), signal.SIGKILL)

        def back() -> bool:
            assert role.status("/healthz") == 200
            return _answers(redis) and role.status("/readyz") == 200

        wait_until(back)
        publish(server.url, 20)
        wait_until(lambda: redis.xlen(STREAMS.metrics) == 20)


def _answers(redis: Any) -> bool:
    try:
        return bool(redis.ping())
    except RedisError:
        return False


def test_a_standby_is_ready_and_takes_over(redis: Any, redis_url: str, tmp_path: Path) -> None:
    with running("aggregator", redis_url, tmp_path / "second.log", SERVED):
        second = Role(tmp_path / "second.log")
        wait_until(lambda: second.status("/readyz") == 200)
        with running("aggregator", redis_url, tmp_path / "third.log", SERVED):
            third = Role(tmp_path / "third.log")
            wait_until(lambda: third.status("/readyz") == 200)
            owned = [role.scrape()["ragtide_lease_owned", "0"] for role in (second, third)]
            assert owned == [1, 0]
            assert "standing by" in third.get("/readyz")[1]


@pytest.mark.heavy
def test_a_judge_that_is_down_makes_a_worker_unready_and_not_dead(redis: Any, redis_url: str, tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with ScriptedJudge() as server:
        server.always = Status(500)
        judge = {
            **server.environment,
            "RAGTIDE_JUDGE_MODEL": "m",
            "RAGTIDE_JUDGE_ATTEMPTS": "1",
            "RAGTIDE_JUDGE_BREAKER_FAILURES": "2",
            "RAGTIDE_JUDGE_BREAKER_PAUSE_S": "0.2",
            "RAGTIDE_WORKER_CONCURRENCY": "2",
        }
        publish(redis_url, 10)
        with running("worker", redis_url, log, SERVED | judge):
            role = Role(log)
            wait_until(lambda: role.scrape().get(("ragtide_judge_breaker_open", "m")) == 1)
            assert role.status("/healthz") == 200
            wait_until(lambda: "labeler judge" in role.get("/readyz")[1] and role.status("/readyz") == 503)
            found = role.scrape()
            assert found["ragtide_judge_calls_total", "m", "server_error"] == len(server.requests)
            assert found["ragtide_interactions_waiting", "0"] == 10
            assert found["ragtide_labelings_in_flight",] == 2
        (told,) = [event for event in role.logged() if event["event"] == "the labeler is unavailable"]
        assert told["interaction_id"]
        assert told["entry_id"]
        assert told["pipeline"] == "shop"


def test_a_port_that_is_in_use_ends_a_role_with_one_sentence(redis_url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = command(redis_url, "worker", extra={"RAGTIDE_HTTP_PORT": str(taken.getsockname()[1])})
    assert done.returncode == 1
    assert "set RAGTIDE_HTTP_PORT to a free port" in done.stderr
    assert "Traceback" not in done.stderr


@contextmanager
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """Give the URL of an OTLP collector and what it has taken."""
    taken: list[ExportTraceServiceRequest] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces":
                taken.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", taken
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_roles_export_their_spans_and_send_the_last_ones_when_they_stop(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    publish(redis_url, 20)
    with collector() as (url, taken):
        # Sent only at the end: what is left must be sent when a role stops.
        export = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "600000"}
        with (
            running("worker", redis_url, tmp_path / "worker.log", export),
            running("aggregator", redis_url, tmp_path / "aggregator.log", export),
        ):
            wait_for_events(redis, 20)
            wait_for_aggregation(redis)
    traces: dict[str, set[bytes]] = {}
    for request in taken:
        for resource in request.resource_spans:
            (service,) = [
                attribute.value.string_value
                for attribute in resource.resource.attributes
                if attribute.key == "service.name"
            ]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    traces.setdefault(f"{service}: {span.name}", set()).add(span.trace_id)
    assert set(traces) == {"ragtide-worker: ragtide label", "ragtide-aggregator: ragtide estimate"}
    labeled, estimated = traces.values()
    assert labeled == estimated
    assert len(labeled) == 20
