"""The gain from covariates known before the answer, on RAGBench.

    python benchmarks/covariates.py ROWS [--runs 40]

ROWS is a file of RAGBench rows, one JSON object per line, also compressed with gzip. Seeded; every run draws as many
rows as there are, with replacement. Covariates are words of the question, sentences of the documents, the best overlap
of words between the question and a document, and the subset as segment. Printed are, per metric:

- R^2: the part of the variance that the covariates explain, by predictions made before each value;
- width of the adjusted `running` interval over the plain one, beside sqrt(1 - R^2);
- ever missed: runs in which the interval ever left out the mean of all rows, looked at after every tenth from the 30th
  on. That is promised for the plain interval alone: the adjusted one is about the questions asked so far;
- labeled part: a judge scores each row with probability 0.2, and the prediction from covariates is the cheap score of a
  prediction-powered estimate, whose target is the plain one. Effective judged rows over judged rows, and widths;
- one covariate at a time, in units and features as `compare --share` has them: R^2, and two ratios of widths, of the
  adjusted `running` interval over the plain one, and of the interval of a difference by a coin (share 1/2) with the
  covariate over the one without. RAGBench has no scores of a retriever: the overlap of words stands in for them;
- widths of the interval of a difference: both pipelines answer with the row's score, and a coin sends each row to one
  of them. Two running intervals; one joint interval of both, which needs no coin (`stream_difference`); one interval
  for the assignment, without and with covariates.
"""

import argparse
import gzip
import json
import re
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.statistics.comparisons.assignment import AssignmentTable
from ragtide_aggregator.statistics.comparisons.comparing import difference
from ragtide_aggregator.statistics.comparisons.covariates import CovariateTable
from ragtide_aggregator.statistics.comparisons.known_features import of_numbers, of_values
from ragtide_aggregator.statistics.comparisons.split_traffic import split_difference
from ragtide_aggregator.statistics.comparisons.two_streams import stream_difference
from ragtide_aggregator.statistics.intervals.running import running_half_width, running_interval
from ragtide_aggregator.statistics.means.moments import MomentTable
from ragtide_aggregator.statistics.pairs.prediction_powered import Everything, PairTable
from ragtide_aggregator.statistics.tables.batches import Floats
from ragtide_consumers.labelers.event import COMPUTED

METRICS: Final = ("adherence", "completeness", "relevance", "utilization")
SHARES: Final = (0.5, 0.1)
JUDGED: Final = 0.2
FROM, EVERY = 30, 10
COMMON: Final = frozenset(
    re.findall(
        r"\w+",
        """a an and are as at be by can do does did for from how i in is it my of on or that the this to was were what
        when where which who why will with""",
    )
)
"""Words of questions that say nothing of their subject."""


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return re.findall(r"\w+", text.lower())


def covariates(row: dict[str, Any]) -> list[float]:
    """Return what is known of a row before its answer, in [0, 1]."""
    question = words(row["question"])
    asked = set(question) - COMMON
    sentences = sum(len(document) for document in row["documents_sentences"])
    overlap = max(len(asked & set(words(document))) / max(len(asked), 1) for document in row["documents"])
    return [min(len(question) / 40, 1), min(np.log1p(sentences) / 6, 1), 1 / max(sentences, 1), overlap]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in text.splitlines()]


