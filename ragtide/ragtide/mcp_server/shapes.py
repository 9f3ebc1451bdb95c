"""Arguments and answers of tools, and the number of a metric as a model reads it."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from ragtide_schemas import Direction, Headline
from ragtide_schemas.headline import HeadlineState

NAME_CHARS: Final = 500
"""Most characters of a name in the arguments of a tool."""

Text = Annotated[str, Field(min_length=1, max_length=NAME_CHARS)]
Limit = Annotated[int, Field(ge=1, le=100)]


class ToolArguments(BaseModel):
    """The arguments of a tool."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True)


class ToolAnswer(BaseModel):
    """The structured output of a tool."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class NumberNow(ToolAnswer):
    """The one number of a metric that counts now, with its interval."""

    pipeline: str
    segment: str | None = None
    """Segment value such as `lang=de`; null for the whole pipeline."""
    metric: str
    estimate: float | None
    """The number; null without values, which is not 0."""
    lower: float | None
    """Lower end of the interval, valid at every look."""
    upper: float | None
    """Upper end of the interval."""
    confidence: float
    """Confidence level of the interval."""
    n: int
    """Number of values."""
    range: str
    """The counted interactions, such as `last 24 h`."""
    state: HeadlineState
    """How the metric stands."""
    state_in_words: str
    """The state with its numbers and times."""
    judge: str | None = None
    """Why the number is not by the labeler that it is to be by, or that this has stopped; null without that."""
    labeler: str
    """Labeler of the scores. Numbers of different labelers are not comparable."""
    coverage: float | None = None
    """Share of the interactions that have a score, whose mean the number is; null if it is not known."""
    direction: Direction | None = None
    """Direction in which the metric gets better; null if unknown."""
    lowest: float | None = None
    """Lowest possible value of the metric."""
    highest: float | None = None
    """Highest possible value of the metric."""
    fit_for: tuple[str, ...] | None = None
    """What the labeler's numbers are fit for (`trend`, `ranking`, `threshold`, `single items`); null if not stated."""
    rules: tuple[str, ...] = ()
    """Alert rules that watch the metric here."""

    @classmethod
    def of(cls, headline: Headline) -> "NumberNow":
        """Return the number of a headline."""
        return cls(
            pipeline=headline.pipeline,
            segment=headline.segment,
            metric=headline.metric,
            estimate=headline.estimate,
            lower=headline.lower,
            upper=headline.upper,
            confidence=headline.confidence,
            n=headline.n,
            range=headline.range_text,
            state=headline.state,
            state_in_words=headline.state_text,
            judge=headline.judge_text or None,
            labeler=headline.labeler_text,
            coverage=headline.coverage,
            direction=headline.direction,
            lowest=headline.lowest,
            highest=headline.highest,
            fit_for=headline.fit_for,
            rules=headline.rules,
        )
