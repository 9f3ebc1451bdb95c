"""The processor time of a label of the local labeler, by the length of the documents.

It is part of the unit costs of `ragtide capacity`, and the only record of that time: pages quote it in its words.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.text import sentences
from ragtide_consumers.text.kept_documents import KeptDocuments
from ragtide_offline.capacity.judging import example_interactions
from ragtide_offline.capacity.unit_costs import SHIPPED, TextCost, UnitCosts, read_unit_costs

from .fitting import fitted

ROOT: Final = Path(__file__).parents[2]

QUOTED: Final = ("README.md", "docs/scores/local-labeler.md", "docs/start/production.md", "docs/understand/measured.md")
"""Pages with the words of the record."""

SIZES: Final = ((1, 1.0), (5, 0.4), (5, 1.0), (20, 1.0), (5, 10.0))
"""Documents of an interaction, and KiB of each."""

ROWS: Final = 100
"""Interactions of a size."""


def label_us(labeler: LocalLabeler, rows: Sequence[RagInteraction]) -> float:
    """Return the microseconds of processor time of a label, in a process that has seen none of the documents."""
    sentences.KEPT = KeptDocuments()  # type: ignore[attr-defined]
    started = time.process_time()
    for row in rows:
        labeler.label_now(row)
    return 1e6 * (time.process_time() - started) / len(rows)


def measured_us(rounds: int) -> dict[tuple[int, float], float]:
    """Return the cost of a label by documents and KiB of each: the least of the rounds, which take turns."""
    labeler = LocalLabeler()
    rows = {size: example_interactions(ROWS, documents=size[0], kib=size[1]) for size in SIZES}
    label_us(labeler, rows[SIZES[0]])  # loads code
    found = [{size: label_us(labeler, rows[size]) for size in SIZES} for _ in range(rounds)]
    return {size: min(of[size] for of in found) for size in SIZES}


def label_cost(points: Mapping[tuple[int, float], float]) -> TextCost:
    """Return the cost that fits points best, in relative errors: a part of each label, and one of each KiB."""
    each, kib = fitted([(1.0, documents * size) for documents, size in points], list(points.values()))
    return TextCost(each=each, document=0.0, kib=kib)


def write_unit_costs(costs: UnitCosts, path: Path = SHIPPED, root: Path = ROOT) -> None:
    """Write unit costs; if they are those of ragtide, the pages quote them from then on."""
    if path == SHIPPED:
        before = read_unit_costs(path).labelers_us["local"].in_words()
        for name in QUOTED:
            page = root / name
            text = page.read_text(encoding="utf-8")
            page.write_text(text.replace(before, costs.labelers_us["local"].in_words()), encoding="utf-8")
    path.write_text(costs.model_dump_json(indent=2) + "\n", encoding="utf-8")
