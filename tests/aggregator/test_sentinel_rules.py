"""Rules on sentinels through the state, with answers that are compared as the worker compares them."""

import random
from collections.abc import Iterator

from tests.support.metric_events import event

from ragtide import Alert, AlertRule, MetricEvent
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_consumers.sentinels.answers import LEARNED, SentinelMemory
from ragtide_schemas.alert_text import alert_text
from ragtide_schemas.metric_definitions import SENTINEL_AGREEMENT, SENTINEL_PIPELINE, SENTINEL_UNLIKE

RULE = AlertRule(name="judge-changed", kind="sentinel", run_length=4320)
SENTINELS = 20


def answers(*parts: tuple[int, bool]) -> Iterator[MetricEvent]:
    """Yield the events of a judge that errs by chance; in changed parts two of its verdicts are the opposite."""
    rng, memories, number = random.Random(1), [SentinelMemory() for _ in range(SENTINELS)], 0
    for n, is_changed in parts:
        for _ in range(n):
            said = {f"supported:{place}" for place in "abcde" if rng.random() < 0.95}
            answer = frozenset(said ^ {"supported:a", "supported:b"} if is_changed else said)
            compared = memories[number % SENTINELS].take(answer, name=f"{number % SENTINELS}\0{number}")
            scores = {}
            if compared is not None:
                scores = {SENTINEL_UNLIKE.name: float(compared.unlike), SENTINEL_AGREEMENT.name: compared.agreement}
            name = f"row-{number % SENTINELS}#{number}"
            yield event(number, scores, interaction_id=name, pipeline=SENTINEL_PIPELINE, labeler="judge")
            number += 1


def alerts_of(*parts: tuple[int, bool]) -> list[Alert]:
    state = AggregatorState(StateOptions(rules=(RULE,)))
    for metric_event in answers(*parts):
        state.apply(metric_event)
    return list(state.take_changes().alerts)


BEFORE = LEARNED * SENTINELS + 120


def test_an_alert_fires_when_the_judge_changes_and_resolves_when_its_answers_come_back() -> None:
    assert alerts_of((BEFORE + 400, False)) == []
    (only,) = alerts_of((BEFORE, False), (80, True))
    fired, resolved = alerts_of((BEFORE, False), (80, True), (300, False))
    assert only == fired
    assert (fired.status, resolved.status, resolved.alert_id) == ("firing", "resolved", fired.alert_id)
    assert resolved.fired_observed == fired.observed
    assert resolved.observed is not None
    assert resolved.observed < fired.observed  # type: ignore[operator]


def test_the_counts_of_an_alert_are_those_of_the_events() -> None:
    parts = ((BEFORE, False), (80, True))
    (fired,) = alerts_of(*parts)
    assert fired.began_at is not None
    since = [
        each.scores[SENTINEL_UNLIKE.name]
        for each in answers(*parts)
        if fired.began_at <= each.occurred_at <= fired.fired_at
    ]
    text = alert_text(fired)
    counts = f"{sum(since):.0f} of {len(since)} answers"
    assert len(since) == fired.observed_n
    assert counts in text.title
    assert text.change is not None
    assert counts in text.change
    assert dict(text.facts)["Since the change"].endswith(counts)
