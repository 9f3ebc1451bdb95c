"""False moves of levels in simulated fleets, and the share of planted falls that is found soon.

    python benchmarks/level_moves.py [--fleets 200] [--shifted 25]

Seeded. A fleet has 5 pipelines with 4 metrics each, of which each has 3,000 answers in the month. Its levels share one
budget of one false move a month, as those of a deployment with one partition and the default settings do. It is their
first month, whose costs add up to more of the budget than those of a month whose traffic was foreseen.

With sessions, a session has 1 to 7 answers around a mean of its own, and counts when it is closed.

For the second table all levels fall at once, after 1,500 answers each; found within 200 answers of the level counts.
"""

import argparse
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.alerts.levels import MOST_AT_ONCE
from ragtide_aggregator.checkpoint.options import MONTH_MS
from ragtide_aggregator.statistics.drift.budget import Budget
from ragtide_aggregator.statistics.drift.levels import DIRECTIONS, Levels
from ragtide_aggregator.statistics.tables.batches import Floats
from ragtide_runtime.settings.alerting import MovesSettings

PIPELINES: Final = 5
ANSWERS: Final = 3_000
"""Of each level in the month."""

BEFORE: Final = 1_500
WITHIN: Final = 200
FALLS: Final = (0.05, 0.1, 0.2, 0.4)
LARGEST_SESSION: Final = 7
SESSION_SPREAD: Final = 6.0
"""The mean of a session is a beta variable with this sum of parameters."""

DEFAULTS: Final = MovesSettings()


class Metric(NamedTuple):
    """Values of a metric."""

    name: str
    mean: float
    concentration: float | None
    """Sum of the parameters of the beta variables; None for yes or no."""


METRICS: Final = (
    Metric("yes or no, 0.9", 0.9, None),
    Metric("yes or no, 0.6", 0.6, None),
    Metric("score, 0.8", 0.8, 10.0),
    Metric("score, 0.95", 0.95, 20.0),
)
LEVELS: Final = PIPELINES * len(METRICS)


class Fleets(NamedTuple):
    """What was found in fleets; one element a fleet and level."""

    moves: NDArray[np.int64]
    """Number of moves that were found, shape (fleets, levels)."""
    delays: Floats
    """Answers from the fall to its move; infinity if it was not found."""


def drawn(rng: np.random.Generator, means: Floats, *, sessions: bool) -> tuple[Floats, NDArray[np.int64]]:
    """Return values and sizes: of answers, or of closed sessions.

    Args:
        rng: source of randomness.
        means: of the metrics, shape (ticks, fleets, pipelines, metrics).
        sessions: whether each value is the mean of a session.
    """
    most = LARGEST_SESSION if sessions else 1
    sizes = np.asarray(rng.integers(1, most, means.shape, dtype=np.int64, endpoint=True))
    if sessions:
        means = rng.beta(SESSION_SPREAD * means, SESSION_SPREAD * (1 - means))
    values = np.empty(means.shape)
    for number, metric in enumerate(METRICS):
        mean, size = means[..., number], sizes[..., number]
        if metric.concentration is None:
            values[..., number] = rng.binomial(size, mean) / size
            continue
        mean = np.clip(mean, 1e-6, 1 - 1e-6)[..., np.newaxis]
        each = rng.beta(metric.concentration * mean, metric.concentration * (1 - mean), (*mean.shape[:-1], most))
        values[..., number] = np.sum(each * (np.arange(most) < size[..., np.newaxis]), axis=-1) / size
    return np.clip(values, 0.0, 1.0), sizes


