"""Intervals of closed panes hold at their n, for scores of many shapes and for clusters; simulated."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtide_aggregator.statistics.means.closed_interval import closed_interval
from ragtide_aggregator.statistics.means.clusters import ClusterTable
from ragtide_aggregator.statistics.means.moments import Moments, MomentTable

Values = NDArray[np.float64]
PANES = 4_000


def mixture(random: np.random.Generator, shape: tuple[int, int]) -> Values:
    return np.where(random.random(shape) < 0.08, 0.1 * random.random(shape), random.beta(40, 2, shape))


SHAPES: dict[str, tuple[float, Callable[[np.random.Generator, tuple[int, int]], Values]]] = {
    "two values": (0.9, lambda random, shape: (random.random(shape) < 0.9).astype(float)),
    "rare": (0.98, lambda random, shape: (random.random(shape) < 0.98).astype(float)),
    "narrow": (0.95, lambda random, shape: random.beta(95, 5, shape)),
    "wide": (0.5, lambda random, shape: random.random(shape)),
    "rarely far off": (0.92 * 40 / 42 + 0.08 * 0.05, mixture),
}


def moments_of(values: Values) -> Moments:
    table = MomentTable()
    rows = [table.add_row() for _ in values]
    table.update(np.repeat(rows, values.shape[1]), values.ravel())
    return table.read(rows)


@pytest.mark.simulation
@pytest.mark.parametrize("n", [30, 60, 300])
@pytest.mark.parametrize("name", list(SHAPES))
def test_the_interval_of_a_pane_holds_at_its_n(name: str, n: int) -> None:
    truth, draw = SHAPES[name]
    values = draw(np.random.default_rng(39), (PANES, n))
    lower, upper = closed_interval(moments_of(values), confidence=0.95)
    covered = float(np.mean((lower <= truth) & (truth <= upper)))
    # Wilson's interval of two values has a coverage that goes up and down with n, around its level.
    assert covered >= 0.93


@pytest.mark.simulation
@pytest.mark.parametrize("clusters", [10, 40])
def test_the_interval_of_clusters_holds_at_their_number(clusters: int) -> None:
    random = np.random.default_rng(40)
    size, panes, truth = 4, 2_000, 0.8
    own = random.beta(8, 2, (panes, clusters))
    values = (random.random((panes, clusters, size)) < own[:, :, None]).astype(float)
    table = ClusterTable()
    rows = np.array([table.add_row() for _ in range(panes)])
    table.update(np.repeat(rows, clusters), np.full(panes * clusters, size), values.sum(axis=2).ravel())
    plain = moments_of(values.reshape(panes, -1))
    whole = Moments(
        plain.n, plain.mean, plain.m2, plain.v, plain.recent, plain.minimum, plain.maximum, table.read(rows)
    )
    lower, upper = closed_interval(whole, confidence=0.95)
    covered = float(np.mean((lower <= truth) & (truth <= upper)))
    assert covered >= 0.93


def test_for_zeros_and_ones_it_is_wilsons_interval() -> None:
    values = np.array([[1.0] * 27 + [0.0] * 3, [1.0] * 30])
    lower, upper = closed_interval(moments_of(values), confidence=0.95)
    assert lower == pytest.approx([0.7438, 0.8865], abs=1e-3)
    assert upper == pytest.approx([0.9654, 1.0], abs=1e-3)
