"""The declarations of metrics that are not ragtide's own, from the events. No clock, no I/O.

A key contains the properties that its numbers depend on: version, range, direction and kind. A declaration also has
words and bands for readers, of which the newest count.
"""

import json
from collections.abc import Iterator

from ragtide_schemas import METRICS, Measure, MetricDeclaration, MetricDefinition, MetricEvent

from ..events.keys import EstimateKey, scored_metric

_Name = tuple[str, str, Measure]
"""Pipeline, metric and measure."""


class Declarations:
    """Declarations by pipeline, metric and measure, with the changes since the last commit."""

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
        """Return the definition of the metric whose scores a key counts; None without a definition."""
        metric = scored_metric(key.metric)
        if key.measure is None:
            return METRICS.get(metric)
        declaration = self._known.get((key.pipeline, metric, key.measure))
        if declaration is None:
            declaration = MetricDeclaration(**key.measure._asdict())
        return declaration.definition(metric)

    def merge(self, other: "Declarations") -> None:
        """Add the declarations of another state; of two for one measure either may be used."""
        for name in sorted(other._known, key=_text):
            self._put(name, other._known[name])

    def take_changes(self) -> Iterator[tuple[str, bytes]]:
        """Yield the declarations that changed since the last call, with the texts of their names."""
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
