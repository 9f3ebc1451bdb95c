"""One running estimate: a mean with its interval, for one scope and metric."""

import re
from typing import Annotated, Final, Literal

from pydantic import Field

from .base import Count, Name, SegmentValue, Size, UtcTime, VersionedModel, WindowTime, WireInterval
from .declared import range_of
from .html_tables import html_table
from .metric_names import MetricName
from .metrics import Direction, Kind
from .printable import short_repr
from .step_metrics import kind_of

_DIGEST: Final = re.compile("[0-9a-f]{16}")
"""Version of a criterion."""
DIGEST_SHOWN: Final = 7
"""Digits of it that tables show."""


def shown_metric(metric: str, version: str | None) -> str:
    """Return a metric's name for tables, with its version unless that is the first, also of the metric of a step.

    >>> shown_metric("trace.adherence", None), shown_metric("mine.words", "2")
    ('trace.adherence', 'mine.words (version 2)')
    >>> shown_metric("tool.search.used", "1-tool"), shown_metric("tool.search.used", "2-tool")
    ('tool.search.used', 'tool.search.used (version 2-tool)')
    >>> shown_metric("criteria.asks_back", "0e616d1d93881020")
    'criteria.asks_back (0e616d1)'
    """
    if version is None or version == "1" or kind_of(version) is not None:
        return metric
    return f"{metric} ({version[:DIGEST_SHOWN]})" if _DIGEST.fullmatch(version) else f"{metric} (version {version})"


def rated_text(n: int, n_absent: int, coverage: float | None) -> str:
    """Return on how many thumbs of how many answers a number rests.

    Args:
        n: number of thumbs.
        n_absent: number of answers without one.
        coverage: the response rate; None if it is not known.

    >>> rated_text(41, 1279, 41 / 1320), rated_text(1, 0, None)
    ('41 thumbs of 1,320 answers (3.1%)', '1 thumb')
    """
    thumbs = f"{n:,} thumb{'' if n == 1 else 's'}"
    return thumbs if coverage is None else f"{thumbs} of {n + n_absent:,} answers ({coverage:.1%})"


class Share(WireInterval[Annotated[float, Field(ge=0, le=1)]]):
    """The share of a metric's values that are at or below an edge."""

    upto: float
    """The edge."""
    share: Annotated[float, Field(ge=0, le=1)]
    """The share."""


