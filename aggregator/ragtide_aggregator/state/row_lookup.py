"""Finds the rows to which events add: new keys get rows, within the caps, with reasons of absence and declarations.

No clock, no I/O.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from ragtide_runtime.alert_book import AlertBook
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import Measure, MetricDeclaration, MetricDefinition, MetricEvent
from ragtide_schemas.declared import DECLARED_MAX
from ragtide_schemas.metric_definitions import PER_ANSWER

from ..alerts.own_values import OwnValuesRules
from ..events.keys import EstimateKey, absence_of, absent_name, scored_metric
from ..events.values import EventPart, estimate_key, pair_key, scopes_of, targets_of, usage_keys
from .capping import Admission, CappedRecords
from .options import StateOptions
from .pairs import PairRows
from .rows import KeyRows, StatePart

MOST_MAPPINGS: Final = 20_000
"""Most cached row mappings."""

MOST_REASONS: Final = 32
"""Most reasons of one metric with a count of their own; other reasons count as `other`."""

OTHER_REASON: Final = "other"
"""The reason as which other reasons count."""


class AbsenceRows:
    """The rows of each metric's reasons, of which there are at most `MOST_REASONS` and `other`."""

    def __init__(self) -> None:
        self._rows: defaultdict[EstimateKey, dict[str, int]] = defaultdict(dict)
        self._reasons: defaultdict[str, set[str]] = defaultdict(set)

    def known(self, absent: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Return absent metrics with the reasons as which they count."""
        return tuple((metric, self._known(metric, reason)) for metric, reason in absent.items()) if absent else ()

    def _known(self, metric: str, reason: str) -> str:
        reasons = self._reasons[metric]
        if reason not in reasons:
            if len(reasons) >= MOST_REASONS:
                return OTHER_REASON
            reasons.add(reason)
        return reason

    def add(self, key: EstimateKey, row: int) -> None:
        """Add a new row if it counts absences."""
        absence = absence_of(key.metric)
        if absence is not None:
            metric, reason = absence
            self._rows[key._replace(metric=metric)][reason] = row
            self._reasons[metric].add(reason)

    def of(self, key: EstimateKey) -> Mapping[str, int]:
        """Return the rows of a metric's reasons, by reason; empty for a segment value."""
        return self._rows.get(key, {})

    def __iter__(self) -> Iterator[tuple[EstimateKey, Mapping[str, int]]]:
        """Iterate over the keys of absent metrics, with the rows of their reasons."""
        return iter(list(self._rows.items()))


class AnswerRows:
    """The rows whose values count the answers of a scope: one row of each labeler."""

    def __init__(self) -> None:
        self._rows: defaultdict[tuple[str, str | None, str | None], list[int]] = defaultdict(list)

    def add(self, key: EstimateKey, row: int) -> None:
        """Add a new row if its values count answers."""
        if key.metric == PER_ANSWER:
            self._rows[key.pipeline, key.run, key.segment].append(row)

    def of(self, key: EstimateKey) -> Sequence[int]:
        """Return the rows that count the answers of a key's scope; empty if nothing counts them."""
        return self._rows.get((key.pipeline, key.run, key.segment), ())


_Name = tuple[str, str, Measure]
"""Pipeline, metric and measure."""


class Declarations(StatePart):
    """The declarations of metrics that are not ragtide's own, by pipeline, metric and measure.

    A key contains the properties that its numbers depend on: version, range, direction and kind. A declaration also has
    words and bands for readers, of which the newest count.
    """

    kinds = (CheckpointField.DECLARED,)

    def __init__(self) -> None:
        self._known: dict[_Name, MetricDeclaration] = {}
        self._changed: set[_Name] = set()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, event: MetricEvent) -> None:
        """Add the declarations of an event."""
        for metric, declaration in (event.declared or {}).items():
            self._put((event.pipeline, metric, declaration.measure), declaration)

    def _put(self, name: _Name, declaration: MetricDeclaration) -> None:
        if self._known.get(name) != declaration:
            self._known[name] = declaration
            self._changed.add(name)

    def of_pipeline(self, pipeline: str) -> dict[str, MetricDeclaration]:
        """Return the newest declarations of a pipeline by metric, at most as many as an event may have."""
        declarations = {metric: known for (owner, metric, _), known in self._known.items() if owner == pipeline}
        return dict(sorted(declarations.items())[:DECLARED_MAX])

    def definition(self, key: EstimateKey) -> MetricDefinition | None:
        """Return the definition of the metric whose scores a key counts; None without a definition."""
        if key.measure is None:
            return key.definition
        metric = scored_metric(key.metric)
        declaration = self._known.get((key.pipeline, metric, key.measure))
        return key.definition if declaration is None else declaration.definition(metric)

    def add_part(self, other: Self, rows: Sequence[int]) -> None:
        """Add the declarations of another state; of two for one measure either may be used."""
        for name in sorted(other._known, key=_text):
            self._put(name, other._known[name])

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the declarations that changed since the last call."""
        changed, self._changed = self._changed, set()
        return {
            CheckpointField.DECLARED + _text(name): self._known[name].encode() for name in sorted(changed, key=_text)
        }, []

    def _load_field(self, kind: CheckpointField, name: str, data: bytes) -> bool:
        pipeline, metric, measure = json.loads(name)
        self._known[pipeline, metric, Measure.read(measure)] = MetricDeclaration.decode(data)
        return True


def _text(name: _Name) -> str:
    return json.dumps(name, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class RowMapping:
    """The rows that a part of an event adds to."""

    rows: list[int]
    """Rows of the values, scope by scope, and then of time and cost of labeling if they count."""
    absent: list[int]
    """Rows of the absent metrics."""
    pairs: list[int]
    """Rows of the pairs, each in every scope."""
    scopes: int
    """Number of scopes."""
    ruled: list[int]
    """Rows of the rules on covariates."""


class RowLookup(StatePart):
    """Finds the rows to which events add.

    Args:
        book: the alerts of the partition, for those on its caps.
        own_values: rules on covariates.

    Attributes:
        segments: whether segment values have estimates.
        targets: rules on quantiles, whose shares are counted.
        rows: of the state.
        declarations: of metrics that are not ragtide's own.
        absences: rows that count absences of metrics by reason.
        answers: rows that count the answers of each scope.
        capped: counts of `other`.
    """

    def __init__(
        self, options: StateOptions, rows: KeyRows, pairs: PairRows, book: AlertBook, own_values: OwnValuesRules
    ) -> None:
        self._own_values = own_values
        self.segments = options.segments
        self.targets = targets_of(options.rules)
        self.rows, self._pairs = rows, pairs
        self.declarations = Declarations()
        self.absences = AbsenceRows()
        self.answers = AnswerRows()
        self._admission = Admission(options.caps)
        self.capped = CappedRecords(options.caps, self._admission, options.origin, book)
        self._mappings: dict[tuple[object, ...], RowMapping] = {}

    def add_key(self, row: int, key: EstimateKey) -> None:
        """Count a new key for the caps, and note its row if it counts absences or answers."""
        self._admission.add(key)
        self.absences.add(key, row)
        self.answers.add(key, row)

    def admitted(self, part: EventPart, time_ms: int, count: int) -> EventPart:
        """Return a part with the pipeline, run and segment values as which it counts.

        Args:
            time_ms: event time of the first of `count` such parts.
        """
        admitted = self._admission.admit(part.event, segments=self.segments)
        if part.counts_usage and not part.beside:
            self.capped.count(admitted, time_ms, count)
        return part._replace(event=admitted.event)

    def declare(self, event: MetricEvent) -> None:
        """Add the declarations of an event whose rows exist."""
        pipeline = self._admission.pipeline_of(event)
        kept = {
            name: declaration
            for name, declaration in (event.declared or {}).items()
            if self._admission.metric_of(pipeline, name) == name
        }
        if pipeline != event.pipeline or len(kept) < len(event.declared or ()):
            event = event.model_copy(update={"pipeline": pipeline, "declared": kept})
        self.declarations.add(event)

    def _key(self, event: MetricEvent, segment: str | None, metric: str, reason: str | None = None) -> EstimateKey:
        key = estimate_key(event, segment, metric)
        counted = self._admission.metric_of(event.pipeline, metric)
        return key._replace(metric=counted if reason is None else absent_name(counted, reason))

    def mapping(self, part: EventPart) -> RowMapping:
        """Return the rows that a part of an event adds to; new keys get rows."""
        event, extracted = part.event, part.extracted
        scopes = scopes_of(event, segments=self.segments)
        # Cached, because events of one pipeline and segment add to the same rows.
        absent = self.absences.known(event.absent) if part.counts_absences else ()
        usage = usage_keys(part) if part.counts_usage else ()
        pairs = tuple(pair[:4] for pair in extracted.pairs)
        declared = event.declared and tuple((name, metric.measure) for name, metric in event.declared.items())
        seen = (
            event.pipeline, event.run, scopes, event.profile, event.labeler, event.labeler_version, extracted.names,
            absent, pairs, usage, declared,
        )  # fmt: skip
        mapping = self._mappings.get(seen)
        if mapping is None:
            row = self.rows.row
            rows = [row(self._key(event, segment, name)) for segment in scopes for name in extracted.names]
            missing = [row(self._key(event, segment, name)) for segment in scopes for name, _ in absent]
            missing += [row(self._key(event, None, *absence)) for absence in absent]
            rows += [row(key) for key in usage]
            paired = [self._pairs.row(pair_key(event, segment, pair)) for pair in extracted.pairs for segment in scopes]
            if len(self._mappings) >= MOST_MAPPINGS:
                # There may be far more combinations of segment values than keys.
                self._mappings.clear()
            # Once per event, as the time of labeling.
            ruled = self._own_values.rows_of(event, segments=self.segments) if part.counts_usage else []
            mapping = self._mappings[seen] = RowMapping(rows, missing, paired, len(scopes), ruled)
        return mapping
