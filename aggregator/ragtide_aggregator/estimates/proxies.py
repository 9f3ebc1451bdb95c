"""Estimates from a proxy labeler on all interactions and a reference labeler on a sample. No clock, no I/O."""

from math import isnan

from ragtide_schemas import Estimate

from ..state.state import AggregatorState
from .record import record
from .trends import measured
from .view import IntervalMethod, ScaledMean, View


def of_proxy(state: AggregatorState, row: int, method: IntervalMethod) -> list[Estimate]:
    """Return the weighted and the prediction-powered mean for each reference labeler of a row's interactions."""
    places = state.pairs.of(row)
    if not places:
        return []
    found = measured(View(state), [row], IntervalMethod("asymptotic", method.confidence))
    result = []
    for place in places:
        key = state.pairs.keys[place].reference
        lowest, highest = key.value_range
        definition = state.definition(key)
        # Proxy scores that were kept with different probabilities are not a plain sample: their part of the variance is
        # unknown, so the prediction-powered mean is withheld.
        powered = () if found.numbers.of(row).mixed else (("prediction_powered", found.numbers.moments),)
        for name, everything in (("weighted", None), *powered):
            pairs = state.pairs.read(place, everything, confidence=method.confidence)
            effect, clusters = float(pairs.design_effect[0]), float(pairs.n_clusters[0])
            ends = [lowest + (highest - lowest) * float(end[0]) for end in (pairs.estimate, pairs.lower, pairs.upper)]
            result.append(
                record(
                    found,
                    row,
                    key.metric,
                    ScaledMean(ends[0], ends[1], ends[2]),
                    lowest=lowest,
                    highest=highest,
                    direction=None if definition is None else definition.direction,
                    kind=None if definition is None else definition.kind,
                    n=int(pairs.n[0]),
                    n_traffic=None,
                    n_absent=0,
                    coverage=None,
                    population_size=None,
                    profile=key.profile,
                    labeler=key.labeler,
                    labeler_version=key.labeler_version,
                    estimator=name,
                    proxy=state.keys[row].labeler,
                    n_effective=float(pairs.n_effective[0]),
                    design_effect=None if isnan(effect) else effect,
                    n_clusters=None if isnan(clusters) else int(clusters),
                )
            )
    return result
