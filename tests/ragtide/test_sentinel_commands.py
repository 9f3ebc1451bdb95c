"""`ragtide judge sentinels`, `ragtide judge baseline`, and what `ragtide doctor` says about sentinels."""

from pathlib import Path
from typing import Any

import pytest
import typer.testing
from tests.support.cases import for_each
from tests.support.doc_pages import page_text
from tests.support.recorded import record
from tests.support.roles import command, interactions

from ragtide.cli.app import cli
from ragtide_consumers.sentinels.answers import LEARNED
from ragtide_consumers.sentinels.service import sentinel_streams
from ragtide_roles.doctor.examination import examine
from ragtide_roles.sentinels import SENTINELS_MAX, read_sentinels
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, RecordedEntry
from ragtide_runtime.redis.keys import SentinelField
from ragtide_runtime.settings.labelers import JudgeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction, to_milliseconds, utc_now

JUDGE = {"model": "m"}
RULE_NAME = "judge-changed"
RULE = {"name": RULE_NAME, "kind": "sentinel", "run_length": 4320}


def run(*words: str) -> Any:
    return typer.testing.CliRunner().invoke(cli, ["judge", "sentinels", *words])


def ids(file: Path) -> list[str]:
    return [RagInteraction.decode(line).interaction_id for line in file.read_bytes().splitlines()]


@pytest.fixture
def sources(tmp_path: Path) -> tuple[str, str]:
    """A file and a recording with the same interactions; one of them has no documents."""
    items = [*interactions(12), interactions(1)[0].model_copy(update={"interaction_id": "bare", "documents": ()})]
    file = tmp_path / "items.jsonl"
    file.write_bytes(b"\n".join(item.encode() for item in items))
    entries = [
        (EntryKind.INTERACTIONS, RecordedEntry(0, f"{1_000 + number}-0", item)) for number, item in enumerate(items)
    ]
    record(entries, tmp_path / "recording")
    return str(file), str(tmp_path / "recording")


@pytest.mark.pure
def test_a_recording_and_a_file_give_the_same_sentinels_and_no_item_that_a_judge_cannot_label(
    sources: tuple[str, str], tmp_path: Path
) -> None:
    found = []
    for number, source in enumerate(sources):
        output = tmp_path / f"{number}.jsonl"
        done = run(source, str(output), "--limit", "5")
        assert done.exit_code == 0, done.output
        found.append(ids(output))
    assert found[0] == found[1]
    assert len(found[0]) == 5
    everything = tmp_path / "all.jsonl"
    assert run(sources[0], str(everything), "--limit", "1000").exit_code == 0
    assert set(found[0]) <= set(ids(everything))
    assert "bare" not in ids(everything)
    assert len(ids(everything)) == 12


@pytest.mark.pure
@for_each("words", [["--pipeline", "none"], []])
def test_a_source_without_a_sentinel_is_an_error_that_names_it(words: list[str], tmp_path: Path) -> None:
    bare = interactions(1)[0].model_copy(update={"documents": ()})
    file = tmp_path / "bare.jsonl"
    file.write_bytes(bare.encode())
    done = run(str(file), str(tmp_path / "out.jsonl"), *words)
    assert isinstance(done.exception, ConfigurationError)
    assert str(file) in str(done.exception)
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.redis
def test_a_baseline_forgets_every_sentinel_that_has_an_answer(redis: Any, redis_url: str) -> None:
    key = sentinel_streams(Settings().layout).sentinels
    nothing = command(redis_url, "judge", "baseline")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    for digest in ("a", "b"):
        redis.hset(key, f"{SentinelField.ITEM}{digest}", "[]")
    before = int(redis.hget(key, SentinelField.BASELINE) or 0)
    done = command(redis_url, "judge", "baseline")
    assert done.returncode == 0
    assert "2 sentinels" in done.stdout
    assert int(redis.hget(key, SentinelField.BASELINE)) == before + 1


def test_the_pages_state_how_long_the_default_sentinels_see_nothing() -> None:
    hours = SENTINELS_MAX * LEARNED * JudgeSettings().sentinels_every_s / 3600
    assert f"In the first {hours:.0f} hours sentinels see nothing" in page_text("trust-in-the-judge")
    for page in ("settings", "alerts"):
        assert f"first {hours:.0f} hours" in page_text(page)


@pytest.mark.redis
async def test_the_doctor_says_how_long_sentinels_see_nothing(async_redis: Any, sources: tuple[str, str]) -> None:
    judge = {**JUDGE, "sentinels": sources[0], "sentinels_every_s": 3600}
    settings = Settings.model_validate({"judge": judge, "labeler": "judge", "alerts": [RULE]})
    number = len(read_sentinels(settings))
    key = sentinel_streams(settings.layout).sentinels
    for answers in (0, number * LEARNED - 1, number * LEARNED):
        now = to_milliseconds(utc_now())
        await async_redis.hset(key, mapping={SentinelField.NUMBER: answers, SentinelField.ASKED: now})
        (text,) = [found.found for found in await examine(async_redis, settings, "") if found.subject == "sentinels"]
        assert f"first {number * LEARNED:,.1f} hours" in text
        left = number * LEARNED - answers
        assert (f"{left:,.1f} hours remain" in text) == (left > 0)


async def levels(redis: Any, judge: dict[str, Any], **others: Any) -> dict[str, list[str]]:
    """Return the levels of the doctor's findings about sentinels, by subject."""
    settings = Settings.model_validate({"judge": {**JUDGE, **judge}, "labeler": "judge", **others})
    found: dict[str, list[str]] = {}
    for finding in await examine(redis, settings, "a Redis"):
        if "sentinel" in finding.subject or finding.subject.endswith(RULE_NAME):
            found.setdefault(finding.subject, []).append(finding.level)
    return found


@pytest.mark.redis
async def test_the_doctor_says_whether_sentinels_are_asked_and_watched(
    async_redis: Any, sources: tuple[str, str], tmp_path: Path
) -> None:
    set_up = {"sentinels": sources[0], "sentinels_every_s": 600}
    assert await levels(async_redis, {}) == {}
    assert (await levels(async_redis, set_up))["sentinels"] == ["ok", "warning"], "no rule looks at their answers"
    watched = await levels(async_redis, set_up, alerts=[RULE])
    assert watched["sentinels"] == ["ok"]
    assert "ok" in watched[f"alert rule {RULE_NAME}"]
    assert (await levels(async_redis, set_up, labeler="local"))["sentinels"] == ["warning"]
    unreadable = {**set_up, "sentinels": str(tmp_path / "missing.jsonl")}
    assert (await levels(async_redis, unreadable))["sentinels"] == ["problem"]

    key = sentinel_streams(Settings().layout).sentinels
    for age_s, expected in ((60, ["ok"]), (7200, ["ok", "warning"])):
        asked = to_milliseconds(utc_now()) - 1000 * age_s
        await async_redis.hset(key, mapping={SentinelField.NUMBER: 5, SentinelField.ASKED: asked})
        assert (await levels(async_redis, set_up, alerts=[RULE]))["sentinels"] == expected, age_s
