"""False moves of levels in simulated fleets, and the share of planted falls that is found soon.

    python benchmarks/level_moves.py [--fleets 200] [--shifted 25] [--only TRAFFIC]

Seeded. A fleet has 5 pipelines with 4 metrics each, of which each has 3,000 answers in the month. Its levels share one
budget of one false move a month, as those of a deployment with one partition and the default settings do. It is their
first month, whose costs add up to more of the budget than those of a month whose traffic was foreseen.

With sessions, a session has 1 to 7 answers around a mean of its own, and counts when it is closed.

For the second table all levels fall at once, after 1,500 answers each; found within 200 answers of the level counts.

For the third table 20 streams share the budget of a month: answers that depend on each other, and days and nights. A
stream counts if a look after every 100 answers shows it as moved. Of days and nights the first 5 days do not count,
because the hours are known from the fifth day on. Falls from 0.85 to 0.65 come at half of the answers.
"""

import argparse
import itertools
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.alerts.levels import MOST_AT_ONCE
from ragtide_aggregator.checkpoint.options import MONTH_MS
from ragtide_aggregator.estimates.assumptions import CERTAIN_SHARE
from ragtide_aggregator.state.measured_rows import SWING_CONFIDENCE
from ragtide_aggregator.statistics.drift.budget import Budget
from ragtide_aggregator.statistics.drift.levels import DIRECTIONS, LEARNED, Levels, explained_by
from ragtide_aggregator.statistics.drift.seasons import HOUR_MS, SeasonTable
from ragtide_aggregator.statistics.means.dependence import DependenceTable
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
    levels = Levels()
    rows = np.array([levels.add_row() for _ in range(fleets * LEVELS)])
    normal = np.array([metric.mean for metric in METRICS])
    size = (1 + LARGEST_SESSION) / 2 if sessions else 1.0
    ticks, fallen = int(answers / size), int(BEFORE / size)
    # A level is learned anew after a move, so it moves at most once in so many ticks.
    at_once = int(LEARNED / size) // 2
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


STREAMS: Final = 20
LOOK: Final = 100
DAY_MS: Final = 86_400_000


class Traffic(NamedTuple):
    """Answers of streams that a detector may take for moves."""

    name: str
    answers: int
    per_day: int = 86_400
    correlation: float = 0.0
    """Of each score with the one before."""
    swing: float = 0.0
    """Amplitude of the mean over the day."""
    sessions: bool = False
    """Whether 20 sessions of 5 answers run at once, whose names are not known."""
    first_days: int = 0
    """Days whose looks do not count."""


TRAFFIC: Final = (
    Traffic("independent", 6_000),
    *(Traffic(f"each score depends on the one before, {rho}", 6_000, correlation=rho) for rho in (0.5, 0.9, 0.98)),
    *(
        Traffic(f"day and night, 0.85 ± {swing}, 1,000 a day", 12_000, 1_000, swing=swing, first_days=5)
        for swing in (0.05, 0.15)
    ),
    Traffic("sessions of 5 that are not known, 20 at once", 6_000, sessions=True),
)


def streams(traffic: Traffic, fall: float, seed: int) -> Floats:
    """Return the answers of streams, shape (STREAMS, answers)."""
    rng = np.random.default_rng((seed, *traffic.name.encode()))
    shape, number = (STREAMS, traffic.answers), np.arange(traffic.answers)
    mean = 0.85 + traffic.swing * np.sin(2 * np.pi * number / traffic.per_day) - fall * (number >= shape[1] // 2)
    if traffic.correlation:
        noise = rng.standard_normal(shape) * np.sqrt(1 - traffic.correlation**2)
        noise[:, 0] = rng.standard_normal(STREAMS)
        follow = itertools.accumulate(noise.T, lambda last, new: traffic.correlation * last + new)
        return np.clip(mean + 0.1 * np.stack([*follow], axis=1), 0.0, 1.0)
    if traffic.sessions:
        of_session = number // 100 * 20 + number % 20
        lucks = [rng.beta(at, 1 - at, (STREAMS, of_session.max() + 1))[:, of_session] for at in (0.85, 0.85 - fall)]
        mean = np.where(number < shape[1] // 2, *lucks)
    return (rng.random(shape) < mean).astype(float)


def shown(traffic: Traffic, *, fall: float = 0.0, seed: int = 0, explains: bool = True) -> tuple[int, int]:
    """Return the number of streams that are shown as moved at a look, and at the last look.

    Args:
        traffic: of the streams.
        fall: of all streams at half of the answers; only falls that are found after it count.
        seed: of the random numbers.
        explains: whether moves that something else explains are withheld.
    """
    values, budget = streams(traffic, fall, seed), Budget(DEFAULTS.false_per_month, MONTH_MS)
    budget.begin(0)
    levels, blocks, seasons = Levels(), DependenceTable(), SeasonTable("day")
    rows = np.array([(levels.add_row(), blocks.add_row(), seasons.add_row())[0] for _ in range(STREAMS)])
    each_ms, ever, now = DAY_MS // traffic.per_day, set[int](), set[int]()
    for start in range(0, traffic.answers, LOOK):
        part = values[:, start : start + LOOK].T
        times = (np.arange(start, start + len(part)) * each_ms)[:, None] + np.zeros(part.shape, dtype=np.int64)
        of, flat, when = np.tile(rows, len(part)), part.ravel(), times.ravel()
        ends = len(DIRECTIONS) * np.arange(1, flat.size + 1)
        costs = np.minimum(budget.spend(int(ends[-1]))[ends - 1], MOST_AT_ONCE)
        levels.update(of, flat, when, costs, np.ones(flat.size, dtype=np.int64))
        blocks.update(of, flat, when)
        seasons.add_values(of, when // HOUR_MS, flat)
        now = set()
        for row in np.flatnonzero(levels.table.found_ms[rows] >= 0).tolist():
            way = DIRECTIONS[int(levels.table.rose[row])]
            swing = seasons.swings(rows[row : row + 1], direction=way, confidence=SWING_CONFIDENCE)
            hours = float(swing.estimate[0]) if swing.share[0] > CERTAIN_SHARE else np.nan
            explained = explained_by(levels.change(row), blocks.read(rows[row : row + 1]), hours) if explains else None
            after = levels.table.since_ms[row] >= (traffic.answers // 2 - LARGEST_SESSION * LOOK) * each_ms
            if explained is None and (not fall or (after and way == "fall")):
                now.add(row)
        if start * each_ms >= traffic.first_days * DAY_MS:
            ever |= now
    return len(ever), len(now)


def streams_table(only: str) -> None:
    """Print the third table, of the traffic with a text in its name."""
    print(
        f"\n{STREAMS} streams that share the budget of a month: those that are shown as moved at any look without a "
        f"change, with and without what else explains a move, and those whose fall from 0.85 to 0.65 is shown at the "
        "end:\n"
    )
    print("| traffic | answers | shown as moved | found by the detector alone | fall shown |\n|---|---|---|---|---|")
    for kind in (each for each in TRAFFIC if only in each.name):
        without, falls = shown(kind, explains=False)[0], shown(kind, fall=0.2, seed=1)[1]
        print(f"| {kind.name} | {kind.answers:,} | {shown(kind)[0]} | {without} | {falls} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fleets", type=int, default=200)
    parser.add_argument("--shifted", type=int, default=25)
    parser.add_argument("--only", metavar="TRAFFIC", help="only the streams whose traffic has this in its name")
    arguments = parser.parse_args()
    if arguments.only is not None:
        streams_table(arguments.only)
        return
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
    streams_table("")


if __name__ == "__main__":
    main()
