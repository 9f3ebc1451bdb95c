"""Telemetry of the bridge: health and counts."""

from collections.abc import Mapping
from typing import Final

import structlog

from ragtide_runtime.telemetry import catalogue
from ragtide_runtime.telemetry.health import Heartbeat, ProcessTelemetry
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import DeadLetter
from ragtide_schemas.dead_letter import without_values

ROLE: Final = "bridge"
"""Name of the role in logs and health reports."""

log = structlog.get_logger("ragtide.bridge")


class BridgeTelemetry:
    """Counts messages, and reports the health of each direction.

    Args:
        process: telemetry of the process.
        directions: such as `from` and `alerts`.
    """

    def __init__(self, process: ProcessTelemetry, *directions: str) -> None:
        self.health = process.health
        self.loops = {direction: Heartbeat(f"bridge: {direction}") for direction in directions}
        self._messages = catalogue.BRIDGE_MESSAGES.counter(process.registry)
        self._sent = catalogue.BRIDGE_SENT.counter(
            process.registry, direction=[direction for direction in directions if direction != "from"]
        )
        self._connected = catalogue.BRIDGE_CONNECTED.gauge(process.registry)
        self._log_limit = LogLimit()
        for direction in directions:
            self.connected(direction, is_connected=False)

    def connected(self, direction: str, *, is_connected: bool) -> None:
        """Report whether the broker of a direction is connected."""
        self._connected.labels(direction).set(is_connected)

    def taken(self, outcomes: Mapping[str, int]) -> None:
        """Count items of messages, by outcome."""
        for outcome, number in outcomes.items():
            self._messages.labels(outcome).inc(number)

    def values_left_out(self, left_out: Mapping[str, int]) -> None:
        """Log values that were left out of items; of many only some."""
        event = "values without a plain meaning are left out of interactions"
        self._log_limit.warning(log, "left_out", event, names=sorted(left_out))

    def sent(self, direction: str, number: int) -> None:
        """Count messages that a broker has confirmed."""
        self._sent.labels(direction).inc(number)

    def rejected(self, letter: DeadLetter) -> None:
        """Log an item that became a dead letter; of many only some."""
        self._log_limit.warning(
            log,
            letter.reason,
            "a message cannot be used: it is a dead letter now, see ragtide dead-letters",
            entry_id=letter.entry_id,
            topic=letter.stream,
            reason=letter.reason.value,
            detail=without_values(letter.detail),
        )
