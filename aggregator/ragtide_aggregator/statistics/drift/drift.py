"""Drift detection with a stated false-alarm rate: an e-detector on the mean of bounded values.

Against the claim "the mean is at least the limit" each value x pays 1 + l (limit - x) on a bet l: at most 1 on average
while the claim holds. M_t = (M_{t-1} + 1) (1 + l (limit - x_t)) collects the bets begun at every earlier time
(Shiryaev-Roberts), averaged over a grid of bets. M_t - t then falls on average, so while the claim holds the mean
number of values until M >= A is at least A. A rise is the mirror image. A detector for both directions is two detectors
at 2 A each, because one of them alarms only if the mean of the two has reached A.

Values of one session depend on each other. Such a cluster of n values with mean x takes one bet when it is closed, of
stake min(l n / (1 + (n - 1) r), 4/5) on limit - x, and adds n to the count of values. The stake is known before the
mean: the size of a cluster is. So the same holds for the number of values until M >= A, if clusters are independent,
and close by size or time. r only says which dependence the stakes suit; the guarantee holds for any.

A value may have the costs of several answers: the first answer of a session has those of all answers since the first
answer before it, a number that is known before its score. Then M less the number of answers falls on average, too, so
A is again a number of answers. docs/understand/clusters.md, "First answers in alert rules", has the run length of a
detector of first answers beside one of whole sessions.

Source: Shin, Ramdas, Rinaldo (2024), "E-detectors: a nonparametric framework for sequential change detection",
The New England Journal of Statistics in Data Science 2(2), section 4; docs/understand/drift.md.
"""

from dataclasses import dataclass
from math import inf, isfinite, log
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tables.batches import Floats, Grouped, Rows, grouped
from ..tables.row_table import RowColumn, RowTable
from ..tables.tables import checked
from .evidence import BETS, RowEvidence, Steps, stakes_of

Direction = Literal["fall", "rise"]

TOTALS: Final = 4
"""Totals of the values of a row: their number, sum, sum of squares, and clusters."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """The evidence of a detector at its alarm. Values are as given, not mirrored."""

    position: int
    """Position in the batch of the value at which the alarm sounded."""
    row: int
    log_evidence: float
    """Natural logarithm of M; the alarm sounds at log(run_length)."""
    run_length: float
    """A: the level that M reached, in costs of a value."""
    change_n: int
    """Number of values since the estimated change point."""
    change_mean: float
    """Mean of these values."""
    change_variance: float
    """Sample variance of these values, 0 for a single value; of clusters n times the variance of their mean."""
    change_tag: int
    """Tag of the first of these values."""
    change_clusters: int
    """Number of clusters of these values; each single value is a cluster."""


class _Clusters(NamedTuple):
    """Closed clusters, each with its position in a batch; a single value is a cluster of one."""

    positions: Rows
    rows: Rows
    values: Floats
    """Means of the clusters' values."""
    tags: NDArray[np.int64]
    costs: Floats
    sizes: NDArray[np.int64]
    answers: NDArray[np.int64]
    """Number of answers whose costs each has."""
    levels: Floats | None
    looks: Rows | None
    limits: Floats | None
    """Limits of their own, mirrored for a rise; None for those of their rows."""
    centers: Floats | None

    def at_places(self, places: Rows) -> "_Clusters":
        """Return the clusters at places."""
        return _Clusters(
            self.positions[places],
            self.rows[places],
            self.values[places],
            self.tags[places],
            self.costs[places],
            self.sizes[places],
            self.answers[places],
            None if self.levels is None else self.levels[places],
            None if self.looks is None else self.looks[places],
            None if self.limits is None else self.limits[places],
            None if self.centers is None else self.centers[places],
        )


