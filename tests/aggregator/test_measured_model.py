"""The slopes that a deployment measured for a version of a model are what its headline says the number would see."""

from typing import Any

from tests.aggregator.test_headlines import at
from tests.aggregator.test_history_reading import committed

from ragtide import Deployment
from ragtide_runtime.redis.measured_slopes import store_slopes
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Headline
from ragtide_schemas.slopes import UNSUPPORTED, Slope

METRIC = "trace.adherence"
WRONG = Slope("wrong answer", 0.7, 0.6, 0.8, 40)
BLIND = Slope(UNSUPPORTED, 0.02, -0.1, 0.1, 65)
SEEING = Slope(UNSUPPORTED, 0.5, 0.4, 0.6, 65)


async def test_a_headline_of_a_model_speaks_of_its_own_version(async_redis: Any) -> None:
    settings = Settings()
    events = [at(float(number % 5 > 0), 2, number, labeler="model", labeler_version="7") for number in range(300)]
    await committed(async_redis, events, settings)

    async def shown() -> Headline:
        (one,) = [one for one in await Deployment(async_redis, settings).headlines() if one.metric == METRIC]
        return one

    async def would_see() -> str:
        return (await shown()).would_see or ""

    unknown = await would_see()
    await store_slopes(async_redis, settings.prefix, "model", "6", {METRIC: (WRONG, SEEING)})
    assert await would_see() == unknown, "the slopes of another version say nothing"
    await store_slopes(async_redis, settings.prefix, "model", "7", {METRIC: (WRONG, BLIND)})
    blind = await would_see()
    assert blind != unknown
    assert UNSUPPORTED in blind
    await store_slopes(async_redis, settings.prefix, "model", "7", {METRIC: (WRONG, SEEING)})
    assert await would_see() not in (unknown, blind)
    assert (await shown()).steady_for is None, "a number that sees unsupported claims is steady without a limit"
