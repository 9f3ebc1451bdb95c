"""A first look at many pipelines decodes what orders them, and makes the headlines of the rows in view."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.http_service import http_service
from tests.support.metric_events import adherence, beta
from tests.support.owners import Owner, owners

from ragtide import AlertRule, Deployment
from ragtide_aggregator.alerts.rule_state import RuleState
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.estimates.headline import MetricStanding
from ragtide_aggregator.reading.selected_fields import read_heads
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.settings.model import Settings

LEVEL = 1_600
"""About the bytes of a level with its detectors."""


def owner_of(redis: Any, settings: Settings) -> Owner:
    (owner,) = owners(redis, settings)
    owner.state = AggregatorState(state_options(settings))
    return owner


def counted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[object]:
    """Return a list that grows with each call of a method."""
    calls: list[object] = []
    method: Callable[..., Any] = getattr(owner, name)

    def counting(self: object, *arguments: Any, **named: Any) -> Any:
        calls.append(self)
        return method(self, *arguments, **named)

    monkeypatch.setattr(owner, name, counting)
    return calls


async def test_only_rows_in_view_have_headlines(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*(one for n in range(30) for one in adherence([0.4, 0.8], pipeline=f"p{n:04}")))
    made = counted(monkeypatch, MetricStanding, "headline")
    async with http_service(redis_url) as service, service.session.get(f"{service.url}/v1/fleet?limit=7") as reply:
        rows = await reply.json()
    assert [row["pipeline"] for row in rows] == [f"p{n:04}" for n in range(7)]
    assert len(made) == 7


async def test_a_rule_that_learns_is_not_decoded_and_a_level_only_as_far_as_it_is_shown(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, pipelines = owner_of(async_redis, Settings()), 30
    await owner.commit(*(one for n in range(pipelines) for one in adherence([0.4, 0.8], pipeline=f"p{n:04}")))
    loaded, deployment = counted(monkeypatch, RuleState, "load"), Deployment(async_redis, Settings())
    before = (await async_redis.info())["total_net_output_bytes"]
    assert len(await deployment.level_watches()) == pipelines
    assert (await async_redis.info())["total_net_output_bytes"] - before < 0.75 * pipelines * LEVEL
    assert await deployment.suspicions() == []
    assert loaded == []


async def test_levels_and_evidence_that_are_read_are_those_of_the_state(async_redis: Any) -> None:
    rule = AlertRule(name="floor", kind="threshold", metric="trace.adherence", target=0.3)
    settings = Settings(alerts=(rule,), clusters={"by": "none"})
    owner, deployment = owner_of(async_redis, settings), Deployment(async_redis, settings)
    for part, mean in enumerate((0.9, 0.9, 0.45, 0.45)):
        await owner.commit(*adherence(beta(mean, 120, seed=part), first=120 * part))
        assert await deployment.level_watches() == owner.state.watched_levels()
    assert any(level.move is not None for level in owner.state.watched_levels())
    evidence = [
        (state.key.metric, state.rule.name, found.once_in, found.run_length)
        for row in range(len(owner.state.keys))
        for state in owner.state.rules_of(row)
        if (found := state.evidence()) is not None and owner.state.keys[row].segment is None
    ]
    assert sorted(evidence) == sorted(
        (read.metric, read.rule, read.once_in, read.run_length) for read in await deployment.suspicions()
    )


async def test_a_head_is_the_beginning_of_a_value(async_redis: Any) -> None:
    streams = Settings().layout.all()[0]
    await async_redis.hset(streams.checkpoint, mapping={"steps": b"12345", "level:a": b"abcdef", "level:b": b"x"})
    read = await run_script(async_redis, read_heads(streams, ["level:a", "level:none", "level:b"], 3))
    assert read == [b"12345", None, None, b"abc", None, b"x"]
