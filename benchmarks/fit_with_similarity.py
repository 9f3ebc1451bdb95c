"""What a sentence encoder adds to `ragtide fit`: squared errors without and with it, on questions that were not seen.

    python benchmarks/similarity.py MODEL_FOLDER RAGBENCH.jsonl --write SCORES.jsonl
    python benchmarks/fit_with_similarity.py RAGBENCH.jsonl SCORES.jsonl

The second file may also be the output of `ragtide score RAGBENCH.jsonl --labeler model --json`. Each subset of RAGBench
is a deployment, and its stored labels (GPT-4) are its judge. The shipped labeler has seen these rows.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Final

import numpy as np

from ragtide_consumers.labelers.local.correction import CORRECTED, columns_of
from ragtide_consumers.text.sentences import CutInteraction
from ragtide_offline.benchmark.formats import read_labeled
from ragtide_offline.local_fit.examined import ExaminedInteraction, JudgedInteraction, examine
from ragtide_offline.local_fit.regression import cross_fit, loss_difference

SIMILARITY: Final = ("similarity.support", "similarity.match")


def similarities(path: Path) -> dict[str, tuple[float, float]]:
    """Return both similarities by the id of an interaction; 0 for an absent one, as in a fit."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        support, match = (row["scores"].get(name, 0.0) for name in SIMILARITY)
        found[row["interaction_id"]] = (support, match)
    return found


def examined(ragbench: Path, scores: Path) -> dict[str, list[ExaminedInteraction]]:
    """Return the inputs of a fit of each subset, of the rows that have similarities."""
    known, found = similarities(scores), defaultdict[str, list[ExaminedInteraction]](list)
    for row, fields in read_labeled(ragbench):
        interaction = row.interaction
        if interaction is None or interaction.interaction_id not in known:
            continue
        similar = known[interaction.interaction_id]

        def of(_: CutInteraction, similar: tuple[float, float] = similar) -> tuple[float, float]:
            return similar

        judged = JudgedInteraction(interaction, interaction.gold_scores)
        found[str(fields["subset"])] += examine([judged], similar=of).rows
    return found


def line(score: str, subset: str, every: list[ExaminedInteraction]) -> str:
    """Return a line of the table: one score of one subset."""
    rows = [row for row in every if score in row.judged and score in row.shipped]
    y, shipped = (
        np.array([part[score] for part in parts])
        for parts in zip(*((row.judged, row.shipped) for row in rows), strict=True)
    )
    questions, weights = [row.question for row in rows], np.ones(len(rows))
    plain = columns_of([row.summary for row in rows], shipped.tolist())
    wide = columns_of([[*row.summary, *row.similarity] for row in rows], shipped.tolist())
    without, with_both = (cross_fit(x, y, weights, questions) for x in (plain, wide))
    gain = loss_difference(y, without, with_both, weights, questions, confidence=0.95)
    errors = [float(np.mean((guess - y) ** 2)) for guess in (shipped, without, with_both)]
    cells = [score, subset, str(len(rows)), *(f"{error:.4f}" for error in errors)]
    return f"| {' | '.join(cells)} | {gain.difference:+.4f} | {gain.lower:+.4f} to {gain.upper:+.4f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ragbench", type=Path, help="JSON Lines of RAGBench rows")
    parser.add_argument("scores", type=Path, help="JSON Lines of their similarities")
    options = parser.parse_args()
    subsets = examined(options.ragbench, options.scores)
    print("| score | subset | rows | shipped | fitted | with similarity | difference | 95% |")
    print("|---|---|---|---|---|---|---|---|")
    for score in CORRECTED:
        for subset, rows in sorted(subsets.items()):
            print(line(score, subset, rows), flush=True)


if __name__ == "__main__":
    main()