def simulated(
    fleets: int,
    answers: int,
    *,
    sessions: bool,
    fall: float = 0.0,
    seed: int = 0,
    settings: MovesSettings = DEFAULTS,
) -> Fleets:
    """Return what was found in fleets.

    Args:
        fleets: number of them.
        answers: of each level, at least.
        sessions: whether answers come in sessions.
        fall: of all levels after `BEFORE` answers.
        seed: of the random numbers.
        settings: of the moves.
    """
    rng = np.random.default_rng(seed)
    budgets = [Budget(settings.false_per_month, MONTH_MS) for _ in range(fleets)]
    for budget in budgets:
        budget.begin(0)
    levels = Levels(settings.learn, settings.min_effect)
    rows = np.array([levels.add_row() for _ in range(fleets * LEVELS)])
    normal = np.array([metric.mean for metric in METRICS])
    size = (1 + LARGEST_SESSION) / 2 if sessions else 1.0
    ticks, fallen = int(answers / size), int(BEFORE / size)
    # A level is learned anew after a move, so it moves at most once in so many ticks.
    at_once = int(settings.learn / size) // 2
    times, fell = np.zeros(rows.size, dtype=np.int64), np.zeros(rows.size, dtype=np.int64)
    moves, found = np.zeros(rows.size, dtype=np.int64), np.full(rows.size, -1)
    delays = np.full(rows.size, np.inf)
    start = 0
    while start < ticks:
        end = min(start + at_once, ticks if start >= fallen else fallen)
        if start == fallen:
            fell = times.copy()
        means = np.broadcast_to(
            normal - (fall if start >= fallen else 0.0), (end - start, fleets, PIPELINES, len(METRICS))
        )
        found_values, found_sizes = drawn(rng, means, sessions=sessions)
        shape = end - start, fleets, LEVELS
        values, sizes = found_values.reshape(shape), found_sizes.reshape(shape)
        costs = np.empty(shape)
        for fleet, budget in enumerate(budgets):
            ends = len(DIRECTIONS) * np.cumsum(sizes[:, fleet]).reshape(end - start, LEVELS)
            costs[:, fleet] = np.minimum(budget.spend(int(ends[-1, -1]))[ends - 1] * sizes[:, fleet], MOST_AT_ONCE)
        tags = times + np.cumsum(sizes.reshape(end - start, -1), axis=0)
        times = tags[-1]
        levels.update(np.tile(rows, end - start), values.ravel(), tags.ravel(), costs.ravel(), sizes.ravel())
        now = levels.table.found_ms[rows]
        new = now != found
        moves += new
        first = new & np.isinf(delays) & ~levels.table.rose[rows] & (start >= fallen)
        delays[first] = (now - fell)[first]
        found, start = now.copy(), end
    return Fleets(moves.reshape(fleets, LEVELS), delays.reshape(fleets, LEVELS))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fleets", type=int, default=200)
    parser.add_argument("--shifted", type=int, default=25)
    arguments = parser.parse_args()
    print("# Moves of levels in simulated fleets\n")
    print("Made by `python benchmarks/level_moves.py`, which says how; a part of `make simulations`.\n")
    print(f"{arguments.fleets} fleets of {LEVELS} levels, {ANSWERS:,} answers of each level in the month, no change:\n")
    print("| traffic | false moves a month, mean | fleets with one or more | at most, as stated |\n|---|---|---|---|")
    names = {False: "single answers", True: "sessions"}
    for sessions, name in names.items():
        moves = simulated(arguments.fleets, ANSWERS, sessions=sessions, seed=int(sessions)).moves.sum(axis=1)
        stated = DEFAULTS.false_per_month
        print(f"| {name} | {moves.mean():.3f} | {np.count_nonzero(moves)} of {moves.size} | {stated:.1f} |", flush=True)
    print(
        f"\nFalls found within {WITHIN} answers of the level, of {PIPELINES * arguments.shifted} falls each "
        f"({arguments.shifted} fleets), and the median delay in answers:\n"
    )
    print(f"| traffic | values | {' | '.join(f'fall of {fall}' for fall in FALLS)} |\n|---|---|{'---|' * len(FALLS)}")
    for sessions, name in names.items():
        of_falls = []
        for number, fall in enumerate(FALLS):
            seed = 100 + 10 * int(sessions) + number
            found = simulated(arguments.shifted, BEFORE + 3 * WITHIN, sessions=sessions, fall=fall, seed=seed)
            of_falls.append(found.delays.reshape(-1, len(METRICS)))
        for place, metric in enumerate(METRICS):
            cells = []
            for delays in of_falls:
                median = float(np.median(delays[:, place]))
                said = f"{median:.0f}" if median <= 3 * WITHIN else f"over {3 * WITHIN}"
                cells.append(f"{np.mean(delays[:, place] <= WITHIN):.0%} ({said})")
            print(f"| {name} | {metric.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
