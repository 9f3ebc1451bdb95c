"""Answers kept by what was asked, so that the same question is paid for once."""

import json
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, Protocol

from pydantic_core import from_json, to_json
from redis import RedisError
from redis.asyncio import Redis

from .answers import Answer

KEPT_IN_MEMORY: Final = 10_000
"""Answers a cache without Redis keeps."""


def content_key(base_url: str, parameters: Mapping[str, Any]) -> str:
    """Return a key of everything that decides an answer: endpoint, model, messages, form, temperature."""
    asked = json.dumps([base_url, parameters], sort_keys=True, ensure_ascii=False, default=dict)
    return blake2b(asked.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()


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
        """Keep an answer, and forget the one that was used longest ago."""
        self._answers[key] = answer
        if len(self._answers) > KEPT_IN_MEMORY:
            self._answers.popitem(last=False)


class RedisCache:
    """Keeps answers in Redis for some time. A Redis that fails makes calls cost again, and nothing else."""

    def __init__(self, redis: Redis, prefix: str, ttl_s: float) -> None:
        self._redis = redis
        self._prefix = prefix
        self._ttl_ms = max(int(ttl_s * 1000), 1)

    def _key(self, key: str) -> str:
        return f"{self._prefix}:judge-cache:{key}"

    async def get(self, key: str) -> Answer | None:
        """Return the answer kept under a key."""
        try:
            found = await self._redis.get(self._key(key))
        except RedisError:
            return None
        if found is None:
            return None
        text, finish = from_json(found)
        return Answer(text, finish)

    async def put(self, key: str, answer: Answer) -> None:
        """Keep an answer."""
        try:
            await self._redis.set(self._key(key), to_json([answer.text, answer.finish]), px=self._ttl_ms)
        except RedisError:
            return
