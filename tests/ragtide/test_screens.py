"""Every table at the usual widths: no line is too wide, no number is cut, and each row has n and its interval."""

import re
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.metric_events import START
from tests.support.screens import WIDTHS, drawn

from ragtide.cli.printing.estimates import (
    estimates_note,
    estimates_table,
    labeling_table,
    reference_table,
)
from ragtide.cli.running.watching import headline_of
from ragtide_aggregator.estimates.choices import chosen
from ragtide_aggregator.reading.diagnoses import diagnoses, headline_diagnoses
from ragtide_schemas import METRICS, Estimate

LONG = "a-pipeline-with-a-name-" + "that-is-long-" * 6 + "end"
SEGMENT = "model=" + "claude-3-haiku-20240307-" * 4 + "v1"
INTERVAL = re.compile(r"\d\.\d{3} to \d\.\d{3}")


def estimate(metric: str, **changes: Any) -> Estimate:
    fields: dict[str, Any] = {
        "pipeline": "shop", "metric": metric, "profile": "ragbench", "labeler": "local", "labeler_version": "2-s",
        "n": 12_345_678, "estimate": 0.5, "lower": 0.25, "upper": 0.75, "strategy": "running", "anytime_valid": True,
        "confidence": 0.95, "recent": 0.5, "lowest": 0.0, "highest": 1.0, "band": "acceptable", "updated_at": START,
    }  # fmt: skip
    return Estimate(**fields | changes)


JUDGE = {"labeler": "judge", "labeler_version": "openai/gpt-5-mini/trace.1/s"}
LOCAL_ONLY = [
    estimate("trace.context_relevance", pipeline=LONG, segment=SEGMENT, n_effective=1_234_567.0),
    estimate("ragchecker.noise_sensitivity_in_irrelevant", pipeline=LONG, segment=SEGMENT),
    estimate("rmse.trace.context_utilization", pipeline=LONG, n_absent=7_654_321, absent={"judge_unusable": 7_654_321}),
    estimate("trace.completeness", n=0, estimate=None, n_absent=9, absent={"not_accurate_enough": 9}, band=None),
    estimate("trace.average", n=0, estimate=None, n_absent=9, absent={"part_absent": 9}, band=None),
    estimate("trace.adherence"),
]
CASCADE = [
    *LOCAL_ONLY,
    estimate("trace.adherence", n=310, estimate=0.4, **JUDGE),
    estimate("trace.adherence", n=333, estimate=0.6, estimator="prediction_powered", n_effective=987.0, **JUDGE),
    estimate("trace.adherence", n=444, estimate=0.7, estimator="weighted", n_effective=111.0, **JUDGE),
]


@for_each("width", WIDTHS)
@for_each("found", [LOCAL_ONLY, CASCADE])
def test_each_estimate_has_its_interval_and_n_at_each_width(found: list[Estimate], width: int) -> None:
    text = drawn(estimates_table(found, width), width)
    rows = [line for line in text.splitlines() if INTERVAL.search(line)]
    assert len(rows) == sum(one.n > 0 for one in found)
    assert all(re.search(r"0\.\d{3}  +0\.250 to 0\.750 .* (12,345,678|310|333|444)\b", row) for row in rows)
    assert "12,345,678 (1,234,567)" in text
    assert "7,654,321 absent: judge_unusable" in text


@for_each("width", WIDTHS)
def test_a_heading_names_scope_and_labeler_and_the_recommended_estimator_comes_first(width: int) -> None:
    lines = drawn(estimates_table([one for one in CASCADE if one.pipeline == "shop"], width), width).splitlines()
    judged = lines.index("shop · all · judge openai/gpt-5-mini (ragbench)")
    assert judged < lines.index("shop · all · local (ragbench)")
    for line, words in zip(lines[judged + 1 :], ("powered", "mean", "weighted"), strict=False):
        assert line.startswith("adherence ")
        assert words in line


@for_each("width", WIDTHS)
def test_metrics_without_values_are_one_line_at_the_end_of_their_group(width: int) -> None:
    text = drawn(estimates_table(LOCAL_ONLY, width), width)
    sentence = "2 metrics are not measured by this labeler: completeness, average: not_accurate_enough"
    assert sentence in " ".join(text.split())
    assert text.index("adherence") < text.index("2 metrics are")
    assert "—" not in text


def test_a_folded_metric_is_folded_also_where_the_labeler_does_not_measure_it() -> None:
    text = drawn(estimates_table(LOCAL_ONLY, 120, folded_by="--all shows them"), 120)
    assert "1 metric is not measured by this labeler: completeness: not_accurate_enough" in text
    assert "folded away: average (--all shows them)" in text


