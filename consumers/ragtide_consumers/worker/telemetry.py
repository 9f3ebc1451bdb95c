"""Telemetry of the label workers of a process: metrics and health."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import Counter, Histogram, core
from prometheus_client.registry import Collector

from ragtide_runtime.telemetry import catalogue
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_runtime.telemetry.metric import family

from ..text.kept_documents import KEPT

ROLE: Final = "worker"
"""Name of the role in health reports."""


class _Documents(Collector):
    """Counts the documents that the labelers of this process cut, or found kept."""

    def collect(self) -> Iterator[core.Metric]:
        yield family(catalogue.DOCUMENTS, [(("kept",), KEPT.n_found), (("cut",), KEPT.n_cut)])


class WorkerTelemetry:
    """The metrics of the label workers of a process, and its health.

    Args:
        process: telemetry of the process; by default it is neither scraped nor served.
    """

    def __init__(self, process: ProcessTelemetry | None = None) -> None:
        process = process or ProcessTelemetry()
        registry = process.registry
        self.health = process.health
        self.dead_letters = catalogue.DEAD_LETTERS.counter(registry)
        self._left_out = catalogue.LEFT_OUT.counter(registry)
        self._labeling_seconds = catalogue.LABELING_SECONDS.histogram(registry)
        self._seconds_of: dict[str, Histogram] = {}
        self.in_work: dict[object, Collection[str]] = {}
        """Entries in work, by label worker."""
        catalogue.IN_FLIGHT.gauge(registry).set_function(lambda: sum(map(len, self.in_work.values())))
        self.reclaimed = catalogue.RECLAIMED.counter(registry)
        self.result_spans = catalogue.RESULT_SPANS.counter(registry)
        self.specimens = catalogue.SPECIMENS.counter(registry)
        self._labelings = catalogue.LABELINGS.counter(registry)
        replaced = catalogue.EVALUATORS_REPLACED.counter(registry)
        self._replaced = {outcome: replaced.labels(outcome) for outcome in ("taken", "refused")}
        registry.register(_Documents())

    def labeling_took(self, labeler: str, seconds: float) -> None:
        """Count the seconds of labeling one interaction."""
        histogram = self._seconds_of.get(labeler)
        if histogram is None:
            histogram = self._seconds_of[labeler] = self._labeling_seconds.labels(labeler)
        histogram.observe(seconds)

    def replaced(self, outcome: str) -> None:
        """Count an attempt to take other evaluators by its outcome, `taken` or `refused`."""
        self._replaced[outcome].inc()

    def left_out(self, values: Mapping[str, int]) -> None:
        """Count values that were left out of an entry, by the field that had them."""
        for name, number in values.items():
            self._left_out.labels(name.partition(".")[0]).inc(number)

    def specimen(self, outcome: str) -> None:
        """Count a specimen by its outcome."""
        self.specimens.labels(outcome).inc()

    def outcomes(self, labeler: str, names: Iterable[str]) -> dict[str, Counter]:
        """Return a labeler's counter of each outcome; each starts at 0, so that a rate includes its first event."""
        return {name: self._labelings.labels(labeler, name) for name in names}