def read(path: Path) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return covariates by name, shape (rows, features), and scores by metric."""
    rows = read_rows(path)
    subsets = sorted({row["subset"] for row in rows})
    known = np.array([covariates(row) for row in rows])
    segment = np.array([[row["subset"] == name for name in subsets[1:]] for row in rows], dtype=np.float64)
    scores = {name: np.clip([float(row[f"{name}_score"]) for row in rows], 0, 1) for name in METRICS}
    return {"text": known, "segment": segment, "both": np.concatenate([known, segment], axis=1)}, scores


def adjusted(features: Floats, x: Floats, runs: int) -> tuple[float, float, float, float]:
    """Return R^2, width over the plain width at the end, and how many runs missed the mean: plain and adjusted."""
    rng = np.random.default_rng(20261122)
    table = CovariateTable(features.shape[1])
    rows = np.array([table.add_row() for _ in range(runs)])
    order = rng.integers(x.size, size=(x.size, runs))
    missed = np.zeros((2, runs), dtype=bool)
    for number in range(x.size):
        here = order[number]
        table.update(rows, x[here], features[here])
        if number >= FROM and number % EVERY == 0:
            mean, n = table.means(rows), table.counts(rows)
            for which, times in enumerate(table.times(rows)):
                lower, upper = running_interval(mean, n, times, confidence=0.95)
                missed[which] |= (lower > x.mean()) | (upper < x.mean())
    plain, used = table.times(rows)
    widths = [float(np.mean(running_half_width(table.counts(rows), v, confidence=0.95))) for v in (plain, used)]
    return float(np.mean(1 - used / plain)), widths[1] / widths[0], float(missed[0].mean()), float(missed[1].mean())


def labeled(features: Floats, x: Floats, runs: int) -> tuple[float, float]:
    """Return effective over judged rows, and the width over that of the judge alone."""
    rng = np.random.default_rng((20261122, 1))
    table, moments, pairs = CovariateTable(features.shape[1]), MomentTable(), PairTable()
    for run in range(runs):
        for state in (table, moments, pairs):
            state.add_row()
        order, judged = rng.integers(x.size, size=x.size), rng.random(x.size) < JUDGED
        rows = np.full(x.size, run)
        predicted = table.update(rows, x[order], features[order], judged)
        moments.update(rows, predicted)
        pairs.update(rows[judged], x[order][judged], predicted[judged], np.full(int(judged.sum()), JUDGED))
    everyone = np.arange(runs)
    powered = pairs.read(everyone, Everything.scored(moments.read(everyone)), confidence=0.95)
    alone = pairs.read(everyone, None, confidence=0.95)
    widths = (powered.upper - powered.lower) / (alone.upper - alone.lower)
    return float(np.mean(powered.n_effective / alone.n_effective)), float(np.mean(widths))


def compared(features: Floats, x: Floats, share: float, runs: int) -> list[float]:
    """Return widths of a difference: two intervals, a joint one, one of the assignment without and with covariates."""
    rng = np.random.default_rng((20261122, int(100 * share)))
    one, more = AssignmentTable(0, least_share=share), AssignmentTable(features.shape[1], least_share=share)
    moments, widths = MomentTable(), []
    joint = []
    for run in range(runs):
        order = rng.integers(x.size, size=x.size)
        to_a = rng.random(x.size) < share
        pair = [moments.add_row(), moments.add_row()]
        moments.update(np.where(to_a, *pair), x[order])
        two = difference(moments.read(pair[:1]), moments.read(pair[1:]), confidence=0.95)
        lower, upper = stream_difference(moments.read(pair[:1]), moments.read(pair[1:]), confidence=0.95)
        joint.append(float(upper[0] - lower[0]))
        rows, shares = np.full(x.size, run), np.full(x.size, share)
        for table in (one, more):
            table.add_row()
        one.update(rows, to_a, shares, x[order], np.zeros((x.size, 0)))
        more.update(rows, to_a, shares, x[order], features[order])
        widths.append(two.upper - two.lower)
    found = [table.read(np.arange(runs), confidence=0.95) for table in (one, more)]
    return [
        float(np.mean(widths)),
        float(np.mean(joint)),
        *(float(np.mean(table.upper - table.lower)) for table in found),
    ]


def single(row: dict[str, Any]) -> list[float]:
    """Return the covariates that workers compute, of a row; a document's score is its overlap with the question."""
    asked = set(words(row["question"])) - COMMON
    scores = [len(asked & set(words(document))) / max(len(asked), 1) for document in row["documents"]]
    texts = sum(len(document) for document in row["documents"])
    return [len(row["question"]), texts, len(scores), max(scores), sum(scores) / len(scores)]


def alone(rows: list[dict[str, Any]], order: NDArray[np.intp]) -> dict[str, Floats]:
    """Return the features of rows in an order, by the name of their covariates."""
    numbers = np.array([single(row) for row in rows], dtype=np.float64)[order]
    subset = of_values([rows[place]["subset"] for place in order.tolist()], 4)
    found = {name: of_numbers(column) for name, column in zip(COMPUTED, numbers.T, strict=True)}
    scores = np.concatenate([found["top_score"], found["mean_score"]], axis=1)
    return {
        "question_length": found["question_length"],
        "segment": subset,
        "question_length, segment": np.concatenate([found["question_length"], subset], axis=1),
        "documents": found["documents"],
        "context_length": found["context_length"],
        "top_score, mean_score": scores,
        "all but documents": np.concatenate(
            [found["question_length"], subset, found["context_length"], scores], axis=1
        ),
    }


