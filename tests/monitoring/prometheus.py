"""A real Prometheus scrapes real aggregators: it has the numbers of `ragtide estimates`, and its alert outlives owners.

`make monitoring` runs it.
"""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.end_to_end.test_observability import Role
from tests.monitoring.programs import program, served
from tests.support.conditions import wait_until
from tests.support.metric_events import adherence, beta
from tests.support.monitoring_files import RULES, TESTS, page_queries, panel_queries, queries
from tests.support.redis_processes import free_port
from tests.support.roles import STREAMS, estimates, kill, start, wait_for_aggregation

from ragtide_runtime.redis.keys import DATA_FIELD

RULE = """
alert_defaults = false

[[alerts]]
name = "floor"
kind = "threshold"
metric = "trace.adherence"
target = 0.7
severity = "page"

[prometheus]
segments = ["lang"]
interval_s = 0.2
"""


class PrometheusServer:
    """A Prometheus that scrapes and evaluates every second."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}/api/v1/"

    def get(self, path: str, **parameters: str) -> Any:
        with urllib.request.urlopen(f"{self._address}{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as reply:
            found = json.load(reply)
        assert found["status"] == "success"
        return found["data"]

    def query(self, query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("query", query=query)["result"]
        return found

    def firing(self) -> dict[str, dict[str, Any]]:
        """Return the alerts of quality that fire, by ragtide's rule."""
        return {
            alert["labels"]["rule"]: alert
            for alert in self.get("alerts")["alerts"]
            if alert["state"] == "firing" and alert["labels"]["alertname"] == "RagtideQuality"
        }


@contextmanager
def prometheus(folder: Path, ports: list[int]) -> Iterator[PrometheusServer]:
    port = free_port()
    targets = [f"127.0.0.1:{one}" for one in ports]
    settings = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "ragtide", "static_configs": [{"targets": targets}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    command = [
        program("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with served(command, folder / "prometheus.log", f"http://127.0.0.1:{port}/-/ready"):
        yield PrometheusServer(port)


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run([program("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_the_settings_and_the_rules_pass_their_tests() -> None:
    promtool("check", "config", RULES.with_name("prometheus.yml"))
    promtool("check", "rules", RULES)
    promtool("test", "rules", TESTS)


def test_prometheus_can_parse_every_query(tmp_path: Path) -> None:
    records = [{"record": f"ragtide:query_{number}", "expr": query} for number, (_, query) in enumerate(queries())]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": records}]}))
    promtool("check", "rules", file)


def test_prometheus_has_the_estimates_and_the_alert_also_when_the_owner_is_killed(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "ragtide.toml").write_text(RULE)
    served = {"RAGTIDE_HTTP_PORT": "0", "RAGTIDE_CONFIG": str(tmp_path / "ragtide.toml")}
    now = datetime.now(UTC)
    values = [*beta(0.85, 200, 1), *beta(0.4, 100, 2)]
    for place, one in enumerate(adherence(values, segments={"lang": "de", "user": "u"})):
        time = now - timedelta(seconds=len(values) - place)
        redis.xadd(STREAMS.metrics, {DATA_FIELD: one.model_copy(update={"occurred_at": time}).encode()})
    owner = start("aggregator", redis_url, tmp_path / "owner.log", served)
    try:
        first = Role(tmp_path / "owner.log")
        wait_for_aggregation(redis)
        standby = start("aggregator", redis_url, tmp_path / "standby.log", served)
        try:
            second = Role(tmp_path / "standby.log")
            wait_until(lambda: b"standing by" in (tmp_path / "standby.log").read_bytes())
            with prometheus(tmp_path, [first.port, second.port]) as server:
                wait_until(lambda: set(server.firing()) == {"floor"})
                fired = server.firing()["floor"]
                assert fired["labels"]["severity"] == "page"
                assert fired["labels"]["pipeline"] == "shop"
                assert_same_numbers(server, redis_url)
                kill(owner)
                wait_until(lambda: scraped(server, second.port) and not scraped(server, first.port))
                assert_same_numbers(server, redis_url)
                assert server.firing()["floor"]["activeAt"] == fired["activeAt"], "it fired without a break"
                for title, query in [*panel_queries(), *(("page", one) for one in page_queries())]:
                    found = server.query(query)
                    assert found or title not in ("Alerts that fire", "Segment values", "page"), (title, query)
        finally:
            kill(standby)
    finally:
        kill(owner)


def series(server: PrometheusServer, name: str) -> dict[frozenset[tuple[str, str]], float]:
    """Return the values of a metric by their labels, without those of the process."""
    found = {}
    for one in server.query(name):
        labels = frozenset((k, v) for k, v in one["metric"].items() if k not in ("__name__", "instance", "job"))
        assert labels not in found, "two processes have the series of one partition"
        found[labels] = float(one["value"][1])
    return found


def scraped(server: PrometheusServer, port: int) -> bool:
    return bool(server.query(f'ragtide_estimate_n{{instance="127.0.0.1:{port}"}}'))


def assert_same_numbers(server: PrometheusServer, url: str) -> None:
    """Compare the series of whole pipelines over all time with `ragtide estimates --json`."""
    expected = [estimate for estimate in estimates(url) if estimate["segment"] is None]
    assert expected
    for field, name in (("estimate", ""), ("lower", "_lower"), ("upper", "_upper"), ("n", "_n")):
        found = {
            dict(labels)["metric"]: value
            for labels, value in series(server, f"ragtide_estimate{name}").items()
            if ("window", "all") in labels and "segment" not in dict(labels) and "labeling" not in str(labels)
        }
        assert found == {one["metric"]: pytest.approx(one[field]) for one in expected if one[field] is not None}
    segments = {dict(labels).get("segment") for labels in series(server, "ragtide_estimate")}
    assert segments == {None, "lang=de"}
