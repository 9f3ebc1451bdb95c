"""The check of docs/understand/false-alarms.md on own traffic finds the promise kept, and broken without sessions."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.doc_pages import page_text, tagged_block
from tests.support.metric_events import START, event
from tests.support.recorded import record

from ragtide import DriftDetector
from ragtide_runtime.recordings import EntryKind, RecordedEntry

pytestmark = pytest.mark.simulation

ANSWERS = 5
"""Answers of a session."""

PAGE = page_text("false-alarms")
BLOCK = tagged_block(PAGE, "own-traffic")
MEASURED = Path(__file__).parents[2] / "benchmarks" / "measured"
FIGURE = re.compile(r"[\d,.]+ ?± ?[\d,.]+|\d{1,3}(?:,\d{3})+|\b\d{3,}\b")


def session_scores(rng: np.random.Generator, sessions: int) -> Any:
    """Return yes-or-no scores, session by session, with the mean 0.85 and an intraclass correlation of 0.2."""
    means = np.repeat(rng.beta(0.85 * 4, 0.15 * 4, sessions), ANSWERS)
    return (rng.random(means.size) < means).astype(float)


def entries(scores: Any) -> Iterator[tuple[EntryKind, RecordedEntry]]:
    first = int(START.timestamp() * 1000)
    for number, score in enumerate(scores):
        model = event(number, {"trace.adherence": float(score)}, session_id=f"s-{number // ANSWERS}")
        yield EntryKind.METRICS, RecordedEntry(0, f"{first + number}-0", model)


def test_sessions_drawn_again_raise_no_more_false_alarms_than_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record(entries(session_scores(np.random.default_rng(20261127), 2_000)), tmp_path / "recording", steps=1)
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCK, "false-alarms.md", "exec"), {})
    found = re.fullmatch(r"([\d,]+) ± ([\d,]+) answers until a false alarm; .* ([\d,]+)\n", capsys.readouterr().out)
    assert found
    answers, error, promised = (float(group.replace(",", "")) for group in found.groups())
    assert promised - 2 * error < answers < 2 * promised


def test_the_same_sessions_answer_by_answer_break_the_promise() -> None:
    rng = np.random.default_rng(20261127)
    lengths = []
    for _ in range(100):
        scores = session_scores(rng, 1_000)
        alarm = DriftDetector(baseline=0.85, run_length=1_000).update(scores)
        lengths.append(scores.size if alarm is None else alarm + 1)
    assert 200 < np.mean(lengths) < 500


def test_each_figure_of_the_tables_stands_in_a_measured_report() -> None:
    measured = " ".join(path.read_text(encoding="utf-8") for path in MEASURED.glob("*.md")).replace(" ± ", "±")
    rows = [line.replace(" ± ", "±") for line in PAGE.splitlines() if line.startswith("|")]
    figures = {figure for row in rows for figure in FIGURE.findall(row)}
    assert len(figures) > 15
    assert {
        figure for figure in figures if not re.search(rf"(?<![\d,.]){re.escape(figure)}(?![\d,]*\d)", measured)
    } == set()
