"""Compares two labelings of the same interactions by interaction id; reads the scores of each labeling.

A workspace that labels keeps its newest metric events on its stream (`events_keep`). A replay of metric events keeps
none: its scores are read from the recording, if the caller or the setting `recorder.url` names it. The list of
workspaces in Redis never decides which file is opened.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from math import floor, log10
from pathlib import Path
from typing import Literal, cast

from redis.asyncio import Redis

from ragtide_aggregator.events.batch import cluster_name
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.events.values import estimate_key, parts_of, scopes_of
from ragtide_aggregator.state.state import AggregatorState
from ragtide_aggregator.statistics.comparisons.paired import CLOSED, paired_difference
from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_aggregator.statistics.means.stratified import STRATIFIED
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording, UnreadableRecordingError
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import DATA_FIELD, CheckpointField, Streams
from ragtide_runtime.redis.log import read_all
from ragtide_runtime.settings.alerting import BLOCKS
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import parts_folder
from ragtide_schemas import InvalidEntryError, Measure, MetricEvent, Workspace
from ragtide_schemas.drawn import DrawRecord

from ..replay.selection import Selection, selection
from ..score.drawn import WeightedRows


def comparable(key: EstimateKey) -> tuple[str, Measure | None, str]:
    """Return what is equal for scores that differ only in the labeler."""
    return key.metric, key.measure, key.profile


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of one metric between two pipelines, or two labelings of one."""

    key: EstimateKey
    """What was measured in the first, without pipeline and run."""
    n: tuple[int, int]
    """Number of scored interactions of each pipeline; if paired, of those with a score in both."""
    means: tuple[float, float]
    difference: Interval[float, float]
    """The mean of the first pipeline minus the mean of the second."""
    method: Literal["paired", "unpaired", "randomized"] = "unpaired"
    """`paired` by interaction id; `unpaired` where ids cannot be joined; `randomized` if a coin divided the traffic."""
    strategy: str = "running"
    """The method of the interval."""
    n_clusters: tuple[int | None, int | None] = None, None
    """Number of clusters, such as sessions, of each side that the interval rests on; None where each interaction
    counts by itself."""
    other: EstimateKey | None = None
    """What was measured in the second, if by another labeler."""

    @property
    def other_labeler(self) -> str | None:
        """Labeler of the second pipeline, if it differs."""
        return None if self.other is None else f"{self.other.labeler} {self.other.labeler_version}"

    @property
    def exact(self) -> bool:
        """Whether all pairs are known, so that the difference has no interval."""
        return self.strategy == CLOSED

    @property
    def decimals(self) -> int:
        """Decimals with which its numbers are shown: three, or as many as tiny means need, such as dollars."""
        least = max(map(abs, self.means))
        return 3 if least >= 0.1 or not least else min(2 - floor(log10(least)), 9)

    @property
    def verdict(self) -> Literal["higher", "lower", "equal", "undecided"]:
        """The verdict on the first pipeline, which the shown digits bear out.

        `equal` if all pairs are known and the means are the same in these digits.
        """
        visible = 0.5 * 10**-self.decimals
        if self.exact and abs(self.difference.estimate) < visible:
            return "equal"
        nearest = min(abs(self.difference.lower), abs(self.difference.upper))
        return "undecided" if not self.exact and nearest < visible else self.difference.verdict

    def as_dict(self) -> dict[str, object]:
        """Return the comparison as values that JSON can hold."""
        return {
            **metric_fields(self.key),
            "segment": self.key.segment,
            "n": self.n,
            "means": self.means,
            "difference": asdict(self.difference),
            "method": self.method,
            "strategy": self.strategy,
            "other_labeler": self.other_labeler,
            "n_clusters": self.n_clusters,
            "verdict": self.verdict,
        }


def metric_fields(key: EstimateKey) -> dict[str, object]:
    """Return metric, version, labeler and profile as JSON fields."""
    return {
        "metric": key.metric,
        "metric_version": key.version,
        "labeler": key.labeler,
        "profile": key.profile,
    }


