"""Guesses of tokens are limited on every road; a right token of 16 characters always passes."""

import base64
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from pydantic import ValidationError
from tests.support.http_service import Service, http_service
from tests.web.test_grpc import calling

from ragtide_runtime.settings.serve import ServeSettings
from ragtide_web.guard.access import PER_MINUTE, Attempts

TOKEN, OTHER = "token-0123456789", "other-0123456789"
TOKENS = [TOKEN, {"name": "writer", "token": OTHER, "access": ["write"]}]
Road = Callable[[Service, str], Awaitable[int]]


def header(name: str, value: str, path: str = "/v1/alerts", method: str = "GET") -> Road:
    async def road(service: Service, token: str) -> int:
        headers = {name: value.format(token)}
        async with service.session.request(method, service.url + path, headers=headers, allow_redirects=False) as reply:
            return reply.status

    return road


async def basic(service: Service, token: str) -> int:
    given = base64.b64encode(f"public:{token}".encode()).decode()
    return await header("Authorization", f"Basic {given}")(service, token)


async def form(service: Service, token: str) -> int:
    headers = {"Sec-Fetch-Site": "same-origin"}
    async with service.session.post(
        f"{service.url}/login", data={"token": token}, headers=headers, allow_redirects=False
    ) as reply:
        service.session.cookie_jar.clear()
        return reply.status


ROADS: dict[str, tuple[Road, int]] = {
    "bearer": (header("Authorization", "Bearer {}"), 200),
    "x-api-key": (header("x-api-key", "{}"), 200),
    "basic": (basic, 200),
    "metrics": (header("x-api-key", "{}", "/metrics"), 200),
    "traces": (header("x-api-key", "{}", "/v1/traces", "POST"), 415),
    "Langfuse's path": (header("x-api-key", "{}", "/api/public/otel/v1/traces", "POST"), 415),
    "the page": (header("x-api-key", "{}", "/"), 200),
    "the form": (form, 303),
    "a cookie": (header("Cookie", "ragtide_session={}", "/a"), 429),
}
"""Roads, and the status of a right token on them; no token is a cookie."""


@pytest.mark.parametrize("name", ROADS)
async def test_wrong_tokens_are_limited_and_a_right_one_passes(name: str, async_redis: Any, redis_url: str) -> None:
    road, right = ROADS[name]
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        found = Counter([await road(service, f"wrong-{number:012}") for number in range(PER_MINUTE + 10)])
        assert (found[429], found.total() - found[429]) == (10, PER_MINUTE)
        assert await road(service, TOKEN) == right
        for other, (way, status) in ROADS.items():  # one count for all roads
            assert await way(service, "wrong-token-of-another-road") == 429, other
            assert await way(service, TOKEN) == status, other
        assert (await service.get("/login"))[0] == 200


async def test_right_tokens_are_never_counted_and_clients_behind_a_proxy_count_alone(
    async_redis: Any, redis_url: str
) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        for _ in range(PER_MINUTE + 5):
            assert await form(service, TOKEN) == 303
            assert (await service.get("/v1/alerts", OTHER))[0] == 403
        for number in range(PER_MINUTE):
            await service.get("/v1/alerts", f"wrong{number}", **{"X-Forwarded-For": "9.9.9.9, 1.2.3.4"})
        for forwarded, status in (
            ("1.2.3.4", 429),
            ("9.9.9.9", 401),
            ("1.2.3.4, 5.6.7.8", 401),
            ("::ffff:1.2.3.4", 429),
        ):
            assert (await service.get("/v1/alerts", "wrong", **{"X-Forwarded-For": forwarded}))[0] == status, forwarded
        # Whoever states another address each time is limited by that of the proxy.
        found = [
            (await service.get("/v1/alerts", "wrong", **{"X-Forwarded-For": f"10.1.{number % 250}.7"}))[0]
            for number in range(230)
        ]
        assert (found[0], found[-1]) == (401, 429)
        assert (await service.get("/v1/alerts", TOKEN, **{"X-Forwarded-For": "1.2.3.4"}))[0] == 200


async def test_calls_of_grpc_are_counted_with_the_others(
    monkeypatch: pytest.MonkeyPatch, async_redis: Any, redis_url: str
) -> None:
    async with calling(monkeypatch, redis_url, serve={"tokens": TOKENS}) as stub:
        codes = []
        for number in range(PER_MINUTE + 5):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stub.Export(_empty(), metadata=(("authorization", f"Bearer wrong{number}"),))
            codes.append(error.value.code())
        assert set(codes[:PER_MINUTE]) == {grpc.StatusCode.UNAUTHENTICATED}
        assert set(codes[PER_MINUTE:]) == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        await stub.Export(_empty(), metadata=(("authorization", f"Bearer {TOKEN}"),))


def _empty() -> Any:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
    )

    return ExportTraceServiceRequest()


async def test_a_short_token_of_this_machine_waits_as_a_guess_would(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, serve={"tokens": ["short", TOKEN]}) as service:
        assert (await service.get("/v1/alerts", "short"))[0] == 200
        for number in range(PER_MINUTE):
            await service.get("/v1/alerts", f"wrong{number}")
        assert (await service.get("/v1/alerts", "short"))[0] == 429
        assert (await service.get("/v1/alerts", TOKEN))[0] == 200
        given = base64.b64encode(f"short:{TOKEN}".encode()).decode()  # only one of two tokens is short
        assert (await service.get("/v1/alerts", Authorization=f"Basic {given}"))[0] == 200


def test_short_tokens_are_refused_where_other_machines_reach_the_service() -> None:
    for token in ("x", "fifteen-chars-x", {"name": "app", "token": "x"}):
        for host in ("0.0.0.0", "::", "10.0.0.7", "ragtide.example"):
            with pytest.raises(ValidationError, match=r"serve\.tokens"):
                ServeSettings.model_validate({"host": host, "tokens": [token]})
        ServeSettings.model_validate({"tokens": [token]})
    ServeSettings.model_validate({"host": "0.0.0.0", "tokens": ["sixteen-chars-xx", {"sha256": "a" * 64}]})


def test_a_block_ends_after_a_minute() -> None:
    now = 0.0
    attempts = Attempts(clock=lambda: now)
    for _ in range(PER_MINUTE):
        assert not attempts.blocked(["1.2.3.4"])
        attempts.failed(["1.2.3.4"])
    assert attempts.blocked(["1.2.3.4"])
    assert not attempts.blocked(["1.2.3.5"])
    now = 61.0
    assert not attempts.blocked(["1.2.3.4"])
