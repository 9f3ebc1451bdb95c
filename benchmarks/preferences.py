"""Correlate metrics with people's preferences between two answers: the meta-evaluation of RAGChecker.

    python benchmarks/preferences.py PREFERENCES.jsonl [--published FOLDER] [--samples 2000]

Each pair of answers has the opinions of two people on correctness, completeness and overall, from -2 (the first is much
better) to 2. A metric's opinion is its score of the second answer minus that of the first. As in the paper (Ru et al.,
RAGChecker, arXiv:2408.08067, section 4.2), every opinion of a person counts by itself. Intervals: 95%, percentiles of
2,000 seeded samples of questions. `--published` has `human_labeled_data.json` and any of the `baseline_*.json` of the
paper's repository (data/meta_evaluation, 280 pairs): the paper's own outputs, correlated in the same way.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from agreement import SAMPLES, SEED, rank_correlation
from numpy.typing import NDArray

from ragtide import LocalLabeler, RagInteraction

Floats = NDArray[np.float64]
Score = Callable[[Mapping[str, Any], str], float]

ASPECTS = ("correctness_label", "completeness_label", "overall_label")

LABELER = LocalLabeler()

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())


def shared(response: str, reference: str) -> tuple[float, float]:
    """Return the shares of the response's words in the reference, and of the reference's in the response."""
    said, right = Counter(words(response)), Counter(words(reference))
    both = (said & right).total()
    return both / max(said.total(), 1), both / max(right.total(), 1)


def f1(precision: float, recall: float) -> float:
    """Return the harmonic mean; 0 if both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def rouge_l(response: str, reference: str) -> float:
    """Return the F1 of the longest common subsequence of words (Lin, ROUGE, W04-1013, section 3, with beta 1)."""
    first, second = words(response), words(reference)
    row = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for place, other in enumerate(second, 1):
            before, row[place] = row[place], before + 1 if word == other else max(row[place], row[place - 1])
    return f1(row[-1] / max(len(first), 1), row[-1] / max(len(second), 1))


def supported(question: str, document: str, response: str) -> float:
    """Return the share of the response's sentences that the local labeler expects the document to support."""
    if not document.strip():
        return 0.0
    row = RagInteraction(pipeline="preferences", question=question, documents=[document], response=response)
    return LABELER.label_now(row).scores.get("trace.supported_fraction", float("nan"))


def _support(pair: Mapping[str, Any], response: str) -> float:
    return f1(
        supported(pair["query"], pair["gt_answer"], response), supported(pair["query"], response, pair["gt_answer"])
    )


METRICS: dict[str, Score] = {
    "length in words": lambda _, response: float(len(words(response))),
    "word precision": lambda pair, response: shared(response, pair["gt_answer"])[0],
    "word recall": lambda pair, response: shared(response, pair["gt_answer"])[1],
    "word F1": lambda pair, response: f1(*shared(response, pair["gt_answer"])),
    "ROUGE-L": lambda pair, response: rouge_l(response, pair["gt_answer"]),
    "local: response by right answer": lambda pair, response: supported(pair["query"], pair["gt_answer"], response),
    "local: right answer by response": lambda pair, response: supported(pair["query"], response, pair["gt_answer"]),
    "local: F1 of both": _support,
}
"""Metrics that need no model; each compares a response with the right answer, but for the length."""


def difference(pairs: Sequence[Mapping[str, Any]], score: Score) -> Floats:
    """Return the score of the second answer minus that of the first; the median where one is missing."""
    found = np.array(
        [score(pair, pair["model2"]["response"]) - score(pair, pair["model1"]["response"]) for pair in pairs]
    )
    return np.where(np.isnan(found), np.nanmedian(found), found)


def pearson(first: Floats, second: Floats) -> float:
    """Return Pearson's correlation; NaN where one side is constant."""
    return float(np.corrcoef(first, second)[0, 1]) if first.std() and second.std() else float("nan")


