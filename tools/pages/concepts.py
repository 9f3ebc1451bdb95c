"""Draws the picture of docs/start/concepts.md: one interaction becomes a label, scores, an estimate, and an alert."""

import asyncio
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Final

import numpy as np

from ragtide import LocalLabeler, RagInteraction, confidence_sequence

PICTURE: Final = "start/concepts.svg"

_QUESTION: Final = "When was the tower built?"
_DOCUMENT: Final = "The tower was built in 1889."
_SUPPORTED: Final = "It was built in 1889."
_UNSUPPORTED: Final = "Tickets cost twelve euros."

_WIDTH: Final = 680
_LEFT: Final = 190
"""Where the contents of a row begin; the title stands left of it."""
_ROWS: Final = ((14, 126), (164, 92), (280, 92), (396, 168), (588, 92))
"""Top and height of the five rows."""

_GOOD, _BAD = 140, 60
"""Number of answers before and after the change in the chart."""
_CHART: Final = (_LEFT, 452, 460, 96)
"""Left, top, width and height of the chart."""

_STYLE: Final = """
text { font: 17px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-size: 20px; font-weight: 600 }
.who, .axis { font-size: 15px; fill: #57606a }
.strong { font-weight: 600 }
.card { fill: #ffffff; stroke: #d0d7de }
.arrow { fill: none; stroke: #57606a; stroke-width: 2 }
.good { fill: #116329 }
.bad { fill: #b3261e }
.wrong { stroke: #b3261e; stroke-width: 2 }
.band { fill: #1a7f6433 }
.mean { fill: none; stroke: #116329; stroke-width: 2 }
.change { stroke: #b3261e; stroke-width: 1.5; stroke-dasharray: 4 3 }
.frame { fill: none; stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .who, .axis { fill: #9da7b3 }
  .card { fill: #161b22; stroke: #3d444d }
  .arrow { stroke: #9da7b3 }
  .good { fill: #56d364 }
  .bad { fill: #ff8a80 }
  .wrong, .change { stroke: #ff8a80 }
  .band { fill: #3fb95040 }
  .mean { stroke: #56d364 }
  .frame { stroke: #3d444d }
}
"""


def concepts_picture() -> str:
    """Return the picture as SVG; its scores are the local labeler's, and its interval is the live one."""
    mixed, good, bad = (_scores(text) for text in (f"{_SUPPORTED} {_UNSUPPORTED}", _SUPPORTED, _UNSUPPORTED))
    before, after = good["trace.adherence"], bad["trace.adherence"]
    rows = [
        ("Interaction", "your application", _interaction()),
        ("Label", "a labeler", _label()),
        ("Metric event", "a worker", _event(mixed)),
        ("Estimate", "the aggregator", _estimate(before, after)),
        ("Alert", "a rule", _alert(before, after)),
    ]
    height = _ROWS[-1][0] + _ROWS[-1][1] + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        "<title>From one interaction to an alert</title>",
        f"<style>{_STYLE}</style>",
    ]
    for (title, who, lines), (top, tall) in zip(rows, _ROWS, strict=True):
        parts.append(f'<rect class="card" x="8" y="{top}" width="{_WIDTH - 16}" height="{tall}" rx="8"/>')
        parts += [_text(24, top + 32, title, "title"), _text(24, top + 54, who, "who"), *lines]
    for (top, tall), (below, _) in pairwise(_ROWS):
        parts.append(f'<path class="arrow" d="M90 {top + tall + 2} V{below - 4} m-5 -6 l5 6 l5 -6"/>')
    return "\n".join([*parts, "</svg>", ""])


def _scores(response: str) -> dict[str, float]:
    """Return the local labeler's scores of a response to the question."""
    interaction = RagInteraction(pipeline="shop", question=_QUESTION, documents=[_DOCUMENT], response=response)
    return dict(asyncio.run(LocalLabeler().label(interaction)).scores)


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    chosen = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{chosen}>{escape(text)}</text>'


def _pairs(top: float, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return lines of a name and a text."""
    return [
        part
        for number, (name, text) in enumerate(pairs)
        for part in (_text(_LEFT, top + 26 * number, name, "who"), _text(_LEFT + 90, top + 26 * number, text))
    ]


def _interaction() -> list[str]:
    top = _ROWS[0][0] + 32
    pairs = (("question", _QUESTION), ("document", _DOCUMENT), ("response", _SUPPORTED), ("", _UNSUPPORTED))
    return _pairs(top, pairs)


def _label() -> list[str]:
    top = _ROWS[1][0] + 32
    return [
        _text(_LEFT, top, "✓", "good strong"),
        _text(_LEFT + 22, top, _SUPPORTED),
        _text(_LEFT + 290, top, "supported", "good"),
        _text(_LEFT, top + 30, "✗", "bad strong"),
        _text(_LEFT + 22, top + 30, _UNSUPPORTED),
        f'<path class="wrong" d="M{_LEFT + 22} {top + 35} h220"/>',
        _text(_LEFT + 290, top + 30, "not supported", "bad"),
    ]


def _event(scores: dict[str, float]) -> list[str]:
    top = _ROWS[2][0] + 32
    adherence, supported = scores["trace.adherence"], scores["trace.supported_fraction"]
    return [
        _text(_LEFT, top, f"trace.adherence {adherence:.2f}", "strong"),
        _text(_LEFT + 306, top, "is all of it supported?", "who"),
        _text(_LEFT, top + 30, f"trace.supported_fraction {supported:.2f}", "strong"),
        _text(_LEFT + 306, top + 30, "how much of it is?", "who"),
    ]


def _estimate(before: float, after: float) -> list[str]:
    left, top, width, height = _CHART
    values = np.array([before] * _GOOD + [after] * _BAD)
    ends = confidence_sequence("running", values)
    means = np.cumsum(values) / np.arange(1, values.size + 1)
    shown = range(9, values.size, 5)

    def point(number: int, value: float) -> str:
        return f"{left + width * (number + 1) / values.size:.1f},{top + height * (1 - value):.1f}"

    mean = " ".join(point(number, means[number]) for number in shown)
    band = [point(number, ends[number, 1]) for number in shown]
    band += [point(number, ends[number, 0]) for number in reversed(shown)]
    change = left + width * _GOOD / values.size
    said = f"mean {means[-1]:.2f}, interval {ends[-1, 0]:.2f} to {ends[-1, 1]:.2f}, n {values.size}"
    return [
        _text(left, _ROWS[3][0] + 32, said, "strong"),
        f'<rect class="frame" x="{left}" y="{top}" width="{width}" height="{height}"/>',
        f'<polygon class="band" points="{" ".join(band)}"/>',
        f'<polyline class="mean" points="{mean}"/>',
        f'<path class="change" d="M{change:.1f} {top} v{height}"/>',
        _text(change - 128, top + height - 10, "answers change", "axis"),
        _text(left - 16, top + 12, "1", "axis"),
        _text(left - 16, top + height, "0", "axis"),
    ]


def _alert(before: float, after: float) -> list[str]:
    top = _ROWS[4][0] + 32
    return [
        _text(_LEFT, top, f"▲ adherence fell from {before:.2f} to {after:.2f}", "bad strong"),
        _text(_LEFT, top + 30, "sent to people, with its rate of false alarms", "who"),
    ]
