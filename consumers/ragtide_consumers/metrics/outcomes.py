"""Outcomes of a pipeline that need no labels: nothing was retrieved, no response was given. No I/O."""

from ragtide_schemas import RagInteraction
from ragtide_schemas.metric_definitions import EMPTY_RESPONSE, EMPTY_RETRIEVAL

from .scores import AbsentReason


def outcome_scores(interaction: RagInteraction) -> dict[str, float]:
    """Return the metrics that every event carries, whichever labeler scored it: 1 for an empty outcome, else 0."""
    return {
        EMPTY_RETRIEVAL.name: float(interaction.nothing_retrieved),
        EMPTY_RESPONSE.name: float(interaction.no_response),
    }


def nothing_to_label(interaction: RagInteraction) -> AbsentReason | None:
    """Return why an interaction is not labeled; None if it has documents and a response.

    Without documents no response can adhere to them. Without a response the labelers miss a hint about relevance, so
    even the metrics of retrieval would not be comparable with other interactions. If both are missing, the reason is
    retrieval, which failed first.
    """
    if interaction.nothing_retrieved:
        return AbsentReason.NOTHING_RETRIEVED
    return AbsentReason.NO_RESPONSE if interaction.no_response else None
