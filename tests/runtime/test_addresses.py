"""Addresses of Redis in a URL and in the settings; a server behind TLS, with a user and a password."""

import asyncio
import gc
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme
from pydantic import SecretStr
from redis.exceptions import NoPermissionError, RedisClusterException, RedisError
from tests.support.cases import for_each
from tests.support.redis_processes import servers

from ragtide_runtime.errors import ConfigurationError, RedisUnavailable
from ragtide_runtime.redis.addresses import address_of
from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.url import redact, resolve_redis
from ragtide_runtime.settings.model import Settings, load_settings

pytestmark = pytest.mark.processes


def test_a_cluster_and_sentinels_are_one_url_each() -> None:
    cluster = address_of("rediss+cluster://worker:p%40ss@a:7000,b,[::1]:7002?ssl_ca_certs=/ca.pem")
    assert cluster.kind == "cluster"
    assert cluster.nodes == (("a", 7000), ("b", 6379), ("::1", 7002))
    tls = {"ssl": True, "ssl_ca_certs": "/ca.pem", "ssl_check_hostname": True}
    assert cluster.options() == {"username": "worker", "password": "p@ss", **tls}
    sentinel = address_of("redis+sentinel://u:p@a,b:1/shop?db=3&sentinel_password=s")
    assert (sentinel.kind, sentinel.nodes, sentinel.master) == ("sentinel", (("a", 26379), ("b", 1)), "shop")
    assert sentinel.options() == {"username": "u", "password": "p", "db": 3}
    assert sentinel.sentinel_options()["password"] == "s"
    assert "username" not in sentinel.sentinel_options(), "sentinels have users of their own"


@pytest.mark.parametrize(
    "url",
    [
        "redis+cluster://",
        "redis+cluster://a:1,:2",
        "redis+cluster://a:1/3",
        "redis+sentinel://a:1",
        "redis+sentinel://a:1/one/two",
        "redis+sentinel://a:port/shop",
        "redis+proxy://a:1",
        "redis+cluster://a:1?db=x",
    ],
)
def test_a_malformed_url_is_refused_with_what_would_be_right(url: str, tmp_path: Path) -> None:
    with pytest.raises(RedisUnavailable, match=r"redis\+cluster://host:6379,host:6379"):
        resolve_redis(url, tmp_path)


def test_user_password_and_certificates_come_from_settings_and_never_into_logs(tmp_path: Path) -> None:
    file = tmp_path / "ca file.pem"
    file.touch()
    settings = load_settings(
        redis_url="rediss+cluster://a:1,b:2", redis_username="wörker", redis_password="p/ss@:,", redis_ca_file=file
    )
    assert settings.redis_address is not None
    options = address_of(settings.redis_address).options()
    tls = {"ssl": True, "ssl_ca_certs": str(file), "ssl_check_hostname": True}
    assert options == {"username": "wörker", "password": "p/ss@:,", **tls}
    assert "ss@" not in repr(settings)
    assert "rker" not in redact(settings.redis_address)
    assert load_settings(redis_url="redis://u:own@a", redis_password="other").redis_address == "redis://u:own@a"
    assert load_settings().redis_address is None


def test_certificates_without_tls_are_a_mistake_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="begin it with rediss"):
        load_settings(redis_url="redis://a", redis_ca_file=tmp_path)
    with pytest.raises(ConfigurationError, match=r"redis_ca_file is .*which is not a file"):
        load_settings(redis_url="rediss://a", redis_ca_file=tmp_path / "none")


@contextmanager
def behind_tls(port: int, context: ssl.SSLContext) -> Iterator[int]:
    """Put TLS before a server for the body of a `with`: the embedded binary is built without it. Yield the port."""
    started, loop = threading.Event(), asyncio.new_event_loop()
    ports: list[int] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    open_ones: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", port)
        open_ones.extend((writer, forth))
        await asyncio.gather(pump(reader, forth), pump(back, writer))

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        ports.append(server.sockets[0].getsockname()[1])
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            server.close()
            for writer in open_ones:
                if not writer.transport.is_closing():
                    writer.transport.abort()

    def work() -> None:
        task = loop.create_task(run())
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.run_until_complete(asyncio.sleep(0.1))  # for connections to close

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield ports[0]
    finally:

        def stop() -> None:
            for task in asyncio.all_tasks(loop):
                task.cancel()

        loop.call_soon_threadsafe(stop)
        thread.join(10)
        loop.close()


