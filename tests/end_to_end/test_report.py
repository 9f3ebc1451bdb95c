"""Reports of replays: runs that an aggregator of their own has counted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.conditions import wait_until
from tests.support.roles import command, running

from ragtide import MetricEvent
from ragtide_runtime.redis.keys import DATA_FIELD, Streams, workspace_prefix
from ragtide_schemas import Workspace, utc_now

METRIC = "trace.adherence"


def replay(redis: Any, redis_url: str, run: str, means: dict[str, float], log: Path) -> None:
    """Leave what a replay leaves: a run in the list, and what an aggregator made of its events."""
    info = Workspace(run=run, kind="replay", source="recording <may>", options={"speed": "max"})
    redis.hset(Streams("ragtide", 0).workspaces, run, info.encode())
    streams = Streams(workspace_prefix("ragtide", run), 0)
    rng = np.random.default_rng(1)
    now = utc_now()
    for pipeline, mean in means.items():
        for number in range(300):
            event = MetricEvent(
                interaction_id=f"{pipeline}-{number}",
                pipeline=pipeline,
                occurred_at=now,
                labeled_at=now,
                labeler="test",
                labeler_version="1",
                profile="ragbench",
                scores={METRIC: float(np.clip(mean + rng.normal(0, 0.1), 0, 1))},
            )
            redis.xadd(streams.metrics, {DATA_FIELD: event.encode()})
    last = redis.xrevrange(streams.metrics, count=1)[0][0]
    rules = [{"name": "floor", "kind": "threshold", "metric": METRIC, "target": 0.6}]
    extra = {"RAGTIDE_PREFIX": streams.prefix, "RAGTIDE_ALERTS": json.dumps(rules)}
    with running("aggregator", redis_url, log, extra):
        wait_until(lambda: redis.hget(streams.checkpoint, "position") == last)
    # A replay need not keep the events.
    redis.delete(streams.metrics)


@pytest.mark.heavy
def test_a_replay_is_reported_and_compared_by_its_estimates(redis: Any, redis_url: str, tmp_path: Path) -> None:
    replay(redis, redis_url, "april", {"shop": 0.4, "old": 0.5}, tmp_path / "april.log")
    replay(redis, redis_url, "may", {"shop": 0.8, "new": 0.5}, tmp_path / "may.log")

    def report(*arguments: str) -> str:
        done = command(redis_url, "report", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    april = json.loads(report("april", "--json"))
    assert {(e["pipeline"], e["metric"], e["n"]) for e in april["estimates"]} >= {("shop", METRIC, 300)}
    assert {alert["pipeline"] for alert in april["alerts"]} == {"shop", "old"}
    page = report("april", "--output", "-")
    assert "recording &lt;may&gt;" in page
    assert "A replay stores estimates" in page
    assert "speed" in page
    assert ">floor</th>" in page

    (gap,) = json.loads(report("may", "--compare", "april", "--json"))["gaps"]
    assert (gap["first"], gap["method"], gap["n"], gap["verdict"]) == ("shop", "unpaired", [300, 300], "better")
    assert gap["difference"]["lower"] < 0.4 < gap["difference"]["upper"]
    other = json.loads(report("may", "--compare", "april", "--config", "new=old", "--json"))
    assert [(gap["first"], gap["second"], gap["verdict"]) for gap in other["gaps"]] == [("new", "old", "undecided")]
    assert "Unpaired" in report("may", "--compare", "april", "--output", "-")
    refused = command(redis_url, "report", "may", "--mlflow")
    assert refused.returncode == 1
    assert "workspace may is a replay: only experiments are exported" in refused.stderr


def test_an_experiment_and_a_replay_are_not_compared(redis: Any, redis_url: str) -> None:
    for run, kind in (("may", "replay"), ("june", "experiment")):
        info = Workspace.model_validate({"run": run, "kind": kind, "source": "x"})
        redis.hset(Streams("ragtide", 0).workspaces, run, info.encode())
    done = command(redis_url, "report", "june", "--compare", "may")
    assert done.returncode == 1
    assert "june is an experiment and may is a replay: compare two workspaces of one kind" in done.stderr


def test_a_run_that_has_not_begun_is_named(redis: Any, redis_url: str) -> None:
    redis.hset(Streams("ragtide", 0).workspaces, "june", Workspace(run="june", kind="experiment", source="x").encode())
    done = command(redis_url, "report", "june")
    assert done.returncode == 1
    assert "there is no experiment in this workspace" in done.stderr
