"""One alert rule on one key: learns its baseline, fires once, resolves once. No clock, no I/O."""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any, Final, Literal

from ragtide_schemas import Alert, AlertRule, MetricEvent, Movement
from ragtide_schemas.alert import duration_ms

from ..events.keys import SQUARED_ERROR, UNBOUNDED, EstimateKey
from ..statistics.drift import Alarm, DetectorTable
from ..statistics.peers import Peer
from .baseline import Baseline, Learner
from .contributors import Bad, Worst
from .messages import Decision, alert_of
from .statistic import Quantity, quantity_of

DEFAULT_RUN_LENGTH: Final = 10_000.0
"""Mean number of values between false alarms of a rule that states none, where there is no budget."""

Phase = Literal["learning", "watching", "firing"]


def matches(rule: AlertRule, key: EstimateKey) -> bool:
    """Return whether a rule watches a key."""
    segment_name = None if key.segment is None else key.segment.partition("=")[0]
    if key.metric in UNBOUNDED:
        return False
    metric = SQUARED_ERROR + rule.metric if rule.kind == "rmse" else rule.metric
    return metric == key.metric and rule.segment == segment_name and fnmatchcase(key.pipeline, rule.pipeline)


@dataclass(slots=True)
class Leg:
    """One detector of a watch: which way it looks, at what, and whether it takes values."""

    row: int
    movement: Movement
    quantity: Quantity
    active: bool = False


