"""Whole sessions of a file or a recording: made by the same function as those of live traffic, after the last row."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.in_process import run_command
from tests.support.metric_events import event
from tests.support.recorded import record

from ragtide import RagInteraction, score
from ragtide.testing import Labels, ScriptedJudge
from ragtide_offline.replay.counting import count_selected
from ragtide_offline.replay.publishing import RecordedInteractions
from ragtide_offline.replay.selection import Scope, Selection
from ragtide_roles.criteria.sessions import CollectedSessions
from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_schemas.conversation import sessions_of, turn_of
from ragtide_schemas.criterion import Criterion

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
RESOLVED = {"name": "resolved", "question": "Was the problem solved?", "scale": "yes_no", "unit": "session"}
POLITE = {"name": "polite", "question": "Is the response polite?", "scale": "yes_no"}


def turn(session: str | None, number: int, **fields: Any) -> RagInteraction:
    return RagInteraction.model_validate(
        {
            "interaction_id": f"{session}-{number}", "pipeline": "shop", "session_id": session,
            "question": f"Where is parcel {number} of {session}?", "documents": ["Parcels take three days."],
            "response": f"Parcel {number} takes three days.", "occurred_at": NOON + timedelta(minutes=number), **fields,
        }
    )  # fmt: skip


ROWS = [turn("a", 0), turn("b", 0), turn(None, 0), turn("a", 1), turn("b", 1), turn("a", 90)]


@pytest.fixture
def criterion() -> Criterion:
    return Criterion.model_validate(RESOLVED)


def test_a_file_has_a_score_of_each_session_after_its_rows() -> None:
    with ScriptedJudge(Labels(answers={"Was the problem solved?": "no"})) as server:
        summary = score(ROWS, settings=server.settings(criteria=[RESOLVED, POLITE]))
        conversations = [list(prompt.conversation) for prompt in server.prompts if prompt.conversation]
    found = {estimate.metric: estimate.n for estimate in summary.estimates if estimate.segment is None}
    assert (found["criteria.resolved"], found["criteria.polite"]) == (3, 6)
    assert sorted(conversations) == [["T1Q", "T1R"], ["T1Q", "T1R", "T2Q", "T2R"], ["T1Q", "T1R", "T2Q", "T2R"]]
    sessions = [event for event in summary.events if event.is_session]
    assert [event.session_id for event in sessions] == ["a", "a", "b"]
    assert summary.events[: len(ROWS)] == tuple(event for event in summary.events if not event.is_session)


def test_sessions_of_a_file_are_those_of_live_traffic(criterion: Criterion) -> None:
    collected = CollectedSessions([criterion], 600.0)
    for row in ROWS:
        collected.add(row)
    of_a = [turn_of(row) for row in ROWS if row.session_id == "a"]
    assert [session for session in collected.sessions() if session.session_id == "a"] == sessions_of(of_a, 600.0)


def test_the_rate_draws_sessions_as_a_whole() -> None:
    some = Criterion.model_validate({**RESOLVED, "rate": 0.5})
    collected = CollectedSessions([some], 600.0)
    for number in range(200):
        collected.add(turn(f"s{number}", 0))
        collected.add(turn(f"s{number}", 90))
    drawn = [session.session_id for session in collected.sessions()]
    assert 140 < len(drawn) < 260
    assert all(drawn.count(session) == 2 for session in drawn), "a late part is drawn as its session"


def test_a_labeler_without_sessions_scores_rows_alone() -> None:
    summary = score(ROWS, labeler="local")
    assert len(summary.events) == len(ROWS)


def test_a_replay_publishes_sessions_after_all_interactions_and_continues(tmp_path: Path, criterion: Criterion) -> None:
    entries = [
        (EntryKind.INTERACTIONS, RecordedEntry(0, f"{1_795_300_000_000 + number}-0", row))
        for number, row in enumerate(ROWS)
    ]
    record(entries, tmp_path / "recording")
    items = RecordedInteractions(Recording.open(str(tmp_path / "recording")), Selection(), [criterion], 600.0)
    found = list(items.after(None))
    assert [item.interaction.is_session for item in found] == [False] * 6 + [True] * 3
    for place, item in enumerate(found):
        assert [later.interaction for later in items.after(item.position)] == [
            later.interaction for later in found[place + 1 :]
        ]


def test_sessions_are_no_part_of_the_population_of_answers(tmp_path: Path) -> None:
    events = [event(number, {"trace.adherence": 1.0}) for number in range(5)]
    events += [event(number, {"criteria.resolved": 1.0}, unit="session") for number in range(5, 8)]
    entries = [
        (EntryKind.METRICS, RecordedEntry(0, f"{1_795_300_000_000 + number}-0", found))
        for number, found in enumerate(events)
    ]
    record(entries, tmp_path / "recording")
    counts = count_selected(
        Recording.open(str(tmp_path / "recording")), EntryKind.METRICS, Selection(), ("pipeline", "labeler")
    )
    assert (counts.total, counts.scopes[Scope(("shop", "test"))]) == (8, 5)
    assert counts.of_sessions == {("criteria.resolved", None)}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    lines = [row.model_dump_json(exclude_none=True) for row in ROWS]
    Path("rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    Path("criteria.toml").write_text(
        '[[judge.criteria]]\nname = "resolved"\nquestion = "Was the problem solved?"\nscale = "yes_no"\n'
        'unit = "session"\n[[judge.criteria]]\nname = "polite"\nquestion = "Is the response polite?"\n'
        'scale = "yes_no"\n',
        encoding="utf-8",
    )
    return tmp_path


def asking(monkeypatch: pytest.MonkeyPatch, server: ScriptedJudge) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAGTIDE_JUDGE_PRICES", json.dumps({"scripted": {"input": 1.0, "output": 2.0}}))


def test_a_trial_is_about_sessions(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedJudge() as server:
        asking(monkeypatch, server)
        words = ("criteria", "try", "resolved", "--criteria", "criteria.toml", "--file", "rows.jsonl")
        done = run_command(capsys, *words, "--limit", "2")
        assert done.code == 0, done.stderr
        assert "2 sessions: yes 2" in done.stdout
        assert len(server.requests) == 2
        lines = [turn(None, number).model_dump_json(exclude_none=True) for number in range(3)]
        (files / "without.jsonl").write_text("\n".join(lines), encoding="utf-8")
        done = run_command(capsys, *words[:-1], "without.jsonl")
        assert done.code != 0
        assert "session_id" in done.stderr


def test_a_check_prices_answers_and_sessions(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedJudge() as server:
        asking(monkeypatch, server)
        for more in ((), ("--file", "rows.jsonl")):
            prices = json.loads(run_command(capsys, "criteria", "check", "criteria.toml", "--json", *more).stdout)[
                "prices"
            ]
            polite, resolved = prices["each"]
            assert (polite["unit"], resolved["name"], resolved["unit"]) == ("answer", "resolved", "session")
            assert (polite["calls"], resolved["calls"]) == (0, 1000)
            assert resolved["cost_usd"] > 0
            assert prices["sessions"] == (3 if more else 5)
        shown = run_command(capsys, "criteria", "check", "criteria.toml").stdout
        assert "per 1,000 answers" in shown
        assert "per 1,000 sessions" in shown
        assert all(len(line) <= 80 for line in shown.splitlines())
        assert server.requests == []


def test_rows_in_parts_are_refused(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedJudge() as server:
        asking(monkeypatch, server)
        monkeypatch.setenv("RAGTIDE_JUDGE_CRITERIA", json.dumps([RESOLVED]))
        done = run_command(capsys, "score", "rows.jsonl", "--labeler", "judge", "--shard", "1/2", "--output", "parts")
        assert done.code != 0
        assert "score one file as a whole" in " ".join(done.stderr.split()), done.stderr
        assert server.requests == []


def test_a_scored_file_counts_sessions_apart_and_is_continued(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedJudge() as server:
        asking(monkeypatch, server)
        monkeypatch.setenv("RAGTIDE_JUDGE_CRITERIA", json.dumps([RESOLVED]))
        words = ("score", "rows.jsonl", "--labeler", "judge", "--output", "scores.jsonl")
        done = run_command(capsys, *words)
        assert "6 scored, 3 sessions, 0 problems" in done.stderr, done.stderr
        asked = len(server.requests)
        done = run_command(capsys, *words)
        assert "0 scored, 9 scored before" in done.stderr, done.stderr
        assert len(server.requests) == asked
