"""ragtide's rules on simulated traffic: through the aggregator's state, and the detectors alone, which is faster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ragtide import Alert, AlertRule
from ragtide_aggregator.alerts.rule_values import BEGINNINGS
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_offline.replay.tables import columns_of

from .closings import closings
from .stream import Codes, Floats, Traffic

METRIC: Final = "trace.adherence"
_START_S: Final = 1_795_219_200
_STEP: Final = 500
"""Columns that are applied together; a run is left out after the step of its alarm."""


def drift_rule(**fields: Any) -> AlertRule:
    """Return a rule for falls with a run length of 10,000."""
    rule: dict[str, Any] = {"name": "fall", "kind": "drift", "metric": METRIC, "direction": "fall"}
    return AlertRule(**{**rule, "run_length": 10_000, "min_effect": 0.0, **fields})


def first_alerts(
    traffic: Traffic,
    rules: Sequence[AlertRule],
    options: Mapping[str, Any] | None = None,
    names: Mapping[str, str] | None = None,
) -> dict[str, list[Alert | None]]:
    """Return each run's first alert of each rule, as an aggregator raises it from events; None without one.

    Each run is a pipeline.

    Args:
        traffic: shape (runs, n).
        rules: the rules.
        options: further fields of the state's options.
        names: fields of a metric event, such as `session_id`, and the kind of cluster whose codes they hold.
    """
    state = AggregatorState(StateOptions(rules=tuple(rules), segments=False, quantiles=False, **(options or {})))
    found: dict[str, list[Alert | None]] = {rule.name: [None] * traffic.runs for rule in rules}
    for start in range(0, traffic.n, _STEP):
        going = np.flatnonzero([None in of_run for of_run in zip(*found.values(), strict=True)])
        if not going.size:
            break
        part = np.arange(start, min(start + _STEP, traffic.n))
        state.apply_columns(columns_of(recorded(traffic, going, part, names or {})))
        for alert in state.take_changes().alerts:
            run, first = int(alert.pipeline.removeprefix("run-")), found[alert.rule]
            if alert.status == "firing" and first[run] is None:
                first[run] = alert
    return found


def counted_at(first: Sequence[Alert | None]) -> Codes:
    """Return how many values each run had counted at its first alert, with which they end; -1 without an alert.

    Values count when their cluster is closed.
    """
    return np.array([-1 if alert is None or alert.n is None else alert.n for alert in first], dtype=np.int64)


def recorded(traffic: Traffic, runs: Codes, columns: Codes, names: Mapping[str, str]) -> Any:
    """Return columns of some runs as a recording's table: one column after the other, of all runs.

    Args:
        traffic: shape (runs, n).
        runs: numbers of runs; each is a pipeline.
        columns: numbers of columns.
        names: fields of a metric event, such as `session_id`, and the kind of cluster whose codes they hold.
    """
    at = np.ix_(runs, columns)
    size = runs.size * columns.size

    def flat(array: Any) -> Any:
        return array[at].T.ravel()

    def times(seconds: Floats) -> Any:
        return pa.array(((seconds + _START_S) * 1_000).astype(np.int64) * 1_000, pa.timestamp("us", tz="UTC"))

    of = np.tile(runs, columns.size)
    where = np.repeat(columns, runs.size)
    one = np.zeros(size, dtype=np.int64)
    table = {
        "entry_id": pa.array([f"{number}-0" for number in range(size)]),
        "partition": pa.array(one.astype(np.int32)),
        "interaction_id": pa.array(
            [f"{run}-{column}" for run, column in zip(of.tolist(), where.tolist(), strict=True)]
        ),
        "pipeline": pa.array([f"run-{run}" for run in of.tolist()]),
        "occurred_at": times(flat(traffic.time_s)),
        "labeled_at": times(flat(traffic.labeled_s)),
        "labeler": pa.array(["simulated"] * size),
        "labeler_version": pa.array(["1"] * size),
        "profile": pa.array(["ragbench"] * size),
        f"scores.{METRIC}": pa.array(flat(traffic.value)),
        "exact": pa.nulls(size, pa.string()),
    }
    for field, kind in names.items():
        table[field] = pa.array([str(code) for code in flat(traffic.clusters(kind)).tolist()])
    return pa.table(table)


@dataclass(frozen=True)
class FirstAlarms:
    """The first alarm of each run; -1 for none."""

    column: Codes
    """Column at which it sounds."""
    change: Codes
    """Column at which the first cluster after the estimated change point was decided."""


def alarms_by_item(values: Floats, *, limit: float, run_length: float) -> Codes:
    """Return the column of each run's first alarm of a detector that takes each value by itself; -1 for none."""
    runs, n = values.shape
    run = np.repeat(np.arange(runs), n)
    column = np.tile(np.arange(n), runs)
    return _alarms(run, column, values.ravel(), None, limit=limit, run_length=run_length, runs=runs).column


