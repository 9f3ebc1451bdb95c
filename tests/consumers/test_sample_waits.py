"""The sample of a cascade whose labeler is unavailable: it waits, everything else is labeled, and nothing is lost."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.consumers.judge.asking import settings
from tests.consumers.test_cascade import interaction
from tests.consumers.test_cascade_of_three import METRIC, Stage, three
from tests.consumers.test_worker import STREAMS, dead_letters, events, pending, read, working
from tests.support.conditions import until
from tests.support.metric_events import START

from ragtide import Labeler, LabelerUnavailable, Labeling, RagInteraction
from ragtide.testing import ScriptedJudge, Status
from ragtide_aggregator.estimates.choices import chosen
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.service.trimming import trim_streams
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_consumers.labelers.cascade import CascadeLabeler, draw, draw_middle
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.labelers.remote.errors import OverBudget
from ragtide_consumers.worker import waiting
from ragtide_consumers.worker.app import create_group
from ragtide_consumers.worker.worker import LabelWorker
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.backlog import read_backlogs
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP, awaited_labeler
from ragtide_runtime.redis.scripts import run_scripts
from ragtide_runtime.settings.labelers import CascadeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent

HALF = CascadeSettings(rate=0.5)
RULES = CascadeSettings(rate=0.2, below={METRIC: 0.4}, middle="middle", middle_rate=0.2, middle_below={METRIC: 0.5})


class Retried(Stage):
    """A labeler that says that it is soon available again."""

    tries = 0

    async def label(self, one: RagInteraction) -> Labeling:
        self.tries += 1
        if self.down:
            raise LabelerUnavailable(0.01, because="asleep")
        return await super().label(one)


async def publish(redis: Any, interactions: Sequence[RagInteraction]) -> None:
    for one in interactions:
        await redis.xadd(STREAMS.interactions, {DATA_FIELD: one.encode()})


async def held(redis: Any) -> list[tuple[bool, int]]:
    """Return of each pending entry whether it waits for a labeler, and its number of deliveries."""
    found = await redis.xpending_range(STREAMS.interactions, LABEL_GROUP, min="-", max="+", count=1000)
    return [(awaited_labeler(one["consumer"].decode()) is not None, one["times_delivered"]) for one in found]


@asynccontextmanager
async def taking(redis: Any, labeler: Labeler, **changes: Any) -> AsyncIterator[LabelWorker]:
    """Run a worker that has two slots and takes every entry that no worker has read."""
    options = {"max_deliveries": 1, "worker_concurrency": 2, "consumer": "me", "worker_min_idle_s": 0.5, **changes}
    async with working(redis, labeler, **options) as worker:
        task = asyncio.create_task(worker.take(await read(redis, 1000, options["consumer"])))
        try:
            yield worker
        finally:
            await end(task)


async def emitted(redis: Any, count: int) -> None:
    async def are_emitted() -> bool:
        return int(await redis.xlen(STREAMS.metrics)) == count

    await until(are_emitted)


async def waits(redis: Any, count: int) -> None:
    """Wait until so many entries wait, and none of them counts as delivered."""

    async def they_wait() -> bool:
        return await held(redis) == [(True, 0)] * count

    await until(they_wait)


def sampled(one: RagInteraction, proxy: Stage, rules: CascadeSettings) -> str:
    """Return the labeler of the sample of which an interaction is; empty if it is of none."""
    scores = Labeling({METRIC: proxy.score(one)})
    if draw(one, scores, rules).chosen:
        return "judge"
    return "middle" if rules.middle and draw_middle(one, scores, rules).chosen else ""


def estimated(found: Sequence[MetricEvent]) -> list[Any]:
    state = AggregatorState(StateOptions())
    for event in sorted(found, key=lambda event: event.interaction_id):
        state.apply(event.model_copy(update={"occurred_at": START}))
    return [
        (one.labeler, one.metric, one.estimator, one.n, one.estimate, one.lower, one.upper)
        for one in chosen(estimates(state), estimator="all")
    ]


@pytest.mark.parametrize("rules", [HALF, RULES], ids=["two", "three"])
async def test_an_outage_that_outlives_workers_changes_no_score_no_probability_and_no_estimate(
    async_redis: Any, rules: CascadeSettings
) -> None:
    published = [interaction(number) for number in range(150)]
    quick, middle, judge = three()
    without = CascadeLabeler(quick, judge, rules, wait=True, middle=middle if rules.middle else None)
    expected = [await without.label(one) for one in published]
    others = [one.interaction_id for one in published if not sampled(one, quick, rules)]
    assert 20 < len(others) < 130
    await create_group(async_redis, STREAMS.interactions)
    await publish(async_redis, published)
    quick, middle, judge = three()
    middle.down = judge.down = True
    for number in range(3):
        labeler = CascadeLabeler(quick, judge, rules, wait=True, middle=middle if rules.middle else None)
        async with taking(async_redis, labeler, consumer=f"worker-{number}"):
            await emitted(async_redis, len(others))
            await waits(async_redis, 150 - len(others))
    assert sorted(event.interaction_id for event in await events(async_redis)) == sorted(others)
    middle.down = judge.down = False
    labeler = CascadeLabeler(quick, judge, rules, wait=True, middle=middle if rules.middle else None)
    async with taking(async_redis, labeler, consumer="last"):
        await emitted(async_redis, 150)
    assert await dead_letters(async_redis) == []
    assert await pending(async_redis) == 0
    found = {event.interaction_id: event for event in await events(async_redis)}
    assert len(judge.asked) == len(set(judge.asked)), "each is paid for once"
    for one, labeling in zip(published, expected, strict=True):
        judged, wanted = found[one.interaction_id].judged, labeling.judged
        assert (judged is None) == (wanted is None)
        if judged is not None and wanted is not None:
            assert judged.scores == wanted.labeling.scores
            assert (judged.labeler, judged.inclusion_probability, judged.uniform_probability) == (
                wanted.by.name, wanted.inclusion_probability, wanted.uniform_probability
            )  # fmt: skip
    after = estimated(await events(async_redis))
    await async_redis.flushdb()
    await create_group(async_redis, STREAMS.interactions)
    await publish(async_redis, published)
    quick, middle, judge = three()
    async with taking(
        async_redis, CascadeLabeler(quick, judge, rules, wait=True, middle=middle if rules.middle else None)
    ):
        await emitted(async_redis, 150)
    assert after == estimated(await events(async_redis))
    assert {"prediction_powered", "weighted"} <= {estimator for _, _, estimator, *_ in after}


async def test_the_same_worker_labels_the_sample_when_its_labeler_is_available_again(async_redis: Any) -> None:
    published = [interaction(number) for number in range(60)]
    quick, judge = three()[0], Retried("judge", 0.0, 0.02)
    judge.down = True
    count = sum(bool(sampled(one, quick, HALF)) for one in published)
    await create_group(async_redis, STREAMS.interactions)
    await publish(async_redis, published)
    async with taking(async_redis, CascadeLabeler(quick, judge, HALF, wait=True)) as worker:
        await emitted(async_redis, 60 - count)
        tries = judge.tries
        await until(lambda: judge.tries > tries + 5)
        assert await pending(async_redis) == count
        judge.down = False
        await until(lambda: worker.counts.get("emitted") == 60)
    assert len(judge.asked) == len(set(judge.asked)) == count
    assert await dead_letters(async_redis) == []


async def test_a_sample_that_waits_is_left_alone_until_its_labeler_said_and_holds_up_no_abandoned_entry(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The labeler says that it is away for 30 seconds. Its sample is idle for longer than a worker's entry may be."""
    monkeypatch.setattr(waiting, "LONGEST_WAIT_S", 300.0)
    published = [interaction(number) for number in range(80)]
    quick, judge = three()[0], Retried("judge", 0.0, 0.02)
    others = [one for one in published if not sampled(one, quick, HALF)]
    await create_group(async_redis, STREAMS.interactions)
    await publish(async_redis, [one for one in published if one not in others])
    away = Stage("judge", 0.0, 0.0)
    away.down = True
    changes = {"max_deliveries": 3, "worker_min_idle_s": 0.5}
    async with taking(async_redis, CascadeLabeler(quick, away, HALF, wait=True), **changes):
        await waits(async_redis, 80 - len(others))
        asked = len(quick.asked)
        await publish(async_redis, others)
        assert len(await read(async_redis, 1000, "dead")) == len(others)
        await emitted(async_redis, len(others))
        assert set(quick.asked[asked:]) == {one.interaction_id for one in others}
        assert await held(async_redis) == [(True, 0)] * (80 - len(others))
    async with taking(async_redis, CascadeLabeler(quick, judge, HALF, wait=True), consumer="another"):
        await emitted(async_redis, 80)


