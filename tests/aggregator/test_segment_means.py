"""The means of a segment value are those of a full read, for a bounded number of values at the same time."""

from datetime import timedelta
from typing import Any

import pytest
from tests.aggregator.test_history_reading import HOUR, SETTINGS, committed, values
from tests.aggregator.test_overview import events
from tests.support.metric_events import START
from tests.support.owners import owners

from ragtide import Deployment
from ragtide_aggregator.errors import TooManySegmentsError
from ragtide_aggregator.estimates.means import MetricMean
from ragtide_aggregator.reading.overview import SEGMENTS_MAX, UNUSED_S, SegmentMeans
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import HistorySettings

HOUR_5 = START + timedelta(hours=5)
NAMES = ["lang=l3", 'lang=a*[b]?\\"', "lang=a", "lang=none"]


@pytest.mark.parametrize("split", [False, pytest.param(True, marks=pytest.mark.heavy)])
async def test_they_are_those_of_a_full_read_at_every_commit(async_redis: Any, split: bool) -> None:
    settings = Settings(partitions=2, splits={"shop": 2}) if split else Settings()
    deployment = Deployment(async_redis, settings)
    committing = owners(async_redis, settings)
    for step in range(3):
        for place, owner in enumerate(committing):
            await owner.commit(
                *events(60, 1000 * step + 500 * place),
                *events(5, 4000 + 10 * step + 500 * place, segments={"lang": 'a*[b]?\\"'}),
                *events(5, 5000 + 10 * step + 500 * place, run="r", segments={"lang": "l3"}),
            )
        full = [estimate for estimate in await deployment.estimates(windows=False) if estimate.estimator == "mean"]
        for name in NAMES:
            expected = [MetricMean.of(one) for one in full if one.segment == name and one.run is None]
            means = [mean for mean in await deployment.means(name) if not mean.is_powered]
            assert means == sorted(expected, key=lambda one: (one.key.pipeline, one.key.metric, one.key.labeler))
        assert len(await deployment.means(NAMES[0])) > 2
        assert await deployment.means("lang=a") == []


async def test_more_values_than_there_is_room_for_are_an_error_until_one_is_unused(async_redis: Any) -> None:
    now = [0.0]
    deployment = Deployment(async_redis, Settings())
    means = SegmentMeans(deployment._overview_of, clock=lambda: now[0])
    for number in range(SEGMENTS_MAX):
        assert await means.read(f"lang={number}") == []
    with pytest.raises(TooManySegmentsError, match="try again in a minute"):
        await means.read("lang=more")
    assert await means.read("lang=0") == []
    now[0] = UNUSED_S
    assert await means.read("lang=more") == []


@pytest.mark.parametrize("kept", ["2d", "1h"])
async def test_the_first_value_of_the_newest_version_is_known_to_a_pane(async_redis: Any, kept: str) -> None:
    """Where the fine pane is gone, the hour is not."""
    settings = SETTINGS.model_copy(update={"history": HistorySettings(segments=("version",), fine_for=kept)})
    old = values(300, 60, segments={"version": "1", "lang": "de"})
    new = values(100, 60, first_s=5 * HOUR + 1234, segments={"version": "2"})
    await committed(async_redis, [*old, *new], settings)
    first = START + timedelta(hours=5, minutes=20)
    assert await Deployment(async_redis, settings).deploys() == {"shop": ("2", first if kept == "2d" else HOUR_5)}
    without = SETTINGS.model_copy(update={"history": HistorySettings(segments=("lang",), fine_for=kept)})
    assert await Deployment(async_redis, without).deploys() == {}
