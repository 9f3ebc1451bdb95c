"""Means of a key over time with their intervals, pooled from panes of the history. No clock, no I/O."""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import numpy as np

from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import from_milliseconds
from ragtide_schemas.metric_definitions import PEOPLES_METRICS

from ..errors import reading
from ..events.keys import UNBOUNDED, EstimateKey, PairKey
from ..state.history import start_of
from ..state.options import HistoryOptions
from ..state.pane_rows import PairPanes, PaneRows
from ..statistics.intervals.intervals import Interval
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

FINE, COARSE, RECENT = range(3)
"""Places of the fine, the coarse and the recent panes."""


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
    recent: bool = True
    """Whether such a point may be of recent panes: not if its start is only known to a fine pane."""


class Joining(NamedTuple):
    """How neighbouring points are joined, so that each has enough values for a narrow interval.

    The numbers of values decide where a joined point ends, and never their size. So its interval is valid at its n.
    """

    least_n: int
    """Values of a point, or three times its closed clusters where values count in clusters; at least 1."""
    apart_ms: tuple[int, ...] = ()
    """Times of changes: no point holds values from before and after one of them, but the one with the shortest pane
    that is known and holds it."""

    def groups(
        self, stretches: Sequence[tuple[int, int]], counted: Sequence[int], cuts: Collection[int], gap_ms: int
    ) -> list[list[int]]:
        """Return the places of the stretches of each joined point, in the order of time.

        Stretches at the end of a part that are too few for one more joined point belong to the one before them.

        Args:
            stretches: start and end of each, rising, in milliseconds.
            counted: number of values of each.
            cuts: starts of stretches that begin a new point.
            gap_ms: longest time without a value inside a joined point.
        """
        groups: list[list[int]] = []
        first, n = 0, self.least_n  # joined points before the part, and number of values of the last one

        def end_part() -> None:
            if n < self.least_n and len(groups) > first + 1:
                groups[-2:] = [groups[-2] + groups[-1]]

        for place, (start, _) in enumerate(stretches):
            last_start, last_end = stretches[place - 1] if place else (start, start)
            if start - last_end > gap_ms or any(last_start < cut <= start for cut in cuts):
                end_part()
                first, n = len(groups), self.least_n
            if n >= self.least_n:
                groups.append([])
                n = 0
            groups[-1].append(place)
            n += counted[place]
        end_part()
        return groups


@dataclass(frozen=True, slots=True)
class HistoryPoint(Interval[float, float | None]):
    """The mean of a stretch of event time, with its interval, in the unit of the metric.

    The ends are None for a quantity without a highest value, such as seconds of labeling, and for a count of which too
    little is known.
    """

    start: datetime
    end: datetime
    """End of the stretch, exclusive."""
    n: int
    """Number of values, at least 1."""
    open: bool
    """Whether later values may still count in it."""
    n_absent: int = 0
    """Number of interactions without a value: of a prediction-powered mean those to which the judge gave no score."""
    coverage: float | None = None
    """Share of the interactions that have a value: n of n and `n_absent`, or of a prediction-powered mean its estimate
    for all; None if it is not known, as for thumbs."""


@dataclass(frozen=True, slots=True)
class History:
    """The history of one key in a range; stretches without a value have no point."""

    key: EstimateKey
    step: timedelta
    """Length of the stretch of each point that is neither joined nor cut at a change. Points begin at whole multiples
    of it since 1970; one point (`points_max=1`) begins with the pane that holds the start of the range."""
    points: tuple[HistoryPoint, ...]
    """In the order of time."""
    young: bool = False
    """Whether nothing is kept from before the range: its first value is the first of all."""


