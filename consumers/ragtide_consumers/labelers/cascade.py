"""The cascade: a cheap labeler on all traffic, a judge on a sample of it that is decided by a hash."""

from dataclasses import dataclass, replace
from hashlib import blake2b
from inspect import isawaitable
from typing import Final

from ragtide_runtime.settings.judge import CascadeSettings
from ragtide_schemas import RagInteraction

from ..metrics.scores import AbsentReason
from .event import identity
from .judge.errors import OverBudget
from .outage import Outage
from .protocol import Judged, Labeler, Labeling
from .unavailable import LabelerUnavailable


def position(pipeline: str, interaction_id: str, salt: str = "") -> float:
    """Return where in [0, 1) an interaction stands in the draw: the same in every process, worker and replay.

    The first 8 bytes of BLAKE2b of salt, pipeline and id, big-endian, divided by 2^64.

    >>> 0 <= position("shop", "1") < 1
    True
    """
    drawn = blake2b(f"{salt}\0{pipeline}\0{interaction_id}".encode(), digest_size=8).digest()
    # A float holds 53 of the 64 bits: with all 64, the result could round up to 1.
    return (int.from_bytes(drawn, "big") >> 11) / 2**53


@dataclass(frozen=True, slots=True)
class Draw:
    """Whether an interaction goes to the judge, and how probable that was."""

    chosen: bool
    inclusion_probability: float
    """Probability that it is chosen, given its segments and local scores."""
    uniform: bool
    """Whether it is in the part that is drawn at the lowest rate from all, so that plain means over it are fair."""


def draw(interaction: RagInteraction, scores: Labeling, settings: CascadeSettings) -> Draw:
    """Return whether an interaction goes to the judge.

    Its rate is the largest of `rate` and those of its segment values; a local score below its line makes the
    probability 1. As the lines look at the local scores only, the probability is known exactly for each interaction,
    chosen or not, and weighting by its inverse gives unbiased means (Horvitz and Thompson 1952).
    """
    place = position(interaction.pipeline, interaction.interaction_id, settings.salt)
    segments = [f"{name}={value}" for name, value in interaction.segments.items()]
    rates = [settings.segment_rates[segment] for segment in segments if segment in settings.segment_rates]
    rate = max(rates, default=settings.rate)
    low = any(scores.scores.get(metric, float("inf")) < line for metric, line in settings.below.items())
    probability = 1.0 if low else rate
    lowest = min(settings.rate, *settings.segment_rates.values()) if settings.segment_rates else settings.rate
    return Draw(place < probability, probability, place < lowest)


class CascadeLabeler:
    """Publishes the cheap labeler's scores for every interaction and the judge's beside them for a sample.

    Args:
        cheap: labels everything.
        judge: labels the sample.
        settings: of the sample.
        judge_metrics: metrics that are absent when the judge could not be asked.
        wait: whether an interaction waits for a judge that is unavailable, instead of being published without it.
    """

    name: Final = "cascade"

    def __init__(
        self,
        cheap: Labeler,
        judge: Labeler,
        settings: CascadeSettings,
        *,
        judge_metrics: tuple[str, ...],
        wait: bool = False,
    ) -> None:
        self._cheap = cheap
        self._judge = judge
        self._settings = settings
        self._judge_metrics = judge_metrics
        self._wait = wait
        self.outage = Outage(judge.name, "its metrics are absent")
        self.version = cheap.version
        self.profile = cheap.profile

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the cheap labeler's scores, with the judge's beside them if the interaction was chosen."""
        cheap = await self._cheap.label(interaction)
        labeling = replace(cheap, by=cheap.by or identity(self._cheap))
        chance = draw(interaction, labeling, self._settings)
        if not chance.chosen:
            return labeling
        judged = await self._judged(interaction)
        return replace(
            labeling,
            prompt_tokens=labeling.prompt_tokens + judged.prompt_tokens,
            completion_tokens=labeling.completion_tokens + judged.completion_tokens,
            cost_usd=labeling.cost_usd + judged.cost_usd,
            counters={**labeling.counters, **judged.counters},
            judged=Judged(
                judged,
                judged.by or identity(self._judge),
                inclusion_probability=chance.inclusion_probability,
                uniform=chance.uniform,
            ),
        )

    async def _judged(self, interaction: RagInteraction) -> Labeling:
        try:
            labeling = await self._judge.label(interaction)
        except LabelerUnavailable as error:
            if self._wait:
                raise
            # Counted as absent, so that coverage shows what is missing from the sample.
            self.outage.unavailable(error)
            reason = AbsentReason.OVER_BUDGET if isinstance(error, OverBudget) else AbsentReason.JUDGE_UNAVAILABLE
            return Labeling({}, dict.fromkeys(self._judge_metrics, str(reason)))
        self.outage.available()
        return labeling

    async def aclose(self) -> None:
        """Close both labelers."""
        for labeler in (self._cheap, self._judge):
            close = getattr(labeler, "aclose", None)
            closing = None if close is None else close()
            if isawaitable(closing):
                await closing
