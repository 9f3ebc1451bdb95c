"""The questions about an item, and the gold scores that follow from the answers. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragtide_consumers.text.keys import letters
from ragtide_schemas import Specimen

ADHERENCE: Final = "trace.adherence"
SUPPORTED: Final = "trace.supported_fraction"

WHOLE: Final = "response"
"""Key of a response whose sentences are not kept."""

RATINGS: Final[Mapping[str, str]] = {
    "trace.context_relevance": "How much of the documents is relevant to the question?",
    "trace.context_utilization": "How much of the documents does the response use?",
    "trace.completeness": "How much of the relevant text does the response use?",
}
"""Question of each metric that people rate from 1 to 5: each is a share; 1 is nothing, 3 is half, 5 is everything."""

SHARES_OF_TEXT: Final = ("ragbench", "ragbench_raw")
"""Profiles in which these metrics are shares of the text."""

HIGHEST: Final = 5


@dataclass(frozen=True, slots=True)
class ItemQuestion:
    """One question about an item, which one key answers."""

    name: str
    """Key of the response sentence, or the metric of a rating."""
    text: str
    """The sentence, or the question of the rating."""
    keys: tuple[str, ...]
    """The keys that answer it: `y` and `n`, or `1` to `5`."""


def questions(specimen: Specimen, rated: Sequence[str] = ()) -> list[ItemQuestion]:
    """Return the questions about an item: each response sentence, and then the ratings.

    A metric that no labeler could score is not asked, because its gold score would have nothing to compare with.

    Args:
        specimen: the item.
        rated: metrics of `RATINGS`.
    """
    asked = []
    if any(ADHERENCE in labeling.scores for labeling in specimen.labelings):
        sentences = specimen.interaction.response_sentences
        named = {WHOLE: specimen.interaction.response}
        if sentences:
            named = {letters(place): text for place, text in enumerate(sentences)}
        asked += [ItemQuestion(key, text, ("y", "n")) for key, text in named.items()]
    keys = tuple(str(rating) for rating in range(1, HIGHEST + 1))
    for metric in rated:
        profiles = {labeling.profile for labeling in specimen.labelings if metric in labeling.scores}
        if profiles and profiles.issubset(SHARES_OF_TEXT):
            asked.append(ItemQuestion(metric, RATINGS[metric], keys))
    return asked


def answered_metrics(specimen: Specimen, rated: Sequence[str] = ()) -> set[str]:
    """Return the metrics that get a gold score from the answers to all questions about an item."""
    asked = questions(specimen, rated)
    sentences = {question.name: True for question in asked if question.name not in RATINGS}
    return set(
        gold_scores(specimen, sentences, {question.name: HIGHEST for question in asked if question.name in RATINGS})
    )


def gold_scores(specimen: Specimen, supported: Mapping[str, bool], ratings: Mapping[str, int]) -> dict[str, float]:
    """Return the gold scores of answers, for the metrics that a labeler scored.

    Adherence is 1 if every sentence is supported, else 0; `supported_fraction` is the share of supported sentences; a
    rating k is (k - 1) / 4.
    """
    scores: dict[str, float] = {}
    if supported:
        scores[ADHERENCE] = float(all(supported.values()))
        if WHOLE not in supported and any(SUPPORTED in labeling.scores for labeling in specimen.labelings):
            scores[SUPPORTED] = sum(supported.values()) / len(supported)
    return scores | {metric: (rating - 1) / (HIGHEST - 1) for metric, rating in ratings.items()}