def test_a_wide_table_states_the_direction_and_the_limit_of_good_values() -> None:
    text = drawn(estimates_table(LOCAL_ONLY, 200), 200)
    assert "acceptable; higher is better; good from 0.8" in text
    assert "lower is better; good up to 0.05" in text


@for_each("width", WIDTHS)
def test_estimates_of_one_reference_by_two_proxies_name_them(width: int) -> None:
    gold = {"labeler": "gold", "labeler_version": "1", "estimator": "prediction_powered"}
    two = [estimate("trace.adherence", proxy="local", **gold), estimate("trace.adherence", proxy="judge", n=8, **gold)]
    text = drawn(estimates_table(two, width), width)
    assert "(local)" in text
    assert "(judge)" in text
    assert "(local)" not in drawn(estimates_table(two[:1], width), width)


def test_two_versions_of_a_labeler_are_told_apart() -> None:
    two = [estimate("trace.adherence"), estimate("trace.adherence", labeler_version="3-s", n=8)]
    text = drawn(estimates_table(two, 120), 120)
    assert "local (ragbench) version 2-s" in text
    assert "local (ragbench) version 3-s" in text


@for_each("width", WIDTHS)
def test_a_prediction_powered_mean_without_an_interval_does_not_come_first(width: int) -> None:
    early = estimate("trace.adherence", estimator="prediction_powered", n=3, lower=0.0, upper=1.0, **JUDGE)
    rows = drawn(estimates_table([early, estimate("trace.adherence", **JUDGE)], width), width).splitlines()[2:]
    assert "mean" in rows[0]
    assert "powered" in rows[1]


@for_each("width", WIDTHS)
def test_the_summary_of_a_file_has_intervals_and_n(width: int) -> None:
    text = drawn(estimates_table(LOCAL_ONLY, width, recent=False), width)
    assert len(INTERVAL.findall(text)) == 4
    assert text.count("12,345,678") == 4
    assert "recent" not in text


@for_each("width", WIDTHS)
def test_published_results_keep_their_numbers(width: int) -> None:
    found = [estimate(name, estimate=0.123) for name in METRICS if name.startswith("ragchecker.")]
    text = drawn(reference_table(found, "ClapNQ", width), width)
    rows = text.splitlines()[2:]
    assert len(rows) > 8
    assert all(re.search(r" \d+\.\d  +12\.3  +[+-]\d+\.\d$", row) for row in rows)


@for_each("width", WIDTHS)
def test_the_cost_of_labeling_keeps_its_numbers(width: int) -> None:
    quantiles = {"p5": 0.0001234, "p50": 0.0012341, "p95": 1234.5, "p99": 12345.6}
    usage = [
        estimate(f"labeling.{name}", pipeline=LONG, quantiles=quantiles, maximum=99999.0, lowest=None, highest=None)
        for name in ("duration_s", "cost_usd", "completion_tokens")
    ]
    text = drawn(labeling_table(usage, width), width)
    for number in ("12,345,678", "0.001234", "1234", "1e+05", "0.5"):
        assert text.count(number) >= 3
    assert "local (ragbench)" in text


def test_advice_needs_30_values_and_an_interval_narrower_than_the_range() -> None:
    def advised(**changes: Any) -> list[Any]:
        metrics = {"trace.context_relevance": 0.6, "trace.context_utilization": 0.05}
        ends = {name: {"estimate": mean, "lower": mean - 0.01, "upper": mean + 0.01} for name, mean in metrics.items()}
        return diagnoses([estimate(name, **{**ends[name], **changes}) for name in metrics])

    assert len(advised(n=30)) == 1
    assert advised(n=29) == []
    assert advised(lower=0.0, upper=1.0) == []


def test_advice_names_the_labeler_if_there_are_two() -> None:
    found = [
        estimate(name, estimate=value, **labeler)
        for labeler in ({}, JUDGE)
        for name, value in (("trace.context_relevance", 0.6), ("trace.context_utilization", 0.05))
    ]
    assert [where for where, _ in diagnoses(found)] == ["shop · local", "shop · judge"]


@pytest.mark.parametrize(
    ("states", "labelers", "advised"),
    [
        (("steady", "steady"), ("local", "local"), False),
        (("unwatched", "too few"), ("local", "local"), False),
        (("steady", "moved"), ("local", "local"), True),
        (("firing", "steady"), ("local", "local"), True),
        (("firing", "steady"), ("local", "judge"), False),
    ],
)
def test_headlines_have_a_diagnosis_only_where_something_changed(
    states: tuple[Any, Any], labelers: tuple[str, str], advised: bool
) -> None:
    means = {"trace.context_relevance": 0.6, "trace.context_utilization": 0.05}
    found = [
        headline_of(estimate(name, estimate=mean, lower=mean - 0.01, upper=mean + 0.01, labeler=labeler)).model_copy(
            update={"state": state}
        )
        for (name, mean), state, labeler in zip(means.items(), states, labelers, strict=True)
    ]
    assert bool(headline_diagnoses(found)) is advised


