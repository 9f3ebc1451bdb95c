"""While a judge scores a sample, a headline names its labeler, and its parts are by the same labeler."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.support.alerts import alert
from tests.support.metric_events import START, event
from tests.support.owners import owners

from ragtide import Deployment, MetricEvent
from ragtide_runtime.redis.keys import Streams, deployment_prefix
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import HistorySettings
from ragtide_schemas import EvaluatorScores, Headline, JudgedScores, utc_now
from ragtide_schemas.declared import MetricDeclaration

METRIC = "trace.adherence"
NOW = utc_now().replace(microsecond=0)
LOCAL, JUDGE = 0.72, 0.45
"""What the labelers' means come to, however many answers there are."""
SETTINGS = Settings(history=HistorySettings(segments=("lang",)))


class Answer(NamedTuple):
    """One answer of the world, as the tests know it."""

    at: datetime
    local: float
    judge: float
    judged: bool
    lang: str


def world(seed: int, n: int, *, rate: float = 0.3, hours_ago: float = 3.0, every_s: float = 1.0) -> list[Answer]:
    """Return answers of two languages: the judge likes English ones more, and the local labeler does not see it."""
    rng = np.random.default_rng(seed)
    begin = NOW - timedelta(hours=hours_ago)
    found = []
    for number in range(n):
        lang = "de" if rng.random() < 0.4 else "en"
        good = rng.random() < (0.30 if lang == "de" else 0.55)
        local = float(rng.beta(8, 2) if good else rng.beta(13, 7))
        at = begin + timedelta(seconds=number * every_s)
        found.append(Answer(at, local, float(good), bool(rng.random() < rate), lang))
    return found


def fields(answer: Answer, number: int, metric: str = METRIC) -> dict[str, Any]:
    return {
        "interaction_id": f"i-{answer.at:%d%H%M%S}-{number}",
        "labeled_at": NOW,
        "labeler": "local",
        "segments": {"lang": answer.lang},
        "declared": None if metric == METRIC else {metric: MetricDeclaration(version="1", lower=0.0, upper=1.0)},
    }


def second(answer: Answer) -> int:
    return int((answer.at - START).total_seconds())


def of_cascade(
    answer: Answer, number: int, *, rate: float = 0.3, metric: str = METRIC, by: str = "judge"
) -> MetricEvent:
    judged = JudgedScores(
        labeler=by, labeler_version="m/1", profile="ragbench", scores={metric: answer.judge},
        inclusion_probability=rate, uniform=True, uniform_probability=rate,
    )  # fmt: skip
    more = {**fields(answer, number, metric), "judged": judged if answer.judged else None}
    return event(second(answer), {metric: answer.local}, **more)


def of_evaluators(answer: Answer, number: int, *, rate: float = 0.3, of_all: bool = True) -> MetricEvent:
    part = EvaluatorScores(
        labeler="judge", labeler_version="m/1", profile="ragbench", scores={METRIC: answer.judge},
        inclusion_probability=rate, of_all=of_all,
    )  # fmt: skip
    more = {**fields(answer, number), "beside": (part,) if answer.judged else None}
    return event(second(answer), {METRIC: answer.local}, **more)


def of_criterion(answer: Answer, number: int) -> MetricEvent:
    return of_cascade(answer, number, metric="criteria.polite")


def of_middle(answer: Answer, number: int) -> MetricEvent:
    """Return the event of a cascade with a middle labeler, which scores half of what the judge does not."""
    if answer.judged or number % 2:
        return of_cascade(answer, number)
    return of_cascade(answer._replace(judged=True, judge=min(answer.local + 0.1, 1.0)), number, rate=0.35, by="nli")


Make = Callable[[Answer, int], MetricEvent]


async def commit(owner: Any, answers: list[Answer], make: Make, *, first: int = 0) -> None:
    for start in range(0, len(answers), 100):
        some = answers[start : start + 100]
        await owner.commit(*(make(answer, first + start + place) for place, answer in enumerate(some)))


def whole_of(found: list[Headline]) -> Headline:
    return next(each for each in found if each.segment is None)


