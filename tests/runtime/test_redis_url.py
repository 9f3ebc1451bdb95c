import socket
from pathlib import Path

import pytest
from redis import Redis
from tests.support.cases import for_each

from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.redis.url import redact, resolve_redis

pytestmark = pytest.mark.processes


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@for_each(
    "url, shown",
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://:s3cret@host:6379/0", "redis://***@host:6379/0"),
        ("rediss://user:s3cret@host", "rediss://***@host"),
        ("redis://s3cret@host", "redis://***@host"),
        ("redis://:s3/cr@et?#x@host:1/2", "redis://***@host:1/2"),
        ("redis://host?password=s3cret&db=2", "redis://host?password=***&db=2"),
        ("redis://host?db=2&ssl_password=s3cret", "redis://host?db=2&ssl_password=***"),
        ("unix:///data/a@b/redis.sock", "unix:///data/a@b/redis.sock"),
        ("unix://user:s3cret@/redis.sock", "unix://***@/redis.sock"),
        ("user:s3cret@host", "***@host"),
        ("host:6379", "host:6379"),
        ("", ""),
    ],
)
def test_redact_hides_secrets_and_nothing_else(url: str, shown: str) -> None:
    assert redact(url) == shown


def test_without_a_url_a_server_is_started_in_the_data_directory(tmp_path: Path) -> None:
    with resolve_redis(None, tmp_path / "data") as handle, Redis.from_url(handle.url) as client:
        assert client.ping()
        assert handle.embedded is not None
        where = f"{tmp_path / 'data'}: redis-cli -s {tmp_path / 'data' / 'redis.sock'}"
        assert handle.description == f"embedded {handle.embedded.binary} in {where}"
    handle.close()
    assert not (tmp_path / "data" / "redis.sock").exists()


def test_an_empty_url_counts_as_none(tmp_path: Path) -> None:
    with resolve_redis("", tmp_path) as handle:
        assert handle.embedded is not None


def test_a_url_that_answers_is_used_and_nothing_is_started(tmp_path: Path) -> None:
    with EmbeddedRedis.open(tmp_path / "theirs") as theirs:
        with resolve_redis(theirs.url, tmp_path / "ours") as handle:
            assert (handle.url, handle.embedded) == (theirs.url, None)
            assert handle.description == f"{theirs.url} (RAGTIDE_REDIS_URL)"
        assert not (tmp_path / "ours").exists()
        with Redis.from_url(theirs.url) as client:
            assert client.ping(), "closing the handle of a given Redis leaves that Redis alone"


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379",
        "http://:s3cret@localhost",
        "redis:localhost",
        "redis://",
        "redis://localhost:port",
        "redis://user:s3/cret@host",
        "redis://[::1",
        "redis://host?db=s3cret&password=s3cret",
        "unix://",
    ],
)
def test_a_malformed_url_says_what_one_looks_like(url: str, tmp_path: Path) -> None:
    with pytest.raises(RedisUnavailable) as caught:
        resolve_redis(url, tmp_path)
    assert "is not a Redis URL: set it to redis://host:6379/0" in str(caught.value)
    assert "user:s3" not in str(caught.value)


def test_a_refused_connection_names_the_url_and_the_remedy(closed_port: int, tmp_path: Path) -> None:
    with pytest.raises(RedisUnavailable) as caught:
        resolve_redis(f"redis://127.0.0.1:{closed_port}/3", tmp_path)
    message = str(caught.value)
    assert f"no usable Redis at redis://127.0.0.1:{closed_port}/3" in message
    assert "refused" in message
    assert message.endswith("unset that to have ragtide start a Redis of its own")


@pytest.mark.parametrize(
    "options", ["", "?socket_timeout=1&unknown_option=1", "?protocol=s3cret"], ids=["refused", "unknown", "invalid"]
)
def test_a_password_is_in_no_message_and_in_no_cause(closed_port: int, tmp_path: Path, options: str) -> None:
    with pytest.raises(RedisUnavailable) as caught:
        resolve_redis(f"redis://someone:s3cret@127.0.0.1:{closed_port}{options}", tmp_path)
    assert "s3cret" not in str(caught.value).replace("protocol=s3cret", "")
    assert "someone" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_wrong_password_is_refused_without_being_shown(tmp_path: Path) -> None:
    with EmbeddedRedis.open(tmp_path) as server, Redis.from_url(server.url) as client:
        client.config_set("requirepass", "right")
        try:
            with pytest.raises(RedisUnavailable, match=r"unix://\*\*\*@/") as caught:
                resolve_redis(server.url.replace("unix://", "unix://:s3cret@"), tmp_path / "unused")
            assert "s3cret" not in str(caught.value)
            resolve_redis(server.url.replace("unix://", "unix://:right@"), tmp_path / "unused").close()
            with pytest.raises(RedisUnavailable, match="needs a password: set RAGTIDE_REDIS_PASSWORD"):
                resolve_redis(server.url, tmp_path / "unused")
        finally:
            client.config_set("requirepass", "")
