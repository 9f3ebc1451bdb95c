"""Alerts name only interactions that are kept, and these stay while the alert fires."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.aggregator.test_service import EVENTS, SETTINGS, STREAMS, caught_up
from tests.support.aggregator_settings import changed
from tests.support.alerts import alert as other_alert
from tests.support.conditions import until
from tests.support.metric_events import adherence, beta

from ragtide import Alert
from ragtide.testing import interaction
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.service.pins import SpecimenPins
from ragtide_consumers.specimens.keeping import ProposedSpecimen
from ragtide_consumers.specimens.lists import ListPlace
from ragtide_consumers.worker.app import create_group
from ragtide_consumers.worker.results import LabeledEntry, deliver_events
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP, interaction_digest, worst_list
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.settings.retention import SpecimenSettings
from ragtide_schemas import MetricEvent, Specimen, SpecimenLabeling

KEEPING = changed(SETTINGS, specimens=SpecimenSettings(keep_s=50))
RECOVERY = adherence(beta(0.95, 400, 3), first=300)


@asynccontextmanager
async def running(redis: Any) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(Aggregator(redis, KEEPING, holder="a").run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


def specimen(event: MetricEvent) -> Specimen:
    given = interaction(0, interaction_id=event.interaction_id, occurred_at=event.occurred_at)
    by = {"labeler": event.labeler, "labeler_version": event.labeler_version, "profile": event.profile}
    labeling = SpecimenLabeling(**by, scores=event.scores)
    return Specimen(interaction=given, labelings=(labeling,), labeled_at=event.labeled_at)


async def deliver(redis: Any, events: list[MetricEvent], *kept: int) -> None:
    """Add events, and deliver some as a worker does, with a specimen that is among the worst."""
    for event in events:
        number = int(event.interaction_id.removeprefix("i-"))
        if number not in kept:
            await redis.xadd(STREAMS.metrics, {DATA_FIELD: event.encode()})
            continue
        entry_id = (await redis.xadd(STREAMS.interactions, {DATA_FIELD: b"{}"})).decode()
        await create_group(redis, STREAMS.interactions)
        await redis.xreadgroup(LABEL_GROUP, "w", {STREAMS.interactions: ">"})
        place = ListPlace(worst_list("trace.adherence", "test"), 50, -event.scores["trace.adherence"])
        proposed = ProposedSpecimen(specimen(event).to_stored(), [place], SpecimenSettings())
        result = LabeledEntry(entry_id, event, specimen=proposed)
        await run_script(redis, deliver_events(STREAMS, [result], dedupe_ms=60_000, feedback_ms=60_000))


async def alerts(redis: Any) -> list[Alert]:
    return [Alert.decode(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.alerts)]


def key(name: str) -> str:
    return STREAMS.specimen(interaction_digest("shop", name))


async def test_an_alert_names_kept_interactions_of_its_change_and_they_stay_while_it_fires(async_redis: Any) -> None:
    good, bad = EVENTS[:200], EVENTS[200:]
    await deliver(async_redis, good, 10, 11)
    await deliver(async_redis, bad, *range(200, 208))
    async with running(async_redis):
        await until(lambda: caught_up(async_redis))
        (fired,) = await alerts(async_redis)
        assert fired.status == "firing"
        assert 0 < len(fired.worst_interaction_ids) <= 5
        assert set(fired.worst_interaction_ids) <= {f"i-{number}" for number in range(200, 208)}, "of the change"
        for name in fired.worst_interaction_ids:
            assert await async_redis.ttl(key(name)) == -1
            (found,) = await KeptSpecimens(async_redis, Layout("ragtide")).find(name)
            assert found.labelings[0].scores["trace.adherence"] < 0.7
        await deliver(async_redis, RECOVERY)
        await until(lambda: caught_up(async_redis))
        assert [alert.status for alert in await alerts(async_redis)] == ["firing", "resolved"]
    for name in fired.worst_interaction_ids:
        assert 0 < await async_redis.pttl(key(name)) <= 50_000


async def test_an_alert_without_kept_interactions_names_none(async_redis: Any) -> None:
    await deliver(async_redis, EVENTS, 3)
    async with running(async_redis):
        await until(lambda: caught_up(async_redis))
    (fired,) = await alerts(async_redis)
    assert fired.worst_interaction_ids == ()
    assert not await async_redis.exists(STREAMS.specimen_pins)


async def test_the_specimens_of_an_alert_that_no_longer_fires_are_released_at_the_start(async_redis: Any) -> None:
    """A process may die after it has pinned, or before it has released."""
    await deliver(async_redis, EVENTS[:5], 0)
    pins = SpecimenPins(async_redis, STREAMS, keep_ms=50_000)
    gone = other_alert("gone", pipeline="shop", worst_interaction_ids=("i-0",))
    assert (await pins.naming([gone]))[0].worst_interaction_ids == ("i-0",)
    assert await async_redis.ttl(key("i-0")) == -1

    async def released() -> bool:
        return bool(await async_redis.ttl(key("i-0")) != -1)

    async with running(async_redis):
        await until(released)
    assert not await async_redis.exists(STREAMS.specimen_pins)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, ("i-200",)),
        ({"direction": "rise"}, ()),
        ({"segment": "lang=de"}, ()),
        ({"labeler": "other"}, ()),
        ({"labeler_version": "2"}, ()),
        ({"run": "nightly"}, ()),
        ({"baseline": 0.0}, ()),
        ({"quantity": "spread"}, ()),
        ({"began_at": EVENTS[201].occurred_at}, ()),
    ],
)
async def test_only_a_specimen_of_the_same_change_takes_a_place(
    changes: dict[str, Any], named: tuple[str, ...], async_redis: Any
) -> None:
    await deliver(async_redis, EVENTS[200:201], 200)
    fields: dict[str, Any] = {
        "pipeline": "shop",
        "metric": "trace.adherence",
        "labeler": "test",
        "labeler_version": "1",
        "profile": "ragbench",
        "direction": "fall",
        "baseline": 0.99,
        "began_at": EVENTS[200].occurred_at,
        "quantity": "mean",
        "worst_interaction_ids": (),
    }
    given = other_alert("a", **{**fields, **changes})
    (found,) = await SpecimenPins(async_redis, STREAMS, keep_ms=50_000).naming([given])
    assert found.worst_interaction_ids == named
    explained = given.model_copy(update={"status": "explained", "worst_interaction_ids": ("i-1",)})
    (later,) = await SpecimenPins(async_redis, STREAMS, keep_ms=50_000).naming([explained])
    assert later.worst_interaction_ids == named, "an explained alert names those that it named before"
