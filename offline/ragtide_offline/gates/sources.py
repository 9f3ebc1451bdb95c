"""The measurements in comparisons of pipelines and in experiments, and the differences from a baseline. No I/O."""

from collections.abc import Iterable

from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_schemas import MetricEvent
from ragtide_schemas.suggestions import unknown

from ..experiments.board import board
from ..experiments.projections import paired_differences
from ..experiments.state import ExperimentState
from ..report.labelings import Compared, Scores, labeling_differences
from .measurements import Measurement, scope_of


def baseline_gaps(
    events: Iterable[MetricEvent], baseline: Iterable[MetricEvent], *, confidence: float
) -> dict[EstimateKey, Compared]:
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
    gaps = {}
    for pipeline, runs in mine.items():
        before = theirs.get(pipeline, {})
        only = next(iter(before.values())) if len(before) == 1 else Scores()
        for run, scores in runs.items():
            for difference in labeling_differences(scores, before.get(run, only), confidence=confidence):
                if difference.key.segment is None and difference.other is None:
                    gaps[difference.key._replace(pipeline=pipeline, run=run)] = difference
    return gaps


def _scores(events: Iterable[MetricEvent]) -> dict[str, dict[str | None, Scores]]:
    scores: dict[str, dict[str | None, Scores]] = {}
    for event in events:
        scores.setdefault(event.pipeline, {}).setdefault(event.run, Scores()).add(event)
    return scores


def measure_comparison(compared: Iterable[Compared], names: tuple[str, str]) -> list[Measurement]:
    """Return the measurements in the differences of two whole pipelines."""
    return [
        Measurement(
            metric=comparison.key.metric,
            scope=scope_of(
                f"{names[0]} - {names[1]}", comparison.key.labeler, comparison.other_labeler, comparison.key.profile
            ),
            n=min(comparison.n),
            difference=comparison.difference,
        )
        for comparison in compared
        if comparison.key.segment is None
    ]


def measure_experiment(
    state: ExperimentState, config: str | None = None, baseline: str | None = None
) -> list[Measurement]:
    """Return the measurements of one config of an experiment.

    The leader is chosen by the data, so its intervals hold together with those of all other configs (Bonferroni).

    Args:
        config: name; the leader unless given.
        baseline: config whose mean is subtracted, for the metric of the race.

    Raises:
        ValueError: there is no such config.
    """
    names = [status.config.name for status in state.shown]
    for name in (config, baseline):
        if name is not None and name not in names:
            raise ValueError(unknown("config", name, names))
    level = state.plan.intervals.confidence
    if config is None:
        level = 1 - (1 - level) / max(len(state.shown), 1)
    leaderboard = board(state, confidence=level)
    row = leaderboard.leader if config is None else next(row for row in leaderboard.rows if row.name == config)
    if row is None:
        return []
    gap: Interval[float, float] | None = None
    if baseline is not None and baseline != row.name:
        (pair,) = paired_differences(state, row.name, [baseline], confidence=level)
        gap = None if pair is None else pair[1]
    return [
        Measurement(
            metric=metric,
            scope=scope_of(row.name, None if baseline is None else f"baseline {baseline}"),
            n=estimate.n,
            n_absent=row.n_items - estimate.n,
            estimate=estimate,
            difference=gap if metric == leaderboard.metric else None,
            confidence=level,
        )
        for metric, estimate in row.estimates.items()
    ]
