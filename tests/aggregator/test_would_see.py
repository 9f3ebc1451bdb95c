"""What the number of a labeler would see: the delay of a rule by its measured slope, at the traffic of now."""

import re

import pytest
from tests.aggregator.test_headlines import METRIC, NOW, mean, watch

from ragtide_aggregator.estimates.headline import OVER_ALL, Choice, Circumstances, HeadlineNumber, MeasuredBy, headline
from ragtide_aggregator.estimates.means import MetricMean
from ragtide_aggregator.estimates.would_see import FALL, Watched, would_see
from ragtide_aggregator.statistics.drift.power import answers_to_find
from ragtide_schemas import METRICS, AlertRule, Headline
from ragtide_schemas.slopes import Slope, shipped_slopes, slopes_of

pytestmark = pytest.mark.pure

RELEVANCE = "trace.context_relevance"


def answers(said: str | None) -> int:
    (number,) = re.findall(r"about ([\d,]+) answers", said or "")
    return int(number.replace(",", ""))


def shown(*means: MetricMean, place: int = 0, rules: tuple[AlertRule, ...] = (), **traffic: float) -> Headline:
    around = Circumstances(NOW, rules=rules, traffic=traffic)
    return headline(means, Choice(place), HeadlineNumber(means[place], OVER_ALL), around, confidence=0.95)


def judged(rate: float, answered: int = 10_000) -> tuple[MetricMean, MetricMean, MetricMean]:
    """Return the means of a cascade: the judge's, corrected; the proxy's; the judge's own of its sample."""
    proxy = mean("local", n=answered, standard_deviation=0.15)
    own = mean("judge", n=round(answered * rate), estimate=0.9, standard_deviation=0.3)
    return own._replace(proxy=proxy.key, standard_deviation=None), proxy, own


def test_the_answers_are_those_of_the_rule_at_the_measured_slope() -> None:
    (slope,) = (slope for slope in slopes_of("local", RELEVANCE) if slope.failure == "irrelevant documents")
    watched = Watched(0.3, 0.15, an_hour=100)
    said = would_see("local", RELEVANCE, watched, shipped_slopes("local")) or ""
    needed = answers_to_find(FALL, mean=0.3, sd=0.15, slope=slope.slope)
    assert needed <= answers(said) <= 1.1 * needed + 1
    assert "a fall of 0.20" in said
    assert "at the traffic of now" in said
    flat = answers_to_find(FALL, mean=0.3, sd=0.15, slope=slope.slope / 2)
    assert flat > needed, "a flatter slope takes more answers"


def test_unsupported_claims_are_claimed_by_no_local_number_and_the_next_step_stands_beside_it() -> None:
    said = would_see("local", METRIC, Watched(0.8, 0.15, an_hour=60), shipped_slopes("local")) or ""
    assert "wrong answers in 20% of the answers are found" in said
    assert "unsupported claims are not seen" in said
    assert "ragtide judge setup" in said
    assert "share of supported answers" not in said


def test_without_traffic_there_are_answers_and_no_time() -> None:
    none, unknown = (would_see("judge", METRIC, Watched(0.9, 0.3, an_hour=rate), {}) or "" for rate in (0.0, None))
    assert answers(none) == answers(unknown) > 0
    for said in (none, unknown):
        assert "at the traffic of now" not in said
        assert not re.search(r"\d (minute|hour|day)", said)
    assert "none come now" in none


def test_a_judge_of_a_tenth_needs_ten_times_the_answers_of_a_judge_of_all() -> None:
    everything, tenth = (answers(shown(*judged(rate), shop=50.0).would_see) for rate in (1.0, 0.1))
    assert tenth == pytest.approx(10 * everything, rel=0.1)
    said = shown(*judged(0.1), shop=50.0).would_see or ""
    assert "of which the judge scores 10%" in said


def test_a_judge_that_scores_nothing_finds_nothing() -> None:
    assert "is not found" in (would_see("judge", METRIC, Watched(0.9, 0.3, rate=0.0, an_hour=50), {}) or "")


