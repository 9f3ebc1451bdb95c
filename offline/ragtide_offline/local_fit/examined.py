"""Computes the inputs of a fit: features and shipped scores of interactions.

They have scores by a judge or people, or are pairs: recorded interactions, clean and spoilt in known ways.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from ragtide_consumers.labelers.local.correction import ADHERENCE, CORRECTED, scores_of, summary_of
from ragtide_consumers.labelers.local.criterion_proxies import proxy_inputs
from ragtide_consumers.labelers.local.labeler import LocalLabeler, features_of
from ragtide_consumers.labelers.local.model import LocalModel, shipped_model
from ragtide_consumers.metrics.scores import AbsentReason
from ragtide_consumers.metrics.trace import TRACE
from ragtide_consumers.text.sentences import CutInteraction, cut
from ragtide_runtime.redis.keys import interaction_digest
from ragtide_schemas import RagInteraction, SentenceProbabilities
from ragtide_schemas.criterion import Criterion

from ..corruptions.interactions import CORRUPTIONS, spoil, without_own_sentences

SUPPORTED_FRACTION: Final = "supported_fraction"
"""Score that moves with adherence, so a fit must not make it worse."""

WANTED: Final = tuple(TRACE + name for name in (*CORRECTED, SUPPORTED_FRACTION))
"""Metrics of a judge that a fit uses."""

EMPTY: Final[Mapping[str, float]] = MappingProxyType({})

Similar = Callable[[CutInteraction], Sequence[float] | None]
"""Returns `similarity.support` and `similarity.match` of an interaction; None if it is too long."""

MOST_SPOILT: Final = 400
"""Most interactions that are spoilt, because each is labeled about twelve times; of more chance draws so many."""

SENSED: Final = {
    name: [score for score in CORRECTED if corruption.expected.get(TRACE + score) == "worse"]
    for name, corruption in CORRUPTIONS.items()
}
"""By corruption: the scores that should get worse."""


@dataclass(frozen=True, slots=True)
class JudgedInteraction:
    """An interaction with scores by a judge or people."""

    interaction: RagInteraction
    scores: Mapping[str, float]
    """Scores by qualified metric name."""
    weight: float = 1.0
    """Number of interactions of the traffic that it stands for: the inverse of the probability of its judgement."""


@dataclass(frozen=True, slots=True)
class ExaminedInteraction:
    """The inputs of a fit from one interaction."""

    question: str
    """The question in lower case, without white space at its ends: equal ones are never on both sides of a fold."""
    occurred_at: datetime
    weight: float
    summary: Sequence[float]
    """Features of the whole interaction."""
    probabilities: SentenceProbabilities
    """The sentences' probabilities by the shipped model."""
    shipped: Mapping[str, float]
    """Scores of the shipped model, by their names without family."""
    judged: Mapping[str, float]
    """Scores of the judge or of people, by the same names."""
    similarity: Sequence[float] = ()
    """`similarity.support` and `similarity.match`; empty without a sentence encoder."""
    proxy_inputs: Sequence[float] = ()
    """Inputs of the proxy of a criterion, without similarities; empty for a fit of other scores."""


@dataclass(frozen=True, slots=True)
class ExaminedInteractions:
    """Inputs of a fit, and the number of interactions that cannot be used, by reason."""

    rows: Sequence[ExaminedInteraction]
    unused: Mapping[str, int]


def examine(
    interactions: Iterable[JudgedInteraction],
    advance: Callable[[], object] = lambda: None,
    *,
    similar: Similar | None = None,
    criterion: Criterion | None = None,
) -> ExaminedInteractions:
    """Return the inputs of a fit. Interactions that the local labeler does not score are counted by the reason.

    Args:
        interactions: with scores of a judge or people.
        advance: called before each interaction.
        similar: a sentence encoder, whose similarities are more inputs of the fit.
        criterion: whose proxy is fitted, to answers as numbers from 0 to 1; None for a fit of other scores.
    """
    examiner = InteractionExaminer(similar, of_criterion=criterion is not None)
    rows, unused = [], Counter[str]()
    for row in interactions:
        advance()
        if criterion is None:
            judged = {name.removeprefix(TRACE): score for name, score in row.scores.items() if name in WANTED}
            is_scored = bool(judged.keys() & set(CORRECTED))
        else:
            width = criterion.upper - criterion.lower
            answers = [(name, score) for name, score in row.scores.items() if name == criterion.metric]
            judged = {metric: (score - criterion.lower) / width for metric, score in answers}
            is_scored = bool(judged)
        if not is_scored:
            unused["no_score"] += 1
            continue
        examined = examiner.examine(row.interaction, judged, row.weight)
        if isinstance(examined, str):
            unused[examined] += 1
        else:
            rows.append(examined)
    return ExaminedInteractions(rows, dict(unused))


