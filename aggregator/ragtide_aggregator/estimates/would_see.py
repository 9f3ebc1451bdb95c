"""Says what the number of a labeler would see: how many answers it takes to find a fall. No clock, no I/O."""

from math import ceil, floor, isfinite, log10
from typing import Final, NamedTuple

from ragtide_schemas import METRICS
from ragtide_schemas.headline import labeler_phrase
from ragtide_schemas.metric_definitions import PEOPLES_METRICS
from ragtide_schemas.slopes import UNSUPPORTED, Slope, SlopesByMetric, misses_claims
from ragtide_schemas.step_metrics import TOOL_FAMILY

from ..statistics.drift.power import answers_to_find
from ..statistics.drift.sights import lasting

FALL: Final = 0.2
"""The true fall of which the sentence speaks: one answer in five."""

IS_TRUTH: Final = frozenset({"gold", "judge"})
"""Labelers whose own verdict is what a fall is a fall of."""

OF_RUNS: Final = ("agent.", TOOL_FAMILY)
"""Families of the calls of agents: their numbers are no shares of answers that fall."""

YES_OR_NO: Final = 0.95
"""Values whose variance is this part of the largest possible one are 0 or 1."""

NEXT_STEP: Final = "ragtide judge setup"
"""The command that sets up a judge of a sample."""

_BY_LABELS: Final = {
    UNSUPPORTED: "the share of supported answers",
    "irrelevant documents": "the share of relevant sentences",
    "unused documents": "the share of used sentences",
}
"""The share that falls, by the failure in the labels."""

_MADE: Final = {
    "wrong answer": "wrong answers",
    "wrong documents": "wrong documents",
    "broken retriever": "a broken retriever",
}
# Failures that are made, in words: the first that a number follows stands for all.


class Watched(NamedTuple):
    """The values of a labeler that a drift rule watches, and how they come."""

    mean: float
    """Their mean, between 0, the worst value, and 1, the best."""
    deviation: float | None = None
    """Their standard deviation in the same unit; None if it is not known."""
    rate: float = 1.0
    """Share of the answers that have a value."""
    an_hour: float | None = None
    """Answers an hour, of which `rate` have a value; 0 if none come, None if it is not known."""
    run_length: float | None = None
    """Mean number of values between false alarms of the rule; None for that of the default rules."""
    min_effect: float | None = None
    """Largest change of the mean that does not matter to the rule, in the unit of the mean; None without a rule."""
    ruled: bool = True
    """Whether a rule watches them."""
    awaited: str | None = None
    """Labeler whose number is to follow this one."""


def would_see(labeler: str, metric: str, watched: Watched, slopes: SlopesByMetric) -> str | None:
    """Return what a labeler's number of a metric would see; None of a metric about which nothing is to be said.

    The rule finds a fall of the mean. How far the mean moves with a true fall was measured; the verdict of a judge and
    of people is itself the truth of which the sentence speaks. About another labeler of a metric from labels it says
    that nothing was measured.

    Args:
        labeler: name of the labeler.
        metric: name of the metric.
        watched: its values.
        slopes: of the labeler, as they were measured.
    """
    if labeler in IS_TRUTH:
        return _of_verdicts(labeler, metric, watched)
    measured = {slope.failure: slope for slope in slopes.get(metric, ())}
    if not measured:
        unknown = metric in METRICS and METRICS[metric].from_labels and not slopes and labeler != "none"
        return f"not measured for {labeler} (ragtide trust FILE --labeler {labeler})" if unknown else None
    natural = next((measured[failure] for failure in _BY_LABELS if failure in measured), None)
    if natural is not None and natural.is_seen:
        return _fall(f"in {_BY_LABELS[natural.failure]}", watched, natural.slope)
    parts = [_made(measured, watched)]
    if misses_claims(slopes, metric):
        remedy = (
            f"before {labeler_phrase(watched.awaited)} has a number"
            if watched.awaited
            else f"without a judge ({NEXT_STEP})"
        )
        parts.append(f"{UNSUPPORTED} are not seen {remedy}")
    return "; ".join(filter(None, parts)) or None


def _of_verdicts(labeler: str, metric: str, watched: Watched) -> str | None:
    is_quality = metric not in METRICS or METRICS[metric].from_labels or metric in PEOPLES_METRICS
    if metric.startswith(OF_RUNS) or not is_quality:
        return None
    by, verb = ("people", "score") if labeler == "gold" else (labeler_phrase(labeler), "scores")
    share = f", of which {by} {verb} {100 * watched.rate:.2g}%" if watched.rate < 1 else ""
    return _fall(f"by {by}", watched, 1.0, share)


def _fall(of: str, watched: Watched, slope: float, scored: str = "") -> str:
    count = _answers(watched, slope)
    finding = f"found within about {count}{scored}" if count else "not found"
    return f"{_with_rule(watched)}a fall of {FALL:.2f} {of} is {finding}"


def _with_rule(watched: Watched) -> str:
    return "" if watched.ruled else "with a rule, "


def _made(slopes: dict[str, Slope], watched: Watched) -> str:
    for failure, words in _MADE.items():
        if failure in slopes and slopes[failure].is_seen:
            count = _answers(watched, slopes[failure].slope)
            finding = f"found within about {count}" if count else "not found"
            return f"{_with_rule(watched)}{words} in {FALL:.0%} of the answers are {finding}"
    return ""


def _answers(watched: Watched, slope: float) -> str | None:
    stated = {"run_length": watched.run_length, "min_effect": watched.min_effect}
    given = {name: value for name, value in stated.items() if value is not None}
    mean, deviation = watched.mean, watched.deviation
    if deviation is not None and deviation**2 >= YES_OR_NO * mean * (1 - mean):
        deviation = None
    needed = answers_to_find(FALL, mean=mean, sd=deviation, slope=slope, rate=watched.rate, **given)
    if not isfinite(needed):
        return None
    count = f"{_rounded(needed):,} answers"
    if watched.an_hour is None:
        return count
    time = f"{lasting(needed / watched.an_hour)} at the traffic of now" if watched.an_hour else "none come now"
    return f"{count} ({time})"


def _rounded(number: float) -> int:
    size = int(10 ** max(floor(log10(max(number, 1))) - 1, 0))
    return ceil(number / size) * size
