"""How soon a swapped judge is found by its answers to sentinels, and how often an unchanged one gives a false alarm.

    python benchmarks/sentinels.py [--runs 500] [--answers 300]

Seeded. A simulated judge has a probability for each label of each sentinel: most labels are the same in every answer,
some are not. At a swap some labels get other probabilities. The answers are compared by the worker's code, and the
detector is that of the rule. Printed as Markdown.
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice, product, repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray
from traffic.report import table

from ragtide import DriftDetector
from ragtide_consumers.sentinels.answers import LEARNED, Answer, SentinelMemory
from ragtide_schemas import AlertRule
from ragtide_schemas.metric_definitions import SENTINEL_UNLIKE_SHARE

SENTINELS: Final = (20, 40)
"""Numbers of sentinels that are compared."""
WITHIN: Final = 200
"""Answers after the swap in which it is to be found."""
BEFORE: Final = 100
"""Answers between the learned ones and the swap."""
AT_ONCE: Final = 20
"""Answers that the detector takes at once; its alarms do not depend on it."""
RUN_LENGTH: Final = 4320.0
"""30 days of an answer in ten minutes."""
DOCUMENT_SENTENCES: Final = 25

HEADER = """# A swapped judge, found by sentinels

Written by `python benchmarks/sentinels.py`: {runs:,} runs for each row, seeded. The sentinels are asked one
after the other. The judge labels {documents} document sentences and three to eight response sentences of each. The rule
has `run_length = {run_length:,.0f}`: at an answer in ten minutes, at most one false alarm in 30 days.

