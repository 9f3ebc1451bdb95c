"""The difference of two pipelines, or of two labelers of one pipeline, for every metric that both have."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from redis.asyncio import Redis

from ragtide_aggregator.estimates.view import View, windows_of
from ragtide_aggregator.events.keys import HIDDEN, UNBOUNDED, EstimateKey
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.state.state import AggregatorState
from ragtide_aggregator.statistics.comparisons.comparing import difference
from ragtide_aggregator.statistics.intervals.intervals import Interval, ratio
from ragtide_aggregator.statistics.means.moments import Moments
from ragtide_aggregator.statistics.means.strategies import moments_interval, resolved
from ragtide_aggregator.statistics.tables.names import ALL_TIME, AUTO
from ragtide_runtime.recordings import Recording
from ragtide_runtime.redis.keys import workspace_of
from ragtide_schemas import METRICS, Direction, Workspace
from ragtide_schemas.estimate import shown_metric
from ragtide_schemas.metric_definitions import ANSWER_COST, ANSWER_LATENCY
from ragtide_schemas.suggestions import unknown

from .comparing import clusters_of
from .labelings import (
    Compared,
    clustered_by,
    is_complete,
    labeling_differences,
    needs_recording,
    read_kept,
    read_scores,
    select_labeler,
)


@dataclass(frozen=True, slots=True)
class PipelineSide:
    """A pipeline, live or in a workspace."""

    deployment: Deployment
    """Live traffic, or the workspace."""
    pipeline: str
    info: Workspace | None = None
    """The workspace; None for live traffic."""
    recording: Recording | None = None
    """Recording that a replay of metric events is of."""


async def read_comparison(
    redis: Redis,
    sides: tuple[PipelineSide, PipelineSide],
    *,
    window: str,
    confidence: float | None = None,
    ongoing: bool = False,
) -> list[Compared]:
    """Return the difference of two pipelines for every metric that was measured in the same way in both.

    Two replays of the same interactions are compared interaction by interaction, even if their labelers differ.

    Args:
        redis: client.
        sides: the two pipelines.
        window: name of the window; only all time is compared by interaction.
        confidence: level of the intervals; that of the settings unless given.
        ongoing: whether the interactions are a sample of ongoing traffic, even in replays of known size.
    """
    level = sides[0].deployment.settings.confidence if confidence is None else confidence
    states = [state for side in sides for state in await side.deployment.states(side.pipeline)]
    first, second = states
    by_id: list[Compared] = []
    if window == ALL_TIME and _share_interactions(*sides):
        by_id = await _by_interaction(redis, sides, states, level=level, ongoing=ongoing)
    known = {_identity(comparison.key) for comparison in by_id}
    # A replay has items of live traffic, so only two live pipelines certainly have different interactions.
    separate = all(side.info is None for side in sides) and sides[0].pipeline != sides[1].pipeline
    means = _by_means(_moments(first, sides[0], window), _moments(second, sides[1], window), level, separate=separate)
    means += _by_usage(_moments(first, sides[0], window), _moments(second, sides[1], window), level)
    return sorted([*by_id, *(mean for mean in means if _identity(mean.key) not in known)], key=reading_order)


def _identity(key: EstimateKey) -> tuple[str, str | None, str, str | None]:
    return key.metric, key.version, key.profile, key.segment


def unnamed_recording(first: PipelineSide, second: PipelineSide) -> str | None:
    """Return the recording that both sides replay, if naming it would pair their interactions; None otherwise."""
    if first.info is None or second.info is None or first.info.source != second.info.source:
        return None
    unnamed = any(side.recording is None and needs_recording(side.info) for side in (first, second) if side.info)
    return first.info.source if unnamed else None


async def read_labelers(
    redis: Redis, side: PipelineSide, labelers: tuple[str, str], *, confidence: float | None = None
) -> list[Compared]:
    """Return the differences of two labelers of one pipeline, on the interactions that both scored.

    Only interactions whose metric events are still kept count; of a cascade, only the judge's uniform sample.
    """
    settings = side.deployment.settings
    level = settings.confidence if confidence is None else confidence
    streams = settings.layout.all_of(side.pipeline)
    scores = await read_kept(redis, streams, side.pipeline, by=clustered_by(settings))
    first, second = (select_labeler(scores, name) for name in labelers)
    return sorted(labeling_differences(first, second, confidence=level), key=reading_order)


def reading_order(comparison: Compared) -> tuple[str, int, str, str, str, str, str]:
    """Return the sort key of a comparison: whole pipelines before segments, then the registry's order of metrics."""
    key, other = comparison.key, comparison.other_labeler or ""
    return (key.segment or "", *metric_order(key), key.profile, other)


def metric_order(key: EstimateKey) -> tuple[int, str, str, str]:
    """Return the sort key of a metric: its place in the registry, name, version, and labeler."""
    registered = list(METRICS)
    place = registered.index(key.metric) if key.metric in METRICS else len(registered)
    return place, key.metric, key.version or "", key.labeler


def _share_interactions(first: PipelineSide, second: PipelineSide) -> bool:
    if first.info is None or second.info is None:
        return False
    return first.info.run == second.info.run or first.info.kind == second.info.kind == "replay"


async def _by_interaction(
    redis: Redis,
    sides: tuple[PipelineSide, PipelineSide],
    states: Sequence[AggregatorState],
    *,
    level: float,
    ongoing: bool,
) -> list[Compared]:
    scores = []
    for side in sides:
        assert side.info is not None  # noqa: S101 - for the type checker: both are workspaces
        settings = side.deployment.settings
        streams, by = settings.layout.all_of(side.pipeline), clustered_by(settings)
        scores.append(await read_scores(redis, streams, side.pipeline, side.info, side.recording, by=by))
    mine, theirs = scores
    if mine is None or theirs is None:
        return []
    closed = not ongoing and all(
        is_complete(labeling, state, side.pipeline)
        for labeling, state, side in zip((mine, theirs), states, sides, strict=True)
    )
    return labeling_differences(mine, theirs, confidence=level, closed=closed)


