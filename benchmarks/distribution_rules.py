"""Rules on covariates: run lengths without a change, and delays after one, through the live alert rules.

    python benchmarks/distribution_rules.py [--runs 40]

Seeded. `RuleEvaluator`, which the aggregator uses, takes the values of each run as those of one pipeline, with a
`run_length` of 2,000 and a `min_effect` of 0. Run lengths without a change are cut at 6,000 values. A change begins
500 values after the rule has learned; delays are those of runs without an alarm before, cut at 6,000 values.

The last table has the other construction that stays valid with a learned reference: ranks of each value among all
earlier ones, which are uniform without a change (a conformal test martingale of the kind of Vovk), on the same bins,
with the same detectors. All that it has seen is its reference, so a change that stays becomes normal.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from seasonal_rules import SOURCE

from ragtide import AlertRule
from ragtide_aggregator.alerts.distribution_baseline import DistributionBaseline
from ragtide_aggregator.alerts.evaluator import RuleEvaluator
from ragtide_aggregator.alerts.rule_values import Arrived, RuleValues
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.drift.value_groups import NameBins, NumberBins

RUN_LENGTH: Final = 2_000
LONGEST: Final = 6_000
BEFORE: Final = 500
AT_ONCE: Final = 250
LEARNED: Final = (200, 1_000, 5_000)

Generator = np.random.Generator
Drawn = Callable[[Generator, int, int], NDArray[Any]]
"""Returns values of so many runs, so many each; shape (runs, values)."""


def lengths(scale: float = 1.0, spread: float = 0.8) -> Drawn:
    """Return lengths of questions: whole numbers of a log-normal distribution."""
    return lambda rng, runs, n: np.floor(rng.lognormal(np.log(90 * scale), spread, (runs, n)))


def counts(few: float) -> Drawn:
    """Return numbers of documents: three with a probability, otherwise five."""
    return lambda rng, runs, n: np.where(rng.random((runs, n)) < few, 3.0, 5.0)


def heavy(rng: Generator, runs: int, n: int) -> NDArray[Any]:
    """Return numbers without a mean: Pareto's distribution of index 0.9."""
    return np.asarray(rng.pareto(0.9, (runs, n)))


def scores(scale: float = 1.0) -> Drawn:
    """Return scores of a retriever: a Beta distribution."""
    return lambda rng, runs, n: scale * rng.beta(8, 3, (runs, n))


def mixed(share: float) -> Drawn:
    """Return lengths of questions, of which a share is very long."""

    def drawn(rng: Generator, runs: int, n: int) -> NDArray[Any]:
        usual = lengths()(rng, runs, n)
        return np.where(rng.random((runs, n)) < share, usual + 1_000, usual)

    return drawn


def topics(shares: Sequence[float], new: float = 0.0) -> Drawn:
    """Return topics with these shares, of which a share of all is replaced by a new topic."""
    names = np.array([f"topic {number}" for number in range(len(shares))])

    def drawn(rng: Generator, runs: int, n: int) -> NDArray[Any]:
        found = names[np.searchsorted(np.cumsum(shares)[:-1] / sum(shares), rng.random((runs, n)))]
        return np.where(rng.random((runs, n)) < new, "new", found)

    return drawn


def dependent(rng: Generator, runs: int, n: int) -> NDArray[Any]:
    """Return lengths whose logarithms depend on their neighbours: an autoregression with a correlation of 0.5."""
    noise = rng.normal(size=(runs, n))
    found = np.empty_like(noise)
    found[:, 0] = noise[:, 0]
    for place in range(1, n):
        found[:, place] = 0.5 * found[:, place - 1] + np.sqrt(0.75) * noise[:, place]
    return np.asarray(np.floor(90 * np.exp(0.8 * found)))


MANY: Final = [1 / (number + 1) for number in range(30)]
"""Shares of thirty topics, in Zipf's proportions."""

SIX: Final = [0.4, 0.2, 0.15, 0.1, 0.1, 0.05]
"""Shares of six topics."""

UNCHANGED: Final[dict[str, Drawn]] = {
    "question length, log-normal": lengths(),
    "top score, Beta(8, 3)": scores(),
    "documents: 3 or 5": counts(0.3),
    "documents: always 5": counts(0.0),
    "Pareto 0.9, no mean": heavy,
    "6 topics": topics(SIX),
    "30 topics, Zipf": topics(MANY),
    "each depends on the one before, correlation 0.5 (not promised)": dependent,
}

