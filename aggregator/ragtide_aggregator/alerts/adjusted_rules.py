"""The rules that hold the mix of a segment fixed: segment values and limits of values. No clock, no I/O."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import AlertRule

from ..events.keys import EstimateKey
from ..statistics.drift.adjusted_drift import CommonScale
from ..statistics.tables.batches import Floats, Rows, grouped
from ..statistics.tables.tables import doubled
from .adjusted_baseline import WAITS, AdjustedBaseline
from .rule_state import RuleState
from .rule_values import RuleValues, SegmentsWithin

_CAPACITY: Final = 16
_ROUNDING: Final = 1e-12
"""Largest error by rounding of a limit."""
_NO_ROWS: Final = np.zeros(0, dtype=np.intp)


class AdjustedRules:
    """All rule states that hold a mix fixed, and the rows of the segment values that they need.

    Args:
        rules: of the deployment.

    Attributes:
        names: of the segments whose mix a rule holds fixed.
    """

    def __init__(self, rules: Sequence[AlertRule]) -> None:
        self.names = sorted({rule.adjust for rule in rules if rule.adjust is not None})
        self._metrics = {rule.metric for rule in rules if rule.adjust is not None}
        self._groups: dict[EstimateKey, int] = {}
        # Per row: number of its key without the segment value, -1 for a row that no rule needs; place of its segment in
        # `names`, -1 for a whole pipeline; and its segment value.
        self._group = np.full(_CAPACITY, -1, dtype=np.int64)
        self._name = np.full(_CAPACITY, -1, dtype=np.intp)
        self._value: list[str] = []
        # Whether the row has such a rule.
        self._holds = np.zeros(_CAPACITY, dtype=bool)
        # By row of a whole pipeline, and by index of a detector among all rules.
        self._states: dict[int, list[AdjustedBaseline]] = {}
        self._detectors: dict[int, tuple[RuleState, int]] = {}
        self._adjusts = np.zeros(_CAPACITY, dtype=bool)

    def add_row(self, row: int, key: EstimateKey, states: Sequence[RuleState]) -> None:
        """Add the key of the next row, and the states of its rules."""
        while row >= self._group.size:
            self._group, self._name = doubled(self._group, -1), doubled(self._name, -1)
            self._holds = doubled(self._holds)
        name, _, value = (key.segment or "").partition("=")
        self._value.append(value)
        if key.metric in self._metrics and (key.segment is None or name in self.names):
            self._group[row] = self._groups.setdefault(key._replace(segment=None), len(self._groups))
            self._name[row] = -1 if key.segment is None else self.names.index(name)
        adjusted = [state.adjusted for state in states if state.adjusted is not None]
        if adjusted:
            self._states[row], self._holds[row] = adjusted, True

    def set_detector(self, detector: int, state: RuleState, number: int) -> None:
        """Add a state's detector, which is the detector with an index among all rules."""
        while detector >= self._adjusts.size:
            self._adjusts = doubled(self._adjusts)
        if state.adjusted is not None:
            self._adjusts[detector], self._detectors[detector] = True, (state, number)

    def within(
        self, chosen: Rows, rows: Rows, values: Floats, of: Rows, sizes: Rows | None = None
    ) -> dict[str, SegmentsWithin]:
        """Return the segment values of values of whole pipelines, by name of the segment.

        Args:
            chosen: places of the values that rules take.
            rows: of all values, with those of segment values.
            values: means of all values.
            of: the interaction or cluster of each; a row occurs once in each.
            sizes: of clusters; None for single values.
        """
        found: dict[str, SegmentsWithin] = {}
        if not self._states:
            return found
        group, name = self._group[rows], self._name[rows]
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
            each = np.ones_like(places) if sizes is None else sizes[places]
            found[segment] = SegmentsWithin(order[at], rows[places], values[places], each)
        return found

    def take(self, part: RuleValues) -> list[int]:
        """Give values to the baselines; return the rows whose limits changed."""
        if not self._states:
            return []
        mine = np.flatnonzero(self._holds[part.rows])
        entries = {name: _by_row(part.rows[within.of]) for name, within in part.within.items()}
        changed = []
        for row, places in _by_row(part.rows[mine]).items():
            positions = mine[places]
            totals = np.ones_like(positions) if part.sizes is None else part.sizes[positions]
            for baseline in self._states[row]:
                within = part.within[baseline.segment].at_places(entries[baseline.segment].get(row, _NO_ROWS))
                rows, which = np.unique(within.rows, return_inverse=True)
                values = [self._value[one] for one in rows.tolist()]
                within = within._replace(of=np.searchsorted(positions, within.of))
                if baseline.take(positions, totals, values, which, within):
                    changed.append(row)
        return changed

    def limits(self, value_of: Rows, detectors: Rows, limits: Floats | None) -> tuple[Floats | None, "OnScale | None"]:
        """Return the limits of values for detectors, and the scale of their values; None stands for none of their own.

        Args:
            value_of: positions of values in the part of a batch that was taken last.
            detectors: indexes among all rules.
            limits: of other kinds of rules; nan or None for no own limit.
        """
        if not self._detectors:
            return limits, None
        found = np.full(detectors.size, np.nan) if limits is None else limits
        factors, common, own_limits, own_references = np.ones(detectors.size), *np.zeros((3, detectors.size))
        inside = detectors < self._adjusts.size
        places = np.flatnonzero(inside & self._adjusts[np.where(inside, detectors, 0)])
        for detector, those in _by_row(detectors[places]).items():
            mine = places[those]
            state, number = self._detectors[detector]
            own, references = _limits(state, number, value_of[mine])
            lowest, highest = _scales(state, number, value_of[mine])
            # A cluster may have segment values without a limit, so that the mean of its limits is below all limits.
            usable = (own != WAITS) & (own >= lowest - _ROUNDING) & (own <= highest + _ROUNDING)
            scale = CommonScale.of(lowest, highest)
            factors[mine] = np.where(usable, scale.factor, 1.0)
            found[mine] = common[mine] = np.where(usable, scale.limit, WAITS)
            own_limits[mine], own_references[mine] = own, references
        return found, OnScale(CommonScale(common, factors), own_limits, own_references)

    def beyond(self, state: RuleState, positions: Rows) -> tuple[Floats, Floats]:
        """Return the limits below and above which values of a state are remembered; nan for no such limit."""
        low, high = np.full((2, positions.size), np.nan)
        for number, detector in enumerate(state.detectors):
            if detector.active:
                limits, _ = _limits(state, number, positions)
                limits = np.where(limits > 0, limits, np.nan)
                low, high = (limits, high) if detector.movement == "fall" else (low, limits)
        return low, high


