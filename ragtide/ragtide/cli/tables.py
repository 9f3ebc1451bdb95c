"""Renders estimates as tables; reads and prints nothing."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_aggregator.estimates.estimates import PREDICTION_POWERED
from ragtide_aggregator.events.keys import GOLD_LABELER
from ragtide_aggregator.statistics.tables.windows import ALL_TIME
from ragtide_schemas import METRICS, Direction, Estimate
from ragtide_schemas.metric_definitions import USAGE

from .drawing import BAND_STYLES, bar, direction_of, ends_of, trend
from .fitting import Column, Notes, fitted, heading
from .groups import (
    ESTIMATOR_NAMES,
    EstimateGroup,
    absent_text,
    fitness_line,
    group_key,
    groups_of,
    short_name,
    unmeasured_line,
)

SHORTEST_NAME: Final = 16
"""Fewest characters of a metric's name."""

BAR_WIDTHS: Final = (28, 14, 8)
"""Characters of an interval's bar, from a wide terminal to a narrow terminal."""

EXACT: Final = "exact"
"""Shown in place of an interval."""

TOO_WIDE: Final = "not yet"
"""Shown in place of an interval that says nothing."""

TOO_WIDE_NOTE: Final = "not yet: too few interactions for an interval, or their sessions are not closed"

COUNT_RANGE: Final = 100.0
"""Smallest width of the range of numbers whose quantiles are shown."""

EXACT_NOTE: Final = "exact: every interaction of the workspace is counted (--ongoing: as a sample of live traffic)"

OF_USAGE: Final = frozenset(definition.name for definition in USAGE.values())
"""Metrics of the latency, tokens and dollars of the answer."""

_RowKey = tuple[object, ...]
"""Scope, labeler, metric and its version, proxy and estimator."""


def _row_key(estimate: Estimate) -> _RowKey:
    return (*group_key(estimate), estimate.metric, estimate.metric_version, estimate.proxy, estimate.estimator)


def estimates_table(estimates: Sequence[Estimate], width: int, *, recent: bool = True) -> RenderableType:
    """Return estimates as a table, grouped by scope and labeler, with a row for each metric that has values.

    Args:
        estimates: estimates to show.
        width: columns of the terminal.
        recent: whether to compare the most recent values with all values, or a window with the window before.
    """
    groups = groups_of(estimates)
    rows = [estimate for group in groups for estimate in group.measured]
    if not rows:
        return Group(*_notes(groups, width).above.get(0, ()))
    columns = [
        Column("metric", [short_name(row.metric_name) for row in rows], yields=8, shortest=SHORTEST_NAME),
        *_estimator_column(rows),
        Column("estimate", [number_text(row.estimate) for row in rows], right=True),
        Column("interval", _intervals(rows)),
        _bars(rows),
        *_quantile_columns(rows),
        Column("n (eff.)" if any(map(_effective, rows)) else "n", _counts(rows), right=True),
        *_cluster_column(rows),
        *([_trend_column(rows)] if recent else []),
        *_band_column(rows),
        *_absent_column(rows),
    ]
    return fitted(columns, width, _notes(groups, width))


def number_text(value: float | None) -> str:
    """Return a number with three decimals, or with six digits if it is large; a dash for None.

    >>> number_text(0.25), number_text(-1e-17), number_text(1234567.0), number_text(None)
    ('0.250', '0.000', '1.23457e+06', '—')
    """
    if value is None:
        return "—"
    return f"{value:z.3f}" if abs(value) < 1e5 else f"{value:.6g}"


def interval_text(ends: tuple[float, float], *, exact: bool = False) -> str:
    """Return an interval as its ends; an exact mean has none."""
    return EXACT if exact else f"{number_text(ends[0])} to {number_text(ends[1])}"


def _intervals(rows: Sequence[Estimate]) -> list[str]:
    ends = [[number_text(end) for end in ends_of(row)] for row in rows]
    words = [EXACT if row.exact else TOO_WIDE if too_wide(row) else "" for row in rows]
    shown = [two for two, word in zip(ends, words, strict=True) if not word]
    lower, upper = (max((len(two[place]) for two in shown), default=0) for place in (0, 1))
    return [word or f"{low:>{lower}} to {high:>{upper}}" for word, (low, high) in zip(words, ends, strict=True)]


