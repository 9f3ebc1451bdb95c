"""Estimates from rows that were drawn from known answers: what they stand for, and their weighted means. No I/O."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose, nan
from typing import Any

import numpy as np

from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.events.values import estimate_key, parts_of
from ragtide_aggregator.statistics.intervals.asymptotic import enough_to_count
from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_aggregator.statistics.means.stratified import (
    STRATIFIED,
    DrawnFrom,
    RowWeights,
    draw_of,
    stratified_difference,
    stratified_mean,
)
from ragtide_aggregator.statistics.tables.batches import Floats
from ragtide_schemas import Estimate, InvalidEntryError, MetricEvent, definition_of
from ragtide_schemas.drawn import DrawRecord
from ragtide_schemas.estimate import Share
from ragtide_schemas.known_labelers import certain_band
from ragtide_schemas.limits import PROBABILITY_MIN


def drawn_from(row: DrawRecord, sampling_probability: float) -> DrawnFrom:
    """Return how a row was drawn, for its weight.

    Args:
        row: as the row says it.
        sampling_probability: of the row: that of its source times that of the draw. A row that has lost it has 1.
    """
    kept = min(sampling_probability / row.probability, 1.0)
    return DrawnFrom((row.draw or "", row.stratum, row.of), row.rows, row.probability, kept)


@dataclass(frozen=True, slots=True)
class WeightedRows:
    """The drawn rows of a data set, in the order of their strata."""

    ids: Sequence[str]
    """Interaction id of each row."""
    weights: RowWeights
    rows: Sequence[DrawRecord]
    by_hand: int = 0
    """Number of rows beside them that were put in by hand."""

    @classmethod
    def of(cls, rows: Mapping[str, tuple[DrawRecord, float]], by_hand: int = 0) -> "WeightedRows":
        """Return the set of rows, given how each was drawn and its sampling probability, by id."""
        named = sorted(rows.items())
        order, draw = draw_of([drawn_from(*row) for _, row in named])
        return cls([named[place][0] for place in order], draw, [named[place][1][0] for place in order], by_hand)

    @property
    def sentence(self) -> str:
        """What the estimates stand for."""
        return self.weights.sentence(self.by_hand)

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as values that JSON can hold."""
        return {"rows": len(self.ids), "answers": round(self.weights.stands_for, 6), "by_hand": self.by_hand}

    def values(self, scores: Mapping[str, float], value_range: tuple[float, float]) -> Floats:
        """Return scores by id as values in [0, 1] in the order of the rows; nan where a row has none."""
        lowest, highest = value_range
        array = np.array([scores.get(name, nan) for name in self.ids])
        return np.asarray(np.clip((array - lowest) / (highest - lowest), 0.0, 1.0))

    def gaps(self, metric: str, width: float) -> Floats | None:
        """Return what was known of each row before (`stratified_mean`); None if nothing was.

        A row without a known score counts as the mean of its stratum.
        """
        known = [row.gap(metric) for row in self.rows]
        return np.array([(gap or 0.0) / width for gap in known]) if any(gap is not None for gap in known) else None

    def mean(
        self, scores: Mapping[str, float], metric: str, value_range: tuple[float, float], *, confidence: float,
        counts: bool = False,
    ) -> Interval[float | None, float | None]:  # fmt: skip
        """Return the mean of the traffic with its interval, in the unit of the metric.

        Args:
            scores: by id of the row; other ids do not count.
            metric: name of the metric.
            value_range: of its scores.
            confidence: level of the interval.
            counts: whether the scores are counts, whose interval is unknown while few of them are not 0.
        """
        lowest, highest = value_range
        width, values = highest - lowest, self.values(scores, value_range)
        known = values[~np.isnan(values)]
        if not known.size:
            return Interval(None, lowest, highest)
        gaps = self.gaps(metric, width)
        mean = stratified_mean(values, self.weights, confidence=confidence, counts=counts, known=gaps)
        estimate, lower, upper = (lowest + width * float(part) for part in (mean.estimate, mean.lower, mean.upper))
        if counts and not enough_to_count(known.mean(), known.size, known.var()):
            return Interval(estimate, None, None)
        return Interval(estimate, lower, upper)

    def difference(
        self, first: Mapping[str, float], second: Mapping[str, float], value_range: tuple[float, float], *,
        confidence: float, counts: bool = False,
    ) -> tuple[int, tuple[float, float], Interval[float, float]] | None:  # fmt: skip
        """Return the number of rows with both scores, both means, and the mean of first - second with its interval.

        None without such a row. Arguments are those of `mean`.
        """
        a, b = self.values(first, value_range), self.values(second, value_range)
        both = ~(np.isnan(a) | np.isnan(b))
        if not both.any():
            return None
        a, b = np.where(both, a, nan), np.where(both, b, nan)
        gap = stratified_difference(a, b, self.weights, confidence=confidence, counts=counts)
        lowest, width, weights = value_range[0], value_range[1] - value_range[0], self.weights.weights[both]
        of_first, of_second = (lowest + width * float(np.average(values[both], weights=weights)) for values in (a, b))
        ends = (width * float(end) for end in (gap.estimate, gap.lower, gap.upper))
        return int(both.sum()), (of_first, of_second), Interval(*ends)


