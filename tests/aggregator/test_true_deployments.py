"""Intervals contain the truth of what their labels say, over seeded deployments: `tests/support/true_deployments.py`.

Every record that a screen, an endpoint, a gauge or a tool shows is checked once; that they show these records is
checked by the last test, and by `tests/web/test_one_truth.py`.
"""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse
from pydantic import TypeAdapter
from scipy.stats import binom
from tests.support.http_service import http_service
from tests.support.owners import owners
from tests.support.true_deployments import CRITERION, METRIC, PIPELINES, Drawn, drawn
from tests.web.page.test_alert import drift

from ragtide import Deployment, Estimate
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.estimates.choices import chosen
from ragtide_aggregator.estimates.ranges import HeadlineRange
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import HistorySettings
from ragtide_schemas import Headline, utc_now
from ragtide_schemas.details import FleetPipeline

SETTINGS = Settings(history=HistorySettings(segments=("lang", "version")))
RANGES = ("default", "6h", "24h", "all")


class Shown(NamedTuple):
    """An interval that a surface shows, and what its label says it is of."""

    surface: str
    pipeline: str
    metric: str
    labeler: str
    segment: str | None
    start: datetime | None
    end: datetime | None
    lower: float
    upper: float

    def misses(self, own: Drawn) -> bool:
        """Return whether the truth of the label is outside the interval."""
        truth = own.truth(self.metric, self.labeler, segment=self.segment, start=self.start, end=self.end)
        return not self.lower - 1e-9 <= truth <= self.upper + 1e-9


async def filled(redis: Any, seed: int, now: datetime, n: int) -> dict[str, Drawn]:
    """Aggregate a drawn deployment, and return it by pipeline."""
    found = {pipeline: drawn(seed, now=now, n=n, pipeline=pipeline) for pipeline in PIPELINES}
    (owner,) = owners(redis, SETTINGS)
    owner.state = AggregatorState(state_options(SETTINGS))
    *most, last = sorted((each for own in found.values() for each in own.events), key=lambda each: each.occurred_at)
    for each in most:
        owner.state.apply(each)
    await owner.commit(last)
    return found


def of_estimate(found: Estimate) -> Shown | None:
    """Return the interval of an estimate over all time."""
    if found.metric not in (METRIC, CRITERION) or found.lower is None or found.upper is None or not found.n:
        return None
    if found.labeler == "judge" and found.estimator == "mean":
        return None  # of the answers that it scored; it is asked more in one part than in another
    surface = f"{found.estimator} of {'a pipeline' if found.segment is None else 'a segment'}"
    fields = (found.pipeline, found.metric, found.labeler, found.segment)
    return Shown(surface, *fields, None, None, found.lower, found.upper)


def of_headline(found: Headline, surface: str) -> Shown | None:
    """Return the interval of a headline: of its labeler, its segment value and its range."""
    if found.lower is None or found.upper is None or not found.n:
        return None
    fields = (found.pipeline, found.metric, found.labeler, found.segment)
    return Shown(surface, *fields, found.start, found.end, found.lower, found.upper)


async def shown(redis: Any, worlds: dict[str, Drawn]) -> list[Shown]:
    """Return the intervals that a deployment shows."""
    deployment = Deployment(redis, SETTINGS)
    found = [of_estimate(each) for each in await deployment.estimates(windows=False)]
    for name in RANGES:
        found += [
            of_headline(each, f"{'headlines' if each.segment is None else 'segments'} of {name}")
            for each in await deployment.headlines(name, segments=True)
        ]
    for own in worlds.values():
        if own.change is None:
            continue
        fields = {"pipeline": own.pipeline, "labeler": "local", "labeler_version": "1", "segment": None}
        alert = drift("A-1", began_at=own.change, metric=METRIC, **fields)
        for start in (own.change, own.change + timedelta(minutes=47)):
            level = await deployment.level_since(alert, start)
            if level is not None:
                (point,) = level.points
                assert point.start >= start
                assert point.lower is not None
                assert point.upper is not None
                key = (own.pipeline, METRIC, "local", None)
                found.append(Shown("level of an alert", *key, point.start, None, point.lower, point.upper))
        for each in await deployment.headlines(HeadlineRange("since", own.change), pipeline=own.pipeline):
            assert each.start is None or each.start >= own.change
            found.append(of_headline(each, "headlines since a change"))
    return [each for each in found if each is not None]


