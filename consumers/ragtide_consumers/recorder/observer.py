"""A recorder's reports on itself: metrics and signs of life."""

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from time import time

from ragtide_runtime.telemetry.health import Health, Pulse
from ragtide_runtime.telemetry.instruments import RecorderInstruments

from .redaction import Redaction
from .writing import Written

ROLE = "recorder"
"""Name of the role in health reports."""


class TenureObserver:
    """Counts one tenure and keeps its pulse."""

    def __init__(self, partition: int, instruments: RecorderInstruments) -> None:
        self._partition = str(partition)
        self._instruments = instruments
        self._redacted: Counter[str] = Counter()
        self.pulse = Pulse(f"recording partition {partition}")

    def turned(self, waiting: int) -> None:
        """Take note of a turn, with so many entries that were read and are not written yet."""
        self.pulse.beat(f"recording, {waiting} read and not written yet")

    def failed(self, error: Exception) -> None:
        """Take note that Redis or the store failed; it is tried again."""
        self.pulse.trouble(f"failed: {error}")

    def committed(self) -> None:
        """Take note of a manifest."""
        self._instruments.manifest.labels(self._partition).set(time())

    def wrote(self, written: Written, redaction: Redaction) -> None:
        """Take note of files that a manifest names, and of what has been redacted so far."""
        for kind, count in written.entries.items():
            self._instruments.recorded.labels(kind.value).inc(count)
            self._instruments.bytes.labels(kind.value).inc(written.bytes[kind])
            self._instruments.unreadable.labels(kind.value).inc(written.unreadable[kind])
            self._instruments.withheld.labels(kind.value).inc(written.withheld[kind])
        for what, count in redaction.counts.items():
            self._instruments.redactions.labels(what).inc(count)
        redaction.counts.clear()


class Observer:
    """Counts the recorder of a process for Prometheus, and keeps the pulse of its search for partitions.

    Args:
        instruments: of the process; by default new ones that are not scraped.
        health: of the process; by default a new one that is not asked.
    """

    def __init__(self, instruments: RecorderInstruments | None = None, health: Health | None = None) -> None:
        self._instruments = instruments or RecorderInstruments()
        self._health = health or Health()
        self.pulse = Pulse("partitions to record")

    def watched(self) -> AbstractContextManager[None]:
        """Count as the role that runs, for the body of a `with`."""
        return self._health.watching(ROLE, self.pulse)

    def owns_none_of(self, partitions: int) -> None:
        """Show that this recorder owns none of the partitions, until a tenure begins."""
        for partition in range(partitions):
            self._instruments.owned.labels(str(partition)).set(0)

    def turned(self, *, owned: int, partitions: int) -> None:
        """Take note of a turn of the search, and of how many partitions are recorded."""
        self.pulse.beat(f"records {owned} of {partitions} partitions" if owned else "standing by: others record all")

    def failed(self, error: Exception) -> None:
        """Take note that Redis failed; it is tried again."""
        self.pulse.trouble(f"Redis failed: {error}")

    @contextmanager
    def tenure(self, partition: int) -> Iterator[TenureObserver]:
        """Give the observer of a tenure, for as long as it lasts."""
        observer = TenureObserver(partition, self._instruments)
        owned = self._instruments.owned.labels(str(partition))
        owned.set(1)
        try:
            with self._health.watching(ROLE, observer.pulse):
                yield observer
        finally:
            owned.set(0)
