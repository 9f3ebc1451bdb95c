"""Estimates, headlines and their differences as tables and sentences."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from ragtide_aggregator.estimates.choices import PREDICTION_POWERED
from ragtide_aggregator.events.keys import GOLD_LABELER, EstimateKey
from ragtide_aggregator.statistics.tables.names import ALL_TIME
from ragtide_runtime.settings.open_sessions import waiting_sentence
from ragtide_schemas import METRICS, Direction
from ragtide_schemas.estimate import rated_text, shown_metric
from ragtide_schemas.headline import is_folded
from ragtide_schemas.metric_definitions import PEOPLES_METRICS, USAGE
from ragtide_schemas.printable import printable
from ragtide_schemas.slopes import UNSUPPORTED, misses_claims, shipped_slopes
from ragtide_schemas.suggestions import unknown

from . import Column, err, fitted, folded, heading, in_sections, out, shortened

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ragtide_aggregator.statistics.causes.explained_change import ExplainedChange
    from ragtide_aggregator.statistics.intervals.intervals import Interval
    from ragtide_offline.report.explained_pipelines import ExplainedDifference
    from ragtide_offline.report.labelings import Compared
    from ragtide_offline.score.summary import Comparison
    from ragtide_runtime.settings.alerting import ClusterSettings
    from ragtide_schemas import Estimate, Headline
    from ragtide_schemas.headline import HeadlineState


BAND_STYLES = {"poor": "red", "acceptable": "yellow", "good": "green", "excellent": "bold green"}


def ends_of(estimate: Estimate) -> tuple[float, float]:
    """Return the ends of the interval; a missing end is the end of the value range."""
    lowest, highest = estimate.value_range
    return (
        lowest if estimate.lower is None else estimate.lower,
        highest if estimate.upper is None else estimate.upper,
    )


def bar(estimate: Estimate, width: int) -> Text:
    """Return the interval drawn on the metric's whole range, with a dot for the estimate."""
    style = BAND_STYLES.get(estimate.band or "", "cyan")
    return interval_bar(estimate.estimate, ends_of(estimate), estimate.value_range, width, style)


def interval_bar(
    estimate: float | None,
    ends: tuple[float, float],
    scale: tuple[float, float],
    width: int,
    style: str = "cyan",
) -> Text:
    """Return an interval drawn on a scale, with a dot for the estimate."""
    lowest, highest = scale

    def cell(value: float) -> int:
        share = (value - lowest) / (highest - lowest) if highest > lowest else 0.0
        return min(max(round(share * (width - 1)), 0), width - 1)

    first, last = (cell(end) for end in ends)
    middle = None if estimate is None else cell(estimate)
    drawn = ["━" if first <= position <= last else "─" for position in range(width)]
    if middle is not None:
        drawn[middle] = "●"
    styles = {"●": f"bold {style}", "━": "cyan", "─": "bright_black"}
    # A part of equal characters is one piece: a table may have thousands of bars.
    return Text.assemble(*(("".join(part), styles[character]) for character, part in groupby(drawn)))


def trend(estimate: Estimate) -> Text:
    """Return an arrow that compares the mean of about the last 64 values with the interval.

    A window is compared with the window before it.
    """
    if estimate.window != ALL_TIME:
        if estimate.trend is None or estimate.previous is None:
            return Text("·", style="bright_black")
        if estimate.trend == "steady":
            return Text(f"→ was {estimate.previous:.2f}", style="bright_black")
        style = _better_style(estimate, rising=estimate.trend == "rising")
        return Text(f"{'▲' if estimate.trend == 'rising' else '▼'} was {estimate.previous:.2f}", style=style)
    if estimate.recent is None or estimate.estimate is None:
        return Text("·", style="bright_black")
    lower, upper = ends_of(estimate)
    if estimate.recent > upper:
        arrow, style = "▲", _better_style(estimate, rising=True)
    elif estimate.recent < lower:
        arrow, style = "▼", _better_style(estimate, rising=False)
    else:
        arrow, style = "→", "bright_black"
    return Text(f"{arrow} {estimate.recent:.2f}", style=style)


def direction_of(estimate: Estimate) -> Direction:
    """Return the direction in which the metric of an estimate gets better."""
    if estimate.direction is not None:
        return estimate.direction
    definition = METRICS.get(estimate.metric)
    if estimate.metric.startswith("rmse."):
        return Direction.LOWER
    return Direction.HIGHER if definition is None else definition.direction


