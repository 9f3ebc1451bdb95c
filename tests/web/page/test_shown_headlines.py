"""Headlines are read for all viewers together: always where reading is fast, and less often the longer it takes."""

from dataclasses import dataclass
from typing import Any

from tests.support.metric_events import adherence
from tests.support.owners import owners

from ragtide import Deployment
from ragtide_runtime.settings.model import Settings
from ragtide_web.page.shown_headlines import KEPT_S, ShownHeadlines


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
    clock = Clock()
    shown = ShownHeadlines(Deployment(async_redis, Settings()), clock)

    async def n() -> int:
        return max(headline.n for headline in await shown.read("all"))

    await owner.commit(*adherence([0.8] * 20))
    assert await n() == 20
    await owner.commit(*adherence([0.8], first=100))
    assert await n() == 21
    clock.step_s = KEPT_S
    assert await n() == 21
    await owner.commit(*adherence([0.8], first=200))
    clock.step_s = 0.0
    assert await n() == 21
    clock.now_s += KEPT_S
    assert await n() == 22, "no reading is used for longer than that"
