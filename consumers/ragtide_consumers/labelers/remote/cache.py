"""Caches answers by their question, so that the same question is paid for once."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from typing import Any, Final, Generic, Protocol, TypeVar

from pydantic_core import from_json, to_json
from redis import RedisError
from redis.asyncio import Redis

MEMORY_ANSWERS: Final = 10_000
"""Most answers in a cache without Redis."""


def content_key(*parts: str) -> str:
    """Return a key of everything that determines an answer, such as endpoint, model, settings and question."""
    digest = blake2b(digest_size=20)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded))
        digest.update(encoded)
    return digest.hexdigest()


class Cache(Protocol):
    """A cache of answers, which are JSON values."""

    async def get(self, key: str) -> Any:
        """Return the answer under a key; None if there is none."""

    async def put(self, key: str, answer: Any) -> None:
        """Store an answer."""


class NoCache:
    """A cache that holds nothing."""

    async def get(self, key: str) -> Any:
        """Return None."""
        del key

    async def put(self, key: str, answer: Any) -> None:
        """Do nothing."""


class MemoryCache:
    """A cache of the most recently used answers, for work without Redis."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Any] = OrderedDict()

    async def get(self, key: str) -> Any:
        """Return the answer under a key; None if there is none."""
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    async def put(self, key: str, answer: Any) -> None:
        """Store an answer, and drop the least recently used answer if there are too many."""
        self._answers[key] = answer
        if len(self._answers) > MEMORY_ANSWERS:
            self._answers.popitem(last=False)


class RedisCache:
    """A cache in Redis, for some time. If Redis fails, answers are paid for again, and nothing else happens.

    Lookups and writes that many tasks make at the same moment share one round trip.

    Args:
        key: returns the key in Redis of an answer.
        ttl_s: seconds for which an answer is kept.
    """

    def __init__(self, redis: Redis, key: Callable[[str], str], ttl_s: float) -> None:
        self._redis = redis
        self._key = key
        self._ttl_ms = max(int(ttl_s * 1000), 1)
        self._get: Coalesced[str, bytes | None] = Coalesced(self._get_all)
        self._put: Coalesced[tuple[str, bytes], None] = Coalesced(self._put_all)

    async def get(self, key: str) -> Any:
        """Return the answer under a key; None if there is none, or if it is no JSON."""
        stored = await self._get(key)
        try:
            return None if stored is None else from_json(stored)
        except ValueError:
            return None

    async def put(self, key: str, answer: Any) -> None:
        """Store an answer."""
        await self._put((key, to_json(answer)))

    async def _get_all(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for key in keys:
                    pipe.get(self._key(key))
                values = await pipe.execute(raise_on_error=False)
        except RedisError:
            return [None] * len(keys)
        return [value if isinstance(value, bytes) else None for value in values]

    async def _put_all(self, answers: Sequence[tuple[str, bytes]]) -> Sequence[None]:
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for key, value in answers:
                    pipe.set(self._key(key), value, px=self._ttl_ms)
                await pipe.execute()
        except RedisError:
            pass
        return [None] * len(answers)


Asked = TypeVar("Asked")
Given = TypeVar("Given")


class Coalesced(Generic[Asked, Given]):
    """Collects the items that tasks ask for in one round of the event loop, and requests all of them in one call.

    Args:
        ask: returns one result for each item, in order; its exception is raised for every task that asked.
    """

    def __init__(self, ask: Callable[[Sequence[Asked]], Awaitable[Sequence[Given]]]) -> None:
        self._ask = ask
        self._waiting: list[tuple[Asked, asyncio.Future[Given]]] = []
        self._asking: set[asyncio.Task[None]] = set()

    async def __call__(self, item: Asked) -> Given:
        """Return the result for one item."""
        future: asyncio.Future[Given] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if len(self._waiting) == 1:
            task = asyncio.create_task(self._ask_together())
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return await future

    async def _ask_together(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            answers = await self._ask([item for item, _ in waiting])
        except Exception as error:  # noqa: BLE001 - every task that asked gets the error
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), answer in zip(waiting, answers, strict=True):
            if not future.done():
                future.set_result(answer)