async def test_tls_with_certificates_a_user_and_a_password_from_settings(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    ca, mine, key = (tmp_path / name for name in ("ca.pem", "mine.pem", "key.pem"))
    authority.cert_pem.write_to_path(str(ca))
    client = authority.issue_cert("worker@example.org")
    client.cert_chain_pems[0].write_to_path(str(mine))
    client.private_key_pem.write_to_path(str(key))
    with servers(tmp_path, 1) as (server,):
        # Nothing but what ragtide's keys need.
        server.client.execute_command("ACL SETUSER", "worker", "on", ">secret/1", "~ragtide:*", "+@all", "-@dangerous")
        server.client.execute_command("ACL SETUSER", "default", "off")
        with behind_tls(server.port, context) as port:
            settings = load_settings(
                redis_url=f"rediss://localhost:{port}/0",
                redis_username="worker",
                redis_password="secret/1",
                redis_ca_file=ca,
                redis_cert_file=mine,
                redis_key_file=key,
            )
            with resolve_redis(settings.redis_address, tmp_path) as handle:
                assert "secret" not in handle.description
                with connect(handle.url) as redis:
                    redis.set("ragtide:{0}:a", 1)
                    with pytest.raises(NoPermissionError):
                        redis.set("another:a", 1)
                async with connect_async(handle.url) as redis_too:
                    assert await redis_too.get("ragtide:{0}:a") == b"1"
            with warnings.catch_warnings():
                # redis-py leaves the socket of a failed handshake to the garbage collector.
                warnings.simplefilter("ignore", ResourceWarning)
                for wrong in (
                    settings.model_copy(update={"redis_ca_file": None}),
                    settings.model_copy(update={"redis_cert_file": None, "redis_key_file": None}),
                    settings.model_copy(update={"redis_password": SecretStr("other/secret")}),
                ):
                    _refused(wrong, tmp_path)
                gc.collect()


@pytest.mark.parametrize(
    "scheme", ["rediss", "rediss+cluster", pytest.param("rediss+sentinel", marks=pytest.mark.heavy)]
)
async def test_a_certificate_of_another_host_is_refused(tmp_path: Path, scheme: str) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("other.example.org").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with servers(tmp_path, 1) as (server,), behind_tls(server.port, context) as port:
        path = "/shop" if scheme.endswith("sentinel") else ""
        settings = load_settings(redis_url=f"{scheme}://localhost:{port}{path}", redis_ca_file=tmp_path / "ca.pem")
        url = settings.redis_address
        assert url is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            with pytest.raises(RedisUnavailable):
                resolve_redis(url, tmp_path)
            with pytest.raises((RedisError, RedisClusterException)), connect(url) as redis:
                redis.ping()
            with pytest.raises((RedisError, RedisClusterException)):
                async with connect_async(url) as redis_too:
                    await redis_too.ping()
            gc.collect()
        if scheme == "rediss":  # what is refused is the name, and nothing else
            with connect(f"{url}&ssl_check_hostname=false") as redis:
                assert redis.ping()


@for_each(
    "url",
    ["rediss://host", "rediss+cluster://a,b", "rediss+sentinel://a,b/shop", "rediss://host?ssl_cert_reqs=required"],
)
def test_host_names_are_checked_whatever_redis_py_does_by_default(url: str) -> None:
    address = address_of(url)
    given = address.tls_options() if address.kind == "single" else address.options()
    assert given["ssl_check_hostname"] is True
    if address.kind == "sentinel":
        assert address.sentinel_options()["ssl_check_hostname"] is True
    assert address_of("redis://host").tls_options() == {}
    assert address_of("unix:///a").tls_options() == {}


def _refused(settings: Settings, folder: Path) -> None:
    with pytest.raises(RedisUnavailable) as failure:
        resolve_redis(settings.redis_address, folder)
    assert "secret" not in str(failure.value)
