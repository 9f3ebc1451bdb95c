"""How many labels a drawn set needs for the interval of uniform drawing, on public labeled sets; and its coverage.

    python benchmarks/drawn_sets.py RAGBENCH.jsonl[.gz] [CLAPNQ.jsonl] [--runs 1000]

Needs lightgbm. Seeded. About 20 minutes on a slow core. Each subset of RAGBench is a set; its cheap scores are those of
the local labeler fitted to the other subsets, as in `fitted_proxy.py`. ClapNQ has labels by people, which nothing was
fitted to.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from fitted_proxy import deployments
from numpy.typing import NDArray

from ragtide import LocalLabeler, RagInteraction
from ragtide_aggregator.statistics.means.stratified import DrawnFrom, draw_of, stratified_mean
from ragtide_offline.datasets.drawing import DrawSource, draw

Floats = NDArray[np.float64]

SOURCE: Final = 10_000
"""Answers of a source, drawn with replacement from the set, whose mean is the truth."""

ROWS: Final = 200
"""Rows of a drawn set."""

UNIFORM: Final = (200, 280, 400, 560, 800)
"""Rows of uniform drawings, to which drawn sets are compared."""

CONFIDENCE: Final = 0.95

METRICS: Final = ("context_relevance", "context_utilization", "adherence")

TEXT: Final = """# Drawn sets

Written by `make drawnsets ROWS=FILES` (`benchmarks/drawn_sets.py`): {runs:,} draws of a set, and a tenth of them for
each other width.

The source of a draw is {source:,} answers, drawn with replacement from a labeled public set; the true mean is that of
the set. The labels of RAGBench are by GPT-4, those of ClapNQ by people. The cheap scores are the local labeler's. For
RAGBench it was fitted to the other subsets, so it has seen nothing of the set; nothing was fitted to ClapNQ. The
intervals are those of `ragtide score` of drawn rows (`stratified`, 95%).

- **r**: correlation of the cheap score and the label.
- **labels**: {rows} rows of `ragtide dataset draw`, as a share of the uniformly drawn rows whose interval is as wide
  (mean width; between {uniform} rows by interpolation). One set, drawn by the score of adherence, serves all metrics.
- **by it**: the same of sets that were drawn by the score of this metric.
- **limit**: 1 - r², the least share if the label is a straight line of the cheap score and as uncertain everywhere,
  with a source without end. A set is below it only where bands find the answers that are uncertain.
- **coverage**: share of the {runs:,} intervals of drawn sets that hold the true mean.

| set | answers | metric | mean | r | labels | by it | limit | coverage |
|---|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True, slots=True)
class LabeledSet:
    """A set of answers with cheap scores and labels by metric; nan for an absent one."""

    name: str
    cheap: Mapping[str, Floats]
    labels: Mapping[str, Floats]


class Intervals(NamedTuple):
    """Mean width of the intervals of many draws, and the share that holds the truth."""

    width: float
    coverage: float


def ragbench(path: Path) -> Iterator[LabeledSet]:
    """Yield the subsets of RAGBench."""
    for subset, rows in deployments(path):
        cheap = {metric: np.array([row.shipped[metric] for row in rows]) for metric in METRICS}
        yield LabeledSet(subset, cheap, {metric: np.array([row.judged[metric] for row in rows]) for metric in METRICS})


def clapnq(path: Path) -> LabeledSet:
    """Return ClapNQ: of each question the share of the sentences of its passage that people used."""
    labeler, cheap, labels = LocalLabeler(), [], []
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        interaction = RagInteraction(
            pipeline="clapnq",
            question=row["question"],
            documents=[{"text": row["passage"], "sentences": row["passage_sentences"]}],
            response=row["answer"] or "",
        )
        cheap.append(labeler.label_now(interaction).scores)
        labels.append(len(row["selected_sentence_ids"]) / len(row["passage_sentences"]))
    table = {
        metric: np.array([scores.get(f"trace.{metric}", np.nan) for scores in cheap])
        for metric in ("context_relevance", "adherence")
    }
    return LabeledSet("ClapNQ", table, {"context_relevance": np.array(labels)})


