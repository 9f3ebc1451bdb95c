"""Answers in a file: a second run pays nothing, whatever happened to the first."""

import json
import os
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.judge.asking import TOWER, settings
from tests.support.conditions import wait_until
from tests.support.forked import ForkedProcess
from tests.support.roles import kill
from typer.testing import CliRunner

from ragtide.cli.app import cli
from ragtide.testing import ScriptedJudge
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.labelers.remote.file_cache import NAME, FileCache
from ragtide_runtime.errors import ConfigurationError

DAY = 86_400.0


@pytest.mark.processes
async def test_another_process_finds_the_answers_and_pays_nothing(server: ScriptedJudge, tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        async with labeler_of(settings(server, cache_ttl_s=60.0), None, answers=tmp_path / "d" / NAME) as labeler:
            found.append(await labeler.label(TOWER))
    assert len(server.prompts) == 1
    first, second = found
    assert second.scores == first.scores
    assert second.counters == {"cache_hits": 1}
    assert second.prompt_tokens == 0
    assert (tmp_path / "d" / NAME).stat().st_mode & 0o077 == 0
    async with labeler_of(
        settings(server, cache_ttl_s=60.0, model="other"), None, answers=tmp_path / "d" / NAME
    ) as one:
        await one.label(TOWER)
    assert len(server.prompts) == 2


@pytest.mark.processes
def test_a_run_that_is_killed_asks_again_only_for_what_was_in_flight(server: ScriptedJudge, tmp_path: Path) -> None:
    rows = [
        {"question": f"When was tower {n} built?", "documents": ["It was built in 1889."], "response": f"In 1889, {n}."}
        for n in range(16)
    ]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps({**row, "gold_scores": {"trace.adherence": 1.0}}) + "\n" for row in rows))
    server.latency_s = 0.02
    limits = {"RAGTIDE_JUDGE_MAX_IN_FLIGHT": "2", "RAGTIDE_DATA_DIR": str(tmp_path / "data")}
    environment = {**os.environ, **server.environment, **limits}
    log = tmp_path / "log"
    with log.open("ab") as file:

        def benchmark() -> ForkedProcess:
            return ForkedProcess(("trust", "figures", str(source)), environment, tmp_path, file, file)

        first = benchmark()
        wait_until(lambda: len(server.requests) > 8)
        kill(first)
        assert benchmark().wait() == 0, log.read_text()
        asked = Counter(prompt.question for prompt in server.prompts)
        assert len(asked) == len(rows)
        assert sum(count - 1 for count in asked.values()) <= 4, log.read_text()
        before = len(server.requests)
        assert benchmark().wait() == 0, log.read_text()
        assert len(server.requests) == before


@pytest.mark.pure
async def test_answers_are_by_labeler_and_end_with_their_time(tmp_path: Path) -> None:
    now = 1_000_000.0
    cache = FileCache(tmp_path / NAME, "judge", DAY, now=lambda: now)
    await cache.put("key", ["text", "stop"])
    other = FileCache(tmp_path / NAME, "nli", DAY, now=lambda: now)
    assert await cache.get("key") == ["text", "stop"]
    assert await other.get("key") is None
    now += DAY
    assert await cache.get("key") is None
    cache.close()
    other.close()
    FileCache(tmp_path / NAME, "judge", DAY, now=lambda: now).close()
    rows = sqlite3.connect(tmp_path / NAME)
    assert rows.execute("SELECT count(*) FROM answers").fetchone() == (0,)
    rows.close()


@pytest.mark.pure
async def test_a_damaged_file_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"no database at all" * 100)
    cache = FileCache(tmp_path / NAME, "judge", DAY)
    await cache.put("key", "answer")
    assert await cache.get("key") == "answer"
    cache.close()
    assert (tmp_path / NAME).with_suffix(".damaged").read_bytes().startswith(b"no database")


@pytest.mark.pure
async def test_a_file_that_breaks_later_costs_no_more_than_the_answers(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / NAME, "judge", DAY)
    await cache.put("key", "answer" * 1000)
    rows = sqlite3.connect(tmp_path / NAME)
    rows.execute("DROP TABLE answers")
    rows.commit()
    rows.close()
    assert await cache.get("key") is None
    await cache.put("key", "answer")
    assert await cache.get("key") is None
    cache.close()


@pytest.mark.pure
async def test_a_full_file_drops_the_oldest_answers(tmp_path: Path) -> None:
    now = 0.0
    cache = FileCache(tmp_path / NAME, "judge", DAY, now=lambda: now, most=300_000)
    for number in range(200):
        now += 1
        await cache.put(f"{number}", "x" * 5000)
    assert await cache.get("199") is not None
    assert await cache.get("0") is None
    cache.close()
    assert (tmp_path / NAME).stat().st_size <= 300_000


@pytest.mark.pure
def test_a_directory_of_others_and_a_link_are_refused_in_a_sentence(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    linked = tmp_path / "linked"
    linked.mkdir(mode=0o700)
    (linked / NAME).symlink_to(tmp_path / "elsewhere")
    for folder in (shared, linked, Path("/proc/none")):
        with pytest.raises(ConfigurationError, match="set data_dir to a directory of your own, or cache_ttl_s to 0"):
            FileCache(folder / NAME, "judge", DAY)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.pure
def test_work_without_a_remote_labeler_writes_no_file(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("RAGTIDE_DATA_DIR", str(tmp_path / "data"))
    source = tmp_path / "rows.jsonl"
    source.write_text(json.dumps({"question": "q", "documents": ["d"], "response": "r"}) + "\n")
    assert CliRunner().invoke(cli, ["score", str(source), "--labeler", "local"]).exit_code == 0
    assert not (tmp_path / "data").exists()
