"""Each failure of docs/help/failures.md says what is seen, lost and to be done, and names tests that exist."""

import ast
import re
from pathlib import Path

import pytest
from tests.support.cases import for_each
from tests.support.doc_pages import page_text

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
PAGE = page_text("failures")
TITLES = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
FAILURES = dict(zip(TITLES, re.split(r"^## .*$", PAGE, flags=re.MULTILINE)[1:], strict=True))
TESTS = [(title, *found) for title, text in FAILURES.items() for found in re.findall(r"`(tests/[^:`]+)::(\w+)`", text)]


def is_defined(file: Path, name: str) -> bool:
    """Return whether a file defines a test at its top level."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_there_are_ten_failures_and_the_table_lists_each() -> None:
    assert len(FAILURES) >= 10
    assert re.findall(r"^\| \[([^\]]*)\]\(#", PAGE, re.MULTILINE) == TITLES


@for_each("title", TITLES)
def test_each_says_what_is_seen_lost_done_and_shown(title: str) -> None:
    assert re.findall(r"^- \*\*([\w ]+):\*\*", FAILURES[title], re.MULTILINE) == ["You see", "Lost", "Do", "Shown by"]
    assert title in {of for of, _, _ in TESTS}


@for_each("title, file, name", TESTS)
def test_the_test_that_shows_it_exists(title: str, file: str, name: str) -> None:
    assert is_defined(ROOT / file, name), f"{title}: {file} has no {name}"


def test_a_test_that_was_renamed_is_found() -> None:
    assert not is_defined(Path(__file__), "test_that_nobody_wrote")
