"""The verdict on a release as the result of a gate. No I/O."""

from typing import Final

from ragtide_schemas.release import MetricVerdict, Release, Verdict

from .conditions import UndecidedPolicy
from .deciding import ConditionOutcome, GateOutcome, GateResult, ScopeOutcome, apply_policy
from .measurements import scope_of

_OUTCOMES: Final[dict[Verdict, GateOutcome]] = {
    "worse": GateOutcome.FAILED,
    "not_worse": GateOutcome.PASSED,
    "undecided": GateOutcome.UNDECIDED,
    "not_comparable": GateOutcome.UNDECIDED,
}


def release_gate(release: Release, undecided: UndecidedPolicy = UndecidedPolicy.KEEP) -> GateResult:
    """Return the result of a gate on a release: it fails if the new version is worse, and passes if it is not worse.

    Args:
        release: the verdict, with its metrics.
        undecided: how to count a verdict that is undecided. Versions that cannot be compared never pass.
    """
    conditions = [
        _condition(name, release.pipeline, verdict, sentence, undecided)
        for name, verdict, sentence in (
            (f"{release.to_version} worse than {release.from_version}", release.verdict, release.sentence),
            *((_name(row), row.verdict, metric_sentence(row)) for row in release.metrics),
        )
    ]
    return GateResult(conditions[0].outcome, conditions)


def _condition(
    name: str, pipeline: str, verdict: Verdict, sentence: str, undecided: UndecidedPolicy
) -> ConditionOutcome:
    scope = ScopeOutcome(pipeline, _OUTCOMES[verdict], sentence, measured=verdict != "not_comparable")
    scope = apply_policy(scope, undecided)
    return ConditionOutcome(name, scope.outcome, [scope])


def _name(row: MetricVerdict) -> str:
    return scope_of(f"{row.metric} worse", row.labeler, row.labeler_version, row.profile)


def metric_sentence(row: MetricVerdict) -> str:
    """Return both means of a metric, the difference with its interval, and what is needed for a verdict."""
    if row.verdict == "not_comparable":
        return f"not comparable: {row.reason}"
    if row.difference is None or row.before is None or row.after is None:
        return "nothing was compared yet"
    ends = "" if row.lower is None or row.upper is None else f", interval {row.lower:+.4g} to {row.upper:+.4g}"
    numbers = (
        f"{row.before.estimate:.4g} to {row.after.estimate:.4g}, difference {row.difference:+.4g}{ends}, margin "
        f"{row.margin:.4g}, n {row.n_compared[0]:,} and {row.n_compared[1]:,}"
    )
    to_go = "" if row.answers_to_go is None else f", about {row.answers_to_go:,} answers to go"
    return f"{row.verdict.replace('_', ' ')} ({numbers}{to_go})"
