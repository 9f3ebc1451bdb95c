"""Each score has its formula with the numbers of its labels, and each sentence its marks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide import LocalLabeler
from ragtide.testing import interaction
from ragtide_consumers.metrics.ragchecker import RAGCHECKER, ragchecker_metrics
from ragtide_consumers.metrics.trace import TRACE, trace_metrics
from ragtide_consumers.specimens.formulas import filled_formulas
from ragtide_consumers.specimens.marks import DocumentSentence, ResponseSentence, labeling_to_show, marked
from ragtide_consumers.text.keys import document_keys, response_keys
from ragtide_consumers.text.sentences import cut
from ragtide_schemas import (
    ClaimLabels,
    Labels,
    RagInteraction,
    SentenceLabels,
    SentenceProbabilities,
    Specimen,
    SpecimenLabeling,
)

KEYS = document_keys([3, 2])
SENTENCES = response_keys(3)


def labeling(
    *labels: Labels, scores: dict[str, float], profile: str = "ragbench", labeler: str = "test"
) -> SpecimenLabeling:
    return SpecimenLabeling(labeler=labeler, labeler_version="1", profile=profile, labels=labels, scores=scores)


def of_keys(relevant: Any, utilized: Any, support: dict[str, Any]) -> SentenceLabels:
    return SentenceLabels(
        relevant=relevant,
        utilized=utilized,
        support=support,
        n_document_sentences=len(KEYS),
        document_keys=KEYS,
        response_keys=SENTENCES,
    )


SOME = st.lists(st.sampled_from(KEYS), unique=True).map(tuple)


@given(SOME, SOME, st.fixed_dictionaries(dict.fromkeys(SENTENCES, SOME)), st.sampled_from(["ragbench", "capstone"]))
def test_every_trace_score_has_its_formula(relevant: Any, utilized: Any, support: Any, profile: str) -> None:
    labels = of_keys(relevant, utilized, support)
    scores = trace_metrics(labels, profile=profile).by_qualified_name(TRACE)[0]
    filled = filled_formulas(labeling(labels, scores=scores, profile=profile))
    edges = set() if relevant or profile == "ragbench" else {"trace.context_utilization", "trace.completeness"}
    if profile == "capstone":  # it counts verdicts that these labels do not state
        edges |= {"trace.adherence", "trace.supported_fraction"}
    assert scores.keys() - edges <= filled.keys()


VERDICT = st.sampled_from(["Entailment", "Neutral", "Contradiction"])


@given(st.data(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_every_score_of_claims_has_its_formula(data: Any, n: int, g: int, k: int) -> None:
    def table(rows: int) -> Any:
        return data.draw(st.lists(st.lists(VERDICT, min_size=k, max_size=k), min_size=rows, max_size=rows))

    labels = ClaimLabels(
        answer2response=data.draw(st.lists(VERDICT, min_size=n, max_size=n)),
        response2answer=data.draw(st.lists(VERDICT, min_size=g, max_size=g)),
        retrieved2answer=table(g),
        retrieved2response=table(n),
    )
    scores = ragchecker_metrics(labels).by_qualified_name(RAGCHECKER)[0]
    filled = filled_formulas(labeling(labels, scores=scores, profile="ragbench+ragchecker_strict"))
    missing = scores.keys() - filled.keys()
    assert missing <= {"ragchecker.f1"}
    assert not missing or scores["ragchecker.f1"] == 0


def test_the_numbers_are_those_of_the_labels() -> None:
    labels = of_keys(("0a", "1b"), ("0a",), {"a": ("0a",), "b": (), "c": ("general",)})
    scores = trace_metrics(labels).by_qualified_name(TRACE)[0]
    filled = filled_formulas(labeling(labels, scores=scores))
    assert filled["trace.context_relevance"] == "|R| / T = 2 / 5"
    assert filled["trace.completeness"] == "|R ∩ U| / |R| = 1 / 2"
    assert filled["trace.adherence"] == "1 if all, else 0: 2 of 3 response sentences are supported"
    assert filled["trace.average"] == "mean of 0.4, 0.2, 0.5, 0"


def test_a_formula_that_gives_another_number_is_not_shown() -> None:
    labels = of_keys(("0a",), ("0a",), {})
    assert filled_formulas(labeling(labels, scores={"trace.context_relevance": 0.3})) == {}


def test_the_local_labelers_scores_have_their_expected_counts() -> None:
    found = LocalLabeler().label_now(interaction())
    filled = filled_formulas(labeling(*found.labels, scores=dict(found.scores), labeler="local"))
    assert filled.keys() == found.scores.keys() - {"retrieval.match"}  # it comes from words, not from labels
    assert filled["trace.context_relevance"].startswith("expected |R| / T = ")


def specimen(*labelings: SpecimenLabeling, one: RagInteraction | None = None) -> Specimen:
    whole = one or interaction(documents=["One. Two.", "Three."], response="Yes. No.")
    sentences = cut(whole)
    documents = [
        document.model_copy(update={"sentences": tuple(texts)})
        for document, texts in zip(whole.documents, sentences.documents, strict=True)
    ]
    shown = whole.model_copy(update={"documents": tuple(documents), "response_sentences": tuple(sentences.response)})
    return Specimen(interaction=shown, labelings=labelings, labeled_at=whole.occurred_at)


def test_sentences_have_the_marks_of_keys() -> None:
    labels = SentenceLabels(
        relevant=("0b", "1a"), utilized=None, support={"a": ("0b", "1a"), "b": ()}, n_document_sentences=3
    )
    one = specimen(labeling(labels, scores={}))
    found = marked(one, one.labelings[0])
    assert found.documents == (
        (DocumentSentence("0a", "One.", False, None, ()), DocumentSentence("0b", "Two.", True, None, ("a",))),
        (DocumentSentence("1a", "Three.", True, None, ("a",)),),
    )
    assert found.response == (
        ResponseSentence("a", "Yes.", True, ("0b", "1a")),
        ResponseSentence("b", "No.", False, ()),
    )


def test_sentences_have_the_probabilities_of_their_places() -> None:
    labels = SentenceProbabilities(relevant=(0.1, 0.2, 0.3), utilized=(0.4, 0.5, 0.6), supported=(0.7, 0.8))
    one = specimen(labeling(labels, scores={}))
    found = marked(one, one.labelings[0])
    assert [[(s.relevant, s.utilized) for s in document or ()] for document in found.documents] == [
        [(0.1, 0.4), (0.2, 0.5)],
        [(0.3, 0.6)],
    ]
    assert found.response is not None
    assert [sentence.supported for sentence in found.response] == [0.7, 0.8]
    without = one.interaction.documents[0].model_copy(update={"sentences": None})
    documents = (without, one.interaction.documents[1])
    partly = one.model_copy(update={"interaction": one.interaction.model_copy(update={"documents": documents})})
    shown = marked(partly, one.labelings[0]).documents
    assert shown[0] is None
    assert shown[1] == (DocumentSentence("1a", "Three.", None, None, ()),), "its place is unknown"


@pytest.mark.parametrize(("labeler", "shown"), [(None, "judge"), ("local", "local"), ("nobody", None)])
def test_the_marks_are_those_of_the_last_labeler_that_labels_sentences(labeler: str | None, shown: str | None) -> None:
    by_judge = of_keys((), (), {})
    local = SentenceProbabilities(relevant=(), utilized=(), supported=())
    one = specimen(
        labeling(local, scores={}, labeler="local"),
        labeling(by_judge, scores={}, labeler="judge"),
        labeling(scores={}, labeler="scores-only"),
    )
    found = labeling_to_show(one, labeler)
    assert (found and found.labeler) == shown