@pytest.mark.parametrize("make", [of_cascade, of_evaluators, of_criterion, of_middle])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(1, 8))])
async def test_a_headline_names_its_labeler_from_the_first_judged_answer_on(
    async_redis: Any, make: Make, seed: int
) -> None:
    answers = world(seed, 1_500)
    (owner,) = owners(async_redis, SETTINGS)
    deployment, begin, by = Deployment(async_redis, SETTINGS), 0, []
    places = np.flatnonzero([answer.judged for answer in answers])
    for judged in (20, 66, 110, 173, 400):
        end = int(places[judged - 1]) + 1
        await commit(owner, answers[begin:end], make, first=begin)
        begin, seen = end, answers[:end]
        found = await deployment.headlines(pipeline="shop", segments=True)
        whole = whole_of(found)
        yes = sum(answer.judge for answer in seen if answer.judged)
        enough = min(yes, judged - yes) >= 30
        by.append(whole.labeler)
        assert whole.lower is not None
        assert whole.upper is not None
        if enough:
            assert (whole.labeler, whole.estimator, whole.judge) == ("judge", "prediction_powered", None)
            assert whole.lower <= JUDGE <= whole.upper
        else:
            assert (whole.labeler, whole.state, whole.band) == ("local", "being measured", None)
            assert whole.judge is not None
            assert (whole.judge.labeler, whole.judge.n, whole.judge.stopped) == ("judge", judged, False)
            assert whole.judge.needed is not None
            assert 60 <= whole.judge.needed <= 150, "about 67, once the share of good answers is known"
            assert whole.lower <= LOCAL <= whole.upper
        parts = [each for each in found if each.segment is not None]
        assert [each.segment for each in parts] == ["lang=de", "lang=en"]
        for part in parts:
            own = [answer for answer in seen if f"lang={answer.lang}" == part.segment]
            same = (part.labeler, part.labeler_version, part.estimator) == (
                whole.labeler, whole.labeler_version, whole.estimator,
            )  # fmt: skip
            if part.judge is not None:
                assert part.judge.pending
                assert part.judge.n == sum(answer.judged for answer in own)
                assert (part.labeler, part.band) == ("local", None)
                assert part.state == "being measured"
            assert same or part.judge is not None, "another labeler is named"
            (alone,) = await deployment.headlines(segment=part.segment)
            assert alone == part
    assert by == sorted(by, reverse=True), "the number goes from the local labeler to the judge once"
    assert by[-1] == "judge"
    _parts_make_up_the_whole(answers[:begin], found)


async def test_a_value_that_no_judge_has_scored_waits_for_the_judge_of_its_pipeline(async_redis: Any) -> None:
    """A new language has local scores only: its number is no part of the pipeline's, and it says so."""
    answers = world(3, 600)
    dutch = [answer._replace(lang="nl", judged=False) for answer in world(4, 80, hours_ago=2.9)]
    (owner,) = owners(async_redis, SETTINGS)
    await commit(owner, [*answers, *dutch], of_cascade)
    found = await Deployment(async_redis, SETTINGS).headlines(pipeline="shop", segments=True)
    assert whole_of(found).labeler == "judge"
    (new,) = [each for each in found if each.segment == "lang=nl"]
    assert (new.labeler, new.state, new.n) == ("local", "being measured", 80)
    assert new.judge is not None
    assert (new.judge.labeler, new.judge.n, new.judge.needed) == ("judge", 0, None)


async def test_a_value_that_the_proxy_cannot_score_has_the_mean_of_its_judge(async_redis: Any) -> None:
    """The local labeler cannot score Dutch: the judge's own sample is the number, and its interval holds the truth."""
    answers = world(3, 600)
    dutch = [answer._replace(lang="nl") for answer in world(17, 300, hours_ago=2.9)]

    def without_proxy(answer: Answer, number: int) -> MetricEvent:
        made = of_cascade(answer, number)
        return made.model_copy(update={"scores": {}, "absent": {METRIC: "language_not_supported"}})

    (owner,) = owners(async_redis, SETTINGS)
    await commit(owner, answers, of_cascade)
    await commit(owner, dutch[:60], without_proxy, first=600)
    deployment = Deployment(async_redis, SETTINGS)
    (new,) = await deployment.headlines(segment="lang=nl")
    assert (new.labeler, new.estimator, new.judge) == ("judge", "mean", None)
    assert new.n == sum(answer.judged for answer in dutch[:60])
    assert new.lower is not None
    assert new.upper is not None
    assert new.lower <= JUDGE <= new.upper
    await commit(owner, dutch[60:], without_proxy, first=660)
    (new,) = await deployment.headlines(segment="lang=nl")
    assert (new.labeler, new.estimator) == ("judge", "prediction_powered")


