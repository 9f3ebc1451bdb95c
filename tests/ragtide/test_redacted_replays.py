"""Labels of redacted texts are not those of live: replays and comparisons print how many interactions are concerned."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.recorder.running import caught_up, recording, settings_of
from tests.support.conditions import until
from tests.support.in_process import run_command

from ragtide import RagInteraction
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams

pytestmark = pytest.mark.redis

REDACTED, ALL = 3, 10


async def record(url: str, folder: Path) -> None:
    async with connect_async(url) as redis:
        for number in range(ALL):
            asker = f"eve{number}@example.com" if number < REDACTED else "a customer"
            interaction = RagInteraction.from_fields(
                {
                    "pipeline": "shop", "interaction_id": f"i-{number}", "question": f"When does {asker} get it?",
                    "documents": ["Orders take two days."], "response": "It takes two days.",
                }
            )  # fmt: skip
            await redis.xadd(Streams("ragtide", 0).interactions, {DATA_FIELD: interaction.encode()})
        async with recording(redis, settings_of(folder, redact=["email"])):
            await until(lambda: caught_up(redis))


def test_a_relabeling_and_a_comparison_count_the_redacted_interactions(
    redis: Any, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    asyncio.run(record(redis_url, tmp_path / "r"))
    place = str(tmp_path / "r")
    done = run_command(capsys, "replay", place, "--relabel", "--workspace", "one")
    assert done.code == 0, done.stderr
    words = " ".join(done.stderr.split())
    assert f"{REDACTED} of {ALL} recorded interactions had texts redacted" in words
    done = run_command(capsys, "replay", place, "--relabel", "--workspace", "two", "--json")
    assert json.loads(done.stdout)["redacted"] == REDACTED
    done = run_command(capsys, "compare", "shop", "--workspace", "one", "--workspace", "two")
    assert done.code == 0, done.stderr
    words = " ".join(done.stderr.split())
    assert [f"{name}: {REDACTED} of {ALL} interactions" in words for name in ("one", "two")] == [True, True]
    assert ("higher" in done.stdout, "lower" in done.stdout, "equal" in done.stdout) == (False, False, True)
