"""A bounded share of false alarms among all alarms of a deployment, by the evidence of all watches.

A watch is one detector: a rule on one key, in one direction. Its evidence is that of `DetectorTable` with the costs of
`Budget`: M <- (M + c) (1 + l (limit - x)), where c is set before its value is seen, M = 0 after an alarm. Such an M is
no e-value by itself: with a cost of 1 a value its mean rises by 1 a value. It is one, times `rate`, when the
costs of all watches in a period add up to `rate`: M is then a mixture of bets that begin at each value, and the
costs are the weights.

**Procedure.** `raised` is the number of alarms so far in the period. A look is a value, or a closed cluster, with the
watches that take it. Those with M >= 1 / (raised + 1) alarm, and pay out their M (`AlarmLevel`). This is e-LOND with
costs as weights. At a look at all watches k of them may alarm at 1 / (raised + k), for the largest such k (`rejected`):
without earlier alarms and with M = rate * e / K this is e-BH for K e-values e. Each watch gets a look with its next
value, so this finds changes hardly earlier (benchmarks/measured/false_discovery.md), and would raise alerts about a
pipeline at interactions of another one.

**Guarantee.** A false alarm is one whose watch had, at each value since the period began, or since the watch began
with M = 0 later in it (after an alarm, or with a new baseline), a mean that was not beyond the limit, given everything
counted before that value's interaction, or before its cluster closed. Let V(T) and R(T) be the numbers of false and of
all alarms in a period up to T. Then the mean of the largest V(T) / R(T) over all T in the period is at most `rate`, for
any dependence between watches, any number of them, and watches that come and go. So the expected share of false alarms
is at most `rate` at any moment, also one that the data chose, and a quiet period has any false alarm with a probability
of at most `rate`.

**Proof.** A false alarm j pays M_j. After its look there are R_j alarms, so M_j >= 1 / R_j. R(T) >= R_j at any later T,
so V(T) / R(T) <= sum of M_j over the false alarms, at every T. Take the M of each watch from the beginning of the
period on, and again from each of its beginnings on, until its mean is first beyond the limit. The sum of these M, plus
the payments so far, minus the costs so far, falls on average with each interaction: an alarm only turns evidence into a
payment, whichever values of the interaction it follows. So the mean of all payments of false alarms is at most the
costs of the period plus the evidence at its beginning: `rate`.

**Periods.** Evidence lasts over the end of a period as follows: M of every watch is multiplied by one factor, so that
all M add up to no more than RESERVE of `rate`, and the costs of the values of the new period to no more than the rest.
That is a choice made before the values of the period, so the guarantee holds in every period, given all earlier ones.

**Clusters.** A cluster of n values pays the costs of n values when it is closed, not when its values come, so that all
costs that enter M in a period are costs of that period. Which cost it is depends on numbers of values alone. A first
answer of a session pays those of the answers since the first answer before it, when it comes. The watch of its whole
session then keeps its guarantee if sessions are not better after a worse first answer (docs/understand/clusters.md).

**Partitions.** Each of P partitions controls its own alarms with `rate` / P. Let V_p, R_p be the numbers of partition p
in the same period. R >= R_p, so V / R <= sum of V_p / R_p at any moment, whose largest values have means that add up to
P * rate / P. So the guarantee holds for the deployment, however dependent the partitions are.

Why not e-BH on detectors with a cost of 1: its false discovery rate is at most level * E[T] (error over patience),
which promises nothing after 1 / level values. Why not on the largest evidence so far: its rate is not controlled.

Sources: Wang, Ramdas (2022), "False discovery rate control with e-values", JRSS B 84: 822-852 (e-BH). Xu, Ramdas
(2024), "Online multiple testing with e-values", AISTATS (e-LOND). Fischer, Xu, Ramdas (2024), "An online generalization
of the (e-)Benjamini-Hochberg procedure", arXiv:2407.20683 (stopping times, the largest share). Dandapanthula, Ramdas
(2025), "Multiple testing in multi-stream sequential change detection", arXiv:2501.04130 (error over patience).
Tavyrikov, Goeman, de Heide (2025), "Carefree multiple testing with e-processes", arXiv:2501.19360 (largest evidence so
far).
"""

import struct
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..tables.batches import Floats
from .budget import Budget

