"""The overview, which is read several times a second, has the numbers that a full read has."""

from typing import Any

import pytest
from tests.support.metric_events import beta, event
from tests.support.owners import owners

from ragtide import Deployment, MetricEvent
from ragtide_aggregator.errors import CheckpointError
from ragtide_aggregator.estimates.means import MetricMean
from ragtide_aggregator.reading import field_names
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Estimate

SETTINGS = Settings()


def events(count: int, first: int = 0, **changes: Any) -> list[MetricEvent]:
    found = []
    for number, value in enumerate(beta(0.8, count, first), start=first):
        scores = {"trace.adherence": float(value), "trace.context_relevance": float(value) / 2}
        given = {"segments": {"lang": f"l{number % 7}"}, "gold_scores": {"trace.adherence": 1.0}, **changes}
        found.append(event(number, scores, interaction_id=f"i-{first}-{number}", **given))
    return found


def of_whole_pipelines(found: list[Estimate]) -> list[Estimate]:
    """Return the estimates that the overview has, without the numbers that it leaves out."""
    return [
        estimate.model_copy(update={"quantiles": None, "design_effect": None, "n_effective": None})
        for estimate in found
        if estimate.segment is None and estimate.run is None and estimate.estimator == "mean"
    ]


async def assert_equal(deployment: Deployment) -> list[Estimate]:
    expected = of_whole_pipelines(await deployment.estimates(windows=False))
    found = [one for one in await deployment.overview() if one.estimator == "mean"]
    left_out = {"design_effect": None, "n_effective": None}
    assert [one.model_copy(update=left_out) for one in found] == expected
    means = await deployment.means()
    assert [mean for mean in means if not mean.is_powered] == sorted(
        (MetricMean.of(one) for one in expected), key=lambda one: (one.key.pipeline, one.key.metric, one.key.labeler)
    )
    return expected


@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"partitions": 3}, marks=pytest.mark.heavy),
        {"partitions": 2, "splits": {"shop": 2}},
        pytest.param({"clusters": {"by": "none"}}, marks=pytest.mark.heavy),
        {"clusters": {"by": "session_id", "quiet_s": 30}},
    ],
    ids=["default", "partitions", "split", "no clusters", "sessions"],
)
async def test_it_equals_a_full_read_at_every_commit(async_redis: Any, settings: dict[str, Any]) -> None:
    given = Settings(**settings)
    deployment = Deployment(async_redis, given)
    assert await deployment.overview() == []
    committing = owners(async_redis, given)
    for step in range(4):
        for place, owner in enumerate(committing):
            name = "shop" if settings.get("splits") else f"shop-{place}"
            changes = {"cluster": f"s{step // 2}-{place}"} if "clusters" in settings else {}
            await owner.commit(*events(60, 1000 * step + 100 * place, pipeline=name, **changes))
        if step == 2:
            await committing[0].commit(*events(5, 9000, pipeline="new"), *events(5, 9100, pipeline="new", run="r"))
        found = await assert_equal(deployment)
        assert found
    assert {one.metric for one in found} >= {"trace.adherence", "rmse.trace.adherence"}


async def test_keys_that_are_gone_and_a_checkpoint_that_went_back(async_redis: Any) -> None:
    (owner,) = owners(async_redis, SETTINGS)
    deployment = Deployment(async_redis, SETTINGS)
    key = owner.streams.checkpoint
    await owner.commit(*events(20, pipeline="bank"))
    before = await async_redis.hgetall(key)
    await owner.commit(*events(20, 100), *events(20, 200, pipeline="bank"))
    assert {estimate.pipeline for estimate in await assert_equal(deployment)} == {"shop", "bank"}
    # Redis loses its last seconds.
    await async_redis.delete(key)
    await async_redis.hset(key, mapping=before)
    assert {
        (estimate.pipeline, estimate.n)
        for estimate in await assert_equal(deployment)
        if estimate.metric == "trace.adherence"
    } == {("bank", 20)}


async def test_a_damaged_field_is_named_and_the_next_read_is_right_again(async_redis: Any) -> None:
    (owner,) = owners(async_redis, SETTINGS)
    deployment = Deployment(async_redis, SETTINGS)
    await owner.commit(*events(20))
    await assert_equal(deployment)
    key, fields = owner.streams.checkpoint, await async_redis.hgetall(owner.streams.checkpoint)
    name = next(name for name in fields if name.startswith(b'estimate:["shop",null,null,'))
    await async_redis.hset(key, mapping={name: b"?", CheckpointField.STEPS: b"7"})
    with pytest.raises(CheckpointError, match="is damaged in its field estimate:"):
        await deployment.overview()
    await async_redis.hset(key, mapping={name: fields[name], CheckpointField.STEPS: b"8"})
    await assert_equal(deployment)


async def test_it_reads_only_whole_pipelines_and_only_after_a_commit(async_redis: Any) -> None:
    (owner,) = owners(async_redis, SETTINGS)
    deployment = Deployment(async_redis, SETTINGS)
    await owner.commit(*events(50), *events(50, 100, run="r"))
    await deployment.overview()
    fields = deployment._overview._states._fields
    assert fields is not None
    part = fields._known[owner.streams]
    assert {name.partition(":")[2] for name in part.names if '"r"' in name or "lang=" in name} == set()
    first, means = await deployment.overview(), await deployment.means()
    assert await deployment.overview() is first
    assert await deployment.means() is means


async def test_a_new_pipeline_of_a_large_checkpoint_is_there_once_listing_may_take_time_again(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field_names, "FIELDS_AT_ONCE", 10)
    (owner,) = owners(async_redis, SETTINGS)
    deployment = Deployment(async_redis, SETTINGS)
    now = [100.0]

    def clock() -> float:
        now[0] += 0.25
        return now[0]

    deployment._names.clock = clock
    await owner.commit(*events(5))
    assert {mean.key.pipeline for mean in await deployment.means()} == {"shop"}
    await owner.commit(*events(5, 100), *events(5, 200, pipeline="bank"))
    assert {(mean.key.pipeline, mean.n) for mean in await deployment.means()} == {("shop", 10)}
    # Without another commit.
    now[0] += field_names.LISTING_PART * 0.25
    assert {(mean.key.pipeline, mean.n) for mean in await deployment.means()} == {("shop", 10), ("bank", 5)}


async def test_a_field_that_is_gone_takes_its_numbers_at_once(async_redis: Any) -> None:
    (owner,) = owners(async_redis, SETTINGS)
    deployment = Deployment(async_redis, SETTINGS)
    await owner.commit(*events(5), *events(5, 100, pipeline="bank"))
    assert {mean.key.pipeline for mean in await deployment.means()} == {"shop", "bank"}
    key = owner.streams.checkpoint
    gone = [name for name in await async_redis.hkeys(key) if b'"bank"' in name]
    await async_redis.hdel(key, *gone)
    await owner.commit(*events(5, 200))
    assert {(mean.key.pipeline, mean.n) for mean in await deployment.means()} == {("shop", 10)}


async def test_names_of_pipelines_are_data(async_redis: Any) -> None:
    (owner,) = owners(async_redis, SETTINGS)
    deployment = Deployment(async_redis, SETTINGS)
    names = ['a"b', "a[b]*", 'a",null,null,"b', "\\", "é?", '"]', "estimate:"]
    for place, name in enumerate(names):
        await owner.commit(*events(3, 100 * place, pipeline=name))
    assert {estimate.pipeline for estimate in await assert_equal(deployment)} == set(names)
