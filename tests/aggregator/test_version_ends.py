"""An alert on a version that ended resolves, with its reason, at the same event in every run."""

import asyncio
import json
from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.aggregator.test_service import SETTINGS, STREAMS, UNHURRIED_S, caught_up
from tests.support.aggregator_settings import changed
from tests.support.conditions import until
from tests.support.metric_events import START, beta, event
from tests.support.state_cuts import ADHERENCE, WORSE, Stretch, Traffic, in_one_piece, in_pieces, steps_of

from ragtide import Alert, AlertRule
from ragtide_aggregator.alerts.version_watch import LEAST_SILENT
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.redis.keys import DATA_FIELD, CheckpointField
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_schemas import EvaluatorScores, MetricDeclaration, MetricEvent
from ragtide_schemas.alert_text import alert_text

pytestmark = pytest.mark.simulation

TONE, OTHER = "criteria.tone", "trace.context_relevance"
RULE = AlertRule(name="tone", kind="drift", metric=TONE, baseline=0.85, direction="fall", run_length=1000)
BY_LANG = RULE.model_copy(update={"segment": "lang"})

GOOD, BAD = 150, 60
DAY = 24 * 60
"""In minutes: an interaction a minute."""


def tone(number: int, score: float, version: str = "v1", **fields: Any) -> MetricEvent:
    """Return the event of an interaction with a score of a version of a criterion."""
    declared = {TONE: MetricDeclaration(version=version, lower=0, upper=1)}
    return at(number, {TONE: score, OTHER: 0.5}, declared=declared, **fields)


def at(number: int, scores: dict[str, float], **fields: Any) -> MetricEvent:
    """Return the event of an interaction, a minute after the one before."""
    time = START + timedelta(minutes=number)
    return event(number, scores, **{"occurred_at": time, "labeled_at": time, **fields})


def fallen(**fields: Any) -> list[MetricEvent]:
    """Return events of the first version, of which an alert fires."""
    scores = [*beta(0.85, GOOD, 1), *beta(0.3, BAD, 2)]
    return [tone(number, float(score), **fields) for number, score in enumerate(scores)]


def after(n: int, make: Callable[[int], MetricEvent], first: int = GOOD + BAD) -> list[MetricEvent]:
    return [make(number) for number in range(first, first + n)]


def alerts_of(events: Iterable[MetricEvent], *rules: AlertRule) -> list[Alert]:
    state = AggregatorState(StateOptions(rules=rules or (RULE,)))
    for metric_event in events:
        state.apply(metric_event)
    return list(state.take_changes().alerts)


def good(number: int, **fields: Any) -> MetricEvent:
    return tone(number, 0.9, **fields)


def judged_beside(number: int, **fields: Any) -> MetricEvent:
    """Return an event whose criterion a second evaluator scores."""
    declared = {TONE: MetricDeclaration(version="v1", lower=0, upper=1)}
    part = EvaluatorScores(
        labeler="second", labeler_version="1", profile="ragbench", scores={TONE: 0.9}, declared=declared
    )
    return at(number, {OTHER: 0.5}, beside=(part,), **fields)


REPLACED: dict[str, Callable[[int], MetricEvent]] = {
    "a changed question": lambda number: good(number, version="v2"),
    "an upgraded labeler": lambda number: good(number, labeler_version="2"),
    "another labeler": lambda number: good(number, labeler="other"),
    "another evaluator": judged_beside,
    "another profile": lambda number: good(number, profile="capstone"),
}


@pytest.mark.parametrize("make", REPLACED.values(), ids=REPLACED.keys())
def test_an_alert_on_a_replaced_version_resolves_once_and_names_its_successor(
    make: Callable[[int], MetricEvent],
) -> None:
    fired, resolved = alerts_of([*fallen(), *after(3 * DAY, make)])
    assert (fired.status, resolved.status, resolved.alert_id) == ("firing", "resolved", fired.alert_id)
    assert resolved.resolved_at is not None
    last = START + timedelta(minutes=GOOD + BAD - 1)
    assert timedelta(minutes=LEAST_SILENT) <= resolved.resolved_at - last <= timedelta(hours=3)
    # It did not recover: no level after the end is stated, and the text has the reason.
    assert resolved.fired_observed is None
    assert resolved.observed == fired.observed
    assert resolved.message in dict(alert_text(resolved).rows)["What"]


def test_the_end_names_both_versions_and_the_silence() -> None:
    _, resolved = alerts_of([*fallen(), *after(DAY, REPLACED["a changed question"])])
    for fact in ("v1", "v2", "2026-11-21 03:29 UTC"):
        assert fact in resolved.message
    # Titles stand alone where a message lists several alerts, and they are short.
    for fact in ("shop", TONE, "v2"):
        assert fact in alert_text(resolved).title


