"""The tables of a recording: selects and counts their rows, and turns metric events into columns. Needs pyarrow.

Columns need no object for each event. Some rows are decoded into event objects: rows with `judged`, `beside` or
`unit`, rows whose whole event is in `exact`, and rows with scores of a metric that most rows declare in another way.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic_core import from_json

from ragtide_aggregator.events.batch import (
    BY_ITSELF,
    FIELDS,
    OF_ANSWERS,
    SEGMENT,
    Times,
    cluster_codes,
    segment_cluster,
)
from ragtide_aggregator.events.columns import Codes, EventColumns, combined
from ragtide_aggregator.events.values import DeclaredMetrics
from ragtide_aggregator.statistics.tables.batches import Floats
from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.recordings.parquet import EXACT, entries_of
from ragtide_runtime.settings.alerting import BLOCKS
from ragtide_schemas import MetricDeclaration, MetricEvent, to_milliseconds
from ragtide_schemas.alert_kinds import SEGMENT_COVARIATE
from ragtide_schemas.limits import COST_MAX_USD, LATENCY_MAX_S, PROBABILITY_MIN, TIME_MAX
from ragtide_schemas.metric_event import TICK

from .selection import OF_SESSIONS, MetricVersion, Scope, ScopeCount, Selection

_LATEST_US: Final = 1000 * to_milliseconds(TIME_MAX)

_NAMES: Final = pa.map_(pa.string(), pa.string())

_NUMBERS: Final = pa.map_(pa.string(), pa.float64())

_TIME: Final = pa.timestamp("us", tz="UTC")


def selected_rows(table: Any, selection: Selection) -> Any:
    """Return the rows that are selected by time and segments; the reader has selected the pipelines already."""
    if selection.since is not None:
        table = table.filter(pc.greater_equal(table["occurred_at"], _scalar(selection.since)))
    if selection.until is not None:
        table = table.filter(pc.less(table["occurred_at"], _scalar(selection.until)))
    if selection.segments:
        segments = table["segments"].to_pylist()
        taken = pa.array([selection.takes_segments(dict(segment or ())) for segment in segments], pa.bool_())
        table = table.filter(pc.or_(taken, _is_tick(table)))
    return table


def scope_counts(table: Any, fields: Sequence[str]) -> Iterator[ScopeCount]:
    """Yield the numbers of rows by scope: by the values of the fields, and those by each segment value."""
    is_tick = _is_tick(table)
    if pc.any(is_tick, min_count=0).as_py():
        table = table.filter(pc.invert(is_tick))
    of_session = pc.is_valid(_column(table, "unit", pa.string()))
    if pc.any(of_session, min_count=0).as_py():
        sessions, table = table.filter(of_session), table.filter(pc.invert(of_session))
        metrics = _metric_versions(sessions)
        for values, segment, count in _scopes(sessions, fields):
            yield Scope((*values, *OF_SESSIONS), segment), count, metrics
    for values, segment, count in _scopes(table, fields):
        yield Scope(values, segment), count, frozenset()


def _metric_versions(table: Any) -> frozenset[MetricVersion]:
    names = set(_scores(table, "scores"))
    names |= {name for absent in _column(table, "absent", _NAMES).to_pylist() for name, _ in absent or ()}
    texts = pc.unique(_column(table, "declared", pa.string()).cast(pa.string())).to_pylist()
    versions: set[MetricVersion] = {
        (name, MetricDeclaration.model_validate(fields).version)
        for text in texts
        if text is not None
        for name, fields in from_json(text).items()
    }
    return frozenset({*versions, *((name, None) for name in names - {name for name, _ in versions})})


def _scopes(table: Any, fields: Sequence[str]) -> Iterator[tuple[tuple[str | None, ...], str | None, int]]:
    named = {name: table[name].combine_chunks().cast(pa.string()) for name in fields}
    yield from _count_groups(named, pa.nulls(table.num_rows, pa.string()))
    segments = table["segments"].combine_chunks()
    if isinstance(segments, pa.ChunkedArray):
        segments = pa.concat_arrays(segments.chunks) if segments.num_chunks else pa.nulls(0, segments.type)
    offsets = np.asarray(segments.offsets)
    rows = np.repeat(np.arange(len(segments)), np.diff(offsets))
    keys, items = (part.slice(offsets[0], offsets[-1] - offsets[0]) for part in (segments.keys, segments.items))
    texts = pc.binary_join_element_wise(keys.cast(pa.string()), items.cast(pa.string()), "=")
    yield from _count_groups({name: column.take(pa.array(rows)) for name, column in named.items()}, texts)


def _count_groups(named: dict[str, Any], segments: Any) -> Iterator[tuple[tuple[str | None, ...], str | None, int]]:
    keys = [*named, " segment"]
    counts = pa.table({**named, " segment": segments}).group_by(keys).aggregate([([], "count_all")])
    columns = [counts[name].to_pylist() for name in (*keys, "count_all")]
    for *values, segment, count in zip(*columns, strict=True):
        yield tuple(values), segment, count


def count_interactions(table: Any) -> int:
    """Return the number of rows that are metric events of interactions or sessions, and no ticks."""
    return int(table.num_rows - (pc.sum(_is_tick(table)).as_py() or 0))


def _is_tick(table: Any) -> Any:
    return pc.fill_null(pc.equal(_column(table, "unit", pa.string()).cast(pa.string()), TICK), False)


def after(table: Any, position: tuple[int, int]) -> Any:
    """Return the rows after a position in the stream."""
    if position == (0, 0):
        return table
    ms, number = (pa.scalar(part, pa.uint64()) for part in position)
    within = pc.and_(pc.equal(table["entry_ms"], ms), pc.greater(table["entry_number"], number))
    return table.filter(pc.or_(pc.greater(table["entry_ms"], ms), within))


def _scalar(time: datetime) -> Any:
    return pa.scalar(time, _TIME)


class _TableSource:
    """The events of a table."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._ids = table["interaction_id"]
        self._segments = _column(table, "segments", _NAMES)

    def event(self, place: int) -> MetricEvent:
        """Return an event."""
        (entry,) = entries_of(EntryKind.METRICS, self._table.slice(place, 1))
        return cast("MetricEvent", entry.model)

    def interaction_id(self, place: int) -> str:
        """Return the interaction id of an event."""
        return str(self._ids[place].as_py())

    def segments(self, place: int) -> dict[str, str]:
        """Return the segments of an event."""
        return dict(self._segments[place].as_py() or ())

    def covariate(self, name: str) -> NDArray[Any]:
        """Return a covariate of each event, or the values of a segment."""
        if name.startswith(SEGMENT_COVARIATE):
            values = pc.map_lookup(self._segments, name.removeprefix(SEGMENT_COVARIATE), "first")
            return np.array(values.to_pylist(), dtype=object)
        numbers = pc.map_lookup(_column(self._table, "covariates", _NUMBERS), name, "first")
        return _numbers(pc.fill_null(numbers, np.nan))

    def clusters(self, by: str) -> Codes:
        """Return the codes of all clusters."""
        size = self._table.num_rows
        if by == BLOCKS:
            return np.repeat(cluster_codes([(BLOCKS, "")]), size)
        if by.startswith(SEGMENT):
            return cluster_codes(segment_cluster(self.segments(place), by) for place in range(size))
        members = np.zeros(size, dtype=np.int64)
        for field in FIELDS[by]:
            column = _column(self._table, field, pa.string())
            encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            codes = cluster_codes((field, name) for name in encoded.dictionary.to_pylist())
            places = _codes(column)
            if field == OF_ANSWERS:
                places[_numbers(pc.is_valid(_column(self._table, "unit", pa.string())))] = 0
            members = np.where(members == BY_ITSELF, np.concatenate([[BY_ITSELF], codes])[places], members)
        return members


