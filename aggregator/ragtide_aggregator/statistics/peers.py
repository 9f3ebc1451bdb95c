"""ADWIN and Page-Hinkley, as the library `river` has them: for those who know them, and to compare with.

Neither states a false-alarm rate for a mean that does not move in the way an e-detector does; their parameters are
river's own defaults. A detector of theirs cannot be stored, so a peer keeps the values since it last began, which it is
given again after a restart. It begins anew after `MEMORY` values.

Source: Bifet, Gavalda (2007), "Learning from time-changing data with adaptive windowing", SDM; Page (1954), Biometrika
41: 100-115.
"""

import zlib
from typing import Any, Final, Literal

import numpy as np

PeerName = Literal["adwin", "page_hinkley"]

MEMORY: Final = 10_000
"""Values after which a peer begins anew."""


class Peer:
    """A detector of `river` on values in [0, 1].

    Raises: ValueError if river is not installed, or there is no peer of that name.
    """

    def __init__(self, name: PeerName) -> None:
        try:
            from river import drift  # noqa: PLC0415 - an extra
        except ModuleNotFoundError:
            raise ValueError(f"detector {name} needs river: install ragtide[peers]") from None
        kinds: dict[str, Any] = {"adwin": drift.ADWIN, "page_hinkley": drift.PageHinkley}
        if name not in kinds:
            raise ValueError(f"detector {name!r} is unknown: use e_detector, adwin or page_hinkley")
        self._kind = kinds[name]
        self.restart()

    def restart(self) -> None:
        """Begin anew."""
        self._detector = self._kind()
        self._values: list[float] = []

    @property
    def values(self) -> list[float]:
        """The values since it began."""
        return self._values

    def update(self, value: float) -> bool:
        """Add a value and return whether the mean has changed."""
        if len(self._values) >= MEMORY:
            self.restart()
        self._values.append(value)
        self._detector.update(value)
        return bool(self._detector.drift_detected)

    def window_n(self) -> int:
        """Return how many of the last values belong to the present mean.

        ADWIN says so itself; for Page-Hinkley it is where the values before lie farthest above or below those after.
        """
        width = getattr(self._detector, "width", None)
        if width is None:
            values = np.asarray(self._values)
            width = values.size - 1 - int(np.argmax(np.abs(np.cumsum(values - values.mean()))))
        return min(max(int(width), 1), len(self._values))

    def to_bytes(self) -> bytes:
        """Return the values since it began as bytes."""
        return zlib.compress(np.asarray(self._values, "<f8").tobytes())

    def load(self, data: bytes) -> None:
        """Take on the state that `to_bytes` returned."""
        self.restart()
        for value in np.frombuffer(zlib.decompress(data), "<f8").tolist():
            self.update(value)
