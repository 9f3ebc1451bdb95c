import json
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from ragtide import SentenceLabels, trace_metrics
from ragtide_consumers.metrics.trace import PROFILES, expected_trace_metrics
from ragtide_schemas import SentenceProbabilities

DATA = Path(__file__).parents[1] / "data"
CASES = json.loads((DATA / "trace-metric-cases" / "cases_dev.json").read_text())["label_cases"]
ROWS = [json.loads(line) for line in (DATA / "ragbench" / "ragbench_sample.jsonl").read_text().splitlines()]
NAMES = {
    "relevance": "context_relevance",
    "utilization": "context_utilization",
    "completeness": "completeness",
    "adherence": "adherence",
}

KEYS = st.lists(st.sampled_from(["0a", "0b", "0c", "1a", "1b"]), max_size=6)
SUPPORT = st.dictionaries(st.sampled_from("abcd"), KEYS, max_size=4)
PROBABILITIES = st.lists(st.floats(0, 1), max_size=8)


def labels(row: dict[str, Any], total: int) -> SentenceLabels:
    information = row["sentence_support_information"]
    return SentenceLabels(
        relevant=row["all_relevant_sentence_keys"],
        utilized=row["all_utilized_sentence_keys"],
        support={item["response_sentence_key"]: item["supporting_sentence_keys"] for item in information},
        fully_supported={
            item["response_sentence_key"]: item["fully_supported"] for item in information if "fully_supported" in item
        },
        unsupported=row["unsupported_response_sentence_keys"],
        n_document_sentences=total,
    )


@for_each("profile", ["ragbench_raw", "capstone"])
@for_each("case", CASES)
def test_the_cases_have_their_expected_scores(case: dict[str, Any], profile: str) -> None:
    found = trace_metrics(labels(case, case["total_sentences"]), profile=profile)
    for name, metric in NAMES.items():
        expected = case["expected"][profile][name]
        if expected is None:
            assert metric in found.absent
        else:
            assert found.scores[metric] == pytest.approx(expected, abs=1e-12)
    dispersion = case["expected"]["dispersion_population_sd"][profile]
    if dispersion is None:
        assert "rmse_aggregation" in found.absent
    else:
        assert found.scores["rmse_aggregation"] == pytest.approx(dispersion, abs=1e-12)


@for_each("row", ROWS)
def test_the_stored_scores_of_ragbench_are_reproduced_bit_for_bit(row: dict[str, Any]) -> None:
    total = sum(len(document) for document in row["documents_sentences"])
    scores = trace_metrics(labels(row, total), profile="ragbench_raw").scores
    assert {name: scores[metric] for name, metric in NAMES.items()} == {name: row[f"{name}_score"] for name in NAMES}


def test_keys_are_normalized_and_unknown_ones_dropped_and_counted() -> None:
    found = trace_metrics(
        SentenceLabels(
            relevant=["0a.", "0A", " 0b ", "9z"],
            utilized=["0b", "0b."],
            support={"a.": ["0A.", "7q"], "b": ["general"]},
            document_keys=["0a", "0b", "1a", "1b"],
            response_keys=["a", "b"],
            n_document_sentences=4,
        )
    )
    expected = {"context_relevance": 0.5, "context_utilization": 0.25, "completeness": 0.5, "adherence": 1.0}
    assert {name: found.scores[name] for name in expected} == expected
    assert found.dropped_keys == 2


@for_each(
    "changes, metric, reason",
    [
        ({"n_document_sentences": 0}, "context_relevance", "no_document_sentences"),
        ({"relevant": ()}, "completeness", "no_relevant_sentences"),
        ({"support": {}}, "adherence", "no_response_sentences"),
        ({"response_keys": ("a", "b")}, "adherence", "incomplete_labels"),
        ({"relevant": ()}, "average", "part_absent"),
        ({"relevant": ()}, "rmse_aggregation", "part_absent"),
    ],
)
def test_what_cannot_be_computed_is_absent_with_its_reason(changes: dict[str, Any], metric: str, reason: str) -> None:
    base: dict[str, Any] = {
        "relevant": ("0a",),
        "utilized": ("0a",),
        "support": {"a": ("0a",)},
        "n_document_sentences": 2,
    }
    found = trace_metrics(SentenceLabels(**{**base, **changes}))
    assert found.absent[metric] == reason
    assert metric not in found.scores


@for_each(
    "keys, fully, adherence",
    [(["0a"], True, 1.0), (["0a"], None, 1.0), (["0a"], False, 0.0), ([], True, 0.0), (["general"], True, 1.0)],
)
def test_a_sentence_is_supported_by_a_key_unless_said_to_be_partly_so(
    keys: list[str], fully: bool | None, adherence: float
) -> None:
    given_labels = SentenceLabels(
        relevant=["0a"], utilized=["0a"], support={"a": keys}, fully_supported={"a": fully}, n_document_sentences=1
    )
    assert trace_metrics(given_labels).scores["adherence"] == adherence


@given(KEYS, KEYS, SUPPORT, st.sampled_from(list(PROFILES)))
def test_scores_are_in_range_and_every_metric_is_scored_or_absent(
    relevant: list[str], utilized: list[str], support: dict[str, list[str]], profile: str
) -> None:
    found = trace_metrics(
        SentenceLabels(relevant=relevant, utilized=utilized, support=support, n_document_sentences=6), profile=profile
    )
    assert set(found.scores) | set(found.absent) == {
        *NAMES.values(),
        "supported_fraction",
        "average",
        "rmse_aggregation",
    }
    assert not set(found.scores) & set(found.absent)
    assert all(0 <= score <= 1 for score in found.scores.values())
    if "average" in found.scores:
        four = [found.scores[metric] for metric in NAMES.values()]
        assert found.scores["average"] == pytest.approx(fmean(four))
        assert found.scores["rmse_aggregation"] == pytest.approx(pstdev(four))
        assert found.scores["rmse_aggregation"] <= 0.5


@given(KEYS, KEYS, st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(relevant: list[str], utilized: list[str], random: Any) -> None:
    def scores() -> Any:
        return trace_metrics(SentenceLabels(relevant=relevant, utilized=utilized, n_document_sentences=5)).scores

    before = scores()
    random.shuffle(relevant)
    random.shuffle(utilized)
    assert scores() == before


@given(PROBABILITIES, PROBABILITIES)
def test_certain_probabilities_give_the_scores_of_the_labels(documents: list[float], response: list[float]) -> None:
    relevant = [float(p > 0.5) for p in documents]
    utilized = [float(p > 0.25) for p in documents]
    supported = [float(p > 0.2) for p in response]
    expected = expected_trace_metrics(SentenceProbabilities(relevant=relevant, utilized=utilized, supported=supported))
    keys = [f"0{chr(97 + i)}" for i in range(len(documents))]
    from_labels = trace_metrics(
        SentenceLabels(
            relevant=[key for key, value in zip(keys, relevant, strict=True) if value],
            utilized=[key for key, value in zip(keys, utilized, strict=True) if value],
            support={chr(97 + i): ["general"] if value else [] for i, value in enumerate(supported)},
            n_document_sentences=len(documents),
        )
    )
    assert dict(expected.scores) == pytest.approx(dict(from_labels.scores))
    assert expected.absent == from_labels.absent


def test_an_unknown_profile_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="ragbench, ragbench_raw, capstone"):
        trace_metrics(SentenceLabels(relevant=[], utilized=[], n_document_sentences=1), profile="best")
