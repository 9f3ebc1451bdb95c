"""Which step moved: named with evidence from labels and from documents, otherwise not resolved."""

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtide_aggregator.statistics.causes.mix_shift import INDEPENDENT, DesignEffects
from ragtide_aggregator.statistics.causes.moved_step import LEAST_N, MovedStep, StepNumber, moved_step
from ragtide_aggregator.statistics.means.segment_moments import SegmentMoments
from ragtide_schemas.retrieval_steps import StepKind

KINDS: Mapping[str, StepKind] = {"bm25": "retriever", "dense": "retriever", "rerank": "reranker"}
NORMAL = {
    "bm25": {"relevance": 0.5, "used_recall": 0.7, "agreement": 0.4},
    "dense": {"relevance": 0.5, "used_recall": 0.6, "agreement": 0.4},
    "rerank": {"relevance": 0.55, "used_recall": 1.0, "agreement": 0.5},
}
Changes = Mapping[tuple[str, str], float]

BM25_WORSE: Changes = {("bm25", "used_recall"): -0.3, ("bm25", "agreement"): -0.2, ("dense", "agreement"): -0.2}
LESS_RELEVANT: Changes = {(step, "relevance"): -0.2 for step in KINDS}
RERANK_WORSE: Changes = {**LESS_RELEVANT, ("rerank", "agreement"): -0.2}


def values(mean: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return np.ones(n) if mean >= 1 else rng.beta(6 * mean, 6 * (1 - mean), n)


def moments(found: NDArray[np.float64]) -> SegmentMoments:
    mean = found.mean(keepdims=True)
    return SegmentMoments(np.array([float(found.size)]), mean, ((found - mean) ** 2).sum(keepdims=True))


def named(
    changes: Changes,
    *,
    n: int = 2_000,
    seed: int = 1,
    without: tuple[str, ...] = (),
    effects: DesignEffects = INDEPENDENT,
) -> MovedStep:
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
    return moved_step(numbers, confidence=0.95, effects=effects)


def test_a_retriever_whose_used_sentences_and_whose_documents_moved_is_named() -> None:
    found = named(BM25_WORSE)
    assert (found.step, found.kind) == ("bm25", "retriever")
    own = found.evidence[0]
    assert (own.step, own.quantity) == ("bm25", "used_recall")
    assert own.lower < -0.3 < own.upper < 0


def test_what_a_worse_retriever_does_to_the_reranker_is_not_the_rerankers_fault() -> None:
    downstream = {**BM25_WORSE, ("rerank", "relevance"): -0.15, ("rerank", "agreement"): -0.2}
    assert named(downstream).step == "bm25"


def test_the_reranker_is_named_if_the_retrievers_return_the_same_and_its_choice_got_worse() -> None:
    found = named(RERANK_WORSE)
    assert (found.step, found.kind) == ("rerank", "reranker")
    assert {change.quantity for change in found.evidence} == {"relevance", "agreement"}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="nothing moved"),
        pytest.param(LESS_RELEVANT, id="labels alone moved, as with a generator or harder questions"),
        pytest.param({("bm25", "used_recall"): -0.3}, id="the answers used other sentences of the same documents"),
        pytest.param(
            {("bm25", "agreement"): -0.2, ("dense", "agreement"): -0.2}, id="the retrievers moved, and use did not"
        ),
        pytest.param({**BM25_WORSE, ("dense", "used_recall"): -0.3}, id="both retrievers got worse"),
        pytest.param({("rerank", "agreement"): -0.2}, id="another choice, as relevant as before"),
        pytest.param({**RERANK_WORSE, ("rerank", "relevance"): 0.2}, id="the choice got better"),
    ],
)
def test_one_kind_of_evidence_alone_is_not_resolved(changes: Changes) -> None:
    found = named(changes)
    assert (found.step, found.kind) == (None, None)
    assert all(change.moved for change in found.evidence)


def test_without_a_reranker_the_retriever_whose_documents_alone_got_less_relevant_is_named() -> None:
    only = {("bm25", "relevance"): -0.2}
    assert named(only, without=("rerank",)).step == "bm25"
    assert named(LESS_RELEVANT, without=("rerank",)).step is None
    assert named(only, without=("rerank", "dense")).step is None, "a single retriever has none to compare with"
    assert named(RERANK_WORSE, without=("dense",)).step is None, "nothing is known of all that one retriever returned"


def test_few_answers_and_dependent_ones_name_nothing() -> None:
    assert named(BM25_WORSE, n=LEAST_N - 1).changes == ()
    assert named(RERANK_WORSE, n=100).step is None
    assert named(RERANK_WORSE, n=600, effects=DesignEffects(scores=60.0)).step is None


def test_no_step_is_named_without_a_change_at_any_look() -> None:
    looks = (100, 400, 1_600)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        streams = {
            (step, quantity): (values(mean, 2_000, rng), values(mean, looks[-1], rng))
            for step, quantities in NORMAL.items()
            for quantity, mean in quantities.items()
        }
        for n in looks:
            numbers = [
                StepNumber(step, KINDS[step], quantity, moments(before), moments(since[:n]))  # type: ignore[arg-type]
                for (step, quantity), (before, since) in streams.items()
            ]
            found = moved_step(numbers, confidence=0.95, effects=INDEPENDENT)
            assert found.step is None
