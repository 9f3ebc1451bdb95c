"""A parent supervises processes: it starts again, gives up, says a mistake once, and ends with all of them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.conditions import wait_until
from tests.support.roles import ROOT
from tests.support.supervised import KILLS

pytestmark = pytest.mark.processes


@contextmanager
def supervised(folder: Path, method: str, *works: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tests.support.supervised", method, *works]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def started(folder: Path) -> list[list[str]]:
    file = folder / "started"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_mistake_is_said_once_and_ends_the_others(method: str, tmp_path: Path) -> None:
    with supervised(tmp_path, method, "steady", "mistake") as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert out == "the setting x is wrong: correct it\n"
    assert "the setting x is wrong" not in err
    assert "Traceback" not in err
    assert not any(is_running(int(pid)) for _, pid, _ in started(tmp_path))


def test_a_process_that_dies_at_once_again_and_again_ends_the_command_with_its_code(tmp_path: Path) -> None:
    with supervised(tmp_path, "fork", "steady", "crash") as process:
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 7
    assert out.startswith("crash ended 5 times in a row")
    assert "exit code 7" in out
    assert [name for name, _, _ in started(tmp_path)].count("crash") == 5


def test_a_process_that_is_killed_is_started_again_however_often_and_the_command_ends_with_0(tmp_path: Path) -> None:
    with supervised(tmp_path, "fork", "killed", "steady") as process:
        wait_until(lambda: len(started(tmp_path)) == KILLS + 2)
        assert [line[2] for line in started(tmp_path) if line[0] == "killed"] == ["False", *["True"] * KILLS]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert not any(is_running(int(pid)) for _, pid, _ in started(tmp_path))


@pytest.mark.parametrize("signals", [1, 2])
def test_a_process_that_does_not_end_is_killed_late_or_at_a_second_signal(signals: int, tmp_path: Path) -> None:
    with supervised(tmp_path, "fork", "deaf") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "deaf\n"
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
        assert process.wait(60) in ((0,) if signals == 1 else (0, 128 + signal.SIGINT))
    assert not is_running(int(started(tmp_path)[0][1]))


def test_the_end_of_the_parent_is_seen_by_every_process(tmp_path: Path) -> None:
    with supervised(tmp_path, "fork", "steady", "killed") as process:
        wait_until(lambda: len(started(tmp_path)) == KILLS + 2)
        process.kill()
        wait_until(lambda: not any(is_running(int(pid)) for _, pid, _ in started(tmp_path)))
