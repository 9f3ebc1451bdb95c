import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.metric_events import event

from ragtide_aggregator.service.pipeline_health import PipelineHealth
from ragtide_aggregator.service.trimming import StreamStatus, trim_streams
from ragtide_consumers.sentinels.service import record_sentinel
from ragtide_runtime.alert_book import AlertBook
from ragtide_runtime.ownership.ownership import Lease
from ragtide_runtime.redis.keys import LABEL_GROUP, RECORD_GROUP, Streams
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.settings.alerting import StallSettings
from ragtide_runtime.settings.model import Settings

STREAMS = Streams("ragtide", 0)


async def add(redis: Any, stream: str, count: int) -> list[str]:
    return [(await redis.xadd(stream, {"data": str(number)})).decode() for number in range(count)]


async def ids(redis: Any, stream: str) -> list[str]:
    return [entry_id.decode() for entry_id, _ in await redis.xrange(stream)]


async def read(redis: Any, group: str, count: int) -> list[bytes]:
    reply = await redis.xreadgroup(group, "w", {STREAMS.interactions: ">"}, count=count)
    return [entry_id for entry_id, _ in reply[0][1]]


async def finish(redis: Any, *entry_ids: bytes) -> None:
    """Finish entries as the scripts of a worker do."""
    await redis.zadd(STREAMS.finished, {entry_id: int(entry_id.partition(b"-")[0]) for entry_id in entry_ids})
    await redis.xack(STREAMS.interactions, LABEL_GROUP, *entry_ids)


async def trim(redis: Any, caps: Settings, position: str, feedback_position: str) -> StreamStatus:
    return await run_script(redis, trim_streams(STREAMS, caps, position, feedback_position))


async def test_interactions_go_when_every_group_has_finished_them(async_redis: Any) -> None:
    caps = Settings()
    for group in (LABEL_GROUP, RECORD_GROUP):
        await async_redis.xgroup_create(STREAMS.interactions, group, id="0", mkstream=True)
    added = await add(async_redis, STREAMS.interactions, 10)
    await trim(async_redis, caps, "0-0", "0-0")
    assert await ids(async_redis, STREAMS.interactions) == added
    labeled = await read(async_redis, LABEL_GROUP, 8)
    await finish(async_redis, *labeled)
    await trim(async_redis, caps, "0-0", "0-0")
    assert await ids(async_redis, STREAMS.interactions) == added, "the other group has read nothing"
    recorded = await read(async_redis, RECORD_GROUP, 6)
    await async_redis.xack(STREAMS.interactions, RECORD_GROUP, *recorded[:3], *recorded[4:])
    seen = await trim(async_redis, caps, "0-0", "0-0")
    assert await ids(async_redis, STREAMS.interactions) == added[3:], "the fourth is still being recorded"
    assert seen.oldest_waiting_ms == int(added[8].partition("-")[0]), "what is labeled does not wait for a worker"
    await async_redis.xack(STREAMS.interactions, RECORD_GROUP, recorded[3])
    await trim(async_redis, caps, "0-0", "0-0")
    assert await ids(async_redis, STREAMS.interactions) == added[6:]


async def test_without_a_reader_nothing_goes(async_redis: Any) -> None:
    added = await add(async_redis, STREAMS.interactions, 5)
    seen = await trim(async_redis, Settings(), "0-0", "0-0")
    assert await ids(async_redis, STREAMS.interactions) == added
    assert seen.dropped == {}


async def test_what_is_recorded_before_there_is_a_worker_stays(async_redis: Any) -> None:
    await async_redis.xgroup_create(STREAMS.interactions, RECORD_GROUP, id="0", mkstream=True)
    added = await add(async_redis, STREAMS.interactions, 5)
    await async_redis.xgroup_setid(STREAMS.interactions, RECORD_GROUP, added[-1])
    await trim(async_redis, Settings(), "0-0", "0-0")
    assert await ids(async_redis, STREAMS.interactions) == added