def measure(one: LabeledSet, rows: int, runs: int, *, by: str | None = "adherence") -> dict[str, Intervals]:
    """Return the intervals of many sets of so many rows, by metric.

    Args:
        by: metric by whose cheap score is drawn; None for uniform rows.
    """
    uniform = by is None
    widths: dict[str, list[float]] = {metric: [] for metric in one.labels}
    covered: dict[str, list[bool]] = {metric: [] for metric in one.labels}
    names = {metric: f"trace.{metric}" for metric in one.cheap}
    for run in range(runs):
        rng = np.random.default_rng((20261130, rows, run))
        places = rng.integers(0, len(one.cheap["adherence"]), SOURCE)
        answers = DrawSource(np.ones(SOURCE), range(SOURCE), [None] * SOURCE, {})
        if by is not None:
            scores = {names[metric]: array[places] for metric, array in one.cheap.items()}
            answers = replace(answers, band=names[by], scores=scores, spread_by=names[by])
        drawn = draw(answers, rows, seed=run).rows
        order, design = draw_of([DrawnFrom(row.stratum.name, row.stratum.rows, row.probability) for row in drawn])
        chosen = np.array([row.place for row in drawn])[order]
        known = None
        if not uniform:
            means = np.array(
                [[row.stratum.means.get(names[metric], np.nan) for row in drawn] for metric in one.labels]
            )[:, order]
            known = np.nan_to_num(np.array([one.cheap[metric][places][chosen] for metric in one.labels]) - means)
        values = np.array([labels[places][chosen] for labels in one.labels.values()])
        mean = stratified_mean(values, design, confidence=CONFIDENCE, known=known)
        for (metric, labels), lower, upper in zip(one.labels.items(), mean.lower, mean.upper, strict=True):
            widths[metric].append(float(upper - lower))
            covered[metric].append(bool(lower <= labels.mean() <= upper))
    return {metric: Intervals(float(np.mean(widths[metric])), float(np.mean(covered[metric]))) for metric in one.labels}


def share_of_labels(width: float, uniform: Mapping[int, float]) -> str:
    """Return the rows of a drawn set as a share of the uniform rows whose interval is as wide."""
    rows = sorted(uniform)
    widths = [uniform[count] for count in rows]
    if width > widths[0]:  # the width of uniform rows falls with the root of their number
        return f"{(width / widths[0]) ** 2:.0%}"
    worth = float(np.exp(np.interp(np.log(width), np.log(widths[::-1]), np.log(rows[::-1]))))
    return f"under {ROWS / rows[-1]:.0%}" if width < widths[-1] else f"{ROWS / worth:.0%}"


def lines_of(one: LabeledSet, runs: int) -> Iterator[str]:
    """Yield the lines of a set."""
    # Widths need fewer draws than coverage.
    uniform = {rows: measure(one, rows, runs // 10, by=None) for rows in UNIFORM}
    drawn = measure(one, ROWS, runs)
    for metric, labels in one.labels.items():
        cheap = one.cheap[metric]
        known = ~np.isnan(cheap)
        r = float(np.corrcoef(cheap[known], labels[known])[0, 1])
        by_it = drawn if metric == "adherence" else measure(one, ROWS, runs // 10, by=metric)
        widths = {rows: uniform[rows][metric].width for rows in UNIFORM}
        cells = [
            one.name,
            f"{len(labels):,}",
            metric,
            f"{labels.mean():.2f}",
            f"{r:.2f}",
            share_of_labels(drawn[metric].width, widths),
            share_of_labels(by_it[metric].width, widths),
            f"{1 - r * r:.0%}",
            f"{drawn[metric].coverage:.1%}",
        ]
        yield f"| {' | '.join(cells)} |"


def sets_of(paths: Sequence[Path]) -> Iterator[LabeledSet]:
    """Yield the sets in files."""
    for path in paths:
        if "clapnq" in path.name:
            yield clapnq(path)
        else:
            yield from ragbench(path)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--runs", type=int, default=1_000)
    arguments = parser.parse_args()
    uniform = f"{', '.join(map(str, UNIFORM[:-1]))} and {UNIFORM[-1]}"
    print(TEXT.format(runs=arguments.runs, source=SOURCE, rows=ROWS, uniform=uniform))
    for one in sets_of(arguments.files):
        for line in lines_of(one, arguments.runs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
