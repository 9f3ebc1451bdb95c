"""The sample of the traffic that a producer sends: a hash decides, and the probability is recorded. No I/O."""

from dataclasses import dataclass
from typing import Final, get_args

from ragtide_runtime.draws import draw_number
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.producers import ProducerSettings, SampleBy
from ragtide_schemas import InvalidEntryError, RagInteraction, Reason
from ragtide_schemas.limits import PROBABILITY_MIN

_PURPOSE: Final = b"ragtide sample"
"""Makes this draw independent of every other draw of ragtide, such as the one that chooses for a judge."""


def drawn_for(pipeline: str, kind: SampleBy, name: str) -> float:
    """Return a number in [0, 1): uniform over names, and the same in every process for one of them.

    >>> drawn_for("shop", "interaction", "i-1") == drawn_for("shop", "interaction", "i-1")
    True
    """
    return draw_number(f"{kind}\0{pipeline}\0{name}", purpose=_PURPOSE)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Which interactions a producer sends.

    Args:
        probability: with which an interaction is sent, in (0, 1].
        by: `interaction` decides by the id of the interaction; `session` by the id of its session where it has one, so
            that a conversation is sent as a whole or not at all.
    """

    probability: float = 1.0
    by: SampleBy = "interaction"

    @classmethod
    def of(cls, settings: ProducerSettings, probability: float | None, by: SampleBy | None) -> "Sampling":
        """Return the sampling of a producer; None takes the setting.

        Raises:
            ConfigurationError: the probability or the unit is not one of the possible ones.
        """
        share = settings.sample if probability is None else float(probability)
        if not PROBABILITY_MIN <= share <= 1:
            raise ConfigurationError(
                f"sample is {share:g}: give the share of the interactions to send, from {PROBABILITY_MIN:g} to 1, such "
                "as 0.1"
            )
        unit = settings.sample_by if by is None else by
        if unit not in get_args(SampleBy):
            raise ConfigurationError(f"sample_by is {unit!r}: give one of {', '.join(get_args(SampleBy))}")
        return cls(share, unit)

    @property
    def keeps_all(self) -> bool:
        """Whether every interaction is sent."""
        return self.probability >= 1.0

    def keeps(self, pipeline: str, interaction_id: str, session_id: str | None = None) -> bool:
        """Return whether an interaction is sent."""
        if self.probability >= 1.0:
            return True
        if self.by == "session" and session_id is not None:
            return drawn_for(pipeline, "session", session_id) < self.probability
        return drawn_for(pipeline, "interaction", interaction_id) < self.probability

    def sampled(self, interaction: RagInteraction) -> RagInteraction | None:
        """Return an interaction with the probability with which it was kept; None if it is not sent.

        A probability that it has already, because its source is a sample too, is multiplied.

        Raises:
            InvalidEntryError: the product is lower than a recorded probability may be.
        """
        if self.probability >= 1.0:
            return interaction
        if not self.keeps(interaction.pipeline, interaction.interaction_id, interaction.session_id):
            return None
        product = interaction.sampling_probability * self.probability
        if product < PROBABILITY_MIN:
            raise InvalidEntryError(
                Reason.INVALID,
                f"sampling_probability {interaction.sampling_probability:g} times the producer's sample "
                f"{self.probability:g} is below {PROBABILITY_MIN:g}: raise `sample`",
            )
        return interaction.model_copy(update={"sampling_probability": product})


EVERYTHING: Final = Sampling()
"""All interactions are sent."""