class SeriesPanes(NamedTuple):
    """The panes of a key in one partition."""

    clustered: bool
    """Whether the interactions of its pipeline count in clusters."""
    closed: Sequence[list[tuple[int, bytes]]]
    """Number and bytes of each closed pane: fine, coarse and recent."""
    opened: Sequence[list[tuple[int, bytes]]]
    """The same for open panes."""
    recent_from_ms: int | None = None
    """Time from which the recent panes hold all values; None if they do not."""

    def holds_from(self, start_ms: int, length_ms: int, options: HistoryOptions) -> bool:
        """Return whether panes of a length hold everything from a time on that longer ones hold."""
        if length_ms == options.coarse_ms:
            return True
        if length_ms == options.recent_ms:
            return self.recent_from_ms is not None and self.recent_from_ms <= start_ms
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

    def first_ms(self, options: HistoryOptions) -> int | None:
        """Return the start of the first pane; None without one."""
        lengths = {FINE: options.fine_ms, COARSE: options.coarse_ms, RECENT: options.recent_ms}
        # Of closed panes of a length, those of the first stretch need not come first.
        starts = {
            place: min(
                (
                    start_of(pane, length, options)
                    for pane, _ in (*self.closed[place], *self.opened[place])
                ),
                default=None,
            )
            for place, length in lengths.items()
        }  # fmt: skip
        older = [start for place in (FINE, COARSE) if (start := starts[place]) is not None]
        recent = starts[RECENT]
        if recent is not None and (not older or self.holds_from(min(older), options.recent_ms, options)):
            return recent
        return min(older, default=None)


