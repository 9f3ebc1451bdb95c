"""`ragtide fit`: the regression, the decision score by score, and the sources of judged interactions."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.recorded import record

from ragtide import LocalLabeler
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_consumers.labelers.local.adjustment import predicted_score
from ragtide_consumers.labelers.local.correction import inputs_of
from ragtide_consumers.labelers.local.correction_file import CrossValidated
from ragtide_consumers.labelers.protocol import LabelerId, Labeling, ReferenceLabeling
from ragtide_offline.agreement.predictions import Predictions
from ragtide_offline.demo import demo_interactions
from ragtide_offline.local_fit import fitting, sources
from ragtide_offline.local_fit.examined import ExaminedInteractions, JudgedInteraction, examine
from ragtide_offline.local_fit.fitting import LEAST_QUESTIONS, FitResult, fit_correction
from ragtide_offline.local_fit.regression import Floats, cross_fit, fit, folds_of, loss_difference
from ragtide_offline.local_fit.sources import (
    PEOPLE,
    Judgement,
    Judgements,
    gather_recorded,
    gather_rows,
    reference_text,
)
from ragtide_offline.replay.selection import selection
from ragtide_producers.files.interactions import Row
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, RecordedEntry
from ragtide_schemas import Feedback, RagInteraction

pytestmark = pytest.mark.simulation

NOW = datetime(2026, 11, 1, tzinfo=UTC)
TRACE = ("trace.context_relevance", "trace.context_utilization", "trace.adherence")


def lenient(scores: dict[str, float]) -> dict[str, float]:
    """Return the scores of a judge that calls more relevant, and whose other scores are those of the labeler."""
    return {**scores, TRACE[0]: min(1.0, 0.3 + 0.6 * scores[TRACE[0]])}


@cache
def judged(count: int = 60) -> Sequence[JudgedInteraction]:
    """Return interactions with the scores of a lenient judge."""
    labeler = LocalLabeler()
    return [
        JudgedInteraction(interaction, lenient(dict(labeler.label_now(interaction).scores)))
        for interaction in demo_interactions()[:count]
    ]


@cache
def result() -> FitResult:
    return fit_correction(examine(judged()))


def test_a_score_that_the_fit_makes_better_is_fitted_and_the_others_stay_as_shipped() -> None:
    found = {one.score: one for one in result().scores}
    assert found["context_relevance"].is_fitted
    loss = found["context_relevance"].cross_validated
    assert loss is not None
    assert loss.upper < 0
    assert loss.fitted < loss.shipped / 10
    for score in ("context_utilization", "adherence"):
        assert not found[score].is_fitted
        assert "not surely better" in found[score].reason
    assert [*result().fitted] == ["context_relevance"]


@pytest.mark.parametrize(("upper", "fitted"), [(-0.001, True), (0.0, False), (0.001, False)])
def test_a_fit_is_used_only_if_the_whole_interval_is_better(
    upper: float, fitted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = CrossValidated(
        interactions=60, questions=60, shipped=0.04, fitted=0.03, difference=-0.01, lower=-0.03, upper=upper
    )
    monkeypatch.setattr(fitting, "loss_difference", lambda *_, **__: found)
    scores = fit_correction(examine(judged()[:30])).scores
    assert [score.is_fitted for score in scores] == [fitted] * 3


def test_adherence_is_not_fitted_if_the_share_of_supported_sentences_would_be_worse() -> None:
    labeler, rows = LocalLabeler(), []
    for interaction in demo_interactions()[:60]:
        own = labeler.label_now(interaction).scores
        if "trace.supported_fraction" not in own:  # a refusal claims nothing
            continue
        # A contradictory judge: no response is supported, and each of its sentences is.
        scores = {TRACE[2]: 0.0, "trace.supported_fraction": own["trace.supported_fraction"]}
        rows.append(JudgedInteraction(interaction, scores))
    adherence = fit_correction(examine(rows)).scores[-1]
    assert adherence.cross_validated is not None
    assert adherence.cross_validated.upper < 0
    assert (adherence.is_fitted, "supported_fraction worse" in adherence.reason) == (False, True)


def test_the_file_predicts_what_the_fit_predicts() -> None:
    content = result().file(source="s", reference="judge", fitted_at=NOW)
    again = type(content).decode(content.encode())
    assert again == content
    terms = again.correction().terms["context_relevance"]
    for row in examine(judged()[:10]).rows:
        inputs = inputs_of(row.summary, row.shipped["context_relevance"])
        own = result().fitted["context_relevance"].predict(np.array([inputs]))
        assert predicted_score(terms, inputs) == pytest.approx(float(own[0]), abs=1e-6)
    assert content.interactions == 60
    assert content.last_occurred_at == max(one.interaction.occurred_at for one in judged())


def test_without_a_better_score_there_is_no_file() -> None:
    own = [JudgedInteraction(one.interaction, LocalLabeler().label_now(one.interaction).scores) for one in judged()]
    found = fit_correction(examine(own[:30]))
    assert not found.fitted
    with pytest.raises(ValueError, match="nothing to write"):
        found.file(source="s", reference="judge", fitted_at=NOW)


def test_too_few_questions_are_refused_however_many_answers_they_have() -> None:
    same = [one for one in judged()[: LEAST_QUESTIONS - 1] for _ in range(5)]
    with pytest.raises(ConfigurationError, match=f"{LEAST_QUESTIONS - 1} different questions"):
        fit_correction(examine(same))


def test_a_score_that_few_interactions_have_stays_as_shipped() -> None:
    some = [
        JudgedInteraction(one.interaction, one.scores if number < 5 else {TRACE[0]: one.scores[TRACE[0]]})
        for number, one in enumerate(judged())
    ]
    found = {score.score: score for score in fit_correction(examine(some)).scores}
    assert found["adherence"].cross_validated is None
    assert "5 questions" in found["adherence"].reason
    assert found["context_relevance"].is_fitted


def test_interactions_that_the_labeler_does_not_score_are_counted_by_reason() -> None:
    texts = {"en": "The tower is red. It stands in Paris.", "uk": "Вежа червона, і вона стоїть у Парижі."}
    rows = [
        RagInteraction(pipeline="p", question="q?", documents=[text], response=text)
        for text in (*texts.values(), "")
        if text
    ]
    empty = RagInteraction(pipeline="p", question="q?", documents=[texts["en"]], response="")
    scores = {TRACE[0]: 0.5}
    found = examine([*(JudgedInteraction(one, scores) for one in (*rows, empty)), JudgedInteraction(rows[0], {})])
    assert len(found.rows) == 1
    assert found.unused == {"language_not_supported": 1, "no_response": 1, "no_score": 1}


NOUNS = ("мост", "музей", "театр", "вокзал", "завод", "парк", "храм", "порт")
CITIES = ("Казани", "Самаре", "Томске", "Перми", "Омске", "Уфе")


def russian() -> list[RagInteraction]:
    """Return Russian interactions with many different features."""
    found = []
    for number in range(48):
        noun, city, year = NOUNS[number % 8], CITIES[number % 6], 1850 + number
        document = f"В {city} есть {noun}. Его построили в {year} году. Рядом течёт река. Жители любят это место."
        answer = f"{noun.capitalize()} построили в {year} году." if number % 3 else "Пингвины плавают в океане."
        found.append(
            RagInteraction(
                pipeline="p",
                interaction_id=str(number),
                occurred_at=NOW,
                question=f"Когда построили {noun} в {city}?",
                documents=[document, f"Погода в {city} меняется часто."] if number % 2 else [document],
                response=answer,
            )
        )
    return found


def test_russian_interactions_are_fitted_like_english_ones() -> None:
    labeler = LocalLabeler()
    rows = [
        JudgedInteraction(interaction, lenient(dict(labeler.label_now(interaction).scores)))
        for interaction in russian()
    ]
    found = fit_correction(examine(rows))
    assert found.interactions == 48
    assert "context_relevance" in found.fitted


def test_the_same_interactions_in_another_order_give_the_same_folds() -> None:
    questions = [f"q{number % 17}" for number in range(50)]
    folds = dict(zip(questions, folds_of(questions).tolist(), strict=True))
    assert folds == dict(zip(questions[::-1], folds_of(questions[::-1]).tolist(), strict=True))
    assert sorted(np.bincount(folds_of([str(number) for number in range(53)]))) == [10, 10, 11, 11, 11]


def noise(n: int, seed: int, features: int = 12) -> tuple[Floats, Floats, Floats, Floats, list[str]]:
    """Return inputs whose features say nothing about the score beside the shipped score."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=n)
    shipped = 1 / (1 + np.exp(-logits))
    x = np.c_[np.ones(n), logits, rng.normal(size=(n, features))]
    return x, (rng.random(n) < shipped).astype(np.float64), shipped, np.ones(n), [str(number) for number in range(n)]


