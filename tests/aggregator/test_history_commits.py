"""The history is written with the commit: a killed aggregator and a lost reply lose nothing and count nothing twice."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from redis import ConnectionError  # noqa: A004 - Redis's own
from tests.support.aggregator_settings import aggregator_settings
from tests.support.conditions import until
from tests.support.metric_events import START, event

from ragtide_aggregator.checkpoint.commit import Committer, Step
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.state.options import HistoryOptions
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_runtime.redis.keys import DATA_FIELD, Streams

STREAMS = Streams("ragtide", 0)
STATE = StateOptions(panes=Panes((), 60_000), history=HistoryOptions(60_000, 600_000, 1_000, 1_000, 3_600_000, 10))
SETTINGS = aggregator_settings(aggregator_batch=20, commit_interval_s=0.0)
EVENTS = [
    event(20 * number, {"trace.adherence": (number * 37 % 101) / 100}, labeled_at=START + timedelta(days=1))
    for number in range(600)
]


@pytest.mark.heavy
async def test_a_killed_aggregator_and_a_lost_reply_change_nothing(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, commits, deaths = Committer.commit, 0, 0

    async def deadly(self: Committer, step: Step, token: str) -> None:
        nonlocal commits, deaths
        commits += 1
        turn = commits % 5
        if deaths < 3 and turn in {1, 3}:
            deaths += 1
            if turn == 1:
                raise asyncio.CancelledError
            await commit(self, step, token)
            raise asyncio.CancelledError
        await commit(self, step, token)
        if turn == 4:
            raise ConnectionError("the reply is lost")

    monkeypatch.setattr(Committer, "commit", deadly)

    async def publish() -> None:
        # In portions, so that a slow machine commits often enough for all faults.
        for start in range(0, len(EVENTS), 120):
            for one in EVENTS[start : start + 120]:
                last = await async_redis.xadd(STREAMS.metrics, {DATA_FIELD: one.encode()})

            async def caught_up(last: bytes = last) -> bool:
                return bool(await async_redis.hget(STREAMS.checkpoint, "position") == last)

            await until(caught_up)

    stop, finishing = asyncio.Event(), asyncio.create_task(publish())
    while not finishing.done():
        await async_redis.delete(STREAMS.lease)  # the dead owner's lease has run out
        service = Aggregator(async_redis, SETTINGS, holder="a", state=STATE)
        running = asyncio.create_task(service.run(stop))
        await asyncio.wait([running, finishing], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            stop.set()
        await asyncio.wait([running])
    assert deaths == 3
    quiet = AggregatorState(STATE)
    for one in EVENTS:
        quiet.apply(one)
    changes = quiet.take_changes()
    assert sum(len(one.records) for one in changes.closed) > 200
    for panes in changes.closed:
        assert await async_redis.lrange(STREAMS.history(panes.series), 0, -1) == panes.records
    stored = await async_redis.hgetall(STREAMS.checkpoint)
    opened = {name.decode(): data for name, data in stored.items() if name.startswith((b"history:", b"series:"))}
    assert opened == {name: data for name, data in changes.rows.items() if name.startswith(("history:", "series:"))}