def alarms_by_cluster(
    traffic: Traffic, by: str, *, size: int, quiet_s: float, limit: float, run_length: float
) -> Codes:
    """Return the column of each run's first alarm of a detector that takes clusters when they close; -1 for none."""
    return found_by_cluster(traffic, by, size=size, quiet_s=quiet_s, limit=limit, run_length=run_length).column


def alarms_by_session(
    traffic: Traffic, by: str, *, size: int, quiet_s: float, limit: float, run_length: float
) -> Codes:
    """Return the column of each run's first alarm of a rule that takes sessions; -1 for none.

    Its detectors of whole sessions and of their first one, two and four answers share the run length. An application
    whose interactions all come alone names no session.
    """
    if all(np.unique(codes).size == codes.size for codes in traffic.clusters(by)):
        return alarms_by_cluster(traffic, by, size=size, quiet_s=quiet_s, limit=limit, run_length=run_length)
    shared = (len(BEGINNINGS) + 1) * run_length
    found = [alarms_by_cluster(traffic, by, size=size, quiet_s=quiet_s, limit=limit, run_length=shared)]
    found += [alarms_by_first_answers(traffic, by, length, limit=limit, run_length=shared) for length in BEGINNINGS]
    never = traffic.n
    first = np.min([np.where(alarms < 0, never, alarms) for alarms in found], axis=0)
    return np.where(first == never, -1, first)


def alarms_by_first_answers(traffic: Traffic, by: str, length: int, *, limit: float, run_length: float) -> Codes:
    """Return the column of each run's first alarm of a detector that takes first answers of sessions; -1 for none.

    The limit is that of first answers, which is known here; a rule learns it.

    Args:
        traffic: shape (runs, n).
        by: kind of cluster that names sessions.
        length: number of first answers of a session that count together.
        limit: the alarm limit.
        run_length: of the detector.
    """
    columns, means = [], []
    for codes, values in zip(traffic.clusters(by), traffic.value, strict=True):
        by_session = np.argsort(codes, kind="stable")
        begins = np.flatnonzero(np.diff(codes[by_session], prepend=-1) != 0)
        sizes = np.diff(begins, append=codes.size)
        of = by_session[begins[sizes >= length, None] + np.arange(length)]
        of = of[np.argsort(of[:, -1])]
        columns.append(of[:, -1])
        means.append(values[of].mean(axis=1))
    run = np.repeat(np.arange(traffic.runs), [of.size for of in columns])
    answers = np.concatenate([np.diff(of, prepend=-1) for of in columns])
    column, sizes = np.concatenate(columns), np.full(run.size, length)
    return _alarms(
        run, column, np.concatenate(means), sizes, limit=limit, run_length=run_length, runs=traffic.runs,
        answers=answers,
    ).column  # fmt: skip


def found_by_cluster(
    traffic: Traffic, by: str, *, size: int, quiet_s: float, limit: float, run_length: float
) -> FirstAlarms:
    """Return each run's first alarm of a detector that takes clusters when they close."""
    closed = closings(traffic, by, size=size, quiet_s=quiet_s)
    return _alarms(
        closed.run, closed.column, closed.mean, closed.size, limit=limit, run_length=run_length, runs=traffic.runs
    )


def _alarms(
    run: Codes,
    column: Codes,
    means: Floats,
    sizes: Codes | None,
    *,
    limit: float,
    run_length: float,
    runs: int,
    answers: Codes | None = None,
) -> FirstAlarms:
    """Return each run's first alarm.

    Args:
        run: of each bet; bets of a run are side by side and in order.
        column: at which each bet is decided.
        means: values, or means of clusters.
        sizes: of clusters; None for values.
        limit: the alarm limit.
        run_length: of the detector.
        runs: number of runs.
        answers: number of answers whose costs each bet has; the sizes unless given.
    """
    table = DetectorTable()
    for _ in range(runs):
        table.configure(table.add_row(), limit=limit, direction="fall", run_length=run_length)
    counts = np.bincount(run, minlength=runs)
    begins = np.cumsum(counts) - counts
    found = FirstAlarms(np.full(runs, -1, dtype=np.int64), np.full(runs, -1, dtype=np.int64))
    for step in range(0, int(counts.max(initial=0)), _STEP):
        going = np.flatnonzero((found.column < 0) & (counts > step))
        taken = np.concatenate(
            [np.arange(begins[row] + step, begins[row] + min(step + _STEP, counts[row])) for row in going]
            or [np.zeros(0, dtype=np.intp)]
        )
        if not taken.size:
            break
        alarms, _ = table.update(
            run[taken],
            means[taken],
            column[taken],
            sizes=None if sizes is None else sizes[taken],
            costs=None if answers is None else answers[taken] / run_length,
            answers=None if answers is None else answers[taken],
        )
        for alarm in alarms:
            found.column[alarm.row] = column[taken[alarm.position]]
            found.change[alarm.row] = alarm.change_tag
    return found
