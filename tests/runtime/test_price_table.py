"""The list prices of models: certain or absent, the same everywhere, and cheap for hostile names."""

import socket
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any

import pytest
from tests.support.cases import for_each

from ragtide_runtime.calls import price_table as module
from ragtide_runtime.calls.price_table import CallTokens, PriceTable, price_table

AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MILLION = CallTokens(prompt=1_000_000, completion=1_000_000)

pytestmark = pytest.mark.pure


@pytest.fixture
def table() -> PriceTable:
    found = price_table()
    assert found is not None
    return found


def cost(table: PriceTable, model: str, tokens: CallTokens = MILLION, at: datetime = AT, **where: str) -> float | None:
    price = table.price(model, **where)
    return None if price is None else price.cost_usd(tokens, at)


@for_each(
    "model, where, dollars",
    [
        ("gpt-4o-mini", {"provider": "openai"}, 0.15 + 0.60),
        ("gpt-4o-mini-2024-07-18", {"provider": "openai"}, 0.15 + 0.60),
        ("GPT-4o-mini", {"provider": "azure.ai.openai"}, 0.15 + 0.60),
        ("gpt-4o-mini", {}, 0.15 + 0.60),
        ("gpt-4o-mini", {"provider": "langchain"}, 0.15 + 0.60),
        ("gpt-4o-mini", {"provider": "openai", "address": "api.openai.com"}, 0.15 + 0.60),
        ("gpt-4o-mini", {"provider": "openai", "address": "gateway.example"}, 0.15 + 0.60),
        ("claude-3-5-haiku-20241022", {"provider": "anthropic"}, 0.80 + 4.0),
        ("models/gemini-2.0-flash", {"provider": "gcp.gen_ai"}, 0.10 + 0.40),
        ("deepseek-chat", {"provider": "openai", "address": "api.deepseek.com"}, None),
    ],
)
def test_known_models_have_their_list_price(
    table: PriceTable, model: str, where: dict[str, Any], dollars: float | None
) -> None:
    found = cost(table, model, **where)
    assert found is not None
    if dollars is not None:
        assert found == pytest.approx(dollars)


@for_each(
    "model, where",
    [
        ("fake-gpt-2026-08-01", {"provider": "openai"}),
        ("gpt-4o-mini", {"provider": "ollama"}),  # a provider that is told and unknown
        ("gpt-4o-mini", {"provider": "anthropic"}),
        ("deepseek-chat", {}),  # anybody may serve it
        ("mistral-large-latest", {"provider": "langchain"}),
        ("gpt-oss-120b", {}),
        ("gpt-oss-120b", {"provider": "openai", "address": "localhost"}),
        ("my-claude-finetune", {}),
        ("", {"provider": "openai"}),
        ("x" * 201, {}),
        ("gpt-4o", {"provider": "o" * 201}),
        ("gpt-4o", {"address": "a" * 201}),
    ],
)
def test_a_price_that_is_not_certain_is_absent(table: PriceTable, model: str, where: dict[str, Any]) -> None:
    assert table.price(model, **where) is None


@for_each(
    "model, url, known",
    [
        ("gpt-4o-mini", "https://api.openai.com/v1/", True),
        ("gpt-4o-mini", "https://mine.openai.azure.com/openai", True),
        ("gpt-4o-mini", "http://127.0.0.1:8000/v1", False),
        ("no-such-model", "https://api.openai.com/v1/", False),
    ],
)
def test_at_an_address_only_its_provider_counts(table: PriceTable, model: str, url: str, known: bool) -> None:
    assert (table.price_at(model, url) is not None) is known


def test_tokens_of_the_cache_are_cheaper_and_counted_once(table: PriceTable) -> None:
    plain = cost(table, "gpt-4o-mini", CallTokens(prompt=1000, completion=0))
    cached = cost(table, "gpt-4o-mini", CallTokens(prompt=1000, completion=0, cache_read=1000))
    half = cost(table, "gpt-4o-mini", CallTokens(prompt=1000, completion=0, cache_read=500))
    assert plain is not None
    assert cached is not None
    assert cached < plain
    assert half == pytest.approx((plain + cached) / 2)


@for_each(
    "tokens",
    [
        CallTokens(prompt=-1, completion=0),
        CallTokens(prompt=10, completion=10**9),
        CallTokens(prompt=10, completion=0, cache_read=11),
        CallTokens(prompt=10, completion=0, cache_read=6, cache_write=6),
    ],
)
def test_impossible_tokens_have_no_cost(table: PriceTable, tokens: CallTokens) -> None:
    assert cost(table, "gpt-4o-mini", tokens) is None


