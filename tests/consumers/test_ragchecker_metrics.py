import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from ragtide import ClaimLabels, ragchecker_metrics
from ragtide_consumers.metrics.ragchecker import broken_laws
from ragtide_schemas import METRICS

DATA = Path(__file__).parents[1] / "data"
GOLDEN = json.loads((DATA / "ragchecker-metric-cases" / "cases_dev.json").read_text(encoding="utf-8"))
EXAMPLE = json.loads((DATA / "ragchecker-example" / "checking_outputs.json").read_text(encoding="utf-8"))
TABLES = ("answer2response", "response2answer", "retrieved2answer", "retrieved2response")
VERDICT = st.sampled_from(["Entailment", "Neutral", "Contradiction"])
ELEVEN = {name.removeprefix("ragchecker.") for name in METRICS if name.startswith("ragchecker.")}


@st.composite
def tables(draw: st.DrawFn, *, smallest: int = 0) -> ClaimLabels:
    n, g, k = (draw(st.integers(smallest, 5)) for _ in range(3))

    def verdicts(length: int) -> Any:
        return draw(st.lists(VERDICT, min_size=length, max_size=length))

    return ClaimLabels(
        answer2response=verdicts(n),
        response2answer=verdicts(g),
        retrieved2answer=[verdicts(k) for _ in range(g)],
        retrieved2response=[verdicts(k) for _ in range(n)],
    )


def labels(case: dict[str, Any]) -> ClaimLabels:
    return ClaimLabels(**{name: case[name] for name in TABLES})


@for_each("case", GOLDEN["cases"])
def test_every_case_has_the_values_of_ragcheckers_own_code(case: dict[str, Any]) -> None:
    found = ragchecker_metrics(labels(case), profile="ragchecker")
    assert found.absent == {}
    assert set(found.scores) == ELEVEN
    for name, expected in case["expected_ragchecker"].items():
        assert found.scores[name] == pytest.approx(expected, abs=1e-12)


def test_the_mean_over_the_cases_is_what_ragchecker_prints() -> None:
    found = [ragchecker_metrics(labels(case), profile="ragchecker").scores for case in GOLDEN["cases"]]
    printed = {name: round(100 * fmean(scores[name] for scores in found), 1) for name in ELEVEN}
    assert printed == GOLDEN["expected_macro_percent_1dp"]


@for_each("profile", ["ragchecker", "ragchecker_strict"])
def test_ragcheckers_example_is_reproduced_to_its_printed_precision(profile: str) -> None:
    found = [ragchecker_metrics(labels(query), profile=profile) for query in EXAMPLE["results"]]
    for query, result in zip(EXAMPLE["results"], found, strict=True):
        assert result.defects == ()
        assert result.scores == pytest.approx(query["metrics"], abs=1e-15)
    printed = {name: value for group in EXAMPLE["metrics"].values() for name, value in group.items()}
    assert {name: round(100 * fmean(r.scores[name] for r in found), 1) for name in printed} == printed


@given(tables(smallest=1))
def test_with_claims_and_chunks_both_sums_are_one(given_labels: ClaimLabels) -> None:
    for profile in ("ragchecker", "ragchecker_strict"):
        result = ragchecker_metrics(given_labels, profile=profile)
        s = result.scores
        assert s["faithfulness"] + s["hallucination"] + s["self_knowledge"] == pytest.approx(1)
        noise = s["noise_sensitivity_in_relevant"] + s["noise_sensitivity_in_irrelevant"]
        assert s["precision"] + s["hallucination"] + noise == pytest.approx(1)
        assert result.defects == ()


