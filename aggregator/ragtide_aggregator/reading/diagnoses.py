"""Diagnoses of the numbers of each pipeline and segment value."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from ragtide_schemas import Estimate, Headline
from ragtide_schemas.diagnosis import DIAGNOSED_N, Diagnosis, Score, diagnose

_PREFERRED: Final = ("prediction_powered", "mean", "weighted")


def diagnoses(found: Sequence[Estimate]) -> list[tuple[str, Diagnosis]]:
    """Return the diagnoses of the means of each scope and labeler, with the name of the scope.

    An estimate counts from 30 values on, and when its interval is narrower than the metric's whole range. Of several
    estimators of a metric the prediction-powered mean counts, then the plain mean.
    """
    scopes: dict[tuple[object, ...], dict[str, Score]] = {}
    for e in sorted(found, key=lambda estimate: _PREFERRED.index(estimate.estimator)):
        if e.estimate is not None and e.n >= DIAGNOSED_N and e.has_interval:
            scope = (e.pipeline, e.run, e.segment, e.labeler, e.labeler_version, e.profile)
            scopes.setdefault(scope, {}).setdefault(e.metric, Score(e.estimate, e.lower, e.upper, e.n))
    return [(where, diagnosis) for where, diagnosis, _ in _with_scopes(scopes)]


def headline_diagnoses(found: Sequence[Headline]) -> list[tuple[str, Diagnosis]]:
    """Return the diagnoses of the headlines of each pipeline and segment value; values count as in `diagnoses`.

    A number by another labeler than it is to be by has no diagnosis, and numbers of several labelers are never put
    together. A diagnosis speaks only where an alert fires about one of its metrics, as about a target that is missed,
    or where one of them moved: the usual state of a pipeline is no fault.
    """
    scopes: dict[tuple[object, ...], dict[str, Score]] = {}
    changed: set[tuple[object, ...]] = set()
    for each in found:
        lowest, highest = each.value_range
        narrower = (each.lower or lowest) > lowest or (highest if each.upper is None else each.upper) < highest
        if each.is_measured and each.estimate is not None and each.n >= DIAGNOSED_N and narrower:
            scope = (each.pipeline, None, each.segment, each.labeler, each.labeler_version, each.profile)
            scopes.setdefault(scope, {})[each.metric] = Score(each.estimate, each.lower, each.upper, each.n)
            if each.state in ("firing", "moved"):
                changed.add((each.pipeline, each.segment, each.metric))
    return [
        (where, diagnosis)
        for where, diagnosis, scope in _with_scopes(scopes)
        if any((scope[0], scope[2], metric) in changed for metric in diagnosis.pattern.conditions)
    ]


def _with_scopes(
    scopes: Mapping[tuple[object, ...], Mapping[str, Score]],
) -> list[tuple[str, Diagnosis, tuple[object, ...]]]:
    several = Counter(scope[:3] for scope in scopes)
    return [
        (
            " · ".join(str(part) for part in scope[: 4 if several[scope[:3]] > 1 else 3] if part is not None),
            diagnosis,
            scope,
        )
        for scope, scores in scopes.items()
        for diagnosis in diagnose(scores)
    ]
