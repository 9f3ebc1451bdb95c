"""The two charts of an experiment: positions of axes, points and lines. The template draws them as SVG.

A picture by matplotlib would not follow the reader's light or dark theme, and would need an extra installed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

from ragtide_web.look.label_places import Box, LabelPlace, LabelSize, place_labels

from ..experiments.board import Board, price_of
from .content import Curve

WIDTH: Final = 480
"""Units of the picture. A phone shows it at three quarters of its size, so that its texts stay readable."""
HEIGHT: Final = 300
LEFT: Final = 60
RIGHT: Final = 40
TOP: Final = 14
BOTTOM: Final = 42
COLORS: Final = 8
"""Number of colours; the ninth line has the first colour again, dashed."""

_CHARACTER: Final = 7.5
"""Widest digit of a label, in units."""
_LINE: Final = 13.0
"""Height of a label."""
_INSIDE: Final = Box(LEFT + 2, 2, WIDTH - 2, HEIGHT - BOTTOM - 2)
"""The part of a chart in which labels are."""


FRAME: Final = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}
"""The measures of both charts; left, right, top and bottom are the margins outside of the axes."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps numbers to pixels."""

    lowest: float
    highest: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a number, to a tenth."""
        share = (value - self.lowest) / (self.highest - self.lowest)
        return round(self.first + share * (self.last - self.first), 1)


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled position on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class ConfigMark:
    """A config as a point with its interval."""

    number: int
    name: str
    x: float
    y: float
    top: float
    bottom: float
    pareto: bool
    label: LabelPlace | None
    """Place of its number; None if the chart has no room for it."""


@dataclass(frozen=True, slots=True)
class ConfigLine:
    """A config as a line; `x` and `y` are its end."""

    number: int
    name: str
    color: int
    dashed: bool
    points: str
    x: float
    y: float
    stopped: bool
    label: LabelPlace | None
    """Place of its number; None if the chart has no room for it."""


@dataclass(frozen=True, slots=True)
class Axes:
    """The parts that both charts share."""

    x_label: str
    y_label: str
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]


@dataclass(frozen=True, slots=True)
class CostChart:
    """Quality against the cost of an item, or against its latency."""

    axes: Axes
    marks: Sequence[ConfigMark]
    front: str
    """Points of the line through the Pareto front."""
    front_names: Sequence[str]


@dataclass(frozen=True, slots=True)
class CurveChart:
    """Means over items."""

    axes: Axes
    lines: Sequence[ConfigLine]


def ticks(lowest: float, highest: float, about: int = 4) -> list[float]:
    """Return round numbers in a range.

    >>> ticks(0.0, 1.0, about=5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (highest - lowest) / about
    power = 10.0 ** floor(log10(raw))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= raw * (1 - 1e-9))
    return [round(k * step, 12) for k in range(ceil(lowest / step - 1e-9), floor(highest / step + 1e-9) + 1)]


def cost_chart(board: Board) -> CostChart | None:
    """Return the chart of quality against cost, or against latency if nothing has a cost; None without a score."""
    rows = [(row, row.estimates[board.metric], price_of(row, board.price)) for row in board.rows]
    known = [(row, at, at.estimate, x) for row, at, x in rows if at.estimate is not None and x is not None]
    dearest = max((price for *_, price in known), default=0.0)
    if not dearest:
        return None
    x = Scale(0.0, 1.1 * dearest, LEFT, WIDTH - RIGHT)
    y = _vertical([end for _, at, _, _ in known for end in (at.lower, at.upper)])
    # Labels of the Pareto front get the nearest places.
    known.sort(key=lambda config: not config[0].pareto)
    points = [(x(price), y(value)) for _, _, value, price in known]
    places = _labels(points, [row.number for row, *_ in known])
    marks = [
        ConfigMark(row.number, row.name, *point, y(at.upper), y(at.lower), row.pareto, place)
        for (row, at, _, _), point, place in zip(known, points, places, strict=True)
    ]
    front = sorted((mark for mark in marks if mark.pareto), key=lambda mark: mark.x)
    x_label = "US dollars an item" if board.price == "cost" else "median seconds of an answer (no call has a cost)"
    axes = Axes(x_label, board.metric, _ticks(x), _ticks(y))
    return CostChart(axes, marks, " ".join(f"{m.x},{m.y}" for m in front), [mark.name for mark in front])


def curve_chart(board: Board, curves: Sequence[Curve]) -> CurveChart | None:
    """Return the chart of means over items; None if no config has a score."""
    if not curves:
        return None
    x = Scale(0.0, max(curve.points[-1].item for curve in curves), LEFT, WIDTH - RIGHT)
    y = _vertical([point.mean for curve in curves for point in curve.points])
    numbers = {row.name: row.number for row in board.rows}
    drawn = [[(x(point.item), y(point.mean)) for point in curve.points] for curve in curves]
    names = [numbers[curve.config] for curve in curves]
    places = _labels([points[-1] for points in drawn], names)
    lines = [
        ConfigLine(
            number=names[index],
            name=curve.config,
            color=index % COLORS,
            dashed=index >= COLORS,
            points=" ".join(f"{across},{down}" for across, down in drawn[index]),
            x=drawn[index][-1][0],
            y=drawn[index][-1][1],
            stopped=curve.stopped,
            label=places[index],
        )
        for index, curve in enumerate(curves)
    ]
    return CurveChart(Axes("items", f"mean {board.metric}", _ticks(x), _ticks(y)), lines)


def _labels(points: Sequence[tuple[float, float]], numbers: Sequence[int]) -> list[LabelPlace | None]:
    return place_labels(points, [LabelSize(_CHARACTER * len(f"#{number}"), _LINE) for number in numbers], _INSIDE)


def _vertical(values: Sequence[float]) -> Scale:
    lowest, highest = min(values), max(values)
    pad = 0.08 * (highest - lowest) or 0.05 * (abs(highest) or 1.0)
    return Scale(lowest - pad, highest + pad, HEIGHT - BOTTOM, TOP)


def _ticks(scale: Scale) -> list[Tick]:
    return [Tick(scale(value), f"{value:,.6g}") for value in ticks(scale.lowest, scale.highest)]
