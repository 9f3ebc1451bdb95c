"""Gates: the language of conditions, the three outcomes, and what JUnit and Markdown show of foreign names."""

from collections.abc import Iterable
from dataclasses import replace
from time import perf_counter
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.metric_events import event

from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_offline.gates.conditions import OPERATORS, Condition, UndecidedPolicy, parse_condition, split_name
from ragtide_offline.gates.deciding import (
    EXIT_CODES,
    GateOutcome,
    GateResult,
    decide_gate,
)
from ragtide_offline.gates.documents import gate_lines, junit_xml, markdown_summary
from ragtide_offline.gates.measurements import Measurement
from ragtide_offline.gates.sources import baseline_gaps
from ragtide_offline.gates.summary_gate import gate
from ragtide_offline.score.summary import Summary, summarize
from ragtide_schemas import METRICS, MetricEvent

pytestmark = pytest.mark.pure

METRIC = "trace.adherence"


def measured(
    mean: float | None = 0.8,
    lower: float | None = 0.7,
    upper: float | None = 0.9,
    *,
    n: int = 50,
    n_absent: int = 0,
    scope: str = "shop",
    gap: Interval[float, float] | None = None,
) -> Measurement:
    return Measurement(METRIC, scope, n, n_absent, {"no_response": n_absent}, Interval(mean, lower, upper), gap)


def decided(condition: str, *measurements: Measurement, policy: UndecidedPolicy = UndecidedPolicy.KEEP) -> GateResult:
    return decide_gate([parse_condition(condition)], measurements, known=METRICS, undecided=policy)


@for_each(
    "condition, outcome",
    [
        (f"{METRIC} < 0.95", "fail"),  # the whole interval 0.7 to 0.9 is below
        (f"{METRIC} < 0.7", "pass"),  # the whole interval is at least 0.7
        (f"{METRIC} < 0.9", "undecided"),  # its upper end is not below 0.9
        (f"{METRIC} <= 0.9", "fail"),
        (f"{METRIC} <= 0.7", "undecided"),
        (f"{METRIC} > 0.6", "fail"),
        (f"{METRIC} > 0.9", "pass"),
        (f"{METRIC} > 0.8", "undecided"),
        (f"{METRIC} >= 0.7", "fail"),
        (f"{METRIC} >= 0.9", "undecided"),
        (f"{METRIC}.estimate < 0.75", "undecided"),  # the mean has its interval under either name
        (f"{METRIC}.mean < 0.75", "pass"),
        (f"{METRIC}.lower < 0.75", "fail"),
        (f"{METRIC}.lower < 0.7", "pass"),
        (f"{METRIC}.upper < 0.95", "fail"),
        (f"{METRIC}.n < 51", "fail"),
        (f"{METRIC}.n < 50", "pass"),
        (f"{METRIC}.n_absent > 0", "pass"),
        (f"{METRIC}.coverage < 1", "pass"),
    ],
)
def test_a_mean_is_decided_by_its_whole_interval_and_a_number_by_itself(condition: str, outcome: str) -> None:
    assert decided(condition, measured()).outcome == outcome


