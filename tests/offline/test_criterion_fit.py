"""`ragtide fit --criterion`: the proxy of a criterion, its comparison with a constant, and its scores."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtide import LocalLabeler
from ragtide_consumers.labelers.local.correction_file import CorrectionFile, load_correction
from ragtide_consumers.labelers.local.labeler import SHIPPED_VERSION
from ragtide_consumers.labelers.protocol import LabelerId
from ragtide_offline.demo import demo_interactions
from ragtide_offline.local_fit.criterion_fit import LEAST_OF_A_SIDE, CriterionFit, fit_criterion
from ragtide_offline.local_fit.examined import ExaminedInteractions, JudgedInteraction, examine
from ragtide_offline.local_fit.fitting import fit_correction
from ragtide_offline.local_fit.sources import GOLD, PEOPLE, Judgement, Judgements, answers_to
from ragtide_runtime.errors import ConfigurationError
from ragtide_schemas import RagInteraction
from ragtide_schemas.criterion import Criterion

pytestmark = pytest.mark.simulation

NOW = datetime(2026, 11, 1, tzinfo=UTC)
ASKS = Criterion(name="asks_back", question="Does the response ask a question back?", scale="yes_no")
DETAIL = Criterion(name="detail", question="How detailed is the response?", scale="1-5")


def asking(interaction: RagInteraction, number: int) -> RagInteraction:
    """Return an interaction whose response asks back, or not."""
    ends = " Which of them do you mean?" if number % 3 == 0 else " That is all."
    return interaction.model_copy(update={"response": interaction.response + ends, "response_sentences": None})


@cache
def asked() -> Sequence[RagInteraction]:
    return [asking(interaction, number) for number, interaction in enumerate(demo_interactions()[:90])]


def examined(criterion: Criterion, value: Callable[[int, RagInteraction], float]) -> ExaminedInteractions:
    rows = [JudgedInteraction(row, {criterion.metric: value(number, row)}) for number, row in enumerate(asked())]
    return examine(rows, criterion=criterion)


@cache
def found() -> CriterionFit:
    return fit_criterion(examined(ASKS, lambda number, _: float(number % 3 == 0)), ASKS)


@cache
def file() -> CorrectionFile:
    proxy = found().proxy(source="s", reference="judge", fitted_at=NOW)
    return found().file(None, proxy, similarity_sha256="")


def labeler(tmp_path: Path, criterion: Criterion = ASKS) -> LocalLabeler:
    path = tmp_path / "model.json"
    path.write_bytes(file().encode())
    return LocalLabeler(load_correction(path, SHIPPED_VERSION), criteria=(criterion,))


def test_a_proxy_that_the_features_can_give_surely_beats_a_constant_and_narrows_the_interval() -> None:
    assert found().regression is not None
    assert found().cross_validated.upper < 0
    assert found().correlation > 0.7
    assert found().width == pytest.approx((1 - found().correlation ** 2) ** 0.5)
    assert file().criteria["criteria.asks_back"].cross_validated.correlation == found().correlation


def test_the_local_labeler_publishes_the_proxys_score_with_the_declaration_of_the_judges(tmp_path: Path) -> None:
    mine, plain = labeler(tmp_path), LocalLabeler()
    scores = [mine.label_now(row).scores["criteria.asks_back"] for row in asked()]
    asks = np.arange(len(scores)) % 3 == 0
    assert np.mean(np.array(scores)[asks]) > np.mean(np.array(scores)[~asks]) + 0.3
    labeling = mine.label_now(asked()[0])
    assert labeling.declared == {"criteria.asks_back": ASKS.declaration()}
    before = plain.label_now(asked()[0])
    assert {name: score for name, score in labeling.scores.items() if name != "criteria.asks_back"} == before.scores
    assert labeling.absent == before.absent


def test_the_file_predicts_what_the_fit_predicts(tmp_path: Path) -> None:
    mine, regression = labeler(tmp_path), found().regression
    assert regression is not None
    rows = examined(ASKS, lambda *_: 1.0).rows
    for row, interaction in zip(rows[:10], asked(), strict=False):
        inputs = np.insert(np.array([row.proxy_inputs]), 1, 0.0, axis=1)
        expected = float(regression.predict(inputs)[0])
        assert mine.label_now(interaction).scores["criteria.asks_back"] == pytest.approx(expected, abs=1e-6)


def test_a_changed_question_makes_the_proxy_absent_and_other_criteria_have_none(tmp_path: Path) -> None:
    changed = ASKS.model_copy(update={"question": "Does the response ask for more details?"})
    labeling = labeler(tmp_path, changed).label_now(asked()[0])
    assert "criteria.asks_back" not in labeling.scores
    assert labeling.absent["criteria.asks_back"] == "proxy_outdated"
    assert labeling.declared == {"criteria.asks_back": changed.declaration()}
    other = labeler(tmp_path, DETAIL).label_now(asked()[0])
    assert not any(name.startswith("criteria.") for name in (*other.scores, *other.absent, *other.declared))
    elsewhere = labeler(tmp_path, ASKS.model_copy(update={"pipelines": ("other",)})).label_now(asked()[0])
    assert "criteria.asks_back" not in {**elsewhere.scores, **elsewhere.absent}


def test_what_the_labeler_does_not_score_has_no_proxy_score_and_a_reason(tmp_path: Path) -> None:
    mine, row = labeler(tmp_path), asked()[0]
    cases: dict[str, dict[str, Any]] = {
        "no_response": {"response": ""},
        "nothing_retrieved": {"documents": (), "nothing_retrieved": True},
        "language_not_supported": {"response": "Вежа червона, і вона стоїть у Парижі, а не в Києві."},
    }
    for reason, fields in cases.items():
        given = {**row.model_dump(exclude={"response_sentences", "nothing_retrieved"}), **fields}
        given.pop("nothing_retrieved", None)
        labeling = mine.label_now(RagInteraction.model_validate(given))
        assert labeling.absent["criteria.asks_back"] == reason
        assert "criteria.asks_back" not in labeling.scores


def test_a_scale_of_five_gives_scores_in_its_range() -> None:
    words = sorted(len(row.response.split()) for row in asked())
    result = fit_criterion(
        examined(DETAIL, lambda _, row: 1.0 + 4.0 * words.index(len(row.response.split())) // len(words)), DETAIL
    )
    assert result.regression is not None
    proxy = result.proxy(source="s", reference="judge", fitted_at=NOW)
    content = result.file(file(), proxy, similarity_sha256="")
    assert {*content.criteria} == {"criteria.asks_back", "criteria.detail"}
    mine = content.proxies()["criteria.detail"]
    scores = [mine.score(DETAIL, row.proxy_inputs) for row in examined(DETAIL, lambda *_: 1.0).rows]
    assert 1.0 <= min(scores) < 2.5
    assert 3.5 < max(scores) <= 5.0


def test_answers_that_no_feature_gives_are_refused_in_nearly_all_fits() -> None:
    rng, rows = np.random.default_rng(5), examined(ASKS, lambda *_: 1.0)
    kept = 0
    for _ in range(40):
        answers = rng.random(len(rows.rows)) < 0.3
        drawn = [
            replace(row, judged={ASKS.metric: float(answer)}) for row, answer in zip(rows.rows, answers, strict=True)
        ]
        kept += fit_criterion(ExaminedInteractions(drawn, {}), ASKS).regression is not None
    # A test at 2.5% on its side: more than 4 of 40 have a chance below 0.4%.
    assert kept <= 4


def test_a_proxy_that_does_not_beat_a_constant_has_no_file() -> None:
    lost = replace(found(), regression=None)
    with pytest.raises(ValueError, match="nothing to write"):
        lost.proxy(source="s", reference="judge", fitted_at=NOW)


def test_too_few_answers_of_a_kind_are_refused_in_words() -> None:
    with pytest.raises(ConfigurationError, match=f"only 5 are near 1, and a fit needs {LEAST_OF_A_SIDE}"):
        fit_criterion(examined(ASKS, lambda number, _: float(number < 5)), ASKS)
    few = examined(ASKS, lambda number, _: float(number % 2))
    with pytest.raises(ConfigurationError, match="4 different questions"):
        fit_criterion(ExaminedInteractions(few.rows[:4], {}), ASKS)


def test_a_fit_of_other_scores_keeps_nothing_of_criteria_and_the_proxy_keeps_the_scores() -> None:
    low = 0.3
    judged = [
        JudgedInteraction(row, {"trace.context_relevance": low + 0.6 * scores["trace.context_relevance"]})
        for row in asked()
        if "trace.context_relevance" in (scores := LocalLabeler().label_now(row).scores)
    ]
    content = fit_correction(examine(judged)).file(source="s", reference="judge", fitted_at=NOW)
    proxy = found().proxy(source="s", reference="judge", fitted_at=NOW)
    both = found().file(content, proxy, similarity_sha256="")
    assert both.scores == content.scores
    assert both.criteria == {"criteria.asks_back": proxy}
    assert CorrectionFile.decode(both.encode()) == both


def test_answers_to_another_question_are_not_learned() -> None:
    judgements, judge = Judgements(answers_to(ASKS)), LabelerId("judge", "1", "ragbench")
    for number, version in enumerate(("0123456789abcdef", ASKS.version)):
        versions = {ASKS.metric: version}
        judgements.add(judge, str(number), Judgement({ASKS.metric: 1.0}, NOW, 1.0, versions))
    judgements.add(judge, "2", Judgement({ASKS.metric: 1.0}, NOW, 1.0))
    judgements.add(judge, "3", Judgement({ASKS.metric: 1.5}, NOW, 1.0, {ASKS.metric: ASKS.version}))
    assert [*judgements.of(None)[1]] == ["1"]
    judgements.add(PEOPLE, "4", Judgement({ASKS.metric: 0.0}, NOW, 1.0))
    assert [*judgements.of(GOLD)[1]] == ["4"]
