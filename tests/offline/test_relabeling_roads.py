"""Relabeling in processes ends as relabeling in one process: its dead letters, its limit of cost, and what only it can.

Each road begins with its own data directory and an empty Redis.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.dying_labeler import BEYOND, FLAKY, REFUSED
from tests.support.in_process import run_command
from tests.support.recorded import record, record_raw
from tests.support.relabeling import COUNT, START_MS, bits, interaction, recording_of, relabel, settings_at

from ragtide.testing import ScriptedJudge, Status
from ragtide_offline.parts import part_files
from ragtide_offline.replay.result import ReplayResult
from ragtide_offline.score.scoring import ScoringStopped
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_schemas import DeadLetter, RetrievedDocument
from ragtide_schemas.limits import ENTRY_MAX_BYTES

DELIVERIES = 2


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files, "PART_ROWS", 20)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return recording_of(tmp_path / "recording")


def letters(redis: Any) -> dict[str, tuple[str, str, str]]:
    """Return the dead letters of the workspace by interaction: stream, reason and sentence."""
    found: dict[str, tuple[str, str, str]] = {}
    for key in sorted(redis.keys("*dead-letters*")):
        for _, fields in redis.xrange(key):
            letter = DeadLetter.decode(fields[DATA_FIELD])
            payload = json.loads(letter.payload) if not letter.truncated else {"interaction_id": "large"}
            stream = letter.stream.rpartition(":")[2]
            assert payload["interaction_id"] not in found, "written twice"
            found[payload["interaction_id"]] = stream, letter.reason, letter.detail
    return found


def means(found: ReplayResult) -> dict[str, tuple[int, float]]:
    """Return number and mean of each metric over all partitions, to 12 digits: workers finish in another order."""
    by_metric: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for each in found.estimates or ():
        by_metric[f"{each.pipeline} {each.segment} {each.metric}"].append((each.n, each.estimate or 0.0))
    totals = {metric: sum(n for n, _ in parts) for metric, parts in by_metric.items()}
    return {
        metric: (totals[metric], float(f"{sum(n * mean for n, mean in parts) / max(totals[metric], 1):.12g}"))
        for metric, parts in by_metric.items()
    }


def large(number: int) -> Any:
    """Return an interaction that is recorded, and with the name of the run and the size of the population too large."""

    def of(size: int) -> Any:
        texts = [RetrievedDocument(text="x" * min(size - start, 900_000)) for start in range(0, size, 900_000)]
        return interaction(number, "shop", documents=texts)

    size = 4_000_000
    found = of(size + ENTRY_MAX_BYTES - len(of(size).encode()))
    assert len(found.encode()) == ENTRY_MAX_BYTES
    return found


@pytest.mark.processes
def test_what_cannot_be_labeled_ends_as_in_one_process(redis: Any, redis_url: str, tmp_path: Path) -> None:
    more = [
        interaction(COUNT + 1, "shop", FLAKY),
        interaction(COUNT + 2, "shop", BEYOND),
        large(COUNT + 3),
        # The first decides: it is not labeled, so that the second, which could be, is none of the traffic.
        interaction(COUNT, "shop", "When was tower built again?"),
        interaction(COUNT, "shop", REFUSED),
        interaction(COUNT + 2, "shop", BEYOND),
        *[interaction(number, "shop", REFUSED) for number in range(COUNT + 4, COUNT + 34)],
    ]
    recording_of(tmp_path / "recording", *more)
    unreadable = {f"{START_MS + 10**6}-0": b"{", f"{START_MS + 10**6}-1": b'{"pipeline": "shop", "question": ""}'}
    # The partitions of the pipeline were changed between the two, and the later one is in the lower partition.
    for partition, (ms, question) in enumerate(
        ((START_MS + 500_000, "Later?"), (START_MS + 400_000, "Who was first?"))
    ):
        twice = interaction(COUNT + 40, "shop", question)
        record_raw(tmp_path / "recording", {f"{ms}-0": twice.encode()}, partition=partition, step=4)
    recording = record_raw(tmp_path / "recording", unreadable, step=5)
    assert len(list(recording.unreadable("interactions"))) == 2
    found, dead = [], []
    for road, processes in (("one", None), ("parts", 1), ("more", 2)):
        settings = settings_at(tmp_path / road, max_deliveries=DELIVERIES, worker_min_idle_s=0.3)
        found.append(relabel(redis_url, settings, recording, processes))
        dead.append(letters(redis))
        if processes is not None:  # it is complete: the second time nothing is written again
            assert bits(relabel(redis_url, settings, recording, processes)) == bits(found[-1])
            assert letters(redis) == dead[-1]
        redis.flushdb()
    one, parts, two = found
    assert dead[0] == dead[1] == dead[2]
    assert len(dead[0]) == 33
    for name in ("n", "duplicates", "dead_letters", "complete", "cost_usd", "prompt_tokens", "cache_hits", "over_cost"):
        assert one.counts[name] == parts.counts[name], name
    assert one.counts["dead_letters"] == {"labeling_failed": 31, "too_large": 1, "invalid": 1}
    assert means(one) == means(parts)
    assert bits(parts) == bits(two)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedJudge]:
    with ScriptedJudge() as server:
        monkeypatch.setenv("RAGTIDE_JUDGE_MODEL", "m")
        monkeypatch.setenv("RAGTIDE_JUDGE_BASE_URL", server.url)
        monkeypatch.setenv("RAGTIDE_JUDGE_PRICES", '{"m": {"input": 100.0, "output": 400.0}}')
        monkeypatch.setenv("RAGTIDE_JUDGE_MAX_IN_FLIGHT", "4")
        monkeypatch.setenv("RAGTIDE_JUDGE_ATTEMPTS", "1")
        yield server


@pytest.mark.processes
def test_all_processes_together_stop_at_one_limit_of_cost_and_go_on_at_a_greater_one(
    redis: Any, redis_url: str, tmp_path: Path, judge: ScriptedJudge
) -> None:
    asked = [interaction(number, "shop", f"How tall is tower {number}?") for number in range(COUNT)]
    entries = [(EntryKind.INTERACTIONS, RecordedEntry(0, f"{START_MS}-{at}", row)) for at, row in enumerate(asked)]
    recording = record(entries, tmp_path / "recording")

    def run(data: str, processes: int, limit: float | None) -> tuple[ReplayResult, int]:
        before = len(judge.requests)
        settings = settings_at(tmp_path / data, labeler="judge", alerts=())
        found = relabel(redis_url, settings, recording, processes, max_cost_usd=limit)
        return found, len(judge.requests) - before

    whole, all_calls = run("whole", 2, None)
    whole_usd = whole.counts["cost_usd"]
    assert whole.counts["complete"]
    assert whole_usd > 0
    assert (whole.counts["cache_hits"], whole.counts["prompt_tokens"] > 0) == (0, True)
    redis.flushdb()
    nothing, calls = run("part", 1, 0.0)
    assert (nothing.counts["over_cost"], nothing.counts["cost_usd"], calls) == (True, 0.0, 0)
    limit = whole_usd / 3
    part, first_calls = run("part", 2, limit)
    assert (part.counts["complete"], part.counts["over_cost"], part.counts["n"]) == (False, True, 0)
    assert part.estimates == []
    # A call is made only while its probable cost is within the limit, so at most calls in flight cost more than that.
    most_of_a_call = 1.5 * whole_usd / all_calls
    assert 0 < part.counts["cost_usd"] <= limit + 4 * most_of_a_call
    assert first_calls * whole_usd / all_calls == pytest.approx(part.counts["cost_usd"], rel=0.2)
    again, calls = run("part", 2, limit)
    assert again.counts["over_cost"]
    assert again.counts["cost_usd"] <= limit + 4 * most_of_a_call
    rest, last_calls = run("part", 2, 2 * whole_usd)
    assert (rest.counts["complete"], rest.counts["over_cost"]) == (True, False)
    assert first_calls + calls + last_calls == all_calls
    assert rest.counts["cost_usd"] == pytest.approx(whole_usd, rel=1e-6)
    assert rest.counts["cache_hits"] > 0
    assert means(rest) == means(whole)


@pytest.fixture
def local_over_budget(redis: Any, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment of commands, with a judge that gives way to the local labeler over its spend limit."""
    names = {"REDIS_URL": redis_url, "DATA_DIR": str(tmp_path / "data"), "LABELER": "judge"}
    for name, value in {**names, "JUDGE_OVER_BUDGET": "local"}.items():
        monkeypatch.setenv(f"RAGTIDE_{name}", value)