CHANGES: Final[dict[str, tuple[Drawn, Drawn]]] = {
    "question length: 1.5 times as long": (lengths(), lengths(1.5)),
    "question length: twice as long": (lengths(), lengths(2.0)),
    "question length: 1% very long, then 10%": (mixed(0.01), mixed(0.1)),
    "question length: spread 0.8, then 1.2": (lengths(), lengths(spread=1.2)),
    "top score: lower by a tenth": (scores(), scores(0.9)),
    "documents: 3 in 30%, then 50%": (counts(0.3), counts(0.5)),
    "documents: always 5, then 3 in 10%": (counts(0.0), counts(0.1)),
    "6 topics: 10% go to a new one": (topics(SIX), topics(SIX, 0.1)),
    "6 topics: one from 10% to 25%": (topics(SIX), topics([0.4, 0.2, 0.15, 0.3, 0.1, 0.05])),
}


@dataclass
class RulesOnRuns:
    """One rule on many runs."""

    evaluator: RuleEvaluator
    runs: int

    @classmethod
    def of(cls, learn_n: int, runs: int, *, of_names: bool) -> "RulesOnRuns":
        """Return the rule before all values."""
        rule = AlertRule(
            name="inputs",
            kind="distribution",
            covariate="segment:topic" if of_names else "length",
            learn_n=learn_n,
            min_effect=0.0,
            run_length=RUN_LENGTH,
        )
        evaluator = RuleEvaluator(())
        for run in range(runs):
            evaluator.add_row(EstimateKey(f"run-{run}", None, None, rule.metric, "ragbench", "simulated", "1"), [rule])
        return cls(evaluator, runs)

    def take(self, values: NDArray[Any], going: NDArray[np.intp]) -> dict[int, int]:
        """Add values of some runs, shape (runs, values); return the place of the first alarm of each run with one."""
        bins = np.empty(values.shape)
        for place, run in enumerate(going.tolist()):
            baseline = self.evaluator.of(run)[0].baseline
            assert isinstance(baseline, DistributionBaseline)  # noqa: S101 - for the type checker
            bins[place] = baseline.take_values(values[place].tolist(), SOURCE, np.zeros(values.shape[1], dtype=np.intp))
        rows = np.tile(going, values.shape[1])
        nothing = np.zeros(rows.size, dtype=np.intp)
        given = RuleValues(rows, bins.T.ravel(), nothing, np.arange(rows.size) + 1, nothing, SOURCE, nothing)
        found: dict[int, int] = {}
        for raised in self.evaluator.evaluate([Arrived(given, np.arange(rows.size))]):
            if raised.alert.status == "firing":
                found.setdefault(raised.row, raised.position // going.size)
        return found


class RanksOnRuns:
    """Ranks of the bins of many runs among all earlier values, with detectors of both directions at five ranks."""

    EDGES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)

    def __init__(self, learned: NDArray[Any], cutting: int, *, of_names: bool, seed: int) -> None:
        kind = NameBins if of_names else NumberBins
        self._bins = [kind.learned(values[:cutting].tolist()) for values in learned]
        self._counts = np.array(
            [
                np.bincount(bins.of(values[cutting:].tolist()), minlength=10)
                for bins, values in zip(self._bins, learned, strict=True)
            ],
            dtype=np.float64,
        )
        self._rng = np.random.default_rng(seed)
        self._table = DetectorTable()
        self._ways = 2 * len(self.EDGES)
        for _ in self._bins:
            for edge in self.EDGES:
                for direction in ("fall", "rise"):
                    row = self._table.add_row()
                    self._table.configure(
                        row,
                        limit=1 - edge,
                        direction=direction,
                        run_length=RUN_LENGTH * self._ways,
                    )

    def take(self, values: NDArray[Any], going: NDArray[np.intp]) -> dict[int, int]:
        """Add values of some runs; return the place of the first alarm of each run with one."""
        ranks = np.empty(values.shape)
        for number, run in enumerate(going.tolist()):
            for place, found in enumerate(self._bins[run].of(values[number].tolist()).tolist()):
                counts = self._counts[run]
                counts[found] += 1
                ranks[number, place] = (counts[:found].sum() + self._rng.random() * counts[found]) / counts.sum()
        n = values.shape[1]
        above = ranks[:, :, None] > np.array(self.EDGES)
        inputs = np.repeat(above, 2, axis=2).astype(np.float64)  # runs, values, detectors
        rows = going[:, None, None] * self._ways + np.arange(self._ways)
        every = np.broadcast_to(rows, inputs.shape).transpose(1, 0, 2).ravel()
        places = np.repeat(np.arange(n), going.size * self._ways)
        alarms, _ = self._table.update(every, inputs.transpose(1, 0, 2).ravel(), places)
        first: dict[int, int] = {}
        for alarm in alarms:
            first.setdefault(alarm.row // self._ways, int(places[alarm.position]))
        return first


def alarms(
    before: Drawn, after: Drawn, learn_n: int, runs: int, unchanged: int, *, ranks: bool = False
) -> NDArray[np.int64]:
    """Return the number of values from the change to the first alarm; negative before it, LONGEST without one.

    Args:
        before: draws values before the change.
        after: draws values after it.
        learn_n: values that the rule learns from.
        runs: number of runs.
        unchanged: number of values after these and before the change.
        ranks: whether ranks are compared, and not shares.
    """
    rng = np.random.default_rng((20261127, learn_n, unchanged))
    learned = before(rng, runs, learn_n)
    of_names = learned.dtype.kind == "U"
    every = np.arange(runs)
    rules: RulesOnRuns | RanksOnRuns
    if ranks:
        rules = RanksOnRuns(learned, min(learn_n // 5, 1_000), of_names=of_names, seed=learn_n)
    else:
        rules = RulesOnRuns.of(learn_n, runs, of_names=of_names)
        rules.take(learned, every)
    found = np.full(runs, LONGEST, dtype=np.int64)
    for start, drawn in [
        *((start, before) for start in range(-unchanged, 0, AT_ONCE)),
        *((start, after) for start in range(0, LONGEST, AT_ONCE)),
    ]:
        going = np.flatnonzero(found == LONGEST)
        if not going.size:
            break
        values = drawn(rng, runs, AT_ONCE)[going]
        for run, place in rules.take(values, going).items():
            found[run] = start + place + 1
    return found


def run_length(drawn: Drawn, learn_n: int, runs: int, *, ranks: bool = False) -> tuple[float, float, float]:
    """Return the mean number of values until a false alarm, cut at LONGEST, its standard error, and the share cut."""
    found = alarms(drawn, drawn, learn_n, runs, 0, ranks=ranks)
    return float(found.mean()), float(found.std() / np.sqrt(runs)), float((found == LONGEST).mean())


def delay(change: tuple[Drawn, Drawn], learn_n: int, runs: int, *, ranks: bool = False) -> tuple[float, float]:
    """Return the median delay of runs without an alarm before the change, and the share of them with an alarm."""
    found = alarms(*change, learn_n, runs, BEFORE, ranks=ranks)
    late = found[found > 0]
    return float(np.median(late)), float((late < LONGEST).mean())


def _table(header: Sequence[str]) -> None:
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    runs = parser.parse_args().runs
    print("# Rules on covariates\n\nWritten by `make simulations` (`benchmarks/distribution_rules.py`).\n")
    print(
        f"{runs:,} runs each; `run_length` is {RUN_LENGTH:,}, `min_effect` is 0; runs are cut at {LONGEST:,} values.\n"
    )
    print(
        "## Run length without a change\n\nMean number of values until a false alarm, and share of runs without one:\n"
    )
    _table(("values", *(f"`learn_n = {learn_n}`" for learn_n in LEARNED)))
    for name, drawn in UNCHANGED.items():
        found = [run_length(drawn, learn_n, runs) for learn_n in LEARNED]
        cells = " | ".join(f"{length:,.0f} ± {error:,.0f}, {cut:.0%}" for length, error, cut in found)
        print(f"| {name} | {cells} |", flush=True)
    print(
        "\n## Delay after a change\n\nMedian number of values until the alarm; share of runs with one within the cut:\n"
    )
    _table(("change", *(f"`learn_n = {learn_n}`" for learn_n in LEARNED)))
    for name, change in CHANGES.items():
        delays = [delay(change, learn_n, runs) for learn_n in LEARNED]
        print(f"| {name} | {' | '.join(_delay(*found) for found in delays)} |", flush=True)
    print("\n## Ranks among all earlier values instead\n\nThe same changes; run length and delays:\n")
    _table(("values", *(f"`learn_n = {learn_n}`" for learn_n in LEARNED)))
    few = max(runs // 4, 1)
    for name in ("question length, log-normal", "documents: 3 or 5"):
        found = [run_length(UNCHANGED[name], learn_n, few, ranks=True) for learn_n in LEARNED]
        print(f"| {name} | {' | '.join(f'{length:,.0f}' for length, _, _ in found)} |", flush=True)
    for name, change in CHANGES.items():
        delays = [delay(change, learn_n, few, ranks=True) for learn_n in LEARNED]
        print(f"| {name} | {' | '.join(_delay(*found) for found in delays)} |", flush=True)


def _delay(median: float, share: float) -> str:
    return f"{median:,.0f}, {share:.0%}" if share > 0.5 else f"-, {share:.0%}"


if __name__ == "__main__":
    main()
