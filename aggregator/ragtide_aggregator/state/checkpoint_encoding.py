"""Writes a state as the fields of a checkpoint, and reads it back. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import numpy as np

from ragtide_runtime.redis.keys import CheckpointField

from ..alerts.rule_state import RuleState
from ..errors import reading
from ..events.keys import EstimateKey, PairKey
from ..statistics.intervals.quantiles import Quantiles
from ..statistics.means.moments import MomentTable
from .checking import check_numbers
from .rows import SIZE as ROW_SIZE
from .table import StateTable

_END: Final = ROW_SIZE + MomentTable.SIZE
"""Bytes of counts and moments of an estimate; the bytes of its weights follow."""


def written(table: StateTable) -> tuple[dict[str, bytes], list[str]]:
    """Return the fields to write since the last call, and the names of the fields to remove."""
    keys = table.rows.keys
    fields: dict[str, bytes] = {}
    for row in sorted(table.changed):
        name = table.rows.name(row)
        numbers = table.rows.to_bytes(row) + table.moments.to_bytes(row)
        fields[CheckpointField.ESTIMATE + name] = numbers + table.weights.sums.to_bytes(row)
        rules = table.rules.dump(row, table.values_of(row))
        fields |= {CheckpointField.RULE_STATE + at: data for at, data in rules.items()}
        if table.clusters is not None and table.clusters.sums.count(row):
            fields[CheckpointField.CLUSTERS + name] = table.clusters.sums.to_bytes(row)
        if table.dependence is not None and table.dependence.measures(row):
            fields[CheckpointField.DEPENDENCE + name] = table.dependence.to_bytes(row)
        if table.swings.measures(row):
            fields[CheckpointField.SEASON + name] = table.swings.to_bytes(row)
        if row in table.quantiles:
            fields[CheckpointField.QUANTILES + name] = table.quantiles[row].to_bytes()
    fields |= {CheckpointField.PAIR + name: data for name, data in table.pairs.take_changes().items()}
    fields |= {CheckpointField.RULE_STATE + name: data for name, data in table.kappa.take_changes().items()}
    fields |= {CheckpointField.DECLARED + name: data for name, data in table.declarations.take_changes()}
    gone: list[str] = []
    if table.clusters is not None:
        clusters, closed = table.clusters.take_changes(keys, table.pairs.keys)
        fields |= clusters
        gone += closed
    if table.panes is not None:
        panes, dropped = table.panes.take_changes(table.rows)
        fields |= {CheckpointField.PANE + name: data for name, data in panes.items()}
        gone += [CheckpointField.PANE + name for name in dropped]
        fields |= {
            CheckpointField.PROCESSED + name: data for name, data in table.panes.take_processed(table.rows).items()
        }
    if table.history is not None:
        opened, closed_panes, series = table.history.take_changes(table.rows)
        fields |= {CheckpointField.HISTORY + name: data for name, data in opened.items()}
        fields |= {CheckpointField.HISTORY_SERIES + name: data for name, data in series.items()}
        gone += [CheckpointField.HISTORY + name for name in closed_panes]
    if table.changed:
        fields[CheckpointField.ALERT_CLOCK] = table.rules.dump_clock()
    return fields, gone


def load(table: StateTable, fields: Mapping[str, bytes]) -> list[str]:
    """Set the table to the fields of a checkpoint, and return the names of the fields to remove.

    Raises:
        DamagedFieldError: a field cannot be read.
    """
    by_kind: defaultdict[str, list[tuple[str, bytes]]] = defaultdict(list)
    for name, data in fields.items():
        kind, colon, rest = name.partition(":")
        by_kind[kind + colon].append((rest, data))
    for name, data in by_kind[CheckpointField.DECLARED]:
        with reading(CheckpointField.DECLARED + name):
            table.declarations.load(name, data)
    _load_estimates(table, by_kind[CheckpointField.ESTIMATE])
    for name, data in by_kind[CheckpointField.PAIR]:
        with reading(CheckpointField.PAIR + name):
            key = PairKey.decode(name)
            table.pairs.load(table.pair_row(key), data)
    for name, data in by_kind[CheckpointField.QUANTILES]:
        with reading(CheckpointField.QUANTILES + name):
            row = table.row(EstimateKey.decode(name))
            if row in table.quantiles:
                table.quantiles[row] = Quantiles.from_bytes(data)
    gone = _load_clusters(table, by_kind)
    for name, data in by_kind[CheckpointField.SEASON]:
        with reading(CheckpointField.SEASON + name):
            table.swings.load(table.row(EstimateKey.decode(name)), data)
    for name, data in by_kind[CheckpointField.FIRING_ALERT]:
        table.book.load(name, data)
    for name, data in by_kind[CheckpointField.CAPPED]:
        with reading(CheckpointField.CAPPED + name):
            table.capped.load(name, data)
    for kind in (CheckpointField.PANE, CheckpointField.PROCESSED):
        for name, data in by_kind[kind]:
            with reading(kind + name):
                if not _load_pane(table, kind, name, data):
                    gone.append(kind + name)
    gone += _load_history(table, by_kind)
    for _, data in by_kind[CheckpointField.ALERT_CLOCK]:
        with reading(CheckpointField.ALERT_CLOCK):
            table.rules.load_clock(data)
    gone += _load_rule_states(table, by_kind[CheckpointField.RULE_STATE])
    check_numbers(table, range(len(table.rows)), everything=True)
    return gone


def _load_estimates(table: StateTable, stored: list[tuple[str, bytes]]) -> None:
    """Set counts, moments and weights: all rows at once, because a state may have many."""
    if not stored:
        return
    rows = []
    for name, _ in stored:
        row = table.rows.named(name)
        if row is None:
            with reading(CheckpointField.ESTIMATE + name):
                row = table.row(EstimateKey.decode(name))
                table.rows.remember(name, row)
        rows.append(row)
    places = np.array(rows, dtype=np.intp)
    try:
        table.rows.load_rows(places, b"".join(data[:ROW_SIZE] for _, data in stored))
        table.moments.load_rows(places, b"".join(data[ROW_SIZE:_END] for _, data in stored))
    except ValueError:
        # One of them is damaged: the error names it.
        for row, (name, data) in zip(rows, stored, strict=True):
            with reading(CheckpointField.ESTIMATE + name):
                table.rows.load(row, data)
                table.moments.load(row, data[ROW_SIZE:_END])
    for row, (name, data) in zip(rows, stored, strict=True):
        if len(data) > _END:  # values of the row were sampled from the traffic
            with reading(CheckpointField.ESTIMATE + name):
                table.weights.sums.load(row, data[_END:])


def _load_clusters(table: StateTable, by_kind: Mapping[str, list[tuple[str, bytes]]]) -> list[str]:
    """Take on clusters; return the names of all their fields where clusters are not looked for any more."""
    sums, scopes, clusters = CheckpointField.CLUSTERS, CheckpointField.CLUSTER_SCOPE, CheckpointField.OPEN_CLUSTER
    measured = CheckpointField.DEPENDENCE
    if table.clusters is None or table.dependence is None:
        table.pairs.loaded(())
        return [kind + name for kind in (sums, scopes, clusters, measured) for name, _ in by_kind[kind]]
    for name, data in by_kind[measured]:
        with reading(measured + name):
            row = table.row(EstimateKey.decode(name))
            if table.dependence.measures(row):
                table.dependence.load(row, data)
    for name, data in by_kind[sums]:
        with reading(sums + name):
            table.clusters.sums.load(table.row(EstimateKey.decode(name)), data)
    for name, data in by_kind[scopes]:
        with reading(scopes + name):
            table.clusters.load_scope(name, data)
    for name, data in by_kind[clusters]:
        with reading(clusters + name):
            table.clusters.load_cluster(name, data, table.rows.keys, table.pairs.keys)
    table.clusters.loaded(table.rows.keys)
    table.pairs.loaded(table.clusters.scopes)
    return []


def _load_pane(table: StateTable, kind: str, name: str, data: bytes) -> bool:
    """Set a pane or counts by processing time; return False if panes have another length now."""
    length, _, rest = name.partition(":")
    if table.panes is None or int(length) != table.options.panes.pane_ms:
        return False
    if kind == CheckpointField.PROCESSED:
        table.panes.load_processed(table.row(EstimateKey.decode(rest)), data)
        return True
    pane, _, key = rest.partition(":")
    table.panes.load(table.row(EstimateKey.decode(key)), int(pane), data)
    return True


def _load_history(table: StateTable, by_kind: Mapping[str, list[tuple[str, bytes]]]) -> list[str]:
    """Set the open panes of the history; return the fields of series and of lengths that are chosen no more."""
    gone = []
    for name, _ in by_kind[CheckpointField.HISTORY_SERIES]:
        with reading(CheckpointField.HISTORY_SERIES + name):
            row = table.row(EstimateKey.decode(name))
            if table.history is None or not table.history.load_series(row):
                gone.append(CheckpointField.HISTORY_SERIES + name)
    for name, data in by_kind[CheckpointField.HISTORY]:
        with reading(CheckpointField.HISTORY + name):
            length, pane, key = name.split(":", 2)
            row = table.row(EstimateKey.decode(key))
            if table.history is None or not table.history.load(row, int(length), int(pane), data):
                gone.append(CheckpointField.HISTORY + name)
    return gone


def _load_rule_states(table: StateTable, stored: list[tuple[str, bytes]]) -> list[str]:
    """Set the rule states; return the fields of removed rules, whose alerts are withdrawn."""
    states = {state.field: (row, state) for row in range(len(table.rows)) for state in table.rules.of(row)}
    gone = []
    for name, data in stored:
        with reading(CheckpointField.RULE_STATE + name):
            if table.kappa.load(name, data):
                continue
            if name in states:
                row, state = states[name]
                state.load(data)
                table.rules.refresh(row)
                table.causes.resume(row, state)
            else:
                gone.append(CheckpointField.RULE_STATE + name)
                table.alerts += RuleState.withdrawn(data)
    return gone