def test_tokens_without_a_price_are_not_free(table: PriceTable) -> None:
    """An embedding model has no price for answers; the table counts them as 0."""
    model = "text-embedding-3-small"
    assert cost(table, model, CallTokens(prompt=1000, completion=0), provider="openai") == pytest.approx(0.00002)
    assert cost(table, model, CallTokens(prompt=1000, completion=1), provider="openai") is None


def test_every_model_has_a_cost_or_none_at_all_and_never_fails(table: PriceTable) -> None:
    from genai_prices.data import providers

    tokens = CallTokens(prompt=1000, completion=100, cache_read=10, cache_write=10)
    found = [cost(table, model.id, tokens, provider=provider.id) for provider in providers for model in provider.models]
    known = [dollars for dollars in found if dollars is not None]
    assert len(known) > 1000
    assert all(0 <= dollars < 10 for dollars in known)


def test_the_price_is_that_of_the_time_of_the_call_not_of_today(table: PriceTable) -> None:
    from genai_prices.data import providers
    from genai_prices.types import StartDateConstraint

    tokens = CallTokens(prompt=1000, completion=0)
    changes = 0
    for provider in providers:
        for model in provider.models:
            for entry in model.prices if isinstance(model.prices, list) else ():
                if not isinstance(entry.constraint, StartDateConstraint):
                    continue
                start = datetime.combine(entry.constraint.start_date, datetime.min.time(), UTC)
                times = (start - timedelta(seconds=1), start, start - timedelta(seconds=1))
                first, then, again = [cost(table, model.id, tokens, at=at, provider=provider.id) for at in times]
                assert first == again
                changes += first != then
    assert changes > 0


def test_the_table_is_named_with_its_version(table: PriceTable) -> None:
    assert table.name == f"genai-prices {version('genai-prices')}"


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    threads = threading.active_count()
    assert cost(PriceTable("t"), "gpt-4o-mini") is not None
    assert cost(PriceTable("t"), "nothing-known") is None
    assert threading.active_count() == threads


def test_prices_that_the_application_fetched_change_nothing(table: PriceTable) -> None:
    from genai_prices import data_snapshot

    data_snapshot.set_custom_snapshot(data_snapshot.DataSnapshot([], from_auto_update=True))
    try:
        assert cost(PriceTable("t"), "gpt-4o-mini") == cost(table, "gpt-4o-mini")
    finally:
        data_snapshot.set_custom_snapshot(None)


def test_foreign_names_are_not_remembered_for_ever() -> None:
    from genai_prices import data_snapshot

    table = PriceTable("t")
    bundled = data_snapshot.get_snapshot()
    for number in range(20):
        table.price(f"gpt-{number}-none", provider="openai")
    sizes = [len(kept) for kept in (bundled._lookup_cache, bundled._provider_cache, bundled._provider_misses)]
    for number in range(20, 40):
        table.price(f"gpt-{number}-none", provider="openai")
    assert sizes == [len(kept) for kept in (bundled._lookup_cache, bundled._provider_cache, bundled._provider_misses)]


HOSTILE = [
    "a" * 200,
    "-20" * 66,
    "-2026" * 40,
    "-20261231" * 22,
    "labs-" * 40,
    "claude-" * 28,
    "gpt-5-" + "0" * 190,
    "/" * 200,
    "@cf/" * 50,
    "\0" * 200,
    "\ud800" * 200,
    "mistral" * 28,
    "-tts" * 50,
    "İ" * 200,
]


@for_each("name", HOSTILE)
def test_hostile_names_take_no_longer_than_others(table: PriceTable, name: str) -> None:
    """A regular expression that backtracks takes seconds for such names; a look-up takes milliseconds."""
    for provider in ("", "openai", "mistral", "google", "openrouter", name):
        started = time.process_time()
        table.price(name, provider=provider, address=name if provider == name else "")
        assert time.process_time() - started < 0.5


def test_without_the_package_there_is_no_table_and_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    price_table.cache_clear()
    try:
        assert price_table() is None
        assert price_table() is None
    finally:
        price_table.cache_clear()
    assert [record.name for record in caplog.records] == ["ragtide.prices"]
    assert "pip install 'ragtide[worker]'" in caplog.text
    assert module.PACKAGE in caplog.text
