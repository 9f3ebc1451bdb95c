"""The gate of a summary, for notebooks and tests. No I/O."""

from ragtide_schemas import METRICS
from ragtide_schemas.suggestions import unknown

from ..score.summary import Summary
from .conditions import UndecidedPolicy, parse_condition
from .deciding import GateResult, decide_gate
from .measurements import measure_estimates
from .sources import baseline_gaps

CONFIDENCE = 0.95
"""Level of the intervals of differences if the summary has no estimate with a level."""


def gate(
    summary: Summary, *conditions: str, baseline: Summary | None = None, undecided: str = UndecidedPolicy.KEEP
) -> GateResult:
    """Return the outcome of a gate on a summary: `pass`, `fail` or `undecided`.

    >>> gate(Summary((), ()), "trace.adherence < 0.8").outcome.value
    'undecided'

    Args:
        summary: of `ragtide.score` or `ragtide.estimates`.
        conditions: each fails the gate if it holds, such as `trace.adherence < 0.8` (docs/offline/gates.md,
            "Conditions").
        baseline: scores of the same interactions, for conditions on `.difference`.
        undecided: whether an undecided condition stays `undecided`, or counts as `pass` or `fail`.

    Raises:
        ValueError: a condition is not written properly, its metric is unknown, or `undecided` is another word.
        TypeError: `summary` or `baseline` is no summary, such as the path of a file.
    """
    for name, value in (("summary", summary), ("baseline", baseline)):
        if not isinstance(value, Summary) and not (value is None and name == "baseline"):
            raise TypeError(f"{name} is of type {type(value).__name__}: give a summary, such as ragtide.score(...)")
    if undecided not in [*UndecidedPolicy]:
        raise ValueError(f"undecided: {unknown('choice', undecided, [policy.value for policy in UndecidedPolicy])}")
    level = next((estimate.confidence for estimate in summary.estimates), CONFIDENCE)
    gaps = None if baseline is None else baseline_gaps(summary.events, baseline.events, confidence=level)
    parsed = [parse_condition(text) for text in conditions]
    measured = measure_estimates(summary.estimates, gaps)
    return decide_gate(parsed, measured, known=METRICS, undecided=UndecidedPolicy(undecided))
