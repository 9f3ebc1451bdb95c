"""Estimates by pairs of a reference and a proxy score: weighted, and prediction-powered. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import isnan
from typing import NamedTuple

import numpy as np

from ragtide_schemas import Estimate
from ragtide_schemas.known_labelers import certain_band

from ..state.state import AggregatorState
from ..statistics.intervals.pair_estimates import Powered
from ..statistics.pairs.prediction_powered import Everything
from ..statistics.tables.batches import Floats
from .choices import PREDICTION_POWERED
from .record import record
from .view import IntervalMethod, MeasuredView, ScaledMean, View, read_view


class _Pairs(NamedTuple):
    """Pairs of one reference and one proxy score."""

    proxy: int
    """Row of the proxy score."""
    place: int
    """Row of the pairs."""
    powered: bool
    """Whether the proxy score is used for the estimate."""


def estimates_by_pairs(
    state: AggregatorState, rows: Sequence[int], method: IntervalMethod
) -> Mapping[int, Sequence[Estimate]]:
    """Return the estimates by pairs of the rows that are proxies, by row; all rows are read together.

    Args:
        state: of a partition, or of several merged.
        rows: of any metrics.
        method: whose confidence the intervals have.
    """
    proxies = [row for row in rows if state.pairs.of(row)]
    by_row: defaultdict[int, list[Estimate]] = defaultdict(list)
    if proxies:
        measured = read_view(View(state), proxies, IntervalMethod("asymptotic", method.confidence))
        # Proxy scores that were kept with different probabilities are not a plain sample: their part of the variance is
        # unknown, so the prediction-powered mean is withheld.
        wanted = [
            _Pairs(row, place, powered)
            for row in proxies
            for place in state.pairs.of(row)
            for powered in ((False,) if measured.numbers.of(row).mixed else (False, True))
        ]
        read = _read(measured, wanted)
        for pairs in wanted:
            by_row[pairs.proxy].append(_estimate(measured, pairs, *read[pairs]))
    return by_row


def _read(measured: MeasuredView, wanted: Sequence[_Pairs]) -> dict[_Pairs, tuple[Powered, int]]:
    """Return for each pairs the numbers of those that are read with them, and their place there."""
    numbers, of_pairs = measured.numbers, measured.view.state.pairs
    alike: defaultdict[tuple[bool, int | None], list[_Pairs]] = defaultdict(list)
    for pairs in wanted:
        # The last bits of products over clusters depend on the number of rows, so these rows are read one by one.
        alike[pairs.powered, pairs.place if of_pairs.is_clustered(pairs.place) else None].append(pairs)
    read: dict[_Pairs, tuple[Powered, int]] = {}
    for (powered, _), members in alike.items():
        moments = numbers.moments.at(np.array([numbers.places[pairs.proxy] for pairs in members]))
        n_absent = np.array([numbers.of(pairs.proxy).n_absent for pairs in members], dtype=np.float64)
        places = np.array([pairs.place for pairs in members])
        everything, confidence = Everything(moments, n_absent), measured.method.confidence
        together = of_pairs.read(places, everything, confidence=confidence, powered=powered)
        read |= {pairs: (together, number) for number, pairs in enumerate(members)}
    return read


def _estimate(measured: MeasuredView, pairs: _Pairs, read: Powered, at: int) -> Estimate:
    state, row = measured.view.state, pairs.proxy
    key = state.pairs.keys[pairs.place].reference
    definition = state.definition(key)
    lowest, highest = key.value_range
    known = ScaledMean(_known(read.estimate, at), float(read.lower[at]), float(read.upper[at]))
    mean = known.in_unit(lowest, highest)
    n_clusters = _known(read.n_clusters, at)
    return record(
        measured,
        row,
        key.metric,
        mean,
        lowest=lowest,
        highest=highest,
        direction=None if definition is None else definition.direction,
        kind=None if definition is None else definition.kind,
        n=int(read.n[at]),
        n_traffic=None,
        n_absent=int(read.n_absent[at]),
        coverage=_known(read.coverage, at),
        proxy_coverage=None if measured.numbers.of(row).mixed else _known(read.proxy_coverage, at),
        population_size=None,
        profile=key.profile,
        labeler=key.labeler,
        labeler_version=key.labeler_version,
        estimator=PREDICTION_POWERED if pairs.powered else "weighted",
        proxy=state.keys[row].labeler,
        band=certain_band(definition, key.labeler, (mean.lower, mean.estimate, mean.upper)),
        n_effective=float(read.n_effective[at]),
        design_effect=_known(read.design_effect, at),
        n_clusters=None if n_clusters is None else int(n_clusters),
    )


def _known(numbers: Floats, at: int) -> float | None:
    return None if isnan(numbers[at]) else float(numbers[at])
