"""Scoring in parts: any number of shards and processes, killed at any stage, gives the bits of one process."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.support.cases import for_each
from tests.support.conditions import wait_until
from tests.support.dying_labeler import FATAL, VERSION
from tests.support.in_process import Done, run_command
from tests.support.shadows import write_shadows

from ragtide import MetricEvent, score_batches
from ragtide.testing import ScriptedJudge
from ragtide_offline.parts.part_files import (
    ScoringPlan,
    UnusablePartsError,
    merge_parts,
    missing_parts,
    part_path,
    read_part,
    write_parts,
)
from ragtide_offline.parts.processes import write_parts_together
from ragtide_offline.parts.repeated_ids import IdSample
from ragtide_offline.score.scoring import ScoringStopped
from ragtide_offline.score.summary import OF_ORDER, Summary, summarize
from ragtide_producers import FileOptions, UnreadableFileError
from ragtide_producers.files.large import LargeInput, large_input
from ragtide_runtime.settings.model import settings_of_application

ROWS = 53
LABELER = "tests.support.dying_labeler:DyingLabeler"


@cache
def table() -> Any:
    rows = [
        {
            "question": f"When was tower {'x' * (number % 23)} {number} built?" if number != 7 else "",
            "contexts": [f"It was built in {1800 + number}."],
            "answer": f"In {1800 + number % 5}.",
            "gold_scores": {"trace.adherence": float(number % 3 == 0)},
            "sampling_probability": 1.0 if number % 2 else 0.5,
        }
        for number in range(ROWS)
    ]
    return pa.Table.from_pylist(rows)


def plan(shards: int, labeler: str = "local") -> ScoringPlan:
    Path("in").mkdir(exist_ok=True)
    if not Path("in/a.parquet").exists():
        parquet.write_table(table().slice(0, 20), "in/a.parquet", row_group_size=6)
        parquet.write_table(table().slice(20), "in/b.parquet", row_group_size=9)
    settings = settings_of_application(labeler=labeler)
    return ScoringPlan(large_input(["in"], FileOptions(pipeline="shop")), settings, shards)


def bits(summary: Summary) -> list[str]:
    return [json.dumps(each.model_dump(mode="json", exclude=set(OF_ORDER))) for each in summary.estimates]


def rows_of(folder: Path, shards: int) -> Any:
    parts = [parquet.read_table(part_path(folder, number, shards)) for number in range(1, shards + 1)]
    return pa.concat_tables(parts, promote_options="none").combine_chunks()


def test_any_number_of_shards_gives_the_bits_of_one_process() -> None:
    found, of_rows = {}, {}
    for shards in (1, 2, 9):
        folder = Path(f"parts-{shards}")
        write_parts(folder, plan(shards), range(1, shards + 1))
        for strategy in ("normal", "running"):
            found[shards, strategy] = merge_parts(folder, strategy=strategy, confidence=0.9)
        of_rows[shards] = rows_of(folder, shards)
    one = found[1, "normal"]
    assert one.counts == {"scored": ROWS - 1, "problems": 1}
    ((file, row, problem),) = one.problems
    assert (Path(file).name, row) == ("a.parquet", 8)
    assert "question" in problem
    assert {each.estimator for each in one.summary.estimates} == {"mean"}
    for (shards, strategy), merged in found.items():
        assert bits(merged.summary) == bits(found[1, strategy].summary), (shards, strategy)
        assert merged.counts == one.counts
        assert of_rows[shards].to_pylist() == of_rows[1].to_pylist()


def test_there_may_be_more_shards_than_rows() -> None:
    few = plan(1)
    assert isinstance(few.input, LargeInput)
    few = replace(few, shards=22, input=LargeInput(few.input.files[:1], few.input.options))
    write_parts(Path("parts"), few, range(1, 23))
    merged = merge_parts(Path("parts"), strategy="normal", confidence=0.9)
    assert merged.counts == {"scored": 19, "problems": 1}


def test_the_rows_of_the_parts_are_those_of_score_batches() -> None:
    write_parts(Path("parts"), plan(4), range(1, 5))
    found = rows_of(Path("parts"), 4)
    alone = score_batches(table(), labeler="local", pipeline="shop").read_all()
    different = ("row", "interaction_id")  # numbers, and ids made from them, are those of each file
    ours, theirs = (each.drop_columns(list(different)).to_pylist() for each in (found.drop_columns(["file"]), alone))
    assert ours == theirs
    assert found["row"].to_pylist() == [*range(1, 21), *range(1, ROWS - 19)]


def test_intervals_that_need_the_order_are_those_of_all_events_in_their_order() -> None:
    write_parts(Path("parts"), plan(5), range(1, 6))
    events = [
        MetricEvent.from_fields(
            {
                "interaction_id": row["interaction_id"],
                "pipeline": "shop",
                "occurred_at": "2026-01-01T00:00:00Z",
                "labeled_at": "2026-01-01T00:00:00Z",
                "sampling_probability": row["sampling_probability"],
                "latency_s": 0.0,
                **{name: row[name] for name in ("labeler", "labeler_version", "profile")},
                **{name: dict(row[name]) for name in ("scores", "absent", "gold_scores")},
            }
        )
        for row in rows_of(Path("parts"), 5).to_pylist()
        if row["problem"] is None
    ]
    for strategy in ("auto", "running"):
        whole = summarize(events, strategy=strategy, confidence=0.95)
        merged = merge_parts(Path("parts"), strategy=strategy, confidence=0.95).summary
        first, second = (
            [{**each.model_dump(), "updated_at": None} for each in found.estimates] for found in (whole, merged)
        )
        assert first == second


STAGES = {
    "before the first row": "fcntl.flock = die",
    "after the first rows": "parquet.ParquetWriter.write_batch = die",
    "before the part is on disk": "os.fsync = die",
    "before the part has its name": "pathlib.Path.replace = die",
    "after the part has its name": "old = pathlib.Path.replace; pathlib.Path.replace = lambda *a: (old(*a), die())",
    "in the second part": "old = os.fsync; os.fsync = lambda f, s=[]: s.append(f) or (die() if len(s) > 1 else old(f))",
}


@pytest.mark.processes
def test_a_shard_that_is_killed_at_any_stage_goes_on_to_the_same_bits(capsys: pytest.CaptureFixture[str]) -> None:
    whole = Path("whole")
    write_parts(whole, plan(3), (1, 2, 3))
    program = (
        "import fcntl, os, pathlib, signal, sys\n"
        "from pyarrow import parquet\n"
        "from ragtide.cli.app import cli\n"
        "from ragtide_offline.parts import part_files\n"
        "options = ['--pipeline', 'shop', '--labeler', 'local']\n"
        "die = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "for number, code in enumerate(sys.argv[1:]):\n"
        "    if os.fork() == 0:\n"
        "        exec(code)\n"
        "        for shard in ('1/3', '2/3', '3/3'):\n"
        "            output = ['--shard', shard, '--output', f'parts-{number}']\n"
        "            cli(['score', 'in', *options, *output], standalone_mode=False)\n"
        "        os._exit(0)\n"
        "    print(-os.WTERMSIG(os.wait()[1]), flush=True)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program, *STAGES.values()],
        env={**os.environ, "PYTHONPATH": str(root)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == [str(-signal.SIGKILL)] * len(STAGES)
    for number, stage in enumerate(STAGES):
        folder = Path(f"parts-{number}")
        missing = missing_parts(folder, plan(3), (1, 2, 3))
        assert len(missing) == (2 if number >= 4 else 3), stage
        for shard in (1, 2, 3):
            shown = ("--shard", f"{shard}/3", "--output", str(folder))
            again = run_command(capsys, "score", "in", "--pipeline", "shop", "--labeler", "local", *shown)
            assert again.code == 0, (stage, again.stderr)
            assert part_path(folder, shard, 3).read_bytes() == part_path(whole, shard, 3).read_bytes(), stage
        assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in whole.iterdir()), stage


@pytest.mark.processes
def test_a_process_that_dies_is_named_and_its_parts_are_scored_again() -> None:
    write_shadows(Path())  # the processes import what this one imports
    write_parts(Path("whole"), plan(6, LABELER), range(1, 7))
    shown: list[int] = []
    FATAL.write_text(str(table()["question"][30]))  # in the fourth part, of the second process
    with pytest.raises(ScoringStopped, match="SIGKILL"):
        write_parts_together(Path("parts"), plan(6, LABELER), range(1, 7), 2, lambda rows, _: shown.append(rows))
    FATAL.unlink()
    missing = missing_parts(Path("parts"), plan(6, LABELER), range(1, 7))
    assert missing == [4, 6]
    write_parts(Path("parts"), plan(6, LABELER), missing, lambda rows, _: shown.append(rows))
    assert sum(shown) == ROWS
    for shard in range(1, 7):
        first, second = (part_path(Path(folder), shard, 6).read_bytes() for folder in ("parts", "whole"))
        assert first == second


@pytest.mark.processes
def test_processes_end_with_their_parent() -> None:
    program = (
        "import pathlib\n"
        "from tests.offline.test_score_parts import plan, write_parts_together\n"
        "if __name__ == '__main__':\n"
        "    judged = plan(2, 'judge')\n"
        "    write_parts_together(pathlib.Path('parts'), judged, (1, 2), 2, print)\n"
    )
    Path("program.py").write_text(program)
    root = Path(__file__).parents[2]
    with ScriptedJudge(latency_s=60) as judge:
        env = {"PYTHONPATH": str(root), "RAGTIDE_JUDGE_MODEL": "m", "RAGTIDE_JUDGE_BASE_URL": judge.url}
        parent = psutil.Popen([sys.executable, "program.py"], env={**os.environ, **env})

        def is_scoring(process: psutil.Process) -> bool:
            try:
                return process.status() != psutil.STATUS_ZOMBIE and "spawn_main" in " ".join(process.cmdline())
            except psutil.Error:  # It ended between two questions about it.
                return False

        def children() -> list[psutil.Process]:
            return [child for child in parent.children(recursive=True) if is_scoring(child)]

        wait_until(lambda: judge.in_flight > 0 and len(children()) == 2)
        scoring = children()
        parent.kill()
        parent.wait()
        try:
            wait_until(lambda: not any(is_scoring(child) for child in scoring), timeout_s=30)
        finally:
            for child in scoring:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()


@pytest.mark.processes
def test_processes_share_one_spend_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_JUDGE_PRICES", '{"m": {"input": 100.0, "output": 400.0}}')
    monkeypatch.setenv("RAGTIDE_JUDGE_SPEND_PER_DAY_USD", "1.0")
    monkeypatch.setenv("RAGTIDE_DATA_DIR", str(Path("data").absolute()))
    spent: list[float] = []
    with ScriptedJudge() as judge:
        monkeypatch.setenv("RAGTIDE_JUDGE_MODEL", "m")
        monkeypatch.setenv("RAGTIDE_JUDGE_BASE_URL", judge.url)
        with pytest.raises(ScoringStopped, match="spend limit of the day is reached"):
            write_parts_together(Path("parts"), plan(26, "judge"), range(1, 27), 2, lambda _, usd: spent.append(usd))
    (account,) = Path("data").glob("*spend.json")
    day = min(json.loads(account.read_text()).items(), key=lambda item: len(item[0]))[1]
    assert 0 < sum(spent) <= day + 1e-9 <= 1.0


def test_a_part_that_another_process_writes_is_left_to_it() -> None:
    from ragtide_offline.parts.part_files import _whole_file

    write_parts(Path("parts"), plan(1), (1,))
    path = part_path(Path("parts"), 1, 1)
    before = path.read_bytes()
    path.rename("part")
    with _whole_file(path) as file:
        assert file is not None
        with pytest.raises(UnusablePartsError, match="being written by another process"):
            write_parts(Path("parts"), plan(1), (1,))
        file.write(before)
    write_parts(Path("parts"), plan(1), (1,))  # it is there, and is not written again
    assert path.read_bytes() == before
    assert [each.name for each in Path("parts").iterdir()] == [path.name]


def test_parts_of_other_runs_and_missing_parts_are_refused() -> None:
    folder = Path("parts")
    with pytest.raises(UnusablePartsError, match="has no parts"):
        merge_parts(folder, strategy="normal", confidence=0.9)
    write_parts(folder, plan(3), (1, 3))
    with pytest.raises(UnusablePartsError, match="no part of 2/3: score"):
        merge_parts(folder, strategy="normal", confidence=0.9)
    with pytest.raises(UnusablePartsError, match=r"of another run \(shards 3, now 4\)"):
        missing_parts(folder, plan(4), range(1, 5))
    with pytest.raises(UnusablePartsError, match="labeler 'local', now 'judge'"):
        missing_parts(folder, plan(3, "judge"), (1, 2, 3))
    write_parts(Path("others"), plan(3, LABELER), (2,))
    part_path(Path("others"), 2, 3).rename(part_path(folder, 2, 3))
    with pytest.raises(UnusablePartsError, match="another run than part-00001"):
        merge_parts(folder, strategy="normal", confidence=0.9)
    write_parts(folder, plan(2), (1,))
    with pytest.raises(UnusablePartsError, match="parts of 2 and 3 shards"):
        merge_parts(folder, strategy="normal", confidence=0.9)
    for content in (b"", b"PAR1", Path("in/a.parquet").read_bytes()):
        part_path(folder, 1, 2).write_bytes(content)
        with pytest.raises(UnusablePartsError, match=r"part-00001-of-00002\.parquet cannot be read"):
            read_part(part_path(folder, 1, 2))


def test_an_input_that_changed_since_the_parts_were_scored_is_refused() -> None:
    folder, rows = Path("parts"), [json.dumps({**table().slice(number, 1).to_pylist()[0]}) for number in (0, 1)]
    settings = settings_of_application(labeler="local")

    def of(*sources: str) -> ScoringPlan:
        return ScoringPlan(large_input(sources, FileOptions(pipeline="shop")), settings, 2)

    plan(1)
    Path("c.jsonl").write_text("\n".join(rows))
    write_parts(folder, of("in", "c.jsonl"), (1,))
    Path("elsewhere").mkdir()
    Path("in").rename("elsewhere/in")
    assert missing_parts(folder, of("elsewhere/in", "c.jsonl"), (1, 2)) == [2]
    before = parquet.read_table("elsewhere/in/b.parquet")
    for path, write in (
        ("c.jsonl", lambda: Path("c.jsonl").write_text("\n".join(reversed(rows)))),
        (
            "elsewhere/in/b.parquet",
            lambda: parquet.write_table(before.slice(0, 32).take([*range(31), 0, 1]), "elsewhere/in/b.parquet"),
        ),
    ):
        old = Path(path).read_bytes()
        write()
        with pytest.raises(UnusablePartsError, match=r"of another run \(input"):
            missing_parts(folder, of("elsewhere/in", "c.jsonl"), (1, 2))
        Path(path).write_bytes(old)


def test_a_part_has_its_own_name_and_its_labeler() -> None:
    folder = Path("parts")
    write_parts(folder, plan(3, LABELER), (1, 2))
    VERSION.write_text("2")
    with pytest.raises(UnusablePartsError, match=r"was scored by dying 1 .*, and the labeler is dying 2"):
        write_parts(folder, plan(3, LABELER), (3,))
    write_parts(Path("others"), plan(3, LABELER), (3,))
    part_path(Path("others"), 3, 3).rename(part_path(folder, 3, 3))
    with pytest.raises(UnusablePartsError, match="another run than part-00001"):
        merge_parts(folder, strategy="normal", confidence=0.9)
    part_path(folder, 3, 3).write_bytes(part_path(folder, 2, 3).read_bytes())
    with pytest.raises(UnusablePartsError, match=r"is the part part-00002-of-00003\.parquet"):
        merge_parts(folder, strategy="normal", confidence=0.9)


def test_a_file_that_is_given_twice_is_refused_and_folders_name_their_pipelines() -> None:
    plan(1)
    for twice in (
        ["in", "in/a.parquet"],
        ["in/a.parquet", "./in/../in/a.parquet"],
        [f"file://{Path('in').absolute()}"] * 2,
    ):
        with pytest.raises(UnreadableFileError, match="is given twice"):
            large_input(twice, FileOptions())
    for name in ("shop.v1", "shop.v2"):
        Path(name).mkdir()
        parquet.write_table(table(), f"{name}/a.parquet")
    found = large_input(["shop.v1", "shop.v2/", "in/a.parquet"], FileOptions())
    assert [file.pipeline for file in found.files] == ["shop.v1", "shop.v2", "a"]
    (url,) = large_input([f"file://{Path('shop.v1').absolute()}/*.parquet"], FileOptions()).files
    assert url.pipeline == "shop.v1"


def test_rows_that_repeat_an_id_are_counted_over_all_parts() -> None:
    rows = [{**each, "interaction_id": f"i-{number % 40}"} for number, each in enumerate(table().to_pylist())]
    Path("repeated").mkdir()
    parquet.write_table(pa.Table.from_pylist(rows), "repeated/a.parquet")
    settings = settings_of_application(labeler="local")
    of = ScoringPlan(large_input(["repeated"], FileOptions()), settings, 5)
    write_parts(Path("parts"), of, of.numbers)
    assert merge_parts(Path("parts"), strategy="normal", confidence=0.9).repeats == 13 - 1  # the row 8 has a problem


def test_the_sample_of_ids_does_not_depend_on_how_rows_are_split() -> None:
    names = [f"i-{number * 7919 % 9000}" for number in range(12_000)]
    samples = []
    for size in (12_000, 700):
        merged = IdSample()
        for start in range(0, len(names), size):
            part = IdSample()
            for name in names[start : start + size]:
                part.add("shop", name)
            merged.merge(part.kept())
        samples.append(merged)
    assert samples[0].kept() == samples[1].kept()
    assert len(samples[0].kept()) == 512
    assert samples[0].repeats(12_000) == pytest.approx(3000, rel=0.2)


def test_a_damaged_parquet_file_is_one_sentence() -> None:
    plan(1)
    content = bytearray(Path("in/b.parquet").read_bytes())
    content[4:200] = b"\xff" * 196
    Path("in/b.parquet").write_bytes(content)
    with pytest.raises(UnreadableFileError, match=r"in/b\.parquet: it cannot be read .*: check whether"):
        write_parts(Path("parts"), plan(1), (1,))


def test_a_part_states_its_problems_and_what_cannot_be_counted() -> None:
    Path("bad.jsonl").write_text("\n".join([json.dumps({"question": "q"})] * 30))
    settings = settings_of_application(labeler="local")
    bad = ScoringPlan(large_input(["bad.jsonl"], FileOptions()), settings, 1)
    write_parts(Path("parts"), bad, (1,))
    part = read_part(part_path(Path("parts"), 1, 1)).totals
    assert part.counts == {"problems": 30}
    assert len(part.problems) == 20
    assert merge_parts(Path("parts"), strategy="normal", confidence=0.9).summary.estimates == []
    with pytest.raises(UnreadableFileError):
        large_input(["nothing.jsonl"], FileOptions())


@pytest.mark.processes
def test_the_commands_print_one_summary(capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str, code: int = 0) -> Done:
        done = run_command(capsys, *arguments)
        assert done.code == code, done.stderr
        return done

    plan(1)
    options = ("--pipeline", "shop", "--labeler", "local")
    whole = run("score", "in", *options, "--summary-json", "whole.json", code=1)
    assert "52 scored, 1 problems" in whole.stderr
    assert "in/a.parquet:8: question" in whole.stderr
    run("score", "in/a.parquet", "in/b.parquet", *options, "--processes", "2", "--output", "parts", code=1)
    assert [path.name for path in sorted(Path("parts").iterdir())] == ["part-00001-of-00001.parquet"]
    for number in (1, 2, 3):
        done = run("score", "in", *options, "--shard", f"{number}/3", "--output", "shards")
        assert done.stdout == ""
        assert f"part {number} of 3" in done.stderr
    merged = run("merge", "shards", "--summary-json", "merged.json", code=1)
    assert (merged.stdout, Path("merged.json").read_text()) == (whole.stdout, Path("whole.json").read_text())
    failed = run("merge", "shards", "--fail-if", "trace.adherence.n < 100", code=4)
    assert "trace.adherence" in failed.stdout
    again = run("score", "in", *options, "--shard", "1/3", "--output", "shards")
    assert "1 of 1 parts are scored already" in again.stderr


@for_each(
    "arguments, words",
    [
        (["--json"], "leave it out"),
        (["--limit", "5"], "leave it out"),
        (["--shard", "4/3", "--output", "x"], "write 3/64"),
        (["--shard", "1/3"], "--output"),
        (["--shard", "1/3", "--output", "x", "--processes", "2"], "one process"),
        (["--output", "in/a.parquet"], "is a file"),
        (["--fail-if", "trace.adherence.difference < 0"], "baseline"),
    ],
)
def test_options_that_parts_do_not_have_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan(1)
    done = run_command(capsys, "score", "in", *arguments)
    assert done.code != 0
    assert words in done.told
