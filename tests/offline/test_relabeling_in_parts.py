"""Relabeling a recording in processes: the numbers and alerts of one process, to the bit, whatever is killed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.dying_labeler import FATAL
from tests.support.in_process import run_command
from tests.support.relabeling import (
    COUNT,
    START_MS,
    bits,
    interaction,
    parts_in,
    recording_of,
    relabel,
    settings_at,
)

from ragtide_offline.parts import part_files
from ragtide_offline.parts.part_files import UnusablePartsError, read_part
from ragtide_offline.parts.relabeled import relabeled
from ragtide_offline.replay.result import ReplayResult
from ragtide_offline.replay.selection import Selection
from ragtide_offline.score.scoring import ScoringStopped
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import Recording
from ragtide_runtime.settings.model import settings_of_application
from ragtide_runtime.workspaces import parts_folder
from ragtide_schemas import from_milliseconds


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return recording_of(tmp_path / "recording")


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files, "PART_ROWS", 20)


Relabel = Callable[..., ReplayResult]


@pytest.fixture(name="relabel")
def _relabel(recording: Recording, redis: Any, redis_url: str, tmp_path: Path) -> Relabel:
    """Return a function that relabels in processes, with a data directory of a name."""

    def run(processes: int, data: str, *, covariates: tuple[str, ...] = (), **how: Any) -> ReplayResult:
        settings = settings_at(tmp_path / data, covariates=covariates)
        return relabel(redis_url, settings, recording, processes, **how)

    return run


@pytest.mark.processes
def test_two_processes_give_the_numbers_and_alerts_of_one_process_to_the_bit(
    relabel: Relabel, recording: Recording, redis: Any, tmp_path: Path
) -> None:
    one = relabel(1, "one")
    assert (one.counts["n"], one.counts["complete"], one.counts["labeled"]) == (2 * COUNT, True, 2 * COUNT + 2)
    assert (one.counts["duplicates"], one.counts["dead_letters"], one.counts["feedback"]) == (
        1,
        {"labeling_failed": 1},
        2,
    )
    assert {alert.rule for alert in one.alerts} == {"floor"}
    assert not one.unfired
    means = {estimate.pipeline: estimate for estimate in one.estimates or () if estimate.segment is None}
    (shop, news) = (
        next(
            estimate
            for estimate in one.estimates or ()
            if (estimate.pipeline, estimate.segment, estimate.metric) == (pipeline, None, "own.length")
        )
        for pipeline in ("shop", "news")
    )
    lengths = [len(interaction(number, "shop").question) % 10 / 9 for number in range(COUNT)]
    assert shop.estimate == news.estimate == pytest.approx(sum(lengths) / COUNT, abs=1e-12)
    # The interaction without scores is a part of the population, so that its interval is not closed.
    assert (shop.population_size, news.population_size) == (COUNT + 1, COUNT)
    assert shop.lower is not None
    assert shop.lower < (shop.estimate or 0)
    assert news.lower == news.estimate == news.upper
    assert means["shop"].run == "again"
    redis.flushdb()
    two = relabel(2, "two")
    assert bits(two) == bits(one)
    first, second = (
        parts_in(parts_folder(settings_of_application(data_dir=tmp_path / name), "again")) for name in ("one", "two")
    )
    assert first == second
    assert len(first) == 13
    folder = parts_folder(settings_of_application(data_dir=tmp_path / "one"), "again")
    events = relabeled(folder, recording).recording
    recorded: dict[str, Any] = {
        entry.entry_id: entry.model for entry in recording.entries("interactions", partitions=[1])
    }
    found: dict[str, Any] = {entry.entry_id: entry.model for entry in events.entries("metrics", partitions=[1])}
    assert [event.interaction_id for event in found.values()] == [row.interaction_id for row in recorded.values()]
    assert list(found) == list(recorded)
    for table in events.tables("metrics"):
        orders = zip(*(table[name].to_pylist() for name in ("entry_ms", "entry_number")), strict=True)
        assert [f"{ms}-{number}" for ms, number in orders] == table["entry_id"].to_pylist()


@pytest.mark.processes
def test_a_killed_process_loses_its_part_alone_and_the_next_call_goes_on(
    relabel: Relabel, redis: Any, tmp_path: Path
) -> None:
    whole = relabel(1, "whole")
    redis.flushdb()
    fatal = interaction(100, "shop").question
    FATAL.write_text(fatal)
    with pytest.raises(ScoringStopped, match="SIGKILL"):
        relabel(2, "killed")
    FATAL.unlink()
    folder = parts_folder(settings_of_application(data_dir=tmp_path / "killed"), "again")
    before = {path: path.stat().st_ino for path in folder.glob("part-*")}
    assert bits(relabel(2, "killed")) == bits(whole)
    assert {path: path.stat().st_ino for path in before} == before
    # It is complete: calling it again changes nothing.
    assert bits(relabel(2, "killed")) == bits(whole)


@pytest.mark.processes
def test_a_stop_is_a_pause(relabel: Relabel, redis: Any) -> None:
    whole = relabel(1, "whole")
    redis.flushdb()
    paused = relabel(2, "paused", stopped=True)
    assert not paused.counts["complete"]
    assert paused.counts["labeled"] < whole.counts["labeled"]
    assert bits(relabel(2, "paused")) == bits(whole)


def test_a_selection_of_the_recording_is_labeled_and_a_grown_recording_refused(
    relabel: Relabel, tmp_path: Path, redis: Any
) -> None:
    part = Selection(pipelines=frozenset({"news"}), segments=(("lang", "en"),))
    found = relabel(1, "some", selection=part)
    selected = sum(number % 3 == 0 for number in range(COUNT))
    parts = parts_folder(settings_of_application(data_dir=tmp_path / "some"), "again").glob("part-*")
    assert found.counts["n"] == sum(read_part(path).totals.counts["scored"] for path in parts) == selected
    redis.flushdb()
    with pytest.raises(UnusablePartsError, match="of another run"):
        relabel(1, "some")
    redis.flushdb()
    with pytest.raises(UnusablePartsError, match="of another run"):
        relabel(1, "some", selection=part, covariates=("documents",))
    with pytest.raises(ConfigurationError, match="no interactions in this selection"):
        relabel(1, "some", selection=Selection(since=from_milliseconds(START_MS + 10**9)))


@pytest.fixture
def deployment(redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Set the environment of commands, and return the data directory."""
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.setenv("RAGTIDE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAGTIDE_LABELER", "local")
    return tmp_path / "data"


