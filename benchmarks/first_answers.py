"""First answers of sessions in alert rules: run lengths and delays, and why intervals do not use them.

    python benchmarks/first_answers.py [--runs 100]

Seeded. Printed as Markdown.
"""

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from traffic.measures import Mean
from traffic.records import run_lengths
from traffic.report import table
from traffic.rules import (
    alarms_by_cluster,
    alarms_by_first_answers,
    alarms_by_item,
    alarms_by_session,
    drift_rule,
    first_alerts,
)
from traffic.schedules import alone, sessions
from traffic.scores import MEAN, Change, Quality, scored
from traffic.stream import Codes, Floats, Traffic

from ragtide_aggregator.alerts.rule_values import BEGINNINGS
from ragtide_aggregator.statistics.intervals.running import FIRST_GUESS, running_interval
from ragtide_runtime.settings.alerting import ClusterSettings

CUT, BEFORE, LEFT, RUN_LENGTH = 20_000, 4_000, 2_000, 10_000
QUIET_S, SIZE = 600, 10
AFTER = (0.65, 0.45)

HEADER = """# First answers of sessions

Written by `make realtraffic` (`benchmarks/first_answers.py`): {runs} runs for each figure, seeded.

Yes-or-no scores with the mean 0.85; sessions of 3 and of 5 with an intraclass correlation of 0.2, 20 at once. They stay
below `size`, so each is closed 600 answers after its last one. The run length is the mean number of answers until the
first false alarm of a rule that states 10,000, in runs cut at 20,000. The delay is the mean number of answers from a
fall, 4,000 answers later, to the alarm, of runs without an alarm before.

## The limit is known

Detectors alone, whose limit is 0.85. The detectors of a rule share its run length, so each has four times the level:
"all" are closed sessions and the first one, two and four answers of sessions, and "one and closed" are two of them,
each with twice the level. The delay cannot be much shorter than that by answer, times the design effect: 1 + 0.2
(size - 1).
"""

LEARNED = """
## The limit is learned

{runs} runs of rules through the aggregator's state, with `baseline = 0.85`, `min_effect = 0` and `learn_n = 200`. First
answers are compared with 0.85, or with the lenient end of what was learned of them if that is lower. It comes nearer to
0.85 with more of them. "By answer" is the same rule on the same mean without sessions.
"""

NEGATIVE = """
## Sessions that are better after a bad first answer

Sessions of 3. After a good first answer the others have the mean 0.82, after a bad one 1, so that all have 0.85. The
proof assumes that sessions are not better after a bad first answer. The run length of all detectors is {length}.
"""

INTERVALS = """
## Intervals

Sessions of 3 whose first answer has the mean 0.9 and whose later answers have 0.7: the mean over answers is 0.767. An
interval of the first answers with half of the error, as the narrower of two, misses it in {missed:.0%} of {runs} runs
of 4,000 answers, with a look after each session; a 95% interval may miss in 5%.
"""


def drawn(rng: np.random.Generator, runs: int, n: int, size: int, change: Change | None) -> Traffic:
    """Return sessions of one size, or interactions by themselves."""
    plan = alone(rng, runs, n) if size == 1 else sessions(rng, runs, n, size=size, at_once=20)
    return scored(rng, plan, Quality(icc=0.2 if size > 1 else 0.0), change)


def delay(alarms: Codes, before: int) -> Mean:
    """Return the delay of runs without an alarm before a change."""
    lengths = run_lengths(alarms, before + LEFT)
    return Mean.of(lengths[lengths > before] - before)


def known(runs: int) -> list[tuple[str, ...]]:
    """Return run lengths and delays of detectors with a known limit."""
    whole = partial(alarms_by_cluster, by="session", size=SIZE, quiet_s=QUIET_S, limit=MEAN, run_length=RUN_LENGTH)
    first = {
        f"first {length}": partial(
            alarms_by_first_answers, by="session", length=length, limit=MEAN, run_length=RUN_LENGTH
        )
        for length in BEGINNINGS
    }
    every = partial(alarms_by_session, by="session", size=SIZE, quiet_s=QUIET_S, limit=MEAN, run_length=RUN_LENGTH)

    def by_answer(traffic: Traffic) -> Codes:
        return alarms_by_item(traffic.value, limit=MEAN, run_length=RUN_LENGTH)

    rows: list[tuple[str, ...]] = []
    for size in (1, 3, 5):
        rng = np.random.default_rng((39, size))
        steady = drawn(rng, runs, CUT, size, None)
        falls = [drawn(rng, runs, BEFORE + LEFT, size, Change(BEFORE, system=after)) for after in AFTER]
        kept = {name: found for name, found in first.items() if int(name.removeprefix("first ")) <= size}
        detectors: dict[str, Callable[[Traffic], Codes]] = {
            "closed sessions": whole,
            **kept,
            "one and closed": _one_and_closed,
            "all": every,
        }
        for name, found in ({"by answer": by_answer} if size == 1 else detectors).items():
            lengths = Mean.of(run_lengths(found(steady), CUT))
            traffic = "no sessions" if size == 1 else f"sessions of {size}"
            rows.append((traffic, name, str(lengths), *(str(delay(found(fall), BEFORE)) for fall in falls)))
    return rows