Seen = tuple[Shown, Drawn]


def too_many(seen: list[Seen]) -> dict[str, Any]:
    """Return by surface the misses, where they are more than an error rate of 5% gives once in 1,000 times."""
    by_surface: defaultdict[str, list[Seen]] = defaultdict(list)
    for each, own in seen:
        by_surface[each.surface].append((each, own))
    wrong = {}
    for surface, of_surface in by_surface.items():
        missed = [each for each, own in of_surface if each.misses(own)]
        if len(missed) > binom.ppf(0.999, len(of_surface), 1 - SETTINGS.confidence):
            wrong[surface] = (len(missed), len(of_surface), missed[:5])
    return wrong


async def seen_in(redis: Any, seeds: range, n: int) -> list[Seen]:
    found: list[Seen] = []
    for seed in seeds:
        await redis.flushdb()
        worlds = await filled(redis, seed, utc_now().replace(microsecond=0), n)
        found += [(each, worlds[each.pipeline]) for each in await shown(redis, worlds)]
    return found


@pytest.mark.parametrize(
    ("seeds", "n"),
    [
        (range(4), 400),
        *(pytest.param(range(begin, begin + 10), 1200, marks=pytest.mark.heavy) for begin in (4, 14, 24)),
    ],
    ids=lambda value: str(value).replace(" ", ""),
)
async def test_intervals_contain_the_truth_of_what_their_labels_say(async_redis: Any, seeds: range, n: int) -> None:
    seen = await seen_in(async_redis, seeds, n)
    assert {each.surface for each, _ in seen} == SURFACES
    assert too_many(seen) == {}
    # The same intervals miss the truths of other meanings: of the answers that the proxy scored, or from before.
    judged = [pair for pair in seen if pair[0][2:5] == (METRIC, "judge", None) and pair[1].world.dutch]
    english = too_many([(each, own.english) for each, own in judged])
    assert english.keys() >= {"prediction_powered of a pipeline", "headlines of all"}
    levels = [(each._replace(start=None), own.before) for each, own in seen if each.surface == "level of an alert"]
    assert too_many(levels)


SURFACES = {
    *(f"{estimator} of {part}" for estimator in ("mean", "weighted", "prediction_powered")
      for part in ("a pipeline", "a segment")),
    *(f"{kind} of {name}" for kind in ("headlines", "segments") for name in RANGES),
    "headlines since a change", "level of an alert",
}  # fmt: skip


async def test_every_surface_shows_these_records(async_redis: Any, redis_url: str) -> None:
    await filled(async_redis, 2, utc_now().replace(microsecond=0), 400)
    deployment = Deployment(async_redis, SETTINGS)
    whole = {(each.pipeline, each.metric): each for each in await deployment.headlines()}
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, listed = await service.get("/v1/estimates?estimator=all")
        own = [each for each in await deployment.estimates(windows=False) if each.metric in (METRIC, CRITERION)]
        found = TypeAdapter(list[Estimate]).validate_python(listed)
        over_http = [each for each in found if each.metric in (METRIC, CRITERION)]
        assert over_http == chosen(own, estimator="all")
        _, rows = await service.get("/v1/fleet")
        fleet = [each for row in rows for each in FleetPipeline.model_validate(row).headlines]
        assert fleet
        assert {(each.pipeline, each.metric): each for each in fleet}.items() <= whole.items()
        assert METRIC in {each.metric for each in fleet}
        _, gauges = await service.get("/metrics")
    scraped = {
        (sample.name, sample.labels["pipeline"], sample.labels["metric"]): sample.value
        for family in parse(gauges.decode())
        for sample in family.samples
        if sample.name in ("ragtide_headline", "ragtide_headline_lower", "ragtide_headline_upper")
    }
    for (pipeline, metric), each in whole.items():
        for end, value in {"": each.estimate, "_lower": each.lower, "_upper": each.upper}.items():
            assert value is None or scraped[f"ragtide_headline{end}", pipeline, metric] == value
