"""`ragtide worker --processes 2`, killed, stopped and frozen: each interaction is labeled once, and health is true."""

import json
import os
import signal
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.conditions import wait_until
from tests.support.roles import STREAMS, begin, command, interactions, metric_events

from ragtide import InteractionProducer
from ragtide.testing import ScriptedJudge

SERVED = {"RAGTIDE_HTTP_PORT": "0", "RAGTIDE_WORKER_BATCH": "20", "RAGTIDE_WORKER_CONCURRENCY": "20"}


class Command:
    """A running command, as its log and its endpoints show it."""

    def __init__(self, url: str, folder: Path, *arguments: str, extra: Mapping[str, str]) -> None:
        self._log = folder / "command.log"
        self.process = begin(url, self._log, *arguments, extra={**SERVED, **extra})

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [line for line in self._log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [found for line in lines if (found := json.loads(line))["event"] == event]

    def pids(self, name: str = "") -> list[int]:
        """Return the ids of its processes, or of those that had a name, in the order of their starts."""
        return [found["process_id"] for found in self.logged("process started") if name in found["name"]]

    def get(self, path: str) -> tuple[int, str]:
        port = self.logged("serving metrics and health")[-1]["port"]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def is_ready(self) -> bool:
        return bool(self.logged("serving metrics and health")) and self.get("/readyz")[0] == 200

    def samples(self) -> dict[tuple[str, ...], float]:
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return {(sample.name, *sample.labels.values()): sample.value for found in families for sample in found.samples}

    def labeled(self) -> float:
        return self.samples().get(("ragtide_labelings_total", "local", "emitted"), 0.0)


@contextmanager
def running(url: str, folder: Path, *arguments: str, extra: Mapping[str, str] | None = None) -> Iterator[Command]:
    """Run a command for the body of a `with`, and kill what is left of it."""
    found = Command(url, folder, *arguments, extra=extra or {})
    try:
        wait_until(lambda: found.process.poll() is not None or found.is_ready())
        yield found
    finally:
        found.process.kill()
        found.process.wait()
        for pid in found.pids():
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def publish(url: str, count: int) -> None:
    with InteractionProducer(url) as producer:
        producer.publish_many(interactions(count))


def test_a_process_that_is_killed_loses_nothing_and_no_counter_falls(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    with running(redis_url, tmp_path, "worker", "--processes", "2") as found:
        publish(redis_url, 600)
        wait_until(lambda: redis.xlen(STREAMS.metrics) >= 100)
        wait_until(lambda: found.labeled() > 0)
        seen = [found.labeled()]
        os.kill(found.pids("worker process 1")[0], signal.SIGKILL)

        def all_labeled() -> bool:
            seen.append(found.labeled())
            return int(redis.xlen(STREAMS.metrics)) >= 600

        wait_until(all_labeled)
        wait_until(lambda: len(found.pids("worker process 1")) == 2 and found.is_ready())
        assert seen == sorted(seen)
        assert found.samples()["ragtide_workers", "0"] >= 2
        # A scrape is of two processes: neither alone labeled all.
        wait_until(lambda: found.samples().get(("ragtide_labelings_in_flight",)) == 0)
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(60) == 0
    labeled = Counter(event.interaction_id for event in metric_events(redis))
    assert labeled == Counter(interaction.interaction_id for interaction in interactions(600))


@pytest.mark.parametrize(("number", "to_all"), [(signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGINT, True)])
def test_a_signal_drains_every_process_also_if_each_gets_it(
    number: signal.Signals, to_all: bool, redis: Any, redis_url: str, tmp_path: Path
) -> None:
    """systemd sends SIGTERM to each process of a service, and a terminal sends SIGINT to each process of a command."""
    with running(redis_url, tmp_path, "worker", "--processes", "2") as found:
        assert len(list(Path(f"/proc/{found.process.pid}/task").iterdir())) == 1  # a fork of threads is not safe
        publish(redis_url, 600)
        wait_until(lambda: redis.xlen(STREAMS.metrics) >= 50)
        for pid in found.pids() if to_all else []:
            os.kill(pid, number)
        found.process.send_signal(number)
        assert found.process.wait(60) == 0
        assert len(found.logged("worker stopped")) == 2
        assert not any(is_running(pid) for pid in found.pids())
        assert len(found.pids()) == 3
    labeled = Counter(event.interaction_id for event in metric_events(redis))
    assert set(labeled.values()) == {1}


def test_processes_drain_when_their_parent_is_killed(redis: Any, redis_url: str, tmp_path: Path) -> None:
    with running(redis_url, tmp_path, "worker", "--processes", "2") as found:
        publish(redis_url, 600)
        wait_until(lambda: redis.xlen(STREAMS.metrics) >= 50)
        found.process.kill()
        wait_until(lambda: not any(is_running(pid) for pid in found.pids()))
        assert len(found.logged("worker stopped")) == 2


def test_a_frozen_process_is_named_by_readyz(redis: Any, redis_url: str, tmp_path: Path) -> None:
    with running(redis_url, tmp_path, "worker", "--processes", "2") as found:
        frozen = found.pids("worker process 2")[0]
        os.kill(frozen, signal.SIGSTOP)
        try:
            wait_until(lambda: found.get("/readyz")[0] == 503)
            assert [reason.partition(":")[0] for reason in json.loads(found.get("/readyz")[1])["missing"]] == [
                "worker process 2"
            ]
            assert found.get("/healthz")[0] == 200
        finally:
            os.kill(frozen, signal.SIGCONT)
        wait_until(found.is_ready)


def test_sighup_reaches_every_process(redis: Any, redis_url: str, tmp_path: Path) -> None:
    rules = tmp_path / "ragtide.toml"
    rules.write_text("rules_poll_s = 0\nalert_defaults = false\n")
    with running(redis_url, tmp_path, "up", "--no-page", "--processes", "2") as found:
        rules.write_text("rules_poll_s = 0\n")
        found.process.send_signal(signal.SIGHUP)
        wait_until(lambda: found.samples().get(("ragtide_rules_read_total", "taken")) == 3)
        # With the rules of its parent's start it would take those of the file now.
        os.kill(found.pids("worker process 1")[0], signal.SIGKILL)
        wait_until(lambda: len(found.pids("worker process 1")) == 2 and found.is_ready())
        found.process.send_signal(signal.SIGHUP)
        wait_until(lambda: found.samples().get(("ragtide_rules_read_total", "unchanged")) == 3)
        assert found.samples()["ragtide_rules_read_total", "taken"] == 3


@pytest.mark.parametrize("role", ["worker", "up"])
def test_a_mistake_in_the_settings_is_said_once(role: str, redis: Any, redis_url: str) -> None:
    more = ("--no-page",) if role == "up" else ()
    done = command(redis_url, role, "--processes", "2", *more, extra={"RAGTIDE_LABELER": "oracle"})
    assert done.returncode == 1
    assert done.stderr.count("oracle") == 1
    assert "Traceback" not in done.stderr


def test_up_answers_for_the_aggregator_and_the_workers_at_one_address(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    with running(redis_url, tmp_path, "up", "--no-page", "--processes", "2") as found:
        publish(redis_url, 60)
        wait_until(lambda: found.samples().get(("ragtide_events_applied_total",)) == 60)
        wait_until(lambda: found.labeled() == 60)
        checks = json.loads(found.get("/readyz")[1])["checks"]
        assert {"redis", "worker process 1", "worker process 2"} < set(checks)
        # Its successor continues; the page and the workers are other processes.
        os.kill(found.pids("the process of the other roles")[0], signal.SIGKILL)
        wait_until(lambda: len(found.pids("the process of the other roles")) == 2)
        wait_until(lambda: len(found.logged("serving metrics and health")) == 2 and found.is_ready())
        assert found.labeled() == 60
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(60) == 0


def test_all_processes_together_keep_the_limit_of_calls(redis: Any, redis_url: str, tmp_path: Path) -> None:
    with ScriptedJudge() as server:
        judge = {**server.environment, "RAGTIDE_JUDGE_MODEL": "m", "RAGTIDE_JUDGE_MAX_IN_FLIGHT": "3"}
        with running(redis_url, tmp_path, "worker", "--processes", "2", extra=judge) as found:
            publish(redis_url, 100)
            wait_until(lambda: redis.xlen(STREAMS.metrics) >= 100)
            wait_until(lambda: found.samples().get(("ragtide_judge_calls_total", "m", "answered")) == 100)
            assert found.samples()["ragtide_judge_calls_allowed", "m"] <= 3
        assert server.most_in_flight <= 3
