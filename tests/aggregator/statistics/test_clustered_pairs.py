"""Weighted and prediction-powered estimates over clusters: the sums equal the definition, and the intervals hold."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtide_aggregator.statistics.intervals.pair_estimates import Powered
from ragtide_aggregator.statistics.means.clusters import ClusterTable
from ragtide_aggregator.statistics.means.moments import Moments, MomentTable
from ragtide_aggregator.statistics.pairs.clustered_pairs import ClusteredPairs, PairsOfClusters
from ragtide_aggregator.statistics.pairs.prediction_powered import Everything, PairTable

Array = np.ndarray[Any, Any]


class Cluster(NamedTuple):
    """A cluster: true and proxy score of each item, its probability, and which items are judged."""

    true: Array
    proxy: Array
    probability: Array
    judged: Array


def drawn(seed: int, count: int, *, dependent: bool = True) -> list[Cluster]:
    """Return clusters of 1 to 6 items whose scores depend on each other."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        size = int(rng.integers(1, 7))
        luck = rng.random() if dependent else 0.5
        true = np.clip(luck + rng.normal(0, 0.2, size), 0, 1)
        probability = rng.uniform(0.3, 1, size)
        judged = rng.random(size) < probability
        found.append(Cluster(true, np.clip(true + rng.normal(0, 0.2, size), 0, 1), probability, judged))
    return found


def pairs_of(clusters: list[Cluster], *, late: bool = False) -> PairsOfClusters:
    some = [cluster for cluster in clusters if cluster.judged.any()]
    counts = [int(one.judged.sum()) for one in some]
    scores = [np.stack([one.true, one.proxy, one.probability])[:, one.judged] for one in some]
    n = sum(counts)
    return PairsOfClusters(
        rows=np.zeros(n, dtype=np.intp),
        scores=np.concatenate([np.zeros((3, 0)), *scores], axis=1),
        late=np.full(n, late),
        of=np.repeat(np.arange(len(some)), counts),
        cluster_rows=np.zeros(len(some), dtype=np.intp),
        sizes=np.array([0 if late else one.true.size for one in some], dtype=np.int64),
        totals=np.array([0.0 if late else one.proxy.sum() for one in some]),
    )


def table_of(clusters: list[Cluster], *, late: bool = False) -> ClusteredPairs:
    table = ClusteredPairs()
    table.add_row()
    table.update(pairs_of(clusters, late=late))
    return table


def everything(clusters: list[Cluster]) -> Moments:
    """Return moments of all proxy scores with the sums over their clusters."""
    values = np.concatenate([cluster.proxy for cluster in clusters])
    sizes, totals = (np.array([part(cluster.proxy) for cluster in clusters]) for part in (np.size, np.sum))
    moments, sums = MomentTable(), ClusterTable()
    moments.add_row()
    sums.add_row()
    moments.update(np.zeros(values.size, dtype=np.intp), values)
    sums.update(np.zeros(sizes.size, dtype=np.intp), sizes, totals)
    # About the last mean, as in the definition; the table's squares are about the mean of the clusters before.
    squares = np.array([np.sum((totals - sizes * values.mean()) ** 2)])
    return replace(moments.read([0]), clusters=replace(sums.read([0]), squares=squares))


def scored(moments: Moments | None) -> Everything | None:
    return None if moments is None else Everything.scored(moments)


def read(table: ClusteredPairs, moments: Moments | None = None) -> Powered:
    return table.read(np.array([0]), scored(moments), confidence=0.95)


def by_definition(clusters: list[Cluster], k: float) -> tuple[float, float]:
    """Return estimate and variance for a weight of the proxy score, cluster by cluster."""
    every = np.concatenate([cluster.proxy for cluster in clusters])
    w = [cluster.judged / cluster.probability for cluster in clusters]
    r = [cluster.true - k * cluster.proxy for cluster in clusters]
    total = sum(part.sum() for part in w)
    mean_r = sum((a * b).sum() for a, b in zip(w, r, strict=True)) / total
    influences = [
        k * (cluster.proxy - every.mean()).sum() / every.size + (a * (b - mean_r)).sum() / total
        for cluster, a, b in zip(clusters, w, r, strict=True)
    ]
    return k * every.mean() + mean_r, float(np.sum(np.square(influences)))


