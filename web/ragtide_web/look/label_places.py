"""Places the labels of points in a chart, so that no two labels overlap and each is inside. No I/O."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import hypot
from typing import Final

PLACED_MAX: Final = 60
"""Most labels of a chart. More are not readable; the other points keep their mark, and the table has their numbers."""

GAP: Final = 2.0
"""Pixels between a point and its label, and between two labels."""

RINGS: Final = (7.0, 14.0, 22.0, 34.0, 50.0)
"""Distances in pixels from a point at which its label is tried."""

_SIDES: Final = ((1, 0), (1, -1), (1, 1), (0, -1), (0, 1), (-1, -1), (-1, 1), (-1, 0))
"""Directions in which a label is tried: first to the right of its point."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels; `top` is less than `bottom`."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Box", gap: float = 0.0) -> bool:
        """Return whether two rectangles are less than `gap` pixels apart."""
        return (
            self.left < other.right + gap
            and other.left < self.right + gap
            and self.top < other.bottom + gap
            and other.top < self.bottom + gap
        )

    def contains(self, other: "Box") -> bool:
        """Return whether another rectangle is inside."""
        return (
            self.left <= other.left
            and self.top <= other.top
            and other.right <= self.right
            and other.bottom <= self.bottom
        )


@dataclass(frozen=True, slots=True)
class LabelSize:
    """Width and height of a label in pixels."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class LabelPlace:
    """The place of a label."""

    box: Box
    leader: tuple[float, float] | None
    """End of a thin line from the point to a label that is far away; None for a label beside its point."""


def place_labels(
    points: Sequence[tuple[float, float]], sizes: Sequence[LabelSize], inside: Box
) -> list[LabelPlace | None]:
    """Return a place for the label of each point; None for a label without room.

    A label keeps clear of other labels always, and of points where it can. Earlier labels get the nearer places, so
    put the most important point first.

    Args:
        points: pixels of the points.
        sizes: of the labels, one for each point.
        inside: the rectangle that no label leaves.
    """
    marks = [Box(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    taken: list[Box] = []
    places: list[LabelPlace | None] = []
    for (x, y), size in zip(points, sizes, strict=True):
        place = None if len(taken) >= PLACED_MAX else _place((x, y), size, inside, taken, marks)
        places.append(place)
        if place is not None:
            taken.append(place.box)
    return places


def _place(
    point: tuple[float, float], size: LabelSize, inside: Box, taken: Sequence[Box], marks: Sequence[Box]
) -> LabelPlace | None:
    covering: LabelPlace | None = None
    for place in _tries(*point, size, inside):
        if not inside.contains(place.box) or any(place.box.overlaps(other, GAP) for other in taken):
            continue
        if not any(place.box.overlaps(mark) for mark in marks):
            return place
        covering = covering or place
    return covering


def _tries(x: float, y: float, size: LabelSize, inside: Box) -> Iterator[LabelPlace]:
    for ring, (across, down) in product(RINGS, _SIDES):
        centre_x = x + across * (ring + size.width / 2)
        centre_y = y + down * ((ring if across == 0 or ring > RINGS[0] else GAP) + size.height / 2)
        yield _at(x, y, centre_x, centre_y, size, far=ring > RINGS[0])
    columns = max(int((inside.right - inside.left) / (size.width + 2 * GAP)), 0)
    rows = max(int((inside.bottom - inside.top) / (size.height + 2 * GAP)), 0)
    centres = [
        (
            inside.left + GAP + size.width / 2 + column * (size.width + 2 * GAP),
            inside.top + GAP + size.height / 2 + row * (size.height + 2 * GAP),
        )
        for column in range(columns)
        for row in range(rows)
    ]
    for centre_x, centre_y in sorted(centres, key=lambda centre: hypot(centre[0] - x, centre[1] - y)):
        yield _at(x, y, centre_x, centre_y, size, far=True)


def _at(x: float, y: float, centre_x: float, centre_y: float, size: LabelSize, *, far: bool) -> LabelPlace:
    box = Box(
        round(centre_x - size.width / 2, 1),
        round(centre_y - size.height / 2, 1),
        round(centre_x + size.width / 2, 1),
        round(centre_y + size.height / 2, 1),
    )
    end = (min(max(x, box.left), box.right), min(max(y, box.top), box.bottom))
    return LabelPlace(box, end if far else None)
