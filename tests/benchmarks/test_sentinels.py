"""The simulation of sentinels, in short: a swapped judge is found in time."""

from pathlib import Path

import numpy as np
import pytest
from tests.support.doc_pages import page_text

from .test_figures import program

REPORT = Path(__file__).parents[2] / "benchmarks/measured/sentinels.md"


@pytest.mark.simulation
@pytest.mark.parametrize("kind", [0, 1])
def test_a_judge_that_differs_in_a_tenth_of_its_labels_is_found_within_200_answers(kind: int) -> None:
    command = program("sentinels")
    found = command.delays(command.KINDS[kind], 20, command.SWAPS[0], 20)
    assert np.mean([delay is not None for delay in found]) >= 0.95


def test_the_page_has_the_figures_of_the_report() -> None:
    rows = [line.strip("|").split("|") for line in REPORT.read_text("utf-8").splitlines() if line.startswith("|")]
    shares = {(row[0], row[1], row[2]): row[3].replace("100.0%", "100%") for row in rows if len(row) == 6}
    page = page_text("trust-in-the-judge")
    for swap in ("10% of all labels", "3% of all labels"):
        assert f"| {swap} | {shares['repeats itself', '40', swap]} | {shares['repeats itself', '20', swap]} |" in page
    for share in ("10%", "5%"):
        swap = f"{share} of the verdicts on response sentences only"
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {share} of th") and "nothing else" in line]
        assert line.split(" | ")[1:] == [
            shares["repeats itself", "40", swap],
            f"{shares['repeats itself', '20', swap]} |",
        ]