class Opinions:
    """The opinions of two people on pairs of answers, by question."""

    def __init__(self, questions: Sequence[str], opinions: Mapping[str, Floats], samples: int) -> None:
        self._opinions = opinions
        names = {name: number for number, name in enumerate(dict.fromkeys(questions))}
        of_question: list[list[int]] = [[] for _ in names]
        for row, name in enumerate(questions):
            of_question[names[name]].append(row)
        rng = np.random.default_rng(SEED)
        self._samples = [
            np.array([*chain.from_iterable(of_question[number] for number in rng.integers(0, len(names), len(names)))])
            for _ in range(samples)
        ]

    def line(self, name: str, guess: Mapping[str, Floats]) -> None:
        """Print the correlations of a metric with each aspect, in percent."""
        cells = []
        for aspect in ASPECTS:
            for figure in (pearson, rank_correlation):
                value = figure(np.repeat(guess[aspect], 2), self._opinions[aspect].ravel())
                sampled = [
                    figure(np.repeat(guess[aspect][rows], 2), self._opinions[aspect][rows].ravel())
                    for rows in self._samples
                ]
                low, high = np.nanquantile(sampled, (0.025, 0.975))
                cells.append(f"{100 * value:.1f} ({100 * low:.0f} to {100 * high:.0f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)

    def people(self) -> None:
        """Print the correlation of the two people with each other."""
        cells = [
            f"{100 * figure(self._opinions[aspect][:, 0], self._opinions[aspect][:, 1]):.1f}"
            for aspect in ASPECTS
            for figure in (pearson, rank_correlation)
        ]
        print(f"| two people with each other | {' | '.join(cells)} |")


def head(title: str) -> None:
    """Print the head of a table."""
    print(f"\n## {title}\n")
    names = (f"{aspect.removesuffix('_label')}, {kind}" for aspect in ASPECTS for kind in ("Pearson", "Spearman"))
    print(f"| metric | {' | '.join(names)} |")
    print("|---|" + "--:|" * 6)


def report(path: Path, samples: int) -> None:
    """Print the correlations of the metrics that can be computed on pairs of answers."""
    pairs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    head(f"{len(pairs)} pairs")
    opinions = {aspect: np.array([pair["human"][aspect] for pair in pairs], np.float64) for aspect in ASPECTS}
    table = Opinions([pair["query"] for pair in pairs], opinions, samples)
    for name, score in METRICS.items():
        table.line(name, dict.fromkeys(ASPECTS, difference(pairs, score)))
    stored = {
        aspect: np.array(
            [pair["model2"]["ragchecker"][aspect] - pair["model1"]["ragchecker"][aspect] for pair in pairs]
        )
        for aspect in ASPECTS
    }
    table.line("RAGChecker (stored: precision, recall, F1)", stored)
    table.people()


def report_published(folder: Path, samples: int) -> None:
    """Print the correlations of the outputs that the paper's repository has."""
    human = json.loads((folder / "human_labeled_data.json").read_text(encoding="utf-8"))
    opinions = {aspect: np.array([row[aspect] for row in human], np.float64).reshape(-1, 2) for aspect in ASPECTS}
    table: Opinions | None = None
    for path in sorted(folder.glob("baseline_*.json")):
        pairs = json.loads(path.read_text(encoding="utf-8"))
        if table is None:
            head(f"The outputs of the paper: {len(pairs)} pairs")
            table = Opinions([pair["query"] for pair in pairs], opinions, samples)
        system = next(key for key, value in pairs[0]["model1"].items() if isinstance(value, dict))
        metrics = [*pairs[0]["model1"][system]]
        for metric in ["its own of each aspect"] if {*ASPECTS} <= {*metrics} else metrics:
            guess = {}
            for aspect in ASPECTS:
                name = aspect if metric == "its own of each aspect" else metric
                found = np.array(
                    [pair["model2"][system][name] - pair["model1"][system][name] for pair in pairs], np.float64
                )
                guess[aspect] = np.where(np.isnan(found), np.nanmedian(found), found)
            table.line(f"{system}: {metric}", guess)
    if table is not None:
        table.people()


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preferences", type=Path, help="JSON Lines of pairs of answers with people's opinions")
    parser.add_argument("--published", type=Path, help="folder of the outputs of the paper's repository")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="samples of questions for the intervals")
    arguments = parser.parse_args()
    print("# Metrics and people's preferences\n")
    print("Written by `make preferences PAIRS=FILE` (`benchmarks/preferences.py`). Correlations in percent, with 95%")
    print("intervals, of differences of scores with the opinions of people (RAGChecker, arXiv:2408.08067; Apache-2.0).")
    report(arguments.preferences, arguments.samples)
    if arguments.published is not None:
        report_published(arguments.published, arguments.samples)


if __name__ == "__main__":
    main()
