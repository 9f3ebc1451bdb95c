"""The history that a deployment reads: numbers of windows, whole across panes and partitions."""

from collections.abc import Sequence
from datetime import timedelta
from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.metric_events import START, event
from tests.support.owners import Owner, owners

from ragtide import Deployment, MetricEvent
from ragtide_aggregator.checkpoint.options import reader_options
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.estimates.over_time import History, HistoryPoint, Joining, TimeRange, step_of
from ragtide_aggregator.state.options import HistoryOptions
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import HistorySettings
from ragtide_schemas import Estimate

METRIC = "trace.adherence"
MINUTE, HOUR, DAY = 60, 3600, 86_400
SETTINGS = Settings(windows=("5m", "1h"), lateness_s=600, history=HistorySettings(segments=("version",)))
LABELED = START + timedelta(days=400)


def at(second: int, value: float = 1.0, **changes: Any) -> MetricEvent:
    return event(second, {METRIC: value}, labeled_at=LABELED, **changes)


def values(count: int, every_s: int, *, first_s: int = 0, **changes: Any) -> list[MetricEvent]:
    return [at(first_s + every_s * i, (i * 37 % 101) / 100, **changes) for i in range(count)]


async def read(
    redis: Any,
    settings: Settings = SETTINGS,
    *,
    since: int = 0,
    until: int = 8 * HOUR,
    metric: str = METRIC,
    points_max: int = 96,  # of fine panes
    **how: Any,
) -> History:
    deployment = Deployment(redis, settings)
    start, end = START + timedelta(seconds=since), START + timedelta(seconds=until)
    (found,) = await deployment.history("shop", metric, start=start, end=end, points_max=points_max, **how)
    return found


async def committed(
    redis: Any, events: Sequence[MetricEvent], settings: Settings = SETTINGS, *, each: int = 50
) -> Owner:
    (owner,) = owners(redis, settings)
    for start in range(0, len(events), each):
        await owner.commit(*events[start : start + each])
    return owner


async def windows(redis: Any, settings: Settings, metric: str = METRIC) -> dict[str, Estimate]:
    found = await Deployment(redis, settings).estimates()
    return {one.window: one for one in found if one.metric == metric and one.segment is None}


def same(point: HistoryPoint, window: Estimate) -> None:
    assert (point.start, point.end, point.n) == (window.window_start, window.window_end, window.n)
    assert point.estimate == pytest.approx(window.estimate, abs=1e-12)
    assert point.lower == pytest.approx(window.lower, abs=1e-12)
    assert point.upper == pytest.approx(window.upper, abs=1e-12)


@pytest.mark.parametrize(
    ("changes", "by"),
    [
        ({}, "none"),
        ({"sampling_probability": 0.25}, "none"),
        ({}, "auto"),
        ({"session_id": True}, "auto"),
    ],
    ids=["plain", "sampled", "alone", "sessions"],
)
async def test_a_point_has_the_numbers_of_a_window_of_its_length(
    async_redis: Any, changes: dict[str, Any], by: str
) -> None:
    settings = SETTINGS.model_copy(update={"clusters": ClusterSettings(by=by, quiet_s=60)})
    events = values(500, 17)
    if "sampling_probability" in changes:
        events = [one.model_copy(update=changes if i % 3 else {}) for i, one in enumerate(events)]
    if "session_id" in changes:
        events = [one.model_copy(update={"session_id": f"s-{i // 4}"}) for i, one in enumerate(events)]
    await committed(async_redis, events, settings)
    found = await windows(async_redis, settings)
    fine = await read(async_redis, settings)
    assert fine.step == timedelta(minutes=5)
    assert fine.points[-1].open
    same(fine.points[-1], found["5m"])
    hourly = await read(async_redis, settings, points_max=9)
    assert hourly.step == timedelta(hours=1)
    same(hourly.points[-1], found["1h"])
    # The window of an earlier time, whose pane is closed now.
    before = [point for point in fine.points if not point.open][-1]
    earlier = [one for one in events if one.occurred_at < before.end]
    assert before.n == sum(one.occurred_at >= before.start for one in earlier)
    if "session_id" not in changes:  # otherwise sessions are still open at the end of the pane
        state = AggregatorState(reader_options(settings))
        for one in earlier:
            state.apply(one)
        (closed,) = [e for e in estimates(state) if e.window == "5m" and e.metric == METRIC]
        same(before, closed)


