"""The measurements in comparisons of pipelines and in experiments. No I/O."""

from collections.abc import Iterable

from ragtide_aggregator.statistics.comparisons.comparing import Difference
from ragtide_schemas.suggestions import unknown

from ..experiments.board import board
from ..experiments.projections import paired_differences
from ..experiments.state import ExperimentState
from ..report.pipelines import Compared
from .measurements import Measurement, Quantity, quantity_of, scope_of


def of_comparison(found: Iterable[Compared], names: tuple[str, str]) -> list[Measurement]:
    """Return the measurements in the differences of two whole pipelines."""
    return [
        Measurement(
            metric=one.metric,
            scope=scope_of(f"{names[0]} - {names[1]}", one.labeler, one.other_labeler, one.profile),
            n=min(one.n),
            difference=quantity_of(one.difference),
        )
        for one in found
        if one.segment is None
    ]


def of_experiment(state: ExperimentState, config: str | None = None, baseline: str | None = None) -> list[Measurement]:
    """Return the measurements of one config of an experiment.

    The leader is chosen by the data, so its intervals hold together with those of all other configs (Bonferroni).

    Args:
        state: of the experiment.
        config: name; the leader unless given.
        baseline: config whose mean is subtracted, for the metric of the race.

    Raises:
        ValueError: there is no such config.
    """
    names = [one.config.name for one in state.shown]
    for name in (config, baseline):
        if name is not None and name not in names:
            raise ValueError(unknown("config", name, names))
    level = state.plan.intervals.confidence
    if config is None:
        level = 1 - (1 - level) / max(len(state.shown), 1)
    found = board(state, confidence=level)
    leader = found.leader
    row = leader if config is None else next(one for one in found.rows if one.name == config)
    if row is None:
        return []
    gap: Difference | None = None
    if baseline is not None and baseline != row.name:
        (pair,) = paired_differences(state, row.name, [baseline], confidence=level)
        gap = None if pair is None else pair[1]
    return [
        Measurement(
            metric=metric,
            scope=scope_of(row.name, None if baseline is None else f"baseline {baseline}"),
            n=one.n,
            n_absent=row.n_items - one.n,
            estimate=Quantity(one.estimate, one.lower, one.upper),
            difference=quantity_of(gap) if metric == found.metric else None,
            confidence=level,
        )
        for metric, one in row.estimates.items()
    ]
