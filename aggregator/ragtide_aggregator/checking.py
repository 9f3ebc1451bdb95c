"""What no state may hold, and so no checkpoint either: numbers that are not finite, or that no values add up to.

Bounds in the schema keep such numbers out. This check catches what gets past them before it is committed, because a
checkpoint with such a number would fail at every start.
"""

from collections.abc import Iterable

import numpy as np

from .kept import Kept


class ImpossibleStateError(ValueError):
    """A key holds a number that is not finite or that no values add up to."""


def check(kept: Kept, rows: Iterable[int]) -> None:
    """Check what is kept of rows, with the panes and pairs that changed since the last commit.

    Raises:
        ImpossibleStateError: something is impossible; the message names the field of the checkpoint.
    """
    index = np.fromiter(rows, dtype=np.intp)
    wrong = kept.rows.impossible(index) | kept.moments.impossible(index)
    if wrong.any():
        raise _error(f"estimate:{kept.rows.keys[int(index[np.argmax(wrong)])].encode()}")
    pair = kept.pairs.impossible()
    if pair is not None:
        raise _error(f"pair:{pair.encode()}")
    pane = None if kept.panes is None else kept.panes.impossible(kept.rows.keys)
    if pane is not None:
        raise _error(f"pane:{pane}")


def _error(field: str) -> ImpossibleStateError:
    return ImpossibleStateError(f"{field} would hold a number that is not finite or that no values add up to")
