"""An experiment finds that BM25 is better than random documents, whatever the answers look like."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "random_retriever.py"
SEEN = ("retrieval.match", "trace.context_relevance")
NOT_SEEN = ("trace.context_utilization", "trace.adherence")


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("program_random_retriever", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("style", ["extracted", "first sentences", "copied"])
def test_bm25_beats_random_documents_where_the_docs_say_so(program: ModuleType, redis_url: str, style: str) -> None:
    board = program.leaderboard(redis_url, style, 60)
    rows = {row.name: row.estimates for row in board.rows}
    for metric in SEEN:
        assert rows["bm25"][metric].lower > rows["random"][metric].upper, metric
    for metric in NOT_SEEN:
        bm25, other = rows["bm25"][metric], rows["random"][metric]
        assert bm25.lower < other.upper, metric
        assert other.lower < bm25.upper, metric
    assert "does not see a broken retriever" in (board.warning or "")


def test_a_race_by_match_stops_the_random_retriever_and_warns_of_nothing(program: ModuleType, redis_url: str) -> None:
    board = program.leaderboard(redis_url, "copied", 60, "retrieval.match", race=True)
    assert [(row.name, row.status) for row in board.rows] == [("bm25", "complete"), ("random", "stopped")]
    assert board.warning is None