@pytest.mark.parametrize(
    ("since", "until"),
    [(HOUR - 100, HOUR + 200), (1234, 1235), (20 * MINUTE, 2 * HOUR), (7000, 8500), (0, 8500)],
)
async def test_one_point_is_the_window_of_the_events_of_exactly_the_panes_that_hold_the_range(
    async_redis: Any, since: int, until: int
) -> None:
    events = values(500, 17)
    await committed(async_redis, events)
    found = await read(async_redis, since=since, until=until, points_max=1)
    (point,) = found.points
    first, last = since // 300 * 300, -(-until // 300) * 300
    assert (point.start, point.end) == (START + timedelta(seconds=first), START + timedelta(seconds=last))
    assert found.step == point.end - point.start
    inside = [one for one in events if point.start <= one.occurred_at < point.end]
    assert point.n == len(inside)
    assert point.estimate == pytest.approx(mean(one.scores[METRIC] for one in inside), abs=1e-12)
    sliding = SETTINGS.model_copy(update={"windows": (f"{(last - first) // 60}m/5m",)})
    state = AggregatorState(reader_options(sliding))
    for one in events:
        if one.occurred_at < point.end:
            state.apply(one)
    same(point, *(estimate for estimate in estimates(state) if estimate.window != "all" and estimate.metric == METRIC))


async def test_one_point_has_whole_hours_where_the_fine_panes_are_gone(async_redis: Any) -> None:
    settings = SETTINGS.model_copy(update={"history": HistorySettings(fine_for="1h")})
    await committed(async_redis, values(500, 60), settings)
    found = await read(async_redis, settings, since=HOUR - 100, until=HOUR + 200, points_max=1)
    (point,) = found.points
    assert (point.start, point.end, point.n) == (START, START + timedelta(hours=2), 120)


@pytest.mark.parametrize("first", [500, pytest.param(410, marks=pytest.mark.heavy)])
async def test_intervals_stay_when_a_pipeline_begins_to_send_sessions(async_redis: Any, first: int) -> None:
    """Panes before the first session hold single values, also those that were closed by then."""
    settings = SETTINGS.model_copy(update={"clusters": ClusterSettings(by="auto", quiet_s=60)})
    events = values(600, 17)
    events = [
        *events[:first],
        *(one.model_copy(update={"session_id": f"s-{i // 4}"}) for i, one in enumerate(events[first:])),
    ]
    await committed(async_redis, events[:first], settings)
    before = await read(async_redis, settings, points_max=9)
    await async_redis.flushall()
    await committed(async_redis, events, settings)
    found = await windows(async_redis, settings)
    fine, hourly = await read(async_redis, settings), await read(async_redis, settings, points_max=9)
    same(fine.points[-1], found["5m"])
    same(hourly.points[-1], found["1h"])
    closed = [point for point in before.points if not point.open]
    assert closed
    for was, now in zip(closed, hourly.points, strict=False):
        assert (was.start, was.n, was.estimate) == (now.start, now.n, now.estimate)
        assert was.lower is not None
        assert now.lower is not None
        assert 0 < now.lower <= was.lower < was.estimate, (
            "wider, because sessions are allowed for, and not the whole range"
        )


async def test_values_whose_sessions_are_all_open_have_no_interval_yet(async_redis: Any) -> None:
    events = [at(2 * i, (i * 37 % 101) / 100, session_id=f"s-{i // 4}") for i in range(120)]
    await committed(async_redis, [at(0, session_id="first"), at(2 * HOUR - 1), *shifted(events, 2 * HOUR)])
    point, window = (await read(async_redis)).points[-1], (await windows(async_redis, SETTINGS))["5m"]
    same(point, window)
    assert (point.n, point.lower, point.upper) == (120, 0.0, 1.0)


def shifted(events: Sequence[MetricEvent], by_s: int) -> list[MetricEvent]:
    later = timedelta(seconds=by_s)
    return [
        one.model_copy(update={"occurred_at": one.occurred_at + later, "interaction_id": f"l-{i}"})
        for i, one in enumerate(events)
    ]


