"""The page below a path, behind the nginx and the HAProxy of docs/operate/reverse-proxy.md, which end TLS."""

import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import trustme
from playwright.async_api import Browser, Page, expect
from tests.browser.screens import Screen, opened
from tests.browser.services import PageService
from tests.monitoring.programs import program, served
from tests.support.conditions import wait_until
from tests.support.doc_pages import page_text
from tests.support.redis_processes import free_port
from tests.web.page.test_alert import drift
from tests.web.page.test_dead_letters import add, letter
from tests.web.page.test_item import keep, specimen
from tests.web.page.test_pipeline import commit, traffic

PAGE = page_text("reverse-proxy")
STRIPPING, KEEPING = re.findall(r"^```nginx\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(BALANCER,) = re.findall(r"^```haproxy\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
TOKEN = "ann-0123456789-0123456789-0123456789"
PREFIX = "/ragtide"
NGINX = """
daemon off; pid nginx.pid; error_log error.log; events {{}}
http {{
    access_log off;
    client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;
    gzip on; gzip_proxied any; gzip_types text/css text/javascript text/event-stream;
    {server}
}}
"""


@contextmanager
def in_front(kind: str, configuration: str, service: PageService, folder: Path) -> Iterator[str]:
    """Run a proxy with a configuration of the documentation for the body of a `with`; yield the address of its site."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    authority.cert_pem.write_to_path(folder / "authority.pem")
    port = free_port()
    text = configuration.replace("127.0.0.1:8080", service.url.removeprefix("http://"))
    text = re.sub(r"/etc/ssl/\S+?\.(?:pem|key)", str(folder / "both.pem"), text)
    text = text.replace("listen 443", f"listen 127.0.0.1:{port}").replace("bind :443", f"bind 127.0.0.1:{port}")
    file = folder / "proxy.conf"
    file.write_text(NGINX.format(server=text) if kind == "nginx" else text, "utf-8")
    if kind == "nginx":
        command = [program("nginx"), "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(file)]
    else:
        command = [program("haproxy"), "-f", str(file)]
    site = f"https://127.0.0.1:{port}"
    with served(command, folder / "proxy.log", f"{service.url}/healthz"):
        trust = ssl.create_default_context(cafile=str(folder / "authority.pem"))
        wait_until(lambda: _is_open(site, trust))
        yield site


CASES: dict[str, tuple[str, str, dict[str, str]]] = {
    "nginx strips": ("nginx", STRIPPING, {}),
    "nginx keeps": ("nginx", KEEPING, {"RAGTIDE_SERVE_ROOT_PATH": PREFIX}),
    "haproxy strips": ("haproxy", BALANCER, {}),
    "haproxy keeps": (
        "haproxy",
        "".join(
            line for line in BALANCER.splitlines(keepends=True) if "replace-path" not in line and "Prefix" not in line
        ),
        {"RAGTIDE_SERVE_ROOT_PATH": PREFIX},
    ),
}


@pytest.fixture(params=CASES)
async def screen(
    request: pytest.FixtureRequest, browser: Browser, redis: Any, redis_url: str, tmp_path: Path
) -> AsyncIterator[Screen]:
    """Return a tab of the browser in front of a proxy."""
    kind, configuration, environment = CASES[request.param]
    tokens = f'[{{"name": "ann", "token": "{TOKEN}", "access": ["read", "operate"]}}]'
    with (
        PageService(redis_url, tmp_path, supervised=False, RAGTIDE_SERVE_TOKENS=tokens, **environment) as service,
        in_front(kind, configuration, service, tmp_path) as site,
    ):
        async with opened(browser, site, ignore_https_errors=True) as found:
            yield found


async def links_stay_below(page: Page) -> None:
    """Check every address of a screen."""
    found: list[str] = await page.evaluate(
        "() => [...document.querySelectorAll('[href], [src], form')].map((one) => one.href || one.src || one.action)"
    )
    assert len(found) > 5
    outside = [one for one in found if f"{PREFIX}/" not in one]
    assert outside == []


async def downloaded(page: Page, link: str) -> str:
    """Return the file that a link of a screen leads to, with the cookies of the browser."""
    address: str = await page.get_by_role("link", name=link).evaluate("(one) => one.href")
    answer = await page.context.request.get(address)
    assert answer.ok, address
    return await answer.text()


async def test_login_live_numbers_orders_and_downloads_work_below_the_path(async_redis: Any, screen: Screen) -> None:
    owner = await commit(async_redis, *traffic(), alerts=(drift("A-1"),))
    await keep(async_redis, specimen("i-1"), specimen("x/y", "team/a"))
    await add(async_redis, letter(0, {"pipeline": "shop", "question": 7}))
    page = screen.page
    page.set_default_timeout(60_000)
    await page.goto(f"{screen.url}{PREFIX}/a/A-1")
    assert page.url.startswith(f"{screen.url}{PREFIX}/login?next=")
    await page.get_by_label("Token").fill(TOKEN)
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_url(f"{screen.url}{PREFIX}/a/A-1")
    (cookie,) = [one for one in await page.context.cookies() if one.get("name") == "ragtide_session"]
    assert (cookie.get("path"), cookie.get("secure")) == (PREFIX, True)

    # A form, and what it changes.
    await page.get_by_label("Reason", exact=True).fill("seen")
    await page.get_by_role("button", name="Acknowledge").click()
    await expect(page.get_by_role("status").first).to_contain_text("The alert is acknowledged.")
    assert page.url.startswith(f"{screen.url}{PREFIX}/a/A-1?done=")
    assert "May I cancel?" in await downloaded(page, "Download as a data set")

    # A live number, with the buffering of the proxy as it is.
    await screen.open(f"{PREFIX}/p/shop")
    value = page.locator(".metric .value").first
    before = await value.text_content()
    await owner.commit(*traffic(first=1000, mean=0.2))
    await expect(value).not_to_have_text(before or "")

    for path in ("/", "/p/shop", "/a", "/t", "/t?pipeline=team%2Fa&list=worst", "/x", "/judge", "/label", "/system"):
        await screen.open(PREFIX + path)
        await links_stay_below(page)
    await screen.open(f"{PREFIX}/t?pipeline=team%2Fa&list=worst")
    await page.get_by_role("link", name="May I cancel?").first.click()
    await expect(page.get_by_text("May I cancel?").first).to_be_visible()
    assert f"{PREFIX}/i?" in page.url
    await screen.open(f"{PREFIX}/dead")
    assert "question is missing" in await downloaded(page, "Export")
    await page.get_by_role("button", name="Log out ann").click()
    await page.wait_for_url(f"{screen.url}{PREFIX}/login*")


def test_a_proxy_that_replaces_the_host_is_told_which_header_to_keep(redis_url: str, tmp_path: Path) -> None:
    tokens = f'[{{"name": "ann", "token": "{TOKEN}", "access": ["read", "operate"]}}]'
    without = "".join(line for line in STRIPPING.splitlines(keepends=True) if " Host " not in line)
    naming = without.replace('X-Forwarded-Host "";', "X-Forwarded-Host $http_host;")
    answers = []
    with PageService(redis_url, tmp_path, RAGTIDE_SERVE_TOKENS=tokens) as service:
        for configuration in (without, naming):
            with in_front("nginx", configuration, service, tmp_path) as site:
                trust = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
                form = Request(f"{site}{PREFIX}/login", b"token=wrong", {"Origin": site, "Accept": "application/json"})
                with pytest.raises(HTTPError) as refused:
                    urlopen(form, context=trust, timeout=30)
                answers.append((refused.value.code, refused.value.read().decode()))
    (status, detail), (other, _) = answers
    assert (status, other) == (403, 401)
    assert "let the proxy keep the header Host" in detail


def _is_open(site: str, trust: ssl.SSLContext) -> bool:
    try:
        with urlopen(f"{site}{PREFIX}/healthz", context=trust, timeout=30):
            return True
    except OSError:
        return False
