"""Answers to requests that cannot be served: a status, one sentence, and when to try again."""

import asyncio
import math
from typing import Final

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from redis import RedisError
from redis.asyncio import Redis
from redis.exceptions import RedisClusterException
from redis.exceptions import TimeoutError as RedisTimeoutError
from starlette.requests import ClientDisconnect

from ragtide_runtime.redis.client import SOCKET_TIMEOUT_S
from ragtide_schemas.printable import printable

RETRY_AFTER_S: Final = 5.0
"""Seconds after which a client should try again while Redis does not answer."""
PING_S: Final = 1.0
"""Seconds within which Redis answers a question about itself, unless it is away."""
DETAIL_MAX_CHARS: Final = 2000
DRAIN_S: Final = 2.0
"""Seconds for which the rest of a refused body is read."""
REDIS_ERRORS: Final = (RedisError, RedisClusterException, OSError)


class HttpProblem(Exception):  # noqa: N818 - an answer, not an error of this program
    """A request that is not served.

    Attributes:
        status: HTTP status.
        detail: one sentence with the remedy.
        retry_after_s: seconds after which the client should try again; None if the request must change first.
        close: whether the connection ends, because the rest of the body was not read.
    """

    def __init__(self, status: int, detail: str, *, retry_after_s: float | None = None, close: bool = False) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = printable(detail)[:DETAIL_MAX_CHARS]
        self.retry_after_s = retry_after_s
        self.close = close

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        headers = {}
        if self.retry_after_s is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after_s)))
        if self.close:
            headers["Connection"] = "close"
        if self.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="ragtide", Basic realm="ragtide"'
        return headers


async def answer(request: Request, problem: Exception) -> Response:
    """Return the answer to a request that is not served."""
    assert isinstance(problem, HttpProblem)  # noqa: S101 - registered for this class
    if problem.close:
        await drain(request)
    return JSONResponse({"detail": problem.detail}, status_code=problem.status, headers=problem.headers())


async def drain(request: Request) -> None:
    """Read the rest of a body, and forget it, for a limited time: many clients read an answer only afterwards."""
    try:
        async with asyncio.timeout(DRAIN_S):
            async for _ in request.stream():
                pass
    except (TimeoutError, ClientDisconnect, HttpProblem, RuntimeError):  # RuntimeError: it was read to its end
        pass


def too_large(detail: str) -> HttpProblem:
    """Return the answer to a body above a limit."""
    return HttpProblem(413, f"{detail}: send less at once", close=True)


class RedisProblem(HttpProblem):
    """A request that failed because of Redis.

    Attributes:
        waited: whether a reply, or a free connection, did not come in time. Then Redis may well answer others.
    """

    def __init__(self, *, waited: bool) -> None:
        super().__init__(503, "Redis does not answer: send the whole request again later", retry_after_s=RETRY_AFTER_S)
        self.waited = waited

    async def name_cause(self, redis: Redis) -> None:
        """Ask Redis whether it answers, and name the true cause in `status` and `detail`."""
        if self.waited and await answers(redis):
            self.status = 504
            self.detail = (
                f"the answer took longer than {SOCKET_TIMEOUT_S:g} s, although Redis answers: ask for less (one "
                "pipeline, a shorter range), or try again when there is less to do"
            )


async def answers(redis: Redis) -> bool:
    """Return whether Redis answers within a second, over a connection that nothing else uses."""
    pool = getattr(redis, "connection_pool", None)
    try:
        async with asyncio.timeout(PING_S):
            if pool is None:  # a cluster
                return bool(await redis.ping())
            connection = pool.make_connection()
            try:
                await connection.connect()
                await connection.send_command("PING")
                return bool(await connection.read_response())
            finally:
                await connection.disconnect(nowait=True)
    except (RedisError, RedisClusterException, OSError):
        return False


async def took_too_long(error: BaseException, redis: Redis) -> bool:
    """Return whether a reading failed because it took too long, although Redis answers."""
    return redis_is_away(error).waited and await answers(redis)


def redis_is_away(error: BaseException) -> RedisProblem:
    """Return the answer to a request that failed because of Redis; whoever sends it names the cause first."""
    # The text of the error may name the address of the server.
    late = isinstance(error, RedisTimeoutError | TimeoutError)
    return RedisProblem(waited=late or isinstance(error.__cause__, TimeoutError))
