"""The structure of the tree, beyond what the import contracts in pyproject.toml say."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMPONENTS = ("schemas", "runtime", "producers", "consumers", "aggregator", "roles", "offline", "web", "ragtide")


def test_a_class_name_means_one_thing() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for component in COMPONENTS:
        for path in (ROOT / component).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    places[node.name.lstrip("_")].append(str(path.relative_to(ROOT)))
    assert len(places) > 300
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_every_module_says_what_it_is_for() -> None:
    modules = [path for component in COMPONENTS for path in (ROOT / component).rglob("*.py")]
    silent = [path for path in modules if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert silent == []
