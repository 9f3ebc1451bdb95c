"""A judge's numbers are of all interactions: also of those that the proxy cannot score, or that the judge cannot tell.

Every number is computed once more from the raw events, item by item (`tests/support/judged_traffic.py`).
"""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.judged_traffic import (
    METRIC,
    ByDefinition,
    Judged,
    judged_events,
    powered_by_definition,
    weighted_by_definition,
)
from tests.support.metric_events import START
from tests.support.owners import owners

from ragtide import Deployment, Estimate, MetricEvent
from ragtide_aggregator.estimates.choices import chosen
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Headline, utc_now

SESSIONS = StateOptions(clusters=ClusterSettings(quiet_s=1000))

TRAFFIC = {
    "a third is Dutch": Judged(),
    "a twentieth is Dutch": Judged(absent=0.05),
    "most are Dutch": Judged(absent=0.6),
    "Dutch answers are alike": Judged(dutch=0.74),
    "all are English": Judged(absent=0.0),
    "all are Dutch": Judged(absent=1.0),
    "the rate changes": Judged(rates=(0.2, 0.6)),
    "Dutch answers are judged less": Judged(dutch_factor=0.3),
    "cannot tell a third of yes": Judged(absent=0.0, cannot_tell=(0.3, 0.05)),
    "cannot tell most of yes": Judged(english=0.3, cannot_tell=(0.6, 0.05)),
    "cannot tell of either": Judged(cannot_tell=(0.2, 0.2)),
    "the judge is away": Judged(cannot_tell=(0.3, 0.05), away=0.3),
    "sessions": Judged(sessions=4, cannot_tell=(0.3, 0.05)),
}


def state_of(events: list[MetricEvent], options: StateOptions = SESSIONS) -> AggregatorState:
    state = AggregatorState(options)
    for one in events:
        state.apply(one)
    return state


def by_estimator(state: AggregatorState, segment: str | None = None) -> dict[str, Estimate]:
    found = chosen(estimates(state), estimator="all")
    return {e.estimator: e for e in found if e.metric == METRIC and e.labeler == "judge" and e.segment == segment}


def numbers(estimate: Estimate) -> tuple[Any, ...]:
    return (estimate.estimate, estimate.coverage, estimate.n, estimate.n_absent)


def check(estimate: Estimate, expected: ByDefinition, truth: float) -> None:
    assert numbers(estimate) == pytest.approx(tuple(expected), abs=1e-9)
    assert estimate.lower is not None
    assert estimate.upper is not None
    assert estimate.lower <= truth <= estimate.upper
    assert estimate.upper - estimate.lower < 0.4


@pytest.mark.parametrize("name", TRAFFIC)
def test_every_estimator_is_of_all_that_can_be_told(name: str) -> None:
    events, truth = judged_events(TRAFFIC[name], 1500, seed=5)
    found = by_estimator(state_of(events))
    check(found["weighted"], weighted_by_definition(events), truth.mean)
    check(found["prediction_powered"], powered_by_definition(events), truth.mean)
    scored = np.mean([METRIC in one.scores for one in events])
    for estimator in ("weighted", "prediction_powered"):
        assert found[estimator].proxy_coverage == pytest.approx(scored)
        assert found[estimator].coverage == pytest.approx(truth.share, abs=0.06)
    if TRAFFIC[name].dutch_factor == 1:
        mean = found["mean"]
        assert mean.estimate == pytest.approx(found["weighted"].estimate), "both are of those that can be told"
        assert mean.lower is not None
        assert mean.upper is not None
        assert mean.lower < truth.mean < mean.upper


@pytest.mark.parametrize("language", ["en", "nl"])
def test_a_segment_has_its_own_strata(language: str) -> None:
    events, _ = judged_events(Judged(), 1500, seed=6)
    mine = [one for one in events if one.segments["lang"] == language]
    found = by_estimator(state_of(events), f"lang={language}")
    assert numbers(found["weighted"]) == pytest.approx(tuple(weighted_by_definition(mine)), abs=1e-9)
    assert numbers(found["prediction_powered"]) == pytest.approx(tuple(powered_by_definition(mine)), abs=1e-9)
    assert found["prediction_powered"].proxy_coverage == (language == "en")


def test_the_scores_of_a_stratum_that_nothing_is_known_about_may_be_anything() -> None:
    events, truth = judged_events(Judged(), 1500, seed=7)
    unjudged = [one.model_copy(update={"judged": None}) if one.absent else one for one in events]
    found = by_estimator(state_of(unjudged))
    english = by_estimator(state_of([one for one in unjudged if not one.absent]))
    share = np.mean([METRIC in one.scores for one in events])
    for estimator in ("weighted", "prediction_powered"):
        wide, narrow = found[estimator], english[estimator]
        assert narrow.lower is not None
        assert narrow.upper is not None
        assert (wide.lower, wide.upper) == pytest.approx((share * narrow.lower, share * narrow.upper + 1 - share))
        assert wide.lower is not None
        assert wide.upper is not None
        assert wide.lower < truth.mean < wide.upper
        assert wide.proxy_coverage == pytest.approx(share)


