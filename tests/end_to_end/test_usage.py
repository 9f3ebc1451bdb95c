"""Latency and cost of answers from an application to estimates, an alert on a quantile, and a comparison."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.judge.asking import TOWER
from tests.support.conditions import wait_until
from tests.support.roles import STREAMS, command, metric_events, running

from ragtide import Alert, AlertRule, InteractionProducer
from ragtide_runtime.redis.keys import DATA_FIELD

N = 400


def publish(redis_url: str, pipeline: str, slow: float, cost_usd: float, seed: int) -> None:
    chance = random.Random(seed)
    with InteractionProducer(redis_url) as producer:
        for number in range(N):
            seconds = 8.0 if chance.random() < slow else 1.0
            changed = {
                "interaction_id": f"{pipeline}-{number}",
                "pipeline": pipeline,
                "usage": {"latency_s": seconds, "cost_usd": cost_usd * chance.uniform(0.5, 1.5)},
            }
            assert producer.submit({**TOWER.model_dump(), **changed})


def test_a_slow_tail_raises_an_alert_and_quality_per_dollar_is_compared(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    rule = AlertRule(
        name="slow",
        kind="threshold",
        metric="answer.latency_s",
        quantile=0.95,
        target=5.0,
        pipeline="b",
        min_effect=0.0,
    )
    settings = {"RAGTIDE_ALERTS": json.dumps([rule.model_dump(mode="json", exclude_none=True)])}
    with running("up", redis_url, tmp_path / "up.log", settings):
        publish(redis_url, "a", 0.01, 0.4, 1)
        publish(redis_url, "b", 0.25, 0.8, 2)
        wait_until(lambda: redis.xlen(STREAMS.alerts) > 0)
        wait_until(lambda: len(metric_events(redis)) == 2 * N)

        def estimates() -> dict[tuple[str, str], dict[str, Any]]:
            rows = json.loads(command(redis_url, "estimates", "--json").stdout)
            return {
                (row["pipeline"], row["metric"]): row
                for row in rows
                if row["segment"] is None and row["window"] == "all"
            }

        wait_until(lambda: estimates().get(("b", "answer.cost_usd"), {}).get("n") == N)
        found = estimates()
        compared = json.loads(command(redis_url, "compare", "a", "b", "--json").stdout)
    (_, fields), *_ = redis.xrange(STREAMS.alerts)
    alert = Alert.decode(fields[DATA_FIELD])
    assert (alert.rule, alert.pipeline, alert.quantity, alert.edge) == ("slow", "b", "share", 5.0)
    latency = found["b", "answer.latency_s"]
    assert latency["quantiles"]["p95"] == pytest.approx(8, rel=0.05)
    assert latency["lower"] < latency["estimate"] < latency["upper"]
    assert latency["estimate"] == pytest.approx(2.75, abs=0.6)
    assert found["a", "retrieval.documents"]["estimate"] == len(TOWER.documents)
    assert ("a", "answer.prompt_tokens") not in found
    gaps = {row["metric"]: row for row in compared}
    assert gaps["answer.cost_usd"]["verdict"] == "lower"
    per_dollar = gaps["trace.adherence/answer.cost_usd"]
    assert per_dollar["strategy"] == "ratio"
    assert per_dollar["means"][0] == pytest.approx(2 * per_dollar["means"][1], rel=0.1)