@given(
    st.sampled_from(list(OPERATORS)),
    st.floats(-1, 1),
    st.floats(-1, 1),
    st.floats(-1, 1),
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
def test_a_sure_outcome_holds_for_every_number_of_the_interval(
    operator: str, threshold: float, first: float, second: float, shares: list[float]
) -> None:
    lower, upper = sorted((first, second))
    condition = Condition("", METRIC, operator, threshold)
    surely = condition.surely(lower, upper)
    inside = [min(max(lower + share * (upper - lower), lower), upper) for share in shares]
    if surely is not None:
        assert {condition.holds(value) for value in inside} == {surely}
    else:
        assert {condition.holds(lower), condition.holds(upper)} == {True, False}


def test_a_difference_is_decided_like_a_mean() -> None:
    worse = measured(gap=Interval(-0.1, -0.2, -0.05))
    assert decided(f"{METRIC}.difference < 0", worse).outcome == "fail"
    assert decided(f"{METRIC}.difference < -0.3", worse).outcome == "pass"
    assert decided(f"{METRIC}.difference < -0.1", worse).outcome == "undecided"
    assert decided(f"{METRIC}.difference.lower < -0.15", worse).outcome == "fail"
    assert decided(f"{METRIC}.difference < 0", measured()).outcome == "undecided"  # without a baseline
    only = Measurement(METRIC, "a - b", 5, difference=Interval(0, -1, 1))
    with pytest.raises(ValueError, match=r"only differences were measured: write trace\.adherence\.difference"):
        decided(f"{METRIC} < 0.8", only)


@for_each("policy", UndecidedPolicy)
def test_nothing_passes_without_values(policy: UndecidedPolicy) -> None:
    absent = measured(None, 0.0, 1.0, n=0, n_absent=12)
    for condition in (
        f"{METRIC} < -1", f"{METRIC}.lower < -1", f"{METRIC}.mean < -1", f"{METRIC}.n > 5", f"{METRIC}.n_absent > 50",
        f"{METRIC}.difference < -5",
    ):  # fmt: skip
        for measurements in ((), (absent,)):
            assert decided(condition, *measurements, policy=policy).outcome != "pass"
    (scope,) = decided(f"{METRIC} < 0.8", absent).conditions[0].scopes
    assert "absent in 12 interactions (no_response 12)" in scope.sentence
    for measurements in ((), (absent,)):
        assert decided(f"{METRIC}.n < 30", *measurements).outcome == "fail"
    assert decided(f"{METRIC}.coverage < 0.5", absent).outcome == "fail"


def test_an_undecided_condition_counts_as_the_caller_says() -> None:
    condition = f"{METRIC} < 0.8"
    assert decided(condition, measured()).outcome == "undecided"
    assert decided(condition, measured(), policy=UndecidedPolicy.PASSED).outcome == "pass"
    assert decided(condition, measured(), policy=UndecidedPolicy.FAILED).outcome == "fail"
    assert decided(f"{METRIC} < 0.5", measured(), policy=UndecidedPolicy.FAILED).outcome == "pass"


def test_a_metric_without_a_range_is_decided_by_its_mean_alone() -> None:
    result = decided(f"{METRIC} < 3", measured(7.0, None, None))
    assert result.outcome == "undecided"
    assert "write trace.adherence.mean" in result.conditions[0].scopes[0].sentence
    assert decided(f"{METRIC}.mean < 3", measured(7.0, None, None)).outcome == "pass"


def test_the_worst_scope_and_the_worst_condition_count() -> None:
    scopes = measured(), measured(0.2, 0.1, 0.3, scope="search"), measured(0.95, 0.94, 0.96, scope="other")
    result = decided(f"{METRIC} < 0.8", *scopes)
    assert [scope.outcome for scope in result.conditions[0].scopes] == ["undecided", "fail", "pass"]
    assert result.outcome == "fail"
    conditions = [parse_condition(text) for text in (f"{METRIC} < 0.5", f"{METRIC} < 0.8")]
    assert decide_gate(conditions, [measured()]).outcome == "undecided"
    with pytest.raises(ValueError, match="at least one"):
        decide_gate([], [measured()])


def test_exit_codes_differ_from_those_of_other_ends() -> None:
    assert EXIT_CODES == {GateOutcome.PASSED: 0, GateOutcome.FAILED: 4, GateOutcome.UNDECIDED: 5}
    assert not {4, 5} & {1, 2, 3, 130}


@for_each(
    "text, words",
    [
        ("", "no operator"),
        (METRIC, "no operator"),
        (f"{METRIC} == 0.8", "operator '=='"),
        (f"{METRIC} <> 0.8", "operator '<>'"),
        ("< 0.8", "give a metric"),
        ("trace adherence < 0.8", "give a metric"),
        ("trace..x < 0.8", "give a metric"),
        (f"{METRIC} < 80%", "80% is 0.8"),
        (f"{METRIC} < nan", "give a number"),
        (f"{METRIC} < 1_0", "give a number"),
        (f"{METRIC} < ０.８", "give a number"),
        (f"{METRIC} < 0.8 or 1", "give a number"),
        (f"{METRIC} < 0.8 < 1", "give a number"),
        ("x" * 400, "400 characters"),
    ],
)
def test_a_wrong_condition_is_named_with_its_remedy(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        parse_condition(text)
    assert "\n" not in str(raised.value)


def test_a_long_condition_is_refused_in_no_time() -> None:
    started = perf_counter()
    for text in ("<" * 10**6, "a." * 10**6, " " * 10**6 + "<", "a < " + "9" * 10**6):
        with pytest.raises(ValueError, match="characters"):
            parse_condition(text)
    assert perf_counter() - started < 5


def test_names_of_metrics_and_fields_are_suggested() -> None:
    with pytest.raises(ValueError, match=r"'trace\.adherance'; did you mean 'trace\.adherence'"):
        split_name("trace.adherance.lower", METRICS)
    with pytest.raises(ValueError, match=r"field of trace\.adherence 'lowr'; did you mean 'lower'"):
        split_name("trace.adherence.lowr", METRICS)
    assert split_name("trace.adherence.difference.lower", METRICS) == (METRIC, "difference.lower")
    assert split_name("rmse.trace.adherence.upper", METRICS) == ("rmse.trace.adherence", "upper")
    # A metric may be named like a field.
    assert split_name("mine.n", {"mine.n"}) == ("mine.n", "estimate")
    assert split_name("mine.n.n", {"mine.n"}) == ("mine.n", "n")
    # Before the first score only names that resemble a known one are refused.
    assert split_name("mine.words.lower", METRICS, certain=False) == ("mine.words", "lower")
    with pytest.raises(ValueError, match="did you mean"):
        split_name("trace.adherance", METRICS, certain=False)


HOSTILE = '</testcase>|`a`](http://x) <script>&"\x1b[2J\n@all _x_ **b** \ud800\uffff'


def test_junit_has_a_case_for_each_condition_and_foreign_names_stay_text() -> None:
    conditions = [parse_condition(f"{METRIC} < {edge}") for edge in (0.5, 0.8, 0.95)]
    document = junit_xml(decide_gate(conditions, [measured(scope=HOSTILE)]), "ragtide score")
    root = fromstring(document)
    suite = root.find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped", "errors")} == {
        "tests": "3", "failures": "1", "skipped": "1", "errors": "0",
    }  # fmt: skip
    assert [case.get("name") for case in suite] == [f"{METRIC} < {edge}" for edge in ("0.5", "0.8", "0.95")]
    assert [child.tag for case in suite for child in case] == ["system-out", "skipped", "failure"]
    failure = suite[2][0]
    assert "</testcase>" in str(failure.get("message"))
    assert "surely below 0.95 (mean 0.8, interval 0.7 to 0.9, n 50)" in str(failure.text)
    assert b"\x1b" not in document
    assert b"<script>" not in document


def test_markdown_shows_foreign_names_as_text_in_their_cell() -> None:
    page = markdown_summary(decided(f"{METRIC} < 0.95", measured(scope=HOSTILE)), "ragtide score")
    (row,) = [line for line in page.splitlines() if "surely" in line]
    cells = row.split("|")
    assert len(cells) == 6
    assert "<script>" not in page
    name = cells[3].strip().removeprefix("<code>").removesuffix("</code>")
    assert not set(name) & set('<>`*_[]()@|"')
    assert "\x1b" not in page
    assert "`shop`" in markdown_summary(decided(f"{METRIC} < 0.95", measured()), "ragtide score")


def test_documents_are_bounded_with_failures_first() -> None:
    many = [measured(scope=f"p{number}") for number in range(200)]
    many.append(measured(0.1, 0.05, 0.2, scope="bad" * 200))
    result = decided(f"{METRIC} < 0.6", *many)
    for text in ("\n".join(gate_lines(result)), junit_xml(result, "s").decode(), markdown_summary(result, "s")):
        assert "181 more" in text
        assert "badbad" in text
        assert len(text) < 10_000


def test_a_pipeline_without_the_metric_is_not_passed_by_another_one() -> None:
    def of(pipeline: str, metric: str) -> Measurement:
        return replace(measured(scope=f"{pipeline} · local"), metric=metric, subject=pipeline)

    both = [of("shop", METRIC), of("shop", "trace.completeness"), of("search", "trace.completeness")]
    found = decided(f"{METRIC} < 0.5", *both, policy=UndecidedPolicy.PASSED)
    assert found.outcome == "undecided"
    assert [(scope.scope, scope.outcome) for scope in found.conditions[0].scopes] == [
        ("shop · local", "pass"), ("search", "undecided"),
    ]  # fmt: skip
    assert decided(f"{METRIC}.n < 10", *both).outcome == "fail"
    assert decided(f"{METRIC} < 0.5", *both[:2], of("search", METRIC)).outcome == "pass"


def scored(run: str | None, value: float, ids: Iterable[int] = range(40), **labeler: str) -> list[MetricEvent]:
    return [event(number, {METRIC: value}, run=run, **labeler) for number in ids]


def gap(events: list[MetricEvent], baseline: list[MetricEvent]) -> dict[str | None, tuple[float, int]]:
    found = baseline_gaps(events, baseline, confidence=0.95)
    return {key.run: (one.difference.estimate, one.n[0]) for key, one in found.items()}


def test_each_run_has_the_difference_of_its_own_scores() -> None:
    events = [*scored("a", 1.0), *scored("b", 0.0)]
    assert gap(events, scored(None, 0.5)) == {"a": (0.5, 40), "b": (-0.5, 40)}
    assert gap(events, [*scored("b", 0.25), *scored("a", 0.75)]) == {"a": (0.25, 40), "b": (-0.25, 40)}
    assert gap(events, [*scored("c", 0.25), *scored("a", 0.75)]) == {"a": (0.25, 40)}
    summary = Summary(summarize(events, strategy="normal", confidence=0.95).estimates, (), (), events)
    before = Summary((), (), (), scored(None, 0.5))
    (found,) = gate(summary, f"{METRIC}.difference.mean < 0", baseline=before).conditions
    assert [(scope.scope, scope.outcome) for scope in found.scopes] == [
        ("shop · a · test · 1 · ragbench", "pass"), ("shop · b · test · 1 · ragbench", "fail"),
    ]  # fmt: skip


def test_a_difference_shows_the_number_of_its_pairs() -> None:
    events = scored(None, 1.0)
    summary = Summary(summarize(events, strategy="normal", confidence=0.95).estimates, (), (), events)
    before = Summary((), (), (), scored(None, 0.5, range(37, 50)))
    (found,) = gate(summary, f"{METRIC}.difference.mean < 0", baseline=before).conditions
    assert found.scopes[0].sentence == "0.5 is at least 0 (n 3)"


@for_each("other", [{"labeler": "judge"}, {"labeler_version": "2"}, {"profile": "capstone"}])
def test_a_baseline_of_another_labeler_decides_nothing(other: dict[str, str]) -> None:
    events = scored(None, 1.0)
    before = Summary((), (), (), scored(None, 0.5, range(40), **other))
    summary = Summary(summarize(events, strategy="normal", confidence=0.95).estimates, (), (), events)
    found = gate(summary, f"{METRIC}.difference < 0", baseline=before, undecided="pass")
    assert found.outcome == "undecided"
    assert "and labeler" in found.conditions[0].scopes[0].sentence


@for_each("field", ["n_absent > 5", "coverage < 0.9", "lower < 0.5"])
def test_a_comparison_knows_no_absences_so_a_condition_on_them_is_refused(field: str) -> None:
    compared = Measurement(METRIC, "a - b", 50, difference=Interval(0.1, 0.0, 0.2))
    with pytest.raises(ValueError, match=rf"only differences were measured: write {METRIC}\.difference"):
        decided(f"{METRIC}.{field}", compared)
    assert decided(f"{METRIC}.n < 50", compared).outcome == "pass"
