"""Which criteria are asked about an answer or a session, and at what share. No I/O."""

from collections.abc import Iterable
from typing import Final

from ragtide_runtime.draws import draw_number
from ragtide_schemas import RagInteraction
from ragtide_schemas.criterion import Criterion

_PURPOSE: Final = b"ragtide criteria"
"""Makes this draw independent of the draw that chooses for a cascade, so that their probabilities multiply."""


def is_drawn(criterion: Criterion, interaction: RagInteraction) -> bool:
    """Return whether an interaction is in the share of a criterion; turns of a session are in it as the session is."""
    if criterion.rate >= 1:
        return True
    named = interaction.session_id if criterion.is_of_session else interaction.interaction_id
    return draw_number(f"{interaction.pipeline}\0{named}\0{criterion.metric}", purpose=_PURPOSE) < criterion.rate


def asked_about(criteria: Iterable[Criterion], interaction: RagInteraction) -> list[Criterion]:
    """Return the criteria about an answer, or about a session, that apply to it and are drawn."""
    return [
        criterion
        for criterion in criteria
        if criterion.is_of_session == interaction.is_session
        and criterion.applies(interaction.pipeline, interaction.segments)
        and is_drawn(criterion, interaction)
    ]


def may_be_asked_of_session(criteria: Iterable[Criterion], turn: RagInteraction) -> bool:
    """Return whether a criterion may be asked about the session of a turn; the session's segments are not known yet."""
    return turn.session_id is not None and any(
        criterion.is_of_session and criterion.applies_to_pipeline(turn.pipeline) and is_drawn(criterion, turn)
        for criterion in criteria
    )
