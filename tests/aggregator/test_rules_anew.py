"""New alert rules in a running aggregator give what a restart with them gives, to the bit."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.aggregator.test_service import EVENTS, RULE, SETTINGS, STREAMS, caught_up, stored_rows
from tests.support.aggregator_settings import changed
from tests.support.conditions import until

from ragtide import Alert, AlertRule, Deployment
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.settings.model import Settings

DRIFT = AlertRule(name="drift", kind="drift", metric="trace.adherence", learn_n=40)
STRICT = RULE.model_copy(update={"target": 0.9})
CHANGES = {
    "a rule is added": (RULE, DRIFT),
    "a rule changes": (STRICT,),
    "a rule is removed": (DRIFT,),
    "all rules are removed": (),
}


def with_rules(*rules: AlertRule) -> Settings:
    return changed(SETTINGS, alerts=rules)


async def published(redis: Any, first: int, last: int) -> None:
    for number in range(first, last):
        # With ids of its own, because rules count in the times of entries.
        await redis.xadd(STREAMS.metrics, {DATA_FIELD: EVENTS[number].encode()}, id=f"{1_800_000_000_000 + number}-0")
    await until(lambda: caught_up(redis))


async def outcome(redis: Any, rules: tuple[AlertRule, ...], change_at: int, *, anew: bool) -> tuple[Any, list[Alert]]:
    """Return checkpoint and alerts of a run whose rules change, in one process or by a restart."""
    await redis.flushall()
    async with AsyncExitStack() as stack:

        async def begun(settings: Settings) -> Aggregator:
            stop = asyncio.Event()
            service = Aggregator(redis, settings, holder="a")
            task = asyncio.create_task(service.run(stop))

            async def end() -> None:
                stop.set()
                await task

            stack.push_async_callback(end)
            return service

        service = await begun(SETTINGS)
        await published(redis, 0, change_at)
        if anew:
            service.take(with_rules(*rules))
            await until(lambda: service.is_current)
        else:
            await stack.aclose()
            await begun(with_rules(*rules))
        await published(redis, change_at, len(EVENTS))
    alerts = [Alert.decode(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.alerts)]
    return await stored_rows(redis), alerts


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a rule is added", marks=pytest.mark.heavy),
        "a rule changes",
        "a rule is removed",
        pytest.param("all rules are removed", marks=pytest.mark.heavy),
    ],
)
async def test_new_rules_give_what_a_restart_gives(name: str, async_redis: Any) -> None:
    change_at = 270 if "removed" in name else 150
    restarted = await outcome(async_redis, CHANGES[name], change_at, anew=False)
    assert await outcome(async_redis, CHANGES[name], change_at, anew=True) == restarted
    rows, alerts = restarted
    assert rows
    if name == "a rule changes":
        assert alerts, "the alerts of the new rule are compared, too"


async def test_rules_that_change_again_and_again_while_events_come_lose_and_repeat_no_event(async_redis: Any) -> None:
    stop = asyncio.Event()
    service = Aggregator(async_redis, SETTINGS, holder="a")
    task = asyncio.create_task(service.run(stop))
    try:
        for number, event in enumerate(EVENTS):
            await async_redis.xadd(STREAMS.metrics, {DATA_FIELD: event.encode()})
            if number % 7 == 0:
                service.take(with_rules(*list(CHANGES.values())[number % 4]))
        service.take(with_rules(RULE))
        await until(lambda: caught_up(async_redis))
        assert len(service.owner.owned) == 1
    finally:
        stop.set()
        await task
    estimates = await Deployment(async_redis, SETTINGS).estimates()
    scored = [row.n for row in estimates if row.metric == "trace.adherence" and row.segment is None]
    assert max(scored) == len(EVENTS)
