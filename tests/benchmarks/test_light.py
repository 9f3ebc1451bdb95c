"""The table of what a user waits for: medians over rounds, ratios within a round, and aims that are met or not."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def table() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        return importlib.import_module("waiting.table")


@pytest.fixture(scope="module")
def before_after() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        return importlib.import_module("before_after")


def test_a_ratio_is_that_of_one_round(table: Any) -> None:
    row = table.Row("publish", "ours", "x", 1.5, "raw")
    rounds = [{"ours": 2.0, "raw": 1.0}, {"ours": 30.0, "raw": 20.0}, {"ours": 9.0, "raw": 10.0}]
    assert row.value(rounds) == 1.5
    assert row.is_met(row.value(rounds))
    assert not row.is_met(1.51)


def test_a_round_without_one_of_the_figures_does_not_count(table: Any) -> None:
    row = table.Row("publish", "ours", "x", None, "raw")
    assert row.value([{"ours": 2.0}, {"raw": 1.0}, {"ours": 3.0, "raw": 0.0}]) is None
    assert row.value([{"ours": 2.0}, {"ours": 3.0, "raw": 1.0}]) == 3.0


def test_what_was_not_measured_meets_no_aim_and_misses_none(table: Any) -> None:
    row = table.Row("first screen", "screen", "s", 1.0)
    assert row.is_met(row.value([])) is None
    (_, _, line) = table.table([row], [{"screen": 39.8}], [{}])
    assert line == "| first screen | <= 1.00 s | 39.80 s | not measured |  |"


def test_more_is_better_for_a_rate(table: Any) -> None:
    row = table.Row("values a second", "ours", "x", 1.0, "river", more=True)
    assert row.is_met(row.value([{"ours": 5.0, "river": 4.0}]))
    assert not row.is_met(row.value([{"ours": 3.0, "river": 4.0}]))


def test_every_figure_of_the_table_is_counted_once(table: Any) -> None:
    rows = [row for section in table.SECTIONS.values() for row in section]
    assert len({(row.figure, row.over) for row in rows}) == len(rows)
    everything = {row.figure: 1e-9 if not row.more else 1e9 for row in rows} | {row.over: 1.0 for row in rows}
    aims = sum(row.aim is not None for row in rows)
    assert table.counts([everything]) == (aims, aims)
    assert table.counts([{}]) == (0, 0)


def test_the_packages_of_another_commit_are_found_before_those_of_this_checkout(
    before_after: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repository"
    package = repository / "schemas" / "ragtide_schemas"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("NAME = 'earlier'\n")
    (repository / "pyproject.toml").write_text("[tool.hatch.build]\ndev-mode-dirs = ['schemas']\n")
    author = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "earlier"]):
        subprocess.run(["git", *command], cwd=repository, check=True, env={**os.environ, **author})
    (package / "__init__.py").write_text("NAME = 'now'\n")
    monkeypatch.setattr(before_after, "ROOT", repository)
    program = "import json, ragtide_schemas; print(json.dumps([ragtide_schemas.NAME, ragtide_schemas.__file__]))"
    with before_after.tree_of("HEAD") as tree:
        name, file = json.loads(before_after.run(sys.executable, "-c", program, tree=tree))
        assert name == "earlier"
        assert Path(file).is_relative_to(tree.folder)
    assert not tree.folder.exists()