def test_of_fits_to_noise_hardly_any_is_taken_for_better() -> None:
    taken = 0
    for seed in range(8):
        x, y, shipped, weights, questions = noise(30, seed)
        predicted = cross_fit(x, y, weights, questions)
        taken += loss_difference(y, shipped, predicted, weights, questions, confidence=0.95).upper < 0
    assert taken <= 1


def test_a_question_is_never_predicted_by_a_fit_to_its_own_answers() -> None:
    x, y, _, weights, _ = noise(60, 1)
    questions = [str(number % 31) for number in range(60)]
    predicted = cross_fit(x, y, weights, questions)
    for question in range(5):
        own = np.array([name == str(question) for name in questions])
        changed = np.where(own, 1 - y, y)
        again = cross_fit(x, changed, weights, questions)
        assert again[own] == pytest.approx(predicted[own])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_a_fit_has_the_mean_of_the_scores_and_is_limited_to_the_range_that_it_has_seen(seed: int) -> None:
    x, y, _, weights, _ = noise(30, seed)
    found = fit(x, y, weights)
    far = x.copy()
    far[:, 2:] *= 1_000
    assert np.all(np.isfinite(found.predict(far)))
    near = np.clip(far, found.lowest, found.highest)
    assert found.predict(far) == pytest.approx(found.predict(near))
    # The level is hardly penalized, so the mean of the predictions is near the mean of the scores.
    assert abs(float(found.predict(x).mean() - y.mean())) < 0.05


