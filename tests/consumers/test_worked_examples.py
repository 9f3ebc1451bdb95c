"""Every worked example of the TRACe documents, with the corrected numbers where the printed ones were wrong."""

import json
from math import sqrt
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest

from ragtide import SentenceLabels, trace_metrics
from ragtide_aggregator.statistics.intervals.rmse import aggregated_rmse, consistency_score

CASES = json.loads(
    (Path(__file__).parents[1] / "data" / "trace-metric-cases" / "cases_dev.json").read_text(encoding="utf-8")
)
FOUR = ("context_relevance", "context_utilization", "completeness", "adherence")


def labels(relevant: int, utilized: int, both: int, total: int, supported: list[bool]) -> SentenceLabels:
    """Return labels with so many relevant and utilized sentences of a total, `both` of them relevant and utilized."""
    keys = [f"0k{index}" for index in range(total)]
    sentences = "abcdefghij"[: len(supported)]
    return SentenceLabels(
        relevant=keys[:relevant],
        utilized=keys[relevant - both : relevant - both + utilized],
        support={key: [keys[0]] if good else [] for key, good in zip(sentences, supported, strict=True)},
        fully_supported=dict(zip(sentences, supported, strict=True)),
        n_document_sentences=total,
    )


@pytest.mark.parametrize("example", CASES["seed_document_dispersion_examples"], ids=lambda example: example["where"])
def test_the_dispersions_are_the_corrected_ones_and_not_the_printed(example: dict[str, Any]) -> None:
    assert pstdev(example["values"]) == pytest.approx(example["correct_population_sd"], abs=1e-12)
    if example["where"] != "seed 000 example 1":
        assert abs(pstdev(example["values"]) - example["stated"]) > 0.001


def test_error_against_truth_of_several_pairs() -> None:
    case = CASES["rmse_case"]
    squares = {
        name: fmean((pair["predicted"][name] - pair["truth"][name]) ** 2 for pair in case["pairs"])
        for name in case["pairs"][0]["truth"]
    }
    assert {name: sqrt(square) for name, square in squares.items()} == pytest.approx(
        case["expected"]["per_metric_rmse"]
    )
    assert aggregated_rmse(list(squares.values())) == pytest.approx(case["expected"]["aggregated_rmse"])


def test_the_walk_through_of_the_visual_guide_in_both_profiles() -> None:
    # Six document sentences, four relevant, three utilized, all three relevant; one response sentence of two supported.
    example = labels(relevant=4, utilized=3, both=3, total=6, supported=[True, False])
    capstone = trace_metrics(example, profile="capstone").scores
    assert [capstone[name] for name in FOUR] == pytest.approx([0.20, 0.75, 0.75, 0.0])
    assert capstone["average"] == pytest.approx(0.425)
    assert capstone["rmse_aggregation"] == pytest.approx(0.3326, abs=5e-5)  # printed: 0.437
    assert 1 - capstone["rmse_aggregation"] == pytest.approx(0.667, abs=5e-4)  # printed: 0.563
    ragbench = trace_metrics(example).scores
    assert [ragbench[name] for name in FOUR] == pytest.approx([4 / 6, 3 / 6, 3 / 4, 0.0])


def test_the_ratios_of_the_labelling_guide() -> None:
    scores = trace_metrics(labels(relevant=12, utilized=8, both=8, total=30, supported=[True])).scores
    assert scores["context_relevance"] == pytest.approx(0.40)
    assert scores["completeness"] == pytest.approx(0.667, abs=5e-4)
    capstone = trace_metrics(labels(12, 8, 8, 30, [True]), profile="capstone").scores
    assert capstone["context_relevance"] == pytest.approx(0.60)  # the same sentences, divided by 20
    assert trace_metrics(labels(7, 4, 4, 10, [True])).scores["completeness"] == pytest.approx(0.571, abs=5e-4)


def test_step_three_of_the_labelling_guide() -> None:
    # Three of the four shown sentences are relevant, three are utilized, two of them relevant.
    example = labels(relevant=3, utilized=3, both=2, total=4, supported=[True])
    assert trace_metrics(example).scores["context_relevance"] == pytest.approx(0.75)  # printed: 0.15
    assert trace_metrics(example, profile="capstone").scores["context_relevance"] == pytest.approx(0.15)
    assert trace_metrics(example, profile="capstone").scores["context_utilization"] == 1.0
    assert trace_metrics(example).scores["completeness"] == pytest.approx(2 / 3)


def test_the_full_example_of_the_labelling_guide() -> None:
    example = labels(relevant=4, utilized=4, both=4, total=7, supported=[True, False])
    assert trace_metrics(example, profile="capstone").scores["context_relevance"] == pytest.approx(0.20)
    assert trace_metrics(example, profile="capstone").scores["average"] == pytest.approx(0.55)
    assert trace_metrics(example).scores["context_relevance"] == pytest.approx(0.571, abs=5e-4)
    assert trace_metrics(example).scores["average"] == pytest.approx(0.536, abs=5e-4)


def test_the_orders_the_guide_claims_do_not_hold() -> None:
    """The guide says completeness <= utilization <= relevance, and that relevance 0 makes completeness 0."""
    used_more = trace_metrics(labels(relevant=2, utilized=4, both=2, total=8, supported=[True])).scores
    assert used_more["context_utilization"] > used_more["context_relevance"]
    assert used_more["completeness"] > used_more["context_utilization"]
    nothing = labels(relevant=0, utilized=0, both=0, total=8, supported=[True])
    assert trace_metrics(nothing, profile="capstone").scores["completeness"] == 1.0
    assert trace_metrics(nothing).absent["completeness"] == "no_relevant_sentences"


def test_error_against_truth_of_one_row_and_of_a_batch() -> None:
    errors = (0.05, 0.08, 0.03, 0.12)
    assert sqrt(sum(error**2 for error in errors) / 4) == pytest.approx(0.0778, abs=5e-5)  # printed: 0.074
    assert aggregated_rmse([error**2 for error in errors]) == pytest.approx(0.0778, abs=5e-5)
    batch = (0.045, 0.062, 0.038, 0.091)
    aggregated = aggregated_rmse([error**2 for error in batch])
    assert aggregated == pytest.approx(0.0624, abs=5e-5)  # printed: 0.058
    assert consistency_score(aggregated) == pytest.approx(0.938, abs=5e-4)  # printed: 0.942


def test_the_sample_json_has_no_adherence_although_it_says_it_is_supported() -> None:
    """Eight sentences fully and one partially supported: printed adherence 0.84, overall_supported true."""
    sentences = "abcdefghi"
    found = trace_metrics(
        SentenceLabels(
            relevant=["0a"],
            utilized=["0a"],
            support={key: ["0a"] for key in sentences},
            fully_supported={key: key != "i" for key in sentences},
            n_document_sentences=4,
        )
    )
    assert found.scores["adherence"] == 0.0
    assert found.scores["supported_fraction"] == pytest.approx(8 / 9)
    assert found.counts == {"fully_supported": 8, "partially_supported": 1, "unsupported": 0}


def test_an_empty_answer_has_no_adherence_in_ragbench_and_a_perfect_one_in_capstone() -> None:
    empty = labels(relevant=2, utilized=0, both=0, total=5, supported=[])
    assert trace_metrics(empty).absent["adherence"] == "no_response_sentences"
    assert trace_metrics(empty, profile="capstone").scores["adherence"] == 1.0
