"""The numbers, means and trends of keys over all time, or in one window of event time. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas.metric_definitions import PEOPLES_METRICS

from ..events.keys import EstimateKey
from ..state.state import AggregatorState
from ..statistics.intervals.intervals import Interval
from ..statistics.means.closed_interval import closed_interval
from ..statistics.means.clustered_interval import clusters_used, design_effects
from ..statistics.means.moments import Moments, with_weights
from ..statistics.means.strategies import moments_interval, resolved
from ..statistics.tables.batches import Floats, Rows
from ..statistics.tables.names import ALL_TIME


@dataclass(frozen=True, slots=True)
class ScaledMean(Interval[float | None, float]):
    """A mean in [0, 1] with its interval; the mean is None without values."""

    strategy: str = ""
    """Strategy of this interval, if it differs from the requested strategy."""

    @property
    def is_unknown(self) -> bool:
        """Whether the interval is the whole range."""
        return self.lower <= 0 and self.upper >= 1

    def in_unit(self, lowest: float, highest: float) -> "ScaledMean":
        """Return the mean in the unit of a metric with this range."""
        width = highest - lowest
        estimate = None if self.estimate is None else lowest + width * self.estimate
        return ScaledMean(estimate, lowest + width * self.lower, lowest + width * self.upper, self.strategy)


@dataclass(frozen=True, slots=True)
class IntervalMethod:
    """Strategy and confidence level of intervals."""

    strategy: str
    confidence: float

    def shared_by(self, count: int) -> "IntervalMethod":
        """Return the method of each of `count` intervals that hold together at this confidence (Bonferroni)."""
        return IntervalMethod(self.strategy, 1 - (1 - self.confidence) / count)


@dataclass(frozen=True, slots=True)
class WindowSpan:
    """Start and end of a window, and the start of the window before it, in milliseconds of event time."""

    start_ms: int
    end_ms: int
    before_ms: int


class KeyNumbers(NamedTuple):
    """The numbers of one key in a view; means and ends are scaled to [0, 1]."""

    n: int
    mean: float
    m2: float
    minimum: float
    maximum: float
    recent: float
    n_absent: int
    n_processed: int | None
    n_late: int
    n_out_of_order: int
    updated_ms: int
    population_size: int | None
    design_effect: float | None
    n_clusters: int | None
    """Number of closed clusters; None where each value counts by itself."""
    mixed: bool
    """Whether the interactions were kept with different probabilities, so that the mean is weighted."""
    n_traffic: float | None
    """Number of values that the traffic would have without sampling; None if nothing was sampled."""
    n_effective: float | None
    n_waiting: int
    """Number of values in open clusters, which no interval counts yet; 0 in a window."""
    answers_known: bool = True
    """Whether `n_absent` counts all answers without a value: not of a metric of people where nothing counts answers."""

    @property
    def coverage(self) -> float | None:
        """Share of the interactions that have a value; None without any, and with different sampling probabilities.

        Absences are counted without weights, so their share in the traffic is not known then.
        """
        seen = self.n + self.n_absent
        return self.n / seen if seen and not self.mixed and self.answers_known else None

    @property
    def standard_deviation(self) -> float | None:
        """Sample standard deviation; None below two values."""
        return sqrt(self.m2 / (self.n - 1)) if self.n > 1 else None


@dataclass(frozen=True, slots=True)
class View:
    """All values of a state, or the values in one window."""

    state: AggregatorState
    name: str = ALL_TIME
    span: WindowSpan | None = None
    ongoing: bool = False
    """Whether a run of known size counts as a sample of ongoing traffic."""

    def moments(self, rows: Sequence[int]) -> Moments:
        """Return the moments of rows; means are weighted where interactions were kept with different probabilities."""
        return self._covered(rows)[0]

    def kept_moments(self, rows: Sequence[int]) -> Moments:
        """Return the moments of the values of rows as they were kept from the traffic, without weights."""
        return self._covered(rows, weighted=False)[0]

    def _covered(self, rows: Sequence[int], *, weighted: bool = True) -> tuple[Moments, Rows, Rows | None]:
        index = np.asarray(rows, dtype=np.intp)
        if self.span is None:
            moments = replace(self.state.moments.read(index), clusters=self.state.cluster_sums(index))
            moments = with_weights(self._waiting(index, moments), self.state.sampled(index) if weighted else None)
            return moments, self.state.rows.counts[0, index], None
        assert self.state.panes is not None  # noqa: S101 - for the type checker: there are windows
        covered = self.state.panes.covered(rows, self.span.start_ms, self.span.end_ms)
        moments = with_weights(self._waiting(index, covered.moments), covered.sampled if weighted else None)
        return moments, covered.n_absent, covered.n_processed

    def _waiting(self, rows: Rows, moments: Moments) -> Moments:
        clustered = self.state.clustered
        if moments.clusters is None or not clustered:
            return moments
        keys = self.state.keys
        known = np.array([(keys[row].pipeline, keys[row].run) in clustered for row in rows.tolist()], dtype=bool)
        return with_waiting(moments, known)

    def read(self, rows: Sequence[int]) -> "ViewNumbers":
        """Return the numbers of rows, read together."""
        index = np.asarray(rows, dtype=np.intp)
        moments, absent, processed = self._covered(rows)
        known = self.state.rows
        _, late, out_of_order = known.counts[:, index]
        sizes = known.population[index]
        whole_run = self.span is None and not self.ongoing
        columns: list[list[Any]] = [
            moments.n.tolist(),
            moments.mean.tolist(),
            moments.m2.tolist(),
            moments.minimum.tolist(),
            moments.maximum.tolist(),
            moments.recent.tolist(),
            absent.tolist(),
            [None] * index.size if processed is None else processed.tolist(),
            late.tolist(),
            out_of_order.tolist(),
            known.updated_ms[index].tolist(),
            [(size or None) if whole_run else None for size in sizes.tolist()],
            *self._dependence(index, moments),
        ]
        numbers = [KeyNumbers(*row) for row in zip(*columns, strict=True)]
        for place, answers in self._answers_of_people(rows).items():
            rated = numbers[place]
            numbers[place] = rated._replace(
                n_absent=0 if answers is None else max(answers - rated.n, 0), answers_known=answers is not None
            )
        # An interaction in which a metric was absent has been seen, and will never have a value.
        left = np.where(sizes > 0, sizes - absent, -1)
        return ViewNumbers(self, dict(zip(rows, range(len(rows)), strict=True)), numbers, moments, left)

    def _answers_of_people(self, rows: Sequence[int]) -> dict[int, int | None]:
        """Return the number of answers in the scope of each metric of people, by place; None if it is not known.

        A missing thumb is no event, so it is not counted as an absence: the answers without a thumb are all others.
        """
        keys = self.state.keys
        counted_by = {
            place: self.state.answers.of(keys[row])
            for place, row in enumerate(rows)
            if keys[row].metric in PEOPLES_METRICS
        }
        needed = list(dict.fromkeys(row for of_scope in counted_by.values() for row in of_scope))
        if not needed:
            return dict.fromkeys(counted_by)
        counts = dict(zip(needed, self.read(needed).numbers, strict=True))
        return {
            place: sum(counts[row].n for row in of_scope)
            if of_scope and not any(counts[row].mixed for row in of_scope)
            else None
            for place, of_scope in counted_by.items()
        }

    def _dependence(self, rows: Rows, moments: Moments) -> Iterator[list[Any]]:
        effects, weighted = self._design_effects(rows, moments), moments.weighted
        mixed = np.zeros(rows.shape, dtype=bool)
        traffic = np.full(rows.shape, np.nan)
        counted, waiting, clusters = moments.n, np.zeros_like(moments.n), moments.clusters
        if clusters is not None:
            counted = np.where(clusters.in_use, clusters.n, moments.n)
            # A cluster counts in the window of its last value, so a window may count values from before it.
            waiting = np.where(clusters.in_use & (self.span is None), moments.n - clusters.n, 0)
        n_effective = np.where(effects > 0, counted / np.fmax(effects, 1.0), np.nan)
        if weighted is not None:
            mixed, traffic = weighted.mixed, np.where(weighted.sampled, weighted.traffic, np.nan)
            counts = self.state.rows.count_unit[rows]
            of_weighted = weighted.intervals(confidence=0.5, counts=counts)  # no end of the interval is used
            effects = np.where(mixed & ~np.isnan(of_weighted.design_effect), of_weighted.design_effect, effects)
            single = np.isnan(of_weighted.design_effect)
            # The design effect of neighbours is not in the variance.
            effective = np.where(single, of_weighted.n_effective / np.fmax(effects, 1.0), of_weighted.n_effective)
            n_effective = np.where(mixed, effective, n_effective)
        n_effective = np.where(counted == 0, np.where(moments.n > 0, 0.0, np.nan), n_effective)
        for column in (effects, traffic, n_effective):
            column[~np.isfinite(column)] = np.nan
        yield _known(effects)
        yield clusters_used(moments)
        yield mixed.tolist()
        yield _known(traffic)
        yield _known(n_effective)
        yield waiting.tolist()

    def _design_effects(self, rows: Rows, moments: Moments) -> Floats:
        effects = design_effects(moments)
        if self.span is None:
            single = self.state.measures_dependence(rows)
            counts = 0 if moments.clusters is None else moments.clusters.count
            places = np.flatnonzero(single & (counts == 0))
            dependence = self.state.dependence(rows[places])
            if dependence is not None:
                effects[places] = dependence.design_effect
        return effects

    def before(self) -> "View | None":
        """Return the view of the window before this window; None for all time."""
        if self.span is None:
            return None
        start, end = self.span.before_ms, self.span.start_ms
        return View(self.state, self.name, WindowSpan(start, end, start))


def _known(column: Floats) -> list[float | None]:
    # NumPy's `isnan` takes ten times as long for one number.
    return [None if isnan(number) else number for number in column.tolist()]


@dataclass(frozen=True, slots=True)
class ViewNumbers:
    """The numbers of some rows in a view."""

    view: View
    places: dict[int, int]
    numbers: list[KeyNumbers]
    moments: Moments
    sizes: Rows
    """Size of each finite population without the interactions that will never have a value; -1 for ongoing traffic."""

    def of(self, row: int) -> KeyNumbers:
        """Return the numbers of a row."""
        return self.numbers[self.places[row]]

    def means(self, method: IntervalMethod) -> list[ScaledMean]:
        """Return the means of all rows with their intervals, in the order of the rows."""
        counts = self.view.state.rows.count_unit[np.fromiter(self.places, dtype=np.intp)]
        if self.view.span is not None or self.view.ongoing:
            population = np.full(len(self.numbers), np.nan)
        else:
            # A run with more values than announced is no sample of the announced population.
            population = np.where(self.sizes >= self.moments.n, self.sizes, np.nan)
        return scaled_means(self.moments, method, counts=counts, population=population)


def with_waiting(moments: Moments, clustered: NDArray[np.bool_]) -> Moments:
    """Return moments with those whose values are all in clusters that are still open.

    Args:
        moments: moments.
        clustered: whether the interactions of each count in clusters.
    """
    if moments.clusters is None:
        return moments
    return replace(moments, clusters=replace(moments.clusters, waiting=clustered & (moments.clusters.count == 0)))


def scaled_means(
    moments: Moments,
    method: IntervalMethod,
    *,
    counts: Floats,
    population: Floats,
    closed: NDArray[np.bool_] | None = None,
) -> list[ScaledMean]:
    """Return means with their intervals.

    Args:
        moments: of values in [0, 1]; values without a highest one get a mean, and an interval without meaning.
        counts: one on the scale of values that are counts, 0 for other values.
        population: size of each population of which the values are a sample; nan for ongoing traffic.
        closed: whether each is looked at once, when no value can follow; None for none.
    """
    # A quantity without a highest value, such as seconds, gets no interval, but its mean must be in range here.
    bounded = replace(moments, mean=np.clip(moments.mean, 0.0, 1.0))
    lower, upper = moments_interval(
        method.strategy, bounded, confidence=method.confidence, population=population, counts=counts
    )
    used = resolved(method.strategy, bounded, counts)
    if closed is not None and closed.any():
        once = closed_interval(bounded, confidence=method.confidence, counts=counts)
        lower, upper = np.where(closed, once[0], lower), np.where(closed, once[1], upper)
        used = np.where(closed, "wilson", used)
    columns = (moments.n.tolist(), moments.mean.tolist(), lower.tolist(), upper.tolist(), used.tolist())
    return [
        ScaledMean(mean if n else None, low, high, strategy)
        for n, mean, low, high, strategy in zip(*columns, strict=True)
    ]


class Trend(NamedTuple):
    """The mean in the window before, scaled to [0, 1], and the direction in which this window's mean differs."""

    previous: float | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class MeasuredView:
    """A view with the numbers, means and trends of its rows."""

    numbers: ViewNumbers
    keys: list[EstimateKey]
    """Key of every row of the state."""
    means: list[ScaledMean]
    trends: list[Trend]
    method: IntervalMethod

    @property
    def view(self) -> View:
        """The view of the numbers."""
        return self.numbers.view

    def mean_of(self, row: int) -> ScaledMean:
        """Return the mean of a row."""
        return self.means[self.numbers.places[row]]

    def trend_of(self, row: int, unscaled: Callable[[float], float]) -> dict[str, Any]:
        """Return the trend of a row as fields of an estimate; `unscaled` maps a mean to the metric's range."""
        previous, name = self.trends[self.numbers.places[row]]
        return {} if previous is None else {"previous": unscaled(previous), "trend": name}