def too_wide(estimate: Estimate) -> bool:
    """Return whether there is no interval yet: it is the whole range, or too little is known of a count."""
    return estimate.estimate is not None and not (estimate.exact or estimate.has_interval)


def _bars(rows: Sequence[Estimate]) -> Column:
    wide, middle, narrow = ([bar(row, width) for row in rows] for width in BAR_WIDTHS)
    last = Column("", narrow, yields=9)
    return Column("", wide, yields=2, narrower=Column("", middle, yields=5, narrower=last))


def _estimator_column(rows: Sequence[Estimate]) -> list[Column]:
    """Return the column that names the estimators, if any row is not a mean."""
    proxies: defaultdict[_RowKey, set[str]] = defaultdict(set)
    for row in rows:
        if row.estimator != "mean":
            proxies[_row_key(row)[:-2]].add(row.proxy or "")
    if not proxies:
        return []
    names = [_estimator_name(row, proxies.get(_row_key(row)[:-2])) for row in rows]
    short = [name.replace("prediction-", "pred.-") for name in names]
    return [Column("estimator", names, yields=6, narrower=Column("estimator", short, yields=12, stacks=True))]


def _estimator_name(one: Estimate, proxies: Collection[str] | None) -> str:
    """Return the estimator, with its proxy if there are several; empty for a metric with a mean only."""
    if proxies is None:
        return ""
    return f"{ESTIMATOR_NAMES[one.estimator]}{f' ({one.proxy})' if one.proxy and len(proxies) > 1 else ''}"


def _quantile_columns(rows: Sequence[Estimate]) -> list[Column]:
    """Return the quantiles of numbers such as latency, tokens and dollars; scores between 0 and 1 have none here."""
    found = [row.quantiles or {} if _is_number(row) else {} for row in rows]
    if not any(found):
        return []
    return [
        Column(name, [_digits(each[name]) if name in each else "" for each in found], right=True, yields=yields)
        for name, yields in (("p50", 12), ("p95", 13))
    ]


def _is_number(row: Estimate) -> bool:
    lowest, highest = row.value_range
    return row.metric in OF_USAGE or highest - lowest >= COUNT_RANGE


def _counts(rows: Sequence[Estimate]) -> list[str]:
    return [f"{row.n:,}{_effective(row)}" for row in rows]


def _effective(one: Estimate) -> str:
    return "" if one.n_effective is None or one.exact else f" ({one.n_effective:,.0f})"


def _cluster_column(rows: Sequence[Estimate]) -> list[Column]:
    """Return the number of clusters, such as sessions, that each interval rests on, if any row has clusters."""
    if all(row.n_clusters is None for row in rows):
        return []
    counts = ["" if row.n_clusters is None or row.exact else f"{row.n_clusters:,}" for row in rows]
    return [Column("clusters", counts, right=True, yields=3)]


def _trend_column(rows: Sequence[Estimate]) -> Column:
    title = "recent" if all(row.window == ALL_TIME for row in rows) else "before"
    return Column(title, [trend(row) for row in rows], yields=10)


def _band_column(rows: Sequence[Estimate]) -> list[Column]:
    """Return the quality of each estimate, with the direction in which the metric gets better and its limit."""
    bands = [Text(row.band or "", style=BAND_STYLES.get(row.band or "", "")) for row in rows]
    known = any(row.band for row in rows)
    title = "band" if known else "better"
    short = Column(title, bands, yields=11) if known else None
    middle = Column(title, _beside(bands, [limit_of(row) for row in rows]), yields=7, narrower=short)
    return [Column(title, _beside(bands, [rule_of(row) for row in rows]), yields=4, narrower=middle)]


