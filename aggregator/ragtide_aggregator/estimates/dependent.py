"""Pipelines whose neighbouring interactions depend on each other although each counts by itself. No clock, no I/O."""

from typing import NamedTuple

import numpy as np

from ..alerts.dependence import CERTAIN_EFFECT
from ..state.state import AggregatorState


class DependentPipeline(NamedTuple):
    """The metric of a pipeline with the largest certain design effect."""

    pipeline: str
    run: str | None
    metric: str
    design_effect: float


def dependent_pipelines(state: AggregatorState) -> list[DependentPipeline]:
    """Return the pipelines without clusters whose dependence is certain, sorted by name."""
    clustered = state.clustered
    rows = [
        row
        for row, key in enumerate(state.keys)
        if (key.pipeline, key.run) not in clustered and state.measures_dependence(row)
    ]
    found = state.dependence(np.array(rows, dtype=np.intp))
    if found is None:
        return []
    largest: dict[tuple[str, str | None], DependentPipeline] = {}
    for row, effect, certain in zip(rows, found.design_effect.tolist(), found.certain.tolist(), strict=True):
        key = state.keys[row]
        known = largest.get((key.pipeline, key.run))
        if certain > CERTAIN_EFFECT and (known is None or effect > known.design_effect):
            one = DependentPipeline(key.pipeline, key.run, key.metric, effect)
            largest[key.pipeline, key.run] = one
    return sorted(largest.values(), key=lambda one: (one.pipeline, one.run or ""))
