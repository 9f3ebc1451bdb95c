"""The cost of a judge: counted per event, limited per hour and day over all workers, and not paid twice."""

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.judge.asking import TOWER, judge, settings
from tests.support.conditions import until

from ragtide import Alert, ConfigurationError, Labeler
from ragtide.testing import JudgePrompt, Labels, Says, ScriptedJudge, Status
from ragtide_consumers.labelers.protocol import SampleUnavailable
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.labelers.remote import spend as spend_module
from ragtide_consumers.labelers.remote.errors import OverBudget
from ragtide_consumers.labelers.remote.spend import FileSpend, LimitReached, RedisSpend, Reservation
from ragtide_consumers.worker.waiting import Patience
from ragtide_runtime.calls.endpoint_states import over_budget, read_spend
from ragtide_runtime.redis.keys import Streams, workspace_prefix
from ragtide_runtime.settings.labelers import JudgeSettings

pytestmark = pytest.mark.processes

PRICES = {"test-model": {"input": 1000.0, "output": 4000.0}}
LIMITED = JudgeSettings(
    model="m", prices={"m": {"input": 1, "output": 1}}, spend_per_hour_usd=1.0, spend_per_day_usd=1.5
)
NOON = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


def another(number: int) -> Any:
    return TOWER.model_copy(update={"interaction_id": str(number), "question": f"Question {number}?"})


async def test_tokens_and_dollars_of_every_call_are_in_the_labeling(server: ScriptedJudge) -> None:
    server.script += [Says("not json"), Status(500)]
    async with judge(server, prices=PRICES) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.counters == {"judge_calls": 3, "judge_repairs": 1, "judge_retries": 1}
    expected = (labeling.prompt_tokens * 1000 + labeling.completion_tokens * 4000) / 1e6
    assert labeling.cost_usd == pytest.approx(expected)
    assert labeling.cost_usd > 0


async def test_a_replay_does_not_pay_twice_and_says_so(server: ScriptedJudge, async_redis: Any) -> None:
    async with judge(server, async_redis, prices=PRICES, cache_ttl_s=60, families=("trace", "ragchecker")) as labeler:
        first = await labeler.label(TOWER)
    calls = len(server.requests)
    async with judge(server, async_redis, prices=PRICES, cache_ttl_s=60, families=("trace", "ragchecker")) as labeler:
        again = await labeler.label(TOWER.model_copy(update={"interaction_id": "replayed"}))
    assert len(server.requests) == calls
    assert again.scores == first.scores
    assert again.cost_usd == 0.0
    assert again.counters == {"cache_hits": 3}


@pytest.mark.parametrize(
    "change", [{"model": "other"}, {"temperature": 0.5}, {"language": "ru"}], ids=lambda change: next(iter(change))
)
async def test_what_may_change_the_answer_is_asked_anew(
    server: ScriptedJudge, async_redis: Any, change: dict[str, Any]
) -> None:
    async with judge(server, async_redis, cache_ttl_s=60) as labeler:
        await labeler.label(TOWER)
    async with judge(server, async_redis, cache_ttl_s=60, **change) as labeler:
        await labeler.label(TOWER)
        await labeler.label(TOWER.model_copy(update={"response": "The tower was built in 1890."}))
    assert len(server.requests) == 3


async def test_an_unusable_answer_is_not_kept(server: ScriptedJudge) -> None:
    async with judge(server, cache_ttl_s=60, repairs=0) as labeler:
        server.always = Says("no")
        assert (await labeler.label(TOWER)).scores == {}
        server.always = None
        assert (await labeler.label(TOWER)).scores != {}
        assert (await labeler.label(TOWER)).counters == {"cache_hits": 1}
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "value",
    [b"garbage", b"5", b'["a"]', b"[1,2]", b'["a", null]', b"null", b"{}", b"[" * 100_000, b"", b"\xff", b'"ab"'],
)
async def test_an_entry_of_another_form_in_the_cache_is_a_miss(
    server: ScriptedJudge, async_redis: Any, value: bytes
) -> None:
    async with judge(server, async_redis, cache_ttl_s=60) as labeler:
        first = await labeler.label(TOWER)
        (key,) = await async_redis.keys("ragtide:judge-cache:*")
        await async_redis.set(key, value)
        assert (await labeler.label(TOWER)).scores == first.scores
        assert (await labeler.label(TOWER)).counters == {"cache_hits": 1}
    assert len(server.requests) == 2


