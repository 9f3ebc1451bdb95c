"""The page of two runs that are compared."""

from collections import Counter
from typing import Final

from .comparing import PAIRED, Gap, RunComparison
from .pages import Format, number, page

SENTENCES_MAX: Final = 4
"""Most pairs of configs of which each has a sentence."""


def comparison_page(report: RunComparison, layout: Format) -> str:
    """Return the comparison of two runs as a page."""
    return page(
        "comparison",
        layout,
        {"report": report, "made_at": report.made_at, "verdicts": verdicts(report), "meaning": meaning(report)},
    )


def verdicts(report: RunComparison) -> list[str]:
    """Return what came out, a sentence for each pair of configs, or for all if they are many; none for replays."""
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
    together = f", so that for one metric all {count:,} pairs hold at once" if count > 1 else ""
    parts = [
        f"Differences are {report.first.run} minus {report.second.run}; intervals {100 * report.confidence_each:.4g}%"
    ]
    parts[0] += f"{together}, and they hold at every look."
    methods = {gap.method for gap in report.gaps}
    if PAIRED in methods:
        experiments = report.first.kind == "experiment"
        parts.append(
            "Paired: item by item, on the items on which both have a score, by betting."
            if experiments
            else "Paired by interaction id, on the interactions that both have a score of."
        )
        if any(gap.difference.lower == gap.difference.upper for gap in report.gaps):
            items = "items" if experiments else "interactions"
            parts.append(f"Where both were run on all {items}, no uncertainty is left about these {items}.")
    if methods - {PAIRED}:
        parts.append(
            "Unpaired: the runs share no items, so the difference of two means, each with an interval of its own; far "
            "more items are needed to see the same difference."
        )
    return " ".join(parts)


def _sentence(report: RunComparison, gap: Gap) -> str:
    first, second = (f"{gap.first} of {report.first.run}", f"{gap.second} of {report.second.run}")
    ends = f"{number(gap.difference.estimate)} ({number(gap.difference.lower)} to {number(gap.difference.upper)})"
    if gap.verdict == "undecided":
        return f"It is undecided whether {first} is better than {second} in {gap.metric}: {ends}."
    said = f"{gap.verdict} than" if gap.verdict != "different" else "different from"
    return f"{first} is {said} {second} in {gap.metric}: {ends}."
