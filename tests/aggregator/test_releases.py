"""A release opens by itself, is decided once, and ends with the traffic or after its longest time."""

import asyncio
import json
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from itertools import cycle, islice
from typing import Any

import numpy as np
import pytest
from tests.aggregator.test_not_aggregatable import STREAMS, caught_up, publish
from tests.support.aggregator_settings import aggregator_settings
from tests.support.conditions import until
from tests.support.metric_events import START, event

from ragtide import Alert
from ragtide_aggregator.alerts.served_versions import MOST_VERSIONS, ServedVersions
from ragtide_aggregator.alerts.watched_release import ReleaseOptions, WatchedRelease
from ragtide_aggregator.checkpoint.options import release_options
from ragtide_aggregator.errors import DamagedFieldError
from ragtide_aggregator.estimates.headline import firing_alerts
from ragtide_aggregator.maintenance.repair import repair
from ragtide_aggregator.maintenance.repartitioned_fields import pipeline_of
from ragtide_aggregator.reading.releases import read_releases
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.state.releases import ENDED_KEPT, MOST_OPEN, firing_alerts_of
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.redis.keys import DATA_FIELD, CheckpointField
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent
from ragtide_schemas.release import RELEASE_RULE, WORSE_RULE

HOUR = 3600
OPTIONS = StateOptions(releases=ReleaseOptions())
SESSIONS = StateOptions(releases=ReleaseOptions(), clusters=ClusterSettings(size=4, quiet_s=600))


class Pipeline:
    """A pipeline whose answers go to a state; every look may be that of a process that takes over."""

    def __init__(self, options: StateOptions = OPTIONS) -> None:
        self.options, self.state = options, AggregatorState(options)
        self.fields: dict[str, bytes] = {}
        self.alerts: list[Alert] = []
        self.number = 0
        self.second = 0.0
        self.rng = np.random.default_rng(5)

    def serve(
        self, versions: Iterable[str | None], *, every: float = 10, means: dict[str, float] | None = None, **more: Any
    ) -> None:
        for version in versions:
            self.number += 1
            self.second += every
            segments = {} if version is None else {"version": version}
            mean = (means or {}).get(version or "", 0.9)
            at = START + timedelta(seconds=self.second)
            fields: dict[str, Any] = {"segments": segments, "occurred_at": at, "labeled_at": at, **more}
            if callable(fields.get("session_id")):
                fields["session_id"] = fields["session_id"](self.number)
            scores = {"trace.adherence": float(self.rng.random() < mean)}
            self.state.apply(event(self.number, scores, latency_s=0.1, **fields))

    def commit(self, *, anew: bool = True) -> list[Alert]:
        changes = self.state.take_changes()
        for name in changes.gone:
            self.fields.pop(name, None)
        self.fields |= changes.rows
        self.alerts += changes.alerts
        if anew:
            self.state = AggregatorState.from_fields(self.options, self.fields)
        return list(changes.alerts)

    @property
    def releases(self) -> list[WatchedRelease]:
        named = (name for name in self.fields if name.startswith(CheckpointField.RELEASE))
        whole = [name for name in named if len(json.loads(name.removeprefix(CheckpointField.RELEASE))) > 1]
        loaded = [WatchedRelease.from_bytes(self.fields[name], ReleaseOptions()) for name in whole]
        return sorted(loaded, key=lambda release: release.opened_ms)

    def events(self) -> list[tuple[str, str]]:
        return [(alert.event or "", f"{alert.release.from_version} {alert.release.to_version}")
                for alert in self.alerts if alert.release is not None]  # fmt: skip


def canary(share: float, n: int, old: str = "v1", new: str = "v2") -> list[str]:
    """Return the versions of answers, a share of which is of the new version, evenly."""
    return [new if int((i + 1) * share) > int(i * share) else old for i in range(n)]


