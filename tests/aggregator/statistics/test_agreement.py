from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from ragtide_aggregator.statistics.comparisons.agreement import (
    accuracy,
    agreement,
    auroc,
    average_ranks,
    bias,
    f1,
    family_agreement,
    kappa,
    rmse,
    spearman,
)
from ragtide_aggregator.statistics.comparisons.bootstrap import Indexes, Measured, measured, resamples

pytestmark = pytest.mark.simulation

PAIRS = st.integers(2, 40).flatmap(
    lambda n: st.tuples(
        *(arrays(np.float64, n, elements=st.sampled_from(np.linspace(0, 1, 11).tolist())) for _ in "ab")
    )
)


@given(PAIRS)
def test_the_statistics_are_those_of_scipy_and_of_their_definitions(pair: tuple[np.ndarray, np.ndarray]) -> None:
    predicted, reference = pair
    high, said = reference >= 0.5, predicted >= 0.5
    if np.ptp(predicted) and np.ptp(reference):
        assert average_ranks(predicted).tolist() == stats.rankdata(predicted).tolist()
        assert spearman(predicted, reference) == pytest.approx(stats.spearmanr(predicted, reference).statistic)
    else:
        assert np.isnan(spearman(predicted, reference))
    positive, negative = predicted[high], predicted[~high]
    if len(positive) and len(negative):
        above = np.mean([(p > q) + 0.5 * (p == q) for p in positive for q in negative])
        assert auroc(predicted, high) == pytest.approx(above)
    else:
        assert np.isnan(auroc(predicted, high))
    if (said & high).any():
        precision, recall = (said & high).sum() / said.sum(), (said & high).sum() / high.sum()
        assert f1(said, high) == pytest.approx(2 * precision * recall / (precision + recall))
    assert rmse(predicted, reference) >= abs(bias(predicted, reference)) - 1e-12


@given(PAIRS)
def test_the_laws_hold(pair: tuple[np.ndarray, np.ndarray]) -> None:
    predicted, reference = pair
    high, said = reference >= 0.5, predicted >= 0.5
    for one, other in (
        (auroc(predicted, high), auroc(predicted**3 + 2, high)),
        (auroc(predicted, high), auroc(-predicted, ~high)),
        (kappa(said, high), kappa(high, said)),
        (spearman(predicted, reference), spearman(reference, predicted)),
        (f1(said, high), f1(high, said)),
    ):
        assert one == pytest.approx(other, nan_ok=True)
    k = kappa(said, high)
    assert np.isnan(k) or -1 <= k <= accuracy(said, high) <= 1
    assert kappa(high, high) == pytest.approx(1.0) or high.all() or not high.any()


def test_what_is_undefined_is_none_and_never_zero() -> None:
    found = agreement(np.full(30, 0.7), np.ones(30))
    assert found.auroc == found.kappa == found.spearman == Measured(None)
    assert found.constant_rmse == 0.0
    assert found.accuracy.value == 1.0
    empty = agreement(np.array([]), np.array([]))
    assert empty.n == 0
    assert empty.rmse == Measured(None)
    assert empty.constant_rmse is None


def test_an_interval_is_left_out_where_one_class_is_missing_from_many_samples() -> None:
    reference = np.ones(30)
    reference[0] = 0.0
    found = agreement(np.linspace(0, 1, 30), reference)
    assert found.auroc.value == 1.0
    assert found.auroc.lower is None
    perfect = agreement(np.linspace(0, 1, 30), np.linspace(0, 1, 30))
    assert perfect.auroc == Measured(1.0)
    assert perfect.rmse == Measured(0.0)
    assert found.rmse.lower is not None


def test_a_constant_deceives_by_rmse_and_shows_in_the_ranks() -> None:
    random = np.random.default_rng(1)
    reference = random.beta(2, 5, 400)
    constant = agreement(np.full(400, reference.mean()), reference)
    noisy = agreement(np.clip(reference + random.normal(0, 0.2, 400), 0, 1), reference)
    assert constant.rmse.value == pytest.approx(constant.constant_rmse)
    assert constant.rmse.value is not None
    assert noisy.rmse.value is not None
    assert constant.rmse.value < noisy.rmse.value
    assert constant.spearman.value is None
    assert noisy.spearman.value is not None
    assert noisy.spearman.value > 0.5


