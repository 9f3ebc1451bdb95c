"""Every kind of rule that watches scores, through the aggregator's state."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ragtide import AlertRule
from ragtide_runtime.settings.alerting import BLOCKS, ClusterSettings

from .measures import Mean
from .records import run_lengths
from .rules import METRIC, counted_at, drift_rule, first_alerts
from .scenarios import Scenario
from .scores import Change
from .stream import Codes

_FIELD: Final = {"session": "session_id", "batch": "cluster", "user": "user_id"}
"""Field of an interaction by which an application names a kind of cluster."""


@dataclass(frozen=True)
class KindSizes:
    """How much is simulated."""

    runs: int = 30
    learn_n: int = 2_000
    """Values from which rules learn."""
    cut: int = 20_000
    """Values of a run without a change, after those."""
    before: int = 2_000
    """Values between those and a change."""
    after: float = 0.65
    """Mean after the change."""
    left: int = 2_000
    """Values that a rule then has to find it."""


KINDS_QUICK: Final = KindSizes(runs=10, learn_n=500, cut=1_000, before=200, left=600)
"""A few seconds."""


def rules_of(scenario: Scenario, sizes: KindSizes) -> dict[str, AlertRule]:
    """Return rules of every kind, by what they are called in the tables."""
    baseline = scenario.quality.baseline
    fields: dict[str, dict[str, object]] = {
        "threshold": {"kind": "threshold", "target": baseline, "direction": "fall"},
        "drift, baseline given": {"kind": "drift", "baseline": baseline, "direction": "fall"},
        f"drift, learned from {sizes.learn_n:,}": {"kind": "drift", "learn_n": sizes.learn_n, "direction": "fall"},
        "drift, all earlier values": {"kind": "drift", "baseline": "earlier", "direction": "fall"},
        "drift, both directions, given": {"kind": "drift", "baseline": baseline, "direction": "both"},
        f"distribution, learned from {sizes.learn_n:,}": {"kind": "distribution", "learn_n": sizes.learn_n},
    }
    return {
        name: AlertRule.model_validate({"name": f"rule-{number}", "metric": METRIC, "run_length": 10_000, **values})
        for number, (name, values) in enumerate(fields.items())
    }


def kinds_of_rules(scenario: Scenario, sizes: KindSizes) -> dict[str, tuple[Mean, Mean]]:
    """Return run length and delay of each kind of rule, counted after the values from which rules learn.

    Delays are those of runs without an alert before the change.
    """
    settings = scenario.settings[-1]
    named = ClusterSettings(size=settings.size, quiet_s=settings.quiet_s)
    blocks = {"drift, baseline given, blocks": drift_rule(baseline=scenario.quality.baseline, min_effect=0.02)}
    found = _found(scenario, sizes, rules_of(scenario, sizes), named, {_FIELD[scenario.cluster]: scenario.cluster})
    return found | _found(scenario, sizes, blocks, ClusterSettings(by=BLOCKS), {})


def _found(
    scenario: Scenario, sizes: KindSizes, rules: dict[str, AlertRule], clusters: ClusterSettings, names: dict[str, str]
) -> dict[str, tuple[Mean, Mean]]:
    """Return run length and delay of rules with these settings of clusters."""
    rng = np.random.default_rng((20261123, *scenario.name.encode()))
    options = {"clusters": clusters}

    def counted(n: int, change: Change | None) -> dict[str, Codes]:
        """Return the values that each rule had counted at its first alert; all that there were without one."""
        traffic = scenario.draw(rng, sizes.runs, sizes.learn_n + n, change)
        found = first_alerts(traffic, list(rules.values()), options, names)
        return {name: run_lengths(counted_at(found[rule.name]) - 1, traffic.n) for name, rule in rules.items()}

    # A rule with a baseline watches from the first value on, and the others after those from which they learn.
    begins = {name: sizes.learn_n if rule.learn_n == sizes.learn_n else 0 for name, rule in rules.items()}
    lengths = {name: np.minimum(at - begins[name], sizes.cut) for name, at in counted(sizes.cut, None).items()}
    changed = sizes.learn_n + sizes.before
    late = counted(sizes.before + sizes.left, Change(changed, system=sizes.after))
    return {name: (Mean.of(lengths[name]), Mean.of(at[at > changed] - changed)) for name, at in late.items()}
