"""Every sentence of docs/help/troubleshooting.md is one that the program can say."""

import ast
import re

import pytest
from tests.support.cases import for_each
from tests.support.doc_pages import doc_page
from tests.support.modules import modules

pytestmark = pytest.mark.pure

PAGE = doc_page("troubleshooting")
GAP = "\N{SYMBOL FOR NULL}"


def template(node: ast.expr) -> str | None:
    """Return the text of a string in the code, with a gap for each inserted value; None for another expression."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else GAP for part in node.values)  # type: ignore[misc]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@pytest.fixture(scope="module")
def templates() -> list[str]:
    nodes = (node for tree in modules().values() for node in ast.walk(tree) if isinstance(node, ast.expr))
    return [text for text in map(template, nodes) if text]


def said(sentence: str, templates: list[str]) -> bool:
    """Return whether a string of the code contains the parts of a sentence around its gaps, in their order."""
    parts = [re.escape(part) for part in re.split(r" ?… ?", sentence) if part]
    wanted = re.compile(".*".join(parts), re.DOTALL)
    return any(wanted.search(text) for text in templates)


SENTENCES = re.findall(r'^### "(.*)"$', PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_page_has_sentences() -> None:
    assert len(SENTENCES) > 20


@for_each("sentence", SENTENCES)
def test_the_program_can_say_the_sentence(sentence: str, templates: list[str]) -> None:
    assert said(sentence, templates), "the message changed: quote it as the code has it"


def test_a_sentence_that_is_not_in_the_code_is_found(templates: list[str]) -> None:
    assert not said("the … tower was never built in …", templates)