def _one_and_closed(traffic: Traffic) -> Codes:
    """Return the alarms of detectors of closed sessions and of single first answers."""
    shared = {"limit": MEAN, "run_length": 2 * RUN_LENGTH}
    whole = alarms_by_cluster(traffic, "session", size=SIZE, quiet_s=QUIET_S, **shared)
    first = alarms_by_first_answers(traffic, "session", 1, **shared)
    return np.where(whole < 0, first, np.where(first < 0, whole, np.minimum(whole, first)))


def learned(runs: int) -> list[tuple[str, ...]]:
    """Return the delays of rules that learn the limit of first answers."""
    rows: list[tuple[str, ...]] = []
    options = {"clusters": ClusterSettings(size=SIZE, quiet_s=QUIET_S)}
    for before in (2_500, 10_000):
        for size in (1, 3, 5):
            traffic = drawn(np.random.default_rng((40, size)), runs, before + LEFT, size, Change(before, system=0.45))
            names = {} if size == 1 else {"session_id": "session"}
            (first,) = first_alerts(traffic, [drift_rule(baseline=MEAN)], options, names).values()
            columns = [
                -1 if alert is None else int(np.searchsorted(traffic.time_s[run], alert.fired_at.timestamp() - _START))
                for run, alert in enumerate(first)
            ]
            name = "no sessions: by answer" if size == 1 else f"sessions of {size}"
            rows.append((f"{before:,}", name, str(delay(np.array(columns), before))))
    return rows


_START = 1_795_219_200


def negative(runs: int) -> Mean:
    """Return the run length where sessions are better after a bad first answer."""
    rng = np.random.default_rng(41)
    traffic = drawn(rng, runs, CUT, 3, None)
    value = traffic.value.copy()
    for run in range(runs):
        _, begins, of = np.unique(traffic.session[run], return_index=True, return_inverse=True)
        first = rng.random(begins.size) < MEAN
        value[run] = rng.random(CUT) < np.where(first, (MEAN - (1 - MEAN)) / MEAN, 1.0)[of]
        value[run, begins] = first
    changed = Traffic(**{**vars(traffic), "value": value})
    alarms = alarms_by_session(changed, "session", size=SIZE, quiet_s=QUIET_S, limit=MEAN, run_length=RUN_LENGTH)
    return Mean.of(run_lengths(alarms, CUT))


def missed(runs: int) -> float:
    """Return how often an interval of first answers ever misses the mean over all answers."""
    rng = np.random.default_rng(42)
    n = np.broadcast_to(np.arange(1, 1_334), (runs, 1_333))
    x: Floats = (rng.random(n.shape) < 0.9).astype(float)
    mean = np.cumsum(x, axis=1) / n
    guess = np.concatenate([np.full((runs, 1), FIRST_GUESS), mean[:, :-1]], axis=1)
    lower, upper = running_interval(mean, n, np.cumsum((x - guess) ** 2, axis=1), confidence=0.975)
    truth = (0.9 + 2 * 0.7) / 3
    return float(np.mean(((truth < lower) | (truth > upper)).any(axis=1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    print(HEADER.format(runs=runs))
    print(table(("traffic", "detector", "run length", *(f"delay to {after:g}" for after in AFTER)), known(runs)))
    few = max(runs // 5, 10)
    print(LEARNED.format(runs=few))
    print(table(("answers before the fall", "traffic", "delay to 0.45"), learned(few)), end="")
    print(NEGATIVE.format(length=negative(runs)), end="")
    print(INTERVALS.format(missed=missed(runs), runs=runs), end="")


if __name__ == "__main__":
    main()
