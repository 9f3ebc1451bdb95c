"""The rules that hold the mix of a segment fixed: the segment values of values. No clock, no I/O."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ragtide_schemas import AlertRule

from ..events.keys import EstimateKey
from ..statistics.tables.batches import Floats, Rows, by_row
from ..statistics.tables.row_table import RowColumn, RowTable
from .adjusted_baseline import AdjustedBaseline
from .rule_state import RuleState
from .rule_values import RuleValues, SegmentsWithin

_NO_ROWS: Final = np.zeros(0, dtype=np.intp)


class _SegmentRows(RowTable, what="segment values of rules", capacity=16):
    """Per row of the deployment: what rules that hold a mix fixed have of its key."""

    group = RowColumn(np.int64, fill=-1)
    """Number of the key without the segment value; -1 for a row that no rule needs."""
    name = RowColumn(np.intp, fill=-1)
    """Place of the segment in `names`; -1 for a whole pipeline."""
    holds = RowColumn(np.bool_)
    """Whether the row has such a rule."""


class AdjustedRules:
    """All rule states that hold a mix fixed, and the rows of the segment values that they need.

    Attributes:
        names: of the segments whose mix a rule holds fixed.
    """

    def __init__(self, rules: Sequence[AlertRule]) -> None:
        self.names = sorted({rule.adjust for rule in rules if rule.adjust is not None})
        self._metrics = {rule.metric for rule in rules if rule.adjust is not None}
        self._groups: dict[EstimateKey, int] = {}
        self._rows = _SegmentRows()
        # The segment value of each row, and the baselines of each row of a whole pipeline.
        self._value: list[str] = []
        self._states: dict[int, list[AdjustedBaseline]] = {}

    def add_row(self, key: EstimateKey, states: Sequence[RuleState]) -> None:
        """Add the key of the next row, and the states of its rules."""
        row = self._rows.add_row()
        name, _, value = (key.segment or "").partition("=")
        self._value.append(value)
        if key.metric in self._metrics and (key.segment is None or name in self.names):
            self._rows.group[row] = self._groups.setdefault(key._replace(segment=None), len(self._groups))
            self._rows.name[row] = -1 if key.segment is None else self.names.index(name)
        adjusted = [state.baseline for state in states if isinstance(state.baseline, AdjustedBaseline)]
        if adjusted:
            self._states[row], self._rows.holds[row] = adjusted, True

    def add_rows_without_rules(self, count: int) -> None:
        """Add rows without rules."""
        self._rows.add_rows(count)
        self._value += [""] * count

    def within(
        self, chosen: Rows, rows: Rows, values: Floats, of: Rows, sizes: Rows | None = None
    ) -> dict[str, SegmentsWithin]:
        """Return the segment values of values of whole pipelines, by name of the segment.

        Args:
            chosen: places of the values that rules take.
            values: means of all values.
            of: the interaction or cluster of each; a row occurs once in each.
            sizes: of clusters; None for single values.
        """
        segments: dict[str, SegmentsWithin] = {}
        if not self._states:
            return segments
        group, name = self._rows.group[rows], self._rows.name[rows]
        joined = of.astype(np.int64) * len(self._groups) + group
        whole = np.flatnonzero((group[chosen] >= 0) & (name[chosen] < 0))
        order = whole[np.argsort(joined[chosen[whole]], kind="stable")]
        keys = joined[chosen[order]]
        for number, segment in enumerate(self.names):
            places = np.flatnonzero((group >= 0) & (name == number))
            if keys.size:
                at = np.minimum(np.searchsorted(keys, joined[places]), keys.size - 1)
                matching = keys[at] == joined[places]
                places, at = places[matching], at[matching]
            else:
                places, at = places[:0], places[:0]
            in_order = np.argsort(order[at], kind="stable")
            places, at = places[in_order], at[in_order]
            size = np.ones_like(places) if sizes is None else sizes[places]
            segments[segment] = SegmentsWithin(order[at], rows[places], values[places], size)
        return segments

    def take(self, part: RuleValues) -> list[int]:
        """Give values to the baselines; return the rows whose limits changed."""
        if not self._states:
            return []
        # A first answer counts with its cluster here.
        holds = self._rows.holds[part.rows] if part.first is None else self._rows.holds[part.rows] & (part.first == 0)
        mine = np.flatnonzero(holds)
        entries = {name: dict(by_row(part.rows[within.of])) for name, within in part.within.items()}
        changed = []
        for row, places in by_row(part.rows[mine]):
            positions = mine[places]
            totals = np.ones_like(positions) if part.sizes is None else part.sizes[positions]
            for baseline in self._states[row]:
                within = part.within[baseline.segment].at_places(entries[baseline.segment].get(row, _NO_ROWS))
                rows, which = np.unique(within.rows, return_inverse=True)
                values = [self._value[segment_row] for segment_row in rows.tolist()]
                within = within._replace(of=np.searchsorted(positions, within.of))
                if baseline.take(positions, totals, values, which, within):
                    changed.append(row)
        return changed
