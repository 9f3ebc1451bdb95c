"""Regular expressions mean the same on every patch release of every supported Python.

Before 3.11.5, `re` mishandles possessive quantifiers over a group that can backtrack, and before 3.11.9 also captures
inside them and inside atomic groups. Over one character or one class of characters, both are right everywhere.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.support.modules import ROOT, modules

POSSESSIVE_GROUP = re.compile(r"(?<![\\(])\)(?:[*+?]|\{\{?[0-9]*,?[0-9]*\}\}?)\+|\(\?>")
"""A possessive quantifier over a group, also in the doubled braces of an f-string, or an atomic group."""

COMPILED = """
import importlib, pkgutil, sys
from re import _compiler, _constants, _parser

def risky(item):
    if isinstance(item, _parser.SubPattern):
        return any(risky(part) for part in item)
    if isinstance(item, (list, tuple)):
        if len(item) == 2 and item[0] is _constants.POSSESSIVE_REPEAT and not _compiler._simple(item[1][2]):
            return True
        if len(item) == 2 and item[0] is _constants.ATOMIC_GROUP:
            return True
        return any(risky(part) for part in item)
    return False

compiled, ours, whole = {}, ROOMS, _compiler.compile
def compile(pattern, flags=0):
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("re", "functools"):
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "")
    if name.partition(".")[0] in ours and isinstance(pattern, str):
        compiled[pattern] = name
    return whole(pattern, flags)
_compiler.compile = compile
for room in ours:
    for module in pkgutil.walk_packages(importlib.import_module(room).__path__, room + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
assert len(compiled) > 100, len(compiled)
for pattern, name in compiled.items():
    if risky(_parser.parse(pattern)):
        print(name, pattern)
"""


def texts_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_text_of_the_product_has_a_possessive_group() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path, tree in modules().items()
        if any(map(POSSESSIVE_GROUP.search, texts_of(tree)))
    }
    assert found == set()


@pytest.mark.parametrize(
    "planted", ['r"(?:a|b)*+"', 'r"(a){2,}+c"', 'rf"(?:{x}|\\\\.){{0,120}}+"', 'r"(?>ab|a)"', 'r"(?:a)?+"']
)
def test_a_planted_possessive_group_is_found(planted: str) -> None:
    assert any(map(POSSESSIVE_GROUP.search, texts_of(ast.parse(planted))))


@pytest.mark.processes
def test_no_pattern_that_is_compiled_at_import_has_a_possessive_group() -> None:
    rooms = [
        path.name
        for path in sorted(ROOT.glob("*/*"))
        if path.name.startswith("ragtide") and path.parent.name != "data" and (path / "__init__.py").exists()
    ]
    assert len(rooms) == 9
    script = COMPILED.replace("ROOMS", repr(rooms))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout, done.stderr[-2000:]) == (0, "", "")
