"""The page behind a reverse proxy: below a path prefix, with another host, and after TLS ended."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from html import unescape
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

import pytest
from tests.support.full_deployment import OPTIONS, SCREENS, fill_everything
from tests.support.http_service import Service, http_service
from tests.web.page.test_page import BROWSER, TOKENS, form
from yarl import URL

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.serve import ServeSettings
from ragtide_web.guard.proxy import BehindProxy
from ragtide_web.reading.live import CHECK_S, HEARTBEAT_S
from ragtide_web.server import address_of, listen

PREFIX = "/apps/ragtide"
SITE = "http://ragtide.example"
POSTED = ("/acknowledge", "/silence", "/replay", "/orders", "/retry", "/pause", "/resume", "/remove")
ADDRESS = re.compile(r'(?:\b(?:href|src|action)|data-root)="([^"]*)"')


class Proxy:
    """What a proxy makes of a request: it strips the prefix and decodes the path as nginx does, or keeps the path."""

    def __init__(self, service: Service, *, strips: bool) -> None:
        self.service = service
        self.strips = strips
        self.headers = {"X-Forwarded-Prefix": PREFIX} if strips else {}

    def sent(self, path: str) -> str:
        """Return the path that the service gets."""
        if not self.strips:
            return path
        found, _, query = path.removeprefix(PREFIX).partition("?")
        again = quote(re.sub("/+", "/", unquote(found)), safe="/:@!$&'()*+,;=~")
        return f"{again}?{query}" if query else again

    async def get(self, path: str, **headers: str) -> tuple[int, str, Any]:
        """Return status, text and headers of an answer."""
        url = URL(self.service.url + self.sent(path), encoded=True)
        found = {**BROWSER, **self.headers, **headers}
        async with self.service.session.get(url, headers=found, allow_redirects=False) as reply:
            if reply.content_type == "text/event-stream":
                return reply.status, (await reply.content.readline()).decode(), reply.headers
            return reply.status, await reply.text(errors="replace"), reply.headers


@asynccontextmanager
async def behind(redis_url: str, *, strips: bool, **serve: Any) -> AsyncIterator[Proxy]:
    options = {**serve} if strips else {"root_path": PREFIX, **serve}
    async with http_service(redis_url, serve=options, **OPTIONS) as service:
        yield Proxy(service, strips=strips)


def screen_of(path: str) -> tuple[str, ...]:
    """Return what tells a screen from another: its place, and the names of its options; many show an item by its id."""
    place, _, query = path.removeprefix(PREFIX).partition("?")
    parts = place.split("/")
    kept = [part if number < 3 and not any(map(str.isdigit, part)) else "" for number, part in enumerate(parts)]
    return (*kept, *sorted({option.partition("=")[0] for option in query.split("&")}))


async def test_no_link_of_any_screen_leaves_the_prefix(async_redis: Any, redis_url: str) -> None:
    await fill_everything(async_redis, redis_url)
    for strips in (True, False):
        async with behind(redis_url, strips=strips) as proxy:
            waiting = [PREFIX + path for path in SCREENS]
            seen: set[tuple[str, ...]] = set()
            while waiting:
                path = waiting.pop()
                if screen_of(path) in seen:
                    continue
                seen.add(screen_of(path))
                status, text, headers = await proxy.get(path)
                assert status in (200, 303), (path, status, text[:300])
                found = [headers["location"]] if status == 303 else []
                if headers.get("content-type", "").startswith("text/html"):
                    found += [unescape(one) for one in ADDRESS.findall(text)]
                for one in found:
                    if one.startswith("#"):
                        continue
                    there = urljoin(path, one)
                    assert f"{there}/".startswith(f"{PREFIX}/"), (path, one)
                    if urlsplit(there).path not in {f"{PREFIX}/{name}" for name in ("look", "logout")} and not (
                        there.endswith(POSTED) and "/system/" not in there
                    ):
                        waiting.append(there.partition("#")[0])
            assert len(seen) > 60
            for own in ("/healthz", "/metrics", "/v1/estimates", "/v1/alerts", "/live?follow=alerts", "/dead/export"):
                assert (await proxy.get(PREFIX + own))[0] == 200, own
            description = (await proxy.get(f"{PREFIX}/openapi.json"))[1]
            assert f'"servers":[{{"url":"{PREFIX}"}}]' in description
            assert f"{PREFIX}/openapi.json" in (await proxy.get(f"{PREFIX}/none", Accept="application/json"))[1]
            assert (await proxy.get(f"{PREFIX}/system/"))[2]["location"] == f"{PREFIX}/system"
            # Probes and scrapers of the same network do without the proxy.
            assert (await proxy.service.get("/healthz"))[0] == 200


async def test_login_cookies_and_forms_stay_below_the_prefix(async_redis: Any, redis_url: str) -> None:
    for strips in (True, False):
        async with behind(redis_url, strips=strips, tokens=TOKENS) as proxy:
            await async_redis.flushdb()
            status, _, headers = await proxy.get(f"{PREFIX}/system?x=1")
            assert status == 303
            where = headers["location"]
            assert where.startswith(f"{PREFIX}/login?next=")
            sent = {"token": "ann-0123456789", "next": unquote(where.partition("next=")[2])}
            tls = {**proxy.headers, "X-Forwarded-Proto": "https"}
            names = {name.replace("-", "_"): value for name, value in tls.items()}
            login = proxy.sent(f"{PREFIX}/login")
            status, where, headers = await form(proxy.service, login, sent, **names)
            assert (status, where) == (303, f"{PREFIX}/system?x=1")
            cookie = headers["set-cookie"]
            assert f"Path={PREFIX};" in f"{cookie};"
            assert "Secure" in cookie
            mine = {"Cookie": "ragtide_session=of-the-root; " + cookie.partition(";")[0]}
            both = {"Cookie": cookie.partition(";")[0] + "; ragtide_session=of-the-root"}  # the longer path comes first
            assert (await proxy.get(f"{PREFIX}/system", **both))[0] == 200
            assert (await proxy.get(f"{PREFIX}/system", **mine))[0] == 303
            whole = {**sent, "next": f"{PREFIX}/a"}
            assert (await form(proxy.service, login, whole, **names))[1] == f"{PREFIX}/a"
            for foreign in (f"{PREFIX}//evil.example", "//evil.example", f"{PREFIX}/\\evil.example", "http://[", "/[x"):
                place = (await form(proxy.service, login, {**sent, "next": foreign}, **names))[1]
                assert place in (f"{PREFIX}/", f"{PREFIX}/[x"), foreign
            out = await form(
                proxy.service, proxy.sent(f"{PREFIX}/logout"), {}, **names, Cookie=cookie.partition(";")[0]
            )
            assert out[1] == f"{PREFIX}/login"
            assert f"Path={PREFIX};" in f"{out[2]['set-cookie']};"


async def test_a_proxy_that_changes_the_host_is_named_or_its_own_header_counts(redis_url: str) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:

        async def tried(**headers: str) -> tuple[int, str]:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            sent = {"token": "ann-0123456789", "next": "/"}
            async with service.session.post(
                f"{service.url}/login", data=sent, headers=named, allow_redirects=False
            ) as reply:
                return reply.status, await reply.text()

        status, detail = await tried(Origin=SITE)
        assert status == 403
        assert "Host" in detail
        assert "X-Forwarded-Host" in detail
        for headers in (
            {"X_Forwarded_Host": "ragtide.example"},
            {"X_Forwarded_Host": "ragtide.example:80, inner"},
            {"Host": "ragtide.example:80"},
            {"X_Forwarded_Host": "ragtide.example", "X_Forwarded_Port": "80"},
        ):
            assert (await tried(Origin=SITE, **headers))[0] == 303, headers
        assert (await tried(Origin=f"{SITE}:81", X_Forwarded_Host="ragtide.example", X_Forwarded_Port="81"))[0] == 303
        for origin in ("null", "http://[", f"{SITE}:81", "http://evil.example", ""):
            status, _ = await tried(Origin=origin, X_Forwarded_Host="ragtide.example")
            assert status == (400 if "[" in origin else 403), origin


async def test_headers_of_other_clients_change_nothing_but_the_security_of_cookies(redis_url: str) -> None:
    options = {"tokens": TOKENS, "trusted_proxies": ("10.0.0.0/8",)}
    async with http_service(redis_url, serve=options) as service:
        proxy = Proxy(service, strips=True)
        assert (await proxy.get(f"{PREFIX}/system"))[2]["location"].startswith("/login")
        headers = {"Origin": SITE, "X-Forwarded-Host": "ragtide.example"}
        async with service.session.post(f"{service.url}/login", data={"token": "x"}, headers=headers) as reply:
            assert reply.status == 403


async def test_a_page_that_names_this_machine_as_its_own_stays_out_with_any_header(redis_url: str) -> None:
    async with http_service(redis_url) as service:
        for headers in ({"Host": "evil.example", "X-Forwarded-Host": "localhost"}, {"X-Forwarded-Host": "r.example"}):
            async with service.session.get(f"{service.url}/", headers=headers) as reply:
                assert reply.status == 403, headers
                assert "keep the header Host" in await reply.text()


async def test_a_prefix_with_two_meanings_is_refused_by_name(redis_url: str) -> None:
    async with http_service(redis_url) as service:
        for prefix in ("/a", "/p/x", "/v1", "/i/x/y", "a/b", "//evil.example/<b>", "/x/../y", "http://x.example/y"):
            async with service.session.get(f"{service.url}/", headers={"X-Forwarded-Prefix": prefix}) as reply:
                assert reply.status == 400, prefix
                assert "X-Forwarded-Prefix" in await reply.text()
                assert reply.headers["X-Content-Type-Options"] == "nosniff"
        for prefix, root in (("/", ""), ("/r/", "/r"), ("r", "/r"), ("/one, /two", "/one/two"), ("/p2", "/p2")):
            async with service.session.get(f"{service.url}/", headers={"X-Forwarded-Prefix": prefix}) as reply:
                assert f'data-root="{root}"' in await reply.text(), prefix


def test_the_printed_address_is_that_of_the_page() -> None:
    settings = ServeSettings(port=0, root_path=PREFIX)
    with closing(listen(settings)) as listening:
        assert address_of(listening, settings.root_path).endswith(f":{listening.getsockname()[1]}{PREFIX}/")
        assert address_of(listening).endswith(f":{listening.getsockname()[1]}/")


@pytest.mark.pure
def test_an_open_screen_is_never_idle_for_as_long_as_a_proxy_waits() -> None:
    assert min(CHECK_S, HEARTBEAT_S) <= 20  # HAProxy often waits 50 s, nginx and load balancers of clouds 60 s


@pytest.mark.pure
def test_settings_of_a_proxy_are_checked() -> None:
    async def app(*_: Any) -> None: ...

    for wrong in ("http://x.example/y", "/a b", "/x/../y", "/<b>"):
        with pytest.raises(ValueError, match="root_path"):
            ServeSettings(root_path=wrong)
    with pytest.raises(ConfigurationError, match=r"serve\.root_path"):
        BehindProxy(app, ServeSettings(root_path="/p"), ("/p/{name:path}",))
    assert ServeSettings(root_path="ragtide/").root_path == "/ragtide"
    for wrong in ("nginx", "10.0.0.1/8", "*"):
        with pytest.raises(ValueError, match="trusted_proxies"):
            ServeSettings(trusted_proxies=(wrong,))
    trusting = ServeSettings(trusted_proxies=("10.0.0.0/8", "::1"))
    addresses = ("10.9.9.9", "::ffff:10.9.9.9", "::1", "11.0.0.1", "no address")
    assert [trusting.trusts(address) for address in addresses] == [True, True, True, False, False]
