"""The newest scored answers, with their scores, chosen by score, segment and labeler. No clock, no I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragtide_schemas import RagInteraction, Specimen

from ..fleet.screen import importance, important

SHOWN: Final = 100
"""Most answers on the screen."""


@dataclass(frozen=True, slots=True)
class TrafficChoice:
    """The answers that a user wants to see."""

    pipeline: str = ""
    """Only this pipeline; all pipelines if empty."""
    metric: str = ""
    """Metric of the limits; the first one of the screen if empty."""
    below: float | None = None
    """Only scores below this."""
    above: float | None = None
    """Only scores above this."""
    segment: str = ""
    """Only answers with this segment value, such as `lang=de`."""
    labeler: str = ""
    """Only answers of this labeler, with its scores."""

    @property
    def narrows(self) -> bool:
        """Whether answers may be left out."""
        return bool(self.segment or self.labeler or self.below is not None or self.above is not None)


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """A row of the screen."""

    interaction: RagInteraction
    scores: Mapping[str, float]
    """Score by metric: that of the judge where both a labeler and a judge have one."""
    labelers: Sequence[str]


@dataclass(frozen=True, slots=True)
class TrafficRows:
    """The rows, and what can be chosen."""

    answers: Sequence[ScoredAnswer]
    """Those that match, the newest first."""
    metrics: Sequence[str]
    """Metrics of the columns."""
    metric: str
    """Metric of the limits; empty if no answer has a score."""
    known_metrics: Sequence[str]
    labelers: Sequence[str]
    """Labelers of the answers that were read."""
    read: int
    """Number of answers that were read."""
    matching: int
    """Number of these that match."""


def traffic(specimens: Sequence[Specimen], chosen: TrafficChoice) -> TrafficRows:
    """Return the screen.

    Args:
        specimens: the newest ones, the newest first.
        chosen: the wanted answers.
    """
    answers = [_scored(specimen, chosen.labeler) for specimen in specimens]
    known = sorted({name for answer in answers for name in answer.scores}, key=importance)
    metrics = list(important(known))
    metric = chosen.metric if chosen.metric in known else next(iter(metrics), "")
    if metric and metric not in metrics:
        metrics = [metric, *metrics[:-1]]
    found = [answer for answer in answers if _matches(answer, metric, chosen)]
    labelers = dict.fromkeys(labeling.labeler for specimen in specimens for labeling in specimen.labelings)
    return TrafficRows(found[:SHOWN], metrics, metric, known, sorted(labelers), len(answers), len(found))


def _scored(specimen: Specimen, labeler: str) -> ScoredAnswer:
    labelings = [given for given in specimen.labelings if labeler in ("", given.labeler)]
    scores: dict[str, float] = {}
    for given in labelings:  # the judge comes last
        scores |= given.scores
    return ScoredAnswer(specimen.interaction, scores, [given.labeler for given in labelings])


def _matches(answer: ScoredAnswer, metric: str, chosen: TrafficChoice) -> bool:
    if not answer.labelers:
        return False
    if chosen.segment:
        name, _, value = chosen.segment.partition("=")
        if answer.interaction.segments.get(name) != value:
            return False
    if chosen.below is None and chosen.above is None:
        return True
    score = answer.scores.get(metric)
    return (
        score is not None
        and (chosen.below is None or score < chosen.below)
        and (chosen.above is None or score > chosen.above)
    )
