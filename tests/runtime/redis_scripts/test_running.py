"""Running scripts: alone and many at once, whether Redis has them already or not."""

from typing import Any

import pytest
from redis import ResponseError

from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script, run_scripts, run_scripts_blocking


def lua(text: str) -> Lua:
    """Return a script that is no file."""
    script = Lua("of a test")
    script.text = text
    return script


def count(key: str, script: Lua) -> ScriptCall[int]:
    return ScriptCall(script, (key,), (), int)


ONE = "return redis.call('INCR', KEYS[1])"
TEN = "return redis.call('INCRBY', KEYS[1], 10)"


async def test_a_script_that_redis_does_not_have_is_loaded(async_redis: Any) -> None:
    await async_redis.script_flush()
    script = lua(ONE)
    assert [await run_script(async_redis, count("k", script)) for _ in range(2)] == [1, 2]


async def test_of_many_scripts_each_runs_once_though_some_are_loaded_first(async_redis: Any) -> None:
    await async_redis.script_flush()
    one, ten = lua(ONE), lua(TEN)
    await run_script(async_redis, count("k", one))
    assert await run_scripts(async_redis, [count("k", one), count("other", ten), count("k", one)]) == [2, 10, 3]
    assert await async_redis.get("other") == b"10"


def test_a_blocking_client_runs_each_once_too(redis: Any) -> None:
    redis.script_flush()
    one, ten = lua(ONE), lua(TEN)
    run_scripts_blocking(redis, [count("k", one)])
    assert run_scripts_blocking(redis, [count("k", one), count("other", ten), count("k", one)]) == [2, 10, 3]
    assert redis.get("other") == b"10"


async def test_only_the_scripts_are_sent_once_redis_has_them(async_redis: Any) -> None:
    """Asking first whether Redis has them would be a round trip more for each batch."""
    calls = [count(f"k{number}", lua(ONE)) for number in range(10)]
    await run_scripts(async_redis, calls)
    await async_redis.config_resetstat()
    await run_scripts(async_redis, calls)
    stats = await async_redis.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] == 10
    assert [name for name in stats if "script" in name] == []


async def test_an_error_of_a_script_is_raised(async_redis: Any, redis: Any) -> None:
    calls = [count("k", lua(ONE)), count("k", lua("return redis.error_reply('NO such thing')"))]
    with pytest.raises(ResponseError, match="NO such thing"):
        await run_scripts(async_redis, calls)
    with pytest.raises(ResponseError, match="NO such thing"):
        run_scripts_blocking(redis, calls)


async def test_no_scripts_are_no_replies(async_redis: Any, redis: Any) -> None:
    assert await run_scripts(async_redis, []) == []
    assert run_scripts_blocking(redis, []) == []
