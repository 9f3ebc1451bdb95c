"""The house as an SVG: a floor for each package, a box for each room, and the rooms that an interaction enters."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from .imports import import_graph, plan_of
from .source import PACKAGES

FLOORS: Final = (
    ("ragtide", "public names, command line"),
    ("ragtide_web", "HTTP service and page"),
    ("ragtide_offline", "gates, reports, experiments, replays"),
    ("ragtide_roles", "roles built from settings"),
    ("ragtide_producers", "publish"),
    ("ragtide_consumers", "label, record, notify"),
    ("ragtide_aggregator", "estimate, alert"),
    ("ragtide_runtime", "Redis, settings, telemetry"),
    ("ragtide_schemas", "the models of the streams"),
)
"""Packages from the highest, with what each is for."""
SIDE_BY_SIDE: Final = ("ragtide_producers", "ragtide_consumers", "ragtide_aggregator")
"""The packages that exchange messages and never import each other."""

WIDTH: Final = 960
MARGIN: Final = 16
GAP: Final = 10
ROOM_HEIGHT: Final = 26
LINE_HEIGHT: Final = ROOM_HEIGHT + 8
LETTER: Final = 7.2
"""Width that a letter of 12 px may take."""

STYLE: Final = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 14px }
.note { fill: #57606a }
.floor { fill: #f6f8fa; stroke: #d0d7de }
.room { fill: #ffffff; stroke: #8c959f }
.entered { fill: #ddf4ff; stroke: #0969da; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .note { fill: #9198a1 }
  .floor { fill: #151b23; stroke: #3d444d }
  .room { fill: #0d1117; stroke: #656c76 }
  .entered { fill: #0c2d6b; stroke: #4493f8 }
}
"""


@dataclass(frozen=True, slots=True)
class Room:
    """A subfolder of a package, or its loose files together."""

    name: str
    files: int
    height: int
    """1 if it imports no other room of the package."""
    entered: bool
    """Whether most interactions enter a function in it."""

    @property
    def label(self) -> str:
        """Name and number of files."""
        return f"{self.name} {self.files}" if self.files > 1 else self.name

    @property
    def width(self) -> float:
        """In pixels."""
        return LETTER * len(self.label) + 16


def rooms_of(graph: Mapping[str, set[str]], package: str, folders: Collection[str], entered: set[str]) -> list[Room]:
    """Return the rooms of a package, the highest first; `entered` are the modules that an interaction enters."""
    sizes = Counter(module.split(".")[1] for module in graph if module.startswith(f"{package}."))
    used = {module.split(".")[1] for module in entered if module.startswith(f"{package}.")}
    heights = plan_of(graph, package).heights()
    rooms = [Room(name, sizes[name], heights[name], name in used) for name in sorted(folders)]
    loose = sizes.keys() - folders
    if loose:
        lowest = min(heights.get(name, 1) for name in loose)
        rooms.append(Room("loose files", len(loose), lowest, bool(loose & used)))
    return sorted(rooms, key=lambda room: (-room.height, room.name))


def lines_of(rooms: Sequence[Room], width: float) -> list[list[Room]]:
    """Return rooms in lines no wider than `width`; a room stands above those of a lower height."""
    lines: list[list[Room]] = []
    used = 0.0
    for room in rooms:
        fits = used + room.width <= width
        if not lines or lines[-1][0].height != room.height or not fits:
            lines.append([])
            used = 0.0
        lines[-1].append(room)
        used += room.width + GAP
    return lines


def picture(tree: Path, entered: Collection[str]) -> str:
    """Return the SVG of a tree; `entered` are the modules that most interactions enter."""
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img"})
    ET.SubElement(root, "title").text = "The packages of ragtide, their rooms, and the rooms that an interaction enters"
    ET.SubElement(root, "style").text = STYLE
    graph, folders = import_graph(tree), _folders(tree)
    top = float(MARGIN)
    for row in _rows():
        width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
        inner = {
            package: lines_of(rooms_of(graph, package, folders[package], set(entered)), width - 24) for package in row
        }
        height = 52 + LINE_HEIGHT * max(len(lines) for lines in inner.values())
        for place, (package, lines) in enumerate(inner.items()):
            _draw_floor(root, package, lines, (MARGIN + place * (width + GAP), top, width, height))
        top += height + GAP
    _text(root, MARGIN, top + 12, "A number counts files. Blue: most interactions enter it.", "note")
    root.set("viewBox", f"0 0 {WIDTH} {top + 12 + MARGIN:g}")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _folders(tree: Path) -> dict[str, set[str]]:
    return {
        package: {file.parent.name for file in (tree / root / package).glob("*/*.py")} for root, package in PACKAGES
    }


def _rows() -> Iterator[tuple[str, ...]]:
    for package, _ in FLOORS:
        if package == SIDE_BY_SIDE[0]:
            yield SIDE_BY_SIDE
        elif package not in SIDE_BY_SIDE:
            yield (package,)


def _draw_floor(
    root: ET.Element, package: str, lines: list[list[Room]], box: tuple[float, float, float, float]
) -> None:
    left, top, _, _ = box
    _box(root, box, "floor")
    _text(root, left + 12, top + 20, package.removeprefix("ragtide_"), "title")
    _text(root, left + 12, top + 36, dict(FLOORS)[package], "note")
    for number, line in enumerate(lines):
        x, y = left + 12.0, top + 46 + number * LINE_HEIGHT
        for room in line:
            _box(root, (x, y, room.width, ROOM_HEIGHT), "entered" if room.entered else "room")
            _text(root, x + 8, y + 17, room.label, None)
            x += room.width + GAP


def _box(root: ET.Element, box: tuple[float, float, float, float], kind: str) -> None:
    x, y, width, height = (f"{value:g}" for value in box)
    ET.SubElement(root, "rect", {"x": x, "y": y, "width": width, "height": height, "rx": "4", "class": kind})


def _text(root: ET.Element, x: float, y: float, text: str, kind: str | None) -> None:
    ET.SubElement(root, "text", {"x": f"{x:g}", "y": f"{y:g}"} | ({"class": kind} if kind else {})).text = text