@dataclass(slots=True)
class TrafficScores:
    """The scores of drawn rows by key and id."""

    rows: dict[str, tuple[DrawRecord, float]] = field(default_factory=dict)
    of: defaultdict[EstimateKey, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    scored: defaultdict[tuple[str, str | None], set[str]] = field(default_factory=lambda: defaultdict(set))
    """Ids of the rows of each pipeline and run."""

    def add(self, event: MetricEvent) -> None:
        """Add the scores of an event; a refused event, and a row without a draw, add nothing."""
        if event.drawn is None:
            return
        try:
            parts = parts_of(event)
        except InvalidEntryError:
            return
        self.rows.setdefault(event.interaction_id, (event.drawn, event.sampling_probability))
        self.scored[event.pipeline, event.run].add(event.interaction_id)
        for part in (part.event for part in parts):
            for metric, score in part.scores.items():
                self.of[estimate_key(part, None, metric)].setdefault(event.interaction_id, score)

    def weighted(self, estimate: Estimate, drawn: WeightedRows) -> Estimate:
        """Return an estimate of the mean of a whole pipeline with the numbers of the traffic; others as they are."""
        key = EstimateKey.of(estimate)
        scores = self.of.get(key)
        if scores is None or estimate.estimator != "mean" or estimate.segment is not None:
            return estimate
        level, value_range = estimate.confidence, key.value_range
        mean = drawn.mean(scores, key.metric, value_range, confidence=level, counts=key.holds_counts)
        value = mean.estimate
        if value is not None and estimate.estimate is not None and isclose(value, estimate.estimate, rel_tol=1e-9):
            value = estimate.estimate  # rounded once, as that of a file without weights
        asked = {name: float(name in scores) for name in self.scored[key.pipeline, key.run]}
        definition = definition_of(key.metric, None)
        shares = []
        for share in estimate.distribution:
            at = {name: float(score <= share.upto + 1e-12) for name, score in scores.items()}
            ends = drawn.mean(at, "", (0.0, 1.0), confidence=level)
            shares.append(Share(upto=share.upto, share=ends.estimate, lower=ends.lower, upper=ends.upper))
        return estimate.model_copy(
            update={
                "estimate": value,
                "lower": mean.lower,
                "upper": mean.upper,
                "strategy": STRATIFIED,
                "anytime_valid": False,
                "coverage": drawn.mean(asked, "", (0.0, 1.0), confidence=level).estimate,
                "distribution": tuple(shares),
                "band": certain_band(definition, key.labeler, (mean.lower, mean.estimate, mean.upper)),
                "n_effective": None,
                "design_effect": None,
                "n_clusters": None,
            }
        )


def scores_of_drawn(events: Iterable[MetricEvent]) -> TrafficScores:
    """Return the scores of the drawn rows among events."""
    scores = TrafficScores()
    for event in events:
        scores.add(event)
    return scores


def with_probabilities(events: Sequence[MetricEvent], drawn: WeightedRows) -> list[MetricEvent]:
    """Return events of drawn rows with the probability of each row, also where rows of its stratum are missing now."""
    weights = dict(zip(drawn.ids, drawn.weights.weights.tolist(), strict=True))
    return [
        event.model_copy(update={"sampling_probability": max(1 / weights[event.interaction_id], PROBABILITY_MIN)})
        for event in events
        if event.interaction_id in weights
    ]
