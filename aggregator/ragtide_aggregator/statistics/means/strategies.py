"""The interval strategies by name, as tables with one interface: add rows, update many rows, read intervals."""

from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..intervals.asymptotic import asymptotic_interval, count_interval
from ..intervals.bernstein import BernsteinTable
from ..intervals.betting import BettingTable
from ..intervals.intervals import FIXED, Interval, fixed_interval
from ..intervals.running import V_OPT, running_interval
from ..tables.batches import Floats, Rows
from ..tables.names import AUTO
from ..tables.tables import check_confidence, check_range, doubled, scaled
from .clustered_interval import clustered_interval
from .moments import Moments, MomentTable

OF_MOMENTS: Final = ("running", *FIXED, "asymptotic")
"""Strategies whose state is moments: states can be merged, and read at any level of confidence."""

STRATEGIES: Final = (*OF_MOMENTS, "empirical_bernstein", "betting")
"""Names of all strategies."""

ANYTIME_VALID: Final = frozenset({"running", "empirical_bernstein", "betting", "asymptotic"})
"""Strategies that are valid at every look; `asymptotic` only once there are enough values."""

WIDEST_COUNT: Final = 2.0
"""An interval of a count says nothing if it is so many times as wide as the count, or as one."""

Kind = Literal["algebraic", "distributive"]


def resolved(strategy: str, moments: Moments, counts: ArrayLike) -> NDArray[np.str_]:
    """Return the strategy of each key: the named strategy, or the choice of `auto`; `asymptotic` for weighted means.

    Args:
        strategy: one of `OF_MOMENTS`, or `auto`.
        moments: one element per key.
        counts: as of `moments_interval`.
    """
    if strategy != AUTO:
        strategies: NDArray[np.str_] = np.full(moments.n.shape, strategy)
    else:
        *_, enough = count_interval(moments.mean, moments.n, moments.m2, confidence=0.5)  # no end is used
        enough &= np.asarray(counts, dtype=bool)
        strategies = np.where(enough, "asymptotic", "running")
    # A weighted mean has one kind of interval.
    return strategies if moments.weighted is None else np.where(moments.weighted.mixed, "asymptotic", strategies)


def moments_interval(
    strategy: str,
    moments: Moments,
    *,
    confidence: float,
    population: ArrayLike | None = None,
    v_opt: float = V_OPT,
    counts: ArrayLike = False,
) -> tuple[Floats, Floats]:
    """Return the ends of the intervals of means in [0, 1]; the whole range for a key without values.

    The ends of counts are the whole range, too, while nothing is known on their own scale: an interval from their range
    alone would be far wider than they are.

    Args:
        strategy: one of `OF_MOMENTS`, or `auto`.
        moments: one element per key; where values count in clusters, `running` is over the closed ones.
        confidence: level in (0, 1).
        population: sizes of the finite populations, nan for none. The strategies for a fixed n use them, and all ends
            respect the values that are already known.
        v_opt: intrinsic time at which `running` is tightest.
        counts: for `auto`, one on the scale of each key's counts, such as 1 / 1000 for counts up to 1,000; 0 (False)
            for values that are no counts. 1 (True) shows an interval however wide it is.
    """
    n = np.maximum(moments.n, 1)
    if strategy in ("running", AUTO):
        lower, upper = running_interval(moments.mean, n, moments.v, confidence=confidence, v_opt=v_opt)
        if strategy == AUTO and np.any(counts):
            asymptotic = resolved(strategy, moments, counts) == "asymptotic"
            low, high, _ = count_interval(moments.mean, moments.n, moments.m2, confidence=confidence)
            lower, upper = np.where(asymptotic, low, lower), np.where(asymptotic, high, upper)
    elif strategy == "asymptotic":
        lower, upper = asymptotic_interval(moments.mean, n, moments.variance, confidence=confidence)
    else:
        lower, upper = fixed_interval(
            strategy, moments.mean, n, confidence=confidence, population=population, variance=moments.variance
        )
    clusters = moments.clusters
    if clusters is not None:
        places = np.flatnonzero(clusters.in_use & (resolved(strategy, moments, counts) == "running"))
        if places.size:
            ends = clustered_interval(clusters.at(places), confidence=confidence)
            lower, upper = np.array(lower), np.array(upper)
            # Values of open clusters are in the mean, and not yet in the interval.
            lower[places] = np.minimum(ends[0], moments.mean[places])
            upper[places] = np.maximum(ends[1], moments.mean[places])
    none = moments.n == 0
    if strategy == AUTO:
        none |= says_nothing(lower, upper, moments.mean, counts)
    lower, upper = np.where(none, 0.0, lower), np.where(none, 1.0, upper)
    mixed: NDArray[np.bool_] = np.zeros(none.shape, dtype=bool)
    if moments.weighted is not None:
        mixed, weighted = moments.weighted.mixed, moments.weighted.intervals(confidence=confidence, counts=counts)
        lower, upper = np.where(mixed, weighted.lower, lower), np.where(mixed, weighted.upper, upper)
    if population is None:
        return lower, upper
    # For every strategy: the values not yet seen of a finite population can move its mean only so far.
    size = np.asarray(population, dtype=np.float64)
    # The sum of the values seen does not follow from a weighted mean.
    seen = np.where((size >= moments.n) & ~mixed, moments.n / np.maximum(size, 1.0), 0.0)
    least, most = seen * moments.mean, np.clip(seen * moments.mean + (1 - seen), moments.mean, 1.0)
    closed = seen == 1
    lower = np.where(closed, moments.mean, np.maximum(lower, np.where(seen > 0, least, 0.0)))
    upper = np.where(closed, moments.mean, np.minimum(upper, np.where(seen > 0, most, 1.0)))
    if strategy != AUTO:
        return lower, upper
    nothing = says_nothing(lower, upper, moments.mean, counts)
    return np.where(nothing, 0.0, lower), np.where(nothing, 1.0, upper)