_Moments = dict[EstimateKey, tuple[Moments, float, float]]
"""Moments, lowest value and width of the range by key."""


def _by_means(first: _Moments, second: _Moments, level: float, *, separate: bool) -> list[Compared]:
    return [
        Compared(
            key,
            n=(int(a.n[0]), int(b.n[0])),
            means=(lowest + width * float(a.mean[0]), lowest + width * float(b.mean[0])),
            difference=difference(a, b, confidence=level, width=width, counts=key.holds_counts, separate=separate),
            strategy=min(str(resolved(AUTO, moments, [key.holds_counts])[0]) for moments in (a, b)),
            n_clusters=(clusters_of(a, counts=key.holds_counts), clusters_of(b, counts=key.holds_counts)),
        )
        for key, (a, lowest, width) in first.items()
        if key in second and a.n[0] and (b := second[key][0]).n[0]
    ]


ADHERENCE: Final = "trace.adherence"
"""The metric of quality per dollar and per second, where it was measured."""

PER: Final = (ANSWER_COST, ANSWER_LATENCY)
"""Metrics by which quality is divided."""


def _by_usage(first: _Moments, second: _Moments, level: float) -> list[Compared]:
    compared: dict[EstimateKey, Compared] = {}
    for key in sorted(
        filter(_is_quality, first), key=lambda key: (key.metric != ADHERENCE, list(METRICS).index(key.metric))
    ):
        for use in PER:
            used = key._replace(metric=use.name)
            known = all(name in side and side[name][0].n[0] for side in (first, second) for name in (key, used))
            if used in compared or not known:
                continue
            ratios = [_ratio(side[key], side[used], 1 - (1 - level) / 4) for side in (first, second)]
            (a, n_a), (b, n_b) = ratios
            if a.estimate is None or a.lower is None or a.upper is None:
                continue
            if b.estimate is None or b.lower is None or b.upper is None:
                continue
            compared[used] = Compared(
                key._replace(metric=f"{key.metric}/{use.name}"),
                n=(n_a, n_b),
                means=(a.estimate, b.estimate),
                difference=Interval(a.estimate - b.estimate, a.lower - b.upper, a.upper - b.lower),
                strategy="ratio",
            )
    return list(compared.values())


def _is_quality(key: EstimateKey) -> bool:
    definition = METRICS.get(key.metric)
    return (
        definition is not None
        and key.measure is None
        and definition.direction is Direction.HIGHER
        and definition.bands is not None
        and definition.lower == 0
    )


def _ratio(
    quality: tuple[Moments, float, float], used: tuple[Moments, float, float], level: float
) -> tuple[Interval[float | None, float | None], int]:
    ends = []
    for (moments, lowest, width), counts in ((quality, False), (used, True)):
        lower, upper = moments_interval(AUTO, moments, confidence=level, counts=[counts])
        ends.append(Interval(*(lowest + width * float(value[0]) for value in (moments.mean, lower, upper))))
    return ratio(*ends), min(int(quality[0].n[0]), int(used[0].n[0]))


async def unknown_side(sides: tuple[PipelineSide, PipelineSide], labelers: Sequence[str] = ()) -> str | None:
    """Return a sentence about the first pipeline or labeler that has no scores; None if all have some, or none has."""
    for side in sides:
        keys = [key for state in await side.deployment.states() for key in state.keys]
        known = {key.pipeline for key in keys}
        if known and side.pipeline not in known:
            return unknown("pipeline", side.pipeline, known)
        scored_by = {key.labeler for key in keys if key.pipeline == side.pipeline}
        for labeler in labelers:
            if scored_by and labeler not in scored_by:
                return unknown(f"labeler of {side.pipeline}", labeler, scored_by)
    return None


async def other_versions(sides: tuple[PipelineSide, PipelineSide]) -> list[str]:
    """Return a sentence about each metric that both sides have, but in no common version: it is not compared."""
    versions: list[dict[str, set[str]]] = [{}, {}]
    for side, by_metric in zip(sides, versions, strict=True):
        for key in [key for state in await side.deployment.states() for key in state.keys]:
            hidden = key.metric.startswith(HIDDEN) or key.segment is not None
            if key.pipeline == side.pipeline and key.measure is not None and not hidden:
                by_metric.setdefault(key.metric, set()).add(key.measure.version)
    first, second = versions
    return [
        f"{metric} is not compared: {_versions_of(metric, first)} is another metric than {_versions_of(metric, second)}"
        for metric in sorted(first.keys() & second.keys())
        if not first[metric] & second[metric]
    ]


def _versions_of(metric: str, versions: Mapping[str, Collection[str]]) -> str:
    return ", ".join(shown_metric(metric, version) for version in sorted(versions[metric]))


def _moments(state: AggregatorState, side: PipelineSide, window: str) -> _Moments:
    run = workspace_of(side.deployment.settings.prefix)
    rows = [
        row
        for row, key in enumerate(state.keys)
        if key.pipeline == side.pipeline and key.run in (None, run)
        if not key.metric.startswith(HIDDEN) and key.metric not in UNBOUNDED
    ]
    result: _Moments = {}
    for view, members in [(View(state), rows), *windows_of(state, rows)]:
        if view.name == window:
            for row in members:
                key = state.keys[row]
                lowest, highest = key.value_range
                result[key._replace(pipeline="", run=None)] = view.moments([row]), lowest, highest - lowest
    return result
