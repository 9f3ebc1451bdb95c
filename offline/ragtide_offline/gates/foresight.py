"""Says before a gate runs what it can see: with which probability a fall fails it. No I/O.

The gate is simulated: rows are drawn again from those that are known, within their strata, a part of them falls, and
the gate's own interval and condition decide. So the numbers hold for any interval, paired or not, weighted or not.
Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, section 25.4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil, isnan
from typing import Any, Final

import numpy as np

from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_aggregator.statistics.means.moments import Moments, MomentTable
from ragtide_aggregator.statistics.means.strategies import moments_interval
from ragtide_aggregator.statistics.means.stratified import RowWeights, stratified_difference, stratified_mean
from ragtide_aggregator.statistics.tables.batches import Floats, Rows
from ragtide_producers.files.items import Item
from ragtide_schemas import definition_of
from ragtide_schemas.drawn import PROVENANCE
from ragtide_schemas.metrics import Kind

from ..score.drawn import WeightedRows
from .conditions import COUNTS, DIFFERENCE, WITH_INTERVAL, Condition, split_name

FALLS: Final = (0.05, 0.03)
"""Falls of which a gate speaks, as parts of the metric's range."""

WANTED: Final = 0.9
"""Probability with which a fall is to be found."""

SIMULATIONS: Final = 2_000
"""Simulated gates for a probability: its standard error is at most 0.011."""

ROUGH: Final = 500
"""The same while a number of rows is sought."""

MOST_TIMES: Final = 64
"""Most times as many rows as there are that are tried."""

STORED: Final = "the scores stored in the rows"
BASELINE: Final = "the baseline"
WORST: Final = "the worst case, because no scores of the rows are known"
PAIRS: Final = "the scores stored in the rows and the baseline"
ONE_SIDE: Final = "the worst case for pairs, because only one score of each row is known"


@dataclass(frozen=True, slots=True)
class Foresight:
    """With which probability a gate finds a fall."""

    condition: str
    metric: str
    rows: int
    """Rows with a score, as far as known."""
    found: Sequence[tuple[float, float]]
    """Falls, in the unit of the metric, with the probability that the gate fails."""
    known_from: str
    """Where the spread of the scores is known from."""
    beyond: str
    """What a fall is counted from, in words."""
    wanted: float
    """Probability with which the first fall is to be found."""
    rows_needed: int | None
    """About how many rows find the first fall with it; None if no number that was tried does."""

    @property
    def sentence(self) -> str:
        """What the gate can see, in words."""
        fall, chance = self.found[0]
        others = "".join(f", of {size:g} with {share:.0%}" for size, share in self.found[1:])
        change = "rise" if ">" in self.condition else "fall"
        sentence = (
            f"with these {self.rows:,} rows a {change} of {fall:g} in {self.metric} {self.beyond} is found with "
            f"{chance:.0%}{others} (spread: {self.known_from})"
        )
        if chance >= self.wanted:
            return sentence
        if self.rows_needed is None:
            return f"{sentence}; even {MOST_TIMES} times as many rows do not find {fall:g} with {self.wanted:.0%}"
        more = self.rows_needed - self.rows
        return f"{sentence}; about {more:,} more rows find {fall:g} with {self.wanted:.0%}"

    def as_dict(self) -> dict[str, Any]:
        """Return the foresight as values that JSON can hold."""
        return {**asdict(self), "found": [list(pair) for pair in self.found], "sentence": self.sentence}


@dataclass(frozen=True, slots=True)
class KnownScores:
    """What is known of rows before a gate runs: scores by metric and id."""

    ids: Sequence[str]
    """Ids of the rows that will be scored."""
    stored: Mapping[str, Mapping[str, float]]
    """Scores that are stored in the rows."""
    before: Mapping[str, Mapping[str, float]]
    """Scores of the baseline."""
    traffic: WeightedRows | None = None
    """The drawn rows among them: only these count then."""


@dataclass(frozen=True, slots=True)
class SampledRows:
    """The rows of a gate: their weights, and known values in [0, 1] in the order of the strata."""

    weights: RowWeights
    is_drawn: bool
    now: Floats | None
    before: Floats | None
    known_from: str


def known_of_items(items: Sequence[Item], labeler: str) -> KnownScores | None:
    """Return what is known of the items of an experiment; None unless some are drawn rows.

    Those of another data set are all known in the end, so that an experiment finds any fall in them.
    """
    drawn = {item.item_id: (item.drawn, item.sampling_probability) for item in items if item.drawn is not None}
    if not drawn:
        return None
    stored: dict[str, dict[str, float]] = {}
    for item in items:
        for metric, score in stored_scores(item.metadata, labeler).items():
            stored.setdefault(metric, {})[item.item_id] = score
    return KnownScores(list(drawn), stored, {}, WeightedRows.of(drawn))


