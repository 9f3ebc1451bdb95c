"""Thumbs are a metric: its number rests on the thumbs alone, and says of how many answers they are."""

import random
from datetime import timedelta
from typing import Any

import pytest
from tests.aggregator.test_feedback import POSITIVE, STREAMS, add_event, add_feedback, caught_up, gold, letters, running
from tests.aggregator.test_history_reading import committed
from tests.support.metric_events import START, event

from ragtide import Deployment, Estimate, MetricEvent
from ragtide_aggregator.checkpoint.loading import load_checkpoint
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.feedback_joiner import judge_feedback
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_runtime.settings.alerting import DEFAULT_RULES
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import utc_now

HOURS = StateOptions(panes=Panes((window("1h"),), 30 * 60_000))
NOW = utc_now().replace(microsecond=0)


def answer(number: int, **changes: Any) -> MetricEvent:
    """Return the event of an answer as workers make it: each has a value of `response.empty`."""
    return event(number, {"trace.adherence": 0.5, "response.empty": 0.0}, **changes)


def hours_ago(hours: float, number: int, **changes: Any) -> MetricEvent:
    """Return an answer that was given some hours ago."""
    second = int((NOW - START - timedelta(hours=hours)).total_seconds()) + number
    return answer(second, interaction_id=f"i-{hours}-{number}", labeled_at=NOW, **changes)


def thumbs_of(state: AggregatorState, segment: str | None = None, span: str = "all") -> list[Estimate]:
    return [e for e in estimates(state) if (e.metric, e.segment, e.window) == (POSITIVE, segment, span)]


def test_the_number_and_the_response_rate_are_those_of_the_raw_events() -> None:
    rng = random.Random(5)
    state, answers, thumbs = AggregatorState(HOURS), list[MetricEvent](), dict[int, float]()
    for number in range(600):
        labeler = rng.choice([{}, {"labeler_version": "2"}, {"labeler": "other"}])
        segments = {"lang": rng.choice(["de", "en"])}
        absent = rng.choice([{}, {"trace.completeness": "no_sentences"}])
        one = answer(10 * number, segments=segments, absent=absent, **labeler)
        answers.append(one)
        inline = rng.random() < 0.1
        if inline:
            thumbs[number] = float(rng.random() < 0.7)
            one = one.model_copy(update={"gold_scores": {POSITIVE: thumbs[number]}})
        state.apply(one)
        late = rng.randrange(number + 1)
        if late not in thumbs and rng.random() < 0.1:
            thumbs[late] = float(rng.random() < 0.7)
            state.apply_gold(answers[late], {POSITIVE: thumbs[late]})
    last_hour = answers[-1].occurred_at.replace(minute=0, second=0)
    for segment in (None, "lang=de", "lang=en"):
        chosen = [
            number for number, one in enumerate(answers) if segment in (None, f"lang={(one.segments or {})['lang']}")
        ]
        for span in ("all", "1h"):
            members = [number for number in chosen if span == "all" or answers[number].occurred_at >= last_hour]
            given = [thumbs[number] for number in members if number in thumbs]
            (found,) = thumbs_of(state, segment, span)
            assert (found.n, found.n_absent) == (len(given), len(members) - len(given))
            assert found.coverage == pytest.approx(len(given) / len(members))
            assert found.estimate == pytest.approx(sum(given) / len(given)), "a missing thumb is not a thumb down"


def test_without_a_thumb_there_is_no_number_and_without_a_count_of_answers_no_rate() -> None:
    state = AggregatorState(HOURS)
    for number in range(20):
        state.apply(answer(number))
    assert thumbs_of(state) == []
    bare = AggregatorState(HOURS)
    for number in range(20):
        given = {POSITIVE: 1.0} if number < 3 else {}
        bare.apply(event(number, {"trace.adherence": 0.5}, gold_scores=given))
    (found,) = thumbs_of(bare)
    assert (found.n, found.coverage, found.estimate) == (3, None, 1.0)