def test_a_paused_criterion_ends_its_alert_after_a_day_of_other_interactions() -> None:
    paused = after(2 * DAY, lambda number: at(number, {OTHER: 0.5}))
    fired, resolved = alerts_of([*fallen(), *paused])
    assert resolved.resolved_at is not None
    assert timedelta(0) <= resolved.resolved_at - (START + timedelta(minutes=GOOD + BAD, days=1)) <= timedelta(hours=1)
    assert alerts_of([*fallen(), *paused[: DAY - 30]]) == [fired]


def test_a_resumed_criterion_raises_an_alert_of_its_own() -> None:
    paused = after(2 * DAY, lambda number: at(number, {OTHER: 0.5}))
    resumed = after(100, lambda number: tone(number, 0.2), first=GOOD + BAD + 2 * DAY)
    first, ended, second = alerts_of([*fallen(), *paused, *resumed])
    assert [first.status, ended.status, second.status] == ["firing", "resolved", "firing"]
    assert second.alert_id != first.alert_id == ended.alert_id


CONTINUES: dict[str, Callable[[int], MetricEvent]] = {
    "two evaluators at the same time": lambda number: (
        tone(number, 0.3) if number % 7 == 0 else good(number, version="v2")
    ),
    "a rolling upgrade that is not done": lambda number: (
        tone(number, 0.3) if number % 40 == 0 else good(number, labeler_version="2")
    ),
    "a sample": lambda number: tone(number, 0.3) if number % 90 == 0 else at(number, {OTHER: 0.5}),
    "absent for a reason": lambda number: at(
        number, {OTHER: 0.5}, absent={TONE: "judge_unusable"},
        declared={TONE: MetricDeclaration(version="v1", lower=0, upper=1)},
    ),
    "another pipeline alone": lambda number: good(number, version="v2", pipeline="search"),
    "little traffic": lambda number: at(
        number, {OTHER: 0.5}, occurred_at=START + timedelta(hours=number),
        labeled_at=START + timedelta(hours=number),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "make"), CONTINUES.items(), ids=CONTINUES.keys())
def test_the_alert_of_a_version_that_continues_stays(name: str, make: Callable[[int], MetricEvent]) -> None:
    n = LEAST_SILENT - 10 if name == "little traffic" else 4 * DAY
    assert [alert.status for alert in alerts_of([*fallen(), *after(n, make)])] == ["firing"]


def test_the_silence_of_a_version_that_scores_a_sample_is_compared_with_its_gaps() -> None:
    def sampled(number: int, score: float) -> MetricEvent:
        made = tone(number, score) if number % 30 == 0 else at(number, {OTHER: 0.5})
        time = START + timedelta(minutes=10 * number)
        return made.model_copy(update={"occurred_at": time, "labeled_at": time})

    before = [sampled(number, 0.9 if number < 600 else 0.1) for number in range(1500)]
    # Both are longer than a day.
    for n, statuses in ((550, ["firing"]), (700, ["firing", "resolved"])):
        silent = [sampled(number, 0.1).model_copy(update={"scores": {OTHER: 0.5}}) for number in range(1500, 1500 + n)]
        assert [alert.status for alert in alerts_of([*before, *silent])] == statuses


def test_a_segment_value_that_rests_ends_nothing_while_its_version_continues() -> None:
    german, english = fallen(segments={"lang": "de"}), {"lang": "en"}
    rests = after(3 * DAY, lambda number: tone(number, 0.9, segments=english))
    assert [alert.status for alert in alerts_of([*german, *rests], BY_LANG)] == ["firing"]
    ends = after(DAY, lambda number: good(number, labeler_version="2", segments=english))
    assert [alert.status for alert in alerts_of([*german, *ends], BY_LANG)] == ["firing", "resolved"]


def graded(number: int, error: float, **fields: Any) -> MetricEvent:
    return at(number, {OTHER: float(number % 2)}, gold_scores={OTHER: abs(number % 2 - error)}, **fields)


OF_PEOPLE = {
    "error": AlertRule(name="error", kind="rmse", metric=OTHER, target=0.2, run_length=100),
    "kappa": AlertRule(
        name="kappa", kind="agreement", statistic="kappa", metric=OTHER, target=0.5, threshold=0.5, run_length=100
    ),
}


@pytest.mark.parametrize("rule", OF_PEOPLE.values(), ids=OF_PEOPLE.keys())
def test_an_alert_on_the_agreement_with_people_ends_with_the_version_that_they_graded(rule: AlertRule) -> None:
    before = [graded(number, float(number >= 100)) for number in range(160)]
    stays = alerts_of([*before, *after(3 * DAY, lambda number: at(number, {OTHER: 0.5}), first=160)], rule)
    assert [alert.status for alert in stays] == ["firing"]
    ends = [*before, *after(DAY, lambda number: at(number, {OTHER: 0.5}, labeler_version="2"), first=160)]
    assert [alert.status for alert in alerts_of(ends, rule)] == ["firing", "resolved"]


