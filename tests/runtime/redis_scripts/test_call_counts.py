"""Counts of calls by hour and day: each batch once, whole numbers and dollars, and classes of seconds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_runtime.calls.call_counts import LONGEST_CLASS, SHORTEST_S, CallCounts, latency_class
from ragtide_runtime.calls.endpoint_states import PIPELINES_MAX, count_calls, read_calls
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
    assert [hour.outcomes.get("answered", 0) for hour in history.hours.values()] == [0, 2, 4]
    assert [day.outcomes.get("answered", 0) for day in history.days.values()] == [1, 6]
    keys = [key async for key in async_redis.scan_iter("*judge-calls*")]
    assert len(keys) == 5
    assert all([0 < await async_redis.ttl(key) <= 33 * 86_400 for key in keys])
    assert not (await read_calls(async_redis, "ragtide", "nli", now=NOON)).total


async def test_dollars_of_pipelines_are_bounded_and_add_up(async_redis: Any) -> None:
    for batch in range(1, 4):
        counts = CallCounts()
        for number in range(PIPELINES_MAX - 40 + 20 * batch):  # 80, then 100, then 120 pipelines
            counts.spent(0.25, 1, 1, model="m", purpose="live", pipeline=f"p:{number}")
        counts.spent(0.5, 1, 1, model="m", purpose="live")  # its pipeline is not known
        assert await add(async_redis, counts, batch)
        assert not await add(async_redis, counts, batch)
    late = CallCounts()
    late.spent(8.0, 1, 1, model="m", purpose="live", pipeline="late")
    await add(async_redis, late, 4, at=NOON + timedelta(hours=1))  # another hour of the same day
    history = await read_calls(async_redis, "ragtide", "judge", now=NOON + timedelta(hours=1))
    day = history.days[NOON.replace(hour=0, minute=0)]
    assert len(day.by_pipeline) == PIPELINES_MAX
    assert day.by_pipeline["p:0"] == 0.75
    assert sum(day.by_pipeline.values()) == 0.25 * (80 + 100 + 100)
    assert day.cost_usd == 0.25 * (80 + 100 + 120) + 1.5 + 8.0, "the sums have all calls"
    assert history.newest(1).by_pipeline == {"late": 8.0}


async def test_the_most_expensive_pipelines_of_a_batch_are_named(async_redis: Any) -> None:
    counts = CallCounts()
    for number in range(PIPELINES_MAX + 5):
        counts.spent(1.0 + number, 1, 1, model="m", purpose="live", pipeline=f"p-{number}")
    await add(async_redis, counts, 1)
    found = (await read_calls(async_redis, "ragtide", "judge", now=NOON)).total.by_pipeline
    assert next(iter(found)) == f"p-{PIPELINES_MAX + 4}"
    assert "p-4" not in found


async def test_foreign_fields_are_skipped(async_redis: Any) -> None:
    await add(async_redis, some(), 1)
    key = STREAMS.labeler_calls("judge", "2026112312")
    await async_redis.hset(
        key, mapping={"calls:x": "many", "usd:y": "much", "pipeline_usd:p": "nan", "latency:z": "1", b"\xff": "1"}
    )
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
