"""The headline of a metric is one number: recommended labeler, about now, with a state that follows from the data."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.aggregator.test_history_reading import committed
from tests.support.metric_events import START, event
from tests.support.owners import owners

from ragtide import Deployment, MetricEvent
from ragtide_aggregator.estimates.headline import (
    OVER_ALL,
    Choice,
    Circumstances,
    HeadlineNumber,
    MeasuredBy,
    WholeChoice,
    by_group,
    chosen_mean,
    chosen_part,
    firing_alerts,
    headline,
)
from ragtide_aggregator.estimates.means import MetricMean
from ragtide_aggregator.estimates.ranges import HeadlineRange, headline_range
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.reading.versions import last_deploy
from ragtide_aggregator.state.level_rows import WatchedLevel
from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import HistorySettings
from ragtide_schemas import AlertRule, Headline, JudgedScores, Move, utc_now

METRIC = "trace.adherence"
NOW = utc_now().replace(microsecond=0)


def at(value: float, hours_ago: float, number: int, **changes: Any) -> MetricEvent:
    second = int((NOW - START - timedelta(hours=hours_ago)).total_seconds()) + number
    return event(second, {METRIC: value}, interaction_id=f"i-{hours_ago}-{number}", labeled_at=NOW, **changes)


def mean(
    labeler: str = "local", n: int = 1000, estimate: float = 0.8, half: float = 0.02, **changes: Any
) -> MetricMean:
    key = EstimateKey("shop", None, None, METRIC, "ragbench", labeler, "1")
    key = key._replace(**{name: changes.pop(name) for name in key._fields if name in changes})
    found = MetricMean(key, n, Interval(estimate, estimate - half, estimate + half), (0.0, 1.0), updated_at=NOW)
    return found._replace(**changes)


def headline_of(found: MetricMean, **around: Any) -> Headline:
    number = HeadlineNumber(found, OVER_ALL)
    return headline([found], Choice(0), number, Circumstances(NOW, **around), confidence=0.95)


async def test_the_number_is_about_the_last_day_and_all_time_is_its_context(async_redis: Any) -> None:
    before = [at(0.9, 100, number) for number in range(300)]
    now = [at(0.3, 2, number) for number in range(200)]
    settings = Settings()
    await committed(async_redis, [*before, *now], settings)
    deployment = Deployment(async_redis, settings)
    (found,) = await deployment.headlines()
    assert [found.range, found.n, found.estimate] == ["24h", 200, pytest.approx(0.3)]
    assert found.all_time is not None
    assert [found.all_time.n, found.all_time.estimate] == [500, pytest.approx(0.66)]
    (hour,) = await deployment.headlines("1h")
    assert (hour.range, hour.n) == ("all", 500), "without a value in the range all values count, and the range says so"
    (week,) = await deployment.headlines("7d")
    assert [week.range, week.n, week.estimate] == ["7d", 500, pytest.approx(0.66)]
    (everything,) = await deployment.headlines("all")
    assert (everything.range, everything.n, everything.start) == ("all", 500, None)


async def test_without_a_history_all_values_count(async_redis: Any) -> None:
    settings = Settings(history=HistorySettings(enabled=False))
    await committed(async_redis, [at(0.9, 2, number) for number in range(50)], settings)
    (found,) = await Deployment(async_redis, settings).headlines("24h")
    assert (found.range, found.n) == ("all", 50)


async def test_a_new_version_counts_alone_once_it_has_enough_values(async_redis: Any) -> None:
    """The pane of its first value has values of the version before, and no number since the version has one of them."""
    settings = Settings(history=HistorySettings(segments=("version",)))
    old = [at(0.9, hours, -number, segments={"version": "1"}) for hours in (9, 3) for number in range(1, 200)]
    new = [at(0.5, 3, 5 * number, segments={"version": "2"}) for number in range(400)]
    await committed(async_redis, [*old, *new], settings)
    (found,) = await Deployment(async_redis, settings).headlines()
    pane_s, first_s = 300, new[0].occurred_at.timestamp()
    start_s = (first_s // pane_s + 1) * pane_s
    n = sum(each.occurred_at.timestamp() >= start_s for each in new)
    assert [found.range, found.version, found.n, found.estimate] == ["since version", "2", n, pytest.approx(0.5)]
    assert found.start is not None
    assert found.start.timestamp() == start_s


async def test_a_new_version_with_few_values_leaves_the_day(async_redis: Any) -> None:
    settings = Settings(history=HistorySettings(segments=("version",)))
    old = [at(0.9, 9, number, segments={"version": "1"}) for number in range(400)]
    new = [at(0.5, 3, number, segments={"version": "2"}) for number in range(3)]
    await committed(async_redis, [*old, *new], settings)
    (found,) = await Deployment(async_redis, settings).headlines()
    assert (found.range, found.n) == ("24h", 403)


async def test_segment_values_have_headlines_of_their_own(async_redis: Any) -> None:
    settings = Settings(history=HistorySettings(segments=("lang",)))
    german = [at(0.3, 2, number, segments={"lang": "de"}) for number in range(40)]
    english = [at(0.9, 2, 100 + number, segments={"lang": "en"}) for number in range(60)]
    await committed(async_redis, [*german, *english], settings)
    deployment = Deployment(async_redis, settings)
    (of_value,) = await deployment.headlines(segment="lang=de")
    assert (of_value.segment, of_value.range, of_value.n) == ("lang=de", "24h", 40)
    every = await deployment.headlines(pipeline="shop", segments=True)
    assert [(found.segment, found.n) for found in every] == [(None, 100), ("lang=de", 40), ("lang=en", 60)]
    assert every[1] == of_value


def chosen_place(means: list[MetricMean], numbers: Any, labeler: str | None = None) -> int | None:
    found = chosen_mean(means, numbers, labeler)
    return None if found is None else found.place


def test_a_judge_of_a_sample_counts_once_its_number_has_an_interval() -> None:
    powered = mean("judge", 60, 0.55, 0.1, proxy=mean("local").key)
    means = [mean("local", 1000, 0.79), powered, mean("judge", 60, 0.56)]
    assert chosen_mean(means, {}) == Choice(1)
    means[1] = powered._replace(interval=Interval(0.55, 0.0, 1.0))
    found = chosen_mean(means, {})
    assert found is not None
    assert found.awaited is not None
    assert (found.place, found.awaited.key.labeler) == (0, "judge")
    assert chosen_place(means, {}, "judge") == 2


def test_a_middle_labeler_counts_until_the_judge_does_and_names_whom_it_waits_for() -> None:
    judge, nli = (mean(name, n, proxy=mean("local").key) for name, n in (("judge", 20), ("nli", 300)))
    few = judge._replace(interval=Interval(0.8, 0.0, 1.0))
    assert chosen_mean([mean("local"), nli, few], {}) == Choice(1, MeasuredBy.of(judge))
    assert chosen_mean([mean("local"), nli, judge], {}) == Choice(2)


def test_the_labeler_of_most_values_in_the_range_counts_in_its_newest_version() -> None:
    old = mean("local", 9000, labeler_version="1", updated_at=NOW - timedelta(days=2))
    new, nli = mean("local", 50, labeler_version="2"), mean("nli", 400)
    numbers = {
        place: HeadlineNumber(of._replace(n=n), HeadlineRange("24h", NOW))
        for place, (of, n) in enumerate(((old, 300), (new, 150), (nli, 400)))
    }
    assert chosen_place([old, new, nli], numbers) == 1
    assert chosen_place([mean("gold", 9000), nli], {}) == 1
    assert chosen_place([mean("gold", 9000)], {}) == 0


def test_a_part_has_the_labeler_of_its_pipeline_though_another_one_scored_more_of_it() -> None:
    whole, part = MeasuredBy.of(mean("local", 900)), mean("local", 30, segment="lang=de")
    more = mean("nli", 400, segment="lang=de")
    assert chosen_part([more, part], {}, WholeChoice(whole)) == Choice(1)
    found = chosen_part([more], {}, WholeChoice(whole))
    assert found == Choice(0, whole), "without a number of that labeler, it says whose it is to be"
    assert chosen_part([more], {}, WholeChoice(whole), "local") is None
    later = part._replace(key=part.key._replace(labeler_version="2"))
    assert chosen_part([part, later], {}, WholeChoice(MeasuredBy.of(later))) == Choice(1)


def test_people_never_mix_with_other_segments_and_metrics() -> None:
    means = [mean(), mean(segment="lang=de"), mean(metric="trace.completeness")]
    assert {group: len(found) for group, found in by_group(means).items()} == {
        ("shop", None, METRIC): 1,
        ("shop", "lang=de", METRIC): 1,
        ("shop", None, "trace.completeness"): 1,
    }


def watch(**changes: Any) -> dict[tuple[str, str, str], list[WatchedLevel]]:
    key = EstimateKey("shop", None, None, METRIC, "ragbench", "local", "1")
    return {("shop", METRIC, "local"): [WatchedLevel(key, **{"since": NOW - timedelta(days=9), **changes})]}


def moved(hours_ago: float) -> Move:
    when = NOW - timedelta(hours=hours_ago)
    return Move(began_at=when, found_at=when, direction="fall", before=0.95, after=0.45, n_after=60)


RULE = AlertRule(name="mine", metric=METRIC, kind="drift")


@pytest.mark.parametrize(
    ("changes", "around", "state", "needed"),
    [
        ({}, {"watches": watch()}, "steady", None),
        ({}, {}, "unwatched", None),
        ({}, {"watches": watch(needed=120)}, "learning", 120),
        ({"n": 100, "interval": Interval(0.8, 0.6, 1.0)}, {"watches": watch()}, "too few", 300),
        ({"updated_at": NOW - timedelta(days=2)}, {"watches": watch()}, "silent", None),
        ({}, {"watches": watch(move=moved(3))}, "moved", None),
        ({}, {"watches": watch(move=moved(90))}, "steady", None),
        ({}, {"watches": watch(move=moved(3)), "suspected": {("shop", METRIC): 0.1}}, "suspicious", None),
        ({}, {"suspected": {("shop", METRIC): 0.09}}, "unwatched", None),
        ({}, {"rules": [RULE]}, "learning", None),
        ({}, {"rules": [RULE], "suspected": {("shop", METRIC): 0.0}}, "steady", None),
        ({}, {"rules": [RULE.model_copy(update={"pipeline": "search*"})]}, "unwatched", None),
        ({}, {"rules": [RULE.model_copy(update={"kind": "rmse"})]}, "unwatched", None),
        ({"segment": "lang=de"}, {"rules": [RULE.model_copy(update={"segment": "lang"})]}, "steady", None),
        ({"segment": "lang=de"}, {"rules": [RULE]}, "unwatched", None),
    ],
)
def test_the_state_follows_from_the_data(changes: Any, around: Any, state: str, needed: int | None) -> None:
    found = headline_of(mean(**changes), **around)
    assert (found.state, found.needed) == (state, needed)


def test_rules_are_named_and_a_band_needs_an_interval_inside_it_and_a_labeler_with_a_level() -> None:
    rules = [
        AlertRule(name="mine", metric=METRIC, kind="drift"),
        AlertRule(name="other", metric=METRIC, kind="drift", pipeline="search*"),
        AlertRule(name="of_lang", metric=METRIC, kind="drift", segment="lang"),
    ]
    assert headline_of(mean(), rules=rules).rules == ("mine",)
    assert headline_of(mean(segment="lang=de"), rules=rules).rules == ("of_lang",)
    assert headline_of(mean("local", estimate=0.96)).band is None, "the level of the local labeler is not right"
    assert headline_of(mean("mine", estimate=0.97)).band == "excellent"
    assert headline_of(mean("mine", estimate=0.97, half=0.4)).band is None


def test_counts_of_sentences_and_metrics_made_of_others_are_small_until_they_move() -> None:
    for metric in ("sentences.supported", "sentences.partially_supported", "trace.rmse_aggregation", "trace.average"):
        assert headline_of(mean(metric=metric)).is_small
    assert not headline_of(mean()).is_small


def test_an_unknown_range_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'2w'"):
        headline_range("2w", NOW)
    assert headline_range("default", NOW).shortens
    assert not headline_range("24h", NOW).shortens
    assert firing_alerts([]) == {}


def judged(value: float, hours_ago: float, number: int, **changes: Any) -> MetricEvent:
    """Return the event of an interaction of a cascade; every fifth was sampled for the judge, which is lower by 0.2."""
    if number % 5:
        return at(value, hours_ago, number, labeler="local", **changes)
    scores = JudgedScores(
        labeler="judge", labeler_version="1", profile="ragbench", scores={METRIC: max(value - 0.2, 0.0)},
        inclusion_probability=0.2,
    )  # fmt: skip
    return at(value, hours_ago, number, labeler="local", judged=scores, **changes)


@pytest.mark.parametrize("changes", [{}, {"partitions": 2, "splits": {"shop": 2}}, {"clusters": {"by": "none"}}])
async def test_in_a_cascade_the_prediction_powered_number_of_the_range_counts(async_redis: Any, changes: Any) -> None:
    rng = np.random.default_rng(0)
    owner_settings = Settings(**changes)
    before = [judged(float(v), 50, n) for n, v in enumerate(rng.beta(9, 1, 1000))]
    now = [judged(float(v), 3, n) for n, v in enumerate(rng.beta(3, 3, 1000))]
    owning = owners(async_redis, owner_settings)
    for start in range(0, 2000, 100):
        await owning[(start // 100) % len(owning)].commit(*[*before, *now][start : start + 100])
    deployment = Deployment(async_redis, owner_settings)
    (day,) = await deployment.headlines()
    assert (day.labeler, day.estimator, day.proxy, day.range, day.n) == (
        "judge", "prediction_powered", "local", "24h", 200,
    )  # fmt: skip
    mean = float(np.mean([event.scores[METRIC] for event in now])) - 0.2
    assert day.estimate == pytest.approx(mean, abs=0.02)
    assert day.lower is not None
    assert day.upper is not None
    assert day.lower < mean < day.upper
    (whole,) = await deployment.headlines("all")
    estimates = await deployment.estimates(windows=False)
    (powered,) = [one for one in estimates if one.estimator == "prediction_powered" and one.metric == METRIC]
    assert (whole.n, whole.estimate, whole.lower, whole.upper) == (
        powered.n, powered.estimate, powered.lower, powered.upper,
    )  # fmt: skip
    (week,) = await deployment.headlines("7d")
    assert [week.n, week.estimate, week.lower] == [whole.n, pytest.approx(whole.estimate), pytest.approx(whole.lower)]
    (local,) = await deployment.headlines(labeler="local")
    assert (local.labeler, local.estimator, local.other_labelers) == ("local", "mean", ("judge",))


def test_the_last_deploy_needs_a_version_before_it() -> None:
    day = timedelta(days=1)
    assert last_deploy({}) is None
    assert last_deploy({"1": NOW}) is None
    assert last_deploy({"1": NOW, "2": NOW}) is None
    assert last_deploy({"10": NOW, "9": NOW + day, "8": NOW - day}) == ("9", NOW + day)


async def test_values_before_a_start_are_in_no_number_since_it(async_redis: Any) -> None:
    """A range with a name has whole hours; a range since a moment begins with the first whole pane after it."""
    before = [at(0.9, 20, number) for number in range(300)]
    after = [at(0.2, 20 - 0.25, number) for number in range(100)]
    await committed(async_redis, [*before, *after], Settings())
    start = NOW - timedelta(hours=20) + timedelta(seconds=310)
    (found,) = await Deployment(async_redis, Settings()).headlines(HeadlineRange("since", start))
    assert (found.range, found.n) == ("since", 100)


async def test_a_start_a_moment_ago_has_no_number_yet(async_redis: Any) -> None:
    """The pane of the last minutes has values from before the start: none counts, and not those of all time either."""
    now = utc_now()
    latest = at(0.2, -(now - NOW).total_seconds() / 3600, 0).model_copy(update={"labeled_at": now})
    await committed(async_redis, [*[at(0.9, 20, number) for number in range(50)], latest], Settings())
    deployment, start = Deployment(async_redis, Settings()), now - timedelta(milliseconds=1)
    (found,) = await deployment.headlines(HeadlineRange("since", start))
    assert (found.range, found.n, found.estimate, found.state) == ("since", 0, None, "too few")
    (given,) = await deployment.headlines(HeadlineRange("since", start, now + timedelta(minutes=1)))
    assert (given.range, given.n) == ("since", 1), "a range with an end has the panes that hold a part of it"
    assert given.start is not None
    assert given.start <= start
