"""Means of rows that were drawn by strata from known answers, with intervals that are valid once. Arrays in and out.

A row that was drawn with probability p stands for w = 1 / p answers. With W_h, the share of the answers in stratum h,
and the mean m_h of its rows, the mean of the traffic is m = sum W_h m_h (Horvitz and Thompson; Hajek in a
stratum). The N answers are a sample of the traffic, too, so there are two phases, with S^2 the variance of all answers:

    var(m) = sum W_h^2 (1 - n_h / N_h) s_h^2 / n_h + S^2 / N = sum W_h^2 s_h^2 / n_h + sum W_h (m_h - m)^2 / N.

Where each answer has a known score f, with the mean F_h in its stratum, the rows count with y - b (f - F_h), where b is
the slope of y on f within the strata: what f predicts of y is then known without error.

A few rows of a stratum are often all alike, and their s_h^2 is then 0 by chance. So the interval is not m +- z sd(m):
its lower end is the least sum W_h t_h over all means t_h of strata with

    sum (m_h - t_h)^2 / v_h <= z^2,    v_h = r u (1 - u) / (n_h - 1),    u = m_h + k (t_h - m_h),

and its upper end the greatest. With k = 1 it is nearly Wilson's interval for one stratum of values 0 and 1. Here k is
log(1 / alpha) / z^2, 0.78 at 95%: then the end for n rows that are all 1 is 1 - 3 / n, where all are 1 with probability
alpha, and the interval misses as often below as above. r is the variance of the values as a part of the largest
possible one, estimated over all strata with one more value, at the farther end of the range (as in `closed_interval`).

A metric that some rows do not have is the mean of a domain, whose share of each stratum is estimated: that adds the
variance between the strata. A stratum with one value counts with the one beside it.

Assumes: rows were drawn at random within strata, in a number that did not depend on their values; for counts also that
the limit is near.
Sources: Cochran (1977), Sampling Techniques, sections 5.3 to 5.6, 5A.12 (collapsed strata), 5A.14 (domains), 7.10
(regression in strata) and 12.2 (two phases); Horvitz and Thompson (1952), JASA 47: 663-685; Sarndal, Swensson, Wretman
(1992), Model Assisted Survey Sampling, sections 3.7, 6.4, 9.3; Wilson (1927), JASA 22: 209-212; Yan and Su (2010),
Statistics in Biopharmaceutical Research 2: 329-335, for Wilson's interval over strata, with equal z in all; Newcombe
(1998), Statistics in Medicine 17: 2635-2650, method 8. Coverage: tests/aggregator/statistics, simulated.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..intervals.intervals import Interval
from ..tables import scipy_functions
from ..tables.batches import Floats, Rows
from ..tables.tables import check_confidence

STRATIFIED: Final = "stratified"
"""Strategy of the intervals of drawn rows."""

LEAST_FOR_SLOPE: Final = 20
"""Rows beyond one of each stratum from which on known scores are used."""

LEAST_DIFFERING: Final = 15
"""Equally weighted rows that have to differ before the differences have one interval."""

_STEPS: Final = 60
"""Steps in which z^2 is divided among the strata: each halves the distance to the best division, or nearly."""

_LEAST: Final = 1e-12


class DrawnFrom(NamedTuple):
    """How a row was drawn."""

    stratum: Hashable
    """Name of its stratum; strata with names that sort side by side are alike."""
    rows: int
    """Number of rows of the stratum at the draw, of which some may be missing now."""
    probability: float
    """Probability of the draw, in (0, 1]."""
    kept: float = 1.0
    """Probability with which the source kept the answer from the traffic, in (0, 1]."""


@dataclass(frozen=True, slots=True)
class RowWeights:
    """Drawn rows; arrays of one element per row. The rows of a stratum stand side by side."""

    starts: Rows
    """Place of the first row of each stratum, rising from 0."""
    answers: Floats
    """Answers of the source for which each row stands."""
    weights: Floats
    """Answers of the traffic for which each row stands."""

    @classmethod
    def of(cls, sizes: ArrayLike, rows: ArrayLike) -> "RowWeights":
        """Return the draw of strata from all answers, given the numbers of their answers and of their rows.

        Raises: ValueError if a stratum has no row, or more rows than answers.
        """
        n, answers = np.asarray(rows, dtype=np.intp), np.asarray(sizes, dtype=np.float64)
        if not (n.size and (n >= 1).all() and (n <= answers).all()):
            raise ValueError("a stratum has no row, or more rows than answers: give 1 to N_h rows of each")
        each = np.repeat(answers / n, n)
        return cls(np.concatenate(([0], np.cumsum(n)[:-1])), each, each)

    @property
    def rows(self) -> Rows:
        """Number of rows of each stratum."""
        return np.diff(self.starts, append=self.weights.size)

    @property
    def stands_for(self) -> float:
        """Number of answers of the traffic for which all rows stand."""
        return float(self.weights.sum())

    def sentence(self, by_hand: int = 0) -> str:
        """Return what estimates from the rows stand for, in words.

        Args:
            by_hand: number of rows beside them that were put in by hand.
        """
        rows = f"{self.weights.size:,} drawn rows stand for {self.stands_for:,.0f} answers"
        sentence = f"estimates stand for the traffic: {rows}"
        if not by_hand:
            return sentence
        others = "row put in by hand counts" if by_hand == 1 else "rows put in by hand count"
        return f"{sentence}; {by_hand:,} {others} for no estimate"

    def resized(self, rows: ArrayLike) -> "RowWeights":
        """Return weights of other numbers of rows from the same answers; a stratum without rows is left out.

        Args:
            rows: number of rows of each stratum.
        """
        n = np.asarray(rows, dtype=np.intp)
        answers, weights = (np.add.reduceat(each, self.starts) for each in (self.answers, self.weights))
        each_answers, each_weights = (np.repeat(part / np.maximum(n, 1), n) for part in (answers, weights))
        return RowWeights(np.concatenate(([0], np.cumsum(n[n > 0])[:-1])), each_answers, each_weights)


def draw_of(rows: Sequence[DrawnFrom]) -> tuple[Rows, RowWeights]:
    """Return the order of rows by stratum, and their draw in that order.

    Rows of a stratum that are left stand for those that are missing.

    Args:
        rows: how each row was drawn, at least one.
    """
    names = {name: code for code, name in enumerate(sorted({row.stratum for row in rows}, key=repr))}
    codes = np.array([names[row.stratum] for row in rows], dtype=np.intp)
    order = np.argsort(codes, kind="stable")
    present = np.bincount(codes)[codes]
    drawn = np.array([row.rows for row in rows], dtype=np.float64)
    answers = np.maximum(drawn / present, 1.0) / np.array([row.probability for row in rows])
    weights = answers / np.array([row.kept for row in rows])
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return order, RowWeights(starts, answers[order], weights[order])


@dataclass(frozen=True, slots=True)
class _JoinedStrata:
    """Sums over strata, on the last axis; without it those over all."""

    share: Floats
    """W_h."""
    n: Floats
    """Number of equally weighted values."""
    mean: Floats
    spread: Floats
    """Mean square around the mean of the stratum."""
    estimate: Floats
    between: Floats
    """Variance of the estimate because the shares, and what is known of the strata, are those of a sample."""

    @property
    def scale(self) -> Floats:
        """Variance of the estimate for each unit of variance in a stratum."""
        return np.where(self.n > 1, self.share**2 / np.maximum(self.n - 1, _LEAST), 0.0)


def stratified_mean(
    values: ArrayLike, draw: RowWeights, *, confidence: float, counts: bool = False, known: ArrayLike | None = None
) -> Interval[Floats, Floats]:
    """Return weighted means with their intervals.

    Args:
        values: in [0, 1], in the order of the rows of the draw; shape (..., rows). nan is a missing value, in the same
            rows of all means.
        draw: of the rows.
        confidence: level in (0, 1); the interval holds once, for rows whose number did not depend on the values.
        counts: whether the values are counts, whose range is far wider than their spread: the interval is Student's.
        known: score of each row that was known before, minus its mean over all answers of the stratum; None without.

    Returns:
        Arrays of the shape (...). The whole range with fewer than two values; nan for the mean without a value.

    >>> draw = RowWeights.of([900, 100], [10, 10])
    >>> mean = stratified_mean([1.0] * 15 + [0.0] * 5, draw, confidence=0.95)
    >>> round(float(mean.estimate), 3), float(mean.lower) < 0.8, float(mean.upper) < 1
    (0.95, True, True)
    """
    check_confidence(confidence)
    strata = _strata(np.asarray(values, dtype=np.float64), draw, None if known is None else np.asarray(known))
    tail = (1 + confidence) / 2
    z2 = float(scipy_functions.ndtri(tail)) ** 2
    if counts:
        freedom = max(float(np.maximum(strata.n - 1, 0).sum()), 1.0)
        within = (strata.scale * strata.spread).sum(axis=-1)
        half = float(scipy_functions.stdtrit(freedom, tail)) * np.sqrt(within + strata.between)
        below, above = half, half
    else:
        below, above = (
            np.sqrt(part**2 + z2 * strata.between) for part in _reaches(strata, z2, -log(1 - confidence) / z2)
        )
    enough = np.isfinite(strata.estimate) & (strata.n.sum() >= 2)
    lower = np.where(enough, np.maximum(strata.estimate - below, 0.0), 0.0)
    upper = np.where(enough, np.minimum(strata.estimate + above, 1.0), 1.0)
    return Interval(strata.estimate, lower, upper)


def stratified_difference(
    first: ArrayLike, second: ArrayLike, draw: RowWeights, *, confidence: float, counts: bool = False
) -> Interval[Floats, Floats]:
    """Return the weighted means of first - second with their intervals, as `stratified_mean` has them.

    As in `paired_difference_once`, what rises and what falls have a mean each, with an interval, and the two are
    combined with their correlation, unless enough rows differ: then the differences have one interval. So rows that are
    all alike have an interval with a width.

    Args:
        first: values in [0, 1], shape (..., rows).
        second: other values of the same rows.
        draw: of the rows; each has both values.
        confidence: level in (0, 1).
        counts: whether the values are counts.

    >>> draw = RowWeights.of([900, 100], [10, 10])
    >>> gap = stratified_difference([1.0] * 20, [1.0] * 10 + [0.0] * 10, draw, confidence=0.95)
    >>> round(float(gap.estimate), 3)
    0.1
    """
    gaps = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    rises, falls = np.maximum(gaps, 0.0), np.maximum(-gaps, 0.0)
    up, down = (stratified_mean(part, draw, confidence=confidence, counts=counts) for part in (rises, falls))
    of_up, of_down = _strata(rises, draw), _strata(falls, draw)
    # What rises in a row does not fall in it.
    together = (of_up.scale * of_up.mean * of_down.mean).sum(axis=-1)
    apart = np.sqrt((of_up.scale * of_up.spread).sum(axis=-1) * (of_down.scale * of_down.spread).sum(axis=-1))
    correlated = 2 * np.where(apart > 0, np.minimum(together / np.maximum(apart, _LEAST), 1.0), 0.0)

    def off(rise: Floats, fall: Floats) -> Floats:
        return np.asarray(np.sqrt(rise * rise + fall * fall + correlated * rise * fall))

    whole = stratified_mean((gaps + 1) / 2, draw, confidence=confidence, counts=counts)
    weighted = np.where(np.isnan(gaps), 0.0, np.abs(gaps)) * draw.weights
    squares = np.maximum((weighted**2).sum(axis=-1), _LEAST)
    enough = weighted.sum(axis=-1) ** 2 / squares >= LEAST_DIFFERING
    mean = up.estimate - down.estimate
    lower = mean - off(up.estimate - up.lower, down.upper - down.estimate)
    upper = mean + off(up.upper - up.estimate, down.estimate - down.lower)
    return Interval(
        mean,
        np.where(enough, 2 * whole.lower - 1, np.maximum(lower, -1.0)),
        np.where(enough, 2 * whole.upper - 1, np.minimum(upper, 1.0)),
    )


def _strata(values: Floats, draw: RowWeights, known: Floats | None = None) -> _JoinedStrata:
    has_value = np.asarray(~np.isnan(values).any(axis=tuple(range(values.ndim - 1))))
    starts = _joined(draw, has_value)
    sizes = np.diff(starts, append=has_value.size)
    w = np.where(has_value, draw.weights, 0.0)
    x = np.where(has_value, values, 0.0)

    def total(array: Floats | NDArray[np.bool_]) -> Floats:
        return np.asarray(np.add.reduceat(np.asarray(array, dtype=np.float64), starts, axis=-1))

    def centred(array: Floats) -> tuple[Floats, Floats]:
        mean = total(w * array) / weight
        return mean, np.where(has_value, array - np.repeat(mean, sizes, axis=-1), 0.0)

    weight, squares = np.maximum(total(w), _LEAST), np.maximum(total(w * w), _LEAST)
    everything = max(float(w.sum()), _LEAST)
    share, n = total(w) / everything, total(w) ** 2 / squares
    mean, off = centred(x)
    spread = total(w * off**2) / weight
    gained = np.zeros(spread.shape[:-1])
    if known is not None and has_value.sum() - starts.size >= LEAST_FOR_SLOPE:
        f = np.where(has_value, known, 0.0)
        f_mean, f_off = centred(f)
        scale = np.where(n > 1, share**2 / np.maximum(n - 1, _LEAST), 0.0)
        along = (scale * total(w * f_off**2) / weight).sum(axis=-1)
        slope = (scale * total(w * f_off * off) / weight).sum(axis=-1) / np.maximum(along, _LEAST)
        slope = np.expand_dims(np.where(along > _LEAST, slope, 0.0), -1)
        left = total(w * (off - slope * f_off) ** 2) / weight
        gained = np.maximum((share * (spread - left)).sum(axis=-1), 0.0)
        mean, spread = mean - slope * f_mean, left
    estimate = (share * mean).sum(axis=-1) if has_value.any() else np.full(mean.shape[:-1], np.nan)
    # What is predicted of a few rows may lie beyond the range.
    estimate, mean = np.clip(estimate, 0.0, 1.0), np.clip(mean, 0.0, 1.0)
    apart = (mean - np.expand_dims(estimate, -1)) ** 2
    source = max(float(np.where(has_value, draw.answers, 0.0).sum()), 1.0)
    part = total(has_value) / sizes
    domains = (squares / weight**2) * share**2 * sizes / np.maximum(sizes - 1, 1) * (1 - part)
    between = ((share / source + domains) * apart).sum(axis=-1) + gained / source
    return _JoinedStrata(share, n, mean, spread, np.asarray(estimate), np.asarray(between))


def _joined(draw: RowWeights, has_value: NDArray[np.bool_]) -> Rows:
    """Return the starts of the strata of which each has two values, or more."""
    starts, have = [0], 0
    counts = np.add.reduceat(has_value.astype(np.intp), draw.starts)
    for start, count in zip(draw.starts.tolist(), counts.tolist(), strict=True):
        if have >= 2:
            starts.append(start)
            have = 0
        have += count
    if have < 2 and len(starts) > 1:
        del starts[-1]
    return np.array(starts, dtype=np.intp)


def _reaches(strata: _JoinedStrata, z2: float, part: float) -> tuple[Floats, Floats]:
    """Return how far the interval reaches below and above the mean."""
    mean, share, scale = strata.mean, strata.share, strata.scale
    largest = (scale * mean * (1 - mean)).sum(axis=-1)
    farthest = np.maximum(strata.estimate, 1 - strata.estimate) ** 2
    found = (scale * strata.spread).sum(axis=-1) + (scale / np.maximum(strata.n, 1.0)).max(axis=-1) * farthest
    ratio = np.where(largest > 0, np.minimum(found / np.maximum(largest, _LEAST), 1.0), 1.0)
    n = np.maximum(strata.n - 1, _LEAST) / np.expand_dims(ratio, -1)
    return _reach(mean, n, share, z2, part), _reach(1 - mean, n, share, z2, part)


def _reach(mean: Floats, n: Floats, share: Floats, z2: float, part: float) -> Floats:
    moves = (mean > 0) & (share > 0)
    c = np.where(moves, z2, 0.0) / np.maximum(moves.sum(axis=-1, keepdims=True), 1)
    for _ in range(_STEPS):
        down = _below(mean, n, c, part)
        at = mean - part * down
        variance = at * (1 - at)
        steep = n * down * np.abs(2 * variance + part * down * (1 - 2 * at))
        # The slope of the end of the stratum along its part of z^2, which is equal for all strata in the end.
        slope = np.where(steep > 0, variance**2 / np.maximum(steep, 1e-300), 0.0)
        wanted = c * share * slope
        everything = wanted.sum(axis=-1, keepdims=True)
        c = np.where(everything > 0, z2 * wanted / np.maximum(everything, 1e-300), c)
    return np.asarray((share * _below(mean, n, c, part)).sum(axis=-1))


def _below(mean: Floats, n: Floats, c: Floats, part: float) -> Any:
    a = c / n
    along = a * part * (2 * mean - 1)
    size = 1 + a * part * part
    return np.minimum((along + np.sqrt(along**2 + 4 * size * a * mean * (1 - mean))) / (2 * size), mean)