async def test_alerts_stay_until_they_are_recorded_up_to_a_hard_cap(async_redis: Any) -> None:
    caps = Settings(alert_cap=4)
    await async_redis.xgroup_create(STREAMS.alerts, RECORD_GROUP, id="0", mkstream=True)
    added = await add(async_redis, STREAMS.alerts, 20)
    await trim(async_redis, caps, "0-0", "0-0")
    assert await ids(async_redis, STREAMS.alerts) == added, "none is recorded"
    await async_redis.xgroup_setid(STREAMS.alerts, RECORD_GROUP, added[9])
    await trim(async_redis, caps, "0-0", "0-0")
    assert await ids(async_redis, STREAMS.alerts) == added[10:]
    await async_redis.xgroup_setid(STREAMS.alerts, RECORD_GROUP, added[-1])
    seen = await trim(async_redis, caps, "0-0", "0-0")
    assert await ids(async_redis, STREAMS.alerts) == added[16:], "as many as without a recorder"
    assert seen.dropped == {}
    await add(async_redis, STREAMS.alerts, 50)
    seen = await trim(async_redis, caps, "0-0", "0-0")
    assert len(await ids(async_redis, STREAMS.alerts)) == 40
    assert seen.dropped == {"alerts": 10}


async def test_alerts_stay_until_every_group_has_finished_them(async_redis: Any) -> None:
    caps = Settings(alert_cap=4)
    added = await add(async_redis, STREAMS.alerts, 20)
    for group in ("pager", "chat"):
        await async_redis.xgroup_create(STREAMS.alerts, group, id="0")
    await async_redis.xgroup_setid(STREAMS.alerts, "chat", added[-1])
    held = [entry for entry, _ in (await async_redis.xreadgroup("pager", "c", {STREAMS.alerts: ">"}, count=10))[0][1]]
    await async_redis.xack(STREAMS.alerts, "pager", *held[:3], *held[4:])
    for _ in range(2):
        await trim(async_redis, caps, "0-0", "0-0")
        assert await ids(async_redis, STREAMS.alerts) == added[3:], "the fourth is in the body of a subscriber"
    await async_redis.xack(STREAMS.alerts, "pager", held[3])
    await trim(async_redis, caps, "0-0", "0-0")
    assert await ids(async_redis, STREAMS.alerts) == added[10:]
    await async_redis.xgroup_destroy(STREAMS.alerts, "pager")
    await trim(async_redis, caps, "0-0", "0-0")
    assert await ids(async_redis, STREAMS.alerts) == added[16:]


async def test_alerts_finished_out_of_order_are_not_counted_as_dropped(async_redis: Any) -> None:
    caps = Settings(alert_cap=1)
    await async_redis.xgroup_create(STREAMS.alerts, "pager", id="0", mkstream=True)
    await add(async_redis, STREAMS.alerts, 13)
    taken = [entry for entry, _ in (await async_redis.xreadgroup("pager", "c", {STREAMS.alerts: ">"}))[0][1]]
    await async_redis.xack(STREAMS.alerts, "pager", *taken[1:3], taken[4])
    left = await add(async_redis, STREAMS.alerts, 1)
    for _ in range(2):
        seen = await trim(async_redis, caps, "0-0", "0-0")
        assert seen.dropped == {"alerts": 2}, "the first and the fourth; the fifth goes because it is finished"
        assert await ids(async_redis, STREAMS.alerts) == [*(one.decode() for one in taken[5:]), *left]


async def test_a_dropped_alert_that_was_taken_holds_no_other_alert(async_redis: Any) -> None:
    caps = Settings(alert_cap=1)
    await add(async_redis, STREAMS.alerts, 1)
    await async_redis.xgroup_create(STREAMS.alerts, "pager", id="0")
    await async_redis.xreadgroup("pager", "dead", {STREAMS.alerts: ">"}, count=1)
    await add(async_redis, STREAMS.alerts, 10)
    assert (await trim(async_redis, caps, "0-0", "0-0")).dropped == {"alerts": 1}
    finished = [entry for entry, _ in (await async_redis.xreadgroup("pager", "c", {STREAMS.alerts: ">"}))[0][1]]
    await async_redis.xack(STREAMS.alerts, "pager", *finished)
    seen = await trim(async_redis, caps, "0-0", "0-0")
    assert (await async_redis.xlen(STREAMS.alerts), seen.dropped) == (1, {"alerts": 1})


