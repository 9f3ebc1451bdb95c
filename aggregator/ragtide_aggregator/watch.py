"""One alert rule on one key: learns its baseline, fires once, resolves once. No clock, no I/O."""

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any, Final, Literal

from ragtide_schemas import (
    METRICS,
    Alert,
    AlertRule,
    MetricEvent,
    Movement,
    from_milliseconds,
    value_range,
)

from .keys import EstimateKey
from .statistics.drift import Alarm, DetectorTable
from .statistics.intervals import interval
from .statistics.running import FIRST_GUESS, running_interval

BASELINE_CONFIDENCE: Final = 0.95
"""Confidence of the interval whose lenient end is a learned baseline."""

OBSERVED_CONFIDENCE: Final = 0.95
"""Confidence of the interval shown with the values since a change."""

WORST_KEPT: Final = 5
"""Interactions named in an alert."""

Phase = Literal["learning", "watching", "firing"]


def matches(rule: AlertRule, key: EstimateKey) -> bool:
    """Return whether a rule watches a key."""
    segment_name = None if key.segment is None else key.segment.partition("=")[0]
    return rule.metric == key.metric and rule.segment == segment_name and fnmatchcase(key.pipeline, rule.pipeline)


@dataclass(slots=True)
class _Reference:
    """Moments of the values a baseline is learned from, with the intrinsic time of the running interval."""

    n: int = 0
    mean: float = 0.0
    v: float = 0.0

    def add(self, value: float) -> None:
        self.v += (value - (self.mean if self.n else FIRST_GUESS)) ** 2
        self.n += 1
        self.mean += (value - self.mean) / self.n


