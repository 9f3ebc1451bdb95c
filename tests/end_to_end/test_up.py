"""`ragtide up` serves the page: at which address, and when it does not."""

import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.support.conditions import wait_until
from tests.support.in_process import run_command
from tests.support.roles import begin, kill, running

from ragtide.cli.running.roles import listen_for_page
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

pytestmark = pytest.mark.processes


def address_in(log: Path) -> str:
    """Return the address of the page, which is the first thing that a process prints."""
    wait_until(lambda: log.exists() and log.read_text().count("\n") >= 2)
    first = log.read_text().splitlines()[0]
    assert first.startswith("the page is at http://127.0.0.1:")
    return first.split()[4].rstrip(";")


def answers(address: str) -> bool:
    """Return whether the page is there."""
    try:
        with urlopen(address, timeout=10) as answer:
            return b"<!doctype html>" in answer.read()
    except OSError:
        return False


def test_the_page_is_served_by_default_and_a_second_process_takes_another_port(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    with running("up", redis_url, logs[0]):
        first = address_in(logs[0])
        with running("up", redis_url, logs[1]):
            second = address_in(logs[1])
            assert first != second
            assert "; port 8080 is taken" in logs[1].read_text().splitlines()[0]
            wait_until(lambda: answers(first) and answers(second))


def test_no_page_serves_nothing(redis: Any, redis_url: str, tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    process = begin(redis_url, log, "up", "--no-page")
    try:
        wait_until(lambda: log.exists() and "aggregating a partition" in log.read_text())
        assert "the page is at" not in log.read_text()
        assert '"event": "serving"' not in log.read_text()
    finally:
        kill(process)


def test_without_the_extra_it_runs_and_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ragtide_web.server", None)
    assert listen_for_page(Settings(), is_asked_for=False) is None
    (line,) = capsys.readouterr().err.splitlines()
    assert "pip install 'ragtide[service,web]'" in line
    with pytest.raises(ConfigurationError, match="pip install"):
        listen_for_page(Settings(), is_asked_for=True)


def test_no_page_and_a_port_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    done = run_command(capsys, "up", "--no-page", "--port", "0")
    assert done.code == 2
    assert "--no-page" in done.told