@pytest.mark.parametrize("anew", [False, True])
def test_a_release_opens_with_the_first_answer_of_a_second_version_and_ends_when_the_old_one_is_gone(
    anew: bool,
) -> None:
    shop = Pipeline()
    shop.serve(["v1"] * 300)
    shop.commit(anew=anew)
    assert shop.releases == []
    shop.serve(canary(0.1, 400))
    shop.commit(anew=anew)
    (release,) = shop.releases
    assert (release.from_version, release.to_version, release.ended_ms) == ("v1", "v2", None)
    assert release.n == [351, 40]
    assert shop.events() == [("release.opened", "v1 v2")]
    (opened,) = shop.alerts
    assert (opened.severity, opened.kind, opened.is_news, opened.status) == ("info", "release", True, "firing")
    shop.serve(["v2"] * 300)
    shop.commit(anew=anew)
    assert shop.releases[0].end == "traffic"
    assert shop.events() == [("release.opened", "v1 v2"), ("release.ended", "v1 v2")]
    assert shop.alerts[0].alert_id == shop.alerts[1].alert_id
    assert shop.state.firing() == []


@pytest.mark.parametrize("anew", [False, True])
def test_a_worse_version_has_one_alert_with_both_numbers_that_ends_with_the_release(anew: bool) -> None:
    shop = Pipeline()
    shop.serve(["v1"] * 200)
    for _ in range(20):
        shop.serve(canary(0.2, 50), means={"v2": 0.4})
        shop.commit(anew=anew)
    worse = [alert for alert in shop.alerts if alert.rule == WORSE_RULE]
    assert [alert.status for alert in worse] == ["firing"]
    (alert,) = worse
    assert alert.release is not None
    assert alert.release.decided_by == alert.metric == "trace.adherence"
    assert (alert.severity, alert.event, alert.direction, alert.is_news) == ("page", "release.worse", "fall", False)
    assert {fired.rule for fired in shop.state.firing()} == {RELEASE_RULE, WORSE_RULE}
    # Only the worse version is a problem of a metric.
    assert firing_alerts(shop.state.firing()) == {("shop", None, "trace.adherence"): [alert]}
    # The old version comes back: the release ends, with both alerts.
    shop.serve(["v1"] * 400)
    shop.commit(anew=anew)
    assert sorted(shop.events()[2:]) == [("release.ended", "v1 v2")] * 2
    assert shop.releases[0].verdict == "worse"
    assert shop.state.firing() == []


def test_a_version_that_is_not_worse_resolves_the_alert_of_the_release_once_and_numbers_go_on() -> None:
    shop = Pipeline()
    shop.serve(["v1"] * 200)
    for _ in range(30):
        shop.serve(canary(0.5, 100))
        shop.commit()
    assert [name for name, _ in shop.events()] == ["release.opened", "release.not_worse"]
    (release,) = shop.releases
    assert release.ended_ms is None
    assert sum(release.n) > 2_900


def test_a_release_ends_after_its_longest_time_and_versions_that_alternate_for_days_open_no_other() -> None:
    shop = Pipeline()
    rng = np.random.default_rng(1)
    shop.serve(["a"] * 10)
    for _ in range(12):
        shop.serve(rng.choice(["a", "b"], 200), every=120)
        shop.commit()
    (release,) = shop.releases
    assert release.end == "time"
    assert release.ended_ms is not None
    assert release.ended_ms - release.opened_ms >= 24 * HOUR * 1000
    opened = [name for name, _ in shop.events()]
    assert opened.count("release.opened") == 1


def test_a_version_that_returns_is_compared_with_the_one_that_serves() -> None:
    shop = Pipeline()
    shop.serve(["v1"] * 200)
    shop.serve(canary(0.5, 40))
    shop.serve(["v2"] * 300)
    shop.serve(canary(0.5, 40, "v2", "v1"))
    shop.commit()
    assert [(release.from_version, release.to_version) for release in shop.releases] == [("v1", "v2"), ("v2", "v1")]


