"""The differences of scored interactions from a baseline that scored the same interactions. No I/O."""

from collections.abc import Iterable

from ragtide_aggregator.statistics.comparisons.paired import PairedDifference
from ragtide_schemas import MetricEvent

from ..report.labelings import Scores, paired
from .measurements import GapKey


def baseline_gaps(
    events: Iterable[MetricEvent], baseline: Iterable[MetricEvent], *, confidence: float
) -> dict[GapKey, PairedDifference]:
    """Return the mean of each metric minus that of the baseline, for each pipeline and run.

    Interactions are paired by id. A pipeline is compared with the pipeline of its name; if each side has only one
    pipeline, their names may differ. A run is compared with the run of its name, or with the baseline's only run.
    Only scores of the same labeler and version are compared, because two labelers differ without any change of the
    pipeline. Intervals are valid at every look.

    Args:
        events: the scores.
        baseline: the scores to compare with.
        confidence: level of each interval.
    """
    mine, theirs = _scores(events), _scores(baseline)
    if len(mine) == len(theirs) == 1:
        theirs = dict(zip(mine, theirs.values(), strict=True))
    found = {}
    for pipeline, runs in mine.items():
        before = theirs.get(pipeline, {})
        only = next(iter(before.values())) if len(before) == 1 else Scores()
        for run, scores in runs.items():
            for one in paired(scores, before.get(run, only), confidence=confidence):
                of = one.first
                if one.segment is None and one.second == of:
                    key = GapKey(pipeline, run, of.metric, of.labeler, of.labeler_version, of.profile)
                    found[key] = one.found
    return found


def _scores(events: Iterable[MetricEvent]) -> dict[str, dict[str | None, Scores]]:
    found: dict[str, dict[str | None, Scores]] = {}
    for event in events:
        found.setdefault(event.pipeline, {}).setdefault(event.run, Scores()).add(event)
    return found
