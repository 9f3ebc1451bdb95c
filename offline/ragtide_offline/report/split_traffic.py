"""The differences of two live pipelines among which a coin divides the traffic, from their metric events."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from redis.asyncio import Redis

from ragtide_aggregator.events.batch import BY_ITSELF, cluster_codes, cluster_name
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.events.values import scopes_of
from ragtide_aggregator.statistics.comparisons.covariates import MOST_FEATURES
from ragtide_aggregator.statistics.comparisons.known_features import of_numbers, of_values
from ragtide_aggregator.statistics.comparisons.split_traffic import (
    has_share,
    is_anew,
    is_balanced,
    means_of,
    sessions_as_items,
    split_difference,
)
from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_aggregator.statistics.tables.batches import Floats
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import Recording
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import from_milliseconds, to_milliseconds
from ragtide_schemas.suggestions import unknown

from .labelings import Compared, clustered_by
from .pipelines import reading_order
from .split_answers import SplitAnswer, TrafficSplit, read_split_answers

SEGMENT = "segment:"
"""Prefix of a covariate that is a segment: `segment:NAME`."""


@dataclass(frozen=True, slots=True)
class SplitComparison:
    """The differences of two pipelines, with warnings for the reader."""

    compared: Sequence[Compared]
    since: datetime | None
    """Time of the first event that counts; None without one."""
    cautions: Sequence[str]


async def read_split_comparison(
    redis: Redis,
    settings: Settings,
    pipelines: tuple[str, str],
    split: TrafficSplit,
    *,
    recording: Recording | None = None,
    confidence: float | None = None,
) -> SplitComparison:
    """Return the difference of every metric that both pipelines have, the first minus the second.

    Args:
        redis: client.
        pipelines: names of two live pipelines.
        split: how the traffic is divided.
        recording: to read the metric events from; by default those that are still on the streams.
        confidence: level of the intervals; that of the settings unless given.

    Raises:
        ConfigurationError: a covariate is unknown, or too many are named.
    """
    answers, whole, ticks_ms = await read_split_answers(redis, settings, pipelines, split, recording)
    cautions = []
    if not whole:
        cautions.append(
            "Older metric events are not kept any more, so an interval holds for this look, and not for every look: "
            "give --since a later time, or --recording."
        )
    level = settings.confidence if confidence is None else confidence
    compared = _Traffic(answers, ticks_ms, settings, split, cautions).compared(level)
    since = from_milliseconds(answers[0].order[0]) if answers else None
    return SplitComparison(sorted(compared, key=reading_order), since, cautions)


class _Traffic:
    """The answers of two pipelines as arrays."""

    def __init__(
        self,
        answers: Sequence[SplitAnswer],
        ticks_ms: Mapping[str, int],
        settings: Settings,
        split: TrafficSplit,
        cautions: list[str],
    ) -> None:
        self._answers, self._settings, self._split, self._cautions = answers, settings, split, cautions
        self._first = np.zeros(0, dtype=np.intp)
        self._to_first = np.array([answer.to_first for answer in answers], dtype=bool)
        by = clustered_by(settings)
        names = (None if by is None else cluster_name(answer.event, by) for answer in answers)
        self._clusters = cluster_codes(names)
        self._checks = 1
        self._times_ms = np.array([to_milliseconds(answer.event.occurred_at) for answer in answers], dtype=np.int64)
        self._ticks_ms = np.array([ticks_ms.get(answer.event.pipeline, 0) for answer in answers], dtype=np.int64)

    def compared(self, confidence: float) -> list[Compared]:
        """Return the differences, none where the data contradict the split; the cautions say why."""
        if not self._is_divided():
            return []
        items = self._items_of(np.arange(len(self._answers)))
        self._first = np.array([places[0] for places in items], dtype=np.intp)
        if self._answers and not items:
            self._cautions.append("No cluster has ended yet (clusters.quiet_s).")
        if not self._has_share(self._to_first[self._first], "Of all items"):
            return []
        features = self._features()
        places: defaultdict[tuple[EstimateKey, str | None], list[int]] = defaultdict(list)
        for number, answer in enumerate(self._answers):
            for scope in scopes_of(answer.event, segments=self._settings.segments):
                for by in answer.scores:
                    places[by, scope].append(number)
        self._checks = max(len(places), 1)
        compared = (self._difference(*key, np.array(here), features, confidence) for key, here in places.items())
        return [comparison for comparison in compared if comparison is not None]

    def _items_of(self, here: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        if self._split.unit == "interaction":
            return list(here[:, None])
        own = self._settings.clusters
        members = sessions_as_items(
            self._clusters[here],
            self._times_ms[here],
            size=own.size,
            quiet_ms=round(1000 * own.quiet_s),
            ticks_ms=self._ticks_ms[here],
        )
        return [here[places] for places in members]

    def _has_share(self, to_first: NDArray[np.bool_], of: str) -> bool:
        if has_share(to_first, self._split.share, checks=self._checks):
            return True
        self._cautions.append(
            f"{of}: {to_first.mean():.1%} are of the first pipeline, and a coin of {self._split.share:.1%} does not "
            "explain that. Correct --share or --since, or find out why scores are missing."
        )
        return False

    def _is_divided(self) -> bool:
        split = self._split
        ids = [
            {answer.event.interaction_id for answer in self._answers if answer.to_first == side}
            for side in (True, False)
        ]
        both = len(ids[0] & ids[1])
        if both:
            self._cautions.append(f"Both pipelines answered {both:,} of the interactions: no coin divided these.")
            return False
        if split.unit == "cluster" and not np.any(self._clusters != BY_ITSELF):
            self._cautions.append("No interaction belongs to a cluster: set clusters.by, or throw --unit interaction.")
            return False
        if split.unit == "interaction" and not is_anew(self._to_first, self._clusters, split.share):
            self._cautions.append(
                "Answers of a session stay with a pipeline, so the coin is not thrown for each: give --unit cluster."
            )
            return False
        return True

    def _difference(
        self, by: EstimateKey, scope: str | None, here: NDArray[np.intp], features: Floats, confidence: float
    ) -> Compared | None:
        items = self._items_of(here)
        first = np.array([places[0] for places in items], dtype=np.intp)
        to_first = self._to_first[first]
        n = int(to_first.sum()), int((~to_first).sum())
        if not all(n) or by.holds_counts:
            return None
        if not self._has_share(to_first, f"Of the scores of {by.metric}" + ("" if scope is None else f" · {scope}")):
            return None
        values = np.zeros(len(self._answers))
        values[here] = [self._answers[number].scores[by] for number in here.tolist()]
        scores = means_of(values, items)
        gap = split_difference(to_first, scores, features[first], share=self._split.share, confidence=confidence)
        lowest, highest = by.value_range
        width = highest - lowest
        return Compared(
            by._replace(segment=scope),
            n=n,
            means=(
                lowest + width * float(scores[to_first].mean()),
                lowest + width * float(scores[~to_first].mean()),
            ),
            difference=Interval(*(width * float(end[0]) for end in (gap.estimate, gap.lower, gap.upper))),
            method="randomized",
            strategy="randomized",
        )

    def _features(self) -> Floats:
        names = self._split.covariates
        segments = sum(name.startswith(SEGMENT) for name in names)
        places = MOST_FEATURES - (len(names) - segments)
        if places < segments:
            raise ConfigurationError(f"{len(names)} covariates are too many: name at most {MOST_FEATURES}")
        columns = [np.zeros((len(self._answers), 0))]
        for name in dict.fromkeys(names):
            if name.startswith(SEGMENT):
                column = self._segment_column(name, places // segments)
            else:
                column = self._number_column(name)
            if is_balanced(self._to_first[self._first], column[self._first], self._split.share):
                columns.append(column)
            else:
                self._cautions.append(f"{name} depends on the pipeline, so it cannot be a covariate and is left out.")
        return np.concatenate(columns, axis=1)

    def _segment_column(self, name: str, most: int) -> Floats:
        segment = name.removeprefix(SEGMENT)
        known = sorted({segment for answer in self._answers for segment in answer.event.segments})
        if self._answers and segment not in known:
            raise ConfigurationError(unknown("segment", segment, known))
        return of_values([answer.event.segments.get(segment) for answer in self._answers], most)

    def _number_column(self, name: str) -> Floats:
        known = sorted({covariate for answer in self._answers for covariate in answer.event.covariates or ()})
        if self._answers and name not in known:
            raise ConfigurationError(unknown("covariate", name, known))
        return of_numbers(np.array([(answer.event.covariates or {}).get(name, np.nan) for answer in self._answers]))
