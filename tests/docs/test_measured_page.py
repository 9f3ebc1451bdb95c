"""The page of measured numbers: each figure stands in the report of its row, and each command exists."""

import re
from pathlib import Path

import pytest
from tests.support.cases import for_each
from tests.support.doc_pages import page_text

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| (?!question)(.+?) \| (.+?) \| `(.+?)` \| \[[^\]]+\]\(([^)]+)\) \|$", page_text("measured"), re.MULTILINE
)
FIGURE = re.compile(r"\d[\d,.]*\d%?|\b\d+%")


@for_each("question, measured, command, report", ROWS)
def test_each_figure_stands_in_the_report_of_its_row(question: str, measured: str, command: str, report: str) -> None:
    text = (ROOT / "docs" / "understand" / report).read_text(encoding="utf-8")
    figures = FIGURE.findall(re.sub(r"`[^`]*`", "", measured))
    assert figures, question
    stated = re.findall(r"\d[\d,.]*\d%?|\b\d+%", text)
    assert [figure for figure in figures if figure not in stated and figure.rstrip("%") not in stated] == []
    name = command.split()[1]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert (ROOT / name).exists() or f"\n{name}:" in makefile


def test_every_row_is_read() -> None:
    assert len(ROWS) == len(
        re.findall(r"^\| .*\]\(\.\./\.\./benchmarks/measured/", page_text("measured"), re.MULTILINE)
    )