def _better_style(estimate: Estimate, *, rising: bool) -> str:
    direction = direction_of(estimate)
    if direction is Direction.NEITHER:
        return "blue"
    return "green" if rising == (direction is Direction.HIGHER) else "red"


NO_MEASURE: Final = frozenset({"not_accurate_enough", "not_labeled", "language_not_supported"})
"""Reasons of absence that lie in the labeler, not in the interaction."""


CONSEQUENCE: Final = "part_absent"
"""The reason of a metric that is computed from an absent metric."""


REASONS_SHOWN: Final = 3
"""Most reasons of absence after a number of absences."""


REASON_CHARS: Final = 40
"""Most characters of a reason."""


ESTIMATOR_NAMES: Final = {"prediction_powered": "prediction-powered", "mean": "mean", "weighted": "weighted"}
"""Names of estimators on screens, in the order of rows: the recommended estimator first."""


PROMPT: Final = re.compile(r"[a-z]+\.[0-9]+")
"""A prompt with its version, in the version of a remote labeler."""


@dataclass(frozen=True, slots=True)
class EstimateGroup:
    """Estimates of one scope and labeler, in reading order."""

    key: EstimateKey
    """Scope and labeler; without a metric."""
    title: tuple[str, ...]
    """Scope and labeler in words."""
    measured: Sequence[Estimate]
    """Estimates with values."""
    unmeasured: Sequence[Estimate]
    """Estimates without a value."""


