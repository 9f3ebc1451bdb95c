"""Lists the metrics that workers with given settings may publish, without building their labelers."""

from collections.abc import Mapping
from typing import Final

from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS
from ragtide_schemas.metric_definitions import FROM_PEOPLE, MATCH, OUTCOMES, SELF_CONSISTENCY, SIMILARITY

from .nli import NliLabeler

WITHHELD: Final = frozenset({"trace.completeness", "trace.average", "trace.rmse_aggregation"})
"""Completeness is not accurate enough, and the other two are computed from it."""


def published_metrics(settings: Settings) -> frozenset[str] | None:
    """Return the metrics that the labelers of the settings may publish; None if a labeler is the user's own."""
    found: frozenset[str] = frozenset()
    for labeler in settings.labelers:
        metrics = _metrics_of(labeler, settings)
        if metrics is None:
            return None
        found |= metrics
    return found


def labelers_of(metric: str) -> list[str]:
    """Return the labelers of ragtide that may give one of its own metrics, in words; empty for another metric.

    >>> labelers_of("trace.adherence"), labelers_of("retrieval.empty")
    (['local', 'nli', 'judge', 'labels stored in a file'], ['every labeler'])
    """
    if metric in _OTHERS:
        return [_OTHERS[metric]]
    if metric not in METRICS:
        return []
    found = [name for name, metrics in (("local", _LOCAL), ("nli", NliLabeler.metrics)) if metric in metrics]
    judge = "judge with family ragchecker" if metric.startswith("ragchecker.") else "judge"
    return [*found, judge, "labels stored in a file"]


def _metrics_of(labeler: str, settings: Settings) -> frozenset[str] | None:
    if labeler == "local":
        return _LOCAL
    if labeler == "nli":
        return frozenset(NliLabeler.metrics)
    if labeler != "judge":
        return None
    judged = _of(*(f"{family}." for family in settings.judge.families))
    if "trace" in settings.judge.families:
        judged |= _of("sentences.")
    if settings.judge.repeat_share:
        judged |= {SELF_CONSISTENCY.name}
    falls_back = settings.labeler == "judge" and settings.judge.over_budget == "local"
    return judged | _LOCAL if falls_back else judged


def _of(*families: str) -> frozenset[str]:
    return frozenset(name for name in METRICS if name.startswith(families))


_OTHERS: Final[Mapping[str, str]] = {
    **dict.fromkeys([metric.name for metric in OUTCOMES], "every labeler"),
    **dict.fromkeys([metric.name for metric in FROM_PEOPLE], "people, by feedback"),
    **dict.fromkeys([metric.name for metric in SIMILARITY], "model with models.similarity"),
    SELF_CONSISTENCY.name: "judge with judge.repeat_share",
    MATCH.name: "local",
}
"""Metrics that one source gives, and that source in words."""

_LOCAL: Final = (_of("trace.") - WITHHELD) | {MATCH.name}
