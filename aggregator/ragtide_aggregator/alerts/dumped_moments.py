"""Moments as text, for the state of a search. No I/O."""

import base64

import numpy as np

from ..statistics.means.segment_moments import SegmentMoments


def dumped(moments: SegmentMoments) -> str:
    """Return moments as text; `read_moments` returns the same to the bit."""
    return base64.b64encode(np.stack([moments.n, moments.mean, moments.m2]).astype("<f8").tobytes()).decode()


def read_moments(text: str) -> SegmentMoments:
    """Return the moments that `dumped` wrote."""
    return SegmentMoments(*np.frombuffer(base64.b64decode(text), "<f8").reshape(3, -1).astype(np.float64))
