"""Means of a key over time with their intervals, pooled from panes of the history. No clock, no I/O."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import numpy as np

from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import from_milliseconds

from ..errors import reading
from ..events.keys import UNBOUNDED, EstimateKey, PairKey
from ..state.options import HistoryOptions
from ..state.pane_rows import PairPanes, PaneRows
from ..statistics.means.moments import Moments, with_weights
from ..statistics.pairs.prediction_powered import Everything, PairTable
from ..statistics.tables.batches import Rows
from .view import IntervalMethod, ScaledMean, scaled_means, with_waiting

_MULTIPLES: Final = (1, 2, 3, 4, 6, 8, 12, 24)
"""Numbers of coarse panes in a point, and then multiples of the last."""

VALUES_OF_A_CLUSTER: Final = 3
"""Values that a closed cluster counts as, at most, where neighbouring points are joined."""

GAPS_OF_A_RANGE: Final = 12
"""A stretch without a value that is longer than this part of the range is a gap, which no joined point holds."""

FINE: Final = 0
"""Place of the fine panes."""

COARSE: Final = 1
"""Place of the coarse panes."""


class TimeRange(NamedTuple):
    """A range of event time, in milliseconds, and the most points that it is divided into."""

    start_ms: int
    end_ms: int
    """Exclusive."""
    points_max: int
    """At least 1. One point covers exactly the panes that hold a part of the range, see `whole`."""
    coarse: bool = False
    """Whether a point is at least one coarse pane long."""
    joining: "Joining | None" = None
    """How neighbouring points are joined; None leaves them apart, each with the interval of a window."""
    whole: bool = False
    """Whether one point leaves out the pane that holds the start, unless it begins there: it has values from before."""


class Joining(NamedTuple):
    """How neighbouring points are joined, so that each has enough values for a narrow interval.

    The numbers of values decide where a joined point ends, and never their size. So its interval is valid at its n.
    """

    least_n: int
    """Values of a point, or three times its closed clusters where values count in clusters; at least 1."""
    apart_ms: tuple[int, ...] = ()
    """Times that begin a new point, such as of a change: no point holds values of panes before and after."""

    def groups(
        self, points: Sequence[int], counted: Sequence[int], apart: Collection[int], gap: int
    ) -> list[list[int]]:
        """Return the places of the points of each joined point, in the order of time.

        Points at the end of a stretch that are too few for one more joined point belong to the one before them.

        Args:
            points: rising numbers of the points.
            counted: number of values of each.
            apart: points that begin a new one.
            gap: most points without a value inside a joined point.
        """
        found: list[list[int]] = []
        first, n = 0, self.least_n  # joined points before the stretch, and number of values of the last one

        def end_stretch() -> None:
            if n < self.least_n and len(found) > first + 1:
                found[-2:] = [found[-2] + found[-1]]

        for place, point in enumerate(points):
            last = points[place - 1] if place else point
            if point - last > gap + 1 or any(last < time <= point for time in apart):
                end_stretch()
                first, n = len(found), self.least_n
            if n >= self.least_n:
                found.append([])
                n = 0
            found[-1].append(place)
            n += counted[place]
        end_stretch()
        return found


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """The mean of a stretch of event time, with its interval, in the unit of the metric."""

    start: datetime
    end: datetime
    """End of the stretch, exclusive."""
    n: int
    """Number of values, at least 1."""
    mean: float
    lower: float | None
    """Lower end of the interval; None for a quantity without a highest value, such as seconds."""
    upper: float | None
    open: bool
    """Whether later values may still count in it."""
    n_absent: int = 0
    """Number of interactions without a value: of a prediction-powered mean those to which the judge gave no score."""
    coverage: float | None = None
    """Share of the interactions that have a value: n of n and `n_absent`, or of a prediction-powered mean its estimate
    for all; None if it is not known."""


@dataclass(frozen=True, slots=True)
class History:
    """The history of one key in a range; stretches without a value have no point."""

    key: EstimateKey
    step: timedelta
    """Length of the stretch of each point that is not joined. Points begin at whole multiples of it since 1970; one
    point (`points_max=1`) begins with the pane that holds the start of the range."""
    points: tuple[HistoryPoint, ...]
    """In the order of time."""
    young: bool = False
    """Whether nothing is kept from before the range: its first value is the first of all."""


class SeriesPanes(NamedTuple):
    """The panes of a key in one partition."""

    clustered: bool
    """Whether the interactions of its pipeline count in clusters."""
    closed: tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]
    """Number and bytes of each closed pane: fine and coarse."""
    opened: tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]
    """The same for open panes."""

    def holds_from(self, start_ms: int, options: HistoryOptions) -> bool:
        """Return whether the fine panes hold everything that the coarse panes hold from a time on."""
        coarse = [pane for pane, _ in (*self.closed[COARSE], *self.opened[COARSE])]
        if not coarse:
            return True
        ratio = options.coarse_ms // options.fine_ms
        closed = [pane for pane, _ in self.closed[FINE]]
        first = min(closed, default=(max(coarse) + 1) * ratio)
        if start_ms >= first * options.fine_ms:
            return True
        # Of the first coarse pane the first fine panes may be gone already.
        return len(closed) < options.fine_kept and min(coarse) >= first // ratio


def step_of(span: TimeRange, options: HistoryOptions, *, coarse: bool) -> int:
    """Return the milliseconds of a point: the least whose points cover a range with at most `points_max` of them.

    A step is a divisor of a coarse pane, or a whole number of coarse panes. Points of a longer step are therefore
    points of a shorter one, taken together.

    Args:
        span: the range, and the most points.
        options: lengths of panes.
        coarse: whether a point is at least one coarse pane long.
    """
    start_ms, end_ms, points_max = span[:3]

    def fits(step_ms: int) -> bool:
        return (end_ms - 1) // step_ms - start_ms // step_ms < points_max

    ratio = options.coarse_ms // options.fine_ms
    for divisor in () if coarse else range(1, ratio):
        if ratio % divisor == 0 and fits(divisor * options.fine_ms):
            return divisor * options.fine_ms
    for multiple in _MULTIPLES:
        if fits(multiple * options.coarse_ms):
            return multiple * options.coarse_ms
    longest = _MULTIPLES[-1] * options.coarse_ms
    step_ms = max(longest, -(-(end_ms - start_ms) // points_max // longest) * longest)
    while not fits(step_ms):
        step_ms += longest
    return step_ms


class PointGrid(NamedTuple):
    """The stretches of event time that points cover, in milliseconds."""

    origin_ms: int
    """Start of the stretch with the number 0."""
    step_ms: int
    pane_ms: int
    """Length of the longest panes that fit into the stretches."""
    first: int
    """Number of the first stretch."""
    last: int

    @property
    def start_ms(self) -> int:
        """Start of the first stretch."""
        return self.origin_ms + self.first * self.step_ms

    def point_of(self, start_ms: int) -> int:
        """Return the number of the stretch that holds a time."""
        return (start_ms - self.origin_ms) // self.step_ms


def grid_of(span: TimeRange, options: HistoryOptions, *, coarse: bool) -> PointGrid:
    """Return the stretches of a range.

    Args:
        span: the range, and the most points.
        options: lengths of panes.
        coarse: whether a point is at least one coarse pane long.
    """
    pane_ms = options.coarse_ms if coarse else options.fine_ms
    if span.points_max == 1:
        start_ms = (-(-span.start_ms // pane_ms) if span.whole else span.start_ms // pane_ms) * pane_ms
        length_ms = -(-span.end_ms // pane_ms) * pane_ms - start_ms
        if length_ms <= 0:
            return PointGrid(start_ms, pane_ms, pane_ms, 0, -1)
        return PointGrid(start_ms, length_ms, pane_ms, 0, 0)
    step_ms = step_of(span, options, coarse=coarse)
    pane_ms = options.coarse_ms if step_ms >= options.coarse_ms else options.fine_ms
    return PointGrid(0, step_ms, pane_ms, span.start_ms // step_ms, (span.end_ms - 1) // step_ms)


class _PanesOfKey(NamedTuple):
    """The panes of one key, by the point that holds them."""

    key: EstimateKey | PairKey
    grid: PointGrid
    clustered: bool
    by_point: dict[int, list[tuple[int, bytes]]]
    opened: set[int]
    """Points that later values may still count in."""
    older: set[int]
    """Points before the range that have panes."""


def _grid(lists: Sequence[SeriesPanes], span: TimeRange, options: HistoryOptions) -> PointGrid:
    """Return the stretches of a range: of the finest panes that reach back to its start."""
    grid = grid_of(span, options, coarse=span.coarse)
    if grid.pane_ms < options.coarse_ms and not all(series.holds_from(grid.start_ms, options) for series in lists):
        return grid_of(span, options, coarse=True)
    return grid


def _panes_of(
    key: EstimateKey | PairKey, lists: Sequence[SeriesPanes], grid: PointGrid, options: HistoryOptions
) -> _PanesOfKey:
    found = _PanesOfKey(key, grid, any(series.clustered for series in lists), {}, set(), set())

    def take(panes: Sequence[tuple[int, bytes]], length_ms: int, *, still_open: bool) -> None:
        for pane, data in panes:
            point = grid.point_of(pane * length_ms)
            if grid.first <= point <= grid.last:
                found.by_point.setdefault(point, []).append((pane, data))
                if still_open:
                    found.opened.add(point)
            elif point < grid.first:
                found.older.add(point)

    for series in lists:
        if grid.pane_ms < options.coarse_ms:
            take(series.closed[FINE], options.fine_ms, still_open=False)
        else:
            take(series.closed[COARSE], options.coarse_ms, still_open=False)
            # An open coarse pane holds the fine panes of it that are closed.
            take(series.opened[COARSE], options.coarse_ms, still_open=True)
        take(series.opened[FINE], options.fine_ms, still_open=True)
    return found


def histories(
    keys: Sequence[tuple[EstimateKey, Sequence[SeriesPanes]]],
    span: TimeRange,
    *,
    options: HistoryOptions,
    method: IntervalMethod,
) -> list[History]:
    """Return the histories of keys in a range, computed together.

    Args:
        keys: each with its panes in each partition.
        span: the range, and the most points.
        options: which panes are kept.
        method: of the intervals.

    Raises:
        DamagedFieldError: a pane cannot be read.
    """
    every = [_panes_of(key, lists, _grid(lists, span, options), options) for key, lists in keys]
    points: list[list[HistoryPoint]] = [[] for _ in every]
    loaded = _loaded(every)
    moments = loaded.moments(every)
    closed = np.zeros(moments.n.shape, dtype=bool)
    if span.joining is not None:
        loaded = _joined(loaded, every, moments, span.joining)
        moments = loaded.moments(every)
        closed = np.array([every[owner.number].opened.isdisjoint(owner.points) for owner in loaded.owners], dtype=bool)
    if loaded.owners:
        counts = np.array([keys[owner.number][0].holds_counts for owner in loaded.owners], dtype=bool)
        means = scaled_means(moments, method, counts=counts, population=np.full(len(counts), np.nan), closed=closed)
        n_absent = loaded.absent().tolist()
        for owner, n, absent, mean in zip(loaded.owners, moments.n.tolist(), n_absent, means, strict=True):
            if mean.estimate is not None:
                key, panes = keys[owner.number][0], every[owner.number]
                counted = _Counted(n, absent, n / (n + absent))
                points[owner.number].append(_point(key, panes, owner, counted, mean))
    return [
        History(key, timedelta(milliseconds=panes.grid.step_ms), tuple(of_key), young=not panes.older)
        for (key, _), panes, of_key in zip(keys, every, points, strict=True)
    ]


class _PointStretches(NamedTuple):
    """The key of a point, and the stretches that it covers."""

    number: int
    """Place of the key."""
    points: tuple[int, ...]
    """Numbers of its stretches that have panes, rising."""
    end: int
    """Number after its last stretch."""


class _PanesOfPoints(NamedTuple):
    """The panes of points of keys, as rows."""

    rows: PaneRows
    groups: list[list[tuple[int, int]]]
    """Row and number of the panes of each point."""
    owners: list[_PointStretches]

    def moments(self, every: Sequence[_PanesOfKey]) -> Moments:
        """Return the moments of all points."""
        pooled = self.rows.pooled(self.groups)
        clustered = np.array([every[owner.number].clustered for owner in self.owners], dtype=bool)
        return with_weights(with_waiting(pooled.moments, clustered), pooled.sampled)

    def absent(self) -> Rows:
        """Return in how many interactions of each point the metric is absent."""
        return self.rows.absent(self.groups)


def _loaded(every: Sequence[_PanesOfKey]) -> _PanesOfPoints:
    """Return the panes of all points of keys."""
    found, count = _PanesOfPoints(PaneRows(), [], []), 0
    for number, panes in enumerate(every):
        loaded: list[tuple[int, int, bytes]] = []
        for point in sorted(panes.by_point):
            of_point = [(count + len(loaded) + place, *pane) for place, pane in enumerate(panes.by_point[point])]
            loaded += of_point
            found.groups.append([(row, pane) for row, pane, _ in of_point])
            found.owners.append(_PointStretches(number, (point,), point + 1))
        count += len(loaded)
        with reading(f"{CheckpointField.HISTORY_SERIES}{panes.key.encode()}"):
            found.rows.load_panes(loaded, clustered=panes.clustered)
    return found


def _joined(single: _PanesOfPoints, every: Sequence[_PanesOfKey], moments: Moments, joining: Joining) -> _PanesOfPoints:
    """Return the panes of the joined points, given those of single points and their moments."""
    counted = moments.n
    if moments.clusters is not None:
        of_clusters = VALUES_OF_A_CLUSTER * moments.clusters.count
        counted = np.where(moments.clusters.in_use, np.minimum(of_clusters, counted), counted)
    found = _PanesOfPoints(single.rows, [], [])
    places: list[list[int]] = [[] for _ in every]
    for place, owner in enumerate(single.owners):
        # A stretch with absences only has no value.
        if moments.n[place]:
            places[owner.number].append(place)
    for number, (panes, of_key) in enumerate(zip(every, places, strict=True)):
        grid = panes.grid
        gap = (grid.last - grid.first + 1) // GAPS_OF_A_RANGE
        numbers = [single.owners[place].points[0] for place in of_key]
        apart = {grid.point_of(time_ms) for time_ms in joining.apart_ms}
        groups = joining.groups(numbers, [int(counted[place]) for place in of_key], apart, gap)
        firsts = [numbers[group[0]] for group in groups]
        for group, after in zip(groups, [*firsts, None][1:], strict=True):
            of_group = tuple(numbers[place] for place in group)
            end = of_group[-1] + 1
            # The stretches without a value that are no gap belong to the point before them.
            joined_end = after if after is not None and after - end <= gap else end
            found.groups.append([pane for place in group for pane in single.groups[of_key[place]]])
            found.owners.append(_PointStretches(number, of_group, joined_end))
    return found


def powered_numbers(
    pairs: Sequence[tuple[PairKey, Sequence[SeriesPanes], Sequence[SeriesPanes]]],
    span: TimeRange,
    *,
    options: HistoryOptions,
    method: IntervalMethod,
) -> dict[PairKey, HistoryPoint]:
    """Return the prediction-powered means of a range of one point.

    A mean is left out without pairs in the range, or where the proxy scores were kept with different probabilities.

    Args:
        pairs: each with the panes of its proxy scores and its own, in each partition.
        span: the range; `points_max` is 1.
        options: which panes are kept.
        method: of the intervals.

    Raises:
        DamagedFieldError: a pane cannot be read.
    """
    found: dict[PairKey, HistoryPoint] = {}
    for key, of_proxy, of_pairs in pairs:
        grid = _grid(of_proxy, span, options)
        proxies, paired = (_panes_of(key, lists, grid, options) for lists in (of_proxy, of_pairs))
        loaded = _loaded([proxies])
        moments = loaded.moments([proxies])
        weighted = moments.weighted
        if not loaded.owners or not paired.by_point or (weighted is not None and bool(weighted.mixed[0])):
            continue
        panes, stored = PairPanes(), next(iter(paired.by_point.values()))
        with reading(f"{CheckpointField.HISTORY_SERIES}{key.encode()}"):
            for row, (pane, data) in enumerate(stored):
                panes.load(row, pane, data)
        if paired.clustered:
            single = [row for row, (_, data) in enumerate(stored) if len(data) == PairTable.bytes_in(data)]
            panes.begin_clusters(single)
        rows = [(row, pane) for row, (pane, _) in enumerate(stored)]
        everything = Everything(moments, loaded.absent().astype(np.float64))
        numbers = panes.pooled(rows, everything, confidence=method.confidence)
        if not numbers.n[0]:
            continue
        mean = ScaledMean(float(numbers.estimate[0]), float(numbers.lower[0]), float(numbers.upper[0]))
        counted = _Counted(int(numbers.n[0]), int(numbers.n_absent[0]), float(numbers.coverage[0]))
        found[key] = _point(key.reference, proxies, loaded.owners[0], counted, mean)
    return found


class _Counted(NamedTuple):
    """How many interactions have a value, how many have none, and the share of the first."""

    n: int
    n_absent: int
    coverage: float


def _point(
    key: EstimateKey, panes: _PanesOfKey, owner: _PointStretches, counted: _Counted, mean: ScaledMean
) -> HistoryPoint:
    grid, unbounded = panes.grid, key.metric in UNBOUNDED
    lowest, highest = (0.0, 1.0) if unbounded else key.value_range
    width = highest - lowest
    assert mean.estimate is not None  # noqa: S101 - for the type checker
    return HistoryPoint(
        start=from_milliseconds(grid.origin_ms + owner.points[0] * grid.step_ms),
        end=from_milliseconds(grid.origin_ms + owner.end * grid.step_ms),
        n=counted.n,
        mean=lowest + width * mean.estimate,
        lower=None if unbounded else lowest + width * mean.lower,
        upper=None if unbounded else lowest + width * mean.upper,
        open=not panes.opened.isdisjoint(owner.points),
        n_absent=counted.n_absent,
        coverage=counted.coverage,
    )
