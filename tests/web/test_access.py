"""Tokens, limits, and pages of other sites."""

import base64
import hashlib
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse
from pydantic import ValidationError
from tests.support.http_service import http_service

from ragtide_aggregator.service.quality import PartitionQuality
from ragtide_aggregator.service.telemetry import QualityCollector
from ragtide_runtime.settings.serve import ServeSettings
from ragtide_runtime.telemetry.quality_metrics import ALERT_FIRING
from ragtide_web.guard.access import Allowance
from ragtide_web.guard.middleware import foreign_site

QUALITY = PartitionQuality(
    {
        ALERT_FIRING: [
            (("0", "floor", "threshold", "page", pipeline, "", "trace.adherence", "", "", "", ""), 1.0)
            for pipeline in ("shop-de", "bank", "*")
        ]
    }
)
ITEM = {"pipeline": "shop-de", "question": "q", "documents": ["d"], "response": "r"}
TOKENS: list[dict[str, Any]] = [
    {"name": "all", "token": "all-0123456789abcdef"},
    {"name": "writer", "sha256": hashlib.sha256(b"writer-0123456789abcdef").hexdigest(), "access": ["write"]},
    {"name": "reader", "token": "reader-0123456789abcdef", "access": ["read"]},
    {"name": "shop", "token": "shop-0123456789abcdef", "pipelines": ["shop-*"]},
]


