"""Quantiles of values of 0 or more, from a sketch of bounded size that can be merged without loss.

Source: Masson, Rim, Lee (2019), "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees",
PVLDB 12(12). The implementation is Datadog's.
"""

from collections.abc import Iterable, Iterator
from math import inf, log
from typing import Any, Final

import numpy as np
from ddsketch.ddsketch import BaseDDSketch as DDSketch
from ddsketch.mapping import LogarithmicMapping
from ddsketch.pb import ddsketch_pb2
from ddsketch.pb.proto import DDSketchProto
from ddsketch.store import CollapsingLowestDenseStore
from numpy.typing import NDArray

from ..tables.batches import Floats, Rows, distinct

RELATIVE_ERROR: Final = 0.02
"""Largest error of a quantile, as a share of its value."""

BINS: Final = 128
"""Most bins: quantiles below a 160th of the largest value may have a larger error."""

SHOWN: Final = (0.05, 0.5, 0.95, 0.99)
"""Quantiles that `read` returns."""


_MAPPING: Final = LogarithmicMapping(RELATIVE_ERROR)

_MESSAGE: Final[Any] = ddsketch_pb2.DDSketch
"""Made by protobuf when it is imported, so no type is known of it."""

_PER_DOUBLING: Final = log(2) / log(_MAPPING.gamma)
"""Bins between a value and twice the value."""

_SCALE: Final = _MAPPING.value(_MAPPING.key(1.0))
"""Puts 1 in the middle of its bin, so that a quantile of yes-or-no values is exactly 0 or 1."""


_LEAST: Final = _MAPPING.min_possible
_MOST: Final = _MAPPING.max_possible

ZERO: Final = -(2**20)
"""Key of the bin of 0, below all other keys."""


def keys_of(values: Floats) -> NDArray[np.int64]:
    """Return the key of the bin of each value of 0 or more."""
    scaled = np.minimum(_SCALE * values, _MOST)
    some = scaled > _LEAST
    keys = np.ceil(np.log2(np.where(some, scaled, 1.0)) * _PER_DOUBLING)
    return np.where(some, keys, ZERO).astype(np.int64)


def counted(rows: Rows, values: Floats) -> Iterator[tuple[int, int, int]]:
    """Yield the number of values in each bin of each row: row, key of the bin, and number.

    Args:
        rows: row of each value.
        values: of 0 or more, same shape.
    """
    keys = keys_of(values)
    some = keys[keys != ZERO]
    # The bin of 0 comes right below the lowest other bin.
    lowest = int(some.min(initial=0)) - 1
    keys = np.maximum(keys, lowest) - lowest
    span = int(keys.max(initial=0)) + 1
    codes, _, counts = distinct(rows * span + keys)
    bin_rows, bins = np.divmod(codes, span)
    bins = np.where(bins == 0, ZERO, bins + lowest)
    yield from zip(bin_rows.tolist(), bins.tolist(), counts.tolist(), strict=True)


class Quantiles:
    """A sketch of values of 0 or more, in any order; a merged sketch equals a sketch of all values."""

    def __init__(self) -> None:
        self._store = CollapsingLowestDenseStore(BINS)
        self._zeros = 0
        # Number of values by bin that are not yet in the store; they are added when the sketch is read.
        self._waiting: dict[int, int] = {}

    def add(self, values: Iterable[float]) -> None:
        """Add values of 0 or more."""
        for key in keys_of(np.array(list(values), dtype=np.float64)).tolist():
            self.add_bin(key, 1)

    def add_bin(self, key: int, count: int) -> None:
        """Add values of one bin (`keys_of`)."""
        self._waiting[key] = self._waiting.get(key, 0) + count

    def _whole(self) -> CollapsingLowestDenseStore:
        if self._waiting:
            self._zeros += self._waiting.pop(ZERO, 0)
            for key, count in self._waiting.items():
                self._store.add(key, count)
            self._waiting.clear()
        return self._store

    def merge(self, other: "Quantiles") -> None:
        """Add the values of another sketch."""
        self._whole().merge(other._whole())
        self._zeros += other._zeros

    @property
    def n(self) -> int:
        """Number of values."""
        return int(self._whole().count) + self._zeros

    def read(self, minimum: float = 0.0, maximum: float = inf) -> dict[str, float]:
        """Return the shown quantiles by name, `p5` to `p99`; empty without a value.

        Args:
            minimum: lowest of the values, if it is known: no quantile is below it, as the middle of its bin may be.
            maximum: highest of the values, if it is known.
        """
        sketch = DDSketch(_MAPPING, self._whole(), CollapsingLowestDenseStore(BINS), zero_count=self._zeros)
        return {
            f"p{round(100 * share)}": min(max(float(value) / _SCALE, minimum), maximum)
            for share in SHOWN
            if (value := sketch.get_quantile_value(share)) is not None
        }

    def to_bytes(self) -> bytes:
        """Return the sketch as bytes, in the message format of all Datadog implementations."""
        store = self._whole()
        message = _MESSAGE()
        message.CopyFrom(_EMPTY)
        if store.count:
            bins = store.bins[store.min_key - store.offset : store.max_key - store.offset + 1]
            # Without the empty bins around the filled ones, whose number depends on the order of the values.
            filled = [index for index, count in enumerate(bins) if count]
            message.positiveValues.contiguousBinCounts.extend(bins[filled[0] : filled[-1] + 1])
            message.positiveValues.contiguousBinIndexOffset = store.min_key + filled[0]
        message.zeroCount = self._zeros
        return bytes(message.SerializeToString(deterministic=True))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Quantiles":
        """Return the sketch that `to_bytes` wrote."""
        message, sketch = _MESSAGE.FromString(data), cls()
        for index, count in enumerate(message.positiveValues.contiguousBinCounts):
            if count:
                sketch.add_bin(message.positiveValues.contiguousBinIndexOffset + index, count)
        sketch._zeros = int(message.zeroCount)
        return sketch


_EMPTY: Final[Any] = DDSketchProto.to_proto(  # type: ignore[no-untyped-call]
    DDSketch(_MAPPING, CollapsingLowestDenseStore(BINS), CollapsingLowestDenseStore(BINS), zero_count=0.0)
)
