"""Reads the headlines of a deployment: the one number of each metric that every screen, gate and gauge shows."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, utc_now
from ragtide_schemas.metric_definitions import PEOPLES_METRICS, PER_ANSWER
from ragtide_schemas.slopes import SlopesByMetric

from ..estimates.headline import (
    CHANGED,
    NARROW,
    OVER_ALL,
    Beginning,
    Choice,
    Circumstances,
    HeadlineNumber,
    MeasuredBy,
    MetricStanding,
    WholeChoice,
    answer_counts,
    beginning_of,
    by_group,
    chosen_mean,
    chosen_part,
    firing_alerts,
    is_narrow,
    number_of_point,
    number_since_change,
    pipelines_with_beginnings,
)
from ..estimates.means import MetricMean
from ..estimates.ranges import HeadlineRange
from ..estimates.view import IntervalMethod
from ..events.keys import EstimateKey, PairKey
from ..state.level_rows import WatchedLevel
from ..statistics.tables.names import AUTO
from .history import HistoryReader
from .judge_stops import JudgeStops
from .suspicions import Suspicion
from .traffic import answers_an_hour
from .versions import Versions

AHEAD: Final = timedelta(days=1)
"""How far the clocks of producers may be ahead: values up to then are in a range that reaches until now."""

_Selected = tuple[Sequence[MetricMean], Choice, HeadlineNumber]
# The means of a metric, the chosen one, and its number in the range.


class Headlines:
    """The headlines of live pipelines.

    Args:
        partitions: keys of the partitions.
        history: reads ranges.
        versions: reads the newest version of each pipeline.
        stops: finds labelers that have stopped.
    """

    def __init__(
        self,
        settings: Settings,
        partitions: Sequence[Streams],
        history: HistoryReader,
        versions: Versions,
        stops: JudgeStops,
    ) -> None:
        self._settings = settings
        self._partitions = partitions
        self._history = history
        self._versions = versions
        self._stops = stops
        self._method = IntervalMethod(AUTO, settings.confidence)

    async def standings(
        self,
        means: Sequence[MetricMean],
        chosen: HeadlineRange,
        *,
        alerts: Sequence[Alert],
        suspicions: Sequence[Suspicion],
        watches: Sequence[WatchedLevel],
        slopes: Mapping[tuple[str, str], SlopesByMetric],
        labeler: str | None = None,
    ) -> list[MetricStanding]:
        """Return how the metrics of some means stand, ordered by pipeline, segment and metric.

        Args:
            means: over all time, with all labelers of each metric; with a segment value its whole pipeline, too.
            chosen: range.
            suspicions: evidence of rules.
            watches: what the quiet detectors know.
            slopes: that the deployment measured, by labeler and version.
            labeler: name of a labeler; None for the recommended one of each metric.

        Raises:
            DamagedFieldError: a pane of the history cannot be read.
        """
        by_watch: defaultdict[tuple[str, str, str], list[WatchedLevel]] = defaultdict(list)
        for watch in watches:
            by_watch[watch.key.pipeline, watch.key.metric, watch.key.labeler].append(watch)
        suspected: defaultdict[tuple[str, str], float] = defaultdict(float)
        for suspicion in suspicions:
            name = suspicion.pipeline, suspicion.metric
            suspected[name] = max(suspected[name], suspicion.once_in / suspicion.run_length)
        now, counting = utc_now(), [mean for mean in means if mean.key.metric == PER_ANSWER]
        versions, stops, traffic, in_range = await asyncio.gather(
            self._versions.read(),
            self._stops.read(means, now),
            answers_an_hour(self._history, self._partitions, means, now),
            self._numbers(means, chosen, counting),
        )
        around = Circumstances(
            now=now,
            firing=firing_alerts(alerts),
            suspected=suspected,
            watches=by_watch,
            rules=self._settings.alerts,
            versions=versions,
            stops=stops,
            slopes=slopes,
            traffic=traffic,
        )
        selected = await asyncio.to_thread(_select, means, in_range, chosen, labeler)
        shorter = await self._shorter(selected, chosen, around, counting) if chosen.shortens else {}

        def compute() -> list[MetricStanding]:
            standings = [
                MetricStanding(of_group, choice, shorter.get(place, known), around)
                for place, (of_group, choice, known) in enumerate(selected)
            ]
            return sorted(standings, key=lambda entry: (entry.key.pipeline, entry.key.segment or "", entry.key.metric))

        return await asyncio.to_thread(compute)

    async def _numbers(
        self, means: Sequence[MetricMean], chosen: HeadlineRange, counting: Sequence[MetricMean]
    ) -> dict[EstimateKey | PairKey, HeadlineNumber]:
        if chosen.start is None:
            return {}
        end = chosen.end or utc_now() + AHEAD
        keys = {mean.series: mean for mean in means}
        counted = counting if any(mean.key.metric in PEOPLES_METRICS for mean in means) else ()
        points = await self._history.numbers(
            self._partitions,
            keys.keys() | {mean.series for mean in counted},
            chosen.start,
            end,
            method=self._method,
            exact=chosen.name.startswith("since"),
            whole=chosen.is_since,
            # The first value of a version is known to a fine pane.
            recent=chosen.name != "since version",
        )
        answers = answer_counts(counted, points)
        return {key: number_of_point(keys[key], point, chosen, answers) for key, point in points.items() if key in keys}

    async def _shorter(
        self,
        selected: Sequence[_Selected],
        chosen: HeadlineRange,
        around: Circumstances,
        counting: Sequence[MetricMean],
    ) -> dict[int, HeadlineNumber]:
        by_start: defaultdict[Beginning, list[int]] = defaultdict(list)
        begun = pipelines_with_beginnings(around)
        for place, (of_group, choice, _) in enumerate(selected) if begun else ():
            if of_group[0].key.pipeline not in begun:
                continue
            beginning = beginning_of(of_group[choice.place], around)
            if beginning is not None and chosen.start is not None and chosen.start < beginning.at < around.now:
                by_start[beginning].append(place)
        shorter: dict[int, HeadlineNumber] = {}
        for beginning, places in by_start.items():
            name = "since change" if beginning.version is None else "since version"
            means = {place: selected[place][0][selected[place][1].place] for place in places}
            # The pane that holds the first value of a version may hold values of the version before.
            start = beginning.at if beginning.version is None else beginning.at + timedelta(milliseconds=1)
            since = HeadlineRange(name, start, version=beginning.version)
            numbers = await self._numbers([*means.values()], since, counting)
            for place, mean in means.items():
                number, observed = numbers.get(mean.series), number_since_change(mean, around)
                widest = CHANGED if beginning.version is None else NARROW
                if number is not None and is_narrow(number.mean.interval, mean.value_range, widest):
                    shorter[place] = number
                elif observed is not None:
                    # How bad it is while it fires matters before it is known precisely.
                    more = number is not None and number.mean.n >= observed.mean.n and number.mean.has_interval
                    shorter[place] = number if more and number is not None else observed
        return shorter


def _choices(
    means: Sequence[MetricMean], in_range: Mapping[EstimateKey | PairKey, HeadlineNumber], labeler: str | None
) -> Iterator[tuple[Sequence[MetricMean], Choice, Mapping[int, HeadlineNumber]]]:
    groups = by_group(means)
    with_parts = {(pipeline, metric) for pipeline, segment, metric in groups if segment is not None}
    wholes: dict[tuple[str, str], WholeChoice] = {}
    for (pipeline, segment, metric), of_group in sorted(groups.items(), key=lambda item: item[0][1] is not None):
        known = (
            {place: in_range[mean.series] for place, mean in enumerate(of_group) if mean.series in in_range}
            if in_range
            else {}
        )
        whole = wholes.get((pipeline, metric))
        if whole is None:
            choice = chosen_mean(of_group, known, labeler)
        else:
            choice = chosen_part(of_group, known, whole, labeler)
        if choice is None:
            continue
        if segment is None and (pipeline, metric) in with_parts:
            wholes[pipeline, metric] = WholeChoice(MeasuredBy.of(of_group[choice.place]), choice.awaited)
        yield of_group, choice, known


def _select(
    means: Sequence[MetricMean],
    in_range: Mapping[EstimateKey | PairKey, HeadlineNumber],
    chosen: HeadlineRange,
    labeler: str | None,
) -> list[_Selected]:
    selected: list[_Selected] = []
    for of_group, choice, known in _choices(means, in_range, labeler):
        mean, number = of_group[choice.place], known.get(choice.place)
        too_few = chosen.shortens and mean.is_powered
        if number is None and chosen.is_since:
            # The number of all time would be about what was before.
            number = HeadlineNumber.unknown(mean, chosen)
        elif number is None or (too_few and not number.mean.has_interval):
            number = HeadlineNumber(mean, OVER_ALL)
        selected.append((of_group, choice, number))
    return selected
