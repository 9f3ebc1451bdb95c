"""The structure of the tree, beyond what the import contracts in pyproject.toml say."""

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.modules import ROOT, modules
from tools.house.imports import circles_of, import_graph


def test_a_class_name_means_one_thing() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(str(path.relative_to(ROOT)))
    assert len(places) > 300
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_every_module_says_what_it_is_for() -> None:
    assert [path for path, tree in modules().items() if not ast.get_docstring(tree)] == []


CIRCLE = {"ragtide_schemas.alert", "ragtide_schemas.alert_kinds", "ragtide_schemas.alert_rule"}
"""A kind of rules completes a rule and words its alerts, so it names the types of both, for type checks only."""


def test_no_modules_import_each_other_not_even_late_or_for_types() -> None:
    graph = import_graph(ROOT)
    assert {"ragtide_offline.replay.tables", "ragtide_offline.replay.selection"} <= graph[
        "ragtide_offline.replay.counting"
    ]
    assert [circle for circle in circles_of(graph) if not circle <= CIRCLE] == []


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()}
    assert circles_of(graph) == [{"a", "b", "c"}]


APPLICATION = """
import sys, ragtide, ragtide.otel
for name in ragtide.__all__:
    getattr(ragtide, name)
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] in ("ragtide", "ragtide_schemas", "ragtide_runtime", "ragtide_producers"):
        print(module.__file__)
"""
LOCKS = {"Lock", "RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier", "Queue", "SimpleQueue"}
LOCKED = LOCKS | {"cached_property"}  # its lock belongs to the class on Python 3.11


@pytest.mark.processes
def test_no_forked_child_of_an_application_inherits_a_lock_of_a_module_or_class() -> None:
    done = subprocess.run([sys.executable, "-c", APPLICATION], capture_output=True, text=True, timeout=300, check=True)
    files = [Path(line) for line in done.stdout.splitlines()]
    assert {"client.py", "scripts.py", "otel.py", "model.py"} <= {path.name for path in files}
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    assert {(path.name, name) for path, tree in trees.items() for name in made_at_import(tree)} == set()


def made_at_import(tree: ast.AST) -> Iterator[str]:
    """Yield the names of locks that the code outside functions makes, decorators among it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (name for one in node.decorator_list for name in named(one) if name in LOCKED)
        elif not isinstance(node, ast.Lambda):
            if isinstance(node, ast.Call):
                yield from (name for name in named(node.func) if name in LOCKED)
            yield from made_at_import(node)


def named(node: ast.AST) -> list[str]:
    node = node.func if isinstance(node, ast.Call) else node
    return [node.id] if isinstance(node, ast.Name) else [node.attr] if isinstance(node, ast.Attribute) else []


def test_a_lock_that_a_child_would_inherit_is_found() -> None:
    planted = """
import threading
A = threading.Lock()
class B:
    lock: "threading.RLock" = field(default=RLock())
    @functools.cached_property
    def c(self): return threading.Event()
    def d(self): self.e = threading.Condition()
"""
    assert sorted(made_at_import(ast.parse(planted))) == ["Lock", "RLock", "cached_property"]
