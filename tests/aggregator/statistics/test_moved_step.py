"""Which steps moved by themselves: each is certain to have moved, certainly as before, or open."""

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtide_aggregator.statistics.causes.mix_shift import INDEPENDENT, DesignEffects
from ragtide_aggregator.statistics.causes.moved_step import LEAST_N, MovedSteps, StepNumber, moved_steps
from ragtide_aggregator.statistics.means.segment_moments import SegmentMoments
from ragtide_schemas.step_metrics import ComponentKind

KINDS: Mapping[str, ComponentKind] = {
    "bm25": "retriever", "dense": "retriever", "rerank": "reranker", "generator": "generator",
}  # fmt: skip
RETRIEVER = {"relevance": 0.5, "used_recall": 0.6, "agreement": 0.4, "order": 0.7, "yield": 0.4}
NORMAL = {
    "bm25": RETRIEVER,
    "dense": RETRIEVER,
    "rerank": {"relevance": 0.55, "used_recall": 1.0, "agreement": 0.5, "ranking": 0.8},
    "generator": {"focus": 0.7, "adherence": 0.9},
}
Changes = Mapping[tuple[str, str], float]

BM25_WORSE: Changes = {
    ("bm25", "used_recall"): -0.3, ("bm25", "agreement"): -0.2, ("dense", "agreement"): -0.2,
    ("bm25", "yield"): -0.2, ("bm25", "order"): -0.2, ("rerank", "agreement"): -0.2, ("rerank", "relevance"): -0.15,
    ("dense", "used_recall"): 0.2, ("dense", "yield"): 0.1,
}  # fmt: skip
RERANK_WORSE: Changes = {
    **{(step, "relevance"): -0.2 for step in ("bm25", "dense", "rerank")}, ("rerank", "agreement"): -0.2,
    **{(step, number): -0.2 for step in ("bm25", "dense") for number in ("order", "yield")},
    ("rerank", "ranking"): -0.3,
}  # fmt: skip
GENERATOR_WORSE: Changes = {("generator", "focus"): -0.3}