async def test_a_key_of_another_type_in_the_cache_is_a_miss_for_that_answer_alone(
    server: ScriptedJudge, async_redis: Any
) -> None:
    other = another(1)
    async with judge(server, async_redis, cache_ttl_s=60) as labeler:
        await labeler.label(TOWER)
        (key,) = await async_redis.keys("ragtide:judge-cache:*")
        await labeler.label(other)
        await async_redis.delete(key)
        await async_redis.rpush(key, "x")
        missed, found = await asyncio.gather(labeler.label(TOWER), labeler.label(other))
    assert missed.counters == {"judge_calls": 1}
    assert found.counters == {"cache_hits": 1}


async def test_without_redis_the_judge_goes_on_and_pays(server: ScriptedJudge, async_redis: Any) -> None:
    async with judge(server, async_redis, cache_ttl_s=60) as labeler:
        await async_redis.connection_pool.disconnect()
        async_redis.connection_pool.connection_kwargs["path"] = "/nowhere"
        assert (await labeler.label(TOWER)).scores != {}


async def test_a_spend_limit_needs_a_price(server: ScriptedJudge) -> None:
    with pytest.raises(ConfigurationError, match=r"no price for test-model: add the price under judge\.prices"):
        async with judge(server, spend_per_hour_usd=1.0):
            pass


async def test_over_budget_the_local_labeler_scores_if_the_settings_say_so(server: ScriptedJudge) -> None:
    async with judge(server, prices=PRICES, spend_per_hour_usd=0.0001, over_budget="local") as labeler:
        labeling = await labeler.label(TOWER)
    assert server.requests == []
    assert labeling.by is not None
    assert labeling.by.name == "local"
    assert labeling.counters == {"over_budget": 1}
    assert labeling.scores["trace.adherence"] > 0


async def test_over_budget_a_worker_waits_until_there_is_money_again(server: ScriptedJudge, async_redis: Any) -> None:
    async with judge(server, async_redis, prices=PRICES, spend_per_day_usd=100.0, cache_ttl_s=0) as labeler:
        await async_redis.set(f"ragtide:{{0}}:judge-spend:{datetime.now(UTC):%Y%m%d}", "100")
        labeling = asyncio.create_task(Patience(labeler).label(TOWER))
        for _ in range(400):
            await asyncio.sleep(0.01)
            if await async_redis.xlen(Streams("ragtide", 0).alerts):
                break
        assert not labeling.done()
        assert server.requests == []
        await async_redis.delete(*await async_redis.keys("ragtide:{0}:judge-spend:[2r]*"))  # as at the next day
        assert (await labeling).labeling.cost_usd > 0
    entries = await async_redis.xrange(Streams("ragtide", 0).alerts)
    alerts = [Alert.decode(fields[b"data"]) for _, fields in entries]
    assert [alert.status for alert in alerts] == ["firing", "resolved"]
    assert alerts[0].alert_id == alerts[1].alert_id
    assert alerts[0].kind == "budget"
    assert "$100 a day" in alerts[0].message
    assert alerts[1].resolved_at is not None


async def test_over_budget_an_impatient_judge_says_so(server: ScriptedJudge) -> None:
    async with judge(server, prices=PRICES, spend_per_hour_usd=0.0001) as labeler:
        with pytest.raises(OverBudget, match="spend limit of the hour is reached"):
            await labeler.label(TOWER)


