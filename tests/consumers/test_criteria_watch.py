"""A worker asks the criteria of the settings and of the store, and follows every change of them."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis
from tests.support.conditions import until

from ragtide_consumers.labelers.cascade import CascadeLabeler
from ragtide_consumers.labelers.local.labeler import LocalLabeler
from ragtide_consumers.labelers.protocol import Labeling
from ragtide_consumers.labelers.registry import Bounded
from ragtide_consumers.labelers.with_metrics import WithMetrics
from ragtide_consumers.worker import criteria_watch
from ragtide_consumers.worker.criteria_watch import CriteriaWatch, asking_stored_criteria
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.labelers import check_criteria
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.stored_criteria import StoredCriterion, remove_criterion, store_criterion
from ragtide_runtime.telemetry.outages import Outage
from ragtide_schemas import RagInteraction, utc_now
from ragtide_schemas.criterion import Criterion


class _Plain:
    """A labeler without criteria."""

    name, version, profile = "judge", "1", "ragbench"

    async def label(self, interaction: RagInteraction) -> Labeling:
        raise AssertionError(interaction)


class _Judge(_Plain):
    """A labeler that remembers the criteria that it was given."""

    def __init__(self) -> None:
        self.given: list[list[str]] = []

    def take_criteria(self, criteria: Sequence[Criterion]) -> None:
        check_criteria(criteria)
        self.given.append([criterion.name for criterion in criteria])


def stored(name: str, **fields: Any) -> StoredCriterion:
    criterion = {"name": name, "question": f"Is it {name}?", "scale": "yes_no"}
    return StoredCriterion.model_validate({"criterion": criterion, "by": "ann", "at": utc_now(), **fields})


def settings_with(*names: str, **fields: Any) -> Settings:
    criteria = [{"name": name, "question": "Is it good?", "scale": "yes_no"} for name in names]
    return Settings(judge={"criteria": criteria}, **fields)


async def test_the_judges_get_what_is_in_force_after_each_change_and_only_then(async_redis: Redis) -> None:
    judge = _Judge()
    watch = CriteriaWatch(settings_with("mine"), judge, Outage("Redis"))
    await watch.look(async_redis)
    assert judge.given == []
    await store_criterion(async_redis, "ragtide", stored("short"))
    await store_criterion(async_redis, "ragtide", stored("mine"))
    for _ in range(3):
        await watch.look(async_redis)
    assert judge.given == [["mine", "short"]]
    watch.take_settings(settings_with("other"))
    await store_criterion(async_redis, "ragtide", stored("short", paused=True))
    await watch.look(async_redis)
    await async_redis.hset(Streams("ragtide", 0).criteria, "later", "{")
    await remove_criterion(async_redis, "ragtide", "mine")
    await watch.look(async_redis)
    assert judge.given[1:] == [["other", "mine", "short"], ["other", "mine"], ["other"]]


async def test_a_flush_of_redis_ends_the_stored_criteria(async_redis: Redis) -> None:
    judge = _Judge()
    watch = CriteriaWatch(Settings(), judge, Outage("Redis"))
    await store_criterion(async_redis, "ragtide", stored("short"))
    await watch.look(async_redis)
    await async_redis.flushdb()
    await watch.look(async_redis)
    assert judge.given == [["short"], []]


async def test_an_outage_changes_nothing(async_redis: Redis) -> None:
    judge = _Judge()
    watch = CriteriaWatch(Settings(), judge, Outage("Redis"))
    await async_redis.set(Streams("ragtide", 0).criteria, "no hash")
    await watch.look(async_redis)
    assert judge.given == []


async def test_a_running_worker_polls_and_a_workspace_does_not(
    async_redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(criteria_watch, "POLL_S", 0.01)
    judge = _Judge()
    await store_criterion(async_redis, "ragtide", stored("short"))
    async with asking_stored_criteria(Settings(), redis_url, judge, Outage("Redis")):
        assert judge.given == [["short"]]
        await store_criterion(async_redis, "ragtide", stored("kind"))
        await until(lambda: asyncio.sleep(0, judge.given[-1] == ["kind", "short"]))
    for settings, labeler in (
        (Settings(prefix="ragtide.run.may"), judge),
        (Settings(), _Plain()),
    ):
        async with asking_stored_criteria(settings, redis_url, labeler, Outage("Redis")) as watch:
            assert not watch.is_needed
    assert len(judge.given) == 2


async def test_the_judge_inside_of_a_cascade_and_of_custom_metrics_is_reached(async_redis: Redis) -> None:
    judge = _Judge()
    labeler = WithMetrics(CascadeLabeler(LocalLabeler(), judge, Settings().cascade), [])
    watch = CriteriaWatch(Settings(), labeler, Outage("Redis"))
    assert watch.is_needed
    await store_criterion(async_redis, "ragtide", stored("short"))
    await watch.look(async_redis)
    assert judge.given == [["short"]]


async def test_a_labeler_of_the_users_own_is_reached_behind_its_time_limit(async_redis: Redis) -> None:
    judge = _Judge()
    watch = CriteriaWatch(Settings(), Bounded(judge, 1.0), Outage("Redis"))
    await store_criterion(async_redis, "ragtide", stored("short"))
    await watch.look(async_redis)
    assert judge.given == [["short"]]
    assert not CriteriaWatch(Settings(), Bounded(_Plain(), 1.0), Outage("Redis")).is_needed
