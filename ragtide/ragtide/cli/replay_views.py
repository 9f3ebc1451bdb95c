"""Progress and results of a replay and of a test of rules."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rich.console import RenderableType

from ragtide_offline.replay.plan import ReplayPlan
from ragtide_offline.replay.relabeling import RelabelProgress
from ragtide_offline.replay.replay import Show
from ragtide_offline.replay.restoring import Restored
from ragtide_offline.replay.result import ReplayResult, RuleAlerts
from ragtide_offline.replay.session import ReplayProgress
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_schemas import Alert
from ragtide_schemas.alert_text import alert_text

from .alert_views import alerts_view
from .console import err, out
from .fitting import Column, fitted
from .progress import Shown, cost_note
from .tables import estimates_note, estimates_table


def shown_replay(bar: Shown) -> Show:
    """Return a function that draws the progress of a replay on a bar."""

    def show(progress: ReplayProgress | RelabelProgress) -> None:
        if isinstance(progress, RelabelProgress):
            bar(progress.labeling.done, _cost(progress))
        else:
            bar(progress.done, f"{progress.at:%Y-%m-%d %H:%M}" if progress.at else "")

    return show


def shown_labels(bar: Shown) -> Callable[[int, float], None]:
    """Return a function that draws the progress of labeling in processes on a bar."""
    return lambda done, spent_usd: bar(done, cost_note(spent_usd, done, None))


def print_restored(restored: Restored, recording: Recording) -> None:
    """Print what was put back into the live streams, and what it does not have of the original texts."""
    found = f"{restored.interactions:,} interactions and {restored.feedback:,} feedback items are put back"
    if restored.known:
        found += f"; {restored.known:,} interactions were there already"
    err.print(found, highlight=False)
    redactions = sorted({name for state in recording.partitions.values() for name in state.redaction})
    if redactions and restored.interactions:
        err.print(
            f"The recorder redacts {', '.join(redactions)}: scores of redacted texts may differ from the first ones.",
            highlight=False,
        )


def unlabeled(counts: Mapping[str, Any], workspace: str) -> str:
    """Return a sentence about the dead letters of a replay; empty if there are none."""
    reasons: Mapping[str, int] = counts.get("dead_letters", {})
    if not reasons:
        return ""
    named = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
    return f"Dead letters: {named}. Show them with: ragtide dead-letters --workspace {workspace}"


def _cost(progress: RelabelProgress) -> str:
    labeling, projected = progress.labeling, progress.projected_usd
    parts = []
    if labeling.prompt_tokens or labeling.completion_tokens:
        parts.append(f"{labeling.prompt_tokens + labeling.completion_tokens:,} tokens")
        parts.append(f"${labeling.cost_usd:.2f}" + ("" if projected is None else f" of about ${projected:.2f}"))
    if labeling.cache_hits:
        parts.append(f"{labeling.cache_hits:,} from the cache")
    if labeling.dead:
        parts.append(f"{labeling.dead:,} dead letters")
    return ", ".join(parts)


def print_replay(plan: ReplayPlan, found: ReplayResult) -> None:
    """Print the estimates and alerts of a replay."""
    whole = [estimate for estimate in found.estimates or () if estimate.segment is None]
    out.print(estimates_note(whole), style="bright_black", markup=False, highlight=False)
    out.print(estimates_table(whole, out.width))
    out.print()
    out.print(rules_table(found.rules, out.width))
    counts = found.counts
    rate = counts["n"] / max(found.seconds, 1e-9)
    cost = f", ${counts['cost_usd']:.4f}" if counts.get("cost_usd") else ""
    err.print(
        f"{counts['n']:,} of {counts['population_size']:,} in {found.seconds:.1f} s ({rate:,.0f}/s){cost}; "
        f"show the estimates with: ragtide estimates --workspace {plan.run}",
        highlight=False,
        soft_wrap=True,
    )
    if plan.relabel and (redacted := plan.redacted):
        recorded = plan.recording.count(EntryKind.INTERACTIONS, pipelines=plan.selection.pipelines)
        err.print(
            f"{redacted:,} of {recorded:,} recorded interactions had texts redacted: their labels may differ from live "
            "ones.",
            highlight=False,
            soft_wrap=True,
        )


def rules_table(rules: Mapping[str, RuleAlerts], width: int) -> RenderableType:
    """Return the alerts of each rule in the replay, and their number in production; many times are below their row."""
    columns = [
        Column("rule", list(rules), yields=2, shortest=16),
        Column("alerts", [f"{len(rule.replay):,}" for rule in rules.values()], right=True),
        Column("in production", [f"{rule.production:,}" for rule in rules.values()], right=True),
        Column("fired", [", ".join(map(_fired, rule.replay)) for rule in rules.values()], yields=1, stacks=True),
    ]
    return fitted(columns, width)


def _fired(alert: Alert) -> str:
    where = alert.pipeline if alert.segment is None else f"{alert.pipeline} {alert.segment}"
    return f"{alert.fired_at:%Y-%m-%d %H:%M:%S} {where}"


ALERTS_SHOWN: Final = 10
"""Most alerts that `ragtide rules test` shows in full."""


def print_rule_test(recording: Recording, found: ReplayResult, total: int) -> None:
    """Print the alerts that rules would have raised."""
    out.print(rules_table(found.rules, out.width))
    if found.alerts:
        out.print()
        first = sorted(found.alerts, key=lambda alert: alert.fired_at)[:ALERTS_SHOWN]
        out.print(alerts_view([alert_text(alert) for alert in first]))
    if len(found.alerts) > ALERTS_SHOWN:
        err.print(f"{len(found.alerts) - ALERTS_SHOWN:,} more alerts: --json has all of them", highlight=False)
    err.print(f"{total:,} metric events of {recording.url} in {found.seconds:.1f} s", highlight=False, soft_wrap=True)