def test_a_third_version_is_compared_with_the_one_that_serves_most() -> None:
    shop = Pipeline()
    shop.serve(["v1"] * 200)
    shop.serve(canary(0.2, 200))
    shop.serve(islice(cycle(["v1", "v1", "v1", "v2", "v3"]), 500))
    shop.commit()
    assert [(release.from_version, release.to_version) for release in shop.releases] == [("v1", "v2"), ("v1", "v3")]
    assert all(min(release.n) >= 90 for release in shop.releases)


def test_a_version_for_each_request_opens_few_releases_and_nothing_grows() -> None:
    shop = Pipeline()
    sizes = []
    for start in range(0, 1_500, 500):
        shop.serve(f"build-{number}" for number in range(start, start + 500))
        shop.commit()
        releases = [data for name, data in shop.fields.items() if name.startswith(CheckpointField.RELEASE)]
        sizes.append(sum(map(len, releases)))
        assert sum(release.ended_ms is None for release in shop.releases) <= MOST_OPEN
        assert len(releases) <= 1 + MOST_OPEN + ENDED_KEPT
    assert len(json.loads(shop.fields[f'{CheckpointField.RELEASE}["shop"]'])[2]) <= MOST_VERSIONS
    assert sizes[-1] < 1.5 * sizes[0]
    assert len(shop.alerts) <= 20


def test_only_the_last_releases_that_ended_are_kept() -> None:
    shop = Pipeline()
    for number in range(14):
        shop.serve([f"v{number}"] * 250)
        shop.commit()
    assert sum(release.ended_ms is not None for release in shop.releases) == ENDED_KEPT


def test_a_late_answer_and_an_answer_without_a_version_open_nothing() -> None:
    shop = Pipeline()
    shop.serve(["v1"] * 50)
    shop.serve([None] * 50)
    late = START + timedelta(seconds=shop.second - HOUR)
    shop.serve(["v0"] * 5, every=0, occurred_at=late)
    shop.serve(["other"])
    shop.serve(["v2"], run="experiment")
    shop.commit()
    assert shop.releases == []


def test_a_pipeline_without_versions_has_no_fields() -> None:
    shop = Pipeline()
    shop.serve([None] * 50)
    shop.commit()
    assert not [name for name in shop.fields if name.startswith(CheckpointField.RELEASE)]


def test_a_checkpoint_of_an_older_release_opens_nothing_and_knows_which_version_serves() -> None:
    shop = Pipeline(StateOptions())
    shop.serve(["v1"] * 300)
    shop.serve(canary(0.1, 100))
    shop.commit()
    shop.options = OPTIONS
    shop.state = AggregatorState.from_fields(OPTIONS, shop.fields)
    shop.serve(canary(0.1, 100))
    assert shop.commit() == []
    shop.serve(canary(0.1, 100, new="v3"))
    shop.commit()
    assert [(release.from_version, release.to_version) for release in shop.releases] == [("v1", "v3")]


def test_releases_that_are_no_longer_watched_leave_no_field_and_no_alert() -> None:
    shop = Pipeline()
    shop.serve(["v1"] * 100)
    shop.serve(canary(0.5, 100))
    shop.commit()
    shop.options = StateOptions()
    shop.state = AggregatorState.from_fields(shop.options, shop.fields)
    assert [alert.status for alert in shop.commit()] == ["resolved"]
    assert not [
        name for name in shop.fields if name.startswith((CheckpointField.RELEASE, CheckpointField.FIRING_ALERT))
    ]


def test_sessions_count_when_they_close_and_sessions_across_versions_are_compared_within() -> None:
    own, across = Pipeline(SESSIONS), Pipeline(SESSIONS)
    for shop, alike in ((own, 1), (across, 0)):
        shop.serve(["v1"] * 100, session_id=lambda number: f"s{number // 4}")
        versions = islice(cycle(["v1"] * 4 + ["v2"] * 4) if alike else cycle(["v1", "v2"]), 800)
        shop.serve(versions, means={"v2": 0.2}, session_id=lambda number: f"s{(number - 101) // 4 + 1000}")
        shop.commit()
        (release,) = shop.releases
        record = release.record()
        assert record.verdict == "worse"
        (metric,) = record.metrics
        # Each session is one value, unless both versions answered in it.
        assert metric.after is not None
        assert 80 <= metric.after.n <= 200
        assert metric.n_compared[1] <= (100 if alike else 400)


