"""Predicts a judge's answers to criteria from an interaction's features, by numbers that `ragtide fit` fitted. Pure.

A proxy is a logistic function of the features of the whole interaction: those of its sentences, the shipped scores, and
the form of its texts. Every feature is limited to the range that it had among the fitted interactions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log1p
from typing import Final

from ragtide_schemas import RagInteraction, SentenceProbabilities
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.metric_definitions import SIMILARITY

from ...metrics.scores import AbsentReason
from ...text.sentences import CutInteraction
from .adjustment import Term, predicted_score
from .correction import CONSTANT, CORRECTED, log_odds, scores_of, summary_of
from .features import InteractionFeatures
from .model import SUMMARY_FEATURES
from .trees import DECIMALS

FORM_FEATURES: Final = (
    "response words", "response sentences", "response question marks", "response ends with a question",
    "response exclamation marks", "response list items", "response digits", "response capitals", "response links",
    "response refuses", "question words", "question marks", "documents", "earlier question",
)  # fmt: skip
"""Features of the form of the texts: logarithms of counts, shares of characters or lines, and yes (1) or no (0)."""

OWN_INPUTS: Final = (
    CONSTANT,
    *SUMMARY_FEATURES,
    *(f"log odds of {score}" for score in CORRECTED),
    "match",
    "match unknown",
    *FORM_FEATURES,
)
"""Inputs of every proxy of a criterion."""

PROXY_INPUTS: Final = (*OWN_INPUTS, *(metric.name for metric in SIMILARITY))
"""The same with those of a sentence encoder, which a proxy may have."""

_QUESTION_MARKS: Final = "?？؟"
_BULLETS: Final = ("-", "*", "•", "–", "·")


@dataclass(frozen=True, slots=True)
class CriterionProxy:
    """Predicts the value of a judge's answer to a criterion."""

    version: str
    """Version of the criterion whose answers were learned."""
    terms: Sequence[Term]
    """Of the log odds of the value in [0, 1]; places as of `PROXY_INPUTS`."""

    def score(self, criterion: Criterion, inputs: Sequence[float]) -> float:
        """Return the expected value of the judge's answer, in the criterion's range.

        Args:
            inputs: as `PROXY_INPUTS` names them; without similarities if no term needs them.
        """
        return criterion.lower + (criterion.upper - criterion.lower) * predicted_score(self.terms, inputs)


@dataclass(frozen=True, slots=True)
class CriterionScores:
    """Scores of the criteria that have a proxy and apply to an interaction, and reasons where one is absent."""

    scores: Mapping[str, float]
    absent: Mapping[str, str]
    criteria: Sequence[Criterion]
    """The criteria of both."""


def criterion_scores(
    proxies: Mapping[str, CriterionProxy],
    criteria: Sequence[Criterion],
    interaction: RagInteraction,
    inputs: Sequence[float] | AbsentReason,
) -> CriterionScores:
    """Return the scores of criteria for an interaction. A criterion without a proxy is left out.

    Args:
        criteria: as they are asked now; a proxy of another version of a criterion gives no score.
        inputs: as of `CriterionProxy.score`, or the reason why there are none.
    """
    mine = [
        criterion
        for criterion in criteria
        if criterion.metric in proxies
        and not criterion.is_of_session
        and criterion.applies(interaction.pipeline, interaction.segments)
    ]
    scores: dict[str, float] = {}
    absent: dict[str, str] = {}
    for criterion in mine:
        proxy = proxies[criterion.metric]
        if proxy.version != criterion.version:
            absent[criterion.metric] = AbsentReason.PROXY_OUTDATED
        elif isinstance(inputs, AbsentReason):
            absent[criterion.metric] = inputs
        else:
            scores[criterion.metric] = proxy.score(criterion, inputs)
    return CriterionScores(scores, absent, mine)


def proxy_inputs(
    interaction: RagInteraction,
    sentences: CutInteraction,
    features: InteractionFeatures,
    shipped: SentenceProbabilities,
) -> Sequence[float]:
    """Return the inputs of proxies of criteria, as `OWN_INPUTS` names them, of an interaction with document sentences.

    Args:
        interaction: with a response.
        shipped: probabilities by the shipped model.
    """
    scores = scores_of(shipped)
    odds = [round(log_odds(scores[score]), DECIMALS) if score in scores else 0.0 for score in CORRECTED]
    match = features.match
    return (
        1.0,
        *summary_of(features, shipped),
        *odds,
        0.0 if match is None else round(match, DECIMALS),
        float(match is None),
        *_form(interaction, sentences),
    )


def _form(interaction: RagInteraction, sentences: CutInteraction) -> list[float]:
    """Return the features of the form, in linear time."""
    response, question = interaction.response.strip(), interaction.question
    length = len(response)
    lines = [line for line in map(str.lstrip, response.splitlines()) if line]
    items = sum([line.startswith(_BULLETS) or line[:1].isdigit() for line in lines])
    numbers = [
        log1p(len(response.split())),
        log1p(len(sentences.response)),
        log1p(_question_marks(response)),
        float(response.endswith(tuple(_QUESTION_MARKS))),
        log1p(response.count("!")),
        items / len(lines) if lines else 0.0,
        sum(map(str.isdigit, response)) / max(length, 1),
        sum(map(str.isupper, response)) / max(length, 1),
        log1p(response.count("http") + response.count("[")),
        float(sentences.refuses),
        log1p(len(question.split())),
        log1p(_question_marks(question)),
        log1p(len(interaction.documents)),
        float(bool(sentences.earlier)),
    ]
    return [round(number, DECIMALS) for number in numbers]


def _question_marks(text: str) -> int:
    return sum([text.count(mark) for mark in _QUESTION_MARKS])