GROUP_STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("ab"), st.integers(1, 30)),
    st.tuples(st.just("toggle"), st.sampled_from("bc"), st.just(0)),
    st.tuples(st.just("read"), st.sampled_from("ab"), st.integers(1, 40)),
    st.tuples(st.just("finish"), st.sampled_from("ab"), st.integers(1, 40)),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(GROUP_STEPS, min_size=5, max_size=25))
async def test_an_unfinished_alert_goes_only_above_the_hard_cap_and_is_counted(
    async_redis: Any, steps: list[tuple[str, str, int]]
) -> None:
    """A model of groups agrees with the script, after every step, on the entries that stay and the dropped ones."""
    await async_redis.flushall()
    stream, caps = STREAMS.alerts, Settings(alert_cap=3)
    here: list[str] = []
    unread: dict[str, list[str]] = {}
    taken: dict[str, list[str]] = {}
    dropped = 0
    for kind, group, count in [("toggle", "a", 0), *steps]:
        if kind == "add":
            new = await add(async_redis, stream, count)
            here += new
            for entries in unread.values():
                entries.extend(new)
        elif kind == "toggle" and group in unread:
            await async_redis.xgroup_destroy(stream, group)
            del unread[group], taken[group]
        elif kind == "toggle":
            await async_redis.xgroup_create(stream, group, id="0", mkstream=True)
            unread[group], taken[group] = list(here), []
        elif kind == "read" and group in unread:
            await async_redis.xreadgroup(group, "c", {stream: ">"}, count=count)
            taken[group] += unread[group][:count]
            del unread[group][:count]
        elif kind == "finish" and taken.get(group):
            for _ in range(min(count, len(taken[group]))):
                # Not in order, as subscribers that share a group finish alerts.
                await async_redis.xack(stream, group, taken[group].pop(count % len(taken[group])))
        held = {entry for entries in (*unread.values(), *taken.values()) for entry in entries}
        while len(here) > 3 and (here[0] not in held or len(here) > 30):
            entry = here.pop(0)
            dropped += entry in held
            for entries in unread.values():
                entries[:] = [one for one in entries if one != entry]
        for _ in range(2):
            seen = await trim(async_redis, caps, "0-0", "0-0")
            assert await ids(async_redis, stream) == here
            assert seen.dropped.get("alerts", 0) == dropped


async def test_metric_events_go_behind_the_checkpoint_but_some_are_kept_for_feedback(async_redis: Any) -> None:
    caps = Settings(events_keep=250)
    added = await add(async_redis, STREAMS.metrics, 1000)
    await trim(async_redis, caps, "0-0", "0-0")
    assert await ids(async_redis, STREAMS.metrics) == added, "nothing was aggregated"
    await trim(async_redis, caps, added[499], "0-0")
    left = await ids(async_redis, STREAMS.metrics)
    # Redis drops whole nodes of a hundred entries.
    assert 400 <= len(added) - len(left) <= 500
    await trim(async_redis, caps, added[-1], "0-0")
    assert 250 <= len(await ids(async_redis, STREAMS.metrics)) < 350


async def test_metric_events_nobody_has_recorded_stay(async_redis: Any) -> None:
    added = await add(async_redis, STREAMS.metrics, 500)
    await async_redis.xgroup_create(STREAMS.metrics, RECORD_GROUP, id="0")
    await trim(async_redis, Settings(events_keep=0), added[-1], "0-0")
    assert await ids(async_redis, STREAMS.metrics) == added


async def test_feedback_goes_when_it_is_in_the_checkpoint(async_redis: Any) -> None:
    added = await add(async_redis, STREAMS.feedback, 10)
    await trim(async_redis, Settings(), "0-0", added[6])
    assert await ids(async_redis, STREAMS.feedback) == added[7:]


