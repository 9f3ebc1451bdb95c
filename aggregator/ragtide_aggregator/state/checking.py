"""Checks before each commit that no number of a state is infinite, undefined or impossible for any values.

Bounds in the schema keep such numbers out. This check is the last one before a checkpoint that would fail at every
start.
"""

from collections.abc import Iterable

import numpy as np

from ragtide_runtime.redis.keys import CheckpointField

from ..errors import DamagedFieldError
from .table import StateTable


def check_numbers(table: StateTable, rows: Iterable[int], *, everything: bool = False) -> None:
    """Check the numbers of rows, with the panes and pairs that changed since the last commit.

    Args:
        table: the state.
        rows: rows to check.
        everything: whether to check all panes and pairs.

    Raises:
        DamagedFieldError: a number is not finite, or impossible for any values.
    """
    index = np.fromiter(rows, dtype=np.intp)
    wrong = table.rows.impossible(index) | table.moments.impossible(index) | table.weights.sums.impossible(index)
    if wrong.any():
        raise _error(f"{CheckpointField.ESTIMATE}{table.rows.keys[int(index[np.argmax(wrong)])].encode()}")
    clusters = None if table.clusters is None else table.clusters.sums.impossible(index)
    if clusters is not None and clusters.any():
        raise _error(f"{CheckpointField.CLUSTERS}{table.rows.keys[int(index[np.argmax(clusters)])].encode()}")
    dependent = None if table.dependence is None else table.dependence.impossible(index)
    if dependent is not None and dependent.any():
        raise _error(f"{CheckpointField.DEPENDENCE}{table.rows.keys[int(index[np.argmax(dependent)])].encode()}")
    pair = table.pairs.impossible(everything=everything)
    if pair is not None:
        raise _error(f"{CheckpointField.PAIR}{pair.encode()}")
    pane = None if table.panes is None else table.panes.impossible(table.rows.keys, everything=everything)
    if pane is not None:
        raise _error(f"{CheckpointField.PANE}{pane}")
    open_pane = None if table.history is None else table.history.impossible(table.rows, everything=everything)
    if open_pane is not None:
        raise _error(f"{CheckpointField.HISTORY}{open_pane}")


def _error(field: str) -> DamagedFieldError:
    return DamagedFieldError(field, ValueError("a number is not finite, or impossible for any values"))
