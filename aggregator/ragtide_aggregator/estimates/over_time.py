"""Means of a key over time with their intervals, pooled from panes of the history. No clock, no I/O."""

from collections.abc import Sequence
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
from ..statistics.pairs.prediction_powered import PairTable
from .view import IntervalMethod, ScaledMean, scaled_means, with_waiting

_MULTIPLES: Final = (1, 2, 3, 4, 6, 8, 12, 24)
"""Numbers of coarse panes in a point, and then multiples of the last."""

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
    """At least 1. One point covers exactly the panes that hold a part of the range."""
    coarse: bool = False
    """Whether a point is at least one coarse pane long."""


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


@dataclass(frozen=True, slots=True)
class History:
    """The history of one key in a range; stretches without a value have no point."""

    key: EstimateKey
    step: timedelta
    """Length of the stretch of each point. Points begin at whole multiples of it since 1970; one point (`points_max=1`)
    begins with the pane that holds the start of the range."""
    points: tuple[HistoryPoint, ...]
    """In the order of time."""


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
    start_ms, end_ms, points_max, _ = span

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
        start_ms = span.start_ms // pane_ms * pane_ms
        return PointGrid(start_ms, -(-span.end_ms // pane_ms) * pane_ms - start_ms, pane_ms, 0, 0)
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


def _grid(lists: Sequence[SeriesPanes], span: TimeRange, options: HistoryOptions) -> PointGrid:
    """Return the stretches of a range: of the finest panes that reach back to its start."""
    grid = grid_of(span, options, coarse=span.coarse)
    if grid.pane_ms < options.coarse_ms and not all(series.holds_from(grid.start_ms, options) for series in lists):
        return grid_of(span, options, coarse=True)
    return grid


def _panes_of(
    key: EstimateKey | PairKey, lists: Sequence[SeriesPanes], grid: PointGrid, options: HistoryOptions
) -> _PanesOfKey:
    found = _PanesOfKey(key, grid, any(series.clustered for series in lists), {}, set())

    def take(panes: Sequence[tuple[int, bytes]], length_ms: int, *, still_open: bool) -> None:
        for pane, data in panes:
            point = grid.point_of(pane * length_ms)
            if grid.first <= point <= grid.last:
                found.by_point.setdefault(point, []).append((pane, data))
                if still_open:
                    found.opened.add(point)

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
    moments, owners = _pooled(every)
    if owners:
        counts = np.array([keys[number][0].holds_counts for number, _ in owners], dtype=bool)
        means = scaled_means(moments, method, counts=counts, population=np.full(len(owners), np.nan))
        for (number, point), n, mean in zip(owners, moments.n.tolist(), means, strict=True):
            if mean.estimate is not None:
                points[number].append(_point(keys[number][0], every[number], point, n, mean))
    return [
        History(key, timedelta(milliseconds=panes.grid.step_ms), tuple(of_key))
        for (key, _), panes, of_key in zip(keys, every, points, strict=True)
    ]


def _pooled(every: Sequence[_PanesOfKey]) -> tuple[Moments, list[tuple[int, int]]]:
    """Return the moments of all points of keys, and of each the place of its key and the number of the point."""
    rows, count = PaneRows(), 0
    groups: list[list[tuple[int, int]]] = []
    owners: list[tuple[int, int]] = []
    for number, panes in enumerate(every):
        loaded: list[tuple[int, int, bytes]] = []
        for point in sorted(panes.by_point):
            of_point = [(count + len(loaded) + place, *pane) for place, pane in enumerate(panes.by_point[point])]
            loaded += of_point
            groups.append([(row, pane) for row, pane, _ in of_point])
            owners.append((number, point))
        count += len(loaded)
        with reading(f"{CheckpointField.HISTORY_SERIES}{panes.key.encode()}"):
            rows.load_panes(loaded, clustered=panes.clustered)
    pooled = rows.pooled(groups)
    clustered = np.array([every[number].clustered for number, _ in owners], dtype=bool)
    return with_weights(with_waiting(pooled.moments, clustered), pooled.sampled), owners


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
        moments, owners = _pooled([proxies])
        weighted = moments.weighted
        if not owners or not paired.by_point or (weighted is not None and bool(weighted.mixed[0])):
            continue
        panes, (point, stored) = PairPanes(), next(iter(paired.by_point.items()))
        with reading(f"{CheckpointField.HISTORY_SERIES}{key.encode()}"):
            for row, (pane, data) in enumerate(stored):
                panes.load(row, pane, data)
        if paired.clustered:
            panes.begin_clusters([row for row, (_, data) in enumerate(stored) if len(data) == PairTable.SIZE])
        rows = [(row, pane) for row, (pane, _) in enumerate(stored)]
        numbers = panes.pooled(rows, moments, confidence=method.confidence)
        mean = ScaledMean(float(numbers.estimate[0]), float(numbers.lower[0]), float(numbers.upper[0]))
        found[key] = _point(key.reference, proxies, point, int(numbers.n[0]), mean)
    return found


def _point(key: EstimateKey, panes: _PanesOfKey, point: int, n: int, mean: ScaledMean) -> HistoryPoint:
    grid, unbounded = panes.grid, key.metric in UNBOUNDED
    lowest, highest = (0.0, 1.0) if unbounded else key.value_range
    width = highest - lowest
    assert mean.estimate is not None  # noqa: S101 - for the type checker
    return HistoryPoint(
        start=from_milliseconds(grid.origin_ms + point * grid.step_ms),
        end=from_milliseconds(grid.origin_ms + (point + 1) * grid.step_ms),
        n=n,
        mean=lowest + width * mean.estimate,
        lower=None if unbounded else lowest + width * mean.lower,
        upper=None if unbounded else lowest + width * mean.upper,
        open=point in panes.opened,
    )
