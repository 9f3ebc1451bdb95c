"""Limits the calls of an endpoint: calls in flight, by its latency, and calls and tokens a minute."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import cbrt, inf
from time import monotonic
from typing import Final

FIRST_SHARE: Final = 0.5
"""Share of the maximum that is in flight before the first answer."""

CUT: Final = 0.7
"""Factor of the calls that the endpoint takes, after it asked for fewer."""

GROWTH: Final = 0.1
"""Factor of the cube of the rounds since the endpoint asked for fewer calls."""

SLOW: Final = 2.0
"""Multiple of the usual latency above which the limit stops growing; above its square the limit is cut."""

FIRST_ANSWERS: Final = 20
"""Answers whose mean is the usual latency at first: a first call may be far slower or faster than all others."""


class AdaptiveLimit:
    """Bounds the concurrent calls: half of the maximum at first, and by CUBIC (RFC 9438) after the first refusal.

    The first answer allows the maximum, unless the endpoint has shown that it is busy (429, 503, a timeout, or latency
    far above the usual). A refusal shows that the endpoint does not take as many calls as are in flight, so
    the calls beside it are the new limit at most: when calls in flight together are refused together, no call takes
    their place. The first refusal of a round trip cuts the limit to `CUT` of these calls, too. The limit then grows
    with the cube of the rounds: fast, slowly near the calls at which it was cut, and fast again if they are taken.
    """

    def __init__(self, maximum: int, *, clock: Callable[[], float] = monotonic) -> None:
        self._maximum = float(maximum)
        self._limit = max(1.0, FIRST_SHARE * maximum)
        self._clock = clock
        self._peak = self._limit
        """Calls beside the last refusal."""
        self._rounds_to_peak = 0.0
        self._rounds = inf
        """Full rounds since the last refusal; infinite before the first."""
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._answers = 0
        self._usual_s = 0.0
        self._recent_s = 0.0
        self._cut_at = -inf

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
        self._answers += 1
        weight = max(1 / self._answers, 0.1)
        self._recent_s += weight * (latency_s - self._recent_s)
        # The usual latency rises slowly and falls quickly, so that a load of our own does not become the usual.
        rises = self._recent_s > self._usual_s and self._answers > FIRST_ANSWERS
        self._usual_s += (0.002 if rises else weight) * (self._recent_s - self._usual_s)
        if self._recent_s > SLOW**2 * self._usual_s:
            self._fall(self._limit, latency_s)
        elif self._rounds == inf:
            self._limit = self._maximum
        elif self._recent_s <= SLOW * self._usual_s and self._in_flight >= self.limit - 1:
            self._rounds += 1 / self._limit
            allowed = self._peak + GROWTH * (self._rounds - self._rounds_to_peak) ** 3
            self._limit = max(self._limit, min(self._limit + 1.0, allowed, self._maximum))

    def overloaded(self, latency_s: float = 0.0) -> None:
        """Cut the limit, because the endpoint refused a call or was too slow for it; the call still has its slot."""
        self._fall(self._in_flight - 1.0, latency_s)

    def _fall(self, taken: float, latency_s: float) -> None:
        now = self._clock()
        self._peak = max(1.0, taken)
        if now - self._cut_at >= max(latency_s, self._recent_s, 0.05):
            self._cut_at = now
            taken = CUT * taken
        self._limit = max(1.0, min(self._limit, taken))
        self._rounds_to_peak = cbrt((self._peak - self._limit) / GROWTH)
        self._rounds = 0.0


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
