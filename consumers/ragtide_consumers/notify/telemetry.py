"""Telemetry of the notifier of a process: metrics and health."""

from collections import Counter
from time import monotonic, time
from typing import Final

from ragtide_runtime.ownership.telemetry import OwnerTelemetry
from ragtide_runtime.telemetry import catalogue
from ragtide_runtime.telemetry.health import ProcessTelemetry

from .outbox import NotificationOutbox

ROLE: Final = "notify"
"""Name of the role in logs and health reports."""

SHOWN_S: Final = 1.0
"""Seconds between two counts of an outbox, because a count looks at every alert in it."""


class NotifyTelemetry(OwnerTelemetry):
    """Counts the notifications that a process sends.

    Args:
        partitions: number of partitions.
        destinations: their names.
        process: telemetry of the process; by default it is neither scraped nor served.
    """

    def __init__(
        self, partitions: int = 1, destinations: tuple[str, ...] = (), process: ProcessTelemetry | None = None
    ) -> None:
        super().__init__(ROLE, partitions, process, owned=catalogue.NOTIFY_OWNED)
        self._destinations = destinations
        self._sent = catalogue.NOTIFICATIONS.counter(self.registry, destination=destinations)
        self._withheld = catalogue.NOTIFICATIONS_WITHHELD.counter(self.registry, destination=destinations)
        self._size = catalogue.NOTIFY_OUTBOX.gauge(self.registry)
        self._oldest = catalogue.NOTIFY_OUTBOX_SECONDS.gauge(self.registry)
        self._show_at: dict[int, float] = {}
        self._waiting: dict[tuple[int, str], tuple[int, int | None]] = {}

    def take_destinations(self, destinations: tuple[str, ...]) -> None:
        """Count for these destinations from now on; new ones are there at 0, and what waits for old ones is no more."""
        for name in set(self._destinations) - set(destinations):
            self._size.labels(name).set(0)
            self._oldest.labels(name).set(0)
        catalogue.NOTIFICATIONS.start(self._sent, destination=destinations)
        catalogue.NOTIFICATIONS_WITHHELD.start(self._withheld, destination=destinations)
        self._destinations = destinations
        self._waiting.clear()

    def answered(self, destination: str, outcome: str) -> None:
        """Count a try: `sent`, `failed` or `refused`."""
        self._sent.labels(destination, outcome).inc()

    def report(self, partition: int, outbox: NotificationOutbox) -> None:
        """Count what an outbox withheld and gave up since the last call, and show what waits in it."""
        for (name, reason), n in outbox.withheld.items():
            self._withheld.labels(name, reason).inc(n)
        for name, n in outbox.given_up.items():
            self._sent.labels(name, "given_up").inc(n)
        outbox.withheld, outbox.given_up = Counter(), Counter()
        if monotonic() < self._show_at.get(partition, 0.0):
            return
        self._show_at[partition] = monotonic() + SHOWN_S
        for name in self._destinations:
            self._waiting[partition, name] = outbox.waiting(name)
        self._show()

    def no_longer_owned(self, partition: int) -> None:
        """Stop showing what waits in the outbox of a partition."""
        for name in self._destinations:
            self._waiting.pop((partition, name), None)
        self._show_at.pop(partition, None)
        self._show()

    def _show(self) -> None:
        for name in self._destinations:
            waits = [waiting for (_, destination), waiting in self._waiting.items() if destination == name]
            oldest = min((since for _, since in waits if since is not None), default=None)
            self._size.labels(name).set(sum(n for n, _ in waits))
            self._oldest.labels(name).set(0 if oldest is None else max(time() - oldest / 1000, 0))
