"""A repartition carries the history of every pipeline, also after an interruption; nothing counts twice."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.support.metric_events import START, event
from tests.support.owners import Owner, owners

from ragtide import Deployment, MetricEvent
from ragtide_aggregator.estimates.over_time import HistoryPoint
from ragtide_aggregator.maintenance import repartition
from ragtide_aggregator.maintenance.repartition import Repartition
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.model import Settings

METRIC = "trace.adherence"
PIPELINES = tuple(f"p-{number}" for number in range(5))
SETTINGS = Settings(partitions=2, splits={"p-0": 2}, lateness_s=600)
HOURS = 4


def hour(number: int) -> list[MetricEvent]:
    labeled = START + timedelta(days=400)
    return [
        event(number * 3600 + 30 * i, {METRIC: (i * 37 % 101) / 100}, pipeline=PIPELINES[i % 5], labeled_at=labeled)
        for i in range(120)
    ]


async def applied(settings: Settings, events: Sequence[MetricEvent], found: list[Owner]) -> None:
    for owner in found:
        mine = [one for one in events if settings.layout.of(one.pipeline, one.interaction_id) == owner.streams]
        await owner.commit(*mine)


async def histories(redis: Any, settings: Settings) -> dict[tuple[str, int], tuple[HistoryPoint, ...]]:
    deployment = Deployment(redis, settings)
    found = {}
    for pipeline in PIPELINES:
        for points_max in (400, 10):
            (one,) = await deployment.history(
                pipeline, METRIC, start=START, end=START + timedelta(hours=HOURS + 1), points_max=points_max
            )
            found[pipeline, points_max] = one.points
    return found


class InterruptedHereError(Exception):
    """The repartition ends here."""


THREE, FIVE = Layout("ragtide", 3, {"p-0": 2}), Layout("ragtide", 5, {"p-0": 3, "p-1": 2})


@pytest.mark.parametrize(
    ("new", "where"),
    [
        (THREE, "take_history"),
        pytest.param(THREE, "drop_other_history", marks=pytest.mark.heavy),
        pytest.param(THREE, None, marks=pytest.mark.heavy),
        (FIVE, "copy_history"),
        pytest.param(FIVE, None, marks=pytest.mark.heavy),
        pytest.param(FIVE, "take_history", marks=pytest.mark.heavy),
    ],
)
async def test_the_history_moves_with_its_pipeline(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch, new: Layout, where: str | None
) -> None:
    found = owners(async_redis, SETTINGS)
    for number in range(HOURS):
        await applied(SETTINGS, hour(number), found)
    for owner in found:
        await async_redis.delete(owner.streams.lease)
    before = await histories(async_redis, SETTINGS)
    assert sum(point.n for points in before.values() for point in points) == 2 * HOURS * 120
    if where is not None:
        whole, calls = getattr(repartition, where), 0

        async def interrupted(*arguments: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise InterruptedHereError
            await whole(*arguments)

        monkeypatch.setattr(repartition, where, interrupted)
        with pytest.raises(InterruptedHereError):
            await Repartition(async_redis, SETTINGS, new).run()
        monkeypatch.undo()
    await Repartition(async_redis, SETTINGS, new).run()
    moved = SETTINGS.model_copy(update={"partitions": new.partitions, "splits": dict(new.splits)})
    assert await histories(async_redis, moved) == before
    names = [name async for name in async_redis.scan_iter(match="*history*")]
    assert names
    assert not any(b"next-" in name for name in names)
    back = Layout("ragtide", 2, {"p-0": 2})
    if new.partitions == 3:
        await Repartition(async_redis, moved, back).run()
        assert await histories(async_redis, SETTINGS) == before
        assert len([1 async for _ in async_redis.scan_iter(match="*history*")]) == len(names)
