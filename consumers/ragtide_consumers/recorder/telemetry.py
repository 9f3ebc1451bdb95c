"""Telemetry of the recorder of a process: metrics and health."""

from collections.abc import Sequence
from time import time
from typing import Final

from ragtide_runtime.ownership.telemetry import OwnerTelemetry
from ragtide_runtime.telemetry import catalogue
from ragtide_runtime.telemetry.health import ProcessTelemetry

from ..redaction.redaction import Redaction
from .writing import WrittenFiles

ROLE: Final = "recorder"
"""Name of the role in logs and health reports."""


class RecorderTelemetry(OwnerTelemetry):
    """Counts the entries that the recorder of a process writes.

    Args:
        partitions: number of partitions.
        process: telemetry of the process; by default it is neither scraped nor served.
        redacted: names of the patterns and of the function that redact.
    """

    def __init__(
        self, partitions: int = 1, process: ProcessTelemetry | None = None, redacted: Sequence[str] = ()
    ) -> None:
        super().__init__(ROLE, partitions, process, owned=catalogue.RECORDER_OWNED)
        registry = self.registry
        self._recorded = catalogue.RECORDED.counter(registry)
        self._unreadable = catalogue.RECORDED_UNREADABLE.counter(registry)
        self._withheld = catalogue.RECORDED_WITHHELD.counter(registry)
        self._bytes = catalogue.RECORDED_BYTES.counter(registry)
        self._redactions = catalogue.REDACTIONS.counter(registry, what=redacted)
        self._manifest = catalogue.RECORDER_MANIFEST.gauge(registry)

    def committed(self, partition: int) -> None:
        """Set the time of the last manifest of a partition to now."""
        self._manifest.labels(str(partition)).set(time())

    def wrote(self, written: WrittenFiles, redaction: Redaction) -> None:
        """Count files that a manifest names, and the redactions since the last call."""
        for kind, count in written.entries.items():
            self._recorded.labels(kind.value).inc(count)
            self._bytes.labels(kind.value).inc(written.bytes[kind])
            self._unreadable.labels(kind.value).inc(written.unreadable[kind])
            self._withheld.labels(kind.value).inc(written.withheld[kind])
        for pattern, count in redaction.counts.items():
            self._redactions.labels(pattern).inc(count)
        redaction.counts.clear()