def stored_scores(
    metadata: Mapping[str, Any], labeler: str, gold_scores: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the scores that a row has stored: those of a labeler, if the row has any of it.

    Args:
        metadata: of the row.
        labeler: name of the labeler that will score.
        gold_scores: of the row, if there are any.
    """
    origin = metadata.get(PROVENANCE)
    origin = origin if isinstance(origin, Mapping) else {}
    drawn = origin.get("drawn")
    named = [(drawn.get("labeler"), drawn.get("scores"))] if isinstance(drawn, Mapping) else []
    listed = origin.get("labelings")
    labelings = [part for part in listed if isinstance(part, Mapping)] if isinstance(listed, list) else []
    named += [(part.get("labeler"), part.get("scores")) for part in labelings]
    scores = dict(gold_scores or {})
    for _, values in sorted(named, key=lambda one: one[0] == labeler):  # its own scores replace those of others
        if isinstance(values, Mapping):
            scores |= {str(name): float(value) for name, value in values.items() if isinstance(value, int | float)}
    return scores


def foresee(
    condition: Condition,
    known: KnownScores,
    *,
    metrics: Sequence[str],
    strategy: str,
    confidence: float,
    falls: Sequence[float] = FALLS,
    wanted: float = WANTED,
) -> Foresight | None:
    """Return what a condition can see; None of one that no fall decides, such as of a count.

    Args:
        condition: of the gate.
        known: what is known of the rows.
        metrics: names of the metrics.
        strategy: method of the gate's intervals of means; rows that were drawn have their own.
        confidence: level of the gate's intervals.
        falls: parts of the metric's range, the first of which is wanted.
        wanted: probability with which it is to be found, in (0, 1).
    """
    metric, field = split_name(condition.name, metrics, certain=False)
    definition = definition_of(metric, None)
    lowest, highest = (0.0, 1.0) if definition is None else (definition.lower, definition.upper)
    counts = definition is not None and definition.kind is Kind.DISTRIBUTIVE
    if field in COUNTS or metric.startswith("rmse.") or counts:
        return None
    paired = field.partition(".")[0] == DIFFERENCE
    width = highest - lowest
    rows = _sampled(known, metric, (lowest, highest), paired=paired)
    if rows is None:
        return None
    gate = _Gate(condition, field, (lowest, width), strategy, confidence)
    chances = [gate.chance(rows, fall, SIMULATIONS) for fall in falls]
    needed = int(rows.weights.weights.size)
    if chances[0] < wanted:
        found = _times(gate, rows, falls[0], wanted)
        rows_needed = None if found is None else max(ceil(found * needed), needed + 1)
    else:
        rows_needed = needed
    if paired and not condition.threshold:
        beyond = "against the baseline"
    else:
        end = f"{'above' if gate.rises else 'below'} {condition.threshold:g}"
        beyond = f"against the baseline, {end}" if paired else end
    pairs = list(zip([width * fall for fall in falls], chances, strict=True))
    return Foresight(condition.text, metric, needed, pairs, rows.known_from, beyond, wanted, rows_needed)


def _sampled(known: KnownScores, metric: str, value_range: tuple[float, float], *, paired: bool) -> SampledRows | None:
    traffic = known.traffic
    ids = known.ids if traffic is None else traffic.ids
    if not len(ids):
        return None
    weights = RowWeights.of([len(ids)], [len(ids)]) if traffic is None else traffic.weights

    def values(scores: Mapping[str, float]) -> Floats | None:
        lowest, highest = value_range
        array = np.array([(scores.get(name, np.nan) - lowest) / (highest - lowest) for name in ids])
        return np.clip(array, 0.0, 1.0) if np.isfinite(array).sum() >= 2 else None

    stored, before = (values(side.get(metric, {})) for side in (known.stored, known.before))
    both = None
    if stored is not None and before is not None:
        both = ~(np.isnan(stored) | np.isnan(before))
    if paired and both is not None and both.sum() >= 2:
        has, sides, source = both, (stored, before), PAIRS
    elif stored is not None or before is not None:
        only = before if stored is None else stored
        has = ~np.isnan(only) if only is not None else np.zeros(0, dtype=bool)
        source = ONE_SIDE if paired else (STORED if stored is not None else BASELINE)
        sides = (None, only) if paired else (only, None)
    else:
        return SampledRows(weights, traffic is not None, None, None, WORST)
    counts = np.add.reduceat(has.astype(np.intp), weights.starts)
    now, then = (None if side is None else side[has] for side in sides)
    return SampledRows(weights.resized(counts), traffic is not None, now, then, source)


def _times(gate: "_Gate", rows: SampledRows, fall: float, wanted: float) -> float | None:
    low, high = 1.0, 2.0
    while gate.chance(rows, fall, ROUGH, times=high) < wanted:
        low, high = high, 2 * high
        if high > MOST_TIMES:
            return None
    for _ in range(5):
        middle = (low + high) / 2
        if gate.chance(rows, fall, ROUGH, times=middle) < wanted:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True, slots=True)
class _Gate:
    """The interval and the decision of a gate on one metric."""

    condition: Condition
    field: str
    scale: tuple[float, float]
    """Lowest value and width of the range."""
    strategy: str
    confidence: float

    @property
    def rises(self) -> bool:
        """Whether the condition is on a rise."""
        return ">" in self.condition.operator

    @property
    def paired(self) -> bool:
        """Whether it is on a difference."""
        return self.field.partition(".")[0] == DIFFERENCE

    def chance(self, rows: SampledRows, fall: float, simulations: int, times: float = 1.0) -> float:
        """Return the probability that the gate fails after a fall, a part of the range; equal calls give it again."""
        random = np.random.default_rng(60)
        old = rows.weights
        sizes = np.ceil(old.rows * times).astype(np.intp)
        weights = old if times == 1 else old.resized(sizes)
        places = self._again(old, sizes, simulations, random)
        lowest, width = self.scale
        moved = fall if self.rises else -fall
        if self.paired:
            moved += self.condition.threshold / width
            if rows.before is None:
                before = (random.random(places.shape) < 0.5).astype(np.float64)
                centre, now = 0.5, (random.random(places.shape) < 0.5).astype(np.float64)
            else:
                before, centre = rows.before[places], float(np.average(rows.before, weights=old.weights))
                # Nothing says that the scores of one row are alike in two versions, unless both are known.
                now = (
                    rows.before[self._again(old, sizes, simulations, random)] if rows.now is None else rows.now[places]
                )
            now = _moved_to(now, self._mean(now, weights), np.clip(centre + moved, 0.0, 1.0), random)
            ends = self._difference(now, before, weights, rows.is_drawn)
            return self._failing(ends, (0.0, width))
        target = float(np.clip((self.condition.threshold - lowest) / width + moved, 0.0, 1.0))
        if rows.now is None:
            now = (random.random(places.shape) < target).astype(np.float64)
        else:
            now = _moved_to(rows.now[places], float(np.average(rows.now, weights=old.weights)), target, random)
        return self._failing(self._ends(now, weights, rows.is_drawn), (lowest, width))

    def _mean(self, values: Floats, weights: RowWeights) -> float:
        return float(np.average(values.mean(axis=0), weights=weights.weights))

    def _again(self, old: RowWeights, sizes: Rows, simulations: int, random: np.random.Generator) -> Rows:
        parts = zip(old.starts.tolist(), old.rows.tolist(), sizes.tolist(), strict=True)
        again = [start + random.integers(n, size=(simulations, size)) for start, n, size in parts]
        return np.concatenate(again, axis=1)

    def _ends(self, values: Floats, weights: RowWeights, is_drawn: bool) -> Interval[Floats, Floats]:
        if is_drawn:
            return stratified_mean(values, weights, confidence=self.confidence)
        moments = _moments(values)
        return Interval(moments.mean, *moments_interval(self.strategy, moments, confidence=self.confidence))

    def _difference(self, now: Floats, before: Floats, weights: RowWeights, is_drawn: bool) -> Interval[Floats, Floats]:
        if is_drawn:
            return stratified_difference(now, before, weights, confidence=self.confidence)
        return paired_intervals(now, before, confidence=self.confidence)

    def _failing(self, ends: Interval[Floats, Floats], scale: tuple[float, float]) -> float:
        lowest, width = scale
        estimate, lower, upper = (lowest + width * part for part in (ends.estimate, ends.lower, ends.upper))
        if self.field in WITH_INTERVAL:
            decided = [
                self.condition.surely(*pair) is True for pair in zip(lower.tolist(), upper.tolist(), strict=True)
            ]
        else:
            of = {"mean": estimate, "lower": lower, "upper": upper}[self.field.rpartition(".")[2]]
            decided = [self.condition.holds(value) for value in of.tolist() if not isnan(value)]
        return float(np.mean(decided))


def paired_intervals(first: Floats, second: Floats, *, confidence: float) -> Interval[Floats, Floats]:
    """Return the means of first - second, which are in [0, 1], as `paired_difference` has them; shape (..., pairs)."""
    moments = _moments((first - second + 1) / 2)
    lower, upper = moments_interval("running", moments, confidence=confidence)
    return Interval(2 * moments.mean - 1, 2 * lower - 1, 2 * upper - 1)


def _moments(values: Floats) -> Moments:
    table = MomentTable()
    rows = np.array([table.add_row() for _ in range(len(values))], dtype=np.intp)
    table.update(np.repeat(rows, values.shape[1]), values.ravel())
    return table.read(rows)


def _moved_to(values: Floats, mean: float, target: float | np.floating[Any], random: np.random.Generator) -> Floats:
    """Return values of which a random part is 0, or 1, so that their mean is moved to a target."""
    to = float(target)
    share = 1 - to / mean if to < mean else (to - mean) / (1 - mean) if mean < 1 else 0.0
    return np.where(random.random(values.shape) < share, 0.0 if to < mean else 1.0, values)
