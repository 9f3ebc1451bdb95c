"""Measures of source text: lines by kind, files, classes and functions."""

import ast
import tokenize
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

PACKAGES: Final = (
    ("schemas", "ragtide_schemas"),
    ("runtime", "ragtide_runtime"),
    ("producers", "ragtide_producers"),
    ("consumers", "ragtide_consumers"),
    ("aggregator", "ragtide_aggregator"),
    ("roles", "ragtide_roles"),
    ("offline", "ragtide_offline"),
    ("web", "ragtide_web"),
    ("ragtide", "ragtide"),
)
"""Source root and package of each floor, from the lowest to the highest."""

KINDS: Final = ("code", "docstring", "comment", "blank", "import")

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
_SCOPES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def product_files(tree: Path) -> list[Path]:
    """Return every Python file of the nine packages of a tree."""
    return [file for root, package in PACKAGES for file in sorted((tree / root / package).rglob("*.py"))]


def line_kinds(text: str) -> dict[str, int]:
    """Return the number of lines of each kind.

    A line with code and a comment is code. A blank line in a docstring is docstring, in another string code. The
    string below a constant or a field counts as its docstring.
    """
    module = ast.parse(text)
    lines = text.splitlines()
    kinds = ["comment" if line.strip() else "blank" for line in lines]
    for token in tokenize.tokenize(BytesIO(text.encode()).readline):
        if token.type not in _LAYOUT and token.type != tokenize.ENDMARKER:
            for number in range(token.start[0], token.end[0] + 1):
                kinds[number - 1] = "code"
    for node in ast.walk(module):
        if isinstance(node, ast.Import | ast.ImportFrom):
            _mark(kinds, node, "import")
        elif isinstance(node, _SCOPES):
            for statement in _strings(node):
                _mark(kinds, statement, "docstring")
    return {kind: kinds.count(kind) for kind in KINDS}


def _strings(scope: ast.AST) -> Iterator[ast.stmt]:
    for statement in getattr(scope, "body", ()):
        value = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield statement


def _mark(kinds: list[str], node: ast.stmt, kind: str) -> None:
    first, last = node.lineno - 1, node.end_lineno or node.lineno
    kinds[first:last] = [kind] * (last - first)


def source_measures(tree: Path) -> dict[str, int]:
    """Return lines by kind, and the numbers of files, classes and functions; a method is a function."""
    total = dict.fromkeys(("files", "lines", *KINDS, "classes", "functions"), 0)
    for file in product_files(tree):
        text = file.read_text(encoding="utf-8")
        kinds = line_kinds(text)
        nodes = list(ast.walk(ast.parse(text)))
        total["files"] += 1
        total["lines"] += sum(kinds.values())
        total["classes"] += sum(isinstance(node, ast.ClassDef) for node in nodes)
        total["functions"] += sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes)
        for kind, count in kinds.items():
            total[kind] += count
    return total