@for_each(
    "options, remedy",
    (
        (("--processes", "2"), "--processes needs --relabel"),
        (("--relabel", "--processes", "2", "--speed", "10x"), "leave --speed out"),
        (("--relabel", "--processes", "2", "--speed", "original"), "leave --speed out"),
    ),
)
def test_options_that_need_one_process_are_refused(
    capsys: pytest.CaptureFixture[str], recording: Recording, options: tuple[str, ...], remedy: str
) -> None:
    done = run_command(capsys, "replay", recording.url, *options)
    assert done.code == 1
    assert remedy in done.told


@pytest.mark.processes
def test_the_command_pairs_the_interactions_of_two_labelings_and_removes_them_with_the_workspace(
    capsys: pytest.CaptureFixture[str],
    recording: Recording,
    deployment: Path,
) -> None:
    for name, processes in (("a", "1"), ("b", "2")):
        words = ("--relabel", "--processes", processes, "--workspace", name, "--pipeline", "news", "--json")
        done = run_command(capsys, "replay", recording.url, *words)
        assert (done.code, json.loads(done.stdout)["n"]) == (0, COUNT), done.stderr
    done = run_command(capsys, "compare", "news", "--workspace", "a", "--workspace", "b", "--json")
    assert done.code == 0, done.stderr
    found = {
        row["metric"]: (row["method"], row["n"], row["difference"]["estimate"])
        for row in json.loads(done.stdout)
        if row["segment"] is None
    }
    assert found["response.empty"] == ("paired", [COUNT, COUNT], 0.0), found
    refused = run_command(capsys, "replay", recording.url, "--relabel", "--workspace", "a", "--pipeline", "news")
    assert "began with" in refused.told
    for command in (("worker",), ("aggregator",), ("dead-letters", "retry", "--all")):
        done = run_command(capsys, *command, "--workspace", "a")
        assert "no role reads its interactions" in done.told, command
    folder = deployment / "relabeled"
    assert sorted(path.name for path in folder.iterdir()) == ["ragtide.a", "ragtide.b"]
    assert run_command(capsys, "workspaces", "remove", "a").code == 0
    assert [path.name for path in folder.iterdir()] == ["ragtide.b"]
