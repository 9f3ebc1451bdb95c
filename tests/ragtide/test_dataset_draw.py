"""`ragtide dataset draw` draws rows that stand for the traffic, from files, a recording and kept items."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.ragtide.test_items import keep
from tests.support.in_process import Done, run_command
from tests.support.recorded import record

from ragtide import Feedback, LocalLabeler, RagInteraction
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_consumers.labelers.protocol import LabelerId, Labeling, ReferenceLabeling
from ragtide_offline.datasets import sources
from ragtide_offline.datasets.near_duplicates import INSTALL
from ragtide_offline.demo import demo_interactions
from ragtide_producers.files.items import read_items
from ragtide_runtime.recordings import EntryKind, RecordedEntry

NOW = datetime(2026, 11, 1, tzinfo=UTC)
ADHERENCE = "trace.adherence"
PRIMES = (7_919, 104_729, 1_299_709, 15_485_863, 179_424_673, 2_038_074_743, 22_801_763_489, 252_097_800_623)
"""Of which each question has its multiples, so that no two are near duplicates."""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def questions(count: int, **fields: Any) -> list[dict[str, Any]]:
    """Return answers to different questions, every fifth in German, of seven users."""
    demo = [row.model_dump(mode="json", exclude_none=True) for row in demo_interactions()]
    names = ("pipeline", "documents", "response")
    return [
        {
            **{name: demo[number % len(demo)][name] for name in names},
            "interaction_id": f"i-{number:04}",
            "occurred_at": (NOW + timedelta(minutes=number)).isoformat(),
            "question": f"{' '.join(str(number * prime) for prime in PRIMES)}: {demo[number % len(demo)]['question']}",
            "segments": {"lang": "de" if number % 5 == 0 else "en"},
            "user_id": f"u{number % 7}",
            "session_id": f"s{number % 50}",
            **fields,
        }
        for number in range(count)
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def summary(done: Done) -> dict[str, Any]:
    assert done.code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def about(row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = row["metadata"]["ragtide"]["drawn"]
    return found


def stands_for(rows: list[dict[str, Any]]) -> float:
    return sum(1 / float(row["sampling_probability"]) for row in rows)


def test_two_hundred_rows_of_five_hundred_answers_in_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "answers.jsonl", questions(500))
    done = run_command(capsys, "dataset", "draw", "answers.jsonl", "--output", "golden.jsonl")
    assert done.code == 0, done.stderr
    rows = read(tmp_path / "golden.jsonl")
    assert len(rows) == 200
    assert stands_for(rows) == pytest.approx(500)
    assert len(read_items(tmp_path / "golden.jsonl")) == 200, "an experiment asks the questions"
    assert (tmp_path / "golden.versions.json").exists()
    for row in rows:
        drawn = about(row)
        assert row["sampling_probability"] == drawn["probability"] == pytest.approx(drawn["rows"] / drawn["of"])
        assert set(drawn.get("means", ())) >= set(drawn.get("scores", ()))
        assert drawn.get("labeler", "local") == "local"
        assert "user_id" not in row
    counts = Counter(about(row)["stratum"] for row in rows)
    assert {name: about(row)["rows"] for row in rows for name in [about(row)["stratum"]]} == counts
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "200 rows of 500 answers" in " ".join(done.stdout.split())


def test_a_draw_is_repeated_by_its_seed_and_does_not_depend_on_the_order_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "answers.jsonl", questions(60))
    write(tmp_path / "turned.jsonl", questions(60)[::-1])

    def ids(source: str, seed: int) -> set[str]:
        options = ("--rows", "20", "--seed", str(seed), "--output", "set.jsonl", "--force", "--json")
        summary(run_command(capsys, "dataset", "draw", source, *options))
        return {row["interaction_id"] for row in read(tmp_path / "set.jsonl")}

    assert ids("answers.jsonl", 3) == ids("answers.jsonl", 3) == ids("turned.jsonl", 3) != ids("answers.jsonl", 4)


def test_near_duplicates_and_much_of_one_user_are_left_out_and_stood_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = questions(100)
    for row in rows[:30]:
        row["question"] = "How do I return an item that I bought in the shop in Berlin, please?"
    for row in rows[30:60]:
        row["user_id"] = "talker"
    write(tmp_path / "answers.jsonl", rows)
    options = ("--rows", "25", "--most-per", "user=4", "--by", "segment:lang", "--output", "set.jsonl", "--json")
    found = summary(run_command(capsys, "dataset", "draw", "answers.jsonl", *options))
    drawn = read(tmp_path / "set.jsonl")
    assert found["left_out"]["near_duplicates"] == 29
    assert found["left_out"]["most_per_user"] >= 26
    assert stands_for(drawn) == pytest.approx(100)
    of = {row["interaction_id"]: row for row in rows}
    users = Counter(of[row["interaction_id"]]["user_id"] for row in drawn)
    assert max(users.values()) <= 4
    assert sum("Berlin" in row["question"] for row in drawn) <= 1
    assert "Berlin" not in json.dumps(found)
    assert "talker" not in json.dumps(found)
    few = run_command(
        capsys, "dataset", "draw", "answers.jsonl", "--rows", "72", "--by", "segment:lang", "--output", "few.jsonl"
    )
    assert (few.code, "71 are left" in few.stderr, "--keep-duplicates" in few.stderr) == (1, True, True)
    more = run_command(
        capsys, "dataset", "draw", "answers.jsonl", "--rows", "72", "--keep-duplicates", "--output", "all.jsonl"
    )
    assert more.code == 0, more.stderr


def scored(rows: list[dict[str, Any]]) -> list[tuple[RagInteraction, Labeling]]:
    """Return interactions with the scores of the local labeler, and of a judge that contradicts every fourth."""
    scores = []
    for number, row in enumerate(rows):
        interaction = RagInteraction.model_validate(row)
        labeling = LocalLabeler().label_now(interaction)
        own = labeling.scores.get(ADHERENCE, 0.0)
        other = own if number % 4 else (1.0 if own < 0.5 else 0.0)
        judged = ReferenceLabeling(Labeling({ADHERENCE: other}), LabelerId("judge", "m", "ragbench"), 1.0, 1.0)
        scores.append((interaction, Labeling({**labeling.scores, ADHERENCE: own}, labeling.absent, judged=judged)))
    return scores


def recorded(folder: Path, rows: list[dict[str, Any]]) -> None:
    entries = []
    for number, (interaction, labeling) in enumerate(scored(rows)):
        identity = f"{1_793_500_000_000 + number}-0"
        event = metric_event(interaction, labeler_id(LocalLabeler()), labeling, labeled_at=NOW, latency_s=0.1)
        entries += [
            (EntryKind.INTERACTIONS, RecordedEntry(0, identity, interaction)),
            (EntryKind.METRICS, RecordedEntry(0, identity, event)),
        ]
        if number % 3 == 0:
            given = Feedback(
                pipeline=interaction.pipeline,
                interaction_id=interaction.interaction_id,
                gold_scores={"feedback.positive": float(number % 2)},
                given_at=NOW,
            )
            entries.append((EntryKind.FEEDBACK, RecordedEntry(0, identity, given)))
    record(entries, folder)


def test_a_recording_has_strata_of_segment_score_disagreement_and_feedback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = questions(240, sampling_probability=0.5)
    recorded(tmp_path / "recording", rows)
    by = ("segment:lang", "score:adherence", "disagreement", "feedback")
    options = [word for name in by for word in ("--by", name)]
    done = run_command(
        capsys, "dataset", "draw", "recording", "--rows", "200", *options, "--output", "golden.jsonl", "--json"
    )
    found = summary(done)
    drawn = read(tmp_path / "golden.jsonl")
    assert stands_for(drawn) == pytest.approx(240 / 0.5), "the sampling of the producer counts"
    assert all(row["sampling_probability"] == pytest.approx(0.5 * about(row)["probability"]) for row in drawn)
    names = " ".join(stratum["stratum"] for stratum in found["strata"])
    for word in ("lang=de", "lang=en", "adherence<", "disputed", "agreed", "positive", "negative", "none"):
        assert word in names
    for row in drawn:
        number = int(row["interaction_id"].removeprefix("i-"))
        if "+" not in about(row)["stratum"]:
            assert ("disputed" in about(row)["stratum"]) == (number % 4 == 0)
    assert {labeling["labeler"] for labeling in drawn[0]["metadata"]["ragtide"]["labelings"]} == {"local", "judge"}
    part = run_command(
        capsys, "dataset", "draw", "recording", "--rows", "20", "--since", (NOW + timedelta(minutes=200)).isoformat(),
        "--output", "part.jsonl", "--json",
    )  # fmt: skip
    assert summary(part)["answers"] == 40


@pytest.mark.redis
def test_kept_answers_give_the_rows_that_are_asked_for(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    rows = questions(60)
    for row in rows:
        row["question"] = f"{row['question']} Write to ann@example.org"
        row["sampling_probability"] = 0.5
    keep(redis_url, *(RagInteraction.model_validate(row) for row in rows), sample=1.0)
    done = run_command(
        capsys,
        "dataset",
        "draw",
        "--kept",
        "--rows",
        "50",
        "--by",
        "disagreement",
        "--output",
        "golden.jsonl",
        "--json",
    )
    found = summary(done)
    drawn = read(tmp_path / "golden.jsonl")
    assert (found["rows"], len(drawn), found["source"]) == (50, 50, "kept")
    assert stands_for(drawn) == pytest.approx(60 / 0.5)
    assert "ann@example.org" not in (tmp_path / "golden.jsonl").read_text()
    assert {tuple(row["metadata"]["ragtide"]["redacted_by"]) for row in drawn} == {("email", "card", "phone")}
    few = run_command(capsys, "dataset", "draw", "--kept", "--rows", "61", "--output", "few.jsonl")
    assert (few.code, "at most 60" in few.told, "specimens.sample" in few.told) == (1, True, True)
    assert not (tmp_path / "few.jsonl").exists()


def test_rows_are_added_to_a_set_and_stand_for_answers_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = questions(100)
    write(tmp_path / "monday.jsonl", rows[:60])
    write(tmp_path / "tuesday.jsonl", rows[60:])
    summary(run_command(capsys, "dataset", "draw", "monday.jsonl", "--rows", "20", "-o", "golden.jsonl", "--json"))
    first = read(tmp_path / "golden.jsonl")
    hand = {**rows[99], "metadata": {"note": "put in by hand"}}
    write(tmp_path / "golden.jsonl", [*first, hand])
    added = summary(
        run_command(capsys, "dataset", "draw", "tuesday.jsonl", "--rows", "39", "--add-to", "golden.jsonl", "--json")
    )
    both = read(tmp_path / "golden.jsonl")
    assert added["rows_of_set"] == len(both) == len({row["interaction_id"] for row in both})
    drawn = [row for row in both if "ragtide" in row["metadata"]]
    assert [row["interaction_id"] for row in drawn[:20]] == [row["interaction_id"] for row in first]
    assert stands_for(drawn) == pytest.approx(100)
    again = run_command(capsys, "dataset", "draw", "tuesday.jsonl", "--rows", "5", "--add-to", "golden.jsonl")
    assert (again.code, "drawn from these answers before" in again.told) == (1, True)
    assert read(tmp_path / "golden.jsonl") == both


def test_scores_of_a_file_are_used_and_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "answers.jsonl", questions(60))
    events = [
        metric_event(interaction, labeler_id(LocalLabeler()), labeling, labeled_at=NOW, latency_s=0.1)
        for interaction, labeling in scored(questions(60))
    ]
    (tmp_path / "scores.jsonl").write_bytes(b"".join(event.encode() + b"\n" for event in events))

    def refused(*_: object) -> None:
        raise AssertionError("a known score was computed again")

    monkeypatch.setattr(LocalLabeler, "label", refused)
    options = ("--rows", "30", "--by", "disagreement", "--output", "golden.jsonl", "--json")
    found = summary(run_command(capsys, "dataset", "draw", "answers.jsonl", "scores.jsonl", *options))
    assert {stratum["stratum"] for stratum in found["strata"]} == {"agreed", "disputed"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rows", "41"], ["--rows is 41", "40 answers", "at most 40"]),
        (["--by", "segment:lnag", "--rows", "9"], ["lnag", "did you mean 'lang'"]),
        (["--by", "score:adherance", "--rows", "9"], ["adherance", "trace.adherence"]),
        (["--by", "colour", "--rows", "9"], ["colour", "segment:NAME"]),
        (["--by", "disagreement", "--rows", "9"], ["another labeler"]),
        (["--by", "feedback", "--rows", "9"], ["feedback"]),
        (["--labeler", "juge", "--rows", "9"], ["juge"]),
        (["--most-per", "users=3", "--rows", "9"], ["user=K"]),
        (["--kept"], ["--kept"]),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(
    options: list[str], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "answers.jsonl", questions(40))
    done = run_command(capsys, "dataset", "draw", "answers.jsonl", "--output", "golden.jsonl", *options)
    assert done.code != 0
    assert [word for word in words if word not in done.told] == []
    assert not (tmp_path / "golden.jsonl").exists()


@pytest.mark.parametrize("what", ["answers.jsonl", "recording"])
def test_too_many_answers_are_refused_before_they_fill_the_memory(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "answers.jsonl", questions(40))
    recorded(tmp_path / "recording", questions(40))
    monkeypatch.setattr(sources, "MOST_ANSWERS", 30)
    done = run_command(capsys, "dataset", "draw", what, "--rows", "9", "--output", "golden.jsonl")
    assert (done.code, "more than 30 answers" in done.told, "--since" in done.told) == (1, True, True)


def test_without_the_library_the_command_to_install_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    write(tmp_path / "answers.jsonl", questions(40))
    monkeypatch.setitem(sys.modules, "datasketch", None)
    done = run_command(capsys, "dataset", "draw", "answers.jsonl", "--rows", "9", "--output", "golden.jsonl")
    assert (done.code, done.told) == (1, INSTALL)
    assert "pip install" in INSTALL
    options = ("--rows", "9", "--keep-duplicates", "--output", "golden.jsonl")
    assert run_command(capsys, "dataset", "draw", "answers.jsonl", *options).code == 0