RESERVE: Final = 0.25
"""Largest part of the rate that the evidence handed on from the period before may take."""

VERSION: Final = 1
"""Version of the bytes."""

_HEAD = struct.Struct("<Bq")


def rejected(evidence: ArrayLike, raised: int = 0) -> NDArray[np.bool_]:
    """Return which watches alarm now; same shape as the evidence.

    Args:
        evidence: M of each watch, 0 or more, in the unit in which all costs of the period add up to the rate; 1-d.
        raised: alarms so far in the period, 0 or more.

    Raises: ValueError if the evidence is negative or not a number, or `raised` is negative.

    >>> rejected([0.9, 0.6, 0.3, 0.1]).tolist()
    [True, True, False, False]
    >>> rejected([0.9, 0.6, 0.3, 0.1], raised=1).tolist()
    [True, True, True, False]
    """
    m = np.asarray(evidence, dtype=np.float64)
    if m.ndim != 1 or not np.all(m >= 0):
        raise ValueError("evidence holds a number that is not 0 or more: give one number a watch")
    if raised < 0:
        raise ValueError(f"raised is {raised}: give the number of alarms so far, 0 or more")
    falling = np.sort(m)[::-1]
    enough = np.flatnonzero(falling * (raised + np.arange(1, m.size + 1)) >= 1)
    if not enough.size:
        return np.zeros(m.size, dtype=bool)
    # As many as reach the last level that is reached: ties cannot add another, or the level would be lower still.
    return np.asarray(m >= falling[enough[-1]])


class AlarmLevel:
    """The level of evidence at which watches alarm, so that few of the alarms of a period are false.

    Args:
        rate: largest expected share of false alarms among the alarms of a period, in (0, 1).
        period_ms: length of a period, in event time.

    Raises: ValueError for an argument out of its range.

    >>> level = AlarmLevel(0.1, period_ms=604_800_000)
    >>> level.begin(0, held=0.0)
    1.0
    >>> bool(level.spend(1_000_000).sum() < 0.1)
    True
    >>> level.count(1)
    >>> level.raised, level.level
    (1, 0.5)
    """

    def __init__(self, rate: float, period_ms: int) -> None:
        if not 0 < rate < 1:
            raise ValueError(f"rate is {rate}: give a share between 0 and 1, such as 0.1")
        self._reserve = RESERVE * rate
        self._budget = Budget(rate - self._reserve, period_ms)
        self._raised = 0

    def begins(self, time_ms: int) -> bool:
        """Return whether a time is in a later period than the present one, so that `begin` is to be called."""
        return self._budget.begins(time_ms)

    @property
    def next_ms(self) -> float:
        """Beginning of the next period; minus infinity before the first period."""
        return self._budget.next_ms

    def begin(self, time_ms: int, held: float) -> float:
        """Begin the period that holds a time; return the factor by which the evidence of every watch is multiplied.

        Args:
            time_ms: event time.
            held: sum of M over all watches.

        Raises: ValueError if the sum is negative or not a number.
        """
        if not held >= 0:
            raise ValueError(f"held is {held}: give the sum of the evidence of all watches, 0 or more")
        self._budget.begin(time_ms)
        self._raised = 0
        return self._reserve / held if held > self._reserve else 1.0

    @property
    def raised(self) -> int:
        """Number of alarms so far in the period."""
        return self._raised

    @property
    def level(self) -> float:
        """The evidence at which a single watch alarms."""
        return 1 / (self._raised + 1)

    def spend(self, count: int) -> Floats:
        """Return the costs of the next values, in order; shape (count,)."""
        return self._budget.spend(count)

    def count(self, alarms: int) -> None:
        """Count alarms of a look, whose watches had reached the level before it; their evidence is to be set to 0."""
        self._raised += alarms

    def to_bytes(self) -> bytes:
        """Return the state as bytes, exactly."""
        return _HEAD.pack(VERSION, self._raised) + self._budget.to_bytes()

    def load(self, data: bytes) -> None:
        """Take on the state that `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        if len(data) < _HEAD.size or data[0] != VERSION:
            raise ValueError(f"an alarm level has version {data[:1].hex() or 'none'} and {len(data)} bytes")
        self._budget.load(data[_HEAD.size :])
        _, self._raised = _HEAD.unpack_from(data)
