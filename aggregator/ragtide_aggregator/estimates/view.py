"""What an estimate is made of: everything, or what a window of event time holds. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from ..state.state import AggregatorState
from ..statistics.batches import Floats, Rows
from ..statistics.moments import Moments
from ..statistics.strategies import moments_interval, resolved
from ..statistics.windows import ALL_TIME


class Scaled(NamedTuple):
    """A mean in [0, 1] with its interval; None while nothing is known."""

    estimate: float | None
    lower: float
    upper: float
    strategy: str = ""
    """How the interval was made, if that is not how all of them are."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How intervals are made, to be said with them."""

    strategy: str
    confidence: float

    def shared_by(self, count: int) -> "Shown":
        """Return how each of so many intervals is made, so that all of them hold at the confidence (Bonferroni)."""
        return Shown(self.strategy, 1 - (1 - self.confidence) / count)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A window, and the start of the one before it, in milliseconds of event time."""

    start_ms: int
    end_ms: int
    before_ms: int


class Row(NamedTuple):
    """The numbers of one key in a view; means and ends scaled to [0, 1]."""

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

    @property
    def standard_deviation(self) -> float | None:
        """Sample standard deviation; None below two values."""
        return sqrt(self.m2 / (self.n - 1)) if self.n > 1 else None


@dataclass(frozen=True, slots=True)
class View:
    """The values of every row that count: all of them, or those of one window."""

    state: AggregatorState
    name: str = ALL_TIME
    stretch: Stretch | None = None

    def moments(self, rows: Sequence[int]) -> Moments:
        """Return the moments of rows."""
        return self._covered(rows)[0]

    def _covered(self, rows: Sequence[int]) -> tuple[Moments, Rows, Rows | None]:
        index = np.asarray(rows, dtype=np.intp)
        if self.stretch is None:
            return self.state.moments.read(index), self.state.rows.counts[0, index], None
        assert self.state.panes is not None  # noqa: S101 - for the type checker: there are windows
        return self.state.panes.covered(rows, self.stretch.start_ms, self.stretch.end_ms)

    def read(self, rows: Sequence[int]) -> "Reading":
        """Return what is known of rows, all at once."""
        index = np.asarray(rows, dtype=np.intp)
        moments, absent, processed = self._covered(rows)
        known = self.state.rows
        _, late, out_of_order = known.counts[:, index]
        sizes = known.population[index]
        whole_run = self.stretch is None
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
        ]
        found = [Row(*row) for row in zip(*columns, strict=True)]
        return Reading(self, dict(zip(rows, range(len(rows)), strict=True)), found, moments, sizes)

    def before(self) -> "View | None":
        """Return the window before this one; None for all time."""
        if self.stretch is None:
            return None
        start, end = self.stretch.before_ms, self.stretch.start_ms
        return View(self.state, self.name, Stretch(start, end, start))


@dataclass(frozen=True, slots=True)
class Reading:
    """The numbers of some rows in a view."""

    view: View
    places: dict[int, int]
    rows: list[Row]
    moments: Moments
    sizes: Rows

    def of(self, row: int) -> Row:
        """Return what is known of a row."""
        return self.rows[self.places[row]]

    def intervals(self, shown: Shown) -> list[Scaled]:
        """Return the means of all rows with their intervals, in the order in which the rows were asked for."""
        # What has no highest value, such as seconds, has no interval; it only has to do no harm here.
        moments = replace(self.moments, mean=np.clip(self.moments.mean, 0.0, 1.0))
        counts = self.view.state.rows.holds_counts[np.fromiter(self.places, dtype=np.intp)]
        lower, upper = moments_interval(
            shown.strategy, moments, confidence=shown.confidence, population=self._population(), counts=counts
        )
        used = resolved(shown.strategy, moments, counts)
        return [
            Scaled(row.mean if row.n else None, low, high, strategy)
            for row, low, high, strategy in zip(self.rows, lower.tolist(), upper.tolist(), used.tolist(), strict=True)
        ]

    def _population(self) -> Floats:
        if self.view.stretch is not None:
            return np.full(len(self.rows), np.nan)
        # Interactions in which a metric was absent are seen: as many values at most are still to come.
        sizes = self.sizes - np.array([row.n_absent for row in self.rows], dtype=np.int64)
        # A run that holds more than it announced is not a sample of the announced population.
        return np.where((self.sizes > 0) & (sizes >= self.moments.n), sizes, np.nan)


def views(state: AggregatorState, rows: Sequence[int]) -> Iterator[tuple[View, list[int]]]:
    """Yield all time with all rows, and every window with the rows whose newest interaction is in its last step."""
    yield View(state), list(rows)
    if state.panes is None:
        return
    for window in state.panes.windows():
        by_stretch: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for row in rows:
            by_stretch[window.covering(state.newest_ms(state.keys[row]))].append(row)
        for (start, end), members in by_stretch.items():
            yield View(state, window.name, Stretch(start, end, start - window.size_ms)), members
