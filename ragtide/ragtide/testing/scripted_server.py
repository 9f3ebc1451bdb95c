"""A local HTTP server with scripted replies: real HTTP, for the tests of labelers that call a service."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any, ClassVar, Self

from .replies import Drops, Hangs, Raw, Reply, Slow, Status

_START_S = 10.0
_FOREVER_S = 3600.0


class ScriptedServer:
    """Serves one path on 127.0.0.1 in a thread of its own; use it as a context manager.

    A subclass names the path, and its method `usual` returns the usual reply.

    Args:
        script: replies to the first requests, in order.
        always: reply to every request after the script, or a function that returns it for a request; None for the
            usual reply.
        latency_s: seconds before every reply, except those above the capacity.
        capacity: requests at once above which further requests get the status 429.
    """

    base: ClassVar[str] = ""
    """Path of the service; it is part of `url`."""
    path: ClassVar[str] = "/"
    """Path that follows `url` in every request."""

    def __init__(
        self,
        *,
        script: Iterable[Reply] = (),
        always: Reply | Callable[[Any], Reply | None] | None = None,
        latency_s: float = 0.0,
        capacity: int | None = None,
    ) -> None:
        self.script = deque(script)
        """Replies that are not used yet; a test may add more."""
        self.always = always
        self.latency_s = latency_s
        self.capacity = capacity
        self.requests: list[dict[str, Any]] = []
        """The JSON of all requests, in order."""
        self.headers: list[dict[str, str]] = []
        """The headers of all requests, in order."""
        self.stores_requests = True
        """Whether `requests` and `headers` are stored."""
        self.answered = 0
        """Usual or scripted answers that were sent, without errors and faults."""
        self.raw_sent = 0
        """Bytes of the bodies of `Raw` that the network has taken."""
        self.in_flight = 0
        self.most_in_flight = 0
        self._url: str | None = None
        self._failed: Exception | None = None
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._end: Callable[[], object] = lambda: None

    @property
    def url(self) -> str:
        """Address of the service.

        Raises:
            RuntimeError: the server does not run.
        """
        if self._url is None:
            raise RuntimeError("the server does not run: use it in a with block")
        return self._url

    def usual(self, request: dict[str, Any], scripted: Reply | None) -> Any:
        """Return the JSON of a reply; `scripted` is None, `Labels` or `Says`."""
        raise NotImplementedError

    def asked(self, request: dict[str, Any]) -> Any:
        """Return the argument of a function given as `always`."""
        return request

    def listing(self, path: str) -> Any | None:
        """Return the JSON of a reply to GET, which is no request in `requests`; None for no such path."""
        del path
        return None

    def __enter__(self) -> Self:
        self._ready.clear()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        if not self._ready.wait(_START_S):
            raise RuntimeError(f"the server did not start on 127.0.0.1 within {_START_S:g} s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        self._thread.join(_START_S)
        self._url = None
        if kind is None and self._failed is not None:
            raise RuntimeError(
                f"the script failed with {type(self._failed).__name__}: {self._failed}"
            ) from self._failed

    async def _serve(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._end = lambda: loop.call_soon_threadsafe(stop.set)
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=16 * 1024 * 1024, backlog=1024)
        self._url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{self.base}"
        self._ready.set()
        await stop.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        listed = self.listing(head[0].removeprefix(f"GET {self.base}").partition(" ")[0])
        if head[0].startswith("GET ") and listed is not None:
            return await _send(writer, 200, json.dumps(listed).encode(), {})
        if not head[0].startswith(f"POST {self.base}{self.path} "):
            return await self._refuse(writer, Status(404, f"no such path: {head[0]}"))
        try:
            request = json.loads(body)
        except ValueError:
            return await self._refuse(writer, Status(400, "the request is no JSON"))
        if self.stores_requests:
            self.requests.append(request)
            self.headers.append(headers)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self.answer(request, writer)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - a function of the test failed: the test hears of it at the end
            self._failed = error
            return await self._refuse(writer, Status(400, f"the script failed with {type(error).__name__}: {error}"))
        finally:
            self.in_flight -= 1

    async def answer(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        """Send the next reply, and return whether the connection stays open."""
        if self.script:
            reply: Reply | None = self.script.popleft()
        else:
            reply = self.always(self.asked(request)) if callable(self.always) else self.always
        if self.capacity is not None and self.in_flight > self.capacity:
            return await self._refuse(writer, Status(429, "too many requests at once"))
        if isinstance(reply, Status):
            await asyncio.sleep(self.latency_s)
            return await self._refuse(writer, reply)
        if isinstance(reply, Raw):
            return await self._send_raw(writer, reply)
        if isinstance(reply, Hangs):
            await asyncio.sleep(_FOREVER_S)
        await asyncio.sleep(self.latency_s + (reply.seconds if isinstance(reply, Slow) else 0.0))
        content = self.usual(request, None if isinstance(reply, Slow | Hangs | Drops) else reply)
        payload = json.dumps(content).encode()
        if isinstance(reply, Drops):
            writer.write(_head(200, len(payload), {}) + payload[: len(payload) // 2])
            await writer.drain()
            return False
        self.answered += 1
        return await _send(writer, 200, payload, {})

    @staticmethod
    async def _refuse(writer: asyncio.StreamWriter, reply: Status) -> bool:
        error = {"message": reply.message, "type": reply.kind, "param": reply.param, "code": reply.kind}
        return await _send(writer, reply.code, json.dumps({"error": error}).encode(), reply.headers)

    async def _send_raw(self, writer: asyncio.StreamWriter, reply: Raw) -> bool:
        headers = {"content-type": reply.content_type, **reply.headers}
        writer.write(_head(reply.code, len(reply.body) * reply.times, headers))
        for _ in range(reply.times):
            writer.write(reply.body)
            await writer.drain()
            self.raw_sent += len(reply.body)
        return True


async def _send(writer: asyncio.StreamWriter, code: int, payload: bytes, headers: Mapping[str, str]) -> bool:
    writer.write(_head(code, len(payload), headers) + payload)
    await writer.drain()
    return True


def _head(code: int, length: int, headers: Mapping[str, str]) -> bytes:
    phrase = HTTPStatus(code).phrase if code in set(HTTPStatus) else "Status"
    lines = [f"HTTP/1.1 {code} {phrase}", f"content-length: {length}"]
    headers = {"content-type": "application/json", **headers}
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()
