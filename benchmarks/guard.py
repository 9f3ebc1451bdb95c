"""Fail when a stage has become slower than its noise explains.

    python benchmarks/guard.py [--short]
    python benchmarks/guard.py --write

Runs `throughput.py`, whose stages run beside raw redis-py in the same round; the imports of a producer, beside those of
redis, pydantic and asyncio alone; and the first `/v1/fleet?limit=21` with 3,000 pipelines, beside one with 30. All are
processor time. The median ratio of each is compared with benchmarks/baseline.json. A ratio fails when it is above its
baseline by more than its noise: the range of the rounds that the baseline was made of, and at least a tenth. `--short`
takes about a minute, has a baseline of its own, and finds only what is half as slow again. `--write` measures both
baselines anew: do that on a quiet machine, in the commit that changes the speed.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import many_pipelines
import throughput
from before_after import this_tree
from redis import Redis
from waiting.starts import LIBRARIES, PRODUCER, import_cost

BASELINE = Path(__file__).with_name("baseline.json")


@dataclass(frozen=True, slots=True)
class Form:
    """How much is measured."""

    interactions: int
    rounds: int
    least_noise: float
    """Relative; machines of CI differ more than the rounds of one run."""


FORMS = {"full": Form(8000, 5, 0.1), "short": Form(2000, 3, 0.5)}
WRITTEN_ROUNDS = 9
FEW, MANY = 30, 3000
"""Pipelines of the two deployments whose fleet is read."""


def ratios(results: Sequence[dict[str, throughput.Costs]]) -> dict[str, list[float]]:
    """Return the ratio to raw redis-py in each round, of each stage and of Redis in it."""
    found = {stage: throughput.ratios(results, stage) for stage in throughput.STAGES}
    for stage in ("publish", "deliver"):
        found[f"{stage}, Redis"] = [result[stage].redis_us / result[f"{stage}_raw"].redis_us for result in results]
        found[f"{stage}, bytes in Redis"] = [
            result[stage].redis_bytes / result[f"{stage}_raw"].redis_bytes for result in results
        ]
    return found


def imports(rounds: int) -> list[float]:
    """Return the ratio of a producer's imports to those of the libraries alone in each round."""
    this_tree()
    costs = [(import_cost(PRODUCER), import_cost(LIBRARIES)) for _ in range(rounds + 1)]
    return [ours.cpu_s / alone.cpu_s for ours, alone in costs[1:]]


def fleet(rounds: int) -> list[float]:
    """Return the ratio of the first fleet of many pipelines to that of few in each round, Redis included."""
    with many_pipelines.deployment(FEW) as few, many_pipelines.deployment(MANY) as many:
        return [_first_fleet_s(*many) / _first_fleet_s(*few) for _ in range(rounds)]


def _first_fleet_s(redis: Redis, folder: Path, settings: Mapping[str, str]) -> float:
    with many_pipelines.reader(redis, folder, settings) as read:
        look = read(many_pipelines.FLEET)
    if look.status != "200":
        raise RuntimeError(f"{many_pipelines.FLEET} answered {look.status}")
    return look.all_s


def measured(form: Form, rounds: int) -> dict[str, list[float]]:
    """Return every ratio in each round."""
    of_stages = ratios(throughput.measured(form.interactions, rounds))
    return {**of_stages, "import": imports(rounds), f"fleet, {MANY:,} pipelines": fleet(rounds)}


def baseline_of(values: Mapping[str, Sequence[float]], least_noise: float) -> dict[str, dict[str, float]]:
    """Return median and noise of each ratio; the noise is relative."""
    return {
        name: {
            "ratio": round(statistics.median(rounds), 2),
            "noise": round(max((max(rounds) - min(rounds)) / statistics.median(rounds), least_noise), 2),
        }
        for name, rounds in values.items()
    }


def compare(baseline: Mapping[str, Mapping[str, float]], found: Mapping[str, Sequence[float]]) -> list[str]:
    """Print each ratio beside its baseline.

    Returns:
        The names of those that are worse than their noise explains, or have no baseline.
    """
    worse = [name for name in found if name not in baseline]
    print(f"{'':<24}{'baseline':>10}{'noise':>8}{'now':>8}")
    for name, expected in baseline.items():
        now = statistics.median(found[name])
        slower = now > expected["ratio"] * (1 + expected["noise"])
        print(f"{name:<24}{expected['ratio']:>10.2f}{expected['noise']:>8.0%}{now:>8.2f}{'  WORSE' if slower else ''}")
        if slower:
            worse.append(name)
    return worse


def main() -> None:
    """Measure and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="fewer interactions and rounds")
    parser.add_argument("--write", action="store_true", help="write benchmarks/baseline.json instead of comparing")
    arguments = parser.parse_args()
    if arguments.write:
        written: dict[str, Any] = {
            name: baseline_of(measured(form, WRITTEN_ROUNDS), form.least_noise) for name, form in FORMS.items()
        }
        BASELINE.write_text(json.dumps(written, indent=2) + "\n")
        return
    name = "short" if arguments.short else "full"
    found = measured(FORMS[name], FORMS[name].rounds)
    worse = compare(json.loads(BASELINE.read_text())[name], found)
    if worse:
        sys.exit(f"slower than the baseline: {', '.join(worse)}")


if __name__ == "__main__":
    main()
