"""Quantiles of a stream of values of 0 or more, from a sketch of bounded size that merges without loss.

Source: Masson, Rim, Lee (2019), "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees",
PVLDB 12(12). The implementation is Datadog's.
"""

from collections.abc import Iterable
from typing import Final

from ddsketch import LogCollapsingLowestDenseDDSketch as DDSketch
from ddsketch.mapping import LogarithmicMapping
from ddsketch.pb.ddsketch_pb2 import DDSketch as Message
from ddsketch.pb.proto import DDSketchProto

RELATIVE_ERROR: Final = 0.02
"""Most that a quantile may be off, as a share of its value."""

BINS: Final = 128
"""Most bins kept: quantiles below a 160th of the largest value may be off by more."""

SHOWN: Final = (0.05, 0.5, 0.95, 0.99)
"""Quantiles that are shown."""


_MAPPING: Final = LogarithmicMapping(RELATIVE_ERROR)

_SCALE: Final = _MAPPING.value(_MAPPING.key(1.0))
"""Puts 1 in the middle of its bin, so that a quantile of yes-or-no values is 0 or 1 and not about 1."""


class Quantiles:
    """A sketch of values of 0 or more; it does not depend on their order, and merging equals adding all values."""

    def __init__(self) -> None:
        self._sketch = _empty()

    def add(self, values: Iterable[float]) -> None:
        """Add values of 0 or more."""
        for value in values:
            self._sketch.add(_SCALE * value)

    def merge(self, other: "Quantiles") -> None:
        """Add the values of another sketch."""
        self._sketch.merge(other._sketch)

    @property
    def n(self) -> int:
        """Number of values."""
        return int(self._sketch.count)

    def read(self) -> dict[str, float]:
        """Return the shown quantiles by name, `p5` to `p99`; empty without a value."""
        return {
            f"p{round(100 * share)}": float(value) / _SCALE
            for share in SHOWN
            if (value := self._sketch.get_quantile_value(share)) is not None
        }

    def to_bytes(self) -> bytes:
        """Return the sketch as bytes: the message that all of Datadog's implementations read."""
        message = DDSketchProto.to_proto(self._sketch)  # type: ignore[no-untyped-call]
        counts = list(message.positiveValues.contiguousBinCounts)
        filled = [index for index, count in enumerate(counts) if count]
        # Without the empty bins around them, whose number depends on how the values came.
        first, last = (filled[0], filled[-1]) if filled else (0, -1)
        offset = message.positiveValues.contiguousBinIndexOffset + first if filled else 0
        del message.positiveValues.contiguousBinCounts[:]
        message.positiveValues.contiguousBinCounts.extend(counts[first : last + 1])
        message.positiveValues.contiguousBinIndexOffset = offset
        return bytes(message.SerializeToString(deterministic=True))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Quantiles":
        """Return the sketch that `to_bytes` wrote."""
        message, found = Message.FromString(data), cls()
        for index, count in enumerate(message.positiveValues.contiguousBinCounts):
            if count:
                found._sketch.add(_MAPPING.value(message.positiveValues.contiguousBinIndexOffset + index), count)
        if message.zeroCount:
            found._sketch.add(0.0, message.zeroCount)
        return found


def _empty() -> DDSketch:
    return DDSketch(RELATIVE_ERROR, BINS)
