"""Measures of a tree: lines of the product, and what repeats in them."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Final

PACKAGES: Final = {
    "schemas": "ragtide_schemas",
    "runtime": "ragtide_runtime",
    "producers": "ragtide_producers",
    "consumers": "ragtide_consumers",
    "aggregator": "ragtide_aggregator",
    "roles": "ragtide_roles",
    "offline": "ragtide_offline",
    "web": "ragtide_web",
    "ragtide": "ragtide",
}
"""Package of each source root, from the lowest to the highest."""

TWIN_FIELDS: Final = 4
"""Fields that two records must share to be twins."""

TWIN_SHARE: Final = 0.7
"""Share of the fields of the smaller record that twins share."""

COPIED: Final = 3
"""Fields of a call that are copied from attributes of the same name, from which on they count."""

SETTINGS: Final = (
    "from tools.pages.settings import settings_table as t; print(sum(l.startswith('| `') for l in t().splitlines()))"
)


@dataclass
class Source:
    """What the product's files have."""

    lines: int = 0
    code: int = 0
    """Lines that are not blank, comments, imports or docstrings."""
    files: int = 0
    statements: int = 0
    functions: int = 0
    records: list[frozenset[str]] = field(default_factory=list)
    """The field names of each class that declares fields."""
    copied: int = 0
    private: int = 0
    named_once: int = 0
    """Private functions that their file names at most once beside their definition."""

    def add(self, text: str) -> None:
        """Add a file."""
        tree, rows = ast.parse(text), text.splitlines()
        is_code = [bool(row.strip()) and not row.strip().startswith("#") for row in rows]
        names: Counter[str] = Counter()
        private = []
        for node in ast.walk(tree):
            self.statements += isinstance(node, ast.stmt)
            if isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.Expr) and _is_text(node.value)):
                first, last = node.lineno - 1, node.end_lineno or node.lineno
                is_code[first:last] = [False] * (last - first)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions += 1
                if node.name.startswith("_") and not node.name.startswith("__"):
                    private.append(node.name)
            elif isinstance(node, ast.Name):
                names[node.id] += 1
            elif isinstance(node, ast.Attribute):
                names[node.attr] += 1
            elif isinstance(node, ast.ClassDef):
                self.records += [fields] if (fields := frozenset(_fields(node))) else []
            elif isinstance(node, ast.Call):
                copied = sum(_is_copy(keyword) for keyword in node.keywords)
                self.copied += copied if copied >= COPIED else 0
        self.files += 1
        self.lines += len(rows)
        self.code += sum(is_code)
        self.private += len(private)
        self.named_once += sum(names[name] <= 1 for name in private)

    @property
    def twins(self) -> int:
        """Records that share most of their fields with another one."""
        large = [fields for fields in self.records if len(fields) >= TWIN_FIELDS]
        found: set[int] = set()
        for (first, one), (second, other) in combinations(enumerate(large), 2):
            shared = len(one & other)
            if shared >= TWIN_FIELDS and shared >= TWIN_SHARE * min(len(one), len(other)):
                found |= {first, second}
        return len(found)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id


def _is_copy(keyword: ast.keyword) -> bool:
    return isinstance(keyword.value, ast.Attribute) and keyword.value.attr == keyword.arg


def measures(tree: Path) -> dict[str, str]:
    """Return the measures of a tree, as cells of a table, by their name."""
    committed = list(_committed(tree))
    source = Source()
    for file in product_files(tree):
        source.add(file.read_text(encoding="utf-8"))
    pages = [path for path in committed if path.parts[0] == "docs" and path.suffix == ".md"]
    tests = [path for path in committed if path.parts[0] == "tests" and path.suffix == ".py"]
    found = {
        "product lines": source.lines,
        "lines of code": source.code,
        "files": source.files,
        "statements": source.statements,
        "functions": source.functions,
        "record classes": len(source.records),
        "their fields": sum(map(len, source.records)),
        "twins": source.twins,
        "fields copied one by one": source.copied,
        "classes with their own `lower` and `upper`": sum({"lower", "upper"} <= record for record in source.records),
        "private functions": source.private,
        "private functions named once": source.named_once,
        "words of docs": sum(len(_text(tree / path).split()) for path in pages),
        "pages of docs": len(pages),
        "lines of tests": sum(len(_text(tree / path).splitlines()) for path in tests),
        "commands": commands(tree),
        "settings": settings(tree),
        "tabs of the page": tabs(tree),
    }
    return {name: "" if value is None else f"{value:,}" for name, value in found.items()}


def product_files(tree: Path) -> list[Path]:
    """Return the Python files of the product, in order."""
    return [file for root in PACKAGES for file in sorted((tree / root).rglob("*.py"))]


def _committed(tree: Path) -> Iterable[Path]:
    """Yield the files of a tree that are committed, or will be: all files, where it is no checkout."""
    if not (tree / ".git").exists():
        return (path.relative_to(tree) for name in ("docs", "tests") for path in (tree / name).rglob("*.*"))
    listed = ["git", "-C", str(tree), "ls-files", "--cached", "--others", "--exclude-standard", "docs", "tests"]
    done = subprocess.run(listed, capture_output=True, text=True, check=True)
    return (Path(name) for name in sorted(set(done.stdout.splitlines())) if (tree / name).is_file())


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def commands(tree: Path) -> int | None:
    """Return the number of commands that the help lists in groups."""
    groups = _declared(tree / "ragtide/ragtide/cli/app.py", "GROUPS")
    return sum(len(listed.elts) for listed in groups if isinstance(listed, ast.Tuple)) or None


def _declared(file: Path, name: str) -> list[ast.expr]:
    """Return the values of a dictionary that a file declares; none without it."""
    for node in ast.parse(_text(file)).body if file.is_file() else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return node.value.values if isinstance(node.value, ast.Dict) else []
    return []


def settings(tree: Path) -> int | None:
    """Return the number of settings, which the tree's own tools list."""
    path = os.pathsep.join([str(tree), *(str(tree / root) for root in PACKAGES)])
    command, variables = [sys.executable, "-c", SETTINGS], {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=tree, env=variables, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else None


def tabs(tree: Path) -> int | None:
    """Return the number of tabs of the page, which earlier trees declare in the frame's template."""
    declared = len(_declared(tree / "web/ragtide_web/page/rendering.py", "TABS"))
    file = next((tree / "web").rglob("frame/base.html"), None)
    listed = re.search(r"<nav.*?{% for [^\n]*?in \[(.*?)\]", _text(file), re.DOTALL) if file and not declared else None
    return declared or (len(re.findall(r"\('/", listed[1])) if listed else None)
