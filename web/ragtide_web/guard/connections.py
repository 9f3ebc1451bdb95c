"""The connections of the HTTP server: how long a client may take for what it owes, and who makes room for whom."""

import asyncio
import resource
from typing import Any, ClassVar, Final

import h11
import structlog
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragtide_runtime.settings.serve import ServeSettings

from .headers import HEADERS
from .problems import HttpProblem

HEADER_S: Final = 10.0
"""Seconds within which the headers of a request must arrive."""
BODY_S: Final = 60.0
"""Seconds within which a body must arrive; for NDJSON, seconds between two lines."""
KEEP_ALIVE_S: Final = 30.0
"""Seconds for which a connection may wait for its next request."""
LINGER_S: Final = 2.0
"""Seconds in which the rest of a body may come after its request was answered."""
TAKEN_BYTES: Final = 65_536
"""Bytes of an answer that a client must take within the time of a body."""
RESERVED: Final = 100
"""Connections above the limit, for which only health is answered, so that a full service never looks dead."""
OTHER_FILES: Final = 200
"""Open files of the process that are no connections of clients: of Redis and of logs."""
HEALTH: Final = frozenset({"/healthz", "/readyz"})

log = structlog.get_logger("ragtide.web")

HEAD, IDLE, REST, TAKING = "head", "idle", "rest", "taking"
"""What a client owes: the head of a request, its next request, the rest of a body, reading its answer."""


def connections_of(settings: ServeSettings) -> int:
    """Return the most connections, after the process was allowed to have as many files open.

    A connection is an open file. Without room for another, no client is answered, not even a probe of health.
    """
    other = OTHER_FILES + RESERVED + settings.connections // 10  # as many connections of Redis
    wanted = other + settings.connections * (1 if settings.grpc_port is None else 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < wanted:
            most = max(soft // 4, min(settings.connections, soft - other))
            log.warning(
                "the process may open too few files for serve.connections: raise its limit (ulimit -n)",
                files=soft,
                wanted=wanted,
                connections=most,
            )
            return most
    return settings.connections


class Slots:
    """The connections that wait for their client, so that the one that waits longest makes room for a new one."""

    def __init__(self, settings: ServeSettings) -> None:
        self.most = connections_of(settings)
        self.limits_s = {HEAD: HEADER_S, IDLE: KEEP_ALIVE_S, REST: LINGER_S, TAKING: BODY_S}
        self._strangers: dict[LimitedProtocol, None] = {}
        self._known: dict[LimitedProtocol, None] = {}

    def waits(self, connection: "LimitedProtocol", *, known: bool) -> None:
        """Remember that a connection waits for its client."""
        self.works(connection)
        (self._known if known else self._strangers)[connection] = None

    def works(self, connection: "LimitedProtocol") -> None:
        """Forget that a connection waits."""
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)

    def make_room(self, new: "LimitedProtocol") -> None:
        """Close the connection that waits longest for its client if there are too many; of known clients the last."""
        if len(new.connections) <= self.most:
            return
        waiting = next(
            (connection for group in (self._strangers, self._known) for connection in group if connection is not new),
            None,
        )
        if waiting is not None:
            waiting.evict()
        elif len(new.connections) > self.most + RESERVED:
            new.evict()


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with one timer for what the client owes. Only a whole request begins it anew."""

    slots: ClassVar[Slots]
    _owes: str = ""
    _timer: asyncio.TimerHandle | None = None
    _unsent: int = 0
    _known: bool = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin the time for the first head."""
        super().connection_made(transport)
        self._service: ASGIApp = self.app
        self.app = self._answer
        self._look()
        self.slots.make_room(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of a body that was not read."""
        super().on_response_complete()
        self._unset_keepalive_if_required()  # the timer of this class is the only one
        self._look()

    def pause_writing(self) -> None:
        """Wait until the client reads its answer."""
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        """Continue: the client reads."""
        super().resume_writing()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._owe("")
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP; what follows them is not read."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # an answer has begun already
            self.transport.close()
            return
        body = b'{"detail":"the request is not valid HTTP/1.1: send it again"}'
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        for event in (
            h11.Response(status_code=400, headers=[*headers, *HEADERS.items()], reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def evict(self) -> None:
        """End the connection at once."""
        self.slots.works(self)
        self.transport.abort()

    def _look(self) -> None:
        if self.transport.is_closing() or self.flow.write_paused:
            owes = TAKING
        elif self.cycle is not None and not self.cycle.response_complete:
            owes = ""
        elif self.conn.their_state is h11.SEND_BODY:
            owes = REST
        else:
            owes = IDLE if self.cycle is not None and not self.conn.trailing_data[0] else HEAD
        if owes == IDLE and self._owes == HEAD:  # blank lines before a head are part of it
            return
        if owes != self._owes:
            self._owe(owes)

    def _owe(self, owes: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._owes = owes
        if owes:
            self._unsent = self.transport.get_write_buffer_size()
            self._timer = self.loop.call_later(self.slots.limits_s[owes], self._end)
            self.slots.waits(self, known=self._known)
        else:
            self.slots.works(self)

    def _end(self) -> None:
        self._timer = None
        unsent = self.transport.get_write_buffer_size()
        if self._owes == TAKING and unsent and unsent > self._unsent - TAKEN_BYTES:
            self.transport.abort()
            return
        if self._owes != TAKING:
            self.transport.close()
        self._owe(TAKING)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: dict[str, Any] = scope["state"]
        body = _Body(self, state, receive)
        state["item_came"] = body.item_came
        try:
            if len(self.connections) > self.slots.most and scope["path"] not in HEALTH:
                detail = "the service has all connections that it may have: send the request again later"
                headers = {**HEADERS, "Connection": "close", "Retry-After": "1"}
                await JSONResponse({"detail": detail}, 503, headers)(scope, receive, send)
            else:
                await self._service(scope, body.receive, send)
        finally:
            self._known = bool(state.get("held"))
            # Uvicorn closes some connections without a word: they are looked at no more.
            self.loop.call_soon(lambda: self._look() if self in self.connections else None)

    def waits_for_body(self, *, known: bool) -> None:
        """Let the connection make room for others while the body does not come."""
        self.slots.waits(self, known=known)

    def has_body(self) -> None:
        """Keep the connection while its request is answered."""
        if not self._owes:
            self.slots.works(self)


class _Body:
    """The body of one request. Its client has `BODY_S` seconds; time in which the service works is not counted."""

    def __init__(self, connection: LimitedProtocol, state: dict[str, Any], receive: Receive) -> None:
        self._connection = connection
        self._state = state
        self._receive = receive
        self._left_s = BODY_S
        self._whole = False

    def item_came(self) -> None:
        """Begin the time anew: a whole line of a long body came."""
        self._left_s = BODY_S

    async def receive(self) -> Message:
        """Return the next part of the body.

        Raises:
            HttpProblem: 408, the client was too slow.
        """
        if self._whole:  # the service only asks whether the client is still there
            return await self._receive()
        loop = self._connection.loop
        began = loop.time()
        self._connection.waits_for_body(known=bool(self._state.get("held")))
        try:
            async with asyncio.timeout(self._left_s):
                message = await self._receive()
        except TimeoutError:
            raise HttpProblem(408, f"the body did not come within {BODY_S:g} s: send it faster", close=True) from None
        finally:
            self._left_s = max(0.0, self._left_s - (loop.time() - began))
            self._connection.has_body()
        self._whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message


def protocol(settings: ServeSettings) -> type[H11Protocol]:
    """Return the protocol of the connections of one server."""
    return type("Connection", (LimitedProtocol,), {"slots": Slots(settings)})
