"""The declarations of metrics that are not ragtide's own, as events brought them. No clock, no I/O.

A key holds everything that its numbers depend on: version, range, direction and kind. Besides, a declaration holds
words and bands for readers; the newest of these count.
"""

import json
from collections.abc import Iterator

from ragtide_schemas import METRICS, Measure, MetricDeclaration, MetricDefinition, MetricEvent

from ..events.keys import EstimateKey, scored_metric

_Name = tuple[str, str, Measure]
"""Pipeline, metric and measure."""


class Declarations:
    """Declarations by pipeline, metric and measure, and which of them changed."""

    def __init__(self) -> None:
        self._known: dict[_Name, MetricDeclaration] = {}
        self._changed: set[_Name] = set()

    def take(self, event: MetricEvent) -> None:
        """Add the declarations of an event."""
        for metric, declaration in (event.declared or {}).items():
            self._put((event.pipeline, metric, declaration.measure), declaration)

    def _put(self, name: _Name, declaration: MetricDeclaration) -> None:
        if self._known.get(name) != declaration:
            self._known[name] = declaration
            self._changed.add(name)

    def definition(self, key: EstimateKey) -> MetricDefinition | None:
        """Return the definition of the metric whose scores a key counts; None where nothing defines it."""
        metric = scored_metric(key.metric)
        if key.measure is None:
            return METRICS.get(metric)
        declaration = self._known.get((key.pipeline, metric, key.measure))
        if declaration is None:
            declaration = MetricDeclaration(**key.measure._asdict())
        return declaration.definition(metric)

    def merge(self, other: "Declarations") -> None:
        """Add those of another state; of two for one measure either is right."""
        for name in sorted(other._known, key=_text):
            self._put(name, other._known[name])

    def take_changes(self) -> Iterator[tuple[str, bytes]]:
        """Yield those that changed since the last call, by the texts of their names."""
        for name in sorted(self._changed, key=_text):
            yield _text(name), self._known[name].encode()
        self._changed.clear()

    def load(self, text: str, data: bytes) -> None:
        """Add a declaration that `take_changes` yielded.

        Raises: ValueError if it was written by another version.
        """
        pipeline, metric, measure = json.loads(text)
        self._known[pipeline, metric, Measure.read(measure)] = MetricDeclaration.decode(data)


def _text(name: _Name) -> str:
    return json.dumps(name, ensure_ascii=False, separators=(",", ":"))
