"""The page over HTTP: its users, its forms, and foreign text in it."""

import re
from html import unescape
from typing import Any

from tests.support.alerts import alert
from tests.support.http_service import Service, http_service
from tests.support.metric_events import adherence
from tests.support.owners import Owner, owners

from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import WebSettings
from ragtide_web.guard.orders import PageOrder

SETTINGS = Settings()
STREAMS = Streams("ragtide", 0)
TOKENS = [
    {"name": "ann", "token": "ann-0123456789", "access": ["read", "operate"]},
    {"name": "viewer", "token": "viewer-0123456789", "access": ["read"], "pipelines": ["shop*"]},
    {"name": "sender", "token": "sender-0123456789", "access": ["write"]},
]
SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"{SCRIPT}\u202e\x07"
BROWSER = {"Accept": "text/html,application/xhtml+xml"}


async def owner_of(redis: Any) -> Owner:
    return owners(redis, SETTINGS)[0]


async def page(service: Service, path: str = "/", **headers: str) -> tuple[int, str]:
    """Return the status and the HTML of a page, as a browser gets it without following redirects."""
    found = {name.replace("_", "-"): value for name, value in headers.items()}
    async with service.session.get(service.url + path, headers={**BROWSER, **found}, allow_redirects=False) as reply:
        return reply.status, await reply.text()


async def form(service: Service, path: str, fields: dict[str, str], **headers: str) -> tuple[int, str, Any]:
    """Send a form of the page, and return status, place or text, and headers of the answer."""
    found = {"Sec-Fetch-Site": "same-origin", **BROWSER}
    found |= {name.replace("_", "-"): value for name, value in headers.items()}
    async with service.session.post(service.url + path, data=fields, headers=found, allow_redirects=False) as reply:
        return reply.status, reply.headers.get("location") or await reply.text(), reply.headers


async def orders(redis: Any) -> list[PageOrder]:
    return [PageOrder.model_validate_json(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.orders)]


async def test_the_fleet_shows_numbers_and_escapes_foreign_text(async_redis: Any, redis_url: str) -> None:
    owner = await owner_of(async_redis)
    await owner.commit(
        *adherence([0.8, 0.6] * 100, pipeline=f"shop {SCRIPT}"), alerts=(alert("A-1", message=f"It fell {HOSTILE}"),)
    )
    async with http_service(redis_url) as service, service.session.get(service.url + "/", headers=BROWSER) as reply:
        text, headers = await reply.text(), reply.headers
    assert "0.700" in text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "\u202e" not in text
    assert "\x07" not in text
    assert "'unsafe" not in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    # The policy admits no script or style inside of the page, so the page must have none.
    assert re.findall(r"<script(?![^>]*src=)", text) == []
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:", text) == []