class InteractionExaminer:
    """Computes the inputs of a fit from interactions.

    Args:
        similar: a sentence encoder, whose similarities are more inputs of the fit.
        model: instead of the shipped one.
        of_criterion: whether the inputs of the proxy of a criterion are computed, too.
    """

    def __init__(
        self, similar: Similar | None = None, model: LocalModel | None = None, *, of_criterion: bool = False
    ) -> None:
        self._similar, self._model, self._of_criterion = similar, model, of_criterion
        self._labeler = LocalLabeler()

    def examine(
        self, interaction: RagInteraction, judged: Mapping[str, float] = EMPTY, weight: float = 1.0
    ) -> ExaminedInteraction | str:
        """Return the inputs of a fit, or the reason why the local labeler does not score the interaction.

        Args:
            judged: scores of a judge or of people, by their names without family.
            weight: number of interactions of the traffic that it stands for.
        """
        labeling = self._labeler.label_now(interaction)
        if not labeling.labels:
            return labeling.absent[TRACE + ADHERENCE]
        sentences = cut(interaction)
        similarity = () if self._similar is None else self._similar(sentences)
        if similarity is None:
            return AbsentReason.TOO_LONG
        features = features_of(sentences)
        probabilities = (self._model or shipped_model()).predict(features)
        if not probabilities.relevant:
            return "no_document_sentences"
        shipped_scores = scores_of(probabilities)
        if probabilities.supported:
            shipped_scores[SUPPORTED_FRACTION] = sum(probabilities.supported) / len(probabilities.supported)
        return ExaminedInteraction(
            question=interaction.question.strip().casefold(),
            occurred_at=interaction.occurred_at,
            weight=weight,
            summary=summary_of(features, probabilities),
            probabilities=probabilities,
            shipped={name: score for name, score in shipped_scores.items() if TRACE + name in labeling.scores},
            judged=judged,
            similarity=similarity,
            proxy_inputs=proxy_inputs(interaction, sentences, features, probabilities) if self._of_criterion else (),
        )


@dataclass(frozen=True, slots=True)
class ExaminedPair:
    """The inputs of a fit from an interaction, clean and spoilt in one way."""

    corruption: str
    clean: ExaminedInteraction
    """One object for all pairs of an interaction."""
    spoilt: ExaminedInteraction


class TrafficSample:
    """Interactions to spoil: of all that are added those with the lowest digests, which is a draw by chance."""

    def __init__(self) -> None:
        self._by_digest: dict[str, RagInteraction] = {}

    def add(self, interaction: RagInteraction) -> None:
        """Add an interaction, unless it has no documents or no response."""
        if not (interaction.documents and interaction.response.strip()):
            return
        self._by_digest.setdefault(interaction_digest(interaction.pipeline, interaction.interaction_id), interaction)
        if len(self._by_digest) >= 2 * MOST_SPOILT:
            self._by_digest = self._drawn()

    def _drawn(self) -> dict[str, RagInteraction]:
        return dict(sorted(self._by_digest.items())[:MOST_SPOILT])

    @property
    def drawn(self) -> Sequence[RagInteraction]:
        """At most `MOST_SPOILT` interactions."""
        return [*self._drawn().values()]


def examine_pairs(
    interactions: Iterable[RagInteraction],
    advance: Callable[[], object] = lambda: None,
    *,
    similar: Similar | None = None,
    model: LocalModel | None = None,
    seed: int = 0,
) -> list[ExaminedPair]:
    """Return the inputs of a fit from interactions that are spoilt in every way that some score should follow.

    Texts of another interaction are those of one of the same pipeline and data set. What the local labeler does not
    score, clean or spoilt, gives no pair.

    Args:
        interactions: with documents and responses; scores are not read.
        advance: called before each interaction.
        similar: a sentence encoder, whose similarities are more inputs of the fit.
        model: instead of the shipped one.
    """
    rows = [*interactions]
    others: dict[tuple[str, str], list[RagInteraction]] = {}
    for row in rows:
        others.setdefault(_kind(row), []).append(row)
    examiner, pairs = InteractionExaminer(similar, model), list[ExaminedPair]()
    for row in rows:
        advance()
        clean = examiner.examine(without_own_sentences(row))
        if isinstance(clean, str):
            continue
        for name in (name for name, scores in SENSED.items() if scores):
            changed = spoil(CORRUPTIONS[name], row, others[_kind(row)], seed=seed)
            after = None if changed is None else examiner.examine(changed)
            if after is not None and not isinstance(after, str):
                pairs.append(ExaminedPair(name, clean, after))
    return pairs


def _kind(interaction: RagInteraction) -> tuple[str, str]:
    return interaction.pipeline, interaction.segments.get("dataset", "")
