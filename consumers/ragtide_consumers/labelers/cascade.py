"""The cascade: a cheap labeler (proxy) for all traffic, and a better one (reference) for a sample chosen by a hash.

A third labeler (middle) may label another sample. No interaction is in both samples, so each event has the scores of
one labeler beside the proxy's, and each sample has probabilities of its own that are known exactly.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from ragtide_runtime.draws import draw_number
from ragtide_runtime.settings.labelers import CascadeSettings
from ragtide_schemas import RagInteraction
from ragtide_schemas.criterion import Criterion

from ..metrics.scores import AbsentReason
from .event import labeler_id
from .outage import LabelerOutage
from .protocol import (
    Labeler,
    LabelerUnavailable,
    Labeling,
    ReferenceLabeling,
    SampleUnavailable,
    close,
    criteria_of,
    scores_of,
    take_criteria,
)
from .remote.errors import OverBudget
from .suspected import SuspectedPipelines


def position(pipeline: str, interaction_id: str, salt: str = "") -> float:
    """Return the position of an interaction in the draw, in [0, 1): the same in every process, worker and replay.

    >>> 0 <= position("shop", "1") < 1
    True
    """
    return draw_number(f"{salt}\0{pipeline}\0{interaction_id}")


@dataclass(frozen=True, slots=True)
class Draw:
    """Whether the reference, or the middle, labels an interaction, and the probability of that."""

    chosen: bool
    inclusion_probability: float
    """Probability that it is chosen, given its segments and the scores of the proxy."""
    uniform: bool
    """Whether it is in the part of the sample that is drawn at the lowest rate from all."""
    uniform_probability: float
    """Probability of being in that part: the same for all interactions."""


def draw(interaction: RagInteraction, scores: Labeling, settings: CascadeSettings, boost: float = 1.0) -> Draw:
    """Return whether the reference labels an interaction.

    The rate is the largest rate of the interaction's segment values, or else `rate`, times `boost`. A score of the
    proxy below its threshold makes the probability 1. So the probability is known exactly for each interaction, chosen
    or not, and weighting by its inverse gives unbiased means (Horvitz and Thompson 1952). With a middle the probability
    is at most 1 - `middle_rate`, because that share is the middle's, whatever the scores are.
    """
    place = position(interaction.pipeline, interaction.interaction_id, settings.salt)
    segments = [f"{name}={value}" for name, value in interaction.segments.items()]
    rates = [settings.segment_rates[segment] for segment in segments if segment in settings.segment_rates]
    rate = max(rates, default=settings.rate) * boost
    low = any(scores.scores.get(metric, float("inf")) < limit for metric, limit in settings.below.items())
    probability = min(1.0 if low else rate, _share_beside_middle(settings))
    lowest = min(settings.rate, *settings.segment_rates.values()) if settings.segment_rates else settings.rate
    uniform = min(lowest * boost, probability)
    return Draw(place < probability, probability, place < uniform, uniform)


def draw_middle(interaction: RagInteraction, scores: Labeling, settings: CascadeSettings, boost: float = 1.0) -> Draw:
    """Return whether the middle labels an interaction: it takes the other end of the draw.

    The share `middle_rate` is drawn from all interactions. A score of the proxy below its threshold adds all that the
    reference does not label. So this probability is known exactly, too.
    """
    place = position(interaction.pipeline, interaction.interaction_id, settings.salt)
    reference = draw(interaction, scores, settings, boost)
    low = any(scores.scores.get(metric, float("inf")) < limit for metric, limit in settings.middle_below.items())
    share = _share_beside_middle(settings)
    begin = reference.inclusion_probability if low else share
    return Draw(place >= begin and not reference.chosen, 1 - begin, place >= share, 1 - share)


def _share_beside_middle(settings: CascadeSettings) -> float:
    return 1 - settings.middle_rate if settings.middle else 1.0


class CascadeLabeler:
    """Publishes the proxy's scores for every interaction, and beside them another labeler's scores for samples.

    Args:
        proxy: labels everything.
        reference: labels the sample.
        wait: whether a chosen interaction waits for its unavailable labeler; otherwise it is published without it.
        middle: labels another sample; None if there are two labelers.
        suspected: knows which pipelines are suspected; None leaves the rates as they are.
    """

    name: Final = "cascade"
    scores_sessions: Final = True

    def __init__(
        self,
        proxy: Labeler,
        reference: Labeler,
        settings: CascadeSettings,
        *,
        wait: bool = False,
        middle: Labeler | None = None,
        suspected: SuspectedPipelines | None = None,
    ) -> None:
        self._proxy = proxy
        self._reference = _Sampled(reference, wait=wait)
        self._middle = None if middle is None else _Sampled(middle, wait=wait)
        self._settings = settings
        self.suspected = suspected
        """Knows which pipelines are suspected; None if no suspicion raises the rates."""
        self.version = proxy.version
        self.profile = proxy.profile

    @property
    def labelers(self) -> tuple[Labeler, ...]:
        """The proxy, the reference, and the middle if there is one."""
        sampled = [self._reference] if self._middle is None else [self._reference, self._middle]
        return (self._proxy, *(sample.labeler for sample in sampled))

    @property
    def outages(self) -> tuple[LabelerOutage, ...]:
        """The outages of the labelers of the samples."""
        return tuple(sample.outage for sample in (self._reference, self._middle) if sample is not None)

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the proxy's scores, with another labeler's scores beside them if the interaction was chosen.

        Raises:
            SampleUnavailable: the interaction was chosen, its labeler is unavailable, and the cascade waits for it.
            LabelerUnavailable: the proxy is unavailable.
        """
        labeling = await scores_of(self._proxy, interaction)
        labeling = replace(labeling, by=labeling.by or labeler_id(self._proxy))
        boost = 1.0
        if self.suspected is not None and await self.suspected.covers(interaction):
            boost = self._settings.boost
        sampled, chance = self._reference, draw(interaction, labeling, self._settings, boost)
        if self._middle is not None and not chance.chosen:
            sampled, chance = self._middle, draw_middle(interaction, labeling, self._settings, boost)
        if not chance.chosen:
            return labeling
        judged = await sampled.label(interaction, labeling)
        return replace(
            labeling,
            prompt_tokens=labeling.prompt_tokens + judged.prompt_tokens,
            completion_tokens=labeling.completion_tokens + judged.completion_tokens,
            cost_usd=labeling.cost_usd + judged.cost_usd,
            cost_sources=labeling.cost_sources | judged.cost_sources,
            counters=Counter(labeling.counters) + Counter(judged.counters),
            declared={**labeling.declared, **judged.declared},
            judged=ReferenceLabeling(
                labeling=judged,
                by=judged.by or labeler_id(sampled.labeler),
                inclusion_probability=chance.inclusion_probability,
                uniform_probability=chance.uniform_probability if chance.uniform else None,
            ),
        )

    @property
    def criteria(self) -> Sequence[Criterion]:
        """The criteria that its labelers ask."""
        return [criterion for labeler in self._labelers for criterion in criteria_of(labeler)]

    def take_criteria(self, criteria: Sequence[Criterion]) -> None:
        """Replace the criteria that its labelers ask."""
        for labeler in self._labelers:
            take_criteria(labeler, criteria)

    @property
    def _labelers(self) -> tuple[Labeler, ...]:
        sampled = [sample.labeler for sample in (self._middle, self._reference) if sample is not None]
        return (self._proxy, *sampled)

    async def aclose(self) -> None:
        """Close all labelers."""
        for labeler in self._labelers:
            await close(labeler)


