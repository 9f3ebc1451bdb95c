"""Every failure of a connection is a RedisError, so that whoever waits for Redis waits for all of them."""

import asyncio
import asyncio.selector_events
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError

from ragtide_runtime.redis.client import _AsyncLeaving as AsyncLeaving
from ragtide_runtime.redis.client import _Leaving as Leaving
from ragtide_runtime.redis.client import connect, connect_async

CLOSED = {
    "python 3.12": "None._add_writer",
    "python 3.13": "callback = None; callback()",
}
"""Code that fails as a closed transport of asyncio does."""


@pytest.mark.parametrize("code", CLOSED.values(), ids=CLOSED)
async def test_a_connection_that_is_closed_while_it_is_used_is_a_redis_error(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    in_asyncio = compile(code, asyncio.selector_events.__file__, "exec", dont_inherit=True)

    async def closed(self: AbstractConnection, *args: Any, **options: Any) -> None:
        exec(in_asyncio)

    async with connect_async(redis_url) as client:
        await client.set("a", 1)
        monkeypatch.setattr(AbstractConnection, "send_packed_command", closed)
        with pytest.raises(RedisConnectionError, match="closed while it was used"):
            await client.get("a")
        pipe = client.pipeline(transaction=False)
        await pipe.get("a")
        with pytest.raises(RedisConnectionError, match="closed while it was used"):
            await pipe.execute()


@pytest.mark.parametrize("url", ["redis://host", "rediss://host", "unix:///run/redis.sock"])
def test_a_connection_of_every_kind_of_url_leaves_a_demoted_server(url: str) -> None:
    for pool, kind in ((connect(url).connection_pool, Leaving), (connect_async(url).connection_pool, AsyncLeaving)):
        assert isinstance(pool.make_connection(), kind)


@given(st.lists(st.one_of(st.binary(max_size=50), st.text(max_size=50), st.integers(), st.floats(allow_nan=False))))
def test_the_call_of_a_script_is_packed_as_every_command_is(arguments: list[str | bytes | int | float]) -> None:
    pool: Any = connect_async("redis://host").connection_pool
    connection = pool.make_connection()
    expected = AbstractConnection.pack_command(connection, "EVALSHA", "0" * 40, *arguments)
    assert b"".join(connection.pack_command("EVALSHA", "0" * 40, *arguments)) == b"".join(expected)
