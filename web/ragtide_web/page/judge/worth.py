"""What labelers are worth: agreement of a judged sample with the scores of all, and errors against gold. No I/O."""

from collections.abc import Iterable
from dataclasses import dataclass

from ragtide_aggregator.estimates.gold_errors import RMSE
from ragtide_schemas import Estimate
from ragtide_schemas.metric_definitions import SELF_CONSISTENCY

from .screen import ROWS


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """What the scores of all interactions add to the scores of a reference labeler on some of them."""

    pipeline: str
    metric: str
    labeler: str
    """Reference labeler: a judge, or `gold` for people."""
    proxy: str
    """Labeler of all interactions, whose scores the reference corrects."""
    n: int
    """Interactions with a reference score."""
    n_effective: float | None
    """Number of uniformly drawn reference scores with the same precision; None while there are too few."""
    estimate: float | None
    lower: float | None
    upper: float | None

    @property
    def gain(self) -> float | None:
        """Effective sample size for each reference score; None while there are too few."""
        return None if self.n_effective is None or not self.n else self.n_effective / self.n


def agreement_rows(estimates: Iterable[Estimate]) -> list[AgreementRow]:
    """Return the prediction-powered means of whole pipelines, by pipeline and metric."""
    found = [
        AgreementRow(
            one.pipeline,
            one.metric_name,
            one.labeler,
            one.proxy or "",
            one.n,
            one.n_effective if one.has_interval else None,
            one.estimate if one.has_interval else None,
            one.lower,
            one.upper,
        )
        for one in estimates
        if one.segment is None and one.run is None and one.window == "all" and one.estimator == "prediction_powered"
    ]
    return sorted(found, key=lambda one: (one.pipeline, one.metric, one.labeler, one.proxy))[:ROWS]


def self_consistency_rows(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return how often a judge agrees with itself, by whole pipeline: the means of `judge.self_consistency`."""
    found = [
        one
        for one in estimates
        if one.metric == SELF_CONSISTENCY.name
        and one.n
        and one.segment is None
        and one.run is None
        and one.window == "all"
    ]
    return sorted(found, key=lambda one: (one.pipeline, one.labeler, one.labeler_version))[:ROWS]


@dataclass(frozen=True, slots=True)
class GoldErrorRow:
    """The error of a labeler against gold scores."""

    pipeline: str
    metric: str
    labeler: str
    n: int
    rmse: float
    lower: float | None
    upper: float | None
    baseline: float | None
    """Error of always predicting the mean gold score; None if it is not known."""

    @property
    def is_useful(self) -> bool | None:
        """Whether the labeler is better than the baseline for certain, worse for certain (False), or None."""
        if self.baseline is None or self.lower is None or self.upper is None:
            return None
        return True if self.upper < self.baseline else False if self.lower > self.baseline else None


def gold_error_rows(estimates: Iterable[Estimate]) -> list[GoldErrorRow]:
    """Return the errors against gold scores of whole pipelines, by pipeline and metric."""
    found = [
        GoldErrorRow(
            one.pipeline,
            one.metric.removeprefix(RMSE),
            one.labeler,
            one.n,
            one.estimate,
            one.lower,
            one.upper,
            one.baseline,
        )
        for one in estimates
        if one.metric.startswith(RMSE)
        and one.estimate is not None
        and one.segment is None
        and one.run is None
        and one.window == "all"
    ]
    return sorted(found, key=lambda one: (one.pipeline, one.metric, one.labeler))[:ROWS]
