"""The template's rule sees a retriever that breaks for one language as soon as the docs say."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    modules = {}
    for name in ("languages", "broken_language"):
        spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        modules[name] = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[name])
    return modules["broken_language"]


@pytest.mark.simulation
@pytest.mark.parametrize(("language", "most"), [("en (RAGBench)", 25), ("de", 50), ("fr", 60)])
def test_the_alert_comes_soon_and_only_after_a_change(program: ModuleType, language: str, most: int) -> None:
    rows = (
        program.ragbench_rows()
        if "RAGBench" in language
        else program.rows_of(program.DATA / f"multilingual/{language}.json")
    )
    scores = program.scores_of(rows)
    rule = program.template_rule()
    assert rule.run_length is None, "the default of 10,000"
    clean, broken = scores.clean[program.MATCH], scores.broken[program.MATCH]
    found = program.delay_of(rule, clean, broken, 60)
    assert found.late is not None
    assert found.median <= found.late <= most
    assert program.delay_of(rule, clean, clean, 60).alerted <= 0.3
