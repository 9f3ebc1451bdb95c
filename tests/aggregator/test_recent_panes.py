"""Recent panes: the last hour in panes of seconds, recomputed from the events themselves."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from statistics import mean
from typing import Any

import pytest
from tests.support.metric_events import START, event
from tests.support.owners import owners

from ragtide import Deployment, MetricEvent
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.estimates.over_time import History, HistoryPoint
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import RECENT_PANES

METRIC = "trace.adherence"
SETTINGS = Settings()
PANE = timedelta(seconds=5)


def at(second: float, value: float, name: str = "", **changes: Any) -> MetricEvent:
    found = event(int(second), {METRIC: value}, **changes)
    return found.model_copy(
        update={
            "occurred_at": START + timedelta(seconds=second),
            "labeled_at": START + timedelta(days=1),
            "interaction_id": f"i-{second:.3f}{name}",
        }
    )


async def commit(redis: Any, events: Sequence[MetricEvent], *, each: int = 97, settings: Settings = SETTINGS) -> None:
    (owner,) = owners(redis, settings)
    for first in range(0, len(events), each):
        await owner.commit(*events[first : first + each])


async def read(redis: Any, end: datetime, length: timedelta = timedelta(days=1), **how: Any) -> History:
    how = {"points_max": 144, **how}
    (found,) = await Deployment(redis, SETTINGS).history("shop", METRIC, start=end - length, end=end, **how)
    return found


def equal(points: Sequence[HistoryPoint], events: Sequence[MetricEvent]) -> None:
    """Compare points with the values of events between their ends."""
    for point in points:
        inside = [one.scores[METRIC] for one in events if point.start <= one.occurred_at < point.end]
        assert point.n == len(inside) > 0
        assert point.estimate == pytest.approx(mean(inside), abs=1e-9)
    assert all(first.end <= second.start for first, second in pairwise(points))


async def test_a_step_within_a_minute_is_a_step(async_redis: Any) -> None:
    """600 good answers and then 500 bad ones, all within one minute of a fine pane."""
    change_s = 153.2
    rng = Random(1)
    good = [at(change_s - 30 + 30 * i / 600, float(rng.random() < 0.9)) for i in range(600)]
    bad = [at(change_s + 25 * i / 500, float(rng.random() < 0.1)) for i in range(500)]
    await commit(async_redis, [*good, *bad])
    change, now = START + timedelta(seconds=change_s), START + timedelta(seconds=180)
    found = await read(async_redis, now, least_n=30, apart=[change])
    equal(found.points, [*good, *bad])
    assert sum(point.n for point in found.points) == 1_100
    before = [point for point in found.points if point.end <= change]
    since = [point for point in found.points if point.start >= change]
    assert len(before) >= 5
    assert len(since) >= 4
    assert min(point.estimate for point in before) > 0.75
    assert max(point.estimate for point in since) < 0.25
    (held,) = [point for point in found.points if point.start < change < point.end]
    assert held.end - held.start == PANE
    wide = await read(async_redis, now, timedelta(days=60), points_max=48, least_n=30)
    assert wide.step == PANE
    assert wide.points[0].start > change - timedelta(seconds=36), "a young history begins with its first value"


async def test_a_change_cuts_a_long_history(async_redis: Any) -> None:
    """Four hours of history: the change of a minute ago is no part of the point before it."""
    events = [at(10.0 * i, 0.9) for i in range(4 * 360)]
    change = START + timedelta(seconds=4 * 3600 + 1.7)
    events += [at(4 * 3600 + 1.7 + i, 0.2) for i in range(50)]
    await commit(async_redis, events)
    found = await read(async_redis, START + timedelta(hours=4, seconds=60), least_n=30, apart=[change])
    equal(found.points, events)
    assert found.step >= timedelta(minutes=1)
    assert sum(point.n for point in found.points) == len(events)
    last = found.points[-1]
    assert (last.start, round(last.estimate, 9)) == (START + timedelta(seconds=4 * 3600 + 5), 0.2)
    hour = await read(async_redis, START + timedelta(hours=4, seconds=60), timedelta(hours=1))
    assert hour.step < timedelta(minutes=1)
    equal(hour.points, events)


async def test_values_that_come_minutes_late_are_in_their_panes(async_redis: Any) -> None:
    """A judge lags behind the newest interaction, by seconds or by minutes, and past the end of a bucket."""
    rng = Random(2)
    events = [at(second, rng.random(), name) for second in range(0, 1_500, 2) for name in ("", "-late", "-later")]
    delays = {"": 0.0, "-late": 40.0, "-later": 700.0}

    def arrival(one: MetricEvent) -> float:
        (delay,) = [delay for name, delay in delays.items() if one.interaction_id.endswith(f"0{name}")]
        return one.occurred_at.timestamp() + delay

    await commit(async_redis, sorted(events, key=arrival))
    found = await read(async_redis, START + timedelta(seconds=1_500))
    assert found.step < timedelta(minutes=1)
    equal(found.points, events)
    assert sum(point.n for point in found.points) == len(events)


async def test_recent_panes_are_bounded_and_older_ones_go_first(async_redis: Any) -> None:
    events = [at(4.0 * i, (i * 37 % 101) / 100) for i in range(2_400)]
    await commit(async_redis, events, each=300)
    streams = Streams(SETTINGS.prefix, 0)
    lists = [name async for name in async_redis.scan_iter(match=streams.history("*:5000"))]
    assert lists
    assert {await async_redis.llen(name) for name in lists} == {RECENT_PANES}
    fields = await async_redis.hkeys(streams.checkpoint)
    opened = [name for name in fields if name.startswith(f"{CheckpointField.HISTORY}5000:".encode())]
    series = [name for name in fields if name.startswith(CheckpointField.HISTORY_SERIES.encode())]
    assert 0 < len(opened) <= 13 * len(series)
    end = START + timedelta(seconds=9_600)
    recent, longer = await read(async_redis, end, timedelta(minutes=50)), await read(async_redis, end)
    assert (recent.step, longer.step) == (timedelta(seconds=25), timedelta(minutes=5))
    equal(recent.points, events)
    equal(longer.points, events)
    assert sum(point.n for point in longer.points) == len(events)


async def test_a_history_from_before_recent_panes_is_whole(async_redis: Any) -> None:
    """As an older version leaves it: the missing part is read from fine panes, and never taken for silence."""
    events = [at(2.0 * i, (i * 37 % 101) / 100) for i in range(600)]
    (owner,) = owners(async_redis, SETTINGS)
    await owner.commit(*events[:300])
    streams = owner.streams
    for name, data in (await async_redis.hgetall(streams.checkpoint)).items():
        if name.startswith(CheckpointField.HISTORY_SERIES.encode()):
            await async_redis.hset(streams.checkpoint, name, json.dumps(json.loads(data)[:2]))
        elif name.startswith(f"{CheckpointField.HISTORY}5000:".encode()):
            await async_redis.hdel(streams.checkpoint, name)
    async for name in async_redis.scan_iter(match=streams.history("*:5000")):
        await async_redis.delete(name)
    fields = {name.decode(): data for name, data in (await async_redis.hgetall(streams.checkpoint)).items()}
    owner.state = AggregatorState.from_fields(state_options(SETTINGS), fields)
    for first in range(300, 600, 50):
        await owner.commit(*events[first : first + 50])
    end = START + timedelta(seconds=1_200)
    whole, recent = await read(async_redis, end), await read(async_redis, end, timedelta(minutes=8))
    assert (whole.step, recent.step) == (timedelta(minutes=5), PANE)
    equal(whole.points, events)
    equal(recent.points, events)
    assert sum(point.n for point in whole.points) == len(events)


def test_a_lateness_of_days_leaves_no_recent_panes() -> None:
    lengths = {hours: state_options(Settings(lateness_s=3_600.0 * hours)).history for hours in (1, 5, 6, 100)}
    assert {hours: found and found.recent_ms for hours, found in lengths.items()} == {1: 5_000, 5: 5_000, 6: 0, 100: 0}
