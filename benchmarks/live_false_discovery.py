"""The share of false alarms of alert rules on many watches, and how soon they find changes, through the live state.

    python benchmarks/live_false_discovery.py [--runs 8]

Seeded. Pipelines have yes-or-no metrics, each watched as a whole and in segments by drift rules with a given baseline,
which is the true mean: the worst case. Metrics of an interaction depend on each other. Periods are days. The first one
is quiet. A quarter into the second one some (segment, metric) fall, and with them the whole. Printed for the second one
are the mean of the largest share of false alarms at any moment, the number of false alarms, the share of changed
watches found by the end, and their delay in values of the watch.
"""

import argparse
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.special import ndtri

from ragtide_aggregator.events.queue import EventQueue
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.settings.alerting import BudgetSettings
from ragtide_schemas import Alert, AlertRule, MetricEvent

METRIC_NAMES: Final = ("trace.adherence", "trace.context_relevance", "trace.context_utilization", "trace.completeness")
LIVE_PIPELINES, LANGUAGES = 20, ("de", "en", "fr", "nl")
BASELINE, LOW = 0.85, 0.6
SHARED_LUCK: Final = 0.7
DAY_MS: Final = 86_400_000
DAY: Final = datetime(2026, 11, 21, tzinfo=UTC)
ITEMS: Final = 1_000
"""Interactions of a pipeline in a period."""
FALL_AT: Final = 0.25
RULES: Final = tuple(
    AlertRule(name=f"{kind}-{metric}", kind="drift", metric=metric, baseline=BASELINE, min_effect=0, segment=segment)
    for kind, segment in (("whole", None), ("lang", "lang"))
    for metric in METRIC_NAMES
)
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "false discovery rate": {"budget": BudgetSettings(false_discovery_rate=0.1, period="1d")},
    "budget 0.1": {"budget": BudgetSettings(false_alarms=0.1, period="1d")},
    "budget 1": {"budget": BudgetSettings(false_alarms=1.0, period="1d")},
}
Watch = tuple[str, str | None, str]
"""Pipeline, segment and metric."""


class FallingTraffic(NamedTuple):
    """The interactions of two periods, with the number of values of each watch that falls before it falls."""

    events: list[MetricEvent]
    changed: dict[Watch, int]


class Alarms(NamedTuple):
    """The alarms of one run."""

    worst_share: float
    false: int
    delays: list[float]


def traffic(changes: int, seed: int, items: int = ITEMS, pipelines: int = LIVE_PIPELINES) -> FallingTraffic:
    """Return interactions in which so many (pipeline, segment, metric) fall."""
    rng = np.random.default_rng((20261122, changes, seed))
    pairs = rng.choice(pipelines * len(METRIC_NAMES), changes, replace=False)
    falls = {(pair // len(METRIC_NAMES), int(rng.integers(len(LANGUAGES))), pair % len(METRIC_NAMES)) for pair in pairs}
    seen: dict[Watch, int] = {}
    before: dict[Watch, int] = {}
    events = []
    for number in range(2 * items * pipelines):
        item, pipeline = divmod(number, pipelines)
        fallen = item >= (1 + FALL_AT) * items
        language = int(rng.integers(len(LANGUAGES)))
        means = np.array(
            [LOW if fallen and (pipeline, language, m) in falls else BASELINE for m in range(len(METRIC_NAMES))]
        )
        luck = np.sqrt(SHARED_LUCK) * rng.standard_normal()
        scores = luck + np.sqrt(1 - SHARED_LUCK) * rng.standard_normal(means.size) < ndtri(means)
        time = DAY + timedelta(days=number / (items * pipelines))
        segment = f"lang={LANGUAGES[language]}"
        if fallen and not before:
            before = dict(seen)
        for metric in METRIC_NAMES:
            for watch in ((f"p{pipeline}", None, metric), (f"p{pipeline}", segment, metric)):
                seen[watch] = seen.get(watch, 0) + 1
        events.append(
            MetricEvent(
                interaction_id=f"i-{number}",
                pipeline=f"p{pipeline}",
                occurred_at=time,
                labeled_at=time,
                labeler="simulated",
                labeler_version="1",
                profile="ragbench",
                segments={"lang": LANGUAGES[language]},
                scores=dict(zip(METRIC_NAMES, scores.astype(float).tolist(), strict=True)),
            )
        )
    changed: dict[Watch, int] = {}
    for pipeline, language, metric in falls:
        for scope in (None, f"lang={LANGUAGES[language]}"):
            fallen_watch = (f"p{pipeline}", scope, METRIC_NAMES[metric])
            changed[fallen_watch] = before[fallen_watch]
    return FallingTraffic(events, changed)


def alerts_of(events: list[MetricEvent], options: dict[str, Any]) -> list[Alert]:
    """Return the alerts that fired."""
    queue = EventQueue()
    for event in events:
        queue.add(event, int(event.labeled_at.timestamp() * 1000))
    state = AggregatorState(StateOptions(rules=RULES, quantiles=False, **options))
    state.apply_columns(queue.columns())
    return [alert for alert in state.take_changes().alerts if alert.status == "firing"]


def judged(alerts: list[Alert], changed: dict[Watch, int]) -> Alarms:
    """Return the alarms of the second period: the largest share of false ones, their number, and the delays."""
    false, raised, worst = 0, 0, 0.0
    delays = dict.fromkeys(changed, np.inf)
    for alert in alerts:
        if alert.fired_at < DAY + timedelta(days=1):
            continue
        watch = (alert.pipeline, alert.segment, str(alert.metric))
        delay = (alert.n or 0) - changed.get(watch, np.inf)
        raised += 1
        if delay > 0:
            delays[watch] = min(delays[watch], delay)
        else:
            false += 1
        worst = max(worst, false / raised)
    return Alarms(worst, false, list(delays.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8)
    runs = parser.parse_args().runs
    watches = LIVE_PIPELINES * (1 + len(LANGUAGES)) * len(METRIC_NAMES)
    print(
        f"\n## Alert rules on the state\n\n{runs} times two periods of {ITEMS:,} interactions in each of "
        f"{LIVE_PIPELINES} pipelines, {watches} watches, means of {BASELINE} of which some fall to {LOW}.\n"
    )
    header = (
        "changed watches", "setting", "largest share of false alarms, mean", "false alarms a period", "changes found",
        "delay, a quarter of changes", "delay, half of changes",
    )  # fmt: skip
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for changes in (0, 5, 40):
        outcomes: dict[str, list[Alarms]] = {name: [] for name in OPTIONS}
        for seed in range(runs):
            drawn = traffic(changes, seed)
            for name, options in OPTIONS.items():
                outcomes[name].append(judged(alerts_of(drawn.events, options), drawn.changed))
        for name, found in outcomes.items():
            shares = np.array([outcome.worst_share for outcome in found])
            delays = np.concatenate([outcome.delays for outcome in found])
            power = ["", "", ""]
            if changes:
                quarter, half = np.quantile(delays, [0.25, 0.5], method="higher")
                power = [
                    f"{np.isfinite(delays).mean():.1%}",
                    *(f"{delay:,.0f}" if np.isfinite(delay) else "not found" for delay in (quarter, half)),
                ]
            cells = [
                f"{2 * changes}",
                name,
                f"{shares.mean():.3f} ± {shares.std() / np.sqrt(runs):.3f}",
                f"{np.mean([outcome.false for outcome in found]):.2f}",
                *power,
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
