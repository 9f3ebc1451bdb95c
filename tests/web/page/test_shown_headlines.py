"""Headlines are read for all viewers together: always where reading is fast, and less often the longer it takes."""

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest
from tests.support.conditions import until
from tests.support.metric_events import adherence
from tests.support.owners import owners

from ragtide import Deployment
from ragtide_runtime.settings.model import Settings
from ragtide_web.reading import headlines as shown_headlines
from ragtide_web.reading.headlines import KEPT_S, ShownHeadlines


@dataclass
class Clock:
    """Each look at it takes a step."""

    step_s: float = 0.0
    now_s: float = 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


async def test_a_commit_is_shown_at_once_unless_reading_takes_long(async_redis: Any) -> None:
    (owner,) = owners(async_redis, Settings())
    clock, work = Clock(), Clock()
    shown = ShownHeadlines(Deployment(async_redis, Settings()), clock, work)

    async def n() -> int:
        return max(standing.number.mean.n for standing in await shown.read("all"))

    await owner.commit(*adherence([0.8] * 20))
    assert await n() == 20
    await owner.commit(*adherence([0.8], first=100))
    assert await n() == 21
    clock.step_s = KEPT_S
    assert await n() == 21
    await owner.commit(*adherence([0.8], first=200))
    assert await n() == 22, "the reading waited, on a busy machine, and did not work"
    work.step_s = KEPT_S
    assert await n() == 22
    await owner.commit(*adherence([0.8], first=300))
    clock.step_s = work.step_s = 0.0
    assert await n() == 22
    clock.now_s += KEPT_S
    assert await n() == 23, "no reading is used for longer than that"


class SlowDeployment:
    """Reads headlines only when it may."""

    def __init__(self) -> None:
        self.may_read = asyncio.Event()
        self.begun = self.ended = 0

    async def standings(self, *_: Any, **__: Any) -> Any:
        self.begun += 1
        await self.may_read.wait()
        self.ended += 1
        return [self.ended]


async def test_requests_share_a_reading_and_the_last_one_that_leaves_ends_it() -> None:
    deployment = SlowDeployment()
    shown: Any = ShownHeadlines(cast("Deployment", deployment))
    first, second = (asyncio.create_task(shown.read("all")) for _ in range(2))
    await until(lambda: deployment.begun)
    first.cancel()
    await asyncio.wait([first])
    deployment.may_read.set()
    assert (await second, deployment.begun) == ([1], 1)
    deployment.may_read.clear()
    shown = ShownHeadlines(cast("Deployment", deployment))
    alone = asyncio.create_task(shown.read("all"))
    await until(lambda: deployment.begun == 2)
    alone.cancel()
    await asyncio.wait([alone])
    await until(lambda: len(asyncio.all_tasks()) == 1)
    assert deployment.ended == 1


async def test_while_a_reading_takes_long_the_last_one_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_headlines, "WAIT_S", 0.0)
    deployment, clock = SlowDeployment(), Clock()
    deployment.may_read.set()
    shown: Any = ShownHeadlines(cast("Deployment", deployment), clock)
    assert await shown.read("all") == [1]
    deployment.may_read.clear()
    assert await shown.read("all") == [1], "a new reading has begun"
    await until(lambda: deployment.begun == 2)
    clock.now_s += shown_headlines.OLD_S
    late = asyncio.create_task(shown.read("all"))
    deployment.may_read.set()
    assert await late == [2], "the last one is too old"
