"""Slopes that a deployment measured are stored by labeler and version."""

from typing import Any

from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.measured_slopes import read_slopes, store_slopes
from ragtide_schemas.slopes import Slope

ONE = Slope("wrong answer", 0.5, 0.4, 0.6, 40)
OTHER = Slope("wrong answer", 0.1, -0.1, 0.2, 40)


async def test_slopes_are_those_of_a_version_and_the_last_measurement_counts(async_redis: Any) -> None:
    assert await read_slopes(async_redis, "ragtide") == {}
    await store_slopes(async_redis, "ragtide", "model", "a b/1", {"trace.adherence": (OTHER,)})
    await store_slopes(async_redis, "ragtide", "model", "2", {"trace.adherence": (OTHER,), "own.f1": ()})
    await store_slopes(async_redis, "ragtide", "model", "a b/1", {"trace.adherence": (ONE, OTHER)})
    assert await read_slopes(async_redis, "ragtide") == {
        ("model", "a b/1"): {"trace.adherence": (ONE, OTHER)},
        ("model", "2"): {"trace.adherence": (OTHER,), "own.f1": ()},
    }
    assert await read_slopes(async_redis, "elsewhere") == {}


async def test_a_damaged_field_is_unknown_and_hides_no_other(async_redis: Any) -> None:
    await store_slopes(async_redis, "ragtide", "model", "1", {"trace.adherence": (ONE,)})
    for field, value in (("[]", "{}"), ('["model", "2"]', "{"), ('["model", "3"]', '{"a": [[1]]}'), ("x", "{}")):
        await async_redis.hset(Streams("ragtide", 0).slopes, field, value)
    assert await read_slopes(async_redis, "ragtide") == {("model", "1"): {"trace.adherence": (ONE,)}}
