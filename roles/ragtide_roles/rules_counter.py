"""Counts how often a process has read its alert rules anew."""

from collections.abc import Callable

from ragtide_runtime.settings.rules_watch import OUTCOMES, Outcome
from ragtide_runtime.telemetry.catalogue import RULES_READ
from ragtide_runtime.telemetry.process import ProcessTelemetry


def rules_counter(process: ProcessTelemetry) -> Callable[[Outcome], None]:
    """Return a function that counts a reading by its outcome; every outcome is there from the start."""
    counter = RULES_READ.counter(process.registry)
    by_outcome = {outcome: counter.labels(outcome) for outcome in OUTCOMES}
    return lambda outcome: by_outcome[outcome].inc()
