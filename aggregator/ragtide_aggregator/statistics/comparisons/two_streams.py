"""The difference of the means of two streams that share no items: one interval, in place of the sum of two.

The error of a difference is S / n - T / m: S and T are the sums of x minus its mean given everything before, of n
values of one stream and m of the other. Two running intervals at half of alpha each add up how far both may go. But
both are hardly ever at their ends at once: the errors add like the sides of a right angle. `joint_boundary.py` has the
bound for both together, which holds at every look, and assumes no more: values in [0, 1].

It is tuned at V_OPT, four times that of a single running interval, because a difference takes more values to decide. At
a mean of 0.85 its width is 0.87 of that of the sum of two at 30 values in each stream, 0.73 at 1,000 and 0.77 at
10,000; with a tenth of 2,000 values in one stream 0.88. With a hundredth or less the sum of two is a little narrower.
"""

from typing import Final

import numpy as np

from ..intervals.joint_boundary import Deviations, joint_half_width
from ..means.moments import Moments
from ..tables.batches import Floats
from ..tables.tables import check_confidence

V_OPT: Final = 100.0
"""Intrinsic time of each stream at which the interval is tightest: about 800 values with a mean of 0.85."""


def stream_difference(a: Moments, b: Moments, *, confidence: float) -> tuple[Floats, Floats]:
    """Return lower and upper ends for mean a - mean b, each the average of its stream's true mean so far, in [-1, 1].

    With probability at least `confidence` they hold at every look at once.

    Args:
        a: moments of values in [0, 1], one element a comparison.
        b: moments of the other streams.
        confidence: level in (0, 1).

    Assumes: of values nothing but their range; no value is in both streams.
    Raises: ValueError unless 0 < confidence < 1 and every stream has a value.

    >>> from ..means.moments import MomentTable
    >>> table = MomentTable()
    >>> first, second = table.add_row(), table.add_row()
    >>> table.update(np.array([first, second] * 500), np.array([1.0, 1.0, 1.0, 0.0] * 250)).size
    1000
    >>> lower, upper = stream_difference(table.read([first]), table.read([second]), confidence=0.95)
    >>> bool(lower[0] > 0.38), bool(upper[0] < 0.62)
    (True, True)
    """
    check_confidence(confidence)
    if not (np.all(a.n > 0) and np.all(b.n > 0)):
        raise ValueError("one of the two has no values yet: a difference needs both")
    errors = (Deviations(1 / moments.n, moments.v / np.square(moments.n, dtype=np.float64)) for moments in (a, b))
    half_width = joint_half_width(*errors, alpha=1 - confidence, v_opt=V_OPT)
    estimate = a.mean - b.mean
    return np.clip(estimate - half_width, -1.0, 1.0), np.clip(estimate + half_width, -1.0, 1.0)
