"""Run lengths and delays of rules and peers on one kind of traffic."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from .coverage import ever_missed_by_cluster, ever_missed_by_item
from .luck import design_effect
from .peers import Peer, peers
from .records import Records, run_lengths
from .rules import alarms_by_cluster, alarms_by_item, alarms_by_session
from .scenarios import BLOCKS, Clusters, Scenario
from .scores import Change
from .stream import Codes, Traffic, joined

FOREVER_S = 1e9
"""Blocks are closed by their size alone."""

_TOGETHER = 50
"""Runs that are drawn together."""


@dataclass(frozen=True)
class Sizes:
    """How much is simulated."""

    runs: int = 100
    run_length: float = 10_000
    """Of the rules; and to which peers are tuned, as a mean that is cut at `cut`."""
    cut: int = 20_000
    """Length of a run without a change."""
    reference: int = 2_000
    """Values before each run: a peer's reference."""
    before: int = 2_000
    """Values between the reference and a change."""
    falls: tuple[tuple[float, int], ...] = ((0.83, 6_000), (0.80, 6_000), (0.75, 4_000), (0.65, 2_000), (0.5, 2_000))
    """Means after a change, and how many values a detector then has to find it."""
    covered: int = 4_000
    """Values in which an interval is looked at."""


QUICK = Sizes(
    runs=40, run_length=1_000, cut=2_000, reference=1_000, before=500, falls=((0.75, 1_500), (0.5, 500)), covered=500
)
"""Some seconds for each kind of traffic, with a tenth of the run length."""


@dataclass(frozen=True)
class Mean:
    """A mean over runs with its simulation error."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Sequence[float] | Codes) -> "Mean":
        """Return the mean and the standard error of values; an error that is not a number for a single one."""
        array = np.asarray(values, dtype=np.float64)
        if not array.size:
            return cls(float("nan"), float("nan"))
        return cls(float(array.mean()), float(array.std() / sqrt(array.size)))

    def __str__(self) -> str:
        return "none" if np.isnan(self.value) else f"{self.value:,.0f}±{self.error:,.0f}"


@dataclass(frozen=True)
class Rule:
    """One of ragtide's rules, as it is set for a kind of traffic."""

    name: str
    first_alarms: Callable[[Traffic], Codes]
    """From traffic to the column of each run's first alarm; -1 for none."""
    ever_missed: Callable[[Traffic], float]
    """From traffic to the share of runs in which its interval ever missed the truth."""


def rules(scenario: Scenario, run_length: float) -> tuple[Rule, ...]:
    """Return the rules that are compared: each answer by itself, and clusters."""
    limit = scenario.quality.baseline - scenario.min_effect

    def by_answer(traffic: Traffic) -> Codes:
        return alarms_by_item(traffic.value, limit=limit, run_length=run_length)

    clustered = [_clustered(scenario, setting, limit, run_length) for setting in (*scenario.settings, *BLOCKS)]
    return (Rule("by answer", by_answer, ever_missed_by_item), *clustered)


def _clustered(scenario: Scenario, settings: Clusters, limit: float, run_length: float) -> Rule:
    by = "blocks" if settings.blocks else scenario.cluster
    size, quiet_s = settings.size, FOREVER_S if settings.blocks else settings.quiet_s

    def first_alarms(traffic: Traffic) -> Codes:
        found = alarms_by_cluster if settings.blocks else alarms_by_session
        return found(traffic, by, size=size, quiet_s=quiet_s, limit=limit, run_length=run_length)

    def ever_missed(traffic: Traffic) -> float:
        return ever_missed_by_cluster(traffic, by, size=size, quiet_s=quiet_s)

    return Rule(str(settings), first_alarms, ever_missed)


def groups(scenario: Scenario, sizes: Sizes, n: int, change: Change | None, seed: int) -> Iterator[Traffic]:
    """Yield runs of n values after the reference, some at a time."""
    rng = np.random.default_rng((20261122, seed, *scenario.name.encode()))
    for start in range(0, sizes.runs, _TOGETHER):
        yield scenario.draw(rng, min(_TOGETHER, sizes.runs - start), sizes.reference + n, change)


@dataclass(frozen=True)
class Steady:
    """Findings on traffic without a change."""

    design_effect: float
    rules: dict[str, tuple[Mean, float]]
    """Run length of each rule, and how often its interval ever missed."""
    records: dict[str, Records]
    """Of each peer."""


def steady(scenario: Scenario, sizes: Sizes) -> Steady:
    """Return what is found on traffic without a change."""
    every = rules(scenario, sizes.run_length)
    lengths: dict[str, list[int]] = {rule.name: [] for rule in every}
    looked: list[Traffic] = []
    records: dict[str, list[Records]] = {peer.name: [] for peer in peers(sizes.reference)}
    effects: list[float] = []
    for traffic in groups(scenario, sizes, sizes.cut, None, 1):
        later = traffic.columns(slice(sizes.reference, None))
        effects.append(design_effect(later.value, later.mean, later.clusters(scenario.cluster)))
        for rule in every:
            lengths[rule.name] += run_lengths(rule.first_alarms(later), sizes.cut).tolist()
        looked.append(later.columns(slice(0, sizes.covered)))
        for peer in peers(sizes.reference):
            records[peer.name].append(Records.of(peer.scores(traffic, sizes.reference)))
    covered = joined(looked)
    return Steady(
        float(np.mean(effects)),
        {rule.name: (Mean.of(lengths[rule.name]), rule.ever_missed(covered)) for rule in every},
        {name: Records.joined(parts) for name, parts in records.items()},
    )


def thresholds(found: Steady, run_length: float) -> dict[str, float]:
    """Return each peer's threshold for a run length on the traffic of which the findings are."""
    return {name: records.threshold_for(run_length) for name, records in found.records.items()}


def delays(scenario: Scenario, sizes: Sizes, tuned: dict[str, float]) -> dict[str, list[Mean]]:
    """Return the mean delay of each rule and peer for each fall, of runs without an alarm before it.

    A run in which a fall is not found counts with the number of values that were left.
    """
    every = rules(scenario, sizes.run_length)
    others: tuple[Peer, ...] = peers(sizes.reference)
    names = [*(rule.name for rule in every), *(peer.name for peer in others)]
    found: dict[str, list[Mean]] = {name: [] for name in names}
    for number, (after, left) in enumerate(sizes.falls):
        change = Change(sizes.reference + sizes.before, system=after)
        alarms: dict[str, list[Codes]] = {name: [] for name in found}
        n = sizes.before + left
        for traffic in groups(scenario, sizes, n, change, 2 + number):
            later = traffic.columns(slice(sizes.reference, None))
            for rule in every:
                alarms[rule.name].append(rule.first_alarms(later))
            for peer in others:
                records = Records.of(peer.scores(traffic, sizes.reference))
                alarms[peer.name].append(records.first_alarms(tuned[peer.name]))
        for name, parts in alarms.items():
            lengths = run_lengths(np.concatenate(parts), n)
            found[name].append(Mean.of(lengths[lengths > sizes.before] - sizes.before))
    return found
