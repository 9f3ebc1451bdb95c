"""Gold scores that come later than the interaction: from people, or from a judge they trust."""

from typing import Any, Self

from pydantic import Field, model_validator

from .base import Metadata, Name, UtcTime, VersionedModel
from .gold import GoldScores, check_gold_scores
from .times import utc_now, without_zero_time


class Feedback(VersionedModel):
    """True scores of the response of one interaction, by its id."""

    pipeline: Name
    """The interaction's pipeline."""
    interaction_id: Name
    """The interaction's id."""
    gold_scores: GoldScores = Field(min_length=1)
    """True scores by metric (`trace.adherence`); of each metric the first gold score counts."""
    given_at: UtcTime = Field(default_factory=utc_now)
    """When they were given, with a time zone, from 1970 to 2200; the zero time `0001-01-01T00:00:00Z` counts as not
    given."""
    annotator: Name | None = None
    """Author of the scores."""
    metadata: Metadata = Field(default_factory=dict)
    """Anything else; kept, never interpreted."""

    @model_validator(mode="before")
    @classmethod
    def _zero_time_is_none(cls, fields: Any) -> Any:
        return without_zero_time(fields, "given_at")

    @model_validator(mode="after")
    def _scores_are_in_range(self) -> Self:
        check_gold_scores(self.gold_scores)
        return self
