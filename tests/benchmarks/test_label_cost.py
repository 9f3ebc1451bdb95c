"""The cost of a label is measured once: `ragtide capacity` computes with it, and pages state it in its words."""

import importlib
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ragtide_offline.capacity.unit_costs import SHIPPED, TextCost, read_unit_costs

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
WORDS = read_unit_costs(SHIPPED).labelers_us["local"].in_words()
OF_LABELS = re.compile(r"label[^.|\n]*?(\d[\d.,]*) (?:ms|µs)", re.IGNORECASE)
"""A sentence about labels with a time."""


@pytest.fixture(scope="module")
def measuring() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        return importlib.import_module("growing.label_cost")


def test_every_page_that_states_the_cost_has_the_words_of_the_record(measuring: Any) -> None:
    pages = [*measuring.QUOTED, "benchmarks/measured/label_cost.md"]
    assert [page for page in pages if WORDS not in (ROOT / page).read_text(encoding="utf-8")] == []


def test_no_page_states_another_cost() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        assert OF_LABELS.findall(page.read_text(encoding="utf-8").replace(WORDS, "")) == [], page


def test_a_new_measurement_changes_the_record_and_all_its_words(
    measuring: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for page in measuring.QUOTED:
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page, tmp_path / page)
    record = Path(shutil.copy(SHIPPED, tmp_path / "unit_costs.json"))
    monkeypatch.setattr(measuring, "SHIPPED", record)
    costs, new = read_unit_costs(record), TextCost(each=123, document=0, kib=45)
    changed = costs.model_copy(update={"labelers_us": {**costs.labelers_us, "local": new}})
    measuring.write_unit_costs(changed, record, tmp_path)
    assert read_unit_costs(record) == changed
    unchanged = [page for page in measuring.QUOTED if new.in_words() not in (tmp_path / page).read_text("utf-8")]
    assert unchanged == []


def test_costs_of_another_machine_change_no_page(measuring: Any, tmp_path: Path) -> None:
    costs = read_unit_costs(SHIPPED)
    measuring.write_unit_costs(costs, tmp_path / "mine.json", tmp_path)
    assert read_unit_costs(tmp_path / "mine.json") == costs
    assert [path.name for path in tmp_path.iterdir()] == ["mine.json"]


def test_the_fitted_cost_is_that_of_points_on_a_line(measuring: Any) -> None:
    cost = measuring.label_cost({(1, 1.0): 900.0, (5, 1.0): 1700.0, (5, 10.0): 10_700.0})
    assert (cost.each, cost.document, cost.kib) == pytest.approx((700.0, 0.0, 200.0))