async def test_what_a_hard_cap_takes_is_counted(async_redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtide_aggregator.service.trimming.DEAD_LETTERS_CAP", 7)
    caps = Settings(interactions_cap=50, alert_cap=5)
    await async_redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0", mkstream=True)
    added = await add(async_redis, STREAMS.interactions, 80)
    labeled = await read(async_redis, LABEL_GROUP, 10)
    await finish(async_redis, *labeled)
    for stream in (STREAMS.alerts, STREAMS.dead_letters):
        await add(async_redis, stream, 10)
    seen = await trim(async_redis, caps, "0-0", "0-0")
    assert await ids(async_redis, STREAMS.interactions) == added[30:]
    assert seen.dropped == {"capped": 20, "dead_letters": 3}, "ten had been labeled"
    assert await async_redis.xlen(STREAMS.alerts) == 5
    assert (await trim(async_redis, caps, "0-0", "0-0")).dropped == seen.dropped


async def test_a_stream_above_its_cap_in_bytes_loses_its_oldest_entries_which_are_counted(async_redis: Any) -> None:
    caps = Settings(interactions_bytes=300_000, dead_letters_bytes=200_000)
    for stream in (STREAMS.interactions, STREAMS.dead_letters):
        for size in [10] * 30 + [50_000] * 10 + [10] * 30:
            await async_redis.xadd(stream, {"data": b"x" * size})
    added = {stream: await ids(async_redis, stream) for stream in (STREAMS.interactions, STREAMS.dead_letters)}
    seen = await trim(async_redis, caps, "0-0", "0-0")
    for stream, most in ((STREAMS.interactions, 300_000), (STREAMS.dead_letters, 200_000)):
        left = await ids(async_redis, stream)
        assert left == added[stream][-len(left) :], "the oldest go"
        assert most / 3 < await async_redis.memory_usage(stream, samples=0) <= most
    assert seen.dropped == {
        "capped": 70 - await async_redis.xlen(STREAMS.interactions),
        "dead_letters": 70 - await async_redis.xlen(STREAMS.dead_letters),
    }
    assert (await trim(async_redis, caps, "0-0", "0-0")).dropped == seen.dropped, "below the cap nothing goes"


async def test_one_entry_above_the_cap_in_bytes_stays(async_redis: Any) -> None:
    await async_redis.xadd(STREAMS.dead_letters, {"data": b"x" * 100_000})
    seen = await trim(async_redis, Settings(dead_letters_bytes=1), "0-0", "0-0")
    assert (await async_redis.xlen(STREAMS.dead_letters), seen.dropped) == (1, {})


async def test_answers_to_sentinels_do_not_end_the_silence_of_the_traffic(async_redis: Any) -> None:
    lease = Lease(async_redis, STREAMS, holder="test", lease_s=60, role="sentinels")
    token = (await lease.acquire()).token
    assert token is not None
    numbers = itertools.count()
    health, book = PipelineHealth(StallSettings(labeling_s=None, traffic_s=3600), 0), AlertBook()

    async def answer() -> None:
        call = record_sentinel(
            STREAMS, token, next(numbers), asked_ms=1, digest="d", memory=b"[]", event=event(0, {}).encode()
        )
        assert await run_script(async_redis, call) == "recorded"

    async def look() -> tuple[int | None, list[tuple[str, str]]]:
        seen = await trim(async_redis, Settings(), "0-0", "0-0")
        health.check(seen, book)
        return seen.last_scored_ms, [(alert.rule, alert.status) for alert in book.take_changes()[2]]

    await answer()
    assert await look() == (None, []), "there was never any traffic"
    ago_ms = int((await async_redis.time())[0] - 7200) * 1000
    await async_redis.delete(STREAMS.metrics, STREAMS.sentinels)
    numbers = itertools.count()
    await async_redis.xadd(STREAMS.metrics, {"data": "x"}, id=f"{ago_ms}-0")
    for _ in range(3):
        await answer()
    assert await look() == (ago_ms, [("stall-traffic", "firing")])
    await answer()
    assert await look() == (ago_ms, [])
    new = (await add(async_redis, STREAMS.metrics, 1))[0]
    await answer()
    assert await look() == (int(new.partition("-")[0]), [("stall-traffic", "resolved")])