async def test_a_zoom_has_no_jump(async_redis: Any) -> None:
    await committed(async_redis, values(600, 40))
    fine = await read(async_redis)
    for points_max, minutes in ((96, 5), (50, 10), (33, 15), (9, 60), (5, 120), (2, 240)):
        wide = await read(async_redis, points_max=points_max)
        assert wide.step == timedelta(minutes=minutes)
        assert len(wide.points) <= points_max
        assert sum(point.n for point in wide.points) == 600
        for point in wide.points:
            inside = [part for part in fine.points if point.start <= part.start < point.end]
            assert point.n == sum(part.n for part in inside)
            assert point.estimate == pytest.approx(sum(part.n * part.estimate for part in inside) / point.n, abs=1e-12)
            assert point.open == any(part.open for part in inside)


async def test_coarse_panes_reach_back_when_fine_panes_are_gone(async_redis: Any) -> None:
    history = HistorySettings(fine="5m", fine_for="1h", coarse="30m", coarse_for="3h")
    settings = SETTINGS.model_copy(update={"history": history})
    await committed(async_redis, values(300, MINUTE), settings)
    whole = await read(async_redis, settings)
    assert whole.step == timedelta(minutes=30)
    assert whole.points[0].start == START + timedelta(minutes=90), "of five hours, six closed coarse panes stay"
    assert sum(point.n for point in whole.points) == 210
    recent = await read(async_redis, settings, since=4 * HOUR + 10 * MINUTE, points_max=46)
    assert recent.step == timedelta(minutes=5)
    assert sum(point.n for point in recent.points) == 50


async def test_stretches_without_values_have_no_point_and_unknown_names_no_history(async_redis: Any) -> None:
    await committed(async_redis, [at(0), at(3 * HOUR)])
    assert [point.n for point in (await read(async_redis)).points] == [1, 1]
    assert (await read(async_redis, since=HOUR, until=2 * HOUR)).points == ()
    deployment = Deployment(async_redis, SETTINGS)
    span: dict[str, Any] = {"start": START, "end": START + timedelta(hours=1)}
    assert await deployment.history("shop", "trace.nothing", **span) == []
    assert await deployment.history("nobody", METRIC, **span) == []
    assert await deployment.history("shop", METRIC, labeler="other", **span) == []
    with pytest.raises(ValueError, match="not before end"):
        await deployment.history("shop", METRIC, start=START, end=START)
    with pytest.raises(ValueError, match="at least 1"):
        await deployment.history("shop", METRIC, points_max=0, **span)


async def test_series_are_listed_with_segments_labelers_and_names_that_look_like_patterns(async_redis: Any) -> None:
    odd = 'a*[b]\\"?'
    events = [
        at(0, segments={"version": "2", "plan": "free"}),
        at(1, labeler_version="2"),
        at(2, pipeline=odd),
        at(3, pipeline="a-b"),
        at(4, run="r"),
    ]
    await committed(async_redis, events)
    deployment = Deployment(async_redis, SETTINGS)
    assert {one.pipeline for one in await deployment.series()} == {"shop", odd, "a-b"}
    assert {one.pipeline for one in await deployment.series(odd)} == {odd}
    shop = [one for one in await deployment.series("shop") if one.metric == METRIC]
    assert {(one.segment, one.labeler_version) for one in shop} == {(None, "1"), (None, "2"), ("version=2", "1")}
    assert all(one.run is None for one in shop)
    span: dict[str, Any] = {"start": START, "end": START + timedelta(hours=1)}
    both = await deployment.history("shop", METRIC, **span)
    assert [(one.key.labeler_version, one.points[0].n) for one in both] == [("1", 1), ("2", 1)]
    (segment,) = await deployment.history("shop", METRIC, segment="version=2", **span)
    assert segment.points[0].n == 1
    disabled = Settings(history=HistorySettings(enabled=False))
    assert await Deployment(async_redis, disabled).series() == []
    assert await Deployment(async_redis, disabled).history("shop", METRIC, **span) == []


async def test_labeling_time_has_a_history_without_intervals(async_redis: Any) -> None:
    await committed(async_redis, [at(second, latency_s=float(second)) for second in range(1, 5)])
    (one,) = (await read(async_redis, metric="labeling.latency_s")).points
    assert (one.n, one.estimate, one.lower, one.upper) == (4, 2.5, None, None)


