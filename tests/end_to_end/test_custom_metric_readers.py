"""A metric that only the worker knows, in its own unit in every reader; each is a process of its own."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.roles import STREAMS, command, interactions, running, wait_for_aggregation, wait_for_events

from ragtide import InteractionProducer
from ragtide_runtime.redis.keys import Streams, workspace_prefix
from ragtide_schemas import Workspace

MODULE = """
from ragtide import CustomMetric, Direction, Kind, MetricDefinition

length = CustomMetric(
    MetricDefinition("mine.length", 0.0, 1000.0, Direction.NEITHER, Kind.ALGEBRAIC, "Words.", "us", "number of words"),
    lambda interaction, labels: 120.0,
)
"""
METRIC = "mine.length"


def told(redis_url: str, *arguments: str) -> str:
    done = command(redis_url, *arguments, extra={"COLUMNS": "200"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def replayed(redis: Any, run: str) -> None:
    """Leave what a replay leaves: a run in the list, and its checkpoint."""
    redis.hset(
        Streams("ragtide", 0).workspaces, run, Workspace(run=run, kind="replay", source="s", options={}).encode()
    )
    redis.copy(STREAMS.checkpoint, Streams(workspace_prefix("ragtide", run), 0).checkpoint)


@pytest.mark.heavy
def test_every_reader_shows_a_custom_metric_in_its_own_unit(redis: Any, redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "my_metrics.py").write_text(MODULE)
    with InteractionProducer(redis_url) as producer:
        for pipeline in ("one", "other"):
            batch = [
                interaction.model_copy(update={"segments": {}}) for interaction in interactions(100, pipeline=pipeline)
            ]
            producer.publish_many(batch)
    only_the_worker = {
        "RAGTIDE_METRICS": '["my_metrics:length"]',
        "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
    }
    with running("worker", redis_url, tmp_path / "worker.log", only_the_worker):
        wait_for_events(redis, 200)
    with running("aggregator", redis_url, tmp_path / "aggregator.log"):
        wait_for_aggregation(redis)

    (shown,) = json.loads(told(redis_url, "estimates", "--json", "--pipeline", "one", "--metric", METRIC))
    assert (shown["estimate"], shown["n"]) == (120.0, 100)
    assert 0.0 <= shown["lower"] < 120.0 < shown["upper"] <= 1000.0

    (line,) = (line for line in told(redis_url, "watch", "--once", "--pipeline", "one").splitlines() if METRIC in line)
    assert "120.000" in line

    (compared,) = (
        one for one in json.loads(told(redis_url, "compare", "one", "other", "--json")) if one["metric"] == METRIC
    )
    assert compared["means"] == [120.0, 120.0]
    difference = compared["difference"]
    assert difference["estimate"] == 0.0
    assert 1.0 < difference["upper"] == -difference["lower"] <= 1000.0

    replayed(redis, "back")
    report = json.loads(told(redis_url, "report", "back", "--json"))
    assert {e["estimate"] for e in report["estimates"] if e["metric"] == METRIC} == {120.0}
