"""Lists the metrics that workers with given settings may publish, without building their labelers."""

from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS

from .local.withheld import WITHHELD
from .nli import NliLabeler


def published_metrics(settings: Settings) -> frozenset[str] | None:
    """Return the metrics that the labelers of the settings may publish; None if a labeler is the user's own."""
    found: frozenset[str] = frozenset()
    for labeler in settings.labelers:
        metrics = _metrics_of(labeler, settings)
        if metrics is None:
            return None
        found |= metrics
    return found


def _metrics_of(labeler: str, settings: Settings) -> frozenset[str] | None:
    local = _of("trace.") - WITHHELD
    if labeler == "local":
        return local
    if labeler == "nli":
        return frozenset(NliLabeler.metrics)
    if labeler != "judge":
        return None
    judged = _of(*(f"{family}." for family in settings.judge.families))
    if "trace" in settings.judge.families:
        judged |= _of("sentences.")
    falls_back = settings.labeler == "judge" and settings.judge.over_budget == "local"
    return judged | local if falls_back else judged


def _of(*families: str) -> frozenset[str]:
    return frozenset(name for name in METRICS if name.startswith(families))
