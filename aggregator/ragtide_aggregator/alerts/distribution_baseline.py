"""The baseline of a rule on a covariate: the normal share of each group of its values. No clock, no I/O.

It is learned from the first `learn_n` values: the groups from the first fifth of them, and the shares from the others
(`statistics.drift.value_groups`). A detector for each group bets on a share above the upper end of the normal share,
moved by `min_effect`. Afterwards the baseline does not change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import isnan
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import AlertRule
from ragtide_schemas.alert import ValueShare
from ragtide_schemas.alert_kinds import SEGMENT_COVARIATE

from ..events.batch import EventBatch, EventList, EventSource
from ..statistics.drift.drift import Alarm
from ..statistics.drift.value_groups import (
    MOST_BINS,
    MOST_GROUPS,
    Bins,
    NameBins,
    NumberBins,
    bins_read,
    total_variation,
    upper_shares,
)
from ..statistics.tables.batches import Floats, Rows
from .baseline import BASELINE_CONFIDENCE, AlarmDetail, AlarmFacts, OwnValuesBaseline, Place
from .rule_values import Arrived, Inputs, LearnedValues, RuleValues
from .statistic import RuleDetector, Statistic
from .stored_form import StoredForm, of_array

CUT_SHARE: Final = 5
"""One in so many of the learned values decides where the values are cut."""

MOST_CUTTING: Final = 1_000
"""Most values that decide where the values are cut."""

RECENT: Final = 1_000
"""Newest values whose shares an alert has."""

NAMED: Final = 5
"""Newest interactions of a group that an alert names, and of each bin that are remembered."""

_NO_BIN: Final = -1


Codes = NDArray[np.uint8]
"""Bins of values."""


class RecentValue(NamedTuple):
    """An interaction of the newest values."""

    number: int
    """Number of its value among those of the key."""
    interaction_id: str


@dataclass(frozen=True, slots=True)
class DistributionChange(AlarmDetail):
    """What an alarm has found."""

    covariate: str
    values: str
    """The values whose share rose, in words."""
    shares: tuple[ValueShare, ...]
    """Shares of all bins."""
    distance: float
    """Total variation distance between the shares before and since."""
    worst_interaction_ids: tuple[str, ...]
    """The newest interactions since the change with one of the values, the newest first."""

    def fields(self, *, firing: bool) -> dict[str, Any]:
        """Return the covariate and its values, and of an alert that fires their shares and interactions."""
        of_end = ("covariate", "values")
        return {field.name: getattr(self, field.name) for field in fields(self) if firing or field.name in of_end}


class DistributionBaseline(OwnValuesBaseline):
    """The normal shares of the groups of one rule on one key.

    Attributes:
        of_names: whether the values are names, and not numbers.
    """

    stored = ("n", "cutting", "bins", "counts", "recent", "named")
    n: int
    """Number of values so far."""
    cutting: list[Any]
    """First values, until there are enough to decide where values are cut."""
    bins: Annotated[Bins | None, StoredForm(lambda bins: bins and bins.dump(), lambda cuts: cuts and bins_read(cuts))]
    """None before."""
    counts: Annotated[Floats, StoredForm(lambda counts: counts.astype(int).tolist(), lambda n: np.array(n, float))]
    """Number of learned values in each bin."""
    recent: Annotated[Codes, of_array("u1", -1)]
    """Bins of the newest values."""
    named: list[list[RecentValue]]
    """Newest interactions of each bin."""

    def __init__(self, rule: AlertRule) -> None:
        self._rule = rule
        self.of_names = (rule.covariate or "").startswith(SEGMENT_COVARIATE)
        self.is_known, self.n = False, 0
        self._n_cutting = min(max(rule.learn_n // CUT_SHARE, 1), MOST_CUTTING)
        self.cutting = []
        self.bins = None
        self._members = np.zeros((MOST_GROUPS, MOST_BINS), dtype=bool)
        self.counts, self._upper = np.zeros(MOST_BINS), np.ones(MOST_GROUPS)
        self.recent = np.zeros(0, dtype=np.uint8)
        self.named = [[] for _ in range(MOST_BINS)]
        # Of the batch that was taken last: its bins, and the newest values and number of values before it.
        self._taken = np.zeros(0, dtype=np.intp)
        self._before, self._n_before = self.recent, 0
        self._source: EventSource = EventList(())
        self._events = np.zeros(0, dtype=np.intp)

    @property
    def statistics(self) -> list[Statistic]:
        """The share of each group."""
        return [Statistic("share", 0.0, 1.0, group=group) for group in range(MOST_GROUPS)]

    @property
    def learns(self) -> bool:
        """Whether values are to be given to `learn`, one by one."""
        return not self.is_known

    @property
    def taken(self) -> int:
        """Number of values so far."""
        return self.n

    def take(self, row: int, batch: EventBatch, places: Rows, *, sessions: bool) -> Arrived | None:
        """Return the bins of the covariate in parts of a batch, with the parts; None if none has it."""
        column = batch.source.covariate(self._rule.covariate or "")[batch.places[places]].tolist()
        known = [value is not None and not (isinstance(value, float) and isnan(value)) for value in column]
        if not any(known):
            return None
        parts, before = places[known], self.n
        covariates = [value for value, is_known in zip(column, known, strict=True) if is_known]
        bins = self.take_values(covariates, batch.source, batch.places[parts])
        numbers, zeros = before + 1 + np.arange(parts.size), np.zeros(parts.size, dtype=np.intp)
        values = RuleValues(
            np.full(parts.size, row), bins, batch.times_ms[parts], numbers, self._events, batch.source, zeros
        )
        return Arrived(values, parts)

    def _interaction_id(self, position: int) -> str:
        return self._source.interaction_id(int(self._events[position]))

    def take_values(self, values: Sequence[Any], source: EventSource, events: Rows) -> Floats:
        """Begin a batch of values, of which the first may decide where values are cut; return the bin of each.

        Args:
            values: of the covariate; shape (n,).
            source: has the interactions of the values.
            events: position of each value's interaction in the source; shape (n,).
        """
        self._source, self._events = source, events
        cutting = 0
        if self.bins is None:
            cutting = min(len(values), self._n_cutting - len(self.cutting))
            self.cutting += values[:cutting]
            if len(self.cutting) == self._n_cutting:
                self.bins = (NameBins if self.of_names else NumberBins).learned(self.cutting)
                self.cutting, self._members = [], self.bins.members
        bins = np.full(len(values), _NO_BIN, dtype=np.intp)
        if self.bins is not None:
            bins[cutting:] = self.bins.of(values[cutting:])
        self._taken, self._before, self._n_before = bins, self.recent, self.n
        self.n += len(values)
        self.recent = self._newest(len(values) - 1)
        return bins.astype(np.float64)

    def _set_upper(self) -> None:
        self._upper = upper_shares(self.counts, self._members, BASELINE_CONFIDENCE)

    def _newest(self, position: int) -> Codes:
        bins = self._taken[: position + 1]
        return np.concatenate([self._before, bins[bins >= 0].astype(np.uint8)])[-RECENT:]

    def learn(self, values: LearnedValues) -> bool:
        """Learn from a value; return whether the shares are known from the next value on."""
        if values.mean == _NO_BIN:
            return False
        self.counts[int(values.mean)] += 1
        self.is_known = bool(self.counts.sum() >= self._rule.learn_n - self._n_cutting)
        if self.is_known:
            self._set_upper()
        return self.is_known

    def limit(self, detector: RuleDetector, *, watching: bool) -> float:
        """Return the limit of the share of a group; no share is beyond that of a group that is not used."""
        return detector.limit(self._rule, float(self._upper[detector.statistic.group]), watching=watching)

    def beyond(self, detectors: list[RuleDetector], positions: Rows | None = None) -> tuple[Any, Any]:
        """Return limits that no value is beyond: the interactions of each bin are remembered here."""
        return -np.inf, np.inf

    def inputs(self, detector: RuleDetector, batch: RuleValues, positions: Rows, *, watching: bool) -> Inputs:
        """Return whether each value is in the group of a detector."""
        bins = batch.values[positions].astype(np.intp)
        return Inputs(self._members[detector.statistic.group][bins].astype(np.float64))

    def facts(self, detector: RuleDetector, alarm: Alarm, at: Place) -> AlarmFacts:
        """Return the facts of an alarm."""
        group, n = detector.statistic.group, float(self.counts.sum())
        normal = float(self.counts[self._members[group]].sum()) / n
        change = self._change(group, at.position, alarm.change_n)
        return AlarmFacts(float(self._upper[group]), int(n), alarm.change_mean, normal, change)

    def _change(self, group: int, position: int, n: int) -> DistributionChange:
        assert self.bins is not None  # noqa: S101 - for the type checker: detectors take values in bins
        number = self._n_before + position + 1
        counts = np.bincount(self._newest(position)[-n:], minlength=MOST_BINS)
        before, since = self.counts / self.counts.sum(), counts / counts.sum()
        shares = tuple(
            ValueShare(values=name, before=float(before[place]), since=float(since[place]))
            for place, name in enumerate(self.bins.names)
        )
        inside = self._members[group]
        kept = [value for place in np.flatnonzero(inside) for value in self.named[place]]
        binned = np.flatnonzero(self._taken[: position + 1] >= 0)
        mine = binned[inside[self._taken[binned]]][-NAMED:]
        kept += [RecentValue(self._n_before + place + 1, self._interaction_id(place)) for place in mine.tolist()]
        newest = [value.interaction_id for value in sorted(kept, reverse=True) if value.number > number - n][:NAMED]
        covariate, distance = self._rule.covariate or "", total_variation(before, since)
        return DistributionChange(covariate, self.bins.groups[group], shares, distance, tuple(newest))

    def end_batch(self) -> None:
        """Remember the newest interactions of each bin of the batch."""
        for place, kept in enumerate(self.named):
            mine = np.flatnonzero(self._taken == place)[-NAMED:].tolist()
            kept += [RecentValue(self._n_before + position + 1, self._interaction_id(position)) for position in mine]
            del kept[:-NAMED]

    def load(self, dumped: Mapping[str, Any], *, known: bool) -> None:
        """Set the state to what `dump` returned."""
        super().load(dumped, known=known)
        if self.bins is not None:
            self._members = self.bins.members
        if self.is_known:
            self._set_upper()
