"""Orders to an experiment while it runs, or after: any process that reaches its Redis may give them."""

import asyncio
import getpass
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from redis import Redis as BlockingRedis

from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.redis.url import resolve_redis
from ragtide_runtime.settings.model import Settings, load_settings
from ragtide_runtime.workspaces import get_workspace
from ragtide_schemas.experiments import Limits, Order

from .board import Board, board
from .driver import streams_of
from .errors import ExperimentError
from .reader import ExperimentReader

T = TypeVar("T")


class ExperimentControl:
    """Stops, resumes, clones and deletes the configs of an experiment, and shows where it stands.

    Every order is one entry of the experiment's log; it counts from the last look before it.

    Args:
        name: of the experiment.
        redis_url: Redis to use; by default as for everything else.
        by: who gives the orders; the user's name unless given.
        settings: all settings at once, instead of the URL and what the environment says.
    """

    def __init__(
        self, name: str, *, redis_url: str | None = None, by: str | None = None, settings: Settings | None = None
    ) -> None:
        self.name = name
        self._settings = settings or load_settings(**({} if redis_url is None else {"redis_url": redis_url}))
        self._by = by or _user()

    def stop(self, config: str, reason: str = "") -> bool:
        """Stop a config: nothing more is executed of it, what it has is kept.

        Returns: whether a driver runs, which follows the order now. If none runs, the order waits until the experiment
            goes on. The same holds of the other orders.

        Raises:
            ExperimentError: there is no such config, or it is stopped already; so of the other orders.
        """
        return self.give(Order(op="stop", config=config, by=self._by, reason=reason))

    def resume(self, config: str, *, keep: bool = False, reason: str = "") -> bool:
        """Let a config go on where it was stopped; with `keep` the race must not stop it again."""
        return self.give(Order(op="resume", config=config, keep=keep, by=self._by, reason=reason))

    def clone(self, config: str, clone: str, *, reason: str = "", **knobs: Any) -> bool:
        """Let a new config run that has the knobs of another but for these.

        It begins with the items still to come, beside all others, and runs on those before at the end. What a config
        with the very same knobs has answered is taken over. A knob that the target does not take is refused; where that
        is not known, one that no config has.
        """
        return self.give(Order(op="clone", config=config, clone=clone, knobs=knobs, by=self._by, reason=reason))

    def delete(self, config: str, reason: str = "") -> bool:
        """Stop a config for good and leave it out of everything that is shown."""
        return self.give(Order(op="delete", config=config, by=self._by, reason=reason))

    def limits(self, *, max_cost_usd: float | None = None, max_tokens: int | None = None) -> bool:
        """Set new limits; an experiment that was halted may go on."""
        return self.give(
            Order(op="limits", limits=Limits(max_cost_usd=max_cost_usd, max_tokens=max_tokens), by=self._by)
        )

    def give(self, order: Order) -> bool:
        """Give an order, and return whether a driver runs; a config may be named by its number, such as `#3`.

        Raises:
            ExperimentError: it would change nothing; the message says why.
        """
        progress = self._read().progress
        numbers = {f"#{standing.place}": name for name, standing in progress.configs.items()}
        if order.config is not None and order.config not in progress.configs:
            order = order.model_copy(update={"config": numbers.get(order.config, order.config)})
        refusal = progress.refusal(order) or progress.doubt(order)
        if refusal is not None:
            raise ExperimentError(f"experiment {self.name}: {refusal}")
        with self._connected() as redis:
            streams = streams_of(self._settings, self.name)
            redis.xadd(streams.experiment, {DATA_FIELD: order.encode()})
            return bool(redis.exists(streams.driver))

    def board(self) -> Board:
        """Return the leaderboard as it is now."""
        reader = self._read()
        return board(reader.progress, reader.book, judging=reader.judging)

    def _read(self) -> ExperimentReader:
        async def read(url: str) -> ExperimentReader:
            async with connect_async(url) as redis:
                await get_workspace(redis, self._settings, self.name)
                reader = ExperimentReader(redis, streams_of(self._settings, self.name), races=True)
                await reader.read()
                return reader

        with resolve_redis(self._settings.redis_address, self._settings.data_dir) as handle:
            return blocking(read(handle.url))

    @contextmanager
    def _connected(self) -> Iterator[BlockingRedis]:
        with (
            resolve_redis(self._settings.redis_address, self._settings.data_dir) as handle,
            connect(handle.url) as redis,
        ):
            yield redis


def blocking(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns, also inside of a running event loop, as notebooks have one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="ragtide-experiment") as thread:
        return thread.submit(asyncio.run, work).result()


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user id without a name, as containers have
        return "somebody"
