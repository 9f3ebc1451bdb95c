"""The calls that labelers made to their endpoints, by hour and day: outcomes, seconds, dollars, and answers saved.

Every process adds its counts about once a second, so a process that is killed loses the last second of them. The
account that a spend limit uses is exact and separate (`endpoint_states.py`).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeVar, cast

from redis.asyncio import Redis

from .endpoint_states import spend_periods
from .redis.keys import CallField, Streams, deployment_prefix
from .redis.scripts import Lua, ScriptCall

N = TypeVar("N", int, float)

COUNT: Final = Lua("count_calls")

HOURS_KEPT_S: Final = 3_600 * 50
"""Seconds for which the counts of an hour are kept."""
DAYS_KEPT_S: Final = 86_400 * 33
"""Seconds for which the counts of a day are kept."""
STEP: Final = 1.1
"""Ratio of the ends of a class of seconds; a quantile is within 5% of its value."""
SHORTEST_S: Final = 0.001
LONGEST_CLASS: Final = 145
"""Class of all calls of about 1,000 seconds and more."""


def latency_class(latency_s: float) -> int:
    """Return the class of a call's seconds, from 0 (a millisecond and less) to `LONGEST_CLASS`."""
    return min(max(0, math.ceil(math.log(max(latency_s, SHORTEST_S) / SHORTEST_S, STEP))), LONGEST_CLASS)


@dataclass(slots=True)
class CallCounts:
    """Counts of calls: of a process since it wrote them last, or of one or more hours."""

    whole: Counter[str] = field(default_factory=Counter)
    """Whole numbers by field."""
    dollars: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Dollars by field."""

    def answered(self, latency_s: float) -> None:
        """Count a call that was answered."""
        self.failed("answered")
        self.whole[f"{CallField.LATENCY}{latency_class(latency_s)}"] += 1

    def failed(self, outcome: str) -> None:
        """Count a call by its outcome."""
        self.whole[f"{CallField.OUTCOME}{outcome}"] += 1

    def found(self, saved_usd: float) -> None:
        """Count an answer from the cache, and the probable price of the call that was not made."""
        self.whole[CallField.CACHE_HITS] += 1
        if saved_usd:
            self.dollars[CallField.SAVED_USD] += saved_usd

    def spent(self, cost_usd: float, prompt_tokens: int, completion_tokens: int, *, model: str, purpose: str) -> None:
        """Count the price and the tokens of a call."""
        self.whole[CallField.PROMPT_TOKENS] += prompt_tokens
        self.whole[CallField.COMPLETION_TOKENS] += completion_tokens
        if cost_usd:
            self.dollars[f"{CallField.PURPOSE_USD}{purpose}"] += cost_usd
            self.dollars[f"{CallField.MODEL_USD}{model}"] += cost_usd

    def add(self, other: "CallCounts") -> None:
        """Add further counts."""
        self.whole.update(other.whole)
        for name, amount in other.dollars.items():
            self.dollars[name] += amount

    def take(self) -> "CallCounts":
        """Return the counts, and begin again with none."""
        taken = CallCounts(self.whole, self.dollars)
        self.whole, self.dollars = Counter(), defaultdict(float)
        return taken

    def __bool__(self) -> bool:
        """Return whether anything was counted."""
        return bool(self.whole or self.dollars)

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of calls by outcome, the most frequent first."""
        found = _family(self.whole, CallField.OUTCOME)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    @property
    def cost_usd(self) -> float:
        """Dollars of all calls."""
        return sum(self.by_purpose.values())

    @property
    def by_purpose(self) -> dict[str, float]:
        """Dollars by purpose: `live` traffic, or `runs` (replays and experiments)."""
        return _family(self.dollars, CallField.PURPOSE_USD)

    @property
    def by_model(self) -> dict[str, float]:
        """Dollars by model."""
        return _family(self.dollars, CallField.MODEL_USD)

    def latency_s(self, quantile: float) -> float | None:
        """Return a quantile of the seconds of answered calls, within 5%; None without such a call."""
        classes = sorted((int(name), count) for name, count in _family(self.whole, CallField.LATENCY).items())
        wanted = quantile * sum(count for _, count in classes)
        for number, count in classes:
            wanted -= count
            if wanted <= 0:
                return float(SHORTEST_S * STEP ** (number - 0.5))
        return None


