"""Limits the calls of an endpoint: calls in flight, by its latency, and calls and tokens a minute."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final

FIRST_LIMIT: Final = 16
"""Calls in flight before the first answer."""

CUT: Final = 0.7
"""Factor of the limit after the endpoint asked for fewer calls."""

SLOW: Final = 2.0
"""Multiple of the usual latency above which the limit stops growing; above its square the limit is cut."""


class AdaptiveLimit:
    """Bounds the concurrent calls: additive increase and multiplicative decrease as in TCP, up to a maximum.

    The limit doubles once per full round, until the endpoint first shows that it is busy (429, 503, a timeout, or
    latency far above the usual); after that it grows by one a round. It is cut at most once per round trip, because
    calls that are in flight together fail together.
    """

    def __init__(self, maximum: int, *, clock: Callable[[], float] = monotonic) -> None:
        self._maximum = maximum
        self._limit = float(min(FIRST_LIMIT, maximum))
        self._clock = clock
        self._doubling = True
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._usual_s: float | None = None
        self._recent_s = 0.0
        self._cut_at = float("-inf")

    @property
    def limit(self) -> int:
        """Most concurrent calls now."""
        return max(1, int(self._limit))

    @property
    def in_flight(self) -> int:
        """Concurrent calls now."""
        return self._in_flight

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot in turn, and hold it for the body of an `async with`."""
        if self._in_flight >= self.limit or self._waiting:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._release()
                raise
        else:
            self._in_flight += 1
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        self._in_flight -= 1
        while self._waiting and self._in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)

    def answered(self, latency_s: float) -> None:
        """Count an answer and its latency, and raise the limit if the endpoint keeps up."""
        if self._usual_s is None:
            self._usual_s = self._recent_s = latency_s
        # The usual latency rises slowly and falls quickly, so that a load of our own does not become the usual.
        self._recent_s += 0.1 * (latency_s - self._recent_s)
        self._usual_s += (0.002 if self._recent_s > self._usual_s else 0.1) * (self._recent_s - self._usual_s)
        if self._recent_s > SLOW**2 * self._usual_s:
            self.overloaded(latency_s)
        elif self._recent_s <= SLOW * self._usual_s and self._in_flight >= self.limit - 1:
            step = 1.0 if self._doubling else 1.0 / self._limit
            self._limit = min(self._limit + step, float(self._maximum))

    def overloaded(self, latency_s: float = 0.0) -> None:
        """Cut the limit, because the endpoint is overloaded."""
        now = self._clock()
        if now - self._cut_at < max(latency_s, self._recent_s, 0.05):
            return
        self._cut_at = now
        self._doubling = False
        self._limit = max(1.0, CUT * self._limit)


class TokenBucket:
    """Allows a burst, and after it a constant rate. Calls are served in the order of their arrival.

    Args:
        burst: most tokens in the bucket, which is full at first.
        per_second: tokens that are added each second.
        clock: seconds since some moment.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        burst: float,
        per_second: float,
        *,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._burst = self._level = burst
        self._per_second = per_second
        self._clock = clock
        self._sleep = sleep
        self._filled_at = clock()
        self._turn = asyncio.Lock()

    async def take(self, tokens: float) -> None:
        """Wait for so many tokens and take them; a cancelled wait takes none.

        More tokens than a burst count as a whole burst, because the bucket never holds more.
        """
        wanted = min(tokens, self._burst)
        async with self._turn:
            # Rounding may leave a shortage for which the clock is too coarse.
            while (missing := wanted - self._fill()) > 1e-9 * self._burst:
                await self._sleep(missing / self._per_second)
            self._level -= wanted

    def _fill(self) -> float:
        now = self._clock()
        self._level = min(self._level + self._per_second * (now - self._filled_at), self._burst)
        self._filled_at = now
        return self._level


class MinuteLimits:
    """Limits calls and tokens a minute; a burst may have a sixth of them.

    Args:
        requests: most calls a minute; None for no limit.
        tokens: most tokens a minute; None for no limit.
        clock: as for `TokenBucket`.
        sleep: as for `TokenBucket`.
    """

    BURST: Final = 6

    def __init__(
        self,
        requests: float | None,
        tokens: float | None,
        *,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        def bucket(a_minute: float) -> TokenBucket:
            return TokenBucket(max(a_minute / self.BURST, 1.0), a_minute / 60.0, clock=clock, sleep=sleep)

        self._requests = None if requests is None else bucket(max(requests, 1.0))
        self._tokens = None if tokens is None else bucket(tokens)

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return self._requests is not None or self._tokens is not None

    async def wait(self, tokens: int) -> None:
        """Wait until one more call of so many tokens is allowed."""
        if self._requests is not None:
            await self._requests.take(1.0)
        if self._tokens is not None:
            await self._tokens.take(tokens)
