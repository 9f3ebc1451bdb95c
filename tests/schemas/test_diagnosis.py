import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_schemas import METRICS
from ragtide_schemas.diagnosis import PATTERNS, band_of, diagnose

CASES = {
    "nothing_retrieved": {"retrieval.empty": 0.4, "response.empty": 0.0},
    "no_response": {"retrieval.empty": 0.0, "response.empty": 0.4},
    "context_ignored": {"trace.context_relevance": 0.6, "trace.context_utilization": 0.05},
    "too_conservative": {"trace.completeness": 0.2, "trace.adherence": 0.95},
    "unsupported_answers": {"trace.context_relevance": 0.5, "trace.adherence": 0.4},
    "detached_answers": {"trace.context_utilization": 0.05, "trace.adherence": 0.3},
    "detached_from_right_documents": {
        "retrieval.match": 0.5,
        "trace.context_utilization": 0.05,
        "trace.adherence": 0.3,
    },
    "wrong_documents": {"retrieval.match": 0.03, "trace.context_relevance": 0.05},
    "answers_from_wrong_documents": {
        "retrieval.match": 0.03,
        "trace.context_relevance": 0.05,
        "trace.adherence": 0.9,
    },
    "irrelevant_context": {"trace.context_relevance": 0.05, "trace.adherence": 0.9},
    "pipeline_poor": {
        "trace.context_relevance": 0.1,
        "trace.context_utilization": 0.05,
        "trace.completeness": 0.1,
        "trace.adherence": 0.3,
    },
    "making_things_up": {"ragchecker.precision": 0.3, "ragchecker.hallucination": 0.4},
    "misled_by_relevant_documents": {"ragchecker.precision": 0.3, "ragchecker.noise_sensitivity_in_relevant": 0.5},
    "misled_by_irrelevant_documents": {"ragchecker.precision": 0.3, "ragchecker.noise_sensitivity_in_irrelevant": 0.3},
    "retriever_misses": {"ragchecker.recall": 0.2, "ragchecker.claim_recall": 0.3},
    "generator_misses": {"ragchecker.recall": 0.2, "ragchecker.claim_recall": 0.95},
    "claims_pipeline_poor": {
        "ragchecker.precision": 0.1,
        "ragchecker.recall": 0.1,
        "ragchecker.claim_recall": 0.1,
        "ragchecker.faithfulness": 0.1,
    },
}


@pytest.mark.parametrize("name", CASES)
def test_each_pattern_is_found_with_its_evidence_and_advice(name: str) -> None:
    (found,) = diagnose(CASES[name])
    assert found.pattern.name == name
    assert found.certain
    for metric in found.pattern.conditions:
        assert f"{metric.rpartition('.')[2]} {CASES[name][metric]:.2f}" in found.sentence()
    assert found.pattern.advice in found.sentence()


def test_every_pattern_has_a_case_and_known_metrics_with_bands() -> None:
    assert {pattern.name for pattern in PATTERNS} == set(CASES)
    banded = {name for name, metric in METRICS.items() if metric.bands is not None} | {"retrieval.match"}
    assert banded >= {metric for pattern in PATTERNS for metric in pattern.conditions}


def test_good_scores_and_missing_ones_have_no_diagnosis() -> None:
    assert diagnose({}) == []
    good = {name: metric.bands.excellent for name, metric in METRICS.items() if metric.bands is not None}
    assert diagnose(good | {"retrieval.match": 0.2}) == []


def test_a_window_whose_interval_reaches_out_of_the_pattern_is_said_with_a_perhaps() -> None:
    window = {"trace.context_relevance": 0.6, "trace.context_utilization": 0.05}
    ends: dict[str, tuple[float | None, float | None]] = {
        "trace.context_relevance": (0.5, 0.7),
        "trace.context_utilization": (0.01, 0.2),
    }
    (found,) = diagnose(window, ends)
    assert not found.certain
    assert found.sentence().startswith("Perhaps: the generator ignores good context")
    assert diagnose(window, ends | {"trace.context_utilization": (0.03, 0.07)})[0].certain


@given(st.dictionaries(st.sampled_from(list(METRICS)), st.floats(0, 1)))
def test_whatever_the_scores_each_diagnosis_is_shown_by_its_evidence(values: dict[str, float]) -> None:
    for found in diagnose(values):
        assert set(found.evidence) == set(found.pattern.conditions)
        for metric, quality in found.pattern.conditions.items():
            band = band_of(metric, values[metric])
            assert band == "poor" if quality == "poor" else band in {"good", "excellent"}


@pytest.mark.parametrize(("value", "band"), [(0.2, "poor"), (0.12, "acceptable"), (0.07, "good"), (0.01, "excellent")])
def test_a_metric_that_should_be_low_is_the_better_the_lower(value: float, band: str) -> None:
    assert METRICS["ragchecker.hallucination"].band(value) == band
