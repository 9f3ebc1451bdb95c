"""Every failure of a connection is a RedisError, so that whoever waits for Redis waits for all of them."""

from typing import Any

import pytest
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError

from ragtide_runtime.redis.client import connect_async


async def test_a_connection_that_is_closed_while_it_is_used_is_a_redis_error(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def closed(self: AbstractConnection, *args: Any, **options: Any) -> None:
        raise AttributeError("'NoneType' object has no attribute '_add_writer'")

    async with connect_async(redis_url) as client:
        await client.set("a", 1)
        monkeypatch.setattr(AbstractConnection, "send_packed_command", closed)
        with pytest.raises(RedisConnectionError, match="closed while it was used"):
            await client.get("a")
        pipe = client.pipeline(transaction=False)
        await pipe.get("a")
        with pytest.raises(RedisConnectionError, match="closed while it was used"):
            await pipe.execute()
