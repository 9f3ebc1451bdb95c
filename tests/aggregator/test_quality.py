"""The estimates and firing alerts that an aggregator has in /metrics: those of the last commit, while it owns them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse
from redis import ConnectionError as RedisConnectionError
from structlog.testing import capture_logs
from tests.aggregator.test_service import EVENTS, SETTINGS, STREAMS, caught_up, publish
from tests.support.aggregator_settings import changed
from tests.support.conditions import until
from tests.support.metric_events import adherence, event
from tests.support.releases import release_alert

from ragtide import Alert
from ragtide_aggregator.checkpoint.commit import Committer
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.service.applying import EventApplier
from ragtide_aggregator.service.quality import KEYS_A_TURN, PAUSES, PartitionQuality, QualityExport
from ragtide_aggregator.service.telemetry import AggregatorTelemetry, QualityCollector
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_consumers.labelers.remote.spend import LimitReached, RedisSpend, Reservation
from ragtide_runtime.ownership.ownership import Ownership
from ragtide_runtime.settings.labelers import JudgeSettings, ServiceSettings
from ragtide_runtime.settings.telemetry import PrometheusSettings
from ragtide_runtime.telemetry.health import ProcessTelemetry

Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


def state_of(**segments: str) -> AggregatorState:
    state = AggregatorState(StateOptions(panes=Panes((window("1m"),), 0)))
    for one in adherence([0.2, 0.4, 0.9], segments=segments):
        state.apply(one)
    return state


def export(**options: Any) -> QualityExport:
    return QualityExport(3, PrometheusSettings(**options), confidence=0.95, now_s=0.0)


def computed(exported: QualityExport, state: AggregatorState, firing: Iterable[Alert]) -> PartitionQuality:
    """Return the samples after the last turn."""
    while (quality := exported.compute(state, firing)) is None:
        pass
    return quality


def scraped(quality: PartitionQuality, certain: Callable[[], bool] = lambda: True) -> Found:
    registry, collector = CollectorRegistry(), QualityCollector()
    registry.register(collector)
    collector.publish(3, quality, certain)
    return samples(registry)


def samples(registry: CollectorRegistry) -> Found:
    """Return every sample of quality by its name and its labels that are not empty."""
    text = generate_latest(registry).decode()
    found = [sample for family in parse(text) for sample in family.samples if sample.name.startswith(PREFIXES)]
    result = {(one.name, frozenset((k, v) for k, v in one.labels.items() if v)): one.value for one in found}
    assert len(result) == len(found), "Prometheus refuses two samples with the same labels"
    return result


PREFIXES = ("ragtide_estimate", "ragtide_alert_firing", "ragtide_quality")


def named(found: Found, name: str) -> list[dict[str, str]]:
    return [dict(labels) for one, labels in found if one == name]


def test_the_series_are_the_estimates_of_the_state() -> None:
    state = state_of(lang="de", user="u1")
    found = scraped(computed(export(segments=("lang",)), state, ()))
    expected: Found = {}
    for estimate in estimates(state):
        if estimate.segment == "user=u1":
            continue
        names = ("pipeline", "segment", "metric", "profile", "labeler", "labeler_version", "window", "estimator")
        labels = frozenset({(n, getattr(estimate, n)) for n in names if getattr(estimate, n)} | {("partition", "3")})
        assert estimate.updated_at is not None
        assert estimate.estimate is not None
        expected["ragtide_estimate", labels] = estimate.estimate
        expected["ragtide_estimate_n", labels] = estimate.n
        expected["ragtide_estimate_newest_timestamp_seconds", labels] = estimate.updated_at.timestamp()
        if estimate.lower is not None and estimate.upper is not None:
            expected |= {
                ("ragtide_estimate_lower", labels): estimate.lower,
                ("ragtide_estimate_upper", labels): estimate.upper,
            }
    assert {key: value for key, value in found.items() if "left_out" not in key[0]} == expected
    assert {one["window"] for one in named(found, "ragtide_estimate")} == {"all", "1m"}
    assert {one.get("segment") for one in named(found, "ragtide_estimate")} == {None, "lang=de"}


def test_windows_are_those_that_the_settings_name() -> None:
    for windows in (("all",), ("1m",), ("1m", "all")):
        found = scraped(computed(export(windows=windows), state_of(), ()))
        assert {one["window"] for one in named(found, "ragtide_estimate")} == set(windows)


def test_an_unknown_estimate_has_no_series_and_an_n_of_0() -> None:
    state = AggregatorState(StateOptions())
    state.apply(event(1, {}, absent={"trace.adherence": "judge_unusable"}))
    found = scraped(computed(export(), state, ()))
    numbers = {name: value for (name, labels), value in found.items() if ("metric", "trace.adherence") in labels}
    assert numbers.pop("ragtide_estimate_newest_timestamp_seconds") == event(1, {}).occurred_at.timestamp()
    assert numbers == {"ragtide_estimate_n": 0}


def test_runs_have_no_series() -> None:
    state = AggregatorState(StateOptions())
    for one in adherence([0.5], run="nightly"):
        state.apply(one)
    assert named(scraped(computed(export(), state, ())), "ragtide_estimate_n") == []


def test_whole_pipelines_come_first_and_what_a_cap_leaves_out_is_counted() -> None:
    state = AggregatorState(StateOptions())
    for number in range(4):
        for one in adherence([0.5], first=number, pipeline=f"p{number}", segments={"lang": "de"}):
            state.apply(one)
    wholes = [estimate for estimate in estimates(state) if estimate.segment is None]
    found = scraped(computed(export(segments=("lang",), cap=len(wholes) + 1), state, ()))
    shown = named(found, "ragtide_estimate")
    assert [one for one in shown if "segment" in one and one["pipeline"] != "p0"] == []
    assert len(shown) == len(wholes) + 1
    left_out = found["ragtide_quality_left_out", frozenset({("partition", "3"), ("what", "estimates")})]
    assert left_out == len(estimates(state)) - len(shown)


def alert(**changes: Any) -> Alert:
    fields: dict[str, Any] = {
        "alert_id": "a", "status": "firing", "rule": "stall-labeling", "kind": "stall", "pipeline": "*",
        "metric": "stall.waiting_s", "direction": "rise", "fired_at": EVENTS[0].occurred_at, "message": "m",
    }  # fmt: skip
    return Alert(**{**fields, **changes})


def test_firing_alerts_have_a_series_of_1_and_the_most_urgent_stay_below_the_cap() -> None:
    alerts = [
        alert(rule="info", severity="info"),
        alert(rule="page", severity="page", segment="lang=de"),
        alert(rule="whole", severity="page"),
        alert(rule="ticket"),
        alert(rule="ticket", alert_id="b"),
        alert(rule="offline", severity="page", run="nightly"),
        # An open release is no problem.
        release_alert("release.opened", severity="page"),
    ]
    quality = computed(export(cap=3), AggregatorState(StateOptions()), alerts)
    found = scraped(quality)
    shown = named(found, "ragtide_alert_firing")
    assert {one["rule"]: one["severity"] for one in shown} == {"whole": "page", "page": "page", "ticket": "ticket"}
    assert {value for (name, _), value in found.items() if name == "ragtide_alert_firing"} == {1.0}
    assert found["ragtide_quality_left_out", frozenset({("partition", "3"), ("what", "alerts")})] == 1
    assert scraped(quality, certain=lambda: False) == {}


@settings(max_examples=30)
@given(st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8))
def test_names_of_any_characters_make_labels_that_can_be_read_again(pipeline: str, segment: str) -> None:
    one = alert().model_copy(update={"pipeline": pipeline, "segment": f"lang={segment}"})
    quality = computed(export(), AggregatorState(StateOptions()), [one])
    registry, collector = CollectorRegistry(), QualityCollector()
    registry.register(collector)
    collector.publish(3, quality, lambda: True)
    text = generate_latest(registry).decode()
    (family,) = [one for one in parse(text) if one.name == "ragtide_alert_firing"]
    assert len(family.samples) == 1
    if pipeline.isprintable() and "\\" not in pipeline:
        assert family.samples[0].labels["pipeline"] == pipeline


def test_a_key_whose_estimates_fail_is_logged_once_and_the_others_have_series(monkeypatch: pytest.MonkeyPatch) -> None:
    state = AggregatorState(StateOptions())
    for number in range(3):
        state.apply(event(number, {"trace.adherence": 0.5}, pipeline=f"p{number}"))

    def failing(state: AggregatorState, *, keys: Any, **options: Any) -> Any:
        if any(key.pipeline == "p1" for key in keys):
            raise ValueError("year 0 is out of range")
        return estimates(state, keys=keys, **options)

    monkeypatch.setattr("ragtide_aggregator.service.quality.estimates", failing)
    exported = export()
    for expected in ({"p1"}, set[str]()):
        with capture_logs() as logs:
            found = scraped(computed(exported, state, ()))
        assert {one["pipeline"] for one in named(found, "ragtide_estimate")} == {"p0", "p2"}
        assert {EstimateKey.decode(line["key"]).pipeline for line in logs} == expected


def test_samples_are_computed_after_a_commit_at_intervals_that_grow_with_their_cost() -> None:
    exported = export(interval_s=10.0)
    assert exported.is_due(0.0)
    state = AggregatorState(StateOptions())
    computed(exported, state, ())
    exported.turned(0.0, took_s=0.1)
    assert not exported.is_due(1_000.0)
    exported.changed()
    assert not exported.is_due(9.9)
    assert exported.is_due(10.0)
    computed(exported, state, ())
    exported.turned(10.0, took_s=3.0)
    exported.changed()
    assert not exported.is_due(10.0 + 3 * PAUSES - 0.1)
    assert exported.is_due(10.0 + 3 * PAUSES)


def test_many_keys_have_turns_between_which_events_and_commits_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn has few keys, and each keeps its scope together, so its family and its labelers are seen as a whole."""
    state = AggregatorState(StateOptions())
    for number in range(30):
        state.apply(event(number, {"trace.adherence": 0.5, "trace.utilization": 0.2}, pipeline=f"p{number}"))
    turns: list[list[EstimateKey]] = []

    def counting(state: AggregatorState, *, keys: Any, **options: Any) -> Any:
        turns.append(list(keys))
        return estimates(state, keys=keys, **options)

    monkeypatch.setattr("ragtide_aggregator.service.quality.estimates", counting)
    exported = export(interval_s=10.0)
    assert exported.compute(state, ()) is None
    exported.turned(1.0, took_s=1.0)
    exported.changed()
    assert exported.is_due(1.0)
    state.apply(event(99, {"trace.adherence": 0.5}, pipeline="new"))
    found = scraped(computed(exported, state, ()))
    exported.turned(2.0, took_s=1.0)
    assert {one["pipeline"] for one in named(found, "ragtide_estimate")} == {f"p{number}" for number in range(30)}
    assert len(turns) > 1
    assert all(len(keys) <= KEYS_A_TURN for keys in turns)
    assert sum(len({key.pipeline for key in keys}) for keys in turns) == 30
    assert not exported.is_due(2.0 + 2 * PAUSES - 0.1), "the pause is measured by all turns"
    assert exported.is_due(2.0 + 2 * PAUSES), "the new pipeline has its turn next time"