def test_constant_scores_and_constant_features_give_a_finite_fit() -> None:
    x, _, _, weights, questions = noise(30, 3)
    x[:, 2:] = 1.0
    for y in (np.zeros(30), np.ones(30)):
        assert np.all(np.isfinite(cross_fit(x, y, weights, questions)))


def test_a_weight_counts_like_that_many_copies() -> None:
    x, y, *_ = noise(30, 4)
    weights = np.where(np.arange(30) < 10, 3.0, 1.0)
    copies = np.repeat(np.arange(30), weights.astype(int))
    weighted = fit(x, y, weights).predict(x)
    # Weights have the mean 1, so a penalty counts less beside more interactions.
    assert weighted == pytest.approx(fit(x[copies], y[copies], np.ones(len(copies))).predict(x), abs=0.05)


def test_the_interval_of_the_difference_counts_questions_and_not_answers() -> None:
    rng = np.random.default_rng(5)
    y, shipped, fitted = rng.random((3, 30))
    names = [str(number) for number in range(30)]
    single = loss_difference(y, shipped, fitted, np.ones(30), names, confidence=0.95)
    two = [np.tile(part, 2) for part in (y, shipped, fitted)]
    twice = loss_difference(two[0], two[1], two[2], np.ones(60), names * 2, confidence=0.95)
    assert (twice.interactions, twice.questions) == (60, 30)
    assert twice.difference == pytest.approx(single.difference)
    assert (twice.lower, twice.upper) == pytest.approx((single.lower, single.upper))


def test_the_interval_of_independent_differences_is_students() -> None:
    rng = np.random.default_rng(6)
    y, shipped, fitted = rng.random((3, 30))
    found = loss_difference(y, shipped, fitted, np.ones(30), [str(n) for n in range(30)], confidence=0.9)
    gaps = (fitted - y) ** 2 - (shipped - y) ** 2
    half = 1.6991270265334972 * float(gaps.std(ddof=1)) / 30**0.5  # the 95% quantile at 29 degrees of freedom
    assert (found.lower, found.upper) == pytest.approx((gaps.mean() - half, gaps.mean() + half))


def entries() -> list[tuple[EntryKind, RecordedEntry]]:
    """Return a recording of 40 interactions: every second was judged, with another probability for some."""
    labeler, found = LocalLabeler(), list[tuple[EntryKind, RecordedEntry]]()
    for number, one in enumerate(demo_interactions()[:40]):
        interaction = one.model_copy(update={"occurred_at": NOW + timedelta(minutes=number), "gold_scores": {}})
        labeling = labeler.label_now(interaction)
        judge = Labeling(lenient(dict(labeling.scores)))
        if number % 2 == 0:
            by = LabelerId("judge", "2" if number % 4 == 0 or number < 10 else "1", "ragbench")
            beside = ReferenceLabeling(
                judge, by, inclusion_probability=0.05 if number < 20 else 1.0, uniform_probability=0.05
            )
            labeling = Labeling(labeling.scores, judged=beside)
        event = metric_event(interaction, labeler_id(labeler), labeling, labeled_at=NOW, latency_s=0.0)
        entry_id = f"{int((NOW + timedelta(minutes=number)).timestamp() * 1000)}-0"
        found += [
            (EntryKind.INTERACTIONS, RecordedEntry(0, entry_id, interaction)),
            (EntryKind.METRICS, RecordedEntry(0, entry_id, event)),
        ]
        if number < 3:
            gold = Feedback(
                pipeline=interaction.pipeline,
                interaction_id=interaction.interaction_id,
                gold_scores={TRACE[2]: 1.0},
                given_at=NOW,
                inclusion_probability=0.1,
            )
            found.append((EntryKind.FEEDBACK, RecordedEntry(0, entry_id, gold)))
    return found


