"""How much work racing saves, and how often it loses the best: 16 configs, 400 items, many experiments.

    python benchmarks/racing.py [--runs 500]

Seeded. A config's scores are Beta(10 m, 10 (1 - m)) or yes or no with probability m, m its mean. Independent: every
score is drawn for itself. Correlated: a config's score on an item is the quantile, of the same distribution, at
Phi(sqrt(1/2) item + sqrt(1/2) rest), with item and rest standard normal: half is what the item has in common for all
configs, as some questions are harder than others. Truth is the mean over all 400 items. What is kept is who has the
best mean of all items among those that still run at the end.

By document: 20 items belong to each document. Half of the variance of `rest` belongs to a config and a document, so a
config is good at whole documents. An experiment draws the order of the items at random. Document by document is an
order that it does not use.

By hand: all on the first shard of 50 items, and only the best go on. Racing looks after every fifth item, and is the
package's own betting and deciding; a test compares it with `ragtide.Race`.
"""

import argparse
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr

from ragtide_aggregator.statistics.comparisons.duels import Duels
from ragtide_aggregator.statistics.comparisons.racing import RESERVE
from ragtide_aggregator.statistics.comparisons.ruling import ruled_out
from ragtide_aggregator.statistics.tables.batches import Floats

Flags = NDArray[np.bool_]

COUNT: Final = 16
ITEMS: Final = 400
SHARD: Final = 50
MARGIN: Final = 0.02
SHARED: Final = 0.5
SCENARIOS: Final = {
    "even spread, 0.30 to 0.70": np.linspace(0.3, 0.7, COUNT),
    "clear winner, 0.70, others 0.50": np.array([0.7] + [0.5] * (COUNT - 1)),
    "four close, 0.70 to 0.67, others 0.60": np.array([0.7, 0.69, 0.68, 0.67] + [0.6] * (COUNT - 4)),
    "all within 0.02": np.linspace(0.49, 0.51, COUNT),
}
KINDS: Final = ("Beta", "yes or no")
DOCUMENT: Final = 20
"""Items of a document."""
CHUNK: Final = 100


class Outcome(NamedTuple):
    """The results of experiments, one element each."""

    work: Floats
    """Executions, of all configs on all items."""
    lost: Flags
    """Whether the best was stopped."""
    regret: Floats
    """Best mean over all items, minus that of the config that remains."""


def draw(rng: np.random.Generator, means: Floats, kind: str, runs: int, shared: float) -> Floats:
    """Return scores, shape (runs, ITEMS, configs)."""
    item = rng.standard_normal((runs, ITEMS, 1))
    rest = rng.standard_normal((runs, ITEMS, means.size))
    return _quantiles(np.sqrt(shared) * item + np.sqrt(1 - shared) * rest, means, kind)


