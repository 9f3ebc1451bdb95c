"""Telemetry of ingest: counts of spans and interactions, and warnings that are logged once a kind."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import structlog

from ragtide_runtime.telemetry import catalogue
from ragtide_runtime.telemetry.health import Heartbeat, ProcessTelemetry
from ragtide_schemas import RagInteraction
from ragtide_schemas.dead_letter import without_values

from ..traces.interactions import Mapped
from ..traces.usage import cost_outcome
from .span_store import PartitionSize, StoreCounts

ROLE: Final = "serve"
"""Name of the role in health reports."""
KINDS_MAX: Final = 100
"""Most kinds of warnings that are logged; further kinds are only counted."""

log = structlog.get_logger("ragtide.ingest")


class IngestTelemetry:
    """Counts spans and interactions of traces.

    Args:
        process: telemetry of the process; by default it is neither scraped nor served.
    """

    def __init__(self, process: ProcessTelemetry | None = None) -> None:
        process = process or ProcessTelemetry()
        registry = process.registry
        self.health = process.health
        self.loop = Heartbeat("reading traces")
        self._spans = catalogue.INGEST_SPANS.counter(registry)
        self._late = catalogue.INGEST_LATE_SPANS.counter(registry)
        self._interactions = catalogue.INGEST_INTERACTIONS.counter(registry)
        self._traces = catalogue.INGEST_TRACES.counter(registry)
        self._changed = catalogue.INGEST_CHANGED.counter(registry)
        self._costs = catalogue.INGEST_COSTS.counter(registry)
        self._left_out = catalogue.INGEST_LEFT_OUT.counter(registry)
        self._documents = catalogue.INGEST_DOCUMENTS.counter(registry)
        self._open = catalogue.INGEST_OPEN_TRACES.gauge(registry)
        self._bytes = catalogue.INGEST_BYTES.gauge(registry)
        self._logged: set[tuple[str, ...]] = set()

    def received(self, counts: StoreCounts, invalid: int) -> None:
        """Count the spans of a request."""
        outcomes = {
            "stored": counts.stored,
            "repeated": counts.repeated,
            "rejected": counts.rejected,
            "invalid": invalid,
        }
        for outcome, number in outcomes.items():
            self._spans.labels(outcome).inc(number)
        self._late.inc(counts.late)

    def full(self) -> None:
        """Count a request that found no room."""
        self._spans.labels("full").inc()
        self.warn_once(
            "traces find no room: senders are asked to try again later",
            remedy="run more processes of ragtide serve, or raise ingest.traces_bytes and ingest.traces_cap",
        )

    def published(self, outcome: str) -> None:
        """Count an interaction of a trace, by outcome."""
        self._interactions.labels(outcome).inc()

    def refused(self, mapped: Mapped, service: str) -> None:
        """Count an interaction that cannot be used, and log the first of its kind."""
        reason = str(mapped.refusal)
        self._interactions.labels(reason).inc()
        self.warn_once(
            "an interaction of a trace cannot be used: further ones of this kind are only counted",
            service=service,
            reason=reason,
            detail=without_values(mapped.detail),
        )

    def assembled(self, interactions: Iterable[RagInteraction]) -> None:
        """Count interactions by the source of their cost, their documents, and the values that they left out."""
        for interaction in interactions:
            decided_by, left = (interaction.metadata.get(f"documents_{name}") for name in ("from", "not_given"))
            if decided_by is not None:
                self._documents.labels("given" if decided_by == "prompt" else "unknown").inc(len(interaction.documents))
            if isinstance(left, int):
                self._documents.labels("not_given").inc(left)
            source = cost_outcome(interaction.metadata)
            if source is not None:
                self._costs.labels(source).inc()
            for name, number in interaction.left_out.items():
                self._left_out.labels(name.partition(".")[0]).inc(number)
                if not name.startswith(("question.", "response.", "documents.")):
                    self.warn_once("a value of a trace cannot be read, and is left out", reason=name)

    def tail_sampled(self, service: str) -> None:
        """Log once that a tail sampler chooses the traces of a service."""
        self.warn_once(
            "a tail sampler chooses the traces of a service: if it prefers errors or slow traces, every estimate is "
            "biased, and no weight mends it",
            service=service,
            remedy="send ragtide the traces before the tail sampler, or let its policies be probabilistic only",
        )

    def changed(self, number: int) -> None:
        """Count interactions that late spans would have changed."""
        self._changed.inc(number)

    def closed(self, numbers: Mapping[str, int]) -> None:
        """Count traces that are over, by what they gave; those without an outcome were counted before."""
        for outcome, number in numbers.items():
            if outcome:
                self._traces.labels(outcome).inc(number)

    def sizes(self, sizes: Sequence[PartitionSize]) -> None:
        """Set the number of open traces and the bytes of the stored spans."""
        self._open.set(sum(size.open for size in sizes))
        self._bytes.set(sum(size.bytes for size in sizes))

    def warn_once(self, event: str, **fields: str) -> None:
        """Log a warning, unless the same was logged before."""
        kind = (event, *(fields.get(name, "")[:200] for name in ("service", "reason")))
        if kind not in self._logged and len(self._logged) < KINDS_MAX:
            self._logged.add(kind)
            log.warning(event, **fields)
