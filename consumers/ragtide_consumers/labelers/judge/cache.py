"""Answers kept by their question, so that the same question is paid for once."""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Protocol

from pydantic_core import from_json, to_json
from redis import RedisError
from redis.asyncio import Redis

from .answers import Answer
from .together import Together

KEPT_IN_MEMORY: Final = 10_000
"""Answers a cache without Redis keeps."""


def content_key(*parts: str) -> str:
    """Return a key of everything that decides an answer: endpoint, model, temperature, rules, form, data."""
    digest = blake2b(digest_size=20)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded))
        digest.update(encoded)
    return digest.hexdigest()


class Cache(Protocol):
    """Where answers are kept."""

    async def get(self, key: str) -> Answer | None:
        """Return the answer kept under a key."""

    async def put(self, key: str, answer: Answer) -> None:
        """Keep an answer."""


class NoCache:
    """Keeps nothing."""

    async def get(self, key: str) -> Answer | None:
        """Return None."""
        del key
        return None

    async def put(self, key: str, answer: Answer) -> None:
        """Do nothing."""


class MemoryCache:
    """Keeps the answers used last, for work without Redis."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    async def get(self, key: str) -> Answer | None:
        """Return the answer kept under a key."""
        found = self._answers.get(key)
        if found is not None:
            self._answers.move_to_end(key)
        return found

    async def put(self, key: str, answer: Answer) -> None:
        """Keep an answer, and forget the least recently used one."""
        self._answers[key] = answer
        if len(self._answers) > KEPT_IN_MEMORY:
            self._answers.popitem(last=False)


def _decoded(value: bytes) -> Answer | None:
    """Return the answer in an entry; None for an entry of another form, which is then paid for and written again."""
    try:
        found = from_json(value)
    except ValueError:
        return None
    match found:
        case [str(text), str(finish)]:
            return Answer(text, finish)
    return None


class RedisCache:
    """Keeps answers in Redis for some time. A Redis that fails makes calls cost again, and nothing else.

    Lookups and writes that many tasks make at the same moment share one round trip.
    """

    def __init__(self, redis: Redis, prefix: str, ttl_s: float) -> None:
        self._redis = redis
        self._prefix = prefix
        self._ttl_ms = max(int(ttl_s * 1000), 1)
        self._get: Together[str, bytes | None] = Together(self._get_all)
        self._put: Together[tuple[str, bytes], None] = Together(self._put_all)

    def _key(self, key: str) -> str:
        return f"{self._prefix}:judge-cache:{key}"

    async def get(self, key: str) -> Answer | None:
        """Return the answer kept under a key."""
        found = await self._get(key)
        return None if found is None else _decoded(found)

    async def put(self, key: str, answer: Answer) -> None:
        """Keep an answer."""
        await self._put((key, to_json([answer.text, answer.finish])))

    async def _get_all(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for key in keys:
                    pipe.get(self._key(key))
                found = await pipe.execute(raise_on_error=False)
        except RedisError:
            return [None] * len(keys)
        return [value if isinstance(value, bytes) else None for value in found]

    async def _put_all(self, answers: Sequence[tuple[str, bytes]]) -> Sequence[None]:
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for key, value in answers:
                    pipe.set(self._key(key), value, px=self._ttl_ms)
                await pipe.execute()
        except RedisError:
            pass
        return [None] * len(answers)
