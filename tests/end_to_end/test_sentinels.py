"""A judge over HTTP that is swapped without notice: its answers to sentinels raise an alert, and otherwise none."""

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.roles import (
    STREAMS,
    command,
    estimates,
    interactions,
    metric_events,
    running,
    wait_for_events,
)

from ragtide import InteractionProducer
from ragtide.testing import JudgePrompt, Labels, ScriptedJudge
from ragtide_runtime.redis.keys import SentinelField
from ragtide_schemas import MetricEvent
from ragtide_schemas.metric_definitions import SENTINEL_PIPELINE, SENTINEL_UNLIKE

SENTINELS, LEARNING, SWAP_AT, WITHIN = 10, 90, 150, 200


class SwappedJudge:
    """Labels by shared words, but denies a tenth of the sentences by chance; after the swap also each first one."""

    def __init__(self) -> None:
        self.is_swapped = False
        self._seeded = random.Random(7)

    def __call__(self, prompt: JudgePrompt) -> Labels:
        denied = {text: False for text in prompt.response.values() if self._seeded.random() < 0.1}
        if self.is_swapped:
            denied |= dict.fromkeys(list(prompt.response.values())[:1], False)
        return Labels(supported=denied)


@contextmanager
def deployment(redis_url: str, folder: Path, judge: ScriptedJudge, *, workers: int = 1) -> Iterator[dict[str, str]]:
    """Run workers and an aggregator with sentinels from a file; yield their settings."""
    rows = folder / "sentinels.jsonl"
    rows.write_bytes(b"\n".join(each.encode() for each in interactions(SENTINELS)) + b"\n")
    settings = {
        **judge.environment,
        "RAGTIDE_JUDGE_SENTINELS": str(rows),
        "RAGTIDE_JUDGE_SENTINELS_EVERY_S": "0.01",
        "RAGTIDE_ALERTS": json.dumps([{"name": "judge-changed", "kind": "sentinel", "run_length": 4320}]),
    }
    with ExitStack() as stack:
        for number in range(workers):
            stack.enter_context(running("worker", redis_url, folder / f"worker-{number}.log", settings))
        stack.enter_context(running("aggregator", redis_url, folder / "aggregator.log", settings))
        yield settings


def answers(redis: Any) -> int:
    """Return the number of answers to sentinels so far."""
    return int(redis.hget(STREAMS.sentinels, SentinelField.NUMBER) or 0)


def sentinel_events(redis: Any) -> list[MetricEvent]:
    return [event for event in metric_events(redis) if event.pipeline == SENTINEL_PIPELINE]


def alerts(redis_url: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in command(redis_url, "alerts", "--json").stdout.splitlines()]


@pytest.mark.heavy
def test_a_swapped_judge_raises_an_alert_within_200_answers_and_not_before(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    swapped = SwappedJudge()
    with ScriptedJudge(always=swapped) as judge, deployment(redis_url, tmp_path, judge) as settings:
        with InteractionProducer(redis_url) as producer:
            producer.publish_many(interactions(30))
        wait_until(lambda: answers(redis) >= SWAP_AT)
        assert alerts(redis_url) == []
        swapped.is_swapped, at = True, answers(redis)
        wait_until(lambda: redis.xlen(STREAMS.alerts) > 0, timeout_s=60)
        (alert, *_) = alerts(redis_url)
        assert (alert["kind"], alert["pipeline"], alert["status"]) == ("sentinel", SENTINEL_PIPELINE, "firing")
        assert "changed" in alert["message"]
        numbers = [int(name.rpartition("#")[2]) for name in alert["worst_interaction_ids"]]
        assert all(LEARNING <= number <= at + WITHIN for number in numbers)
        # No estimate of the traffic has an answer to a sentinel, and no headline speaks of sentinels.
        wait_for_events(redis, 30)
        found = estimates(redis_url)
        traffic = {each["n"] for each in found if each["metric"] == "trace.adherence" and each["segment"] is None}
        assert max(traffic) <= 30
        assert {each["metric"].partition(".")[0] for each in found if each["pipeline"] == SENTINEL_PIPELINE} <= {
            "judge",
            "labeling",
        }
        # With a new baseline nothing is compared until every sentinel has been answered nine times.
        assert command(redis_url, "judge", "baseline", extra=settings).returncode == 0
        at = answers(redis)
        wait_until(lambda: answers(redis) >= at + 30)
        later = [event for event in sentinel_events(redis) if int(event.interaction_id.rpartition("#")[2]) > at + 1]
        assert later
        assert not any(event.scores or event.absent for event in later[:20])


@pytest.mark.heavy
def test_a_judge_that_is_not_swapped_raises_no_alert_and_two_workers_ask_each_sentinel_in_turn(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    with ScriptedJudge(always=SwappedJudge()) as judge, deployment(redis_url, tmp_path, judge, workers=2):
        wait_until(lambda: answers(redis) >= SWAP_AT + 150, timeout_s=120)
        assert alerts(redis_url) == []
    events = sentinel_events(redis)
    numbers = [int(event.interaction_id.rpartition("#")[2]) for event in events]
    assert numbers == list(range(len(events))), "each number once, in order"
    assert len({event.interaction_id.rpartition("#")[0] for event in events[:SENTINELS]}) == SENTINELS
    assert [bool(event.scores) for event in events[: LEARNING + 20]] == [False] * LEARNING + [True] * 20
    assert all(set(event.scores.values()) for event in events if SENTINEL_UNLIKE.name in event.scores)
    assert all(event.prompt_tokens > 0 for event in events), "asked past the cache, and each answer counted"