class Estimate(VersionedModel):
    """The estimate of one metric in one scope so far. An unknown number is None, never 0."""

    pipeline: Name
    """The pipeline."""
    segment: SegmentValue | None = None
    """One segment value such as `lang=de`; None for the whole pipeline."""
    run: Name | None = None
    """The offline run; None for live traffic."""
    metric: MetricName
    """Qualified metric name."""
    metric_version: Name | None = None
    """Version of the metric's formula; None for ragtide's own metrics."""
    lowest: float | None = None
    """Lowest possible value of the metric; None for a number without a range."""
    highest: float | None = None
    """Highest possible value of the metric."""
    direction: Direction | None = None
    """Direction in which the metric gets better; None if unknown."""
    kind: Kind | None = None
    """`algebraic` for a mean or a proportion, `distributive` for a sum or a count; None if unknown."""
    profile: Name
    """Variant of the formulas."""
    labeler: Name
    """Name of the labeler."""
    labeler_version: Name
    """Version of the labeler."""
    window: str = "all"
    """The counted interactions: `all` since the first, `1h` of this hour, `24h/1h` of a sliding day."""
    window_start: WindowTime | None = None
    """Start of the window, in event time."""
    window_end: WindowTime | None = None
    """End of the window (exclusive)."""
    estimator: Literal["mean", "weighted", "prediction_powered"] = "mean"
    """`mean` of the values, with the inverse sampling probabilities as weights if these differ; `weighted` by the
    inverse of the probability of being chosen; `prediction_powered` from proxy scores of all interactions and reference
    scores of a sample."""
    proxy: Name | None = None
    """For `weighted` and `prediction_powered`: the labeler that scored all interactions. None for `mean`."""
    n: Count
    """Number of values in the estimate."""
    n_traffic: Annotated[float, Field(ge=0)] | None = None
    """Number of values that the traffic would have without sampling: the sum of the inverse sampling probabilities.
    None if none of the interactions was sampled; it is then n."""
    n_absent: Count = 0
    """Number of interactions for which the metric was absent; of thumbs, of answers without one. For `weighted` and
    `prediction_powered`: number of chosen ones for which the judge was asked and gave no score, such as those it cannot
    tell."""
    absent: dict[str, Count] = Field(default_factory=dict)
    """Number of these interactions by reason, the most frequent first; for whole pipelines."""
    n_late: Count = 0
    """Number of values that came too late for their windows; all-time estimates include them."""
    n_out_of_order: Count = 0
    """Number of values with an older interaction than a value before them."""
    n_processed: Count | None = None
    """For a window: number of values that were scored during it, of interactions of any time."""
    n_effective: Annotated[float, Field(ge=0)] | None = None
    """Number of independent interactions with the same precision. For `weighted` and `prediction_powered`: number of
    uniformly drawn reference scores. For `mean`: number of values on which the interval rests / design_effect, at most
    n; None while the effect is not known, and 0 while all values wait in open clusters. With different sampling
    probabilities: number of values drawn with one probability."""
    n_waiting: Count = 0
    """Number of values in open sessions or other clusters, which no interval counts yet; 0 for a window, and for
    `weighted` and `prediction_powered`."""
    design_effect: Annotated[float, Field(ge=0)] | None = None
    """How many times larger the dependence of interactions makes the variance, measured by clusters or, for `mean`, by
    neighbours; None while it is not known."""
    n_clusters: Count | None = None
    """Number of closed clusters, such as sessions, on which the interval rests; an interaction without one counts as
    its own. A session that continues beyond `clusters.size` or `clusters.quiet_s`, or that the cap of open clusters
    closed early, is several. For `weighted` and `prediction_powered`: those with a reference score. None where each
    interaction counts by itself."""
    coverage: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the interactions that have a score, whose mean the estimate is: n / (n + n_absent); None with different
    sampling probabilities. For `weighted` and `prediction_powered` it is estimated for all interactions; the others
    cannot be told."""
    proxy_coverage: Annotated[float, Field(ge=0, le=1)] | None = None
    """For `weighted` and `prediction_powered`: share of the interactions that the proxy scored. The mean of the others
    is estimated from their reference scores alone; while they have too few, the interval has room for any score of
    them."""
    population_size: Size | None = None
    """Size of the finite run, if known."""
    estimate: float | None = None
    """The estimate."""
    lower: float | None = None
    """Lower end of the interval; the metric's lowest value without values; None for a metric without a range, and for a
    count of which too little is known."""
    upper: float | None = None
    """Upper end of the interval; the metric's highest value without values; None for a metric without a range, and for
    a count of which too little is known."""
    total: float | None = None
    """For metrics that add up, in a run of known size: the projected total of the whole run."""
    total_lower: float | None = None
    """Lower end of the total's interval."""
    total_upper: float | None = None
    """Upper end of the total's interval."""
    strategy: Name
    """Strategy of the interval: `running`, `normal`, `wilson`, `hoeffding`, `asymptotic`; `none` for no interval."""
    anytime_valid: bool
    """Whether the interval is valid at every look."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Confidence level of the interval."""
    standard_deviation: float | None = None
    """Sample standard deviation of the values; None below two values."""
    minimum: float | None = None
    """Smallest value."""
    maximum: float | None = None
    """Largest value."""
    recent: float | None = None
    """Exponentially weighted mean of about the last 64 values; None with different sampling probabilities."""
    baseline: float | None = None
    """For an RMSE: the RMSE of always predicting the mean gold score; a useful labeler has a lower RMSE."""
    quantiles: dict[str, float] | None = None
    """Quantiles `p5`, `p50`, `p95` and `p99` of all values, each within 2% of its distance from the lowest possible
    value, and never outside the values; for whole pipelines, and None with different sampling probabilities."""
    distribution: tuple[Share, ...] = ()
    """For metrics with edges: the share of interactions at or below each edge."""
    previous: float | None = None
    """For a window: the estimate of the window of the same length before it."""
    trend: Literal["rising", "falling", "steady"] | None = None
    """For a window: whether its interval is above or below the interval of the window before, or overlaps it."""
    band: str | None = None
    """Quality band, where the whole interval lies in one band, and the level of the labeler's numbers is right."""
    fit_for: tuple[str, ...] | None = None
    """Deprecated, and always None: what release 0.1.0 stated of the labeler. Measured slopes replace it."""
    updated_at: UtcTime | None = None
    """Time of the latest interaction counted."""

    def __repr__(self) -> str:
        """Return scope, metric, mean, interval and n."""
        names = ("pipeline", "run", "segment", "labeler", "metric", "window", "estimate", "lower", "upper", "n")
        fields = [(name, getattr(self, name)) for name in names]
        return short_repr("Estimate", [(name, value) for name, value in fields if value not in (None, "all")])

    def _repr_html_(self) -> str:
        row = (
            self.pipeline, self.segment, self.labeler, self.metric_name, self.estimate, self.lower, self.upper, self.n
        )  # fmt: skip
        return html_table(("pipeline", "segment", "labeler", "metric", "mean", "lower", "upper", "n"), [row])

    @property
    def metric_name(self) -> str:
        """The metric for tables: its name, with its version from the second on."""
        return shown_metric(self.metric, self.metric_version)

    @property
    def gain(self) -> float | None:
        """Effective sample size for each value, of a prediction-powered mean; None while there are too few."""
        return self.n_effective / self.n if self.has_interval and self.n_effective is not None and self.n else None

    @property
    def beats_baseline(self) -> bool | None:
        """Whether an error is for certain smaller than its baseline, for certain larger (False), or None."""
        if self.baseline is None or self.lower is None or self.upper is None:
            return None
        return True if self.upper < self.baseline else False if self.lower > self.baseline else None

    @property
    def value_range(self) -> tuple[float, float]:
        """Lowest and highest possible value of the metric."""
        if self.lowest is not None and self.highest is not None:
            return self.lowest, self.highest
        return range_of(self.metric.removeprefix("rmse."), None)

    @property
    def exact(self) -> bool:
        """Whether every interaction of a finite run is counted, so that no uncertainty about their mean is left."""
        closed = self.population_size is not None and self.n + self.n_absent >= self.population_size
        return closed and self.n > 0 and self.lower is not None and self.lower == self.upper

    @property
    def has_interval(self) -> bool:
        """Whether the interval is narrower than the metric's whole range."""
        lowest, highest = self.value_range
        return (self.lower is not None and self.lower > lowest) or (self.upper is not None and self.upper < highest)
