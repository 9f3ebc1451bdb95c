"""Purposes that the settings state for a labeler stand wherever its numbers are."""

import asyncio
import json
from typing import Any

import pytest
from pydantic import ValidationError
from tests.ragtide.judged_runs import Run, plan_of, write_experiment
from tests.support.http_service import http_service
from tests.support.metric_events import adherence
from tests.support.owners import owners
from tests.web.page.test_page import page
from typer.testing import CliRunner

from ragtide.cli.app import cli
from ragtide_runtime.settings.model import Settings

STATED = '{"test": ["ranking"], "local": ["single items", "trend"]}'
WORDS = "fit for ranking; not for trend, threshold, single items"


def command(redis_url: str, *arguments: str) -> str:
    environment = {"RAGTIDE_REDIS_URL": redis_url, "RAGTIDE_FIT_FOR": STATED}
    done = CliRunner().invoke(cli, [*arguments], env=environment)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


async def test_estimates_and_the_page_show_them(async_redis: Any, redis_url: str) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([0.5] * 40))
    # The command has an event loop of its own.
    assert WORDS in await asyncio.to_thread(command, redis_url, "estimates")
    found = json.loads(await asyncio.to_thread(command, redis_url, "estimates", "--json"))
    (one,) = [one for one in found if one["metric"] == "trace.adherence"]
    assert one["fit_for"] == ["ranking"]
    async with http_service(redis_url, fit_for={"test": ("ranking",)}) as service:
        _, text = await page(service, "/p/shop")
        assert WORDS in text
    async with http_service(redis_url) as service:
        _, text = await page(service, "/p/shop")
        assert "fit for: not stated" in text


def test_a_report_cautions_about_them(redis_url: str) -> None:
    write_experiment(redis_url, Run(plan_of("may", ("a", "b")), {"a": 0.8, "b": 0.7}, labeler="local"))
    said = "\n".join(json.loads(command(redis_url, "report", "may", "--json"))["cautions"])
    assert "scored by local: fit for trend, single items; not for ranking, threshold" in said


@pytest.mark.pure
def test_they_are_purposes_in_their_order() -> None:
    settings = Settings(fit_for={"mine": ("single items", "trend", "trend")})
    assert settings.fit_for == {"mine": ("trend", "single items")}
    for wrong in ((), ("everything",)):
        with pytest.raises(ValidationError, match="fit_for"):
            Settings(fit_for={"mine": wrong})
