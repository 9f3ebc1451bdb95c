"""Means of a key over time with their intervals, pooled from panes of the history. No clock, no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import numpy as np

from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import from_milliseconds

from ..errors import reading
from ..events.keys import UNBOUNDED, EstimateKey
from ..state.options import HistoryOptions
from ..state.pane_rows import PaneRows
from ..statistics.means.moments import with_weights
from .view import IntervalMethod, scaled_means, with_waiting

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
    start_ms, end_ms, points_max = span

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


def over_time(
    key: EstimateKey,
    lists: Sequence[SeriesPanes],
    span: TimeRange,
    *,
    options: HistoryOptions,
    method: IntervalMethod,
) -> History:
    """Return the history of a key in a range.

    Args:
        key: of the series.
        lists: its panes in each partition.
        span: the range, and the most points.
        options: which panes are kept.
        method: of the intervals.

    Raises:
        DamagedFieldError: a pane cannot be read.
    """
    grid = grid_of(span, options, coarse=False)
    if grid.pane_ms < options.coarse_ms and not all(series.holds_from(grid.start_ms, options) for series in lists):
        grid = grid_of(span, options, coarse=True)
    rows = PaneRows()
    loaded: list[tuple[int, int, bytes]] = []
    clustered = any(series.clustered for series in lists)
    groups: dict[int, list[tuple[int, int]]] = {}
    opened: set[int] = set()

    def take(panes: Sequence[tuple[int, bytes]], length_ms: int, *, still_open: bool) -> None:
        for pane, data in panes:
            point = grid.point_of(pane * length_ms)
            if not grid.first <= point <= grid.last:
                continue
            groups.setdefault(point, []).append((len(loaded), pane))
            loaded.append((len(loaded), pane, data))
            if still_open:
                opened.add(point)

    for series in lists:
        if grid.pane_ms < options.coarse_ms:
            take(series.closed[FINE], options.fine_ms, still_open=False)
        else:
            take(series.closed[COARSE], options.coarse_ms, still_open=False)
            # An open coarse pane holds the fine panes of it that are closed.
            take(series.opened[COARSE], options.coarse_ms, still_open=True)
        take(series.opened[FINE], options.fine_ms, still_open=True)
    order = sorted(groups)
    if not order:
        return History(key, timedelta(milliseconds=grid.step_ms), ())
    with reading(f"{CheckpointField.HISTORY_SERIES}{key.encode()}"):
        rows.load_panes(loaded, clustered=clustered)
    pooled = rows.pooled([groups[point] for point in order])
    every = np.ones(len(order), dtype=bool)
    moments = with_waiting(pooled.moments, every & clustered)
    moments = with_weights(moments, pooled.sampled)
    unbounded = key.metric in UNBOUNDED
    lowest, highest = (0.0, 1.0) if unbounded else key.value_range
    means = scaled_means(moments, method, counts=every & key.holds_counts, population=np.full(len(order), np.nan))
    points = tuple(
        HistoryPoint(
            start=from_milliseconds(grid.origin_ms + point * grid.step_ms),
            end=from_milliseconds(grid.origin_ms + (point + 1) * grid.step_ms),
            n=n,
            mean=lowest + (highest - lowest) * mean.estimate,
            lower=None if unbounded else lowest + (highest - lowest) * mean.lower,
            upper=None if unbounded else lowest + (highest - lowest) * mean.upper,
            open=point in opened,
        )
        for point, n, mean in zip(order, pooled.moments.n.tolist(), means, strict=True)
        if mean.estimate is not None
    )
    return History(key, timedelta(milliseconds=grid.step_ms), points)
