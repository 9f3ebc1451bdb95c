"""Numbers in a state that no values add up to."""

import struct
from typing import Final

from ragtide_aggregator.statistics.means.moments import MomentTable

_ROW: Final = struct.Struct("<B10q3d")
_PLACES: Final = {"count": 1, "sum": 2, "m2": 5, "recent": 11, "maximum": 13}


def make_impossible(moments: MomentTable, row: int, **numbers: float) -> None:
    """Set numbers of a row of moments, by `_PLACES`."""
    parts = list(_ROW.unpack(moments.to_bytes(row)))
    for name, number in numbers.items():
        parts[_PLACES[name]] = number
    moments.load(row, _ROW.pack(*parts))
