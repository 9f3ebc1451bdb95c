"""The state of one rule on Cohen's kappa, on the pairs of one key: it learns, fires and resolves. No clock, no I/O.

Pairs of a score and a gold score come in the order in which they were joined. Two in a row are a couple, and each
couple is one bet of the e-detector that counts as two values (`statistics.kappa`, `statistics.drift`).
"""

import base64
import json
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import METRICS, Alert, AlertRule, Direction, MetricEvent

from ..events.keys import PairKey
from ..statistics.drift.drift import Alarm, DetectorTable
from ..statistics.drift.kappa import Couple, CoupleSums, limit_of, packed, scaled, unpacked
from ..statistics.tables.batches import Floats
from .baseline import BASELINE_CONFIDENCE
from .contributors import Contributor, Contributors, contenders
from .kappa_items import Couples, GradedItems, JoinedPairs, WaitingItem
from .kappa_messages import KappaDecision, kappa_alert
from .rule_state import Phase


class Turn(NamedTuple):
    """An alert that fires or resolves, and the position of the pair that decided it."""

    position: int
    alert: Alert


class KappaState:
    """The state of one rule on kappa, on the pairs of one key.

    Args:
        rule: on kappa, with a run length.
        key: of the pairs.
        table: of detectors, which gets a row.
        origin: makes alert ids of a split pipeline different in each partition.
    """

    def __init__(self, rule: AlertRule, key: PairKey, table: DetectorTable, origin: str = "") -> None:
        assert rule.run_length is not None  # noqa: S101 - for the type checker: the rule checks it
        self.rule, self.key = rule, key
        self._run_length = rule.run_length
        self._table, self._row, self._origin = table, table.add_row(), origin
        lower, upper = key.proxy.value_range
        self._line = line_of(rule, (lower, upper))
        self._scaled_line = (self._line - lower) / (upper - lower)
        self._good_above = key_direction(key) is not Direction.LOWER
        self._phase: Phase = "learning"
        self._reference = 0.0
        self._learned_n = 0
        self._sums = CoupleSums()
        self._waiting: WaitingItem | None = None
        self._cluster = 0
        self._n = 0
        # The lowest and the highest probability of a gold score.
        self._probabilities = (1.0, 0.0)
        self._contributors = Contributors()
        self._fired: Alert | None = None
        self._times_fired = 0
        given = rule.given_baseline if rule.target is None else rule.target
        if given is not None:
            self._look_for_fall(given)

    @cached_property
    def field(self) -> str:
        """Name of this state in a checkpoint: rule, digest of its definition, key. A changed rule has a new state."""
        digest = blake2b(self.rule.definition, digest_size=8).hexdigest()
        parts = [self.rule.name, digest, *self.key.proxy.parts()]
        return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))

    @property
    def firing(self) -> Alert | None:
        """The alert that fires; None if none does."""
        return self._fired

    @property
    def _limit(self) -> float:
        return self._reference - self.rule.min_effect

    @property
    def _compared(self) -> float:
        if self._phase != "firing":
            return self._limit
        # Below 1, so that kappa can lie above it.
        return min(self._limit + self.rule.hysteresis, (self._limit + 1) / 2)

    def _look_for_fall(self, reference: float) -> None:
        self._phase, self._reference, self._fired = "watching", reference, None
        self._contributors.clear()
        limit = limit_of(self._limit)
        self._table.configure(self._row, limit=limit, direction="rise", run_length=self._run_length)

    def _look_for_return(self) -> None:
        self._phase = "firing"
        run_length = self.rule.resolve_run_length
        self._table.configure(self._row, limit=limit_of(self._compared), direction="fall", run_length=run_length)

    def take(self, pairs: JoinedPairs) -> list[Turn]:
        """Take pairs, at least one; return the alerts that fire or resolve because of them, in order."""
        items = GradedItems(pairs, self._are_good, self._waiting, self._cluster, self._probabilities)
        before = self._n - (self._waiting is not None)
        self._n = before + len(items)
        self._cluster, self._probabilities, self._waiting = (
            int(pairs.clusters[-1]),
            items.probabilities,
            items.waiting(),
        )
        couples = items.couples()
        turns = []
        start = self._learn(couples)
        while start < couples.own.size:
            alarm = self._bet(couples.part(start))
            stop = couples.own.size if alarm is None else start + alarm.position + 1
            if self._phase == "watching":
                differing, excess = items.differing(2 * start, 2 * stop)
                for one in contenders(excess).tolist():
                    item = int(differing[one])
                    name = items.interaction_id(item)
                    self._contributors.add(Contributor(before + item + 1, float(excess[one]), name))
            if alarm is not None:
                last = 2 * stop - 1
                position = items.position(last)
                event = pairs.source.event(int(pairs.places[position]))
                turns.append(Turn(position, self._alarmed(alarm, event, before + 2 * stop, mixed=items.mixed(last))))
            start = stop
        return turns

    def _are_good(self, scores: Floats) -> NDArray[np.bool_]:
        return scores >= self._scaled_line if self._good_above else scores <= self._scaled_line

    def _learn(self, couples: Couples) -> int:
        """Learn from couples as long as the rule learns; return how many it took."""
        taken = 0
        for own, crossed in zip(couples.own.tolist(), couples.crossed.tolist(), strict=True):
            if self._phase != "learning":
                break
            taken += 1
            self._sums.add(Couple(own, crossed))
            if 2 * self._sums.n < self.rule.learn_n:
                continue
            lowest = self._sums.lowest(BASELINE_CONFIDENCE)
            if lowest - self.rule.min_effect > -1:  # no kappa is lower; until then learning continues
                self._learned_n = 2 * self._sums.n
                self._look_for_fall(lowest)
        return taken

    def _bet(self, couples: Couples) -> Alarm | None:
        """Add couples to the detector, up to its alarm, and return the alarm."""
        values = scaled(couples.own, couples.crossed, self._compared)
        n = values.size
        alarms, _ = self._table.update(
            np.full(n, self._row),
            values,
            couples.times_ms,
            sizes=np.full(n, 2),
            # The mean of an alarm then tells both disagreements.
            centers=values - packed(couples.own, couples.crossed),
        )
        return alarms[0] if alarms else None

    def _alarmed(self, alarm: Alarm, event: MetricEvent, number: int, *, mixed: bool) -> Alert:
        fired = self._fired
        decision = KappaDecision(
            rule=self.rule,
            key=self.key.proxy,
            line=self._line,
            reference=self._reference,
            learned_n=self._learned_n,
            n=alarm.change_n,
            since=unpacked(alarm.change_mean, alarm.change_n // 2),
            began_ms=alarm.change_tag,
            log_evidence=alarm.log_evidence,
            run_length=self._run_length,
            total=number,
            mixed=mixed,
            contributors=[one.interaction_id for one in self._contributors.since(number - alarm.change_n + 1)],
        )
        if fired is not None:
            alert = kappa_alert(decision, event, alert_id=fired.alert_id, fired=fired)
            self._look_for_fall(self._reference)
            return alert
        self._times_fired += 1
        digest = blake2b(f"{self._origin}{self.field}{self._times_fired}".encode(), digest_size=6).hexdigest()
        self._fired = kappa_alert(decision, event, alert_id=f"{self.rule.name}-{digest}")
        self._look_for_return()
        return self._fired

    def to_bytes(self) -> bytes:
        """Return the state as JSON with exact floats."""
        active = self._phase != "learning"
        self._contributors.drop_before(self._n - (self._table.longest(self._row) if active else 0))
        state: dict[str, Any] = {
            "phase": self._phase,
            "reference": self._reference,
            "learned_n": self._learned_n,
            "sums": self._sums.dump(),
            "waiting": self._waiting,
            "cluster": self._cluster,
            "n": self._n,
            "probabilities": self._probabilities,
            "contributors": self._contributors.dump(),
            "times_fired": self._times_fired,
            "fired": None if self._fired is None else self._fired.model_dump(mode="json"),
            "detector": base64.b64encode(self._table.to_bytes(self._row)).decode() if active else None,
        }
        return json.dumps(state, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

    def load(self, data: bytes) -> None:
        """Set the state to what `to_bytes` returned.

        Raises:
            ValueError: another version wrote it.
        """
        state = json.loads(data)
        self._phase, self._reference = state["phase"], float(state["reference"])
        self._learned_n, self._sums = state["learned_n"], CoupleSums.read(state["sums"])
        waiting = state["waiting"]
        self._waiting = None if waiting is None else WaitingItem(*waiting)
        self._cluster, self._n = state["cluster"], state["n"]
        self._probabilities = (state["probabilities"][0], state["probabilities"][1])
        self._contributors.load(state["contributors"])
        self._times_fired = state["times_fired"]
        self._fired = None if state["fired"] is None else Alert.model_validate(state["fired"])
        if state["detector"] is not None:
            self._table.load(self._row, base64.b64decode(state["detector"]))


def line_of(rule: AlertRule, value_range: tuple[float, float]) -> float:
    """Return the score that separates good from bad: of the rule, or the band of the metric, or half of its range."""
    definition = METRICS.get(rule.metric)
    if rule.threshold is not None:
        return rule.threshold
    if definition is not None and definition.bands is not None:
        return definition.bands.good
    return sum(value_range) / 2


def key_direction(key: PairKey) -> Direction:
    """Return the direction in which the metric of pairs gets better."""
    if key.proxy.measure is not None:
        return key.proxy.measure.direction
    definition = METRICS.get(key.proxy.metric)
    return Direction.NEITHER if definition is None else definition.direction