async def test_an_entry_of_the_sample_that_was_tried_alone_waits_and_is_no_dead_letter(async_redis: Any) -> None:
    await create_group(async_redis, STREAMS.interactions)
    await publish(async_redis, [interaction(1)])
    (entry,) = await read(async_redis)
    await async_redis.xclaim(STREAMS.interactions, LABEL_GROUP, "me", 0, [entry.entry_id], retrycount=9, justid=True)
    quick, judge = three()[0], Retried("judge", 0.0, 0.02)
    judge.down = True
    async with taking(async_redis, CascadeLabeler(quick, judge, CascadeSettings(rate=1.0), wait=True)):
        await until(lambda: judge.tries > 8)
        assert await dead_letters(async_redis) == []
        judge.down = False
        await emitted(async_redis, 1)


class OverItsLimit(Stage):
    """A labeler that has reached its spend limit."""

    async def label(self, one: RagInteraction) -> Labeling:
        raise OverBudget("the limit of the day is reached", 0.01)


@pytest.mark.parametrize("over_budget", [False, True])
async def test_a_sample_that_waits_is_no_labeling_that_is_behind(over_budget: bool, async_redis: Any) -> None:
    async def status() -> tuple[bool, bool]:
        (found,) = await run_scripts(async_redis, [trim_streams(STREAMS, Settings(), "0-0", "0-0")])
        return found.oldest_waiting_ms is not None, found.oldest_awaiting_ms is not None

    await create_group(async_redis, STREAMS.interactions)
    quick, judge = three()[0], (OverItsLimit if over_budget else Stage)("judge", 0.0, 0.0)
    judge.down = True
    everything = CascadeSettings(rate=1.0)
    await publish(async_redis, [interaction(number) for number in range(3)])
    assert await status() == (True, False)
    async with taking(async_redis, CascadeLabeler(quick, judge, everything, wait=True)):
        await waits(async_redis, 3)
    assert await status() == (False, not over_budget), "what waits for money is no sample that is behind"
    (backlog,) = await read_backlogs(async_redis, [STREAMS])
    assert (backlog.waiting, backlog.pending, backlog.awaiting, backlog.oldest_s) == (3, 0, 3, 0.0)
    await publish(async_redis, [interaction(9)])
    assert await status() == (True, not over_budget)
    await read(async_redis, consumer="busy")
    assert await status() == (True, not over_budget)
    (backlog,) = await read_backlogs(async_redis, [STREAMS])
    assert (backlog.waiting, backlog.pending, backlog.awaiting) == (4, 1, 3)
    # A cap takes them out of the stream: they no longer wait for anything.
    await async_redis.xtrim(STREAMS.interactions, maxlen=1, approximate=False)
    assert await status() == (True, False)


