"""Own certificates: one way for every client, by a file, a directory, or the variable of the library requests."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web
from pydantic import TypeAdapter
from tests.support.receiver import destination
from tests.support.told import told_of

from ragtide_consumers.labelers.models.hub import HubModel, download
from ragtide_consumers.labelers.remote.posting import POST_ERRORS, ErrorReply, Poster
from ragtide_consumers.notify.destinations.protocol import TryLater
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.outside.certificates import VARIABLES, tls_context
from ragtide_runtime.service_client import ServiceClient, ServiceError, ServiceNames
from ragtide_runtime.settings.labelers import ModelsSettings


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def served(authority: trustme.CA) -> AsyncIterator[str]:
    """Give the address of a server with a certificate of this authority, which answers `[]` to everything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    async def answer(_: web.Request) -> web.Response:
        return web.json_response([])

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "localhost", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"https://localhost:{port}"
    finally:
        await runner.cleanup()


async def reaches_all(url: str, folder: Path) -> list[bool]:
    """Return whether judge and services, notifications, `ragtide serve`, and the Hub are reached."""
    found = []
    poster = Poster(url, {})
    try:
        found.append(await poster.post(b"{}", bytes) == b"[]")
    except (*POST_ERRORS, ErrorReply):
        found.append(False)
    await poster.aclose()
    async with destination("webhook", url=url) as webhook:
        try:
            await webhook.deliver(told_of())
            found.append(True)
        except TryLater:
            found.append(False)
    async with ServiceClient(url, None, ServiceNames("the address", "the token"), timeout_s=30.0) as service:
        try:
            found.append(await service.get("/v1/fleet", TypeAdapter(list[int])) == [])
        except ServiceError:
            found.append(False)
    settings = ModelsSettings.model_validate({"support": f"a/b@{'0' * 40}", "hub_url": url})
    try:
        await download(HubModel("a/b", "0" * 40, "model.onnx"), settings, folder, "models.support")
    except ConfigurationError as error:  # it is reached, and has no model
        found.append("cannot be downloaded" not in str(error))
    return found


@pytest.mark.parametrize("name", VARIABLES)
async def test_every_client_trusts_the_certificates_of_a_variable(
    authority: trustme.CA, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtide_consumers.labelers.models.hub.PAUSE_S", 0.0)
    folder = tmp_path / "certificates"
    folder.mkdir()
    authority.cert_pem.write_to_path(str(folder / "company.pem"))  # no name by a hash
    (folder / "README").write_text("no certificate")
    async with served(authority) as url:
        assert await reaches_all(url, tmp_path) == [False] * 4
        monkeypatch.setenv(name, str(folder if name == "SSL_CERT_DIR" else folder / "company.pem"))
        assert await reaches_all(url, tmp_path) == [True] * 4


def test_certificates_that_are_named_count_alone(authority: trustme.CA, tmp_path: Path) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "company.pem"))
    usual = tls_context({}).cert_store_stats()["x509_ca"]
    assert tls_context({"SSL_CERT_FILE": str(tmp_path / "company.pem")}).cert_store_stats()["x509_ca"] == 1
    assert usual > 1
    assert tls_context({"REQUESTS_CA_BUNDLE": str(tmp_path)}).verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_without_certificates_is_refused_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for place in (tmp_path / "missing.pem", tmp_path / "empty.pem", tmp_path):
        with pytest.raises(ConfigurationError, match=name):
            tls_context({name: str(place)})


class RecordingProxy:
    """A proxy that records where it was asked to go, and refuses."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode()
        self.asked.append(line.split(" ")[1])
        writer.write(b"HTTP/1.1 503 Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@asynccontextmanager
async def recording_proxy() -> AsyncIterator[RecordingProxy]:
    found = RecordingProxy()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found


@pytest.mark.parametrize("entry", ["127.0.0.0/8", "127.0.0.1:{port}", "*"])
async def test_no_client_sends_to_the_proxy_what_no_proxy_names(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtide_consumers.labelers.models.hub.PAUSE_S", 0.0)

    async def answer(_: web.Request) -> web.Response:
        return web.json_response([])

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    url = f"http://127.0.0.1:{port}"
    async with recording_proxy() as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, f"http://me:verysecret@127.0.0.1:{proxy.port}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, entry.format(port=port))
        assert await reaches_all(url, tmp_path) == [True] * 4
        assert proxy.asked == []
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "other.example")
        assert await reaches_all(url, tmp_path) == [False, False, True, False], "this machine is served directly"
        assert len(proxy.asked) >= 3
    await runner.cleanup()


async def test_a_failure_names_the_proxy_and_not_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    async with recording_proxy() as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, f"http://me:verysecret@127.0.0.1:{proxy.port}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "")
        async with destination("webhook", url="http://hooks.example/x") as webhook:
            with pytest.raises(TryLater) as found:
                await webhook.deliver(told_of())
        poster = Poster("http://judge.example/v1", {})
        with pytest.raises(Exception, match="503"):
            await poster.post(b"{}", bytes)
        said = f"{found.value} {poster.through}"
        await poster.aclose()
    assert said.count(f"http://127.0.0.1:{proxy.port}") == 2
    assert "verysecret" not in said
    assert proxy.asked == ["http://hooks.example/x", "http://judge.example/v1"]


def test_aiohttp_is_given_no_rules_of_its_own() -> None:
    """No client of ours asks aiohttp to read the environment."""
    from tests.support.modules import product_files

    found = [path for path in product_files() if "trust_env=True" in path.read_text(encoding="utf-8")]
    assert found == []
    assert aiohttp.__name__ == "aiohttp"


def test_every_tls_context_comes_from_one_place() -> None:
    from tests.support.modules import product_files

    allowed = {"certificates.py"}
    used: list[Any] = [
        path
        for path in product_files()
        if path.name not in allowed and "create_default_context" in path.read_text(encoding="utf-8")
    ]
    assert used == []