@pytest.mark.parametrize("sessions", [0, 4])
def test_restarts_parts_and_merges_keep_the_numbers(sessions: int) -> None:
    events, _ = judged_events(Judged(cannot_tell=(0.3, 0.05), sessions=sessions), 800, seed=8)
    whole, fields = state_of(events), dict[str, bytes]()
    for start in range(0, 800, 130):
        restarted = AggregatorState.from_fields(SESSIONS, fields)
        for one in events[start : start + 130]:
            restarted.apply(one)
        changes = restarted.take_changes()
        fields = {name: data for name, data in {**fields, **changes.rows}.items() if name not in changes.gone}
    assert fields == dict(whole.take_changes().rows)
    expected, read = by_estimator(whole), by_estimator(AggregatorState.from_fields(SESSIONS, fields))
    assert read == expected
    parts = [state_of([one for n, one in enumerate(events) if n // 4 % 3 == part]) for part in range(3)]
    merged = by_estimator(AggregatorState.merged(parts, SESSIONS))
    for estimator in ("weighted", "prediction_powered"):
        assert numbers(merged[estimator]) == pytest.approx(numbers(expected[estimator]))
    if not sessions:
        exact = StateOptions(exact=True)
        halves = [
            AggregatorState.merged([state_of(part, exact) for part in cut], exact)
            for cut in ((events[:100], events[100:]), (events[::2], events[1::2]))
        ]
        for state in halves:
            state.settle()
        powered = [by_estimator(state)["prediction_powered"] for state in halves]
        assert powered[0] == powered[1]


def test_what_people_say_of_an_answer_without_a_score_counts() -> None:
    rng = np.random.default_rng(9)
    events, _ = judged_events(Judged(rates=(0.0, 0.0)), 1500, seed=9)
    gold = {n: float(rng.random() < (0.2 if one.absent else 0.8)) for n, one in enumerate(events) if n % 3 == 0}
    at_once, later = AggregatorState(StateOptions()), AggregatorState(StateOptions())
    for number, one in enumerate(events):
        given = {METRIC: gold[number]} if number in gold else {}
        at_once.apply(one.model_copy(update={"gold_scores": given}))
        later.apply(one)
    for number, score in gold.items():
        later.apply_gold(events[number], {METRIC: score})
    for state in (at_once, later):
        every = [e for e in chosen(estimates(state), estimator="all") if e.labeler == "gold" and e.segment is None]
        found = {e.estimator: e for e in every}
        assert found.keys() == {"weighted", "prediction_powered"}
        assert found["weighted"].estimate == pytest.approx(np.mean(list(gold.values())))
        assert {(e.n, e.n_absent, e.coverage) for e in every} == {(len(gold), 0, 1.0)}
        dutch = np.array([bool(one.absent) for one in events])
        means = [np.mean([score for n, score in gold.items() if dutch[n] == which]) for which in (True, False)]
        by_count = dutch.mean() * means[0] + (1 - dutch.mean()) * means[1]
        assert found["prediction_powered"].estimate == pytest.approx(by_count, abs=0.05)


@pytest.mark.parametrize("changes", [{}, {"partitions": 2, "splits": {"shop": 2}}, {"clusters": {"by": "none"}}])
@pytest.mark.parametrize("traffic", [Judged(), Judged(cannot_tell=(0.3, 0.05), sessions=4)], ids=["single", "sessions"])
async def test_headlines_of_a_range_are_of_all_in_it(async_redis: Any, traffic: Judged, changes: Any) -> None:
    settings = Settings(**changes)
    now = utc_now().replace(microsecond=0)
    before, _ = judged_events(Judged(english=0.1), 400, seed=10)
    events, truth = judged_events(traffic, 1200, seed=11)

    def moved(one: MetricEvent, name: str, hours: float) -> MetricEvent:
        at = one.occurred_at - START + now - timedelta(hours=hours)
        session = None if one.session_id is None else f"{name}-{one.session_id}"
        changed = {"interaction_id": f"{name}-{one.interaction_id}", "session_id": session}
        return one.model_copy(update={**changed, "occurred_at": at, "labeled_at": now})

    old, new = [moved(one, "old", 60) for one in before], [moved(one, "new", 3) for one in events]
    owning = owners(async_redis, settings)
    for start in range(0, 1600, 100):
        await owning[(start // 100) % len(owning)].commit(*[*old, *new][start : start + 100])
    deployment = Deployment(async_redis, settings)
    (day,) = [found for found in await deployment.headlines() if found.segment is None]
    (ever,) = [found for found in await deployment.headlines("all") if found.segment is None]
    assert isinstance(day, Headline)
    expected, whole = powered_by_definition(new), powered_by_definition([*old, *new])
    for found, numbers_of in ((day, expected), (ever, whole)):
        assert (found.labeler, found.estimator, found.n) == ("judge", "prediction_powered", numbers_of.n)
        assert (found.estimate, found.coverage) == pytest.approx((numbers_of.estimate, numbers_of.coverage))
    assert day.range == "24h"
    assert day.lower is not None
    assert day.upper is not None
    assert day.lower < truth.mean < day.upper
    assert day.upper - day.lower < 0.3
    assert day.coverage == pytest.approx(truth.share, abs=0.06)
    (local,) = [found for found in await deployment.headlines(labeler="local") if found.segment is None]
    scored = [one.scores[METRIC] for one in new if one.scores]
    assert (local.estimate, local.coverage) == pytest.approx((np.mean(scored), len(scored) / len(new)))