@pytest.mark.processes
def test_a_limit_of_cost_stops_a_judge_that_would_give_way_to_the_local_labeler(
    local_over_budget: None, judge: ScriptedJudge, capsys: pytest.CaptureFixture[str], recording: Recording
) -> None:
    words = ("--relabel", "--processes", "1", "--max-cost-usd", "0", "--json")
    done = run_command(capsys, "replay", recording.url, *words)
    found = json.loads(done.stdout)
    assert (done.code, found["over_cost"], found["labeled"], judge.requests) == (1, True, 0, [])
    assert "a higher limit" in done.stderr


@pytest.mark.processes
def test_a_judge_that_is_away_stops_the_parts_and_makes_no_dead_letter(
    redis: Any, redis_url: str, tmp_path: Path, judge: ScriptedJudge, recording: Recording
) -> None:
    for labeler in ("judge", "cascade"):
        redis.flushdb()
        settings = settings_at(tmp_path / labeler, labeler=labeler, cascade={"rate": 0.5}, alerts=())
        judge.always = Status(500)
        with pytest.raises(ScoringStopped, match="then run the same command again"):
            relabel(redis_url, settings, recording, 1)
        judge.always = None
        found = relabel(redis_url, settings, recording, 1)
        assert (found.counts["complete"], found.counts["dead_letters"]) == (True, {}), labeler