def whole_pipelines(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return the estimates that are not of a segment value."""
    return [estimate for estimate in estimates if estimate.segment is None]


def short_name(metric: str) -> str:
    """Return a metric's name without the family `trace`; other families stay, because two may use one name.

    >>> short_name("trace.adherence"), short_name("rmse.trace.adherence"), short_name("retrieval.empty")
    ('adherence', 'rmse.adherence', 'retrieval.empty')
    """
    return metric.removeprefix("trace.").replace(".trace", "")


def in_reading_order(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return estimates by scope, then by labeler, then in the order of the registry of metrics.

    Of the labelers of a scope, the reference labeler of a sample comes first. Of the estimators of a metric, the
    prediction-powered mean comes first when it has an interval.
    """
    rows = [*estimates]
    registered = {name: place for place, name in enumerate(METRICS)}
    references = {EstimateKey.of(estimate).group for estimate in rows if estimate.estimator != "mean"}
    estimators = [*ESTIMATOR_NAMES]

    def key(estimate: Estimate) -> tuple[object, ...]:
        group = EstimateKey.of(estimate).group
        ready = estimate.estimator != "prediction_powered" or estimate.has_interval
        return (
            group.pipeline,
            group.run or "",
            group.segment or "",
            group not in references,
            (group.labeler, group.labeler_version, group.profile),
            registered.get(estimate.metric, len(registered)),
            estimate.metric,
            estimate.metric_version or "",
            not ready,
            estimators.index(estimate.estimator),
        )

    return sorted(rows, key=key)


def groups_of(estimates: Iterable[Estimate]) -> list[EstimateGroup]:
    """Return the groups of estimates in reading order."""
    members: dict[EstimateKey, list[Estimate]] = {}
    for estimate in in_reading_order(estimates):
        members.setdefault(EstimateKey.of(estimate).group, []).append(estimate)
    short: dict[EstimateKey, tuple[str, ...]] = {}
    for key in members:
        pipeline = key.pipeline if key.run is None else f"{key.pipeline} ({key.run})"
        short[key] = pipeline, key.segment or "all", labeler_title(key.labeler, key.labeler_version, key.profile)
    count = Counter(short.values())
    titles = {
        key: title if count[title] == 1 else (*title[:-1], f"{title[-1]} version {key.labeler_version}")
        for key, title in short.items()
    }
    return [
        EstimateGroup(
            key,
            titles[key],
            [estimate for estimate in own if estimate.n],
            [estimate for estimate in own if not estimate.n],
        )
        for key, own in members.items()
    ]


def labeler_title(labeler: str, version: str, profile: str) -> str:
    """Return a labeler with its model and the variant of the formulas.

    >>> labeler_title("judge", "gpt-5-mini/trace.3/s1", "ragbench"), labeler_title("local", "2-s1", "ragbench")
    ('judge gpt-5-mini (ragbench)', 'local (ragbench)')
    """
    # The model of a remote labeler comes before its first prompt.
    parts = version.split("/")
    prompts = (place for place, part in enumerate(parts) if place and PROMPT.fullmatch(part))
    model = "/".join(parts[: next(prompts, 0)])
    return f"{labeler} {model} ({profile})" if model else f"{labeler} ({profile})"


def blind_line(group: EstimateGroup) -> Text | None:
    """Return which numbers of a whole pipeline do not see unsupported claims; None if none is known to miss them."""
    blind = [row for row in group.measured if misses_claims(shipped_slopes(group.key.labeler), row.metric)]
    if group.key.segment or not blind:
        return None
    return Text(f"{UNSUPPORTED} are not seen by {_names(blind)} of {group.key.labeler}", style="bright_black")


def unmeasured_line(group: EstimateGroup, away: Sequence[Estimate] = ()) -> Text | None:
    """Return a sentence about the metrics of a group without a value, with the reasons; None if all have values.

    Args:
        away: estimates that are folded away.
    """
    unmeasured = [estimate for estimate in group.unmeasured if estimate not in away]
    never = [estimate for estimate in unmeasured if _is_never_measured(estimate)]
    waiting = [estimate for estimate in unmeasured if estimate not in never]
    sentences = []
    if never:
        causes = {reason for estimate in never for reason in estimate.absent} - {CONSEQUENCE} or {CONSEQUENCE}
        if len(causes) == 1:
            reasons = f"{_names(never)}: {causes.pop()}"
        else:
            reasons = ", ".join(f"{short_name(row.metric_name)} ({', '.join(row.absent)})" for row in never)
        sentences.append(f"{_count(never, 'not measured by this labeler')}: {reasons}")
    if waiting:
        named: dict[str, list[str]] = {}
        for estimate in waiting:
            absences = absent_text(estimate) or "no interaction yet"
            named.setdefault(absences, []).append(short_name(estimate.metric_name))
        counts = "; ".join(f"{', '.join(names)} ({absences})" for absences, names in named.items())
        sentences.append(f"{_count(waiting, 'without a value')}: {counts}")
    return Text("; ".join(sentences), style="yellow" if waiting else "bright_black") if sentences else None


def _count(estimates: Sequence[Estimate], state: str) -> str:
    return f"{len(estimates)} {'metric is' if len(estimates) == 1 else 'metrics are'} {state}"


def _is_never_measured(estimate: Estimate) -> bool:
    return bool(estimate.absent) and set(estimate.absent) <= NO_MEASURE | {CONSEQUENCE}


def _names(rows: Sequence[Estimate]) -> str:
    return ", ".join(dict.fromkeys(short_name(row.metric_name) for row in rows))


def absent_text(estimate: Estimate) -> str:
    """Return the number of interactions without the metric, with the most frequent reasons; empty if there are none.

    Of thumbs it is the number of thumbs, and of how many answers.
    """
    if estimate.metric in PEOPLES_METRICS and estimate.estimator == "mean":
        return rated_text(estimate.n, estimate.n_absent, estimate.coverage)
    if not estimate.n_absent:
        return ""
    # A labeler of a user's own may give any text as its reason.
    reasons = [
        (shortened(reason.strip(), REASON_CHARS) or "no reason", count) for reason, count in estimate.absent.items()
    ]
    texts = [reason if len(reasons) == 1 else f"{reason} {count:,}" for reason, count in reasons[:REASONS_SHOWN]]
    more = [f"{len(reasons) - REASONS_SHOWN} more reasons"] if len(reasons) > REASONS_SHOWN else []
    return f"{estimate.n_absent:,} absent{': ' if texts else ''}{', '.join([*texts, *more])}"


def unmet_option(everything: Sequence[Estimate] | Sequence[Headline], **options: str | None) -> str | None:
    """Return a sentence about the option that matches no estimate; None if there are no estimates.

    Args:
        everything: estimates, or headlines.
        given: the options by the name of their field.
    """
    if not everything:
        return None
    for kind, name in options.items():
        known = {str(value) for row in everything if (value := getattr(row, kind)) is not None}
        if kind == "labeler":
            known |= {other for row in everything for other in getattr(row, "other_labelers", ())}
        if name is not None and name not in known:
            return unknown(kind, name, known)
    return "no estimate matches all of these options together: leave one out"


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
    return EstimateKey.of(estimate), estimate.proxy, estimate.estimator


def estimates_table(
    estimates: Sequence[Estimate], width: int, *, recent: bool = True, folded_by: str | None = None
) -> RenderableType:
    """Return estimates as a table, grouped by scope and labeler, with a row for each metric that has values.

    Args:
        estimates: estimates to show.
        width: columns of the terminal.
        recent: whether to compare the most recent values with all values, or a window with the window before.
        folded_by: what shows the metrics that repeat others, which are folded away; None shows them.
    """
    sections: list[tuple[list[Text], list[Estimate], list[Text]]] = []
    for group in groups_of(estimates):
        away = []
        if folded_by is not None:
            candidates = [*group.measured, *filter(_is_never_measured, group.unmeasured)]
            away = [row for row in candidates if is_folded(row.metric, row.estimate)]
        notes = [Text(TOO_WIDE_NOTE, style="bright_black")] if any(map(too_wide, group.measured)) else []
        notes += filter(None, (blind_line(group), unmeasured_line(group, away)))
        if away:
            notes.append(Text(f"folded away: {_names(away)} ({folded_by})", style="bright_black"))
        head = [*([Text()] if sections else []), heading(group.title, width)]
        sections.append((head, [row for row in group.measured if row not in away], notes))
    rows, above = in_sections(sections)
    if not rows:
        return Group(*above.get(0, ()))
    return fitted(_estimate_columns(rows, recent=recent), rows, width, above)


def _estimate_columns(rows: Sequence[Estimate], *, recent: bool) -> Iterator[Column[Estimate]]:
    yield Column("metric", lambda row: short_name(row.metric_name), yields=8, shortest=SHORTEST_NAME)
    yield from _estimator_column(rows)
    yield Column("estimate", lambda row: number_text(row.estimate), right=True)
    intervals = [ends_of(row) for row in rows if not (row.exact or too_wide(row))]
    lower, upper = (max((len(number_text(ends[place])) for ends in intervals), default=0) for place in (0, 1))

    def interval(row: Estimate) -> str:
        if row.exact or too_wide(row):
            return EXACT if row.exact else TOO_WIDE
        low, high = map(number_text, ends_of(row))
        return f"{low:>{lower}} to {high:>{upper}}"

    yield Column("interval", interval)
    wide, middle, narrow = (partial(bar, width=width) for width in BAR_WIDTHS)
    yield Column("", wide, yields=2, narrower=Column("", middle, yields=5, narrower=Column("", narrow, yields=9)))
    for name, yields in (("p50", 12), ("p95", 13)):
        yield Column(name, partial(_quantile, name), right=True, yields=yields, optional=True)
    counts = "n (eff.)" if any(map(_effective, rows)) else "n"
    yield Column(counts, lambda row: f"{row.n:,}{_effective(row)}", right=True)

    def clusters(row: Estimate) -> str:
        return "" if row.n_clusters is None or row.exact else f"{row.n_clusters:,}"

    yield Column("clusters", clusters, right=True, yields=3, optional=True)
    if recent:
        yield Column("recent" if all(row.window == ALL_TIME for row in rows) else "before", trend, yields=10)
    known = any(row.band for row in rows)
    title = "band" if known else "better"
    short = Column(title, _band, yields=11) if known else None
    middle_band = Column(title, lambda row: _band(row, limit_of(row)), yields=7, narrower=short)
    yield Column(title, lambda row: _band(row, rule_of(row)), yields=4, narrower=middle_band)
    yield Column("", lambda row: Text(absent_text(row), style="yellow"), yields=1, stacks=True, optional=True)


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


def too_wide(estimate: Estimate) -> bool:
    """Return whether there is no interval yet: it is the whole range, or too little is known of a count."""
    return estimate.estimate is not None and not (estimate.exact or estimate.has_interval)


def _estimator_column(rows: Sequence[Estimate]) -> Iterator[Column[Estimate]]:
    proxies: defaultdict[_RowKey, set[str]] = defaultdict(set)
    for row in rows:
        if row.estimator != "mean":
            proxies[_row_key(row)[:-2]].add(row.proxy or "")

    def name(row: Estimate) -> str:
        known = proxies.get(_row_key(row)[:-2])
        if known is None:
            return ""
        return f"{ESTIMATOR_NAMES[row.estimator]}{f' ({row.proxy})' if row.proxy and len(known) > 1 else ''}"

    if proxies:
        short: Column[Estimate] = Column(
            "estimator", lambda row: name(row).replace("prediction-", "pred.-"), yields=12, stacks=True
        )
        yield Column("estimator", name, yields=6, narrower=short)


def _quantile(name: str, row: Estimate) -> str:
    lowest, highest = row.value_range
    quantiles = (row.quantiles or {}) if row.metric in OF_USAGE or highest - lowest >= COUNT_RANGE else {}
    return _digits(quantiles[name]) if name in quantiles else ""


def _effective(row: Estimate) -> str:
    return "" if row.n_effective is None or row.exact else f" ({row.n_effective:,.0f})"


def _band(row: Estimate, rule: str = "") -> Text:
    band = row.band or ""
    return Text.assemble((band, BAND_STYLES.get(band, "")), "; " if band and rule else "", (rule, "bright_black"))


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
    rows, above = in_sections(
        ([heading(group.title, width)], [*group.measured, *group.unmeasured], ()) for group in groups_of(estimates)
    )

    def quantile(name: str, yields: int = 0) -> Column[Estimate]:
        return Column(name, lambda row: _digits((row.quantiles or {}).get(name)), right=True, yields=yields)

    columns: list[Column[Estimate]] = [
        Column("quantity", lambda row: row.metric.removeprefix("labeling."), yields=3, shortest=8),
        Column("n", lambda row: f"{row.n:,}", right=True),
        Column("mean", lambda row: _digits(row.estimate), right=True),
        quantile("p5", 1), quantile("p50"), quantile("p95"), quantile("p99", 2),
        Column("max", lambda row: _digits(row.maximum), right=True),
    ]  # fmt: skip
    return fitted(columns, rows, width, above)


def _digits(number: float | None) -> str:
    return "—" if number is None else f"{number:.4g}"


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


def reading_order(headlines: Sequence[Headline]) -> list[Headline]:
    """Return headlines by pipeline and segment, and there in the order of the registry of metrics."""
    places = {name: place for place, name in enumerate(METRICS)}
    return sorted(
        headlines,
        key=lambda headline: (
            headline.pipeline,
            headline.segment or "",
            places.get(headline.metric, len(places)),
            headline.metric,
        ),
    )


def headlines_table(headlines: Sequence[Headline], width: int, *, small: bool = False) -> RenderableType:
    """Return headlines as a table with a heading for each pipeline and segment value.

    Args:
        width: columns of the terminal.
        small: whether small metrics have rows, too.
    """
    ordered = reading_order(headlines)
    groups: dict[tuple[str, str | None], list[Headline]] = {}
    for headline in ordered:
        groups.setdefault((headline.pipeline, headline.segment), []).append(headline)
    sections: list[tuple[list[Text], list[Headline], list[Text]]] = []
    usual: dict[tuple[str, str | None], tuple[str, str]] = {}
    for scope, members in groups.items():
        listed = [
            headline for headline in members if headline.estimate is not None and (small or not headline.is_small)
        ]
        named = listed or members
        labeler, span = (
            Counter(texts).most_common(1)[0][0]
            for texts in ((headline.labeler_text for headline in named), (headline.range_text for headline in named))
        )
        usual[scope] = labeler, span
        title = heading((scope[0], scope[1] or "all", labeler, span), width)
        sections.append(([*([Text()] if sections else []), title], listed, _below(members, listed)))
    rows, above = in_sections(sections)
    if not rows:
        return Group(*above.get(0, ()))

    def detail(row: Headline) -> Text:
        labeler, span = usual[row.pipeline, row.segment]
        parts = [row.state_text] if row.state in ("moved", "firing", "silent") or row.steady_limit else []
        if row.judge is not None:
            parts.append(row.judge_text)
        if row.range_text != span:
            parts.append(row.range_text)
        if row.labeler_text != labeler:
            parts.append(f"by {row.labeler_text}")
        if row.coverage_text is not None:
            parts.append(row.coverage_text)
        return Text("; ".join(parts), style=STATE_STYLES[row.state])

    details: Column[Headline] = Column("", detail, yields=1, stacks=True, optional=True)
    return fitted([*HEADLINE_COLUMNS, details], rows, width, above)


def _below(members: Sequence[Headline], listed: Sequence[Headline]) -> list[Text]:
    lines: list[str] = []
    sights: dict[str, list[str]] = {}
    for headline in listed:
        if headline.would_see is not None:
            sights.setdefault(headline.would_see, []).append(short_name(headline.metric))
    lines += [f"would see, {', '.join(metrics)}: {sight}" for sight, metrics in sights.items()]
    valueless = [
        short_name(headline.metric) + (f" ({headline.judge_text})" if headline.judge else "")
        for headline in members
        if headline.estimate is None
    ]
    if valueless:
        lines.append(f"without a value: {', '.join(valueless)} (--estimator recommended shows why)")
    folded = [
        short_name(headline.metric) for headline in members if headline.estimate is not None and headline not in listed
    ]
    if folded:
        lines.append(f"folded away: {', '.join(folded)} (--all shows them)")
    if any(headline.metric in OF_USAGE for headline in listed):
        lines.append("p50 and p95 of latency, tokens and dollars: --estimator mean")
    others = sorted({name for headline in listed for name in headline.other_labelers})
    if others:
        lines.append(f"also scored by {', '.join(others)}: --labeler {others[0]} shows its numbers")
    return [Text(line, style="bright_black") for line in lines]


def _headline_interval(row: Headline) -> str:
    if row.lower is None or row.upper is None or not row.has_interval:
        return TOO_WIDE
    return interval_text((row.lower, row.upper))


def _headline_bar(row: Headline, width: int) -> Text:
    lowest, highest = row.value_range
    ends = lowest if row.lower is None else row.lower, highest if row.upper is None else row.upper
    return interval_bar(row.estimate, ends, (lowest, highest), width)


def _state(row: Headline) -> Text:
    count = f" ({row.needed:,} more)" if row.state in ("too few", "learning") and row.needed else ""
    return Text(f"{row.state}{count}", style=STATE_STYLES[row.state])


_WIDE, _MIDDLE, _NARROW = (partial(_headline_bar, width=width) for width in BAR_WIDTHS)


HEADLINE_COLUMNS: Final[Sequence[Column[Headline]]] = (
    Column("metric", lambda row: short_name(row.metric), yields=8, shortest=SHORTEST_NAME),
    Column("now", lambda row: number_text(row.estimate), right=True),
    Column("interval", _headline_interval),
    Column("", _WIDE, yields=2, narrower=Column("", _MIDDLE, yields=3, narrower=Column("", _NARROW, yields=5))),
    Column("n", lambda row: f"{row.n:,}", right=True),
    Column("state", _state),
    Column(
        "all time",
        lambda row: "" if row.range == "all" or row.all_time is None else number_text(row.all_time.estimate),
        right=True,
        yields=7,
    ),
    Column("band", lambda row: row.band or "", yields=6, optional=True),
)


def headlines_note(headlines: Sequence[Headline], *, options: bool = True) -> str:
    """Return a sentence about level and validity of the intervals.

    Args:
        options: whether to name the options that change the range.
    """
    level = f"{headlines[0].confidence:.0%} intervals" if headlines else "no numbers"
    change = "; --last, --since or --all-time change the range" if options else ""
    return f"{level}, valid at every look{change}"


TITLE_CHARS: Final = 12
"""Most characters of a pipeline's name as the title of a column; longer names are in a line above the table."""


METRIC_CHARS: Final = 28
"""Fewest characters of a metric's name in a table of differences: the names of all built-in metrics are whole."""


def compared_table(rows: Sequence[Compared], first: str, second: str, width: int) -> RenderableType:
    """Return the differences of two pipelines, one row for each metric."""
    names = printable(first), printable(second)
    long = max(map(len, names)) > TITLE_CHARS
    a, b = ("A", "B") if long else names
    legend = [heading([f"A: {names[0]}", f"B: {names[1]}"], width)] if long else []

    def interval(row: Compared) -> str:
        ends = row.difference.lower, row.difference.upper
        return EXACT if row.exact else " to ".join(_signed_text(end, "+", row) for end in ends)

    columns: list[Column[Compared]] = [
        Column("metric", partial(_compared_name, names), yields=5, shortest=METRIC_CHARS),
        Column(a, lambda row: _signed_text(row.means[0], "", row), right=True, yields=4, stacks=True),
        Column(b, lambda row: _signed_text(row.means[1], "", row), right=True, yields=4, stacks=True),
        Column(f"{a} - {b}", _difference, right=True, yields=1, narrower=Column("difference", _difference, right=True)),
        Column("interval", interval),
        Column("n", lambda row: _both(row.n), right=True, yields=3, stacks=True),
        Column("clusters", lambda row: "" if row.exact else _both(row.n_clusters), right=True, yields=2, optional=True),
        Column(
            "verdict",
            lambda row: Text(row.verdict, style="bright_black" if row.verdict in ("undecided", "equal") else "bold"),
        ),
    ]
    return Group(*legend, fitted(columns, rows, width))


def _compared_name(sides: tuple[str, str], row: Compared) -> str:
    key = row.key
    name = short_name(shown_metric(key.metric, key.version))
    # Two labelers that are the sides stand above the table already.
    if row.other_labeler is not None and sides != (key.labeler, row.other_labeler):
        name = f"{name} · {key.labeler} and {row.other_labeler}"
    return name if key.segment is None else f"{name} · {key.segment}"


def _both(counts: Iterable[int | None]) -> str:
    return " and ".join(f"{n:,}" for n in dict.fromkeys(counts) if n is not None)


def _difference(row: Compared) -> str:
    return _signed_text(row.difference.estimate, "+", row)


def _signed_text(value: float, sign: str, row: Compared) -> str:
    return format(value, f"{sign}z.{row.decimals}f") if abs(value) < 10_000 else format(value, f"{sign}z,.0f")


def comparison_method(rows: Sequence[Compared]) -> str:
    """Return sentences about the method of the differences."""
    pairs = max((row.n[0] for row in rows if row.method == "paired"), default=0)
    sentences = []
    if pairs:
        sentences.append(f"Paired by interaction id: {pairs:,} pairs.")
        if any(row.exact for row in rows):
            sentences.append("Both workspaces are complete, so their difference is exact.")
    if any(row.strategy == "ratio" for row in rows):
        sentences.append("Quality per dollar and per second: the interval holds whenever those of all four means do.")
    if any(row.method == "unpaired" for row in rows):
        sentences.append(f"{'Other rows are unpaired' if pairs else 'Unpaired'}: the difference of two means.")
    return " ".join(sentences)


MOST_ROWS = 12
"""Segment values that a table shows."""


def segments_table(
    change: ExplainedChange, name: str, width: int, stretches: tuple[str, str] = ("before", "since")
) -> RenderableType:
    """Return the parts of segment values in a change, the largest first, and the whole.

    Args:
        width: columns of the terminal.
        stretches: names of the two stretches.
    """
    rows: list[tuple[Text | str, ...]] = []
    for segment in change.segments[:MOST_ROWS]:
        label = Text(printable(segment.name.removeprefix(f"{name}=")), style="bold" if segment.is_carrier else "")
        shares = " ".join(f"{100 * share.estimate:5.1f}%" for share in segment.share)
        means = " ".join("    —" if mean is None else f"{mean:.3f}" for mean in segment.mean)
        within = "new" if segment.is_new else f"{segment.within:+.3f}"
        rows.append((label, shares, means, f"{segment.mix:+.3f}", within))
    left = change.segments[MOST_ROWS:]
    if left:
        parts = (sum(segment.mix for segment in left), sum(segment.within for segment in left))
        rows.append((f"{len(left):,} more", "", "", *(f"{part:+.3f}" for part in parts)))
    before, since = change.mean
    whole = ("all", "", f"{before:.3f} {since:.3f}", f"{change.mix.estimate:+.3f}", f"{change.within.estimate:+.3f}")
    rows.append(tuple(Text(cell, style="bold") for cell in whole))
    titles = (*(f"{title} {stretches[0]}, {stretches[1]}" for title in ("share", "mean")), "mix", "within")
    columns: list[Column[tuple[Text | str, ...]]] = [Column(printable(name), itemgetter(0), yields=1, shortest=8)]
    columns += [Column(title, itemgetter(place), right=True) for place, title in enumerate(titles, 1)]
    return fitted(columns, rows, width)


def parts_table(change: ExplainedChange) -> RenderableType:
    """Return the change and its two parts with their intervals."""
    parts = (("change", change.total), ("mix", change.mix), ("within", change.within))
    columns: list[Column[tuple[str, Interval[float, float]]]] = [
        Column("", lambda row: Text(row[0], style="bright_black")),
        Column("", lambda row: Text(f"{row[1].estimate:+.3f}", style="bright_black")),
        Column("", lambda row: Text(_ends(row[1]), style="bright_black")),
    ]
    return folded(columns, parts)


DIFFERENCE_COLUMNS: Final[Sequence[Column[ExplainedDifference]]] = (
    Column("metric", lambda row: short_name(shown_metric(row.key.metric, row.key.version)), yields=1, shortest=16),
    Column("difference", lambda row: f"{row.change.total.estimate:+.3f}", right=True),
    Column("mix", lambda row: f"{row.change.mix.estimate:+.3f}", right=True),
    Column("interval", lambda row: _ends(row.change.mix), right=True),
    Column("within", lambda row: f"{row.change.within.estimate:+.3f}", right=True),
    Column("interval", lambda row: _ends(row.change.within), right=True),
)
"""Of differences of two pipelines, split into mix and within, one row a metric."""


def _ends(part: Interval[float, float]) -> str:
    return f"{part.lower:+.3f} to {part.upper:+.3f}"


def reference_table(estimates: Sequence[Estimate], dataset: str, width: int) -> RenderableType:
    """Return our means beside published means, with differences in percentage points.

    Raises:
        ValueError: there are no published results of that data set.
    """
    from ragtide_offline.score.reference_results import reference_results  # noqa: PLC0415 - it imports Redis
    from ragtide_offline.score.summary import compare  # noqa: PLC0415

    published = reference_results(dataset)
    rows = [
        (metric if result is published[0] else "", result.name, gap)
        for metric in published[0].means
        for result in published
        for gap in compare(estimates, result)
        if gap.metric == metric
    ]
    columns: list[Column[tuple[str, str, Comparison]]] = [
        Column("metric", itemgetter(0), yields=2, shortest=16),
        Column("system", itemgetter(1), yields=1, shortest=12),
        Column("published %", lambda row: f"{row[2].theirs_percent:.1f}", right=True),
        Column("ours %", lambda row: f"{row[2].ours_percent:.1f}", right=True),
        Column("points", lambda row: f"{row[2].points:+.1f}", right=True),
    ]
    title = Text(f"{published[0].title}: published means, and ours beside them", style="bold")
    return Group(title, fitted(columns, rows, width))


def waiting_lines(numbers: Sequence[Estimate] | Sequence[Headline], clusters: ClusterSettings) -> list[str]:
    """Return a line for each pipeline with answers in open sessions, on which no interval rests yet."""
    waiting: defaultdict[str, int] = defaultdict(int)
    for estimate in numbers:
        waiting[estimate.pipeline] = max(waiting[estimate.pipeline], estimate.n_waiting)
    return [
        f"{f'{pipeline}: ' if len(waiting) > 1 else ''}{waiting_sentence(n, clusters)}"
        for pipeline, n in sorted(waiting.items())
        if n
    ]


def print_headlines(headlines: Sequence[Headline], *, small: bool, clusters: ClusterSettings) -> None:
    """Print headlines as a table with diagnoses.

    Args:
        small: whether small metrics have rows.
        clusters: settings by which the answers of a session count.
    """
    from ragtide_aggregator.reading.diagnoses import headline_diagnoses  # noqa: PLC0415 - it imports Redis

    out.print(headlines_note(headlines), style="bright_black", markup=False, highlight=False)
    out.print(headlines_table(headlines, out.width, small=small))
    for line in waiting_lines(headlines, clusters):
        out.print(line, style="bright_black", markup=False, highlight=False)
    for where, diagnosis in headline_diagnoses(headlines):
        out.print(f"{where}: {diagnosis.sentence()}", markup=False, highlight=False)


def print_estimates(
    estimates: Sequence[Estimate], total: int, *, labeling: bool, small: bool, clusters: ClusterSettings
) -> None:
    """Print estimates as a table with diagnoses, and the number of estimates that are not shown.

    Args:
        total: number of estimates that were found.
        labeling: whether they are of time and cost of labeling.
        small: whether metrics that repeat others have rows.
        clusters: settings by which the answers of a session count.
    """
    from ragtide_aggregator.reading.diagnoses import diagnoses  # noqa: PLC0415 - it imports Redis

    if estimates and labeling:
        out.print(labeling_table(estimates, out.width))
    elif estimates:
        out.print(estimates_note(estimates), style="bright_black", markup=False, highlight=False)
        out.print(estimates_table(estimates, out.width, folded_by=None if small else "--all shows them"))
        for line in waiting_lines(estimates, clusters):
            out.print(line, style="bright_black", markup=False, highlight=False)
        # Of live traffic the headlines have one, where something changed.
        for where, diagnosis in diagnoses([estimate for estimate in estimates if estimate.run is not None]):
            out.print(f"{where}: {diagnosis.sentence()}", markup=False, highlight=False)
    if hidden := total - len(estimates):
        err.print(f"{hidden:,} estimates of segment values are not shown: --segments shows them.", highlight=False)