@given(tables())
def test_every_metric_is_scored_in_range_or_absent_with_a_reason(given_labels: ClaimLabels) -> None:
    strict = ragchecker_metrics(given_labels)
    filled = ragchecker_metrics(given_labels, profile="ragchecker")
    assert set(strict.scores) | set(strict.absent) == ELEVEN
    assert set(strict.scores) & set(strict.absent) == set()
    assert set(filled.scores) == ELEVEN
    assert all(0 <= score <= 1 for result in (strict, filled) for score in result.scores.values())
    assert strict.defects == filled.defects == ()
    # The profiles differ only where RAGChecker writes 0.
    for name, score in strict.scores.items():
        assert filled.scores[name] in (score, 0.0)
    assert all(filled.scores[name] == 0.0 for name in strict.absent)


@given(tables(), st.randoms())
def test_the_order_of_claims_and_chunks_does_not_matter(given_labels: ClaimLabels, random: Any) -> None:
    def shuffled(rows: Any, order: list[int]) -> list[Any]:
        return [rows[index] for index in order]

    n, g = len(given_labels.answer2response or ()), len(given_labels.response2answer or ())
    claims, references = random.sample(range(n), n), random.sample(range(g), g)
    mixed = ClaimLabels(
        answer2response=shuffled(given_labels.answer2response, claims),
        response2answer=shuffled(given_labels.response2answer, references),
        retrieved2answer=shuffled(given_labels.retrieved2answer, references),
        retrieved2response=shuffled(given_labels.retrieved2response, claims),
    )
    assert ragchecker_metrics(mixed).scores == pytest.approx(dict(ragchecker_metrics(given_labels).scores))


E, N = "Entailment", "Neutral"


def test_nothing_retrieved_is_not_faithful_and_what_is_wrong_is_made_up() -> None:
    found = ragchecker_metrics(
        ClaimLabels(answer2response=[E, N], response2answer=[E], retrieved2answer=[[]], retrieved2response=[[], []])
    )
    assert found.scores["faithfulness"] == 0.0
    assert found.scores["hallucination"] == 0.5
    assert found.scores["self_knowledge"] == 0.5
    assert found.scores["claim_recall"] == 0.0
    assert found.absent["context_precision"] == "no_documents"
    assert found.absent["context_utilization"] == "nothing_recalled"


def test_an_answer_without_claims_has_no_precision_rather_than_a_bad_one() -> None:
    found = ragchecker_metrics(
        ClaimLabels(answer2response=[], response2answer=[N], retrieved2answer=[[E]], retrieved2response=[])
    )
    assert found.absent["precision"] == found.absent["faithfulness"] == "no_response_claims"
    assert found.scores["recall"] == 0.0
    assert found.scores["claim_recall"] == 1.0


def test_without_a_reference_answer_only_faithfulness_is_known() -> None:
    found = ragchecker_metrics(ClaimLabels(retrieved2response=[[E, N], [N, N]]))
    assert found.scores == {"faithfulness": 0.5}
    assert set(found.absent.values()) == {"no_reference_answer"}


@for_each(
    "wrong, said",
    [
        ({"answer2response": [E]}, "give all three, or none"),
        (
            {"answer2response": [E], "response2answer": [], "retrieved2answer": []},
            "has 2 rows for 1",
        ),
        (
            {"answer2response": [E, E], "response2answer": [E], "retrieved2answer": [[E, E]]},
            r"rows have \[1, 2\] chunks",
        ),
    ],
)
def test_tables_that_do_not_fit_together_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ClaimLabels(retrieved2response=[[E], [E]], **wrong)


def test_scores_that_break_a_law_are_named() -> None:
    assert broken_laws({"precision": 1.5}, whole=False) == ("precision is 1.5, outside 0 to 1",)
    assert broken_laws({"faithfulness": 0.2, "hallucination": 0.2, "self_knowledge": 0.2}, whole=False) == ()
    assert len(broken_laws({"faithfulness": 0.2, "hallucination": 0.2, "self_knowledge": 0.2}, whole=True)) == 1


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ValueError, match="ragchecker_strict, ragchecker"):
        ragchecker_metrics(ClaimLabels(retrieved2response=[]), profile="other")
