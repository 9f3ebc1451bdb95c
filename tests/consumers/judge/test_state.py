"""The state of a judge as an operator sees it: in `ragtide doctor`, on /readyz, and in the log."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.consumers.judge.asking import SECRET, TOWER, settings
from tests.support.conditions import until

from ragtide import LabelerUnavailable, RagInteraction
from ragtide.testing import Says, ScriptedJudge, Status
from ragtide_consumers.labelers.protocol import SampleUnavailable
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.labelers.remote.telemetry import LabelerTelemetry
from ragtide_consumers.worker.waiting import Patience
from ragtide_roles.doctor.examination import examine
from ragtide_roles.doctor.finding import Finding
from ragtide_runtime.calls.endpoint_states import read_endpoint_states
from ragtide_runtime.redis.keys import workspace_prefix
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import Health, ProcessTelemetry

pytestmark = pytest.mark.processes

PRICES = {"test-model": {"input": 1000.0, "output": 4000.0}}


def another(number: int) -> RagInteraction:
    return TOWER.model_copy(update={"interaction_id": str(number), "question": f"Question {number}?"})


async def doctor(redis: Any, given: Settings) -> dict[str, Finding]:
    return {finding.subject: finding for finding in await examine(redis, given, "a Redis")}


async def judge_finding(redis: Any, given: Settings, level: str) -> Finding:
    """Return what doctor says of the judge, as soon as it has this level."""
    found: list[Finding] = []

    async def seen() -> bool:
        finding = (await doctor(redis, given)).get("judge test-model")
        if finding is not None and finding.level == level:
            found.append(finding)
        return bool(found)

    await until(seen)
    return found[0]


async def test_doctor_says_that_the_judge_answers_is_paused_and_answers_again(
    server: ScriptedJudge, async_redis: Any
) -> None:
    given = settings(server, attempts=1, breaker_failures=2, breaker_pause_s=0.1)
    async with labeler_of(given, async_redis) as labeler:
        assert "judge test-model" not in await doctor(async_redis, given)
        await labeler.label(TOWER)
        assert "answers" in (await judge_finding(async_redis, given, "ok")).found
        server.always = Status(500, "the disk is full")
        for number in range(2):
            with suppress(LabelerUnavailable):
                await labeler.label(another(number))
        failing = await judge_finding(async_redis, given, "problem")
        assert "paused" in failing.found
        assert "the disk is full" in failing.found
        server.always = None
        await Patience(labeler).label(TOWER)
        await judge_finding(async_redis, given, "ok")
    assert await read_endpoint_states(async_redis, given.prefix) == {}


@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        (Status(401, f"wrong key {SECRET}"), "problem", "wrong key \\*\\*\\*"),
        (Status(429, "You exceeded your current quota", kind="insufficient_quota"), "problem", "quota"),
        (Status(307, headers={"location": "http://elsewhere/"}), "problem", "redirects to http://elsewhere/"),
        (Status(429, "slow down"), "warning", "fewer calls"),
        (Status(500, "out of order"), "warning", "out of order"),
        (Says("I am happy to help you with that!"), "problem", "holds no labels"),
    ],
    ids=["key", "quota", "redirect", "busy", "error", "prose"],
)
async def test_doctor_says_what_is_wrong_with_the_judge(
    server: ScriptedJudge, async_redis: Any, answer: Any, level: str, words: str
) -> None:
    server.always = answer
    given = settings(server, attempts=1, breaker_failures=3)
    async with labeler_of(given, async_redis) as labeler:
        with suppress(LabelerUnavailable):
            await labeler.label(TOWER)
        finding = await judge_finding(async_redis, given, level)
    assert words.replace("\\", "") in finding.found
    assert SECRET not in str(finding)


async def test_doctor_knows_the_judge_of_a_run_and_says_what_was_spent_of_the_limits(
    server: ScriptedJudge, async_redis: Any
) -> None:
    live = settings(server, prices=PRICES, spend_per_day_usd=8.0)
    run = live.model_copy(update={"prefix": workspace_prefix(live.prefix, "again")})
    assert (await doctor(async_redis, live))["judge: spent"].found == "$0.00 of $8.00 today (UTC)"
    async with labeler_of(run, async_redis) as labeler:
        with suppress(LabelerUnavailable):
            for number in range(20):
                await labeler.label(another(number))
        found = await judge_finding(async_redis, live, "warning")
    assert "the spend limit of the day is reached" in found.found
    spent = (await doctor(async_redis, live))["judge: spent"]
    assert "of $8.00 today" in spent.found
    assert "$0.00" not in spent.found


@pytest.mark.parametrize("stored", [b"garbage", b"[]", b"{}", b"[" * 9999, b'{"model": 5}'])
async def test_a_state_of_another_form_is_skipped(server: ScriptedJudge, async_redis: Any, stored: bytes) -> None:
    await async_redis.sadd("ragtide:{0}:endpoint-states", "somebody", "silent")
    await async_redis.set("ragtide:{0}:endpoint-states:somebody", stored)
    assert await read_endpoint_states(async_redis, "ragtide") == {}
    assert not [name for name in await doctor(async_redis, settings(server)) if name.startswith("judge")]


async def test_processes_that_are_gone_are_forgotten(async_redis: Any, server: ScriptedJudge) -> None:
    await async_redis.sadd("ragtide:{0}:endpoint-states", "gone-1", "gone-2")
    async with labeler_of(settings(server), async_redis) as labeler:
        await labeler.label(TOWER)

        async def forgotten() -> bool:
            return len(await async_redis.smembers("ragtide:{0}:endpoint-states")) == 1

        await until(forgotten)
        assert 0 < await async_redis.ttl((await async_redis.keys("ragtide:{0}:endpoint-states:*"))[0]) <= 60


async def test_a_redis_that_fails_stops_no_labeling(server: ScriptedJudge, async_redis: Any) -> None:
    given = settings(server)
    async with labeler_of(given, async_redis) as labeler:
        await async_redis.connection_pool.disconnect()
        async_redis.connection_pool.connection_kwargs["path"] = "/nowhere"
        assert (await labeler.label(TOWER)).scores != {}


@pytest.mark.parametrize("kind", ["judge", "cascade"])
async def test_readyz_of_a_worker_says_that_its_judge_refuses(server: ScriptedJudge, kind: str) -> None:
    given = settings(server, labeler=kind)
    given = given.model_copy(update={"cascade": given.cascade.model_copy(update={"rate": 1.0})})
    server.always = Status(401, "Incorrect API key")
    health = Health()
    health.redis_answered()
    async with labeler_of(given, None, telemetry=LabelerTelemetry(ProcessTelemetry(health))) as labeler:
        patience = Patience(labeler)
        with health.reporting("worker", patience.outage):
            assert health.ready().ok
            if kind == "judge":
                waiting = patience.label(TOWER, before_waiting=_stop)
                with pytest.raises(InterruptedError):
                    await waiting
            else:
                with pytest.raises(SampleUnavailable):
                    await patience.label(TOWER)
            report = health.ready()
            assert not report.ok
            assert "Incorrect API key" in str(report)
            assert health.alive().ok


async def _stop() -> None:
    raise InterruptedError


@pytest.mark.parametrize(
    "answer", [Status(401, "no"), Status(500, "no"), Status(429, "busy"), Says("prose"), Status(307)], ids=repr
)
async def test_an_outage_of_the_judge_is_one_warning_however_many_interactions_wait(
    server: ScriptedJudge, answer: Any
) -> None:
    server.always = answer
    with capture_logs() as logs:
        async with labeler_of(settings(server, attempts=2, breaker_failures=3, breaker_pause_s=0.05), None) as labeler:
            patience = Patience(labeler)
            refused = 0
            for number in range(30):
                with suppress(InterruptedError):
                    await patience.label(another(number), before_waiting=_stop)
                    continue
                refused += 1
    assert refused > 20
    warned = [entry for entry in logs if entry["log_level"] in {"warning", "error"}]
    assert len([entry for entry in warned if entry["event"] == "the labeler is unavailable"]) == 1
    assert len(warned) <= 2  # the other names a cause of its own: 429, or an interaction without labels


async def test_the_state_has_the_calls_that_are_allowed_and_is_the_same_state_with_others(
    server: ScriptedJudge, async_redis: Any
) -> None:
    given = settings(server)
    async with labeler_of(given, async_redis) as labeler:
        await labeler.label(TOWER)
        await until(lambda: read_endpoint_states(async_redis, given.prefix))
        (state,) = (await read_endpoint_states(async_redis, given.prefix)).values()
    assert state.calls_allowed > 0
    assert state.in_flight >= 0
    assert replace(state, calls_allowed=state.calls_allowed + 1, in_flight=7) == state


async def test_doctor_shows_what_an_endpoint_is_asked_for_less(server: ScriptedJudge, async_redis: Any) -> None:
    server.script.append(Status(400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported"))
    given = settings(server)
    async with labeler_of(given, async_redis) as labeler:
        await labeler.label(TOWER)

        async def shown() -> bool:
            return "a JSON object instead of a schema" in (await judge_finding(async_redis, given, "ok")).found

        await until(shown)
