"""A metric shows since when its level is as it is: a quiet detector finds moves, learns anew, and notifies nobody."""

from datetime import timedelta
from math import nan
from typing import Any

import numpy as np
import pytest
from tests.support.metric_events import START, adherence, beta, event
from tests.support.owners import Owner, owners

from ragtide import Deployment
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.state.level_rows import WatchedLevel
from ragtide_aggregator.state.state import AggregatorState
from ragtide_aggregator.statistics.drift.levels import LevelChange, explained_by
from ragtide_aggregator.statistics.means.dependence import Dependence
from ragtide_runtime.settings.alerting import MovesSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Headline, MetricEvent, utc_now

METRIC = "trace.adherence"
SETTINGS = Settings(alerts=())


def owners_of(redis: Any, settings: Settings = SETTINGS) -> list[Owner]:
    found = owners(redis, settings)
    for owner in found:
        options = state_options(settings).of_partition(owner.streams.partition, split=bool(settings.splits))
        owner.state = AggregatorState(options)
    return found


def scores(mean: float, n: int, *, first: int = 0, seed: int = 1, **changes: Any) -> list[MetricEvent]:
    """Return events with values around a mean; the first has the number `first`."""
    return adherence(beta(mean, n, seed), first=first, **changes)


async def watch_of(redis: Any, settings: Settings = SETTINGS) -> WatchedLevel:
    (found,) = await Deployment(redis, settings).level_watches()
    return found


async def test_a_level_is_learned_moves_and_moves_back_without_any_alert(async_redis: Any) -> None:
    (owner,) = owners_of(async_redis)
    await owner.commit(*scores(0.9, 30))
    learning = await watch_of(async_redis)
    assert (learning.needed, learning.move) == (70, None)
    await owner.commit(*scores(0.9, 270, first=30, seed=2))
    steady = await watch_of(async_redis)
    assert (steady.needed, steady.move, steady.since) == (0, None, START)

    await owner.commit(*scores(0.45, 150, first=300, seed=3))
    fell = await watch_of(async_redis)
    assert fell.move is not None
    assert fell.move.direction == "fall"
    assert fell.move.before == pytest.approx(0.9, abs=0.03)
    assert fell.move.after == pytest.approx(0.45, abs=0.1)
    assert abs(fell.move.began_at - (START + timedelta(seconds=300))) < timedelta(seconds=10)
    assert fell.move.began_at < fell.move.found_at < START + timedelta(seconds=360)
    assert fell.since == fell.move.began_at
    assert fell.needed == 0, "the level after the change is learned"

    await owner.commit(*scores(0.9, 150, first=450, seed=4))
    back = await watch_of(async_redis)
    assert back.move is not None
    assert back.move.direction == "rise"
    assert back.move.before == pytest.approx(0.45, abs=0.1)
    assert back.move.began_at > fell.move.found_at
    assert await Deployment(async_redis, SETTINGS).alerts() == []


async def test_only_whole_live_pipelines_are_watched_and_only_while_the_settings_ask_for_it(async_redis: Any) -> None:
    (owner,) = owners_of(async_redis)
    await owner.commit(*scores(0.9, 60, segments={"lang": "de"}), *scores(0.9, 60, first=60, run="r1"))
    assert (await watch_of(async_redis)).key.pipeline == "shop"
    off = SETTINGS.model_copy(update={"moves": MovesSettings(enabled=False)})
    assert await Deployment(async_redis, off).level_watches() == []
    stored = await async_redis.hgetall(owner.streams.checkpoint)
    state = AggregatorState.from_fields(state_options(off), {name.decode(): data for name, data in stored.items()})
    assert [name for name in state.take_changes().gone if name.startswith("level")]


async def test_the_levels_of_more_pipelines_than_a_new_table_has_room_for_are_read(async_redis: Any) -> None:
    (owner,) = owners_of(async_redis)
    pipelines = {f"shop-{number}" for number in range(150)}
    await owner.commit(*(found for name in pipelines for found in scores(0.9, 2, pipeline=name)))
    assert {level.key.pipeline for level in await Deployment(async_redis, SETTINGS).level_watches()} == pipelines


async def test_the_parts_of_a_split_pipeline_have_one_level_and_a_move_of_any_of_them_shows(async_redis: Any) -> None:
    settings = SETTINGS.model_copy(update={"partitions": 2, "splits": {"shop": 2}})
    one, other = owners_of(async_redis, settings)
    await one.commit(*scores(0.9, 200))
    await other.commit(*scores(0.9, 200, seed=5))
    assert (await watch_of(async_redis, settings)).move is None
    await other.commit(*scores(0.4, 100, first=200, seed=6))
    moved = await watch_of(async_redis, settings)
    assert moved.move is not None
    assert moved.move.direction == "fall"


