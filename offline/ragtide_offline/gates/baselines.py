"""The differences of scored interactions from a baseline that scored the same interactions. No I/O."""

from collections.abc import Iterable

from ragtide_aggregator.statistics.comparing import Difference
from ragtide_schemas import MetricEvent

from ..report.labelings import Scores, paired


def baseline_gaps(
    events: Iterable[MetricEvent], baseline: Iterable[MetricEvent], *, confidence: float
) -> dict[tuple[str, str, str], Difference]:
    """Return the mean of each metric minus that of the baseline, by pipeline, metric and labeler.

    Interactions are paired by id. A pipeline is compared with the pipeline of its name; if each side has only one
    pipeline, their names may differ. Intervals are valid at every look.

    Args:
        events: the scores.
        baseline: the scores to compare with.
        confidence: level of each interval.
    """
    mine, theirs = _by_pipeline(events), _by_pipeline(baseline)
    if len(mine) == len(theirs) == 1:
        theirs = dict(zip(mine, theirs.values(), strict=True))
    return {
        (pipeline, one.first.metric, one.first.labeler): one.found.difference
        for pipeline, scores in mine.items()
        if pipeline in theirs
        for one in paired(scores, theirs[pipeline], confidence=confidence)
        if one.segment is None
    }


def _by_pipeline(events: Iterable[MetricEvent]) -> dict[str, Scores]:
    found: dict[str, Scores] = {}
    for event in events:
        found.setdefault(event.pipeline, Scores()).add(event)
    return found