class DetectorTable(RowTable, version=4, what="drift detectors", capacity=16):
    """E-detectors, one row each, updated together.

    A row stores M / A per bet, so that it alarms at 1 and each value adds 1 / A: the cost of the value in false alarms.
    The sum of all costs bounds the expected number of false alarms, however costs are shared among rows and over time.
    So a deployment keeps its budget of false alarms by giving each value a cost.

    The change point is the most recent time at which the CUSUM of the best bet was at its floor: the values since then
    are the most unlikely under the claim. Source: Lorden (1971), Annals of Mathematical Statistics 42: 1897-1908.

    The table equals this, for single values that may fall and without changes of the limit:

    >>> def detected(values, limit, run_length):
    ...     m, cusum, began = np.zeros(BETS), np.zeros(BETS), np.zeros(BETS, dtype=int)
    ...     bets = stakes_of(np.array([1]))  # a grid of shares of the largest possible bet
    ...     for n, value in enumerate(values):
    ...         pays = 1 + bets * (limit - value) / (1 - limit)
    ...         m = (m + 1 / run_length) * pays  # bets that begin at each earlier value
    ...         began[cusum <= 1] = n
    ...         cusum = np.maximum(cusum, 1) * pays
    ...         if m.mean() >= 1:
    ...             return n, n + 1 - began[np.argmax(cusum)]  # place of the alarm, values since the change

    >>> values = np.array([1.0, 0.9, 1.0, 0.4, 0.3, 0.5] + [0.2] * 20)
    >>> table = DetectorTable()
    >>> row = table.add_row()
    >>> table.configure(row, limit=0.8, direction="fall", run_length=1000)
    >>> (alarm,), _ = table.update(np.full(values.size, row), values, np.arange(values.size))
    >>> (alarm.position, alarm.change_n) == detected(values, 0.8, 1000)
    True
    """

    # Per row: whether it detects a rise, the limit (mirrored, so that every row detects a fall), and 1 / A.
    _rising = RowColumn(np.bool_)
    _limit = RowColumn(np.float64, least=-np.inf)
    _cost = RowColumn(np.float64, least=-np.inf)
    # Per row: number, sum and sum of squares of its values, and number of their clusters. A cluster counts with n times
    # the square of its mean.
    _totals = RowColumn(np.float64, (TOTALS,), least=-np.inf, axis=0)
    # Per row and bet: M / A; CUSUM; number, sum, sum of squares of the values before its start, and of their clusters;
    # the start's tag.
    _m = RowColumn(np.float64, (BETS,), least=-np.inf, axis=0)
    _cusum = RowColumn(np.float64, (BETS,), least=-np.inf, axis=0)
    _start = RowColumn(np.float64, (BETS, TOTALS), least=-np.inf, axis=0)
    _tag = RowColumn(np.int64, (BETS,), axis=0)

    def configure(self, row: int, *, limit: float, direction: Direction, run_length: float) -> None:
        """Let a row detect a mean beyond a limit, from now on.

        Args:
            row: index.
            limit: the last acceptable mean, in (0, 1).
            direction: direction of the change to detect.
            run_length: A, the least mean number of values between false alarms, above 1.

        Raises: ValueError if an argument is out of its range.
        """
        if not (isfinite(run_length) and run_length > 1):
            raise ValueError(f"run_length is {run_length}: give the least mean number of values between false alarms")
        self._rising[row] = direction == "rise"
        self.move_limit(row, limit)
        self._cost[row] = 1 / run_length
        self.restart(row)

    def move_limit(self, row: int, limit: float) -> None:
        """Change the limit of a row. The guarantee stays if the limit does not depend on the values to come.

        Raises: ValueError unless the limit is in (0, 1).
        """
        if not 0 < limit < 1:
            raise ValueError(
                f"limit is {limit}: no mean of values in [0, 1] is beyond it; choose a limit inside (0, 1)"
            )
        self._limit[row] = 1 - limit if self._rising[row] else limit

    def share_line(self, row: int, detectors: int) -> None:
        """Let a row share its false alarms with other detectors from now on.

        The evidence M stays, and the level A at which it alarms is so many times as high.

        Args:
            row: index.
            detectors: number of detectors that share the false alarms, this one included.
        """
        self._cost[row] /= detectors
        self._m[row] /= detectors

    def restart(self, row: int) -> None:
        """Remove all values from a row; its limit stays."""
        for array in (self._m, self._cusum, self._start, self._tag, self._totals):
            array[row] = 0

    def log_evidence(self, row: int) -> float:
        """Return log M of a row; minus infinite at the start."""
        m = float(np.add.reduce(self._m[row])) / BETS
        return log(m) - log(float(self._cost[row])) if m > 0 else -inf

    def log_line(self, row: int) -> float:
        """Return log M at which a row alarms: the logarithm of its run length."""
        return -log(float(self._cost[row]))

    def change_tag(self, row: int) -> int:
        """Return the tag of the first value since the change point estimated so far; 0 without a value."""
        return int(self._tag[row, int(np.argmax(self._cusum[row]))])

    def change_n(self, row: int) -> int:
        """Return the number of values since the change point estimated so far."""
        best = int(np.argmax(self._cusum[row]))
        return int(self._totals[row, 0] - self._start[row, best, 0])

    def costs(self, rows: Rows) -> Floats:
        """Return the cost of a value for each of these rows: 1 / run_length."""
        return self._cost[rows]

    def evidence(self, rows: Rows) -> Floats:
        """Return M / A of rows, in the unit in which a row alarms at 1."""
        return np.asarray(np.add.reduce(self._m[rows], axis=1) / BETS)

    def scale(self, rows: Rows, factor: float) -> None:
        """Multiply the evidence of rows by a factor of at most 1, set before the values to come."""
        self._m[rows] *= factor

    def longest(self, rows: Rows) -> Rows:
        """Return for each of rows the number of values since the earliest possible change point."""
        longest: Rows = (self._totals[rows, 0] - np.min(self._start[rows, :, 0], axis=1)).astype(np.intp)
        return longest

    def update(
        self,
        rows: Rows,
        values: Floats,
        tags: NDArray[np.int64],
        *,
        costs: Floats | None = None,
        sizes: NDArray[np.int64] | None = None,
        answers: NDArray[np.int64] | None = None,
        levels: Floats | None = None,
        looks: Rows | None = None,
        limits: Floats | None = None,
        centers: Floats | None = None,
    ) -> tuple[list[Alarm], Rows]:
        """Add values to rows, in order; return the alarms by position, and the positions that were not added.

        After its alarm a row has M = 0 and takes no more values of the batch, so that the caller can configure it
        again before it adds the others.

        Args:
            rows: row of each value; a row may occur more than once.
            values: in [0, 1], same shape.
            tags: a number for each value, such as its time, which an alarm reports for its change point; same shape.
            costs: the most that each value may add to the expected number of false alarms, positive, same shape;
                1 / run_length of the row unless given.
            sizes: for closed clusters of values, the number of values of each; `values` are then the means, and `costs`
                the sums of the values' costs. Single values unless given.
            answers: number of answers whose costs each value has; the sizes unless given.
            levels: M / A at which the row of each value alarms, positive; 1 unless given.
            looks: number of the look to which each value belongs, not falling; no value after the first look with an
                alarm is added, so that the caller can set other levels. Unless given, only rows with an alarm stop.
            limits: the limit of each value, in (0, 1), where it is not that of its row (nan). The guarantee stays if a
                limit does not depend on its value or a later one.
            centers: subtracted from each value in the mean and variance of an alarm, so that they tell distances; 0
                unless given. The evidence does not depend on it.

        Raises: ValueError if a value is not in [0, 1], or a limit not in (0, 1); nothing is added then.
        """
        checked(values)
        if not values.size:
            return [], np.zeros(0, dtype=np.intp)
        sizes = np.ones(values.size, dtype=np.int64) if sizes is None else sizes
        costs = self._cost[rows] * sizes if costs is None else costs
        own = None
        if limits is not None:
            has_own = ~np.isnan(limits)
            if not np.all((limits[has_own] > 0) & (limits[has_own] < 1)):
                raise ValueError("limits holds a limit that is not in (0, 1): no mean of values in [0, 1] is beyond it")
            own = np.where(has_own, np.where(self._rising[rows], 1 - limits, limits), self._limit[rows])
        answers = sizes if answers is None else answers
        clusters = _Clusters(
            np.arange(values.size), rows, values, tags, costs, sizes, answers, levels, looks, own, centers
        )
        return self._update(clusters)

    def _update(self, clusters: "_Clusters") -> tuple[list[Alarm], Rows]:
        batch = grouped(clusters.rows)
        evidence = RowEvidence(*(column.take(batch.rows, axis=0) for column in (self._m, self._cusum, self._totals)))
        steps = self._steps(batch, clusters)
        evidence.follow(batch.rounds, steps)
        nothing = np.zeros(0, dtype=np.intp)
        if not evidence.alarmed.any():
            self._store(batch, evidence, steps.totals, clusters.tags)
            return [], nothing
        alarmed = evidence.alarmed[batch.rounds.place]
        never = np.iinfo(np.intp).max
        first = np.minimum.reduceat(np.where(alarmed, batch.occurrence, never), batch.starts)
        taken = batch.occurrence <= batch.spread(first)
        if clusters.looks is not None:
            looks = clusters.looks[batch.order]
            taken &= looks <= looks[alarmed].min()
        if not np.all(taken):
            alarms, _ = self._update(clusters.at_places(np.sort(batch.order[taken])))
            return alarms, np.sort(clusters.positions[batch.order[~taken]])
        self._store(batch, evidence, steps.totals, clusters.tags)
        alarms = []
        for rank in np.flatnonzero(first != never).tolist():
            last = batch.starts[rank] + batch.counts[rank] - 1
            position = int(batch.order[last])
            row = int(batch.rows[rank])
            # A cluster may cost nothing, if all of its values came before costs were counted.
            cost = float(clusters.costs[position] / clusters.answers[position]) or float(self._cost[row])
            level = 1.0 if clusters.levels is None else float(clusters.levels[position])
            alarms.append(self._alarm(int(clusters.positions[position]), row, cost, level))
        return sorted(alarms, key=lambda alarm: alarm.position), nothing

    def _steps(self, batch: Grouped, clusters: "_Clusters") -> Steps:
        """Return what clusters do to the evidence of their rows, in rounds."""
        ranks, places, costs = batch.rounds.ranks, batch.order[batch.rounds.order], clusters.costs
        limit, rising = self._limit[batch.rows], self._rising[batch.rows].astype(np.float64)
        room, limit, values = (1 - limit)[ranks], limit[ranks], clusters.values.take(places)
        if clusters.limits is not None:
            limit = clusters.limits.take(places)
            room = 1 - limit
        sizes = clusters.sizes.take(places)
        centered = values if clusters.centers is None else values - clusters.centers.take(places)
        totals = np.ones((values.size, TOTALS))
        totals[:, 0], totals[:, 1], totals[:, 2] = sizes, sizes * centered, sizes * (centered * centered)
        return Steps(
            costs=costs[:1] if (costs == costs[0]).all() else costs.take(places),
            # Of a rise 1 - value, of a fall the value.
            ratios=(limit - np.abs(rising[ranks] - values)) / room,
            stakes=np.broadcast_to(stakes_of(sizes), (values.size, BETS)),
            levels=np.broadcast_to(1.0, values.shape) if clusters.levels is None else clusters.levels.take(places),
            totals=totals,
        )

    def _store(self, batch: Grouped, evidence: RowEvidence, totals: Floats, tags: NDArray[np.int64]) -> None:
        """Write the state after every row's last value.

        Args:
            totals: of each value's row after it, in rounds.
            tags: of the values.
        """
        rows, rounds, began = batch.rows, batch.rounds, evidence.began.reshape(-1)
        anew = np.flatnonzero(began)
        (ranks, bets), began = np.divmod(anew, BETS), began[anew]
        at = rows[ranks] * BETS + bets
        # Before the first round are the totals of the table.
        before = self._totals.take(rows[ranks], axis=0)
        later = np.flatnonzero(began > 1)
        before[later] = totals.take(rounds.edges[began[later] - 2] + ranks[later], axis=0)
        self._start.reshape(-1, TOTALS)[at] = before
        self._tag.reshape(-1)[at] = tags.take(batch.order[rounds.order[rounds.edges[began - 1] + ranks]])
        self._m[rows], self._cusum[rows] = evidence.state[:, 0], evidence.state[:, 1]
        self._totals[rows] = evidence.totals

    def _alarm(self, position: int, row: int, cost: float, level: float) -> Alarm:
        best = int(np.argmax(self._cusum[row]))
        n, total, squares, clusters = (self._totals[row] - self._start[row, best]).tolist()
        mean = total / n
        alarm = Alarm(
            position=position,
            row=row,
            log_evidence=log(float(np.add.reduce(self._m[row])) / BETS) - log(cost),
            run_length=level / cost,
            change_n=int(n),
            change_mean=mean,
            change_variance=max(squares - n * mean**2, 0.0) / (clusters - 1) if clusters > 1 else 0.0,
            change_tag=int(self._tag[row, best]),
            change_clusters=int(clusters),
        )
        self.restart(row)
        return alarm

    def bytes_of(self, rows: Rows) -> list[bytes]:
        """Return rows as bytes, exactly.

        Raises: ValueError if a number of a row is not finite.
        """
        if self.impossible(rows).any():
            raise ValueError("a number of a drift detector is not finite")
        return super().bytes_of(rows)