@pytest.mark.parametrize("labeler", ["mine", "nli", "model"])
def test_of_a_labeler_that_was_not_measured_nothing_is_claimed(labeler: str) -> None:
    for metric, definition in METRICS.items():
        said = would_see(labeler, metric, Watched(0.8, 0.1, an_hour=50), shipped_slopes(labeler))
        assert (said is not None) == definition.from_labels
        if said is not None:
            assert "not measured" in said
            assert "found" not in said


def test_slopes_that_the_deployment_measured_count_for_their_version_alone() -> None:
    slopes = {("model", "1"): {METRIC: (Slope("unsupported claims", 0.6, 0.5, 0.7, 300),)}}
    around = Circumstances(NOW, slopes=slopes, traffic={"shop": 50.0})
    for version, measured in (("1", True), ("2", False)):
        shown = mean("model", labeler_version=version, standard_deviation=0.2)
        said = headline([shown], Choice(0), HeadlineNumber(shown, OVER_ALL), around, confidence=0.95).would_see or ""
        assert ("share of supported answers is found" in said) == measured
        assert ("not measured" in said) != measured


def test_a_rule_of_another_labeler_does_not_watch_the_number() -> None:
    others = AlertRule(name="drift", metric=METRIC, kind="drift", labeler="!local")
    local = shown(mean("local", standard_deviation=0.15), rules=(others,))
    assert (local.rules, local.state) == ((), "unwatched")
    assert "with a rule, wrong answers" in (local.would_see or "")
    assert shown(*judged(0.1), rules=(others,)).rules == ("drift",)


def test_a_number_that_is_steady_by_its_proxy_is_limited_and_by_its_judge_it_is_not() -> None:
    means = judged(0.1)
    rule = AlertRule(name="drift", metric=METRIC, kind="drift", labeler="!local")
    for rules, limited in (((rule,), False), ((), True)):
        around = Circumstances(NOW, rules=rules, suspected={("shop", METRIC): 0.0}, watches=watch())
        steady = headline(means, Choice(0), HeadlineNumber(means[0], OVER_ALL), around, confidence=0.95)
        assert (steady.state, bool(steady.steady_limit)) == ("steady", limited)


def test_a_steady_number_of_the_local_labeler_says_for_what() -> None:
    rule = AlertRule(name="drift", metric=METRIC, kind="drift")
    steady = headline(
        [local := mean("local", standard_deviation=0.15)],
        Choice(0),
        HeadlineNumber(local, OVER_ALL),
        Circumstances(NOW, rules=(rule,), suspected={("shop", METRIC): 0.0}),
        confidence=0.95,
    )
    assert steady.state == "steady"
    assert steady.state_text == (
        "steady for wrong documents, wrong answers and changed numbers; unsupported claims are not seen without a judge"
    )
    mine = mean("mine")
    other = headline(
        [mine],
        Choice(0),
        HeadlineNumber(mine, OVER_ALL),
        Circumstances(NOW, rules=(rule,), suspected={("shop", METRIC): 0.0}),
        confidence=0.95,
    )
    assert (other.state, other.state_text) == ("steady", "steady")


def test_a_judge_that_has_no_number_yet_is_named_in_place_of_the_next_step() -> None:
    means = judged(0.1)
    number = HeadlineNumber(means[1], OVER_ALL)
    waiting = Choice(1, MeasuredBy.of(means[0]))
    said = headline(means, waiting, number, Circumstances(NOW), confidence=0.95).would_see or ""
    assert "not seen before the judge has a number" in said
    assert "judge setup" not in said


def test_a_segment_value_and_a_count_have_no_sentence() -> None:
    assert shown(mean(segment="lang=de")).would_see is None
    assert shown(mean(metric="response.empty")).would_see is None


@pytest.mark.parametrize("metric", ["agent.wasted", "tool.search.failed"])
def test_a_number_of_runs_and_tools_is_no_share_of_answers_that_falls(metric: str) -> None:
    assert would_see("judge", RELEVANCE, Watched(0.5), {}) is not None
    assert would_see("judge", metric, Watched(0.5), {}) is None
