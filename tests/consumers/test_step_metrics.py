"""Metrics of retrieval steps: from the labels of the whole interaction, absent with a reason, and on every event."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide import CustomMetric, LocalLabeler, MetricDefinition, RagInteraction
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_consumers.labelers.protocol import LabelerId, Labeling, ReferenceLabeling
from ragtide_consumers.metrics.steps import step_scores
from ragtide_consumers.metrics.trace import trace_metrics
from ragtide_consumers.text.keys import document_keys
from ragtide_schemas import Direction, Kind, SentenceLabels, SentenceProbabilities
from ragtide_schemas.labels import ClaimLabels

NOW = datetime(2026, 11, 27, tzinfo=UTC)
DOCUMENTS = ["The tower is tall. It is iron.", "It opens at nine. Bring a coat. Dogs may come.", "Tea is hot."]
KEYS = document_keys([2, 3, 1])


def interaction(steps: Sequence[dict[str, Any]], **fields: Any) -> RagInteraction:
    given = {"pipeline": "shop", "question": "When does it open?", "documents": DOCUMENTS, "response": "At nine."}
    return RagInteraction.from_fields({**given, "steps": list(steps), **fields})


def step(name: str, documents: Sequence[int], kind: str = "retriever", **counts: int) -> dict[str, Any]:
    return {"name": name, "kind": kind, "documents": list(documents), **counts}


def labels(relevant: Sequence[str] | None, utilized: Sequence[str] | None) -> SentenceLabels:
    return SentenceLabels(relevant=relevant, utilized=utilized, n_document_sentences=6, document_keys=KEYS)


PIPELINE = (
    step("bm25", [0, 1], returned=10, shared=4),
    step("dense", [1, 2], returned=8, shared=4),
    step("rerank", [1, 0, 2], kind="reranker", returned=3),
)


def test_each_step_has_the_relevance_of_its_documents_and_the_used_sentences_that_it_returned() -> None:
    found = step_scores(interaction(PIPELINE), [labels(["0a", "1a", "1b"], ["0a", "1a", "1a", "2a"])], {})
    assert found.scores == {
        "retrieval.step.bm25.relevance": pytest.approx(3 / 5),
        "retrieval.step.bm25.used_recall": pytest.approx(2 / 3),
        "retrieval.step.bm25.agreement": pytest.approx(4 / 10),
        "retrieval.step.dense.relevance": pytest.approx(2 / 4),
        "retrieval.step.dense.used_recall": pytest.approx(2 / 3),
        "retrieval.step.dense.agreement": pytest.approx(4 / 8),
        "retrieval.step.rerank.relevance": pytest.approx(3 / 6),
        "retrieval.step.rerank.used_recall": 1.0,
        "retrieval.step.rerank.agreement": pytest.approx(1 / 3),
        # The reranker has documents 1, 0, 2; their shares of relevant sentences are 2/3, 1/2, 0.
        "retrieval.step.bm25.order": 0.0,
        "retrieval.step.dense.order": 1.0,
        "retrieval.step.bm25.yield": pytest.approx(3 / 6),
        "retrieval.step.dense.yield": pytest.approx(2 / 6),
        "retrieval.step.rerank.ranking": 1.0,
        # Four of six sentences have nothing in common with the question, as the answer: each counts half.
        "retrieval.step.generator.focus": pytest.approx(4 / 12),
    }
    assert not found.absent
    assert found.declared.keys() == found.scores.keys()
    kinds = {name: declaration.version for name, declaration in found.declared.items()}
    assert kinds["retrieval.step.bm25.relevance"] != kinds["retrieval.step.rerank.relevance"]


def test_probabilities_give_ratios_of_expected_counts() -> None:
    probabilities = SentenceProbabilities(
        relevant=[0.1, 0.2, 0.9, 0.4, 0.3, 0.0], utilized=[0.0, 0.1, 0.8, 0.1, 0.0, 0.0], supported=[0.5]
    )
    found = step_scores(interaction(PIPELINE), [probabilities], {}).scores
    assert found["retrieval.step.dense.relevance"] == pytest.approx(1.6 / 4)
    assert found["retrieval.step.dense.used_recall"] == pytest.approx(0.9 / 1.0)


def test_orders_are_shares_of_pairs_and_documents_that_the_reranker_dropped_have_none() -> None:
    steps = (step("bm25", [3, 0, 2, 1]), step("dense", [4]), step("rerank", [0, 1, 2, 3], kind="reranker"))
    documents = [f"Text {number}." for number in range(5)]
    given = SentenceLabels(
        relevant=["1a", "3a"], utilized=[], n_document_sentences=5, document_keys=document_keys([1] * 5)
    )
    found = step_scores(interaction(steps, documents=documents), [given], {})
    # Of the pairs 3-0, 3-2, 3-1, 0-2, 0-1, 2-1 of bm25 the reranker has 0-2 and 0-1 in this order.
    assert found.scores["retrieval.step.bm25.order"] == pytest.approx(2 / 6)
    assert found.absent["retrieval.step.dense.order"] == "not_reached"
    # Pairs with different relevance, in the order of the reranker: 0-1 no, 0-3 no, 1-2 yes, 2-3 no.
    assert found.scores["retrieval.step.rerank.ranking"] == pytest.approx(1 / 4)


def test_orders_need_one_reranker_and_rankings_need_documents_of_different_relevance() -> None:
    two = (*PIPELINE, step("second", [0], kind="reranker"))
    names = step_scores(interaction(two), [labels(["0a"], ["0a"])], {}).declared
    assert not [name for name in names if name.endswith((".order", ".yield", ".ranking"))]
    none = step_scores(interaction(PIPELINE), [labels([], ["0a"])], {})
    assert none.absent["retrieval.step.rerank.ranking"] == "no_relevant_sentences"


@pytest.mark.parametrize(
    ("response", "focus"),
    [
        ("It does open when the sun rises.", 1.0),  # more of the question than any sentence of the documents
        ("Bring a coat.", 4 / 12),
        ("It opens at nine.", (4 + 5) / 12),
        ("It does open. Bring a coat.", (1.0 + 4 / 12) / 2),
    ],
)
def test_the_focus_of_the_generator_is_the_rank_of_its_answer_among_the_sentences(response: str, focus: float) -> None:
    found = step_scores(interaction(PIPELINE, response=response), [], {}).scores
    assert found["retrieval.step.generator.focus"] == pytest.approx(focus)


def test_focus_reads_scripts_without_spaces_and_is_absent_without_a_word_in_common() -> None:
    japanese = {"question": "塔はいつ開きますか。", "documents": ["塔は九時に開きます。犬も入れます。", "お茶は熱い。"]}
    steps = [step("bm25", [0, 1])]
    near, far = (
        step_scores(interaction(steps, **japanese, response=response), [], {}).scores["retrieval.step.generator.focus"]
        for response in ("塔は九時に開きます。", "お茶は熱い。")
    )
    assert near > far
    foreign = interaction(steps, question="Wann?", documents=["Tea is hot.", "It is iron."], response="Tea.")
    assert step_scores(foreign, [], {}).absent["retrieval.step.generator.focus"] == "no_question_words"
    silent = interaction(steps, documents=["Tea is hot.", "It is iron."], response="")
    assert step_scores(silent, [], {}).absent["retrieval.step.generator.focus"] == "no_response_sentences"


@given(st.permutations(range(6)), st.lists(st.booleans(), min_size=6, max_size=6))
def test_a_worse_retriever_changes_no_order_of_the_others_documents(order: list[int], own: list[bool]) -> None:
    documents = [f"Text {number}." for number in range(6)]
    dense = [number for number in range(6) if own[number]]
    other = [number for number in range(6) if not own[number]]

    def order_of(reranked: Sequence[int]) -> Any:
        steps = (step("bm25", other), step("dense", dense), step("rerank", reranked, kind="reranker"))
        return step_scores(interaction(steps, documents=documents), [], {}).scores.get("retrieval.step.dense.order")

    assert order_of(order) == order_of([number for number in order if number in dense] + other)


@pytest.mark.parametrize(
    ("given", "metric", "reason"),
    [
        ([labels(None, ["0a"])], "bm25.relevance", "incomplete_labels"),
        ([labels(["0a"], None)], "bm25.used_recall", "incomplete_labels"),
        ([labels(["0a"], [])], "bm25.used_recall", "no_used_sentences"),
        ([labels(["0a"], ["0a"])], "empty.relevance", "nothing_retrieved"),
        ([labels(["0a"], ["0a"])], "empty.agreement", "nothing_retrieved"),
        ([labels(["0a"], ["0a"])], "dropped.relevance", "not_reached"),
        ([labels(["0a"], ["0a"])], "dropped.agreement", "pool_unknown"),
        ([], "bm25.relevance", "not_labeled"),
        ([ClaimLabels(retrieved2response=[])], "bm25.used_recall", "not_labeled"),
        ([SentenceProbabilities(relevant=[1], utilized=[1], supported=[])], "bm25.relevance", "incomplete_labels"),
        (
            [SentenceLabels(relevant=["0a"], utilized=["0a"], n_document_sentences=9)],
            "bm25.relevance",
            "incomplete_labels",
        ),
    ],
)
def test_what_is_not_known_is_absent_with_its_reason(given: Any, metric: str, reason: str) -> None:
    steps = [step("bm25", [0], returned=9, shared=2), step("empty", [], returned=0), step("dropped", [], returned=5)]
    found = step_scores(interaction(steps), given, {})
    assert found.absent[f"retrieval.step.{metric}"] == reason
    assert f"retrieval.step.{metric}" not in found.scores


def test_a_step_that_returned_none_of_the_used_sentences_has_a_recall_of_0() -> None:
    steps = [step("bm25", [0]), step("empty", [], returned=0)]
    found = step_scores(interaction(steps), [labels(["0a"], ["0a"])], {})
    assert found.scores["retrieval.step.empty.used_recall"] == 0.0


def test_a_single_retriever_has_no_agreement_and_pools_without_drops_need_no_counts() -> None:
    assert not [name for name in step_scores(interaction([step("bm25", [0])]), [], {}).absent if "agreement" in name]
    whole = [step("bm25", [0, 1], returned=2), step("dense", [1, 2], returned=2)]
    found = step_scores(interaction(whole), [labels([], [])], {})
    assert found.scores["retrieval.step.bm25.agreement"] == 0.5


@given(
    st.sets(st.sampled_from(KEYS)),
    st.sets(st.sampled_from(KEYS), min_size=1),
    st.sets(st.integers(0, 2)),
    st.sets(st.integers(0, 2)),
)
def test_a_step_with_every_document_scores_as_the_whole_and_more_documents_never_lower_recall(
    relevant: set[str], used: set[str], few: set[int], more: set[int]
) -> None:
    given = labels(sorted(relevant), sorted(used))
    steps = [step("every", [0, 1, 2]), step("few", sorted(few)), step("both", sorted(few | more))]
    found = step_scores(interaction(steps), [given], {}).scores
    assert found["retrieval.step.every.relevance"] == pytest.approx(trace_metrics(given).scores["context_relevance"])
    assert found["retrieval.step.every.used_recall"] == 1.0
    assert found["retrieval.step.few.used_recall"] <= found["retrieval.step.both.used_recall"]


def test_labels_without_keys_are_counted_by_the_sentences_of_the_documents() -> None:
    given = SentenceLabels(relevant=["1a"], utilized=["1a"], n_document_sentences=6)
    assert step_scores(interaction(PIPELINE), [given], {}).scores["retrieval.step.dense.relevance"] == 1 / 4


async def test_events_of_the_local_labeler_have_steps_as_their_own_labels_have_them() -> None:
    labeler = LocalLabeler()
    steps = [step("all", [0, 1, 2]), step("first", [0])]
    given = interaction(steps)
    labeling = await labeler.label(given)
    event = metric_event(given, labeler_id(labeler), labeling, labeled_at=NOW, latency_s=0.1)
    whole, first = (event.scores[f"retrieval.step.{name}.relevance"] for name in ("all", "first"))
    assert whole == pytest.approx(event.scores["trace.context_relevance"])
    assert first != whole
    assert event.declared is not None
    assert {"retrieval.step.all.relevance", "retrieval.step.first.used_recall"} <= event.declared.keys()
    plain = metric_event(
        interaction([]), labeler_id(labeler), await labeler.label(interaction([])), labeled_at=NOW, latency_s=0.1
    )
    assert plain.declared is None
    assert not [name for name in (*plain.scores, *plain.absent) if name.startswith("retrieval.step.")]


async def test_without_labels_steps_are_absent_for_the_reason_of_the_whole() -> None:
    labeler = LocalLabeler()
    given = interaction([step("bm25", [0])], response="")
    event = metric_event(given, labeler_id(labeler), await labeler.label(given), labeled_at=NOW, latency_s=0.1)
    assert event.absent["retrieval.step.bm25.relevance"] == event.absent["trace.context_relevance"] == "no_response"


def test_the_judged_part_has_the_steps_of_its_own_labels() -> None:
    own = Labeling({"trace.adherence": 0.5}, labels=(labels(["0a"], ["0a"]),))
    judge = LabelerId("judge", "1", "ragbench")
    judged = ReferenceLabeling(Labeling({"trace.adherence": 1.0}, labels=(labels(["2a"], ["2a"]),)), judge, 0.1, 0.1)
    labeling = Labeling(own.scores, labels=own.labels, judged=judged)
    event = metric_event(
        interaction(PIPELINE), LabelerId("local", "1", "ragbench"), labeling, labeled_at=NOW, latency_s=0
    )
    assert event.judged is not None
    name = "retrieval.step.bm25.used_recall"
    assert (event.scores[name], event.judged.scores[name]) == (1.0, 0.0)
    assert event.declared is not None
    assert name in event.declared


def test_a_metric_of_a_users_own_cannot_take_the_name_of_a_step() -> None:
    definition = MetricDefinition("retrieval.step.bm25.mine", 0, 1, Direction.HIGHER, Kind.ALGEBRAIC, "Mine.", "us")
    with pytest.raises(ValueError, match="another name"):
        CustomMetric(definition, lambda interaction, labels: 1.0)
