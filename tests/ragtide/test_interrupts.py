"""Ctrl-C in the middle of long commands: a sentence or two, exit code 130, no stack trace, and going on works."""

import contextlib
import json
import os
import re
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ragtide.judged_runs import Run, plan_of, write_experiment
from tests.support.conditions import HANGS_S, wait_until
from tests.support.forked import ForkedProcess
from tests.support.metric_events import adherence
from tests.support.recorded import record
from tests.support.roles import begin, command

from ragtide_runtime.recordings import EntryKind, RecordedEntry
from ragtide_runtime.redis.keys import Streams

pytestmark = pytest.mark.processes

TARGET = """
import threading, time
from pathlib import Path

calls, lock, here = 0, threading.Lock(), Path(__file__).parent

def answer(question, words):
    global calls
    with lock:
        calls += 1
        with (here / "calls.txt").open("a") as file:
            file.write(f"{question}|{words}\\n")
    while calls > 40 and not (here / "go").exists():
        time.sleep(0.01)
    return ["It was built in 1889."], "It was built in 1889."
"""

CONCURRENCY = 4

PLAN = """
name = "race"
target = "target:answer"
data = "questions.jsonl"
metric = "trace.context_relevance"
concurrency = CONCURRENCY
[grid]
words = [1, 2]
[race]
enabled = false
"""


def interrupted(process: ForkedProcess, log: Path, ready: Any, after: Any = None) -> str:
    """Send SIGINT as soon as the process is ready, wait for its end, and return its words."""
    try:
        wait_until(lambda: ready() or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        if after is not None:
            after()
        assert process.wait(HANGS_S) == 130, log.read_text()
    finally:
        process.kill()
        process.wait()
    said = log.read_text()
    assert "Traceback" not in said
    return " ".join(said.split())


@contextlib.contextmanager
def silent_redis() -> Iterator[tuple[str, socket.socket]]:
    """Listen where a Redis would, and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield f"redis://127.0.0.1:{server.getsockname()[1]}", server


def connected(server: socket.socket, kept: list[socket.socket]) -> bool:
    with contextlib.suppress(BlockingIOError):
        kept.append(server.accept()[0])
    return bool(kept)


@pytest.mark.parametrize("arguments", [("experiment", "show", "may"), ("estimates",)])
def test_a_command_that_keeps_nothing_ends_without_a_word(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    log, connections = tmp_path / "log", list[socket.socket]()
    with silent_redis() as (url, server):
        said = interrupted(begin(url, log, *arguments), log, lambda: connected(server, connections))
    for connection in connections:
        connection.close()
    assert said == ""


def test_a_stopped_report_is_written_by_the_same_command(tmp_path: Path, redis_url: str) -> None:
    write_experiment(redis_url, Run(plan_of("may", ("a", "b")), {"a": 0.8, "b": 0.7}, items=20))
    page, log, connections = tmp_path / "page.html", tmp_path / "log", list[socket.socket]()
    arguments = ("report", "may", "--output", str(page))
    with silent_redis() as (url, server):
        said = interrupted(begin(url, log, *arguments), log, lambda: connected(server, connections))
    for connection in connections:
        connection.close()
    assert said == "Stopped. No report was written: give the same command again."
    assert not page.exists()
    assert command(redis_url, *arguments).returncode == 0
    assert page.read_text().endswith("</html>\n")


def test_a_stopped_verification_says_how_far_it_came(tmp_path: Path, redis_url: str) -> None:
    entries = [
        (EntryKind.METRICS, RecordedEntry(0, f"1763800000{number:03}-0", event))
        for number, event in enumerate(adherence([0.5] * 30))
    ]
    record(entries, tmp_path / "recording", steps=5)
    stuck = max((tmp_path / "recording" / "metrics").rglob("*.parquet"))
    content, log = stuck.read_bytes(), tmp_path / "log"
    stuck.unlink()
    os.mkfifo(stuck)
    writers: list[int] = []

    def is_read() -> bool:  # a pipe can be opened for writing while a process waits to read it
        with contextlib.suppress(OSError):
            writers.append(os.open(stuck, os.O_WRONLY | os.O_NONBLOCK))
        return bool(writers)

    arguments = ("inspect", str(tmp_path / "recording"), "--verify")

    def end_the_pipe() -> None:  # a read that began just after the signal would wait for ever
        for writer in writers:
            os.close(writer)

    said = interrupted(begin(redis_url, log, *arguments), log, is_read, end_the_pipe)
    assert "of 5 files were read: to verify all, give the same command again." in said
    stuck.unlink()
    stuck.write_bytes(content)
    done = command(redis_url, *arguments)
    assert (done.returncode, done.stderr) == (0, "every file matches its manifest\n")


def test_a_stopped_experiment_goes_on_and_repeats_only_calls_in_flight(
    tmp_path: Path, redis: Any, redis_url: str
) -> None:
    (tmp_path / "target.py").write_text(TARGET)
    (tmp_path / "experiment.toml").write_text(PLAN.replace("CONCURRENCY", str(CONCURRENCY)))
    questions = [json.dumps({"question": f"Question {number}?"}) for number in range(60)]
    (tmp_path / "questions.jsonl").write_text("\n".join(questions))
    calls, log, arguments = tmp_path / "calls.txt", tmp_path / "log", ("experiment", "run", "experiment.toml")

    def called() -> list[str]:
        return calls.read_text().splitlines() if calls.exists() else []

    process = begin(redis_url, log, *arguments)
    said = interrupted(process, log, lambda: len(called()) > 40, (tmp_path / "go").touch)
    kept = len(called())
    assert kept < 120
    told = re.search(r"Stopped. (\d+) answers and their scores are kept: to go on, give ragtide experiment run", said)
    assert told is not None, said
    assert 0 < int(told[1]) <= kept
    again = begin(redis_url, log, *arguments)
    try:
        assert again.wait(HANGS_S) == 0, log.read_text()
    finally:
        again.kill()
        again.wait()
    calls_of = Counter(called())
    assert calls_of.keys() == {f"Question {number}?|{words}" for number in range(60) for words in (1, 2)}
    assert calls_of.total() <= 120 + CONCURRENCY


def test_a_stopped_replay_goes_on(tmp_path: Path, redis: Any, redis_url: str) -> None:
    # Half a second of the recording takes an hour at a ten-thousandth of the old speed.
    entries = [
        (EntryKind.METRICS, RecordedEntry(0, f"1763800000{number:03}-0", event))
        for number, event in enumerate(adherence([0.5] * 500))
    ]
    record(entries, tmp_path / "recording")
    log, run = tmp_path / "log", Streams("ragtide.run.again", 0)
    arguments = ("replay", str(tmp_path / "recording"), "--workspace", "again")
    process = begin(redis_url, log, *arguments, "--speed", "0.0001x")
    said = interrupted(process, log, lambda: redis.hexists(run.checkpoint, "replay"))
    assert "of 500 are kept in the workspace: to go on, give the same command with --workspace again." in said
    done = command(redis_url, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n"] == 500
