"""The exponentially weighted recent mean of many keys at once.

With the n-th value x the recent mean r becomes (1 - s) r + s x. For the first 32 values s is 1 / n, which gives their
plain mean; from then on s is 1 / 32.
"""

from typing import Final

import numpy as np

from ..tables.batches import Floats, Grouped, Rows

RECENT_N: Final = 64
"""About the number of values in the recent mean."""

_SHARE: Final = 2 / RECENT_N
_KEPT: Final = 1 - _SHARE
_LEARNED: Final = RECENT_N // 2

LONG: Final = 2 * RECENT_N
"""From this number of values of a row on, one value after the other is faster than rounds over all rows.

It must be larger than 32, because the shares of the first 32 values differ.
"""


def weighted(batch: Grouped, values: Floats, n: Rows, recent: Floats) -> Floats:
    """Return the recent means of a batch's rows after it.

    Args:
        batch: values by row.
        values: in the batch's order.
        n: for each value the number of values of its row before it.
        recent: recent means before the batch, one per row.
    """
    after = recent.copy()
    # The rows with the most values come first.
    long = int(np.searchsorted(-batch.counts, -LONG, side="right"))
    for rank in range(long):
        start = int(batch.starts[rank])
        after[rank] = _in_turn(float(after[rank]), values[start : start + batch.counts[rank]], int(n[start]))
    _in_rounds(batch, long, values, n, after)
    return after


def _in_turn(last: float, values: Floats, n: int) -> float:
    first = max(_LEARNED - n, 0)
    for number, value in enumerate(values[:first].tolist(), n + 1):
        share = max(1 / number, _SHARE)
        last = (1 - share) * last + share * value
    # Products with a power of 2 are exact, so the result is the same on processors that do not round them.
    for part in (_SHARE * values[first:]).tolist():
        last = _KEPT * last + part
    return last


def _in_rounds(batch: Grouped, first: int, values: Floats, n: Rows, after: Floats) -> None:
    starts, counts = batch.starts[first:], batch.counts[first:]
    if not counts.size:
        return
    shares = np.maximum(1 / (n[starts[0] :] + 1), _SHARE)
    starts = starts - starts[0]
    values = values[-shares.size :]
    rows = after[first:]
    width = np.searchsorted(-counts, -np.arange(int(counts[0])), side="left").tolist()
    for number, rank in enumerate(width):
        here = starts[:rank] + number
        share, last = shares[here], rows[:rank]
        last *= 1 - share
        last += share * values[here]