def says_nothing(lower: Floats, upper: Floats, mean: Floats, counts: ArrayLike) -> NDArray[np.bool_]:
    """Return whether intervals of counts are much wider than the counts (`WIDEST_COUNT`).

    Args:
        lower: lower ends.
        upper: upper ends.
        counts: as of `moments_interval`.
    """
    unit = np.asarray(counts, dtype=np.float64)
    return np.asarray((unit > 0) & (upper - lower > WIDEST_COUNT * np.maximum(mean, unit)))


class Table(Protocol):
    """A strategy: a table with a row per key, for values in [0, 1]."""

    def add_row(self, population: int | None = None) -> int:
        """Add a row for at most `population` values, and return its index."""

    def update(self, rows: Rows, values: Floats) -> None:
        """Add values to rows, in order."""

    def estimate(self, rows: Rows) -> Floats:
        """Return the means of rows; nan without values."""

    def interval(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return lower and upper ends of rows."""

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned."""


class MomentIntervals:
    """The strategies whose state is moments, as a table."""

    def __init__(self, strategy: str, confidence: float, *, v_opt: float = V_OPT) -> None:
        self._strategy, self._confidence, self._v_opt = strategy, confidence, v_opt
        self.moments = MomentTable()
        self._population = np.full(16, np.nan)

    def add_row(self, population: int | None = None) -> int:
        """Add a row for at most `population` values, and return its index."""
        row = self.moments.add_row()
        if row == self._population.size:
            self._population = doubled(self._population, np.nan)
        self._population[row] = np.nan if population is None else population
        return row

    def update(self, rows: Rows, values: Floats) -> None:
        """Add values to rows, in order."""
        self.moments.update(rows, values)

    def estimate(self, rows: Rows) -> Floats:
        """Return the means of rows; nan without values."""
        moments = self.moments.read(rows)
        return np.where(moments.n > 0, moments.mean, np.nan)

    def interval(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return lower and upper ends of rows."""
        return moments_interval(
            self._strategy,
            self.moments.read(rows),
            confidence=self._confidence,
            population=self._population[rows],
            v_opt=self._v_opt,
        )

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        return np.float64(self._population[row]).tobytes() + self.moments.to_bytes(row)

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned."""
        self.moments.load(row, data[8:])
        self._population[row] = np.frombuffer(data[:8])[0]


class RunningIntervals:
    """Intervals of many keys by one strategy, in the metric's own unit.

    Args:
        strategy: one of `STRATEGIES`.
        keys: number of keys.
        confidence: level in (0, 1).
        value_range: lowest and highest possible value.
        kind: `algebraic` for means, `distributive` for totals of the population (N times the mean).
        population: number of all values of each key, or one number for all keys; None if there is no end.

    Raises: ValueError for an argument out of its range, or a strategy that does not apply; the message says why.

    >>> seen = RunningIntervals("betting", keys=2, population=50)
    >>> seen.update([0, 0, 1], [1.0, 0.5, 0.0])
    >>> seen.intervals().estimate.tolist()
    [0.75, 0.0]
    """

    def __init__(
        self,
        strategy: str,
        *,
        keys: int,
        confidence: float = 0.95,
        value_range: tuple[float, float] = (0.0, 1.0),
        kind: Kind = "algebraic",
        population: int | ArrayLike | None = None,
    ) -> None:
        check_range(value_range)
        self._range = value_range
        if kind == "distributive" and population is None:
            raise ValueError("population is missing: a total is projected onto all N values, so give their number")
        # Wilson's interval is for proportions; a sum is not a proportion.
        strategy = "normal" if strategy == "wilson" and kind == "distributive" else strategy
        self._kind = kind
        self._table = table_of(strategy, confidence=confidence)
        sizes = [None] * keys if population is None else np.broadcast_to(np.asarray(population), keys).tolist()
        for size in sizes:
            if size is not None and not (size >= 1 and float(size).is_integer()):
                raise ValueError(f"population is {size}: give the whole number of all values, at least 1")
            self._table.add_row(None if size is None else int(size))
        self._sizes = np.array([1 if size is None else size for size in sizes], dtype=np.float64)
        self._rows = np.arange(keys)

    def update(self, keys: ArrayLike, values: ArrayLike) -> None:
        """Add values to keys, in order; a key may occur more than once.

        Args:
            keys: place of the key of each value, from 0.
            values: in order, each in the range.

        Raises: ValueError for a value that is not finite or outside the range; nothing is added then.
        """
        shares = scaled(np.asarray(values, dtype=np.float64), self._range)
        self._table.update(np.asarray(keys, dtype=np.intp), shares)

    def intervals(self) -> Interval[Floats, Floats]:
        """Return the estimates of all keys with their intervals."""
        lower, upper = self._table.interval(self._rows)
        factor, (lowest, highest) = self._sizes if self._kind == "distributive" else 1.0, self._range
        parts = (self._table.estimate(self._rows), lower, upper)
        return Interval(*(np.asarray(factor * (lowest + (highest - lowest) * part)) for part in parts))

    def merge(self, key: int, other: "RunningIntervals", other_key: int) -> None:
        """Add the values of a key of another object to a key.

        Args:
            key: place of the key here.
            other: object of the same strategy and range.
            other_key: place of the key there.

        Raises: ValueError if the strategy's state depends on the order of the values, and so cannot be merged.
        """
        mine, theirs = self._table, other._table
        if not (isinstance(mine, MomentIntervals) and isinstance(theirs, MomentIntervals)):
            raise ValueError(  # noqa: TRY004 - the strategy is wrong, not a type
                "bets depend on the order of the values, so two states cannot be merged: use one of "
                + ", ".join(OF_MOMENTS)
            )
        mine.moments.merge(key, theirs.moments, other_key)

    def to_bytes(self, key: int) -> bytes:
        """Return the state of a key as bytes, exactly."""
        return self._table.to_bytes(key)

    def load(self, key: int, data: bytes) -> None:
        """Set the state of a key to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version or strategy.
        """
        self._table.load(key, data)


def table_of(strategy: str, *, confidence: float, v_opt: float = V_OPT) -> Table:
    """Return a table of rows for a strategy.

    Raises: ValueError for an unknown strategy or a level outside (0, 1).
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy {strategy!r} is unknown: use one of {', '.join(STRATEGIES)}")
    check_confidence(confidence)
    if strategy == "empirical_bernstein":
        return BernsteinTable(confidence)
    if strategy == "betting":
        return BettingTable(confidence)
    return MomentIntervals(strategy, confidence, v_opt=v_opt)