@settings(max_examples=25)
@given(st.integers(0, 1000))
def test_the_sums_give_the_variance_over_clusters(seed: int) -> None:
    clusters = drawn(seed, 60)
    found = read(table_of(clusters))
    estimate, variance = by_definition(clusters, 0.0)
    count = sum(cluster.judged.any() for cluster in clusters)
    assert found.estimate[0] == pytest.approx(estimate)
    assert found.standard_error[0] ** 2 * (count - 1) / count == pytest.approx(variance)
    powered = read(table_of(clusters), everything(clusters))
    estimate, variance = by_definition(clusters, float(powered.k[0]))
    assert powered.estimate[0] == pytest.approx(estimate)
    assert powered.standard_error[0] ** 2 * (count - 1) / count == pytest.approx(variance)


def test_single_items_have_the_variance_of_independent_items() -> None:
    clusters = [
        Cluster(*(np.array([part]) for part in parts))
        for one in drawn(1, 400, dependent=False)
        for parts in zip(*one, strict=True)
    ]
    single = PairTable()
    single.add_row()
    pairs = pairs_of(clusters)
    single.update(pairs.rows, *pairs.scores)
    moments = everything(clusters)
    for chosen in (None, moments):
        own, found = (
            single.read(np.array([0]), scored(chosen), confidence=0.95),
            read(table_of(clusters), chosen),
        )
        assert found.estimate == pytest.approx(own.estimate)
        assert found.standard_error == pytest.approx(own.standard_error, rel=0.02)
        assert found.lower == pytest.approx(own.lower, rel=0.01)
        assert found.upper == pytest.approx(own.upper, rel=0.01)
        assert found.design_effect == pytest.approx(1, abs=0.04)
        begun = ClusteredPairs()
        begun.add_row()
        begun.begin(0, single, 0)
        assert read(begun, chosen).lower == pytest.approx(found.lower)
        assert read(begun, chosen).standard_error == pytest.approx(found.standard_error)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(1, 39))
def test_cutting_storing_and_merging_change_nothing(seed: int, cut: int) -> None:
    clusters = drawn(seed, 40)
    whole = table_of(clusters)
    stored = ClusteredPairs()
    stored.add_row()
    stored.load(0, table_of(clusters[:cut]).to_bytes(0))
    stored.update(pairs_of(clusters[cut:]))
    assert stored.to_bytes(0) == whole.to_bytes(0)
    merged = table_of(clusters[:cut])
    merged.merge(0, table_of(clusters[cut:]), 0)
    assert read(merged).estimate == pytest.approx(read(whole).estimate)
    assert read(merged).standard_error == pytest.approx(read(whole).standard_error)


def test_late_pairs_never_have_a_narrower_interval() -> None:
    for seed in range(5):
        clusters = drawn(seed, 200)
        moments = everything(clusters)
        in_time, late = (read(table_of(clusters, late=late), moments) for late in (False, True))
        assert late.estimate == in_time.estimate
        assert late.standard_error > in_time.standard_error
        weighted = [read(table_of(clusters, late=late)) for late in (False, True)]
        assert weighted[0].standard_error == weighted[1].standard_error


def test_equal_items_of_a_cluster_say_as_much_as_one() -> None:
    rng = np.random.default_rng(4)
    clusters = [
        Cluster(np.full(5, float(luck)), np.full(5, 0.5), np.ones(5), np.ones(5, dtype=bool))
        for luck in rng.random(400) < 0.8
    ]
    found = read(table_of(clusters))
    assert found.design_effect == pytest.approx(5, rel=0.01)
    assert found.n_effective == pytest.approx(400, rel=0.01)
    assert found.n == 2000


def test_few_or_equal_clusters_have_the_whole_range() -> None:
    rng = np.random.default_rng(5)
    clusters = [
        Cluster((rng.random(100) < 0.5) / 1.0, np.full(100, 0.5), np.ones(100), np.ones(100, dtype=bool))
        for _ in range(30)
    ]
    assert read(table_of(clusters)).lower[0] > 0.3
    for others in (clusters[:29], clusters[:1] * 30):
        found = read(table_of(others))
        assert (found.lower[0], found.upper[0]) == (0.0, 1.0)


def test_moments_without_clusters_and_other_versions_are_refused() -> None:
    table = table_of(drawn(1, 10))
    moments = MomentTable()
    moments.add_row()
    with pytest.raises(ValueError, match="clusters"):
        read(table, moments.read([0]))
    with pytest.raises(ValueError, match="version"):
        table.load(0, b"\x09" + table.to_bytes(0)[1:])
    with pytest.raises(ValueError, match="version"):
        table.load(0, b"")