@pytest.mark.parametrize("kind", ["file", "redis"])
async def test_workers_together_never_reserve_more_than_the_limit(kind: str, async_redis: Any, tmp_path: Path) -> None:
    now = NOON
    spend = (
        FileSpend(tmp_path / "data", LIMITED, now=lambda: now)
        if kind == "file"
        else RedisSpend(async_redis, "ragtide", LIMITED, now=lambda: now)
    )
    tries = [asyncio.create_task(spend.reserve(0.1)) for _ in range(30)]
    if kind == "file":
        await asyncio.wait(tries)
    await until(lambda: sum(task.done() for task in tries) >= 10)
    granted = [found for task in tries if task.done() and isinstance(found := task.result(), Reservation)]
    assert len(granted) == 10
    for reservation in granted:
        await spend.settle(reservation, 0.1)
    refused = [outcome for outcome in await asyncio.gather(*tries) if isinstance(outcome, LimitReached)]
    assert len(refused) == 20
    assert refused[0] == LimitReached("hour", 1800.0)
    now = NOON + timedelta(hours=1)
    found = await spend.reserve(0.5)
    assert isinstance(found, Reservation)
    await spend.settle(found, 0.5)
    assert await spend.reserve(0.1) == LimitReached("day", 10.5 * 3600)
    now = NOON + timedelta(days=1)
    assert isinstance(await spend.reserve(0.1), Reservation)


async def test_a_limit_is_reached_until_its_period_ends_or_it_changes(async_redis: Any) -> None:
    now, stream = NOON, Streams("ragtide", 0).alerts
    workers = [RedisSpend(async_redis, "ragtide", LIMITED, now=lambda: now) for _ in range(3)]
    first = await workers[0].reserve(0.95)
    assert isinstance(first, Reservation)
    # A call in flight may cost less than it reserved, so the limit is not reached before it ends.
    waiting = asyncio.create_task(workers[1].reserve(0.1))
    assert isinstance(await workers[2].reserve(0.01), Reservation)
    assert not waiting.done()
    await workers[0].settle(first, 0.93)
    assert await waiting == LimitReached("hour", 1800.0)
    assert await over_budget(async_redis, "ragtide", "judge", now=now)
    for worker in workers:  # a cheaper call would still fit
        assert await worker.reserve(0.001) == LimitReached("hour", 1800.0)
    assert await async_redis.xlen(stream) == 1
    raised = RedisSpend(async_redis, "ragtide", LIMITED.model_copy(update={"spend_per_hour_usd": 1.2}), now=lambda: now)
    assert isinstance(await raised.reserve(0.1), Reservation)
    assert await async_redis.xlen(stream) == 2, "the first call after a change resolves the alert"
    assert not await over_budget(async_redis, "ragtide", "judge", now=now)
    assert isinstance(await workers[0].reserve(0.1), Reservation | LimitReached)


async def test_the_reservation_of_a_worker_that_died_counts_as_spent(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spend_module, "IN_FLIGHT_S", 0.001)
    spend = RedisSpend(async_redis, "ragtide", LIMITED, now=lambda: NOON)
    assert isinstance(await spend.reserve(0.95), Reservation)
    assert await spend.reserve(0.1) == LimitReached("hour", 1800.0)


async def test_many_workers_over_budget_raise_one_alert(async_redis: Any) -> None:
    workers = [RedisSpend(async_redis, "ragtide", LIMITED, now=lambda: NOON) for _ in range(5)]
    await asyncio.gather(*(worker.reserve(2.0) for worker in workers for _ in range(4)))
    assert await async_redis.xlen(Streams("ragtide", 0).alerts) == 1


async def test_a_run_finds_in_the_cache_what_the_deployment_paid_for(server: ScriptedJudge, async_redis: Any) -> None:
    live = settings(server, cache_ttl_s=60)
    for one in (live, live.model_copy(update={"prefix": workspace_prefix(live.prefix, "again")})):
        async with labeler_of(one, async_redis) as labeler:
            labeling = await labeler.label(TOWER)
    assert labeling.counters == {"cache_hits": 1}
    assert len(server.requests) == 1