def columns_of(table: Any, processed_ms: Times | None = None) -> EventColumns:
    """Return the events of a table as columns, in the order of its rows.

    Args:
        processed_ms: time of scoring of each event; its field `labeled_at` unless given.
    """
    table = table.combine_chunks()
    names = ("pipeline", "run", "labeler", "labeler_version", "profile")
    pipeline, run, *labeler_id = (_codes(_column(table, name, pa.string())) for name in names)
    size = table.num_rows
    row_wise = np.zeros(size, dtype=bool)
    for name in ("judged", "beside", "unit", "inclusion", EXACT):
        row_wise |= _numbers(pc.is_valid(_column(table, name, pa.string())))
    scores = _scores(table, "scores")
    gold_scores = _scores(table, "gold_scores")
    declarations, declared = _declarations(table, (scores, gold_scores), row_wise)
    occurred_us, labeled_us = _microseconds(table, "occurred_at"), _microseconds(table, "labeled_at")
    latency_s, cost_usd = (
        _numbers(pc.fill_null(_column(table, name, pa.float64()), 0.0)) for name in ("latency_s", "cost_usd")
    )
    sampling, inclusion = (
        _numbers(pc.fill_null(_column(table, name, pa.float64()), 1.0))
        for name in ("sampling_probability", "inclusion_probability")
    )
    probability = np.maximum(sampling * inclusion, PROBABILITY_MIN)
    # An event with a number outside the bounds of the schema is decoded, and rejected as a live one would be.
    bounds = ((occurred_us, _LATEST_US), (labeled_us, _LATEST_US), (latency_s, LATENCY_MAX_S), (cost_usd, COST_MAX_USD))
    for numbers, most in bounds:
        row_wise |= ~((numbers >= 0) & (numbers <= most))
    for numbers in (sampling, inclusion):
        row_wise |= ~((numbers >= PROBABILITY_MIN) & (numbers <= 1))
    prompts = pc.list_value_length(_column(table, "prompts", pa.list_(pa.string())))
    has_prompts = np.asarray(_numbers(pc.fill_null(prompts, 0)) > 0, dtype=np.int64)
    return EventColumns(
        source=_TableSource(table),
        runs=combined((pipeline, run))[0],
        groups=(
            *labeler_id,
            _sets(_column(table, "absent", _NAMES), values=True),
            has_prompts,
            declarations,
        ),
        segments=_sets(_column(table, "segments", _NAMES), values=True),
        scores=scores,
        gold_scores=gold_scores,
        occurred_ms=_milliseconds(occurred_us),
        processed_ms=_milliseconds(labeled_us) if processed_ms is None else processed_ms,
        latency_s=latency_s,
        cost_usd=cost_usd,
        population_size=_numbers(pc.fill_null(_column(table, "population_size", pa.int64()), 0)),
        probability=probability,
        row_wise=row_wise,
        declared=declared,
        declarations=declarations,
    )