class _Sampled:
    """A labeler that labels a sample, and its outage."""

    def __init__(self, labeler: Labeler, *, wait: bool) -> None:
        self.labeler = labeler
        self._wait = wait
        self._metrics: tuple[str, ...] = tuple(getattr(labeler, "metrics", ()))
        self.outage = LabelerOutage(
            labeler.name, "only its sample waits, and none is lost" if wait else "its metrics are absent"
        )

    async def label(self, interaction: RagInteraction, by_proxy: Labeling) -> Labeling:
        """Return the labeler's scores; if it is unavailable and is not waited for, all of its metrics are absent."""
        asked_at = self.outage.now()
        try:
            labeling = await scores_of(self.labeler, interaction)
        except LabelerUnavailable as error:
            self.outage.unavailable(error)
            over, name = isinstance(error, OverBudget), self.labeler.name
            if self._wait:
                raise SampleUnavailable(error.resume_in_s, str(error), name, is_over_budget=over) from error
            # The metrics are counted as absent, so that coverage shows the gap in the sample.
            reason = AbsentReason.OVER_BUDGET if over else AbsentReason.JUDGE_UNAVAILABLE
            if (all_absent := getattr(self.labeler, "absent_labeling", None)) is not None:
                return cast("Labeling", all_absent(interaction, reason))
            missing = self._metrics or (*by_proxy.scores, *by_proxy.absent)
            return Labeling({}, dict.fromkeys(missing, str(reason)))
        self.outage.available(asked_at, labeling.counters)
        return labeling