async def test_runs_share_the_account_and_the_alert_of_their_deployment(async_redis: Any) -> None:
    run = workspace_prefix("ragtide", "again")
    live = RedisSpend(async_redis, "ragtide", LIMITED, now=lambda: NOON)
    replay = RedisSpend(async_redis, run, LIMITED, now=lambda: NOON)
    made = await live.reserve(0.6)
    assert isinstance(made, Reservation)
    await live.settle(made, 0.6)
    assert isinstance(await replay.reserve(0.6), LimitReached)
    assert await read_spend(async_redis, run, now=NOON) == await read_spend(async_redis, "ragtide", now=NOON)
    assert (await read_spend(async_redis, "ragtide", now=NOON)).hour_usd == pytest.approx(0.6)
    assert await async_redis.xlen(Streams("ragtide", 0).alerts) == 1
    assert await async_redis.exists(Streams(run, 0).alerts) == 0


async def test_a_resolved_alert_says_that_calls_are_made_again(async_redis: Any) -> None:
    now = NOON
    falling_back = LIMITED.model_copy(update={"over_budget": "local"})
    spend = RedisSpend(async_redis, "ragtide", falling_back, now=lambda: now)
    assert isinstance(await spend.reserve(2.0), LimitReached)
    now = NOON + timedelta(days=1)
    await asyncio.gather(*(spend.reserve(0.01) for _ in range(20)))
    entries = await async_redis.xrange(Streams("ragtide", 0).alerts)
    fired, resolved = (Alert.decode(fields[b"data"]) for _, fields in entries)
    assert resolved == fired.model_copy(update={"status": "resolved", "resolved_at": now, "message": resolved.message})
    assert "is reached" in fired.message
    assert "no longer reached" in resolved.message


@pytest.mark.parametrize("when_unavailable", ["skip", "wait"])
async def test_in_a_cascade_the_alert_says_that_the_proxy_goes_on(
    server: ScriptedJudge, async_redis: Any, when_unavailable: str
) -> None:
    prices = {"test-model": {"input": 1e6, "output": 1e6}}
    given = settings(server, labeler="cascade", prices=prices, spend_per_day_usd=0.01)
    update = {"rate": 1.0, "when_unavailable": when_unavailable}
    given = given.model_copy(update={"cascade": given.cascade.model_copy(update=update)})
    async with labeler_of(given, async_redis) as labeler:
        if when_unavailable == "wait":
            with pytest.raises(SampleUnavailable, match="spend limit of the day is reached"):
                await labeler.label(TOWER)
        else:
            labeling = await labeler.label(TOWER)
            assert labeling.scores
            assert labeling.judged is not None
            assert set(labeling.judged.labeling.absent.values()) == {"over_budget"}
    ((_, fields),) = await async_redis.xrange(Streams("ragtide", 0).alerts)
    message = Alert.decode(fields[b"data"]).message
    assert "local continues" in message
    assert "labeling waits" not in message
    assert ("the sample of the judge waits" in message) == (when_unavailable == "wait")


@pytest.mark.parametrize("stored", [b"garbage", b'{"status":"firing"}', b'"status":"firing"'])
async def test_an_alert_of_another_form_is_removed_and_stops_no_call(async_redis: Any, stored: bytes) -> None:
    await async_redis.set("ragtide:{0}:judge-spend:alert", stored)
    spend = RedisSpend(async_redis, "ragtide", LIMITED, now=lambda: NOON)
    assert isinstance(await spend.reserve(0.1), Reservation)
    assert await async_redis.exists("ragtide:{0}:judge-spend:alert") == 0
    assert await async_redis.xlen(Streams("ragtide", 0).alerts) == 0


async def label_all(labeler: Labeler, count: int) -> None:
    for number in range(count):
        await labeler.label(another(number))


