"""Criteria that operators write are stored, and settings and store make one list."""

from typing import Any

import pytest
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CriteriaField, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.stored_criteria import (
    NO_REVISION,
    StoredCriterion,
    criteria_in_force,
    read_revision,
    read_stored_criteria,
    remove_criterion,
    states_of,
    store_criterion,
    with_stored_criteria,
)
from ragtide_schemas import utc_now
from ragtide_schemas.criterion import CRITERIA_MAX, Criterion


def asked(name: str = "polite", **fields: Any) -> Criterion:
    return Criterion.model_validate({"name": name, "question": f"Is it {name}?", "scale": "yes_no", **fields})


def stored(name: str = "polite", *, paused: bool = False, **fields: Any) -> StoredCriterion:
    return StoredCriterion(criterion=asked(name, **fields), by="ann", at=utc_now(), paused=paused)


async def test_what_is_stored_is_read_and_each_change_has_a_new_revision(async_redis: Redis) -> None:
    revisions = [await read_revision(async_redis, "ragtide")]
    assert revisions == [NO_REVISION]
    first = stored()
    assert await store_criterion(async_redis, "ragtide", first) is None
    revisions.append(await read_revision(async_redis, "ragtide"))
    second = stored(rate=0.2)
    assert await store_criterion(async_redis, "ragtide", second) == first
    found = await read_stored_criteria(async_redis, "ragtide")
    revisions.append(found.revision)
    assert found.criteria == (second,)
    assert await remove_criterion(async_redis, "ragtide", "polite")
    revisions.append(await read_revision(async_redis, "ragtide"))
    assert not await remove_criterion(async_redis, "ragtide", "polite")
    assert len(set(revisions)) == 4
    assert (await read_stored_criteria(async_redis, "ragtide")).criteria == ()


async def test_an_entry_that_this_release_cannot_read_is_left_out(async_redis: Redis) -> None:
    await store_criterion(async_redis, "ragtide", stored("short"))
    key = Streams("ragtide", 0).criteria
    await async_redis.hset(key, "later", '{"criterion": {"name": "later", "scale": "1-99"}, "by": "ann"}')
    await async_redis.hset(key, b"\xff", b"\xff")
    await async_redis.hset(key, "other", stored("short").encode())
    found = await read_stored_criteria(async_redis, "ragtide")
    assert [each.criterion.name for each in found.criteria] == ["short"]
    assert set(found.unreadable) == {"later", "other", "\ufffd"}
    assert CriteriaField.REVISION not in found.unreadable


async def test_a_name_of_the_settings_is_refused_and_wins_over_the_store(async_redis: Redis) -> None:
    mine = asked("polite", question="Is the answer friendly?")
    with pytest.raises(ValueError, match="the settings have a criterion polite"):
        await store_criterion(async_redis, "ragtide", stored(), [mine])
    await store_criterion(async_redis, "ragtide", stored())
    await store_criterion(async_redis, "ragtide", stored("short"))
    await store_criterion(async_redis, "ragtide", stored("kind", paused=True))
    found = await read_stored_criteria(async_redis, "ragtide")
    assert states_of([mine], found) == {"polite": "in the settings", "short": "asked", "kind": "paused"}
    assert criteria_in_force([mine], found) == (mine, asked("short"))
    settings = Settings(judge={"criteria": [mine]})
    assert with_stored_criteria(settings, found).judge.criteria == (mine, asked("short"))
    assert settings.judge.criteria == (mine,)


async def test_no_more_criteria_are_asked_than_a_deployment_may_have(async_redis: Redis) -> None:
    for number in range(CRITERIA_MAX):
        await store_criterion(async_redis, "ragtide", stored(f"c{number:02}"))
    with pytest.raises(ValueError, match="remove one first"):
        await store_criterion(async_redis, "ragtide", stored("one_more"))
    await store_criterion(async_redis, "ragtide", stored("c00", rate=0.5))
    found = await read_stored_criteria(async_redis, "ragtide")
    of_settings = [asked("mine")]
    assert len(criteria_in_force(of_settings, found)) == CRITERIA_MAX
    assert states_of(of_settings, found)["c49"] == "too many"
