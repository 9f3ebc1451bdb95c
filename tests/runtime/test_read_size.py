from typing import Any

import pytest
from redis import ResponseError

from ragtide_runtime import read_size
from ragtide_runtime.read_size import ReadSize
from ragtide_runtime.stream_reads import read_all


@pytest.fixture(autouse=True)
def _small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_size, "READ_BYTES", 500_000)


async def test_small_entries_are_read_many_at_once(async_redis: Any) -> None:
    size = ReadSize(async_redis, "s", "none")
    assert await size.next(100) == 100
    for _ in range(300):
        await async_redis.xadd("s", {"data": b"x" * 1000})
    assert await size.next(100) == 100


@pytest.mark.parametrize(("bytes_", "most"), [(50_000, 10), (400_000, 1), (3_000_000, 1)])
async def test_of_large_entries_fewer_are_read_at_once(bytes_: int, most: int, async_redis: Any) -> None:
    for _ in range(12):
        await async_redis.xadd("s", {"data": b"x" * bytes_})
    assert 1 <= await ReadSize(async_redis, "none", "s").next(100) <= most


async def test_the_last_read_counts_where_old_entries_hide_large_ones(async_redis: Any) -> None:
    size = ReadSize(async_redis, "s")
    size.took([{b"data": b"x" * 90_000, b"traceparent": b"y" * 10_000}] * 3)
    assert await size.next(100) == 5
    size.took([])
    assert await size.next(100) == 5, "a read that took nothing says nothing"
    size.took([{b"data": b"x"}])
    assert await size.next(100) == 100


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
        size = ReadSize(async_redis, "s")
        assert await size.next(100) == 100
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
    assert [entry.entry_id.encode() async for entry in read_all(async_redis, "s")] == added
    assert max(counts) <= 5
