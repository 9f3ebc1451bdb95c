"""What a number would see is one field of its headline: page, command line, HTTP, MCP and doctor show the same."""

import asyncio
import json
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from tests.ragtide.test_doctor import findings
from tests.support.http_service import http_service
from tests.support.in_process import run_command
from tests.support.metric_events import START, event
from tests.support.owners import owners
from tests.web.page.test_page import page

from ragtide import Deployment
from ragtide.mcp_server.answers import number_fields
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import JudgedScores, utc_now

ADHERENCE = "trace.adherence"


async def test_every_surface_shows_what_a_number_would_see(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    random, now = Random(1), utc_now().replace(microsecond=0)
    events = []
    for pipeline in ("local-only", "judged"):
        for number in range(480):
            judged = JudgedScores(
                labeler="judge",
                labeler_version="m/1",
                profile="ragbench",
                scores={ADHERENCE: float(random.random() < 0.8)},
                inclusion_probability=0.5,
                uniform=True,
            )
            events.append(
                event(
                    int((now - START - timedelta(hours=20)).total_seconds()) + 120 * number,
                    {ADHERENCE: min(max(random.gauss(0.7, 0.15), 0.0), 1.0)},
                    interaction_id=f"{pipeline}-{number}",
                    pipeline=pipeline,
                    labeler="local",
                    labeled_at=now,
                    **({"judged": judged} if pipeline == "judged" and number % 2 == 0 else {}),
                )
            )
    (owner,) = owners(async_redis, Settings())
    for start in range(0, len(events), 100):
        await owner.commit(*events[start : start + 100])
    deployment = Deployment(async_redis, Settings())
    said = {each.pipeline: each.would_see or "" for each in await deployment.headlines() if each.metric == ADHERENCE}
    assert await deployment.traffic() == {"local-only": 20.0, "judged": 20.0}
    assert "unsupported claims are not seen without a judge (ragtide judge setup)" in said["local-only"]
    assert "a fall of 0.20 by the judge is found within about" in said["judged"]
    assert "of which the judge scores 50%" in said["judged"]
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "400")

    async def printed(*arguments: str) -> str:
        return (await asyncio.to_thread(run_command, capsys, *arguments)).stdout

    table, in_json = await printed("estimates"), json.loads(await printed("estimates", "--last", "24h", "--json"))
    assert {each["pipeline"]: each["would_see"] for each in in_json if each["metric"] == ADHERENCE} == said
    async with http_service(redis_url) as service:
        _, over_http = await service.get("/v1/headlines")
        for pipeline, sentence in said.items():
            _, text = await page(service, f"/p/{pipeline}")
            assert sentence in text
            assert sentence in table
    assert {each["pipeline"]: each["would_see"] for each in over_http if each["metric"] == ADHERENCE} == said
    for headline in await deployment.headlines():
        assert number_fields(headline).get("would_see", "") == (headline.would_see or "")
    found = await findings(async_redis)
    for pipeline, sentence in said.items():
        assert sentence in found[f"{pipeline}: {ADHERENCE}"].found
