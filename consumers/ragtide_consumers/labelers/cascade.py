"""The cascade: a cheap labeler (proxy) for all traffic, and a better one (reference) for a sample chosen by a hash."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from ragtide_runtime.draws import drawn
from ragtide_runtime.settings.cascade import CascadeSettings
from ragtide_schemas import RagInteraction

from ..metrics.scores import AbsentReason
from .event import labeler_id
from .outage import LabelerOutage
from .protocol import Labeler, Labeling, ReferenceLabeling, close
from .remote.errors import OverBudget
from .unavailable import LabelerUnavailable


def position(pipeline: str, interaction_id: str, salt: str = "") -> float:
    """Return the position of an interaction in the draw, in [0, 1): the same in every process, worker and replay.

    >>> 0 <= position("shop", "1") < 1
    True
    """
    return drawn(f"{salt}\0{pipeline}\0{interaction_id}")


@dataclass(frozen=True, slots=True)
class Draw:
    """Whether the reference labels an interaction, and the probability of that."""

    chosen: bool
    inclusion_probability: float
    """Probability that it is chosen, given its segments and the scores of the proxy."""
    uniform: bool
    """Whether it is in the part of the sample drawn at the lowest rate from all; plain means over it are unbiased."""


def draw(interaction: RagInteraction, scores: Labeling, settings: CascadeSettings) -> Draw:
    """Return whether the reference labels an interaction.

    The rate is the largest rate of the interaction's segment values, or else `rate`. A score of the proxy below its
    threshold makes the probability 1. So the probability is known exactly for each interaction, chosen or not, and
    weighting by its inverse gives unbiased means (Horvitz and Thompson 1952).
    """
    place = position(interaction.pipeline, interaction.interaction_id, settings.salt)
    segments = [f"{name}={value}" for name, value in interaction.segments.items()]
    rates = [settings.segment_rates[segment] for segment in segments if segment in settings.segment_rates]
    rate = max(rates, default=settings.rate)
    low = any(scores.scores.get(metric, float("inf")) < limit for metric, limit in settings.below.items())
    probability = 1.0 if low else rate
    lowest = min(settings.rate, *settings.segment_rates.values()) if settings.segment_rates else settings.rate
    return Draw(place < probability, probability, place < lowest)


class CascadeLabeler:
    """Publishes the proxy's scores for every interaction, and the reference's scores beside them for a sample.

    Args:
        proxy: labels everything.
        reference: labels the sample.
        settings: of the sample.
        wait: whether an interaction waits for an unavailable reference; otherwise it is published without it.
    """

    name: Final = "cascade"

    def __init__(self, proxy: Labeler, reference: Labeler, settings: CascadeSettings, *, wait: bool = False) -> None:
        self._proxy = proxy
        self._reference = reference
        self._settings = settings
        self._wait = wait
        self._reference_metrics: tuple[str, ...] = tuple(getattr(reference, "metrics", ()))
        self.outage = LabelerOutage(reference.name, "its metrics are absent")
        self.version = proxy.version
        self.profile = proxy.profile

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the proxy's scores, with the reference's scores beside them if the interaction was chosen."""
        labeling = await self._proxy.label(interaction)
        labeling = replace(labeling, by=labeling.by or labeler_id(self._proxy))
        chance = draw(interaction, labeling, self._settings)
        if not chance.chosen:
            return labeling
        judged = await self._judged(interaction, labeling)
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
                by=judged.by or labeler_id(self._reference),
                inclusion_probability=chance.inclusion_probability,
                uniform=chance.uniform,
            ),
        )

    async def _judged(self, interaction: RagInteraction, by_proxy: Labeling) -> Labeling:
        try:
            labeling = await self._reference.label(interaction)
        except LabelerUnavailable as error:
            if self._wait:
                raise
            # The metrics are counted as absent, so that coverage shows the gap in the sample.
            self.outage.unavailable(error)
            reason = AbsentReason.OVER_BUDGET if isinstance(error, OverBudget) else AbsentReason.JUDGE_UNAVAILABLE
            missing = self._reference_metrics or (*by_proxy.scores, *by_proxy.absent)
            return Labeling({}, dict.fromkeys(missing, str(reason)))
        self.outage.available()
        return labeling

    async def aclose(self) -> None:
        """Close both labelers."""
        for labeler in (self._proxy, self._reference):
            await close(labeler)
