"""Commands know the criteria that operators stored; without Redis they work on those of the settings and say so."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from tests.support.conditions import until
from tests.support.in_process import Done, run_command
from tests.support.metric_events import event
from tests.support.recorded import record

from ragtide.testing import Labels, ScriptedJudge
from ragtide_offline.demo import demo_interactions
from ragtide_roles.doctor.examination import examine
from ragtide_roles.serving import serve
from ragtide_runtime.recordings import EntryKind, RecordedEntry
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.stored_criteria import StoredCriterion, store_criterion
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_schemas import AlertRule, utc_now
from ragtide_schemas.criterion import Criterion

SHORT = Criterion(name="short", question="Is the response short?", scale="yes_no")
RULE = '[[alerts]]\nname = "short answers"\nkind = "drift"\nmetric = "criteria.short"\n'
NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("RAGTIDE_LABELER", "judge")
    monkeypatch.setenv("RAGTIDE_JUDGE_MODEL", "m")
    Path("rules.toml").write_text(RULE, encoding="utf-8")


@pytest.fixture
def stored(redis_url: str, redis: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of the Redis that has the criterion; commands use it."""
    asyncio.run(keep(redis_url, SHORT))
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    return redis_url


async def keep(redis_url: str, criterion: Criterion, *, paused: bool = False) -> None:
    async with connect_async(redis_url) as redis:
        await store_criterion(
            redis, "ragtide", StoredCriterion(criterion=criterion, by="ann", at=utc_now(), paused=paused)
        )


def said(done: Done) -> str:
    return " ".join((done.stdout + done.stderr).split())


def test_explain_knows_a_stored_criterion_by_each_of_its_names(stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("criteria.short", "short"):
        done = run_command(capsys, "explain", name, "--json")
        assert json.loads(done.stdout)["meaning"] == SHORT.question
    assert "criteria.short" in run_command(capsys, "explain").stdout


def test_a_rule_on_a_stored_criterion_passes_the_check(stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = run_command(capsys, "rules", "check", "rules.toml", "--strict")
    assert (done.code, "1 of 1 rules can fire" in done.stdout) == (0, True), said(done)
    asyncio.run(keep(stored, SHORT, paused=True))
    assert run_command(capsys, "rules", "check", "rules.toml", "--strict").code == 1


def test_a_rule_that_a_recording_tests_is_checked_against_the_stored_criterion(
    stored: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    declared = {SHORT.metric: SHORT.declaration()}
    events = [event(number, {SHORT.metric: float(number % 2)}, declared=declared) for number in range(40)]
    entries = [
        (EntryKind.METRICS, RecordedEntry(0, f"{1_795_300_000_000 + number}-0", found))
        for number, found in enumerate(events)
    ]
    record(entries, tmp_path / "recording")
    words = ("rules", "test", "rules.toml", "--recording", "recording", "--json")
    found = run_command(capsys, *words)
    assert (found.code, json.loads(found.stdout)["n"]) == (0, 40)
    Path("rules.toml").write_text(f"{RULE}baseline = 5.0\n", encoding="utf-8")
    refused = run_command(capsys, *words)
    assert refused.code == 1
    assert "could never fire" in said(refused)
    del stored


def test_a_gate_suggests_a_stored_criterion(stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = run_command(capsys, "score", "missing.jsonl", "--fail-if", "criteria.shrot < 0.5")
    assert (done.code, "did you mean 'criteria.short'?" in said(done)) == (2, True), said(done)


def test_a_file_is_scored_by_the_stored_criterion_that_decides_a_gate_and_by_no_other(
    stored: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(keep(stored, Criterion(name="kind", question="Is the response kind?", scale="yes_no")))
    lines = [row.encode().decode() for row in demo_interactions()[:20]]
    Path("answers.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with ScriptedJudge(Labels(answers={SHORT.question: "no"})) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        done = run_command(capsys, "score", "answers.jsonl", "--fail-if", "criteria.short < 0.9")
        asked = {each.question for prompt in server.prompts for each in prompt.criteria.values()}
    assert done.code == 4, said(done)
    assert asked == {SHORT.question}


@pytest.mark.parametrize("url", [NOWHERE, ""])
def test_without_redis_the_settings_alone_are_known_and_the_command_says_so(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", url)
    monkeypatch.setenv("RAGTIDE_DATA_DIR", str(tmp_path / "data"))
    commands: Sequence[tuple[int, Sequence[str]]] = (
        (0, ("explain",)),
        (1, ("explain", "criteria.short")),
        (0, ("rules", "check", "rules.toml")),
    )
    for code, words in commands:
        done = run_command(capsys, *words)
        assert (done.code, "Stored criteria were not read" in said(done)) == (code, True), said(done)
    monkeypatch.setenv("RAGTIDE_JUDGE_CRITERIA", json.dumps([SHORT.model_dump(exclude_defaults=True)]))
    for words in (("explain", "criteria.short"), ("rules", "check", "rules.toml", "--strict")):
        done = run_command(capsys, *words)
        assert (done.code, "not read" in said(done)) == (0, False), said(done)
    assert not (tmp_path / "data").exists(), "no server was started"


async def test_doctor_and_a_starting_role_know_it(
    async_redis: Redis, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tuple(
        AlertRule(name=name, kind="drift", metric=f"criteria.{name}", direction="fall") for name in ("short", "long")
    )
    settings = Settings(redis_url=redis_url, alerts=rules)
    await keep(redis_url, SHORT)
    found = [finding for finding in await examine(async_redis, settings, "a Redis") if "alert rule" in finding.subject]
    assert [finding.subject for finding in found] == ["alert rule long"]
    stop, logged = asyncio.Event(), ""

    def warned() -> bool:
        nonlocal logged
        logged += capsys.readouterr().out
        return "no criterion long is asked" in logged

    task = asyncio.create_task(
        serve(settings, redis_url, stop, worker=False, aggregator=True, process=ProcessTelemetry())
    )
    await until(warned)
    stop.set()
    await task
    assert logged.count("an alert rule never fires") == 1
