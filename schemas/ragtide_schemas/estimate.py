"""One running estimate: a mean with its interval, for one scope and metric."""

from typing import Annotated

from pydantic import Field

from .base import Name, UtcTime, VersionedModel
from .metrics import MetricName


class Estimate(VersionedModel):
    """What is known so far of one metric in one scope. Unknown is None, never 0."""

    pipeline: Name
    """The pipeline."""
    segment: str | None = None
    """One segment value such as `lang=de`; None for the whole pipeline."""
    run: Name | None = None
    """The offline run; None for live traffic."""
    metric: MetricName
    """Qualified metric name."""
    profile: Name
    """Variant of the formulas."""
    labeler: Name
    """Name of the labeler."""
    labeler_version: Name
    """Version of the labeler."""
    window: str = "all"
    """Which interactions are counted; `all` since the first."""
    n: Annotated[int, Field(ge=0)]
    """Number of values in the estimate."""
    n_absent: Annotated[int, Field(ge=0)] = 0
    """Number of interactions for which the metric was absent."""
    coverage: Annotated[float, Field(ge=0, le=1)] | None = None
    """n / (n + n_absent)."""
    population_size: Annotated[int, Field(ge=1)] | None = None
    """Size of the finite run, where known."""
    estimate: float | None = None
    """The estimate."""
    lower: float
    """Lower end of the interval; the metric's lowest value while nothing is known."""
    upper: float
    """Upper end of the interval; the metric's highest value while nothing is known."""
    strategy: Name
    """How the interval was made: `running`, `normal`, `wilson`, `hoeffding`."""
    anytime_valid: bool
    """True if the interval may be looked at as often as one likes."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Confidence level of the interval."""
    standard_deviation: float | None = None
    """Sample standard deviation of the values; None below two values."""
    minimum: float | None = None
    """Smallest value."""
    maximum: float | None = None
    """Largest value."""
    recent: float | None = None
    """Exponentially weighted mean of about the last 64 values."""
    baseline: float | None = None
    """For an RMSE: what always predicting the mean gold score would score; a labeler above it adds nothing."""
    band: str | None = None
    """Quality band of the estimate, for metrics that have bands."""
    updated_at: UtcTime | None = None
    """Time of the latest interaction counted."""
