"""Alert subscribers of a consumer group, on a real Redis: at least once, shared, position kept."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.alerts import alert
from tests.support.cases import for_each
from tests.support.conditions import until, wait_until
from tests.support.redis_processes import RedisProcess, cluster

from ragtide import AlertSubscriber, ConfigurationError, RedisUnavailable
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.layout import Layout, encode_layout, layout_key
from ragtide_runtime.settings.model import Settings

pytestmark = pytest.mark.processes

STREAM = Streams("ragtide", 0).alerts

TIMEOUT_S = 30.0


def add(redis: Any, *names: str, **fields: Any) -> None:
    for name in names:
        redis.xadd(STREAM, {"data": alert(name, **fields).encode()})


async def some(alerts: AsyncIterator[Any], count: int) -> list[str]:
    async with asyncio.timeout(TIMEOUT_S):
        return [(await anext(alerts)).alert_id for _ in range(count)]


async def received(url: str, count: int, **arguments: Any) -> list[str]:
    """Return the ids of so many alerts, all of which are finished."""
    async with AlertSubscriber(url, group="pager", **arguments) as alerts:
        return await some(aiter(alerts), count)


def pending(redis: Any) -> int:
    return int(redis.xpending(STREAM, "pager")["pending"])


def delivered(redis: Any, group: str) -> bool:
    """Return whether the group has read the whole stream."""
    (found,) = [one for one in redis.xinfo_groups(STREAM) if one["name"] == group.encode()]
    return bool(found["last-delivered-id"] == redis.xinfo_stream(STREAM)["last-generated-id"])


async def test_a_group_goes_on_where_it_stopped(redis: Any, redis_url: str) -> None:
    add(redis, "before")
    async with AlertSubscriber(redis_url, group="pager") as alerts:
        add(redis, "a", "b")
        assert await some(aiter(alerts), 1) == ["a"]
    add(redis, "c")
    assert await received(redis_url, 2) == ["b", "c"]
    assert await received(redis_url, 0, from_start=True) == []
    add(redis, "d")
    assert await received(redis_url, 1, from_start=True) == ["d"], "an existing group keeps its position"
    assert pending(redis) == 0
    assert redis.xinfo_consumers(STREAM, "pager") == [], "nobody is left in the group"


async def test_a_subscriber_with_other_partitions_than_the_deployment_is_refused(redis: Any, redis_url: str) -> None:
    redis.set(layout_key("ragtide"), encode_layout(Layout("ragtide", 4)))
    with pytest.raises(ConfigurationError, match="this deployment has 4 partitions"):
        await received(redis_url, 1)


async def test_a_new_group_may_begin_with_the_first_alert_of_the_stream(redis: Any, redis_url: str) -> None:
    add(redis, "a", "b")
    assert await received(redis_url, 2, from_start=True) == ["a", "b"]


async def test_a_new_group_misses_no_alert_between_its_creation_and_its_first_read(redis: Any, redis_url: str) -> None:
    async with AlertSubscriber(redis_url, group="pager"):
        pass
    add(redis, "a")
    assert await received(redis_url, 1) == ["a"]


async def test_an_alert_is_acknowledged_after_the_body(redis: Any, redis_url: str) -> None:
    async with AlertSubscriber(redis_url, group="pager") as subscriber:
        add(redis, "a", "b")
        alerts = aiter(subscriber)
        assert await some(alerts, 1) == ["a"]
        assert pending(redis) == 1, "the body of a runs"
        assert await some(alerts, 1) == ["b"]
        assert [redis.xlen(STREAM), pending(redis)] == [2, 1], "the body of b runs"


async def test_an_alert_whose_body_raised_comes_again_at_once(redis: Any, redis_url: str) -> None:
    add(redis, "a", "b")
    for _ in range(2):
        with suppress(LookupError):
            async with AlertSubscriber(redis_url, group="pager", from_start=True) as alerts:
                async for _ in alerts:
                    raise LookupError
        assert pending(redis) == 1
    # An idle time of an hour shows that the alert was released.
    assert await received(redis_url, 2, claim_idle_s=3600) == ["a", "b"]


async def test_a_new_loop_begins_with_the_alert_that_the_loop_before_did_not_finish(redis: Any, redis_url: str) -> None:
    add(redis, "a", "b")
    async with AlertSubscriber(redis_url, group="pager", from_start=True) as subscriber:
        with suppress(ZeroDivisionError):
            async for _ in subscriber:
                raise ZeroDivisionError
        assert await some(aiter(subscriber), 2) == ["a", "b"]


async def test_subscribers_of_a_group_share_its_alerts_and_other_groups_get_all(redis: Any, redis_url: str) -> None:
    names = [f"a{number}" for number in range(40)]
    got: list[tuple[int, str]] = []

    async def work(number: int) -> None:
        async with AlertSubscriber(redis_url, group="pager") as alerts:
            async for one in alerts:
                got.append((number, one.alert_id))
                await asyncio.sleep(0)

    workers = [asyncio.create_task(work(number)) for number in range(2)]
    await until(lambda: redis.exists(STREAM) and len(redis.xinfo_consumers(STREAM, "pager")) == 2)
    async with AlertSubscriber(redis_url, group="chat") as chat:
        add(redis, *names)
        await until(lambda: len(got) == len(names))
        assert await some(aiter(chat), len(names)) == names
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    assert sorted(name for _, name in got) == sorted(names)
    assert {number for number, _ in got} == {0, 1}


async def test_the_claim_of_a_long_body_is_renewed(redis: Any, redis_url: str) -> None:
    add(redis, "a")
    async with AlertSubscriber(redis_url, group="pager", from_start=True, claim_idle_s=0.3) as slow:
        assert await some(aiter(slow), 1) == ["a"]
        idle = [0]

        def renewed() -> bool:
            (found,) = redis.xpending_range(STREAM, "pager", "-", "+", 1)
            idle.append(found["time_since_delivered"])
            return sum(later < earlier for earlier, later in pairwise(idle)) >= 3

        await until(renewed)


PROGRAM = """
import sys, time
from ragtide import AlertSubscriber
with AlertSubscriber(sys.argv[1], group="pager", from_start=True, claim_idle_s=1) as alerts:
    for one in alerts:
        print(one.alert_id, flush=True)
        if one.alert_id == sys.argv[2]:
            time.sleep(600)
