"""What a reader reads grows with the pipelines in view, and not with all pipelines of the deployment."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from tests.support.metric_events import START, adherence, event
from tests.support.owners import owners

from ragtide import Deployment
from ragtide_aggregator.reading.deployment import HistoryName
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Estimate

SETTINGS = Settings(windows=("1h",), history={"series_max": 5000})
VIEW = 5


async def published(redis: Any, pipelines: int) -> Deployment:
    """Return a reader of a deployment that has looked at it once."""
    (owner,) = owners(redis, SETTINGS)
    events = [
        value
        for number in range(pipelines)
        for value in adherence([0.4, 0.8], pipeline=f"p{number:04}", segments={"lang": "de"})
    ]
    await owner.commit(*events)
    deployment = Deployment(redis, SETTINGS)
    await deployment.headlines()
    for name in ("p0000", "p0002"):  # the names of the first are listed alone, then those of all
        await deployment.estimates(pipeline=name)
    return deployment


async def cost(redis: Any, read: Callable[[], Awaitable[object]]) -> tuple[int, int]:
    """Return the commands, and the bytes of the replies, that a read takes."""
    before = await redis.info()
    await read()
    after = await redis.info()
    commands, sent = (after[name] - before[name] for name in ("total_commands_processed", "total_net_output_bytes"))
    return commands, sent


async def small_charts(deployment: Deployment) -> None:
    wanted = [HistoryName(f"p{number:04}", "trace.adherence", "test") for number in range(VIEW)]
    found = await deployment.histories(
        wanted, start=START - timedelta(hours=1), end=START + timedelta(hours=1), points_max=10, least_n=1
    )
    assert all(found[name] for name in wanted)


async def estimates(deployment: Deployment) -> None:
    assert await deployment.estimates(pipeline="p0001")


async def headlines(deployment: Deployment) -> None:
    assert await deployment.headlines(pipeline="p0001")


@pytest.mark.parametrize("read", [small_charts, estimates, headlines])
async def test_a_read_of_some_pipelines_costs_the_same_however_many_there_are(
    async_redis: Any, read: Callable[[Deployment], Awaitable[None]]
) -> None:
    costs = []
    for pipelines in (20, 200):
        await async_redis.flushdb()
        deployment = await published(async_redis, pipelines)
        costs.append(await cost(async_redis, partial(read, deployment)))
    (few, few_bytes), (many, many_bytes) = costs
    assert many == few
    assert many_bytes < few_bytes + 5_000


async def test_the_first_read_of_one_pipeline_gets_no_names_of_others(async_redis: Any) -> None:
    sent = []
    for pipelines in (20, 200):
        await async_redis.flushdb()
        await published(async_redis, pipelines)
        reader = Deployment(async_redis, SETTINGS)
        sent.append((await cost(async_redis, partial(estimates, reader)))[1])
    assert sent[1] < sent[0] + 2_000


async def test_no_reader_of_a_screen_walks_through_the_checkpoint(async_redis: Any) -> None:
    (owner,) = owners(async_redis, SETTINGS)
    await owner.commit(*(value for n in range(30) for value in adherence([0.5] * 3, pipeline=f"p{n:04}")))

    async def walks() -> int:
        found = (await async_redis.info("commandstats")).get("cmdstat_hscan", {})
        return int(found.get("calls", 0))

    await async_redis.config_resetstat()
    deployment = Deployment(async_redis, SETTINGS)
    await deployment.headlines()
    await small_charts(deployment)
    await deployment.series()
    assert await walks() == 0


def rounded(found: list[Estimate]) -> list[Estimate]:
    """Return estimates whose recent mean is rounded: merging the parts of a split pipeline changes its last bit."""
    return [
        estimate.model_copy(update={"recent": None if estimate.recent is None else round(estimate.recent, 12)})
        for estimate in found
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {"windows": ("10s", "1h")},
        {"windows": (), "clusters": {"by": "session_id", "quiet_s": 30}},
        {"windows": ("1m",), "partitions": 2, "splits": {"shop": 2}},
        {"windows": ("1m",), "partitions": 3, "history": {"enabled": False}},
    ],
    ids=["windows", "sessions", "split", "partitions"],
)
async def test_a_pipeline_read_alone_has_the_numbers_of_a_full_read_at_every_commit(
    async_redis: Any, settings: dict[str, Any]
) -> None:
    given = Settings(**settings)
    deployment = Deployment(async_redis, given)
    committing = owners(async_redis, given)
    names = ["shop", 'a"b', "a[b]*", 'x",null,null,"y', '"]', "é", "estimate:"]
    for step in range(4):
        for name in names:
            for owner in committing:
                if owner.streams not in given.layout.all_of(name):
                    continue
                for number in range(3):
                    at = 40 * step + number
                    await owner.commit(
                        event(
                            at,
                            {"trace.adherence": 0.1 * number + 0.2 * step},
                            interaction_id=f"i-{at}",
                            pipeline=name,
                            segments={"lang": f"l{step % 2}"},
                            gold_scores={"trace.adherence": 0.5},
                            run="r" if number == 2 else None,
                            **({"cluster": f"c{step // 2}"} if "clusters" in settings else {}),
                        )
                    )
        everything = await Deployment(async_redis, given).estimates()
        for name in names:
            expected = [estimate for estimate in everything if estimate.pipeline == name]
            assert rounded(await deployment.estimates(pipeline=name)) == rounded(expected)
            if step == 3:  # the first pipeline that a reader reads is listed alone
                assert rounded(await Deployment(async_redis, given).estimates(pipeline=name)) == rounded(expected)
            assert expected
    assert await deployment.pipelines() == sorted(names)
    of_all = await deployment.headlines("all")
    for name in names:
        found = await deployment.headlines("all", pipeline=name)
        assert found == [headline for headline in of_all if headline.pipeline == name]