def test_a_recording_gives_the_judged_interactions_of_one_labeler_with_their_weights(tmp_path: Path) -> None:
    recording = record(entries(), tmp_path)
    with pytest.raises(ConfigurationError, match=r"scores by judge \(20\), gold \(3\): choose with --reference"):
        gather_recorded(recording, selection(), run=None, reference=None)
    with pytest.raises(ConfigurationError, match=r"--reference nli has scored no interaction"):
        gather_recorded(recording, selection(), run=None, reference="nli")
    found = gather_recorded(recording, selection(), run=None, reference="judge")
    assert found.reference == LabelerId("judge", "2", "ragbench")
    assert {one.weight for one in found.interactions} == {1.0, 20.0}
    assert len(found.interactions) == 12
    assert all(one.scores.keys() >= set(TRACE) for one in found.interactions)
    people = gather_recorded(recording, selection(), run=None, reference="gold")
    assert [(one.scores, one.weight) for one in people.interactions] == 3 * [({TRACE[2]: 1.0}, 10.0)]
    later = gather_recorded(recording, selection(since="2026-11-01T00:25:00Z"), run=None, reference="judge")
    assert min(one.interaction.occurred_at for one in later.interactions) >= NOW + timedelta(minutes=25)
    with pytest.raises(ConfigurationError, match="no interaction has scores"):
        gather_recorded(recording, selection(), run="nightly", reference=None)


def test_a_judges_own_scores_are_taken_only_if_it_is_named(tmp_path: Path) -> None:
    recording = record(entries(), tmp_path)
    assert len(gather_recorded(recording, selection(), run=None, reference="local").interactions) == 20


def test_interactions_whose_texts_are_gone_are_counted(tmp_path: Path) -> None:
    some = [entry for number, entry in enumerate(entries()) if number or entry[0] is not EntryKind.INTERACTIONS]
    found = gather_recorded(record(some, tmp_path), selection(), run=None, reference="gold")
    assert (len(found.interactions), found.missing) == (2, 1)


def rows(change: Callable[[RagInteraction], dict[str, object]]) -> list[Row]:
    return [
        Row(number, interaction.model_copy(update=change(interaction)))
        for number, interaction in enumerate(demo_interactions()[:30])
    ]


def test_a_file_gives_its_gold_scores_or_those_of_a_judge_in_another_file() -> None:
    found = gather_rows(rows(lambda _: {"gold_scores": {TRACE[0]: 0.5, "thumbs": 1.0}}), [], None)
    assert found.reference == PEOPLE
    assert {tuple(one.scores.items()) for one in found.interactions} == {((TRACE[0], 0.5),)}
    some = {
        (interaction.pipeline, interaction.interaction_id): {TRACE[2]: 1.0} for interaction in demo_interactions()[:7]
    }
    by_judge = gather_rows(
        rows(lambda _: {"gold_scores": {}}), [Predictions(LabelerId("judge", "1", "ragbench"), some, {})], None
    )
    assert reference_text(by_judge.reference) == "judge 1 (ragbench)"
    assert len(by_judge.interactions) == 7


def test_scores_of_another_scale_or_out_of_range_are_never_learned() -> None:
    judgements = Judgements()
    judgements.add(LabelerId("judge", "1", "capstone+ragchecker"), "a", Judgement({TRACE[0]: 0.5}, NOW, 1.0))
    judgements.add(LabelerId("mine", "", ""), "b", Judgement({TRACE[0]: 7.0}, NOW, 1.0))
    assert not judgements.by_reference


def test_of_very_many_interactions_the_newest_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MOST", 50)
    judgements = Judgements()
    for number in range(105):
        judgement = Judgement({TRACE[0]: 0.5}, NOW + timedelta(seconds=number), 1.0)
        judgements.add(LabelerId("judge", "", ""), str(number), judgement)
        assert len(judgements.by_reference[LabelerId("judge", "", "")]) < 100
    _, kept = judgements.of(None)
    assert {int(digest) for digest in kept} == set(range(55, 105))


def test_nothing_to_fit_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="0 different questions"):
        fit_correction(ExaminedInteractions([], {"no_response": 3}))
