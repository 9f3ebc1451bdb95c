"""Coalesces requests: if many tasks ask for one item each at the same moment, one call asks for all items."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

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

    async def __call__(self, asked: Asked) -> Given:
        """Return the result for one item."""
        future: asyncio.Future[Given] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        if len(self._waiting) == 1:
            task = asyncio.create_task(self._ask_for_all())
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return await future

    async def _ask_for_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            given = await self._ask([asked for asked, _ in waiting])
        except Exception as error:  # noqa: BLE001 - every task that asked gets the error
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), one in zip(waiting, given, strict=True):
            if not future.done():
                future.set_result(one)
