"""Gold scores of interactions and feedback."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from .base import Value
from .limits import GOLD_SCORES_MAX
from .metric_definitions import METRICS
from .metrics import MetricName

GoldScores = Annotated[dict[MetricName, Value], Field(max_length=GOLD_SCORES_MAX)]
"""Gold scores by qualified metric name."""


def check_gold_scores(scores: Mapping[str, float]) -> None:
    """Check that each score is in the range of its metric, if the range is known.

    Raises:
        ValueError: a score is outside its range.
    """
    for name, score in scores.items():
        definition = METRICS.get(name)
        if definition is not None and not definition.lower <= score <= definition.upper:
            raise ValueError(
                f"gold_scores.{name} is {score}; the metric's range is {definition.lower:g} to {definition.upper:g}"
            )
