"""`ragtide up --labeler model --model`: shown, agreed to, downloaded, measured, and only then at work."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.models.hub_server import Hub, hub_of
from tests.consumers.models.small_models import write
from tests.offline.test_bundled_slopes import words_of_rows
from tests.support.conditions import wait_until
from tests.support.forked import ForkedProcess
from tests.support.in_process import run_command
from tests.support.roles import STREAMS, begin, interactions, metric_events

from ragtide import InteractionProducer
from ragtide.cli.running import model_setup
from ragtide_runtime.redis.measured_slopes import read_slopes

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OWNER = "owner/small-model"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with hub_of({f"{OWNER}@{COMMIT}": write(tmp_path / "remote", words=words_of_rows())}) as found:
        found.cards[OWNER] = {"cardData": {"license": "apache-2.0"}}
        yield found


@pytest.fixture
def command(hub: Hub, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.setenv("RAGTIDE_MODELS_HUB_URL", hub.url)
    return "--redis-url", redis_url, "--data-dir", str(tmp_path / "data"), "up", "--no-page"


def weights_asked(hub: Hub) -> list[str]:
    return [path for path in hub.asked if path.endswith(".onnx")]


def test_without_consent_nothing_is_downloaded_and_license_and_size_are_shown(
    command: tuple[str, ...], hub: Hub, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    done = run_command(capsys, *command, "--labeler", "model", "--model", OWNER)
    assert done.code == 1
    assert "apache-2.0" in done.stderr
    assert " MB" in done.stderr
    assert "give --yes" in done.told
    assert weights_asked(hub) == []
    assert not (tmp_path / "data" / "models").exists()


def test_a_model_goes_with_its_labeler(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    done = run_command(capsys, *command, "--model", OWNER)
    assert (done.code, "give both" in done.told) == (2, True)


@pytest.mark.parametrize(
    ("place", "config", "message"),
    [
        ("owner/other", {}, "is not known to"),
        (OWNER, {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, "set models.support_labels"),
        ("./nowhere", {}, "is not a folder"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_weights(
    command: tuple[str, ...],
    hub: Hub,
    capsys: pytest.CaptureFixture[str],
    *,
    place: str,
    config: dict[str, Any],
    message: str,
) -> None:
    write(hub.models[f"{OWNER}@{COMMIT}"], config=config)
    done = run_command(capsys, *command, "--labeler", "model", "--model", place, "--yes")
    assert done.code == 1
    assert message in done.told
    assert "\n" not in done.told
    assert weights_asked(hub) == []


def until_started(process: ForkedProcess, redis: Any, log: Path) -> str:
    """Return what a command said until its worker runs and 20 answers are labeled."""
    try:
        wait_until(lambda: process.poll() is not None or b"worker started" in log.read_bytes())
        wait_until(lambda: process.poll() is not None or redis.xlen(STREAMS.metrics) == 20)
        assert process.poll() is None, log.read_text()
    finally:
        process.kill()
        process.wait()
    return log.read_text()


@pytest.mark.processes
@pytest.mark.parametrize("where", ["hub", "folder"])
async def test_a_model_is_measured_once_and_then_labels(
    where: str, hub: Hub, redis: Any, *, async_redis: Any, redis_url: str, tmp_path: Path
) -> None:
    place = OWNER if where == "hub" else str(tmp_path / "remote")
    extra = {"RAGTIDE_MODELS_HUB_URL": hub.url, "RAGTIDE_DATA_DIR": str(tmp_path / "data")}
    arguments = ("up", "--no-page", "--labeler", "model", "--model", place, "--yes")
    with InteractionProducer(redis_url) as producer:
        producer.publish_many(interactions(20))
    for name in ("first", "second"):
        asked, log = len(hub.asked), tmp_path / f"{name}.log"
        text = until_started(begin(redis_url, log, *arguments, extra=extra), redis, log)
        assert ("answers a second" in text) == (name == "first"), text
        assert "unsupported claims" in text
        assert text.index("unsupported claims") < text.index("worker started")
    if where == "hub":
        assert len(weights_asked(hub)) == 1
        assert len(hub.asked) == asked, "the second start needs no network"
    versions = {(event.labeler, event.labeler_version) for event in metric_events(redis)}
    assert (await read_slopes(async_redis, "ragtide")).keys() == versions


def test_a_file_is_scored_by_a_model_of_the_hub(
    command: tuple[str, ...], hub: Hub, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f"{one.model_dump_json()}\n" for one in interactions(5)))
    score = (*command[:4], "score", str(rows), "--labeler", "model", "--model", OWNER)
    assert "give --yes" in run_command(capsys, *score).told
    done = run_command(capsys, *score, "--yes", "--json")
    assert done.code == 0, done.stderr
    assert {json.loads(line)["labeler"] for line in done.stdout.splitlines()} == {"model"}
    assert len(weights_asked(hub)) == 1


def test_lines_of_progress_come_at_most_once_a_second_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("ragtide.cli.running.model_setup.time.monotonic", lambda: now[0])
    with model_setup._progress("downloading", 100) as show:
        for done in range(1, 101):
            now[0] += 0.03
            show(done, str)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "downloading: 100 of 100"
    assert len(lines) <= 4 + 1
