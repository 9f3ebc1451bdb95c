"""Decides conditions: pass, fail or undecided, for each measurement, each condition and the whole gate. No I/O."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from ragtide_aggregator.statistics.intervals.intervals import Interval

from .conditions import COUNTS, DIFFERENCE, ESTIMATE, OPERATORS, WITH_INTERVAL, Condition, UndecidedPolicy, split_name
from .measurements import Measurement


class GateOutcome(StrEnum):
    """The outcome of a condition or of a gate."""

    PASSED = "pass"
    FAILED = "fail"
    UNDECIDED = "undecided"


EXIT_CODES: Final = {GateOutcome.PASSED: 0, GateOutcome.FAILED: 4, GateOutcome.UNDECIDED: 5}
"""Exit code of a command by the outcome of its gate: docs/offline/gates.md, "Exit codes"."""


@dataclass(frozen=True, slots=True)
class ScopeOutcome:
    """The outcome of a condition in one scope."""

    scope: str
    outcome: GateOutcome
    sentence: str
    measured: bool = True
    """Whether the metric has values here."""


@dataclass(frozen=True, slots=True)
class ConditionOutcome:
    """The outcome of one condition over all scopes: the worst of them."""

    condition: str
    outcome: GateOutcome
    scopes: Sequence[ScopeOutcome]


@dataclass(frozen=True, slots=True)
class GateResult:
    """The outcome of a gate: the worst of its conditions."""

    outcome: GateOutcome
    conditions: Sequence[ConditionOutcome]
    sees: Sequence[Mapping[str, Any]] = ()
    """What the gate could see, as it was known before it ran (`Foresight.as_dict`)."""

    @property
    def passed(self) -> bool:
        """Whether the gate passed: False if it failed, and if the data did not decide it."""
        return self.outcome is GateOutcome.PASSED

    def __bool__(self) -> bool:
        """Return `passed`, so that `assert gate(...)` and `if gate(...)` are right."""
        return self.passed

    @property
    def exit_code(self) -> int:
        """The exit code of a command with this gate."""
        return EXIT_CODES[self.outcome]

    def as_dict(self) -> dict[str, Any]:
        """Return the result as values that JSON can hold."""
        fields = {**asdict(self), "exit_code": self.exit_code}
        return fields if self.sees else {name: value for name, value in fields.items() if name != "sees"}


def decide_gate(
    conditions: Sequence[Condition],
    measurements: Sequence[Measurement],
    *,
    known: Collection[str] = (),
    undecided: UndecidedPolicy = UndecidedPolicy.KEEP,
) -> GateResult:
    """Return the outcome of a gate.

    Args:
        conditions: at least one; each fails the gate when it holds.
        measurements: of all metrics and scopes; without measurements nothing passes.
        known: metrics that are known although they have no measurement.
        undecided: how to count a condition that an interval leaves open. A metric without values never passes.

    Raises:
        ValueError: no condition, an unknown metric, or a field that was not measured at all.
    """
    if not conditions:
        raise ValueError("a gate without a condition decides nothing: give at least one, such as trace.adherence < 0.8")
    names = {measurement.metric for measurement in measurements} | set(known)
    decided = [_decide_condition(condition, measurements, names, undecided) for condition in conditions]
    return GateResult(_worst(condition.outcome for condition in decided), decided)


def _decide_condition(
    condition: Condition, measurements: Sequence[Measurement], known: Collection[str], policy: UndecidedPolicy
) -> ConditionOutcome:
    metric, field = split_name(condition.name, known, certain=bool(measurements))
    only_differences = bool(measurements) and all(measurement.estimate is None for measurement in measurements)
    # The absences of two sides are not one number.
    if only_differences and (_quantity_of(field) == ESTIMATE or field in ("n_absent", "coverage")):
        raise ValueError(f"only differences were measured: write {metric}.{DIFFERENCE} or {metric}.n")
    here = [measurement for measurement in measurements if measurement.metric == metric]
    scopes = [_decide_scope(condition, field, measurement) for measurement in here]
    # A pipeline without the metric may be as bad as can be, so the others do not speak for it.
    expected = dict.fromkeys(measurement.subject for measurement in measurements) if here else {"": None}
    measured = {measurement.subject for measurement in here}
    why = f"{metric} was not measured" if measurements else "there are no scored interactions"
    scopes += [_not_measured(condition, field, subject, why) for subject in expected if subject not in measured]
    scopes = [apply_policy(scope, policy) for scope in scopes]
    return ConditionOutcome(condition.text, _worst(scope.outcome for scope in scopes), scopes)


def _quantity_of(field: str) -> str | None:
    if field in COUNTS:
        return None
    return DIFFERENCE if field.split(".", maxsplit=1)[0] == DIFFERENCE else ESTIMATE


def _decide_scope(condition: Condition, field: str, measurement: Measurement) -> ScopeOutcome:
    if field in COUNTS:
        return _decide_count(condition, field, measurement)
    quantity: Interval[float | None, float | None] | None = measurement.estimate
    n = measurement.n
    if _quantity_of(field) == DIFFERENCE:
        quantity = measurement.difference
        n = n if measurement.difference_n is None else measurement.difference_n
    if not measurement.n:
        return ScopeOutcome(measurement.scope, GateOutcome.UNDECIDED, _no_values(measurement), measured=False)
    if quantity is None or quantity.estimate is None:
        metric = measurement.metric
        why = f"{metric} has no difference: give a baseline with the same interaction ids, or items, and labeler"
        return ScopeOutcome(measurement.scope, GateOutcome.UNDECIDED, why, measured=False)
    if field in WITH_INTERVAL:
        return _interval(condition, quantity, measurement, n)
    value = {"mean": quantity.estimate, "lower": quantity.lower, "upper": quantity.upper}[field.rpartition(".")[2]]
    if value is None:
        return ScopeOutcome(
            measurement.scope, GateOutcome.UNDECIDED, f"{measurement.metric} has no interval", measured=False
        )
    return _number(condition, value, measurement.scope, n)


def _interval(
    condition: Condition, quantity: Interval[float | None, float | None], measurement: Measurement, n: int
) -> ScopeOutcome:
    if quantity.lower is None or quantity.upper is None:
        why = f"{measurement.metric} has no interval: write {measurement.metric}.mean to decide by the mean alone"
        return ScopeOutcome(measurement.scope, GateOutcome.UNDECIDED, why, measured=False)
    surely = condition.surely(quantity.lower, quantity.upper)
    numbers = f"mean {quantity.estimate:.4g}, interval {quantity.lower:.4g} to {quantity.upper:.4g}, n {n:,}"
    _, holds, opposite = OPERATORS[condition.operator]
    if surely is None:
        sentence = f"the interval has {condition.threshold:g} inside: more interactions make it narrower ({numbers})"
        return ScopeOutcome(measurement.scope, GateOutcome.UNDECIDED, sentence)
    sentence = f"surely {holds if surely else opposite} {condition.threshold:g} ({numbers})"
    return ScopeOutcome(measurement.scope, GateOutcome.FAILED if surely else GateOutcome.PASSED, sentence)


def _number(condition: Condition, value: float, scope: str, n: int) -> ScopeOutcome:
    fails = condition.holds(value)
    words = OPERATORS[condition.operator][1 if fails else 2]
    sentence = f"{_number_text(value, condition.threshold)} is {words} {condition.threshold:g} (n {n:,})"
    return ScopeOutcome(scope, GateOutcome.FAILED if fails else GateOutcome.PASSED, sentence)


def _decide_count(condition: Condition, field: str, measurement: Measurement) -> ScopeOutcome:
    count = {"n": measurement.n, "n_absent": measurement.n_absent, "coverage": measurement.coverage}[field]
    if count is not None and (measurement.n or condition.holds(count)):
        return _number(condition, count, measurement.scope, measurement.n)
    return ScopeOutcome(measurement.scope, GateOutcome.UNDECIDED, _no_values(measurement), measured=False)


def _not_measured(condition: Condition, field: str, scope: str, why: str) -> ScopeOutcome:
    if field == "n" and condition.holds(0):
        return ScopeOutcome(scope, GateOutcome.FAILED, f"{why}: n is 0", measured=False)
    return ScopeOutcome(scope, GateOutcome.UNDECIDED, why, measured=False)


def _no_values(measurement: Measurement) -> str:
    if not measurement.n_absent:
        return f"{measurement.metric} has no values"
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in list(measurement.absent.items())[:3])
    return f"{measurement.metric} has no values: absent in {measurement.n_absent:,} interactions" + (
        f" ({reasons})" if reasons else ""
    )


def apply_policy(scope: ScopeOutcome, policy: UndecidedPolicy) -> ScopeOutcome:
    """Return an outcome with what an undecided one counts as; what was not measured never passes."""
    if scope.outcome is not GateOutcome.UNDECIDED or policy is UndecidedPolicy.KEEP:
        return scope
    if policy is UndecidedPolicy.PASSED and not scope.measured:
        return scope
    sentence = f"undecided, which counts as {policy} here: {scope.sentence}"
    return ScopeOutcome(scope.scope, GateOutcome(policy.value), sentence, scope.measured)


def _worst(outcomes: Iterable[GateOutcome]) -> GateOutcome:
    all_outcomes = set(outcomes)
    for outcome in (GateOutcome.FAILED, GateOutcome.UNDECIDED):
        if outcome in all_outcomes:
            return outcome
    return GateOutcome.PASSED


def _number_text(value: float, threshold: float) -> str:
    for digits in (4, 6, 9):
        shown = f"{value:.{digits}g}"
        if value == threshold or float(shown) != threshold:
            return shown
    return repr(value)
