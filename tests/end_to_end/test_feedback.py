"""Gold scores that come later, through real processes: one of them killed."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.roles import (
    STREAMS,
    command,
    dead_letters,
    estimates,
    interactions,
    kill,
    metric_events,
    running,
    start,
    wait_for_events,
)

from ragtide import InteractionProducer

UTILIZATION = "trace.context_utilization"


@pytest.mark.heavy
def test_feedback_from_a_file_is_joined_once_though_the_aggregator_is_killed(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    published = [interaction.model_copy(update={"gold_scores": {}}) for interaction in interactions(400)]
    lines = [
        {"pipeline": "shop", "interaction_id": one.interaction_id, "gold_scores": {UTILIZATION: 1.0}}
        for one in published[:300]
    ]
    file = tmp_path / "feedback.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + "nonsense\n")
    early = command(redis_url, "feedback", str(file), "--json")
    assert early.returncode == 1
    assert json.loads(early.stdout) == {"published": 300, "bad": 1}
    assert f"{file}:301: " in early.stderr
    victim = start("aggregator", redis_url, tmp_path / "victim.log")
    with InteractionProducer(redis_url) as producer:
        producer.publish_many(published)
    with running("worker", redis_url, tmp_path / "worker.log"):
        wait_until(lambda: redis.hlen(STREAMS.checkpoint) > 3)
        kill(victim)
        wait_for_events(redis, len(published))
    with running("aggregator", redis_url, tmp_path / "aggregator.log"):
        for score in (0, 1):
            one = ("--pipeline", "shop", "--interaction", "i-00350", "--gold", f"{UTILIZATION}={score}")
            done = command(redis_url, "feedback", *one)
            assert done.returncode == 0, done.stderr
        wait_until(lambda: len(dead_letters(redis)) == 1)
    scores = {event.interaction_id: event.scores[UTILIZATION] for event in metric_events(redis)}
    expected = [(scores[line["interaction_id"]] - 1.0) ** 2 for line in lines] + [scores["i-00350"] ** 2]  # type: ignore[index]
    (found,) = [e for e in estimates(redis_url) if e["metric"] == f"rmse.{UTILIZATION}" and e["segment"] is None]
    assert found["n"] == 301
    assert found["estimate"] == pytest.approx((sum(expected) / 301) ** 0.5, abs=1e-12)
    (letter,) = dead_letters(redis)
    assert letter.reason == "duplicate"
    before = redis.xlen(STREAMS.feedback), redis.xlen(STREAMS.interactions)
    assert command(redis_url, "dead-letters", "retry", "--all").returncode == 0
    assert (redis.xlen(STREAMS.feedback), redis.xlen(STREAMS.interactions)) == (before[0] + 1, before[1])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--pipeline", "shop"],
        ["--pipeline", "shop", "--interaction", "i", "--gold", "adherence"],
        ["--pipeline", "shop", "--interaction", "i", "--gold", "trace.adherence=7"],
    ],
)
def test_feedback_that_is_not_complete_is_refused_with_what_is_missing(arguments: list[str], redis_url: str) -> None:
    done = command(redis_url, "feedback", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
