"""The price of a judge's model: of the settings, else the list price of the provider at its address, else unknown."""

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import pytest
from tests.consumers.judge.asking import TOWER, judge

from ragtide.testing import ScriptedJudge
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_consumers.labelers.judge import client
from ragtide_consumers.labelers.judge.completions import read_reply
from ragtide_consumers.labelers.judge.costs import price_of
from ragtide_consumers.labelers.protocol import LabelerId, Labeling
from ragtide_consumers.labelers.remote.errors import OverBudget
from ragtide_runtime.settings.labelers import JudgeSettings

TABLE = f"genai-prices {version('genai-prices')}"
MINI: dict[str, Any] = {"model": "gpt-4o-mini"}

pytestmark = pytest.mark.redis  # a server in the same process


def judge_settings(**given: Any) -> JudgeSettings:
    return JudgeSettings(**{**MINI, **given})


def test_the_price_in_the_settings_comes_first() -> None:
    price = price_of(judge_settings(prices={"gpt-4o-mini": {"input": 7.0, "output": 9.0, "cached_input": 1.0}}))
    assert price is not None
    assert price.source == "settings"
    assert price.cost_usd(prompt_tokens=1_000_000, completion_tokens=0) == 7.0
    assert price.cost_usd(prompt_tokens=1_000_000, completion_tokens=0, cached_tokens=1_000_000) == 1.0


def test_a_model_of_a_known_provider_has_its_list_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    price = price_of(judge_settings())
    assert price is not None
    assert price.source == TABLE
    assert price.cost_usd(prompt_tokens=1_000_000, completion_tokens=1_000_000) == pytest.approx(0.75)
    assert price.cost_usd(prompt_tokens=1_000_000, completion_tokens=0, cached_tokens=1_000_000) == pytest.approx(0.075)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/v1", "https://gateway.example/v1"])
def test_the_same_name_at_an_address_of_ones_own_has_no_price(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert price_of(judge_settings(base_url=url)) is None
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    assert price_of(judge_settings()) is None


def test_a_reply_without_a_price_has_no_source() -> None:
    reply = {"choices": [{"message": {"content": "{}"}}], "usage": {"prompt_tokens": 5, "completion_tokens": 5}}
    answer = read_reply(reply, None)
    assert (answer.cost_usd, answer.cost_source) == (0.0, None)


@pytest.fixture
def at_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the scripted server be priced as if it stood at OpenAI's address."""
    real = price_of
    monkeypatch.setattr(client, "price_of", lambda judge: real(judge.model_copy(update={"base_url": None})))
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def event_of(labeling: Labeling) -> Any:
    return metric_event(TOWER, LabelerId("judge", "1", "p"), labeling, labeled_at=datetime.now(UTC), latency_s=0.1)


@pytest.mark.usefixtures("at_openai")
async def test_the_event_has_the_cost_and_the_table_it_is_from(server: ScriptedJudge) -> None:
    async with judge(server, **MINI) as labeler:
        labeling = await labeler.label(TOWER)
        assert labeler_id(labeler).name == "judge"
    event = event_of(labeling)
    assert event.cost_usd == pytest.approx((event.prompt_tokens * 0.15 + event.completion_tokens * 0.60) / 1e6)
    assert event.cost_usd > 0
    assert event.cost_source == TABLE
    assert type(event).decode(event.encode()) == event


@pytest.mark.usefixtures("at_openai")
async def test_a_spend_limit_holds_with_list_prices(server: ScriptedJudge) -> None:
    async with judge(server, **MINI, spend_per_hour_usd=1e-9) as labeler:
        with pytest.raises(OverBudget):
            await labeler.label(TOWER)
    assert server.requests == []


async def test_without_a_price_the_event_has_no_source(server: ScriptedJudge) -> None:
    async with judge(server, **MINI) as labeler:
        event = event_of(await labeler.label(TOWER))
    assert (event.cost_usd, event.cost_source) == (0.0, None)
    assert b"cost_source" not in event.encode()


async def test_prices_of_the_settings_are_named_so(server: ScriptedJudge) -> None:
    async with judge(server, prices={"test-model": {"input": 1.0, "output": 1.0}}) as labeler:
        assert event_of(await labeler.label(TOWER)).cost_source == "settings"


def test_costs_of_several_sources_name_each() -> None:
    event = event_of(Labeling({}, cost_usd=0.1, cost_sources=frozenset({"settings", TABLE})))
    assert event.cost_source == f"{TABLE}, settings"
