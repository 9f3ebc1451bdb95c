"""Within how many answers the rules with the baseline `earlier` find a fall. Pure.

The evidence of a rule grows with each scored answer by the divergence of the scores after the fall from those before,
and it fires at the logarithm of its run length: no rule with this run length can be sooner than their quotient (Lorden
(1971), Annals of Mathematical Statistics 42: 1897-1908). The numbers here are medians: benchmarks/falls.py prints the
delays of the rules beside them.
"""

from math import inf, log
from typing import Final

MIN_EFFECT: Final = 0.02
"""Largest change of a mean that does not matter to a rule unless it states one, as a part of the range."""

GROWTH_MAX: Final = 0.55
"""The most that one value adds to the logarithm of the evidence. Where values hardly spread, all ranks after a fall are
the lowest: a bet against a mean rank of m gains log(1 / (1 - m)) with each, log(2) = 0.69 for m = 1/2, and 0.51 for the
least m, 0.4 (`ranks.MOST_MOVED`). It follows from the ranks, so it is no setting."""

HEAD_START: Final = 1.5
"""Part of the logarithm of the run length that evidence has in the middle, from bets that began before the fall."""

LEAST_SHARE: Final = 0.005
"""Least share of bad answers that is reckoned with: no stretch before a fall shows that there are none."""


def answers_to_find(
    fall: float,
    *,
    mean: float,
    sd: float | None = None,
    slope: float = 1.0,
    rate: float = 1.0,
    run_length: float = 10_000.0,
    min_effect: float = MIN_EFFECT,
) -> float:
    """Return the median number of answers of the traffic until a rule finds a fall.

    Assumes many scored answers before the fall, at least 500, and that answers are independent.

    Args:
        fall: of the share of good answers, in truth, in [0, 1].
        mean: of the scores before the fall, scaled to [0, 1].
        sd: standard deviation of the scores, scaled in the same way; None for scores of 0 and 1.
        slope: change of the mean of the scores per unit of the fall, such as 0.6.
        rate: share of the answers that are scored, in (0, 1].
        run_length: of the rule, in scored answers, above 1.
        min_effect: largest change of the mean that does not matter to the rule, scaled to [0, 1].

    Returns:
        At least 1 / rate; infinity if the rule does not count so small a change of the scores.

    >>> round(answers_to_find(0.4, mean=0.9)), answers_to_find(0.4, mean=0.9, slope=0.03)
    (16, inf)
    """
    moved = min(fall * slope, mean)
    if moved <= min_effect or rate <= 0:
        return inf
    counted = moved - min_effect / 2
    if sd is None:
        before, after = min(mean - min_effect / 2, 1 - LEAST_SHARE), mean - moved
        growth = _divergence(after, before)
    else:
        growth = min(counted**2 / (2 * max(sd, 1e-9) ** 2), GROWTH_MAX)
    return max((log(run_length) - HEAD_START) / growth, 1.0) / rate if growth > 0 else inf


def _divergence(after: float, before: float) -> float:
    """Return the Kullback-Leibler divergence of two shares."""
    parts = ((after, before), (1 - after, 1 - before))
    return sum(share * log(share / base) for share, base in parts if share > 0)