@pytest.fixture
def refusal(redis: Any, redis_url: str, tmp_path: Path, recording: Recording) -> Callable[..., str]:
    """Return a function that returns the sentence with which a replay is refused, and checks that it leaves nothing."""

    def of(limit: float | None, **changes: Any) -> str:
        settings = settings_at(tmp_path / "data", alerts=(), **changes)
        with pytest.raises(ConfigurationError) as refused:
            relabel(redis_url, settings, recording, 2, max_cost_usd=limit)
        assert redis.keys("*") == []
        assert not (tmp_path / "data" / "relabeled").exists()
        return str(refused.value)

    return of


SESSION = {"name": "solved", "question": "Was it solved?", "scale": "yes_no", "unit": "session"}
JUDGE = {"model": "m", "api_key": "k", "prices": {"m": {"input": 1.0, "output": 1.0}}}


@for_each(
    "changes, limit, words",
    [
        ({"labeler": "judge", "judge": {**JUDGE, "criteria": [SESSION]}}, None, "leave --processes out"),
        ({"specimens": {"offline": True}}, None, "specimens.offline"),
        ({"labeler": None, "evaluators": [{"name": "a", "labeler": "local"}]}, None, "several evaluators"),
        ({}, 1.0, "is your own: leave --processes out"),
        ({"labeler": "judge", "judge": {**JUDGE, "prices": {}}}, 1.0, "needs the price of m"),
        ({"labeler": "judge", "judge": {**JUDGE, "cache_ttl_s": 0}}, 1.0, "judge.cache_ttl_s is 0"),
    ],
)
def test_what_only_one_process_can_do_is_refused_before_the_workspace_begins(
    refusal: Callable[..., str], changes: dict[str, Any], limit: float | None, words: str
) -> None:
    assert words in refusal(limit, **changes)
