"""The calls that labelers made to their endpoints, by hour and day: outcomes, seconds, dollars, and answers saved.

Every process adds its counts about once a second, so a process that is killed loses the last second of them. The
account that a spend limit uses is exact and separate (`endpoint_states.py`).
"""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, cast

from redis.asyncio import Redis

from ..redis.keys import CallField, Streams, deployment_prefix
from ..redis.scripts import Lua, ScriptCall
from .call_counts import CallCounts, CallHistory
from .endpoint_states import spend_periods

COUNT: Final = Lua("count_calls")

HOURS_KEPT_S: Final = 3_600 * 50
"""Seconds for which the counts of an hour are kept."""
DAYS_KEPT_S: Final = 86_400 * 33
"""Seconds for which the counts of a day are kept."""
PIPELINES_MAX: Final = 100
"""Most pipelines whose dollars are counted apart in an hour or a day: the first ones that spend."""


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
    sums = {name: amount for name, amount in counts.dollars.items() if not name.startswith(CallField.PIPELINE_USD)}
    # The most expensive pipelines come first, so these are named if there is no room for all.
    rest = sorted((item for item in counts.dollars.items() if item[0] not in sums), key=lambda item: -item[1])
    dollars = [part for name, amount in (*sums.items(), *rest) for part in (name, repr(amount))]
    limits = (HOURS_KEPT_S, DAYS_KEPT_S, CallField.PIPELINES, PIPELINES_MAX, len(whole) // 2, len(sums))
    return ScriptCall(COUNT, keys, (f"{CallField.BATCH}{process}", batch, *limits, *whole, *dollars), bool)


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
            if (
                name.startswith((CallField.PURPOSE_USD, CallField.MODEL_USD, CallField.PIPELINE_USD))
                or name == CallField.SAVED_USD
            ):
                if math.isfinite(amount := float(value)):
                    found.dollars[name] = amount
            elif name.startswith(CallField.LATENCY):
                found.whole[f"{CallField.LATENCY}{int(name.removeprefix(CallField.LATENCY))}"] += int(value)
            elif not name.startswith(CallField.BATCH):
                found.whole[name] = int(value)
        except ValueError:
            continue
    return found
