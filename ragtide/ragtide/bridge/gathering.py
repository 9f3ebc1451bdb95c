"""Gathers messages that a broker delivers one by one, so that they are published in batches."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from ragtide_runtime.processes.waiting import end

from .links import Received, Take


class Gatherer:
    """Takes messages together that wait at the same time. The broker bounds how many wait.

    Args:
        take: takes a batch.
        batch: most messages of a batch.
    """

    def __init__(self, take: Take, batch: int) -> None:
        self._take = take
        self._batch = batch
        self._waiting: asyncio.Queue[tuple[Received, asyncio.Future[bool]]] = asyncio.Queue()
        self._task = asyncio.create_task(self._run())

    async def take(self, message: Received) -> bool:
        """Return whether a message is in Redis now, so that it may be acknowledged."""
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((message, taken))
        return await taken

    async def close(self) -> None:
        """End; messages that still wait are not acknowledged."""
        await end(self._task)
        while not self._waiting.empty():
            _answer([self._waiting.get_nowait()], taken=False)

    async def _run(self) -> None:
        while True:
            found = [await self._waiting.get()]
            try:
                await asyncio.sleep(0)  # others may be about to wait
                with suppress(asyncio.QueueEmpty):
                    while len(found) < self._batch:
                        found.append(self._waiting.get_nowait())
                _answer(found, taken=await self._take([message for message, _ in found]))
            except asyncio.CancelledError:
                _answer(found, taken=False)
                raise


def _answer(found: Sequence[tuple[Received, asyncio.Future[bool]]], *, taken: bool) -> None:
    for _, waiting in found:
        if not waiting.done():
            waiting.set_result(taken)
