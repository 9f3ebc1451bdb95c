"""RapidFire AI's online aggregation: what a look costs after n values, and how often its interval misses the mean.

Its `Aggregator` appends the metrics of each batch to lists; at a look, a function of the user reduces the lists, and
its strategy adds the interval. The lists are appended here, because the module of that class needs Ray.
"""

import json
import sys
import time
from typing import Any

import numpy as np
from rapidfireai.evals.metrics.online_strategies import NormalApproximationStrategy

METRICS = [f"m{number}" for number in range(10)]
Lists = dict[str, list[dict[str, Any]]]


def reduced(lists: Lists) -> dict[str, dict[str, Any]]:
    """Return the means so far, as the functions of its tutorials do: each batch has the weight of its samples."""
    sizes = [batch["value"] for batch in lists["Samples Processed"]]
    total = sum(sizes)
    return {
        name: {
            "value": sum(batch["value"] * size for batch, size in zip(lists[name], sizes, strict=True)) / total,
            "is_algebraic": True,
            "value_range": (0, 1),
        }
        for name in METRICS
    }


def cost(sizes: list[int], batch: int) -> dict[int, float]:
    """Return the microseconds of processor time of adding a batch and looking, by the values so far."""
    rng, strategy, found = np.random.default_rng(1), NormalApproximationStrategy(0.95), {}
    lists: Lists = {name: [] for name in ("Samples Processed", *METRICS)}
    for number in range(1, max(sizes) // batch + 1):
        values = (rng.random((len(METRICS), batch)) < 0.9).astype(float)
        begun = time.process_time()
        lists["Samples Processed"].append({"value": batch})
        for name, mean in zip(METRICS, values.mean(axis=1).tolist(), strict=True):
            lists[name].append({"value": mean})
        # Looks between the measured ones change nothing.
        if any(0 <= size - number * batch < 20 * batch for size in sizes):
            strategy.compute_live_metrics(lists, reduced)
        if number * batch in sizes:
            found[number * batch] = 1e6 * (time.process_time() - begun)
    return found


def missed(runs: int, batch: int, looks: int) -> float:
    """Return the share of runs in which the interval missed the mean at one look at least."""
    rng, strategy, missing = np.random.default_rng(2), NormalApproximationStrategy(0.95), 0
    for _ in range(runs):
        means = np.cumsum((rng.random((looks, batch)) < 0.9).sum(axis=1)) / (batch * np.arange(1, looks + 1))
        ends = [
            strategy.get_confidence_interval_algebraic(float(mean), batch * number, value_range=(0, 1))
            for number, mean in enumerate(means, 1)
        ]
        missing += any(not lower <= 0.9 <= upper for _, lower, upper in ends)
    return missing / runs


if __name__ == "__main__":
    sizes, batch, runs = json.loads(sys.argv[1])
    print(json.dumps({"cost": cost(sizes, batch), "missed": missed(runs, batch, 100)}))