SCRAPED = changed(
    SETTINGS,
    http_port=0,
    prometheus=PrometheusSettings(interval_s=0.02),
    services={"nli": ServiceSettings(url="http://nli:8080")},
)


class ScrapedAggregator:
    """One aggregator with metrics of its own, as in a process of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.telemetry = AggregatorTelemetry(1, ProcessTelemetry(registry=self.registry))

    def n(self) -> float | None:
        """Return the number of values of adherence in the series; None without a series."""
        values = [
            value
            for (name, labels), value in samples(self.registry).items()
            if name == "ragtide_estimate_n" and ("metric", "trace.adherence") in labels
        ]
        return values[0] if values else None

    def firing(self) -> list[str]:
        return [one["rule"] for one in named(samples(self.registry), "ragtide_alert_firing")]

    @asynccontextmanager
    async def running(self, redis: Any, holder: str = "a") -> AsyncIterator[None]:
        stop = asyncio.Event()
        service = Aggregator(redis, SCRAPED, holder=holder, telemetry=self.telemetry)
        task = asyncio.create_task(service.run(stop))
        try:
            yield
        finally:
            stop.set()
            await task


async def test_the_owner_has_the_series_and_the_next_owner_has_them_from_the_checkpoint(async_redis: Any) -> None:
    first, second = ScrapedAggregator(), ScrapedAggregator()
    await publish(async_redis, EVENTS)
    async with first.running(async_redis, "first"):
        await until(lambda: first.n() == len(EVENTS) and first.firing() == ["floor"])
        async with second.running(async_redis, "second"):
            assert (second.n(), second.firing()) == (None, [])
            assert first.n() == len(EVENTS)
    assert (first.n(), first.firing()) == (None, []), "it owns nothing any more"
    async with second.running(async_redis, "second"):
        await until(lambda: second.n() == len(EVENTS))
        assert second.firing() == ["floor"]


async def test_events_that_wait_for_a_commit_are_not_shown(async_redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one, stop = ScrapedAggregator(), asyncio.Event()
    monkeypatch.setattr(QualityExport, "is_due", lambda *_: True)
    settings = changed(SCRAPED, commit_interval_s=3600.0, estimates_interval_s=3600.0, aggregator_batch=10_000)
    service = Aggregator(async_redis, settings, holder="a", telemetry=one.telemetry)
    task = asyncio.create_task(service.run(stop))
    await publish(async_redis, EVENTS)
    await until(lambda: service.events_applied == len(EVENTS))
    turns = 0

    def turned(*_: Any) -> None:
        nonlocal turns
        turns += 1

    monkeypatch.setattr(one.telemetry, "serving", turned)
    await until(lambda: turns >= 2)
    committed = await async_redis.hget(STREAMS.checkpoint, "position")
    shown = one.n() or 0
    stop.set()
    await task
    assert (committed, shown) == (None, 0), "the numbers shown are those of the checkpoint"


async def test_a_number_that_is_not_committed_is_not_shown(async_redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one, commit, failed = ScrapedAggregator(), Committer.commit, 0

    async def failing(self: Committer, *step: Any) -> None:
        nonlocal failed
        failed += 1
        raise RedisConnectionError("gone")

    await publish(async_redis, EVENTS[:50])
    async with one.running(async_redis):
        await until(lambda: one.n() == 50)
        monkeypatch.setattr(Committer, "commit", failing)
        await publish(async_redis, EVENTS[50:])
        await until(lambda: failed >= 3)
        assert one.n() == 50
        monkeypatch.setattr(Committer, "commit", commit)
        await until(lambda: caught_up(async_redis))
        await until(lambda: one.n() == len(EVENTS))


async def test_between_turns_events_are_read_without_waiting_for_new_ones(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, begun, take = ScrapedAggregator(), list[QualityExport](), EventApplier.take
    waits: list[float] = []
    begin = QualityExport._begin

    def noted(self: QualityExport, state: AggregatorState) -> None:
        begun.append(self)
        begin(self, state)

    async def waiting(self: EventApplier, wait_s: float) -> bool:
        if begun and begun[-1].has_begun:
            waits.append(wait_s)
        return await take(self, wait_s)

    monkeypatch.setattr("ragtide_aggregator.service.quality.KEYS_A_TURN", 1)
    monkeypatch.setattr(QualityExport, "_begin", noted)
    monkeypatch.setattr(EventApplier, "take", waiting)
    await publish(async_redis, [event(number, {"trace.adherence": 0.5}, pipeline=f"p{number}") for number in range(9)])
    async with one.running(async_redis):
        await until(lambda: len(named(samples(one.registry), "ragtide_estimate_n")) >= 9)
    assert len(waits) >= 8, "each scope has a turn of its own"
    assert set(waits) == {0.0}


async def test_without_a_certain_lease_nothing_is_shown(async_redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = ScrapedAggregator()
    await publish(async_redis, EVENTS)
    async with one.running(async_redis):
        await until(lambda: one.n() == len(EVENTS))
        with monkeypatch.context() as patched:
            patched.setattr(Ownership, "certain", property(lambda _: False))
            assert samples(one.registry) == {}
        await until(lambda: one.n() == len(EVENTS))
        await async_redis.set(STREAMS.lease, "99:another", px=60_000)
        await until(lambda: one.n() is None)
        await async_redis.delete(STREAMS.lease)


async def test_an_alert_that_resolves_loses_its_series(async_redis: Any) -> None:
    one = ScrapedAggregator()
    await publish(async_redis, EVENTS)
    async with one.running(async_redis):
        await until(lambda: one.firing() == ["floor"])
        await publish(async_redis, adherence([0.95] * 400, first=len(EVENTS)))
        await until(lambda: caught_up(async_redis))
        await until(lambda: one.firing() == [] and one.n() == len(EVENTS) + 400)


async def test_alerts_about_the_pipeline_itself_have_series_also_from_the_checkpoint(async_redis: Any) -> None:
    await async_redis.hset(STREAMS.dropped, "full", 4)
    first, second = ScrapedAggregator(), ScrapedAggregator()
    async with first.running(async_redis, "first"):
        await until(lambda: first.firing() == ["stall-dropped"])
    async with second.running(async_redis, "second"):
        await until(lambda: second.firing() == ["stall-dropped"])


async def test_the_owner_of_partition_0_shows_alerts_about_spend_limits(async_redis: Any) -> None:
    now, limit = datetime(2026, 11, 23, 12, tzinfo=UTC), JudgeSettings(spend_per_hour_usd=1.0)
    spend = RedisSpend(async_redis, "ragtide", limit, now=lambda: now)
    one = ScrapedAggregator()
    async with one.running(async_redis):
        reserved = await spend.reserve(0.9)
        assert isinstance(reserved, Reservation)
        await spend.settle(reserved, 0.9)  # the limit is not reached while a call in flight may cost less
        assert isinstance(await spend.reserve(0.9), LimitReached)
        await until(lambda: one.firing() == ["judge-spend"])
        now += timedelta(hours=1)
        await spend.reserve(0.9)
        await until(lambda: one.firing() == [])
        await async_redis.set(STREAMS.labeler_spend("judge", "alert"), b"not an alert")
        await async_redis.set(STREAMS.labeler_spend("nli", "alert"), alert(rule="nli-spend").encode())
        await until(lambda: one.firing() == ["nli-spend"])
