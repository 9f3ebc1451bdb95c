"""Day and night through the live alert rules: run lengths and delays with `baseline = "seasonal"`, and without.

    python benchmarks/seasonal_rules.py [--runs 100]

Seeded. The traffic is that of benchmarks/seasons.py: yes-or-no values, 2,000 a day, whose mean is 0.85 plus a sine of
one day. `RuleEvaluator`, which the aggregator uses, takes them as values of one pipeline a run. It learns 28 days;
then a run begins at a random hour. Run lengths without a fall are cut at 20,000 values. Falls at all hours begin after
500 values; delays are those of runs without an alarm before, cut at 20,000 values. All rules state a run length of
10,000; their min_effect is 0 where nothing else is said.
"""

import argparse
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from seasons import (
    BEFORE,
    CONFIDENCE,
    FALLS,
    LONGEST,
    MEAN,
    PER_HOUR,
    RUN_LENGTH,
    SESSION,
    TRAFFIC,
    SeasonalTraffic,
    hour_of,
    unlike,
)

from ragtide import AlertRule, MetricEvent
from ragtide_aggregator.alerts.evaluator import RuleEvaluator
from ragtide_aggregator.alerts.rule_values import Arrived, RuleValues, ValueExtremes
from ragtide_aggregator.alerts.seasonal_baseline import SeasonalBaseline
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.statistics.drift.seasons import HOUR_MS
from ragtide_aggregator.statistics.tables.batches import Floats, Rows
from ragtide_schemas import from_milliseconds

METRIC: Final = "trace.adherence"
DAYS: Final = 28


class AnyEvent:
    """The event of all values: alerts are counted here, not read."""

    def event(self, place: int) -> MetricEvent:
        """Return the event."""
        time = from_milliseconds(0)
        return MetricEvent(
            interaction_id="any", pipeline="any", occurred_at=time, labeled_at=time, labeler="simulated",
            labeler_version="1", profile="ragbench", scores={METRIC: 0.0},
        )  # fmt: skip

    def interaction_id(self, place: int) -> str:
        """Return the id of the event."""
        return f"any-{place}"

    def covariate(self, name: str) -> NDArray[Any]:
        """Return no covariate."""
        return np.full(1, np.nan)


SOURCE: Final = AnyEvent()


