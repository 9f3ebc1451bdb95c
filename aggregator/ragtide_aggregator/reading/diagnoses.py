"""Diagnoses of the numbers of each pipeline and segment value."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from ragtide_schemas import Estimate, Headline
from ragtide_schemas.diagnosis import DIAGNOSED_N, Diagnosis, diagnose

_PREFERRED: Final = ("prediction_powered", "mean", "weighted")


def diagnoses(numbers: Sequence[Estimate]) -> list[tuple[str, Diagnosis]]:
    """Return the diagnoses of the means of each scope and labeler, with the name of the scope.

    An estimate counts from 30 values on, and when its interval is narrower than the metric's whole range. Of several
    estimators of a metric the prediction-powered mean counts, then the plain mean.
    """
    scopes: dict[tuple[object, ...], dict[str, Estimate | Headline]] = {}
    for e in sorted(numbers, key=lambda estimate: _PREFERRED.index(estimate.estimator)):
        if e.estimate is not None and e.n >= DIAGNOSED_N and e.has_interval:
            scope = (e.pipeline, e.run, e.segment, e.labeler, e.labeler_version, e.profile)
            scopes.setdefault(scope, {}).setdefault(e.metric, e)
    return [(where, diagnosis) for where, diagnosis, _ in _with_scopes(scopes)]


def headline_diagnoses(headlines: Sequence[Headline]) -> list[tuple[str, Diagnosis]]:
    """Return the diagnoses of the headlines of each pipeline and segment value; values count as in `diagnoses`.

    A number by another labeler than it is to be by has no diagnosis, and numbers of several labelers are never put
    together. A diagnosis speaks only where an alert fires about one of its metrics, as about a target that is missed,
    or where one of them moved: the usual state of a pipeline is no fault.
    """
    scopes: dict[tuple[object, ...], dict[str, Estimate | Headline]] = {}
    changed: set[tuple[object, ...]] = set()
    for headline in headlines:
        lowest, highest = headline.value_range
        upper = highest if headline.upper is None else headline.upper
        narrower = (headline.lower or lowest) > lowest or upper < highest
        if headline.is_measured and headline.estimate is not None and headline.n >= DIAGNOSED_N and narrower:
            labeler = headline.labeler, headline.labeler_version, headline.profile
            scope = (headline.pipeline, None, headline.segment, *labeler)
            scopes.setdefault(scope, {})[headline.metric] = headline
            if headline.state in ("firing", "moved"):
                changed.add((headline.pipeline, headline.segment, headline.metric))
    return [
        (where, diagnosis)
        for where, diagnosis, scope in _with_scopes(scopes)
        if any((scope[0], scope[2], metric) in changed for metric in diagnosis.pattern.conditions)
    ]


def _with_scopes(
    scopes: Mapping[tuple[object, ...], Mapping[str, Estimate | Headline]],
) -> list[tuple[str, Diagnosis, tuple[object, ...]]]:
    several = Counter(scope[:3] for scope in scopes)
    diagnosed = []
    for scope, numbers in scopes.items():
        name = " · ".join(str(part) for part in scope[: 4 if several[scope[:3]] > 1 else 3] if part is not None)
        means = {metric: number.estimate for metric, number in numbers.items() if number.estimate is not None}
        ends = {metric: (number.lower, number.upper) for metric, number in numbers.items()}
        diagnosed += [(name, diagnosis, scope) for diagnosis in diagnose(means, ends)]
    return diagnosed
