"""Relabeling a recording in processes: the numbers and alerts of one process, to the bit, whatever is killed."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.dying_labeler import FATAL, REFUSED
from tests.support.in_process import run_command
from tests.support.recorded import record

from ragtide_offline.parts import part_files
from ragtide_offline.parts.part_files import UnusablePartsError
from ragtide_offline.parts.relabeling import PartsRelabeling
from ragtide_offline.replay.plan import ReplayPlan
from ragtide_offline.replay.result import ReplayResult
from ragtide_offline.replay.selection import Selection
from ragtide_offline.score.scoring import ScoringStopped
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.settings.model import settings_of_application
from ragtide_runtime.workspaces import parts_folder
from ragtide_schemas import AlertRule, Feedback, RagInteraction, RetrievedDocument, from_milliseconds

COUNT = 120
"""Recorded interactions of each of two pipelines, without a duplicate and a refused one."""
LABELER = "tests.support.dying_labeler:DyingLabeler"
START_MS = 1_795_300_000_000
RULE = AlertRule(name="floor", kind="threshold", metric="own.length", target=0.6)


def interaction(number: int, pipeline: str, question: str | None = None) -> RagInteraction:
    return RagInteraction(
        interaction_id=f"i-{number}",
        pipeline=pipeline,
        occurred_at=from_milliseconds(START_MS + 1000 * number),
        question=question or f"When was tower {'x' * (number * number % 7)} built?",
        documents=[RetrievedDocument(text="It was built in 1889.")],
        response="In 1889.",
        segments={"lang": "de" if number % 3 else "en"},
        population_size=9,
        run="live",
    )


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """Return the interactions of two partitions, with a duplicate, one that is not labeled, and feedback."""
    entries: list[tuple[EntryKind, RecordedEntry]] = []
    for partition, pipeline in enumerate(("shop", "news")):
        rows = [interaction(number, pipeline) for number in range(COUNT)]
        if pipeline == "shop":
            rows[50:50] = [interaction(3, pipeline), interaction(COUNT, pipeline, REFUSED)]
        entries += [
            (EntryKind.INTERACTIONS, RecordedEntry(partition, f"{START_MS + 1000 * place}-{place % 3}", row))
            for place, row in enumerate(rows)
        ]
        gold = Feedback(pipeline=pipeline, interaction_id="i-5", gold_scores={"own.length": 1.0})
        entries.append((EntryKind.FEEDBACK, RecordedEntry(partition, f"{START_MS + 30_000}-1", gold)))
    return record(entries, tmp_path / "recording", partitions=2)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files, "PART_ROWS", 20)


Relabel = Callable[..., ReplayResult]


@pytest.fixture
def relabel(recording: Recording, redis: Any, redis_url: str, tmp_path: Path) -> Relabel:
    """Return a function that relabels into a workspace, with a data directory of a name."""

    def run(processes: int, data: str, *, stopped: bool = False, selection: Selection = Selection()) -> ReplayResult:  # noqa: B008
        settings = settings_of_application(
            labeler=LABELER, data_dir=tmp_path / data, segments=True, alerts=(RULE,), lease_s=60
        )
        plan = ReplayPlan("again", recording, selection, relabel=True, rules=(RULE,), in_parts=True)

        async def body() -> ReplayResult:
            stop = asyncio.Event()
            if stopped:
                stop.set()
            async with connect_async(redis_url) as client:
                relabeling = PartsRelabeling(settings, plan, processes)
                return await relabeling.run(client, stop, lambda _done, _usd: None, lambda _progress: None)

        return asyncio.run(body())

    return run


def bits(found: ReplayResult) -> str:
    """Return all that a replay results in, without its duration."""
    return json.dumps({**found.as_dict(), "seconds": None}, sort_keys=True)


def parts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.processes
def test_two_processes_give_the_numbers_and_alerts_of_one_process_to_the_bit(
    relabel: Relabel, redis: Any, tmp_path: Path
) -> None:
    one = relabel(1, "one")
    assert (one.counts["n"], one.counts["complete"], one.counts["labeled"]) == (2 * COUNT, True, 2 * COUNT + 2)
    assert (one.counts["duplicates"], one.counts["problems"], one.counts["feedback"]) == (1, 1, 2)
    assert "it is refused" in one.counts["problem"]
    assert {alert.rule for alert in one.alerts} == {"floor"}
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
        parts(parts_folder(settings_of_application(data_dir=tmp_path / name), "again")) for name in ("one", "two")
    )
    assert first == second
    assert len(first) == 13


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
    assert bits(relabel(2, "paused")) == bits(whole)


def test_a_selection_of_the_recording_is_labeled_and_a_grown_recording_refused(
    relabel: Relabel, recording: Recording, redis: Any
) -> None:
    part = Selection(pipelines=frozenset({"news"}), segments=(("lang", "en"),))
    found = relabel(1, "some", selection=part)
    assert found.counts["n"] == sum(number % 3 == 0 for number in range(COUNT))
    redis.flushdb()
    with pytest.raises(UnusablePartsError, match="of another run"):
        relabel(1, "some")
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
        (("--relabel", "--processes", "2", "--max-cost-usd", "1"), "leave --processes out"),
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
    folder = deployment / "relabeled"
    assert sorted(path.name for path in folder.iterdir()) == ["ragtide.a", "ragtide.b"]
    assert run_command(capsys, "workspaces", "remove", "a").code == 0
    assert [path.name for path in folder.iterdir()] == ["ragtide.b"]