class OnScale(NamedTuple):
    """The scale of values on which limits of all segment values are one; a value of another kind of rule stays.

    All arrays have one element for each value.
    """

    scale: CommonScale
    """With limit 0 and factor 1 for a value that stays."""
    limits: Floats
    """The limit of the value; 0 for a value that stays, and so in the next."""
    references: Floats
    """The baseline that the limit comes from."""

    def at_places(self, places: Rows | NDArray[np.bool_]) -> "OnScale":
        """Return the scale of some of the values."""
        return OnScale(self.scale.at(places), self.limits[places], self.references[places])

    def applied(self, values: Floats) -> tuple[Floats, Floats]:
        """Return values on the scale, and the centers with which an alarm has distances from the baselines."""
        scaled = self.scale.values(values, self.limits)
        return scaled, scaled - (values - self.references)


def _by_row(rows: Rows) -> dict[int, Rows]:
    """Return the places of each distinct row, in their order."""
    by_row = grouped(rows)
    found = zip(by_row.rows.tolist(), by_row.starts.tolist(), by_row.counts.tolist(), strict=True)
    return {row: by_row.order[start : start + count] for row, start, count in found}


def _scales(state: RuleState, number: int, positions: Rows) -> Floats:
    baseline = state.adjusted
    assert baseline is not None  # noqa: S101 - for the type checker: only rules with baselines by segment value
    return baseline.scales(state.detectors[number].movement, positions, watching=state.looks_for_change)


def _limits(state: RuleState, number: int, positions: Rows) -> tuple[Floats, Floats]:
    """Return the limits of values for a detector of a state, and the references that they come from, 0 without one."""
    detector, baseline = state.detectors[number], state.adjusted
    assert baseline is not None  # noqa: S101 - for the type checker: only rules with baselines by segment value
    references = baseline.references(detector.movement, positions)
    limits = baseline.limits(detector.movement, references, watching=state.looks_for_change)
    return limits, np.nan_to_num(references, nan=0.0)
