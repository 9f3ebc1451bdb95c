"""Everything that a Redis holds, for tests that look for what must not be there."""

from typing import Any


def everything_in(redis: Any) -> str:
    """Return all keys of a Redis with their values."""
    readers = {
        b"stream": redis.xrange,
        b"hash": redis.hgetall,
        b"string": redis.get,
        b"set": redis.smembers,
        b"zset": lambda key: redis.zrange(key, 0, -1, withscores=True),
        b"list": lambda key: redis.lrange(key, 0, -1),
    }
    return str([(key, readers[redis.type(key)](key)) for key in redis.keys("*")])
