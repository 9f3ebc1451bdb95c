"""The scores of a pipeline in each value of a segment, as seen over all time or over a stretch of event time."""

from collections.abc import Iterable, Sequence

import numpy as np

from ..events.keys import EstimateKey
from ..state.state import AggregatorState
from ..statistics.causes.mix_shift import DesignEffects
from ..statistics.means.segment_moments import SegmentMoments
from .view import View


def segment_names(state: AggregatorState, whole: EstimateKey) -> dict[str, list[str]]:
    """Return the values of every segment of a pipeline's key, as `lang=de`, by the name of the segment.

    Args:
        whole: key of the whole pipeline, without a segment.
    """
    names: dict[str, list[str]] = {}
    for key in state.keys:
        if key.segment is not None and key._replace(segment=None) == whole:
            names.setdefault(key.segment.partition("=")[0], []).append(key.segment)
    return {name: sorted(values) for name, values in sorted(names.items())}


def moments_by_value(view: View, whole: EstimateKey, values: Sequence[str]) -> SegmentMoments | None:
    """Return the moments of the scores in each segment value, scaled to [0, 1]; None if there is no score at all.

    The last element has the interactions that have none of the values.

    Args:
        view: the time that counts.
        whole: key of the whole pipeline.
        values: as `lang=de`, all of one segment; a value that the state does not know has no scores.
    """
    all_of_it = _read(view, [whole])
    if all_of_it.n[0] < 1:
        return None
    return _read(view, [whole._replace(segment=value) for value in values]).with_rest(all_of_it)


def measured_effects(view: View, whole: EstimateKey, *, blocks: bool = False) -> DesignEffects:
    """Return the design effects that the clusters of a pipeline show in a view; 1 without clusters.

    Interactions of a cluster are taken to share their segment value, so their effect is the size of a cluster. Those of
    a block do not share it: the effect of segments is then that of scores.

    Args:
        view: the time that counts.
        whole: key of the whole pipeline.
        blocks: whether clusters are stretches of neighbours.
    """
    row = view.state.index(whole)
    if row is None:
        return DesignEffects()
    return DesignEffects.of_clusters(view.kept_moments([row]), blocks=blocks)


def _read(view: View, keys: Iterable[EstimateKey]) -> SegmentMoments:
    rows = [view.state.index(key) for key in keys]
    places = np.array([place for place, row in enumerate(rows) if row is not None], dtype=np.intp)
    result = np.zeros((3, len(rows)))
    if places.size:
        moments = view.kept_moments([row for row in rows if row is not None])
        result[:, places] = moments.n, moments.mean, moments.m2
    return SegmentMoments(*result)
