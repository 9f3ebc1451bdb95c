"""The exponentially weighted recent mean of many keys at once.

With the n-th value x the recent mean r becomes (1 - s) r + s x. For the first 32 values s is 1 / n, which gives their
plain mean; from then on s is 1 / 32.
"""

from typing import Final

import numpy as np

from ..tables import scipy_functions
from ..tables.batches import Floats, Grouped, Rows

RECENT_N: Final = 64
"""About the number of values in the recent mean."""

_SHARE: Final = 2 / RECENT_N
_LEARNED: Final = RECENT_N // 2

LONG: Final = 2 * RECENT_N
"""From this number of values of a row on, a compiled filter is faster than rounds over all rows.

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
    starts, counts = batch.starts[:long].copy(), batch.counts[:long].copy()
    for rank in np.flatnonzero(n[starts] < _LEARNED).tolist():
        start, learned = starts[rank], int(n[starts[rank]])
        first = _LEARNED - learned
        last = float(after[rank])
        for number, value in enumerate(values[start : start + first].tolist(), learned + 1):
            share = max(1 / number, _SHARE)
            last = (1 - share) * last + share * value
        after[rank] = last
        starts[rank] += first
        counts[rank] -= first
    begin = 0
    while begin < long:
        # Rows with similar numbers of values go together; shorter rows are padded, and the padding is ignored.
        end = begin + int(np.searchsorted(-batch.counts[begin:long], -batch.counts[begin] // 2, side="right"))
        after[begin:end] = _filtered(after[begin:end], values, starts[begin:end], counts[begin:end])
        begin = end
    _in_rounds(batch, long, values, n, after)
    return after


def _filtered(last: Floats, values: Floats, starts: Rows, counts: Rows) -> Floats:
    within = np.arange(int(counts.max()))
    series = values[np.minimum(starts[:, None] + within, values.size - 1)]
    # Products with a power of 2 are exact, so the result is the same on processors that do not round them.
    filtered, _ = scipy_functions.lfilter([_SHARE], [1.0, _SHARE - 1], series, zi=(1 - _SHARE) * last[:, None])
    return np.asarray(filtered[np.arange(counts.size), counts - 1])


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
