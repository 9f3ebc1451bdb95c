"""Packages that import their names late have every name that they promise, and say which they do not have."""

import ast
from importlib import import_module
from pathlib import Path

import pytest
from tests.support.cases import for_each

pytestmark = pytest.mark.pure

PACKAGES = (
    "ragtide",
    "ragtide_schemas",
    "ragtide_runtime.redis",
    "ragtide_runtime.settings",
    "ragtide_runtime.telemetry",
    "ragtide_producers",
    "ragtide_consumers",
    "ragtide_aggregator",
    "ragtide_offline.experiments",
    "ragtide_offline.gates",
    "ragtide_offline.score",
)


@for_each("name", PACKAGES)
def test_every_promised_name_is_there(name: str) -> None:
    package = import_module(name)
    assert package.__all__
    assert [name for name in package.__all__ if getattr(package, name, None) is None] == []


@for_each("name", PACKAGES)
def test_type_checkers_see_the_names_that_programs_see(name: str) -> None:
    package = import_module(name)
    imports = [
        node
        for block in ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8")).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    ]
    assert sorted(str(alias.asname) for node in imports for alias in node.names) == package.__all__
    homes = {str(alias.name): "." * node.level + str(node.module) for node in imports for alias in node.names}
    assert [
        found
        for found, home in homes.items()
        if getattr(import_module(home, name), found) is not getattr(package, found)
    ] == []


@for_each("name", PACKAGES)
def test_another_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"module '{name}' has no attribute 'nothing'"):
        _ = import_module(name).nothing
