"""The measured numbers that conditions are about. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_schemas import Estimate, Headline

if TYPE_CHECKING:
    # It needs all statistics, which scoring loads later.
    from ..report.labelings import Compared


@dataclass(frozen=True, slots=True)
class Measurement:
    """The numbers of one metric in one scope."""

    metric: str
    scope: str
    """Pipeline, run, labeler and profile, or config, in words."""
    n: int
    """Number of values; of a difference alone, the smaller number of its two sides."""
    n_absent: int = 0
    absent: Mapping[str, int] = field(default_factory=dict)
    """Number of absent values by reason."""
    estimate: Interval[float | None, float | None] | None = None
    """The metric; None if only a difference was measured."""
    difference: Interval[float, float] | None = None
    """The metric minus that of the baseline; None without a baseline or without common items."""
    difference_n: int | None = None
    """Number of pairs of the difference; None if that is `n`."""
    confidence: float | None = None
    """Level of the intervals."""
    subject: str = ""
    """Pipeline and run in words: a metric of a condition is expected in each of them."""
    share: float | None = None
    """The share of interactions with a value, where it is estimated."""

    @property
    def coverage(self) -> float | None:
        """The share of interactions with a value; None without interactions."""
        everything = self.n + self.n_absent
        return self.share if self.share is not None else self.n / everything if everything else None


Gaps: TypeAlias = "Mapping[EstimateKey, Compared]"
"""Differences from a baseline."""


def measure_estimates(estimates: Iterable[Estimate], gaps: "Gaps | None" = None) -> list[Measurement]:
    """Return the measurements in estimates of whole pipelines; segments are left out."""
    measurements = []
    for estimate in estimates:
        if estimate.segment is not None:
            continue
        gap = (gaps or {}).get(EstimateKey.of(estimate))
        measurement = Measurement(
            metric=estimate.metric,
            scope=scope_of(
                estimate.pipeline,
                estimate.run,
                estimate.labeler,
                estimate.labeler_version,
                estimate.profile,
                estimate.estimator,
            ),
            n=estimate.n,
            n_absent=estimate.n_absent,
            absent=estimate.absent,
            estimate=Interval(estimate.estimate, estimate.lower, estimate.upper),
            difference=None if gap is None else gap.difference,
            difference_n=None if gap is None else gap.n[0],
            confidence=estimate.confidence,
            subject=scope_of(estimate.pipeline, estimate.run),
            share=estimate.coverage,
        )
        measurements.append(measurement)
    return measurements


def measure_headlines(headlines: Iterable[Headline], segment: str | None = None) -> list[Measurement]:
    """Return the measurements in headlines of whole pipelines, or of one segment value."""
    return [
        Measurement(
            metric=headline.metric,
            scope=scope_of(
                headline.pipeline, headline.labeler_text, headline.profile, headline.range_text, headline.judge_text
            ),
            n=headline.n,
            n_absent=headline.n_absent,
            estimate=Interval(headline.estimate, headline.lower, headline.upper),
            confidence=headline.confidence,
            subject=headline.pipeline,
            share=headline.coverage,
        )
        for headline in headlines
        if headline.segment == segment
    ]


def measure_segment(estimates: Iterable[Estimate], segment: str) -> list[Measurement]:
    """Return the measurements in estimates of one segment value."""
    chosen = [estimate for estimate in estimates if estimate.segment == segment]
    return measure_estimates(estimate.model_copy(update={"segment": None}) for estimate in chosen)


def scope_of(*parts: str | None) -> str:
    """Return the name of a scope from its known parts."""
    return " · ".join(part for part in parts if part and part != "mean")
