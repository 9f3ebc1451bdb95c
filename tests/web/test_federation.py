"""Other deployments on one page: what they answer, and what stands there when they do not."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.support.alerts import alert
from tests.support.doc_pages import page_text, tagged_block
from tests.support.http_service import Service, http_service
from tests.support.metric_events import adherence
from tests.support.owners import owners
from tests.web.page.test_page import HOSTILE, SCRIPT, page

from ragtide_roles.doctor.federation import federation_findings
from ragtide_runtime import service_client
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings, load_settings
from ragtide_runtime.settings.serve import ServeSettings
from ragtide_web import federation
from ragtide_web.federation import SHOWN

EU, US, FEW = (f"{name}-0123456789abcdef" for name in ("eu", "us", "few"))
READER, BANK = "reader-0123456789ab", "bank-0123456789ab"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the deployments again at each look."""
    monkeypatch.setattr(federation, "FRESH_S", 0.0)


@asynccontextmanager
async def deployments(redis: Any, redis_url: str) -> AsyncIterator[dict[str, Service]]:
    """Run two deployments: a pipeline of `eu` is worse and has an alert, `us` has more pipelines than are shown."""
    (eu,) = owners(redis, Settings(prefix="eu"))
    await eu.commit(
        *adherence([0.4, 0.2] * 100, pipeline=f"shop {SCRIPT}"),
        *adherence([0.9, 0.7] * 100, first=200, pipeline="bank"),
        alerts=(alert("A-1", pipeline=f"shop {SCRIPT}", metric="trace.adherence"),),
    )
    (us,) = owners(redis, Settings(prefix="us"))
    for number in range(SHOWN + 1):
        await us.commit(*adherence([0.8, 0.6] * 50, first=1000 * number, pipeline=f"docs-{number:02d}"))
    async with AsyncExitStack() as stack:
        found = {}
        for name, token in (("eu", EU), ("us", US)):
            tokens = [{"name": "reader", "token": token, "access": ["read"]}]
            if name == "us":
                tokens.append({"name": "few", "token": FEW, "access": ["write"]})
            service = http_service(redis_url, serve={"tokens": tokens}, prefix=name)
            found[name] = await stack.enter_async_context(service)
        yield found


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[str]:
    """Run something that is no ragtide, and yield its address."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def shown(service: Service) -> dict[str, Any]:
    status, found = await service.get("/v1/deployments")
    assert status == 200, found
    return {deployment["name"]: deployment for deployment in found}


async def test_two_deployments_on_one_page_and_one_ends(async_redis: Any, redis_url: str) -> None:
    async with AsyncExitStack() as stack:
        others = await stack.enter_async_context(deployments(async_redis, redis_url))
        federate = [
            {"name": "Europe", "url": f"{others['eu'].url}/", "token": EU},
            {"name": "America", "url": others["us"].url, "token": US},
        ]
        service = await stack.enter_async_context(http_service(redis_url, serve={"federate": federate}))
        found = await shown(service)
        europe, america = found["Europe"], found["America"]
        assert list(found) == ["Europe", "America"], "in the order of the settings"
        for deployment, own, token in ((europe, others["eu"], EU), (america, others["us"], US)):
            _, fleet = await own.get("/v1/fleet", token)
            assert deployment["pipelines"] == fleet[:SHOWN], "the same numbers as on its own page"
            assert (deployment["problem"], deployment["url"]) == (None, own.url)
            assert deployment["answered_at"] is not None
        assert europe["pipelines"][0]["state"] == "firing"
        assert (europe["has_more"], america["has_more"]) == (False, True)
        status, text = await page(service, "/deployments")
        assert status == 200
        assert text.index("Europe") < text.index("America"), "the worst deployment comes first"
        assert "0.300" in text
        assert "<script>alert" not in text
        assert f'href="{others["eu"].url}/p/bank"' in text
        assert "The worst 20 pipelines." in text
        assert 'href="/deployments"' in (await page(service))[1]
        assert EU not in text

        others["us"].stop.set()
        await others["us"].task
        found = await shown(service)
        assert found["Europe"]["problem"] is None
        america = found["America"]
        assert america["problem"].startswith(f"ragtide serve does not answer at {others['us'].url}: start it")
        assert "url of the deployment 'America' in serve.federate" in america["problem"]
        assert america["pipelines"] == [], "old numbers would look like new ones"
        assert america["answered_at"] is not None
        _, text = await page(service, "/deployments")
        assert text.index("America") < text.index("Europe"), "a deployment that does not answer comes first"
        assert "last answer" in text
        assert "docs-00" not in text


async def test_one_that_hangs_lets_the_others_answer(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_client, "FEDERATED_TIMEOUT_S", 0.5)
    ended = asyncio.Event()

    async def drips(request: web.Request) -> web.StreamResponse:
        """Send a piece again and again, so that no piece is late."""
        reply = web.StreamResponse()
        await reply.prepare(request)
        while not ended.is_set():
            await reply.write(b" ")
            await asyncio.sleep(0.05)
        return reply

    async def hangs(_: web.Request) -> web.StreamResponse:
        await ended.wait()
        return web.Response()

    (eu,) = owners(async_redis, Settings(prefix="eu"))
    await eu.commit(*adherence([0.9, 0.7] * 100, pipeline="bank"))
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(answering(answer)) for answer in (drips, hangs)]
        urls.append((await stack.enter_async_context(http_service(redis_url, prefix="eu"))).url)
        service = await stack.enter_async_context(http_service(redis_url, serve={"federate": urls}))
        found = await shown(service)
        ended.set()
    names = [url.removeprefix("http://") for url in urls]
    for name in names[:2]:
        assert "did not answer within 0.5 s" in found[name]["problem"], "its host is its name"
    assert found[names[2]]["pipelines"][0]["pipeline"] == "bank"


FLEET = {"pipeline": "shop", "state": "steady", "n": 7}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"text": f"<html>{HOSTILE}</html>"}, "is not that of ragtide"),
        ({"body": b"\xff\xfe\x00"}, "is not that of ragtide"),
        ({"text": json.dumps([{**FLEET, "state": "wonderful"}])}, "is not that of ragtide"),
        ({"text": json.dumps([{**FLEET, "pipeline": HOSTILE}])}, "is not that of ragtide"),
        ({"text": json.dumps({"detail": f"no {HOSTILE}"}), "status": 500}, "no <script>alert(1)</script>"),
        ({"status": 302, "headers": {"Location": "/elsewhere"}}, "HTTP status 302"),
        ({"status": 401}, "does not know the token: set token of the deployment"),
        (
            {"body": gzip.compress(b"[" + b" " * 20_000_000), "headers": {"Content-Encoding": "gzip"}},
            "packed as 'gzip'",
        ),
    ],
)
async def test_what_is_no_fleet_is_a_sentence_and_no_number(
    redis: Any, redis_url: str, answer: dict[str, Any], words: str
) -> None:
    asked = []

    async def answers(request: web.Request) -> web.StreamResponse:
        asked.append((request.path_qs, request.headers.get("Authorization")))
        return web.Response(**answer)

    async with answering(answers) as url:
        federate = [{"name": "other", "url": url, "token": EU}]
        async with http_service(redis_url, serve={"federate": federate}) as service:
            found = (await shown(service))["other"]
            _, text = await page(service, "/deployments")
        (finding,) = await federation_findings(ServeSettings(federate=federate))
    assert words in found["problem"]
    assert (found["pipelines"], found["answered_at"]) == ([], None)
    assert "It has not answered since this service started." in text
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert asked[0] == (f"/v1/fleet?limit={SHOWN + 1}", f"Bearer {EU}")
    assert (finding.level, finding.subject, words in finding.found) == ("problem", "deployment other", True)
    assert EU not in found["problem"] + text + finding.found


async def test_a_token_without_the_right_is_named(async_redis: Any, redis_url: str) -> None:
    async with deployments(async_redis, redis_url) as others:
        federate = [
            {"name": "none", "url": others["eu"].url},
            {"name": "wrong", "url": others["eu"].url, "token": US},
            {"name": "write", "url": others["us"].url, "token": FEW},
            {"name": "right", "url": others["eu"].url, "token": EU},
        ]
        async with http_service(redis_url, serve={"federate": federate}) as service:
            found = await shown(service)
        findings = await federation_findings(ServeSettings(federate=federate))
    assert "needs a token: set token of the deployment 'none' in serve.federate" in found["none"]["problem"]
    assert "does not know the token: set token of the deployment 'wrong'" in found["wrong"]["problem"]
    assert "the token 'few' may not read" in found["write"]["problem"]
    assert found["right"]["problem"] is None
    assert [finding.level for finding in findings] == ["problem", "problem", "problem", "ok"]


async def test_only_users_of_all_pipelines_see_other_deployments(redis: Any, redis_url: str) -> None:
    tokens = [
        {"name": "reader", "token": READER, "access": ["read"]},
        {"name": "bank", "token": BANK, "access": ["read"], "pipelines": ["bank*"]},
    ]
    async with http_service(redis_url, serve={"tokens": tokens, "federate": ["http://127.0.0.1:9"]}) as service:
        assert (await service.get("/v1/deployments", READER))[0] == 200
        assert (await service.get("/v1/deployments", BANK))[0] == 403
        assert (await service.get("/v1/deployments"))[0] == 401
        assert (await page(service, "/deployments", Authorization=f"Bearer {BANK}"))[0] == 403
    async with http_service(redis_url) as service:
        status, found = await service.get("/v1/deployments")
        assert (status, "serve.federate" in found["detail"]) == (404, True)
        assert 'href="/deployments"' not in (await page(service))[1]


async def test_pages_at_once_share_one_question(redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federation, "FRESH_S", 3600.0)
    asked = 0

    async def answers(_: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return web.json_response([FLEET])

    async with answering(answers) as url, http_service(redis_url, serve={"federate": [url]}) as service:
        found = await asyncio.gather(*(shown(service) for _ in range(20)))
        assert {json.dumps(each) for each in found} == {json.dumps(found[0])}
    assert asked == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("ftp://here", "serve.federate"),
        ("https://ann:secret@here", "have no user or password"),
        ({"name": "eu", "url": "https://ann:secret@here"}, "have no user or password"),
        ({"name": "eu", "url": "https://here?key=secret"}, "must begin with http"),
        ({"name": "eu", "url": "http://here:99999"}, "must begin with http"),
        ({"name": "eu"}, "serve.federate.url"),
        ({"name": "", "url": "https://here"}, "serve.federate.name"),
        ({"name": "eu", "url": "https://here", "tokn": "secret"}, "serve.federate.tokn"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_its_secret(given: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_settings(serve={"federate": [given]})
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_settings_of_the_page_name_two_deployments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ragtide.toml").write_text(tagged_block(page_text("scale"), "federate"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert [(each.name, each.url) for each in load_settings().serve.federate] == [
        ("eu", "https://ragtide.eu.example.com"),
        ("us", "https://ragtide.us.example.com"),
    ]


def test_names_are_unique_and_the_environment_may_list_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="two deployments named 'here'"):
        load_settings(serve={"federate": ["https://here", "http://here/"]})
    monkeypatch.setenv("RAGTIDE_SERVE_FEDERATE", "https://eu.example.com/ragtide/,https://us.example.com")
    assert [(each.name, each.url) for each in load_settings().serve.federate] == [
        ("eu.example.com", "https://eu.example.com/ragtide"),
        ("us.example.com", "https://us.example.com"),
    ]
