"""Compares scores of two answers with people's preferences between them, in the format of RAGChecker's meta-evaluation.

A pair becomes two interactions with the right answer as their document and their reference answer. A metric's opinion
is its score of the second answer minus that of the first. As in the paper, every opinion of a person counts by itself.

Source: Ru et al., "RAGChecker", arXiv:2408.08067, section 4.2.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ragtide_aggregator.statistics.comparisons.agreement import spearman

from .figures import Figure, SubsetScores, figure_of, question_digest

ASPECTS: Final = {
    "correctness": "correctness_label",
    "completeness": "completeness_label",
    "overall": "overall_label",
}
"""Aspects that people compared, with their names in the data."""

LARGEST: Final = 2.0
"""An opinion is from -2, the first answer is much better, to 2, the second is."""

Opinions = Mapping[str, Sequence[float]]
"""Opinions of the people about a pair, by aspect."""

ComparedPair = tuple[float, Opinions, str]
"""Score of the second answer minus that of the first, opinions, and digest of the question."""


@dataclass(frozen=True, slots=True)
class PreferenceFigures:
    """The rank correlation of one metric with people's preferences, for each aspect."""

    metric: str
    n: int
    """Number of pairs."""
    figures: Sequence[Figure]


def is_pair(fields: Mapping[str, Any]) -> bool:
    """Return whether a row is a pair of answers with opinions of people."""
    return {"query", "gt_answer", "model1", "model2", "human"} <= fields.keys()


def answer_of_pair(fields: Mapping[str, Any], place: int) -> dict[str, Any]:
    """Return an answer of a pair as an interaction.

    Args:
        place: 1 or 2.
    """
    opinions_of(fields)
    return {
        "question": fields["query"],
        "documents": [fields["gt_answer"]],
        "reference_answer": fields["gt_answer"],
        "response": fields[f"model{place}"]["response"],
    }


def opinions_of(fields: Mapping[str, Any]) -> Opinions:
    """Return the opinions of people about a pair.

    Raises:
        KeyError: an aspect is missing.
        ValueError: an opinion is no number from -2 to 2, or an aspect has none.
    """
    opinions = {name: [float(value) for value in fields["human"][key]] for name, key in ASPECTS.items()}
    if not all(values and all(abs(value) <= LARGEST for value in values) for values in opinions.values()):
        raise ValueError("human")
    return opinions


class PreferencePairs:
    """The scores of a labeler on pairs of answers so far."""

    def __init__(self) -> None:
        self._first: Mapping[str, float] | None = None
        self._pairs: defaultdict[str, list[ComparedPair]] = defaultdict(list)

    def take(self, place: int, scores: Mapping[str, float] | None, fields: Mapping[str, Any]) -> None:
        """Take the scores of an answer; those of the first answer of a pair come before those of the second.

        Args:
            place: 1 or 2.
            scores: by metric; None if the answer could not be labeled, which leaves the pair out.
        """
        if place == 1:
            self._first = scores
            return
        first, self._first = self._first, None
        if first is None or scores is None:
            return
        for metric in first.keys() & scores.keys():
            difference = scores[metric] - first[metric]
            self._pairs[metric].append((difference, opinions_of(fields), question_digest(str(fields["query"]))))

    def figures(self, *, confidence: float, seed: int) -> list[PreferenceFigures]:
        """Return the correlations of every metric with enough pairs, by name.

        A metric that is nearly always the same for both answers, such as `response.empty`, has none.

        Args:
            confidence: level of the intervals.
            seed: of the bootstrap, which draws questions.
        """
        correlations = []
        for metric, pairs in sorted(self._pairs.items()):
            figures = [
                figure_of(name, spearman, {"people": _scores(pairs, name)}, confidence, seed) for name in ASPECTS
            ]
            if any(figure.mean.lower is not None for figure in figures):
                correlations.append(PreferenceFigures(metric, len(pairs), figures))
        return correlations


def _scores(pairs: Sequence[ComparedPair], aspect: str) -> SubsetScores:
    counts = [len(opinions[aspect]) for _, opinions, _ in pairs]
    return SubsetScores(
        np.repeat(np.array([difference for difference, _, _ in pairs]), counts),
        np.array([value for _, opinions, _ in pairs for value in opinions[aspect]]),
        np.repeat(np.array([question for *_, question in pairs]), counts),
        {},
    )