def step_of(span: TimeRange, options: HistoryOptions, *, least_ms: int) -> int:
    """Return the milliseconds of a point: the least whose points cover a range with at most `points_max` of them.

    A step is a divisor of a pane of the next length, or a whole number of coarse panes. Points of a longer step are
    therefore points of a shorter one, taken together.

    Args:
        span: the range, and the most points.
        options: lengths of panes.
        least_ms: length of the shortest panes that may be points: recent, fine or coarse.
    """
    start_ms, end_ms, points_max = span[:3]

    def fits(step_ms: int) -> bool:
        return (end_ms - 1) // step_ms - start_ms // step_ms < points_max

    for pane_ms, longer_ms in ((options.recent_ms, options.fine_ms), (options.fine_ms, options.coarse_ms)):
        if least_ms <= pane_ms and pane_ms:
            ratio = longer_ms // pane_ms
            for divisor in range(1, ratio):
                if ratio % divisor == 0 and fits(divisor * pane_ms):
                    return divisor * pane_ms
    for multiple in _MULTIPLES:
        if fits(multiple * options.coarse_ms):
            return multiple * options.coarse_ms
    longest = _MULTIPLES[-1] * options.coarse_ms
    step_ms = max(longest, -(-(end_ms - start_ms) // points_max // longest) * longest)
    while not fits(step_ms):
        step_ms += longest
    return step_ms


def pane_of_step(step_ms: int, options: HistoryOptions) -> int:
    """Return the length of the longest panes that fit into the points of a step."""
    if step_ms >= options.coarse_ms:
        return options.coarse_ms
    return options.fine_ms if step_ms >= options.fine_ms else options.recent_ms


class PointGrid(NamedTuple):
    """The stretches of event time that points cover, in milliseconds."""

    edges: Sequence[int]
    """Starts of the stretches, rising, and the end of the last."""
    lengths: Sequence[int]
    """Length of the panes that each stretch is read from."""
    step_ms: int
    """Length of a stretch that no change cuts."""
    cuts: frozenset[int] = frozenset()
    """Starts of stretches that begin a new point: at a change, and after the stretch that holds it."""

    def stretch_of(self, start_ms: int) -> int:
        """Return the number of the stretch that holds a time; -1 before the first."""
        return bisect_right(self.edges, start_ms) - 1


def even_grid(span: TimeRange, options: HistoryOptions, *, least_ms: int) -> PointGrid:
    """Return the stretches of a range, all of one length.

    Args:
        span: the range, and the most points.
        options: lengths of panes.
        least_ms: length of the shortest panes that may be points.
    """
    if span.points_max == 1:
        pane_ms = least_ms
        start_ms = (-(-span.start_ms // pane_ms) if span.whole else span.start_ms // pane_ms) * pane_ms
        end_ms = -(-span.end_ms // pane_ms) * pane_ms
        if end_ms <= start_ms:
            return PointGrid((start_ms,), (), pane_ms)
        return PointGrid((start_ms, end_ms), (pane_ms,), end_ms - start_ms)
    step_ms = step_of(span, options, least_ms=least_ms)
    first, last = span.start_ms // step_ms, (span.end_ms - 1) // step_ms
    edges = range(first * step_ms, (last + 1) * step_ms + 1, step_ms)
    return PointGrid(edges, [pane_of_step(step_ms, options)] * (len(edges) - 1), step_ms)


def lengths_of(span: TimeRange, options: HistoryOptions) -> Sequence[int]:
    """Return the lengths of the panes that a range may be read from, the shortest first."""
    if span.coarse:
        return (options.coarse_ms,)
    if span.points_max == 1 and not (span.whole and span.recent):
        return options.fine_ms, options.coarse_ms
    return tuple(filter(None, (options.recent_ms, options.fine_ms, options.coarse_ms)))


def wanted_lengths(span: TimeRange, options: HistoryOptions, first_ms: int | None) -> Sequence[int]:
    """Return the lengths of the panes that are needed of a series, the shortest first.

    Args:
        span: the range, and the most points.
        options: lengths of panes.
        first_ms: time before which the series has no value; None if it is unknown.
    """
    lengths = lengths_of(span, options)
    if span.points_max == 1 or (span.joining is not None and span.joining.apart_ms):
        return lengths
    start_ms = span.start_ms if first_ms is None else min(max(span.start_ms, first_ms), span.end_ms - 1)
    step_ms = step_of(span._replace(start_ms=start_ms), options, least_ms=lengths[0])
    return [length for length in lengths if length >= pane_of_step(step_ms, options)]


class _PanesOfKey(NamedTuple):
    """The panes of one key, by the stretch that holds them."""

    key: EstimateKey | PairKey
    grid: PointGrid
    clustered: bool
    by_stretch: dict[int, list[tuple[int, bytes]]]
    opened: set[int]
    """Stretches that later values may still count in."""
    older: set[int]
    """Starts of panes that end before the range."""


def _grid(lists: Sequence[SeriesPanes], span: TimeRange, options: HistoryOptions) -> PointGrid:
    def hold(start_ms: int, length_ms: int) -> bool:
        return all(series.holds_from(start_ms, length_ms, options) for series in lists)

    if span.points_max > 1:
        firsts = [first for series in lists if (first := series.first_ms(options)) is not None]
        start_ms = min(max(span.start_ms, min(firsts, default=span.start_ms)), span.end_ms - 1)
        span = span._replace(start_ms=start_ms)
    for length_ms in lengths_of(span, options):
        grid = even_grid(span, options, least_ms=length_ms)
        if not grid.lengths or hold(grid.edges[0], grid.lengths[0]):
            break
    if span.joining is None:
        return grid
    edges, lengths, cuts = [*grid.edges], [*grid.lengths], set[int]()
    for time_ms in sorted(span.joining.apart_ms):
        number = bisect_right(edges, time_ms) - 1
        if not 0 <= number < len(lengths):
            continue
        start_ms, end_ms = edges[number], edges[number + 1]
        for length_ms in lengths_of(span, options):
            if length_ms < end_ms - start_ms and length_ms <= lengths[number] and hold(start_ms, length_ms):
                pane_ms = time_ms // length_ms * length_ms
                parts = sorted({start_ms, pane_ms, *(() if pane_ms == time_ms else (pane_ms + length_ms,))} - {end_ms})
                edges[number : number + 1] = parts
                lengths[number : number + 1] = [length_ms] * len(parts)
                break
        number = bisect_right(edges, time_ms) - 1
        cuts |= {edges[number]} if edges[number] == time_ms else {edges[number], edges[number + 1]}
    return PointGrid(edges, lengths, grid.step_ms, frozenset(cuts))


def _panes_of(
    key: EstimateKey | PairKey, lists: Sequence[SeriesPanes], grid: PointGrid, options: HistoryOptions
) -> _PanesOfKey:
    of_key = _PanesOfKey(key, grid, any(series.clustered for series in lists), {}, set(), set())
    late = set[int]()

    def take(panes: Sequence[tuple[int, bytes]], length_ms: int, lengths: Collection[int], *, still_open: bool) -> None:
        for pane, data in panes:
            start_ms = start_of(pane, length_ms, options)
            number = grid.stretch_of(start_ms)
            if start_ms + length_ms <= grid.edges[0]:
                of_key.older.add(start_ms)
            elif 0 <= number < len(grid.lengths) and grid.lengths[number] in lengths:
                of_key.by_stretch.setdefault(number, []).append((pane, data))
                if still_open:
                    of_key.opened.add(number)

    fine_ms, coarse_ms, recent_ms = options.fine_ms, options.coarse_ms, options.recent_ms
    for series in lists:
        if recent_ms:
            take(series.closed[RECENT], recent_ms, {recent_ms}, still_open=False)
            take(series.opened[RECENT], recent_ms, {recent_ms}, still_open=True)
            late |= {pane for pane, _ in series.opened[FINE]}
        take(series.closed[FINE], fine_ms, {fine_ms}, still_open=False)
        take(series.closed[COARSE], coarse_ms, {coarse_ms}, still_open=False)
        # An open coarse pane holds the fine panes of it that are closed.
        take(series.opened[COARSE], coarse_ms, {coarse_ms}, still_open=True)
        take(series.opened[FINE], fine_ms, {fine_ms, coarse_ms}, still_open=True)
    # A late value counts in a stretch of seconds as long as in the fine pane around it.
    of_key.opened.update(number for number in of_key.by_stretch if grid.edges[number] // fine_ms in late)
    return of_key


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

    Raises:
        DamagedFieldError: a pane cannot be read.
    """
    all_panes = [_panes_of(key, lists, _grid(lists, span, options), options) for key, lists in keys]
    points: list[list[HistoryPoint]] = [[] for _ in all_panes]
    loaded = _loaded(all_panes)
    moments = loaded.moments(all_panes)
    closed = np.zeros(moments.n.shape, dtype=bool)
    if span.joining is not None:
        loaded = _joined(loaded, all_panes, moments, span.joining)
        moments = loaded.moments(all_panes)
        closed = np.array(
            [all_panes[owner.number].opened.isdisjoint(owner.stretches) for owner in loaded.owners], dtype=bool
        )
    if loaded.owners:
        counts = np.array([keys[owner.number][0].count_unit for owner in loaded.owners])
        means = scaled_means(moments, method, counts=counts, population=np.full(len(counts), np.nan), closed=closed)
        absences = loaded.absent().tolist()
        mixed = np.zeros(len(counts), dtype=bool) if moments.weighted is None else moments.weighted.mixed
        numbers = zip(loaded.owners, moments.n.tolist(), absences, mixed.tolist(), means, strict=True)
        for owner, n, n_absent, is_mixed, mean in numbers:
            if mean.estimate is not None:
                key, panes = keys[owner.number][0], all_panes[owner.number]
                # A missing thumb is no absence: the history of a metric of people does not count the answers.
                unknown = is_mixed or key.metric in PEOPLES_METRICS
                counted = _Counted(n, n_absent, None if unknown else n / (n + n_absent))
                points[owner.number].append(_point(key, panes, owner, counted, mean))
    return [
        History(key, timedelta(milliseconds=panes.grid.step_ms), tuple(of_key), young=not panes.older)
        for (key, _), panes, of_key in zip(keys, all_panes, points, strict=True)
    ]


class _PointStretches(NamedTuple):
    """The key of a point, and the stretches that it covers."""

    number: int
    """Place of the key."""
    stretches: tuple[int, ...]
    """Numbers of its stretches that have panes, rising."""
    end: int
    """Number after its last stretch."""


class _PanesOfPoints(NamedTuple):
    """The panes of points of keys, as rows."""

    rows: PaneRows
    groups: list[list[tuple[int, int]]]
    """Row and number of the panes of each point."""
    owners: list[_PointStretches]

    def moments(self, all_panes: Sequence[_PanesOfKey]) -> Moments:
        """Return the moments of all points."""
        pooled = self.rows.pooled(self.groups)
        clustered = np.array([all_panes[owner.number].clustered for owner in self.owners], dtype=bool)
        return with_weights(with_waiting(pooled.moments, clustered), pooled.sampled)

    def absent(self) -> Rows:
        """Return in how many interactions of each point the metric is absent."""
        return self.rows.absent(self.groups)


def _loaded(all_panes: Sequence[_PanesOfKey]) -> _PanesOfPoints:
    points, count = _PanesOfPoints(PaneRows(), [], []), 0
    by_key: list[list[tuple[int, int, bytes]]] = []
    for number, panes in enumerate(all_panes):
        loaded: list[tuple[int, int, bytes]] = []
        for stretch in sorted(panes.by_stretch):
            of_point = [(count + len(loaded) + place, *pane) for place, pane in enumerate(panes.by_stretch[stretch])]
            loaded += of_point
            points.groups.append([(row, pane) for row, pane, _ in of_point])
            points.owners.append(_PointStretches(number, (stretch,), stretch + 1))
        count += len(loaded)
        by_key.append(loaded)
    _load(points.rows, all_panes, by_key)
    return points


def _load(rows: PaneRows, all_panes: Sequence[_PanesOfKey], by_key: Sequence[list[tuple[int, int, bytes]]]) -> None:
    """Set rows to the panes of all keys at once, because there may be many keys."""
    kinds: dict[bool, list[tuple[int, int, bytes]]] = {False: [], True: []}
    for panes, loaded in zip(all_panes, by_key, strict=True):
        kinds[panes.clustered] += loaded
    try:
        for clustered, loaded in kinds.items():
            rows.load_panes(loaded, clustered=clustered)
    except ValueError:
        # One of them is damaged: the error names it.
        for panes, loaded in zip(all_panes, by_key, strict=True):
            with reading(f"{CheckpointField.HISTORY_SERIES}{panes.key.encode()}"):
                rows.load_panes(loaded, clustered=panes.clustered)


def _joined(
    single: _PanesOfPoints, panes_of_keys: Sequence[_PanesOfKey], moments: Moments, joining: Joining
) -> _PanesOfPoints:
    counted = moments.n
    if moments.clusters is not None:
        of_clusters = VALUES_OF_A_CLUSTER * moments.clusters.count
        counted = np.where(moments.clusters.in_use, np.minimum(of_clusters, counted), counted)
    joined = _PanesOfPoints(single.rows, [], [])
    places: list[list[int]] = [[] for _ in panes_of_keys]
    for place, owner in enumerate(single.owners):
        # A stretch with absences only has no value.
        if moments.n[place]:
            places[owner.number].append(place)
    for number, (panes, of_key) in enumerate(zip(panes_of_keys, places, strict=True)):
        grid = panes.grid
        # Whole stretches, so that a range of a few has no gap inside a point.
        gap_ms = (grid.edges[-1] - grid.edges[0]) // GAPS_OF_A_RANGE // grid.step_ms * grid.step_ms
        numbers = [single.owners[place].stretches[0] for place in of_key]
        stretches = [(grid.edges[number], grid.edges[number + 1]) for number in numbers]
        groups = joining.groups(stretches, [int(counted[place]) for place in of_key], grid.cuts, gap_ms)
        firsts = [numbers[group[0]] for group in groups]
        for group, after in zip(groups, [*firsts, None][1:], strict=True):
            of_group = tuple(numbers[place] for place in group)
            end = of_group[-1] + 1
            # The stretches without a value that are no gap belong to the point before them.
            is_near = after is not None and grid.edges[after] - grid.edges[end] <= gap_ms
            joined_end = after if after is not None and is_near else end
            joined.groups.append([pane for place in group for pane in single.groups[of_key[place]]])
            joined.owners.append(_PointStretches(number, of_group, joined_end))
    return joined


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

    Raises:
        DamagedFieldError: a pane cannot be read.
    """
    points: dict[PairKey, HistoryPoint] = {}
    for key, of_proxy, of_pairs in pairs:
        grid = _grid([*of_proxy, *of_pairs], span, options)
        proxies, paired = (_panes_of(key, lists, grid, options) for lists in (of_proxy, of_pairs))
        loaded = _loaded([proxies])
        moments = loaded.moments([proxies])
        weighted = moments.weighted
        if not loaded.owners or not paired.by_stretch or (weighted is not None and bool(weighted.mixed[0])):
            continue
        panes, stored = PairPanes(), next(iter(paired.by_stretch.values()))
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
        points[key] = _point(key.reference, proxies, loaded.owners[0], counted, mean)
    return points


class _Counted(NamedTuple):
    """How many interactions have a value, how many have none, and the share of the first."""

    n: int
    n_absent: int
    coverage: float | None


def _point(
    key: EstimateKey, panes: _PanesOfKey, owner: _PointStretches, counted: _Counted, mean: ScaledMean
) -> HistoryPoint:
    grid, unbounded = panes.grid, key.metric in UNBOUNDED
    without = unbounded or (key.holds_counts and mean.is_unknown)
    in_unit = mean if unbounded else mean.in_unit(*key.value_range)
    assert in_unit.estimate is not None  # noqa: S101 - for the type checker
    return HistoryPoint(
        in_unit.estimate,
        None if without else in_unit.lower,
        None if without else in_unit.upper,
        start=from_milliseconds(grid.edges[owner.stretches[0]]),
        end=from_milliseconds(grid.edges[owner.end]),
        n=counted.n,
        open=not panes.opened.isdisjoint(owner.stretches),
        n_absent=counted.n_absent,
        coverage=counted.coverage,
    )
