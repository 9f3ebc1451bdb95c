"""`ragtide dataset status` beside kept items, a recording and a file; `remove` makes the next version."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.ragtide.test_items import keep
from tests.support.in_process import Done, run_command
from tests.support.recorded import record

from ragtide.testing import interaction
from ragtide_runtime.recordings import EntryKind, RecordedEntry
from ragtide_schemas import MetricEvent, RagInteraction, to_milliseconds

NOW = datetime(2026, 11, 30, tzinfo=UTC)

LANGUAGES = {"en": "Where is my parcel now", "de": "Wo ist mein Paket jetzt"}


@pytest.fixture(autouse=True)
def _here(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)


def answer(number: int, *, days_ago: float, lang: str = "en", document: str = "d-1") -> RagInteraction:
    return RagInteraction(
        interaction_id=f"i-{number}",
        pipeline="shop",
        occurred_at=NOW - timedelta(days=days_ago, seconds=number),
        question=f"{LANGUAGES[lang]} number{number}?",
        documents=({"id": document, "text": f"Text of {document}."},),
        response="There.",
        segments={"lang": lang},
    )


def traffic() -> list[RagInteraction]:
    """Half of the traffic is German now, and the document `old` was given for the last time 40 days ago."""
    before = [answer(n, days_ago=60 - n / 10, document="old" if n % 4 == 0 else "d-1") for n in range(200)]
    return before + [answer(n, days_ago=n % 30, lang="de" if n // 30 % 2 else "en") for n in range(200, 800)]


def written(path: Path, rows: Iterable[RagInteraction], **more: Any) -> Path:
    lines = [{**json.loads(row.encode()), **more} for row in rows]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def golden(folder: Path, **more: Any) -> Path:
    """Return a set of old English answers, of which every fourth rests on the old document."""
    return written(folder / "golden.jsonl", traffic()[:120], **more)


def status(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> dict[str, Any]:
    done = run_command(capsys, "dataset", "status", str(path), *options, "--json")
    assert done.code == 0, done.stderr
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def recorded(folder: Path, interactions: Iterable[RagInteraction]) -> Path:
    entries = []
    for place, each in enumerate(interactions):
        entry_id = f"{to_milliseconds(each.occurred_at)}-{place}"
        event = MetricEvent(
            interaction_id=each.interaction_id,
            pipeline=each.pipeline,
            occurred_at=each.occurred_at,
            labeled_at=each.occurred_at,
            labeler="local",
            labeler_version="1",
            profile="ragbench",
            scores={"trace.adherence": float(place % 2)},
        )
        entries.append((EntryKind.INTERACTIONS, RecordedEntry(0, entry_id, each)))
        entries.append((EntryKind.METRICS, RecordedEntry(0, entry_id, event)))
    record(entries, folder)
    return folder


@pytest.mark.parametrize("kind", ["file", "recording"])
def test_gaps_and_expired_rows_are_found_in_a_source(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = golden(tmp_path)
    source = written(tmp_path / "t.jsonl", traffic()) if kind == "file" else recorded(tmp_path / "rec", traffic())
    found = status(capsys, path, "--against", str(source))
    differs = {gap["name"]: gap for gap in found["differences"] if gap["differs"]}
    assert {"lang=de", "lang=en", "paket", "parcel"} <= differs.keys()
    assert (differs["lang=de"]["set"], differs["lang=de"]["traffic"]) == (0, pytest.approx(0.5, abs=0.1))
    assert differs["lang=de"]["upper"] < 0
    in_week = {f"i-{n}" for n in range(200, 800)}
    assert {row["interaction_id"] for row in found["add"]} <= in_week
    assert "--by segment:lang" in found["add_command"]
    assert found["remove"] == [f"i-{n}" for n in range(0, 120, 4)]
    assert {row["state"] for row in found["expiry"]} == {"expired", "in_traffic"}
    shown = run_command(capsys, "dataset", "status", str(path), "--against", str(source)).stdout
    words = ("  ragtide dataset draw", "  ragtide dataset status", "  ragtide dataset remove")
    commands = [line for line in shown.splitlines() if line.startswith(words)]
    assert len(commands) == 2
    assert max(len(line) for line in shown.splitlines() if line not in commands) <= 80
    assert "number" not in shown, "no question is shown"


def test_the_command_that_adds_rows_adds_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, source = golden(tmp_path), written(tmp_path / "t.jsonl", traffic())
    before = status(capsys, path, "--against", str(source))
    words = before["add_command"].split()[1:]
    assert run_command(capsys, *words, "--keep-duplicates").code == 0
    after = status(capsys, path, "--against", str(source))
    assert after["rows"] > before["rows"]
    assert after["versions"][-1]["n_rows"] == after["rows"]
    assert {*after["versions"][0]["added"]} == {f"i-{n}" for n in range(120)}, "what was there is a version, too"
    assert "lang=de" not in {gap["name"] for gap in after["differences"] if gap["differs"]}
    assert after["weighted"]


def test_kept_items_are_the_traffic_unless_another_is_given(
    redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(redis_url, *(interaction(number, segments={"lang": "de"}) for number in range(40)))
    rows = [interaction(number + 100, segments={"lang": "en"}) for number in range(40)]
    found = status(capsys, written(tmp_path / "golden.jsonl", rows))
    assert found["traffic"]["answers"] == 40
    assert {gap["name"] for gap in found["differences"] if gap["differs"]} == {"lang=de", "lang=en"}
    assert {row["state"] for row in found["expiry"]} <= {"in_traffic", "not_known"}, "kept items do not reach back"


def test_without_traffic_the_versions_are_shown_and_the_exit_code_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_command(capsys, "dataset", "status", str(golden(tmp_path)), "--pipeline", "none")
    assert (done.code, "120 rows" in done.stdout, "--against" in done.stderr) == (1, True, True)


def removal(capsys: pytest.CaptureFixture[str], path: Path, *ids: str) -> Done:
    return run_command(capsys, "dataset", "remove", str(path), *ids)


def test_a_removal_is_a_version_and_leaves_the_other_rows_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = golden(tmp_path, own={"kept": [1, 2.5, None]})
    lines = path.read_text().splitlines()
    assert removal(capsys, path, "i-0", "i-4").code == 0
    left = path.read_text().splitlines()
    assert [json.loads(line) for line in left] == [json.loads(line) for line in lines[1:4] + lines[5:]]
    first, second = json.loads(path.with_suffix(".versions.json").read_text())["versions"]
    assert (first["n_rows"], second["n_rows"], second["removed"]) == (120, 118, ["i-0", "i-4"])
    assert (second["parent"], "i-0 i-4" in second["command"]) == (first["digest"], True)
    refused = removal(capsys, path, "i-0")
    assert (refused.code, "i-0" in refused.told, len(path.read_text().splitlines())) == (1, True, 118)


def test_an_edit_by_hand_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, source = golden(tmp_path), written(tmp_path / "t.jsonl", traffic())
    assert removal(capsys, path, "i-0").code == 0
    assert status(capsys, path, "--against", str(source))["edited"] is None
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0].replace("There", "Here"), *lines[2:]]) + "\n")
    edited = status(capsys, path, "--against", str(source))["edited"]
    assert edited == {"added": [], "removed": ["i-2"], "changed": ["i-1"]}
    assert "i-2" in run_command(capsys, "dataset", "status", str(path), "--against", str(source)).stdout


def test_a_secret_of_a_url_is_not_in_the_command_of_a_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = "s3://user:s3cret@bucket/1"
    rows = [answer(1, days_ago=1), answer(2, days_ago=1).model_copy(update={"interaction_id": address})]
    path = written(tmp_path / "golden.jsonl", rows)
    assert removal(capsys, path, address).code == 0
    *_, last = json.loads(path.with_suffix(".versions.json").read_text())["versions"]
    assert "s3cret" not in last["command"]
    assert "bucket/1" in last["command"]
