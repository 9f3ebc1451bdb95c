"""The measures of the house, on small sources."""

import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

from tools.house.collected import count_tests
from tools.house.imports import Plan, import_graph, plan_of
from tools.house.picture import picture
from tools.house.source import PACKAGES, line_kinds

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


def test_each_line_has_one_kind() -> None:
    assert line_kinds(SOURCE) == {"code": 5, "docstring": 6, "comment": 1, "blank": 4, "import": 4}


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


def test_tests_of_pages_are_on_text_and_form() -> None:
    ids = ["tests/docs/test_a.py::b", "tests/web/page/test_words.py::c[1]", "tests/consumers/test_forms.py::d"]
    assert count_tests(ids) == {"tests": 3, "on text and form": 2}


def test_the_wheel_has_no_tools() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert "tools" not in project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]


def test_the_picture_shows_every_room_inside_its_floor_and_marks_those_that_are_entered() -> None:
    tree = Path(__file__).parents[2]
    root = ET.fromstring(picture(tree, ["ragtide_runtime.redis.keys"]))
    labels = {text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")}
    for source_root, package in PACKAGES:
        assert package.removeprefix("ragtide_") in labels
        folders = [file.parent.name for file in (tree / source_root / package).glob("*/*.py")]
        assert all(any(label.split(" ")[0] == folder for label in labels) for folder in folders)
    boxes = list(root.iter("{http://www.w3.org/2000/svg}rect"))
    assert sum(box.get("class") == "entered" for box in boxes) == 1
    width = float(root.attrib["viewBox"].split()[2])
    assert all(float(box.attrib["x"]) + float(box.attrib["width"]) <= width for box in boxes)