def test_an_alert_on_a_covariate_ends_with_the_labeler_that_learned_it() -> None:
    rule = AlertRule(
        name="longer", kind="distribution", covariate="length", learn_n=100, run_length=1000, min_effect=0.05
    )
    before = [
        at(number, {OTHER: 0.5}, covariates={"length": 10.0 + number % 20 + 90 * (number >= 300)})
        for number in range(400)
    ]
    same = after(3 * DAY, lambda number: at(number, {OTHER: 0.5}), first=400)
    assert [alert.status for alert in alerts_of([*before, *same], rule)] == ["firing"]
    other = after(DAY, lambda number: at(number, {OTHER: 0.5}, labeler_version="2"), first=400)
    assert [alert.status for alert in alerts_of([*before, *other], rule)] == ["firing", "resolved"]


def test_the_alert_in_a_checkpoint_without_a_watch_ends_too() -> None:
    options = StateOptions(rules=(RULE,))
    state = AggregatorState(options)
    for metric_event in fallen():
        state.apply(metric_event)
    fields = dict(state.take_changes().rows)
    for name, data in fields.items():
        if name.startswith(CheckpointField.RULE_STATE):
            fields[name] = json.dumps({key: of for key, of in json.loads(data).items() if key != "watch"}).encode()
    later = AggregatorState.from_fields(options, fields)
    for metric_event in after(2 * DAY, lambda number: at(number, {OTHER: 0.5})):
        later.apply(metric_event)
    assert [alert.status for alert in later.take_changes().alerts] == ["resolved"]


async def test_owners_that_take_over_in_the_silence_resolve_the_alert_once(async_redis: Any) -> None:
    events = [*fallen(), *after(400, REPLACED["a changed question"])]
    settings = changed(SETTINGS, lease_s=UNHURRIED_S, alerts=(RULE,))
    edges = [0, GOOD + BAD, GOOD + BAD + 60, GOOD + BAD + 130, GOOD + BAD + 200, len(events)]
    for first, last in pairwise(edges):
        stop = asyncio.Event()
        owner = asyncio.create_task(Aggregator(async_redis, settings, holder=f"{first}").run(stop))
        for number in range(first, last):
            # With ids of its own, because an event is never later than its entry.
            entry_id = f"{1_800_000_000_000 + number}-0"
            await async_redis.xadd(STREAMS.metrics, {DATA_FIELD: events[number].encode()}, id=entry_id)
        await until(lambda: caught_up(async_redis))
        stop.set()
        await owner
    alerts = [Alert.decode(fields[DATA_FIELD]) for _, fields in await async_redis.xrange(STREAMS.alerts)]
    assert [alert.status for alert in alerts] == ["firing", "resolved"]
    assert alerts == alerts_of(events)


PLAIN = (
    AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.7, run_length=20, resolve_run_length=20),
    AlertRule(name="given", kind="drift", metric=ADHERENCE, baseline=0.85, run_length=20),
    AlertRule(name="lang", kind="drift", metric=ADHERENCE, baseline=0.8, segment="lang", run_length=10),
    AlertRule(name="error", kind="rmse", metric=ADHERENCE, target=0.2, run_length=10),
    AlertRule(name="kappa", kind="agreement", statistic="kappa", metric=ADHERENCE, target=0.4, run_length=10),
    AlertRule(name="length", kind="distribution", covariate="length", learn_n=50, run_length=20, resolve_run_length=10),
)
"""Without windows and periods, which cut batches, too."""
VERSIONS = (
    Stretch(200, version="1"), Stretch(150, WORSE, version="1"), Stretch(400, WORSE, version="2"), Stretch(60),
    Stretch(500, version="3"),
)  # fmt: skip
"""Versions that replace each other while alerts fire; between two, labels of earlier ones come late."""
LAWS = {
    "plain": (
        StateOptions(rules=PLAIN),
        Traffic(VERSIONS, second=20, gold=0.6, later=0.1, covariates=0.9, absent=0.1, disorder_s=600, pipelines=1),
        {"floor", "given", "lang", "error", "kappa"},
    ),
    "sessions": (
        StateOptions(rules=PLAIN, clusters=ClusterSettings(size=4)),
        Traffic(VERSIONS, second=20, sessions=0.5, judged=0.2, sampled=0.1, runs=0.1),
        {"floor", "given", "lang"},
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_cuts_and_restarts_in_a_silence_change_no_bit(name: str) -> None:
    options, traffic, ended = LAWS[name]
    steps = steps_of(traffic, 1)
    whole = in_one_piece(options, steps)
    alerts = [Alert.decode(data) for of_key in whole.alerts.values() for data in of_key]
    assert ended <= {alert.rule for alert in alerts if alert.status == "resolved" and alert.fired_observed is None}
    for cuts in ([350, 380, 381, 500, 501, 502, 760, 900], range(0, len(steps), 97)):
        assert in_pieces(options, steps, list(cuts)) == whole