@dataclass
class Evaluated:
    """A rule on many runs, and how many values of each run it has taken."""

    evaluator: RuleEvaluator
    counted: NDArray[np.int64]

    @classmethod
    def of(cls, rule: AlertRule, runs: int) -> "Evaluated":
        """Return the rule before all values."""
        evaluator = RuleEvaluator((rule,), None)
        for run in range(runs):
            evaluator.add_row(EstimateKey(f"run-{run}", None, None, METRIC, "ragbench", "simulated", "1"))
        return cls(evaluator, np.zeros(runs, dtype=np.int64))

    def take(self, runs: Rows, hours: NDArray[np.int64], values: Floats, size: int) -> dict[int, int]:
        """Add an hour of values of some runs; return the place of the first firing alert of each run that has one.

        Args:
            runs: rows.
            hours: hour since 1970, one a run.
            values: shape (runs, values).
            size: of sessions, which are taken as closed clusters; 1 for values by themselves.
        """
        sessions = values.reshape(runs.size, -1, size)
        count = sessions.shape[1]
        of = np.tile(runs, count)
        means = sessions.mean(axis=2).T.ravel()
        places = (np.arange(count) + 1) * size - 1
        begins = np.repeat((places - size + 1) * HOUR_MS // values.shape[1], runs.size)
        numbers = (self.counted[runs] + places[:, None] + 1).ravel()
        self.counted[runs] += values.shape[1]
        clusters: dict[str, Any] = {}
        if size > 1:
            lowest, highest = sessions.min(axis=2).T.ravel(), sessions.max(axis=2).T.ravel()
            names = ["any"] * of.size
            clusters = {
                "sizes": np.full(of.size, size, dtype=np.intp),
                "mean_squares": (sessions**2).mean(axis=2).T.ravel(),
                "extremes": ValueExtremes(lowest, highest, names, names),
            }
        hour_of_each = np.tile(hours, count)
        given = RuleValues(
            of, means, hour_of_each * HOUR_MS + begins, numbers, np.arange(of.size), SOURCE, hour_of_each, **clusters
        )
        found: dict[int, int] = {}
        for raised in self.evaluator.evaluate([Arrived(given, np.arange(of.size))]):
            if raised.alert.status == "firing":
                found.setdefault(raised.row, int(places[raised.position // runs.size]))
        return found

    def copied(self) -> "Evaluated":
        """Return the same rule in the same state, as after a restart."""
        rule = self.evaluator.of(0)[0].rule
        again = Evaluated.of(rule, self.counted.size)
        again.counted[:] = self.counted
        for row in range(self.counted.size):
            (data,) = self.evaluator.dump({row: int(self.counted[row])}).values()
            again.evaluator.of(row)[0].load(data)
            again.evaluator.refresh(row)
        return again


def fall_rule(**fields: Any) -> AlertRule:
    """Return a rule for falls with a run length of 10,000."""
    given: dict[str, Any] = {
        "name": "fall", "kind": "drift", "metric": METRIC, "run_length": RUN_LENGTH, "min_effect": 0.0,
    }  # fmt: skip
    return AlertRule(**{**given, **fields})


def learned(rule: AlertRule, traffic: SeasonalTraffic, runs: int, days: int = DAYS) -> Evaluated:
    """Return a rule on many runs that has learned from so many days."""
    rng = np.random.default_rng((20261123, int(1000 * traffic.swing), int(10 * traffic.correlation)))
    found, every = Evaluated.of(rule, runs), np.arange(runs)
    shifts = unlike(rng, runs, days, traffic.wobble)
    for number in range(24 * days):
        values = hour_of(rng, number, np.full(runs, number % 24), traffic, shifts[:, [number // 24]])
        found.take(every, np.full(runs, number), values, SESSION if traffic.correlation else 1)
    return found


def alarms(given: Evaluated, traffic: SeasonalTraffic, fall: float, before: int) -> NDArray[np.int64]:
    """Return the number of values until the first alarm, one a run; -1 without one within LONGEST after `before`."""
    runs = given.counted.size
    rng = np.random.default_rng((20261122, int(1000 * traffic.swing), int(1000 * fall)))
    first = rng.integers(24, size=runs)
    shifts = unlike(rng, runs, (before + LONGEST) // sum(PER_HOUR) // 8 + 3, traffic.wobble)
    rule, found = given.copied(), np.full(runs, -1, dtype=np.int64)
    start, number = 0, 0
    while start < before + LONGEST and np.any(found < 0):
        places = start + np.arange(PER_HOUR[number % 3])
        lower = np.where(places >= before, fall, 0.0) + shifts[np.arange(runs), (first + number) // 24, None]
        values = hour_of(rng, number, (first + number) % 24, traffic, lower)
        going = np.flatnonzero(found < 0)
        hours = DAYS * 24 + first[going] + number
        raised = rule.take(going, hours, values[going], SESSION if traffic.correlation else 1)
        for run, place in raised.items():
            found[run] = start + place + 1
        start, number = start + places.size, number + 1
    return found


def run_length(given: Evaluated, traffic: SeasonalTraffic) -> tuple[float, float]:
    """Return the mean number of values until a false alarm, cut at LONGEST, and its standard error."""
    found = alarms(given, traffic, 0.0, 0)
    lengths = np.where(found < 0, LONGEST, np.minimum(found, LONGEST))
    return float(lengths.mean()), float(lengths.std() / np.sqrt(lengths.size))


def delay(given: Evaluated, traffic: SeasonalTraffic, fall: float) -> float:
    """Return the mean delay of runs without an alarm before the fall, cut at LONGEST."""
    found = alarms(given, traffic, fall, BEFORE)
    late = np.where(found < 0, LONGEST, found - BEFORE)
    return float(late[(found < 0) | (found > BEFORE)].mean())


def swing_of(given: Evaluated) -> Floats:
    """Return the swing that each run's rule has measured."""
    found = [given.evaluator.of(row)[0].baseline for row in range(given.counted.size)]
    baselines = [baseline for baseline in found if isinstance(baseline, SeasonalBaseline)]
    rows = np.array([baseline.row for baseline in baselines])
    return np.asarray(baselines[0].table.swings(rows, direction="fall", confidence=CONFIDENCE).estimate)


def rules(traffic: SeasonalTraffic, runs: int) -> dict[str, Evaluated]:
    """Return rules that are ready to watch."""
    seasonal = learned(fall_rule(baseline="seasonal"), traffic, runs)
    # The same for all runs: one rule has one min_effect.
    suggested = float(np.ceil(100 * np.mean(swing_of(seasonal))) / 100)
    wide = Evaluated.of(fall_rule(baseline="seasonal", min_effect=0.02), runs)
    return {
        f"`baseline = {MEAN:g}`": Evaluated.of(fall_rule(baseline=MEAN), runs),
        f"`baseline = {MEAN:g}`, `min_effect = {suggested:g}`": Evaluated.of(
            fall_rule(baseline=MEAN, min_effect=suggested), runs
        ),
        '`baseline = "seasonal"`': seasonal,
        '`baseline = "seasonal"`, `min_effect = 0.02`': _taught(wide, seasonal),
    }


def _taught(rule: Evaluated, other: Evaluated) -> Evaluated:
    """Return a rule with what another has learned; what is learned does not depend on min_effect."""
    rule.counted[:] = other.counted
    for row in range(rule.counted.size):
        (data,) = other.evaluator.dump({row: int(other.counted[row])}).values()
        rule.evaluator.of(row)[0].load(data)
        rule.evaluator.refresh(row)
    return rule


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    print("# Day and night: the alert rules\n\nWritten by `make simulations` (`benchmarks/seasonal_rules.py`).\n")
    print(
        f"{runs:,} runs each, mean {MEAN} and a sine of 2,000 values; rules that have learned learned {DAYS} days; "
        f"`run_length` is {RUN_LENGTH:,}, cut at {LONGEST:,} values; `min_effect` is 0 where nothing else is said.\n"
    )
    falls = (f"delay of a fall by {fall:g}" for fall in FALLS)
    header = ("swing", "wobble", "correlation", "rule", "run length", *falls)
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for traffic in TRAFFIC:
        for name, given in rules(traffic, runs).items():
            length, error = run_length(given, traffic)
            delays = " | ".join(f"{delay(given, traffic, fall):,.0f}" for fall in FALLS)
            kind = f"± {traffic.swing:g} | {traffic.wobble:g} | {traffic.correlation:g}"
            print(f"| {kind} | {name} | {length:,.0f} ± {error:,.0f} | {delays} |", flush=True)


if __name__ == "__main__":
    main()