async def test_the_parts_of_a_split_pipeline_are_pooled_by_pane(async_redis: Any) -> None:
    split = SETTINGS.model_copy(update={"partitions": 2, "splits": {"shop": 2}})
    events = values(400, 40)
    for place, owner in enumerate(owners(async_redis, split)):
        await owner.commit(*events[place::2])
    found = await windows(async_redis, split)
    fine, hourly = await read(async_redis, split), await read(async_redis, split, points_max=9)
    assert sum(point.n for point in fine.points) == sum(point.n for point in hourly.points) == 400
    same(fine.points[-1], found["5m"])
    same(hourly.points[-1], found["1h"])


@given(st.integers(0, 10**6), st.integers(1, 10**7), st.integers(2, 500), st.sampled_from([5_000, 300_000, 3_600_000]))
def test_a_step_is_the_least_of_whole_panes_that_fits(
    start_s: int, length_s: int, points_max: int, least_ms: int
) -> None:
    options = HistoryOptions(300_000, 3_600_000, 576, 1440, 1, 1, recent_ms=5_000, recent_kept=720)
    start_ms, end_ms = start_s * 1000, (start_s + length_s) * 1000
    step_ms = step_of(TimeRange(start_ms, end_ms, points_max), options, least_ms=least_ms)
    assert (end_ms - 1) // step_ms - start_ms // step_ms + 1 <= points_max
    for pane_ms in (300_000, 3_600_000):
        assert pane_ms % step_ms == 0 or step_ms % pane_ms == 0
    assert step_ms % least_ms == 0
    assert step_ms >= least_ms


@given(
    steps=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 40)), min_size=1, max_size=30),
    least=st.integers(1, 60),
    apart=st.sets(st.integers(0, 100), max_size=4),
    gap=st.integers(0, 4),
)
def test_joined_points_have_enough_values_or_are_all_of_their_stretch(
    steps: list[tuple[int, int]], least: int, apart: set[int], gap: int
) -> None:
    points = [sum(step for step, _ in steps[: place + 1]) for place in range(len(steps))]
    counted = [n for _, n in steps]
    groups = Joining(least).groups([(point, point + 1) for point in points], counted, apart, gap)
    assert [place for group in groups for place in group] == list(range(len(points)))

    def cut(place: int) -> bool:
        before, point = points[place - 1], points[place]
        return point - before > gap + 1 or any(before < time <= point for time in apart)

    for number, group in enumerate(groups):
        assert not any(cut(place) for place in group[1:])
        begins = number == 0 or cut(group[0])
        ends = number == len(groups) - 1 or cut(groups[number + 1][0])
        n = sum(counted[place] for place in group)
        assert n >= least or (begins and ends)
        assert ends or n - counted[group[-1]] < least


@pytest.mark.parametrize("sessions", [False, True])
async def test_joined_points_have_the_values_of_their_panes(async_redis: Any, *, sessions: bool) -> None:
    settings = SETTINGS.model_copy(update={"clusters": ClusterSettings(by="auto", quiet_s=60)})
    events = [
        one.model_copy(update={"session_id": f"s-{i // 4}"}) if sessions else one
        for i, one in enumerate(values(400, 61))
    ]
    await committed(async_redis, events, settings)
    single = await read(async_redis, settings, points_max=100)
    change = START + timedelta(hours=2, minutes=31)
    joined = await read(async_redis, settings, points_max=100, least_n=30, apart=[change])
    assert single.young
    assert joined.young
    assert len(joined.points) < len(single.points)
    for point in joined.points:
        inside = [one.scores[METRIC] for one in events if point.start <= one.occurred_at < point.end]
        assert point.n == len(inside) >= 30
        assert point.estimate == pytest.approx(mean(inside), abs=1e-12)
        assert point.lower is not None
        assert point.upper is not None
        assert point.lower <= point.estimate <= point.upper
        assert not point.start < change < point.end
        # One look at a closed point needs less than every look at it.
        if not point.open and change not in (point.start, point.end):
            whole = await read_between(async_redis, settings, point)
            assert whole.n == point.n
            assert whole.estimate == pytest.approx(point.estimate, abs=1e-12)
            assert whole.lower is not None
            assert whole.upper is not None
            assert point.upper - point.lower < whole.upper - whole.lower
    assert joined.points[-1].open


async def read_between(redis: Any, settings: Settings, point: HistoryPoint) -> HistoryPoint:
    (found,) = await Deployment(redis, settings).history("shop", METRIC, start=point.start, end=point.end, points_max=1)
    return found.points[0]
