"""A process that may write to Redis must not decide which code another process imports, or on which model it spends."""

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from tests.support.experiment_plans import plan
from tests.support.in_process import run_command

from ragtide import ConfigurationError
from ragtide_consumers.labelers import plugins
from ragtide_roles.workspaces import check_labeler
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Workspace
from ragtide_schemas.experiments import Begun

STREAMS = Streams("ragtide", 0)

PAYLOAD = """
from pathlib import Path
Path("IMPORTED").write_text("x")

def made():
    return None

def answer(question):
    return [], "x"
"""


@pytest.fixture(autouse=True)
def _this_redis(redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    (tmp_path / "payload.py").write_text(PAYLOAD)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("payload", None)


def begun(redis: Any, run: str, labeler: str) -> None:
    """Write an experiment into Redis, as any process that may write there can."""
    info = Workspace(run=run, kind="experiment", source="x")
    redis.hset(STREAMS.workspaces, run, info.encode())
    entry = Begun(plan=plan(2).model_copy(update={"run": run, "labeler": labeler}))
    redis.xadd(Streams(f"ragtide.run.{run}", 0).experiment, {DATA_FIELD: entry.encode()}, id="1-1")


def replayed(redis: Any, run: str, **options: Any) -> None:
    info = Workspace(run=run, kind="replay", source="x", options={"replays": "interactions", **options})
    redis.hset(STREAMS.workspaces, run, info.encode())


@pytest.mark.parametrize("role", ["worker", "aggregator"])
def test_the_labeler_of_a_plan_in_redis_is_not_imported(
    redis: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(redis, "evil", "payload:made")
    if role == "worker":
        done = run_command(capsys, role, "--workspace", "evil")
        assert done.code == 1
        assert "workspace 'evil' names the labeler 'payload:made'" in done.stderr
        assert "RAGTIDE_LABELER='payload:made'" in done.stderr
    else:
        # An aggregator has no use for a labeler; that one must not be imported all the same.
        monkeypatch.setattr("ragtide_roles.serving.aggregate", _nothing)
        assert run_command(capsys, role, "--workspace", "evil").code == 0
    assert not (tmp_path / "IMPORTED").exists()


async def _nothing(*_: Any, **__: Any) -> None:
    return


def test_the_labeler_of_a_replay_in_redis_is_not_imported(
    redis: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTIDE_WORKER_PROCESSES", "1")
    replayed(redis, "evil", labeler="payload:made")
    done = run_command(capsys, "worker", "--workspace", "evil")
    assert done.code == 1
    assert "names the labeler 'payload:made'" in done.stderr
    # A replay whose keys hold a plan as well is no way around.
    replayed(redis, "evil2", labeler="local")
    begun(redis, "evil2", "payload:made")
    replayed(redis, "evil2", labeler="local")
    assert run_command(capsys, "worker", "--workspace", "evil2").code == 1
    assert not (tmp_path / "IMPORTED").exists()
    # Local settings that name it too are the way.
    monkeypatch.setenv("RAGTIDE_LABELER", "payload:made")
    assert "has no name, version" in run_command(capsys, "worker", "--workspace", "evil").stderr
    assert (tmp_path / "IMPORTED").exists()


def test_the_judge_model_of_a_replay_in_redis_is_not_asked_with_the_local_key(
    redis: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed(redis, "evil", labeler="judge", judge_model="dear")
    monkeypatch.setenv("RAGTIDE_JUDGE_MODEL", "cheap")
    done = run_command(capsys, "worker", "--workspace", "evil")
    assert done.code == 1
    assert "names the judge model 'dear'" in done.stderr
    assert "RAGTIDE_JUDGE_MODEL='dear'" in done.stderr


@pytest.mark.parametrize(
    "options", [{"labeler": 5}, {"rules": "x"}, {"windows": 7}, {"judge_model": ["a"]}, {"rules": [{"name": "a"}]}]
)
def test_options_of_a_run_that_cannot_be_read_are_refused_in_a_sentence(
    redis: Any, capsys: pytest.CaptureFixture[str], options: dict[str, Any]
) -> None:
    replayed(redis, "odd", **options)
    done = run_command(capsys, "alerts", "--workspace", "odd")
    assert done.code == 1
    assert "the options of workspace 'odd' cannot be read" in done.stderr


def test_installed_and_built_in_labelers_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(name="ours", value="payload:made", group=plugins.LABELERS)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == plugins.LABELERS else [])
    for name in ("local", "judge", "cascade", "ours"):
        check_labeler(name, Settings(), "r")
    with pytest.raises(ConfigurationError, match="RAGTIDE_LABELER='theirs'"):
        check_labeler("theirs", Settings(), "r")


def test_resume_takes_the_file_from_the_caller(redis: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "evil").mkdir()
    evil = tmp_path / "evil" / "experiment.toml"
    evil.write_text(
        'name = "evil"\ntarget = "payload:answer"\ndata = "q.jsonl"\nmetric = "trace.adherence"\n[grid]\nk = [1]\n'
    )
    info = Workspace(run="evil", kind="experiment", source="x", options={"file": str(evil)})
    redis.hset(STREAMS.workspaces, "evil", info.encode())
    done = run_command(capsys, "experiment", "resume", "evil", "--no-roles")
    assert done.code == 1
    assert "ragtide experiment resume evil --file FILE" in done.stderr
    assert str(evil) in done.stderr
    assert not (tmp_path / "IMPORTED").exists()
    # A file of another experiment is refused before anything of it is imported.
    mine = tmp_path / "mine.toml"
    mine.write_text(evil.read_text().replace('name = "evil"', 'name = "mine"'))
    done = run_command(capsys, "experiment", "resume", "evil", "--file", str(mine), "--no-roles")
    assert "describes the experiment 'mine', not 'evil'" in done.stderr
    assert not (tmp_path / "IMPORTED").exists()
    redis.hset(STREAMS.workspaces, "evil", json.dumps(json.loads(info.encode()) | {"options": {}}))
    assert "run that program again" in run_command(capsys, "experiment", "resume", "evil").stderr
