"""Finds labelers that have stopped: answers come, and they score none of those that they were to score."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from redis.asyncio import Redis

from ragtide_runtime.calls.endpoint_states import EndpointState, read_endpoint_states
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.headline import StopReason
from ragtide_schemas.metric_definitions import SENTINEL_PIPELINE

from ..estimates.headline import SILENT, JudgeStop, MeasuredBy, by_group
from ..estimates.means import MetricMean
from ..estimates.view import IntervalMethod
from ..statistics.tables.names import AUTO
from .history import HistoryReader

LOOKED_AT: Final = (timedelta(minutes=15), timedelta(hours=1), timedelta(hours=6), timedelta(days=1))
"""Times up to now in which a judge may have scored nothing, the shortest first."""

EXPECTED: Final = 7
"""A judge has stopped if it scored none where it would have scored so many: chance alone gives that once in 1,000
looks, because the number of scores follows a Poisson distribution, and exp(-7) is 0.0009."""

ENDPOINT_AFTER: Final = timedelta(minutes=1)
"""Least time without a score before the state of an endpoint counts: an endpoint that rests for seconds is none."""

Stops = Mapping[tuple[str, str, str], JudgeStop]
"""By pipeline, name and version of the labeler."""


class _Judge(NamedTuple):
    """A judge of a sample of a pipeline, and its proxy: the means of the metric with the most scores."""

    own: MetricMean
    """Its scores of the part of the sample that is drawn from all answers."""
    proxy: MetricMean

    @property
    def name(self) -> tuple[str, str, str]:
        """Pipeline, name and version of the labeler."""
        return self.own.key.pipeline, self.own.key.labeler, self.own.key.labeler_version

    @property
    def rate(self) -> float:
        """Share of the answers that it scores."""
        return self.own.n / self.proxy.n if self.proxy.n else 0.0


class JudgeStops:
    """The labelers that have stopped: by their events, and by the states of their endpoints.

    Args:
        redis: client.
        partitions: keys of the partitions.
        history: reads ranges.
    """

    def __init__(self, redis: Redis, settings: Settings, partitions: Sequence[Streams], history: HistoryReader) -> None:
        self._redis = redis
        self._prefix = settings.prefix
        self._partitions = partitions
        self._history = history
        self._method = IntervalMethod(AUTO, settings.confidence)

    async def read(self, means: Sequence[MetricMean], now: datetime) -> Stops:
        """Return the labelers of whole pipelines that have stopped.

        Args:
            means: over all time, of all labelers.
            now: present time.

        Raises:
            DamagedFieldError: a pane of the history cannot be read.
        """
        judges = list(_newest_judges(means))
        last_at = await self._without_scores(judges, now)
        stops = {name: JudgeStop(at) for name, at in last_at.items()}
        for labeler, reason in _reasons(await read_endpoint_states(self._redis, self._prefix)).items():
            for name, newest in _newest_scores(means, labeler).items():
                at = stops[name].last_at if name in stops else newest
                if name in stops or at is None or now - at >= ENDPOINT_AFTER:
                    stops[name] = JudgeStop(at, reason)
        return stops

    async def _without_scores(
        self, judges: Sequence[_Judge], now: datetime
    ) -> dict[tuple[str, str, str], datetime | None]:
        stopped: dict[tuple[str, str, str], datetime | None] = {
            judge.name: judge.own.updated_at
            for judge in judges
            if judge.own.updated_at is not None
            and judge.proxy.updated_at is not None
            and judge.proxy.updated_at - judge.own.updated_at > SILENT
        }
        waiting = [judge for judge in judges if judge.name not in stopped]
        marked: set[tuple[str, str, str]] = set()
        for length in LOOKED_AT:
            start = now - length
            keys = [mean.key for judge in waiting for mean in (judge.own, judge.proxy)]
            points = await self._history.numbers(
                self._partitions, keys, start, now + SILENT, method=self._method, exact=True
            )
            counts = {key: point.n for key, point in points.items()}
            waiting = [judge for judge in waiting if not counts.get(judge.own.key)]
            for judge in waiting:
                if counts.get(judge.proxy.key, 0) * judge.rate >= EXPECTED:
                    marked.add(judge.name)
        return stopped | await self._last_scores([judge for judge in judges if judge.name in marked], now)

    async def _last_scores(
        self, judges: Sequence[_Judge], now: datetime
    ) -> dict[tuple[str, str, str], datetime | None]:
        keys = {judge.own.key: judge for judge in judges}
        # The time of a mean is that of its last answer, which may have no score.
        histories = await self._history.read(
            self._partitions,
            [key._asdict() for key in keys],
            now - 2 * SILENT,
            now + SILENT,
            points_max=1_000,
            method=self._method,
        )
        return {
            keys[history.key].name: history.points[-1].end if history.points else None
            for history in histories
            if history.key in keys
        }


def _newest_judges(means: Sequence[MetricMean]) -> Iterator[_Judge]:
    judges: dict[tuple[str, str, str], _Judge] = {}
    whole = [mean for mean in means if mean.key.segment is None and mean.key.pipeline != SENTINEL_PIPELINE]
    judged = {(mean.key.pipeline, mean.key.metric) for mean in whole if mean.is_powered}
    for of_group in by_group(mean for mean in whole if (mean.key.pipeline, mean.key.metric) in judged).values():
        for powered in (mean for mean in of_group if mean.is_powered):
            by = MeasuredBy.of(powered)
            own, proxy = by.alone.place(of_group), None if by.by_proxy is None else by.by_proxy.place(of_group)
            if own is None or proxy is None:
                continue
            judge = _Judge(of_group[own], of_group[proxy])
            known = judges.get(judge.name)
            if known is None or judge.own.n > known.own.n:
                judges[judge.name] = judge
    yield from judges.values()


def _newest_scores(means: Sequence[MetricMean], labeler: str) -> dict[tuple[str, str, str], datetime | None]:
    newest: dict[tuple[str, str, str], datetime | None] = {}
    for mean in means:
        key = mean.key
        if key.segment is None and key.labeler == labeler and not mean.is_powered:
            name = key.pipeline, key.labeler, key.labeler_version
            known = newest.get(name)
            at = mean.updated_at
            newest[name] = max(known, at) if known is not None and at is not None else known or at
    return newest


def _reasons(states: Mapping[str, EndpointState]) -> dict[str, StopReason]:
    by_labeler: dict[str, list[EndpointState]] = {}
    for state in states.values():
        by_labeler.setdefault(state.labeler, []).append(state)
    reasons: dict[str, StopReason] = {}
    for labeler, of_labeler in by_labeler.items():
        if all(state.over_budget or state.paused for state in of_labeler):
            over_budget = {state.over_budget for state in of_labeler}
            if "day" in over_budget:
                reasons[labeler] = "the spend limit of the day is reached"
            elif "hour" in over_budget:
                reasons[labeler] = "the spend limit of the hour is reached"
            else:
                reasons[labeler] = "its endpoint does not answer"
    return reasons