async def test_a_token_may_do_what_its_table_says(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        for token, write, read in (
            ("all-0123456789abcdef", 200, 200),
            ("writer-0123456789abcdef", 200, 403),
            ("reader-0123456789abcdef", 403, 200),
            ("shop-0123456789abcdef", 200, 200),
            ("unknown", 401, 401),
            (None, 401, 401),
            (TOKENS[1]["sha256"], 401, 401),
        ):
            assert (await service.post("/v1/interactions", ITEM, token))[0] == write, token
            assert (await service.get("/v1/estimates", token))[0] == read, token
        async with service.session.get(f"{service.url}/v1/alerts") as reply:
            assert reply.headers["WWW-Authenticate"].startswith("Bearer")
        assert (await service.get("/healthz"))[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer all-0123456789abcdef"},
        {"Authorization": "bearer  all-0123456789abcdef "},
        {"Authorization": "Basic " + base64.b64encode(b"pk-lf-public:all-0123456789abcdef").decode()},
        {"Authorization": "Basic " + base64.b64encode(b"all-0123456789abcdef:").decode()},
        {"x-api-key": "all-0123456789abcdef"},
    ],
)
async def test_ways_to_send_a_token(headers: dict[str, str], async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        assert (await service.get("/v1/alerts", **headers))[0] == 200


async def test_a_token_for_some_pipelines_writes_and_reads_only_these(async_redis: Any, redis_url: str) -> None:
    token = "shop-0123456789abcdef"
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        status, answer = await service.post("/v1/interactions", [ITEM, {**ITEM, "pipeline": "bank"}], token)
        assert (status, answer["published"], answer["forbidden"]) == (200, 1, 1)
        assert "is not for the pipeline 'bank'" in answer["items"][1]["detail"]
        status, answer = await service.post("/v1/interactions", [{**ITEM, "pipeline": "bank"}], token)
        assert status == 403
        assert (await service.get("/v1/runs", token))[0] == 403
        feedback = {"pipeline": "bank", "interaction_id": "i", "gold_scores": {"trace.adherence": 1}}
        assert (await service.post("/v1/feedback", feedback, token))[0] == 403


async def test_limits_of_requests_and_of_bytes(async_redis: Any, redis_url: str) -> None:
    tokens = [
        {"name": "slow", "token": "slow-0123456789abcdef", "requests_per_s": 0.5},
        {"name": "small", "token": "small-0123456789abcdef", "bytes_per_s": 100},
        {"name": "free", "token": "free-0123456789abcdef"},
    ]
    async with http_service(redis_url, serve={"tokens": tokens}) as service:
        found = [(await service.get("/v1/alerts", "slow-0123456789abcdef"))[0] for _ in range(3)]
        assert (found[0], found[-1]) == (200, 429)
        first, _ = await service.post("/v1/interactions", {**ITEM, "response": "r" * 5_000}, "small-0123456789abcdef")
        second, answer = await service.post("/v1/interactions", ITEM, "small-0123456789abcdef")
        assert (first, second) == (200, 429)
        assert "beyond its limit" in answer["detail"]
        assert (await service.get("/v1/alerts", "free-0123456789abcdef"))[0] == 200


def test_a_bucket_fills_again() -> None:
    now = 0.0
    bucket = Allowance(10.0, clock=lambda: now)
    bucket.take(20)
    assert bucket.wait_s() == pytest.approx(0.1)
    now = 0.1
    assert bucket.wait_s() == 0
    bucket.take(10**9)  # one huge body does not lock its client out for hours
    assert bucket.wait_s() < 31
    assert Allowance(None).wait_s() == 0


def test_without_tokens_only_this_machine_is_served() -> None:
    for host in ("0.0.0.0", "::", "10.0.0.5", "example.org"):
        with pytest.raises(ValidationError, match=r"set serve\.tokens"):
            ServeSettings(host=host)
        assert ServeSettings.model_validate({"host": host, "tokens": ["secret-0123456789"]}).host == host
    for host in ("127.0.0.1", "::1", "localhost", "127.1.2.3"):
        assert ServeSettings(host=host).host == host


@pytest.mark.parametrize(
    ("method", "headers", "refused"),
    [
        ("GET", {"host": "localhost:8080"}, False),
        ("POST", {"host": "127.0.0.1:8080"}, False),
        ("POST", {"host": "[::1]:8080", "origin": "http://[::1]:8080"}, False),
        ("POST", {"host": "localhost:8080", "origin": "https://evil.example"}, True),
        ("POST", {"host": "localhost:8080", "origin": "null"}, True),
        ("POST", {"host": "localhost:8080", "origin": "http://localhost:3000"}, True),
        ("GET", {"host": "evil.example"}, True),
        ("GET", {"host": "localhost.evil.example"}, True),
        ("GET", {}, False),
    ],
)
def test_pages_of_other_sites_are_kept_out(method: str, headers: dict[str, str], refused: bool) -> None:
    assert (foreign_site(method, headers) is not None) == refused


async def test_a_browser_of_another_site_gets_403(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        assert (await service.post("/v1/interactions", ITEM, Origin="https://evil.example"))[0] == 403
        assert (await service.get("/v1/estimates", Host="evil.example"))[0] == 403
    assert not await async_redis.keys("*interactions")


async def test_tokens_never_reach_logs_and_answers(
    async_redis: Any, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        _, answer = await service.post("/v1/interactions", ITEM, "nearly-all-0123456789abcdef")
        assert "0123456789abcdef" not in str(answer)
        assert "0123456789abcdef" not in repr(ServeSettings.model_validate({"tokens": TOKENS}))
    shown = capsys.readouterr()
    assert "0123456789abcdef" not in shown.out + shown.err


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_metrics_show_the_pipelines_of_the_token_only(host: str, async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, serve={"host": host, "tokens": TOKENS}) as service:
        quality = QualityCollector()
        service.process.registry.register(quality)
        quality.publish(0, QUALITY, lambda: True)

        async def seen(token: str | None) -> tuple[int, set[str]]:
            status, text = await service.get("/metrics", token)
            if status != 200:
                return status, set()
            families = {one.name: one for one in parse(text.decode())}
            assert families["ragtide_redis_up"].samples[0].value == 1
            assert families["ragtide_http_requests"].type == "counter"
            return status, {sample.labels["pipeline"] for sample in families["ragtide_alert_firing"].samples}

        assert await seen("all-0123456789abcdef") == (200, {"shop-de", "bank", "*"})
        assert await seen("shop-0123456789abcdef") == (200, {"shop-de"})
        assert await seen("writer-0123456789abcdef") == (403, set())
        assert await seen("unknown") == (401, set())
        assert await seen(None) == ((200, set()) if host == "127.0.0.1" else (401, set()))


async def test_without_tokens_the_metrics_show_all_pipelines_to_this_machine(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        quality = QualityCollector()
        service.process.registry.register(quality)
        quality.publish(0, QUALITY, lambda: True)
        _, text = await service.get("/metrics")
    assert text.decode().count("ragtide_alert_firing{") == 3
