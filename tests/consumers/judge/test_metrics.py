"""The Prometheus metrics of the judge's client."""

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.consumers.judge.asking import TOWER, settings

from ragtide.testing import Drops, Hangs, ScriptedJudge, Status
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.labelers.remote.errors import EndpointUnavailable
from ragtide_consumers.labelers.remote.telemetry import LabelerTelemetry
from ragtide_runtime.settings.labelers import Price
from ragtide_runtime.telemetry.health import ProcessTelemetry

pytestmark = pytest.mark.processes

MODEL = {"model": "test-model"}


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"ragtide_judge_{name}", {**MODEL, **labels})


async def labeled(server: ScriptedJudge, registry: CollectorRegistry, redis: Any = None, **changes: Any) -> Any:
    options = settings(server, **changes)
    telemetry = LabelerTelemetry(ProcessTelemetry(registry=registry))
    async with labeler_of(options, redis, patient=False, telemetry=telemetry) as labeler:
        return [await labeler.label(TOWER), await labeler.label(TOWER)]


async def test_tokens_and_dollars_are_those_of_the_labelings(server: ScriptedJudge) -> None:
    registry = CollectorRegistry()
    prices = {"test-model": Price(input=1.0, output=2.0)}
    first, second = await labeled(server, registry, prices=prices)
    assert value(registry, "calls_total", outcome="answered") == 2
    assert value(registry, "call_seconds_count") == 2
    assert value(registry, "tokens_total", direction="prompt") == first.prompt_tokens + second.prompt_tokens > 0
    completion = first.completion_tokens + second.completion_tokens
    assert value(registry, "tokens_total", direction="completion") == completion > 0
    assert value(registry, "cost_usd_total") == pytest.approx(first.cost_usd + second.cost_usd)
    assert value(registry, "breaker_open") == 0
    assert (value(registry, "calls_allowed") or 0) >= 1


async def test_the_answers_of_an_endpoint_that_copes_allow_more_calls_at_once(server: ScriptedJudge) -> None:
    registry = CollectorRegistry()
    server.latency_s = 1.0  # far above what a busy processor adds, so the latency stays the usual
    telemetry = LabelerTelemetry(ProcessTelemetry(registry=registry))
    async with labeler_of(settings(server, max_in_flight=100), None, patient=False, telemetry=telemetry) as labeler:
        await asyncio.gather(*(labeler.label(TOWER) for _ in range(100)))
        assert (value(registry, "calls_allowed") or 0) > 50


async def test_each_failed_try_is_counted_by_its_kind(server: ScriptedJudge) -> None:
    registry = CollectorRegistry()
    server.script += [Status(429), Status(500), Hangs(), Drops(), Status(400, "response_format is not supported")]
    await labeled(server, registry, attempts=6, timeout_s=0.3)
    outcomes = ("rate_limited", "server_error", "timeout", "no_connection", "refused", "answered")
    assert [value(registry, "calls_total", outcome=outcome) for outcome in outcomes] == [1, 1, 1, 1, 1, 2]


async def test_an_answer_from_the_cache_costs_nothing(server: ScriptedJudge) -> None:
    registry = CollectorRegistry()
    await labeled(server, registry, cache_ttl_s=60.0)
    assert value(registry, "calls_total", outcome="answered") == 1
    assert value(registry, "cache_hits_total") == 1


async def test_an_open_breaker_is_shown(server: ScriptedJudge) -> None:
    registry = CollectorRegistry()
    server.always = Status(500)
    with pytest.raises(EndpointUnavailable):
        await labeled(server, registry, attempts=2, breaker_failures=2)
    assert value(registry, "breaker_open") == 1