def one_at_a_time(rows: list[dict[str, Any]], scores: dict[str, Floats], runs: int) -> dict[str, dict[str, Floats]]:
    """Return R^2 and both ratios of widths, by covariate and metric."""
    gained: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
    for run in range(runs):
        rng = np.random.default_rng((20261122, 2, run))
        order, to_a = rng.integers(len(rows), size=len(rows)), rng.random(len(rows)) < SHARES[0]
        for name, features in alone(rows, order).items():
            for metric, x in scores.items():
                table = CovariateTable(features.shape[1])
                one = np.full(len(rows), table.add_row())
                table.update(one, x[order], features)
                plain, used = table.times(one[:1])
                half = [float(running_half_width(len(rows), v, confidence=0.95)[0]) for v in (plain, used)]
                ends = [
                    split_difference(to_a, x[order], known, share=SHARES[0], confidence=0.95)
                    for known in (np.zeros((len(rows), 0)), features)
                ]
                without, with_it = (float(end.upper[0] - end.lower[0]) for end in ends)
                found = float(1 - used[0] / plain[0]), half[1] / half[0], with_it / without
                gained.setdefault(name, {}).setdefault(metric, []).append(found)
    return {name: {metric: np.mean(of, axis=0) for metric, of in by.items()} for name, by in gained.items()}


def print_one_at_a_time(path: Path, runs: int) -> None:
    """Print the gain from each covariate."""
    rows, scores = read_rows(path), read(path)[1]
    print("\n## One covariate at a time\n")
    print(
        f"{runs} draws. Each cell: R²; width of the mean's interval, adjusted / plain; of the difference's, by coin.\n"
    )
    print(f"| covariates | {' | '.join(METRICS)} |\n|{'---|' * (1 + len(METRICS))}")
    for name, by in one_at_a_time(rows, scores, runs).items():
        cells = (f"{of[0]:.3f}; {of[1]:.3f}; {of[2]:.3f}" for of in (by[metric] for metric in METRICS))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--runs", type=int, default=40)
    arguments = parser.parse_args()
    known, scores = read(arguments.rows)
    n = len(known["text"])
    print("# Covariates known before the answer\n\nWritten by `make covariates` (`benchmarks/covariates.py`).\n")
    print(f"{n:,} rows of RAGBench, {arguments.runs} draws of as many. Covariates: texts; segment; both.\n")
    print("## The interval of a mean\n")
    header = ("metric", "covariates", "R²", "width, adjusted / plain", "sqrt(1 - R²)", "plain ever missed", "adjusted")
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for metric, x in scores.items():
        for name, features in known.items():
            explained, ratio, plain, other = adjusted(features, x, arguments.runs)
            print(
                f"| {metric} | {name} | {explained:.3f} | {ratio:.3f} | {np.sqrt(1 - max(explained, 0)):.3f} "
                f"| {plain:.1%} | {other:.1%} |",
                flush=True,
            )
    print(f"\n## The interval of a mean of which {JUDGED:.0%} of the rows are judged\n")
    print("| metric | effective judged rows | width against the judge alone |\n|---|---|---|")
    for metric, x in scores.items():
        gain, ratio = labeled(known["both"], x, arguments.runs)
        print(f"| {metric} | {gain:.2f}x | {ratio:.3f} |", flush=True)
    print("\n## The interval of a difference, by share of the traffic of pipeline a\n")
    columns = (
        "metric",
        "share",
        "two intervals",
        "joint",
        "by coin",
        "by coin, with covariates",
        "joint / two",
        "last / two",
    )
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for metric, x in scores.items():
        for share in SHARES:
            two, joint, one, more = compared(known["both"], x, share, arguments.runs)
            widths = " | ".join(f"{width:.3f}" for width in (two, joint, one, more, joint / two, more / two))
            print(f"| {metric} | {share:g} | {widths} |", flush=True)
    print_one_at_a_time(arguments.rows, arguments.runs // 4)


if __name__ == "__main__":
    main()