def _parts_make_up_the_whole(seen: list[Answer], found: list[Headline]) -> None:
    """The mean of the parts, weighted with the raw counts, is no other number than that of the whole."""
    whole, *parts = sorted(found, key=lambda each: each.segment or "")
    assert {each.labeler for each in found} == {"judge"}
    weights = [sum(f"lang={answer.lang}" == part.segment for answer in seen) / len(seen) for part in parts]
    mean = sum(weight * (part.estimate or 0) for weight, part in zip(weights, parts, strict=True))
    assert whole.lower is not None
    assert whole.upper is not None
    assert whole.lower < mean < whole.upper
    assert mean == pytest.approx(whole.estimate, abs=0.02)


RATES = {"de": 0.6, "en": 0.15}
"""Of two evaluators with one judge: the first takes German answers, the second all others."""


def recomputed(answers: list[Answer]) -> float:
    """Return the weighted prediction-powered mean, by the formula of Angelopoulos, Duchi and Zrnic."""
    judged = [answer for answer in answers if answer.judged]
    f, y = (np.array([getattr(answer, name) for answer in judged]) for name in ("local", "judge"))
    weights = np.array([1 / RATES[answer.lang] for answer in judged])
    mean_f, mean_y = np.average(f, weights=weights), np.average(y, weights=weights)
    k = np.average((f - mean_f) * (y - mean_y), weights=weights) / np.average((f - mean_f) ** 2, weights=weights)
    return float(mean_y + k * (np.mean([answer.local for answer in answers]) - mean_f))


async def test_evaluators_make_pairs_where_the_judge_may_score_every_answer(async_redis: Any) -> None:
    draws = np.random.default_rng(55).random(1_000)
    answers = [
        answer._replace(judged=bool(draw < RATES[answer.lang]))
        for answer, draw in zip(world(5, 1_000), draws, strict=True)
    ]
    (owner,) = owners(async_redis, SETTINGS)
    await commit(owner, answers, lambda answer, number: of_evaluators(answer, number, rate=RATES[answer.lang]))
    found = await Deployment(async_redis, SETTINGS).headlines(pipeline="shop", segments=True)
    assert whole_of(found).estimate == pytest.approx(recomputed(answers))
    for part in found:
        if part.segment is not None:
            own = [answer for answer in answers if f"lang={answer.lang}" == part.segment]
            assert part.estimate == pytest.approx(recomputed(own))


async def test_a_judge_of_a_part_of_the_traffic_measures_no_whole_pipeline(async_redis: Any) -> None:
    """An evaluator with segments scores German answers only: its number is none of the pipeline."""
    answers = [answer._replace(judged=answer.judged and answer.lang == "de") for answer in world(6, 1_000)]
    (owner,) = owners(async_redis, SETTINGS)
    await commit(owner, answers, lambda answer, number: of_evaluators(answer, number, of_all=False))
    found = await Deployment(async_redis, SETTINGS).headlines(pipeline="shop", segments=True)
    assert [(each.labeler, each.judge) for each in found] == [("local", None)] * 3


async def test_without_a_judge_the_local_number_keeps_its_states(async_redis: Any) -> None:
    answers = [answer._replace(judged=False) for answer in world(7, 900)]
    (owner,) = owners(async_redis, SETTINGS)
    await commit(owner, answers, of_cascade)
    (found,) = await Deployment(async_redis, SETTINGS).headlines()
    assert (found.labeler, found.judge, found.is_measured) == ("local", None, True)
    assert found.state in ("steady", "learning", "unwatched")


async def test_a_firing_alert_is_never_hidden(async_redis: Any) -> None:
    answers = world(8, 150)
    (owner,) = owners(async_redis, SETTINGS)
    firing = alert("A-1", pipeline="shop", metric=METRIC, began_at=NOW - timedelta(hours=2))
    await owner.commit(*(of_cascade(answer, number) for number, answer in enumerate(answers)), alerts=(firing,))
    (found,) = await Deployment(async_redis, SETTINGS).headlines()
    assert found.state == "firing"
    assert "being measured by the judge" in found.judge_text


def absent(answer: Answer, number: int) -> MetricEvent:
    """Return the event of a cascade that does not wait: the judge scores nothing, for a reason."""
    if not answer.judged:
        return of_cascade(answer, number)
    judged = JudgedScores(
        labeler="judge", labeler_version="m/1", profile="ragbench", scores={}, absent={METRIC: "over_budget"},
        inclusion_probability=0.3, uniform=True, uniform_probability=0.3,
    )  # fmt: skip
    return event(second(answer), {METRIC: answer.local}, **fields(answer, number), judged=judged)


