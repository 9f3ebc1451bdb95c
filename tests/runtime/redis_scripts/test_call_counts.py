"""Counts of calls by hour and day: each batch once, whole numbers and dollars, and classes of seconds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_runtime.call_counts import LONGEST_CLASS, SHORTEST_S, CallCounts, latency_class
from ragtide_runtime.endpoint_calls import count_calls, read_calls
from ragtide_runtime.redis.keys import Streams, workspace_prefix
from ragtide_runtime.redis.scripts import run_script

STREAMS = Streams("ragtide", 0)
NOON = datetime(2026, 11, 23, 12, 30, tzinfo=UTC)


def some(calls: int = 1, cost_usd: float = 0.5, purpose: str = "live") -> CallCounts:
    counts = CallCounts()
    for _ in range(calls):
        counts.answered(0.2)
        counts.spent(cost_usd, 100, 10, model="gpt: mini", purpose=purpose)
    return counts


async def add(redis: Any, counts: CallCounts, batch: int, *, at: datetime = NOON, process: str = "a") -> bool:
    return await run_script(redis, count_calls(STREAMS, "judge", counts, at=at, process=process, batch=batch))


async def test_a_batch_that_is_sent_twice_counts_once(async_redis: Any) -> None:
    assert [await add(async_redis, some(3), 1), await add(async_redis, some(3), 1)] == [True, False]
    assert await add(async_redis, some(2, 0.25, "runs"), 2)
    assert await add(async_redis, some(), 1, process="b")
    history = await read_calls(async_redis, workspace_prefix("ragtide", "may"), "judge", now=NOON)
    total = history.total
    assert total.outcomes == {"answered": 6}
    assert total.by_purpose == {"live": 2.0, "runs": 0.5}
    assert total.by_model == {"gpt: mini": 2.5}
    assert total.cost_usd == 2.5
    assert total.whole["prompt_tokens"] == 600
    assert history.days[NOON.replace(hour=0, minute=0)].cost_usd == 2.5


async def test_hours_and_days_are_apart_and_expire(async_redis: Any) -> None:
    await add(async_redis, some(1), 1, at=NOON - timedelta(hours=13))
    await add(async_redis, some(2), 2, at=NOON - timedelta(hours=1))
    await add(async_redis, some(4), 3)
    history = await read_calls(async_redis, "ragtide", "judge", now=NOON, hours=3, days=2)
    assert [one.outcomes.get("answered", 0) for one in history.hours.values()] == [0, 2, 4]
    assert [one.outcomes.get("answered", 0) for one in history.days.values()] == [1, 6]
    keys = [key async for key in async_redis.scan_iter("*judge-calls*")]
    assert len(keys) == 5
    assert all([0 < await async_redis.ttl(key) <= 33 * 86_400 for key in keys])
    assert not (await read_calls(async_redis, "ragtide", "nli", now=NOON)).total


async def test_foreign_fields_are_skipped(async_redis: Any) -> None:
    await add(async_redis, some(), 1)
    key = STREAMS.labeler_calls("judge", "2026112312")
    await async_redis.hset(key, mapping={"calls:x": "many", "usd:y": "much", "latency:z": "1", b"\xff": "1"})
    total = (await read_calls(async_redis, "ragtide", "judge", now=NOON)).total
    assert (total.outcomes, total.cost_usd) == ({"answered": 1}, 0.5)
    assert total.latency_s(0.5) == pytest.approx(0.2, rel=0.05)


def test_counts_are_taken_once() -> None:
    counts = some()
    counts.found(0.25)
    counts.failed("timeout")
    taken = counts.take()
    assert bool(taken)
    assert not counts
    assert taken.outcomes == {"answered": 1, "timeout": 1}
    assert (taken.whole["cache_hits"], taken.dollars["saved_usd"]) == (1, 0.25)
    assert CallCounts().latency_s(0.5) is None


@given(st.lists(st.floats(0.0, 1e9), min_size=1, max_size=50), st.sampled_from([0.05, 0.5, 0.95, 1.0]))
def test_a_quantile_is_within_five_percent(values: list[float], quantile: float) -> None:
    counts = CallCounts()
    for value in values:
        counts.answered(value)
    found = counts.latency_s(quantile)
    assert found is not None
    place = max(1, -(-len(values) * quantile // 1))
    exact = sorted(values)[int(place) - 1]
    if latency_class(exact) in (0, LONGEST_CLASS):
        assert found < SHORTEST_S or found > 900
    else:
        assert found == pytest.approx(exact, rel=0.05)