"""


def killed_in_the_body_of_b(url: str) -> None:
    command = [sys.executable, "-c", PROGRAM, url, "b"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(2)] == ["a", "b"]
        process.send_signal(signal.SIGKILL)


async def test_an_alert_whose_process_was_killed_in_the_body_goes_to_another(redis: Any, redis_url: str) -> None:
    add(redis, "a", "b", "c")
    await asyncio.to_thread(killed_in_the_body_of_b, redis_url)
    got = await received(redis_url, 2, claim_idle_s=1)
    assert sorted(got) == ["b", "c"]
    assert pending(redis) == 0


async def test_a_group_survives_a_restart_of_redis(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with RedisProcess(tmp_path / "redis", "appendonly yes", "appendfsync always") as server:
        async with AlertSubscriber(server.url, group="pager") as subscriber:
            add(server.client, "a", "b")
            alerts = aiter(subscriber)
            assert await some(alerts, 1) == ["a"]
            await asyncio.to_thread(server.kill)
            waiting = asyncio.create_task(some(alerts, 3))
            await asyncio.to_thread(server.start)
            add(server.client, "c", "d")
            assert await waiting == ["b", "c", "d"]
        assert pending(server.client) == 0
    told = [record.getMessage() for record in caplog.records if record.name == "ragtide.alerts"]
    assert "can be used again" in told[-1]


async def test_a_group_that_redis_lost_is_created_again(redis: Any, redis_url: str) -> None:
    async with AlertSubscriber(redis_url, group="pager") as subscriber:
        add(redis, "a", "b")
        alerts = aiter(subscriber)
        assert await some(alerts, 1) == ["a"]
        redis.xgroup_destroy(STREAM, "pager")
        assert await some(alerts, 1) == ["b"], "not from the start, and not from the end"
        redis.flushall()
        waiting = asyncio.create_task(some(alerts, 1))
        await until(lambda: redis.exists(STREAM))
        add(redis, "c")
        assert await waiting == ["c"]


async def test_what_cannot_be_read_or_was_trimmed_is_acknowledged(
    redis: Any, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with AlertSubscriber(redis_url, group="pager"):
        redis.xadd(STREAM, {"data": "no JSON"})
        add(redis, "trimmed", "after")
    redis.xreadgroup("pager", "dead", {STREAM: ">"}, count=2)
    redis.xdel(STREAM, redis.xrange(STREAM)[1][0])
    async with AlertSubscriber(redis_url, group="pager", claim_idle_s=0.001) as subscriber:
        alerts = aiter(subscriber)
        assert await some(alerts, 1) == ["after"]
        add(redis, "last")
        assert await some(alerts, 1) == ["last"]
        assert subscriber.unreadable.count == 1
    assert pending(redis) == 0
    assert "1 alert cannot be read" in caplog.text


async def test_filters_choose_alerts_and_the_others_are_acknowledged(redis: Any, redis_url: str) -> None:
    add(redis, "a", pipeline="shop-de", rule="floor", severity="page")
    add(redis, "b", pipeline="shop-de", rule="floor", severity="info")
    add(redis, "c", pipeline="help", rule="floor", severity="page")
    add(redis, "d", pipeline="shop-fr", rule="drift-1", severity="ticket", status="resolved")
    add(redis, "e", pipeline="*", rule="stall", severity="ticket")
    for arguments, wanted in (
        ({"pipeline": "shop-*"}, ["a", "b", "d"]),
        ({"pipeline": ["shop-*", "[*]"], "severity": ["page", "ticket"]}, ["a", "d", "e"]),
        ({"rule": ["drift*", "stall"]}, ["d", "e"]),
        ({"status": "resolved"}, ["d"]),
    ):
        chosen: dict[str, Any] = arguments
        for group in (None, "-".join(chosen)):
            async with AlertSubscriber(redis_url, group=group, from_start=True, **chosen) as subscriber:
                assert await some(aiter(subscriber), len(wanted)) == wanted
    async with AlertSubscriber(redis_url, group="none", from_start=True, rule="none") as subscriber:
        reading = asyncio.create_task(some(aiter(subscriber), 1))
        await until(lambda: delivered(redis, "none") and not redis.xpending(STREAM, "none")["pending"])
        reading.cancel()


@for_each(
    "arguments, words",
    [
        ({"group": ""}, "1 to 100 printable"),
        ({"group": "a b"}, "without spaces"),
        ({"group": "record"}, "belongs to ragtide"),
        ({"group": "notify"}, "belongs to ragtide"),
        ({"severity": "loud"}, "severity is 'loud': give one of page, ticket, info"),
        ({"status": ["fired"]}, "status is 'fired'"),
        ({"pipeline": []}, "pipeline is \\[\\]"),
        ({"claim_idle_s": 0}, "claim_idle_s is 0"),
    ],
)
def test_a_wrong_argument_is_named_with_its_remedy(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        AlertSubscriber("redis://127.0.0.1:1/0", **arguments)


def test_blocking_code_uses_with_and_for(redis: Any, redis_url: str) -> None:
    add(redis, "a", "b", "c")
    got = []
    with AlertSubscriber(redis_url, group="pager", from_start=True) as alerts:
        for one in alerts:
            got.append(one.alert_id)
            if one.alert_id == "b":
                break
    with suppress(KeyError), AlertSubscriber(redis_url, group="pager") as alerts:
        for one in alerts:
            raise KeyError(one.alert_id)
    with AlertSubscriber(redis_url, group="pager") as alerts:
        got.append(next(iter(alerts)).alert_id)
    assert got == ["a", "b", "c"]
    assert pending(redis) == 0
    with AlertSubscriber(redis_url, from_start=True) as alerts:
        assert [one.alert_id for _, one in zip(range(3), alerts, strict=False)] == ["a", "b", "c"]
    assert not [thread for thread in threading.enumerate() if thread.name == "ragtide alerts"]


def test_a_subscriber_that_is_not_open_says_how_to_open_it(redis_url: str) -> None:
    with pytest.raises(RuntimeError, match="use `with`"):
        next(iter(AlertSubscriber(redis_url)))
    with pytest.raises(RedisUnavailable), AlertSubscriber("redis://127.0.0.1:1/0", group="pager"):
        pass


def test_ctrl_c_in_the_loop_gives_the_alert_back(redis: Any, redis_url: str) -> None:
    add(redis, "a")
    program = PROGRAM.replace("time.sleep(600)", "time.sleep(0)")
    with subprocess.Popen(
        [sys.executable, "-c", program, redis_url, "none"], stdout=subprocess.PIPE, text=True, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "a"
        wait_until(lambda: pending(redis) == 0)
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=TIMEOUT_S)[1]
    assert redis.xinfo_consumers(STREAM, "pager") == []


async def test_in_a_new_partition_a_group_begins_with_the_first_alert(redis: Any, redis_url: str) -> None:
    async with AlertSubscriber(redis_url, group="pager"):
        pass
    for partition in range(3):
        redis.xadd(Streams("ragtide", partition).alerts, {"data": alert(f"p{partition}").encode()})
    given = Settings(redis_url=redis_url, partitions=3)
    async with AlertSubscriber(settings=given, group="pager") as alerts:
        assert sorted(await some(aiter(alerts), 3)) == ["p0", "p1", "p2"]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(("add", "take", "die", "raise")), min_size=3, max_size=12))
async def test_every_alert_is_finished_once_and_none_before_its_body(redis_url: str, steps: list[str]) -> None:
    """Whatever fails in between: every alert is finished by a body, and only unfinished ones come again."""
    with connect(redis_url) as redis:
        redis.flushall()
        finished: Counter[str] = Counter()
        added = 0
        async with AlertSubscriber(redis_url, group="pager"):
            pass
        for step in [*steps, "add"]:
            if step == "add":
                add(redis, f"a{added}")
                added += 1
            elif step == "die":
                redis.xreadgroup("pager", f"dead-{len(finished)}", {STREAM: ">"}, count=1)
            elif len(finished) < added:
                with suppress(IndexError):
                    async with AlertSubscriber(redis_url, group="pager", claim_idle_s=0.001) as alerts:
                        (name,) = await some(aiter(alerts), 1)
                        assert name not in finished
                        finished[name] += step == "take" or [].pop()
        finished.update(await received(redis_url, added - len(finished), claim_idle_s=0.001))
        assert finished == Counter({f"a{number}": 1 for number in range(added)})


@pytest.mark.heavy
async def test_a_group_works_on_a_cluster(tmp_path: Path) -> None:
    with cluster(tmp_path, replicas=0) as nodes:
        given = Settings(redis_url=nodes.url, partitions=3)
        with connect(nodes.url) as redis:
            async with AlertSubscriber(settings=given, group="pager") as alerts:
                for partition in range(3):
                    redis.xadd(Streams("ragtide", partition).alerts, {"data": alert(f"p{partition}").encode()})
                assert sorted(await some(aiter(alerts), 3)) == ["p0", "p1", "p2"]