async def test_without_redis_a_limit_outlives_the_process(server: ScriptedJudge) -> None:
    limited: dict[str, Any] = {"prices": PRICES, "spend_per_day_usd": 20.0}
    async with judge(server, **limited) as labeler:
        with pytest.raises(OverBudget):
            await label_all(labeler, 100)
    asked = len(server.requests)
    assert asked > 0
    async with judge(server, **limited) as labeler:
        with pytest.raises(OverBudget):
            await labeler.label(another(200))
    assert len(server.requests) == asked


async def test_processes_without_redis_share_one_limit(tmp_path: Path) -> None:
    """Four processes reserve a hundredth of the limit 60 times each; a hundred of those may pass."""
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from ragtide_consumers.labelers.remote.spend import Reservation\n"
        "from ragtide_consumers.labelers.remote.spend import FileSpend\n"
        "from ragtide_runtime.settings.labelers import JudgeSettings\n"
        "spend = FileSpend(Path(sys.argv[1]), JudgeSettings(spend_per_day_usd=1.0))\n"
        "async def reserve():\n"
        "    return sum([isinstance(await spend.reserve(0.01), Reservation) for _ in range(60)])\n"
        "print(asyncio.run(reserve()))\n"
    )
    started = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(tmp_path), stdout=asyncio.subprocess.PIPE)
        for _ in range(4)
    ]
    outputs = await asyncio.gather(*(process.communicate() for process in started))
    assert sum(int(output) for output, _ in outputs) in {99, 100}  # a hundredth a hundred times is not exactly 1


@pytest.mark.parametrize(
    "content", ["", "[]", '{"20261121": "much"}', '{"20261121": NaN}', '{"20261121": -5}', "[" * 9999]
)
async def test_a_damaged_account_is_an_error_that_names_it_and_never_no_limit(tmp_path: Path, content: str) -> None:
    (tmp_path / "judge-spend.json").write_text(content)
    with pytest.raises(ConfigurationError, match=r"judge-spend\.json.*correct or remove the file"):
        FileSpend(tmp_path, LIMITED)


def test_an_account_where_others_can_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigurationError, match="can be written by other users"):
        FileSpend(tmp_path, LIMITED)


async def test_the_key_of_a_cached_answer_does_not_change(server: ScriptedJudge, async_redis: Any) -> None:
    async with judge(server, cache_ttl_s=0) as labeler:
        expected = await labeler.label(TOWER)
    (request,) = server.requests
    # The key of this prompt; another key would pay for every cached answer again.
    stored = json.dumps([Labels().answer(JudgePrompt(request)), "stop"]).encode()
    await async_redis.set("ragtide:judge-cache:00c733caf0ddeaf75f81d5f192b318fd593461be", stored)
    address: dict[str, Any] = {"base_url": "http://judge.example/v1", "cache_ttl_s": 60}
    async with judge(server, async_redis, **address) as labeler:
        found = await labeler.label(TOWER)
    assert found.counters == {"cache_hits": 1}
    assert found.scores == expected.scores


async def test_what_an_account_holds_does_not_grow(tmp_path: Path) -> None:
    now = NOON
    spend = FileSpend(tmp_path, LIMITED, now=lambda: now)
    for hours in range(0, 24 * 40, 7):
        now = NOON + timedelta(hours=hours)
        await spend.reserve(0.001)
    assert len(json.loads((tmp_path / "judge-spend.json").read_text())) < 20


@pytest.mark.parametrize("labeler", ["judge", "cascade"])
async def test_a_judge_without_model_or_key_says_what_to_set(labeler: str, server: ScriptedJudge) -> None:
    with pytest.raises(ConfigurationError, match="RAGTIDE_JUDGE_MODEL"):
        async with judge(server, labeler=labeler, model=None):
            pass
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        async with judge(server, labeler=labeler, base_url=None, api_key=None):
            pass
