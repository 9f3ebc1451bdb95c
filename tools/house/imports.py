"""Measures of imports: the rooms of a package, its floors, arrows and circles."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .measures import PACKAGES, product_files

STATE: Final = "ragtide_aggregator.state"
"""The folder whose plan the table has besides the packages'."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The rooms of a folder, which are its subfolders and its files without `__init__` and `__main__`."""

    rooms: tuple[str, ...]
    arrows: frozenset[tuple[str, str]]
    """Pairs of rooms of which the first imports the second."""

    def heights(self) -> dict[str, int]:
        """Return the floor of each room: 1 if it imports no other room, else one more than the highest that it does.

        Rooms that import each other in a circle share a floor.
        """
        heights: dict[str, int] = {}
        waiting = set(self.rooms)
        while waiting:
            reached = {room: self._reached(room) & waiting for room in waiting}
            lowest = min(sorted(waiting), key=lambda room: len(reached[room]))
            circle = reached[lowest]
            below = {to for source, to in self.arrows if source in circle} - circle
            heights |= dict.fromkeys(circle, 1 + max((heights[to] for to in below), default=0))
            waiting -= circle
        return heights

    def _reached(self, room: str) -> set[str]:
        reached, open_rooms = {room}, {room}
        while open_rooms:
            open_rooms = {to for source, to in self.arrows if source in open_rooms} - reached
            reached |= open_rooms
        return reached


def module_name(tree: Path, file: Path) -> str:
    """Return the name under which a product file is imported."""
    parts = file.relative_to(tree).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(tree: Path) -> dict[str, set[str]]:
    """Return the product modules that each product module imports, at the top, in a function or for types only.

    The import of a name goes to the submodule of that name, otherwise to the module that is named: a package that
    imports its names at their first use is itself the imported one.
    """
    files = {module_name(tree, file): file for file in product_files(tree)}
    return {
        module: {target for target in _imports(module, file, files) if target != module}
        for module, file in files.items()
    }


def _imports(module: str, file: Path, files: Mapping[str, Path]) -> Iterator[str]:
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                if name in files or base in files:
                    yield name if name in files else base


def circles_of(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that import each other, directly or through others.

    >>> [sorted(circle) for circle in circles_of({"a": {"b"}, "b": {"a"}, "c": {"a"}})]
    [['a', 'b']]
    """
    reached: dict[str, set[str]] = {}
    for module in graph:
        found, waiting = set[str](), [module]
        while waiting:
            new = graph.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        reached[module] = found
    circles = (
        frozenset(other for other in found if module in reached.get(other, ())) for module, found in reached.items()
    )
    return [set(circle) for circle in dict.fromkeys(circles) if circle]


def plan_of(graph: Mapping[str, set[str]], folder: str) -> Plan:
    """Return the plan of a package or a subpackage."""

    def room(module: str) -> str | None:
        inside = module.startswith(f"{folder}.") and not module.endswith("__main__")
        return module[len(folder) + 1 :].split(".", maxsplit=1)[0] if inside else None

    rooms = {found for module in graph if (found := room(module)) is not None}
    pairs = {(room(module), room(target)) for module, targets in graph.items() for target in targets}
    arrows = frozenset((a, b) for a, b in pairs if a is not None and b is not None and a != b)
    return Plan(tuple(sorted(rooms)), arrows)


def plans(tree: Path) -> dict[str, dict[str, int]]:
    """Return the numbers of rooms, floors and arrows of each package, and of the state's folder."""
    graph = import_graph(tree)
    folders = [*PACKAGES.values(), *([STATE] if STATE in graph else [])]
    found = {}
    for folder in folders:
        plan = plan_of(graph, folder)
        floors = max(plan.heights().values(), default=0)
        found[folder] = {"rooms": len(plan.rooms), "floors": floors, "arrows": len(plan.arrows)}
    return found
