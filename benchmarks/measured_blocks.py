"""Run lengths of rules without known clusters: blocks of the length that the aggregator measures.

    python benchmarks/measured_blocks.py [--runs 60] [--cut 20000] [--only PART]

Seeded. Simulated is each kind of traffic of `traffic/scenarios.py` that has its mean throughout, with the least
movement that its rules shall find. The rule has a given baseline and `run_length` 10,000, and runs through the
aggregator's state with `clusters.by = "blocks"`. Where the measured dependence reaches further than the blocks, the
alert says that its rate is not guaranteed. Printed as Markdown: run length, and the share of first alerts that say so.
"""

import argparse

import numpy as np
from traffic.measures import Mean
from traffic.records import run_lengths
from traffic.report import table
from traffic.rules import counted_at, drift_rule, first_alerts
from traffic.scenarios import SCENARIOS, Scenario

from ragtide_runtime.settings.alerting import BLOCKS, ClusterSettings

REFUSAL = "not guaranteed"
"""Words of an alert that states no rate of false alarms."""


def row_of(scenario: Scenario, runs: int, cut: int) -> tuple[str, ...]:
    """Return the row of a kind of traffic: name, run length, alerts, and those that state no rate."""
    rng = np.random.default_rng((20261124, *scenario.name.encode()))
    traffic = scenario.draw(rng, runs, cut)
    rule = drift_rule(baseline=scenario.quality.baseline, min_effect=scenario.min_effect)
    first = first_alerts(traffic, [rule], {"clusters": ClusterSettings(by=BLOCKS)})[rule.name]
    alerts = [alert for alert in first if alert is not None]
    refused = sum(REFUSAL in alert.message for alert in alerts)
    lengths = run_lengths(counted_at(first) - 1, cut)
    return scenario.name, str(Mean.of(lengths)), f"{len(alerts)}", f"{refused}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--cut", type=int, default=20_000)
    parser.add_argument("--only", default="", metavar="PART")
    arguments = parser.parse_args()
    rows = [
        row_of(scenario, arguments.runs, arguments.cut) for scenario in SCENARIOS if arguments.only in scenario.name
    ]
    print(table(("traffic", "run length", "alerts", "alerts that state no rate"), rows))


if __name__ == "__main__":
    main()
