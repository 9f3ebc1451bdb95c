"""What the scores of configs say of all items of the data set, and how far configs are apart. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtide_aggregator.statistics.comparing import Difference
from ragtide_aggregator.statistics.strategies import RunningIntervals
from ragtide_schemas import Kind, MetricDefinition
from ragtide_schemas.experiments import IntervalOptions, Progress

from .results import Book


@dataclass(frozen=True, slots=True)
class Projected:
    """A metric of one config over all items of the data set, projected from those it was scored on so far."""

    n: int
    """Items it has a score on; failed calls and undefined metrics are none."""
    estimate: float | None
    """Mean, or total for a distributive metric, projected onto all items; None without a score."""
    lower: float
    upper: float
    kind: Kind
    value_range: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest possible estimate."""


def projected(
    scores: Sequence[Sequence[float]],
    definition: MetricDefinition | None,
    *,
    missing: Sequence[int],
    population: int,
    options: IntervalOptions,
) -> list[Projected]:
    """Return what the scores of each of several configs, in the order of the permutation, say of all items.

    Args:
        scores: those there are, config by config.
        definition: of their metric; None for one between 0 and 1.
        missing: for each, items that were run and have no score: they are not among those the mean is over.
        population: number of all items.
        options: how the intervals are made.
    """
    kind = Kind.ALGEBRAIC if definition is None else definition.kind
    lowest, highest = (0.0, 1.0) if definition is None else (definition.lower, definition.upper)
    sizes = [max(population - one, 1) for one in missing]
    table = _table(
        # A sum is no proportion.
        "normal" if options.strategy == "wilson" and kind is Kind.DISTRIBUTIVE else options.strategy,
        scores,
        confidence=options.confidence,
        value_range=(lowest, highest),
        population=sizes if options.use_fpc else None,
    )
    result = []
    for values, size, ends in zip(scores, sizes, table, strict=True):
        factor = size if kind is Kind.DISTRIBUTIVE else 1
        estimate, lower, upper = (factor * end for end in ends)
        possible = factor * lowest, factor * highest
        if not values:
            result.append(Projected(0, None, *possible, kind, possible))
        elif len(values) == size:  # all were seen: nothing is left to be uncertain about
            result.append(Projected(size, estimate, estimate, estimate, kind, possible))
        else:
            result.append(Projected(len(values), estimate, lower, upper, kind, possible))
    return result


def paired(
    progress: Progress,
    book: Book,
    first: str,
    others: Sequence[str],
    *,
    metric: str | None = None,
    confidence: float | None = None,
) -> list[tuple[int, Difference] | None]:
    """Return the mean of one config minus that of each of others, on the items that both have, and how many these are.

    The intervals are betting sequences on paired differences without replacement, each valid at every look.
    None for one that has no item in common with the first.
    """
    plan = progress.plan
    metric = metric or plan.metric
    own = dict(book.counted(progress, progress.configs[first]))
    gaps: list[list[float]] = []
    sizes: list[int] = []
    for name in others:
        theirs = dict(book.counted(progress, progress.configs[name]))
        pairs = [(own[item].score(metric), theirs[item].score(metric)) for item in sorted(own.keys() & theirs.keys())]
        gaps.append([a - b for a, b in pairs if not (np.isnan(a) or np.isnan(b))])
        sizes.append(max(plan.population_size - (len(pairs) - len(gaps[-1])), 1))
    lowest, highest = book.value_range(plan, metric)
    width = highest - lowest
    table = _table(
        "betting",
        gaps,
        confidence=plan.intervals.confidence if confidence is None else confidence,
        value_range=(-width, width),
        population=sizes,
    )
    result: list[tuple[int, Difference] | None] = []
    for values, size, (estimate, lower, upper) in zip(gaps, sizes, table, strict=True):
        closed = len(values) == size
        ends = Difference(estimate, estimate, estimate) if closed else Difference(estimate, lower, upper)
        result.append((len(values), ends) if values else None)
    return result


def _table(
    strategy: str,
    values: Sequence[Sequence[float]],
    *,
    confidence: float,
    value_range: tuple[float, float],
    population: Sequence[int] | None,
) -> list[list[float]]:
    """Return estimate, lower and upper end for each list of values, all at once."""
    if not values:
        return []
    table = RunningIntervals(
        strategy,
        keys=len(values),
        confidence=confidence,
        value_range=value_range,
        population=None if population is None else np.asarray(population),
    )
    keys = np.repeat(np.arange(len(values)), [len(one) for one in values])
    everything = np.array([value for one in values for value in one], dtype=np.float64)
    table.update(keys, np.clip(everything, *value_range))
    found = table.intervals()
    return np.stack([found.estimate, found.lower, found.upper], axis=1).tolist()  # type: ignore[no-any-return]