def values(mean: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return np.ones(n) if mean >= 1 else rng.beta(6 * mean, 6 * (1 - mean), n)


def moments(found: NDArray[np.float64]) -> SegmentMoments:
    mean = found.mean(keepdims=True)
    return SegmentMoments(np.array([float(found.size)]), mean, ((found - mean) ** 2).sum(keepdims=True))


def found_of(
    changes: Changes,
    *,
    n: int = 2_000,
    seed: int = 1,
    without: tuple[str, ...] = (),
    effects: DesignEffects = INDEPENDENT,
) -> MovedSteps:
    rng = np.random.default_rng(seed)
    numbers = [
        StepNumber(
            step, KINDS[step], quantity,  # type: ignore[arg-type]
            moments(values(mean, n, rng)), moments(values(mean + changes.get((step, quantity), 0.0), n, rng)),
        )
        for step, quantities in NORMAL.items()
        if step not in without
        for quantity, mean in quantities.items()
    ]  # fmt: skip
    return moved_steps(numbers, confidence=0.95, looks=5, effects=effects)


def named(changes: Changes, *, without: tuple[str, ...] = ()) -> tuple[set[str], set[str]]:
    """Return the steps that moved, and those that may have."""
    found = found_of(changes, without=without)
    assert {*found.moved, *found.possible, *found.unmoved} == {
        (step, KINDS[step]) for step in NORMAL if step not in without
    }
    moved, possible = ({component.step for component in steps} for steps in (found.moved, found.possible))
    return moved, possible


@pytest.mark.parametrize(
    ("changes", "moved", "possible"),
    [
        pytest.param({}, set(), set(), id="nothing"),
        pytest.param(BM25_WORSE, {"bm25"}, set(), id="a retriever, with what it does to the reranker"),
        pytest.param(RERANK_WORSE, {"rerank"}, set(), id="the reranker, with what it does to both retrievers"),
        pytest.param(GENERATOR_WORSE, {"generator"}, set(), id="the generator"),
        pytest.param({**BM25_WORSE, **GENERATOR_WORSE}, {"bm25", "generator"}, set(), id="a retriever and generator"),
        pytest.param({**RERANK_WORSE, **GENERATOR_WORSE}, {"rerank", "generator"}, set(), id="reranker and generator"),
        pytest.param(
            {**BM25_WORSE, **RERANK_WORSE}, set(), {"bm25", "dense", "rerank"}, id="a retriever and the reranker"
        ),
        pytest.param(
            {**BM25_WORSE, ("dense", "order"): -0.2, ("dense", "yield"): -0.2},
            set(), {"bm25", "dense", "rerank"}, id="both retrievers, as with the reranker",
        ),
        pytest.param(
            {**BM25_WORSE, ("dense", "yield"): -0.2},
            {"bm25"}, {"dense"}, id="a retriever, and the other one that lost what no reranker dropped",
        ),
        pytest.param(
            {**BM25_WORSE, ("generator", "adherence"): -0.2},
            {"bm25"}, {"generator"}, id="a retriever; adherence may have followed it",
        ),
        pytest.param({("generator", "adherence"): -0.2}, {"generator"}, set(), id="adherence alone"),
        pytest.param(
            {(step, "relevance"): -0.2 for step in ("bm25", "dense", "rerank")}, set(), set(), id="harder questions"
        ),
        pytest.param({("bm25", "used_recall"): -0.3}, set(), set(), id="other sentences of the same documents"),
        pytest.param({("rerank", "ranking"): -0.3}, set(), {"rerank"}, id="labels of the reranker alone"),
    ],
)  # fmt: skip
def test_the_steps_that_moved_and_those_that_may_have(changes: Changes, moved: set[str], possible: set[str]) -> None:
    assert named(changes) == (moved, possible)


def test_the_first_change_of_each_step_that_moved_comes_first() -> None:
    first, second, *rest = found_of({**BM25_WORSE, **GENERATOR_WORSE}).evidence
    assert (first.step, first.quantity, second.step, second.quantity) == ("bm25", "used_recall", "generator", "focus")
    assert first.lower < -0.3 < first.upper < 0
    assert {change.quantity for change in rest} == {"agreement"}


def test_without_a_reranker_a_retriever_is_named_only_if_another_is_as_before() -> None:
    both = {(step, "relevance"): -0.2 for step in ("bm25", "dense")}
    without = ("rerank",)
    assert named({("bm25", "relevance"): -0.2}, without=without) == ({"bm25"}, set())
    assert named(both, without=without) == (set(), {"bm25", "dense"})
    assert named({**both, **GENERATOR_WORSE}, without=without) == ({"generator"}, {"bm25", "dense"})
    assert named({("bm25", "relevance"): -0.2}, without=("rerank", "dense")) == (set(), {"bm25"})


def test_few_answers_and_dependent_ones_name_nothing() -> None:
    assert found_of(BM25_WORSE, n=LEAST_N - 1).changes == ()
    assert found_of(RERANK_WORSE, n=60).moved == ()
    assert found_of(RERANK_WORSE, n=600, effects=DesignEffects(scores=60.0)).moved == ()


def test_all_intervals_hold_together_at_all_looks() -> None:
    looks, runs, missed = (200, 400, 800, 1_600, 3_200), 300, 0
    means = {"order": 0.7, "yield": 0.4, "used_recall": 0.02, "agreement": 0.3}
    for seed in range(runs):
        rng = np.random.default_rng((13, seed))
        drawn = {
            name: [(rng.random(n) < mean).astype(float) for n in (1_000, looks[-1])] for name, mean in means.items()
        }
        out = False
        for n in looks:
            numbers = [
                StepNumber("bm25", "retriever", name, moments(before), moments(since[:n]))  # type: ignore[arg-type]
                for name, (before, since) in drawn.items()
            ] + [StepNumber("rerank", "reranker", "ranking", moments(np.ones(100)), moments(np.ones(n)))]
            changes = moved_steps(numbers, confidence=0.95, looks=len(looks), effects=INDEPENDENT).changes
            out |= any(change.moved for change in changes)
        missed += out
    assert missed <= 0.05 * runs
