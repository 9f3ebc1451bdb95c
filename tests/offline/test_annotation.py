"""Questions, gold scores and probabilities of annotations."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.offline.test_datasets import specimen

from ragtide.testing import interaction
from ragtide_consumers.metrics.trace import PROFILES, trace_metrics
from ragtide_roles.kept.annotations import Annotation
from ragtide_roles.kept.questions import ADHERENCE, SUPPORTED, WHOLE, gold_scores, questions
from ragtide_roles.kept.queue import ItemToAnnotate, asked_probability, difference, draw_of, left
from ragtide_schemas import SentenceLabels, SpecimenLabeling, utc_now

pytestmark = pytest.mark.pure

SCORES = {SUPPORTED: 0.5, "trace.context_relevance": 0.25}


def annotation(**changes: Any) -> Annotation:
    fields = {"pipeline": "shop", "interaction_id": "i-0", "annotator": "ann", "given_at": utc_now(), **changes}
    return Annotation(**fields)


@given(st.lists(st.booleans(), min_size=1, max_size=5), st.sampled_from(sorted(PROFILES)))
def test_the_gold_scores_of_sentences_are_those_of_the_metric(answers: list[bool], profile: str) -> None:
    supported = {"abcde"[place]: answer for place, answer in enumerate(answers)}
    labels = SentenceLabels(
        relevant=(),
        utilized=(),
        support={key: ("0a",) if yes else () for key, yes in supported.items()},
        fully_supported=dict(supported),
        n_document_sentences=1,
    )
    expected = trace_metrics(labels, profile=profile).scores
    found = gold_scores(specimen(interaction(0), SCORES), supported, {})
    assert found[ADHERENCE] == expected["adherence"]
    assert found[SUPPORTED] == pytest.approx(expected["supported_fraction"])


def test_ratings_are_shares() -> None:
    one = specimen(interaction(0), SCORES)
    found = [gold_scores(one, {}, {"trace.context_relevance": k})["trace.context_relevance"] for k in range(1, 6)]
    assert found == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_each_sentence_and_only_metrics_with_a_score_are_asked() -> None:
    one = specimen(interaction(0, response="A. B.", response_sentences=["A.", "B."]), SCORES)
    asked = questions(one, ["trace.context_relevance", "trace.completeness"])
    assert [(each.name, each.keys[0]) for each in asked] == [("a", "y"), ("b", "y"), ("trace.context_relevance", "1")]
    whole = specimen(interaction(0, response="A. B."))
    assert [each.name for each in questions(whole)] == [WHOLE]
    assert gold_scores(whole, {WHOLE: True}, {}) == {ADHERENCE: 1.0}, "the share of sentences is unknown"
    labeling = SpecimenLabeling(labeler="local", labeler_version="1", profile="capstone", scores=SCORES)
    other = one.model_copy(update={"labelings": (labeling,)})
    assert questions(other, ["trace.context_relevance"]) == [], "another scale, and no score of adherence"


@given(st.none() | st.floats(0.001, 1), st.booleans())
def test_only_an_answer_about_the_sample_becomes_feedback(probability: float | None, skipped: bool) -> None:
    gold = {} if skipped else {ADHERENCE: 1.0}
    found = annotation(inclusion_probability=probability, skipped=skipped, gold_scores=gold).feedback()
    assert (found is None) == (probability is None or skipped)
    if found is not None:
        assert (found.inclusion_probability, found.gold_scores, found.annotator) == (probability, gold, "ann")


def test_the_probability_is_that_of_a_scored_interaction_times_the_share() -> None:
    one = specimen(interaction(0, sampling_probability=0.5)).model_copy(update={"sample_probability": 0.01})
    assert asked_probability(one, 0.25) == pytest.approx(0.02 * 0.25)


def test_draws_are_uniform_and_depend_on_pipeline_and_id_alone() -> None:
    draws = sorted(draw_of("shop", f"i-{number}") for number in range(2000))
    assert max(abs(draw - place / 2000) for place, draw in enumerate(draws)) < 0.05
    assert draw_of("shop", "i-1") == draw_of("shop", "i-1") != draw_of("help", "i-1")


def test_nobody_is_asked_twice_and_two_people_may_be_asked() -> None:
    queue = [ItemToAnnotate(specimen(interaction(number)), 0.1) for number in range(3)]
    done = [annotation(), annotation(interaction_id="i-1", skipped=True), annotation(annotator="bob")]
    ids = [one.specimen.interaction.interaction_id for one in left(queue, done, "ann")]
    assert ids == ["i-2"]
    assert len(left(queue, done, "bob")) == 2


def test_disputed_is_the_difference_of_two_labelers() -> None:
    one = specimen(interaction(0))
    judge = SpecimenLabeling(labeler="judge", labeler_version="1", profile="ragbench", scores={ADHERENCE: 1.0})
    assert difference(one, [ADHERENCE]) == 0.0
    both = one.model_copy(update={"labelings": (*one.labelings, judge)})
    assert difference(both, [ADHERENCE, "trace.completeness"]) == 0.75


@pytest.mark.parametrize(
    "fields",
    [
        {"rating": 3},
        {"saw_scores": True},
        {"saw_scores": True, "rating": 3, "gold_scores": {ADHERENCE: 1.0}},
        {"saw_scores": True, "rating": 3, "inclusion_probability": 0.5},
    ],
)
def test_a_person_who_saw_the_scores_gives_a_rating_and_no_gold_score(fields: dict[str, Any]) -> None:
    assert annotation(saw_scores=True, rating=3).feedback() is None
    with pytest.raises(ValidationError, match="saw the scores gives"):
        annotation(**fields)
