"""Recorded interactions judged anew: what it costs is limited, and what was asked before is not asked again."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.test_judge import judge_settings
from tests.support.recorded import record
from tests.support.roles import command, interactions

from ragtide.testing import Labels, ScriptedJudge
from ragtide_runtime.recordings import EntryKind, RecordedEntry
from ragtide_schemas import Feedback

COUNT = 150


def recorded(folder: Path) -> Path:
    """Record interactions that are all different, and feedback about some."""
    entries: list[tuple[EntryKind, RecordedEntry]] = []
    for number, interaction in enumerate(interactions(COUNT)):
        asked = interaction.model_copy(update={"question": f"{interaction.question} ({number})", "gold_scores": {}})
        entries.append((EntryKind.INTERACTIONS, RecordedEntry(0, f"{1_795_300_000_000 + number}-0", asked)))
    for number in range(0, COUNT, 10):
        told = Feedback(
            pipeline="shop", interaction_id=f"i-{number:05d}", gold_scores={"trace.context_utilization": 1.0}
        )
        entries.append((EntryKind.FEEDBACK, RecordedEntry(0, f"{1_795_400_000_000 + number}-0", told)))
    record(entries, folder)
    return folder


def replayed(url: str, settings: dict[str, str], folder: Path, run: str, *more: str) -> tuple[int, dict[str, Any]]:
    done = command(url, "replay", str(folder), "--relabel", "--workspace", run, "--json", *more, extra=settings)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.heavy
def test_a_limit_of_cost_stops_a_replay_which_goes_on_later_and_asks_nothing_twice(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    folder = recorded(tmp_path / "recording")
    with ScriptedJudge() as server:
        settings = judge_settings(server, RAGTIDE_JUDGE_PRICES=json.dumps({"m": {"input": 1000.0, "output": 1000.0}}))
        del settings["RAGTIDE_LABELER"], settings["RAGTIDE_JUDGE_MODEL"]
        how = ("--labeler", "judge", "--judge-model", "m")
        _, whole = replayed(redis_url, settings, folder, "whole", *how)
        assert (whole["n"], whole["complete"], whole["cache_hits"]) == (COUNT, True, 0)
        assert whole["cost_usd"] > 0 < whole["prompt_tokens"]
        asked = len(server.requests)
        _, again = replayed(redis_url, settings, folder, "again", *how)
        assert (again["n"], again["cost_usd"], again["cache_hits"]) == (COUNT, 0.0, COUNT)
        assert len(server.requests) == asked
        means = [
            {
                estimate["metric"]: (estimate["n"], estimate["estimate"])
                for estimate in found["estimates"]
                if estimate["segment"] is None
            }
            for found in (whole, again)
        ]
        assert means[0] == means[1]
        assert means[0]["rmse.trace.context_utilization"][0] == COUNT / 10
        # Nothing is known of it: another deployment's cache is empty.
        settings["RAGTIDE_PREFIX"] = "other"
        limit = whole["cost_usd"] / 3
        code, part = replayed(redis_url, settings, folder, "part", *how, "--max-cost-usd", str(limit))
        assert (code, part["complete"], part["over_cost"]) == (1, False, True)
        assert 0 < part["n"] < COUNT / 2
        assert part["cost_usd"] <= 1.2 * limit
        assert part["projected_cost_usd"] > limit
        code, rest = replayed(redis_url, settings, folder, "part", *how)
        assert (code, rest["n"], rest["complete"], rest["published"]) == (0, COUNT, True, COUNT)
        assert len(server.requests) == 2 * asked


@pytest.mark.heavy
def test_a_new_criterion_alone_is_asked_about_a_recording_and_its_price_is_known_before(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    folder = recorded(tmp_path / "recording")
    question = "Is the response short?"
    with ScriptedJudge(Labels(answers={question: "no"})) as server:
        settings = judge_settings(server, RAGTIDE_JUDGE_PRICES=json.dumps({"m": {"input": 1000.0, "output": 1000.0}}))
        settings |= {"RAGTIDE_LABELER": "local", "RAGTIDE_JUDGE_MODEL": "m"}
        stored = command(redis_url, "criteria", "add", "short", "--question", question, "--scale", "yes_no")
        assert stored.returncode == 0, stored.stderr
        how = ("--criterion", "short", "--criterion", "answer.refused")
        code, plan = replayed(redis_url, settings, folder, "plan", *how, "--dry-run")
        assert (code, plan["interactions"], plan["calls"], server.requests) == (0, COUNT, COUNT, [])
        code, found = replayed(redis_url, settings, folder, "backfill", *how)
        assert (code, found["n"], found["complete"]) == (0, COUNT, True)
        assert {prompt.kind for prompt in server.prompts} == {"criteria"}
        assert len(server.requests) == COUNT
        assert 0.3 < found["cost_usd"] / plan["cost_usd"] < 3
        means = {
            estimate["metric"]: (estimate["n"], estimate["estimate"])
            for estimate in found["estimates"]
            if estimate["segment"] is None and estimate["labeler"] == "judge"
        }
        assert means["criteria.short"] == (COUNT, 0.0)
        assert means["answer.refused"] == (COUNT, 1.0)
        assert not [metric for metric in means if metric.startswith("trace.")]
        refused = command(redis_url, "replay", str(folder), "--workspace", "backfill", "--relabel", extra=settings)
        assert "began with criteria" in refused.stderr
        for words, remedy in (
            (("--criterion", "short"), "need --relabel"),
            (("--relabel", "--criterion", "short", "--labeler", "local"), "leave --labeler out"),
            (("--relabel", "--criterion", "none"), "no criterion"),
            (("--relabel", "--dry-run"), "add --criterion NAME"),
        ):
            done = command(redis_url, "replay", str(folder), *words, extra=settings)
            assert done.returncode != 0
            assert remedy in " ".join(done.stderr.split()), done.stderr


@pytest.mark.heavy
def test_a_criterion_about_sessions_is_asked_once_of_each_recorded_session(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    entries = [
        (EntryKind.INTERACTIONS, RecordedEntry(0, f"{1_795_300_000_000 + number}-0", turn))
        for number, interaction in enumerate(interactions(40))
        for turn in [interaction.model_copy(update={"session_id": f"s{number // 4}", "turn": number % 4})]
    ]
    record(entries, tmp_path / "recording")
    question = "Was the problem solved?"
    with ScriptedJudge(Labels(answers={question: "no"})) as server:
        settings = judge_settings(server, RAGTIDE_JUDGE_PRICES=json.dumps({"m": {"input": 1.0, "output": 1.0}}))
        settings |= {"RAGTIDE_LABELER": "local", "RAGTIDE_JUDGE_MODEL": "m"}
        fields = ("--question", question, "--scale", "yes_no", "--unit", "session")
        stored = command(redis_url, "criteria", "add", "resolved", *fields)
        assert stored.returncode == 0, stored.stderr
        code, plan = replayed(
            redis_url, settings, tmp_path / "recording", "plan", "--criterion", "resolved", "--dry-run"
        )
        assert (code, plan["interactions"], plan["calls"], server.requests) == (0, 40, 10, [])
        _, found = replayed(redis_url, settings, tmp_path / "recording", "backfill", "--criterion", "resolved")
        assert (found["n"], found["sessions"], found["complete"]) == (40, 10, True)
        assert [len(prompt.conversation) for prompt in server.prompts] == [8] * 10
    (mean,) = [one for one in found["estimates"] if one["metric"] == "criteria.resolved" and one["segment"] is None]
    assert (mean["n"], mean["estimate"]) == (10, 0.0)
