"""Gold scores, and feedback: gold scores that people, or a judge that they trust, give after an interaction."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from .base import Metadata, Name, Probability, Reader, UtcTime, Value, VersionedModel
from .limits import GOLD_SCORES_MAX
from .metric_names import MetricName
from .plain_values import LeftOut, UnfitError
from .times import utc_now
from .value_readers import id_text, metadata_values, own_text, scalar

GoldScores = Annotated[dict[MetricName, Value], Field(max_length=GOLD_SCORES_MAX)]
"""Gold scores by qualified metric name."""


def check_gold_scores(scores: Mapping[str, float]) -> None:
    """Check that each score is in the range of its metric, if the range is known.

    Raises:
        ValueError: a score is outside its range.
    """
    if not scores:
        return
    from .metric_definitions import METRICS  # noqa: PLC0415 - most interactions have no gold score

    for name, score in scores.items():
        definition = METRICS.get(name)
        if definition is not None and not definition.lower <= score <= definition.upper:
            raise ValueError(
                f"gold_scores.{name} is {score}; the metric's range is {definition.lower:g} to {definition.upper:g}"
            )


def gold_score(value: Any, name: str, left_out: LeftOut) -> Any:
    """Return a gold score as a number.

    Raises:
        UnfitError: it is outside the range of its metric.
    """
    score = scalar(value, name, left_out)
    if isinstance(score, int | float):
        try:
            check_gold_scores({name.partition(".")[2]: score})
        except ValueError as error:
            raise UnfitError(str(error)) from None
    return score


class Feedback(VersionedModel):
    """Gold scores of the response of one interaction, found by its id."""

    pipeline: Name
    """The interaction's pipeline."""
    interaction_id: Name
    """The interaction's id."""
    gold_scores: GoldScores = Field(min_length=1)
    """Gold scores by metric (`trace.adherence`); of each metric the first gold score counts."""
    given_at: UtcTime = Field(default_factory=utc_now)
    """Time of the feedback, with a time zone, from 1970 to 2200; the zero time `0001-01-01T00:00:00Z` counts as not
    given."""
    annotator: Name | None = None
    """Author of the scores."""
    inclusion_probability: Probability | None = None
    """Probability with which a scored interaction was chosen for this feedback, if chance chose it and not its score or
    its user; the weight is the inverse. None counts as 1."""
    metadata: Metadata = Field(default_factory=dict)
    """Further fields; stored, never interpreted."""

    own_readers: ClassVar[Mapping[str, Reader]] = {
        "pipeline": own_text,
        "interaction_id": id_text,
        "inclusion_probability": scalar,
    }
    side_readers: ClassVar[Mapping[str, Reader]] = {"annotator": id_text, "metadata": metadata_values}

    @model_validator(mode="after")
    def _scores_are_in_range(self) -> Self:
        check_gold_scores(self.gold_scores)
        return self