def _declarations(
    table: Any, scores: Iterable[dict[str, Floats]], row_wise: NDArray[np.bool_]
) -> tuple[Codes, DeclaredMetrics]:
    texts = _column(table, "declared", pa.string()).cast(pa.string()).dictionary_encode()
    codes = _codes(texts)
    if not codes.any():
        return codes, None
    most = int(np.bincount(codes[codes > 0]).argmax())
    declared = {
        name: MetricDeclaration.model_validate(fields)
        for name, fields in from_json(texts.dictionary[most - 1].as_py()).items()
    }
    row_wise |= (codes > 0) & (codes != most)
    for by_metric in scores:
        for name in declared.keys() & by_metric.keys():
            row_wise |= (codes == 0) & ~np.isnan(by_metric[name])
    return codes, declared


def _column(table: Any, name: str, kind: Any) -> Any:
    if name not in table.column_names:
        return pa.nulls(table.num_rows, kind)
    chunks = table[name].unify_dictionaries().chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.nulls(0, kind)


def _numbers(array: Any) -> NDArray[Any]:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _codes(array: Any) -> Codes:
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    return _numbers(pc.fill_null(encoded.indices.cast(pa.int64()), -1)) + 1


def _microseconds(table: Any, name: str) -> NDArray[np.int64]:
    return _numbers(_column(table, name, _TIME).cast(_TIME).cast(pa.int64()))


def _milliseconds(microseconds: NDArray[np.int64]) -> Times:
    return (microseconds / 1e6 * 1000).astype(np.int64)


def _scores(table: Any, field: str) -> dict[str, Floats]:
    prefix = f"{field}."
    scores = {}
    for name in table.column_names:
        if name.startswith(prefix):
            column = _column(table, name, pa.float64()).cast(pa.float64())
            if column.null_count < len(column):
                scores[name.removeprefix(prefix)] = _numbers(column)
    return scores


def _sets(maps: Any, *, values: bool) -> Codes:
    offsets = _numbers(maps.offsets).astype(np.intp)
    begins, lengths = offsets[:-1], np.diff(offsets)
    lengths[_numbers(pc.is_null(maps))] = 0
    codes = _codes(maps.keys)
    if values:
        items = _codes(maps.items)
        codes = codes * (int(items.max(initial=0)) + 1) + items
    numbers_of_sets = np.zeros(lengths.size, dtype=np.int64)
    known = 1
    for length in np.unique(lengths[lengths > 0]).tolist():
        mine = np.flatnonzero(lengths == length)
        members = np.sort(codes[begins[mine][:, None] + np.arange(length)], axis=1)
        numbers, examples = combined(tuple(members.T))
        numbers_of_sets[mine] = known + numbers
        known += examples.size
    return numbers_of_sets