class Watch:
    """The state of one rule on one key.

    - learning: a drift rule without a baseline collects its first values; its baseline is then the end of the running
      interval on the lenient side, so that an unlucky beginning does not become a false alarm later.
    - watching: an e-detector looks for a mean beyond the alarm line (docs/statistics.md, "Drift").
    - firing: the mirror detector looks for a mean back inside, `hysteresis` beyond the line.

    The detector is a row of a table that all watches of a state share; `detecting` says whether it wants values.
    """

    def __init__(self, rule: AlertRule, key: EstimateKey, detectors: DetectorTable) -> None:
        self._rule = rule
        self._key = key
        self._lowest, highest = value_range(rule.metric)
        self._width = highest - self._lowest
        self._movement: Movement = rule.movement
        self._detectors = detectors
        self.row = detectors.add_row()
        self._reference = _Reference()
        self._worst: list[tuple[float, str]] = []
        self._fired: Alert | None = None
        self._times_fired = 0
        self._phase: Phase = "learning"
        self._baseline = 0.0
        given = rule.target if rule.kind == "threshold" else rule.baseline
        if given is not None:
            self._watch(self._scaled(given))

    @property
    def field(self) -> str:
        """Name of this watch in a checkpoint: rule, digest of its definition, key. A changed rule starts anew."""
        digest = blake2b(self._rule.encode(), digest_size=8).hexdigest()
        return json.dumps([self._rule.name, digest, *self._key], ensure_ascii=False, separators=(",", ":"))

    @property
    def detecting(self) -> bool:
        """Whether the detector takes values; while the baseline is learned it does not."""
        return self._phase != "learning"

    def learn(self, value: float) -> None:
        """Add a value, scaled to [0, 1], to what the baseline is learned from."""
        self._reference.add(value)
        reference = self._reference
        if reference.n < self._rule.learn_n:
            return
        lower, upper = running_interval([reference.mean], [reference.n], [reference.v], confidence=BASELINE_CONFIDENCE)
        baseline = float(lower[0] if self._movement == "fall" else upper[0])
        # The interval may still reach to an end of the range, beyond which nothing can move. It holds at every n, so
        # learning may go on until it does not.
        if 0 < self._line(baseline) < 1:
            self._watch(baseline)

    def observed(self, value: float, interaction_id: str) -> None:
        """Remember an interaction the detector has taken, if it is among the worst since the change."""
        if self._phase != "watching":
            return
        if self._detectors.change_n(self.row) <= 1:
            self._worst.clear()
        self._remember(value, interaction_id)

    def _remember(self, value: float, interaction_id: str) -> None:
        badness = value if self._movement == "fall" else -value
        self._worst = sorted([*self._worst, (badness, interaction_id)])[:WORST_KEPT]

    def alarmed(self, alarm: Alarm, value: float, event: MetricEvent, n: int) -> Alert:
        """Return the alert that fires or resolves now that the detector alarmed.

        Args:
            alarm: what the detector knows.
            value: the value that decided it, scaled to [0, 1].
            event: the event that decided it.
            n: values of the key so far.
        """
        if self._phase == "watching":
            self._remember(value, event.interaction_id)
            return self._fire(alarm, event, n)
        return self._resolve(alarm, event, n)

    def _scaled(self, value: float) -> float:
        return (value - self._lowest) / self._width

    def _unscaled(self, value: float) -> float:
        return self._lowest + self._width * value

    def _line(self, baseline: float) -> float:
        effect = self._rule.min_effect / self._width
        return baseline - effect if self._movement == "fall" else baseline + effect

    def _watch(self, baseline: float) -> None:
        self._phase, self._baseline, self._worst, self._fired = "watching", baseline, [], None
        self._detectors.configure(
            self.row, line=self._line(baseline), direction=self._movement, run_length=self._rule.run_length
        )

    def _await_recovery(self) -> None:
        self._phase = "firing"
        line, back = self._line(self._baseline), self._rule.hysteresis / self._width
        # Never so far back that no mean could lie beyond it.
        recovered = min(line + back, (line + 1) / 2) if self._movement == "fall" else max(line - back, line / 2)
        self._detectors.configure(
            self.row,
            line=recovered,
            direction="rise" if self._movement == "fall" else "fall",
            run_length=self._rule.resolve_run_length,
        )

    def _fire(self, alarm: Alarm, event: MetricEvent, n: int) -> Alert:
        self._times_fired += 1
        named = blake2b(f"{self.field}{self._times_fired}".encode(), digest_size=6).hexdigest()
        alert = self._alert(alarm, event, n, f"{self._rule.name}-{named}")
        self._await_recovery()
        self._fired = alert
        return alert

    def _resolve(self, alarm: Alarm, event: MetricEvent, n: int) -> Alert:
        fired = self._fired
        assert fired is not None  # noqa: S101 - for the type checker: firing began with an alert
        alert = self._alert(alarm, event, n, fired.alert_id).model_copy(
            update={"status": "resolved", "fired_at": fired.fired_at, "resolved_at": event.occurred_at}
        )
        message = (
            f"{self._subject()} is back: mean {alert.observed:.3f} over the last {alert.observed_n} interactions, "
            f"against {alert.baseline:.3f} ({alert.baseline_source})."
        )
        self._watch(self._baseline)
        return alert.model_copy(update={"message": message, "worst_interaction_ids": ()})

    def _alert(self, alarm: Alarm, event: MetricEvent, n: int, alert_id: str) -> Alert:
        rule, key = self._rule, self._key
        if rule.kind == "threshold":
            source: Literal["given", "learned", "target"] = "target"
        else:
            source = "learned" if rule.baseline is None else "given"
        seen = interval(
            "normal",
            mean=min(max(alarm.change_mean, 0.0), 1.0),
            n=alarm.change_n,
            confidence=OBSERVED_CONFIDENCE,
            variance=alarm.change_variance,
        )
        return Alert(
            alert_id=alert_id,
            status="firing",
            rule=rule.name,
            kind=rule.kind,
            pipeline=key.pipeline,
            segment=key.segment,
            run=key.run,
            metric=key.metric,
            profile=key.profile,
            labeler=key.labeler,
            labeler_version=key.labeler_version,
            direction=self._movement,
            fired_at=event.occurred_at,
            began_at=from_milliseconds(alarm.change_tag),
            baseline=self._unscaled(self._baseline),
            baseline_source=source,
            observed=self._unscaled(alarm.change_mean),
            observed_n=alarm.change_n,
            observed_lower=self._unscaled(seen.lower),
            observed_upper=self._unscaled(seen.upper),
            log_evidence=alarm.log_evidence,
            run_length=rule.run_length,
            n=n,
            worst_interaction_ids=tuple(interaction_id for _, interaction_id in self._worst),
            message=self._message(alarm, source),
        )

    def _subject(self) -> str:
        segment = f", {self._key.segment}" if self._key.segment else ""
        return f"{self._key.metric} of {self._key.pipeline}{segment}"

    def _message(self, alarm: Alarm, source: str) -> str:
        limit = {
            "target": "the target is",
            "given": "the baseline is",
            "learned": f"the baseline, learned from {self._reference.n} interactions on the lenient side, is",
        }[source]
        definition = METRICS.get(self._key.metric)
        began = from_milliseconds(alarm.change_tag)
        return (
            f"{self._subject()} {'fell' if self._movement == 'fall' else 'rose'}: mean "
            f"{self._unscaled(alarm.change_mean):.3f} over the last {alarm.change_n} interactions, since about "
            f"{began:%Y-%m-%d %H:%M:%S} UTC; {limit} {self._unscaled(self._baseline):.3f}. "
            f"Without a change such an alarm comes at most once in {self._rule.run_length:,.0f} interactions, "
            "on average." + (f" Meaning: {definition.meaning}" if definition else "")
        )

    def to_bytes(self) -> bytes:
        """Return the state as JSON; floats survive exactly."""
        state: dict[str, Any] = {
            "phase": self._phase,
            "baseline": self._baseline,
            "reference": asdict(self._reference),
            "worst": self._worst,
            "times_fired": self._times_fired,
            "fired": None if self._fired is None else self._fired.model_dump(mode="json"),
            "detector": base64.b64encode(self._detectors.to_bytes(self.row)).decode(),
        }
        return json.dumps(state, ensure_ascii=False).encode()

    def load(self, data: bytes) -> None:
        """Take on the state that `to_bytes` returned.

        Raises: ValueError if it was written by another version.
        """
        state = json.loads(data)
        self._phase, self._baseline = state["phase"], state["baseline"]
        self._reference = _Reference(**state["reference"])
        self._worst = [(badness, interaction_id) for badness, interaction_id in state["worst"]]
        self._times_fired = state["times_fired"]
        self._fired = None if state["fired"] is None else Alert.model_validate(state["fired"])
        self._detectors.load(self.row, base64.b64decode(state["detector"]))

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
