"""Pipelines whose clusters are closed too early, or not yet. No clock, no I/O."""

from typing import Final, NamedTuple

import numpy as np

from ..state.state import AggregatorState
from .view import View

LEAST_CLUSTERS: Final = 100
"""Fewest clusters of a pipeline from which the share is shown."""

MOST_CONTINUED: Final = 0.1
"""Largest share that is left alone. On simulated chats 27% halved the run length of alert rules, and 2% did not change
it (docs/measured/continued_clusters.md)."""


class ContinuedPipeline(NamedTuple):
    """A pipeline with many clusters that go on with a closed cluster, on which they depend."""

    pipeline: str
    run: str | None
    continued: int
    clusters: int
    """Number of open clusters, and of closed ones with a value of the most frequent metric."""

    @property
    def share(self) -> float:
        """Share of the clusters that go on with another."""
        return self.continued / self.clusters


def continued_pipelines(state: AggregatorState) -> list[ContinuedPipeline]:
    """Return the pipelines whose clusters go on with closed ones too often, sorted by name."""
    wanted = {scope: counts for scope, counts in state.continued.items() if counts[0]}
    rows = [row for row, key in enumerate(state.keys) if (key.pipeline, key.run) in wanted]
    sums = state.cluster_sums(np.array(rows, dtype=np.intp))
    if sums is None:
        return []
    clusters: dict[tuple[str, str | None], int] = {}
    for row, count in zip(rows, sums.count.tolist(), strict=True):
        key = state.keys[row]
        scope = (key.pipeline, key.run)
        clusters[scope] = max(clusters.get(scope, 0), count)
    found = [ContinuedPipeline(*scope, wanted[scope][0], count + wanted[scope][1]) for scope, count in clusters.items()]
    found = [one for one in found if one.clusters >= LEAST_CLUSTERS and one.share > MOST_CONTINUED]
    return sorted(found, key=lambda one: (one.pipeline, one.run or ""))


class WaitingPipeline(NamedTuple):
    """A live pipeline with interactions in open clusters, which no interval and no alert rule counts yet."""

    pipeline: str
    waiting: int
    interactions: int
    """Number of values of the most frequent metric, those that wait included."""


def waiting_pipelines(state: AggregatorState) -> list[WaitingPipeline]:
    """Return the live pipelines with open clusters, sorted by name."""
    found = []
    for (pipeline, run), waiting in state.waiting.items():
        rows = [
            row for row, key in enumerate(state.keys) if (key.pipeline, key.run, key.segment) == (pipeline, None, None)
        ]
        if run is None and waiting and rows:
            found.append(WaitingPipeline(pipeline, waiting, int(View(state).moments(rows).n.max())))
    return sorted(found)
