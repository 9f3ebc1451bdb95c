"""The modules of the product, each read and parsed once in a process of tests."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPONENTS = ("schemas", "runtime", "producers", "consumers", "aggregator", "roles", "offline", "web", "ragtide")


def product_files() -> list[Path]:
    """Return the files of all modules."""
    return [path for component in COMPONENTS for path in sorted((ROOT / component).rglob("*.py"))]


@functools.cache
def modules() -> dict[Path, ast.Module]:
    """Return the syntax tree of every module; no test changes it."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in product_files()}