@dataclass(slots=True)
class Scores:
    """The scores of a pipeline's interactions: by unscoped key, then by interaction id, in order of events."""

    of: defaultdict[EstimateKey, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    scopes: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    """For each interaction the segment values it counts in; None for the whole pipeline."""
    by: str | None = None
    """Which interactions are a cluster (`clusters.by`); None takes each by itself."""
    clusters: dict[str, Hashable] = field(default_factory=dict)
    """The cluster of each interaction that belongs to one."""
    drawn: dict[str, tuple[DrawRecord, float]] = field(default_factory=dict)
    """How each interaction was drawn that is a row of a drawn data set, and its sampling probability."""

    def add(self, event: MetricEvent) -> None:
        """Add the scores of an event; a refused event and a second one of an interaction add nothing."""
        if event.interaction_id in self.scopes:
            return
        try:
            parts = parts_of(event)
        except InvalidEntryError:
            return
        self.scopes[event.interaction_id] = scopes_of(event, segments=True)
        name = None if self.by is None else cluster_name(event, self.by)
        if name is not None:
            self.clusters[event.interaction_id] = name
        if event.drawn is not None:
            self.drawn[event.interaction_id] = event.drawn, event.sampling_probability
        for part in (part.event for part in parts):
            for metric, score in part.scores.items():
                self.of[estimate_key(part, None, metric).unscoped][event.interaction_id] = score


def labeling_differences(first: Scores, second: Scores, *, confidence: float, closed: bool = False) -> list[Compared]:
    """Return the differences of the metrics that both labelings have, on the interactions that both scored.

    If the same labeler measured a metric in both, only its scores are compared. Otherwise each labeler of the first is
    compared with each labeler of the second that has the same profile and range. If some interactions are drawn rows,
    the differences are those of the traffic, and other rows do not count (`stratified_difference`).

    Args:
        first: scores of one labeling.
        second: scores of another one.
        confidence: level of each interval.
        closed: whether both have labeled all interactions in question.
    """
    compared: list[Compared] = []
    rows = second.drawn | first.drawn
    drawn = WeightedRows.of(rows) if rows else None
    for mine, theirs in _comparable_keys(first, second):
        own, other = first.of[mine], second.of[theirs]
        if drawn is not None:
            compared += _drawn_differences(drawn, (first, mine), (second, theirs), confidence=confidence)
            continue
        by_scope: defaultdict[str | None, list[tuple[float, float, Hashable]]] = defaultdict(list)
        for interaction_id, score in own.items():
            if interaction_id in other:
                cluster = first.clusters.get(interaction_id, interaction_id)
                for scope in first.scopes[interaction_id]:
                    by_scope[scope].append((score, other[interaction_id], cluster))
        for scope, pairs in by_scope.items():
            scores, others, clusters = zip(*pairs, strict=True)
            result = paired_difference(
                scores,
                others,
                value_range=mine.value_range,
                confidence=confidence,
                counts=mine.holds_counts,
                closed=closed,
                clusters=clusters if first.clusters else None,
            )
            compared.append(
                Compared(
                    mine._replace(segment=scope),
                    (result.n, result.n),
                    result.means,
                    result.difference,
                    "paired",
                    result.strategy,
                    (result.n_clusters, result.n_clusters),
                    None if mine == theirs else theirs,
                )
            )
    return compared


def _drawn_differences(
    drawn: WeightedRows, first: tuple[Scores, EstimateKey], second: tuple[Scores, EstimateKey], *, confidence: float
) -> Iterator[Compared]:
    (scores, mine), (others, theirs) = first, second
    own = scores.of[mine]
    for scope in dict.fromkeys(scope for name in own for scope in scores.scopes[name]):
        here = {name: score for name, score in own.items() if scope in scores.scopes[name]}
        compared = drawn.difference(
            here, others.of[theirs], mine.value_range, confidence=confidence, counts=mine.holds_counts
        )
        if compared is not None:
            n, means, difference = compared
            other = None if mine == theirs else theirs
            yield Compared(mine._replace(segment=scope), (n, n), means, difference, "paired", STRATIFIED, other=other)


def select_labeler(scores: Scores, name: str) -> Scores:
    """Return the scores by the labelers of a name; of a cascade's judge those of its uniform sample."""
    selected = Scores(scopes=scores.scopes, by=scores.by, clusters=scores.clusters, drawn=scores.drawn)
    selected.of.update({key: by_id for key, by_id in scores.of.items() if key.labeler == name})
    return selected


def _comparable_keys(first: Scores, second: Scores) -> Iterator[tuple[EstimateKey, EstimateKey]]:
    for mine in first.of:
        if mine in second.of:
            yield mine, mine
            continue
        for theirs in second.of:
            if comparable(theirs) == comparable(mine) and theirs not in first.of:
                yield mine, theirs


def clustered_by(settings: Settings) -> str | None:
    """Return which interactions are a cluster in a comparison by id; None for blocks in time and for none."""
    return None if settings.clusters.by in ("none", BLOCKS) else settings.clusters.by


async def read_scores(
    redis: Redis,
    streams: Sequence[Streams],
    pipeline: str,
    info: Workspace,
    recording: Recording | None,
    *,
    by: str | None = None,
) -> Scores | None:
    """Return the scores that a workspace still keeps of a pipeline's interactions; None if it keeps none.

    Args:
        redis: client.
        streams: the workspace's keys that hold the pipeline.
        pipeline: name.
        info: the workspace.
        recording: recording that a replay of metric events is of, if it was named.
        by: which interactions are a cluster (`clustered_by`).
    """
    scores = Scores(by=by)
    if needs_recording(info):
        if recording is None:
            return None
        for stream in streams:
            stored = cast("bytes | None", await redis.hget(stream.checkpoint, CheckpointField.POSITION))
            _add_recorded(
                scores,
                pipeline,
                info,
                recording.entries(EntryKind.METRICS, pipelines=frozenset({pipeline}), partitions=[stream.partition]),
                stored,
            )
        return scores
    return await read_kept(redis, streams, pipeline, by=by)


def needs_recording(info: Workspace) -> bool:
    """Return whether a workspace keeps no scores of single interactions, so that its recording is read for them."""
    return info.kind == "replay" and (info.options.get("replays") == "metric events" or _is_in_parts(info))


def _is_in_parts(info: Workspace) -> bool:
    return info.options.get("in_parts") is True


async def read_kept(redis: Redis, streams: Sequence[Streams], pipeline: str, *, by: str | None = None) -> Scores:
    """Return the scores of the interactions whose metric events are still on the streams."""
    scores = Scores(by=by)
    for stream in streams:
        async for entry in read_all(redis, stream.metrics):
            try:
                event = MetricEvent.decode(entry.fields.get(DATA_FIELD, b""))
            except InvalidEntryError:  # the aggregator made it a dead letter
                continue
            if event.pipeline == pipeline and not event.is_tick:
                scores.add(event)
    return scores


def _add_recorded(
    scores: Scores, pipeline: str, info: Workspace, entries: Iterable[RecordedEntry], position: bytes | None
) -> None:
    part = _selection(info)
    # The position shows where the replay ended, although the recording may have grown since.
    last = None if position is None else order(position.decode())
    for entry in entries:
        if last is not None and entry.order > last:
            break
        event = cast("MetricEvent", entry.model)
        if event.pipeline == pipeline and not event.is_tick and part.takes(event):
            scores.add(event)


def _selection(info: Workspace) -> Selection:
    options = {name: info.options.get(name) for name in ("since", "until", "segment")}
    if not all(value is None or isinstance(value, str) for value in options.values()):
        raise ConfigurationError(
            f"the options of workspace {info.run!r} cannot be read: remove it with ragtide replay workspaces remove "
            f"{info.run}"
        )
    segments = str(options["segment"]).split(", ") if options["segment"] else None
    since, until = cast("str | None", options["since"]), cast("str | None", options["until"])
    return selection(since, until, segments=segments)


def is_complete(scores: Scores, state: AggregatorState, pipeline: str) -> bool:
    """Return whether the scores cover all interactions of a pipeline in a workspace of known size."""
    sizes = [int(state.rows.population[row]) for row, key in enumerate(state.keys) if key.pipeline == pipeline]
    return bool(scores.scopes) and len(scores.scopes) == max(sizes, default=0)


def named_recording(settings: Settings, info: Workspace, given: str | None) -> Recording | None:
    """Return the recording that a workspace replays, if the caller or the settings name it; else None.

    Interactions that were labeled in parts have their scores in the data directory, so nobody names them.

    Raises:
        ConfigurationError: the caller names another recording.
        UnreadableRecordingError: the recording that the caller names cannot be read.
    """
    named = settings.recorder.url if given is None else given
    if not needs_recording(info):
        return None
    if _is_in_parts(info):
        return _parts_recording(settings, info)
    if named is None:
        return None
    place = named if "://" in named else str(Path(named).expanduser().absolute())
    if place != info.source:
        if given is None:
            return None
        raise ConfigurationError(
            f"workspace {info.run} replays another recording than {place}: name the recording that it replays"
        )
    try:
        return Recording.open(place, storage_options=settings.recorder.storage_options)
    except UnreadableRecordingError:
        if given is None:
            return None
        raise


def _parts_recording(settings: Settings, info: Workspace) -> Recording | None:
    from ..parts.part_files import UnusablePartsError  # noqa: PLC0415 - needs pyarrow, and few workspaces have parts
    from ..parts.relabeled import relabeled  # noqa: PLC0415 - as above

    try:
        recording = Recording.open(info.source, storage_options=settings.recorder.storage_options)
        return relabeled(parts_folder(settings, info.run), recording).recording
    except (UnreadableRecordingError, UnusablePartsError):
        return None
