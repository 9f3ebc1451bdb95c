"""The page of a comparison: the values of its template, and sentences about the outcome and the intervals."""

from collections import Counter
from typing import Final

from .comparing import PAIRED, MetricDifference, RunComparison
from .pages import Format, ends, number, page

SENTENCES_MAX: Final = 4
"""Up to this number of pairs of configs each pair has a sentence of its own."""


def comparison_page(report: RunComparison, layout: Format) -> str:
    """Return the comparison of two workspaces as a page."""
    return page(
        "comparison",
        layout,
        {
            "report": report,
            "made_at": report.made_at,
            "verdicts": verdicts(report),
            "meaning": meaning(report),
            "things": _things(report),
        },
    )


def verdicts(report: RunComparison) -> list[str]:
    """Return a sentence for each pair of configs, or one sentence for many pairs; none for replays."""
    gaps = [gap for gap in report.gaps if gap.metric == report.metric]
    if len(gaps) <= SENTENCES_MAX:
        return [_sentence(report, gap) for gap in gaps]
    counts = Counter(gap.verdict for gap in gaps)
    said = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.most_common())
    return [
        f"Of {len(gaps):,} configs of {report.first.run} compared in {report.metric} with {report.second.run}: {said}."
    ]


def meaning(report: RunComparison) -> str:
    """Return what the intervals mean."""
    count = len({(gap.first, gap.second) for gap in report.gaps})
    together = f", so that the intervals of all {count:,} pairs hold together for each metric" if count > 1 else ""
    level = f"Intervals have the level {100 * report.confidence_each:.4g}%{together}. They are valid at every look."
    parts = [f"Each difference is {report.first.run} minus {report.second.run}.", level]
    methods = {gap.method for gap in report.gaps}
    if PAIRED in methods:
        experiments = report.first.kind == "experiment"
        parts.append(
            "Paired: item by item, on the items on which both have a score. The interval is a betting sequence."
            if experiments
            else "Paired: by interaction id, on the interactions on which both have a score."
        )
        if any(gap.difference.lower == gap.difference.upper for gap in report.gaps):
            items = _things(report)
            parts.append(
                f"A difference on all {items} of the data is exact for these {items}: its interval has no width."
            )
    if methods - {PAIRED}:
        parts.append(
            "Unpaired: the two share no items. The interval is that of a difference of two means, and needs far more "
            "items to show the same difference."
        )
    return " ".join(parts)


def _things(report: RunComparison) -> str:
    return "questions" if report.first.kind == "experiment" else "interactions"


def _sentence(report: RunComparison, gap: MetricDifference) -> str:
    first, second = (f"{gap.first} of {report.first.run}", f"{gap.second} of {report.second.run}")
    shown = f"{number(gap.difference.estimate)} ({ends(gap.difference, gap.n[0], _things(report))})"
    if gap.verdict == "undecided":
        return f"It is undecided whether {first} is better than {second} in {gap.metric}: {shown}."
    said = {"different": "different from", "equal": "equal to"}.get(gap.verdict, f"{gap.verdict} than")
    return f"{first} is {said} {second} in {gap.metric}: {shown}."
