"""Renders headlines: the one number of each metric with its range and state; reads and prints nothing."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_schemas import METRICS, Headline
from ragtide_schemas.fitness import phrase_of
from ragtide_schemas.headline import HeadlineState

from .drawing import interval_bar
from .fitting import Column, Notes, fitted, heading
from .groups import short_name
from .tables import BAR_WIDTHS, OF_USAGE, SHORTEST_NAME, TOO_WIDE, interval_text, number_text

STATE_STYLES: Final[dict[HeadlineState, str]] = {
    "firing": "bold red",
    "suspicious": "yellow",
    "moved": "bold yellow",
    "silent": "yellow",
    "judge stopped": "yellow",
    "being measured": "bright_black",
    "too few": "bright_black",
    "learning": "bright_black",
    "steady": "green",
    "unwatched": "bright_black",
}
"""Colours of states; the word says the same."""


class _HeadlineScope(NamedTuple):
    """Rows under one heading, with the labeler and the range of most of them."""

    pipeline: str
    segment: str | None
    labeler: str
    range: str


def reading_order(headlines: Sequence[Headline]) -> list[Headline]:
    """Return headlines by pipeline and segment, and there in the order of the registry of metrics."""
    places = {name: place for place, name in enumerate(METRICS)}
    return sorted(
        headlines,
        key=lambda each: (each.pipeline, each.segment or "", places.get(each.metric, len(places)), each.metric),
    )


def headlines_table(headlines: Sequence[Headline], width: int, *, small: bool = False) -> RenderableType:
    """Return headlines as a table with a heading for each pipeline and segment value.

    Args:
        headlines: to show.
        width: columns of the terminal.
        small: whether small metrics have rows, too.
    """
    ordered = reading_order(headlines)
    groups: dict[tuple[str, str | None], list[Headline]] = {}
    for each in ordered:
        groups.setdefault((each.pipeline, each.segment), []).append(each)
    rows: list[Headline] = []
    details: list[Text] = []
    above: dict[int, list[Text]] = {}
    for members in groups.values():
        shown = [each for each in members if each.estimate is not None and (small or not each.is_small)]
        scope = _scope(shown or members)
        lines = [heading((scope.pipeline, scope.segment or "all", scope.labeler, scope.range), width)]
        above[len(rows)] = [*above.get(len(rows), ()), *([Text()] if above else []), *lines]
        rows += shown
        details += [_detail(each, scope) for each in shown]
        above.setdefault(len(rows), []).extend(_below(members, shown))
    if not rows:
        return Group(*above.get(0, ()))
    columns = [
        Column("metric", [short_name(row.metric) for row in rows], yields=8, shortest=SHORTEST_NAME),
        Column("now", [number_text(row.estimate) for row in rows], right=True),
        Column("interval", [_interval(row) for row in rows]),
        _bars(rows),
        Column("n", [f"{row.n:,}" for row in rows], right=True),
        Column("state", [_state(row) for row in rows]),
        Column("all time", [_all_time(row) for row in rows], right=True, yields=7),
        *_bands(rows),
        *([Column("", details, yields=1, stacks=True)] if any(detail.plain for detail in details) else []),
    ]
    return fitted(columns, width, Notes(above))


def _scope(members: Sequence[Headline]) -> _HeadlineScope:
    first = members[0]
    labelers = Counter(each.labeler_text for each in members)
    ranges = Counter(each.range_text for each in members)
    return _HeadlineScope(first.pipeline, first.segment, labelers.most_common(1)[0][0], ranges.most_common(1)[0][0])


def _detail(row: Headline, scope: _HeadlineScope) -> Text:
    """Return what the columns of a row and its heading do not say."""
    parts = [row.state_text] if row.state in ("moved", "firing", "silent") else []
    if row.judge is not None:
        parts.append(row.judge_text)
    if row.range_text != scope.range:
        parts.append(row.range_text)
    if row.labeler_text != scope.labeler:
        parts.append(f"by {row.labeler_text}")
    if row.coverage_text is not None:
        parts.append(row.coverage_text)
    return Text("; ".join(parts), style=STATE_STYLES[row.state])


def _below(members: Sequence[Headline], shown: Sequence[Headline]) -> list[Text]:
    """Return the lines at the end of a group: fitness, metrics without a row, and other labelers."""
    lines: list[str] = []
    named = Counter(each.labeler for each in shown)
    if members[0].segment is None and named:
        labeler = named.most_common(1)[0][0]
        fitness = phrase_of(labeler, {each.metric: each.fit_for for each in shown if each.labeler == labeler})
        lines += [] if fitness is None else [fitness]
    valueless = [
        short_name(each.metric) + (f" ({each.judge_text})" if each.judge else "")
        for each in members
        if each.estimate is None
    ]
    if valueless:
        lines.append(f"without a value: {', '.join(valueless)} (--estimator recommended shows why)")
    folded = [short_name(each.metric) for each in members if each.estimate is not None and each not in shown]
    if folded:
        lines.append(f"folded away: {', '.join(folded)} (--all shows them)")
    if any(each.metric in OF_USAGE for each in shown):
        lines.append("p50 and p95 of latency, tokens and dollars: --estimator mean")
    others = sorted({name for each in shown for name in each.other_labelers})
    if others:
        lines.append(f"also scored by {', '.join(others)}: --labeler {others[0]} shows its numbers")
    return [Text(line, style="bright_black") for line in lines]


def _interval(row: Headline) -> str:
    if row.lower is None or row.upper is None or not row.has_interval:
        return TOO_WIDE
    return interval_text((row.lower, row.upper))


def _bars(rows: Sequence[Headline]) -> Column:
    def drawn(row: Headline, width: int) -> Text:
        lowest, highest = row.value_range
        ends = lowest if row.lower is None else row.lower, highest if row.upper is None else row.upper
        return interval_bar(row.estimate, ends, (lowest, highest), width)

    wide, middle, narrow = ([drawn(row, width) for row in rows] for width in BAR_WIDTHS)
    return Column("", wide, yields=2, narrower=Column("", middle, yields=3, narrower=Column("", narrow, yields=5)))


def _state(row: Headline) -> Text:
    count = f" ({row.needed:,} more)" if row.state in ("too few", "learning") and row.needed else ""
    return Text(f"{row.state}{count}", style=STATE_STYLES[row.state])


def _all_time(row: Headline) -> str:
    return "" if row.range == "all" or row.all_time is None else number_text(row.all_time.estimate)


def _bands(rows: Sequence[Headline]) -> list[Column]:
    return [Column("band", [row.band or "" for row in rows], yields=6)] if any(row.band for row in rows) else []


def headlines_note(headlines: Sequence[Headline], *, options: bool = True) -> str:
    """Return a sentence about level and validity of the intervals.

    Args:
        headlines: to name the level of.
        options: whether to name the options that change the range.
    """
    level = f"{headlines[0].confidence:.0%} intervals" if headlines else "no numbers"
    change = "; --last, --since or --all-time change the range" if options else ""
    return f"{level}, valid at every look{change}"