def read_view(view: View, rows: list[int], method: IntervalMethod) -> MeasuredView:
    """Return a view with the numbers, means and trends of rows."""
    numbers, keys = view.read(rows), view.state.keys
    means = numbers.means(method)
    before = view.before()
    if before is None:
        return MeasuredView(numbers, keys, means, [Trend()] * len(rows), method)
    # Each window has half of alpha, so that both intervals hold together at the confidence.
    half = method.shared_by(2)
    pairs = zip(numbers.means(half), before.read(rows).means(half), strict=True)
    return MeasuredView(numbers, keys, means, [trend(now, past) for now, past in pairs], method)


def trend(now: ScaledMean, past: ScaledMean) -> Trend:
    """Return the trend of a mean against the mean in the window before."""
    if past.estimate is None or now.estimate is None:
        return Trend()
    name = "rising" if now.lower > past.upper else "falling" if now.upper < past.lower else "steady"
    return Trend(past.estimate, name)


def windows_of(state: AggregatorState, rows: Sequence[int]) -> Iterator[tuple[View, list[int]]]:
    """Yield each window with the rows whose newest interaction is in its last step."""
    if state.panes is None:
        return
    for window in state.panes.windows():
        by_span: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for row in rows:
            by_span[window.covering(state.newest_ms(state.keys[row]))].append(row)
        for (start, end), members in by_span.items():
            yield View(state, window.name, WindowSpan(start, end, start - window.size_ms)), members