The judge *repeats itself* if 98% of its labels are the same in every answer, and is *unsteady* if 80% are. After
{learned} answers to each sentinel and {before} further answers it is swapped for one that differs in a share of the
labels. A swap that flips no label of a run cannot be found.
"""

QUIET_HEADER = """
Without a swap the share of unlike answers is {share:g} by construction. Each run has {answers:,} answers after the
learned ones; after ± stands the simulation error. A run length of {run_length:,.0f} allows an alarm in about {most:.0%}
of the runs; `min_effect` makes it rarer.
"""


@dataclass(frozen=True, slots=True)
class JudgeKind:
    """A simulated judge."""

    name: str
    fixed: float
    """Share of the labels that are the same in every answer."""


@dataclass(frozen=True, slots=True)
class Swap:
    """What another judge does differently."""

    name: str
    labels: float
    """Share of the labels of document sentences that are the opposite."""
    verdicts: float
    """Share of the verdicts on response sentences that are the opposite."""


KINDS: Final = (JudgeKind("repeats itself", 0.98), JudgeKind("unsteady", 0.8))
SWAPS: Final = (
    Swap("10% of all labels", 0.1, 0.1),
    Swap("3% of all labels", 0.03, 0.03),
    Swap("10% of the verdicts on response sentences only", 0.0, 0.1),
    Swap("5% of the verdicts on response sentences only", 0.0, 0.05),
)


class SimulatedJudge:
    """Answers with random labels, each with a probability of its own."""

    def __init__(self, kind: JudgeKind, sentinels: int, rng: np.random.Generator) -> None:
        self._rng = rng
        self._labels = [self._probabilities(kind, DOCUMENT_SENTENCES, 2, usual=0.25) for _ in range(sentinels)]
        self._verdicts = [self._probabilities(kind, int(rng.integers(3, 9)), 1, usual=0.85) for _ in range(sentinels)]

    def _probabilities(self, kind: JudgeKind, rows: int, columns: int, *, usual: float) -> NDArray[np.float64]:
        fixed = self._rng.random((rows, columns)) < kind.fixed
        certain = (self._rng.random((rows, columns)) < usual).astype(np.float64)
        return np.where(fixed, certain, self._rng.uniform(0.05, 0.95, (rows, columns)))

    def swap(self, swap: Swap) -> None:
        """Become another judge."""
        for found, share in ((self._labels, swap.labels), (self._verdicts, swap.verdicts)):
            for probabilities in found:
                other = self._rng.random(probabilities.shape) < share
                probabilities[other] = 1 - probabilities[other]

    def answer(self, sentinel: int) -> Answer:
        """Return an answer to a sentinel."""
        labels = self._rng.random(self._labels[sentinel].shape) < self._labels[sentinel]
        verdicts = self._rng.random(self._verdicts[sentinel].shape) < self._verdicts[sentinel]
        facts = [f"supported:{place}" for place in np.flatnonzero(verdicts)]
        facts += [f"relevant:{place}" for place in np.flatnonzero(labels)]
        return frozenset(facts)


def unlike(
    kind: JudgeKind, sentinels: int, rng: np.random.Generator, *, name: str, swap: Swap | None = None
) -> Iterator[float]:
    """Yield 1 for each compared answer that is unlike the earlier ones, else 0; the swap is after `BEFORE` of them."""
    judge, memories = SimulatedJudge(kind, sentinels, rng), [SentinelMemory() for _ in range(sentinels)]
    number = 0
    while True:
        if swap is not None and number == LEARNED * sentinels + BEFORE:
            judge.swap(swap)
        sentinel = number % sentinels
        found = memories[sentinel].take(judge.answer(sentinel), name=f"{name}\0{number}")
        number += 1
        if found is not None:
            yield float(found.unlike)


def sentinel_detector(run_length: float = RUN_LENGTH) -> DriftDetector:
    """Return the detector of a sentinel rule."""
    rule = AlertRule(name="sentinels", kind="sentinel")
    return DriftDetector(
        baseline=SENTINEL_UNLIKE_SHARE, direction="rise", run_length=run_length, min_effect=rule.min_effect
    )


def first_alarm(values: Iterator[float], most: int) -> int | None:
    """Return the number of values before the first alarm; None without one among `most`."""
    detector = sentinel_detector()
    for start in range(0, most, AT_ONCE):
        alarm = detector.update(np.fromiter(islice(values, AT_ONCE), np.float64))
        if alarm is not None:
            return start + alarm
    return None


def delays(kind: JudgeKind, sentinels: int, swap: Swap, runs: int) -> list[int | None]:
    """Return the answers from the swap to the alarm in each run, None if there is no alarm within `WITHIN`.

    An alarm before the swap is false; such a run counts as not found.
    """
    found: list[int | None] = []
    for run in range(runs):
        rng = np.random.default_rng([20261127, run])
        alarm = first_alarm(unlike(kind, sentinels, rng, name=f"{swap.name}{run}", swap=swap), BEFORE + WITHIN)
        found.append(None if alarm is None or alarm < BEFORE else alarm - BEFORE + 1)
    return found


def swap_row(kind: JudgeKind, sentinels: int, swap: Swap, runs: int) -> tuple[str, ...]:
    """Return the row of a swap: how often it was found in time, and how soon."""
    found = delays(kind, sentinels, swap, runs)
    late = [WITHIN + 1 if delay is None else delay for delay in found]
    median, most = np.quantile(late, [0.5, 0.95], method="higher")
    within = sum(delay is not None for delay in found) / runs
    shown = [f"{count}" if count <= WITHIN else f"over {WITHIN}" for count in (int(median), int(most))]
    return kind.name, f"{sentinels}", swap.name, f"{within:.1%}", *shown


def quiet_row(kind: JudgeKind, sentinels: int, runs: int, answers: int) -> tuple[str, ...]:
    """Return the row of a judge that is not swapped: its share of unlike answers, and its false alarms."""
    means, alarms = [], 0
    for run in range(runs):
        rng = np.random.default_rng([20261128, run])
        seen = np.fromiter(islice(unlike(kind, sentinels, rng, name=f"quiet{run}"), answers), np.float64)
        means.append(seen.mean())
        alarms += sentinel_detector().update(seen) is not None
    error = float(np.std(means) / np.sqrt(runs))
    return kind.name, f"{sentinels}", f"{np.mean(means):.4f} ± {error:.4f}", f"{alarms} of {runs}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--answers", type=int, default=300, help="answers of each run without a swap")
    arguments = parser.parse_args()
    runs = arguments.runs
    facts = {"documents": DOCUMENT_SENTENCES, "learned": LEARNED, "before": BEFORE}
    print(HEADER.format(runs=runs, run_length=RUN_LENGTH, **facts))
    with ProcessPoolExecutor() as pool:
        rows = list(pool.map(swap_row, *zip(*product(KINDS, SENTINELS, SWAPS), strict=True), repeat(runs)))
        pairs = product(KINDS, SENTINELS)
        quiet = list(pool.map(quiet_row, *zip(*pairs, strict=True), repeat(runs), repeat(arguments.answers)))
    print(
        table(("judge", "sentinels", "the other differs in", f"found within {WITHIN} answers", "median", "95%"), rows)
    )
    most = 1 - (1 - 1 / RUN_LENGTH) ** arguments.answers
    print(QUIET_HEADER.format(share=SENTINEL_UNLIKE_SHARE, answers=arguments.answers, run_length=RUN_LENGTH, most=most))
    print(table(("judge", "sentinels", "share of unlike answers", "runs with a false alarm"), quiet), end="")


if __name__ == "__main__":
    main()
