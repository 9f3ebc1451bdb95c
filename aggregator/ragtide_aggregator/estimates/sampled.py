"""Pipelines whose interactions were kept from the traffic with different probabilities. No clock, no I/O."""

from typing import NamedTuple

import numpy as np

from ..events.keys import HIDDEN
from ..state.state import AggregatorState


class MixedPipeline(NamedTuple):
    """A pipeline whose estimates are weighted, with the range of its sampling probabilities."""

    pipeline: str
    run: str | None
    lowest: float
    highest: float


def mixed_pipelines(state: AggregatorState) -> list[MixedPipeline]:
    """Return the pipelines with a metric whose values were kept with different probabilities, sorted by name."""
    rows = np.array(
        [row for row, key in enumerate(state.keys) if key.segment is None and not key.metric.startswith(HIDDEN)],
        dtype=np.intp,
    )
    sampled = state.sampled(rows)
    if sampled is None:
        return []
    n = state.moments.counts(rows)
    found: dict[tuple[str, str | None], MixedPipeline] = {}
    for place in np.flatnonzero(sampled.mixed(n)).tolist():
        key = state.keys[int(rows[place])]
        highest = 1.0 if sampled.n[place] < n[place] else float(1 / sampled.least[place])
        one = MixedPipeline(key.pipeline, key.run, float(1 / sampled.most[place]), highest)
        known = found.setdefault((key.pipeline, key.run), one)
        found[key.pipeline, key.run] = known._replace(
            lowest=min(known.lowest, one.lowest), highest=max(known.highest, one.highest)
        )
    return sorted(found.values(), key=lambda one: (one.pipeline, one.run or ""))