async def test_headlines_say_that_a_level_is_learned_that_it_is_steady_and_that_it_moved(async_redis: Any) -> None:
    (owner,) = owners_of(async_redis, Settings(alerts=()))
    deployment = Deployment(async_redis, Settings(alerts=()))
    began = int((utc_now() - START).total_seconds()) - 5 * 3600
    # The change is near the beginning of a pane of five minutes; the last hour has panes of seconds, too.
    began -= (began + 20 * 500 - 20) % 300

    async def headline_after(mean: float, n: int, *, first: int = 0) -> Headline:
        """Commit answers that come every 20 seconds; the history has panes of five minutes."""
        values = enumerate(beta(mean, n, seed=first), first)
        await owner.commit(*[event(began + 20 * number, {METRIC: float(value)}) for number, value in values])
        (found,) = await deployment.headlines()
        return found

    learning = await headline_after(0.9, 80)
    assert (learning.state, learning.needed) == ("learning", 20)
    steady = await headline_after(0.9, 420, first=80)
    assert (steady.state, steady.move, steady.range, steady.n) == ("steady", None, "24h", 500)
    assert steady.since == START + timedelta(seconds=began)

    moved = await headline_after(0.4, 200, first=500)
    assert moved.state == "moved"
    assert moved.move is not None
    assert (moved.move.direction, moved.since) == ("fall", moved.move.began_at)
    assert moved.move.before == pytest.approx(0.9, abs=0.03)
    assert moved.move.after == pytest.approx(0.4, abs=0.1)
    assert moved.range == "since change"
    assert moved.start is not None
    assert moved.start >= moved.move.began_at
    since = [
        float(value)
        for number, value in enumerate(beta(0.4, 200, seed=500), 500)
        if START + timedelta(seconds=began + 20 * number) >= moved.start
    ]
    assert moved.n == len(since) > 180, "the number is about whole panes since the change"
    assert moved.estimate == pytest.approx(np.mean(since), abs=1e-12)


async def test_a_move_that_dependent_answers_explain_is_withheld(async_redis: Any) -> None:
    """Each score depends on the one before: the detector finds moves, and no screen shows one."""
    rng = np.random.default_rng(4)
    values, last = [], 0.0
    for noise in rng.standard_normal(2_500):
        last = 0.98 * last + 0.2 * noise
        values.append(float(np.clip(0.7 + 0.12 * last, 0.0, 1.0)))
    (owner,) = owners_of(async_redis)
    await owner.commit(*adherence(values))
    watch = await watch_of(async_redis)
    assert (watch.move, watch.since) == (None, None)
    (found,) = await Deployment(async_redis, SETTINGS).headlines("all")
    assert found.state != "moved"


def dependence(effect: float, certain: float, *, growing: bool = False, measured: bool = True) -> Dependence:
    of = np.array([effect])
    settled = np.array([not growing])
    return Dependence(
        of, np.array([64]), settled, np.array([certain]), np.array([0.1]), np.array([measured]), np.array([growing])
    )


@pytest.mark.parametrize(
    ("change", "measured", "swing", "explained"),
    [
        (LevelChange(1_500, 0.85, 200, 0.65), dependence(1.0, 0.8), nan, None),
        (LevelChange(1_500, 0.85, 200, 0.65), None, nan, None),
        (LevelChange(1_500, 0.85, 200, 0.65), dependence(15.0, 6.0), nan, "dependence"),
        (LevelChange(9_000, 0.85, 9_000, 0.65), dependence(15.0, 6.0), nan, None),
        (LevelChange(9_000, 0.85, 9_000, 0.65), dependence(60.0, 6.0, growing=True), nan, "dependence"),
        (LevelChange(100, 0.85, 40, 0.65), dependence(1.0, 0.5, measured=False), nan, "unknown"),
        (LevelChange(1_500, 0.85, 200, 0.65), dependence(1.0, 0.8), 0.05, None),
        (LevelChange(1_500, 0.85, 200, 0.65), dependence(1.0, 0.8), 0.15, "hours"),
        (LevelChange(1_500, 0.85, 200, 0.65), None, 0.15, "hours"),
    ],
)
def test_what_explains_a_move(
    change: LevelChange, measured: Dependence | None, swing: float, explained: str | None
) -> None:
    assert explained_by(change, measured, swing) == explained