def draw_documents(rng: np.random.Generator, means: Floats, kind: str, runs: int) -> Floats:
    """Return independent scores of items from documents, in the documents' order; shape (runs, ITEMS, configs)."""
    luck = np.repeat(rng.standard_normal((runs, ITEMS // DOCUMENT, means.size)), DOCUMENT, axis=1)
    rest = np.sqrt(SHARED) * luck + np.sqrt(1 - SHARED) * rng.standard_normal((runs, ITEMS, means.size))
    return _quantiles(rest, means, kind)


def in_random_order(rng: np.random.Generator, scores: Floats) -> Floats:
    """Return the scores with the items of each run in an order drawn at random, as an experiment orders them."""
    order = rng.permuted(np.tile(np.arange(scores.shape[1]), (scores.shape[0], 1)), axis=1)
    return np.take_along_axis(scores, order[:, :, None], axis=1)


def _quantiles(normal: Floats, means: Floats, kind: str) -> Floats:
    uniform = ndtr(normal)
    if kind == "yes or no":
        return np.asarray((uniform < means) * 1.0)
    # Quantiles by interpolation: exact ones take as long as all the rest.
    grid = np.linspace(0, 1, 4_001)
    return np.stack(
        [np.interp(uniform[..., k], grid, betaincinv(10 * m, 10 - 10 * m, grid)) for k, m in enumerate(means)], -1
    )


def outcome(scores: Floats, executed: Floats, running: Flags) -> Outcome:
    """Return the results of experiments.

    Args:
        scores: shape (runs, items, configs).
        executed: number of executions of each run.
        running: shape (runs, configs): who runs at the end.
    """
    full = scores.mean(axis=1)
    best = full.argmax(axis=1)
    kept = np.where(running, full, -1.0).max(axis=1)
    lost = ~running[np.arange(len(full)), best]
    return Outcome(executed / scores[0].size, lost, full.max(axis=1) - kept)


def race(scores: Floats, *, confidence: float = 0.95, margin: float = MARGIN, look_every: int = 5) -> Outcome:
    """Race experiments side by side; scores have shape (runs, items, configs)."""
    runs, items, count = scores.shape
    duels = Duels((runs, count), population=items, margin=margin, money=1 - RESERVE)
    enough = 1 / (1 - confidence)
    running, out = np.ones((runs, count), dtype=np.bool_), np.zeros((runs, count), dtype=np.bool_)
    ruled = np.zeros((runs, count, count), dtype=np.bool_)
    executed = np.zeros(runs)
    nobody = np.zeros(count, dtype=np.bool_)
    for item in range(items):
        executed += running.sum(axis=1)
        duels.play(item, scores[:, item], running)
        if (item + 1) % look_every and item + 1 < items:
            continue
        reached = duels.evidence >= enough
        ruled |= reached
        for run in np.flatnonzero((reached & running[:, :, None] & running[:, None, :]).any(axis=(1, 2))):
            found = ruled_out(
                reached[run],
                ruled[run],
                mean=duels.mean[run],
                seen=duels.seen[run],
                running=running[run],
                out=out[run],
                protected=nobody,
            )
            for place, _ in found:
                running[run, place], out[run, place] = False, True
    return outcome(scores, executed, running)


def by_hand(scores: Floats, kept: tuple[int, ...]) -> Outcome:
    """Keep so many after each shard, by their means so far; the last number is for all shards that are left."""
    runs, items, count = scores.shape
    running = np.ones((runs, count), dtype=np.bool_)
    executed = np.zeros(runs)
    for shard in range(items // SHARD):
        executed += SHARD * running.sum(axis=1)
        means = np.where(running, scores[:, : (shard + 1) * SHARD].mean(axis=1), -1.0)
        ranks = np.argsort(np.argsort(-means, axis=1, kind="stable"), axis=1, kind="stable")
        running &= ranks < kept[min(shard, len(kept) - 1)]
    return outcome(scores, executed, running)


def simulate(strategy: Callable[[Floats], Outcome], scores: Floats) -> Outcome:
    """Return the outcomes, some runs at a time, which is faster than all at once."""
    parts = [strategy(scores[first : first + CHUNK]) for first in range(0, len(scores), CHUNK)]
    return Outcome(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _cells(found: Outcome) -> str:
    work = found.work.mean()
    return (
        f"{work:.3f} | {1 / work:.1f} | {found.lost.mean():.1%} | {np.mean(found.regret > MARGIN + 1e-9):.1%} | "
        f"{found.regret.mean():.4f}"
    )


HEADER: Final = "work | times less | best stopped | kept one worse by more than 0.02 | mean regret |"


def _scores(number: int, scenario: str, kind: str, runs: int, shared: float) -> Floats:
    rng = np.random.default_rng((20261121, number, KINDS.index(kind), int(100 * shared)))
    return draw(rng, SCENARIOS[scenario], kind, runs, shared)


def _hand(runs: int) -> None:
    for shared, title in ((0.0, "independent scores"), (SHARED, "correlated scores")):
        print(f"\n## By hand, {title}\n\n| rule | scenario | scores | {HEADER}\n|---|---|---|---|---|---|---|---|")
        for name, kept in (("16, 4, 2, then 1", (4, 2, 1)), ("16, then the best after 50", (1,))):
            for number, scenario in enumerate(SCENARIOS):
                for kind in KINDS:
                    scores = _scores(number, scenario, kind, runs, shared)
                    print(f"| {name} | {scenario} | {kind} | {_cells(by_hand(scores, kept))} |", flush=True)


def _racing(runs: int) -> None:
    for shared, title in ((0.0, "independent scores"), (SHARED, "correlated scores")):
        print(f"\n## Racing, {title}\n\n| scenario | scores | {HEADER}\n|---|---|---|---|---|---|---|")
        for number, scenario in enumerate(SCENARIOS):
            for kind in KINDS:
                scores = _scores(number, scenario, kind, runs, shared)
                print(f"| {scenario} | {kind} | {_cells(simulate(race, scores))} |", flush=True)


def _documents(runs: int) -> None:
    print(f"\n## Racing, items of {ITEMS // DOCUMENT} documents\n")
    print(f"| order | scenario | scores | {HEADER}\n|---|---|---|---|---|---|---|---|")
    for order in ("at random", "document by document"):
        for number, scenario in enumerate(SCENARIOS):
            for kind in KINDS:
                rng = np.random.default_rng((20261122, number, KINDS.index(kind)))
                scores = draw_documents(rng, SCENARIOS[scenario], kind, runs)
                if order == "at random":
                    scores = in_random_order(rng, scores)
                print(f"| {order} | {scenario} | {kind} | {_cells(simulate(race, scores))} |", flush=True)


def _settings(runs: int) -> None:
    print("\n## The effect of the settings: even spread, correlated scores\n")
    print(f"| setting | scores | {HEADER}\n|---|---|---|---|---|---|---|")
    settings: dict[str, Callable[[Floats], Outcome]] = {
        "margin 0": lambda x: race(x, margin=0.0),
        "margin 0.05": lambda x: race(x, margin=0.05),
        "confidence 0.80": lambda x: race(x, confidence=0.8),
        "confidence 0.99": lambda x: race(x, confidence=0.99),
        "look after every item": lambda x: race(x, look_every=1),
        "look after every shard of 50": lambda x: race(x, look_every=SHARD),
    }
    for name, strategy in settings.items():
        for kind in KINDS:
            scores = _scores(0, next(iter(SCENARIOS)), kind, runs, SHARED)
            print(f"| {name} | {kind} | {_cells(simulate(strategy, scores))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    runs = parser.parse_args().runs
    print(
        "# Racing: work saved and mistakes made\n\nWritten by `make racing` (`benchmarks/racing.py`, which says how)."
    )
    print(f"\n{COUNT} configs, {ITEMS} items, {runs:,} experiments a row, confidence 0.95, margin {MARGIN}.")
    print("Work is the share of all executions that were made; who is left runs on all items.")
    _hand(runs)
    _racing(runs)
    _documents(runs)
    _settings(runs)


if __name__ == "__main__":
    main()