def _beside(bands: Sequence[Text], rules: Sequence[str]) -> list[Text]:
    return [
        Text.assemble(band, "; " if band.plain and rule else "", (rule, "bright_black"))
        for band, rule in zip(bands, rules, strict=True)
    ]


def rule_of(estimate: Estimate) -> str:
    """Return the direction in which a metric gets better, and the limit of a good value."""
    definition = METRICS.get(estimate.metric)
    return definition.rule if definition is not None else direction_of(estimate).in_words


def limit_of(estimate: Estimate) -> str:
    """Return the limit of a good value in a few characters; without bands, the direction."""
    definition = METRICS.get(estimate.metric)
    direction = direction_of(estimate)
    if definition is None or definition.bands is None:
        return "" if direction is Direction.NEITHER else direction.in_words
    return f"good {'≤' if direction is Direction.LOWER else '≥'} {definition.bands.good:g}"


def _absent_column(rows: Sequence[Estimate]) -> list[Column]:
    cells = [Text(absent_text(row), style="yellow") for row in rows]
    return [Column("", cells, yields=1, stacks=True)] if any(cell.plain for cell in cells) else []


def _notes(groups: Sequence[EstimateGroup], width: int) -> Notes:
    """Return the headings of groups, and the lines at their ends."""
    above: dict[int, list[Text]] = {}
    row = 0
    for group in groups:
        title, *below = _around(group, width)
        if above:
            above[row].append(Text())
        above.setdefault(row, []).append(title)
        row += len(group.measured)
        above.setdefault(row, []).extend(below)
    return Notes(above)


def _around(group: EstimateGroup, width: int) -> list[Text]:
    """Return the heading of a group, and the lines about its metrics without an interval or without a value."""
    wide = [Text(TOO_WIDE_NOTE, style="bright_black")] if any(map(too_wide, group.measured)) else []
    line = unmeasured_line(group)
    return [heading(group.title, width), *wide, *(each for each in (fitness_line(group), line) if each is not None)]


def estimates_note(estimates: Sequence[Estimate]) -> str:
    """Return a sentence about level and validity of the intervals, and about the recommended estimator."""
    level = f"{estimates[0].confidence:.0%} intervals" if estimates else "no estimates"
    exact = [estimate for estimate in estimates if estimate.exact]
    if exact and all(estimate.exact for estimate in estimates if estimate.n):
        return EXACT_NOTE
    valid = ", valid at every look" if estimates and all(estimate.anytime_valid for estimate in estimates) else ""
    corrected = any(
        estimate.estimator == PREDICTION_POWERED and estimate.labeler != GOLD_LABELER for estimate in estimates
    )
    advice = "; prediction-powered: recommended"
    return f"{level}{valid}{advice if corrected else ''}{f'; {EXACT_NOTE}' if exact else ''}"


def labeling_table(estimates: Sequence[Estimate], width: int) -> RenderableType:
    """Return a table of the time and cost of labeling, with mean and quantiles, grouped by scope and labeler."""
    groups = groups_of(estimates)
    rows = [estimate for group in groups for estimate in (*group.measured, *group.unmeasured)]
    above, row = {}, 0
    for group in groups:
        above[row] = [heading(group.title, width)]
        row += len(group.measured) + len(group.unmeasured)
    quantiles = [estimate.quantiles or {} for estimate in rows]

    def numbers(name: str, yields: int = 0) -> Column:
        cells = [_digits(found.get(name)) for found in quantiles]
        return Column(name, cells, right=True, yields=yields)

    columns = [
        Column("quantity", [estimate.metric.removeprefix("labeling.") for estimate in rows], yields=3, shortest=8),
        Column("n", [f"{estimate.n:,}" for estimate in rows], right=True),
        Column("mean", [_digits(estimate.estimate) for estimate in rows], right=True),
        numbers("p5", 1), numbers("p50"), numbers("p95"), numbers("p99", 2),
        Column("max", [_digits(estimate.maximum) for estimate in rows], right=True),
    ]  # fmt: skip
    return fitted(columns, width, Notes(above))


def _digits(number: float | None) -> str:
    return "—" if number is None else f"{number:.4g}"
