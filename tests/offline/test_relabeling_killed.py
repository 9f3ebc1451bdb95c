"""Relabeling in processes that is killed at any stage goes on to the bits of one that is not."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.offline.test_score_parts import STAGES
from tests.support.dying_labeler import BEYOND, STAGE
from tests.support.relabeling import COUNT, bits, interaction, parts_in, recording_of, relabel, settings_at

from ragtide_offline.parts import part_files
from ragtide_offline.replay.result import ReplayResult
from ragtide_offline.score.scoring import ScoringStopped
from ragtide_runtime.recordings import Recording
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.workspaces import parts_folder
from ragtide_schemas import DeadLetter

PARTS = 3


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    monkeypatch.setattr(part_files, "PART_ROWS", (2 * COUNT + 3) // PARTS)
    return recording_of(tmp_path / "recording", interaction(COUNT + 1, "shop", BEYOND))


def letters(redis: Any) -> list[tuple[bytes, str, str, str]]:
    """Return the dead letters of the workspace: id, stream, reason and sentence."""
    found: list[tuple[bytes, str, str, str]] = []
    for key in sorted(redis.keys("*dead-letters*")):
        for letter_id, fields in redis.xrange(key):
            letter = DeadLetter.decode(fields[DATA_FIELD])
            found.append((letter_id, letter.stream, letter.reason, letter.detail))
    return found


@pytest.mark.processes
@pytest.mark.parametrize(
    "numbers",
    [(1, 5), pytest.param((0, 2, 3, 4), marks=pytest.mark.heavy)],
    ids=["after the first rows, in the second part", "the other stages"],
)
def test_a_part_that_is_killed_at_any_stage_is_labeled_again_to_the_same_bits(
    recording: Recording, redis: Any, redis_url: str, tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    def run(data: str) -> ReplayResult:
        return relabel(redis_url, settings_at(tmp_path / data), recording, 1)

    def parts(data: str) -> dict[str, bytes]:
        return parts_in(parts_folder(settings_at(tmp_path / data), "again"))

    whole = run("whole")
    assert whole.counts["complete"]
    dead, written = letters(redis), parts("whole")
    assert len(dead) == 2
    assert len(written) == PARTS
    for number, (stage, code) in enumerate(STAGES.items()):
        if number not in numbers:
            continue
        redis.flushdb()
        STAGE.write_text(code)
        with pytest.raises(ScoringStopped, match="SIGKILL"):
            run(str(number))
        assert not STAGE.exists(), stage
        kept = parts(str(number))
        assert len(kept) == (1 if number >= 4 else 0), stage
        assert letters(redis) == []
        assert bits(run(str(number))) == bits(whole), stage
        assert parts(str(number)) == written, stage
        assert letters(redis) == dead, stage


PARENT_STAGES = {
    "before the parts are read": "relabeling.relabeled = die",
    "before the first dead letter": "Redis.xadd = die",
    "after the first dead letter": (
        "old = Redis.xadd\nasync def xadd(*a, **k):\n    await old(*a, **k)\n    die()\nRedis.xadd = xadd"
    ),
    "before the first commit": "Committer.commit = die",
    "after the first commit": (
        "old = Committer.commit\nasync def commit(*a):\n    await old(*a)\n    die()\nCommitter.commit = commit"
    ),
    "before the result": "WorkspaceReplay.result = die",
}
PROGRAM = """
import sys
from pathlib import Path
from redis.asyncio import Redis
from tests.support.dying_labeler import die
from tests.support.relabeling import relabel, settings_at
from ragtide_aggregator.checkpoint.commit import Committer
from ragtide_offline.parts import part_files, relabeling
from ragtide_offline.replay.replay import WorkspaceReplay
from ragtide_runtime.recordings import Recording

url, folder, data, rows, code = sys.argv[1:]
part_files.PART_ROWS = int(rows)
exec(code)
relabel(url, settings_at(Path(data), lease_s=5), Recording.open(folder), 1)
"""


@pytest.mark.heavy
def test_a_replay_that_is_killed_after_its_parts_goes_on_to_the_same_bits(
    recording: Recording, redis: Any, redis_url: str, tmp_path: Path
) -> None:
    whole = relabel(redis_url, settings_at(tmp_path / "whole"), recording, 1)
    dead = letters(redis)
    root = Path(__file__).parents[2]
    for number, (stage, code) in enumerate(PARENT_STAGES.items()):
        redis.flushdb()
        data = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", data)
        killed = subprocess.run(
            [sys.executable, "-c", PROGRAM, redis_url, recording.url, str(data), str(part_files.PART_ROWS), code],
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, (stage, killed.stderr)
        assert len(letters(redis)) == (0 if number < 2 else 1 if number == 2 else 2), stage
        assert bits(relabel(redis_url, settings_at(data, lease_s=5), recording, 1)) == bits(whole), stage
        assert letters(redis) == dead, stage
