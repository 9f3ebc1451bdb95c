"""The read model of a deployment: the object from which every command and page reads."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple, Self

from redis.asyncio import Redis

from ragtide_runtime.calls.endpoint_states import EndpointSpend, EndpointState, read_endpoint_states, read_spend
from ragtide_runtime.redis.backlog import Backlog, read_backlogs
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.entries import Unreadable
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.layout import check_layout
from ragtide_runtime.redis.measured_slopes import read_slopes
from ragtide_runtime.redis.url import resolve_redis
from ragtide_runtime.settings.model import Settings, settings_of_application
from ragtide_runtime.workspaces import list_workspaces
from ragtide_schemas import Alert, Estimate, Headline, Workspace, to_milliseconds, utc_now
from ragtide_schemas.metric_definitions import SENTINEL_PIPELINE

from ..alerts.watched_release import WatchedRelease
from ..checkpoint.options import level_options, reader_options
from ..errors import reading
from ..estimates.estimates import estimates, metric_means
from ..estimates.headline import MetricStanding
from ..estimates.live import check_live
from ..estimates.means import MetricMean
from ..estimates.over_time import History, Joining
from ..estimates.ranges import HeadlineRange, headline_range
from ..estimates.view import IntervalMethod
from ..events.keys import EstimateKey
from ..state.level_rows import WatchedLevel
from ..state.options import StateOptions
from ..state.state import AggregatorState
from ..statistics.tables.names import AUTO
from .alerts import AlertLog
from .dead_letters import StoredDeadLetter, read_dead_letters
from .field_names import FieldNames
from .headlines import AHEAD, Headlines
from .history import HistoryReader
from .judge_stops import JudgeStops
from .level_watches import LevelWatches
from .overview import Overview, SegmentMeans
from .partitions import PartitionStatus, read_partitions
from .pipeline_states import PipelineReading, PipelineStates
from .releases import read_releases
from .states import PartitionStates
from .suspicions import Suspicion, Suspicions, covariate_keys
from .traffic import answers_an_hour
from .versions import Deploy, Versions

_OF_ALERT: Final = ("pipeline", "run", "segment", "metric", "profile", "labeler", "labeler_version")
# Fields of a key that an alert has, too.


async def _nothing() -> list[Any]:
    return []


class HistoryName(NamedTuple):
    """The names of a history: of a metric of a pipeline, by a labeler."""

    pipeline: str
    metric: str
    labeler: str


class Deployment:
    """Reads a deployment, or one of its workspaces, and writes nothing.

    Keep the object for repeated reads: without a change, estimates and alerts take one round trip each, for all
    partitions.

    Args:
        redis: client.
        settings: of the deployment, or of the workspace.

    Raises:
        ConfigurationError: a window in the settings is invalid.
    """

    def __init__(self, redis: Redis, settings: Settings) -> None:
        self._redis = redis
        self.settings = settings
        self._partitions = settings.layout.all()
        self._options = reader_options(settings)
        self._names = names = FieldNames(redis)
        self._states = PartitionStates(redis, self._options, split=bool(settings.splits))
        levels = level_options(settings)
        self._of_pipelines = PipelineStates(redis, self._options, levels, names)
        self._overview = self._overview_of(None)
        self._of_segments = SegmentMeans(self._overview_of)
        self._suspicions = Suspicions(redis, self._partitions, self._with_rules, names=names)
        self._levels = LevelWatches(redis, self._partitions, self._options, levels, names=names)
        self._history = HistoryReader(redis, self._options.history, names)
        self._versions = Versions(self._history, self._partitions, settings)
        self._alerts = AlertLog(redis, self._partitions)
        self.unreadable_dead_letters = Unreadable("dead letter")
        """Dead letters that were skipped by the last `dead_letters`."""
        self._unreadable_workspaces = Unreadable("workspace")

    def take_rules(self, settings: Settings) -> None:
        """Use the alert rules and the budget of other settings from now on."""
        self.settings = self.settings.model_copy(update={"alerts": settings.alerts, "budget": settings.budget})
        self._suspicions.take_rules(self._with_rules)
        self._of_pipelines.take_rules()

    @property
    def _with_rules(self) -> StateOptions:
        return replace(self._options, rules=self.settings.alerts)

    def _of_pipeline(self, pipeline: str) -> tuple[list[Streams], PipelineReading]:
        partitions = self.settings.layout.all_of(pipeline)
        return partitions, self._of_pipelines.of(pipeline, partitions, self._with_rules)

    def _overview_of(self, segment: str | None) -> Overview:
        return Overview(
            self._redis,
            self._partitions,
            self._options,
            confidence=self.settings.confidence,
            split=bool(self.settings.splits),
            segment=segment,
            names=self._names,
        )

    @classmethod
    @asynccontextmanager
    async def connect(cls, redis_url: str | None = None, *, settings: Settings | None = None) -> AsyncGenerator[Self]:
        """Connect to a deployment for the body of an `async with`.

        Args:
            redis_url: Redis to use; by default `RAGTIDE_REDIS_URL`, or else the embedded Redis of this machine.
            settings: all settings at once, instead of the URL and the environment.

        Raises:
            ConfigurationError: a setting is wrong, or the deployment has another layout than the settings.
            RedisUnavailable: Redis cannot be reached.
        """
        known = settings or settings_of_application(**({} if redis_url is None else {"redis_url": redis_url}))
        handle = await asyncio.to_thread(resolve_redis, known.redis_address, known.data_dir)
        try:
            async with connect_async(handle.url) as redis:
                await check_layout(redis, known.layout)
                yield cls(redis, known)
        finally:
            await asyncio.to_thread(handle.close)

    async def estimates(
        self,
        *,
        strategy: str = AUTO,
        confidence: float | None = None,
        ongoing: bool = False,
        windows: bool = True,
        pipeline: str | None = None,
    ) -> list[Estimate]:
        """Return every estimate at the last commits.

        Args:
            strategy: method of the intervals: `auto`, `running` or `asymptotic`.
            confidence: level of the intervals; by default the level in the settings.
            ongoing: whether the interactions are a sample of ongoing traffic, even in a run of known size.
            windows: whether to return estimates of windows too, not only those of all time.
            pipeline: only of this pipeline; then only its fields are read.

        Raises:
            CheckpointError: a checkpoint cannot be read.
            ValueError: live estimates do not have this strategy, or the confidence is outside (0, 1).
        """
        check_live(strategy)
        level = self.settings.confidence if confidence is None else confidence
        partitions, states = self._partitions, self._states
        if pipeline is not None:
            partitions, of_pipeline = self._of_pipeline(pipeline)
            states = of_pipeline.states
        return await states.compute(
            partitions,
            (strategy, level, ongoing, windows),
            lambda state: estimates(state, strategy=strategy, confidence=level, ongoing=ongoing, windows=windows),
        )

    async def overview(self) -> list[Estimate]:
        """Return the estimates of whole live pipelines over all time, without quantiles and design effects.

        It is made for several reads a second: a read costs the same however many segments, runs and windows there are.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        return await self._overview.read()

    async def means(self, segment: str | None = None) -> list[MetricMean]:
        """Return the means of live pipelines over all time, for a screen that shows them several times a second.

        They are the numbers of `overview`, without the rest of an estimate.

        Args:
            segment: segment value such as `lang=de`, for the means of its interactions; None for whole pipelines.

        Raises:
            CheckpointError: a checkpoint cannot be read.
            TooManySegmentsError: `SEGMENTS_MAX` other segment values were read within the last minute.
        """
        if segment is None:
            return await self._overview.means()
        return await self._of_segments.read(segment)

    async def headlines(
        self,
        chosen: HeadlineRange | str = "default",
        *,
        pipeline: str | None = None,
        segment: str | None = None,
        segments: bool = False,
        labeler: str | None = None,
    ) -> list[Headline]:
        """Return the headline of each metric of live pipelines: the one number that every screen shows for it.

        Args:
            chosen: range, or its name: `1h`, `24h`, `7d`, `60d`, `all`, or `default`, the last 24 hours or the time
                since the last change or version, if that is shorter and has enough values.
            pipeline: only of this pipeline; all unless given.
            segment: segment value such as `lang=de`, for the headlines of its interactions; None for whole pipelines.
            segments: whether to return the headlines of all segment values of a pipeline, too.
            labeler: name of a labeler, for its numbers; None for the recommended number of each metric.

        Raises:
            CheckpointError: a checkpoint cannot be read.
            DamagedFieldError: a pane of the history cannot be read.
            TooManySegmentsError: too many other segment values were read within the last minute.
            ValueError: unknown range.
        """
        standings = await self.standings(chosen, pipeline=pipeline, segment=segment, segments=segments, labeler=labeler)
        level = self.settings.confidence
        return await asyncio.to_thread(lambda: [standing.headline(level) for standing in standings])

    async def standings(
        self,
        chosen: HeadlineRange | str = "default",
        *,
        pipeline: str | None = None,
        segment: str | None = None,
        segments: bool = False,
        labeler: str | None = None,
    ) -> list[MetricStanding]:
        """Return how each metric of live pipelines stands, for a screen that shows the headlines of some.

        Args:
            chosen: range, or its name, as in `headlines`.
            pipeline: only of this pipeline; all unless given.
            segment: segment value such as `lang=de`; None for whole pipelines.
            segments: whether to return those of all segment values of a pipeline, too.
            labeler: name of a labeler, for its numbers; None for the recommended number of each metric.

        Raises:
            CheckpointError: a checkpoint cannot be read.
            DamagedFieldError: a pane of the history cannot be read.
            TooManySegmentsError: too many other segment values were read within the last minute.
            ValueError: unknown range.
        """
        span = headline_range(chosen, utc_now()) if isinstance(chosen, str) else chosen
        whole = segment is None
        means, alerts, suspicions, watches, slopes = await asyncio.gather(
            self._means_of(pipeline, segment, segments=segments),
            self.alerts(),
            self.suspicions(pipeline) if whole else _nothing(),
            self.level_watches(pipeline) if whole else _nothing(),
            read_slopes(self._redis, self.settings.prefix),
        )
        stops = JudgeStops(self._redis, self.settings, self._partitions, self._history)
        reader = Headlines(self.settings, self._partitions, self._history, self._versions, stops)
        read = await reader.standings(
            # The answers to sentinels are no traffic: they have headlines only if they are asked for.
            [
                mean
                for mean in means
                if mean.key.pipeline == pipeline or (not pipeline and mean.key.pipeline != SENTINEL_PIPELINE)
            ],
            span,
            alerts=alerts,
            suspicions=suspicions,
            watches=watches,
            slopes=slopes,
            labeler=labeler,
        )
        return [standing for standing in read if segments or standing.key.segment == segment]

    async def _means_of(self, pipeline: str | None, segment: str | None, *, segments: bool) -> list[MetricMean]:
        if segments:
            return await self._all_means(pipeline)
        if pipeline is not None:
            return [mean for mean in await self._all_means(pipeline) if mean.key.segment in (None, segment)]
        means = await self.means()
        # The labeler is chosen for the whole pipeline.
        return means if segment is None else [*means, *await self.means(segment)]

    async def traffic(self) -> dict[str, float]:
        """Return the answers an hour of each live pipeline, of the last day; 0 without an answer in it.

        Raises:
            CheckpointError: a checkpoint cannot be read.
            DamagedFieldError: a pane of the history cannot be read.
        """
        return await answers_an_hour(self._history, self._partitions, await self.means(), utc_now())

    async def _all_means(self, pipeline: str | None) -> list[MetricMean]:
        method = IntervalMethod(AUTO, self.settings.confidence)
        states = await self.states(pipeline)

        def compute() -> list[MetricMean]:
            return [
                mean
                for state in states
                for segment in {key.segment: None for key in state.keys if key.run is None}
                for mean in metric_means(state, method, segment)
            ]

        return await asyncio.to_thread(compute)

    async def deploys(self) -> Mapping[str, Deploy]:
        """Return the newest version of each pipeline that had another one before, if the history has `version`."""
        return await self._versions.read()

    async def suspicions(self, pipeline: str | None = None) -> list[Suspicion]:
        """Return how far the evidence of each rule on a whole live pipeline has come, the strongest first.

        The rules are those of these settings. A rule that is different in the aggregator has no evidence here.

        Args:
            pipeline: only of this pipeline; all unless given.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        return await (self._suspicions if pipeline is None else self._of_pipeline(pipeline)[1].suspicions).read()

    async def covariate_keys(self) -> list[EstimateKey]:
        """Return the keys of the rules on covariates of which values came; their metric stands for the covariate.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        if all(rule.covariate is None for rule in self.settings.alerts):
            return []
        return await covariate_keys(self._redis, self._partitions, self._with_rules, self._names)

    async def level_watches(self, pipeline: str | None = None) -> list[WatchedLevel]:
        """Return since when each watched metric of each live pipeline is as it is, and its last move.

        Args:
            pipeline: only of this pipeline; all unless given.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        return await (self._levels if pipeline is None else self._of_pipeline(pipeline)[1].levels).read()

    async def pipelines(self) -> list[str]:
        """Return the names of the pipelines that have estimates, in order."""
        listings = [await self._names.read(streams, (CheckpointField.ESTIMATE,)) for streams in self._partitions]
        return sorted({name for listing in listings for name in listing.by_pipeline(CheckpointField.ESTIMATE)})

    async def keys(self, pipeline: str) -> list[EstimateKey]:
        """Return the keys of the estimates of a pipeline.

        Args:
            pipeline: its name.

        Raises:
            DamagedFieldError: a checkpoint names a key that cannot be read.
        """
        keys, kind = [], CheckpointField.ESTIMATE
        for streams in self.settings.layout.all_of(pipeline):
            listing = await self._names.read(streams, (kind,))
            for name in listing.of_pipeline(kind, pipeline):
                with reading(name):
                    keys.append(EstimateKey.decode(name.removeprefix(kind)))
        return keys

    async def releases(self, pipeline: str | None = None) -> list[WatchedRelease]:
        """Return the releases of a pipeline, or of all, the newest first.

        Args:
            pipeline: only of this pipeline; all unless given.

        Raises:
            DamagedFieldError: a release cannot be read.
        """
        return await read_releases(self._redis, self.settings, pipeline, names=self._names)

    async def states(self, pipeline: str | None = None) -> list[AggregatorState]:
        """Return the states of all partitions, merged if pipelines are split; of one pipeline those without the others.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        if pipeline is None:
            return await self._states.read(self._partitions)
        partitions, of_pipeline = self._of_pipeline(pipeline)
        return await of_pipeline.states.read(partitions)

    async def series(self, pipeline: str | None = None) -> list[EstimateKey]:
        """Return the keys that have a history, of a pipeline or of all, in order.

        Raises:
            DamagedFieldError: a checkpoint names a key that cannot be read.
        """
        partitions = self._partitions if pipeline is None else self.settings.layout.all_of(pipeline)
        return await self._history.series(partitions, pipeline)

    async def series_by_partition(self) -> dict[int, list[EstimateKey]]:
        """Return the keys that have a history by partition; the parts of a split pipeline are in several.

        Raises:
            DamagedFieldError: a checkpoint names a key that cannot be read.
        """
        return {streams.partition: await self._history.series([streams]) for streams in self._partitions}

    async def history(
        self,
        pipeline: str,
        metric: str,
        *,
        start: datetime,
        end: datetime,
        points_max: int = 400,
        segment: str | None = None,
        labeler: str | None = None,
        labeler_version: str | None = None,
        profile: str | None = None,
        strategy: str = AUTO,
        confidence: float | None = None,
        least_n: int | None = None,
        apart: Collection[datetime] = (),
    ) -> list[History]:
        """Return the means of a metric over time with their intervals; one history for each labeler and version.

        Each point pools the panes of its stretch, so its interval is that of a window of this length. The panes are the
        finest that reach back to the start of the range. Panes that are still open count, too.

        Args:
            pipeline: name.
            metric: name.
            start: of the range.
            end: of the range, exclusive.
            points_max: most points of a history, at least 1; points become longer with the range. One point covers
                exactly the panes that hold a part of the range.
            segment: segment value such as `version=2`; None for the whole pipeline.
            labeler: name of the labeler; None for every labeler.
            labeler_version: version of the labeler; None for every version.
            profile: None for every profile.
            strategy: method of the intervals: `auto`, `running` or `asymptotic`.
            confidence: level of the intervals; by default the level in the settings.
            least_n: join neighbouring points until each has so many values, or a third as many closed clusters; never
                across a twelfth of the range without a value. The interval of a closed point is then valid at its n,
                for one look, and narrower. None leaves points apart, with intervals that are valid at every look.
            apart: times that no joined point holds values before and after of, to a pane, such as the beginning of an
                alert. They count with `least_n`.

        Raises:
            DamagedFieldError: a pane cannot be read.
            ValueError: the range is empty, `points_max` or `least_n` is below 1, or live estimates do not have this
                strategy.
        """
        check_live(strategy)
        chosen = {"labeler": labeler, "labeler_version": labeler_version, "profile": profile}
        wanted = {name: value for name, value in chosen.items() if value is not None}
        return await self._history.read(
            self.settings.layout.all_of(pipeline),
            [{"pipeline": pipeline, "run": None, "segment": segment, "metric": metric, **wanted}],
            start,
            end,
            points_max=points_max,
            method=IntervalMethod(strategy, self.settings.confidence if confidence is None else confidence),
            joining=None if least_n is None else Joining(least_n, tuple(to_milliseconds(time) for time in apart)),
        )

    @property
    def shortest_pane_ms(self) -> int:
        """Length of the shortest panes of the history, in milliseconds; 0 without a history."""
        return self._history.shortest_pane_ms

    async def level_since(self, alert: Alert, start: datetime) -> History | None:
        """Return the mean of the metric, scope and labeler version of an alert from a time until now.

        No value from before the time counts: the point begins with the first pane that does, and states its start.

        Args:
            alert: about the mean of a metric of live traffic.
            start: such as the beginning of the change.

        Returns: one point; None without a value, or while no pane began at this time or later.

        Raises:
            DamagedFieldError: a pane cannot be read.
        """
        histories = await self._history.read(
            self.settings.layout.all_of(alert.pipeline),
            [{name: getattr(alert, name) for name in _OF_ALERT}],
            start,
            utc_now() + AHEAD,
            points_max=1,
            method=IntervalMethod(AUTO, self.settings.confidence),
            whole=True,
        )
        for history in histories:
            if history.points and alert.metric_version == history.key.version:
                return history
        return None

    async def histories(
        self,
        wanted: Collection[HistoryName],
        *,
        start: datetime,
        end: datetime,
        points_max: int,
        segment: str | None = None,
        least_n: int,
    ) -> dict[HistoryName, list[History]]:
        """Return what `history` returns of several pipelines, read together.

        Args:
            wanted: names of each.
            start: of the range.
            end: of the range, exclusive.
            points_max: most points of a history.
            segment: segment value such as `version=2`; None for whole pipelines.
            least_n: least number of values of a point (`history`).

        Raises:
            DamagedFieldError: a pane cannot be read.
        """
        partitions = {streams: None for pipeline, *_ in wanted for streams in self.settings.layout.all_of(pipeline)}
        histories = await self._history.read(
            [*partitions],
            [
                {"pipeline": pipeline, "run": None, "segment": segment, "metric": metric, "labeler": labeler}
                for pipeline, metric, labeler in wanted
            ],
            start,
            end,
            points_max=points_max,
            method=IntervalMethod(AUTO, self.settings.confidence),
            joining=Joining(least_n),
        )
        by_name: dict[HistoryName, list[History]] = {name: [] for name in wanted}
        for history in histories:
            by_name[HistoryName(history.key.pipeline, history.key.metric, history.key.labeler)].append(history)
        return by_name

    async def alerts(self) -> list[Alert]:
        """Return the alerts in their latest state, in the order in which they fired."""
        return await self._alerts.read()

    async def backlog(self) -> list[Backlog]:
        """Return the backlog of every partition."""
        return await read_backlogs(self._redis, self._partitions)

    async def partitions(self) -> list[PartitionStatus]:
        """Return the status of every partition: backlog, owners, keys, rollbacks, and damage of its checkpoint."""
        return await read_partitions(self._redis, self.settings)

    def dead_letters(self, ids: Collection[str] | None = None) -> AsyncIterator[StoredDeadLetter]:
        """Return an iterator over the dead letters, or over those with some ids, the oldest first.

        Args:
            ids: entries of the stream of dead letters; all without them.
        """
        self.unreadable_dead_letters = Unreadable("dead letter")
        return read_dead_letters(self._redis, self._partitions, self.unreadable_dead_letters, ids=ids)

    async def workspaces(self) -> list[Workspace]:
        """Return the workspaces of replays and experiments, the oldest first."""
        self._unreadable_workspaces = Unreadable("workspace")
        return await list_workspaces(self._redis, self.settings, self._unreadable_workspaces)

    async def endpoints(self) -> dict[str, EndpointState]:
        """Return the state of each endpoint that labelers call, such as the judge, by host, process id and labeler."""
        return await read_endpoint_states(self._redis, self.settings.prefix)

    async def spend(self, labeler: str = "judge") -> EndpointSpend:
        """Return the dollars that the deployment spent on the endpoint of a labeler.

        Args:
            labeler: `judge`, or the name of a service.
        """
        return await read_spend(self._redis, self.settings.prefix, labeler=labeler)

    def warnings(self) -> list[str]:
        """Return a sentence for each kind of entry of which unreadable entries were skipped."""
        skipped = (self._alerts.unreadable, self.unreadable_dead_letters, self._unreadable_workspaces)
        sentences = [unreadable.warning() for unreadable in skipped]
        return [sentence for sentence in sentences if sentence is not None]