def waiting(answer: Answer, number: int) -> MetricEvent:
    """Return the event of an answer that the judge was not drawn for; those for the judge wait, and have none."""
    return of_cascade(answer._replace(judged=False), number)


@pytest.mark.parametrize("stopped", [absent, waiting])
async def test_a_headline_says_that_the_judge_has_stopped_and_since_when(async_redis: Any, stopped: Make) -> None:
    """The judge scores until two hours ago, and answers come until now."""
    before, after = world(9, 900, hours_ago=2.25), world(10, 700, hours_ago=2.0, every_s=10)
    (owner,) = owners(async_redis, SETTINGS)
    await commit(owner, before, of_cascade)
    deployment = Deployment(async_redis, SETTINGS)
    (found,) = await deployment.headlines()
    assert found.judge is None
    await commit(owner, after, stopped, first=900)
    found, *parts = await deployment.headlines(pipeline="shop", segments=True)
    assert (found.state, found.labeler) == ("judge stopped", "judge")
    assert found.judge is not None
    assert found.judge.last_at is not None
    assert abs(found.judge.last_at - after[0].at) <= timedelta(minutes=6), "to a pane"
    assert [part.state for part in parts] == ["judge stopped"] * 2
    await commit(owner, world(11, 40, hours_ago=0.01), of_cascade, first=1_600)
    (found,) = await deployment.headlines()
    assert found.judge is None, "it goes on"


async def test_a_judge_that_is_no_longer_asked_hands_the_number_back(async_redis: Any) -> None:
    """A week after its last score the headline is the other labeler's again, with its states."""
    (owner,) = owners(async_redis, SETTINGS)
    await commit(owner, world(14, 600, hours_ago=24 * 9), of_cascade)
    await commit(owner, world(15, 300, hours_ago=24 * 4), waiting, first=600)
    deployment = Deployment(async_redis, SETTINGS)
    (found,) = await deployment.headlines()
    assert (found.labeler, found.state) == ("judge", "silent")
    await commit(owner, world(16, 300, hours_ago=3), waiting, first=900)
    (found,) = await deployment.headlines()
    assert (found.labeler, found.judge) == ("local", None)
    (judge,) = await deployment.headlines(labeler="judge")
    assert judge.labeler == "judge"


async def test_a_judge_of_little_traffic_has_not_stopped(async_redis: Any) -> None:
    """Three answers in a hundred are judged: 150 without a judged one say little about the judge."""
    answers = world(12, 900, rate=0.03, hours_ago=2.5, every_s=10)
    quiet = [*answers[:-150], *(answer._replace(judged=False) for answer in answers[-150:])]
    (owner,) = owners(async_redis, SETTINGS)
    await commit(owner, quiet, lambda answer, number: of_cascade(answer, number, rate=0.03))
    (found,) = await Deployment(async_redis, SETTINGS).headlines()
    assert found.judge is not None
    assert not found.judge.stopped


def of_judge(answer: Answer, number: int) -> MetricEvent:
    """Return the event of a deployment whose judge scores everything; while it rests, there is no event at all."""
    return event(
        second(answer),
        {METRIC: answer.judge},
        **{**fields(answer, number), "labeler": "judge", "labeler_version": "m/1"},
    )


@pytest.mark.parametrize("make", [of_cascade, of_judge])
async def test_a_headline_says_why_the_endpoint_of_the_judge_rests(async_redis: Any, make: Make) -> None:
    answers = world(13, 900, hours_ago=2)
    (owner,) = owners(async_redis, SETTINGS)
    await commit(owner, answers, make)
    streams = Streams(deployment_prefix(SETTINGS.prefix), 0)
    state = {"labeler": "judge", "model": "m", "paused": False, "busy": False, "last_error": "", "over_budget": "day"}
    await async_redis.sadd(streams.endpoint_states, "host-1")
    await async_redis.set(streams.endpoint_state("host-1"), json.dumps(state))
    (found,) = await Deployment(async_redis, SETTINGS).headlines()
    assert (found.state, found.labeler) == ("judge stopped", "judge")
    assert "spend limit of the day" in found.state_text
    await async_redis.set(streams.endpoint_state("host-1"), json.dumps({**state, "over_budget": ""}))
    (found,) = await Deployment(async_redis, SETTINGS).headlines()
    assert found.judge is None