def test_the_recommended_estimates_are_means_and_prediction_powered_means_of_a_judged_sample() -> None:
    powered = estimate("trace.adherence", estimator="prediction_powered", **JUDGE)
    early = powered.model_copy(update={"lower": 0.0, "upper": 1.0})
    rated = powered.model_copy(update={"labeler": "gold"})
    weighted = powered.model_copy(update={"estimator": "weighted"})
    mean = estimate("trace.adherence")
    assert chosen([powered, early, rated, weighted, mean], estimator="recommended") == [powered, mean]
    assert chosen([powered, early, rated, weighted, mean]) == [mean]


def test_a_mean_over_a_whole_run_is_exact_and_has_no_interval() -> None:
    whole = estimate("trace.adherence", n=90, n_absent=10, population_size=100, lower=0.5, upper=0.5, estimate=0.5)
    part = whole.model_copy(update={"n_absent": 9})
    (line,) = [one for one in drawn(estimates_table([whole], 80), 80).splitlines() if one.startswith("adherence")]
    assert "0.500  exact" in line
    assert "exact" not in drawn(estimates_table([part], 80), 80)
    assert estimates_note([whole]).startswith("exact: every interaction")
    assert "exact" not in estimates_note([part])


def test_the_interval_of_a_count_is_shown_once_it_says_something() -> None:
    count = estimate("sentences.unsupported", n=60, estimate=0.75, lower=None, upper=None, lowest=0.0, highest=1000.0)
    whole = estimate("trace.adherence", n=60, estimate=0.75, lower=0.0, upper=1.0)
    for unknown in (count, whole):
        text = drawn(estimates_table([unknown], 80), 80)
        assert "0.750  not yet" in text
        assert "1.000" not in text
    narrow = drawn(estimates_table([count.model_copy(update={"lower": 0.0, "upper": 1.5})], 80), 80)
    assert "0.000 to 1.500" in narrow
    assert "not yet" not in narrow


def test_shortened_names_of_metrics_stay_different() -> None:
    names = [f"sentences.{name}" for name in ("fully_supported", "partially_supported", "unsupported")]
    rows = [estimate(name, n=10**9, n_effective=10.0**9, lowest=0.0, highest=1000.0) for name in names]
    shown = re.findall(r"^sent\S+", drawn(estimates_table(rows, 80), 80), re.MULTILINE)
    assert len(set(shown)) == 3


def test_an_interval_over_clusters_states_their_number() -> None:
    clustered = estimate("trace.adherence", n=1_234, n_clusters=456, n_effective=789.0)
    lines = drawn(estimates_table([clustered, estimate("trace.completeness")], 160), 160).splitlines()
    assert any(re.search(r"n \(eff\.\) +clusters", line) for line in lines)
    assert any(re.search(r"1,234 \(789\) +456", line) for line in lines)
    assert "clusters" not in drawn(estimates_table([estimate("trace.adherence")], 160), 160)
    assert "1,234 (789)" in drawn(estimates_table([clustered], 80), 80)


@for_each("width", WIDTHS)
def test_numbers_have_their_median_and_p95_at_each_width_and_scores_have_none(width: int) -> None:
    found = [
        estimate("trace.adherence", quantiles={"p5": 0.1, "p50": 0.444, "p95": 0.999, "p99": 1.0}),
        estimate(
            "answer.latency_s", estimate=2.0, lower=1.5, upper=2.5, lowest=0.0, highest=3600.0, band=None,
            quantiles={"p5": 0.2, "p50": 1.125, "p95": 9.875, "p99": 20.0},
        ),
        estimate(
            "answer.prompt_tokens", estimate=2345.0, lower=2000.0, upper=2600.0, lowest=0.0, highest=1e6, band=None,
            quantiles={"p5": 100.0, "p50": 2222.0, "p95": 8888.0, "p99": 9999.0},
        ),
    ]  # fmt: skip
    lines = drawn(estimates_table(found, width), width).splitlines()
    assert next(re.search(r"p50 +p95", line) for line in lines)
    (latency,) = [line for line in lines if "latency" in line]
    assert re.search(r"1\.125 +9\.875", latency)
    assert not any("0.444" in line for line in lines)
    assert "p50" not in drawn(estimates_table(found[:1], width), width)
