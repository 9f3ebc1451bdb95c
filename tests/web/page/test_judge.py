"""The screen of the judge: dollars against limits, calls, the judged share by reason, and agreement."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from tests.offline.test_labeler_kappas import agreeing
from tests.support.http_service import http_service
from tests.support.metric_events import event
from tests.support.owners import owners
from tests.web.page.test_item import keep, specimen
from tests.web.page.test_page import SCRIPT, page

from ragtide_aggregator.checkpoint.options import reader_options
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.present_traffic import present_traffic
from ragtide_aggregator.state.state import AggregatorState
from ragtide_roles.judge_setup.own_traffic import OwnTraffic, read_own_traffic
from ragtide_roles.judge_setup.setting_up import offered_rates
from ragtide_roles.kept.kappas import labeler_kappas
from ragtide_runtime.calls.call_counts import CallCounts, CallHistory
from ragtide_runtime.calls.endpoint_states import EndpointSpend, EndpointState, count_calls, spend_periods
from ragtide_runtime.redis.keys import SPECIMEN_SAMPLE, Streams, interaction_digest, pipeline_digest
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.settings.labelers import JudgeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Estimate, JudgedScores, MetricEvent, utc_now
from ragtide_schemas.metric_definitions import SELF_CONSISTENCY
from ragtide_web.page.judge.screen import (
    SpendChart,
    agreement_rows,
    endpoint_view,
    gold_error_rows,
    pipeline_spend,
    pipeline_usage,
)

STREAMS = Streams("ragtide", 0)
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
METRIC = "trace.adherence"


def counts(*dollars: float) -> dict[datetime, CallCounts]:
    found = {}
    for place, amount in enumerate(dollars):
        one = CallCounts()
        one.answered(0.2)
        one.spent(amount, 10, 1, model="m", purpose="live")
        found[NOON + timedelta(hours=place)] = one
    return found


def some_calls() -> CallCounts:
    one = CallCounts()
    one.answered(0.2)
    one.spent(0.5, 10, 1, model="m", purpose="live")
    return one


def cascade(n: int = 240, judged_every: int = 2, **changes: Any) -> list[MetricEvent]:
    """Return events of a cascade: of the judged ones two of three are in the uniform sample."""
    draws = np.random.default_rng(0)
    found = []
    for number in range(n):
        score = float(draws.uniform())
        judged = number % judged_every == 0
        truth = min(max(score + float(draws.normal(0, 0.05)), 0.0), 1.0)
        scores = JudgedScores(
            labeler="judge", labeler_version="m/1", profile="ragbench", scores={METRIC: truth},
            inclusion_probability=0.5, uniform=number % 3 != 0,
        )  # fmt: skip
        extra = {"judged": scores, "cost_usd": 0.01, "latency_s": 1.0} if judged else {"latency_s": 0.001}
        found.append(event(number, {METRIC: score}, **extra, **changes))
    return found


def of(events: list[MetricEvent]) -> list[Estimate]:
    state = AggregatorState(reader_options(Settings()))
    for one in events:
        state.apply(one)
    return list(estimates(state, windows=False))


def test_bars_are_drawn_against_the_limit() -> None:
    chart = SpendChart(counts(0.0, 1.0, 2.0), 4.0, 3.8)
    assert [bar[-1] for bar in chart.bars] == [0.0, 25.0, 50.0]
    assert (chart.limit_y, chart.top_usd, chart.present_usd, chart.is_near) == (0.0, 4.0, 3.8, True)
    free = SpendChart(counts(0.0, 1.0, 2.0), None, 9.0)
    assert (free.limit_y, free.top_usd, free.present_usd, free.total_usd, free.is_near) == (None, 2.0, 2.0, 3.0, False)
    assert [bar[-1] for bar in SpendChart(counts(0.0), None, 0.0).bars] == [0.0]
    assert all(x >= 0 and x + width <= 100 for _, _, x, width, _ in SpendChart(counts(*[1.0] * 24), None, 0).bars)


def test_dollars_of_pipelines_and_their_rest_add_up_to_those_of_all_calls() -> None:
    counted = {}
    for day in range(3):
        one = CallCounts()
        for pipeline, usd in (("shop", 0.1), ("bank", 0.3 * day), ("", 0.7)):
            one.spent(usd, 1, 1, model="m", purpose="live", pipeline=pipeline)
        counted[NOON + timedelta(days=day)] = one
    rows = pipeline_spend(CallHistory({NOON: counted[NOON]}, counted))
    assert [row.pipeline for row in rows] == ["bank", "shop", None]
    assert [round(row.days_usd, 9) for row in rows] == [0.9, 0.3, 2.1]
    assert [round(row.hours_usd, 9) for row in rows] == [0.0, 0.1, 0.7]
    assert sum(row.share or 0.0 for row in rows) == pytest.approx(1.0)
    assert pipeline_spend(CallHistory({}, {})) == []


def test_processes_are_grouped_by_state_the_worst_first() -> None:
    def state(*, paused: bool = False, error: str = "", over: str = "") -> EndpointState:
        return EndpointState("judge", "m", paused=paused, busy=False, last_error=error, over_budget=over)

    states = {"a": state(), "b": state(), "c": state(paused=True, error="401"), "d": state(over="hour")}
    view = endpoint_view(
        "judge", JudgeSettings(model="m"), CallHistory(counts(1.0), counts(1.0)), model="m",
        spend=EndpointSpend(0, 0), states=states,
    )  # fmt: skip
    assert [(process.word, process.names, process.detail) for process in view.processes] == [
        ("paused", ["c"], "401"),
        ("over budget", ["d"], "hour"),
        ("answers", ["a", "b"], ""),
    ]


def test_the_judged_share_is_divided_by_reason() -> None:
    (usage,) = pipeline_usage(of(cascade()))
    uniform = sum(number % 3 != 0 for number in range(0, 240, 2))
    assert (usage.labeled, usage.judged, usage.uniform, usage.chosen) == (240, 120, uniform, 120 - uniform)
    assert usage.share == 0.5
    assert usage.usd == pytest.approx(1.2)
    assert usage.labeler == "judge"


@pytest.mark.heavy
def test_the_dollars_of_a_reference_are_its_own_whatever_the_proxies_are() -> None:
    (usage,) = pipeline_usage(of([*cascade(n=30), *cascade(n=30, labeler="nli")]))
    assert (usage.labeler, usage.labeled, usage.judged) == ("judge", 60, 30)
    assert usage.uniform is not None
    assert 0 < usage.uniform <= 30


def test_where_each_interaction_is_judged_there_is_no_sample() -> None:
    events = [event(n, {METRIC: 0.5}, labeler="judge", prompts=("trace.en.1",), cost_usd=0.01) for n in range(9)]
    events += [event(n, {}, labeler="judge", absent={METRIC: "judge_unusable"}) for n in range(9, 10)]
    (usage,) = pipeline_usage(of(events))
    assert (usage.labeled, usage.judged, usage.uniform, usage.chosen) == (10, 9, None, None)
    assert pipeline_usage(of([event(0, {METRIC: 0.5})])) == []


@pytest.mark.heavy
def test_a_good_proxy_makes_the_judged_sample_worth_more_and_few_are_too_few() -> None:
    (row,) = agreement_rows(of(cascade()))
    assert (row.labeler, row.metric, row.n) == ("judge", METRIC, 120)
    assert row.gain is not None
    assert row.gain > 1
    assert row.estimate is not None
    assert row.lower is not None
    assert row.upper is not None
    assert row.lower < row.estimate < row.upper
    (few,) = agreement_rows(of(cascade(n=8)))
    assert few.gain is None


def test_the_error_against_gold_is_compared_with_its_baseline() -> None:
    def gold(noise: float) -> list[MetricEvent]:
        draws = np.random.default_rng(1)
        truths = [float(value > 0.5) for value in draws.uniform(size=400)]
        return [event(n, {METRIC: abs(truth - noise)}, gold_scores={METRIC: truth}) for n, truth in enumerate(truths)]

    (good,) = [row for row in gold_error_rows(of(gold(0.1))) if row.metric == f"rmse.{METRIC}"]
    assert (good.n, round(good.estimate or 0.0, 3), good.beats_baseline) == (400, 0.1, True)
    (bad,) = [row for row in gold_error_rows(of(gold(0.9))) if row.metric == f"rmse.{METRIC}"]
    assert bad.beats_baseline is False


async def count_some(redis: Any) -> None:
    """Count calls of a judge that is paused and near its limit."""
    now = utc_now()
    for back in range(30):
        one = CallCounts()
        for number in range(10):
            one.answered(0.2 + 0.1 * number)
            pipeline = "bank" if number > 5 else f"shop {SCRIPT}"
            names = {"purpose": "runs" if number > 7 else "live", "pipeline": pipeline}
            one.spent(0.011 * (1 + back % 7), 800, 90, model="gpt-5-mini", **names)
        one.failed("timeout")
        one.found(0.01)
        at = now - timedelta(hours=back * (1 if back < 24 else 24))
        await run_script(redis, count_calls(STREAMS, "judge", one, at=at, process="a", batch=back + 1))
    hour, day = spend_periods(now)
    await redis.mset({STREAMS.labeler_spend("judge", hour): "0.95", STREAMS.labeler_spend("judge", day): "7.5"})
    state = {"labeler": "judge", "model": "gpt-5-mini", "paused": True, "busy": False, "last_error": f"429 {SCRIPT}",
             "in_flight": 3, "calls_allowed": 8}  # fmt: skip
    await redis.sadd(STREAMS.endpoint_states, "host-1")
    await redis.set(STREAMS.endpoint_state("host-1"), json.dumps(state))


async def fill(redis: Any) -> None:
    """Fill a deployment with calls of a judge and a pipeline of a cascade."""
    await count_some(redis)
    (owner,) = owners(redis, Settings())
    await owner.commit(
        *cascade(pipeline=f"shop {SCRIPT}"), *cascade(n=10, pipeline="bank"), *asked_twice(f"shop {SCRIPT}")
    )


LIMITED = {"model": "gpt-5-mini", "spend_per_hour_usd": 1.0, "spend_per_day_usd": 20.0}


async def test_the_screen_has_dollars_calls_and_agreement(async_redis: Any, redis_url: str) -> None:
    await fill(async_redis)
    async with http_service(redis_url, judge=LIMITED) as service:
        status, text = await page(service, "/judge")
    assert status == 200, text
    for shown in ("$0.95", "$7.50", "limit nearly reached", "answered 240", "timeout 24", "gpt-5-mini", "×", "paused",
                  "3 calls at once, of 8 allowed",
                  "Dollars by pipeline"):  # fmt: skip
        assert shown in text, shown
    assert "<script>alert" not in text


async def test_kappa_has_n_and_an_interval_and_hides_other_pipelines(async_redis: Any, redis_url: str) -> None:
    found = [specimen.model_copy(update={"labeled_at": utc_now()}) for specimen in agreeing(40)]
    await keep(async_redis, *found, name="judged")
    ids = [one.interaction.interaction_id for one in reversed(found)]
    digests = {interaction_digest("shop", one): 100 + place for place, one in enumerate(ids)}
    await async_redis.zadd(STREAMS.specimen_order(pipeline_digest("shop")), digests)
    tokens = [{"name": "bank", "token": "bank-0123456789", "access": ["read"], "pipelines": ["bank"]}]
    tokens += [{"name": "all", "token": "all-0123456789", "access": ["read"]}]
    async with http_service(redis_url, serve={"tokens": tokens}) as service:
        _, text = await page(service, "/judge", Authorization="Bearer all-0123456789")
        assert "local, judge" in text
        agreement = labeler_kappas(found)[0].kappa
        assert agreement is not None
        assert f"{agreement.estimate:.3f}" in text
        _, text = await page(service, "/judge", Authorization="Bearer bank-0123456789")
        assert ("local, judge" in text, "No kept item has marks of two labelers yet." in text) == (False, True)


def asked_twice(pipeline: str, n: int = 60) -> list[MetricEvent]:
    """Return events of a judge that agrees with itself about 90% of the sentences."""
    return [
        event(
            5_000 + number,
            {SELF_CONSISTENCY.name: 1.0 if number % 5 else 0.5},
            pipeline=pipeline,
            interaction_id=f"twice-{number}",
            labeler="judge",
            labeler_version="gpt-5-mini/trace.1",
        )
        for number in range(n)
    ]


async def test_the_agreement_of_the_judge_with_itself_has_n_and_an_interval(async_redis: Any, redis_url: str) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*asked_twice("shop"), *asked_twice("bank"))
    tokens = [{"name": "bank", "token": "bank-0123456789", "access": ["read"], "pipelines": ["bank"]}]
    async with http_service(redis_url, serve={"tokens": tokens}) as service:
        found = await service_overview(async_redis)
        _, text = await page(service, "/judge", Authorization="Bearer bank-0123456789")
    part = text.partition('id="consistency"')[2].partition("</section>")[0]
    assert "judge gpt-5-mini<" in part
    assert ">60<" in part
    assert ">90.0%<" in part
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < 0.9 < found.upper
    assert f"{found.lower:.1%} – {found.upper:.1%}" in part
    assert "shop" not in part


async def service_overview(redis: Any) -> Estimate:
    """Return the mean of the self-consistency of one pipeline."""
    found = [one for one in await Deployment(redis, Settings()).overview() if one.metric == SELF_CONSISTENCY.name]
    return next(one for one in found if one.pipeline == "bank")


async def test_an_empty_deployment_says_how_to_begin(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        status, text = await page(service, "/judge")
    assert status == 200
    assert "No judge is configured" in text
    assert text.count('<section class="panel"') == 1


async def commit_now(redis: Any, *, count: int = 400, hours: float = 20, **changes: Any) -> None:
    """Commit answers with scores of the local labeler, spread over the last hours."""
    now, (owner,) = utc_now(), owners(redis, Settings())
    events = []
    for number in range(count):
        time = now - timedelta(hours=hours) * (1 - number / count)
        fields = {"labeler": "local", "occurred_at": time, "labeled_at": time, **changes}
        events.append(event(number, {METRIC: 0.9}, **fields))
    await owner.commit(*events)


async def test_without_a_judge_the_page_says_what_each_rate_costs_and_sees(async_redis: Any, redis_url: str) -> None:
    await commit_now(async_redis)
    async with http_service(redis_url) as service:
        _, fleet = await page(service, "/")
        _, offer = await page(service, "/judge")
    assert 'id="without-judge"' in fleet
    traffic = await present_traffic(Deployment(async_redis, Settings()))
    assert traffic == {"shop": 400.0}
    _, rates = await offered_rates(Settings(), OwnTraffic(traffic))
    assert [option.rate for option in rates] == [0.01, 0.05, 0.1]
    for option in rates:
        assert option.usd_a_day is not None
        assert option.usd_a_day > 0
        assert option.sentence in offer


@pytest.mark.parametrize(
    ("labeler", "settings"), [("judge", {}), ("local", {"labeler": "cascade", "judge": {"model": "gpt-5-mini"}})]
)
async def test_with_a_judge_the_fleet_offers_none(
    labeler: str, settings: dict[str, Any], async_redis: Any, redis_url: str
) -> None:
    await commit_now(async_redis, labeler=labeler)
    async with http_service(redis_url, **settings) as service:
        _, text = await page(service, "/")
    assert "shop" in text
    assert 'id="without-judge"' not in text


async def test_the_offer_shows_no_address_and_no_key(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-page-0123456789")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:s3cret@gateway.internal/v1")
    async with http_service(redis_url) as service:
        _, text = await page(service, "/judge")
    assert "price not known" in text
    for secret in ("sk-page", "s3cret", "gateway.internal"):
        assert secret not in text


async def test_the_offer_is_for_the_texts_of_the_busiest_pipeline(async_redis: Any, redis_url: str) -> None:
    await commit_now(async_redis)
    kept = [specimen(f"i-{number}") for number in range(30)]
    await keep(async_redis, *kept, name=SPECIMEN_SAMPLE)
    digests = {interaction_digest("shop", one.interaction.interaction_id): 30 - place for place, one in enumerate(kept)}
    await async_redis.zadd(STREAMS.specimen_order(pipeline_digest("shop")), digests)
    traffic = await read_own_traffic(async_redis, Deployment(async_redis, Settings()))
    assert traffic.answers_per_day == 400.0
    assert len(traffic.items) == 20
    async with http_service(redis_url) as service:
        _, text = await page(service, "/judge")
    assert "20 kept answers" in text


async def test_traffic_of_the_last_hour_alone_is_a_day_of_it(async_redis: Any) -> None:
    await commit_now(async_redis, count=50, hours=0.5)
    assert await present_traffic(Deployment(async_redis, Settings())) == {"shop": 1200.0}


async def test_a_token_for_some_pipelines_sees_no_dollars_of_the_deployment(async_redis: Any, redis_url: str) -> None:
    await fill(async_redis)
    tokens = [{"name": "bank", "token": "bank-0123456789", "access": ["read"], "pipelines": ["bank"]}]
    async with http_service(redis_url, judge=LIMITED, serve={"tokens": tokens}) as service:
        status, text = await page(service, "/judge", Authorization="Bearer bank-0123456789")
    assert status == 200
    assert "users of all pipelines" in text
    assert "$7.50" not in text
    assert "shop" not in text
    assert "bank" in text


async def test_the_fleet_has_the_dollars_of_today_with_and_without_a_limit(async_redis: Any, redis_url: str) -> None:
    one = CallCounts()
    one.spent(1.25, 800, 90, model="m", purpose="live")
    await run_script(async_redis, count_calls(STREAMS, "judge", one, at=utc_now(), process="a", batch=1))
    async with http_service(redis_url) as service:
        assert "$1.25" in (await page(service))[1]
        await async_redis.set(STREAMS.labeler_spend("judge", spend_periods(utc_now())[1]), "1.5")
        assert "$1.50" in (await page(service))[1]
