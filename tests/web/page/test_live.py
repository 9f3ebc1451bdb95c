"""Open pages get the news as server-sent events: numbers that changed, sources to fetch again, and outages."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError
from tests.support.alerts import alert
from tests.support.http_service import Service, http_service
from tests.support.metric_events import adherence
from tests.support.owners import owners
from tests.support.redis_processes import RedisProcess

from ragtide import Deployment
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, CheckpointField, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_web.reading import live

STREAMS = Streams("ragtide", 0)


class Events:
    """The server-sent events of a connection."""

    def __init__(self, content: Any) -> None:
        self._content = content

    async def next(self, name: str) -> Any:
        """Return the data of the next event of a name; others are skipped."""
        found = ""
        async with asyncio.timeout(60):
            async for line in self._content:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    found = text.removeprefix("event: ")
                elif text.startswith("data: ") and found == name:
                    return json.loads(text.removeprefix("data: "))
        raise AssertionError(f"the connection ended before an event {name!r}")


@asynccontextmanager
async def following(service: Service, query: str, token: str | None = None) -> AsyncIterator[Events]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with service.session.get(f"{service.url}/live?{query}", headers=headers) as reply:
        assert reply.status == 200
        assert reply.content_type == "text/event-stream"
        yield Events(reply.content)


async def test_a_page_gets_everything_once_and_then_only_numbers_that_changed(async_redis: Any, redis_url: str) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([0.8, 0.6] * 10), *adherence([0.5] * 10, pipeline="bank", first=100))
    async with http_service(redis_url) as service, following(service, "view=fleet") as events:
        first = await events.next("patch")
        assert set(first) == {"row:shop", "shop\ntrace.adherence", "row:bank", "bank\ntrace.adherence"}
        assert first["row:shop"][1] == "20"
        await owner.commit(*adherence([0.1], first=200))
        second = await events.next("patch")
        assert set(second) == {"row:shop", "shop\ntrace.adherence"}
        assert second["row:shop"][1] == "21"
        async with following(service, "view=fleet") as other:
            assert set(await other.next("patch")) == set(first)
        # A new pipeline changes the places on the screen, so the page is fetched again.
        await owner.commit(*adherence([0.1], first=300, pipeline="new"))
        assert "shape" in await events.next("changed")


def test_numbers_leave_just_after_their_commit_while_commits_follow_each_other() -> None:
    rng = random.Random(5)
    now, sent_at, lags, looks = 0.0, -live.PAUSE_S, [], 0
    commits = [0.25 * number + rng.uniform(0.0, 0.02) for number in range(400)]
    waiting = 0
    while waiting < len(commits):
        looks += 1
        if commits[waiting] <= now and now - sent_at >= live.SOONEST_S:
            lags.append(now - commits[waiting])
            sent_at, waiting = now, waiting + 1
            now += rng.uniform(0.02, 0.1)  # reading and drawing
        now += live.look_pause_s(now - sent_at)
    assert max(lags) <= live.LOOK_S + 1e-9
    assert looks <= 5 * len(commits), "a look costs a round trip"


async def test_a_page_is_told_which_of_its_sources_changed(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service, following(service, "follow=alerts,orders,nonsense") as events:
        assert set(await events.next("changed")) <= {"alerts", "orders"}  # the first look
        await async_redis.xadd(STREAMS.dead_letters, {DATA_FIELD: b"{}"})
        await async_redis.xadd(STREAMS.alerts, {DATA_FIELD: alert("A-1").encode()})
        assert await events.next("changed") == ["alerts"]


async def test_numbers_of_other_pipelines_are_not_told(async_redis: Any, redis_url: str) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([0.8] * 10, pipeline="bank"), *adherence([0.5] * 10, first=100))
    tokens = [{"name": "shop", "token": "shop-0123456789", "access": ["read"], "pipelines": ["shop"]}, "all-0123456789"]
    async with http_service(redis_url, serve={"tokens": tokens}) as service:
        async with following(service, "view=fleet", "shop-0123456789") as events:
            assert all("bank" not in key for key in await events.next("patch"))
        async with following(service, "view=fleet", "all-0123456789") as events:
            assert any("bank" in key for key in await events.next("patch"))
        async with service.session.get(f"{service.url}/live", allow_redirects=False) as reply:
            assert reply.status == 303


async def test_an_outage_of_redis_is_told_and_its_end_too(tmp_path: Any) -> None:
    with RedisProcess(tmp_path) as server:
        async with http_service(server.url) as service, following(service, "follow=alerts") as events:
            await events.next("changed")
            server.kill()
            assert await events.next("status") == "away"
            server.start()
            assert await events.next("status") == "ok"
            assert await events.next("changed") == ["alerts"]
            async with connect_async(server.url) as redis:
                await redis.xadd(STREAMS.alerts, {DATA_FIELD: alert("A-1").encode()})
            assert await events.next("changed") == ["alerts"]


async def test_a_service_that_stops_lets_its_pages_go(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service, following(service, "follow=alerts") as events:
        await events.next("changed")
        service.stop.set()
        async with asyncio.timeout(60):
            await service.task


async def test_a_connection_ends_with_its_login(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CHECK_S", 0.05)
    tokens = [{"name": "ann", "token": "ann-0123456789", "access": ["read"]}]
    async with http_service(redis_url, serve={"tokens": tokens}) as service:
        same = {"Sec-Fetch-Site": "same-origin"}
        async with service.session.post(
            f"{service.url}/login", data={"token": "ann-0123456789"}, headers=same, allow_redirects=False
        ) as reply:
            assert reply.status == 303
        async with following(service, "follow=alerts") as events:
            await events.next("changed")
            async with service.session.post(f"{service.url}/logout", headers=same, allow_redirects=False) as reply:
                assert reply.status == 303
            with pytest.raises(AssertionError, match="the connection ended"):
                await events.next("never")


async def test_a_reading_that_takes_too_long_is_not_told_as_an_outage(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([0.8] * 10))
    reading = Deployment.standings
    late = True

    async def standings(*arguments: Any, **named: Any) -> Any:
        if late:
            raise RedisTimeoutError("Timeout reading from socket")
        return await reading(*arguments, **named)

    monkeypatch.setattr(Deployment, "standings", standings)
    async with http_service(redis_url) as service, following(service, "view=fleet&follow=alerts") as events:
        assert await events.next("status") == "slow"
        late = False
        assert await events.next("status") == "ok"


async def test_a_checkpoint_that_cannot_be_read_is_not_told_as_an_outage(async_redis: Any, redis_url: str) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([0.8] * 10))
    await async_redis.hset(owner.streams.checkpoint, CheckpointField.VERSION, b"0")
    async with http_service(redis_url) as service, following(service, "view=fleet") as events:
        assert await events.next("status") == "unreadable"
