"""Lists the metrics that workers with given settings may publish, without building their labelers."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Final

from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS, MetricDefinition
from ragtide_schemas.criterion import BUILT_IN, Criterion, built_in_criteria
from ragtide_schemas.known_labelers import KNOWN
from ragtide_schemas.metric_definitions import (
    AGENT,
    CRITERIA_FAMILY,
    FROM_PEOPLE,
    OUTCOMES,
    SELF_CONSISTENCY,
    SENTINELS,
)

WITHHELD: Final = frozenset({"trace.completeness", "trace.average", "trace.rmse_aggregation"})
"""Completeness is not accurate enough, and the other two are computed from it."""


def published_metrics(settings: Settings) -> frozenset[str] | None:
    """Return the metrics that the labelers of the settings may publish; None if a labeler is the user's own."""
    if settings.evaluators:
        parts = [published_metrics(settings.of_evaluator(evaluator)) for evaluator in settings.evaluators]
    else:
        parts = [_labeler_metrics(labeler, settings) for labeler in settings.labelers]
    metrics: frozenset[str] = frozenset()
    for part in parts:
        if part is None:
            return None
        metrics |= part
    return metrics


def criteria_metrics(settings: Settings) -> Mapping[str, MetricDefinition]:
    """Return the definitions of the metrics of criteria by name: the built-in ones, and those of the settings."""
    return {criterion.metric: criterion.definition() for criterion in (*built_in_criteria(), *all_criteria(settings))}


def all_criteria(settings: Settings) -> tuple[Criterion, ...]:
    """Return the criteria of `[judge]`, then those that evaluators have of their own; the first of a name counts."""
    own = [settings.of_evaluator(evaluator).judge.criteria for evaluator in settings.evaluators]
    by_metric: dict[str, Criterion] = {}
    for criterion in (*settings.judge.criteria, *chain.from_iterable(own)):
        by_metric.setdefault(criterion.metric, criterion)
    return tuple(by_metric.values())


def labelers_of(metric: str) -> list[str]:
    """Return the labelers of ragtide that may give one of its own metrics, in words; empty for another metric.

    >>> labelers_of("trace.completeness"), labelers_of("retrieval.empty")
    (['judge', 'labels stored in a file'], ['every labeler'])
    >>> labelers_of("answer.relevance")
    ['judge with this criterion, of the settings or stored']
    """
    if metric in _OTHERS:
        return [_OTHERS[metric]]
    if metric in BUILT_IN or metric.startswith(f"{CRITERIA_FAMILY}."):
        return ["judge with this criterion, of the settings or stored"]
    if metric not in METRICS:
        return []
    labelers = [name for name, metrics in (("local", _LOCAL), *_metrics_of_services().items()) if metric in metrics]
    judge = "judge with family ragchecker" if metric.startswith("ragchecker.") else "judge"
    return [*labelers, judge, "labels stored in a file"]


def _labeler_metrics(labeler: str, settings: Settings) -> frozenset[str] | None:
    if labeler == "local":
        return _LOCAL
    if labeler != "judge":
        return _metrics_of_services().get(labeler)
    judged = _metrics_of_families(*(f"{family}." for family in settings.judge.families))
    if "trace" in settings.judge.families:
        judged |= _metrics_of_families("sentences.")
    judged |= {criterion.metric for criterion in settings.judge.criteria}
    if settings.judge.repeat_share:
        judged |= {SELF_CONSISTENCY.name}
    if settings.judge.sentinels is not None:
        judged |= {metric.name for metric in SENTINELS}
    falls_back = settings.labeler == "judge" and settings.judge.over_budget == "local"
    return judged | _LOCAL if falls_back else judged


@cache
def _metrics_of_services() -> Mapping[str, frozenset[str]]:
    by_labeler = {}
    for name, known in KNOWN.items():
        if known.built_by is not None:
            module, _, own = known.built_by.partition(":")
            by_labeler[name] = frozenset(getattr(import_module(module), own).metrics)
    return by_labeler


def _metrics_of_families(*families: str) -> frozenset[str]:
    return frozenset(name for name in METRICS if name.startswith(families))


_OTHERS: Final[Mapping[str, str]] = {
    **dict.fromkeys([metric.name for metric in OUTCOMES], "every labeler"),
    **{
        metric.name: f"every labeler{' that labels sentences' if metric.from_labels else ''}, of runs with calls"
        for metric in AGENT
    },
    **dict.fromkeys([metric.name for metric in FROM_PEOPLE], "people, by feedback"),
    SELF_CONSISTENCY.name: "judge with judge.repeat_share",
    **dict.fromkeys([metric.name for metric in SENTINELS], "judge with judge.sentinels"),
    **{metric.name: metric.given_by for metric in METRICS.values() if metric.given_by is not None},
}
"""Metrics that one source gives, and that source in words."""

_LOCAL: Final = (_metrics_of_families("trace.") - WITHHELD) | {
    name for name, source in _OTHERS.items() if source == "local"
}
