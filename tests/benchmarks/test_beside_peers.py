"""A row of the page of other tools has medians of whole runs, or says why nothing was measured."""

import importlib
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
COUNT = 200


@pytest.fixture(scope="module")
def peers() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        return importlib.import_module("beside_peers")


def run_of(peers: Any, ended: str = "done", *, seconds: float = 2.0, scored: int = COUNT, calls: int = 400) -> Any:
    count = {"calls": calls, "prompt_tokens": 100 * calls, "completion_tokens": 0, "most_at_once": 64}
    return peers.Run(ended, seconds, 1.0, 100.0, scored, count, load=0.5)


def test_a_row_has_the_medians_of_its_runs(peers: Any) -> None:
    runs = [run_of(peers, seconds=seconds) for seconds in (2.0, 90.0, 4.0)]
    row = peers.speed_row(peers.PEERS[0], runs, COUNT, 300.0)
    assert "| 4.0 s | 50.0 | 2.0 | 200 | 5 ms | 100 | 64 | 0.5 |" in row


def test_one_run_that_did_not_finish_decides_the_row(peers: Any) -> None:
    runs = [run_of(peers), run_of(peers, "late", calls=17)]
    assert peers.typical(runs) is runs[1]
    assert "not finished in 300 s, 17 calls" in peers.speed_row(peers.PEERS[0], runs, COUNT, 300.0)


@pytest.mark.parametrize(
    "changes",
    [{"calls": 0}, {"calls": COUNT - 1}, {"scored": 0}, {"ended": "failed"}, {"ended": "late", "calls": 0}],
    ids=str,
)
def test_a_row_that_measured_nothing_has_no_figures(peers: Any, changes: dict[str, Any]) -> None:
    run = run_of(peers, **changes)
    assert peers.measured_nothing(run, COUNT)
    row = peers.speed_row(peers.PEERS[0], [run], COUNT, 300.0)
    assert "measured nothing" in row
    assert "items/s" not in row
    assert " ms |" not in row


@pytest.mark.parametrize("changes", [{}, {"calls": COUNT}, {"scored": 1}, {"ended": "late", "calls": 1}], ids=str)
def test_a_run_that_asked_for_its_items_measured_something(peers: Any, changes: dict[str, Any]) -> None:
    assert peers.measured_nothing(run_of(peers, **changes), COUNT) is None


def test_only_a_killed_run_and_a_whole_one_after_it_count_as_a_kill(peers: Any) -> None:
    peer, killed, whole = peers.PEERS[0], run_of(peers, "killed", calls=210), run_of(peers, calls=230, scored=199)
    assert peers.kill_row(peer, 400, COUNT, (killed, whole)).endswith("| 210 | 230 | 40 (10%) | 1 |")
    for runs in ((whole, whole), (run_of(peers, "late"), whole), (killed, run_of(peers, "failed"))):
        assert "measured nothing" in peers.kill_row(peer, 400, COUNT, runs)


def test_every_row_has_a_cell_for_each_column(peers: Any) -> None:
    columns = next(line for line in peers.PAGE.splitlines() if line.startswith("| tool | items")).count("|")
    for run in (run_of(peers), run_of(peers, "late"), run_of(peers, calls=0)):
        assert peers.speed_row(peers.PEERS[0], [run], COUNT, 300.0).count("|") == columns


def test_a_run_keeps_everything_in_its_own_folder(peers: Any, tmp_path: Path) -> None:
    variables = peers.own_folders(tmp_path)
    assert {"HOME", "XDG_CACHE_HOME", "RAGTIDE_DATA_DIR"} <= set(variables)
    assert all(Path(folder).is_relative_to(tmp_path) and Path(folder).is_dir() for folder in variables.values())
