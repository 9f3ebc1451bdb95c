"""The newest scored answers, with their scores, chosen by score, segment and labeler. No clock, no I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragtide_schemas import METRICS, Direction, RagInteraction, Specimen

from ...reading.fleet import importance, important
from ...reading.list_pages import ListPage

SHOWN: Final = 25
"""Answers on one page of the screen."""


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

    @property
    def low(self) -> set[str]:
        """Metrics whose score is beyond the edge of their band `acceptable`."""
        return {metric for metric, score in self.scores.items() if _is_low(metric, score)}


def _is_low(metric: str, score: float) -> bool:
    known = METRICS.get(metric)
    if known is None or known.bands is None:
        return False
    return {
        Direction.HIGHER: score < known.bands.minimum,
        Direction.LOWER: score > known.bands.minimum,
    }.get(known.direction, False)


@dataclass(frozen=True, slots=True)
class TrafficRows:
    """The rows, and what can be chosen."""

    answers: ListPage[ScoredAnswer]
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


def traffic(specimens: Sequence[Specimen], chosen: TrafficChoice, page: int = 1) -> TrafficRows:
    """Return the screen.

    Args:
        specimens: the newest ones, the newest first.
        chosen: the wanted answers.
        page: from 1; a page beyond the last is the last.
    """
    answers = []
    for specimen in specimens:
        labelings = [labeling for labeling in specimen.labelings if chosen.labeler in ("", labeling.labeler)]
        scores: dict[str, float] = {}
        for labeling in labelings:  # the judge comes last
            scores |= labeling.scores
        answers.append(ScoredAnswer(specimen.interaction, scores, [labeling.labeler for labeling in labelings]))
    known = sorted({name for answer in answers for name in answer.scores}, key=importance)
    metrics = list(important(known))
    metric = chosen.metric if chosen.metric in known else next(iter(metrics), "")
    if metric and metric not in metrics:
        metrics = [metric, *metrics[:-1]]
    matching = [answer for answer in answers if _matches(answer, metric, chosen)]
    labelers = dict.fromkeys(labeling.labeler for specimen in specimens for labeling in specimen.labelings)
    rows = ListPage.of(matching, page, SHOWN)
    return TrafficRows(rows, metrics, metric, known, sorted(labelers), len(answers))


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
