"""Calls that are made at the same moment, done as one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Given = TypeVar("Given")


class Together(Generic[Asked, Given]):
    """Collects what tasks ask for until the event loop has gone round once, and asks for all of it in one call.

    Args:
        ask: returns what was asked for, in order; its exception is raised for every task that asked.
    """

    def __init__(self, ask: Callable[[Sequence[Asked]], Awaitable[Sequence[Given]]]) -> None:
        self._ask = ask
        self._waiting: list[tuple[Asked, asyncio.Future[Given]]] = []
        self._asking: set[asyncio.Task[None]] = set()

    async def __call__(self, asked: Asked) -> Given:
        """Return what is given for one item."""
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
