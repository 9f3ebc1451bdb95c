"""A process of `ragtide serve`, and connections that send it requests."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from processes import role

RETRY_S = 0.1
"""Seconds after which a sender that was told to try later tries again."""
START_S = 60.0
"""Seconds in which the service must answer its first request."""


@dataclass(frozen=True)
class Service:
    """A process of `ragtide serve`."""

    port: int
    process: psutil.Process

    def processor_s(self) -> float:
        """Return the processor time of the process so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def resident_bytes(self) -> int:
        """Return the memory of the process now."""
        return int(self.process.memory_info().rss)


@asynccontextmanager
async def service(url: str, log: Path, **settings: str) -> AsyncIterator[Service]:
    """Run `ragtide serve` for the body of an `async with`, once it is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    environment = {"RAGTIDE_REDIS_URL": url, "RAGTIDE_SERVE_PORT": str(port), **settings}
    with role("serve", environment, log) as started:
        async with asyncio.timeout(START_S):
            while not await _is_ready(port):
                if started.poll() is not None:
                    raise RuntimeError(f"ragtide serve ended with {started.returncode}: its log is {log}")
                await asyncio.sleep(0.05)
        yield Service(port, psutil.Process(started.pid))


async def _is_ready(port: int) -> bool:
    try:
        return (await send(port, [request("GET", "/readyz")]))[200] == 1
    except (OSError, EOFError):
        return False


def request(method: str, path: str, body: bytes = b"", kind: str = "application/json") -> bytes:
    """Return a request of HTTP/1.1."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def send(port: int, requests: Iterable[bytes], *, connections: int = 1, retry: bool = True) -> Counter[int]:
    """Send requests over connections that share them, each the next when its last was answered; count the statuses.

    Args:
        port: of the service on this machine.
        requests: the requests.
        connections: number of connections.
        retry: whether a request that was answered with 429 is sent again, until it is taken.
    """
    waiting, statuses = iter(requests), Counter[int]()

    async def sender() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for message in waiting:
            while True:
                writer.write(message)
                status = await _status(reader)
                statuses[status] += 1
                if status != 429 or not retry:
                    break
                await asyncio.sleep(RETRY_S)
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(sender() for _ in range(connections)))
    return statuses


async def _status(reader: asyncio.StreamReader) -> int:
    """Return the status of the next answer; its body is read to its end."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length or 0))
    return int(head[9:12])
