"""The measures of the house, on small sources."""

import tomllib
from pathlib import Path

from tools.house.imports import Plan, import_graph, plan_of
from tools.house.measures import Source

SOURCE = '''"""A module.

Of three lines of docstring.
"""

import os
from sys import (
    argv,
)

# A comment.
NAME = """a

string"""
"""The name."""


def function() -> None:
    """Do nothing."""
    print(os, argv)  # code
'''


def test_lines_of_code_are_no_text_no_comment_and_no_import() -> None:
    source = Source()
    source.add(SOURCE)
    assert (source.lines, source.code, source.files, source.functions) == (20, 4, 1, 1)


def test_records_twins_copies_and_functions_named_once_are_counted() -> None:
    source = Source()
    source.add("class A:\n    a: int\n    b: int\n    c: int\n    lower: float\n    upper: float\n")
    source.add("class B:\n    a: int\n    b: int\n    lower: float\n    upper: float\n    d: int\n")
    source.add("class C:\n    a: int\n    b: int\n    e: int\n    f: int\nclass D: ...\n")
    source.add("def _f(x): return X(a=x.a, b=x.b, c=x.c, d=x.e)\ndef _g(x): return X(a=x.a, b=x.b) + _f(_f(x))\n")
    assert (len(source.records), source.twins, source.copied) == (3, 2, 3)
    assert (source.private, source.named_once) == (2, 1)


def test_floors_are_the_longest_chain_and_a_circle_is_one_floor() -> None:
    plan = Plan(("a", "b", "c", "d"), frozenset({("a", "b"), ("b", "c"), ("c", "b"), ("b", "d"), ("a", "d")}))
    assert plan.heights() == {"d": 1, "b": 2, "c": 2, "a": 3}


def test_relative_and_absolute_imports_are_arrows_between_rooms(tmp_path: Path) -> None:
    package = tmp_path / "schemas" / "ragtide_schemas"
    (package / "room").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "room" / "__init__.py").write_text("")
    (package / "room" / "inside.py").write_text("from .. import base\nfrom ..names import NAME\n")
    (package / "base.py").write_text("import ragtide_schemas.names\n")
    (package / "names.py").write_text("NAME = 1\n")
    plan = plan_of(import_graph(tmp_path), "ragtide_schemas")
    assert plan.rooms == ("base", "names", "room")
    assert plan.arrows == {("room", "base"), ("room", "names"), ("base", "names")}


def test_the_wheel_has_no_tools() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert "tools" not in project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
