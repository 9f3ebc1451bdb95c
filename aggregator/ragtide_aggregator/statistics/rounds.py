"""Cutting a batch into rounds in which every row occurs at most once, so that arrays can be updated in place."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


def rounds(rows: Rows) -> Iterator[NDArray[np.intp]]:
    """Yield positions in a batch, round by round: the first occurrence of every row, then the second of each, ...

    Working through the rounds does to each row what working through the batch value by value would, to the bit.

    >>> [positions.tolist() for positions in rounds(np.array([7, 3, 7, 7, 3]))]
    [[0, 1], [2, 4], [3]]
    """
    if len(set(rows.tolist())) == rows.size:
        if rows.size:
            yield np.arange(rows.size)
        return
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    occurrence = np.arange(rows.size) - np.repeat(starts, np.diff(np.r_[starts, rows.size]))
    # Sorted by round and, within it, by position.
    by_round = order[np.lexsort((order, occurrence))]
    yield from np.split(by_round, np.cumsum(np.bincount(occurrence))[:-1])