def _family(numbers: Mapping[str, N], family: CallField) -> dict[str, N]:
    return {name.removeprefix(family): number for name, number in numbers.items() if name.startswith(family)}


def count_calls(
    streams: Streams, labeler: str, counts: CallCounts, *, at: datetime, process: str, batch: int
) -> ScriptCall[bool]:
    """Return the call that adds counts to an hour and a day; its reply says whether they were new.

    Args:
        streams: keys of partition 0 of the deployment.
        labeler: name of the labeler.
        counts: since the batch before.
        at: time of the counts.
        process: unique name of the process.
        batch: number of the batch, from 1; a batch that is sent twice is added once.
    """
    keys = tuple(streams.labeler_calls(labeler, name) for name in spend_periods(at))
    whole = [part for name, count in counts.whole.items() for part in (name, count)]
    dollars = [part for name, amount in counts.dollars.items() for part in (name, repr(amount))]
    fields = (f"{CallField.BATCH}{process}", batch, HOURS_KEPT_S, DAYS_KEPT_S, len(whole) // 2, *whole, *dollars)
    return ScriptCall(COUNT, keys, fields, bool)


@dataclass(frozen=True, slots=True)
class CallHistory:
    """The calls of one labeler by clock hour and by day (UTC), the oldest first."""

    hours: Mapping[datetime, CallCounts]
    days: Mapping[datetime, CallCounts]

    @property
    def total(self) -> CallCounts:
        """Counts of all hours together."""
        found = CallCounts()
        for one in self.hours.values():
            found.add(one)
        return found


async def read_calls(
    redis: Redis, prefix: str, labeler: str, *, now: datetime, hours: int = 24, days: int = 30
) -> CallHistory:
    """Return the calls of a labeler in the last hours and days, the present ones included.

    Raises:
        redis.RedisError: Redis failed.
    """
    streams = Streams(deployment_prefix(prefix), 0)
    hour, day = now.replace(minute=0, second=0, microsecond=0), now.replace(hour=0, minute=0, second=0, microsecond=0)
    hour_times = [hour - timedelta(hours=back) for back in reversed(range(hours))]
    day_times = [day - timedelta(days=back) for back in reversed(range(days))]
    names = [*(spend_periods(one)[0] for one in hour_times), *(spend_periods(one)[1] for one in day_times)]
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hgetall(streams.labeler_calls(labeler, name))
        stored = [_read(one.items()) for one in cast("list[dict[bytes, bytes]]", await pipe.execute())]
    return CallHistory(
        dict(zip(hour_times, stored[:hours], strict=True)), dict(zip(day_times, stored[hours:], strict=True))
    )


def _read(stored: Iterable[tuple[bytes, bytes]]) -> CallCounts:
    """Return stored counts; fields of another form are skipped, because any client may write to Redis."""
    found = CallCounts()
    for name, value in ((name.decode(errors="replace"), value) for name, value in stored):
        try:
            if name.startswith((CallField.PURPOSE_USD, CallField.MODEL_USD)) or name == CallField.SAVED_USD:
                if math.isfinite(amount := float(value)):
                    found.dollars[name] = amount
            elif name.startswith(CallField.LATENCY):
                found.whole[f"{CallField.LATENCY}{int(name.removeprefix(CallField.LATENCY))}"] += int(value)
            elif not name.startswith(CallField.BATCH):
                found.whole[name] = int(value)
        except ValueError:
            continue
    return found
