"""Correlations of metrics with people's preferences: a metric that agrees with people correlates."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
ASPECTS = ("correctness_label", "completeness_label", "overall_label")


def pair(number: int, first: str, second: str, opinion: int) -> dict[str, Any]:
    right = f"The tower number {number} was built in 1889 by Gustave Eiffel."
    return {
        "query": f"When was tower {number} built?",
        "gt_answer": right,
        "model1": {"name": "a", "response": first, "ragchecker": dict.fromkeys(ASPECTS, 0.5 - opinion / 4)},
        "model2": {"name": "b", "response": second, "ragchecker": dict.fromkeys(ASPECTS, 0.5 + opinion / 4)},
        "human": {key: [opinion, opinion] for key in ASPECTS},
    }


def test_metrics_that_agree_with_people_correlate_and_an_empty_answer_is_no_problem(tmp_path: Path) -> None:
    good, bad = "The tower was built in 1889 by Eiffel.", "Penguins swim."
    pairs = [
        pair(number, *((good, bad if number % 3 else "") if number % 2 else (bad, good)), -2 if number % 2 else 2)
        for number in range(8)
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in pairs), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "preferences.py"), str(path), "--samples", "20"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = dict(re.findall(r"^\| ([^|]+) \| (-?[\d.]+)", done.stdout, re.MULTILINE))
    assert found["RAGChecker (stored: precision, recall, F1)"] == "100.0"
    assert found["two people with each other"] == "100.0"
    for name in ("word F1", "ROUGE-L", "local: response by right answer", "local: F1 of both"):
        assert float(found[name]) > 50, name