class Watch:
    """The state of one rule on one key.

    - learning: a rule without a reference collects the first values, or those of a window; its baseline is then the end
      of the running interval on the lenient side, so that an unlucky beginning does not become a false alarm later.
    - watching: e-detectors look for a mean beyond the alarm line (docs/drift.md), one for each direction
      and quantity; together they cost what the rule's run length allows.
    - firing: the mirror of the one that alarmed looks for a mean back inside, `hysteresis` beyond the line.

    The detectors are rows of a table that all watches of a state share.
    """

    def __init__(self, rule: AlertRule, key: EstimateKey, detectors: DetectorTable, origin: str = "") -> None:
        self.rule = rule
        self.key = key
        self._detectors = detectors
        self._origin = origin
        quantity = quantity_of(rule, key.value_range)
        looks = [quantity] if rule.kind != "distribution" else [quantity, self._spread(0.0)]
        self._movements = rule.movements if key.measure is None else rule.movements_of(key.measure.direction)
        self.legs = [Leg(detectors.add_row(), way, look) for look in looks for way in self._movements]
        self.peer = None if rule.detector == "e_detector" else Peer(rule.detector)
        self._window_ms = None if rule.baseline_window is None else duration_ms(rule.baseline_window)
        self._learner = self._fresh_learner()
        self._worst = Worst()
        self._fired: Alert | None = None
        self._times_fired = 0
        self._phase: Phase = "learning"
        self._baseline = Baseline((0.0, 1.0))
        given = self._given(quantity)
        if given is not None:
            self._watch(given)

    def _fresh_learner(self) -> Learner:
        return Learner(self.rule.learn_n, spread=self.rule.kind == "distribution")

    def _spread(self, center: float) -> Quantity:
        return quantity_of(self.rule, self.key.value_range, center=center)

    def _given(self, quantity: Quantity) -> Baseline | None:
        rule = self.rule
        reference = rule.baseline if rule.target is None else rule.target
        if reference is None:
            return None
        mean = quantity.scaled(reference)
        if rule.baseline_spread is None:
            return Baseline((mean, mean))
        spread = self._spread(mean).scaled(rule.baseline_spread)
        return Baseline((mean, mean), mean, (spread, spread))

    @property
    def field(self) -> str:
        """Name of this watch in a checkpoint: rule, digest of its definition, key. A changed rule starts anew."""
        digest = blake2b(self.rule.encode(), digest_size=8).hexdigest()
        return json.dumps([self.rule.name, digest, *self.key.parts()], ensure_ascii=False, separators=(",", ":"))

    @property
    def learns(self) -> bool:
        """Whether it takes values to learn from."""
        return self.peer is None and (self._phase == "learning" or self._window_ms is not None)

    @property
    def watching(self) -> bool:
        """Whether it looks for a change, and not for an end of one."""
        return self._phase == "watching"

    @property
    def window_ms(self) -> int | None:
        """Length of the past window its baseline is of."""
        return self._window_ms

    @property
    def share(self) -> int:
        """Number of detectors the run length is shared by."""
        return len(self.legs)

    def learn(self, value: float) -> bool:
        """Take a value, scaled to [0, 1], to learn from; return whether it begins to watch with the next."""
        self._learner.add(value)
        if self._window_ms is not None or self._phase != "learning" or not self._learner.enough:
            return False
        found = self._learner.found()
        # The interval may still reach to an end of the range, beyond which nothing can move. It holds at every n, so
        # learning may go on until it does not.
        if not any(0 < self._line(leg.movement, leg.quantity, found) < 1 for leg in self._looking(found)):
            return False
        self._watch(found)
        return True

    def next_window(self, *, followed: bool) -> None:
        """Take the baseline from the window that ends, if it held enough, and begin the next one.

        Args:
            followed: whether the next one follows at once; after a gap the old baseline stays.
        """
        learner, self._learner = self._learner, self._fresh_learner()
        if not (followed and learner.enough):
            return
        found = learner.found()
        if self._phase == "learning":
            self._watch(found)
            return
        if learner.spread:
            # Another centre is another quantity, so the detectors of the spread begin again.
            self._baseline = found
            if self._phase == "watching":
                self._watch(found)
            return
        self._baseline = found
        for leg in self.legs:
            if leg.active:
                line = self._line(leg.movement, leg.quantity, found)
                self._move(leg, line if self._phase == "watching" else self._recovered(leg, line))

    def _move(self, leg: Leg, line: float) -> None:
        if 0 < line < 1:
            self._detectors.move_line(leg.row, line)

    def _looking(self, baseline: Baseline) -> list[Leg]:
        """Return the legs as they are with a baseline."""
        if baseline.center is None:
            return self.legs
        spread = self._spread(baseline.center)
        return [
            Leg(leg.row, leg.movement, spread if leg.quantity.name == "spread" else leg.quantity) for leg in self.legs
        ]

    def _reference(self, movement: Movement, quantity: Quantity, baseline: Baseline) -> float:
        """Return the lenient end of the baseline: the one that the movement must pass."""
        ends = baseline.mean if quantity.name != "spread" or baseline.spread is None else baseline.spread
        return ends[0] if movement == "fall" else ends[1]

    def _line(self, movement: Movement, quantity: Quantity, baseline: Baseline) -> float:
        effect = -self.rule.min_effect if movement == "fall" else self.rule.min_effect
        return quantity.moved(self._reference(movement, quantity, baseline), effect)

    def _watch(self, baseline: Baseline) -> None:
        self._phase, self._baseline, self._fired = "watching", baseline, None
        self._worst.clear()
        run_length = (self.rule.run_length or DEFAULT_RUN_LENGTH) * self.share
        self.legs[:] = self._looking(baseline)
        for leg in self.legs:
            line = self._line(leg.movement, leg.quantity, baseline)
            # Beyond an end of the range nothing can move: that leg rests.
            leg.active = 0 < line < 1
            if leg.active:
                self._detectors.configure(leg.row, line=line, direction=leg.movement, run_length=run_length)

    def _recovered(self, leg: Leg, line: float) -> float:
        """Return the line beyond which a leg's quantity is back."""
        back = self.rule.hysteresis if leg.movement == "fall" else -self.rule.hysteresis
        moved = leg.quantity.moved(line, back)
        # Never so far back that no mean could lie beyond it.
        return min(moved, (line + 1) / 2) if leg.movement == "fall" else max(moved, line / 2)

    def _await_recovery(self, fired: Leg) -> None:
        self._phase = "firing"
        line = self._line(fired.movement, fired.quantity, self._baseline)
        for leg in self.legs:
            leg.active = leg is fired
        self._detectors.configure(
            fired.row,
            line=self._recovered(fired, line),
            direction="rise" if fired.movement == "fall" else "fall",
            run_length=self.rule.resolve_run_length,
        )

    def lines(self) -> tuple[float, float]:
        """Return the scaled values below and above which a value is remembered."""
        low, high = -1.0, 2.0
        for leg in self.legs:
            if leg.active and leg.quantity.name != "spread":
                line = self._line(leg.movement, leg.quantity, self._baseline)
                low, high = (line, high) if leg.movement == "fall" else (low, line)
        return low, high

    def observed(self, bad: Bad) -> None:
        """Remember an interaction with a value beyond a line."""
        self._worst.add(bad)

    def alarmed(self, leg: Leg, alarm: Alarm, number: int, event: MetricEvent) -> Alert:
        """Return the alert that fires or resolves now that a leg's detector alarmed.

        Args:
            leg: which.
            alarm: what its detector knows.
            number: which value of the key decided it.
            event: the event that decided it.
        """
        decision = Decision(
            rule=self.rule,
            key=self.key,
            quantity=leg.quantity,
            movement=leg.movement,
            reference=self._reference(leg.movement, leg.quantity, self._baseline),
            learned_n=self._baseline.n,
            n=alarm.change_n,
            mean=alarm.change_mean,
            variance=alarm.change_variance,
            began_ms=alarm.change_tag,
            log_evidence=alarm.log_evidence,
            run_length=alarm.run_length / self.share if self.watching else self.rule.resolve_run_length,
            worst=[bad.interaction_id for bad in self._worst.since(number - alarm.change_n + 1)],
        )
        if not self.watching:
            return self._resolve(decision, event)
        alert = self._fire(decision, event)
        self._await_recovery(leg)
        return alert

    def _fire(self, decision: Decision, event: MetricEvent) -> Alert:
        self._times_fired += 1
        named = blake2b(f"{self._origin}{self.field}{self._times_fired}".encode(), digest_size=6).hexdigest()
        self._fired = alert_of(decision, event, alert_id=f"{self.rule.name}-{named}")
        return self._fired

    def _resolve(self, decision: Decision, event: MetricEvent) -> Alert:
        fired = self._fired
        assert fired is not None  # noqa: S101 - for the type checker: firing began with an alert
        alert = alert_of(decision, event, alert_id=fired.alert_id, fired=fired)
        if self.peer is None:
            self._watch(self._baseline)
        else:
            self._phase, self._fired = "learning", None
        return alert

    def peer_update(self, value: float, event: Callable[[], MetricEvent], time_ms: int) -> Alert | None:
        """Give a scaled value of an event to the peer, and return the alert that fires or resolves, if one does.

        It fires when the mean after the change lies on the bad side of the mean before, and resolves when a later
        change leads to the other side.
        """
        peer = self.peer
        assert peer is not None  # noqa: S101 - for the type checker: the caller asked
        before = peer.values.copy()
        if not peer.update(value):
            return None
        after_n = peer.window_n()
        recent = [*before, value][-after_n:]
        old = before[: max(len(before) + 1 - after_n, 1)]
        mean, old_mean = sum(recent) / len(recent), sum(old) / len(old)
        movement: Movement = "fall" if mean < old_mean else "rise"
        firing = self._fired is not None
        variance = sum((one - mean) ** 2 for one in recent) / (len(recent) - 1) if len(recent) > 1 else 0.0
        decision = Decision(
            rule=self.rule,
            key=self.key,
            quantity=self.legs[0].quantity,
            movement=movement,
            reference=old_mean,
            learned_n=len(old),
            n=len(recent),
            mean=mean,
            variance=variance,
            began_ms=time_ms,
            log_evidence=None,
            run_length=None,
            worst=[],
        )
        peer.restart()
        if (movement in self._movements) == firing:
            return None
        return self._resolve(decision, event()) if firing else self._fire(decision, event())

    def to_bytes(self, number: int) -> bytes:
        """Return the state as JSON; floats survive exactly.

        Args:
            number: which value of the key was the last.
        """
        longest = max((self._detectors.longest(leg.row) for leg in self.legs if leg.active), default=0)
        self._worst.forget_before(number - longest + 1)
        state: dict[str, Any] = {
            "phase": self._phase,
            "baseline": self._baseline.dump(),
            "learner": self._learner.dump() if self.learns else None,
            "worst": self._worst.dump(),
            "times_fired": self._times_fired,
            "fired": None if self._fired is None else self._fired.model_dump(mode="json"),
            "legs": [
                base64.b64encode(self._detectors.to_bytes(leg.row)).decode() if leg.active else None
                for leg in self.legs
            ],
            "peer": None if self.peer is None else base64.b64encode(self.peer.to_bytes()).decode(),
        }
        return json.dumps(state, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

    def load(self, data: bytes) -> None:
        """Take on the state that `to_bytes` returned.

        Raises: ValueError if it was written by another version.
        """
        state = json.loads(data)
        self._phase, self._baseline = state["phase"], Baseline.read(state["baseline"])
        if state["learner"] is not None:
            self._learner.load(state["learner"])
        self._worst.load(state["worst"])
        self._times_fired = state["times_fired"]
        self._fired = None if state["fired"] is None else Alert.model_validate(state["fired"])
        self.legs[:] = self._looking(self._baseline)
        for leg, dumped in zip(self.legs, state["legs"], strict=True):
            leg.active = dumped is not None
            if dumped is not None:
                self._detectors.load(leg.row, base64.b64decode(dumped))
        if self.peer is not None:
            self.peer.load(base64.b64decode(state["peer"]))

    @staticmethod
    def withdrawn(data: bytes) -> Sequence[Alert]:
        """Return the resolution of the alert that was firing in the state of a rule that is no longer there, if any."""
        fired = json.loads(data)["fired"]
        if fired is None:
            return ()
        alert = Alert.model_validate(fired)
        return (
            alert.model_copy(
                update={
                    "status": "resolved",
                    "resolved_at": alert.fired_at,
                    "message": f"Rule {alert.rule} was removed or changed, so its alert on {alert.pipeline} ends.",
                }
            ),
        )