def test_a_run_of_known_size_with_a_thumb_for_few_answers_is_not_known_exactly() -> None:
    state = AggregatorState(StateOptions())
    for number in range(20):
        given = {POSITIVE: 1.0} if number < 3 else {}
        state.apply(answer(number, run="r", population_size=20, gold_scores=given))
    (found,) = thumbs_of(state)
    assert (found.coverage, found.exact) == (3 / 20, False)
    assert found.lower is not None
    assert found.lower < 1


async def test_a_headline_states_the_thumbs_and_the_answers_of_its_range(async_redis: Any) -> None:
    old = [hours_ago(100, number, gold_scores={POSITIVE: 0.0}) for number in range(30)]
    new = [
        hours_ago(
            2,
            number,
            segments={"lang": "de" if number % 4 else "en"},
            gold_scores={POSITIVE: 1.0} if number < 8 else {},
        )
        for number in range(200)
    ]
    settings = Settings()
    owner = await committed(async_redis, [*old, *new], settings)

    async def counts(span: str, segment: str | None = None) -> Any:
        of_all = await Deployment(async_redis, settings).headlines(span, segment=segment)
        (found,) = [one for one in of_all if one.metric == POSITIVE]
        return found.range, found.n, found.n_absent, found.coverage, found.estimate

    assert await counts("24h") == ("24h", 8, 192, pytest.approx(0.04), 1.0)
    assert await counts("24h", "lang=en") == ("all", 2, 48, pytest.approx(0.04), 1.0)
    assert await counts("all") == ("all", 38, 192, pytest.approx(38 / 230), pytest.approx(8 / 38))
    # An answer more without a thumb changes the rate, and not the number.
    await owner.commit(hours_ago(1, 0))
    assert await counts("24h") == ("24h", 8, 193, pytest.approx(8 / 201), 1.0)


async def test_a_late_thumb_counts_for_its_answer_and_a_changed_one_does_not_count_again(async_redis: Any) -> None:
    for number in range(4):
        await add_event(async_redis, answer(number))
    async with running(async_redis):
        await caught_up(async_redis)
        await add_feedback(async_redis, gold(1, 1.0, POSITIVE, annotator="ann"))
        await caught_up(async_redis)
        await add_feedback(async_redis, gold(1, 0.0, POSITIVE, annotator="ann"))  # the user changes the thumb
        await add_feedback(async_redis, gold(1, 0.0, POSITIVE, annotator="bob"))
        await caught_up(async_redis)
    (found,) = thumbs_of((await load_checkpoint(async_redis, STREAMS, StateOptions())).state)
    assert (found.n, found.n_absent, found.coverage, found.estimate) == (1, 3, 0.25, 1.0)
    rejected = await letters(async_redis)
    assert [letter.reason for letter in rejected] == ["duplicate", "duplicate"]
    assert judge_feedback(gold(1, 0.0, POSITIVE), answer(1), {POSITIVE}).accepted == {}


def test_the_default_rule_of_thumbs_fires_about_a_fall_and_not_about_a_falling_response_rate() -> None:
    (rule,) = [rule for rule in DEFAULT_RULES if rule.metric == POSITIVE]
    assert rule.name == "thumbs-drift"
    rng = random.Random(3)

    def alerts(mean_after: float, rate_after: float) -> list[str]:
        state = AggregatorState(StateOptions(rules=(rule,)))
        for number in range(4_000):
            mean, rate = (0.85, 0.4) if number < 2_000 else (mean_after, rate_after)
            given = {POSITIVE: float(rng.random() < mean)} if rng.random() < rate else {}
            state.apply(answer(number, gold_scores=given))
        return [alert.rule for alert in state.firing()]

    assert alerts(0.3, 0.4) == ["thumbs-drift"]
    assert alerts(0.85, 0.1) == []
