from typing import Any

import pytest
from redis import ResponseError

from ragtide_runtime.redis.log import ReadSize, read_all

SMALL_READ = 500_000


async def add(redis: Any, *sizes: int) -> list[str]:
    return [(await redis.xadd("s", {"data": b"x" * size})).decode() for size in sizes]


async def test_small_entries_are_read_many_at_once(async_redis: Any) -> None:
    size = ReadSize(async_redis, read_bytes=SMALL_READ)
    assert await size.next({"s": "0-0", "none": "0-0"}, 100) == 100
    await add(async_redis, *[1000] * 300)
    assert await size.next({"s": "0-0", "none": "0-0"}, 100) == 100
    await add(async_redis, *[1000] * 300)
    assert await size.next({"s": "0-0"}, 1000) == 498, "a few bytes of each are its field's name"
    assert await size.next({"s": "0-0"}, 100) == 100


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([50_000] * 12, 9),
        ([400_000] * 5, 1),
        ([3_000_000], 100),
        ([10] * 20 + [3_000_000] * 2, 20),
        ([10] * 3 + [3_000_000, 10], 3),
        ([10] * 20 + [100_000] * 30, 24),
        ([600_000] + [10] * 50, 1),
    ],
    ids=str,
)
async def test_no_more_is_read_at_once_than_the_next_entries_leave_room_for(
    sizes: list[int], expected: int, async_redis: Any
) -> None:
    await async_redis.xgroup_create("s", "g", id="0", mkstream=True)
    ids = await add(async_redis, 3_000_000, *sizes)
    await async_redis.xreadgroup("g", "c", {"s": ">"}, count=1)
    assert await ReadSize(async_redis, read_bytes=SMALL_READ).next({"none": "0-0", "s": ids[0]}, 100) == expected
    assert await ReadSize(async_redis, "g", read_bytes=SMALL_READ).next({"s": ""}, 100) == expected
    assert await ReadSize(async_redis, read_bytes=SMALL_READ).next({"s": ids[-1]}, 100) == 100, "nothing comes next"


async def test_a_redis_that_does_not_tell_sizes_is_read_all_the_same(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await async_redis.acl_setuser(
        "few", enabled=True, nopass=True, keys=["*"], categories=["+@all"], commands=["-memory"]
    )
    await async_redis.execute_command("AUTH", "few", "x")
    with pytest.raises(ResponseError):
        await async_redis.memory_usage("s")
    try:
        await async_redis.xadd("s", {"data": b"x" * 3_000_000})
        size = ReadSize(async_redis, read_bytes=SMALL_READ)
        assert await size.next({"s": "0-0"}, 100) == 100
    finally:
        await async_redis.acl_setuser("few", enabled=False)
        await async_redis.acl_deluser("few")


async def test_a_whole_stream_of_large_entries_is_read_in_order(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    xrange = async_redis.xrange

    async def counted(*arguments: Any, **options: Any) -> Any:
        counts.append(options["count"])
        return await xrange(*arguments, **options)

    added = [await async_redis.xadd("s", {"data": b"x" * 100_000}) for _ in range(12)]
    monkeypatch.setattr(async_redis, "xrange", counted)
    assert [entry.entry_id.encode() async for entry in read_all(async_redis, "s", page_bytes=SMALL_READ)] == added
    assert counts == [4, 4, 1000, 1000], "of the last four there is nothing to look at behind"
