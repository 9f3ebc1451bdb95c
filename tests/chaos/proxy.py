"""A TCP proxy before the Redis server, through which every role and the producer speak to it."""

import asyncio
import socket
import struct
import threading
from pathlib import Path
from typing import Self

CHUNK = 256 * 1024


class Proxy:
    """Forwards connections to 127.0.0.1 to a Unix socket, in a thread of its own; use it as a context manager."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._ready = threading.Event()
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self.url = ""
        self.connections = 0
        """Connections taken so far."""

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="proxy", daemon=True)
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def cut(self) -> int:
        """Reset every connection and return how many there were; the last replies of Redis never arrive."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(10)

    def stall(self) -> None:
        """Forward nothing until `flow`."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def flow(self) -> None:
        """Forward data again, the waiting data first."""
        self._loop.call_soon_threadsafe(self._flows.set)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._flows, self._replies = asyncio.Event(), asyncio.Event()
        self._flows.set()
        self._replies.set()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1024)
        self.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
        self._ready.set()
        await self._stop.wait()
        server.close()
        self._reset()

    async def _cut(self) -> int:
        # Requests pass and their replies do not: the client cannot know whether its last command was carried out.
        self._replies.clear()
        await asyncio.sleep(0.03)
        count = self._reset()
        self._replies.set()
        return count

    def _reset(self) -> int:
        count = len(self._pairs)
        for pair in list(self._pairs):
            _abort(*pair)
        self._pairs.clear()
        return count

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            from_redis, to_redis = await asyncio.open_unix_connection(str(self._target))
        except OSError:  # Redis is down
            _abort(writer)
            return
        pair = (writer, to_redis)
        self._pairs.add(pair)
        try:
            # Whichever side ends first ends the other.
            await asyncio.wait(
                [
                    asyncio.ensure_future(self._forward(reader, to_redis)),
                    asyncio.ensure_future(self._forward(from_redis, writer, self._replies)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            self._pairs.discard(pair)
            _abort(writer, to_redis)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event | None = None
    ) -> None:
        try:
            while data := await reader.read(CHUNK):
                for event in (self._flows, gate):
                    if event is not None:
                        await event.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass


def _abort(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        sock = writer.get_extra_info("socket")
        if sock is not None and sock.family == socket.AF_INET and sock.fileno() >= 0:
            # A reset instead of an orderly end.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