@pytest.mark.parametrize(
    "name", ["rmse", "kappa", *(pytest.param(one, marks=pytest.mark.heavy) for one in ("spearman", "auroc"))]
)
def test_intervals_hold_the_truth_about_as_often_as_they_say(name: str) -> None:
    """150 samples of 150 items; 95% intervals. The truth is the value on a million items."""
    random = np.random.default_rng(7)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        reference = random.beta(2, 1.5, n)
        return np.clip(reference + random.normal(0, 0.25, n), 0, 1), reference

    big, big_reference = draw(1_000_000)
    truth = {
        "rmse": rmse(big, big_reference),
        "spearman": spearman(big, big_reference),
        "auroc": auroc(big, big_reference >= 0.5),
        "kappa": kappa(big >= 0.5, big_reference >= 0.5),
    }[name]
    held = 0
    for seed in range(150):
        predicted, reference = draw(150)
        high, said = reference >= 0.5, predicted >= 0.5
        statistics: dict[str, Callable[[Indexes], float]] = {
            "rmse": lambda i, p=predicted, r=reference: rmse(p[i], r[i]),  # type: ignore[misc]
            "spearman": lambda i, p=predicted, r=reference: spearman(p[i], r[i]),  # type: ignore[misc]
            "auroc": lambda i, p=predicted, h=high: auroc(p[i], h[i]),  # type: ignore[misc]
            "kappa": lambda i, s=said, h=high: kappa(s[i], h[i]),  # type: ignore[misc]
        }
        found = measured(statistics[name], 150, resamples(150, seed=seed, count=200))
        assert found.lower is not None
        assert found.upper is not None
        held += found.lower <= truth <= found.upper
    # 95% of 150 is 142.5 with a standard deviation of 2.7; percentile intervals are a little short at this n.
    assert 131 <= held <= 149


def test_whole_clusters_are_drawn_and_make_intervals_wider() -> None:
    random = np.random.default_rng(3)
    of_question = random.normal(0, 0.3, 40)
    clusters = np.repeat(np.arange(40), 10)
    reference = np.full(400, 0.5)
    predicted = 0.5 + of_question[clusters] + random.normal(0, 0.02, 400)
    alone = agreement(predicted, reference).bias
    together = agreement(predicted, reference, clusters=clusters).bias
    assert alone.lower is not None
    assert together.lower is not None
    assert (together.upper - together.lower) > 2 * (alone.upper - alone.lower)  # type: ignore[operator]
    for sample in resamples(400, clusters)[:20]:
        counts = np.bincount(clusters[sample], minlength=40)
        assert (counts % 10 == 0).all()


def test_the_aggregated_error_lies_between_the_smallest_and_the_largest() -> None:
    random = np.random.default_rng(5)
    errors = {"a": random.normal(0, 0.1, 100), "b": random.normal(0, 0.4, 100)}
    errors["a"][::3] = np.nan
    found = family_agreement(errors)
    each = [np.sqrt(np.nanmean(error**2)) for error in errors.values()]
    assert found.rmse.value == pytest.approx(np.sqrt(np.mean(np.square(each))))
    assert min(each) < found.rmse.value < max(each)
    assert found.consistency.value == pytest.approx(1 - found.rmse.value)  # type: ignore[operator]
    assert found.consistency.lower == pytest.approx(1 - found.rmse.upper)  # type: ignore[operator]
    assert family_agreement({}).rmse == Measured(None)


def test_the_same_seed_draws_the_same() -> None:
    predicted, reference = np.random.default_rng(1).random((2, 50))
    assert agreement(predicted, reference, seed=4) == agreement(predicted, reference, seed=4)
    assert agreement(predicted, reference, seed=4) != agreement(predicted, reference, seed=5)


@pytest.mark.parametrize(
    ("predicted", "reference", "said"),
    [([0.1], [0.1, 0.2], "shape"), ([float("nan")], [0.1], "not finite"), ([[0.1]], [[0.1]], "shape")],
)
def test_arrays_that_do_not_fit_are_refused(predicted: list[float], reference: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        agreement(np.array(predicted), np.array(reference))
