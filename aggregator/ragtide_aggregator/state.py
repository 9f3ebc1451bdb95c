"""The aggregator's state: what every metric event so far adds up to. No clock, no I/O."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ragtide_schemas import (
    Alert,
    AlertRule,
    InvalidEntryError,
    MetricEvent,
    Reason,
    to_milliseconds,
    value_range,
)
from ragtide_schemas.diagnosis import PATTERNS, Score, diagnose

from .keys import EstimateKey, segment_values
from .statistics.drift import DetectorTable
from .statistics.moments import MomentTable
from .watch import Watch, matches

SQUARED_ERROR: Final = "squared_error."
"""Family of the squared differences from the gold score, in units of the metric's range."""

GOLD: Final = "gold."
"""Family of the gold scores themselves, whose spread is the error of always predicting their mean."""

_ROW_FIELD = "estimate:"
_WATCH_FIELD = "watch:"
_COUNTS = struct.Struct("<QqQ")


@dataclass(frozen=True, slots=True)
class StateOptions:
    """What is kept: the alert rules, and whether segment values get estimates of their own."""

    rules: tuple[AlertRule, ...] = ()
    segments: bool = True


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed since the last time: for one commit."""

    keys: Sequence[EstimateKey] = ()
    rows: Mapping[str, bytes] = field(default_factory=dict)
    gone: Sequence[str] = ()
    alerts: Sequence[Alert] = ()


@dataclass(slots=True)
class Row:
    """What is known of one key besides its moments."""

    key: EstimateKey
    watches: list[Watch]
    n_absent: int = 0
    updated_ms: int = 0
    population_size: int | None = None


class AggregatorState:
    """Moments of every key in arrays, one row per key, and the watches of the alert rules.

    `apply` adds one event or, if it raises, changes nothing. The result does not depend on how the events were cut
    into batches, so a restart from any checkpoint continues to the bit.
    """

    def __init__(self, options: StateOptions) -> None:
        self._options = options
        self.moments = MomentTable()
        self._detectors = DetectorTable()
        self.rows: list[Row] = []
        self._index: dict[EstimateKey, int] = {}
        self._known_rows: dict[tuple[object, ...], list[int]] = {}
        self._changed: set[int] = set()
        self._alerts: list[Alert] = []
        self._gone: list[str] = []

    def __len__(self) -> int:
        return len(self.rows)

    def index(self, key: EstimateKey) -> int | None:
        """Return the row of a key, None if no event has had it."""
        return self._index.get(key)

    def apply(self, event: MetricEvent) -> None:
        """Add one metric event.

        Raises:
            InvalidEntryError: a score is outside its metric's range; nothing was added.
        """
        parts = [part for part in (event, event.judgement()) if part is not None]
        # All are looked at before any is added.
        for part, observations in [(part, _observations(part)) for part in parts]:
            self._add_scores(part, observations)

    def apply_gold(self, event: MetricEvent, gold_scores: Mapping[str, float]) -> None:
        """Add gold scores that came later to an event that has been applied, as if the event had brought them.

        Raises:
            InvalidEntryError: a score is outside its metric's range; nothing was added.
        """
        graded = event.model_copy(update={"gold_scores": gold_scores, "absent": {}})
        parts = [part for part in (graded, graded.judgement()) if part is not None]
        for part, observations in [(part, _observations(part)) for part in parts]:
            late = {name: value for name, value in observations.items() if name.startswith((SQUARED_ERROR, GOLD))}
            if late:
                self._add_scores(part.model_copy(update={"absent": {}}), late)

    def _add_scores(self, event: MetricEvent, observations: dict[str, float]) -> None:
        time_ms = to_milliseconds(event.occurred_at)
        scopes = (None, *segment_values(event)) if self._options.segments else (None,)
        rows = self._rows_of(event, scopes, tuple(observations))
        values = list(observations.values()) * len(scopes)
        self.moments.update(np.array(rows, dtype=np.intp), np.array(values))
        for row in rows:
            self._touch(row, event, time_ms)
        for segment in scopes:
            for metric in event.absent:
                row = self._row(event, segment, metric)
                self.rows[row].n_absent += 1
                self._touch(row, event, time_ms)
        self._watch(rows, values, event, time_ms)

    def _watch(self, rows: list[int], values: list[float], event: MetricEvent, time_ms: int) -> None:
        detecting: list[tuple[Watch, float, int]] = []
        for row, value in zip(rows, values, strict=True):
            for watch in self.rows[row].watches:
                if watch.detecting:
                    detecting.append((watch, value, row))
                else:
                    watch.learn(value)
        if not detecting:
            return
        watched = np.array([watch.row for watch, _, _ in detecting], dtype=np.intp)
        taken = np.array([value for _, value, _ in detecting])
        alarms = self._detectors.update(watched, taken, np.full(len(detecting), time_ms))
        alarmed = {alarm.row: alarm for alarm in alarms}
        for watch, value, row in detecting:
            alarm = alarmed.get(watch.row)
            if alarm is None:
                watch.observed(value, event.interaction_id)
            else:
                alert = watch.alarmed(alarm, value, event, int(self.moments.n[row]))
                if alert.status == "firing":
                    alert = alert.model_copy(update={"diagnosis": self._diagnosis(self.rows[row].key)})
                self._alerts.append(alert)

    def _diagnosis(self, key: EstimateKey) -> tuple[str, ...]:
        """Return what the recent scores of a scope suggest; the mean since the first would lag behind the alert."""
        recent = {}
        for metric in sorted({metric for pattern in PATTERNS for metric in pattern.conditions}):
            row = self._index.get(key._replace(metric=metric))
            if row is not None and self.moments.n[row]:
                lowest, highest = value_range(metric)
                recent[metric] = Score(lowest + (highest - lowest) * float(self.moments.recent[row]))
        return tuple(diagnosis.sentence() for diagnosis in diagnose(recent))

    def _touch(self, row: int, event: MetricEvent, time_ms: int) -> None:
        record = self.rows[row]
        record.updated_ms = max(record.updated_ms, time_ms)
        record.population_size = event.population_size or record.population_size
        self._changed.add(row)

    def _rows_of(self, event: MetricEvent, scopes: tuple[str | None, ...], metrics: tuple[str, ...]) -> list[int]:
        # Events of one pipeline and segment touch the same rows again and again.
        seen = (
            event.pipeline, event.run, scopes, event.profile, event.labeler, event.labeler_version, metrics
        )  # fmt: skip
        rows = self._known_rows.get(seen)
        if rows is None:
            rows = [self._row(event, segment, metric) for segment in scopes for metric in metrics]
            self._known_rows[seen] = rows
        return rows

    def _row(self, event: MetricEvent, segment: str | None, metric: str) -> int:
        key = EstimateKey(
            event.pipeline, event.run, segment, metric, event.profile, event.labeler, event.labeler_version
        )
        row = self._index.get(key)
        return self._add(key) if row is None else row

    def _add(self, key: EstimateKey) -> int:
        row = self.moments.add_row()
        watches = [Watch(rule, key, self._detectors) for rule in self._options.rules if matches(rule, key)]
        self.rows.append(Row(key, watches))
        self._index[key] = row
        return row

    def take_changes(self) -> Changes:
        """Return what changed since the last call, for a commit, and forget it."""
        changed = sorted(self._changed)
        fields: dict[str, bytes] = {}
        for index in changed:
            row = self.rows[index]
            counts = _COUNTS.pack(row.n_absent, row.updated_ms, row.population_size or 0)
            fields[_ROW_FIELD + row.key.encode()] = counts + self.moments.to_bytes(index)
            for watch in row.watches:
                fields[_WATCH_FIELD + watch.field] = watch.to_bytes()
        changes = Changes([self.rows[index].key for index in changed], fields, self._gone, self._alerts)
        self._changed, self._gone, self._alerts = set(), [], []
        return changes

    @classmethod
    def from_fields(cls, options: StateOptions, fields: Mapping[str, bytes]) -> "AggregatorState":
        """Return the state that the fields of a checkpoint hold.

        A watch whose rule was removed or changed is dropped; if its alert was firing, the alert resolves.

        Raises:
            ValueError: a field was written by another version.
        """
        state = cls(options)
        for name, data in fields.items():
            if name.startswith(_ROW_FIELD):
                index = state._add(EstimateKey.decode(name.removeprefix(_ROW_FIELD)))
                row = state.rows[index]
                row.n_absent, row.updated_ms, population = _COUNTS.unpack_from(data)
                row.population_size = population or None
                state.moments.load(index, data[_COUNTS.size :])
        watches = {watch.field: watch for row in state.rows for watch in row.watches}
        for name, data in fields.items():
            if name.startswith(_WATCH_FIELD):
                watch = watches.get(name.removeprefix(_WATCH_FIELD))
                if watch is not None:
                    watch.load(data)
                    continue
                state._gone.append(name)
                state._alerts += Watch.withdrawn(data)
        return state


def _observations(event: MetricEvent) -> dict[str, float]:
    """Return the values of an event by metric, each scaled to [0, 1] by its metric's range."""
    observations: dict[str, float] = {}
    for metric, score in event.scores.items():
        observations[metric] = _scaled("scores", metric, score)
    for metric, gold in event.gold_scores.items():
        if metric in event.scores:
            scaled = _scaled("gold_scores", metric, gold)
            observations[SQUARED_ERROR + metric] = (observations[metric] - scaled) ** 2
            observations[GOLD + metric] = scaled
    return observations


def _scaled(field_name: str, metric: str, score: float) -> float:
    lower, upper = value_range(metric)
    if not lower <= score <= upper:
        raise InvalidEntryError(
            Reason.INVALID,
            f"{field_name}.{metric} is {score:g}; its range is {lower:g} to {upper:g}: scale it into the range",
        )
    return (score - lower) / (upper - lower)