def test_a_session_that_closes_after_the_opening_and_ended_before_it_is_not_compared() -> None:
    shop = Pipeline(SESSIONS)
    shop.serve(["v1"] * 3, session_id="before")
    shop.serve(["v1"], session_id="other", every=60)
    shop.serve(["v2"] * 2, every=60)
    shop.serve(["v2"] * 12, every=60)
    shop.commit()
    (release,) = shop.releases
    assert not release.record().metrics or release.record().metrics[0].before is None


def test_an_answer_of_several_labelers_counts_once() -> None:
    shop = Pipeline()
    beside = {"labeler": "judge", "labeler_version": "2", "profile": "ragbench", "scores": {"trace.adherence": 0.5}}
    shop.serve(["v1"] * 50, beside=[beside])
    shop.serve(canary(0.5, 100), beside=[beside])
    shop.commit()
    (release,) = shop.releases
    assert sum(release.n) in (99, 100)
    assert {(metric.labeler, metric.n_compared[1] > 0) for metric in release.record().metrics} == {
        ("test", True),
        ("judge", True),
    }


def test_answers_that_are_added_at_once_count_as_one_after_the_other() -> None:
    rng = np.random.default_rng(3)
    one, all_at_once = ServedVersions(), ServedVersions()
    names = {0: "a", 1: "b"}
    for known in (one, all_at_once):
        for number in range(10):
            known.add(names[number % 2], 1_000 * number)
    codes = rng.choice([-1, 0, 1], 1_500, p=[0.2, 0.5, 0.3])
    times_ms = 20_000 + 1_000 * np.arange(1_500) - rng.integers(0, 5_000, 1_500)
    for code, time_ms in zip(codes.tolist(), times_ms.tolist(), strict=True):
        one.add(names.get(code), time_ms)
    assert all_at_once.add_all(names, codes, times_ms)
    assert all_at_once.to_bytes() == one.to_bytes()
    assert not all_at_once.add_all({2: "c"}, np.array([2]), times_ms[-1:])
    assert all_at_once.to_bytes() == one.to_bytes()


# With Redis.

REDIS_SETTINGS = Settings(windows=("1m",))


def traffic() -> list[MetricEvent]:
    rng = np.random.default_rng(2)
    versions = ["v1"] * 200 + canary(0.2, 1_000) + ["v2"] * 400
    means = {"v1": 0.9, "v2": 0.3}
    return [
        event(2 * number, {"trace.adherence": float(rng.random() < means[version])}, latency_s=0.1,
              segments={"version": version})
        for number, version in enumerate(versions)
    ]  # fmt: skip


async def all_alerts(redis: Any) -> list[Alert]:
    return [Alert.decode(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.alerts)]


async def served(redis: Any, events: list[MetricEvent], *, kills: int = 0) -> None:
    """Publish events, and run aggregators until the last one has all; those before it are killed after a commit."""
    settings, size = aggregator_settings(aggregator_batch=60, lease_s=5), len(events) // (kills + 1)
    for start in range(0, kills * size, size):
        before = int(await redis.hget(STREAMS.checkpoint, "steps") or 0)
        await publish(redis, events[start : start + size])
        owner = Aggregator(redis, settings, holder=f"killed-{start}", state=OPTIONS)
        task = asyncio.create_task(owner.run(asyncio.Event()))
        await until(partial(committed, redis, before + 1))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await redis.delete(STREAMS.lease)
    await publish(redis, events[kills * size :])
    stop = asyncio.Event()
    task = asyncio.create_task(Aggregator(redis, settings, holder="next", state=OPTIONS).run(stop))
    await until(lambda: caught_up(redis, task))
    stop.set()
    await task


