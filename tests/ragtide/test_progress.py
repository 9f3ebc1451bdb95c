"""Progress of long commands, and the sentence after Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from tests.support.conditions import wait_until
from tests.support.in_process import run_command

from ragtide.cli.running.progress import BarView, cost_note, interruptible, progress_bar
from ragtide_offline.score.scored_file import ScoredFile
from ragtide_runtime.redis.keys import Streams


def text_of(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_bar_shows_number_time_left_and_note_on_a_terminal() -> None:
    console = Console(file=StringIO(), width=100, force_terminal=True)
    with progress_bar("scoring", 40, console) as show:
        show(10, "$0.50 of about $2.00")
    drawn = text_of(console)
    for words in ("scoring", "10/40", "$0.50 of about $2.00"):
        assert words in drawn


def test_nothing_is_drawn_where_the_output_is_no_terminal() -> None:
    console = Console(file=StringIO(), width=100, force_terminal=False)
    with progress_bar("scoring", 40, console) as show:
        show(10, "note")
    assert text_of(console).strip() == ""


def test_a_bar_inside_of_a_live_screen_says_how_far_it_is() -> None:
    console = Console(file=StringIO(), width=100, force_terminal=True)
    bar = BarView(console, "items compared")
    console.print(bar.drawn(10, 40))
    console.print(bar.drawn(20, 40, "$1.00"))
    assert "10/40" in text_of(console)
    assert re.search(r"20/40.*\$1.00", text_of(console))


@pytest.mark.parametrize(
    ("cost", "done", "total", "words"),
    [(0.0, 5, 10, ""), (1.0, 5, 10, "$1.00 of about $2.00"), (1.0, 10, 10, "$1.00"), (1.0, 5, None, "$1.00")],
)
def test_the_cost_of_all_items_is_estimated(cost: float, done: int, total: int | None, words: str) -> None:
    assert cost_note(cost, done, total) == words


def test_ctrl_c_gives_one_sentence_and_130(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as exit_, interruptible(lambda: "3 are kept: give the same command again."):
        raise KeyboardInterrupt
    assert exit_.value.exit_code == 130
    assert capsys.readouterr().err == "Stopped. 3 are kept: give the same command again.\n"


def rows(count: int) -> str:
    row = {"pipeline": "p", "question": "q", "response": "The tower is iron.", "documents": ["The tower is iron."]}
    return "".join(json.dumps({**row, "interaction_id": f"i{number}"}) + "\n" for number in range(count))


def interrupt_after_four_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ScoredFile.score

    async def score(self: ScoredFile) -> Any:
        async for one in real(self):
            yield one
            if self.counts["scored"] == 4:
                raise KeyboardInterrupt

    monkeypatch.setattr(ScoredFile, "score", score)


@pytest.mark.parametrize("output", [None, "out.jsonl"])
def test_score_says_what_was_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, output: str | None
) -> None:
    (tmp_path / "rows.jsonl").write_text(rows(6))
    interrupt_after_four_rows(monkeypatch)
    options = [] if output is None else ["--output", output]
    done = run_command(capsys, "score", str(tmp_path / "rows.jsonl"), *options)
    assert done.code == 130
    kept = "4 interactions were scored and are not kept" if output is None else "4 scored interactions are in out.jsonl"
    assert kept in done.stderr
    assert done.stdout.startswith("Partial summary of ")
    assert ": 4 scored, 0 problems; the other rows were not scored." in done.stdout
    assert re.search(r"\nadherence .* 4 ", done.stdout)


def test_the_partial_summary_of_score_says_so_to_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.jsonl").write_text(rows(6))
    option, file = "--summary-json", tmp_path / "summary.json"
    assert len(run_command(capsys, "score", "rows.jsonl", "--json", option, str(file)).stdout.splitlines()) == 6
    assert json.loads(file.read_text())["partial"] is False
    interrupt_after_four_rows(monkeypatch)
    done = run_command(capsys, "score", "rows.jsonl", "--json", "--fail-if", "trace.adherence < 0.1", option, str(file))
    assert done.code == 130
    assert ["interaction_id" in json.loads(line) for line in done.stdout.splitlines()] == [True] * 4
    last = json.loads(file.read_text())
    assert (last["scored"], last["partial"]) == (4, True)
    assert "gate" not in last
    assert "The gate is not decided." in done.stderr
    assert "Partial summary" in done.stderr


def interrupted(arguments: list[str], ready: Any, cwd: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command, send SIGINT as soon as it is ready, and return its exit code and standard error."""
    with subprocess.Popen(
        [sys.executable, "-m", "ragtide", *arguments], cwd=cwd, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            wait_until(lambda: ready() or process.poll() is not None, 120)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=120)
        finally:
            process.kill()
    return process.returncode, said


@pytest.mark.processes
def test_a_stopped_publish_goes_on(tmp_path: Path, redis: Any, redis_url: str) -> None:
    environment = {**os.environ, "RAGTIDE_REDIS_URL": redis_url}
    (tmp_path / "rows.jsonl").write_text(rows(3000))
    stream = Streams("ragtide", 0).interactions
    code, said = interrupted(
        ["publish", "rows.jsonl", "--rate", "50"], lambda: redis.xlen(stream) > 0, tmp_path, environment
    )
    assert (code, said.count("\n")) == (130, 1), said
    assert re.match(r"Stopped\. [\d,]+ published interactions stay: to go on, give the same command again\.", said)
    again = subprocess.run(
        [sys.executable, "-m", "ragtide", "publish", "rows.jsonl"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert "published before" in again.stderr
    assert redis.xlen(stream) == 3000


@pytest.mark.processes
def test_a_stopped_score_with_an_output_goes_on(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(rows(20_000))
    output = tmp_path / "out.jsonl"
    arguments = ["score", "rows.jsonl", "--output", "out.jsonl"]
    code, said = interrupted(
        arguments, lambda: output.exists() and output.stat().st_size > 0, tmp_path, dict(os.environ)
    )
    assert (code, said.count("\n")) == (130, 1), said
    found = re.match(r"Stopped\. ([\d,]+) scored interactions are in out.jsonl: to go on", said)
    assert found is not None
    assert len(output.read_text().splitlines()) == int(found[1].replace(",", ""))