@pytest.mark.parametrize("reply", [Status(500), Status(401, "wrong key")], ids=["fails", "refuses"])
async def test_a_judge_that_is_down_and_then_up_scores_every_chosen_interaction_once(
    async_redis: Any, server: ScriptedJudge, reply: Status
) -> None:
    given = settings(server, labeler="cascade", attempts=1, breaker_pause_s=0.1, breaker_failures=2)
    given = given.model_copy(update={"cascade": HALF})
    published = [interaction(number) for number in range(40)]
    chosen_ids = {one.interaction_id for one in published if draw(one, Labeling({}), HALF).chosen}
    await create_group(async_redis, STREAMS.interactions)
    await publish(async_redis, published)
    server.always = reply
    async with labeler_of(given, None) as labeler:
        async with taking(async_redis, labeler, consumer="first"):
            await emitted(async_redis, 40 - len(chosen_ids))
            await waits(async_redis, len(chosen_ids))
        server.always = None
    async with labeler_of(given, None) as labeler, taking(async_redis, labeler, consumer="second"):
        await emitted(async_redis, 40)
    judged = {event.interaction_id: event.judged for event in await events(async_redis)}
    assert {name for name, one in judged.items() if one is not None} == chosen_ids
    assert all(one is None or one.scores for one in judged.values())
    assert await dead_letters(async_redis) == []