async def committed(redis: Any, steps: int) -> bool:
    return int(await redis.hget(STREAMS.checkpoint, "steps") or 0) >= steps


async def test_each_alert_is_written_once_although_an_owner_is_killed(async_redis: Any) -> None:
    events = traffic()
    await served(async_redis, events, kills=7)
    alerts = [(alert.rule, alert.status) for alert in await all_alerts(async_redis) if alert.release is not None]
    assert alerts == [
        (RELEASE_RULE, "firing"), (WORSE_RULE, "firing"), (RELEASE_RULE, "resolved"), (WORSE_RULE, "resolved"),
    ]  # fmt: skip
    whole = AggregatorState(OPTIONS)
    for one in events:
        whole.apply(one)
    fields = {
        name: data for name, data in whole.take_changes().rows.items() if name.startswith(CheckpointField.RELEASE)
    }
    stored = await async_redis.hgetall(STREAMS.checkpoint)
    assert {name: stored[name.encode()] for name in fields} == fields
    (release,) = await read_releases(async_redis, REDIS_SETTINGS, "shop")
    assert (release.to_bytes(), release.end) == (next(data for name, data in fields.items() if "v2" in name), "traffic")
    assert [other.to_bytes() for other in await read_releases(async_redis, REDIS_SETTINGS)] == [release.to_bytes()]
    assert await read_releases(async_redis, REDIS_SETTINGS, "help") == []


async def test_a_damaged_release_is_named_and_a_repair_drops_it_with_its_alerts(async_redis: Any) -> None:
    await served(async_redis, traffic()[:900])
    stored = await async_redis.hgetall(STREAMS.checkpoint)
    field = next(name.decode() for name in stored if name.startswith(b"release:") and b"v2" in name)
    alerts = firing_alerts_of(field.removeprefix(CheckpointField.RELEASE))
    assert {name.encode() for name in alerts} <= stored.keys()
    assert {pipeline_of(name, b"") for name in (field, *alerts)} == {"shop"}
    await async_redis.hset(STREAMS.checkpoint, field, b"\xffgarbage!")
    with pytest.raises(DamagedFieldError, match="v2"):
        await read_releases(async_redis, REDIS_SETTINGS, "shop")
    await repair(async_redis, REDIS_SETTINGS, field)
    left = await async_redis.hgetall(STREAMS.checkpoint)
    assert not {name.encode() for name in (field, *alerts)} & left.keys()
    ends = [(alert.rule, alert.status) for alert in await all_alerts(async_redis)]
    assert ends[2:] == [(RELEASE_RULE, "resolved"), (WORSE_RULE, "resolved")]


async def test_of_a_split_pipeline_the_worst_verdict_counts_and_its_partitions_share_the_budget(
    async_redis: Any,
) -> None:
    settings = Settings(partitions=2, splits={"shop": 2})
    options = release_options(settings)
    assert options.alpha == settings.releases.alpha / 2
    for streams, mean in zip(settings.layout.all_of("shop"), (0.9, 0.2), strict=True):
        shop = Pipeline(StateOptions(releases=options))
        shop.serve(["v1"] * 100)
        shop.serve(canary(0.3, 400), means={"v2": mean})
        shop.commit()
        await async_redis.hset(streams.checkpoint, mapping=shop.fields)
    (release,) = await read_releases(async_redis, settings, "shop")
    assert release.verdict == "worse"


@pytest.mark.parametrize("size", [1_000, 20_000])
async def test_reading_the_releases_of_a_pipeline_reads_few_fields_whatever_else_a_checkpoint_holds(
    async_redis: Any, size: int
) -> None:
    await served(async_redis, traffic()[:400])
    others = {f'release:["p{number}","a","b",1]': b"x" * 1_000 for number in range(size)}
    await async_redis.hset(STREAMS.checkpoint, mapping=others)
    before = (await async_redis.info())["total_net_output_bytes"]
    assert len(await read_releases(async_redis, REDIS_SETTINGS, "shop")) == 1
    assert (await async_redis.info())["total_net_output_bytes"] - before < 200_000
