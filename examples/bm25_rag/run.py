"""The experiment in experiment.toml as a script: one process, no Redis, a few seconds.

    python examples/bm25_rag/run.py            # stop each config as soon as it has surely lost
    python examples/bm25_rag/run.py --all      # ask all configs all questions, to see what the race would have missed

All configs answer the same question before the next one is asked, so that they are compared on equal terms.
"""

import argparse
import random
import time
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from math import nan
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import rag

from ragtide import Item, LocalLabeler, Race, RagInteraction, read_items

HERE = Path(__file__).parent

SHOWN = ("own.token_f1", "own.reciprocal_rank", "trace.context_utilization", "trace.adherence")

Scores = dict[str, float]


def configs_of(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every combination of the parameters."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def scored(item: Item, parameters: Mapping[str, Any], labeler: LocalLabeler) -> Scores:
    """Ask one config one question and return the scores of its answer: its own metrics, and the labeler's."""
    documents, response = rag.answer(item.question, **parameters)
    own = rag.measure(item, SimpleNamespace(documents=documents, response=response))
    interaction = RagInteraction.from_fields(
        {"pipeline": "bm25", "question": item.question, "documents": documents, "response": response}
    )
    known = {f"own.{name}": value for name, value in own.items() if value is not None}
    return {**known, **labeler.label_now(interaction).scores}


def run(experiment: Mapping[str, Any], *, everything: bool = False) -> list[dict[str, list[float]]]:
    """Return the scores of each config by metric, and say who is stopped while it runs."""
    configs = configs_of(experiment["grid"])
    items = read_items(HERE / experiment["data"])
    random.Random(experiment["seed"]).shuffle(items)
    race = Race(len(configs), population=len(items), **experiment["race"])
    labeler = LocalLabeler()
    found: list[dict[str, list[float]]] = [defaultdict(list) for _ in configs]
    for item in items:
        running = race.running
        raced = [nan] * len(configs)
        for place, parameters in enumerate(configs):
            if not (running[place] or everything):
                continue
            scores = scored(item, parameters, labeler)
            raced[place] = scores.get(experiment["metric"], nan)
            for metric, value in scores.items():
                found[place][metric].append(value)
        for lost in race.update(raced):
            behind = lost.difference
            print(
                f"question {lost.item:3}: {config_name(configs[lost.place])} stopped; "
                f"{config_name(configs[lost.by])} is better by {behind.estimate:.3f} "
                f"({behind.lower:.3f} to {behind.upper:.3f})"
            )
    return found


def config_name(parameters: Mapping[str, Any]) -> str:
    """Return the name of a config."""
    return ",".join(f"{name}={value}" for name, value in parameters.items())


def print_table(configs: list[dict[str, Any]], found: list[dict[str, list[float]]], metric: str) -> None:
    """Print the mean scores, who was asked most and is best first."""
    order = sorted(range(len(configs)), key=lambda at: (-len(found[at][metric]), -fmean(found[at][metric])))
    print("\n" + f"{'config':45} {'asked':>5}" + "".join(f" {name.partition('.')[2]:>19}" for name in SHOWN))
    for at in order:
        means = "".join(f" {fmean(found[at][name]):>19.3f}" for name in SHOWN)
        print(f"{config_name(configs[at]):45} {len(found[at][metric]):>5}{means}")


def main() -> None:
    """Run the experiment and print who won and what it took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="ask all configs all questions")
    everything = parser.parse_args().all
    experiment = tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))
    began = time.monotonic()
    found = run(experiment, everything=everything)
    metric, configs = experiment["metric"], configs_of(experiment["grid"])
    print_table(configs, found, metric)
    asked, most = (
        sum(len(scores[metric]) for scores in found),
        len(configs) * max(len(scores[metric]) for scores in found),
    )
    print(f"\n{asked:,} answers of {most:,} ({asked / most:.0%}) in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
