"""Agreement of two labelers on the sentences of kept items that were drawn at random for both. No I/O."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from ragtide_aggregator.statistics.comparisons.bootstrap import Floats, Indexes, measured, resamples
from ragtide_aggregator.statistics.drift.kappa import kappa_of
from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_consumers.specimens.marks import Mark, marked
from ragtide_schemas import Specimen, SpecimenLabeling

LEAST_ITEMS: Final = 30
"""Fewest items, each session counted once, for which kappa is reported. With fewer the interval is too narrow."""

AGREED_FROM: Final = 0.5
"""Lowest probability that counts as yes, for a labeler that gives probabilities."""

SentenceMark = Literal["supported", "relevant", "utilized"]
MARKS: Final[tuple[SentenceMark, ...]] = ("supported", "relevant", "utilized")
"""The verdicts about a sentence: of the response, and two of the documents."""


@dataclass(frozen=True, slots=True)
class LabelerKappa:
    """The agreement of two labelers on one verdict about sentences."""

    pipeline: str
    labeler: str
    """Labeler of all interactions."""
    reference: str
    """Labeler of the sample, such as the judge."""
    mark: SentenceMark
    """The verdict."""
    items: int
    """Items with a verdict of both; items of one session count once."""
    sentences: int
    """Sentences with a verdict of both."""
    agreed: float
    """Share of these on which both say the same."""
    kappa: Interval[float, float] | None
    """Cohen's kappa of the sentences, the agreement beyond chance, with its 95% bootstrap interval over items.

    None with fewer than `LEAST_ITEMS` items, or if its interval is not defined, as when a labeler says the same of
    nearly all sentences."""


def labeler_kappas(specimens: Iterable[Specimen]) -> list[LabelerKappa]:
    """Return the agreement of each two labelers, by pipeline and verdict.

    Of two labelers only the specimens with their newest versions count, because another version is another labeler.

    Args:
        specimens: drawn at random for both labelers with the same probability (`KeptSpecimens.judged`).
    """
    groups: defaultdict[tuple[str, str, str], list[Specimen]] = defaultdict(list)
    for specimen in specimens:
        if len(specimen.labelings) == 2:
            first, second = specimen.labelings
            groups[specimen.interaction.pipeline, first.labeler, second.labeler].append(specimen)
    kappas = []
    for (pipeline, labeler, reference), group in sorted(groups.items()):
        newest = _versions(max(group, key=lambda specimen: specimen.labeled_at))
        tables = [table for specimen in group if _versions(specimen) == newest for table in _tables(specimen)]
        for mark in MARKS:
            of_mark = [(cluster, counts) for cluster, name, counts in tables if name == mark]
            if of_mark:
                kappas.append(_kappa(pipeline, labeler, reference, mark, of_mark))
    return kappas


def _versions(specimen: Specimen) -> list[tuple[str, str]]:
    return [(labeling.labeler_version, labeling.profile) for labeling in specimen.labelings]


def _tables(specimen: Specimen) -> Iterator[tuple[str, SentenceMark, Floats]]:
    first, second = (_verdicts(specimen, labeling) for labeling in specimen.labelings)
    cluster = (
        f"session {specimen.interaction.session_id}"
        if specimen.interaction.session_id
        else specimen.interaction.interaction_id
    )
    for mark in MARKS:
        counts = np.zeros(4)
        for mine, theirs in zip(first[mark], second[mark], strict=True):
            if mine is not None and theirs is not None:
                counts[2 * (mine < AGREED_FROM) + (theirs < AGREED_FROM)] += 1
        if counts.any():
            yield cluster, mark, counts


def _verdicts(specimen: Specimen, labeling: SpecimenLabeling) -> dict[SentenceMark, list[Mark]]:
    marks = marked(specimen, labeling)
    documents = [sentence for document in marks.documents for sentence in document or ()]
    return {
        "supported": [sentence.supported for sentence in marks.response or ()],
        "relevant": [sentence.relevant for sentence in documents],
        "utilized": [sentence.utilized for sentence in documents],
    }


def _kappa(
    pipeline: str, labeler: str, reference: str, mark: SentenceMark, tables: Sequence[tuple[str, Floats]]
) -> LabelerKappa:
    clusters: defaultdict[str, Floats] = defaultdict(lambda: np.zeros(4))
    for cluster, counts in tables:
        clusters[cluster] = clusters[cluster] + counts
    rows = np.array(list(clusters.values()))
    total = rows.sum(axis=0)
    n = len(rows)

    def kappa_at(index: Indexes) -> float:
        table = rows[index].sum(axis=0)
        both, first, second, _ = table / table.sum()
        mine, theirs = both + first, both + second
        crossed = mine * (1 - theirs) + theirs * (1 - mine)
        return kappa_of(float(first + second), float(crossed)) if crossed > 0 else float("nan")

    kappa = None
    if n >= LEAST_ITEMS:
        known = measured(kappa_at, n, resamples(n))
        if known.value is not None and known.lower is not None and known.upper is not None:
            kappa = Interval(known.value, known.lower, known.upper)
    return LabelerKappa(
        pipeline,
        labeler,
        reference,
        mark,
        n,
        int(total.sum()),
        float((total[0] + total[3]) / total.sum()),
        kappa,
    )