async def test_a_deployment_without_scores_says_how_to_begin(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        status, text = await page(service)
    assert status == 200
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in unescape(text)
    assert "/v1/interactions" in unescape(text)
    assert "No alert has fired." in text


async def test_without_tokens_only_this_machine_gets_the_page(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        assert (await page(service, "/", Host="evil.example"))[0] == 403
        assert (await form(service, "/look", {"theme": "dark"}, Origin="https://evil.example"))[0] == 403


async def test_a_login_opens_the_page_and_ends(async_redis: Any, redis_url: str) -> None:
    owner = await owner_of(async_redis)
    await owner.commit(*adherence([0.5], pipeline="shop-de"), *adherence([0.5], pipeline="bank", first=1))
    async with http_service(redis_url, serve={"tokens": TOKENS}, web=WebSettings(session_s=3600)) as service:
        async with service.session.get(service.url + "/?q=a", headers=BROWSER, allow_redirects=False) as reply:
            assert (reply.status, reply.headers["location"]) == (303, "/login?next=/%3Fq%3Da")
        status, text = await page(service, "/login?next=/a")
        assert status == 200
        assert 'type="password"' in text
        wrong = await form(service, "/login", {"token": "guess-0123456789"})
        assert (wrong[0], "the token is not known" in wrong[1]) == (401, True)
        writes = await form(service, "/login", {"token": "sender-0123456789"})
        assert (writes[0], "may not read" in writes[1]) == (401, True)

        status, place, headers = await form(
            service, "/login", {"token": "viewer-0123456789", "next": "https://evil.example/"}
        )
        assert (status, place) == (303, "/")
        cookie = headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Max-Age=3600"} <= {part.strip() for part in cookie.split(";")}
        # The client is aiohttp's, and it sends the cookie back.
        status, text = await page(service)
        assert status == 200
        assert "shop-de" in text
        assert "bank" not in text  # the token is for shop*
        keys = [key async for key in async_redis.scan_iter("*web-session*")]
        assert len(keys) == 1
        assert 0 < await async_redis.ttl(keys[0]) <= 3600
        assert b"viewer-0123456789" not in await async_redis.get(keys[0])

        assert (await form(service, "/logout", {}))[:2] == (303, "/login")
        assert (await page(service))[0] == 303
        assert [key async for key in async_redis.scan_iter("*web-session*")] == []
    assert [(order.user, order.action) for order in await orders(async_redis)] == [
        ("viewer", "login"),
        ("viewer", "logout"),
    ]


async def test_a_session_ends_with_its_token(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        _, _, headers = await form(service, "/login", {"token": "viewer-0123456789"})
    cookie = headers["set-cookie"].partition(";")[0]
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        assert (await page(service, "/", Cookie=cookie))[0] == 200
        assert (await page(service, "/", Cookie=cookie + "x"))[0] == 303
    async with http_service(redis_url, serve={"tokens": TOKENS[:1]}) as service:
        assert (await page(service, "/", Cookie=cookie))[0] == 303


async def test_an_address_may_not_guess_tokens_for_long(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        found = [(await form(service, "/login", {"token": f"guess-{n:010}"}))[0] for n in range(25)]
    assert (found[0], found[-1]) == (401, 429)


async def test_forms_of_other_sites_are_refused(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        fields = {"token": "viewer-0123456789"}
        for headers in (
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
            {"Sec_Fetch_Site": "none"},
        ):
            assert (await form(service, "/login", fields, **headers))[0] == 403
        for origin, expected in (("https://evil.example", 403), (service.url, 303)):
            async with service.session.post(
                service.url + "/login", data=fields, headers={"Origin": origin}, allow_redirects=False
            ) as reply:
                assert reply.status == expected
        async with service.session.post(service.url + "/login", data=fields, allow_redirects=False) as reply:
            assert reply.status == 403  # a browser names an origin, a program has a token


async def test_a_header_counts_only_from_a_trusted_proxy(async_redis: Any, redis_url: str) -> None:
    trusted = {"trusted_header": "X-Forwarded-User"}
    async with http_service(redis_url, serve=trusted, web=WebSettings(operators=("ann*",))) as service:
        assert (await page(service))[0] == 303
        status, text = await page(service, "/", X_Forwarded_User="bob@example.com")
        assert status == 200
        assert "Log out" not in text  # the proxy knows the login, and ends it
        assert (await service.get("/v1/estimates"))[0] == 401
    async with http_service(redis_url, serve={**trusted, "trusted_proxies": ("192.0.2.1",)}) as service:
        assert (await page(service, "/", X_Forwarded_User="bob@example.com"))[0] == 303


async def test_a_token_of_a_program_sees_the_page(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        assert (await page(service, "/", Authorization="Bearer viewer-0123456789"))[0] == 200
        assert (await page(service, "/", Authorization="Bearer sender-0123456789"))[0] == 403
        assert (await page(service, "/", Authorization="Bearer unknown-0123456789"))[0] == 401


async def test_the_theme_is_kept_and_another_one_is_refused(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        assert 'data-theme="auto"' in (await page(service))[1]
        assert (await form(service, "/look", {"theme": "dark"}))[0] == 303
        assert 'data-theme="dark"' in (await page(service))[1]
        assert (await form(service, "/look", {"theme": "pink"}))[0] == 422


async def test_problems_are_pages_for_browsers_and_json_for_programs(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        status, text = await page(service, "/no-such-page")
        assert (status, "<html" in text) == (404, True)
        status, answer = await service.get("/no-such-page")
        assert (status, list(answer)) == (404, ["detail"])
        assert (await page(service, "/v1/no-such-page"))[1].startswith('{"detail"')
        status, text = await page(service, "/?q=" + "x" * 300)
        assert (status, "<html" in text) == (422, True)


async def test_files_of_the_page_and_no_others(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        for name in (
            "page.css",
            "live.js",
            "stream.js",
            "icon.svg",
            "vendor/uPlot-1.6.32.min.js",
            "vendor/uPlot-1.6.32.min.css",
        ):
            async with service.session.get(f"{service.url}/static/{name}") as reply:
                assert reply.status == 200
                assert len(await reply.read()) > 100
        for name in ("../rendering.py", "%2e%2e/rendering.py", "vendor", "", "vendor/../../rendering.py"):
            assert (await service.get(f"/static/{name}"))[0] == 404


async def test_a_large_form_is_refused(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        assert (await form(service, "/look", {"next": "x" * 70_000}))[0] == 413
        assert (await form(service, "/look", {f"f{n}": "" for n in range(101)}))[0] == 422
